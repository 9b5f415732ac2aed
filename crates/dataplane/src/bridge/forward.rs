//! From one member of a bridge to the others.

use super::config::Bridge;
use crate::graph::{Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::{Iface, IfaceKind, Tables};
use ferrule_base::{DropReason, MacAddr};
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
    /// 1. VLAN and addresses; the source is learned, unless it is a group's.
    /// 2. Reserved destinations end here.
    /// 3. Known: to that member, but not back. Else a copy to every other
    ///    member of the VLAN; the last one gets the frame itself.
    #[inline]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch) {
        ctx.tally.work.lookups += 2 * batch.len() as u64;
        for packet in batch.drain(..) {
            match way(ctx, &packet) {
                Ok((Way::Member(iface), frame)) => send(ctx, iface, frame.class, packet),
                Ok((Way::Others(bridge, number), frame)) => {
                    flood(ctx, bridge, number, frame, packet);
                }
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
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
fn way<'a>(ctx: &Ctx<'a>, packet: &Packet) -> Result<(Way<'a>, Frame), DropReason> {
    let tables: &'a Tables = ctx.tables;
    let number = packet.meta().iface;
    let (bridge_number, _) = member(tables, number).ok_or(DropReason::NotAttached)?;
    let bridge = tables.bridges.get(usize::from(bridge_number)).ok_or(DropReason::NotAttached)?;
    let (dst, src, frame) = read(packet.data())?;
    if src.is_group() {
        return Err(DropReason::BadSource);
    }
    bridge.table.learn(frame.vlan, src, number, ctx.now);
    if dst.is_group() {
        if dst.to_u64() & !0xf == RESERVED {
            return Err(DropReason::BridgeReserved);
        }
        return Ok((Way::Others(bridge, bridge_number), frame));
    }
    match bridge.table.lookup(frame.vlan, dst, ctx.now) {
        Some(to) if to == number => Err(DropReason::BridgeSamePort),
        Some(to) => Ok((
            match member(tables, to) {
                Some((of, iface)) if of == bridge_number => Way::Member(iface),
                // It left the bridge since.
                _ => Way::Others(bridge, bridge_number),
            },
            frame,
        )),
        None => Ok((Way::Others(bridge, bridge_number), frame)),
    }
}

/// Destination, source, VLAN and priority. A service tag (802.1ad) is payload.
#[inline]
fn read(frame: &[u8]) -> Result<(MacAddr, MacAddr, Frame), DropReason> {
    let Some(header) = frame.first_chunk::<{ ethernet::Header::LEN }>() else {
        return Err(DropReason::Malformed);
    };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let (dst, src) = (MacAddr([d0, d1, d2, d3, d4, d5]), MacAddr([s0, s1, s2, s3, s4, s5]));
    if u16::from_be_bytes([t0, t1]) != EtherType::VLAN.0 {
        return Ok((dst, src, Frame { vlan: 0, class: 0 }));
    }
    let (_, class) = tag::outer(frame).ok_or(DropReason::Malformed)?;
    let vlan = class & tag::VID;
    if vlan == VID_RESERVED {
        return Err(DropReason::UnknownVlan);
    }
    Ok((dst, src, Frame { vlan, class }))
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
