//! From an adjacency, or a finished frame, to a port.

use crate::fragment::{self, Rest};
use crate::graph::{Aside, CUT, Ctx, FLAG_LOCAL, FLAG_WHOLE, Next, Stage, UNRESOLVED};
use crate::route::{Adjacency, Labels, TtlModel};
use crate::tables::{Iface, IfaceKind, RoutedIface, Tables, Tag};
use ferrule_base::{DropReason, MacAddr, PortId};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{
    EtherType, FromBytes, IntoBytes, ethernet, icmpv4, ipv4, ipv6, mpls, ndp, vlan,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// ICMPv4 fragmentation needed, as `scratch` has it.
const TOO_BIG_V4: u16 = 3 << 8 | icmpv4::unreachable::TOO_BIG as u16;
/// ICMPv6 packet too big.
const TOO_BIG_V6: u16 = 2 << 8;
/// TTL of a label in the pipe model.
const PIPE_TTL: u8 = 255;

/// The stage at [`Next::Output`].
#[derive(Default)]
pub struct Output {
    /// Fragments on their way.
    rest: Rest,
    /// Identification of IPv6 packets that are cut here.
    ident: u32,
}

/// What is to be done with a packet.
enum Way {
    /// To the neighbour with this address.
    Send(MacAddr),
    /// In pieces of this size, then to the neighbour.
    Cut(usize, MacAddr),
    /// Elsewhere as it is.
    To(Next),
}

impl Stage for Output {
    /// For each packet:
    ///
    /// 1. What the packet before needed will do, if this one goes the same way.
    /// 2. Otherwise: the neighbour's link address, or to the control part that
    ///    finds it; too long for the link with its labels: cut, or tell the
    ///    sender.
    /// 3. Labels, Ethernet header and VLAN tag go in front.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let mut last: Option<Front<'_>> = None;
        ctx.pass(
            batch,
            |ctx, packet| match &last {
                Some(front) if front.serves(packet) => Ok(front.write(packet)?),
                _ => first(ctx, &mut last, packet),
            },
            |ctx, packet, apart| self.carry_out(ctx, packet, apart),
        );
    }
}

/// What is more than to put a header in front.
enum Apart<'a> {
    Drop(DropReason),
    /// To be cut into pieces of this size.
    Cut(usize, Front<'a>),
    /// To be cut for a path that is narrower than the link.
    CutForPath,
}

impl From<DropReason> for Apart<'_> {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

/// A packet that goes another way than the one before; what it needed, if
/// others may need the same.
#[inline(never)]
fn first<'a>(
    ctx: &Ctx<'a>,
    last: &mut Option<Front<'a>>,
    packet: &mut Packet,
) -> Result<Next, Apart<'a>> {
    *last = None;
    let tables = ctx.tables;
    if packet.meta().target & CUT != 0 {
        return Err(Apart::CutForPath);
    }
    let number = packet.meta().target;
    let way_out @ (adjacency, iface, routed) =
        target(tables, number).ok_or(DropReason::NotAttached)?;
    let next = beyond(tables, iface, routed, ctx.worker);
    let front =
        |mac, packet: &Packet| Front::new(number, way_out, mac, next, packet.meta().ethertype);
    match way(tables, adjacency, routed, packet)? {
        Way::Send(mac) => {
            let front = front(mac, packet);
            let sent = front.write(packet);
            *last = adjacency.neighbour.is_some().then_some(front);
            Ok(sent?)
        }
        Way::Cut(mtu, mac) => Err(Apart::Cut(mtu, front(mac, packet))),
        Way::To(next) => Ok(next),
    }
}

impl Output {
    /// What the first look at a packet left to do.
    #[cold]
    fn carry_out(&mut self, ctx: &mut Ctx<'_>, mut packet: Packet, apart: Apart<'_>) {
        match apart {
            Apart::Drop(reason) => ctx.out.drop(packet, reason),
            Apart::CutForPath => self.cut_for_path(ctx, packet),
            Apart::Cut(mtu, front) => match self.cut(ctx, &mut packet, mtu) {
                Ok(()) => {
                    front.send(ctx, packet);
                    while let Some(packet) = self.rest.pop() {
                        front.send(ctx, packet);
                    }
                }
                Err(reason) => ctx.out.drop(packet, reason),
            },
        }
    }

