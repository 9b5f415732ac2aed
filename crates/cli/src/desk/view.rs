//! A laboratory in the words of `ferrule-state/1`.

use super::{Desk, Seen};
use ferrule_base::MacAddr;
use ferrule_daemon::report::{Outside, Report};
use ferrule_daemon::watch;
use ferrule_dashboard::state::{
    Dropped, End, Flow, Histogram, Kind, Ledger, Link, LinkKind, Node, NodeKind, Run, SCHEMA, Sa,
    State, Way,
};
use ferrule_lab::host::{CLASSES_US, Host, Outcome, Spread};
use ferrule_lab::topology::{HostPlan, LinkEnd, Topology};
use ferrule_lab::{Device, Direction, LaneStats, LinkId, Station};
use ferrule_node::made_mac;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// Nodes, hosts and links that a page shows at most, of each.
const SHOWN_MAX: usize = 400;
/// Findings that a page shows at most.
const FINDINGS_MAX: usize = 20;

/// End of a link, by name.
pub fn end(topology: &Topology, end: &LinkEnd) -> End {
    let (node, port) = match end {
        LinkEnd::Host(at) => (topology.hosts.get(*at).map(|h| &h.name), String::new()),
        LinkEnd::Node(at, port) => (topology.nodes.get(*at).map(|n| &n.name), port.clone()),
    };
    End { node: node.cloned().unwrap_or_default(), port }
}

/// Everything that there is to see.
pub fn state(desk: &mut Desk<'_>) -> State {
    let topology = desk.topology;
    let reports = reports(desk);
    let mut nodes: Vec<Node> = hosts(desk);
    let (mut sas, mut drops) = (Vec::new(), Vec::new());
    for (device, report) in desk.lab.network.devices().iter().zip(&reports).take(SHOWN_MAX) {
        nodes.push(node(device, report.as_ref()));
        drops.extend(device_drops(device));
        if let Some(report) = report {
            sas.extend(watch::sas(report, device.config()));
        }
    }
    let mut links: Vec<Link> =
        (0..topology.links.len()).take(SHOWN_MAX).filter_map(|at| link(desk, at)).collect();
    links.extend(tunnels(topology, &sas));
    drops.extend(link_drops(desk));
    let (flows, mut histograms) = flows(desk);
    let (sizes, events) = match desk.lab.network.observer::<Seen>() {
        Some(seen) => (seen.histograms(), seen.events()),
        None => (Vec::new(), Vec::new()),
    };
    histograms.extend(sizes);
    State {
        schema: SCHEMA.into(),
        kind: Kind::Lab,
        name: topology.name.clone(),
        about: about(topology),
        now_ns: desk.lab.network.now().as_nanos(),
        run: Some(run(desk)),
        commands: ["pause", "resume", "step", "speed", "link", "restart"].map(String::from).into(),
        flows,
        nodes,
        links,
        sas,
        drops,
        histograms,
        events,
    }
}

fn about(topology: &Topology) -> String {
    let more = topology.nodes.len().max(topology.hosts.len()).max(topology.links.len());
    let cut = if more > SHOWN_MAX {
        format!(" (the first {SHOWN_MAX} of each kind)")
    } else {
        String::new()
    };
    let variant = topology.variant.as_ref().map_or_else(String::new, |v| format!(", {v}"));
    format!("{}{variant}{cut}", topology.about)
}

fn run(desk: &Desk<'_>) -> Run {
    let network = &desk.lab.network;
    let mut broken: Vec<String> = desk.broken.iter().cloned().collect();
    broken.extend(desk.lab.findings.all().iter().take(FINDINGS_MAX).map(ToString::to_string));
    Run {
        phase: desk.phase,
        speed: desk.speed,
        pace: desk.pace(),
        until_ns: Some(desk.until.as_nanos()),
        seed: network.seed(),
        events: network.events(),
        next_ns: network.next_at().map(|at| at.as_nanos()),
        broken,
    }
}

/// Report of each node; nothing for one that is down.
fn reports(desk: &Desk<'_>) -> Vec<Option<Report>> {
    let now = desk.lab.network.now();
    let of = |device: &Device| {
        let control = device.control()?;
        let workers: Vec<_> = device.workers().iter().map(|w| Box::new(w.report(now))).collect();
        let config = device.config();
        let mac = |p: &ferrule_node::config::PortConfig| {
            p.mac.unwrap_or_else(|| made_mac(&config.name, &p.name))
        };
        let macs: Vec<MacAddr> = config.ports.iter().map(mac).collect();
        let outside = Outside { now, macs, failures: Vec::new(), gone: HashSet::new() };
        Some(Report::of(&control.view(), &workers, &outside))
    };
    desk.lab.network.devices().iter().take(SHOWN_MAX).map(of).collect()
}

