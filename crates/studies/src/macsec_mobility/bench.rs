//! One load on one network: the tester at both ends, for so many frames.

use super::network::{Built, LAN_MAC, System, TESTER_MAC, VLAN};
use ferrule_base::Duration;
use ferrule_lab::tester::{LabBench, TesterStation};
use ferrule_lab::{Direction, End, Journey, LinkId, Network, Observer, Sighting};
use ferrule_tester::responder::Home;
use ferrule_tester::{
    Bench, Burst, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec, VlanTag,
};
use ferrule_wire::TrafficClass;
use ferrule_wire::vlan::Vid;
use std::any::Any;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The study's frame without and with FCS.
pub const FRAME: usize = 1000;
const FRAME_FCS: usize = FRAME + 4;
/// A frame that is longer is one of the study's, with or without its VLAN tag.
const LONG: usize = FRAME - 4;
/// Octets of a frame on a line beside those in memory.
pub const LINE_OVERHEAD: usize = ferrule_tester::rate::LINE_OVERHEAD;
/// Nothing is sent: nodes find their next hops, and ask again for those whose answer a
/// short queue lost among what else nodes say when they start.
const START: Duration = Duration::from_secs(3);
/// Sent before anything is measured: tables are learnt.
const WARM_UP: Duration = Duration::from_millis(20);
/// Waited for late frames: more than any queue of the study holds.
const DRAIN: Duration = Duration::from_millis(200);

/// A load, and how its frames come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Average load in Mbit/s of the line.
    pub load_mbps: f64,
    /// Frames that follow each other back to back; `None`: evenly spaced.
    pub burst: Option<u64>,
}

impl Offered {
    /// At a constant rate.
    pub const fn even(load_mbps: f64) -> Self {
        Self { load_mbps, burst: None }
    }

    /// In bursts of this many frames at the rate of the line.
    pub const fn bursts(load_mbps: f64, frames: u64) -> Self {
        Self { load_mbps, burst: Some(frames) }
    }
}

/// Result of one offered load.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Offered, in Mbit/s of the line (preamble, FCS and gap counted).
    pub load_mbps: f64,
    /// Frames sent.
    pub offered: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// From the first bit out to the last bit in.
    pub mean_us: f64,
    /// The shortest.
    pub min_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Octets of the study's frames on each link from end to end, without FCS.
    pub octets: Vec<usize>,
}

impl Point {
    /// Frames lost, in percent of the frames sent.
    pub fn loss_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.offered.max(1) as f64
    }
}

/// Frames of a line at a load.
pub fn frames_per_second(load_mbps: f64) -> f64 {
    load_mbps * 1e6 / (8 * (FRAME + LINE_OVERHEAD)) as f64
}

/// Lengths of the long frames on each link: the study's, and no neighbour message.
#[derive(Default)]
struct Lengths(BTreeMap<(LinkId, usize), u64>);