    fn cut(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        mtu: usize,
    ) -> Result<(), DropReason> {
        // RFC 8200 section 4.5: different for packets that follow one another, and
        // for those of other workers.
        self.ident = self.ident.wrapping_add(1);
        let ident = u32::from(ctx.worker) << 24 ^ self.ident.wrapping_mul(0x9e37_79b9);
        fragment::cut(ctx, packet, mtu, ident, &mut self.rest)
    }

    /// A packet made here whose path is narrower than the link: its pieces go on as
    /// packets of their own.
    #[cold]
    fn cut_for_path(&mut self, ctx: &mut Ctx<'_>, mut packet: Packet) {
        let meta = packet.meta_mut();
        meta.target &= !CUT;
        let path = std::mem::take(&mut meta.number) as usize;
        let link = target(ctx.tables, meta.target).map_or(usize::MAX, |(adjacency, _, routed)| {
            usize::from(routed.mtu).saturating_sub(adjacency.labels.len() * mpls::Header::LEN)
        });
        let mtu = path.min(link);
        if packet.len() > mtu
            && let Err(reason) = self.cut(ctx, &mut packet, mtu)
        {
            return ctx.out.drop(packet, reason);
        }
        ctx.out.send(Next::Output, packet);
        while let Some(packet) = self.rest.pop() {
            ctx.out.send(Next::Output, packet);
        }
    }
}

/// Octets of an Ethernet header.
const LINK: usize = ethernet::Header::LEN;
/// The same with a VLAN tag.
const LINK_TAG: usize = LINK + vlan::Header::LEN;

/// What goes in front of a packet.
pub(crate) struct Front<'a> {
    /// The adjacency, and its number.
    adjacency: &'a Adjacency,
    target: u32,
    /// What the packet is before labels are pushed.
    ethertype: u16,
    /// The longest packet that fits the link, labels not counted.
    longest: usize,
    port: PortId,
    next: Next,
    labels: bool,
    link: Link,
}

/// An Ethernet header, with the VLAN tag if there is one.
enum Link {
    Plain([u8; LINK]),
    Tagged([u8; LINK_TAG]),
}

impl<'a> Front<'a> {
    /// That of packets that are sealed for an adjacency; nothing while its neighbour is
    /// not known, or if it has none.
    pub(crate) fn of(ctx: &Ctx<'a>, number: u32, ethertype: u16) -> Option<Self> {
        let way_out @ (adjacency, iface, routed) = target(ctx.tables, number)?;
        let mac = ctx.tables.neighbours.mac(adjacency.neighbour?)?;
        let next = beyond(ctx.tables, iface, routed, ctx.worker);
        Some(Self::new(number, way_out, mac, next, ethertype))
    }

    fn new(
        target: u32,
        (adjacency, iface, routed): WayOut<'a>,
        mac: MacAddr,
        next: Next,
        ethertype: u16,
    ) -> Self {
        let stack = matches!(EtherType(ethertype), EtherType::MPLS | EtherType::MPLS_UPSTREAM);
        let carried = if adjacency.labels.is_empty() || stack {
            EtherType(ethertype)
        } else {
            EtherType::MPLS
        };
        let header = |ethertype| ethernet::Repr { dst: mac, src: routed.mac, ethertype };
        let link = match iface.tag {
            Tag::None => {
                let mut link = [0; LINK];
                header(carried).emit(&mut link);
                Link::Plain(link)
            }
            Tag::Tag(tpid, vid) => {
                let mut link = [0; LINK_TAG];
                header(EtherType(tpid)).emit(&mut link);
                let tci = (vid & super::tag::VID).into();
                let tag = vlan::Header { tci, ethertype: carried.0.into() };
                link[LINK..].copy_from_slice(tag.as_bytes());
                Link::Tagged(link)
            }
        };
        let labels = adjacency.labels.len() * mpls::Header::LEN;
        let longest = usize::from(routed.mtu).saturating_sub(labels);
        let (port, labels) = (iface.port, labels > 0);
        Self { adjacency, target, ethertype, longest, port, next, labels, link }
    }

