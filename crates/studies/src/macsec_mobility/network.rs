//! The study's networks, as configurations of Ferrule's nodes.
//!
//! ```text
//!   provider:  tester ── CE1 ── PE1 ══ P ══ PE2 ── CE2 ── tester       tables 1 to 3
//!                         └───── MACsec or ESP ─────┘
//!   chain:     tester ── CE1 ── S1 ── S2 ── … ── Sn ── CE2 ── tester   figures 2 and 9
//!                         └ MACsec on each link, or ESP from end to end ┘
//! ```
//!
//! All links are full-duplex Ethernet of one rate. The provider's first link carries
//! a transport label and the pseudowire's, the second (after penultimate-hop popping)
//! the pseudowire's alone.

use super::profiles::Profiles;
use crate::options::Seed;
use ferrule_base::MacAddr;
use ferrule_lab::topology::LabKeys;
use ferrule_lab::{DeviceId, End, LinkId, LinkSpec, Network, Profile};
use ferrule_node::Config;
use ferrule_node::config::Written;
use std::fmt::Write;

/// Function of the customer edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// The edges bridge.
    Plain,
    /// The edges bridge under MACsec (GCM-AES-128).
    Macsec,
    /// The edges route under ESP (AES-128-CBC, HMAC-SHA1-96).
    Ipsec,
}

impl System {
    /// Every system, in the order of the study's tables.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Ipsec, Self::Macsec];

    /// As the study's file calls it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Macsec => "macsec",
            Self::Ipsec => "ipsec",
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Macsec => "MACsec",
            Self::Ipsec => "IPsec",
        }
    }

    /// Its change to a frame, in the grammar of `ferrule overhead`.
    pub const fn transform(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Macsec => "macsec sci gcm-aes-128",
            Self::Ipsec => "esp aes-cbc-128 hmac-sha1-96 tunnel",
        }
    }
}

/// The customer edges' addresses in their sites.
pub const LAN_MAC: [MacAddr; 2] =
    [MacAddr([2, 15, 225, 193, 1, 1]), MacAddr([2, 15, 225, 194, 1, 1])];
/// The tester's addresses.
pub const TESTER_MAC: [MacAddr; 2] =
    [MacAddr([2, 15, 225, 17, 1, 1]), MacAddr([2, 15, 225, 34, 1, 1])];
/// The VLAN of the study's frames.
pub const VLAN: u16 = 10;

const SPIS: [u32; 2] = [0x1000_0102, 0x1000_0201];
/// MTU of the sites.
const SITE_MTU: usize = 1500;
/// MTU of the customer's other ports: the sites' largest packets fit when sealed.
const MTU: usize = 1600;
/// MTU of the provider's ports: room for labels, control word and another Ethernet header.
const CORE_MTU: usize = 1700;

/// The study's own seed.
const SEED: u64 = 2019;
/// Packet buffers: more than all queues of the study hold.
const BUFFERS: usize = 4096;

/// The lines of a network.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Bits per second.
    pub rate: u64,
    /// Frames that wait for a line at most.
    pub queue: usize,
    /// Seed of the network that they are in.
    pub seed: Seed,
}

impl Lines {
    /// One of them.
    pub fn spec(&self) -> LinkSpec {
        LinkSpec { rate: Some(self.rate), queue: self.queue, ..LinkSpec::default() }
    }
}

/// A network that was built, and where to look at it.
pub struct Built {
    /// The network.
    pub network: Network,
    /// Its links from one tester port to the other.
    pub links: Vec<LinkId>,
    /// The nodes in the same order.
    pub devices: Vec<(String, DeviceId)>,
    /// Parameters that its lines share.
    pub lines: Lines,
}

fn config(name: &str, text: &str) -> Config {
    let problem = |problems: Vec<_>| -> Config { panic!("{name}: {problems:#?}\n{text}") };
    let written = match Written::parse(text) {
        Ok(written) => written,
        Err(problems) => return problem(problems),
    };
    Config::of_lab(name, &written, &mut LabKeys::default()).unwrap_or_else(problem)
}

