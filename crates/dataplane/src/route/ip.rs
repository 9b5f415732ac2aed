//! Forwarding: from an IP packet to the way it takes.

use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, FLAG_OPENED, Next, Stage};
use crate::route::{Adjacency, Route, Vrf};
use crate::tables::{IfaceKind, RoutedIface, Tables};
use ferrule_base::{DropReason, VrfId};
use ferrule_pipeline::{Batch, Meta, Packet};
use ferrule_wire::checksum::Sum;
use ferrule_wire::{EtherType, FromBytes, Protocol, icmpv4, icmpv6, ipv4, ipv6, ipv6ext};
use std::net::{Ipv4Addr, Ipv6Addr};

/// ICMPv4 time exceeded in transit, as `scratch` has it.
pub const TIME_EXCEEDED_V4: u16 = 11 << 8;
/// ICMPv6 hop limit exceeded in transit.
pub const TIME_EXCEEDED_V6: u16 = 3 << 8;
/// ICMPv4 network unreachable.
pub const NO_ROUTE_V4: u16 = 3 << 8 | icmpv4::unreachable::NET as u16;
/// ICMPv6 no route to destination.
pub const NO_ROUTE_V6: u16 = 1 << 8 | icmpv6::unreachable::NO_ROUTE as u16;

/// The stage at [`Next::Ip`].
#[derive(Default)]
pub struct Ip;

impl Stage for Ip {
    /// For each packet:
    ///
    /// 1. Its header holds together, and its source is one that a sender may
    ///    have (RFC 1812 sections 5.2.2 and 5.3.7). Padding behind it goes.
    /// 2. The longest prefix says where it goes; a batch has few flows, so the
    ///    last answers are tried first.
    /// 3. In clear from an interface with a policy: ESP for this node passes,
    ///    all else is asked of the policy.
    /// 4. For this node: to `EspIn` or `Local`. Onwards: one hop less, then to
    ///    the way out, by the policy of that interface if it has one.
    #[inline]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (mut last_v4, mut last_v6) = ([None; LASTS], [None; LASTS]);
        for mut packet in batch.drain(..) {
            let way = match EtherType(packet.meta().ethertype) {
                EtherType::IPV4 => forward_v4(ctx.tables, &mut last_v4, &mut packet),
                EtherType::IPV6 => forward_v6(ctx.tables, &mut last_v6, &mut packet),
                _ => Err(DropReason::UnknownProtocol),
            };
            match way {
                Ok(next) => ctx.out.send(next, packet),
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
    }
}

/// What the tables say about one destination, for packets of one interface.
#[derive(Clone, Copy)]
struct Decision<A> {
    dst: A,
    vrf: VrfId,
    iface: u16,
    /// The longest prefix's route.
    route: Option<Route>,
    /// The policy of the interface by which clear packets come.
    inbound: Option<u16>,
    /// The way out has a policy.
    outbound: bool,
}

/// Decisions of a batch that are remembered, by a few bits of the destination.
const LASTS: usize = 16;
type Lasts<A> = [Option<Decision<A>>; LASTS];

/// The decision for a packet: that of one before if it went the same way.
#[inline]
fn decide<A: Copy + Eq>(
    tables: &Tables,
    last: &mut Lasts<A>,
    meta: &Meta,
    dst: A,
    place: u32,
    lookup: impl FnOnce(&Vrf, A) -> Option<Route>,
) -> Result<Decision<A>, DropReason> {
    let same = |d: &Decision<A>| d.dst == dst && d.iface == meta.iface && d.vrf == meta.vrf;
    let place = ((place ^ place >> 8 ^ place >> 16) as usize) % LASTS;
    if let Some(decision) = last[place].filter(same) {
        return Ok(decision);
    }
    let vrf = tables.vrfs.get(usize::from(meta.vrf.0)).ok_or(DropReason::NoRoute)?;
    let route = lookup(vrf, dst);
    let way_out = match route {
        Some(Route::Via(adjacency)) => tables.adjacencies.get(adjacency as usize),
        _ => None,
    };
    let policy = |iface| routed(tables, iface).and_then(|routed| routed.policy);
    let outbound = way_out.is_some_and(|adjacency| policy(adjacency.iface).is_some());
    let (inbound, iface) = (policy(meta.iface), meta.iface);
    let decision = Decision { dst, vrf: meta.vrf, iface, route, inbound, outbound };
    last[place] = Some(decision);
    Ok(decision)
}

#[inline]
fn forward_v4(
    tables: &Tables,
    last: &mut Lasts<Ipv4Addr>,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let (header, header_len, total) = validate_v4(packet.data())?;
    let (protocol, fragment) = (header.protocol(), header.is_fragment());
    let (src, dst) = (Ipv4Addr::from(header.src), Ipv4Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !may_send_v4(src) {
        return Err(DropReason::BadSource);
    }
    let decision = decide(tables, last, packet.meta(), dst, u32::from(dst), Vrf::v4)?;
    let esp_here = decision.route == Some(Route::Local) && protocol == Protocol::ESP;
    if !esp_here && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, decision.inbound, packet)?;
    }
    match decision.route {
        Some(Route::Via(adjacency)) => {
            if dst.octets()[0] >= 224 || dst.is_link_local() || src.is_link_local() {
                return Err(DropReason::NotRouted);
            }
            if flags & FLAG_LOCAL == 0 && !hop_v4(packet) {
                return Ok(error(packet, TIME_EXCEEDED_V4));
            }
            Ok(onwards(packet, adjacency, decision.outbound))
        }
        Some(Route::Local) => here(packet, header_len, protocol, fragment),
        Some(Route::Discard) => Err(DropReason::RouteDiscard),
        None if dst.octets()[0] >= 224 => Err(DropReason::NotRouted),
        None => Ok(error(packet, NO_ROUTE_V4)),
    }
}

