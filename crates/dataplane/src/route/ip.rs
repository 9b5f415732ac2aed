//! Forwarding: from an IP packet to the way it takes.

use crate::graph::{
    Ctx, FLAG_ENCAP, FLAG_EXEMPT, FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, Next, Stage, TURNS_MAX,
};
use crate::ipsec::{self, Hits};
use crate::link::Arrival;
use crate::route::address::is_internal_v6;
use crate::route::address::{Reserved, is_forged, is_host_v4, is_host_v6, is_internal_v4};
use crate::route::fib::Cell;
use crate::route::options::{self, Hop};
use crate::route::{Adjacency, Route, Vrf};
use crate::tables::{IfaceKind, RoutedIface, Tables};
use ferrule_base::{DropReason, Instant};
use ferrule_pipeline::{BATCH, Batch, Meta, Packet};
use ferrule_wire::flow::path_hash;
use ferrule_wire::{EtherType, FromBytes, Protocol, icmpv4, icmpv6, ipv4, ipv6, ipv6ext, ndp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// ICMPv4 time exceeded in transit, type and code.
pub const TIME_EXCEEDED_V4: u16 = 11 << 8;
/// ICMPv6 hop limit exceeded in transit.
pub const TIME_EXCEEDED_V6: u16 = 3 << 8;
/// ICMPv4 fragmentation needed.
pub const TOO_BIG_V4: u16 = 3 << 8 | icmpv4::unreachable::TOO_BIG as u16;
/// ICMPv6 packet too big.
pub const TOO_BIG_V6: u16 = 2 << 8;
/// ICMPv4 network unreachable.
pub const NO_ROUTE_V4: u16 = 3 << 8 | icmpv4::unreachable::NET as u16;
/// ICMPv6 no route to destination.
pub const NO_ROUTE_V6: u16 = 1 << 8 | icmpv6::unreachable::NO_ROUTE as u16;

/// ICMPv6 parameter problem, erroneous header field.
const WRONG_FIELD_V6: u16 = 4 << 8;

/// The stage at [`Next::Ip`].
#[derive(Default)]
pub struct Ip {
    columns: Box<Columns>,
}

impl Stage for Ip {
    /// For all packets of the batch:
    ///
    /// 1. IPv4 headers hold together, and sources are such as a sender may have (RFC 1812
    ///    sections 5.2.2 and 5.3.7); padding behind them goes.
    /// 2. The longest prefix of each destination; of several paths of equal cost its flow's.
    /// 3. Onwards: one hop less, then to the way out, by the policy of that interface if it
    ///    has one. ESP for this node: to `EspIn`.
    /// 4. All else by itself: IPv6, options, what is for this node, what comes in clear from
    ///    an interface with a policy, and what is refused.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (tables, columns) = (ctx.tables, &mut *self.columns);
        columns.read(batch, &tables.hot.reserved);
        if columns.judge(batch.len()) {
            columns.strip_padding(batch);
        }
        routes_v4(tables, batch, &columns.dst, &mut columns.route);
        if !tables.hot.groups.is_empty() {
            columns.spread(tables, batch);
        }
        let mut at = 0;
        ctx.forward(batch, |ctx, packet| {
            let row = at % BATCH;
            at += 1;
            if columns.odd[row] == 0
                && let Some(next) = plain(tables, columns.route[row], columns.hops[row], packet)
            {
                return Ok(next);
            }
            Ok(forward(tables, ctx.now, &mut ctx.tally.hits, packet)?)
        });
    }
}

/// Header fields of a batch's packets, in columns: read once, then judged by vectors.
/// Words are as they lie in memory, the first octet the lowest.
struct Columns {
    /// Zero: IPv4 without options from elsewhere that may be forwarded, as far as its header
    /// says.
    odd: [u32; BATCH],
    /// Octets of the packet.
    len: [u32; BATCH],
    /// Version, class, total length.
    first: [u32; BATCH],
    /// TTL, protocol, checksum.
    hops: [u32; BATCH],
    /// Source address, as a number.
    src: [u32; BATCH],
    /// Destination address, as a number.
    dst: [u32; BATCH],
    /// Sum of the header's words in ones' complement.
    sum: [u32; BATCH],
    /// The longest prefix's route.
    route: [Cell; BATCH],
}

