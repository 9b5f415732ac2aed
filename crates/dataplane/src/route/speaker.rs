//! The address from which a node speaks of a packet that it does not send on.
//!
//! The sender of the packet has to be able to receive the message. Behind a tunnel that
//! takes an address that the tunnel's policy lets back (RFC 4301 section 6): the gateway's
//! on the network that the packet was for, as a rule. A packet that came out of an SA is
//! never quoted in clear where a policy stands.

use crate::graph::FLAG_OPENED;
use crate::ipsec::{Action, Spd};
use crate::route::Route;
use crate::route::ip::routed;
use crate::tables::Tables;
use ferrule_base::VrfId;
use ferrule_pipeline::{Meta, Packet};
use ferrule_wire::{FromBytes, Protocol, ipv4, ipv6};
use std::iter;
use std::net::IpAddr;

/// Own addresses that a policy is asked about for one packet, at most.
const TRIES_MAX: usize = 16;

/// An own address from which a message of this type and code about the packet reaches
/// `sender`; nothing if there is none.
pub(super) fn speaker(
    tables: &Tables,
    packet: &Packet,
    sender: IpAddr,
    message: [u8; 2],
) -> Option<IpAddr> {
    let mut own = candidates(tables, packet, sender);
    let Some(policy) = policy_back(tables, packet, sender) else { return own.next() };
    let opened = packet.meta().flags & FLAG_OPENED != 0;
    let mut first = None;
    for own in own.take(TRIES_MAX) {
        first = first.or(Some(own));
        match action(policy, own, sender, message) {
            Action::Protect(_) => return Some(own),
            Action::Bypass if !opened => return Some(own),
            Action::Bypass | Action::Discard => {}
        }
    }
    // The policy says no, and counts it.
    first.filter(|_| !opened)
}

/// Own addresses of the sender's family and scope, the best first: the one that the packet
/// was for (RFC 1122 section 3.2.2, RFC 4443 section 2.2 (a)); for a packet that came out
/// of an SA those of the network that it was for; those where it came in; all others of its
/// table.
fn candidates<'a>(
    tables: &'a Tables,
    packet: &Packet,
    sender: IpAddr,
) -> impl Iterator<Item = IpAddr> + 'a {
    let meta = *packet.meta();
    let vrf = tables.vrfs.get(usize::from(meta.vrf.0));
    let dst = destination(packet);
    let route = dst.and_then(|dst| vrf?.route(dst));
    let asked = dst.filter(|_| route == Some(Route::Local));
    let ahead = match route {
        Some(Route::Via(adjacency) | Route::Guarded(adjacency)) if was_sealed(tables, &meta) => {
            tables.adjacencies.get(adjacency as usize).map(|a| a.iface)
        }
        _ => None,
    };
    let ahead = ahead.into_iter().flat_map(move |iface| addresses(tables, iface, meta.vrf));
    let near = asked.into_iter().chain(ahead).filter(move |own| fits(*own, sender));
    near.chain(of_its_table(tables, meta, sender))
}

/// The address from which a node within a path speaks of a packet with labels: it knows
/// neither who sent it nor whom it is for.
pub(super) fn near(tables: &Tables, packet: &Packet, sender: IpAddr) -> Option<IpAddr> {
    of_its_table(tables, *packet.meta(), sender).next()
}

/// Own addresses of the sender's family and scope: those where the packet came in, then all
/// of its table. (A packet that came by a label came by no interface of the table it is
/// in.)
fn of_its_table(tables: &Tables, meta: Meta, sender: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
    let all = iter::once(meta.iface).chain(0..tables.ifaces.len() as u16);
    let all = all.flat_map(move |iface| addresses(tables, iface, meta.vrf));
    all.filter(move |own| fits(*own, sender))
}

/// True if a packet came out of an SA, here or perhaps in a card.
fn was_sealed(tables: &Tables, meta: &Meta) -> bool {
    let has_card = || routed(tables, meta.iface).is_some_and(|iface| iface.has_card);
    meta.flags & FLAG_OPENED != 0 || has_card()
}

/// Addresses in use of an interface of this table.
fn addresses(tables: &Tables, iface: u16, vrf: VrfId) -> impl Iterator<Item = IpAddr> + '_ {
    let routed = routed(tables, iface).filter(|routed| routed.vrf == vrf);
    routed.into_iter().flat_map(move |routed| {
        let v4 = routed.v4.iter().map(|&(own, _)| IpAddr::V4(own));
        let v6 = routed.v6.iter().map(|&(own, _)| own);
        let v6 = v6.filter(move |&own| !tables.withheld.has(iface, vrf, own));
        v4.chain(v6.map(IpAddr::V6))
    })
}

/// True for two addresses of one family, and of IPv6 of one scope.
fn fits(own: IpAddr, other: IpAddr) -> bool {
    match (own, other) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(own), IpAddr::V6(other)) => {
            own.is_unicast_link_local() == other.is_unicast_link_local()
        }
        _ => false,
    }
}

/// The destination of a packet.
fn destination(packet: &Packet) -> Option<IpAddr> {
    let data = packet.data();
    match data.first()? >> 4 {
        4 => ipv4::Header::ref_from_prefix(data).ok().map(|(h, _)| IpAddr::V4(h.dst.into())),
        _ => ipv6::Header::ref_from_prefix(data).ok().map(|(h, _)| IpAddr::V6(h.dst.into())),
    }
}

/// The policy on the way back to the sender, if one stands there.
fn policy_back<'a>(tables: &'a Tables, packet: &Packet, sender: IpAddr) -> Option<&'a Spd> {
    let vrf = tables.vrfs.get(usize::from(packet.meta().vrf.0))?;
    let (Route::Via(adjacency) | Route::Guarded(adjacency)) = vrf.route(sender)? else {
        return None;
    };
    let iface = tables.adjacencies.get(adjacency as usize)?.iface;
    tables.policies.get(usize::from(routed(tables, iface)?.policy?)).map(|spd| &**spd)
}

/// The policy's word on a message between these addresses.
fn action(policy: &Spd, own: IpAddr, sender: IpAddr, [kind, code]: [u8; 2]) -> Action {
    let mut probe = [0; ipv6::Header::LEN + 8];
    let at = match (own, sender) {
        (IpAddr::V4(own), IpAddr::V4(sender)) => {
            let header = ipv4::Repr::new(Protocol::ICMP, own, sender, 8);
            header.emit(&mut probe);
            ipv4::Header::LEN
        }
        (IpAddr::V6(own), IpAddr::V6(sender)) => {
            let header = ipv6::Repr::new(Protocol::ICMPV6, own, sender, 8);
            header.emit(&mut probe);
            ipv6::Header::LEN
        }
        _ => return Action::Discard,
    };
    (probe[at], probe[at + 1]) = (kind, code);
    policy.outbound(&probe[..at + 8]).map_or(Action::Discard, |decision| decision.action)
}
