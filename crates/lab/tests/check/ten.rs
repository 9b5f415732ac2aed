//! The ten-node network of the campaign.

use ferrule_base::{Duration, Instant, MacAddr, Secret};
use ferrule_lab::check::watch::Line;
use ferrule_lab::check::{Built, Case, FlowSeen, NodePlan, Shape, Subject};
use ferrule_lab::host::{Flow, Host, HostConfig, Outcome, Schedule, payload};
use ferrule_lab::{DeviceId, End, LabError, LinkSpec, Network, Profile, StationId};
use ferrule_node::Config;
use std::net::IpAddr;

const NODES: [(&str, &str); 10] = [
    ("ce1", include_str!("nodes/ce1.toml")),
    ("ce2", include_str!("nodes/ce2.toml")),
    ("sw1", include_str!("nodes/sw1.toml")),
    ("sw2", include_str!("nodes/sw2.toml")),
    ("gw1", include_str!("nodes/gw1.toml")),
    ("gw2", include_str!("nodes/gw2.toml")),
    ("pe1", include_str!("nodes/pe1.toml")),
    ("pe2", include_str!("nodes/pe2.toml")),
    ("p1", include_str!("nodes/p1.toml")),
    ("p2", include_str!("nodes/p2.toml")),
];

/// Hosts: addresses, routers.
const HOSTS: [(&str, [&str; 2], &[&str]); 4] = [
    ("h1", ["10.9.0.1", "2001:db8:9::1"], &[]),
    ("h2", ["10.9.0.2", "2001:db8:9::2"], &[]),
    ("h3", ["10.1.0.9", "2001:db8:1::9"], &["10.1.0.1", "2001:db8:1::1"]),
    ("h4", ["10.2.0.9", "2001:db8:2::9"], &["10.2.0.1", "2001:db8:2::1"]),
];

/// Links: the first four are in the customers' buildings.
const LINKS: [(&str, &str); 13] = [
    ("h1", "ce1:lan"),
    ("h2", "ce2:lan"),
    ("h3", "sw1:lan"),
    ("h4", "sw2:lan"),
    ("ce1:wan", "pe1:ac"),
    ("pe1:core", "p1:edge"),
    ("p1:core", "p2:core"),
    ("p2:edge", "pe2:core"),
    ("pe2:ac", "ce2:wan"),
    ("sw1:up", "gw1:lan"),
    ("gw1:wan", "pe1:gw"),
    ("gw2:wan", "pe2:gw"),
    ("sw2:up", "gw2:lan"),
];
const INSIDE: usize = 4;

/// Traffic: from, to, IPv6, octets, packets in a second; the last ones ping.
const FLOWS: [(usize, usize, bool, usize, u64); 8] = [
    (0, 1, false, 90, 4000),
    (1, 0, false, 1514, 1500),
    (0, 1, true, 333, 2500),
    (2, 3, false, 100, 4000),
    (3, 2, false, 1514, 1500),
    (2, 3, true, 512, 2500),
    (1, 0, false, 98, 500),
    (2, 3, false, 98, 500),
];
const PINGS: usize = 6;

/// When hosts begin: IPv6 addresses are no longer tentative, and an edge of each
/// replay window is kept soon afterwards.
pub const START: Instant = Instant::from_millis(2980);

/// The network.
pub struct Ten {
    nodes: Vec<NodePlan>,
    length: Duration,
}

/// Keys from words, each with as many octets as the word's kind needs.
fn key(path: &str) -> Result<Secret, String> {
    let word = path.strip_prefix("word:").ok_or("no such key file")?;
    let octets = |salt: u8, len: usize| {
        let mut out = vec![0; len];
        let start = word.bytes().fold(u64::from(salt), |n, b| n.wrapping_mul(257) + u64::from(b));
        ferrule_base::Rng::new(start).fill(&mut out);
        out.iter().map(|o| format!("{o:02x}")).collect::<String>()
    };
    let salt = match &word[..2] {
        "sw" => format!("salt {}", octets(1, 12)),
        "es" => format!("salt {}", octets(1, 4)),
        _ => String::new(),
    };
    Ok(Secret::new(format!("cipher {}\n{salt}", octets(0, 16)).into_bytes()))
}

