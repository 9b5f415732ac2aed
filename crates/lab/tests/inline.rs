//! Crypto in the port, in virtual time: the same bytes at the same times, a card's
//! work priced at the card, and its buffer bounded.

mod bench;

use bench::{Schedule, Sink, Source, mac, placed, udp4};
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_crypto::{Late, Software};
use ferrule_lab::profile::{CardCost, Price};
use ferrule_lab::{Change, DeviceId, End, LinkSpec, Network, Profile, StationId, TapId};

const HOST_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const HOST_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const FRAMES: u64 = 400;
/// Octets of the inner packet, and of the frame around it once sealed.
const INNER: usize = 1000;
const SEALED: u64 = 14 + 20 + 8 + 8 + 1004 + 16;

struct Rig {
    network: Network,
    a: DeviceId,
    b: DeviceId,
    far: StationId,
    tap: TapId,
}

/// `h1 ── lan a wan ── wan b lan ── h2`, an ESP tunnel between the gateways.
fn rig(placement: &str, at_a: Profile, at_b: Profile, every: Duration, late: bool) -> Rig {
    let mut network = Network::with_buffers(5, 8192);
    if late {
        network.engine(|device, worker| {
            let seed = (device.0 * 64 + worker) as u64;
            let delay = Duration::from_micros(200);
            Box::new(Late::new(Software::default(), seed, delay, 512))
        });
    }
    let a = network.node("a", placed("a", 1, 2, 1, placement), at_a).unwrap();
    let b = network.node("b", placed("b", 2, 1, 1, placement), at_b).unwrap();
    let frame = udp4(mac("a", "lan"), HOST_A, ([10, 1, 0, 9], [10, 2, 0, 9]), INNER);
    let start = Instant::from_millis(100);
    let h1 = network.station("h1", Source::from(start, frame, FRAMES, Schedule::Every(every)));
    let h2 = network.station("h2", Sink::host(HOST_B, [10, 2, 0, 9]));
    let link = LinkSpec::default();
    network.link(link.clone(), End::Station(h1, 0), End::Device(a, "lan")).unwrap();
    let wan = network.link(link.clone(), End::Device(a, "wan"), End::Device(b, "wan")).unwrap();
    network.link(link, End::Device(b, "lan"), End::Station(h2, 0)).unwrap();
    let tap = network.tap(wan, None).unwrap();
    Rig { network, a, b, far: h2, tap }
}

impl Rig {
    fn run(&mut self) -> Vec<(Instant, u64)> {
        self.network.run_until(Instant::from_millis(800));
        for device in self.network.devices() {
            assert_eq!(device.report().failures, Vec::<String>::new());
        }
        self.network.audit().expect("every packet is accounted for");
        let arrivals = &self.network.station_mut::<Sink>(self.far).unwrap().arrivals;
        // Frames of the gateway to its neighbours have no number.
        arrivals.iter().copied().filter(|a| a.1 < FRAMES).collect()
    }
}

#[test]
fn inline_and_software_give_the_same_capture_in_the_laboratory() {
    let ideal = Profile::ideal;
    let every = Duration::from_micros(50);
    let captured = |placement, late| {
        let mut rig = rig(placement, ideal(), ideal(), every, late);
        let arrivals = rig.run();
        (rig.network.take_capture(rig.tap), arrivals)
    };
    let software = captured("software", false);
    assert_eq!(software.1.len() as u64, FRAMES);
    assert!(captured("inline", false) == software, "bytes and times");
    let (_, arrivals) = captured("inline", true);
    let numbers: Vec<u64> = arrivals.iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>(), "late engines, in order");
}