fn node(device: &Device, report: Option<&Report>) -> Node {
    let ledger = device.ledger();
    let blank = Report { node: device.name().into(), ..Report::default() };
    let mut node = watch::node(report.unwrap_or(&blank), device.config());
    node.name = device.name().into();
    node.up = report.is_some();
    node.ledger = Some(own(&ledger));
    node.queued = Some(device.waiting() as u64);
    let profile = &device.profile().name;
    node.facts.push(format!("profile {profile}"));
    let stats = device.stats();
    if stats.restarts > 0 {
        node.facts.push(format!("restarted {} times", stats.restarts));
    }
    node
}

fn own(l: &ferrule_base::Ledger) -> Ledger {
    Ledger {
        received: l.received,
        made: l.made,
        sent: l.sent,
        consumed: l.consumed,
        dropped: l.dropped,
        held: l.held,
    }
}

fn dropped(place: &str, reason: &str, about: &str, packets: u64) -> Dropped {
    Dropped { place: place.into(), reason: reason.into(), about: about.into(), packets }
}

/// Drops of a node in all its lives, and frames that never came into it.
fn device_drops(device: &Device) -> Vec<Dropped> {
    let (report, name) = (device.report(), device.name());
    let own = report.drops.iter();
    let mut all: Vec<_> =
        own.map(|(reason, n)| dropped(name, reason.name(), reason.about().trim(), n)).collect();
    let stats = &report.stats;
    for (reason, about, packets) in [
        ("input-full", "The profile's input queue had no room.", stats.input_full),
        ("capped", "Beyond what the profile takes in a second.", stats.capped),
        ("crashed", "The node was down, or went down with it inside.", stats.crashed),
        ("unattached", "The node has that port no more.", stats.unattached),
    ] {
        all.push(dropped(name, reason, about, packets));
    }
    all.retain(|d| d.packets > 0);
    all
}

fn lost(lane: &LaneStats) -> u64 {
    lane.lost + lane.queue_full + lane.down
}

fn link(desk: &Desk<'_>, at: usize) -> Option<Link> {
    let (cable, id) = (desk.topology.links.get(at)?, *desk.lab.links.get(at)?);
    let network = &desk.lab.network;
    let stats = network.link_stats(id);
    let lanes = Direction::BOTH.map(|way| network.link_now(id, way));
    let way = |i: usize, way: Direction| {
        let lane = stats.of(way);
        let queued = lanes[i].as_ref().map_or(0, |l| l.under_way);
        let through = lane.delivered;
        Way { packets: through.packets, octets: through.octets, lost: lost(lane), queued }
    };
    let first = lanes[0].as_ref()?;
    Some(Link {
        name: cable.name.clone(),
        kind: LinkKind::Wire,
        ends: [0, 1].map(|i| end(desk.topology, &cable.ends[i])),
        up: first.up,
        outside: cable.outside,
        rate_bps: first.rate,
        delay_ns: u64::try_from(first.delay.as_nanos()).ok(),
        loss: Some(first.impairments.loss),
        ways: [way(0, Direction::Forward), way(1, Direction::Reverse)],
    })
}

fn link_drops(desk: &Desk<'_>) -> Vec<Dropped> {
    let mut all = Vec::new();
    for at in 0..desk.topology.links.len().min(SHOWN_MAX) {
        let id: LinkId = desk.lab.links[at];
        let place = format!("link {}", desk.topology.links[at].name);
        let stats = desk.lab.network.link_stats(id);
        let sum = |of: fn(&LaneStats) -> u64| of(&stats.forward) + of(&stats.reverse);
        all.extend([
            dropped(&place, "link-down", "The link was down, or went down.", sum(|l| l.down)),
            dropped(
                &place,
                "link-loss",
                "Lost on the way, as the link was told to.",
                sum(|l| l.lost),
            ),
            dropped(
                &place,
                "link-queue-full",
                "The queue in front of the link had no room.",
                sum(|l| l.queue_full),
            ),
        ]);
    }
    all.retain(|d| d.packets > 0);
    all
}

/// Tunnels between nodes of the network, each once, whatever carries them.
pub fn tunnels(topology: &Topology, sas: &[Sa]) -> Vec<Link> {
    let nodes = topology.nodes.iter().take(SHOWN_MAX);
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for node in nodes.clone() {
        let addresses = node.config.interfaces.iter().flat_map(|i| &i.addresses);
        owners.extend(addresses.map(|(address, _)| (*address, node.name.as_str())));
    }
    let mut all: Vec<Link> = Vec::new();
    for node in nodes {
        for tunnel in &node.config.tunnels {
            let Some(&far) = owners.get(&tunnel.remote) else { continue };
            let is_known = |l: &Link| l.ends[0].node == far && l.ends[1].node == node.name;
            if all.iter().any(is_known) || far == node.name || all.len() == SHOWN_MAX {
                continue;
            }
            let end = |node: &str| End { node: node.into(), port: String::new() };
            all.push(Link {
                name: format!("{} {}, {far}", tunnel.name, node.name),
                kind: LinkKind::Tunnel,
                ends: [end(&node.name), end(far)],
                up: true,
                outside: true,
                rate_bps: None,
                delay_ns: None,
                loss: None,
                ways: [carried(sas, far, &tunnel.name), carried(sas, &node.name, &tunnel.name)],
            });
        }
    }
    all
}

