//! The five places where a VPN box can stand (figure 1), as the topologies that `ferrule
//! lab run` has by these names: what is seen where, and what it costs.

use super::cases::Protection;
use super::machine::{Costs, Parts, Processing};
use crate::options::Seed;
use ferrule_base::Duration;
use ferrule_lab::host::{Outcome, payload};
use ferrule_lab::topology::{Kind, Setting, Shipped, Topology};
use ferrule_lab::{LinkId, Observer, Profile, Sighting};
use std::any::Any;
use std::collections::BTreeMap;

/// The topologies, in the order of the study's list.
pub const NAMES: [&str; 5] =
    ["vpn-line", "vpn-router-firewall", "vpn-firewall", "vpn-wan-box", "vpn-host"];
/// Octets of the frame that is followed, without FCS.
pub const FRAME: usize = 1000;
/// A frame is the one that is followed if it is at least so long.
const FOLLOWED: usize = 900;
/// For how long hosts ping.
const LENGTH: Duration = Duration::from_secs(2);
const SEED: u64 = 2001;

/// A link, and the form of the packets on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Names of the two nodes that the link joins.
    pub name: String,
    /// True if the hosts' data can be read on the link.
    pub clear: bool,
    /// Octets of the frame there, without FCS.
    pub octets: usize,
}

/// A place for a VPN box.
#[derive(Clone, Debug)]
pub struct Place {
    /// The topology.
    pub name: &'static str,
    /// The study's name for it.
    pub called: String,
    /// The links from the first host to the other site, in order.
    pub segments: Vec<Segment>,
    /// Round trip of the frame on lines alone, in microseconds.
    pub lines_us: f64,
    /// Round trip with a machine of 2001 for each node, in microseconds.
    pub machines_us: f64,
}

impl Place {
    /// Links on which nothing can be read, or something can.
    pub fn names_of(&self, clear: bool) -> String {
        let found = self.segments.iter().filter(|segment| segment.clear == clear);
        let names: Vec<&str> = found.map(|segment| segment.name.as_str()).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    }

    /// Octets that IPsec adds to the frame on the line.
    pub fn overhead(&self) -> f64 {
        self.segments.iter().map(|segment| segment.octets).max().unwrap_or(0) as f64 - FRAME as f64
    }

    /// Packet contents that the site's firewall can read, in words: decided by the link on the
    /// site's side of the firewall, if there is one.
    pub fn firewall(&self) -> &'static str {
        let at = |segment: &&Segment| segment.name.starts_with("fw1-");
        match self.segments.iter().position(|segment| at(&segment)) {
            None => "its own packets, all",
            Some(0) => "all",
            // What comes from the site.
            Some(behind) if self.segments[behind - 1].clear => "all: addresses, ports, data",
            Some(_) => "addresses alone",
        }
    }
}

/// Sees the followed frames of each link.
#[derive(Default)]
struct Seen(BTreeMap<LinkId, (bool, usize)>);

impl Observer for Seen {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        if frame.len() >= FOLLOWED {
            let entry = self.0.entry(seen.link).or_default();
            entry.0 |= payload::shows(frame);
            entry.1 = entry.1.max(frame.len());
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

fn topology(name: &str) -> Topology {
    let shipped = Shipped::named(name).expect("it is shipped");
    let mut topology = shipped.topology(None).unwrap_or_else(|error| panic!("{error}"));
    topology.traffic.retain(|entry| matches!(entry.kind, Kind::Ping(..)));
    topology
}

/// Pings through a topology: what was seen, and the mean round trip.
fn pinged(topology: &Topology, seed: Seed) -> (BTreeMap<LinkId, (bool, usize)>, f64) {
    let setting = Setting { seed: seed.of(SEED), length: LENGTH };
    let mut lab = topology.build(setting).unwrap_or_else(|error| panic!("{error}"));
    lab.network.observe(Box::<Seen>::default());
    lab.run();
    assert!(lab.findings.count() == 0, "{}: {:?}", topology.name, lab.findings.all());
    let seen = lab.network.observer::<Seen>().map(|seen| std::mem::take(&mut seen.0));
    let trip = lab.outcomes().into_iter().flatten().find_map(|outcome| match outcome {
        Outcome::Ping(ping) => ping.round_trip.mean(),
        _ => None,
    });
    (seen.unwrap_or_default(), trip.map_or(f64::NAN, |trip| trip.as_secs_f64() * 1e6))
}

/// Runs the five.
pub fn run(costs: &Costs, called: &[String], seed: Seed) -> Vec<Place> {
    let each = NAMES.into_iter().zip(called).map(|(name, called)| {
        let mut topology = topology(name);
        let (seen, lines_us) = pinged(&topology, seed);
        let names: Vec<[String; 2]> =
            topology.links.iter().map(|link| topology.end_names(link)).collect();
        // Up to the line, and the line: the other site is the same.
        let line = names.iter().position(|[a, b]| a.ends_with('1') && b.ends_with('2'));
        let ours = names
            .iter()
            .enumerate()
            .filter(|(at, [a, b])| Some(*at) == line || a.ends_with('1') && b.ends_with('1'));
        let segments = ours.map(|(at, ends)| {
            let (clear, octets) = seen.get(&LinkId(at)).copied().unwrap_or_default();
            Segment { name: ends.join("-"), clear, octets }
        });
        let segments = segments.collect();
        for node in &mut topology.nodes {
            node.profile = machine(costs, !node.config.tunnels.is_empty());
        }
        let (_, machines_us) = pinged(&topology, seed);
        Place { name, called: called.clone(), segments, lines_us, machines_us }
    });
    each.collect()
}

/// A machine of 2001 that seals, or not.
fn machine(costs: &Costs, seals: bool) -> Profile {
    let protection = if seals { Protection::AesGcm } else { Protection::None };
    costs.profile(protection, Processing::NewBuffer, Parts::ALL)
}