#[test]
fn inline_work_occupies_the_card_and_not_the_hosts_server() {
    let profile = || Profile {
        plain: Price { packet_ns: 500.0, octet_ns: 0.0 },
        sealed: Price { packet_ns: 20_000.0, octet_ns: 0.0 },
        opened: Price { packet_ns: 20_000.0, octet_ns: 0.0 },
        card: CardCost { packet_ns: 100.0, ..CardCost::FREE },
        ..Profile::ideal()
    };
    let every = Duration::from_micros(100);
    let mut software = rig("software", profile(), profile(), every, false);
    assert_eq!(software.run().len() as u64, FRAMES);
    let mut inline = rig("inline", profile(), profile(), every, false);
    assert_eq!(inline.run().len() as u64, FRAMES);
    for (of_software, of_inline) in [(software.a, inline.a), (software.b, inline.b)] {
        let (s, i) = (
            software.network.device(of_software).stats(),
            inline.network.device(of_inline).stats(),
        );
        // Neighbours' frames are sealed by nobody.
        let saved = (s.busy_ps - i.busy_ps) / 1000;
        assert_eq!(saved, FRAMES * 20_000, "what sealing or opening took");
        assert_eq!(s.card_busy_ps, 0, "no card there");
        let frames = i.card_busy_ps / 100_000;
        assert!((FRAMES..FRAMES + 60).contains(&frames), "{frames} frames crossed the card");
        let work = inline.network.device(of_inline).report().work;
        assert_eq!((work.sealed.packets, work.opened.packets), (0, 0));
    }
}

#[test]
fn inline_card_seals_at_its_line_rate_and_delays_by_its_latency() {
    const RATE: f64 = 100e6;
    let card = CardCost { bits_per_second: RATE, latency_ns: 7_000.0, ..CardCost::FREE };
    let slow = Profile { card, ..Profile::ideal() };
    let mut rig = rig("inline", slow, Profile::ideal(), Duration::from_micros(5), false);
    let arrivals = rig.run();
    assert_eq!(arrivals.len() as u64, FRAMES, "the host above it waits, nothing is lost");
    let spacing = SEALED * 80;
    for pair in arrivals.windows(2).skip(8) {
        let gap = pair[1].0.since(pair[0].0).as_nanos() as u64;
        assert!(gap.abs_diff(spacing) <= 1, "{gap} ns, not {spacing}");
    }
    // The last: all of them one after the other, and the latency once.
    let end = arrivals.last().unwrap().0.as_nanos() - 100_000_000;
    let work = rig.network.device(rig.a).stats().card_busy_ps / 1000;
    assert!(end >= FRAMES * spacing + 7_000, "{end}");
    assert!(work >= FRAMES * spacing);
}

#[test]
fn inline_card_drops_from_the_line_what_its_buffer_does_not_take() {
    let card = CardCost { bits_per_second: 100e6, buffer_octets: 8_000.0, ..CardCost::FREE };
    let slow = Profile { card, ..Profile::ideal() };
    let mut rig = rig("inline", Profile::ideal(), slow, Duration::from_micros(5), false);
    let arrivals = rig.run();
    let stats = *rig.network.device(rig.b).stats();
    assert!(stats.input_full > FRAMES / 2, "{stats:?}");
    assert_eq!(arrivals.len() as u64 + stats.input_full, FRAMES);
}

#[test]
fn inline_gateway_that_is_killed_and_reset_under_traffic_loses_no_count() {
    for late in [false, true] {
        let every = Duration::from_micros(700);
        let mut rig = rig("inline", Profile::ideal(), Profile::ideal(), every, late);
        let down = Duration::from_millis(5);
        rig.network.at(Instant::from_millis(150), Change::Restart(rig.a, down));
        for at in [200, 220, 260] {
            rig.network.run_until(Instant::from_millis(at));
            for device in [rig.a, rig.b] {
                let control = rig.network.device_mut(device).control_mut().unwrap();
                assert_eq!(control.reset_card(1), Ok(true));
            }
        }
        let arrivals = rig.run();
        let numbers: Vec<u64> = arrivals.iter().map(|a| a.1).collect();
        assert!(numbers.windows(2).all(|n| n[0] < n[1]), "in order, none twice");
        assert!(numbers.len() as u64 > FRAMES * 3 / 4, "{} came through", numbers.len());
        assert_eq!(numbers.last(), Some(&(FRAMES - 1)), "and it goes on at the end");
    }
}
