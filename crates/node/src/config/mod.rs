//! The configuration: TOML, parsed once into types that cannot be wrong.
//!
//! ```text
//!   text ─▶ raw (what keys exist) ─▶ check ─▶ Config ─▶ compile ─▶ tables, SAs
//!                                      └─▶ ConfigError: all problems, with places
//! ```
//!
//! Names are resolved to indices here; nothing further in looks up a name, and
//! nothing checks a length or a reference again. Key files are read through
//! [`KeySource`], for this crate has no file system.

mod acl;
mod cross;
mod describe;
mod difference;
mod error;
mod inline;
mod ipsec;
mod keys;
mod life;
mod links;
mod mka;
mod names;
mod place;
mod placed;
mod policy;
mod raw;
mod read;
mod schema;
mod secure;
mod token;
mod traffic;

pub use acl::{AclConfig, AclEntryConfig};
pub use describe::{reference, schema};
pub use difference::{Change, Difference, ValueChange, differences};
pub use error::{ConfigError, Problem};
pub use keys::{KeySource, LAB_KEY, cak, key_of_suite, named_key, sak};
pub(crate) use names::{Connected, Ways, is_host, is_unicast};
pub use place::{LookAsideConfig, Otherwise, Placement};
pub use policy::{PolicyAction, PolicyConfig};
pub(crate) use read::mask;
pub use token::{TOKEN_KEY, TOKEN_PROFILES, TokenConfig};
pub use traffic::Traffic;

use ferrule_base::{Duration, MacAddr, Secret};
use ferrule_crypto::{KeySpec, Suite};

pub use ferrule_dataplane::ipsec::{
    Encap, Fragment, Lifetime, Lifetimes, Mode, Outside, Overhead, SaProtocol, Tfc,
};
pub use ferrule_dataplane::macsec::{Replay, SecyConfig, Validate};
use ferrule_dataplane::route::{SourceCheck, TtlModel};
use ferrule_dataplane::sequence;
use ferrule_wire::mkpdu::Ckn;
use ferrule_wire::{EtherType, Protocol};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use strum::{IntoStaticStr, VariantArray};

/// How many numbers of a static key may be reserved at a time; the most is what
/// is taken if nothing is said. Fewer mean fewer skipped by a crash, and more
/// writing: at a million packets a second the least are 8,000 writes.
pub const RESERVE: RangeInclusive<u64> = sequence::RESERVE_MIN..=sequence::RESERVE;

/// A whole node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// The core of each worker; nothing: wherever the scheduler likes.
    pub cores: Vec<Option<usize>>,
    /// Packet buffers.
    pub buffers: usize,
    /// Octets of each.
    pub buffer_size: usize,
    /// Folder for counters that must survive a restart.
    pub state: Option<String>,
    /// Numbers of a static key that are reserved there at a time: at most so
    /// many are skipped by a crash. Within [`RESERVE`].
    pub reserve: u64,
    /// Path of the management socket.
    pub control: Option<String>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The user that the node becomes once its ports are open.
    pub user: Option<String>,
    /// Devices that it may open ports on as that user, beside those of its ports.
    pub devices: Vec<String>,
    /// The group whose members may look at the node.
    pub monitors: Option<String>,
    /// UDP ports of its own addresses that are for keying programs.
    pub keying_ports: Vec<u16>,
    /// A capture may have the keys of tunnels.
    pub key_log: bool,
    /// How events are written.
    pub log: LogFormat,
    /// A laboratory node: may use what a standard forbids on a live network.
    pub lab: bool,
    /// Workers add up where their time goes, which costs some of it.
    pub times: bool,
    /// Ports.
    pub ports: Vec<PortConfig>,
    /// Routed interfaces.
    pub interfaces: Vec<InterfaceConfig>,
    /// Bridges.
    pub bridges: Vec<BridgeConfig>,
    /// Routing tables by name; the first is the global one, named "".
    pub vrfs: Vec<String>,
    /// Routes.
    pub routes: Vec<RouteConfig>,
    /// Incoming labels, but for those of pseudowires.
    pub labels: Vec<LabelConfig>,
    /// Pseudowires.
    pub pseudowires: Vec<PseudowireConfig>,
    /// SecYs.
    pub secys: Vec<MacsecConfig>,
    /// Pairs of SAs: all tunnels, then all in transport mode.
    pub tunnels: Vec<TunnelConfig>,
    /// Security policy, in order.
    pub policies: Vec<PolicyConfig>,
    /// Access lists.
    pub lists: Vec<AclConfig>,
    /// The engine for what is placed look-aside.
    pub look_aside: Option<LookAsideConfig>,
    /// The token for what is placed there.
    pub token: Option<TokenConfig>,
}

