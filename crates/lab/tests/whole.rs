//! Whole networks: the same seed gives the same bytes, and nothing is lost
//! without being counted, whatever happens.

mod bench;

use bench::{Schedule, Sink, Source, gateway, mac, secured_bridge, udp4};
use ferrule_base::{DropReason, Duration, Instant, MacAddr};
use ferrule_crypto::{Late, Software};
use ferrule_lab::profile::{Cap, Distribution, Price};
use ferrule_lab::{
    Change, DeviceId, End, HoldBack, Impairments, LinkId, LinkSpec, Loss, Network, Observer, Place,
    Profile, Sighting, StationId, TapId,
};
use ferrule_wire::capture::Reader;
use std::any::Any;

const HOST_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const HOST_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

/// Everything at once.
fn everything() -> Impairments {
    Impairments {
        loss: 0.02,
        duplicate: 0.02,
        corrupt: 0.02,
        reorder: 0.05,
        reorder_by: HoldBack::Frames(3),
        jitter: Duration::from_micros(20),
        ..Impairments::default()
    }
}

fn slow() -> Profile {
    Profile {
        plain: Price { packet_ns: 800.0, octet_ns: 0.5 },
        sealed: Price { packet_ns: 2000.0, octet_ns: 4.0 },
        distribution: Distribution::Gamma(0.5),
        pipeline: Duration::from_micros(30),
        queue: 12,
        batch: 4,
        timer: Duration::from_micros(15),
        cap: Cap { frames_per_second: 80_000.0, burst_frames: 60.0, ..Cap::NONE },
        stagger: Duration::from_micros(4),
        ..Profile::ideal()
    }
}

struct Rig {
    network: Network,
    devices: Vec<DeviceId>,
    links: Vec<LinkId>,
    far: StationId,
    tap: TapId,
}

/// `h1 ── lan ce1 wan ── wan ce2 lan ── lan gw-a wan ── wan gw-b lan ── h2`: MACsec
/// between the first two, ESP between the others.
fn rig(seed: u64, workers: u8, profile: &Profile, rules: &Impairments, late: bool) -> Rig {
    let mut network = Network::with_buffers(seed, 8192);
    if late {
        network.engine(|device, worker| {
            let seed = (device.0 * 64 + worker) as u64;
            let delay = Duration::from_micros(200);
            Box::new(Late::new(Software::default(), seed, delay, 512))
        });
    }
    let mut node = |name: &str, config| network.node(name, config, profile.clone()).unwrap();
    let devices = vec![
        node("ce1", secured_bridge("ce1", "ce2", (5, 6))),
        node("ce2", secured_bridge("ce2", "ce1", (6, 5))),
        node("a", gateway("a", 1, 2, workers)),
        node("b", gateway("b", 2, 1, workers)),
    ];
    let frame = udp4(mac("a", "lan"), HOST_A, ([10, 1, 0, 9], [10, 2, 0, 9]), 200);
    let start = Instant::from_millis(50);
    let h1 = Source::from(start, frame, 3000, Schedule::Poisson(Duration::from_micros(40)));
    let h1 = network.station("h1", h1);
    let h2 = network.station("h2", Sink::host(HOST_B, [10, 2, 0, 9]));
    let clean = LinkSpec { rate: Some(1_000_000_000), ..LinkSpec::default() };
    let rough = LinkSpec {
        rate: Some(100_000_000),
        delay: Duration::from_micros(50),
        queue: 20,
        impairments: rules.clone(),
        ..LinkSpec::default()
    };
    let d = devices.clone();
    let links = vec![
        network.link(clean.clone(), End::Station(h1, 0), End::Device(d[0], "lan")).unwrap(),
        network.link(rough.clone(), End::Device(d[0], "wan"), End::Device(d[1], "wan")).unwrap(),
        network.link(clean.clone(), End::Device(d[1], "lan"), End::Device(d[2], "lan")).unwrap(),
        network.link(rough, End::Device(d[2], "wan"), End::Device(d[3], "wan")).unwrap(),
        network.link(clean, End::Device(d[3], "lan"), End::Station(h2, 0)).unwrap(),
    ];
    let tap = network.tap(links[3], None).unwrap();
    Rig { network, devices, links, far: h2, tap }
}

/// A capture and the arrivals of a run.
fn run(mut rig: Rig) -> (Vec<u8>, Vec<(Instant, u64)>) {
    rig.network.run_until(Instant::from_millis(400));
    let arrivals = rig.network.station_mut::<Sink>(rig.far).unwrap().arrivals.clone();
    (rig.network.take_capture(rig.tap), arrivals)
}

#[test]
fn two_runs_with_one_seed_give_the_same_capture_byte_for_byte() {
    for (workers, late) in [(1, false), (3, false), (2, true)] {
        let one = |seed| run(rig(seed, workers, &slow(), &everything(), late));
        let (first, second, other) = (one(77), one(77), one(78));
        assert!(first.0.len() > 20_000, "{} octets captured", first.0.len());
        assert!(first == second, "{workers} workers, late {late}: the same seed differs");
        assert!(first.0 != other.0, "another seed is another run");
    }
}

