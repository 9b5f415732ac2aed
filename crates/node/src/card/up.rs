//! From the wire towards the node (RFC 4301 section 5.2).

use super::frame::Seen;
use super::links::Links;
use ferrule_base::DropReason;
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::{FLAG_GROUP, Next};
use ferrule_dataplane::ipsec::Hits;
use ferrule_dataplane::route::{Route, Vrf};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, Protocol, esp, ipv4, ipv6, ipv6ext};
use std::sync::Arc;

/// An ESP packet for this gateway.
struct Esp {
    /// Offset of its ESP header.
    offset: usize,
    /// Octets of the packet.
    total: usize,
    spi: u32,
}

/// Next stage of a clear frame from the wire, or of one that a SecY opened; nothing: it
/// goes to the node as it is.
///
/// 1. Its tag names the interface; without a policy there it passes.
/// 2. It is for this port or a group.
/// 3. Protocols of the link itself pass: ARP, neighbour discovery.
/// 4. ESP for this gateway, of an SA that the card has, is opened; its link header waits.
/// 5. Other IP packets pass if the policy lets them in clear.
#[inline]
pub(super) fn up(
    tables: &Tables,
    hits: &mut Hits,
    links: &mut Links,
    packet: &mut Packet,
) -> Result<Option<Next>, DropReason> {
    // 1
    let Some(seen) = Seen::at(tables, packet)? else { return Ok(None) };
    // 2
    let group = seen.dst.is_group();
    if seen.dst != seen.iface.mac && !group {
        return Err(DropReason::NotForUs);
    }
    let esp = match seen.ethertype {
        // 3
        EtherType::ARP => return Ok(None),
        EtherType::IPV6 if seen.is_discovery(packet, true) => return Ok(None),
        EtherType::IPV4 => esp_v4(tables, seen.payload(packet))?,
        EtherType::IPV6 => esp_v6(tables, seen.payload(packet))?,
        _ => return Err(DropReason::UnknownProtocol),
    };
    // 4
    if let Some(esp) = &esp
        && tables.sas.inbound(esp.spi).is_some()
    {
        let ethertype = seen.ethertype.0;
        links.save(packet, seen.link)?;
        packet.truncate(esp.total);
        let meta = packet.meta_mut();
        meta.offset = esp.offset as u16;
        meta.ethertype = ethertype;
        meta.flags = if group { FLAG_GROUP } else { 0 };
        return Ok(Some(Next::EspIn));
    }
    // 5
    let policy = tables.policies.get(usize::from(seen.policy));
    let ip = seen.payload(packet);
    let verdict = policy
        .map_or(Err(DropReason::PolicyDiscard), |policy| policy.inbound(ip)?.enter(hits, ip.len()));
    match verdict {
        Ok(()) => Ok(None),
        Err(_) if esp.is_some() => Err(DropReason::EspUnknownSpi),
        Err(reason) => Err(reason),
    }
}

/// The ESP packet in an IPv4 packet for this gateway; nothing in any other.
#[inline]
fn esp_v4(tables: &Tables, ip: &[u8]) -> Result<Option<Esp>, DropReason> {
    let (header, offset, total) = ipv4::validate(ip).map_err(DropReason::from)?;
    let here = |vrf: &Arc<Vrf>| vrf.v4(header.dst.into()) == Some(Route::Local);
    if header.protocol() != Protocol::ESP || !tables.vrfs.first().is_some_and(here) {
        return Ok(None);
    }
    if header.is_fragment() {
        return Err(DropReason::FragmentNotSupported);
    }
    esp_at(ip, offset, total).map(Some)
}

/// The same for IPv6, behind extension headers if there are any.
#[inline]
fn esp_v6(tables: &Tables, ip: &[u8]) -> Result<Option<Esp>, DropReason> {
    let (header, total) = ipv6::validate(ip).map_err(DropReason::from)?;
    let here = |vrf: &Arc<Vrf>| vrf.v6(header.dst.into()) == Some(Route::Local);
    if !tables.vrfs.first().is_some_and(here) {
        return Ok(None);
    }
    let payload = ip.get(ipv6::Header::LEN..).unwrap_or_default();
    let upper = ipv6ext::walk(header.next(), payload).map_err(DropReason::from)?;
    if upper.protocol != Protocol::ESP {
        return Ok(None);
    }
    if upper.fragment.is_some_and(|fragment| !fragment.is_atomic()) {
        return Err(DropReason::FragmentNotSupported);
    }
    esp_at(ip, ipv6::Header::LEN + upper.offset, total).map(Some)
}

#[inline]
fn esp_at(ip: &[u8], offset: usize, total: usize) -> Result<Esp, DropReason> {
    let payload = ip.get(offset..total).unwrap_or_default();
    let (header, _) = esp::Header::ref_from_prefix(payload).map_err(|_| DropReason::Malformed)?;
    Ok(Esp { offset, total, spi: header.spi.get() })
}
