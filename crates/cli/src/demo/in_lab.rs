//! The demo without privilege: the topology `two-sites` in the laboratory, in
//! virtual time, with the traffic that the live demo has.
//!
//! ```text
//!   0.2 s           1.2 s   1.3 s    2.3 s   2.4 s   2.6 s   2.7 s  2.9 s   3.0 s
//!   ├ the study's frames ┤   ├── ping ──┤     ├ TCP there ┤   ├ TCP back ┤   ├ a file
//!                                       └ a flow that PE1 refuses
//! ```
//!
//! Nodes take no time here and links have 1 Gbit/s: rates and round trips say
//! what the octets of a protection cost a line, not what a processor can do.

use super::plan::{self, VARIANTS, Variant};
use super::report::{Outcome, Refused, Row};
use super::traffic::{Delivery, Fetched, RoundTrips};
use super::wiretap::{OnWire, labels_of};
use crate::process::{Fault, Runner};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_lab::host::{self, Schedule, rate};
use ferrule_lab::topology::{Kind, Lab, Setting, Shipped, Topology, Traffic};
use ferrule_lab::{Direction, LinkId, Observer, Sighting};
use ferrule_node::config::Config;
use std::any::Any;
use std::collections::BTreeMap;

/// The study's frames, their octets as the host sends them (the access port of
/// the customer edge adds the VLAN tag), and how many leave in a second.
const STUDY_FRAMES: u64 = 1000;
const STUDY_FRAME: usize = 996;
const STUDY_RATE: u64 = 1000;
/// Echo requests, their frames' octets, and the time from one to the next.
const PINGS: u64 = 50;
const PING_FRAME: usize = 98;
const PING_GAP: Duration = Duration::from_millis(20);
/// Octets of the file.
const FILE_LEN: u64 = 8 << 20;
/// Octets of TCP windows.
const WINDOW: usize = 1 << 18;

/// When each kind of traffic begins; the study's frames have the core to
/// themselves until the echo requests do.
const STUDY_AT: Instant = Instant::from_millis(200);
const PING_AT: Instant = Instant::from_millis(1300);
const REFUSED_AT: Instant = Instant::from_millis(2330);
const THERE_AT: Instant = Instant::from_millis(2400);
const BACK_AT: Instant = Instant::from_millis(2700);
const FILE_AT: Instant = Instant::from_millis(3000);
/// How long TCP runs each way.
const BULK: Duration = Duration::from_millis(200);
/// For how long hosts send.
const LENGTH: Duration = Duration::from_millis(3500);
/// From one look at signals to the next.
const STEP: Duration = Duration::from_millis(100);

/// Runs every variant.
pub fn run(runner: &Runner, say: &dyn Fn(&str)) -> Result<Outcome, Fault> {
    say("in the laboratory: five nodes and two hosts in virtual time, no root needed");
    let mut rows = Vec::new();
    for variant in VARIANTS {
        say(&format!("{}: the study's frame, echo, TCP both ways, a file", variant.name));
        rows.push(row(runner, variant)?);
    }
    Ok(Outcome { live: false, rows })
}

fn row(runner: &Runner, variant: Variant) -> Result<Row, Fault> {
    let failed = |e: &dyn std::fmt::Display| Fault::failed(variant.name, e);
    let shipped = Shipped::named("two-sites").ok_or_else(|| failed(&"no such topology"))?;
    let mut topology = shipped.topology(Some(variant.topology())).map_err(|e| failed(&e))?;
    topology.traffic = traffic(&topology);
    let pe1 = refuse(&mut topology).ok_or_else(|| failed(&"no PE1 with a pseudowire"))?;
    let setting = Setting { seed: 1, length: LENGTH };
    let mut lab = topology.build(setting).map_err(|e| failed(&e))?;
    let core = ["pe1-p", "p-pe2"].map(|name| {
        let at = topology.links.iter().position(|link| link.name == name);
        at.and_then(|at| lab.links.get(at).copied())
    });
    let [Some(first), Some(second)] = core else { return Err(failed(&"no core links")) };
    lab.network.observe(Box::new(Core { links: [first, second], sizes: Default::default() }));
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + LENGTH {
        runner.check()?;
        now += STEP;
        lab.network.advance(now);
    }
    lab.finish();
    if let Some(finding) = lab.findings.first() {
        return Err(failed(&finding));
    }
    let pe1 = lab.network.device(lab.devices[pe1]).report();
    let denied = pe1.drops.get(DropReason::AclDenied);
    read(&mut lab, variant, denied).ok_or_else(|| failed(&"a host has not counted"))?
}

/// Gives PE1's attachment circuit its list; the node's place.
fn refuse(topology: &mut Topology) -> Option<usize> {
    let text = format!("[node]\nname = \"list\"\nlab = true\n{}", plan::list());
    let none = |_: &str| Err("no key is named".into());
    let list = Config::parse("list", &text, &mut { none }).ok()?.lists;
    let at = topology.nodes.iter().position(|node| node.name == "pe1")?;
    let config = &mut topology.nodes[at].config;
    config.pseudowires.first_mut()?.acl_in = Some(config.lists.len());
    config.lists.extend(list);
    Some(at)
}