#[inline]
fn forward_v6(
    tables: &Tables,
    last: &mut Lasts<Ipv6Addr>,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let (header, total) = ipv6::validate(packet.data()).map_err(DropReason::from)?;
    let next_header = header.next();
    let (src, dst) = (Ipv6Addr::from(header.src), Ipv6Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !may_send_v6(src) {
        return Err(DropReason::BadSource);
    }
    let bits = u128::from(dst);
    let place = (bits ^ bits >> 64) as u32;
    let decision = decide(tables, last, packet.meta(), dst, place, Vrf::v6)?;
    let esp_here = decision.route == Some(Route::Local) && next_header == Protocol::ESP;
    if !esp_here && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, decision.inbound, packet)?;
    }
    match decision.route {
        Some(Route::Local) => here_v6(packet, next_header),
        _ if dst.is_multicast() => Err(DropReason::NotRouted),
        _ if dst.is_unicast_link_local() => beside(tables, packet),
        _ if src.is_unicast_link_local() => Err(DropReason::NotRouted),
        Some(Route::Via(adjacency)) => {
            if flags & FLAG_LOCAL == 0 && !hop_v6(packet) {
                return Ok(error(packet, TIME_EXCEEDED_V6));
            }
            Ok(onwards(packet, adjacency, decision.outbound))
        }
        Some(Route::Discard) => Err(DropReason::RouteDiscard),
        None => Ok(error(packet, NO_ROUTE_V6)),
    }
}

/// What [`ipv4::validate`] says, quicker for a header without options.
#[inline]
fn validate_v4(bytes: &[u8]) -> Result<(&ipv4::Header, usize, usize), DropReason> {
    if let Some(header) = bytes.first_chunk::<{ ipv4::Header::LEN }>()
        && header[0] == 0x45
    {
        // Of known length, so the compiler unrolls it.
        let (words, _) = header.as_chunks::<4>();
        let sum = words.iter().fold(Sum::new(), |sum, &w| sum.with_u32(u32::from_be_bytes(w)));
        let (header, _) =
            ipv4::Header::ref_from_prefix(header).map_err(|_| DropReason::Malformed)?;
        let total = usize::from(header.total_len.get());
        if total < ipv4::Header::LEN || total > bytes.len() {
            return Err(DropReason::Malformed);
        }
        return if sum.is_good() {
            Ok((header, ipv4::Header::LEN, total))
        } else {
            Err(DropReason::BadChecksum)
        };
    }
    ipv4::validate(bytes).map_err(DropReason::from)
}

