//! Effects of links on frames, exact to one frame and one nanosecond.

mod bench;

use bench::{Schedule, Sink, Source, bridge, frame};
use ferrule_base::{Duration, Instant};
use ferrule_lab::{
    Change, Direction, End, Framing, HoldBack, Impairments, LinkId, LinkSpec, Network, Profile,
    StationId,
};

const GIGABIT: Option<u64> = Some(1_000_000_000);

/// A source and a sink on one link.
fn one_link(seed: u64, source: Box<Source>, spec: LinkSpec) -> (Network, StationId, LinkId) {
    let mut network = Network::with_buffers(seed, 8192);
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::keeping());
    let link = network.link(spec, End::Station(source, 0), End::Station(sink, 0)).unwrap();
    (network, sink, link)
}

fn impaired(impairments: Impairments) -> LinkSpec {
    LinkSpec { rate: GIGABIT, impairments, ..LinkSpec::default() }
}

/// The numbers that arrive at the end of an impaired link, every 10 us one.
fn numbers(seed: u64, count: u64, impairments: Impairments) -> (Vec<u64>, Network, LinkId) {
    let source = Source::new(frame(60), count, Schedule::Every(Duration::from_micros(10)));
    let (mut network, sink, link) = one_link(seed, source, impaired(impairments));
    assert!(network.run_until_idle(Duration::from_secs(100)));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    (sink.arrivals.iter().map(|a| a.1).collect(), network, link)
}

#[test]
fn serialisation_takes_preamble_frame_fcs_and_gap_and_pads_small_frames() {
    for (len, rate, slot_ps) in [
        (60, 1_000_000_000, 672_000),
        (1514, 1_000_000_000, 12_304_000),
        (20, 1_000_000_000, 672_000),
        (60, 10_000_000_000, 67_200),
        (1000, 100_000_000, 81_920_000),
    ] {
        let source = Source::new(frame(len), 500, Schedule::Burst);
        let spec = LinkSpec { rate: Some(rate), ..LinkSpec::default() };
        let (mut network, sink, _) = one_link(1, source, spec);
        assert!(network.run_until_idle(Duration::from_secs(1)));
        let sink: &mut Sink = network.station_mut(sink).unwrap();
        // The gap of 12 octets is behind the frame.
        let gap_ps = slot_ps * 12 / (len.max(60) as u64 + 24);
        for (i, &(at, number)) in sink.arrivals.iter().enumerate() {
            let end_ps = (i as u64 + 1) * slot_ps - gap_ps;
            assert_eq!((at.as_nanos(), number), (end_ps.div_ceil(1000), i as u64), "{len} {rate}");
        }
        assert_eq!(sink.arrivals.len(), 500);
    }
}

#[test]
fn a_shared_line_carries_one_frame_at_a_time_both_ways_together() {
    let busy = |shared: bool| {
        let mut network = Network::with_buffers(1, 4096);
        let each = |number: u64| Source::new(frame(1000), number, Schedule::Burst);
        let ends = [100, 50].map(|count| network.station("end", each(count)));
        let spec = LinkSpec { rate: Some(10_000_000), shared, ..LinkSpec::default() };
        let [a, b] = ends.map(|end| End::Station(end, 0));
        let link = network.link(spec, a, b).unwrap();
        assert!(network.run_until_idle(Duration::from_secs(1)));
        let stats = network.link_stats(link);
        let arrived = stats.forward.delivered.packets + stats.reverse.delivered.packets;
        assert_eq!(arrived, 150, "nothing is lost");
        network.now()
    };
    // The last frame's gap is behind its end: 12 octets.
    let slots = |count: u64| Instant::from_nanos(count * 819_200 - 9600);
    assert_eq!((busy(false), busy(true)), (slots(100), slots(150)));
}

