//! The stages: before the routing table and behind it.

use super::frame::payload_at;
use super::{AclOutcome, Numbered, Unread};
use crate::bridge;
use crate::classify::Direction;
use crate::graph::{Aside, Ctx, FLAG_LOCAL, Next, Stage};
use crate::link::{Arrival, Exit};
use crate::mpls::PwMode;
use crate::tables::{Iface, IfaceKind, Lists, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Meta, Packet};

/// The list that an interface has, by number; none.
pub const NO_LIST: u32 = u32::MAX;

/// The stage at [`Next::AclIn`]: the list of the interface by which a packet came.
#[derive(Default)]
pub struct AclIn;

impl Stage for AclIn {
    /// For all packets of the batch:
    ///
    /// 1. The interface of arrival has the list.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. Permitted packets go on to IP.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let list = |tables: &Tables, meta: &Meta| arrival(tables, meta).list;
        judge(ctx, batch, Direction::Inbound, list, |_, _| Ok(Next::Ip));
    }
}

/// The stage at [`Next::AclOut`]: the list of the interface by which a packet is to leave.
#[derive(Default)]
pub struct AclOut;

impl Stage for AclOut {
    /// For all packets of the batch:
    ///
    /// 1. The interface of the adjacency has the list; packets of the node itself are not checked.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. Permitted packets go on as without a list.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let list = |tables: &Tables, meta: &Meta| match exit(tables, meta) {
            Some(exit) if meta.flags & FLAG_LOCAL == 0 => exit.list,
            _ => NO_LIST,
        };
        judge(ctx, batch, Direction::Outbound, list, |ctx, packet| {
            let (tables, meta) = (ctx.tables, packet.meta());
            let next = |exit: &Exit| exit.after_list(arrival(tables, meta));
            Ok(exit(tables, meta).map_or(Next::Output, next))
        });
    }
}

fn arrival(tables: &Tables, meta: &Meta) -> Arrival {
    tables.hot.arrivals.get(usize::from(meta.iface)).copied().unwrap_or(Arrival::NONE)
}

fn exit<'a>(tables: &'a Tables, meta: &Meta) -> Option<&'a Exit> {
    tables.hot.exits.get(meta.adjacency as usize)
}

/// The stage at [`Next::FrameAclIn`]: the list of the bridge's member or attachment circuit by
/// which a frame came.
#[derive(Default)]
pub struct FrameAclIn;

impl Stage for FrameAclIn {
    /// For all frames of the batch: as [`AclIn`], and on into the bridge or the pseudowire.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        judge_shape::<true>(ctx, batch, Direction::Inbound, frame_list_in, |ctx, packet| {
            Ok(match interface(ctx.tables, packet.meta()).map(|iface| &iface.kind) {
                Some(IfaceKind::Bridged { .. }) => Next::Bridge,
                _ => Next::PwOut,
            })
        });
    }
}

/// The stage at [`Next::FrameAclOut`]: the list of the bridge's member or attachment circuit by
/// which a frame is to leave.
#[derive(Default)]
pub struct FrameAclOut;

impl Stage for FrameAclOut {
    /// For all frames of the batch: as [`AclOut`], and on to the port.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        judge_shape::<true>(ctx, batch, Direction::Outbound, frame_list_out, |ctx, packet| {
            let number = packet.meta().iface;
            match interface(ctx.tables, packet.meta()).map(|iface| &iface.kind) {
                Some(IfaceKind::Bridged { .. }) => bridge::leave_permitted(ctx, number, packet),
                _ => Ok(Next::Emit),
            }
        });
    }
}

fn interface<'a>(tables: &'a Tables, meta: &Meta) -> Option<&'a Iface> {
    tables.ifaces.get(usize::from(meta.iface))
}

/// A list of a frame's interface. Of one that is not there, one that is not there either.
fn frame_list(tables: &Tables, meta: &Meta, list: impl Fn(Lists) -> Option<u32>) -> u32 {
    interface(tables, meta).map_or(NO_LIST - 1, |iface| list(iface.lists).unwrap_or(NO_LIST))
}

fn frame_list_in(tables: &Tables, meta: &Meta) -> u32 {
    frame_list(tables, meta, |lists| lists.inbound)
}