impl Default for Columns {
    fn default() -> Self {
        let none = [0; BATCH];
        Self {
            odd: none,
            len: none,
            first: none,
            hops: none,
            src: none,
            dst: none,
            sum: none,
            route: [Cell::NONE; BATCH],
        }
    }
}

impl Columns {
    /// Fields of step 1.
    #[inline(always)]
    fn read(&mut self, batch: &Batch, reserved: &Reserved) {
        for at in 0..batch.len().min(BATCH) {
            let packet = &batch[at];
            let (meta, data) = (packet.meta(), packet.data());
            let Some(header) = data.first_chunk::<PLAIN>() else {
                (self.odd[at], self.dst[at]) = (1, 0);
                continue;
            };
            let (words, _) = header.as_chunks::<4>();
            let [first, second, hops, src, dst] =
                [0, 1, 2, 3, 4].map(|at| u32::from_le_bytes(words[at]));
            // A sum in ones' complement is the same in either order of octets (RFC 1071
            // section 2).
            let sum: u64 = [first, second, hops, src, dst].iter().map(|&w| u64::from(w)).sum();
            let (sum, more) = (sum as u32).overflowing_add((sum >> 32) as u32);
            self.odd[at] = u32::from(meta.ethertype ^ EtherType::IPV4.0)
                | u32::from(meta.flags & !FLAG_OPENED)
                | reserved.may_have(src.swap_bytes());
            self.len[at] = data.len() as u32;
            (self.first[at], self.hops[at]) = (first, hops);
            (self.src[at], self.dst[at]) = (src.swap_bytes(), dst.swap_bytes());
            self.sum[at] = sum + u32::from(more);
        }
    }

    /// Judgement of step 1; true if padding follows some packet.
    #[inline(always)]
    fn judge(&mut self, count: usize) -> bool {
        let mut padded = 0;
        for at in 0..count.min(BATCH) {
            let (first, len, src, dst) = (self.first[at], self.len[at], self.src[at], self.dst[at]);
            let total = total_len(first);
            let half = (self.sum[at] & 0xffff) + (self.sum[at] >> 16);
            let good = (first & 0xff == 0x45)
                // Folded once it is 0xffff, or that with another carry.
                & ((half == 0xffff) | (half == 0x1_fffe))
                & (total >= PLAIN as u32)
                & (total <= len)
                & is_host_v4(src.into())
                & is_routable(src, dst);
            self.odd[at] |= u32::from(!good);
            padded |= u32::from(total < len);
        }
        padded != 0
    }

    /// Of several paths of equal cost, that of each packet's flow.
    #[inline(never)]
    fn spread(&mut self, tables: &Tables, batch: &Batch) {
        for (packet, route) in batch.iter().zip(&mut self.route) {
            if route.is_via() {
                let flow = |seed| path_hash(seed, EtherType::IPV4, packet.data());
                let path = tables.path(route.adjacency(), flow);
                *route = path.map_or(*route, |(path, _)| Cell::new(Route::Via(path)));
            }
        }
    }

    /// Takes off the octets behind a good packet.
    #[cold]
    fn strip_padding(&self, batch: &mut Batch) {
        let rows = self.odd.iter().zip(&self.first);
        for (packet, (odd, first)) in batch.iter_mut().zip(rows) {
            if *odd == 0 {
                packet.truncate(total_len(*first) as usize);
            }
        }
    }
}

/// The routes of a batch's packets to IPv4 addresses, each in its packet's table: table by
/// table.
#[inline(always)]
pub(super) fn routes_v4(
    tables: &Tables,
    batch: &Batch,
    addresses: &[u32; BATCH],
    routes: &mut [Cell; BATCH],
) {
    let mut from = 0;
    while let Some(first) = batch.get(from) {
        let table = first.meta().vrf;
        let same = batch[from..].iter().take_while(|packet| packet.meta().vrf == table);
        let to = from + same.count().max(1);
        match tables.vrfs.get(usize::from(table.0)) {
            Some(vrf) => vrf.v4_all(&addresses[from..to], &mut routes[from..to]),
            None => routes[from..to].fill(Cell::NONE),
        }
        from = to;
    }
}