/// How a node that runs writes what happens to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people, to standard error.
    #[default]
    Text,
    /// Lines of JSON, to standard error.
    Json,
    /// Fields, to the journal of systemd.
    Journal,
    /// Not at all.
    None,
}

/// How a port reaches its wire.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Driver {
    /// AF_XDP on a device and queue.
    #[strum(serialize = "af-xdp")]
    Xdp {
        /// Device name.
        device: String,
        /// Hardware queue.
        queue: u32,
        /// This queue and the following ones, one for each worker.
        every_worker: bool,
        /// In the driver, in the stack, or what the device is best at.
        mode: XdpMode,
    },
    /// AF_PACKET on a device.
    #[strum(serialize = "af-packet")]
    Packet {
        /// Device name.
        device: String,
    },
    /// A TAP device.
    Tap(TapConfig),
    /// A TUN device: bare IP, Ethernet is added here.
    Tun(TapConfig),
    /// Frames from one capture file, to another.
    Pcap {
        /// File to read.
        read: Option<String>,
        /// File to write.
        write: Option<String>,
    },
    /// A virtual wire, joined by whoever drives the node.
    Wire,
}

impl Driver {
    /// The device, if there is one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Xdp { device, .. } | Self::Packet { device } => Some(device),
            Self::Tap(tap) | Self::Tun(tap) => Some(&tap.device),
            Self::Pcap { .. } | Self::Wire => None,
        }
    }

    /// True if each worker receives and transmits on the port.
    pub const fn is_everywhere(&self) -> bool {
        matches!(
            self,
            Self::Xdp { every_worker: true, .. }
                | Self::Tap(TapConfig { every_worker: true, .. })
                | Self::Tun(TapConfig { every_worker: true, .. })
        )
    }

    /// The name in configurations.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// An interface of the host's own stack, and what the host has there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapConfig {
    /// Device name.
    pub device: String,
    /// The host's addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Networks that the host reaches by it.
    pub routes: Vec<(IpAddr, u8)>,
    /// Super-frames in both directions.
    pub offload: bool,
    /// Each worker has a queue of its own.
    pub every_worker: bool,
}

/// Where an AF_XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum XdpMode {
    /// Generic on veth, else native where the driver can.
    Auto,
    /// In the driver.
    Native,
    /// In the stack.
    Generic,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name.
    pub name: String,
    /// How it reaches its wire.
    pub driver: Driver,
    /// Its address; nothing: the device's, or one made from the names.
    pub mac: Option<MacAddr>,
    /// Largest payload of a frame on the wire, as the device's MTU.
    pub mtu: usize,
    /// The worker that drives it.
    pub worker: usize,
}

/// A VLAN tag: TPID and VLAN ID.
pub type VlanTag = (u16, u16);

/// A routed interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Its name.
    pub name: String,
    /// Its port, by index.
    pub port: usize,
    /// Its tag.
    pub tag: Option<VlanTag>,
    /// Untagged frames are its, too, and it sends without tag.
    pub untagged: bool,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its table, by index.
    pub vrf: usize,
    /// Largest packet.
    pub mtu: usize,
    /// Labelled packets are accepted.
    pub mpls: bool,
    /// TCP's segments are held to `mtu`.
    pub clamp_mss: bool,
    /// Validation of the sources of what comes in.
    pub sources: Option<SourceCheck>,
    /// The access list for what comes in, by index.
    pub acl_in: Option<usize>,
    /// The access list for what leaves, by index.
    pub acl_out: Option<usize>,
}

/// A bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<MemberConfig>,
    /// Seconds for which an unused address is remembered.
    pub ageing_seconds: u32,
    /// Addresses it can learn.
    pub addresses: usize,
}

/// A member of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// The port, by index.
    pub port: usize,
    /// Only this VLAN of the port, untagged inside the bridge.
    pub tag: Option<VlanTag>,
    /// Untagged frames of the port are this VLAN inside the bridge.
    pub access: Option<u16>,
    /// The access list for frames that come in, by index.
    pub acl_in: Option<usize>,
    /// The access list for frames that leave, by index.
    pub acl_out: Option<usize>,
}

