//! Look-aside in virtual time, against closed forms: what it costs the host, what
//! its bus and its unit take, what a full queue and a dead device do.

mod bench;

use bench::{Schedule, Sink, Source, frame, secured_bridge};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_crypto::{KeySpec, Software, key::InstallError};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{
    Command, Device, LookAside, Model, Otherwise, Request, Requests, Speed,
};
use ferrule_lab::profile::Price;
use ferrule_lab::{DeviceId, End, LinkSpec, Network, Profile, StationId, placing};
use ferrule_node::Config;
use ferrule_node::config::{LookAsideConfig, Placement};
use ferrule_pipeline::Packet;

/// The bus of the study, and a unit that takes a microsecond and one nanosecond
/// for each octet.
const SPEED: Speed = Speed {
    bus_bits: 32.0,
    bus_mhz: 133.0,
    bus_latency_ns: 0.0,
    crossings: 4.0,
    packet_ns: 1000.0,
    octet_ns: 1.0,
    latency_ns: 700.0,
};

/// Octets that MACsec adds to a frame.
const MACSEC: usize = 32;

fn at_once() -> LookAsideConfig {
    LookAsideConfig {
        batch: 1,
        wait: Duration::ZERO,
        deadline: Duration::from_secs(10),
        ..LookAsideConfig::default()
    }
}

fn placed(name: &str, peer: &str, keys: (u8, u8), table: &LookAsideConfig) -> Config {
    let mut config = secured_bridge(name, peer, keys);
    config.look_aside = Some(table.clone());
    config.secys[0].placement = Placement::LookAside;
    config
}

/// A source, a bridge that protects look-aside, one that validates in no time, a
/// sink.
fn network(
    mut network: Network,
    source: Box<Source>,
    table: &LookAsideConfig,
    profile: Profile,
) -> (Network, DeviceId, StationId) {
    let left = network.node("l", placed("l", "r", (5, 6), table), profile).unwrap();
    let config = secured_bridge("r", "l", (6, 5));
    let right = network.node("r", config, Profile::ideal()).unwrap();
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec::default();
    network.link(spec.clone(), End::Station(source, 0), End::Device(left, "lan")).unwrap();
    network.link(spec.clone(), End::Device(left, "wan"), End::Device(right, "wan")).unwrap();
    network.link(spec, End::Device(right, "lan"), End::Station(sink, 0)).unwrap();
    (network, left, sink)
}

fn arrivals(network: &mut Network, sink: StationId) -> Vec<(Instant, u64)> {
    network.station_mut::<Sink>(sink).unwrap().arrivals.clone()
}

#[test]
fn a_packet_takes_bus_unit_and_latency_and_its_host_pays_for_copies_alone() {
    let dear = Price { packet_ns: 50_000.0, octet_ns: 100.0 };
    let copied = Price { packet_ns: 400.0, octet_ns: 0.0 };
    for copies in [0, 2, 4] {
        let table = LookAsideConfig { copies, ..at_once() };
        let profile = Profile { sealed: dear, copied, look_aside: SPEED, ..Profile::ideal() };
        let source = Source::new(frame(500), 10, Schedule::Every(Duration::from_millis(1)));
        let empty = Network::with_buffers(1, 4096);
        let (mut network, left, sink) = network(empty, source, &table, profile);
        assert!(network.run_until_idle(Duration::from_secs(1)));
        let alone = SPEED.alone(500 + MACSEC).as_nanos() as u64;
        // The copies back are made when it is done; those there meanwhile.
        let back = 400 * copies as u64 / 2;
        let found = arrivals(&mut network, sink);
        assert_eq!(found.len(), 10);
        for (at, number) in found {
            assert_eq!(at.as_nanos(), number * 1_000_000 + alone + back, "{copies} copies");
        }
        let report = network.device(left).report();
        assert_eq!(report.work.sealed.packets, 10);
        assert_eq!(report.work.sealed_away, report.work.sealed, "all of it elsewhere");
        assert_eq!(report.work.copied.packets, 10 * copies as u64);
        assert_eq!(report.stats.busy_ps, 10 * 400_000 * copies as u64);
    }
}