impl Observer for Lengths {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        if seen.direction == Direction::Forward && frame.len() >= LONG {
            *self.0.entry((seen.link, frame.len())).or_default() += 1;
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The study's frames, from the first site to the second.
fn plan(system: System, offered: Offered, rate: u64) -> Plan {
    let to = if system == System::Ipsec { LAN_MAC[0] } else { TESTER_MAC[1] };
    let mut layers = Layers::new(TESTER_MAC[0], to);
    let vid = Vid::new(VLAN).unwrap_or(Vid::PRIORITY);
    layers.vlans = vec![VlanTag { vid, priority: TrafficClass::default(), service: false }];
    layers.datagram = Datagram::between(site(0), site(1));
    // Millionths of the line.
    let share = (offered.load_mbps * 1e12 / rate as f64).round() as u32;
    let mut stream = Stream::new("study", layers, FRAME_FCS, Rate::LineShare(share));
    stream.burst = offered.burst.map(|frames| Burst { frames, rate: Rate::LINE });
    Plan::one(stream, Some(rate))
}

/// The tester's address in a site.
fn site(side: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, side as u8 + 1, 10).into()
}

/// The stations that the tester answers for in a site.
fn home(side: usize) -> Vec<Home> {
    vec![Home { first: site(side), count: 1, mac: TESTER_MAC[side] }]
}

/// Offers a load for about so many frames.
pub fn measure(built: Built, system: System, load_mbps: f64, frames: u64) -> Point {
    offer(built, system, Offered::even(load_mbps), frames, &mut |_, _| {})
}

/// The same, and the ways of the frames that were measured and arrived.
pub fn follow(
    built: Built,
    system: System,
    offered: Offered,
    frames: u64,
) -> (Point, Vec<Journey>) {
    let mut journeys = Vec::new();
    let point = offer(built, system, offered, frames, &mut |network, measured| {
        match measured {
            None => network.follow(|frame| frame.len() >= LONG),
            Some(count) => {
                // What warmed up came before.
                let first = network.followed().saturating_sub(count);
                journeys = network.take_journeys();
                journeys.retain(|journey| journey.number >= first);
            }
        }
    });
    (point, journeys)
}

/// Does so. `watch` is called before the first frame, and behind the last one with how many
/// were measured.
fn offer(
    built: Built,
    system: System,
    offered: Offered,
    frames: u64,
    watch: &mut dyn FnMut(&mut Network, Option<u64>),
) -> Point {
    let load_mbps = offered.load_mbps;
    let Built { mut network, links, devices, lines } = built;
    let tester = network.station("tester", Box::new(TesterStation::new(2)));
    let (first, last) = (devices[0].1, devices[devices.len() - 1].1);
    let mut join = |port, device| {
        let ends = match port {
            0 => (End::Station(tester, 0), End::Device(device, "lan")),
            _ => (End::Device(device, "lan"), End::Station(tester, port)),
        };
        network.link(lines.spec(), ends.0, ends.1).expect("the site's port is free")
    };
    let (entry, exit) = (join(0, first), join(1, last));
    network.advance(network.now() + START);
    network.observe(Box::new(Lengths::default()));
    watch(&mut network, None);
    let names = vec!["first".to_owned(), "second".to_owned()];
    let mut bench = LabBench::new(network, tester, names, Some(lines.rate));
    bench.answer_for(vec![home(0), home(1)]);
    let duration = Duration::from_secs_f64(frames as f64 / frames_per_second(load_mbps));
    let timing =
        Timing { warm_up: WARM_UP, duration, drain: DRAIN, grace: Duration::ZERO, interval: None };
    let spec = TrialSpec { plan: plan(system, offered, lines.rate), timing };
    let result = bench.trial(&spec).expect("the study's plan is sound");
    if let Err(unbalanced) = bench.network().audit() {
        panic!("{unbalanced}");
    }
    watch(bench.network(), Some(result.offered()));
    let latency = result.latency();
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    let order: Vec<LinkId> = [entry].into_iter().chain(links).chain([exit]).collect();
    Point {
        load_mbps,
        offered: result.offered(),
        lost: result.lost(),
        mean_us: latency.mean().unwrap_or(f64::NAN) / 1000.0,
        min_us: micros(latency.min().unwrap_or(0)),
        max_us: micros(latency.max().unwrap_or(0)),
        octets: lengths(bench.network(), &order),
    }
}

/// The length on each link; it is one, or the study does not do what it says.
fn lengths(network: &mut Network, order: &[LinkId]) -> Vec<usize> {
    let seen = network.observer::<Lengths>().map(|l| std::mem::take(&mut l.0)).unwrap_or_default();
    let on = |link: &LinkId| {
        let mut all = seen.keys().filter(|(on, _)| on == link).map(|(_, len)| *len);
        let first = all.next().unwrap_or(0);
        assert_eq!(all.next(), None, "frames of two lengths on one link");
        first
    };
    order.iter().map(on).collect()
}