/// A way to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Via {
    /// The interface, by index.
    pub interface: usize,
    /// The neighbour; nothing: the destination itself.
    pub next_hop: Option<IpAddr>,
    /// Labels to push, the outermost first.
    pub labels: Vec<u32>,
    /// How TTL crosses them.
    pub ttl: TtlModel,
    /// An entropy label goes below the outermost.
    pub entropy: bool,
    /// Further ways of the same cost; each flow takes one.
    pub others: Vec<Via>,
}

impl Via {
    /// A way without labels.
    pub const fn new(interface: usize, next_hop: Option<IpAddr>) -> Self {
        Self {
            interface,
            next_hop,
            labels: Vec::new(),
            ttl: TtlModel::Uniform,
            entropy: false,
            others: Vec::new(),
        }
    }

    /// Octets of the labels that it pushes.
    pub fn labels_len(&self) -> usize {
        let entropy = if self.entropy { 2 } else { 0 };
        (self.labels.len() + entropy) * ferrule_wire::mpls::Header::LEN
    }

    /// Octets of the longest packet that fits below its labels, by every path.
    pub fn mtu(&self, interfaces: &[InterfaceConfig]) -> usize {
        let mtu = |path: Self| interfaces[path.interface].mtu.saturating_sub(path.labels_len());
        self.paths().map(mtu).min().unwrap_or(0)
    }

    /// The labels that it pushes, the outermost first, an entropy label's indicator among
    /// them.
    pub fn stack(&self) -> Vec<u32> {
        let mut labels = self.labels.clone();
        if self.entropy {
            let indicator = ferrule_wire::mpls::special::ENTROPY_INDICATOR;
            labels.insert(labels.len().min(1), indicator.get());
        }
        labels
    }

    /// This way and those of the same cost, each by itself.
    pub fn paths(&self) -> impl Iterator<Item = Self> + '_ {
        let first = Self { others: Vec::new(), ..self.clone() };
        std::iter::once(first).chain(self.others.iter().cloned())
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Its table, by index.
    pub vrf: usize,
    /// Network and prefix length.
    pub prefix: (IpAddr, u8),
    /// The way; nothing: discard.
    pub via: Option<Via>,
}

/// Treatment of an incoming label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelConfig {
    /// The label.
    pub label: u32,
    /// Pop or swap, and send there.
    pub action: LabelAction,
    /// How TTL crosses the label that is taken off.
    pub ttl: TtlModel,
}

/// Pop into a table, or forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelAction {
    /// An IP packet of this table follows.
    Ip(usize),
    /// Push `via.labels` (none: penultimate-hop popping) and send.
    Forward(Via),
}

impl Config {
    /// Interfaces, members of bridges and pseudowires that have an access list, in and out.
    pub fn places_of(&self, list: usize) -> [Vec<String>; 2] {
        [0, 1].map(|way| {
            let has = |lists: [Option<usize>; 2]| lists[way] == Some(list);
            let interfaces = self.interfaces.iter().filter(|i| has([i.acl_in, i.acl_out]));
            let members = self.bridges.iter().flat_map(|bridge| {
                let having = bridge.members.iter().filter(|m| has([m.acl_in, m.acl_out]));
                having.map(|m| self.member_name(bridge, m))
            });
            let circuits = self.pseudowires.iter().filter(|p| has([p.acl_in, p.acl_out]));
            let circuits = circuits.map(|p| p.name.clone());
            interfaces.map(|i| i.name.clone()).chain(members).chain(circuits).collect()
        })
    }

    /// The logical interface of a bridge's member: `lan:p0.7`.
    pub fn member_name(&self, bridge: &BridgeConfig, member: &MemberConfig) -> String {
        let port = &self.ports[member.port].name;
        match member.tag {
            Some((_, vid)) => format!("{}:{port}.{vid}", bridge.name),
            None => format!("{}:{port}", bridge.name),
        }
    }
}

/// A pseudowire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PseudowireConfig {
    /// Its name.
    pub name: String,
    /// The port of its attachment circuit, by index.
    pub port: usize,
    /// The VLAN of its attachment circuit.
    pub tag: Option<VlanTag>,
    /// The VLAN within that one, if frames of both are meant.
    pub inner: Option<VlanTag>,
    /// The label that arrives here.
    pub label_in: u32,
    /// The label that the other PE expects.
    pub label_out: u32,
    /// The way to the other PE; its labels are the transport labels.
    pub via: Via,
    /// A control word stands in front of the frame.
    pub control_word: bool,
    /// Sequence numbers are sent and checked.
    pub sequencing: bool,
    /// Tagged mode with this VLAN ID on the pseudowire; nothing: raw mode.
    pub tagged_mode: Option<u16>,
    /// TTL of its label.
    pub ttl: u8,
    /// The access list for frames from the attachment circuit, by index.
    pub acl_in: Option<usize>,
    /// The access list for frames to it, by index.
    pub acl_out: Option<usize>,
}

