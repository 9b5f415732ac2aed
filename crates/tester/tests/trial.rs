//! Trials in virtual time over a wire with a given behaviour, against that behaviour.

use ferrule_base::{Duration, Instant, MacAddr, Rng};
use ferrule_pipeline::{Batch, Packet, Pool};
use ferrule_tester::layers::{Datagram, LabelEntry, VlanTag};
use ferrule_tester::rate::Rate;
use ferrule_tester::{
    Burst, Change, Field, Filler, Layers, Plan, Sizes, Stream, Timing, Trial, TrialResult,
    TrialSpec, Vary,
};
use ferrule_wire::vlan::Vid;
use ferrule_wire::{Label, Protocol, TrafficClass, ethernet, ipv4, ipv6, udp};
use proptest::prelude::*;
use std::collections::BTreeMap;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Fate of a frame on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes(u64),
    Lost,
    Twice(u64, u64),
    Corrupted(u64),
}

/// Drives a trial of two ports, each frame delayed or lost as `fate` says.
fn drive(spec: &TrialSpec, mut fate: impl FnMut(&mut Packet) -> Fate) -> TrialResult {
    let pool = Pool::heap(8192, 2048);
    let mut cache = pool.cache();
    let mut trial = Trial::new(spec, 2, 7, Vec::new()).unwrap_or_else(|e| panic!("{e}"));
    let (mut now, mut order) = (Instant::from_millis(3), 0u64);
    trial.start(now);
    let mut wire: BTreeMap<(Instant, u64), (usize, Packet)> = BTreeMap::new();
    let mut batch = Batch::new();
    while let Some(due) = trial.poll_timeout(now) {
        let arrival = wire.first_key_value().map(|(k, _)| k.0);
        now = arrival.map_or(due, |a| a.min(due)).max(now);
        while let Some(entry) = wire.first_entry().filter(|e| e.key().0 <= now) {
            let (port, packet) = entry.remove();
            trial.handle(now, port, &packet);
        }
        for port in 0..2 {
            trial.emit(now, port, &mut cache, &mut batch);
            for mut packet in batch.drain(..) {
                let mut put = |nanos: u64, packet| {
                    order += 1;
                    let at = now + Duration::from_nanos(nanos);
                    wire.insert((at, order), (1 - port, packet));
                };
                match fate(&mut packet) {
                    Fate::Passes(delay) => put(delay, packet),
                    Fate::Lost => {}
                    Fate::Twice(delay, again) => {
                        put(again, pool.cache().copy_of(&packet).unwrap());
                        put(delay, packet);
                    }
                    Fate::Corrupted(delay) => {
                        let at = packet.len() - 30;
                        packet.data_mut()[at] ^= 1 << (now.as_nanos() % 8);
                        put(delay, packet);
                    }
                }
            }
        }
    }
    assert!(wire.is_empty(), "the drain is longer than any delay");
    trial.finish()
}

fn timing(millis: u64) -> Timing {
    let warm_up = Duration::from_millis(2);
    Timing { warm_up, ..Timing::new(Duration::from_millis(millis)) }
}

/// One stream of frames of `size` without warm-up.
fn plain(size: usize, rate: Rate, millis: u64) -> TrialSpec {
    let plan = Plan::one(Stream::new("a", Layers::new(A, B), size, rate), Some(10_000_000_000));
    TrialSpec { plan, timing: Timing { warm_up: Duration::ZERO, ..timing(millis) } }
}

#[test]
fn every_frame_of_a_perfect_wire_is_received_once_and_its_latency_is_exact() {
    let spec = plain(64, Rate::frames(1_234_567), 20);
    let result = drive(&spec, |_| Fate::Passes(250_000));
    assert_eq!(result.offered(), 24_692, "all n with n / 1234567 < 20 ms");
    assert_eq!((result.received(), result.lost(), result.unsent()), (24_692, 0, 0));
    let stream = &result.streams[0].received;
    assert_eq!(stream.latency.min(), Some(250_000));
    assert_eq!(stream.latency.max(), Some(250_000));
    assert_eq!(stream.latency.mean(), Some(250_000.0));
    assert_eq!((stream.reordered, stream.duplicated, stream.jitter.max), (0, 0, 0));
    assert_eq!(result.streams[0].lateness.max, 0);
}

