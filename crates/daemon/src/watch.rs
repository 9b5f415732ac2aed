//! View of a node for the dashboard: a [`Report`] and its configuration in the words of
//! `ferrule-state/1`. The laboratory shows each of its nodes so, too.
//!
//! A live node sees its own ports and no further. So its surroundings are drawn as far as they are
//! known: behind each port a network, with the neighbours that were heard there; behind each tunnel
//! the other end.

use crate::fault::Fault;
use crate::report::{LedgerView, MacsecView, PortView, Report, SaView};
use crate::runtime::Board;
use ferrule_dashboard::Dashboard;
use ferrule_dashboard::state::{
    Count, Dropped, End, Event, Kind, Ledger, Link, LinkKind, Node, NodeKind, Port, SCHEMA, Sa,
    State, Way,
};
use ferrule_node::config::{Config, Replay};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;

/// Neighbours that a network is shown with at most.
const NEIGHBOURS_MAX: usize = 8;
/// Networks and peers that are drawn around a node at most, of each.
const AROUND_MAX: usize = 64;

/// Serves a live node's dashboard; the main thread is woken when a page asks.
pub(crate) fn serve(listener: TcpListener, board: &Arc<Board>) -> Result<Dashboard, Fault> {
    let board = board.clone();
    Dashboard::serve(listener, move || board.control.wake().wake())
        .map_err(|e| Fault::environment(format!("dashboard: {e}"), "leave --web out"))
}

/// The node itself.
pub fn node(report: &Report, config: &Config) -> Node {
    let mut facts = Vec::new();
    for interface in &config.interfaces {
        let addresses: Vec<_> =
            interface.addresses.iter().map(|(a, len)| format!("{a}/{len}")).collect();
        if !addresses.is_empty() {
            facts.push(format!("{} {}", interface.name, addresses.join(" ")));
        }
    }
    facts.extend(config.bridges.iter().map(|b| format!("bridge {}", b.name)));
    facts.extend(config.pseudowires.iter().map(|p| format!("pseudowire {}", p.name)));
    Node {
        name: report.node.clone(),
        kind: NodeKind::Node,
        about: role(config),
        up: true,
        facts,
        ports: report.ports.iter().map(port).collect(),
        ledger: Some(ledger(&report.ledger)),
        queued: None,
    }
}

/// Role of a node, in a few words.
fn role(config: &Config) -> String {
    let does = [
        (!config.tunnels.is_empty(), "ESP gateway"),
        (!config.secys.is_empty(), "MACsec"),
        (!config.pseudowires.is_empty(), "pseudowires"),
        (!config.labels.is_empty(), "MPLS"),
        (!config.bridges.is_empty(), "bridge"),
        (!config.routes.is_empty(), "router"),
    ];
    let does: Vec<_> = does.into_iter().filter(|d| d.0).map(|d| d.1).take(3).collect();
    if does.is_empty() { "node".into() } else { does.join(", ") }
}

fn port(p: &PortView) -> Port {
    Port {
        name: p.name.clone(),
        about: format!("{} {}", p.driver, p.device).trim().to_owned(),
        mac: p.mac.clone(),
        mtu: Some(p.mtu as u64),
        up: p.up,
        rx: Count { packets: p.rx_packets, octets: p.rx_octets },
        tx: Count { packets: p.tx_packets, octets: p.tx_octets },
        missed: p.rx_missed + p.rx_refused,
        failed: p.tx_failed,
    }
}

fn ledger(l: &LedgerView) -> Ledger {
    Ledger {
        received: l.received,
        made: l.made,
        sent: l.sent,
        consumed: l.consumed,
        dropped: l.dropped,
        held: l.held,
    }
}

/// Its security associations.
pub fn sas(report: &Report, config: &Config) -> Vec<Sa> {
    let esp = report.sas.iter().map(|sa| esp(&report.node, sa, config));
    esp.chain(report.macsec.iter().map(|sa| macsec(&report.node, sa, config))).collect()
}

/// The last number, and the window if replay is checked by one.
fn limits(wide: bool, window: u32, inbound: bool) -> (u64, Option<u64>) {
    let limit = if wide { u64::MAX } else { u64::from(u32::MAX) };
    (limit, (inbound && window > 0).then_some(u64::from(window)))
}

