//! Observation changes nothing: of the same traffic a node does the same with a trace, with
//! a capture, with its stages timed and with none of them, and the records agree with the
//! counters.

#[path = "../net/mod.rs"]
mod net;

mod traffic;

use ferrule_base::{DropReason, MacAddr, Rng};
use ferrule_dataplane::graph::Next;
use ferrule_node::message::WorkerReport;
use ferrule_node::probe::{Filter, Point, Records};
use net::{Host, Net, mac};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::{FAR, NEAR, PORTS, STATIONS, Site, on_the_way};

const PROTECT: &str = "action = \"protect\"\ntunnel = \"two\"";

/// Observer of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Nobody,
    Times,
    Trace,
    Capture,
}

/// Packets at each point of a trace, and how many octets they had there.
type Visits = BTreeMap<String, (u64, u64)>;

/// Output of a recorder.
#[derive(Default, PartialEq, Debug)]
struct Seen {
    visits: Visits,
    dropped: BTreeMap<DropReason, u64>,
    /// Packets that went on from where they are sealed.
    sealed: u64,
    /// Last stage of each buffer's packet.
    last: BTreeMap<u64, Next>,
    /// Frames by port, as they were received and sent.
    received: Vec<Vec<Vec<u8>>>,
    sent: Vec<Vec<Vec<u8>>>,
}

impl Seen {
    fn note(&mut self, records: &mut Records) {
        while let Some(record) = records.pop() {
            let visits = self.visits.entry(format!("{:?}", record.point)).or_default();
            visits.0 += 1;
            visits.1 += record.len as u64;
            let before = self.last.remove(&record.id);
            let seals = [Next::EspOut, Next::AhOut, Next::SecyOut];
            let on = matches!(record.point, Point::At(Next::Output | Next::Transmit));
            if on && before.is_some_and(|at| seals.contains(&at)) {
                self.sealed += 1;
            }
            let frames = match record.point {
                Point::Received => &mut self.received,
                Point::At(Next::Transmit | Next::TransmitFirst) => &mut self.sent,
                Point::At(next) => {
                    self.last.insert(record.id, next);
                    continue;
                }
                Point::Dropped(reason) => {
                    *self.dropped.entry(reason).or_default() += 1;
                    continue;
                }
            };
            frames.resize(PORTS.len(), Vec::new());
            frames[usize::from(record.port.0)].push(record.data.into());
        }
        assert_eq!(records.lost(), 0, "the ring is read often enough");
    }

    fn at(&self, next: Next) -> u64 {
        self.visits.get(&format!("{:?}", Point::At(next))).map_or(0, |visits| visits.0)
    }
}

/// A node and what is on its wires.
struct Node {
    net: Net,
    hosts: [Host; PORTS.len()],
    records: Vec<Records>,
    seen: Seen,
}

impl Node {
    fn new(site: Site, watch: Watch) -> Self {
        let mut net = Net::new();
        let node = net.node(&site.config(PROTECT));
        let hosts = PORTS.map(|port| net.host(node, port));
        let mut records = Vec::new();
        let filter = |stages| Filter { stages, port: None, count: u64::MAX, snap: 2048 };
        let member = &mut net.members[node];
        match watch {
            Watch::Nobody => {}
            Watch::Times => member.workers[0].keep_time(|| {
                // Each look at the clock is a nanosecond later.
                static CLOCK: AtomicU64 = AtomicU64::new(0);
                CLOCK.fetch_add(1, Ordering::Relaxed)
            }),
            Watch::Trace => records = member.control.record(&filter(true)).expect("it records"),
            Watch::Capture => records = member.control.record(&filter(false)).expect("it records"),
        }
        let mut node = Self { net, hosts, records, seen: Seen::default() };
        node.net.settle();
        node.know(site, Some(STATIONS[1]));
        node
    }

    /// The link address of the other site, and the site's own hosts.
    fn know(&mut self, site: Site, peer: Option<MacAddr>) {
        let tables = self.net.members[0].control.tables().clone();
        let Site { own, other, .. } = site;
        let near = [
            format!("10.{own}.0.9"),
            format!("10.{own}.1.9"),
            format!("10.{own}.2.9"),
            format!("10.{own}.3.9"),
            format!("172.16.{own}.9"),
            format!("2001:db8:{own}:1::9"),
            format!("2001:db8:{own}:2::9"),
        ];
        for iface in 0..tables.ifaces.len() as u16 {
            for host in &near {
                let host = host.parse().expect("an address");
                assert!(tables.neighbours.set(iface, host, STATIONS[0]));
            }
            for gateway in [format!("192.0.2.{other}"), format!("2001:db8:ff::{other}")] {
                let gateway = gateway.parse().expect("an address");
                match peer {
                    Some(mac) => assert!(tables.neighbours.set(iface, gateway, mac)),
                    None => tables.neighbours.remove(iface, gateway),
                }
            }
        }
    }

    /// Frames out of the ports since the last call.
    fn frames(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.net.settle();
        self.records.iter_mut().for_each(|records| self.seen.note(records));
        self.hosts.iter_mut().map(Host::received).collect()
    }

    fn report(&mut self) -> Box<WorkerReport> {
        self.net.reports(0).remove(0)
    }
}

/// Every count of a worker, except its own time.
fn counted(report: &WorkerReport) -> String {
    let r = report;
    let packets = format!("{:?} {:?} {:?} {:?} {:?}", r.drops, r.work, r.ledger, r.ports, r.hits);
    let sas = format!("{:?} {:?} {:?} {:?}", r.esp_out, r.esp_in, r.secy_out, r.secy_in);
    packets + &sas
}

