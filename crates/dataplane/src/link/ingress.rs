//! From a port to what its frames belong to.

use super::tag::{self, VID};
use crate::graph::{Ctx, FLAG_GROUP, Next, Stage};
use crate::ipsec::EspOut;
use crate::lead::{self, Lead};
use crate::mpls::PwMode;
use crate::tables::{Iface, IfaceKind, PortEntry, RoutedIface, Tables, Tag};
use ferrule_base::{DropReason, MacAddr, PortId, VrfId};
use ferrule_crypto::Engine;
use ferrule_pipeline::{Batch, Meta, Packet};
use ferrule_wire::{EtherType, FromBytes, Protocol, ethernet, ipv6, ndp, vlan};

/// The stage at [`Next::Attach`].
#[derive(Default)]
pub struct Attach {
    lead: Option<Lead>,
}

impl Attach {
    /// What is kept from batch to batch holds no longer: there are new tables.
    pub fn forget(&mut self) {
        self.lead = None;
    }

    /// Seals the first packets of a batch, if they follow others into an SA: those need
    /// not come by the places between. What is left in the batch is as it was.
    pub fn seal_ahead<E: Engine<Packet>>(
        &self,
        ctx: &mut Ctx<'_>,
        esp_out: &mut EspOut,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        if let Some(lead) = &self.lead {
            lead.seal(ctx, esp_out, engine, batch);
        }
    }
}

impl Stage for Attach {
    /// For each frame:
    ///
    /// 0. Without a tag, from the port of the one before: straight to the bridge
    ///    or, if it is for the same routed interface, to IP.
    /// 1. Its outer tag, if any, names the interface.
    /// 2. A routed interface takes what is for its address or a group. ARP and
    ///    neighbour discovery go to the control part whole; IP and labels go
    ///    on without the link header.
    /// 3. A bridge and a pseudowire take everything, with the tag they want.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        lead::follow(&mut self.lead, ctx, batch);
        if batch.is_empty() {
            return;
        }
        let mut last: Option<Last> = None;
        let way = |ctx: &mut Ctx<'_>, packet: &mut Packet| match last
            .as_ref()
            .and_then(|last| last.again(packet))
        {
            Some(next) => Ok(next),
            None => attach(ctx.tables, &mut last, packet),
        };
        ctx.pass(batch, way, Ctx::drop);
    }
}

/// How a frame was matched to its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    /// No tag.
    Untagged,
    /// A tag that carries a priority alone, and its control information.
    Priority(u16),
    /// A tag with a VLAN.
    Tagged,
}

/// The interface of a port's frames without a tag.
struct Last {
    port: PortId,
    to: To,
}

/// What such frames come to.
enum To {
    /// Routing, if they are for this interface.
    Routing(Routed),
    /// A bridge, by this interface, that takes them as they are.
    Bridge(u16),
}

/// Octets of an Ethernet header.
pub(crate) const LINK: usize = ethernet::Header::LEN;

impl Last {
    /// The common case. Nothing, and nothing done, for all others.
    #[inline(always)]
    fn again(&self, packet: &mut Packet) -> Option<Next> {
        let (meta, data) = packet.split();
        if meta.port != self.port {
            return None;
        }
        match &self.to {
            To::Routing(routed) => {
                let front = data.first_chunk::<{ LINK + 7 }>()?;
                let ethertype = routed.takes(front.first_chunk()?)?;
                // Neighbour discovery is one of ICMPv6.
                let ip = ethertype == EtherType::IPV4
                    || ethertype == EtherType::IPV6 && front[LINK + 6] != Protocol::ICMPV6.0;
                if !ip {
                    return None;
                }
                routed.mark(meta, ethertype);
                packet.strip(LINK);
                Some(Next::Ip)
            }
            To::Bridge(number) => {
                let front = data.first_chunk::<LINK>()?;
                let tagged = EtherType(u16::from_be_bytes([front[12], front[13]])).is_vlan();
                meta.iface = *number;
                (!tagged).then_some(Next::Bridge)
            }
        }
    }
}

