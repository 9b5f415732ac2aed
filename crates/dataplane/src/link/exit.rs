//! Compiled interfaces and adjacencies, as stages read them for every packet, from the
//! tables: each entry at most a cache line.
//!
//! ```text
//!   port ─▶ Entry: interface of untagged frames   iface ─▶ Arrival: policy, clamp
//!   adjacency ─▶ Exit: link header, labels, MTU, port, policy
//! ```

use crate::graph::{FLAG_OPENED, Next};
use crate::mpls::PwMode;
use crate::route::{Adjacency, SourceCheck, TtlModel};
use crate::tables::{Iface, IfaceKind, Lists, PortEntry, RoutedIface, Tables, Tag};
use ferrule_base::{PortId, VrfId};
use ferrule_wire::{ethernet, mpls, vlan};

/// No policy, or no neighbour.
const NONE: u32 = u32::MAX;
/// Entries of an entropy label: its indicator, and itself.
pub(crate) const ENTROPY_ENTRIES: usize = 2;
/// Octets of a link header with a VLAN tag.
pub(crate) const LINK_TAG: usize = ethernet::Header::LEN + vlan::Header::LEN;

/// Interface of frames without a tag.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Entry {
    /// Routing.
    Routed(Routed),
    /// A bridge, as they are.
    Bridged { iface: u16, next: Next },
    /// A pseudowire, as they are.
    Crossed { iface: u16, pw: u16, next: Next },
    /// More than one look decides.
    #[default]
    Other,
}

/// A routed interface: it takes IP for its address; labels, if there is MPLS on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed {
    pub iface: u16,
    /// Next stage of IP packets.
    pub ip: Next,
    pub vrf: VrfId,
    pub mac: u64,
    pub mpls: bool,
}

impl Entry {
    pub fn of(port: &PortEntry, tables: &Tables) -> Self {
        let number = port.attach.untagged.or(port.attach.rest);
        let found = number.and_then(|n| Some((n, tables.ifaces.get(usize::from(n))?)));
        let Some((iface, found)) = found else { return Self::Other };
        match found.kind {
            IfaceKind::Routed(ref routed) => {
                let (vrf, mac, mpls) = (routed.vrf, routed.mac.to_u64(), routed.mpls);
                Self::Routed(Routed { iface, ip: to_ip(routed, found.lists), vrf, mac, mpls })
            }
            IfaceKind::Bridged { access_vlan: None, .. } => {
                Self::Bridged { iface, next: found.to_bridge() }
            }
            IfaceKind::Crossed(pw) => match tables.pws.get(usize::from(pw)) {
                Some(config) if config.mode == PwMode::Raw && found.tag == Tag::None => {
                    Self::Crossed { iface, pw, next: found.to_pseudowire() }
                }
                _ => Self::Other,
            },
            IfaceKind::Bridged { .. } => Self::Other,
        }
    }
}

impl Iface {
    /// Next stage of frames that come in by a member of a bridge.
    pub(super) const fn to_bridge(&self) -> Next {
        if self.lists.inbound.is_some() { Next::FrameAclIn } else { Next::Bridge }
    }

    /// Next stage of frames from an attachment circuit.
    pub(super) const fn to_pseudowire(&self) -> Next {
        if self.lists.inbound.is_some() { Next::FrameAclIn } else { Next::PwOut }
    }
}

/// Next stage of IP packets that come in by an interface.
pub(super) const fn to_ip(routed: &RoutedIface, lists: Lists) -> Next {
    if routed.sources.is_some() {
        Next::SourceCheck
    } else {
        after_sources(lists.inbound.is_some())
    }
}

/// Next stage of those whose source is good.
const fn after_sources(has_list: bool) -> Next {
    if has_list { Next::AclIn } else { Next::Ip }
}

/// Treatment of packets that come in by an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    policy: u32,
    /// Access list.
    pub list: u32,
    /// Validation of sources.
    sources: Option<SourceCheck>,
    /// TCP's segments are limited.
    pub clamps: bool,
    /// Neither policy nor limit.
    is_open: bool,
}

impl Arrival {
    /// Entry of an interface that does not exist.
    pub const NONE: Self =
        Self { policy: NONE, list: NONE, sources: None, clamps: false, is_open: true };

    pub fn of(iface: &Iface) -> Self {
        let IfaceKind::Routed(routed) = &iface.kind else { return Self::NONE };
        let (policy, clamps) = (policy(routed), routed.clamp.is_some());
        let list = iface.lists.inbound.unwrap_or(NONE);
        let sources = routed.sources;
        Self { policy, list, sources, clamps, is_open: policy == NONE && !clamps }
    }

    /// Validation of the sources of arriving packets, and their next stage.
    #[inline(always)]
    pub const fn validation(self) -> (Option<SourceCheck>, Next) {
        (self.sources, after_sources(self.list != NONE))
    }

    /// True if packets of these flags just go on: they came in clear where no policy
    /// applies, or out of an SA; and nothing limits TCP's segments.
    #[inline(always)]
    pub const fn lets_pass(self, flags: u8) -> bool {
        self.is_open || flags & FLAG_OPENED != 0 && !self.clamps
    }

    /// The policy that clear packets have to pass.
    #[inline]
    pub const fn policy(self) -> Option<usize> {
        if self.policy == NONE { None } else { Some(self.policy as usize) }
    }
}