#[test]
fn the_narrowest_part_bounds_what_a_look_aside_engine_lets_through() {
    let bus = SPEED;
    let unit = Speed { packet_ns: 20_000.0, ..SPEED };
    for speed in [bus, unit] {
        let ceiling = speed.ceiling(1000 + MACSEC).unwrap();
        // Twice what fits, for 50 ms.
        let distance = Duration::from_nanos((0.5e9 / ceiling) as u64);
        let frames = (0.05 * 2.0 * ceiling) as u64;
        let source = Source::new(frame(1000), frames, Schedule::Every(distance));
        let table = LookAsideConfig { depth: 64, ..at_once() };
        let profile = Profile { look_aside: speed, ..Profile::ideal() };
        let empty = Network::with_buffers(1, 8192);
        let (mut network, left, sink) = network(empty, source, &table, profile);
        assert!(network.run_until_idle(Duration::from_secs(1)));
        let found = arrivals(&mut network, sink);
        assert!(found.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1), "order with a full queue");
        let full = network.device(left).report().drops.get(DropReason::EngineFull);
        assert_eq!(found.len() as u64 + full, frames);
        let time = found.last().unwrap().0.since(found[0].0).as_secs_f64();
        let rate = (found.len() - 1) as f64 / time;
        assert!((rate / ceiling - 1.0).abs() < 0.01, "{rate}, not {ceiling}");
    }
}

#[test]
fn a_batch_waits_for_its_timer_and_no_longer() {
    let wait = Duration::from_micros(50);
    let table = LookAsideConfig { batch: 32, wait, ..at_once() };
    let source = Source::new(frame(500), 5, Schedule::Every(Duration::from_millis(1)));
    let profile = Profile { look_aside: SPEED, ..Profile::ideal() };
    let (mut network, _, sink) = network(Network::with_buffers(1, 4096), source, &table, profile);
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let alone = SPEED.alone(500 + MACSEC).as_nanos() as u64;
    for (at, number) in arrivals(&mut network, sink) {
        assert_eq!(at.as_nanos(), number * 1_000_000 + 50_000 + alone);
    }
}

/// A model that dies with every request of such a number.
struct Mortal {
    model: Model<Packet>,
    every: u64,
    count: u64,
    alive: bool,
}

impl Device<Packet> for Mortal {
    fn accepts(&self, spec: &KeySpec) -> Result<(), InstallError> {
        self.model.accepts(spec)
    }

    fn command(&mut self, command: Command) -> Result<(), Command> {
        self.model.command(command)
    }

    fn push(&mut self, now: Instant, requests: &mut Requests<Packet>) {
        for _ in requests.iter() {
            self.count += 1;
            self.alive &= !self.count.is_multiple_of(self.every);
        }
        self.model.push(now, requests);
    }

    fn ring(&mut self, now: Instant) {
        self.model.ring(now);
    }

    fn pop(&mut self, now: Instant, done: &mut Requests<Packet>) {
        if self.alive {
            self.model.pop(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.alive { self.model.poll_timeout() } else { Some(Instant::ZERO) }
    }

    fn is_alive(&self) -> bool {
        self.alive
    }

    fn abandon(&mut self, now: Instant, salvaged: &mut Vec<Request<Packet>>) {
        self.model.abandon(now, salvaged);
    }

    fn start(&mut self, now: Instant) -> bool {
        self.alive = true;
        self.model.start(now)
    }
}

/// 600 frames through an engine that dies again and again: arrivals, and frames
/// that were dropped because of it.
fn mortal(otherwise: Otherwise) -> (Vec<(Instant, u64)>, u64) {
    let table = LookAsideConfig { batch: 4, wait: Duration::from_micros(20), ..at_once() };
    let mut empty = Network::with_buffers(1, 4096);
    empty.engine_of(move |_, _, config, profile| {
        let Some(table) = &config.look_aside else {
            return Box::new(placing::engine(config, profile));
        };
        let options = ferrule_engines::look_aside::Options {
            on_failure: otherwise,
            ..placing::options(table)
        };
        let model = Model::new(profile.look_aside, options.depth, Software::default());
        let device = Mortal { model, every: 97, count: 0, alive: true };
        let away = LookAside::new(device, options, Software::default(), Box::new(|| None));
        Box::new(Placed::new(Software::default()).with_look_aside(Box::new(away)))
    });
    let source = Source::new(frame(300), 600, Schedule::Every(Duration::from_micros(100)));
    let profile = Profile { look_aside: SPEED, ..Profile::ideal() };
    let (mut network, left, sink) = network(empty, source, &table, profile);
    assert!(network.run_until_idle(Duration::from_secs(100)));
    let failed = network.device(left).report().drops.get(DropReason::EngineFailed);
    (arrivals(&mut network, sink), failed)
}

#[test]
fn an_engine_that_dies_in_the_laboratory_keeps_order_and_is_deterministic() {
    let (found, failed) = mortal(Otherwise::Software);
    assert_eq!((found.len(), failed), (600, 0), "software stands in");
    assert!(found.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
    let (found, failed) = mortal(Otherwise::Drop);
    assert!(failed > 0 && found.len() as u64 + failed == 600, "{failed} dropped");
    assert!(found.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
    assert_eq!((found, failed), mortal(Otherwise::Drop), "the same run again");
}