/// The interface of a port's frames without a tag, if a bridge takes them as they are.
pub(crate) fn bridged(tables: &Tables, port: PortId) -> Option<u16> {
    let attach = &tables.ports.get(usize::from(port.0))?.attach;
    let number = attach.untagged.or(attach.rest)?;
    match tables.ifaces.get(usize::from(number))?.kind {
        IfaceKind::Bridged { access_vlan: None, .. } => Some(number),
        _ => None,
    }
}

/// What a routed interface takes.
#[derive(Clone, Copy)]
pub(crate) struct Routed {
    number: u16,
    vrf: VrfId,
    /// Its address as a number.
    mac: u64,
}

impl Routed {
    const fn new(number: u16, routed: &RoutedIface) -> Self {
        Self { number, vrf: routed.vrf, mac: routed.mac.to_u64() }
    }

    /// That of a port's frames without a tag, if it is routed.
    pub(crate) fn of(tables: &Tables, port: PortId) -> Option<Self> {
        let attach = &tables.ports.get(usize::from(port.0))?.attach;
        let number = attach.untagged.or(attach.rest)?;
        match &tables.ifaces.get(usize::from(number))?.kind {
            IfaceKind::Routed(routed) => Some(Self::new(number, routed)),
            _ => None,
        }
    }

    /// What is in a frame for the interface.
    #[inline(always)]
    pub(crate) fn takes(&self, link: &[u8; LINK]) -> Option<EtherType> {
        let dst = u64::from_be_bytes(*link.first_chunk()?) >> 16;
        (dst == self.mac).then_some(EtherType(u16::from_be_bytes([link[12], link[13]])))
    }

    /// Notes where the packet in such a frame came by.
    #[inline(always)]
    pub(crate) fn mark(&self, meta: &mut Meta, ethertype: EtherType) {
        meta.iface = self.number;
        meta.vrf = self.vrf;
        meta.ethertype = ethertype.0;
        meta.flags = 0;
    }
}

#[inline(never)]
fn attach(
    tables: &Tables,
    last: &mut Option<Last>,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let Some(port) = tables.ports.get(usize::from(packet.meta().port.0)) else {
        return Err(DropReason::PortDown);
    };
    let Ok((header, after)) = ethernet::Header::ref_from_prefix(packet.data()) else {
        return Err(DropReason::Malformed);
    };
    let mut ethertype = header.ethertype();
    let (number, outer) = if ethertype.is_vlan() {
        let Ok((tag, _)) = vlan::Header::ref_from_prefix(after) else {
            return Err(DropReason::Malformed);
        };
        let found = by_tag(port, ethertype, tag)?;
        ethertype = tag.ethertype();
        found
    } else {
        let found = port.attach.untagged.or(port.attach.rest);
        (found.ok_or(DropReason::NotAttached)?, Outer::Untagged)
    };
    let iface = tables.ifaces.get(usize::from(number)).ok_or(DropReason::NotAttached)?;
    packet.meta_mut().iface = number;
    match &iface.kind {
        IfaceKind::Routed(routed) => {
            // Frames that came by `rest` have a tag that nobody takes off.
            let by_rest = port.attach.rest == Some(number);
            if outer == Outer::Tagged && iface.tag == Tag::None && by_rest {
                return Err(DropReason::UnknownVlan);
            }
            if outer == Outer::Untagged {
                let to = To::Routing(Routed::new(number, routed));
                *last = Some(Last { port: packet.meta().port, to });
            }
            let link = ethernet::Header::LEN
                + if outer == Outer::Untagged { 0 } else { vlan::Header::LEN };
            to_routing(routed, ethertype, link, packet)
        }
        &IfaceKind::Bridged { access_vlan, .. } => {
            if outer == Outer::Untagged && access_vlan.is_none() {
                *last = Some(Last { port: packet.meta().port, to: To::Bridge(number) });
            }
            to_bridge(iface, access_vlan, outer, packet)
        }
        &IfaceKind::Crossed(pw) => {
            packet.meta_mut().target = u32::from(pw);
            let config = tables.pws.get(usize::from(pw)).ok_or(DropReason::NotAttached)?;
            to_pseudowire(iface, config.mode, packet)
        }
    }
}