fn frame_list_out(tables: &Tables, meta: &Meta) -> u32 {
    frame_list(tables, meta, |lists| lists.outbound)
}

/// Tags of a frame by which it belongs to its circuit; in a bridge it has none.
fn own_tags(tables: &Tables, meta: &Meta, way: Direction) -> usize {
    let Some(iface) = interface(tables, meta) else { return 0 };
    match (&iface.kind, way) {
        (IfaceKind::Crossed(pw), Direction::Inbound) => {
            let pw = tables.pws.get(usize::from(*pw));
            usize::from(pw.is_some_and(|pw| matches!(pw.mode, PwMode::Tagged(_))))
        }
        (IfaceKind::Crossed(_), Direction::Outbound) => iface.tag.count(),
        _ => 0,
    }
}

/// Applies lists to a batch of IP packets, list by list; permitted packets go where `then`
/// says.
#[inline(always)]
fn judge(
    ctx: &mut Ctx<'_>,
    batch: &mut Box<Batch>,
    way: Direction,
    list: impl Fn(&Tables, &Meta) -> u32,
    then: impl Fn(&Ctx<'_>, &mut Packet) -> Result<Next, Aside>,
) {
    judge_shape::<false>(ctx, batch, way, list, then);
}

/// The same for IP packets or whole frames.
#[inline(always)]
fn judge_shape<const FRAMES: bool>(
    ctx: &mut Ctx<'_>,
    batch: &mut Box<Batch>,
    way: Direction,
    list: impl Fn(&Tables, &Meta) -> u32,
    then: impl Fn(&Ctx<'_>, &mut Packet) -> Result<Next, Aside>,
) {
    ctx.tally.work.lookups += batch.len() as u64;
    let tables = ctx.tables;
    let (mut lists, mut octets) = ([NO_LIST; BATCH], [0; BATCH]);
    for ((packet, of), octets) in batch.iter().zip(&mut lists).zip(&mut octets) {
        (*of, *octets) = (list(tables, packet.meta()), packet.len() as u32);
    }
    let mut outcomes = [AclOutcome::PASSED; BATCH];
    let mut unread = Unread::new();
    let mut from = 0;
    while let Some(&number) = lists[..batch.len()].get(from) {
        let same = lists[from..batch.len()].iter().take_while(|&&other| other == number);
        let to = from + same.count();
        match tables.lists.get(number as usize) {
            Some(Numbered { list, first_counter }) => {
                let (packets, outcomes) = (&batch[from..to], &mut outcomes[from..to]);
                match FRAMES {
                    true => {
                        let own = |frame: &Packet| own_tags(tables, frame.meta(), way);
                        list.judge_frames(packets, own, outcomes, &mut unread, from);
                    }
                    false => list.judge_all(packets, outcomes, &mut unread, from),
                }
                let counted = |outcome: &mut AclOutcome| {
                    *outcome = outcome.counted_from(*first_counter);
                };
                outcomes.iter_mut().for_each(counted);
            }
            None if number == NO_LIST => {}
            // A list that is not there lets nothing through.
            None => outcomes[from..to].fill(AclOutcome::REFUSED),
        }
        from = to;
    }
    let judged = &outcomes[..batch.len()];
    if judged.iter().fold(false, |any, outcome| any | outcome.logs()) {
        for (packet, outcome) in batch.iter().zip(judged).filter(|(_, outcome)| outcome.logs()) {
            let at = if FRAMES { payload_at(packet.data()) } else { 0 };
            ctx.tally.audit.log(outcome.counter(), way, packet, at);
        }
    }
    ctx.tally.list_hits.count_all(way, judged, |outcome| outcome.counter(), &octets);
    let mut at = 0;
    ctx.forward(batch, |ctx, packet| {
        let outcome = outcomes[at % BATCH];
        at += 1;
        match outcome.permits() {
            true => then(ctx, packet),
            false => Err(why(&unread, at - 1)),
        }
    });
}

/// Drop reason of a packet that does not pass.
#[cold]
fn why(unread: &Unread, at: usize) -> Aside {
    let found = unread.iter().find(|unread| unread.0 == at);
    found.map_or(DropReason::AclDenied, |unread| unread.1).into()
}