/// Total length in the first word of a header.
#[inline(always)]
const fn total_len(first: u32) -> u32 {
    first >> 24 | first >> 8 & 0xff00
}

/// True if a packet between these addresses may leave its link: neither is link-local, and
/// the destination is one host's (RFC 3927 section 2.7, RFC 1812 sections 5.2.1 and 5.3.7).
#[inline(always)]
const fn is_routable(src: u32, dst: u32) -> bool {
    const LINK_LOCAL: u32 = 0xa9fe;
    (src >> 16 != LINK_LOCAL) & (dst >> 16 != LINK_LOCAL) & is_host_v4(Ipv4Addr::from_bits(dst))
}

/// Step 3. Nothing, and nothing done, for all others.
#[inline(always)]
fn plain(tables: &Tables, route: Cell, hops: u32, packet: &mut Packet) -> Option<Next> {
    let (meta, data) = packet.split();
    if meta.turns >= TURNS_MAX {
        return None;
    }
    if route.is_via() {
        let arrival = tables.hot.arrivals.get(usize::from(meta.iface))?;
        let adjacency = route.adjacency();
        let exit = tables.hot.exits.get(adjacency as usize)?;
        if !arrival.lets_pass(meta.flags) || hops & 0xff <= 1 {
            return None;
        }
        *data.get_mut(HOPS_AT..)?.first_chunk_mut()? = ipv4::count_hop(hops).to_le_bytes();
        meta.turns += 1;
        meta.adjacency = adjacency;
        return Some(exit.next);
    }
    let (header, _) = ipv4::Header::ref_from_prefix(data).ok()?;
    let esp = route == Cell::LOCAL && header.protocol == Protocol::ESP.0;
    if esp && !header.is_fragment() {
        meta.turns += 1;
        meta.offset = PLAIN as u16;
        return Some(Next::EspIn);
    }
    None
}

/// A packet by itself.
#[inline(never)]
fn forward(
    tables: &Tables,
    now: Instant,
    hits: &mut Hits,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let turns = &mut packet.meta_mut().turns;
    *turns = turns.saturating_add(1);
    if *turns > TURNS_MAX {
        return Err(DropReason::GraphLoop);
    }
    match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => forward_v4(tables, now, hits, packet),
        EtherType::IPV6 => forward_v6(tables, hits, packet),
        _ => Err(DropReason::UnknownProtocol),
    }
}

/// Octets of a header without options.
const PLAIN: usize = ipv4::Header::LEN;
/// Offset of TTL, protocol and checksum.
const HOPS_AT: usize = 8;

/// Result of the look-up for one destination.
struct Decision {
    /// The longest prefix's route.
    route: Option<Route>,
    /// The policy of the interface by which clear packets come.
    inbound: Option<usize>,
    /// The way out: the stages that its interface, and that of arrival, need.
    outbound: Next,
}

/// The decision for a packet.
fn decide(
    tables: &Tables,
    packet: &Packet,
    look_up: impl FnOnce(&Vrf) -> Option<Route>,
) -> Result<Decision, DropReason> {
    let meta = packet.meta();
    let vrf = tables.vrfs.get(usize::from(meta.vrf.0)).ok_or(DropReason::NoRoute)?;
    let flow = |seed| path_hash(seed, EtherType(meta.ethertype), packet.data());
    let path = |adjacency| tables.path(adjacency, flow).map_or(adjacency, |(path, _)| path);
    let route = look_up(vrf).map(|route| match route {
        Route::Via(adjacency) => Route::Via(path(adjacency)),
        Route::Guarded(adjacency) => Route::Guarded(path(adjacency)),
        route => route,
    });
    let arrival = tables.hot.arrivals.get(usize::from(meta.iface)).copied();
    let arrival = arrival.unwrap_or(Arrival::NONE);
    let outbound = match route {
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            after_routing(tables, adjacency, arrival)
        }
        _ => Next::Output,
    };
    Ok(Decision { route, inbound: arrival.policy(), outbound })
}

/// Next stage of packets that leave by an adjacency; output drops those of a missing one.
fn after_routing(tables: &Tables, adjacency: u32, arrival: Arrival) -> Next {
    let exit = tables.hot.exits.get(adjacency as usize);
    exit.map_or(Next::Output, |exit| exit.after_routing(arrival))
}

