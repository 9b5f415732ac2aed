//! Forwarding: from an IP packet to the way it takes.

use crate::graph::{
    Ctx, FLAG_ENCAP, FLAG_EXEMPT, FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, Next, Stage, TURNS_MAX,
};
use crate::ipsec::{self, Hits};
use crate::link::Arrival;
use crate::route::error::is_ours;
use crate::route::fib::Cell;
use crate::route::{Adjacency, Route, Vrf};
use crate::tables::{IfaceKind, RoutedIface, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{AHEAD, BATCH, Batch, Meta, Packet};
use ferrule_wire::{EtherType, FromBytes, Protocol, icmpv4, icmpv6, ipv4, ipv6, ipv6ext};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// ICMPv4 time exceeded in transit, type and code.
pub const TIME_EXCEEDED_V4: u16 = 11 << 8;
/// ICMPv6 hop limit exceeded in transit.
pub const TIME_EXCEEDED_V6: u16 = 3 << 8;
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
    /// 2. The longest prefix of each destination.
    /// 3. Onwards: one hop less, then to the way out, by the policy of that interface if
    ///    it has one. ESP for this node: to `EspIn`.
    /// 4. All else by itself: IPv6, options, what is for this node, what comes in clear from
    ///    an interface with a policy, and what is refused.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (tables, columns) = (ctx.tables, &mut *self.columns);
        columns.read(batch);
        if columns.judge(batch.len()) {
            columns.strip_padding(batch);
        }
        columns.look_up(tables, batch);
        let mut at = 0;
        ctx.forward(batch, |ctx, packet| {
            let row = at % BATCH;
            at += 1;
            if columns.odd[row] == 0
                && let Some(next) = plain(tables, columns.route[row], columns.hops[row], packet)
            {
                return Ok(next);
            }
            Ok(forward(tables, &mut ctx.tally.hits, packet)?)
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
    fn read(&mut self, batch: &Batch) {
        for at in 0..batch.len().min(BATCH) {
            let packet = &batch[at];
            batch.get(at + AHEAD).into_iter().for_each(Packet::prefetch);
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
                | u32::from(meta.flags & !FLAG_OPENED);
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
                & may_send_v4(src.into())
                & is_routable(src, dst);
            self.odd[at] |= u32::from(!good);
            padded |= u32::from(total < len);
        }
        padded != 0
    }

    /// Takes off what follows a good packet.
    #[cold]
    fn strip_padding(&self, batch: &mut Batch) {
        let rows = self.odd.iter().zip(&self.first);
        for (packet, (odd, first)) in batch.iter_mut().zip(rows) {
            if *odd == 0 {
                packet.truncate(total_len(*first) as usize);
            }
        }
    }

    /// Step 2, table by table.
    #[inline(always)]
    fn look_up(&mut self, tables: &Tables, batch: &Batch) {
        let mut from = 0;
        while let Some(first) = batch.get(from) {
            let table = first.meta().vrf;
            let same = batch[from..].iter().take_while(|packet| packet.meta().vrf == table);
            let to = from + same.count().max(1);
            match tables.vrfs.get(usize::from(table.0)) {
                Some(vrf) => vrf.v4_all(&self.dst[from..to], &mut self.route[from..to]),
                None => self.route[from..to].fill(Cell::NONE),
            }
            from = to;
        }
    }
}

/// Total length in the first word of a header.
#[inline(always)]
const fn total_len(first: u32) -> u32 {
    first >> 24 | first >> 8 & 0xff00
}

/// True if a packet between these addresses may leave its link: neither is link-local, and
/// the destination is no group (RFC 3927 section 2.7, RFC 1812 section 5.2.1).
#[inline(always)]
const fn is_routable(src: u32, dst: u32) -> bool {
    const LINK_LOCAL: u32 = 0xa9fe;
    (src >> 16 != LINK_LOCAL) & (dst >> 16 != LINK_LOCAL) & (dst >> 29 != 7)
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
        let exit = tables.hot.exits.get(route.adjacency() as usize)?;
        if !arrival.lets_pass(meta.flags) || hops & 0xff <= 1 {
            return None;
        }
        *data.get_mut(HOPS_AT..)?.first_chunk_mut()? = ipv4::count_hop(hops).to_le_bytes();
        meta.turns += 1;
        meta.adjacency = route.adjacency();
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
fn forward(tables: &Tables, hits: &mut Hits, packet: &mut Packet) -> Result<Next, DropReason> {
    let turns = &mut packet.meta_mut().turns;
    *turns = turns.saturating_add(1);
    if *turns > TURNS_MAX {
        return Err(DropReason::GraphLoop);
    }
    match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => forward_v4(tables, hits, packet),
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
    /// The way out: by what its interface, and that of arrival, want.
    outbound: Next,
}

/// The decision for a packet.
fn decide(
    tables: &Tables,
    meta: &Meta,
    look_up: impl FnOnce(&Vrf) -> Option<Route>,
) -> Result<Decision, DropReason> {
    let vrf = tables.vrfs.get(usize::from(meta.vrf.0)).ok_or(DropReason::NoRoute)?;
    let route = look_up(vrf);
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

fn forward_v4(tables: &Tables, hits: &mut Hits, packet: &mut Packet) -> Result<Next, DropReason> {
    let (header, header_len, total) = ipv4::validate(packet.data()).map_err(DropReason::from)?;
    let (protocol, fragment) = (header.protocol(), header.is_fragment());
    let (src, dst) = (Ipv4Addr::from(header.src), Ipv4Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !may_send_v4(src) {
        return Err(DropReason::BadSource);
    }
    let decision = decide(tables, packet.meta(), |vrf| vrf.v4(dst))?;
    let sealed = match decision.route {
        Some(route @ (Route::Local | Route::Guarded(_))) => {
            Sealed::find(tables, packet, route, header_len, protocol, fragment)
        }
        _ => None,
    };
    if sealed.is_none() && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, hits, decision.inbound, packet)?;
    }
    match decision.route {
        Some(Route::Local) if header_len > PLAIN && wants_on(packet.data(), header_len) => {
            Err(DropReason::IpOption)
        }
        _ if let Some(sealed) = sealed => Ok(sealed.take(packet)),
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            // A broadcast of one link is not for another (RFC 1812 section 5.3.4).
            if !is_routable(src.into(), dst.into()) || flags & FLAG_GROUP != 0 {
                return Err(DropReason::NotRouted);
            }
            if flags & FLAG_LOCAL == 0 && !hop_v4(packet) {
                return Ok(error(packet, TIME_EXCEEDED_V4));
            }
            Ok(onwards(packet, adjacency, decision.outbound))
        }
        Some(Route::Local) if from_ourselves(tables, packet, src.into()) => {
            Err(DropReason::BadSource)
        }
        Some(Route::Local) => Ok(here(packet, header_len)),
        Some(Route::Discard) => Err(DropReason::RouteDiscard),
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
    if flags & FLAG_LOCAL == 0 && !may_send_v6(src) {
        return Err(DropReason::BadSource);
    }
    let decision = decide(tables, packet.meta(), |vrf| vrf.v6(dst))?;
    let sealed = match decision.route {
        Some(route @ (Route::Local | Route::Guarded(_))) => {
            Sealed::find_v6(tables, packet, route, next_header)
        }
        _ => None,
    };
    if sealed.is_none() && flags & (FLAG_OPENED | FLAG_LOCAL) == 0 {
        boundary(tables, hits, decision.inbound, packet)?;
    }
    match decision.route {
        _ if let Some(sealed) = sealed => Ok(sealed.take(packet)),
        Some(Route::Local) if from_ourselves(tables, packet, src.into()) => {
            Err(DropReason::BadSource)
        }
        Some(Route::Local) => here_v6(packet, next_header),
        // A frame for everybody on one link is not for another (RFC 1812 section 5.3.4).
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
        None => Ok(error(packet, NO_ROUTE_V6)),
    }
}

/// What no policy is asked about of the packets for this node and for the hosts that it
/// guards: what IPsec opens, fragments, which come back here whole, and errors about
/// what may have been sealed here, which it believes by itself or not.
struct Sealed {
    /// Who opens it.
    next: Next,
    /// Where ESP, AH or ICMP begins.
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
    ) -> Option<Self> {
        if fragment {
            let in_udp = protocol == Protocol::UDP && tables.sas.has_udp();
            let ipsec = matches!(protocol, Protocol::ESP | Protocol::AH) || in_udp;
            let whole = Self { next: Next::Reassemble, offset: 0, flag: 0 };
            return (ipsec || route == Route::Local).then_some(whole);
        }
        match protocol {
            Protocol::ESP => Some(Self { next: Next::EspIn, offset, flag: 0 }),
            Protocol::AH => Some(Self { next: Next::AhIn, offset, flag: 0 }),
            Protocol::UDP => {
                let offset = ipsec::esp_in_udp(tables, packet.data(), offset)?;
                Some(Self { next: Next::EspIn, offset, flag: FLAG_ENCAP })
            }
            Protocol::ICMP | Protocol::ICMPV6 => {
                let guarded = route != Route::Local;
                ipsec::is_path_error(tables, packet.data(), offset, guarded).then_some(Self {
                    next: Next::PathError,
                    offset,
                    flag: 0,
                })
            }
            _ => None,
        }
    }

    /// The same for IPv6, behind extension headers if there are any.
    #[inline]
    fn find_v6(tables: &Tables, packet: &Packet, route: Route, next: Protocol) -> Option<Self> {
        let payload = packet.data().get(ipv6::Header::LEN..).unwrap_or_default();
        let upper = ipv6ext::walk(next, payload).ok().filter(|upper| upper.routing.is_none())?;
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

/// Whether a sender may have the address (RFC 1812 section 5.3.7): not this
/// network, not loopback, not a group, not reserved or broadcast.
#[inline]
pub(super) const fn may_send_v4(src: Ipv4Addr) -> bool {
    let first = src.to_bits() >> 24;
    (first.wrapping_sub(1) < 223) & (first != 127)
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

/// Whether a packet for this node says that this node sent it, and did not: what
/// answers it would answer itself (RFC 1812 section 5.3.8).
fn from_ourselves(tables: &Tables, packet: &Packet, src: IpAddr) -> bool {
    packet.meta().flags & FLAG_LOCAL == 0 && is_ours(tables, packet, src)
}

/// Whether IPv4 options ask that a packet for this node go on from here: a source route
/// with addresses left (RFC 791 section 3.1), which no router should follow (RFC 7126
/// sections 4.3 and 4.4).
#[cold]
fn wants_on(packet: &[u8], header_len: usize) -> bool {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut rest = packet.get(PLAIN..header_len).unwrap_or_default();
    // Each step is at least one octet of at most 40.
    loop {
        rest = match *rest {
            [] | [0, ..] => return false,
            [1, ref rest @ ..] => rest,
            // The pointer counts from one, and a whole address has to be there.
            [LOOSE | STRICT, len, pointer, ..] if pointer.saturating_add(3) <= len => return true,
            [_, len, ..] if len >= 2 => rest.get(len.into()..).unwrap_or_default(),
            _ => return false,
        };
    }
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

/// Out by an adjacency; what is sealed already, without a stop.
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

/// To be told to the sender.
#[cold]
fn error(packet: &mut Packet, kind: u16) -> Next {
    let meta = packet.meta_mut();
    (meta.icmp, meta.limit, meta.offset) = (kind, 0, 0);
    Next::IcmpError
}

/// For this node itself: in clear, and whole.
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