/// Traffic that a node received through a tunnel: opened there, with the failures.
fn carried(sas: &[Sa], at: &str, tunnel: &str) -> Way {
    let mut way = Way::default();
    let own = |s: &&Sa| s.node == at && s.name == tunnel && s.way == "in" && s.protocol == "esp";
    for sa in sas.iter().filter(own) {
        way.packets += sa.packets;
        way.octets += sa.octets.unwrap_or(0);
        way.lost += sa.faults.values().sum::<u64>();
    }
    way
}

fn hosts(desk: &mut Desk<'_>) -> Vec<Node> {
    let mut all = Vec::new();
    for (plan, id) in desk.topology.hosts.iter().zip(desk.lab.hosts.clone()).take(SHOWN_MAX) {
        let ledger = desk.lab.network.station_mut::<Host>(id).map(|h| own(&h.ledger()));
        all.push(Node { ledger, ..host(plan) });
    }
    all
}

/// A host, without what it counted.
pub fn host(plan: &HostPlan) -> Node {
    let addresses = plan.addresses.iter().map(|(a, len)| format!("{a}/{len}"));
    Node {
        name: plan.name.clone(),
        kind: NodeKind::Host,
        about: plan.addresses.first().map_or("host".into(), |(a, _)| a.to_string()),
        up: true,
        facts: addresses.chain([plan.mac.to_string()]).collect(),
        ports: Vec::new(),
        ledger: None,
        queued: None,
    }
}

/// Flows, and how long their packets took.
fn flows(desk: &mut Desk<'_>) -> (Vec<Flow>, Vec<Histogram>) {
    let topology = desk.topology;
    let outcomes = desk.lab.outcomes();
    let name = |at: usize| topology.hosts.get(at).map_or("", |h| h.name.as_str()).to_owned();
    let (mut flows, mut times) = (Vec::new(), Vec::new());
    for (at, (entry, outcome)) in topology.traffic.iter().zip(outcomes).enumerate().take(SHOWN_MAX)
    {
        let Some(outcome) = outcome else { continue };
        let flow = Flow {
            name: format!("{} {}", at + 1, topology.traffic_name(at)),
            kind: entry.kind.name().into(),
            from: name(entry.from),
            to: name(entry.to),
            ..counted(&outcome)
        };
        if let Some(spread) = spread(&outcome).filter(|s| s.count > 0) {
            let bounds = CLASSES_US.iter().map(|us| Some(us * 1000));
            times.push(Histogram {
                name: format!("times, {}", flow.timed),
                of: flow.name.clone(),
                unit: "ns".into(),
                bounds: bounds.chain([None]).collect(),
                counts: spread.classes.into(),
            });
        }
        flows.push(flow);
    }
    (flows, times)
}

/// Distribution of the times that were measured, if any were.
const fn spread(outcome: &Outcome) -> Option<&Spread> {
    match outcome {
        Outcome::Ping(p) => Some(&p.round_trip),
        Outcome::Udp(u) => Some(&u.latency),
        Outcome::Http(h) => Some(&h.duration),
        Outcome::Tcp(_) => None,
    }
}

/// Counters of a flow, without its names.
fn counted(outcome: &Outcome) -> Flow {
    let mean = spread(outcome).and_then(Spread::mean);
    let time_ns = mean.and_then(|m| u64::try_from(m.as_nanos()).ok());
    let (unit, sent, received, timed, more) = match outcome {
        Outcome::Ping(p) => {
            let more = vec![("copies", p.duplicates), ("not sent", p.refused)];
            ("echoes", p.sent, p.received, "round trip", more)
        }
        Outcome::Udp(u) => {
            let more = vec![
                ("copies", u.duplicates),
                ("late", u.reordered),
                ("broken", u.broken),
                ("not sent", u.refused),
            ];
            ("datagrams", u.sent, u.received, "one way", more)
        }
        Outcome::Tcp(t) => {
            let more = vec![("broken", u64::from(t.broken)), ("complete", u64::from(t.complete))];
            ("octets", t.sent, t.received, "", more)
        }
        Outcome::Http(h) => {
            let more = vec![("octets", h.octets), ("broken", h.broken)];
            ("transfers", h.requests, h.intact, "transfer", more)
        }
    };
    let more = more.into_iter().filter(|m| m.1 > 0).map(|(k, n)| (k.to_owned(), n)).collect();
    Flow {
        name: String::new(),
        kind: String::new(),
        from: String::new(),
        to: String::new(),
        unit: unit.into(),
        sent,
        received,
        more,
        time_ns,
        timed: timed.into(),
    }
}