/// A SecY.
#[derive(Clone, Debug)]
pub struct MacsecConfig {
    /// Its port, by index.
    pub port: usize,
    /// Our SCI; nothing: the port's address and port number 1.
    pub sci: Option<u64>,
    /// All else that is configured of it; its SCI is to be made of `sci`.
    pub entity: SecyConfig,
    /// Where frames are protected and validated.
    pub placement: Placement,
    /// Key agreement; then there are no static associations.
    pub mka: Option<MkaConfig>,
    /// Our transmit associations; the first is used.
    pub transmit: Vec<MacsecSaConfig>,
    /// The peers' associations.
    pub receive: Vec<MacsecSaConfig>,
}

/// Key agreement on a port (MKA).
#[derive(Clone, Debug)]
pub struct MkaConfig {
    /// Pre-shared CAKs.
    pub caks: Vec<CakConfig>,
    /// Key server priority.
    pub priority: u8,
    /// Key server: a new SAK after this time.
    pub rekey: Option<Duration>,
    /// Frames pass in clear as long as there is no SAK.
    pub should_secure: bool,
    /// Bounded delay.
    pub delay_protect: bool,
    /// Destination of MKPDUs.
    pub destination: MacAddr,
    /// EtherType of MKPDUs.
    pub ethertype: EtherType,
}

/// A pre-shared CAK.
#[derive(Clone, Debug)]
pub struct CakConfig {
    /// Its name.
    pub ckn: Ckn,
    /// 16 or 32 octets.
    pub key: Secret,
}

/// A static secure association.
#[derive(Clone, Debug)]
pub struct MacsecSaConfig {
    /// The transmitter's SCI; nothing for our own.
    pub sci: Option<u64>,
    /// Association number.
    pub an: u8,
    /// The SAK; of one on the token, its name.
    pub key: Secret,
    /// Name of the key on the token.
    pub label: Option<String>,
    /// XPN: the 12-octet salt.
    pub salt: Secret,
    /// XPN: the short SCI.
    pub ssci: u32,
}

/// A pair of SAs: a tunnel between two gateways, or transport mode between two hosts.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// Its name.
    pub name: String,
    /// Our end.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// The suite.
    pub suite: Suite,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The replay window in packets; 0: off.
    pub window: u32,
    /// Largest inner packet.
    pub mtu: usize,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Tunnel or transport.
    pub mode: Mode,
    /// Path MTUs are learned from ICMP errors.
    pub learns: bool,
    /// When what is too long, and may be cut, is cut.
    pub fragment: Fragment,
    /// TCP's segments are held to what fits.
    pub clamp_mss: bool,
    /// The outer header of a tunnel.
    pub outside: Outside,
    /// In UDP.
    pub encap: Option<Encap>,
    /// The other end is followed to the address from which its packets come.
    pub follows: bool,
    /// Padding against traffic analysis.
    pub tfc: Tfc,
    /// Dummy packets in a second.
    pub dummies: u32,
    /// Octets to a multiple of which AH is padded over IPv4: 4 or 8.
    pub ah_align: u8,
    /// The pair of SAs around this one, by index.
    pub then: Option<usize>,
    /// Table of the inner packets, by index.
    pub vrf: usize,
    /// Where packets are sealed and opened.
    pub placement: Placement,
    /// The interface it leaves by, by index, as routes say.
    pub via: Via,
    /// The first worker to be asked where the file does not say whose an SA is.
    pub home: usize,
    /// Every worker seals, by numbers of one range, for a replay window of so many packets at
    /// the other end; 0: it has none.
    pub shared: Option<u32>,
    /// Its SAs are a keying program's, which gives and takes them while the node runs: the file
    /// has none.
    pub external: bool,
    /// To the other end, each at a worker of its own for what it has (RFC 9611).
    pub outbound: Vec<SaConfig>,
    /// From the other end, alike but for SPI and keys: while keys change, also those before and
    /// those to come.
    pub inbound: Vec<SaConfig>,
}

impl TunnelConfig {
    /// Every SA of both directions.
    pub(crate) fn sas_mut(&mut self) -> impl Iterator<Item = &mut SaConfig> {
        self.outbound.iter_mut().chain(&mut self.inbound)
    }