/// Traffic of the live demo's tools, one after the other.
fn traffic(topology: &Topology) -> Vec<Traffic> {
    let end = Instant::ZERO + LENGTH;
    let entry = |kind: Kind, from: usize, start: Instant, stop: Instant, count: Option<u64>| {
        let to = 1 - from;
        let address = topology.hosts[to].addresses[0].0;
        Traffic { kind, from, to, address, start, stop: Some(stop), count, window: WINDOW }
    };
    let study = Kind::Udp(STUDY_FRAME, Schedule::per_second(STUDY_RATE));
    let ping = Kind::Ping(PING_FRAME, Schedule::every(PING_GAP));
    let refused = Kind::Udp(STUDY_FRAME, Schedule::per_second(STUDY_RATE));
    vec![
        entry(study, 0, STUDY_AT, end, Some(STUDY_FRAMES)),
        entry(ping, 0, PING_AT, end, Some(PINGS)),
        entry(Kind::Tcp(None), 0, THERE_AT, THERE_AT + BULK, None),
        entry(Kind::Tcp(None), 1, BACK_AT, BACK_AT + BULK, None),
        entry(Kind::Http(FILE_LEN, 1), 0, FILE_AT, end, None),
        entry(refused, 0, REFUSED_AT, end, Some(plan::REFUSED_COUNT.into())),
    ]
}

/// The row, if every host counted.
fn read(lab: &mut Lab, variant: Variant, denied: u64) -> Option<Result<Row, Fault>> {
    use host::Outcome::{Http, Ping, Tcp, Udp};
    let outcomes: Vec<host::Outcome> = lab.outcomes().into_iter().collect::<Option<_>>()?;
    let [Udp(study), Ping(ping), Tcp(there), Tcp(back), Http(file), Udp(refused)] = outcomes[..]
    else {
        return None;
    };
    let core: &mut Core = lab.network.observer()?;
    let [first, second] = core.sizes.each_ref().map(|s| OnWire::of(s.clone(), &variant));
    let wires = match (first, second) {
        (Ok(first), Ok(second)) => [first, second],
        (Err(fault), _) | (_, Err(fault)) => return Some(Err(fault)),
    };
    // The echo requests have the network to themselves: one is as long as the other.
    let middle = ping.round_trip.mean().unwrap_or_default();
    let wanted = host::digest(FILE_FLOW, FILE_LEN);
    let matches = file.intact == 1 && file.broken == 0;
    let arrived = if matches { wanted.clone() } else { "not what its head says".into() };
    Some(Ok(Row {
        variant,
        wires,
        rtt: RoundTrips {
            sent: ping.sent as usize,
            received: ping.received as usize,
            median_us: middle.as_secs_f64() * 1e6,
        },
        delivery: Delivery {
            sent: study.sent as u32,
            received: study.received as u32,
            spoilt: study.duplicates + study.broken,
        },
        refused: Refused { sent: refused.sent as u32, arrived: refused.received as u32, denied },
        throughput: [there, back].map(|tcp| rate(tcp.received, tcp.between).unwrap_or_default()),
        file: Some(Fetched {
            bytes: file.octets as usize,
            sha256: [wanted, arrived],
            matches,
            seconds: file.duration.sum.as_secs_f64(),
        }),
        tshark: [None, None],
        captures: Vec::new(),
    }))
}

/// The place of the file in the traffic.
const FILE_FLOW: u32 = 4;

/// Sees the sizes of labelled frames on the core, from the first site to the
/// second, as long as the study's frames are the only ones.
struct Core {
    links: [LinkId; 2],
    sizes: [BTreeMap<(usize, usize), usize>; 2],
}

impl Observer for Core {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        let study = (STUDY_AT..PING_AT).contains(&seen.now);
        if !study || seen.direction != Direction::Forward {
            return;
        }
        let Some(at) = self.links.iter().position(|link| *link == seen.link) else { return };
        if let Some(labels) = labels_of(frame) {
            *self.sizes[at].entry((frame.len(), labels)).or_default() += 1;
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_in_the_lab_carries_every_variant_with_the_studys_bytes() {
        let outcome = run(&Runner::unheeding(), &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outcome.findings(), Vec::<String>::new());
        let bytes: Vec<_> = outcome.rows.iter().map(|row| row.wires[1].bytes).collect();
        assert_eq!(bytes, [1022, 1054, 1084, 1072]);
        let bytes: Vec<_> = outcome.rows.iter().map(|row| row.wires[0].bytes).collect();
        assert_eq!(bytes, [1026, 1058, 1088, 1076]);
        for row in &outcome.rows {
            assert_eq!(row.delivery.received as u64, STUDY_FRAMES, "{}", row.variant.name);
            assert_eq!(row.wires[1].frames as u64, STUDY_FRAMES, "{}", row.variant.name);
            assert_eq!(row.rtt.received as u64, PINGS, "{}", row.variant.name);
            // A line of 1 Gbit/s, less what the protection takes.
            let megabits = row.throughput.map(|rate| rate / 1e6);
            assert!(megabits.iter().all(|m| (700.0..960.0).contains(m)), "{megabits:?}");
        }
        let rate = |row: usize| outcome.rows[row].throughput[0];
        assert!(
            rate(0) > rate(1) && rate(1) > rate(3) && rate(3) > rate(2),
            "each costs its octets"
        );
    }
}