#[test]
fn a_sender_that_stalls_hides_no_latency() {
    // The driver sleeps for a millisecond: frames that were due meanwhile leave
    // late, and their latency counts from when they were due.
    let spec = plain(64, Rate::frames(100_000), 10);
    let pool = Pool::heap(1024, 2048);
    let (mut cache, mut batch) = (pool.cache(), Batch::new());
    let mut trial = Trial::new(&spec, 2, 0, Vec::new()).unwrap();
    trial.start(Instant::ZERO);
    let mut now = Instant::ZERO;
    while let Some(due) = trial.poll_timeout(now) {
        now = now.max(due);
        if now == Instant::from_millis(5) {
            now += Duration::from_millis(1);
        }
        trial.emit(now, 0, &mut cache, &mut batch);
        batch.drain(..).for_each(|p| trial.handle(now, 1, &p));
    }
    let result = trial.finish();
    assert_eq!((result.offered(), result.received()), (1000, 1000));
    assert_eq!(result.latency().max(), Some(1_000_000));
    assert_eq!(result.lateness().max, 1_000_000);
    // 101 frames of one after the other by 10 us: the mean is that of coordinated
    // sending plus their lateness.
    assert_eq!(
        result.latency().mean(),
        Some((0..=100).map(|i| i * 10_000).sum::<u64>() as f64 / 1e3)
    );
}

#[test]
fn frames_that_could_not_be_sent_are_unsent_and_never_lost() {
    let spec = plain(64, Rate::frames(100_000), 10);
    let pool = Pool::heap(64, 2048);
    let (mut cache, mut batch) = (pool.cache(), Batch::new());
    let mut trial = Trial::new(&spec, 2, 0, Vec::new()).unwrap();
    trial.start(Instant::ZERO);
    trial.emit(Instant::from_millis(4), 0, &mut cache, &mut batch);
    assert_eq!(batch.len(), 64, "a batch at most");
    for packet in batch.drain(..32) {
        trial.handle(Instant::from_millis(4), 1, &packet);
    }
    let mut legs = trial.take_legs();
    // The port never took the other half; the driver wakes up long after.
    batch.drain(..).for_each(|p| legs[0].take_back(&p));
    legs[0].emit(Instant::from_millis(900), &mut cache, &mut batch);
    assert!(batch.is_empty() && legs[0].has_sent());
    let result = trial.finish_legs(legs);
    assert_eq!((result.offered(), result.unsent(), result.intended()), (32, 968, 1000));
    assert_eq!((result.received(), result.lost()), (32, 0));
}