/// IEEE 802.3 clause 4.2.3.3: a frame of 42 octets is padded, and has the line for 84.
#[test]
fn the_load_of_a_line_counts_what_its_time_is_taken_for_and_is_never_above_one() {
    let millis = Instant::from_millis;
    let load = |count: u64, time: Instant, down: Option<Instant>| {
        let source = Source::new(frame(42), count, Schedule::Burst);
        let spec = LinkSpec { rate: Some(10_000_000), ..LinkSpec::default() };
        let (mut network, _, link) = one_link(1, source, spec);
        if let Some(at) = down {
            network.at(at, Change::LinkDown(link));
        }
        network.run_until(time);
        network.link_stats(link).forward.load(time)
    };
    let close = |load: f64, want: f64| assert!((load - want).abs() < 1e-9, "{load} for {want}");
    close(load(1, millis(1), None), 84.0 * 8.0 / 10_000.0);
    close(load(100, millis(10), None), 0.672);
    close(load(100, millis(1), None), 1.0);
    // What did not leave any more has not had the line.
    close(load(100, millis(10), Some(millis(2))), 0.2);
}

#[test]
fn a_line_without_framing_carries_the_octets_alone() {
    let source = Source::new(frame(1000), 3, Schedule::Burst);
    let spec = LinkSpec { rate: GIGABIT, framing: Framing::NONE, ..LinkSpec::default() };
    let (mut network, sink, _) = one_link(1, source, spec);
    network.run_until_idle(Duration::from_secs(1));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let at: Vec<u64> = sink.arrivals.iter().map(|a| a.0.as_nanos()).collect();
    assert_eq!(at, [8000, 16_000, 24_000]);
}

#[test]
fn a_store_and_forward_chain_delays_by_the_closed_form() {
    const HOPS: usize = 5;
    let mut network = Network::with_buffers(3, 4096);
    let source = Source::new(frame(1000), 20, Schedule::Every(Duration::from_micros(100)));
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec { rate: GIGABIT, delay: Duration::from_nanos(700), ..LinkSpec::default() };
    let mut before = End::Station(source, 0);
    for hop in 0..HOPS {
        let name = format!("br{hop}");
        let device = network.node(&name, bridge(&name), Profile::ideal()).unwrap();
        network.link(spec.clone(), before, End::Device(device, "a")).unwrap();
        before = End::Device(device, "b");
    }
    network.link(spec, before, End::Station(sink, 0)).unwrap();
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    // Preamble, frame and FCS on each link: 1012 octets at 8 ns.
    let delay = (HOPS as u64 + 1) * (1012 * 8 + 700);
    let expected: Vec<_> = (0..20).map(|i| (Instant::from_nanos(i * 100_000 + delay), i)).collect();
    assert_eq!(sink.arrivals, expected);
}

#[test]
fn a_delay_of_250_microseconds_is_exact_to_the_nanosecond() {
    let source = Source::new(frame(60), 100, Schedule::Every(Duration::from_micros(7)));
    let spec = LinkSpec { delay: Duration::from_micros(250), ..LinkSpec::default() };
    let (mut network, sink, _) = one_link(1, source, spec);
    network.run_until_idle(Duration::from_secs(1));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let expected: Vec<_> = (0..100).map(|i| (Instant::from_nanos(i * 7000 + 250_000), i)).collect();
    assert_eq!(sink.arrivals, expected);
}

#[test]
fn a_full_queue_drops_the_tail_and_counts_it() {
    let source = Source::new(frame(60), 100, Schedule::Burst);
    let spec = LinkSpec { rate: GIGABIT, queue: 10, ..LinkSpec::default() };
    let (mut network, sink, link) = one_link(1, source, spec);
    network.run_until_idle(Duration::from_secs(1));
    let stats = network.link_stats(link).forward;
    // One on the line, ten behind it.
    assert_eq!((stats.delivered.packets, stats.queue_full, stats.queue_max), (11, 89, 10));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let numbers: Vec<u64> = sink.arrivals.iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>(), "the tail is lost, not the head");
}