fn policy(routed: &RoutedIface) -> u32 {
    routed.policy.map_or(NONE, u32::from)
}

/// Policy between a packet and its adjacency: its number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate(pub u32);

impl Gate {
    /// No policy: everything passes.
    pub const OPEN: Self = Self(NONE);
    /// A policy that is not there: nothing passes.
    pub const CLOSED: Self = Self(NONE - 1);
}

/// An adjacency with its interface and port: everything that is put in front of a packet
/// but for the neighbour's address, and where it goes.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Exit {
    /// Place in [`Neighbours`](crate::route::Neighbours).
    neighbour: u32,
    /// The security policy at this boundary.
    pub gate: Gate,
    /// The access list.
    pub list: u32,
    /// Place of the first of `paths` in [`NextHopGroups`](super::NextHopGroups).
    pub first_path: u32,
    /// Own address, in the lower 48 bits.
    pub mac: u64,
    /// The longest packet that fits the link, labels not counted.
    pub longest: u16,
    pub port: PortId,
    pub iface: u16,
    /// TPID and VLAN ID; a TPID of zero: no tag.
    pub tpid: u16,
    pub tci: u16,
    /// The worker that has the port, unless all have it.
    owner: u8,
    everywhere: bool,
    /// Next stage of a finished frame at a worker that has the port: straight to it if it
    /// carries every frame that the interface sends.
    finished: Next,
    clamps: bool,
    /// TTL model of the label stack (RFC 3443).
    pub ttl: TtlModel,
    pub label_count: u8,
    /// An entropy label goes below the outermost.
    pub entropy: bool,
    /// Paths of equal cost that this stands for; none: itself.
    pub paths: u8,
    /// True if the adjacency leads to a routed interface.
    pub is_routed: bool,
    /// Next stage of packets from an interface that does not clamp TCP's MSS.
    pub next: Next,
    /// Label stack entries but for bottom of stack and TTL, the innermost first.
    pub labels: [u32; crate::route::config::LABELS_MAX],
}

impl Exit {
    pub fn of(adjacency: &Adjacency, tables: &Tables) -> Self {
        let mut exit = Self {
            neighbour: adjacency.neighbour.unwrap_or(NONE),
            gate: Gate::CLOSED,
            list: NONE,
            mac: 0,
            longest: 0,
            port: PortId(u16::MAX),
            iface: adjacency.iface,
            tpid: 0,
            tci: 0,
            owner: 0,
            everywhere: false,
            finished: Next::Emit,
            clamps: false,
            ttl: adjacency.ttl,
            label_count: adjacency.labels.len() as u8,
            entropy: adjacency.entropy && !adjacency.labels.is_empty(),
            paths: 0,
            first_path: 0,
            is_routed: false,
            next: Next::Output,
            labels: Default::default(),
        };
        for (entry, label) in exit.labels.iter_mut().zip(&adjacency.labels) {
            *entry = label << 12;
        }
        let Some(iface) = tables.ifaces.get(usize::from(adjacency.iface)) else { return exit };
        let IfaceKind::Routed(routed) = &iface.kind else { return exit };
        let entropy = if exit.entropy { ENTROPY_ENTRIES } else { 0 };
        let labels = (adjacency.labels.len() + entropy) * mpls::Header::LEN;
        (exit.is_routed, exit.gate) = (true, Gate(policy(routed)));
        exit.list = iface.lists.outbound.unwrap_or(NONE);
        (exit.mac, exit.clamps) = (routed.mac.to_u64(), routed.clamp.is_some());
        exit.longest = routed.mtu.saturating_sub(labels as u16);
        exit.port = iface.port;
        exit.next = exit.after_routing(Arrival::NONE);
        if let Tag::Tag(tpid, vid) = iface.tag {
            (exit.tpid, exit.tci) = (tpid, vid & super::tag::VID);
        }
        if let Some(port) = tables.ports.get(usize::from(iface.port.0)) {
            (exit.owner, exit.everywhere) = (port.owner, port.everywhere);
            exit.finished = match port.secy {
                _ if usize::from(routed.mtu) + LINK_TAG > usize::from(port.frame_max) => Next::Emit,
                Some(_) => Next::SecyOut,
                None => Next::Transmit,
            };
        }
        exit
    }

    /// The place of the neighbour; nothing: the destination is the neighbour.
    #[inline(always)]
    pub const fn neighbour(&self) -> Option<u32> {
        if self.neighbour == NONE { None } else { Some(self.neighbour) }
    }

    /// Next stage of a routed packet on its way to this adjacency.
    #[inline(always)]
    pub const fn after_routing(&self, arrival: Arrival) -> Next {
        if self.list != NONE { Next::AclOut } else { self.after_list(arrival) }
    }

    /// The same of one that the access list permits.
    #[inline(always)]
    pub const fn after_list(&self, arrival: Arrival) -> Next {
        if self.clamps | arrival.clamps {
            Next::Clamp
        } else if self.gate.0 < Gate::CLOSED.0 {
            Next::Policy
        } else {
            Next::Output
        }
    }

    /// Next stage of a finished frame.
    #[inline(always)]
    pub const fn after_output(&self, worker: u8) -> Next {
        if self.everywhere || self.owner == worker { self.finished } else { Next::Emit }
    }
}

const _: () = assert!(size_of::<Exit>() == 64);