impl Ten {
    pub fn new(length: Duration) -> Self {
        let plan = |&(name, text): &(&str, &str)| {
            let config = Config::parse(name, &text.replace("lab:", "word:"), &mut key)
                .unwrap_or_else(|e| panic!("{e}"));
            NodePlan { name: name.into(), config, profile: Profile::ideal() }
        };
        Self { nodes: NODES.iter().map(plan).collect(), length }
    }

    pub fn place(&self, name: &str) -> usize {
        self.nodes.iter().position(|n| n.name == name).expect("a node of this name")
    }
}

fn address(host: usize, v6: bool) -> IpAddr {
    HOSTS[host].1[usize::from(v6)].parse().expect("an address")
}

fn host(number: usize, seed: u64) -> Host {
    let addresses = [(address(number, false), 24), (address(number, true), 64)];
    Host::new(HostConfig {
        mac: MacAddr([2, 0xfe, 0, 0, 0, number as u8]),
        addresses: addresses.to_vec(),
        gateways: HOSTS[number].2.iter().map(|g| g.parse().expect("an address")).collect(),
        mtu: 1500,
        rate: Some(1_000_000_000),
        seed,
    })
}

impl Subject for Ten {
    fn nodes(&self) -> &[NodePlan] {
        &self.nodes
    }

    fn shape(&self) -> Shape {
        Shape {
            start_ns: START.as_nanos(),
            length_ns: self.length.as_nanos() as u64,
            flows: FLOWS.len(),
            links: (INSIDE..LINKS.len()).collect(),
            nodes: (0..self.nodes.len()).collect(),
        }
    }

    fn build(
        &self,
        case: &Case,
        network: &mut Network,
        nodes: &[DeviceId],
    ) -> Result<Built, LabError> {
        let mut hosts: Vec<Host> = (0..HOSTS.len()).map(|h| host(h, case.seed)).collect();
        for &number in &case.flows {
            let (from, to, v6, octets, rate) = FLOWS[number];
            let flow = Flow { number: number as u32, to: address(to, v6) };
            let schedule = Schedule::per_second(rate).within(case.start(), case.end(), None);
            if number >= PINGS {
                hosts[from].ping(flow, octets, schedule);
            } else {
                hosts[from].send_datagrams(flow, octets, schedule);
                hosts[to].count_datagrams(flow);
            }
        }
        let stations: Vec<StationId> = hosts
            .into_iter()
            .enumerate()
            .map(|(n, host)| network.station(HOSTS[n].0, Box::new(host)))
            .collect();
        let mut lines = Vec::new();
        for (place, (a, b)) in LINKS.into_iter().enumerate() {
            let find = |end: &'static str| match end.split_once(':') {
                Some((node, port)) => {
                    let at = self.place(node);
                    let ports = &self.nodes[at].config.ports;
                    let index = ports.iter().position(|p| p.name == port).expect("a port");
                    (End::Device(nodes[at], port), Some((nodes[at], index)))
                }
                None => {
                    let at = HOSTS.iter().position(|h| h.0 == end).expect("a host");
                    (End::Station(stations[at], 0), None)
                }
            };
            let (a, b) = (find(a), find(b));
            let spec = LinkSpec {
                rate: Some(1_000_000_000),
                delay: Duration::from_micros(20),
                ..LinkSpec::default()
            };
            let id = network.link(spec, a.0, b.0)?;
            let name = network.link_name(id).to_owned();
            lines.push(Line { name, outside: place >= INSIDE, senders: [a.1, b.1] });
        }
        Ok(Built { lines, mark: payload::MARK.to_vec() })
    }

    fn flows(&self, case: &Case, network: &mut Network) -> Vec<FlowSeen> {
        let mut seen = Vec::new();
        for &number in &case.flows {
            let (from, to, ..) = FLOWS[number];
            let receiver = if number >= PINGS { from } else { to };
            let Some(host) = network.station_mut::<Host>(StationId(receiver)) else { continue };
            let (name, protected) = (format!("{} to {}", HOSTS[from].0, HOSTS[to].0), true);
            seen.push(match host.outcome(number as u32) {
                Some(Outcome::Udp(u)) => FlowSeen {
                    name,
                    protected,
                    received: u.received,
                    duplicates: u.duplicates,
                    reordered: u.reordered,
                    broken: u.broken,
                },
                Some(Outcome::Ping(p)) => FlowSeen {
                    name,
                    protected,
                    received: p.received,
                    duplicates: p.duplicates,
                    ..FlowSeen::default()
                },
                _ => continue,
            });
        }
        seen
    }
}