#[test]
fn one_per_cent_of_loss_is_counted_to_the_frame() {
    let (got, network, link) =
        numbers(5, 100_000, Impairments { loss: 0.01, ..Impairments::default() });
    let stats = network.link_stats(link).forward;
    assert_eq!(stats.lost, 100_000 - got.len() as u64);
    // Five standard deviations of the binomial distribution.
    assert!(stats.lost.abs_diff(1000) < 158, "{}", stats.lost);
    let every = Impairments { loss_every: 100, ..Impairments::default() };
    let (got, network, link) = numbers(5, 100_000, every);
    assert_eq!(network.link_stats(link).forward.lost, 1000);
    assert_eq!(got, (0..100_000).filter(|n| n % 100 != 99).collect::<Vec<_>>());
}

#[test]
fn duplicates_arrive_right_behind_and_are_counted_as_made() {
    let every = Impairments { duplicate_every: 4, ..Impairments::default() };
    let (got, network, link) = numbers(1, 8, every);
    assert_eq!(got, [0, 1, 2, 3, 3, 4, 5, 6, 7, 7]);
    assert_eq!(network.link_stats(link).forward.duplicated, 2);
    let ledger = network.audit().unwrap();
    assert_eq!((ledger.sent, ledger.made, ledger.received), (8, 2, 10));
}

#[test]
fn corruption_turns_exactly_one_bit_over() {
    let mut source = Source::new(frame(100), 1000, Schedule::Every(Duration::from_micros(10)));
    source.numbered = false;
    let rules = Impairments { corrupt: 0.5, ..Impairments::default() };
    let (mut network, sink, link) = one_link(9, source, impaired(rules));
    network.run_until_idle(Duration::from_secs(1));
    let corrupted = network.link_stats(link).forward.corrupted;
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let original = frame(100);
    let bits = |f: &Vec<u8>| f.iter().zip(&original).map(|(a, b)| (a ^ b).count_ones()).sum();
    let differ: Vec<u32> = sink.frames.iter().map(bits).collect();
    assert_eq!(differ.iter().filter(|&&d| d == 1).count() as u64, corrupted);
    assert!(differ.iter().all(|&d| d <= 1) && (400..600).contains(&corrupted));
}

#[test]
fn a_frame_held_back_by_three_is_passed_by_exactly_three() {
    let rules =
        Impairments { reorder_every: 5, reorder_by: HoldBack::Frames(3), ..Impairments::default() };
    let (got, network, link) = numbers(1, 20, rules);
    let mut expected: Vec<u64> = (0..18).collect();
    for held in [4, 9, 14] {
        expected.retain(|&n| n != held);
        let behind = expected.iter().position(|&n| n == held + 3).unwrap();
        expected.insert(behind + 1, held);
    }
    // Nothing passes the last one: it is let go in the end.
    expected.extend([18, 19]);
    assert_eq!(got, expected);
    assert_eq!(network.link_stats(link).forward.held_back, 4);
}

#[test]
fn a_frame_held_back_by_a_time_is_late_by_it() {
    let rules = Impairments {
        reorder_every: 2,
        reorder_by: HoldBack::Time(Duration::from_micros(25)),
        ..Impairments::default()
    };
    let (got, ..) = numbers(1, 6, rules);
    assert_eq!(got, [0, 2, 1, 4, 3, 5]);
}

#[test]
fn jitter_stays_within_its_bound_and_keeps_the_order() {
    let source = Source::new(frame(60), 2000, Schedule::Every(Duration::from_nanos(700)));
    let rules = Impairments { jitter: Duration::from_micros(5), ..Impairments::default() };
    let (mut network, sink, _) = one_link(1, source, impaired(rules));
    network.run_until_idle(Duration::from_secs(1));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let mut spread = (u64::MAX, 0);
    for (i, &(at, number)) in sink.arrivals.iter().enumerate() {
        assert_eq!(number, i as u64);
        let late = at.as_nanos() - number * 700 - 576;
        spread = (spread.0.min(late), spread.1.max(late));
    }
    assert!(spread.0 < 3000 && spread.1 > 4500 && spread.1 <= 5000, "{spread:?}");
}