#[test]
fn a_capture_holds_every_frame_of_the_link_with_its_time_in_nanoseconds() {
    let mut rig = rig(5, 1, &Profile::ideal(), &Impairments::default(), false);
    rig.network.run_until(Instant::from_millis(400));
    let stats = rig.network.link_stats(rig.links[3]);
    let capture = rig.network.take_capture(rig.tap);
    let packets: Vec<_> = Reader::new(&capture[..]).unwrap().map(Result::unwrap).collect();
    let offered = stats.forward.offered.packets + stats.reverse.offered.packets;
    assert_eq!(packets.len() as u64, offered);
    assert!(packets.is_sorted_by_key(|p| p.nanos) && packets.iter().any(|p| p.nanos % 1000 != 0));
    let octets: usize = packets.iter().map(|p| p.data.len()).sum();
    assert_eq!(octets as u64, stats.forward.offered.octets + stats.reverse.offered.octets);
    assert!(rig.network.take_capture(rig.tap).len() < 300, "it is empty once it was taken");
}

#[test]
fn packets_are_conserved_with_every_impairment_on() {
    for seed in 0..12 {
        let workers = 1 + (seed % 3) as u8;
        let profile = if seed % 2 == 0 { slow() } else { Profile::ideal() };
        let mut rig = rig(seed, workers, &profile, &everything(), seed % 4 == 1);
        let at = Instant::from_millis;
        rig.network.at(at(80), Change::LinkDown(rig.links[3]));
        rig.network.at(at(85), Change::LinkUp(rig.links[3]));
        rig.network.at(at(95), Change::Restart(rig.devices[1], Duration::from_millis(3)));
        rig.network.at(at(105), Change::Restart(rig.devices[3], Duration::ZERO));
        rig.network.at(at(110), Change::ClockJump(rig.devices[2], Duration::from_secs(5)));
        // The check runs at the end of each step: packets are everywhere.
        for ms in 50..200 {
            rig.network.run_until(at(ms));
        }
        let ledger = rig.network.audit().unwrap();
        assert_eq!(
            ledger.sent,
            3000 + rig.network.link_stats(rig.links[4]).reverse.offered.packets
        );
        assert!(ledger.lost > 0 && ledger.dropped > 0 && ledger.received > 300, "{ledger:?}");
        for &device in &rig.devices {
            let report = rig.network.device(device).report();
            assert!(report.failures.is_empty(), "{:?}", report.failures);
        }
    }
}

#[test]
fn a_vanished_packet_is_found() {
    let mut rig = rig(1, 1, &Profile::ideal(), &Impairments::default(), false);
    rig.network.run_until(Instant::from_millis(60));
    // The station hides one that it received.
    rig.network.station_mut::<Sink>(rig.far).unwrap().ledger.received -= 1;
    let error = rig.network.audit().unwrap_err();
    assert_eq!(error.place, "h2");
    assert!(error.to_string().starts_with("packets are not conserved: h2: it was given"));
}

#[test]
fn a_device_killed_and_restarted_goes_on_behind_its_reserved_numbers() {
    let mut rig = rig(3, 1, &Profile::ideal(), &Impairments::default(), false);
    rig.network.run_until(Instant::from_millis(100));
    let next = |rig: &Rig| {
        let workers = rig.network.device(rig.devices[2]).workers();
        workers[0].report(Instant::ZERO).esp_out[0].number
    };
    let (before, reserved) = (next(&rig), 1 << 16);
    rig.network
        .at(Instant::from_millis(100), Change::Restart(rig.devices[2], Duration::from_millis(5)));
    rig.network.run_until(Instant::from_millis(170));
    let after = next(&rig);
    assert!(before > 500 && after > before && after >= reserved / 4, "{before}, then {after}");
    let stats = *rig.network.device(rig.devices[2]).stats();
    assert_eq!(stats.restarts, 1);
    assert!(stats.crashed > 50, "frames came while it was down: {stats:?}");
    let report = rig.network.device(rig.devices[3]).report();
    assert_eq!(report.drops.get(DropReason::EspReplay), 0, "no number came twice");
    // Traffic flows again, behind the restart.
    let arrivals = &rig.network.station_mut::<Sink>(rig.far).unwrap().arrivals;
    assert!(arrivals.last().unwrap().0 > Instant::from_millis(160));
    assert!(rig.network.device(rig.devices[2]).report().work.sealed.packets > 2000);
}

#[derive(Default)]
struct Counts {
    sent: u64,
    arrived: u64,
    at_devices: u64,
    corrupted: u64,
    lost: u64,
    changes: Vec<String>,
}