    /// The header of packets of `len` octets, and the port and the place that their frames
    /// go to; nothing if there are labels, too, or if they are too long.
    pub(crate) fn link_of(&self, len: usize) -> Option<(&[u8], PortId, Next)> {
        let link: &[u8] = match &self.link {
            Link::Plain(link) => link,
            Link::Tagged(link) => link,
        };
        (!self.labels && len <= self.longest).then_some((link, self.port, self.next))
    }

    /// Whether a packet goes the same way, as it is.
    #[inline]
    fn serves(&self, packet: &Packet) -> bool {
        let meta = packet.meta();
        meta.target == self.target
            && meta.ethertype == self.ethertype
            && packet.len() <= self.longest
    }

    /// Puts everything in front of a piece and sends it on.
    fn send(&self, ctx: &mut Ctx<'_>, mut packet: Packet) {
        match self.write(&mut packet) {
            Ok(next) => ctx.out.send(next, packet),
            Err(reason) => ctx.out.drop(packet, reason),
        }
    }

    /// Puts everything in front; where the frame goes.
    #[inline(always)]
    fn write(&self, packet: &mut Packet) -> Result<Next, DropReason> {
        if self.labels {
            push_labels(packet, &self.adjacency.labels, self.adjacency.ttl)?;
        }
        // Of known lengths, so that they are a few moves.
        let written = match &self.link {
            Link::Plain(link) => packet.put_front(link),
            Link::Tagged(link) => packet.put_front(link),
        };
        packet.meta_mut().port = self.port;
        if written { Ok(self.next) } else { Err(DropReason::NoRoom) }
    }
}

/// Where a finished frame goes: straight to the port if it is this worker's and
/// carries whatever the interface sends; [`Emit`] sees to the rest.
#[inline]
fn beyond(tables: &Tables, iface: &Iface, routed: &RoutedIface, worker: u8) -> Next {
    match tables.ports.get(usize::from(iface.port.0)) {
        Some(port)
            if port.is_at(worker)
                && usize::from(routed.mtu) + LINK_TAG <= usize::from(port.frame_max) =>
        {
            if port.secy.is_some() { Next::SecyOut } else { Next::Transmit }
        }
        _ => Next::Emit,
    }
}

/// An adjacency and its interface.
type WayOut<'a> = (&'a Adjacency, &'a Iface, &'a RoutedIface);

#[inline]
fn target(tables: &Tables, number: u32) -> Option<WayOut<'_>> {
    let adjacency = tables.adjacencies.get(number as usize)?;
    let iface = tables.ifaces.get(usize::from(adjacency.iface))?;
    match &iface.kind {
        IfaceKind::Routed(routed) => Some((adjacency, iface, routed)),
        _ => None,
    }
}

#[inline]
fn way(
    tables: &Tables,
    adjacency: &Adjacency,
    routed: &RoutedIface,
    packet: &mut Packet,
) -> Result<Way, DropReason> {
    let mac = match adjacency.neighbour {
        Some(slot) => tables.neighbours.mac(slot),
        None => connected(tables, adjacency.iface, packet)?,
    };
    let Some(mac) = mac else {
        packet.meta_mut().turns = UNRESOLVED;
        return Ok(Way::To(Next::Control));
    };
    let labels = adjacency.labels.len() * mpls::Header::LEN;
    if packet.len() + labels <= usize::from(routed.mtu) {
        return Ok(Way::Send(mac));
    }
    too_long(usize::from(routed.mtu).saturating_sub(labels), mac, packet)
}

/// The link address of the destination itself.
#[inline]
fn connected(tables: &Tables, iface: u16, packet: &Packet) -> Result<Option<MacAddr>, DropReason> {
    let ip = match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => {
            let dst = ipv4::Header::ref_from_prefix(packet.data())
                .map_or(Ipv4Addr::UNSPECIFIED, |(h, _)| h.dst.into());
            if dst.is_multicast() {
                return Ok(Some(group_v4(dst)));
            }
            IpAddr::V4(dst)
        }
        EtherType::IPV6 => {
            let dst = ipv6::Header::ref_from_prefix(packet.data())
                .map_or(Ipv6Addr::UNSPECIFIED, |(h, _)| h.dst.into());
            if dst.is_multicast() {
                return Ok(Some(ndp::group_mac(dst)));
            }
            IpAddr::V6(dst)
        }
        // A label stack has no address that could be asked for.
        _ => return Err(DropReason::NoNeighbour),
    };
    if ip.is_unspecified() {
        return Err(DropReason::NoNeighbour);
    }
    Ok(tables.neighbours.find(iface, ip))
}