fn esp(node: &str, sa: &SaView, config: &Config) -> Sa {
    let tunnel = config.tunnels.iter().find(|t| t.name == sa.tunnel);
    let (esn, window) = tunnel.map_or((false, 0), |t| (t.esn, t.window));
    let (limit, window) = limits(esn, window, sa.way == "in");
    let faults = [
        ("replay", sa.replays),
        ("bad ICV", sa.bad_icv),
        ("refused", sa.refused),
        ("failed", sa.failed),
    ];
    Sa {
        node: node.into(),
        protocol: "esp".into(),
        name: sa.tunnel.clone(),
        way: sa.way.clone(),
        id: sa.spi.clone(),
        suite: if esn { format!("{} esn", sa.suite) } else { sa.suite.clone() },
        number: sa.number,
        limit,
        window,
        packets: sa.packets,
        octets: Some(sa.octets),
        faults: faults.into_iter().filter(|f| f.1 > 0).map(|(k, n)| (k.into(), n)).collect(),
    }
}

fn macsec(node: &str, sa: &MacsecView, config: &Config) -> Sa {
    let secy = config.secys.iter().find(|s| config.ports[s.port].name == sa.port);
    let xpn = secy.is_some_and(|s| s.entity.xpn);
    let checked = secy.filter(|s| s.entity.replay != Replay::Off);
    let (limit, mut window) = limits(xpn, 1, sa.way == "rx");
    // A window of 0 is a strict one here: nothing may come late.
    window = window.and(checked.map(|s| u64::from(s.entity.window)));
    // One fate is counted for each frame; those that did what is wanted are named.
    let good = ["InPktsOK", "OutPktsEncrypted", "OutPktsProtected"];
    let octets = ["InOctetsValidated", "InOctetsDecrypted"];
    let octets_out = ["OutOctetsEncrypted", "OutOctetsProtected"];
    let sum = |names: &[&str]| names.iter().filter_map(|n| sa.counters.get(*n)).sum::<u64>();
    let is_fault = |name: &str| {
        !good.contains(&name) && !octets.contains(&name) && !octets_out.contains(&name)
    };
    let faults: BTreeMap<_, _> = sa
        .counters
        .iter()
        .filter(|(name, _)| is_fault(name))
        .map(|(k, v)| (k.clone(), *v))
        .collect();
    let suite = secy.map_or_else(String::new, |s| {
        let xpn = if s.entity.xpn { " xpn" } else { "" };
        let open = if s.entity.encrypt { "" } else { ", integrity only" };
        format!("{}{xpn}{open}", s.entity.suite)
    });
    let out = sa.way == "tx";
    Sa {
        node: node.into(),
        protocol: "macsec".into(),
        name: sa.port.clone(),
        way: if out { "out" } else { "in" }.into(),
        id: format!("{} AN {}", sa.sci, sa.an),
        suite,
        number: if out { sa.next_pn } else { sa.next_pn.saturating_sub(1) },
        limit,
        window,
        packets: sum(&good),
        octets: Some(sum(&octets) + sum(&octets_out)),
        faults,
    }
}

/// Drops of the node, and of the cards in its ports. All have the node as their place; the reason
/// names the card.
pub fn drops(report: &Report) -> Vec<Dropped> {
    let view = |reason: String, d: &crate::report::DropView| Dropped {
        place: report.node.clone(),
        reason,
        about: d.about.clone(),
        packets: d.packets,
    };
    let own = report.drops.iter().map(|d| view(d.reason.clone(), d));
    let of_cards = report.cards.iter().flat_map(|card| {
        let reason = |d: &crate::report::DropView| format!("{} (card of {})", d.reason, card.port);
        card.drops.iter().map(|d| view(reason(d), d)).collect::<Vec<_>>()
    });
    own.chain(of_cards).collect()
}

/// A live node with what is known of its surroundings.
pub fn live(report: &Report, config: &Config) -> State {
    let mut nodes = vec![node(report, config)];
    let mut links = Vec::new();
    let mut names = Names::new(&report.node);
    let mut networks = Vec::new();
    for p in report.ports.iter().take(AROUND_MAX) {
        let network = network(report, config, p, &mut names);
        links.push(wire(&report.node, p, &network.name));
        networks.push((p.name.clone(), network.name.clone()));
        nodes.push(network);
    }
    for tunnel in config.tunnels.iter().take(AROUND_MAX) {
        let peer = tunnel.remote.to_string();
        if !nodes.iter().any(|n| n.name == peer) {
            nodes.push(around(peer.clone(), NodeKind::Peer, "tunnel's other end", true));
        }
        let port = &config.ports[config.interfaces[tunnel.via.interface].port].name;
        links.push(self::tunnel(report, &tunnel.name, port, &peer));
    }
    State {
        schema: SCHEMA.into(),
        kind: Kind::Live,
        name: report.node.clone(),
        about: format!("{}, {} worker{}", role(config), report.workers, plural(report.workers)),
        now_ns: report.uptime_ms.saturating_mul(1_000_000),
        run: None,
        commands: Vec::new(),
        sas: sas(report, config),
        drops: drops(report),
        histograms: Vec::new(),
        flows: Vec::new(),
        events: events(report),
        nodes,
        links,
    }
}