/// Nodes that have the same done to them.
struct Bench {
    nodes: Vec<Node>,
    /// The other site; each hears what the other one sends.
    far: Node,
    rng: Rng,
    /// Frames given to each node, and that came out of each, by port.
    given: Vec<Vec<Vec<u8>>>,
    sent: Vec<Vec<Vec<u8>>>,
}

impl Bench {
    fn new(watches: &[Watch], seed: u64) -> Self {
        let mut far = Node::new(FAR, Watch::Nobody);
        far.know(FAR, Some(mac(NEAR.name, "wan")));
        Self {
            nodes: watches.iter().map(|&watch| Node::new(NEAR, watch)).collect(),
            far,
            rng: Rng::new(seed),
            given: vec![Vec::new(); PORTS.len()],
            sent: vec![Vec::new(); PORTS.len()],
        }
    }

    /// Frames of both sites, in an order of their own.
    fn frames(&mut self) -> Vec<(usize, Vec<u8>)> {
        let rng = &mut self.rng;
        for _ in 0..rng.below(60) {
            let (port, frame) = FAR.frame(rng);
            self.far.hosts[port].send(&frame);
        }
        let mut frames = Vec::new();
        for (port, sent) in self.far.frames().into_iter().enumerate() {
            if ["wan", "right"].contains(&PORTS[port]) {
                let arrive = sent.into_iter().flat_map(|frame| on_the_way(rng, frame));
                frames.extend(arrive.map(|frame| (port, frame)));
            }
        }
        for _ in 0..1 + rng.below(150) {
            let at = rng.below(frames.len() as u64 + 1) as usize;
            frames.insert(at, NEAR.frame(rng));
        }
        frames
    }

    /// One round of traffic; every node does the same with it.
    fn round(&mut self, number: usize) {
        for (port, frame) in self.frames() {
            self.nodes.iter_mut().for_each(|node| node.hosts[port].send(&frame));
            self.given[port].push(frame);
        }
        let out: Vec<_> = self.nodes.iter_mut().map(Node::frames).collect();
        let counts: Vec<_> = self.nodes.iter_mut().map(|node| counted(&node.report())).collect();
        for at in 1..self.nodes.len() {
            for (port, name) in PORTS.iter().enumerate() {
                let (one, other) = (&out[0][port], &out[at][port]);
                assert_eq!(one.len(), other.len(), "round {number}, node {at}, {name}");
                assert!(one == other, "round {number}, node {at}, {name}");
            }
            assert_eq!(counts[0], counts[at], "round {number}, node {at}");
        }
        for (sent, frames) in self.sent.iter_mut().zip(out.into_iter().next().expect("a node")) {
            sent.extend(frames);
        }
    }

    /// Sometimes a neighbour is another, or unknown, or the configuration changes.
    fn change(&mut self) {
        let peer = match self.rng.below(16) {
            0 => Some(STATIONS[0]),
            1 => None,
            2..5 => Some(STATIONS[1]),
            5 | 6 => {
                let actions = ["action = \"discard\"", "action = \"bypass\"", PROTECT];
                let text = NEAR.config(actions[self.rng.below(3) as usize]);
                self.nodes.iter_mut().for_each(|node| node.net.apply(0, &text));
                return;
            }
            _ => return,
        };
        self.nodes.iter_mut().for_each(|node| node.know(NEAR, peer));
    }
}

#[test]
fn a_node_does_the_same_whoever_looks_on() {
    let watches = [Watch::Nobody, Watch::Times, Watch::Trace, Watch::Trace, Watch::Capture];
    let mut bench = Bench::new(&watches, 4711);
    for round in 0..400 {
        bench.round(round);
        bench.change();
    }
    let reports: Vec<_> = bench.nodes.iter_mut().map(Node::report).collect();
    let plain = &reports[0];
    let [_, _, trace, again, capture] = &bench.nodes[..] else { unreachable!("five nodes") };

    // The trace is the same twice, and agrees with the counts of an unobserved node.
    assert_eq!(trace.seen.visits, again.seen.visits);
    let seen = &trace.seen;
    let first = seen.at(Next::TransmitFirst);
    assert_eq!(seen.at(Next::Transmit) + first, plain.ledger.sent);
    assert_eq!(seen.visits["Received"].0, plain.ledger.received);
    for &reason in DropReason::ALL {
        let dropped = seen.dropped.get(&reason).copied().unwrap_or(0);
        assert_eq!(dropped, plain.drops.get(reason), "{reason:?}");
    }
    assert_eq!(seen.sealed, plain.work.sealed.packets);

    // Time was spent where packets were, and nowhere else.
    let times = reports[1].times.expect("it keeps time");
    for (next, time) in Next::ALL.into_iter().zip(times.stages) {
        assert_eq!(time > 0, seen.at(next) > 0, "{}: {time}", next.name());
    }

    // Both recorders have the frames of the wires, octet for octet.
    for node in [trace, capture] {
        assert!(node.seen.received == bench.given);
        assert!(node.seen.sent == bench.sent);
    }
    worth_it(seen, plain);
    bench.nodes.iter_mut().for_each(|node| node.net.assert_conserved());
}

/// There was enough of everything.
fn worth_it(seen: &Seen, plain: &WorkerReport) {
    let never = [Next::PathError, Next::Clamp, Next::TransmitFirst, Next::Acquire, Next::Keying];
    for next in Next::ALL.into_iter().filter(|next| !never.contains(next)) {
        assert!(seen.at(next) > 20, "{}: {}", next.name(), seen.at(next));
    }
    for sa in plain.esp_out.iter().chain(&plain.esp_in) {
        assert!(sa.stats.packets > 100, "{sa:?}");
    }
    let opened = plain.secy_in.iter().map(|(_, secy)| secy.stats.in_ok).sum::<u64>();
    assert!(opened > 100, "{opened}");
}