/// Frames of all kinds, as an independent reader sees them.
#[test]
fn templates_hold_valid_headers_lengths_and_checksums() {
    let v6 = Datagram::between("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let tag = |vid, service| VlanTag {
        vid: Vid::new(vid).unwrap(),
        priority: TrafficClass::masked(5),
        service,
    };
    let label = |n| LabelEntry { label: Label::masked(n), class: TrafficClass::masked(1), ttl: 63 };
    for (datagram, vlans, labels) in [
        (Layers::new(A, B).datagram, vec![], vec![]),
        (v6, vec![tag(10, false)], vec![]),
        (Layers::new(A, B).datagram, vec![tag(7, true), tag(10, false)], vec![label(100)]),
        (v6, vec![], vec![label(100), label(200)]),
        (None, vec![], vec![]),
    ] {
        let layers = Layers { datagram, vlans, labels, ..Layers::new(A, B) };
        let shortest = layers.shortest().max(60) + 4;
        let mut spec = plain(64, Rate::frames(200_000), 5);
        let stream = &mut spec.plan.streams[0];
        stream.sizes = Sizes::Sweep { from: shortest, to: 1518, step: 7 };
        stream.filler = Filler::Random(3);
        if datagram.is_some() {
            let random = Change::Random { count: 1 << 20, seed: 5 };
            let sports = Change::Random { count: 50_000, seed: 1 };
            stream.vary = vec![
                Vary { field: Field::IpDst, change: random },
                Vary { field: Field::UdpSrc, change: sports },
                Vary::increment(Field::EthSrc, 300),
            ];
            stream.vary.extend((!layers.labels.is_empty()).then_some(Vary {
                field: Field::Label(0),
                change: Change::Increment { step: 3, count: 1000 },
            }));
        }
        spec.plan.streams[0].layers = layers.clone();
        let mut lens = std::collections::BTreeSet::new();
        let mut checked = 0;
        let result = drive(&spec, |packet| {
            check_frame(packet.data(), &layers, checked);
            lens.insert(packet.len());
            checked += 1;
            Fate::Passes(1000)
        });
        assert_eq!(result.received(), 1000);
        assert_eq!(lens.len(), (1518 - shortest) / 7 + 1);
    }
}

fn check_frame(frame: &[u8], layers: &Layers, number: u64) {
    let (eth, mut rest) = ethernet::Repr::parse(frame).unwrap();
    assert_eq!(eth.dst, B);
    if layers.datagram.is_some() {
        assert_eq!(eth.src.to_u64(), A.to_u64() + number % 300);
    }
    let mut kind = eth.ethertype;
    for tag in &layers.vlans {
        let (vlan, after) = ferrule_wire::vlan::Repr::parse(rest).unwrap();
        assert_eq!((vlan.vid, vlan.priority), (tag.vid, tag.priority));
        (kind, rest) = (vlan.ethertype, after);
    }
    if !layers.labels.is_empty() {
        let (stack, after) = ferrule_wire::mpls::Stack::parse(rest).unwrap();
        let labels: Vec<u32> = stack.entries().iter().map(|e| e.label.get()).collect();
        assert_eq!(labels[0], 100 + 3 * (number as u32 % 1000));
        assert_eq!(labels.len(), layers.labels.len());
        assert_eq!(kind, ferrule_wire::EtherType::MPLS);
        rest = after;
    }
    let Some(datagram) = layers.datagram else { return };
    let (protocol, payload, ends) = match datagram.ends {
        ferrule_wire::Ends::V4(..) => {
            let (ip, payload) = ipv4::Repr::parse(rest).unwrap();
            assert_eq!(usize::from(ip.payload_len) + 20, rest.len());
            (ip.protocol, payload, ip.ends())
        }
        ferrule_wire::Ends::V6(..) => {
            let (ip, payload) = ipv6::Repr::parse(rest).unwrap();
            assert_eq!(usize::from(ip.payload_len) + 40, rest.len());
            (ip.next, payload, ip.ends())
        }
    };
    assert_eq!(protocol, Protocol::UDP);
    assert_ne!(payload[6..8], [0, 0]);
    assert!(udp::checksum_ok(&ends, payload), "frame {number}");
    assert_eq!(udp::Repr::parse(payload).unwrap().1.len(), payload.len() - 8);
}

#[test]
fn warm_up_frames_are_sent_and_never_counted() {
    let mut spec = plain(128, Rate::frames(100_000), 10);
    spec.timing.warm_up = Duration::from_millis(5);
    let mut on_wire = 0;
    let result = drive(&spec, |_| {
        on_wire += 1;
        // Some are so late that they arrive while it is measured.
        Fate::Passes(if on_wire % 2 == 0 { 3_000_000 } else { 10_000 })
    });
    assert_eq!((on_wire, result.offered(), result.received()), (1499, 1000, 1000));
    assert_eq!(result.strays.warm_up, 499);
    assert!(result.streams[0].received.reordered > 0);
}

