//! Topology files: a whole network as TOML, for virtual time and for network
//! namespaces alike.
//!
//! ```text
//!   file ─▶ sections (keys, each with its place) ─▶ Topology ─▶ Lab (virtual time)
//!     └ variant NAME replaces nodes and hosts        │  └────▶ configurations for `lab up`
//!                                                    └ TopologyError: all problems, with places
//! ```
//!
//! A node's configuration is that of `ferrule run`, in a file beside the topology
//! or inline, with ports that have neither driver nor device: what a port stands
//! on is a link of the topology. This crate has no file system: files are read
//! by the caller, through [`Files`].

mod build;
mod check;
mod entries;
mod error;
mod keys;
mod links;
pub mod live;
mod nodes;
mod pseudowires;
mod section;
mod shipped;
mod subject;
#[cfg(test)]
mod tests;
mod traffic;
pub mod units;

pub use build::{Lab, Setting};
pub use error::{Files, NoFiles, TopologyError};
pub use keys::{LabKeys, key_file, token_key};
pub use shipped::{SHIPPED, Shipped};
pub use subject::TopologySubject;

use crate::change::Change;
use crate::host::Schedule;
use crate::impair::Impairments;
use crate::link::LinkSpec;
use crate::network::{DeviceId, LinkId};
use crate::profile::Profile;
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_node::Config;
use std::net::IpAddr;

/// A network, ready to be built any number of times.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Its name.
    pub name: String,
    /// Description, in a sentence.
    pub about: String,
    /// The variant that was chosen.
    pub variant: Option<String>,
    /// Run time if none is given.
    pub runs_for: Duration,
    /// Ferrule nodes.
    pub nodes: Vec<Node>,
    /// Hosts.
    pub hosts: Vec<HostPlan>,
    /// Links.
    pub links: Vec<Link>,
    /// Traffic.
    pub traffic: Vec<Traffic>,
    /// Disturbances during the run.
    pub disturbances: Vec<Disturbance>,
}

/// A Ferrule node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Configuration of the node.
    pub config: Config,
    /// The configuration as it was written, for a node on real interfaces.
    pub written: toml::Table,
    /// The keys that it names, with the words and octets of each.
    pub keys: Vec<(String, Vec<(String, usize)>)>,
    /// The labels of its keys on a token, with the octets of each: the cipher key of
    /// the laboratory's key of that name.
    pub on_token: Vec<(String, usize)>,
    /// Costs of its work in virtual time.
    pub profile: Profile,
}

/// A host.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its link address.
    pub mac: MacAddr,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its default routers.
    pub gateways: Vec<IpAddr>,
    /// Octets of its largest packet.
    pub mtu: usize,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// A host, by index.
    Host(usize),
    /// A node, by index, and its port.
    Node(usize, String),
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name: as given, or the names of what it joins with a hyphen between.
    pub name: String,
    /// Both ends.
    pub ends: [LinkEnd; 2],
    /// Rate, delay, queue, impairments.
    pub spec: LinkSpec,
    /// An untrusted link: no payload of a host may show there.
    pub outside: bool,
}

/// Kinds of traffic entries.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Echo requests in frames of so many octets.
    Ping(usize, Schedule),
    /// Datagrams in frames of so many octets.
    Udp(usize, Schedule),
    /// A stream of so many octets, or as many as there is time for.
    Tcp(Option<u64>),
    /// So many transfers of so many octets.
    Http(u64, u64),
}

impl Kind {
    /// The word in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping(..) => "ping",
            Self::Udp(..) => "udp",
            Self::Tcp(_) => "tcp",
            Self::Http(..) => "http",
        }
    }
}

/// A traffic entry.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Kind of traffic.
    pub kind: Kind,
    /// The host that begins, by index.
    pub from: usize,
    /// The other host, by index.
    pub to: usize,
    /// The address of that host.
    pub address: IpAddr,
    /// When it begins.
    pub start: Instant,
    /// When it ends; nothing: with the run.
    pub stop: Option<Instant>,
    /// Packets at most.
    pub count: Option<u64>,
    /// Octets of TCP windows.
    pub window: usize,
}

/// Something that happens once.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// Time of the disturbance.
    pub at: Instant,
    /// Kind of disturbance.
    pub what: Upset,
}

/// Kinds of disturbances.
#[derive(Clone, Debug)]
pub enum Upset {
    /// A link goes down.
    Down(usize),
    /// A link comes up.
    Up(usize),
    /// A link has other impairments.
    Impair(usize, Impairments),
    /// A node ends as after `kill -9` and begins anew after this time.
    Restart(usize, Duration),
    /// A node's clock jumps forward.
    ClockJump(usize, Duration),
}

impl Upset {
    fn change(&self) -> Change {
        match self {
            Self::Down(link) => Change::LinkDown(LinkId(*link)),
            Self::Up(link) => Change::LinkUp(LinkId(*link)),
            Self::Impair(link, how) => Change::Impair(LinkId(*link), None, how.clone()),
            Self::Restart(node, after) => Change::Restart(DeviceId(*node), *after),
            Self::ClockJump(node, by) => Change::ClockJump(DeviceId(*node), *by),
        }
    }
}

impl Topology {
    /// Reads a topology. All problems are found in one go.
    pub fn parse(
        file: &str,
        text: &str,
        files: &mut dyn Files,
        variant: Option<&str>,
    ) -> Result<Self, Box<TopologyError>> {
        entries::topology(file, text, files, variant)
    }

    /// The names of a file's variants, each with its description; the default first.
    pub fn variants(file: &str, text: &str) -> Result<Vec<(String, String)>, Box<TopologyError>> {
        entries::variants(file, text)
    }

    /// The names of what a link joins.
    pub fn end_names(&self, link: &Link) -> [String; 2] {
        let name = |end: &LinkEnd| match end {
            LinkEnd::Host(host) => self.hosts.get(*host).map(|host| host.name.clone()),
            LinkEnd::Node(node, _) => self.nodes.get(*node).map(|node| node.name.clone()),
        };
        [0, 1].map(|at| name(&link.ends[at]).unwrap_or_default())
    }

    /// Traffic that runs from host to host in both ways, by the names of the hosts.
    pub fn traffic_name(&self, index: usize) -> String {
        let Some(entry) = self.traffic.get(index) else { return String::new() };
        let name = |host: usize| self.hosts.get(host).map_or("?", |h| h.name.as_str());
        let version = if entry.address.is_ipv6() { "6" } else { "" };
        let (from, to) = (name(entry.from), name(entry.to));
        format!("{}{version} {from} > {to}", entry.kind.name())
    }
}