/// The interface of a tagged frame.
#[inline]
fn by_tag(
    port: &PortEntry,
    tpid: EtherType,
    tag: &vlan::Header,
) -> Result<(u16, Outer), DropReason> {
    let attach = &port.attach;
    if tag.vid() == 0 && tpid == EtherType::VLAN {
        let found = attach.untagged.or(attach.rest).ok_or(DropReason::NotAttached)?;
        return Ok((found, Outer::Priority(tag.tci.get())));
    }
    let key = crate::tables::Attach::key(tpid.0, tag.vid());
    Ok((attach.tagged(key).ok_or(DropReason::UnknownVlan)?, Outer::Tagged))
}

/// A frame for the router itself or for it to forward; `link` octets of link
/// header stand in front of the packet.
#[inline]
fn to_routing(
    routed: &RoutedIface,
    ethertype: EtherType,
    link: usize,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    let Some(&dst) = packet.data().first_chunk::<6>() else {
        return Err(DropReason::Malformed);
    };
    let dst = MacAddr(dst);
    let group = dst.is_group();
    if dst != routed.mac && !group {
        return Err(DropReason::NotForUs);
    }
    let next = match ethertype {
        EtherType::IPV4 => Next::Ip,
        EtherType::IPV6 if is_discovery(routed, packet.data(), link) => return Ok(Next::Control),
        EtherType::IPV6 => Next::Ip,
        EtherType::ARP => return Ok(Next::Control),
        EtherType::MPLS | EtherType::MPLS_UPSTREAM if routed.mpls => Next::Mpls,
        _ => return Err(DropReason::UnknownProtocol),
    };
    packet.strip(link);
    let meta = packet.meta_mut();
    meta.vrf = routed.vrf;
    meta.ethertype = ethertype.0;
    meta.flags = if group { FLAG_GROUP } else { 0 };
    Ok(next)
}

/// Whether a frame is neighbour discovery for this node or a group. It never
/// has extension headers (RFC 6980 section 5 wants no fragments of it).
#[inline]
fn is_discovery(routed: &RoutedIface, frame: &[u8], link: usize) -> bool {
    let Some((ip, rest)) = frame.get(link..).and_then(|ip| ipv6::Header::ref_from_prefix(ip).ok())
    else {
        return false;
    };
    if ip.next != Protocol::ICMPV6.0 {
        return false;
    }
    let discovery = rest.first().is_some_and(|kind| (ndp::FIRST..=ndp::LAST).contains(kind));
    discovery && (ip.dst[0] == 0xff || routed.v6.iter().any(|(own, _)| own.octets() == ip.dst))
}

/// A frame for a bridge: the interface's own tag goes, an access VLAN's comes.
#[inline]
fn to_bridge(
    iface: &Iface,
    access_vlan: Option<u16>,
    outer: Outer,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    if outer == Outer::Tagged && iface.tag != Tag::None {
        tag::pop(packet);
    }
    if let Some(vid) = access_vlan {
        match outer {
            // The tag of a priority becomes the VLAN's.
            Outer::Priority(_) => {
                tag::set_vid(packet, vid);
            }
            Outer::Untagged => tag::push(packet, EtherType::VLAN.0, vid & VID)?,
            Outer::Tagged if iface.tag != Tag::None => {
                tag::push(packet, EtherType::VLAN.0, vid & VID)?;
            }
            // 802.1Q clause 6.9 (a): an access interface takes no other VLAN.
            Outer::Tagged => return Err(DropReason::UnknownVlan),
        }
    }
    Ok(Next::Bridge)
}

/// A frame for a pseudowire (RFC 4448 section 4.4.1): raw mode carries no
/// service-delimiting tag, tagged mode always one.
#[inline]
fn to_pseudowire(iface: &Iface, mode: PwMode, packet: &mut Packet) -> Result<Next, DropReason> {
    match (mode, iface.tag) {
        (PwMode::Raw, Tag::Tag(..)) => {
            tag::pop(packet);
        }
        (PwMode::Tagged(_), Tag::None) => tag::push(packet, EtherType::VLAN.0, 0)?,
        (PwMode::Raw, Tag::None) | (PwMode::Tagged(_), Tag::Tag(..)) => {}
    }
    Ok(Next::PwOut)
}