/// The Ethernet address of an IPv4 group (RFC 1112 section 6.4).
const fn group_v4(group: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = group.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// RFC 1812 section 5.2.6, RFC 8200 section 5: IPv4 is cut unless it says no,
/// IPv6 only where it was made, or put together, here. A label stack has been cut at
/// its ingress or is dropped (RFC 3032 section 3.4). What was made here is nobody's to
/// be told.
#[cold]
fn too_long(mtu: usize, mac: MacAddr, packet: &mut Packet) -> Result<Way, DropReason> {
    let local = packet.meta().flags & FLAG_LOCAL != 0;
    let whole = packet.meta().flags & FLAG_WHOLE != 0;
    let kind = match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => {
            let (header, _) =
                ipv4::Header::ref_from_prefix(packet.data()).map_err(|_| DropReason::Malformed)?;
            if !header.dont_fragment() {
                return Ok(Way::Cut(mtu, mac));
            }
            TOO_BIG_V4
        }
        EtherType::IPV6 if local || whole => return Ok(Way::Cut(mtu, mac)),
        EtherType::IPV6 => TOO_BIG_V6,
        _ => return Err(DropReason::TooBig),
    };
    if local {
        return Err(DropReason::TooBig);
    }
    let meta = packet.meta_mut();
    (meta.scratch, meta.number) = (kind, mtu as u64);
    Ok(Way::To(Next::IcmpError))
}

/// Pushes labels (RFC 3032 section 2.1), the innermost first, onto an IP packet
/// or a label stack. Their TTL is the packet's own in the uniform model and 255
/// in the pipe model (RFC 3443 section 3); the traffic class is zero.
#[inline]
pub fn push_labels(
    packet: &mut Packet,
    labels: &Labels,
    model: TtlModel,
) -> Result<(), DropReason> {
    let stack = packet.meta().ethertype == EtherType::MPLS.0
        || packet.meta().ethertype == EtherType::MPLS_UPSTREAM.0;
    let ttl = match model {
        TtlModel::Pipe => PIPE_TTL,
        TtlModel::Uniform => ttl_of(packet, stack)?,
    };
    let mut bottom = !stack;
    for &label in labels {
        let entry = packet.prepend(mpls::Header::LEN).ok_or(DropReason::NoRoom)?;
        entry.copy_from_slice(&mpls::encode(label, 0, bottom, ttl));
        bottom = false;
    }
    if !stack {
        packet.meta_mut().ethertype = EtherType::MPLS.0;
    }
    Ok(())
}

/// The TTL of what stands in front.
#[inline]
fn ttl_of(packet: &Packet, stack: bool) -> Result<u8, DropReason> {
    let at = match EtherType(packet.meta().ethertype) {
        _ if stack => 3,
        EtherType::IPV6 => 7,
        _ => 8,
    };
    packet.data().get(at).copied().ok_or(DropReason::Malformed)
}

/// The stage at [`Next::Emit`].
#[derive(Default)]
pub struct Emit;

impl Stage for Emit {
    /// For each frame:
    ///
    /// 1. A port of another worker alone: to that worker.
    /// 2. Not longer than the port carries.
    /// 3. To the SecY if the port has one, else as it is.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let way = |ctx: &mut Ctx<'_>, packet: &mut Packet| {
            let port = ctx.tables.ports.get(usize::from(packet.meta().port.0));
            let port = port.ok_or(DropReason::PortDown)?;
            if !port.is_at(ctx.worker) {
                return Err(Aside::HandOff(port.owner, Next::Emit));
            }
            if packet.len() > usize::from(port.frame_max) {
                return Err(DropReason::TooBig.into());
            }
            Ok(if port.secy.is_some() { Next::SecyOut } else { Next::Transmit })
        };
        ctx.pass(batch, way, Ctx::set_aside);
    }
}