/// The provider's network with the customer's edges.
pub fn provider(system: System, profiles: &Profiles, lines: Lines) -> Built {
    let edge = |side| match system {
        System::Ipsec => gateway(side),
        System::Plain => bridge(side, &[]),
        System::Macsec => bridge(side, &[secy("wan", side, 1 - side)]),
    };
    let nodes = vec![
        ("ce1".to_owned(), edge(0), profiles.edge(system, 0), ["lan", "wan"]),
        ("pe1".to_owned(), provider_edge(0), profiles.switch.clone(), ["ac", "core"]),
        ("p".to_owned(), core(), profiles.switch.clone(), ["left", "right"]),
        ("pe2".to_owned(), provider_edge(1), profiles.switch.clone(), ["core", "ac"]),
        ("ce2".to_owned(), edge(1), profiles.edge(system, 1), ["wan", "lan"]),
    ];
    assemble(nodes, lines)
}

/// Customer edges with so many switches between them.
pub fn chain(system: System, switches: usize, profiles: &Profiles, lines: Lines) -> Built {
    assemble(in_a_row(system, switches, profiles), lines)
}

/// The nodes of a chain, in order.
pub fn configurations(system: System, switches: usize) -> Vec<Config> {
    let nodes = in_a_row(system, switches, &Profiles::lines()).into_iter();
    nodes.map(|(name, text, ..)| config(&name, &text)).collect()
}

fn in_a_row(system: System, switches: usize, profiles: &Profiles) -> Vec<Node> {
    // Numbers of the secured ends along the chain: CE1, S1 left, S1 right, …, CE2.
    let edge = |side: usize| match system {
        System::Ipsec => gateway(side),
        System::Plain => bridge(side, &[]),
        System::Macsec => {
            let (own, peer) = if side == 0 { (0, 1) } else { (2 * switches + 1, 2 * switches) };
            bridge(side, &[secy("wan", own, peer)])
        }
    };
    let mut nodes = vec![("ce1".to_owned(), edge(0), profiles.edge(system, 0), ["lan", "wan"])];
    for number in 1..=switches {
        let (left, right) = (2 * number - 1, 2 * number);
        let secys = match system {
            System::Macsec => vec![secy("left", left, left - 1), secy("right", right, right + 1)],
            _ => Vec::new(),
        };
        let profile = match system {
            System::Macsec => profiles.macsec.clone(),
            _ => profiles.switch.clone(),
        };
        nodes.push((format!("s{number}"), switch(&secys), profile, ["left", "right"]));
    }
    nodes.push(("ce2".to_owned(), edge(1), profiles.edge(system, 1), ["wan", "lan"]));
    nodes
}

