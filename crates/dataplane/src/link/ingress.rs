//! From a port to the logical interface of each frame.

use super::exit::{Entry, Routed, to_ip};
use super::tag::{self, VID};
use crate::graph::{Ctx, FLAG_GROUP, Next, Stage};
use crate::mpls::{Pseudowire, PwMode};
use crate::tables::{Iface, IfaceKind, Lists, PortEntry, RoutedIface, Tables, Tag};
use ferrule_base::{DropReason, MacAddr, PortId};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{EtherType, FromBytes, Protocol, ethernet, ipv6, mld, ndp, vlan};

/// The stage at [`Next::Attach`].
#[derive(Default)]
pub struct Attach;

impl Stage for Attach {
    /// For each frame:
    ///
    /// 1. Without a tag: to the bridge or, if it is IP for the routed interface's
    ///    address, to IP.
    /// 2. Otherwise its outer tag, if any, names the interface.
    /// 3. A routed interface takes what is for its address or a group. ARP and
    ///    neighbour discovery go to the control part whole; IP and labels go
    ///    on without the link header.
    /// 4. A bridge and a pseudowire take everything, with the tag they want.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let Some(port) = batch.first().map(|packet| packet.meta().port) else { return };
        match ctx.tables.hot.entries.get(usize::from(port.0)).copied().unwrap_or_default() {
            Entry::Routed(routed) => each(ctx, batch, port, |packet| routed.take(packet)),
            Entry::Bridged { iface, next } => {
                each(ctx, batch, port, |packet| bridged(iface, next, packet));
            }
            Entry::Crossed { iface, pw, next } => {
                each(ctx, batch, port, |packet| crossed(iface, pw, next, packet));
            }
            Entry::Other => each(ctx, batch, port, |_| None),
        }
    }
}

/// Attaches a batch; step 1 by `untagged` for the frames of the port by which the first one
/// came: as a rule they all did, unless other workers handed them over.
#[inline(always)]
fn each(
    ctx: &mut Ctx<'_>,
    batch: &mut Box<Batch>,
    port: PortId,
    untagged: impl Fn(&mut Packet) -> Option<Next>,
) {
    let tables = ctx.tables;
    ctx.forward(batch, |_, packet| {
        let next = match packet.meta().port == port {
            true => untagged(packet),
            false => of_another_port(tables, packet),
        };
        match next {
            Some(next) => Ok(next),
            None => Ok(attach(tables, packet)?),
        }
    });
}

/// Step 1 for a frame of another port than the first of its batch.
#[inline(never)]
fn of_another_port(tables: &Tables, packet: &mut Packet) -> Option<Next> {
    match *tables.hot.entries.get(usize::from(packet.meta().port.0))? {
        Entry::Routed(routed) => routed.take(packet),
        Entry::Bridged { iface, next } => bridged(iface, next, packet),
        Entry::Crossed { iface, pw, next } => crossed(iface, pw, next, packet),
        Entry::Other => None,
    }
}

/// Octets of an Ethernet header.
const LINK: usize = ethernet::Header::LEN;

impl Routed {
    /// IP and labels for the interface's address go on without the link header.
    #[inline(always)]
    fn take(self, packet: &mut Packet) -> Option<Next> {
        let (meta, data) = packet.split();
        let front = data.first_chunk::<{ LINK + 7 }>()?;
        let dst = u64::from_be_bytes(*front.first_chunk()?) >> 16;
        let ethertype = u16::from_be_bytes([front[12], front[13]]);
        let next = match EtherType(ethertype) {
            EtherType::IPV4 => self.ip,
            // Neighbour discovery is one of ICMPv6.
            EtherType::IPV6 if front[LINK + 6] != Protocol::ICMPV6.0 => self.ip,
            EtherType::MPLS if self.mpls => Next::Mpls,
            _ => return None,
        };
        if dst != self.mac {
            return None;
        }
        (meta.vrf, meta.iface) = (self.vrf, self.iface);
        (meta.ethertype, meta.flags) = (ethertype, 0);
        packet.strip(LINK);
        Some(next)
    }
}

/// Step 1 for a bridged interface.
#[inline(always)]
fn bridged(iface: u16, next: Next, packet: &mut Packet) -> Option<Next> {
    packet.meta_mut().iface = iface;
    is_untagged(packet).then_some(next)
}

/// Step 1 for the interface of a pseudowire.
#[inline(always)]
fn crossed(iface: u16, pw: u16, next: Next, packet: &mut Packet) -> Option<Next> {
    let meta = packet.meta_mut();
    (meta.iface, meta.pw) = (iface, pw);
    is_untagged(packet).then_some(next)
}

/// True for a frame that shows no VLAN tag.
#[inline(always)]
fn is_untagged(packet: &Packet) -> bool {
    let front = packet.data().first_chunk::<LINK>();
    front.is_some_and(|front| !EtherType(u16::from_be_bytes([front[12], front[13]])).is_vlan())
}

/// Tag by which a frame was matched to its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    /// No tag.
    Untagged,
    /// A tag that carries a priority alone, and its control information.
    Priority(u16),
    /// A tag with a VLAN.
    Tagged,
}

