//! The snapshot: everything that the stages look up, compiled from the
//! configuration by the node, never changed afterwards, replaced whole.
//!
//! State that outlives a configuration (learned addresses, neighbours) is in tables of
//! atomics that successive snapshots share. Routes, policies and access lists that stay as
//! they are, they share too.

use crate::link::{Arrival, Entry, Exit, NextHopGroups};
use crate::route::address::Reserved;
use crate::{acl, bridge, ipsec, link, mpls, route};
use ferrule_base::{MacAddr, PortId, VrfId};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The tables of a node.
#[derive(Default)]
pub struct Tables {
    /// Ports, by [`PortId`].
    pub ports: Vec<PortEntry>,
    /// Logical interfaces, by number.
    pub ifaces: Vec<Iface>,
    /// Routing tables, by [`VrfId`]; the first is the global table.
    pub vrfs: Vec<Arc<route::Vrf>>,
    /// Adjacencies, by number.
    pub adjacencies: Vec<route::Adjacency>,
    /// Link addresses of neighbours, by the adjacency's `neighbour`.
    pub neighbours: Arc<route::Neighbours>,
    /// Own addresses that are not used.
    pub withheld: Arc<route::Withheld>,
    /// By bridge number.
    pub bridges: Vec<bridge::Bridge>,
    /// Incoming labels.
    pub lfib: mpls::Lfib,
    /// Pseudowires, by number.
    pub pws: Vec<mpls::Pseudowire>,
    /// Policies of interfaces, by number.
    pub policies: Vec<Arc<ipsec::Spd>>,
    /// Counters of policy entries, and their numbers in the snapshot before.
    pub hits: ipsec::HitMap,
    /// Access lists, by number.
    pub lists: Vec<acl::Numbered>,
    /// Counters of access list entries, and their numbers in the snapshot before.
    pub list_hits: ipsec::HitMap,
    /// Directory of security associations, with the worker and place of each.
    pub sas: Arc<ipsec::SaDirectory>,
    /// By slot: true where a keying program is asked for an SA if there is none.
    pub acquires: Vec<bool>,
    /// UDP ports in which ESP comes.
    pub udp_ports: ipsec::UdpPorts,
    /// UDP ports of the node's own addresses whose datagrams are for keying programs.
    pub keying_ports: ipsec::UdpPorts,
    /// Workers that share the traffic.
    pub workers: u8,
    /// Seed of the hash by which flows are shared among paths of equal cost: another one at
    /// every node.
    pub seed: u64,
    /// Compiled ports, interfaces and adjacencies, as stages read them for every packet, made by
    /// [`compile`](Self::compile).
    pub hot: Hot,
}

impl Tables {
    /// Compiles the tables into the form that stages read for every packet: to be called
    /// once they are there, and again when one of them changes.
    pub fn compile(&mut self) {
        let mut exits: Vec<_> = self.adjacencies.iter().map(|a| Exit::of(a, self)).collect();
        let longest = |adjacency: u32| {
            let exit = exits.get(adjacency as usize).filter(|exit| exit.is_routed);
            exit.map(|exit| exit.longest)
        };
        self.lfib.fit(longest, |adjacency| link::PathMember::of(&self.adjacencies, adjacency));
        self.hot = Hot {
            entries: self.ports.iter().map(|port| Entry::of(port, self)).collect(),
            members: self.ifaces.iter().map(|iface| bridge::Member::of(iface, self)).collect(),
            arrivals: self.ifaces.iter().map(Arrival::of).collect(),
            groups: NextHopGroups::of(self, &mut exits),
            exits,
            reserved: Reserved::of(&self.ifaces),
        };
    }
}

/// Tables made of others, each entry at most a cache line.
#[derive(Default)]
pub struct Hot {
    /// Entry of frames without a tag, by port.
    pub(crate) entries: Vec<Entry>,
    /// Members of bridges, by interface.
    pub(crate) members: Vec<bridge::Member>,
    /// Entries for packets that arrive, by interface.
    pub(crate) arrivals: Vec<Arrival>,
    /// Entries for packets that leave, by adjacency.
    pub(crate) exits: Vec<Exit>,
    /// The paths of adjacencies that stand for several.
    pub(crate) groups: NextHopGroups,
    /// Addresses from which no other host sends.
    pub(crate) reserved: Reserved,
}

/// One port. The default stands for a number that no port has.
#[derive(Default)]
pub struct PortEntry {
    /// The name in the configuration.
    pub name: Box<str>,
    /// Its own address.
    pub mac: MacAddr,
    /// The largest frame it carries, without FCS.
    pub frame_max: u16,
    /// The worker that receives and transmits here.
    pub owner: u8,
    /// Every other worker does, too: each has a queue of its own.
    pub everywhere: bool,
    /// The SecY that stands before it. With one, nothing passes in clear.
    pub secy: Option<u16>,
    /// Logical interfaces to which its frames belong.
    pub attach: Attach,
}

