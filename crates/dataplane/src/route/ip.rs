//! Forwarding: from an IP packet to the way it takes.

use crate::graph::{
    Ctx, FLAG_ENCAP, FLAG_EXEMPT, FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, Next, Stage, TURNS_MAX,
};
use crate::ipsec::{self, Hits};
use crate::route::error::is_ours;
use crate::route::{Adjacency, Route, Vrf};
use crate::tables::{IfaceKind, RoutedIface, Tables};
use ferrule_base::{DropReason, VrfId};
use ferrule_pipeline::{Arrival, Batch, Meta, Packet};
use ferrule_wire::checksum::Sum;
use ferrule_wire::{EtherType, FromBytes, Protocol, icmpv4, icmpv6, ipv4, ipv6, ipv6ext};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// ICMPv4 time exceeded in transit, as `scratch` has it.
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
pub struct Ip;

impl Stage for Ip {
    /// For each packet:
    ///
    /// 0. IPv4 between the same ends as a packet before: the same way.
    /// 1. It has not been here too often: a tunnel into itself goes round.
    /// 2. Its header holds together, and its source is one that a sender may
    ///    have (RFC 1812 sections 5.2.2 and 5.3.7). Padding behind it goes.
    /// 3. The longest prefix says where it goes; a batch has few flows, so the
    ///    last answers are tried first.
    /// 4. In clear from an interface with a policy: ESP for this node, or for a host
    ///    that it guards, passes, and its fragments, which come back whole; all else is
    ///    asked of the policy.
    /// 5. For this node: to `EspIn`, `Local` or `Reassemble`. Onwards: one hop
    ///    less, then to the way out, by the policy of that interface if it has one.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (mut known, mut last_v6) = ([Known::NOTHING; LASTS], [None; LASTS]);
        let way = |ctx: &mut Ctx<'_>, packet: &mut Packet| match again(&known, packet) {
            Some(next) => Ok(next),
            None => forward(ctx.tables, &mut ctx.tally.hits, &mut known, &mut last_v6, packet),
        };
        ctx.pass(batch, way, Ctx::drop);
    }
}

/// An IPv4 packet that others will follow: where it goes, and what it tells about them.
pub(crate) fn lead(
    ctx: &mut Ctx<'_>,
    packet: &mut Packet,
) -> Result<(Next, Option<Known>), DropReason> {
    let (mut known, hits) = ([Known::NOTHING; LASTS], &mut ctx.tally.hits);
    let next = forward(ctx.tables, hits, &mut known, &mut [None; LASTS], packet)?;
    Ok((next, known.into_iter().find(|known| known.ends != Known::NOTHING.ends)))
}

/// A packet that no other before it tells about.
#[inline(never)]
fn forward(
    tables: &Tables,
    hits: &mut Hits,
    known: &mut [Known; LASTS],
    last_v6: &mut Lasts<Ipv6Addr>,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let turns = &mut packet.meta_mut().turns;
    *turns = turns.saturating_add(1);
    if *turns > TURNS_MAX {
        return Err(DropReason::GraphLoop);
    }
    match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => forward_v4(tables, hits, known, packet),
        EtherType::IPV6 => forward_v6(tables, hits, last_v6, packet),
        _ => Err(DropReason::UnknownProtocol),
    }
}

/// What became of an IPv4 packet without options, as far as its addresses and
/// where it came from decide it.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// Source and destination, as they stand in the header.
    ends: [u8; 8],
    came: Arrival,
    adjacency: u32,
    /// `EspIn`, or a way out.
    next: Next,
}

impl Known {
    /// No packet comes from 0.0.0.0.
    const NOTHING: Self =
        Self { ends: [0; 8], came: Arrival::UNKNOWN, adjacency: 0, next: Next::Output };

    /// Where in the memory of a batch it is kept.
    #[inline(always)]
    const fn place(ends: [u8; 8]) -> usize {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        (u64::from_ne_bytes(ends).wrapping_mul(SPREAD) >> 32) as usize % LASTS
    }
}

/// Octets of a header without options.
pub(crate) const PLAIN: usize = ipv4::Header::LEN;

/// Step 0.
#[inline(always)]
fn again(known: &[Known; LASTS], packet: &mut Packet) -> Option<Next> {
    let ends = *packet.data().first_chunk::<PLAIN>()?.last_chunk()?;
    known[Known::place(ends)].again(packet)
}

impl Known {
    /// Nothing, and nothing done, if the packet is not like the one before, or if
    /// anything about it is out of the ordinary.
    #[inline(always)]
    fn again(&self, packet: &mut Packet) -> Option<Next> {
        match self.next {
            Next::EspIn => self.again_to::<true>(packet),
            _ => self.again_to::<false>(packet),
        }
    }