const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn events(report: &Report) -> Vec<Event> {
    let said = report.failures.iter().enumerate();
    said.map(|(i, text)| Event { number: i as u64, at_ns: None, text: text.clone() }).collect()
}

/// Names that are taken.
struct Names(Vec<String>);

impl Names {
    fn new(first: &str) -> Self {
        Self(vec![first.into()])
    }

    /// `wanted`, or if that is taken, with the port's name behind it.
    fn make(&mut self, wanted: String, port: &str) -> String {
        let name = if self.0.contains(&wanted) { format!("{wanted} ({port})") } else { wanted };
        self.0.push(name.clone());
        name
    }
}

fn around(name: String, kind: NodeKind, about: &str, up: bool) -> Node {
    let (facts, ports) = (Vec::new(), Vec::new());
    Node { name, kind, about: about.into(), up, facts, ports, ledger: None, queued: None }
}

/// Network behind a port, named by its prefix if it has one.
fn network(report: &Report, config: &Config, p: &PortView, names: &mut Names) -> Node {
    let at_port = |i: &&ferrule_node::config::InterfaceConfig| config.ports[i.port].name == p.name;
    let interfaces: Vec<_> = config.interfaces.iter().filter(at_port).collect();
    let prefix = interfaces.iter().flat_map(|i| &i.addresses).next();
    let wanted =
        prefix.map_or_else(|| format!("{} network", p.name), |(a, len)| network_of(*a, *len));
    let mut network = around(names.make(wanted, &p.name), NodeKind::Network, "", p.up);
    network.about = format!("behind {}", p.name);
    let known =
        report.neighbours.iter().filter(|n| interfaces.iter().any(|i| i.name == n.interface));
    network.facts =
        known.take(NEIGHBOURS_MAX).map(|n| format!("{} {}", n.address, n.mac)).collect();
    network
}

/// `192.0.2.1/24` is in `192.0.2.0/24`.
fn network_of(address: std::net::IpAddr, len: u8) -> String {
    use std::net::IpAddr;
    let network: IpAddr = match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(len.into())).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(a) & mask).into()
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(len.into())).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(a) & mask).into()
        }
    };
    format!("{network}/{len}")
}

fn wire(node: &str, p: &PortView, network: &str) -> Link {
    Link {
        name: p.name.clone(),
        kind: LinkKind::Wire,
        ends: [
            End { node: node.into(), port: p.name.clone() },
            End { node: network.into(), port: String::new() },
        ],
        up: p.up,
        outside: false,
        rate_bps: None,
        delay_ns: None,
        loss: None,
        ways: [
            Way { packets: p.tx_packets, octets: p.tx_octets, lost: p.tx_failed, queued: 0 },
            Way {
                packets: p.rx_packets,
                octets: p.rx_octets,
                lost: p.rx_missed + p.rx_refused,
                queued: 0,
            },
        ],
    }
}

fn tunnel(report: &Report, tunnel: &str, port: &str, peer: &str) -> Link {
    let way = |way: &str| {
        let mut all = Way::default();
        for sa in report.sas.iter().filter(|s| s.tunnel == tunnel && s.way == way) {
            all.packets += sa.packets;
            all.octets += sa.octets;
            all.lost += sa.replays + sa.bad_icv + sa.refused + sa.failed;
        }
        all
    };
    Link {
        name: format!("tunnel {tunnel}"),
        kind: LinkKind::Tunnel,
        ends: [
            End { node: report.node.clone(), port: port.into() },
            End { node: peer.into(), port: String::new() },
        ],
        up: true,
        outside: true,
        rate_bps: None,
        delay_ns: None,
        loss: None,
        ways: [way("out"), way("in")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_networks_are_named_by_their_prefix() {
        let name = |address: &str, len| network_of(address.parse().unwrap(), len);
        assert_eq!(name("192.0.2.77", 24), "192.0.2.0/24");
        assert_eq!(name("192.0.2.77", 32), "192.0.2.77/32");
        assert_eq!(name("192.0.2.77", 0), "0.0.0.0/0");
        assert_eq!(name("2001:db8::7", 64), "2001:db8::/64");
        assert_eq!(name("2001:db8::7", 0), "::/0");
        let mut names = Names::new("gw");
        assert_eq!(names.make("10.0.0.0/8".into(), "lan"), "10.0.0.0/8");
        assert_eq!(names.make("10.0.0.0/8".into(), "wan"), "10.0.0.0/8 (wan)");
    }
}