    /// Gives SAs of which the file does not say whose they are to workers: all to one, or,
    /// where there are several outbound ones, each to the next.
    pub(crate) fn spread(&mut self, workers: usize) {
        let workers = workers.max(1);
        let fixed = self.outbound.iter().filter(|sa| sa.fixed);
        let taken: Vec<usize> = fixed.map(|sa| sa.worker).collect();
        let (home, several) = (self.home, self.outbound.len() > 1);
        let mut free = (0..workers).map(|n| (home + n) % workers).filter(|n| !taken.contains(n));
        let out = self.outbound.iter_mut();
        out.filter(|sa| !sa.fixed).for_each(|sa| sa.worker = free.next().unwrap_or(home));
        for (n, sa) in self.inbound.iter_mut().enumerate().filter(|(_, sa)| !sa.fixed) {
            sa.worker = if several { (home + n) % workers } else { home };
        }
    }

    /// Octets around its packets.
    pub fn overhead(&self) -> Overhead {
        Overhead {
            protocol: self.protocol,
            suite: self.suite,
            mode: self.mode,
            v6: self.local.is_ipv6(),
            udp: self.encap.is_some(),
            ah_align: self.ah_align,
        }
    }

    /// Protocol of its packets, as in the IP header in front of them.
    pub fn carried(&self) -> Protocol {
        match (self.encap, self.protocol) {
            (Some(_), _) => Protocol::UDP,
            (None, SaProtocol::Esp) => Protocol::ESP,
            (None, SaProtocol::Ah) => Protocol::AH,
        }
    }
}

impl Config {
    /// True if the local end of a pair in transport mode is a host behind the node: the
    /// node does IPsec for that host (RFC 4301 section 3.3).
    pub fn guards(&self, pair: &TunnelConfig) -> bool {
        let own = |i: &InterfaceConfig| i.addresses.iter().any(|&(a, _)| a == pair.local);
        pair.mode == Mode::Transport && !self.interfaces.iter().any(own)
    }
}

/// One direction of a tunnel.
#[derive(Clone, Debug)]
pub struct SaConfig {
    /// SPI, 256 or above.
    pub spi: u32,
    /// Keys.
    pub keys: KeySpec,
    /// Salt of an AEAD.
    pub salt: Secret,
    /// The worker that has it.
    pub worker: usize,
    /// The configuration says which worker that is.
    pub fixed: bool,
    /// How long it lives.
    pub lifetimes: Lifetimes,
}

impl Config {
    /// Leaves SAs with the workers that have them where the file does not say whose they
    /// are: a tunnel that comes or goes moves no other one.
    pub(crate) fn stay_with(&mut self, old: &Self) {
        let before: HashMap<&str, &TunnelConfig> =
            old.tunnels.iter().map(|tunnel| (tunnel.name.as_str(), tunnel)).collect();
        for tunnel in &mut self.tunnels {
            let Some(before) = before.get(tunnel.name.as_str()) else { continue };
            tunnel.home = before.home;
            tunnel.spread(self.cores.len());
            // An inbound SA stays with its window, whatever place it has among the others.
            for sa in &mut tunnel.inbound {
                let same = before.inbound.iter().find(|old| old.spi == sa.spi);
                if let (Some(old), false) = (same, sa.fixed) {
                    sa.worker = old.worker;
                }
            }
        }
    }

    /// Reads a configuration. All problems are found in one go.
    pub fn parse(
        file: &str,
        text: &str,
        keys: &mut dyn KeySource,
    ) -> Result<Self, Box<ConfigError>> {
        let read = schema::parse(text).and_then(|written| read::config(&written, keys, None));
        read.map_err(|mut problems| {
            problems.sort_by_key(|p| p.span.start);
            Box::new(ConfigError { file: file.into(), text: text.into(), problems })
        })
    }

    /// The configuration of a node of the laboratory. Its name may be missing, its
    /// ports are wires, and it may use what a standard forbids on a live network.
    pub fn of_lab(
        name: &str,
        written: &Written,
        keys: &mut dyn KeySource,
    ) -> Result<Self, Vec<Problem>> {
        read::config(&written.0, keys, Some(name))
    }
}

/// A configuration as it is written, not yet understood: a part of a larger file.
pub struct Written(raw::File);

impl Written {
    /// From a file of its own.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        schema::parse(text).map(Self)
    }

    /// From a table of a larger file.
    pub fn of(table: toml::Spanned<toml::de::DeValue<'_>>) -> Result<Self, Vec<Problem>> {
        schema::fit(table).map(Self)
    }
}
