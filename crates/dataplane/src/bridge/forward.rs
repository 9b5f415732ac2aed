//! From one member of a bridge to the others.

use super::Bridge;
use super::member::Member;
use super::table::{self, Key, Sought};
use crate::graph::{Aside, Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::{Iface, IfaceKind, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::{EtherType, ethernet};

/// Destinations that no bridge forwards: 01-80-C2-00-00-00 to 0F (802.1Q
/// clause 8.6.3), without their last four bits.
const RESERVED: u64 = 0x0180_c200_0000;
/// The reserved VLAN ID (802.1Q clause 9.6).
const VID_RESERVED: u16 = 0xfff;
/// Octets of an Ethernet header.
const LINK: usize = ethernet::Header::LEN;

/// Frames between the prefetch of a table's entry and its use.
const AHEAD: usize = 8;

/// The stage at [`Next::Bridge`].
#[derive(Default)]
pub struct Forward {
    rows: Rows,
}

impl Stage for Forward {
    /// For all frames of the batch:
    ///
    /// 1. VLAN and addresses, and where the table has them.
    ///
    /// For each frame, while the table's lines of later ones are on their way:
    ///
    /// 2. The source is learned, unless it is a group's.
    /// 3. Reserved destinations end here.
    /// 4. Known: to that member, but not back. Else a copy to every other
    ///    member of the VLAN; the last one gets the frame itself.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += 2 * batch.len() as u64;
        let now = table::seconds(ctx.now);
        // The interface of all frames of a batch, unless other workers handed them over.
        let first = batch.first().map_or(0, |packet| packet.meta().iface);
        let from_first = arrival(ctx.tables, first);
        let rows = &mut *self.rows.0;
        // 1
        for (packet, row) in batch.iter().zip(&mut *rows) {
            let number = packet.meta().iface;
            let from = if number == first { from_first } else { arrival(ctx.tables, number) };
            *row = Row::of(from, packet.data());
        }
        let ask = |row: &Row| {
            if let Some((_, bridge)) = from_first {
                bridge.table.prefetch(row.src);
                bridge.table.prefetch(row.dst);
            }
        };
        rows.iter().take(AHEAD).for_each(ask);
        let mut at = 0;
        ctx.forward(batch, |ctx, packet| {
            rows.get(at + AHEAD).iter().copied().for_each(ask);
            let Row { src, dst, odd } = rows[at % BATCH];
            at += 1;
            let number = packet.meta().iface;
            let from = if number == first { from_first } else { arrival(ctx.tables, number) };
            let (from, bridge) = from.ok_or(DropReason::NotAttached)?;
            if odd {
                return Err(refusal(packet.data()).into());
            }
            // 2
            bridge.table.note(src, number, now);
            // 3, 4. A group's address is never learned.
            match bridge.table.find(dst, now) {
                Some(to) if to == number => Err(DropReason::BridgeSamePort.into()),
                Some(to) => match member(ctx.tables, to) {
                    Some(member) if member.bridge == from.bridge => leave(ctx, to, member, packet),
                    // The interface left the bridge since.
                    _ => Err(Aside::Flood),
                },
                None if dst.address() & !0xf == RESERVED => Err(DropReason::BridgeReserved.into()),
                None => Err(Aside::Flood),
            }
        });
    }
}

/// Addresses of a frame, as the table of its bridge has them.
#[derive(Clone, Copy, Default)]
struct Row {
    src: Sought,
    dst: Sought,
    /// The frame cannot be read, or its source address is a group's.
    odd: bool,
}

impl Row {
    #[inline(always)]
    fn of(from: Option<(&Member, &Bridge)>, frame: &[u8]) -> Self {
        match from.zip(read(frame).ok()) {
            Some(((_, bridge), (dst, src, FrameTag { vlan, .. }))) if !is_group(src) => {
                let seek = |address| bridge.table.seek(Key::new(vlan, address));
                Self { src: seek(src), dst: seek(dst), odd: false }
            }
            _ => Self { odd: true, ..Self::default() },
        }
    }
}

/// Rows of a batch.
struct Rows(Box<[Row; BATCH]>);

impl Default for Rows {
    fn default() -> Self {
        Self(Box::new([Row::default(); BATCH]))
    }
}

/// Drop reason of a frame that has no row.
#[cold]
fn refusal(frame: &[u8]) -> DropReason {
    read(frame).map_or_else(|reason| reason, |_| DropReason::BadSource)
}

/// Contents of a frame's tag.
#[derive(Clone, Copy, Default)]
struct FrameTag {
    /// The VLAN in the bridge.
    vlan: u16,
    /// The control information: its priority.
    class: u16,
}

/// The member by which a frame came, and its bridge.
#[inline(always)]
fn arrival(tables: &Tables, iface: u16) -> Option<(&Member, &Bridge)> {
    let member = member(tables, iface)?;
    Some((member, tables.bridges.get(usize::from(member.bridge))?))
}

/// An interface, as a member of its bridge.
#[inline(always)]
fn member(tables: &Tables, iface: u16) -> Option<&Member> {
    tables.hot.members.get(usize::from(iface))
}

/// Destination and source as numbers of 48 bits, VLAN and priority. A service
/// tag (802.1ad) is payload.
#[inline(always)]
fn read(frame: &[u8]) -> Result<(u64, u64, FrameTag), DropReason> {
    let front = frame.first_chunk::<LINK>().ok_or(DropReason::Malformed)?;
    // In words that overlap: octet by octet it is a load for each.
    let word = |at: usize| front[at..].first_chunk().map_or(0, |&word| u64::from_be_bytes(word));
    let (dst, src) = (word(0) >> 16, word(4) & ((1 << 48) - 1));
    if front[12..] != EtherType::VLAN.0.to_be_bytes() {
        return Ok((dst, src, FrameTag::default()));
    }
    let (_, class) = tag::outer(frame).ok_or(DropReason::Malformed)?;
    let vlan = class & tag::VID;
    if vlan == VID_RESERVED {
        return Err(DropReason::UnknownVlan);
    }
    Ok((dst, src, FrameTag { vlan, class }))
}

/// True if an address is a group's.
#[inline]
const fn is_group(address: u64) -> bool {
    address >> 40 & 1 != 0
}

/// True if frames of a VLAN leave by an interface.
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
fn leave(ctx: &Ctx<'_>, number: u16, member: &Member, packet: &mut Packet) -> Result<Next, Aside> {
    if member.is_plain { Ok(finish(ctx, member, packet)) } else { leave_apart(ctx, number, packet) }
}

/// The same for a member that has a list, which judges the frame as it is in the bridge, or
/// tags.
#[inline(never)]
fn leave_apart(ctx: &Ctx<'_>, number: u16, packet: &mut Packet) -> Result<Next, Aside> {
    let iface = ctx.tables.ifaces.get(usize::from(number)).ok_or(DropReason::NotAttached)?;
    if iface.lists.outbound.is_none() {
        return leave_permitted(ctx, number, packet);
    }
    packet.meta_mut().iface = number;
    Ok(Next::FrameAclOut)
}

/// Out by a member whose access list, if it has one, permits the frame.
pub(crate) fn leave_permitted(
    ctx: &Ctx<'_>,
    number: u16,
    packet: &mut Packet,
) -> Result<Next, Aside> {
    let iface = ctx.tables.ifaces.get(usize::from(number)).ok_or(DropReason::NotAttached)?;
    let member = member(ctx.tables, number).ok_or(DropReason::NotAttached)?;
    let (_, _, FrameTag { class, .. }) = read(packet.data())?;
    tag::tag_out(iface, class, packet)?;
    Ok(finish(ctx, member, packet))
}

#[inline(always)]
fn finish(ctx: &Ctx<'_>, member: &Member, packet: &mut Packet) -> Next {
    packet.meta_mut().port = member.port;
    member.after_bridge(ctx.worker, packet.len())
}

/// To every other member of the VLAN. When no buffer is left for a copy, those
/// not served yet get nothing.
pub(crate) fn flood(ctx: &mut Ctx<'_>, packet: Packet) {
    let (tables, from) = (ctx.tables, packet.meta().iface);
    let found = arrival(tables, from).zip(read(packet.data()).ok());
    let Some(((Member { bridge: of, .. }, bridge), (_, _, FrameTag { vlan, .. }))) = found else {
        return ctx.out.drop(packet, DropReason::NotAttached);
    };
    let carries = |to: u16| tables.ifaces.get(usize::from(to)).is_some_and(|i| carries(i, vlan));
    let others = bridge.members.iter().filter(|&&to| to != from && carries(to));
    let mut others =
        others.filter_map(|&to| Some((to, member(tables, to).filter(|m| m.bridge == *of)?)));
    let Some(mut to) = others.next() else {
        return ctx.out.drop(packet, DropReason::BridgeSamePort);
    };
    for next in others {
        let Some(copy) = ctx.copy_of(&packet) else {
            return ctx.out.drop(packet, DropReason::NoBuffer);
        };
        send(ctx, to, copy);
        to = next;
    }
    send(ctx, to, packet);
}

fn send(ctx: &mut Ctx<'_>, (number, member): (u16, &Member), mut packet: Packet) {
    match leave(ctx, number, member, &mut packet) {
        Ok(next) => ctx.out.send(next, packet),
        Err(aside) => ctx.set_aside(packet, aside),
    }
}
