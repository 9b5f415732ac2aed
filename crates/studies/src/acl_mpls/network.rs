//! The study's networks in virtual time, a tester at both sites, and one load.

use super::nodes::{END_MAC, Entries, LAN_MAC, System, host, nodes};
use super::published::Study;
use crate::options::Seed;
use ferrule_base::{DropReason, Duration};
use ferrule_lab::tester::{LabBench, TesterStation};
use ferrule_lab::{DeviceId, DeviceReport, End, LinkSpec, Network, Profile};
use ferrule_tester::layers::Field;
use ferrule_tester::responder::Home;
use ferrule_tester::vary::{Change, Vary};
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use std::net::IpAddr;

/// Rate of every line, in bits per second.
pub const RATE: u64 = 1_000_000_000;
/// Octets of a frame on the line beside those of the frame and its FCS: preamble, start, gap.
pub const LINE_OVERHEAD: usize = ferrule_tester::rate::LINE_OVERHEAD - FCS;
const FCS: usize = ferrule_tester::rate::FCS;
/// Frames that wait for a line at most.
const QUEUE: usize = 512;
const SEED: u64 = 2001;
const BUFFERS: usize = 8192;
/// Sent before anything is measured.
const WARM_UP: Duration = Duration::from_millis(2);
/// Frames a second that teach addresses.
const LEARNING: f64 = 20_000.0;
/// Waited for late frames.
const DRAIN: Duration = Duration::from_millis(20);

fn line() -> LinkSpec {
    LinkSpec { rate: Some(RATE), queue: QUEUE, ..LinkSpec::default() }
}

/// The load offered each way.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Frames a second.
    pub per_second: f64,
    /// Streams that they are of.
    pub streams: u64,
    /// Seed of network and streams.
    pub seed: Seed,
}

/// Result of one offered load, in frames a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Offered, each way.
    pub offered: f64,
    /// Taken by the device that has the list, or by the first one.
    pub processed: f64,
    /// Denied by the list.
    pub denied: f64,
    /// That reached the other site.
    pub forwarded: f64,
}

/// Frames a second that a line carries.
pub fn line_rate(octets: usize) -> f64 {
    RATE as f64 / (8 * (octets + LINE_OVERHEAD)) as f64
}

/// A network of the study: a tester at both sites.
struct Rig {
    bench: LabBench,
    /// The first device, and the one that has the list.
    watched: [DeviceId; 2],
    streams: u64,
    octets: usize,
    directions: usize,
    seed: Seed,
}

impl Rig {
    fn new(
        (system, entries): (System, Entries),
        study: &Study,
        device: &Profile,
        seed: Seed,
    ) -> Self {
        let mut network = Network::with_buffers(seed.of(SEED), BUFFERS);
        let listed = system.listed();
        let configs = nodes(system, entries, study).into_iter().enumerate();
        let devices: Vec<DeviceId> = configs
            .map(|(at, config)| {
                let profile = if at == listed { device.clone() } else { Profile::ideal() };
                let name = config.name.clone();
                network.node(&name, config, profile).expect("a node that builds")
            })
            .collect();
        if let [one, other] = devices[..] {
            let cores = [one, other].map(|device| End::Device(device, "core"));
            network.link(line(), cores[0], cores[1]).expect("free ports");
        }
        let tester = network.station("tester", Box::new(TesterStation::new(2)));
        let (first, last) = (devices[0], devices[devices.len() - 1]);
        for (side, (device, port)) in [(first, "site1"), (last, "site2")].into_iter().enumerate() {
            let (tester, device) = (End::Station(tester, side), End::Device(device, port));
            network.link(line(), tester, device).expect("the site's port is free");
        }
        let names = vec!["site 1".to_owned(), "site 2".to_owned()];
        let mut bench = LabBench::new(network, tester, names, Some(RATE));
        let streams = study.setup.streams;
        let home = |side: usize| {
            vec![Home { first: host(side, 0).into(), count: streams, mac: END_MAC[side] }]
        };
        bench.answer_for(vec![home(0), home(1)]);
        let directions = if system.both_ways { 2 } else { 1 };
        Self { bench, watched: [first, devices[listed]], streams, octets: 0, directions, seed }
    }

    fn stream(&self, from: usize, per_second: f64) -> Stream {
        let mut layers = Layers::new(END_MAC[from], LAN_MAC[from]);
        let (src, dst): (IpAddr, IpAddr) = (host(from, 0).into(), host(1 - from, 0).into());
        layers.datagram = Datagram::between(src, dst);
        let rate = Rate::MilliFrames((per_second * 1000.0).round() as u64);
        let mut stream = Stream::new(format!("from site {}", from + 1), layers, self.octets, rate);
        // At random: in turn, a bucket that is full at every second frame would always have
        // the same streams lose.
        let change = Change::Random { count: self.streams, seed: self.seed.of(SEED + from as u64) };
        stream.vary = vec![Vary { field: Field::IpDst, change }];
        (stream.tx, stream.rx) = (from, 1 - from);
        stream
    }

    /// Offers about so many frames each way: of these the share that arrived, and what the
    /// watched devices counted since the network was made.
    fn offer(&mut self, per_second: f64, frames: u64) -> (f64, [DeviceReport; 2]) {
        let streams = (0..self.directions).map(|from| self.stream(from, per_second));
        let plan = Plan { streams: streams.collect(), line: Some(RATE) };
        let duration = Duration::from_secs_f64(frames as f64 / per_second);
        let grace = Duration::ZERO;
        let timing = Timing { warm_up: WARM_UP, duration, drain: DRAIN, grace, interval: None };
        let result =
            self.bench.trial(&TrialSpec { plan, timing }).expect("the study's plan is sound");
        let network = self.bench.network();
        if let Err(unbalanced) = network.audit() {
            panic!("{unbalanced}");
        }
        let arrived = result.received() as f64 / result.offered().max(1) as f64;
        (arrived, self.watched.map(|device| network.device(device).report()))
    }
}

/// Offers a load for about so many frames.
pub fn measure(
    (system, entries): (System, Entries),
    study: &Study,
    device: &Profile,
    load: Load,
    frames: u64,
) -> Point {
    let Load { octets, per_second, streams, seed } = load;
    let mut rig = Rig { octets, streams, ..Rig::new((system, entries), study, device, seed) };
    // RFC 2544 section 23: addresses are learned before a trial. A bucket that is full takes
    // requests and answers of ARP for what they are: frames.
    let (_, before) = rig.offer(LEARNING, rig.streams * 10);
    let (arrived, after) = rig.offer(per_second, frames);
    let grown = |at: usize, of: fn(&DeviceReport) -> u64| (of(&after[at]) - of(&before[at])) as f64;
    // What a line between the edges lost was offered, too.
    let came = grown(0, |report| report.stats.arrived.packets).max(1.0);
    let taken = grown(1, |report| {
        report.stats.arrived.packets - report.stats.capped - report.stats.input_full
    });
    let denied = grown(1, |report| report.drops.get(DropReason::AclDenied));
    Point {
        octets,
        offered: per_second,
        processed: per_second * taken / came,
        denied: per_second * denied / came,
        forwarded: per_second * arrived,
    }
}