    #[inline(always)]
    fn again_to<const ESP_IN: bool>(&self, packet: &mut Packet) -> Option<Next> {
        let (meta, data) = packet.split();
        let len = data.len();
        let header = data.first_chunk_mut()?;
        if self.came != meta.arrival() || !self.fits::<ESP_IN>(header, len) {
            return None;
        }
        self.take::<ESP_IN>(meta, header);
        Some(self.next)
    }

    /// Whether a packet of this length that came as the one before goes the same way:
    /// onwards, or to `EspIn`.
    #[inline(always)]
    pub(crate) fn fits<const ESP_IN: bool>(&self, header: &[u8; PLAIN], len: usize) -> bool {
        if header.last_chunk() != Some(&self.ends) || plain_len(header) != Some(len) {
            return false;
        }
        let Ok(header) = ipv4::Header::ref_from_bytes(header) else { return false };
        match ESP_IN {
            true => header.protocol == Protocol::ESP.0 && !header.is_fragment(),
            false => header.ttl > 1,
        }
    }

    /// Sends a packet that fits on its way.
    #[inline(always)]
    pub(crate) fn take<const ESP_IN: bool>(&self, meta: &mut Meta, header: &mut [u8; PLAIN]) {
        if ESP_IN {
            meta.offset = PLAIN as u16;
        } else {
            meta.target = self.adjacency;
            if let Ok(header) = ipv4::Header::mut_from_bytes(header) {
                header.count_hop();
            }
        }
        // Not too many turns: the one before came as far.
        meta.set_arrival(self.came.once_more());
    }

    /// Source and destination, as they stand in the header.
    pub(crate) const fn ends(&self) -> [u8; 8] {
        self.ends
    }

    /// How the one before came.
    pub(crate) const fn came(&self) -> Arrival {
        self.came
    }

    /// Where they go.
    pub(crate) const fn next(&self) -> Next {
        self.next
    }
}

/// The total length of a header without options whose checksum is right.
#[inline(always)]
fn plain_len(header: &[u8; PLAIN]) -> Option<usize> {
    // A sum in ones' complement is the same in either order of octets (RFC 1071
    // section 2), and of known length it is unrolled.
    let (words, _) = header.as_chunks::<4>();
    let sum = words.iter().fold(Sum::new(), |sum, &w| sum.with_u32(u32::from_le_bytes(w)));
    let good = header[0] == 0x45 && sum.is_good();
    good.then_some(usize::from(u16::from_be_bytes([header[2], header[3]])))
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
    /// The way out: by what its interface, and that of arrival, want.
    outbound: Next,
}

/// Decisions of a batch that are remembered, by a few bits of the addresses.
const LASTS: usize = 16;
type Lasts<A> = [Option<Decision<A>>; LASTS];

/// The decision for a packet.
fn decide<A>(
    tables: &Tables,
    meta: &Meta,
    dst: A,
    lookup: impl FnOnce(&Vrf, &A) -> Option<Route>,
) -> Result<Decision<A>, DropReason> {
    let vrf = tables.vrfs.get(usize::from(meta.vrf.0)).ok_or(DropReason::NoRoute)?;
    let route = lookup(vrf, &dst);
    let way_out = match route {
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            tables.adjacencies.get(adjacency as usize)
        }
        _ => None,
    };
    let policy = |iface| routed(tables, iface).and_then(|routed| routed.policy);
    let to = way_out.and_then(|adjacency| routed(tables, adjacency.iface));
    let outbound = by_way_of(routed(tables, meta.iface), to);
    let (inbound, iface) = (policy(meta.iface), meta.iface);
    Ok(Decision { dst, vrf: meta.vrf, iface, route, inbound, outbound })
}

/// The decision for a packet: that of one before if it went the same way.
#[inline]
fn decide_v6(
    tables: &Tables,
    last: &mut Lasts<Ipv6Addr>,
    meta: &Meta,
    dst: Ipv6Addr,
) -> Result<Decision<Ipv6Addr>, DropReason> {
    let bits = u128::from(dst);
    let place = (bits ^ bits >> 64) as u32;
    let place = ((place ^ place >> 8 ^ place >> 16) as usize) % LASTS;
    let same = |d: &Decision<_>| d.dst == dst && d.iface == meta.iface && d.vrf == meta.vrf;
    if let Some(decision) = last[place].filter(same) {
        return Ok(decision);
    }
    let decision = decide(tables, meta, dst, |vrf, &dst| vrf.v6(dst))?;
    last[place] = Some(decision);
    Ok(decision)
}

