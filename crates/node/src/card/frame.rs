//! A frame as a card sees it: its interface and its contents.

use ferrule_base::{DropReason, MacAddr};
use ferrule_dataplane::tables::{Attach, IfaceKind, RoutedIface, Tables};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, Protocol, ethernet, ipv6, mld, ndp, vlan};

/// A frame of an interface that has a policy.
pub(super) struct Seen<'a> {
    /// The interface's number.
    pub number: u16,
    /// Its addresses and other properties of routing.
    pub iface: &'a RoutedIface,
    /// The policy's number.
    pub policy: u16,
    /// Octets of the link header with the interface's tag.
    pub link: usize,
    /// Type of the payload behind that header.
    pub ethertype: EtherType,
    /// Destination address of the frame.
    pub dst: MacAddr,
}

impl<'a> Seen<'a> {
    /// Looks at a frame from or for the packet's port. Nothing if its interface has
    /// no policy: then it is none of the card's business, but for a SecY.
    #[inline]
    pub fn at(tables: &'a Tables, packet: &Packet) -> Result<Option<Self>, DropReason> {
        let port = tables.ports.get(usize::from(packet.meta().port.0));
        let attach = &port.ok_or(DropReason::PortDown)?.attach;
        let (header, after) =
            ethernet::Header::ref_from_prefix(packet.data()).map_err(|_| DropReason::Malformed)?;
        let outer = header.ethertype();
        let (number, link, ethertype) = if outer.is_vlan() {
            let (tag, _) =
                vlan::Header::ref_from_prefix(after).map_err(|_| DropReason::Malformed)?;
            let link = ethernet::Header::LEN + vlan::Header::LEN;
            (of_tag(attach, outer, tag), link, tag.ethertype())
        } else {
            (attach.untagged, ethernet::Header::LEN, outer)
        };
        let found = number.and_then(|n| Some((n, tables.ifaces.get(usize::from(n))?)));
        let Some((number, IfaceKind::Routed(iface))) = found.map(|(n, i)| (n, &i.kind)) else {
            return Ok(None);
        };
        let Some(policy) = iface.policy else { return Ok(None) };
        let dst = MacAddr(header.dst);
        Ok(Some(Self { number, iface, policy, link, ethertype, dst }))
    }

    /// The packet behind the link header.
    #[inline]
    pub fn payload<'p>(&self, packet: &'p Packet) -> &'p [u8] {
        packet.data().get(self.link..).unwrap_or_default()
    }

    /// True if an IPv6 packet is neighbour discovery of this link: no router forwards it
    /// with the hop limit that it has (RFC 4861 section 6.1.1), and it is for a group or
    /// for the node itself, which never forwards it. Also true for listener discovery of a
    /// group of the link, which no router forwards.
    #[inline]
    pub fn is_discovery(&self, packet: &Packet, to_node: bool) -> bool {
        let Ok((ip, rest)) = ipv6::Header::ref_from_prefix(self.payload(packet)) else {
            return false;
        };
        let here = |dst: [u8; 16]| {
            dst[0] == 0xff || self.iface.v6.iter().any(|(own, _)| own.octets() == dst)
        };
        if ip.next == Protocol::HOP_BY_HOP.0 {
            let message = rest.strip_prefix(&mld::ROUTER_ALERT).and_then(<[u8]>::first);
            let of_link = ip.hop_limit == mld::HOP_LIMIT && ip.dst.starts_with(&[0xff, 2]);
            return of_link && message.is_some_and(|&kind| mld::is_kind(kind));
        }
        ip.next == Protocol::ICMPV6.0
            && ip.hop_limit == ndp::HOP_LIMIT
            && rest.first().is_some_and(|kind| (ndp::FIRST..=ndp::LAST).contains(kind))
            && (!to_node || here(ip.dst))
    }
}

/// The interface of a tag; one that carries a priority alone is none.
#[inline]
fn of_tag(attach: &Attach, tpid: EtherType, tag: &vlan::Header) -> Option<u16> {
    if tag.vid() == 0 && tpid == EtherType::VLAN {
        return attach.untagged;
    }
    attach.tagged(Attach::key(tpid.0, tag.vid()))
}