fn forward_v4(
    tables: &Tables,
    now: Instant,
    hits: &mut Hits,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let (header, header_len, total) = ipv4::validate(packet.data()).map_err(DropReason::from)?;
    let (protocol, fragment, ttl) = (header.protocol(), header.is_fragment(), header.ttl);
    let (src, dst) = (Ipv4Addr::from(header.src), Ipv4Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !is_host_v4(src) || is_forged(tables, packet, src.into()) {
        return Err(DropReason::BadSource);
    }
    if is_internal_v4(dst) {
        return Err(DropReason::NotRouted);
    }
    let decision = decide(tables, packet, |vrf| vrf.v4(dst))?;
    let sealed = match decision.route {
        Some(route @ (Route::Local | Route::Guarded(_))) => {
            Sealed::find(tables, packet, route, header_len, protocol, fragment)?
        }
        _ => None,
    };
    if sealed.is_none() && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, hits, decision.inbound, packet)?;
    }
    match decision.route {
        Some(Route::Local)
            if header_len > PLAIN && options::wants_on(&mut packet.data_mut()[..header_len]) =>
        {
            Err(DropReason::IpOption)
        }
        _ if let Some(sealed) = sealed => Ok(sealed.take(packet)),
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            // A broadcast of one link is not for another (RFC 1812 section 5.3.4).
            if !is_routable(src.into(), dst.into()) || flags & FLAG_GROUP != 0 {
                return Err(DropReason::NotRouted);
            }
            let transit = flags & FLAG_LOCAL == 0;
            if transit && ttl <= 1 {
                return Ok(error(packet, TIME_EXCEEDED_V4));
            }
            if header_len > PLAIN
                && flags & FLAG_EXEMPT == 0
                && let Err(at) = record(tables, now, packet, header_len, adjacency)
            {
                let next = error(packet, options::PROBLEM_V4);
                packet.meta_mut().offset = at.into();
                return Ok(next);
            }
            if transit {
                hop_v4(packet);
            }
            Ok(onwards(packet, adjacency, decision.outbound))
        }
        Some(Route::Local) => Ok(here(packet, header_len)),
        Some(Route::Discard) => Err(DropReason::RouteDiscard),
        // A network's broadcast: no router wakes its hosts for another sender (RFC 2644).
        Some(Route::Broadcast) => Err(DropReason::NotRouted),
        None if dst.octets()[0] >= 224 => Err(DropReason::NotRouted),
        None => Ok(error(packet, NO_ROUTE_V4)),
    }
}

#[inline]
fn forward_v6(tables: &Tables, hits: &mut Hits, packet: &mut Packet) -> Result<Next, DropReason> {
    let (header, total) = ipv6::validate(packet.data()).map_err(DropReason::from)?;
    let next_header = header.next();
    let (src, dst) = (Ipv6Addr::from(header.src), Ipv6Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !is_host_v6(src) || is_forged(tables, packet, src.into()) {
        return Err(DropReason::BadSource);
    }
    if is_internal_v6(dst) {
        return Err(DropReason::NotRouted);
    }
    let decision = decide(tables, packet, |vrf| vrf.v6(dst))?;
    let Meta { iface, vrf, .. } = *packet.meta();
    if decision.route == Some(Route::Local) && tables.withheld.has(iface, vrf, dst) {
        return Err(DropReason::AddressWithheld);
    }
    let sealed = match decision.route {
        Some(route @ (Route::Local | Route::Guarded(_))) => {
            Sealed::find_v6(tables, packet, route, next_header)?
        }
        _ => None,
    };
    if sealed.is_none() && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, hits, decision.inbound, packet)?;
    }
    if is_extension(next_header)
        && flags & FLAG_LOCAL == 0
        && let Some(next) = unknown_option(tables, packet, decision.route, dst)?
    {
        return Ok(next);
    }
    match decision.route {
        _ if let Some(sealed) = sealed => Ok(sealed.take(packet)),
        Some(Route::Local) => here_v6(packet, next_header),
        // A frame for all stations of one link is not for another (RFC 1812 section 5.3.4).
        _ if dst.is_multicast() || flags & FLAG_GROUP != 0 => Err(DropReason::NotRouted),
        _ if dst.is_unicast_link_local() => beside(tables, packet),
        _ if src.is_unicast_link_local() => Err(DropReason::NotRouted),
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            if flags & FLAG_LOCAL == 0 && !hop_v6(packet) {
                return Ok(error(packet, TIME_EXCEEDED_V6));
            }
            Ok(onwards(packet, adjacency, decision.outbound))
        }
        Some(Route::Discard) => Err(DropReason::RouteDiscard),
        Some(Route::Broadcast) => Err(DropReason::NotRouted),
        None => Ok(error(packet, NO_ROUTE_V6)),
    }
}