#[inline(never)]
fn attach(tables: &Tables, packet: &mut Packet) -> Result<Next, DropReason> {
    let Some(port) = tables.ports.get(usize::from(packet.meta().port.0)) else {
        return Err(DropReason::PortDown);
    };
    let Ok((header, after)) = ethernet::Header::ref_from_prefix(packet.data()) else {
        return Err(DropReason::Malformed);
    };
    let mut ethertype = header.ethertype();
    let (number, outer) = if ethertype.is_vlan() {
        let Ok((tag, behind)) = vlan::Header::ref_from_prefix(after) else {
            return Err(DropReason::Malformed);
        };
        let inner = vlan::Header::ref_from_prefix(behind).ok().map(|(inner, _)| inner);
        let found = by_tag(port, ethertype, tag, inner.filter(|_| tag.ethertype().is_vlan()))?;
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
            // Frames that came by `rest` have a tag that is not taken off.
            let by_rest = port.attach.rest == Some(number);
            if outer == Outer::Tagged && iface.tag == Tag::None && by_rest {
                return Err(DropReason::UnknownVlan);
            }
            let link = ethernet::Header::LEN
                + if outer == Outer::Untagged { 0 } else { vlan::Header::LEN };
            to_routing(routed, iface.lists, ethertype, link, packet)
        }
        &IfaceKind::Bridged { access_vlan, .. } => to_bridge(iface, access_vlan, outer, packet),
        &IfaceKind::Crossed(pw) => {
            packet.meta_mut().pw = pw;
            let config = tables.pws.get(usize::from(pw)).ok_or(DropReason::NotAttached)?;
            to_pseudowire(iface, config, packet)
        }
    }
}

/// The interface of a tagged frame, by its two tags if one is of both.
#[inline]
fn by_tag(
    port: &PortEntry,
    tpid: EtherType,
    tag: &vlan::Header,
    inner: Option<&vlan::Header>,
) -> Result<(u16, Outer), DropReason> {
    let attach = &port.attach;
    if let Some(inner) = inner.filter(|_| !attach.double.is_empty()) {
        let outer = crate::tables::Attach::key(tpid.0, tag.vid());
        let inner = crate::tables::Attach::key(tag.ethertype().0, inner.vid());
        if let Some(found) = attach.double(outer, inner) {
            return Ok((found, Outer::Tagged));
        }
    }
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
    lists: Lists,
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
        EtherType::IPV4 => to_ip(routed, lists),
        EtherType::IPV6 if is_discovery(routed, packet.data(), link) => return Ok(Next::Control),
        EtherType::IPV6 => to_ip(routed, lists),
        EtherType::ARP => return Ok(Next::Control),
        // Labels to a group are not of the platform's table (RFC 5332 section 3), nor are
        // those that their sender assigned, which have an EtherType of their own.
        EtherType::MPLS if routed.mpls && group => return Err(DropReason::NotRouted),
        EtherType::MPLS if routed.mpls => Next::Mpls,
        _ => return Err(DropReason::UnknownProtocol),
    };
    packet.strip(link);
    let meta = packet.meta_mut();
    meta.vrf = routed.vrf;
    meta.ethertype = ethertype.0;
    meta.flags = if group { FLAG_GROUP } else { 0 };
    Ok(next)
}

/// True if a frame is neighbour discovery for this node or a group, or listener discovery.
/// The former never has extension headers (RFC 6980 section 5 forbids fragments of it), the
/// latter has one with a router alert (RFC 3810 section 5).
#[inline]
fn is_discovery(routed: &RoutedIface, frame: &[u8], link: usize) -> bool {
    let Some((ip, rest)) = frame.get(link..).and_then(|ip| ipv6::Header::ref_from_prefix(ip).ok())
    else {
        return false;
    };
    if ip.next == Protocol::HOP_BY_HOP.0 {
        let message = rest.strip_prefix(&mld::ROUTER_ALERT).and_then(<[u8]>::first);
        return ip.dst[0] == 0xff && message.is_some_and(|&kind| mld::is_kind(kind));
    }
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
    Ok(iface.to_bridge())
}

/// A frame for a pseudowire (RFC 4448 section 4.4.1): raw mode carries no
/// service-delimiting tag, tagged mode always one, of two the inner.
#[inline]
fn to_pseudowire(
    iface: &Iface,
    config: &Pseudowire,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    match (config.mode, iface.tag) {
        (PwMode::Raw, Tag::Tag(..)) | (PwMode::Tagged(_), Tag::Double(_)) => {
            tag::pop(packet);
        }
        (PwMode::Raw, Tag::Double(_)) => {
            tag::pop(packet);
            tag::pop(packet);
        }
        (PwMode::Tagged(_), Tag::None) => tag::push(packet, EtherType::VLAN.0, 0)?,
        (PwMode::Raw, Tag::None) | (PwMode::Tagged(_), Tag::Tag(..)) => {}
    }
    Ok(iface.to_pseudowire())
}