type Node = (String, String, Profile, [&'static str; 2]);

/// Nodes in a row, each with the ports towards the first and towards the last; the
/// tester's links are added by who has the tester.
fn assemble(nodes: Vec<Node>, lines: Lines) -> Built {
    let mut network = Network::with_buffers(lines.seed.of(SEED), BUFFERS);
    let mut devices: Vec<(String, DeviceId)> = Vec::new();
    let mut links = Vec::new();
    let mut before: Option<(DeviceId, &'static str)> = None;
    for (name, text, profile, [near, far]) in nodes {
        let id = network.node(&name, config(&name, &text), profile).expect("a node that builds");
        if let Some((last, port)) = before {
            let ends = (End::Device(last, port), End::Device(id, near));
            links.push(network.link(lines.spec(), ends.0, ends.1).expect("free ports"));
        }
        before = Some((id, far));
        devices.push((name, id));
    }
    Built { network, links, devices, lines }
}

fn port(name: &str, mac: Option<MacAddr>) -> String {
    let mtu = if name == "lan" { SITE_MTU } else { MTU };
    port_of(name, mac, mtu)
}

fn port_of(name: &str, mac: Option<MacAddr>, mtu: usize) -> String {
    let mac = mac.map(|mac| format!("mac = \"{mac}\"\n")).unwrap_or_default();
    format!("[[port]]\nname = \"{name}\"\nmtu = {mtu}\n{mac}")
}

fn bridge_of(ports: [&str; 2]) -> String {
    let members = ports.map(|port| format!("[[bridge.member]]\nport = \"{port}\"\n"));
    format!("[[bridge]]\nname = \"site\"\n{}", members.concat())
}

fn bridge(side: usize, secys: &[String]) -> String {
    // A bridge takes frames that all members can send: MACsec's are 32 octets longer.
    let sealed = if secys.is_empty() { 0 } else { 32 };
    let ports = port("lan", Some(LAN_MAC[side])) + &port_of("wan", None, SITE_MTU + sealed);
    ports + &bridge_of(["lan", "wan"]) + &secys.concat()
}

fn switch(secys: &[String]) -> String {
    port("left", None) + &port("right", None) + &bridge_of(["left", "right"]) + &secys.concat()
}

/// A SecY whose ends have these numbers along the way.
fn secy(port: &str, own: usize, peer: usize) -> String {
    let sci = |number: usize| format!("02:0f:e1:00:{:02x}:{:02x}/1", number / 256, number % 256);
    format!(
        "[[macsec]]\nport = \"{port}\"\ncipher = \"gcm-aes-128\"\nsci = \"{}\"\nsend-sci = true\n\
         [[macsec.transmit]]\nkey = \"lab:{own}-{peer}\"\n\
         [[macsec.receive]]\nsci = \"{}\"\nkey = \"lab:{peer}-{own}\"\n",
        sci(own),
        sci(peer)
    )
}

fn gateway(side: usize) -> String {
    let (own, far) = (side + 1, 2 - side);
    let mut text = port("lan", Some(LAN_MAC[side])) + &port("wan", None);
    let _ = write!(
        text,
        "[[interface]]\nname = \"lan\"\nport = \"lan\"\nvlan = {VLAN}\nuntagged = true\n\
         address = [\"10.0.{own}.1/24\"]\n\
         [[interface]]\nname = \"wan\"\nport = \"wan\"\naddress = [\"198.51.100.{own}/24\"]\n\
         [[route]]\nprefix = \"10.0.{far}.0/24\"\nvia = \"198.51.100.{far}\"\n\
         [[tunnel]]\nname = \"site\"\nlocal = \"198.51.100.{own}\"\nremote = \"198.51.100.{far}\"\n\
         suite = \"aes-cbc-128 hmac-sha1-96\"\n\
         [tunnel.out]\nspi = {}\nkey = \"lab:esp-{own}-{far}\"\n\
         [tunnel.in]\nspi = {}\nkey = \"lab:esp-{far}-{own}\"\n\
         [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"site\"\n\
         local = \"10.0.{own}.0/24\"\nremote = \"10.0.{far}.0/24\"\n",
        SPIS[side],
        SPIS[1 - side]
    );
    text
}

fn provider_edge(side: usize) -> String {
    let (address, via) = [("192.0.2.1", "192.0.2.2"), ("192.0.2.5", "192.0.2.6")][side];
    let (own, far) = (17_001 + side, 17_002 - side);
    port("ac", None)
        + &port_of("core", None, CORE_MTU)
        + &format!(
            "[[interface]]\nname = \"core\"\nport = \"core\"\naddress = [\"{address}/30\"]\n\
             mpls = true\n[[lsp]]\nname = \"far\"\nvia = \"{via}\"\nlabels = [{}]\n\
             [[pseudowire]]\nname = \"customer\"\nport = \"ac\"\nlsp = \"far\"\nlabel-in = {own}\n\
             label-out = {far}\ncontrol-word = true\n",
            16_002 - side
        )
}

fn core() -> String {
    let mut text = port_of("left", None, CORE_MTU) + &port_of("right", None, CORE_MTU);
    for (name, address) in [("left", "192.0.2.2"), ("right", "192.0.2.6")] {
        let _ = write!(
            text,
            "[[interface]]\nname = \"{name}\"\nport = \"{name}\"\naddress = [\"{address}/30\"]\n\
             mpls = true\n"
        );
    }
    for (label, via) in [(16_001, "192.0.2.1"), (16_002, "192.0.2.5")] {
        let _ = write!(text, "[[label]]\nlabel = {label}\npop = true\nvia = \"{via}\"\n");
    }
    text
}