/// A packet for this node, or for a host that it guards, about which no policy is asked:
/// one that IPsec opens, a datagram of keying, a fragment, which comes back here whole, or an
/// error about a packet that may have been sealed here, which IPsec verifies itself.
struct Sealed {
    /// The stage that opens it.
    next: Next,
    /// Offset of the ESP, AH or ICMP header.
    offset: usize,
    /// [`FLAG_ENCAP`] if in UDP.
    flag: u8,
}

impl Sealed {
    /// Nothing for a packet in clear. A guarded host's fragments are its own, unless
    /// there may be ESP or AH in them.
    #[inline]
    fn find(
        tables: &Tables,
        packet: &Packet,
        route: Route,
        offset: usize,
        protocol: Protocol,
        fragment: bool,
    ) -> Result<Option<Self>, DropReason> {
        if fragment {
            let in_udp = protocol == Protocol::UDP && !tables.udp_ports.is_empty();
            let ipsec = matches!(protocol, Protocol::ESP | Protocol::AH) || in_udp;
            let whole = Self { next: Next::Reassemble, offset: 0, flag: 0 };
            return Ok((ipsec || route == Route::Local).then_some(whole));
        }
        Ok(match protocol {
            Protocol::ESP => Some(Self { next: Next::EspIn, offset, flag: 0 }),
            Protocol::AH => Some(Self { next: Next::AhIn, offset, flag: 0 }),
            Protocol::UDP => match ipsec::esp_in_udp(tables, packet.data(), offset)? {
                Some(offset) => Some(Self { next: Next::EspIn, offset, flag: FLAG_ENCAP }),
                None if route == Route::Local => {
                    let keying = ipsec::is_keying(tables, packet, offset)?;
                    keying.then_some(Self { next: Next::Keying, offset, flag: 0 })
                }
                None => None,
            },
            Protocol::ICMP | Protocol::ICMPV6 => {
                let guarded = route != Route::Local;
                ipsec::is_path_error(tables, packet.data(), offset, guarded).then_some(Self {
                    next: Next::PathError,
                    offset,
                    flag: 0,
                })
            }
            _ => None,
        })
    }

    /// The same for IPv6, behind extension headers if there are any.
    #[inline]
    fn find_v6(
        tables: &Tables,
        packet: &Packet,
        route: Route,
        next: Protocol,
    ) -> Result<Option<Self>, DropReason> {
        let payload = packet.data().get(ipv6::Header::LEN..).unwrap_or_default();
        let upper = ipv6ext::walk(next, payload).ok().filter(|upper| upper.routing.is_none());
        let Some(upper) = upper else { return Ok(None) };
        let (offset, protocol) = (ipv6::Header::LEN + upper.offset, upper.protocol);
        let fragment = upper.fragment.is_some_and(|f| !f.is_atomic());
        Self::find(tables, packet, route, offset, protocol, fragment)
    }

    #[inline]
    fn take(self, packet: &mut Packet) -> Next {
        let meta = packet.meta_mut();
        meta.offset = self.offset as u16;
        meta.flags |= self.flag;
        self.next
    }
}