#[test]
fn bursts_of_a_stream_leave_at_the_rate_of_the_line() {
    let mut spec = plain(64, Rate::frames(10_000), 10);
    spec.plan.streams[0].burst = Some(Burst { frames: 10, rate: Rate::LINE });
    let result = drive(&spec, |_| Fate::Passes(100));
    assert_eq!(result.received(), 100);
    // Ten bursts, a millisecond apart, each of ten frames 67.2 ns apart.
    let (first, last) = result.streams[0].received.span.unwrap();
    assert_eq!(last - first, Duration::from_nanos(9_000_000 + 9 * 672 / 10));
}

#[test]
fn intervals_divide_a_trial_by_when_frames_should_have_left() {
    let mut spec = plain(64, Rate::frames(10_000), 100);
    spec.timing.interval = Some(Duration::from_millis(10));
    let mut number = 0;
    let result = drive(&spec, |_| {
        number += 1;
        if (301..=310).contains(&number) { Fate::Lost } else { Fate::Passes(20_000_000) }
    });
    assert_eq!(result.intervals.len(), 10);
    for (i, part) in result.intervals.iter().enumerate() {
        let lost = if i == 3 { 10 } else { 0 };
        assert_eq!((part.offered, part.received), (100, 100 - lost), "part {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..Default::default() })]

    /// Two streams, one each way, through a wire that loses, doubles, delays and
    /// corrupts by dice: the result is what the dice say.
    #[test]
    fn results_equal_what_the_wire_did(
        seed: u64, rate in 20_000u64..400_000, burst in proptest::option::of(2u64..50),
        jitter in 1u64..100_000, size in 100usize..1500,
    ) {
        let mut spec = plain(size, Rate::frames(rate), 10);
        spec.timing = timing(10);
        let stream = &mut spec.plan.streams[0];
        stream.burst = burst.map(|frames| Burst { frames, rate: Rate::LINE });
        let mut back = stream.reversed();
        (back.sizes, back.rate) = (Sizes::imix(), Rate::LineShare(5_000));
        spec.plan.streams.push(back);
        let mut rng = Rng::new(seed);
        // By direction: sent, lost, twice, corrupted, largest and sum of delays.
        let mut told = [[0u64; 6]; 2];
        let result = drive(&spec, |packet| {
            let direction = usize::from(packet.data()[..6] == A.0);
            let tag = u16::from_be_bytes(*packet.data().last_chunk::<16>().unwrap().first_chunk().unwrap());
            let warm = tag >> 15 == 1;
            let told = &mut told[direction];
            let delay = 1000 + rng.below(jitter);
            let fate = match rng.below(20) {
                0 => Fate::Lost,
                1 => Fate::Twice(delay, delay + 1 + rng.below(1000)),
                // Small frames of the mix: all of their payload is signature.
                2 if packet.len() > 90 => Fate::Corrupted(delay),
                _ => Fate::Passes(delay),
            };
            if !warm {
                told[0] += 1;
                match fate {
                    Fate::Lost => told[1] += 1,
                    Fate::Twice(..) => told[2] += 1,
                    Fate::Corrupted(_) => told[3] += 1,
                    Fate::Passes(_) => {}
                }
                if matches!(fate, Fate::Passes(_) | Fate::Twice(..)) {
                    told[4] = told[4].max(delay);
                    told[5] += delay;
                }
            }
            fate
        });
        for (stream, told) in result.streams.iter().zip(told) {
            let got = &stream.received;
            prop_assert_eq!(stream.offered, told[0]);
            prop_assert_eq!(stream.lost(), told[1]);
            prop_assert_eq!(got.duplicated, told[2]);
            prop_assert_eq!(got.corrupted, told[3]);
            prop_assert_eq!(got.frames, told[0] - told[1] - told[3]);
            prop_assert_eq!(got.stale + stream.unsent + stream.elsewhere, 0);
            prop_assert_eq!(got.latency.max(), Some(told[4]));
            prop_assert_eq!(got.latency.mean(), Some(told[5] as f64 / got.frames as f64));
        }
    }
}