fn forward_v4(
    tables: &Tables,
    hits: &mut Hits,
    known: &mut [Known; LASTS],
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let (header, header_len, total) = ipv4::validate(packet.data()).map_err(DropReason::from)?;
    let (protocol, fragment) = (header.protocol(), header.is_fragment());
    let (src, dst) = (Ipv4Addr::from(header.src), Ipv4Addr::from(header.dst));
    packet.truncate(total);
    let flags = packet.meta().flags;
    if flags & FLAG_LOCAL == 0 && !may_send_v4(src) {
        return Err(DropReason::BadSource);
    }
    let decision = decide(tables, packet.meta(), dst, |vrf, &dst| vrf.v4(dst))?;
    let sealed = match decision.route {
        Some(route @ (Route::Local | Route::Guarded(_))) => {
            Sealed::find(tables, packet, route, header_len, protocol, fragment)
        }
        _ => None,
    };
    let asked = sealed.is_none() && flags & (FLAG_OPENED | FLAG_LOCAL) == 0;
    if asked {
        boundary(tables, hits, decision.inbound, packet)?;
    }
    let next = match decision.route {
        Some(Route::Local) if header_len > PLAIN && wants_on(packet.data(), header_len) => {
            return Err(DropReason::IpOption);
        }
        _ if let Some(sealed) = sealed => sealed.take(packet),
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) => {
            let beyond = dst.octets()[0] < 224 && !dst.is_link_local() && !src.is_link_local();
            // A broadcast of one link is not for another (RFC 1812 section 5.3.4).
            if !beyond || flags & FLAG_GROUP != 0 {
                return Err(DropReason::NotRouted);
            }
            if flags & FLAG_LOCAL == 0 && !hop_v4(packet) {
                return Ok(error(packet, TIME_EXCEEDED_V4));
            }
            onwards(packet, adjacency, decision.outbound)
        }
        Some(Route::Local) if from_ourselves(tables, packet, src.into()) => {
            return Err(DropReason::BadSource);
        }
        Some(Route::Local) => here(packet, header_len),
        Some(Route::Discard) => return Err(DropReason::RouteDiscard),
        None if dst.octets()[0] >= 224 => return Err(DropReason::NotRouted),
        None => return Ok(error(packet, NO_ROUTE_V4)),
    };
    // Others like it, unless a policy must see each, or the node itself: of what goes
    // to a guarded host something may be sealed.
    let mixed = matches!(decision.route, Some(Route::Local | Route::Guarded(_)));
    let alike = flags & FLAG_LOCAL == 0 && (next == Next::EspIn || !mixed);
    if alike && header_len == PLAIN && !(asked && decision.inbound.is_some()) {
        let [s, d] = [src.octets(), dst.octets()];
        let ends = [s[0], s[1], s[2], s[3], d[0], d[1], d[2], d[3]];
        let came = Meta { turns: packet.meta().turns - 1, flags, ..*packet.meta() };
        let (came, adjacency) = (came.arrival(), packet.meta().target);
        known[Known::place(ends)] = Known { ends, came, adjacency, next };
    }
    Ok(next)
}

#[inline]
fn forward_v6(
    tables: &Tables,
    hits: &mut Hits,
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
    let decision = decide_v6(tables, last, packet.meta(), dst)?;
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
    policy: Option<u16>,
    packet: &Packet,
) -> Result<(), DropReason> {
    let Some(policy) = policy else { return Ok(()) };
    match tables.policies.get(usize::from(policy)) {
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

/// The next place of packets from one interface to another.
fn by_way_of(from: Option<&RoutedIface>, to: Option<&RoutedIface>) -> Next {
    let clamp = [from, to].into_iter().flatten().any(|iface| iface.clamp.is_some());
    match to {
        _ if clamp => Next::Clamp,
        Some(iface) if iface.policy.is_some() => Next::Policy,
        _ => Next::Output,
    }
}

/// Out by an adjacency; what is sealed already, without a stop.
#[inline]
fn onwards(packet: &mut Packet, adjacency: u32, next: Next) -> Next {
    let meta = packet.meta_mut();
    meta.target = adjacency;
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
    let next = by_way_of(None, routed(tables, meta.iface));
    Ok(onwards(packet, adjacency as u32, next))
}

/// To be told to the sender.
#[cold]
fn error(packet: &mut Packet, kind: u16) -> Next {
    let meta = packet.meta_mut();
    (meta.scratch, meta.number) = (kind, 0);
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
        packet.meta_mut().number = (ipv6::Header::LEN + at + ipv6ext::ROUTING_TYPE_AT) as u64;
        return Ok(next);
    }
    Ok(here(packet, ipv6::Header::LEN + upper.offset))
}