/// Writes this hop into the options of a packet that goes on. An error is the octet at
/// fault.
#[cold]
fn record(
    tables: &Tables,
    now: Instant,
    packet: &mut Packet,
    header_len: usize,
    adjacency: u32,
) -> Result<(), u8> {
    let iface = tables.adjacencies.get(adjacency as usize).and_then(|a| routed(tables, a.iface));
    let Some(&(own, _)) = iface.and_then(|iface| iface.v4.first()) else { return Ok(()) };
    let vrf = tables.vrfs.get(usize::from(packet.meta().vrf.0));
    let is_ours = |address| vrf.is_some_and(|vrf| vrf.v4(address) == Some(Route::Local));
    Hop { own, now }.record(packet.data_mut(), header_len, is_ours)
}

/// True for the headers between IPv6 and the upper layer that may have options or may stand
/// in front of them.
const fn is_extension(next: Protocol) -> bool {
    matches!(
        next,
        Protocol::HOP_BY_HOP | Protocol::DESTINATION | Protocol::ROUTING | Protocol::FRAGMENT
    )
}

/// The end of a packet with an option that must not be skipped (RFC 8200 section 4.2): the
/// node looks for them in packets for itself or for a group that it is in, and on the way
/// in the hop-by-hop header.
#[cold]
fn unknown_option(
    tables: &Tables,
    packet: &mut Packet,
    route: Option<Route>,
    dst: Ipv6Addr,
) -> Result<Option<Next>, DropReason> {
    let here = route == Some(Route::Local) || is_group_of_ours(tables, packet, dst);
    if dst.is_multicast() && !here {
        return Ok(None);
    }
    options::refuse_unknown(packet, here)
}

/// True for groups that the node is in: all nodes, all routers, and those in which others
/// ask for its addresses (RFC 4291 section 2.8).
#[cold]
fn is_group_of_ours(tables: &Tables, packet: &Packet, dst: Ipv6Addr) -> bool {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let iface = routed(tables, packet.meta().iface);
    dst == ALL_NODES
        || dst == ALL_ROUTERS
        || iface.is_some_and(|r| r.v6.iter().any(|&(own, _)| ndp::solicited_node(own) == dst))
}

/// One hop less, for a packet that has more than one.
#[inline]
fn hop_v4(packet: &mut Packet) {
    if let Ok((header, _)) = ipv4::Header::mut_from_prefix(packet.data_mut()) {
        header.decrement_ttl();
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
fn boundary(
    tables: &Tables,
    hits: &mut Hits,
    policy: Option<usize>,
    packet: &Packet,
) -> Result<(), DropReason> {
    let Some(policy) = policy else { return Ok(()) };
    match tables.policies.get(policy) {
        Some(policy) => policy.inbound(packet.data())?.enter(hits, packet.len()),
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

/// Out by an adjacency; a sealed packet goes straight to the output.
#[inline]
fn onwards(packet: &mut Packet, adjacency: u32, next: Next) -> Next {
    let meta = packet.meta_mut();
    meta.adjacency = adjacency;
    if meta.flags & FLAG_EXEMPT == 0 { next } else { Next::Output }
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
    let next = after_routing(tables, adjacency as u32, Arrival::NONE);
    Ok(onwards(packet, adjacency as u32, next))
}

/// Sends the packet to the ICMP stage with this type and code.
#[cold]
pub(super) fn error(packet: &mut Packet, kind: u16) -> Next {
    let meta = packet.meta_mut();
    (meta.icmp, meta.limit, meta.offset) = (kind, 0, 0);
    Next::IcmpError
}

/// Delivers a packet to this node itself: in clear, and whole.
#[inline]
fn here(packet: &mut Packet, offset: usize) -> Next {
    packet.meta_mut().offset = offset as u16;
    Next::Local
}

/// For this node, IPv6: extension headers are stepped over. A routing header that is not
/// done with its way is of no type known here (RFC 8200 section 4.4, RFC 5095).
#[inline]
fn here_v6(packet: &mut Packet, next: Protocol) -> Result<Next, DropReason> {
    let payload = packet.data().get(ipv6::Header::LEN..).unwrap_or_default();
    let upper = ipv6ext::walk(next, payload).map_err(DropReason::from)?;
    if let Some(at) = upper.routing {
        let next = error(packet, WRONG_FIELD_V6);
        packet.meta_mut().offset = (ipv6::Header::LEN + at + ipv6ext::ROUTING_TYPE_AT) as u16;
        return Ok(next);
    }
    Ok(here(packet, ipv6::Header::LEN + upper.offset))
}