/// Whether a sender may have the address (RFC 1812 section 5.3.7): not this
/// network, not loopback, not a group, not reserved or broadcast.
#[inline]
pub(super) const fn may_send_v4(src: Ipv4Addr) -> bool {
    let first = src.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// Whether a sender may have the address: not a group, not loopback, not
/// unspecified (RFC 4291 section 2.5), not IPv4 in disguise.
#[inline]
pub(super) const fn may_send_v6(src: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, _, last] = src.segments();
    let front = a | b | c | d | e;
    // ::, ::1 and ::ffff:0:0/96.
    let low = front == 0 && (f == 0xffff || f == 0 && src.segments()[6] == 0 && last <= 1);
    !src.is_multicast() && !low
}

/// One hop less; false where the packet ends here.
#[inline]
fn hop_v4(packet: &mut Packet) -> bool {
    match ipv4::Header::mut_from_prefix(packet.data_mut()) {
        Ok((header, _)) => header.decrement_ttl(),
        Err(_) => false,
    }
}

/// One hop less; false where the packet ends here.
#[inline]
fn hop_v6(packet: &mut Packet) -> bool {
    match ipv6::Header::mut_from_prefix(packet.data_mut()) {
        Ok((header, _)) => header.decrement_hop_limit(),
        Err(_) => false,
    }
}

/// Asks the policy of the interface by which a clear packet came, if it has one.
#[inline]
fn boundary(tables: &Tables, policy: Option<u16>, packet: &Packet) -> Result<(), DropReason> {
    let Some(policy) = policy else { return Ok(()) };
    match tables.policies.get(usize::from(policy)) {
        Some(policy) => policy.inbound(packet.data()),
        // A policy that is not there lets nothing through.
        None => Err(DropReason::PolicyDiscard),
    }
}

/// A routed interface by number.
#[inline]
pub(super) fn routed(tables: &Tables, iface: u16) -> Option<&RoutedIface> {
    match &tables.ifaces.get(usize::from(iface))?.kind {
        IfaceKind::Routed(routed) => Some(routed),
        _ => None,
    }
}

/// Out by an adjacency, through the policy of its interface if it has one.
#[inline]
fn onwards(packet: &mut Packet, adjacency: u32, policy: bool) -> Next {
    let meta = packet.meta_mut();
    meta.target = adjacency;
    if policy && meta.flags & FLAG_EXEMPT == 0 { Next::Policy } else { Next::Output }
}

/// A packet made here for a link-local address goes out where the packet came
/// in that it answers; others are not forwarded (RFC 4291 section 2.5.6).
#[cold]
fn beside(tables: &Tables, packet: &mut Packet) -> Result<Next, DropReason> {
    let meta = *packet.meta();
    if meta.flags & FLAG_LOCAL == 0 {
        return Err(DropReason::NotRouted);
    }
    let connected =
        |a: &Adjacency| a.iface == meta.iface && a.neighbour.is_none() && a.labels.is_empty();
    let adjacency = tables.adjacencies.iter().position(connected).ok_or(DropReason::NotRouted)?;
    let policy = routed(tables, meta.iface).is_some_and(|iface| iface.policy.is_some());
    Ok(onwards(packet, adjacency as u32, policy))
}

/// To be told to the sender.
#[cold]
fn error(packet: &mut Packet, kind: u16) -> Next {
    let meta = packet.meta_mut();
    (meta.scratch, meta.number) = (kind, 0);
    Next::IcmpError
}

/// For this node, IPv4. Whole datagrams alone: nothing is reassembled.
#[inline]
fn here(
    packet: &mut Packet,
    offset: usize,
    protocol: Protocol,
    fragment: bool,
) -> Result<Next, DropReason> {
    if fragment {
        return Err(DropReason::FragmentNotSupported);
    }
    packet.meta_mut().offset = offset as u16;
    Ok(if protocol == Protocol::ESP { Next::EspIn } else { Next::Local })
}

/// For this node, IPv6: extension headers are stepped over.
#[inline]
fn here_v6(packet: &mut Packet, next: Protocol) -> Result<Next, DropReason> {
    let payload = packet.data().get(ipv6::Header::LEN..).unwrap_or_default();
    let upper = ipv6ext::walk(next, payload).map_err(DropReason::from)?;
    let fragment = upper.fragment.is_some_and(|f| !f.is_atomic());
    here(packet, ipv6::Header::LEN + upper.offset, upper.protocol, fragment)
}