#[test]
fn a_link_that_goes_down_loses_what_is_on_it_and_carries_again_when_it_is_up() {
    let source = Source::new(frame(60), 100, Schedule::Every(Duration::from_micros(10)));
    let spec = LinkSpec { delay: Duration::from_micros(100), ..LinkSpec::default() };
    let (mut network, sink, link) = one_link(1, source, spec);
    network.at(Instant::from_nanos(305_000), Change::LinkDown(link));
    network.at(Instant::from_nanos(605_000), Change::LinkUp(link));
    network.run_until_idle(Duration::from_secs(1));
    // Sent at 210 to 300 us: on the link; at 310 to 600 us: not taken.
    let stats = network.link_stats(link).forward;
    assert_eq!((stats.down, stats.delivered.packets), (10 + 30, 60));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let numbers: Vec<u64> = sink.arrivals.iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..21).chain(61..100).collect::<Vec<_>>());
}

#[test]
fn impairments_rate_and_delay_change_while_the_network_runs() {
    let source = Source::new(frame(60), 30, Schedule::Every(Duration::from_micros(10)));
    let (mut network, sink, link) = one_link(1, source, LinkSpec::default());
    let at = Instant::from_nanos;
    network.at(at(95_000), Change::Delay(link, Duration::from_micros(1)));
    network.at(at(195_000), Change::Rate(link, GIGABIT));
    let all = Impairments { loss: 1.0, ..Impairments::default() };
    network.at(at(245_000), Change::Impair(link, Some(Direction::Forward), all));
    network.run_until_idle(Duration::from_secs(1));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let late: Vec<u64> =
        sink.arrivals.iter().map(|&(at, number)| at.as_nanos() - number * 10_000).collect();
    let expected = [vec![0; 10], vec![1000; 10], vec![1576; 5]].concat();
    assert_eq!(late, expected);
    assert_eq!(network.link_stats(link).forward.lost, 5);
}

#[test]
fn another_impairment_or_another_link_leaves_the_dice_of_the_first_alone() {
    let some = Impairments { loss: 0.1, ..Impairments::default() };
    let more = Impairments { corrupt: 0.3, jitter: Duration::from_micros(3), ..some.clone() };
    let missing = |got: &[u64]| (0..1000).filter(|n| !got.contains(n)).collect::<Vec<u64>>();
    let (first, ..) = numbers(11, 1000, some.clone());
    let rules = impaired(more);
    let mut source = Source::new(frame(60), 1000, Schedule::Every(Duration::from_micros(10)));
    source.numbered = true;
    let mut network = Network::with_buffers(11, 8192);
    // Another link is made first.
    let pair = [network.station("x", Sink::new()), network.station("y", Sink::new())];
    network.link(impaired(some), End::Station(pair[0], 0), End::Station(pair[1], 0)).unwrap();
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let link = network.link(rules, End::Station(source, 0), End::Station(sink, 0)).unwrap();
    network.run_until_idle(Duration::from_secs(1));
    assert_eq!(network.link_stats(link).forward.lost as usize, missing(&first).len());
    // A corrupted frame may carry another number; the others tell.
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    let second: Vec<u64> = sink.arrivals.iter().map(|a| a.1).collect();
    assert!(missing(&first).iter().all(|n| !second.contains(n)));
    assert_ne!(
        missing(&numbers(12, 1000, Impairments { loss: 0.1, ..Default::default() }).0),
        missing(&first)
    );
}

#[test]
fn links_are_refused_with_a_reason_where_they_cannot_be() {
    let mut network = Network::with_buffers(1, 64);
    let device = network.node("br1", bridge("br1"), Profile::ideal()).unwrap();
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec::default();
    let mut link =
        |port| network.link(spec.clone(), End::Device(device, port), End::Station(sink, 0));
    assert_eq!(link("c").unwrap_err().to_string(), "br1 has no port `c`; its ports: a, b");
    link("a").unwrap();
    let error = link("a").unwrap_err().to_string();
    assert_eq!(error, "port a of br1 has a link already: a port takes one link");
}
