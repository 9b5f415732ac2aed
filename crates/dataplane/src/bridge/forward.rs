//! From one member of a bridge to the others.

use super::table::{self, Key};
use crate::graph::{Aside, Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::{Iface, IfaceKind, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;

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
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += 2 * batch.len() as u64;
        let now = table::seconds(ctx.now);
        ctx.forward(batch, |ctx, packet| {
            let (found, frame) = look_up(ctx.tables, now, packet)?;
            match found {
                Found::Member(iface) => leave(ctx.tables, ctx.worker, iface, frame, packet),
                Found::Others => Err(Aside::Flood),
            }
        });
    }
}

/// Where a frame goes.
enum Found<'a> {
    /// By this member.
    Member(&'a Iface),
    /// By all others of the bridge.
    Others,
}

/// What a frame says about itself beside its addresses.
#[derive(Clone, Copy)]
struct Frame {
    /// The VLAN in the bridge.
    vlan: u16,
    /// The control information of its tag: its priority.
    class: u16,
}

/// Steps 1 to 3 up to the member.
#[inline(always)]
fn look_up<'a>(
    tables: &'a Tables,
    now: u32,
    packet: &Packet,
) -> Result<(Found<'a>, Frame), DropReason> {
    let number = packet.meta().iface;
    let (of, _) = member(tables, number).ok_or(DropReason::NotAttached)?;
    let bridge = tables.bridges.get(usize::from(of)).ok_or(DropReason::NotAttached)?;
    let (dst, src, frame) = read(packet.data())?;
    if is_group(src) {
        return Err(DropReason::BadSource);
    }
    bridge.table.note(Key::new(frame.vlan, src), number, now);
    if is_group(dst) {
        if dst & !0xf == RESERVED {
            return Err(DropReason::BridgeReserved);
        }
        return Ok((Found::Others, frame));
    }
    let found = match bridge.table.find(Key::new(frame.vlan, dst), now) {
        Some(to) if to == number => return Err(DropReason::BridgeSamePort),
        Some(to) => match member(tables, to) {
            Some((other, iface)) if other == of => Found::Member(iface),
            // It left the bridge since.
            _ => Found::Others,
        },
        None => Found::Others,
    };
    Ok((found, frame))
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

/// Out by a member, with the tags that its wire wants: straight to the port if it is this
/// worker's.
#[inline(always)]
fn leave(
    tables: &Tables,
    worker: u8,
    iface: &Iface,
    frame: Frame,
    packet: &mut Packet,
) -> Result<Next, Aside> {
    tag::tag_out(iface, frame.class, packet)?;
    packet.meta_mut().port = iface.port;
    match tables.ports.get(usize::from(iface.port.0)) {
        Some(port) if port.is_at(worker) && packet.len() <= usize::from(port.frame_max) => {
            Ok(if port.secy.is_some() { Next::SecyOut } else { Next::Transmit })
        }
        _ => Ok(Next::Emit),
    }
}

/// To every other member of the VLAN. When no buffer is left for a copy, those
/// not served yet get nothing.
pub(crate) fn flood(ctx: &mut Ctx<'_>, packet: Packet) {
    let (tables, from) = (ctx.tables, packet.meta().iface);
    let found = member(tables, from).and_then(|(of, _)| {
        let bridge = tables.bridges.get(usize::from(of))?;
        Some((of, bridge, read(packet.data()).ok()?.2))
    });
    let Some((of, bridge, frame)) = found else {
        return ctx.out.drop(packet, DropReason::NotAttached);
    };
    let mut others = bridge
        .members
        .iter()
        .filter(|&&to| to != from)
        .filter_map(|&to| member(tables, to))
        .filter(|&(other, iface)| other == of && carries(iface, frame.vlan))
        .map(|(_, iface)| iface);
    let Some(mut to) = others.next() else {
        return ctx.out.drop(packet, DropReason::BridgeSamePort);
    };
    for next in others {
        let Some(copy) = ctx.copy_of(&packet) else {
            return ctx.out.drop(packet, DropReason::NoBuffer);
        };
        send(ctx, to, frame, copy);
        to = next;
    }
    send(ctx, to, frame, packet);
}

fn send(ctx: &mut Ctx<'_>, iface: &Iface, frame: Frame, mut packet: Packet) {
    match leave(ctx.tables, ctx.worker, iface, frame, &mut packet) {
        Ok(next) => ctx.out.send(next, packet),
        Err(aside) => ctx.set_aside(packet, aside),
    }
}
