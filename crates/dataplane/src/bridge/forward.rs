//! From one member of a bridge to the others.

use super::config::Bridge;
use super::table::{self, Key};
use crate::graph::{Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::{Iface, IfaceKind, Tables, Tag};
use ferrule_base::{DropReason, PortId};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{EtherType, ethernet};

/// Destinations that no bridge forwards: 01-80-C2-00-00-00 to 0F (802.1Q
/// clause 8.6.3), without their last four bits.
const RESERVED: u64 = 0x0180_c200_0000;
/// Not a VLAN (802.1Q clause 9.6).
const VID_RESERVED: u16 = 0xfff;

/// The stage at [`Next::Bridge`].
#[derive(Default)]
pub struct Forward;

impl Stage for Forward {
    /// For each frame:
    ///
    /// 0. Without a tag, of the same addresses from the same member as the one
    ///    before: the same way.
    /// 1. VLAN and addresses; the source is learned, unless it is a group's.
    /// 2. Reserved destinations end here.
    /// 3. Known: to that member, but not back. Else a copy to every other
    ///    member of the VLAN; the last one gets the frame itself.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += 2 * batch.len() as u64;
        let now = table::seconds(ctx.now);
        let mut last: Option<Last> = None;
        ctx.pass(
            batch,
            |ctx, packet| match last.as_ref().and_then(|last| last.takes(packet)) {
                Some(next) => Ok(next),
                None => first(ctx, now, &mut last, packet),
            },
            |ctx, packet, way| match way {
                Ok((Way::Member(iface), frame)) => send(ctx, iface, frame.class, packet),
                Ok((Way::Others(bridge, number), frame)) => {
                    flood(ctx, bridge, number, frame, packet);
                }
                Err(reason) => ctx.out.drop(packet, reason),
            },
        );
    }
}

/// Steps 1 to 3 up to the way; the next stage of a frame that leaves as it is, as others
/// like it will.
#[inline(never)]
fn first<'a>(
    ctx: &Ctx<'a>,
    now: u32,
    last: &mut Option<Last>,
    packet: &mut Packet,
) -> Result<Next, Result<(Way<'a>, Frame), DropReason>> {
    *last = None;
    let found = way(ctx.tables, now, packet).map_err(Err)?;
    if let (Way::Member(iface), _) = found {
        *last = Last::new(ctx, iface, packet);
    }
    last.as_ref().and_then(|last| last.takes(packet)).ok_or(Ok(found))
}

/// Destination, source and EtherType.
const FRONT: usize = ethernet::Header::LEN;

/// A frame without a tag that left by a member as it was.
pub(crate) struct Last {
    front: [u8; FRONT],
    from: u16,
    port: PortId,
    frame_max: usize,
    next: Next,
}

impl Last {
    /// How frames like one from a member leave, of which nothing is done yet.
    pub(crate) fn of(ctx: &Ctx<'_>, packet: &Packet) -> Option<Self> {
        match way(ctx.tables, table::seconds(ctx.now), packet) {
            Ok((Way::Member(iface), _)) => Self::new(ctx, iface, packet),
            _ => None,
        }
    }

    /// Whether a frame has the same addresses and EtherType.
    pub(crate) fn is_like(&self, packet: &Packet) -> bool {
        packet.data().first_chunk::<FRONT>() == Some(&self.front)
    }

    /// Nothing if frames like this one change on their way out, or if another
    /// worker has the port.
    fn new(ctx: &Ctx<'_>, iface: &Iface, packet: &Packet) -> Option<Self> {
        let front = *packet.data().first_chunk::<FRONT>()?;
        let port = ctx.tables.ports.get(usize::from(iface.port.0))?;
        let plain = !EtherType(u16::from_be_bytes([front[12], front[13]])).is_vlan()
            && iface.tag == Tag::None
            && matches!(iface.kind, IfaceKind::Bridged { access_vlan: None, .. });
        (plain && port.owner == ctx.worker).then(|| Self {
            front,
            from: packet.meta().iface,
            port: iface.port,
            frame_max: port.frame_max.into(),
            next: if port.secy.is_some() { Next::SecyOut } else { Next::Transmit },
        })
    }

    /// Sends a frame on its way, if it is like that and fits.
    #[inline(always)]
    pub(crate) fn takes(&self, packet: &mut Packet) -> Option<Next> {
        let (meta, data) = packet.split();
        let same = data.first_chunk::<FRONT>() == Some(&self.front) && meta.iface == self.from;
        if !same || data.len() > self.frame_max {
            return None;
        }
        meta.port = self.port;
        Some(self.next)
    }
}