impl Observer for Counts {
    fn sent(&mut self, seen: &Sighting, _frame: &[u8]) {
        assert!(!seen.corrupted);
        self.sent += 1;
    }
    fn arrived(&mut self, seen: &Sighting, at: Place, _frame: &[u8]) {
        self.arrived += 1;
        self.corrupted += u64::from(seen.corrupted);
        self.at_devices += u64::from(matches!(at, Place::Device(..)));
    }
    fn lost(&mut self, _seen: &Sighting, _why: Loss, _frame: &[u8]) {
        self.lost += 1;
    }
    fn changed(&mut self, _now: Instant, what: &str) {
        self.changes.push(what.into());
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn an_observer_sees_every_frame_that_is_sent_arrives_or_is_lost() {
    let mut rig = rig(8, 2, &slow(), &everything(), false);
    rig.network.observe(Box::new(Counts::default()));
    rig.network.at(Instant::from_millis(70), Change::LinkDown(rig.links[1]));
    rig.network.at(Instant::from_millis(71), Change::LinkUp(rig.links[1]));
    rig.network.run_until(Instant::from_millis(400));
    let mut expected = Counts::default();
    for link in rig.network.links() {
        let stats = rig.network.link_stats(link);
        for lane in [stats.forward, stats.reverse] {
            expected.sent += lane.offered.packets;
            expected.arrived += lane.delivered.packets;
            expected.lost += lane.lost + lane.queue_full + lane.down;
        }
    }
    let visits = rig.network.visits();
    for device in &rig.devices {
        let stats = rig.network.device(*device).stats();
        expected.lost += stats.input_full + stats.capped;
    }
    let counts = rig.network.observer::<Counts>().unwrap();
    assert_eq!(counts.sent, expected.sent);
    assert_eq!(counts.arrived, expected.arrived);
    assert_eq!(counts.lost, expected.lost);
    assert_eq!(counts.at_devices, visits);
    assert!(counts.corrupted > 50);
    assert_eq!(counts.changes, ["link 1 goes down", "link 1 comes up"]);
}

/// Arrival times of frames of a fixed schedule behind gateways of three workers.
fn through_workers(seed: u64, profile: &Profile) -> Vec<Instant> {
    let mut network = Network::with_buffers(seed, 4096);
    let a = network.node("a", gateway("a", 1, 2, 3), profile.clone()).unwrap();
    let b = network.node("b", gateway("b", 2, 1, 3), profile.clone()).unwrap();
    let frame = udp4(mac("a", "lan"), HOST_A, ([10, 1, 0, 9], [10, 2, 0, 9]), 200);
    let start = Instant::from_millis(50);
    let h1 = Source::from(start, frame, 500, Schedule::Every(Duration::from_micros(40)));
    let h1 = network.station("h1", h1);
    let h2 = network.station("h2", Sink::host(HOST_B, [10, 2, 0, 9]));
    let spec = LinkSpec::default();
    network.link(spec.clone(), End::Station(h1, 0), End::Device(a, "lan")).unwrap();
    network.link(spec.clone(), End::Device(a, "wan"), End::Device(b, "wan")).unwrap();
    network.link(spec, End::Device(b, "lan"), End::Station(h2, 0)).unwrap();
    network.run_until(Instant::from_millis(200));
    network.station_mut::<Sink>(h2).unwrap().arrivals.iter().map(|a| a.0).collect()
}

#[test]
fn workers_are_interleaved_by_the_seed_and_by_nothing_else() {
    let stagger = Profile { stagger: Duration::from_micros(50), ..Profile::ideal() };
    let run = |seed| through_workers(seed, &stagger);
    assert!(run(1).len() > 400);
    assert!(run(1) == run(1) && run(1) != run(2) && run(2) != run(3));
    // Without it nothing here is left to the dice.
    assert_eq!(through_workers(1, &Profile::ideal()), through_workers(2, &Profile::ideal()));
}

#[test]
fn a_network_moves_between_threads() {
    let network = rig(1, 2, &Profile::ideal(), &Impairments::default(), true);
    let run = move || {
        let mut rig = network;
        rig.network.run_until(Instant::from_millis(60));
        rig.network.visits()
    };
    assert!(std::thread::spawn(run).join().unwrap() > 100);
}

#[test]
fn no_worker_hoards_the_buffers_that_the_others_need() {
    // Each of a hundred bridges drops a hundred frames, which are its own to free.
    let mut network = Network::with_buffers(1, 4096);
    let spec = LinkSpec::default();
    for at in 0..100 {
        let bridge = network.node(&format!("b{at}"), bench::bridge("b"), Profile::ideal()).unwrap();
        // To a group address that no bridge forwards.
        let mut frame = bench::frame(60);
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 3]);
        let source = Source::new(frame, 100, Schedule::Every(Duration::from_micros(1)));
        let source = network.station(&format!("s{at}"), source);
        network.link(spec.clone(), End::Station(source, 0), End::Device(bridge, "a")).unwrap();
    }
    assert!(network.run_until_idle(Duration::from_secs(1)));
    assert_eq!(network.audit().unwrap().dropped, 100 * 100);
}