impl PortEntry {
    /// True if a worker receives and transmits here.
    #[inline]
    pub const fn is_at(&self, worker: u8) -> bool {
        self.owner == worker || self.everywhere
    }
}

/// The interface of a port's frames, by tag.
#[derive(Clone, Debug, Default)]
pub struct Attach {
    /// Frames without a tag (or with VLAN 0, priority only).
    pub untagged: Option<u16>,
    /// Frames with an outer tag: (EtherType << 16 | VLAN ID, interface), sorted.
    pub tagged: Vec<(u32, u16)>,
    /// Frames with an outer and an inner tag: (keys of both, interface), sorted. They come
    /// before those with an outer tag alone.
    pub double: Vec<((u32, u32), u16)>,
    /// Everything else: a port-mode pseudowire, a trunk.
    pub rest: Option<u16>,
}

impl Attach {
    /// The key of a tag in [`Attach::tagged`].
    #[inline]
    pub const fn key(tpid: u16, vid: u16) -> u32 {
        (tpid as u32) << 16 | vid as u32
    }

    /// The interface of two tags.
    #[inline]
    pub fn double(&self, outer: u32, inner: u32) -> Option<u16> {
        let found = self.double.binary_search_by_key(&(outer, inner), |&(keys, _)| keys);
        found.ok().map(|at| self.double[at].1)
    }

    /// The interface of a tag.
    #[inline]
    pub fn tagged(&self, key: u32) -> Option<u16> {
        match self.tagged.binary_search_by_key(&key, |&(k, _)| k) {
            Ok(i) => Some(self.tagged[i].1),
            Err(_) => self.rest,
        }
    }
}

/// The tag that belongs to a logical interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// Frames as they are.
    #[default]
    None,
    /// Taken off on the way in, put on on the way out: TPID and VLAN ID.
    Tag(u16, u16),
    /// The same of an outer and an inner one (802.1ad).
    Double([(u16, u16); 2]),
}

impl Tag {
    /// Tags of its frames.
    pub const fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::Tag(..) => 1,
            Self::Double(_) => 2,
        }
    }
}

/// A logical interface: a port, or one VLAN of it.
pub struct Iface {
    /// The name in the configuration.
    pub name: Box<str>,
    /// Port by which its frames leave.
    pub port: PortId,
    /// Its tag on the wire.
    pub tag: Tag,
    /// Its access lists: of IP packets if it is routed, else of whole frames.
    pub lists: Lists,
    /// Kind of attachment.
    pub kind: IfaceKind,
}

/// Access lists of an interface, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// List for packets that come in.
    pub inbound: Option<u32>,
    /// List for packets that leave.
    pub outbound: Option<u32>,
}

impl Iface {
    /// An interface without access lists.
    pub fn new(name: &str, port: PortId, tag: Tag, kind: IfaceKind) -> Self {
        Self { name: name.into(), port, tag, lists: Lists::default(), kind }
    }

    /// An interface that leads nowhere, of a number that none has.
    pub fn vacant() -> Self {
        Self::new("", PortId(u16::MAX), Tag::None, IfaceKind::Crossed(u16::MAX))
    }
}

/// Attachment of a logical interface.
pub enum IfaceKind {
    /// Routing.
    Routed(RoutedIface),
    /// A bridge, by number.
    Bridged {
        /// The bridge.
        bridge: u16,
        /// An access interface: frames on the wire are untagged, in the bridge
        /// they carry this VLAN ID (802.1Q tag).
        access_vlan: Option<u16>,
    },
    /// A pseudowire, by number.
    Crossed(u16),
}

/// A routed interface.
pub struct RoutedIface {
    /// Its table.
    pub vrf: VrfId,
    /// Its link address.
    pub mac: MacAddr,
    /// Largest IP packet or label stack with packet, in octets.
    pub mtu: u16,
    /// Own IPv4 addresses with prefix lengths.
    pub v4: Vec<(Ipv4Addr, u8)>,
    /// Own IPv6 addresses with prefix lengths, the link-local one first.
    pub v6: Vec<(Ipv6Addr, u8)>,
    /// Labelled packets are accepted.
    pub mpls: bool,
    /// The security policy at this boundary.
    pub policy: Option<u16>,
    /// Validation of the sources of packets that come in.
    pub sources: Option<route::SourceCheck>,
    /// The MTU that TCP connections through it are held to.
    pub clamp: Option<u16>,
    /// A card in its port seals and opens protected packets, unseen from here.
    pub has_card: bool,
}