/// Where a frame goes.
enum Way<'a> {
    /// By this member.
    Member(&'a Iface),
    /// By all others of this bridge.
    Others(&'a Bridge, u16),
}

/// What a frame says about itself beside its addresses.
#[derive(Clone, Copy)]
struct Frame {
    /// The VLAN in the bridge.
    vlan: u16,
    /// The control information of its tag: its priority.
    class: u16,
}

#[inline]
fn way<'a>(tables: &'a Tables, now: u32, packet: &Packet) -> Result<(Way<'a>, Frame), DropReason> {
    let number = packet.meta().iface;
    let (bridge_number, _) = member(tables, number).ok_or(DropReason::NotAttached)?;
    let bridge = tables.bridges.get(usize::from(bridge_number)).ok_or(DropReason::NotAttached)?;
    let (dst, src, frame) = read(packet.data())?;
    if is_group(src) {
        return Err(DropReason::BadSource);
    }
    bridge.table.note(Key::new(frame.vlan, src), number, now);
    if is_group(dst) {
        if dst & !0xf == RESERVED {
            return Err(DropReason::BridgeReserved);
        }
        return Ok((Way::Others(bridge, bridge_number), frame));
    }
    let way = match bridge.table.find(Key::new(frame.vlan, dst), now) {
        Some(to) if to == number => return Err(DropReason::BridgeSamePort),
        Some(to) => match member(tables, to) {
            Some((of, iface)) if of == bridge_number => Way::Member(iface),
            // It left the bridge since.
            _ => Way::Others(bridge, bridge_number),
        },
        None => Way::Others(bridge, bridge_number),
    };
    Ok((way, frame))
}

/// Destination and source as numbers of 48 bits, VLAN and priority. A service
/// tag (802.1ad) is payload.
#[inline]
fn read(frame: &[u8]) -> Result<(u64, u64, Frame), DropReason> {
    let (Some(front), Some(&back), Some(&ethertype)) = (
        frame.first_chunk::<8>(),
        frame.get(4..).and_then(|rest| rest.first_chunk::<8>()),
        frame.get(12..).and_then(|rest| rest.first_chunk::<2>()),
    ) else {
        return Err(DropReason::Malformed);
    };
    let dst = u64::from_be_bytes(*front) >> 16;
    let src = u64::from_be_bytes(back) & ((1 << 48) - 1);
    if u16::from_be_bytes(ethertype) != EtherType::VLAN.0 {
        return Ok((dst, src, Frame { vlan: 0, class: 0 }));
    }
    let (_, class) = tag::outer(frame).ok_or(DropReason::Malformed)?;
    let vlan = class & tag::VID;
    if vlan == VID_RESERVED {
        return Err(DropReason::UnknownVlan);
    }
    Ok((dst, src, Frame { vlan, class }))
}

/// Whether an address is a group's.
#[inline]
const fn is_group(address: u64) -> bool {
    address >> 40 & 1 != 0
}

/// The bridge of an interface.
#[inline]
fn member(tables: &Tables, number: u16) -> Option<(u16, &Iface)> {
    let iface = tables.ifaces.get(usize::from(number))?;
    match iface.kind {
        IfaceKind::Bridged { bridge, .. } => Some((bridge, iface)),
        _ => None,
    }
}

/// Whether frames of a VLAN leave by an interface.
#[inline]
fn carries(iface: &Iface, vlan: u16) -> bool {
    match iface.kind {
        IfaceKind::Bridged { access_vlan: Some(only), .. } => only == vlan,
        _ => true,
    }
}

/// Out by a member, with the tags that its wire wants.
#[inline]
fn send(ctx: &mut Ctx<'_>, iface: &Iface, class: u16, mut packet: Packet) {
    match tag::tag_out(iface, class, &mut packet) {
        Ok(()) => {
            packet.meta_mut().port = iface.port;
            ctx.out.send(Next::Emit, packet);
        }
        Err(reason) => ctx.out.drop(packet, reason),
    }
}

/// To every other member of the VLAN. When no buffer is left for a copy, those
/// not served yet get nothing.
fn flood(ctx: &mut Ctx<'_>, bridge: &Bridge, number: u16, frame: Frame, packet: Packet) {
    let tables = ctx.tables;
    let from = packet.meta().iface;
    let mut others = bridge
        .members
        .iter()
        .filter(|&&to| to != from)
        .filter_map(|&to| member(tables, to))
        .filter(|&(of, iface)| of == number && carries(iface, frame.vlan))
        .map(|(_, iface)| iface);
    let Some(mut to) = others.next() else {
        return ctx.out.drop(packet, DropReason::BridgeSamePort);
    };
    for next in others {
        let Some(copy) = ctx.copy_of(&packet) else {
            return ctx.out.drop(packet, DropReason::NoBuffer);
        };
        send(ctx, to, frame.class, copy);
        to = next;
    }
    send(ctx, to, frame.class, packet);
}
