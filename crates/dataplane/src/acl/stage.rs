//! The stages: before the routing table and behind it.

use super::frame::payload_at;
use super::{AclOutcome, Numbered, Scratch, Unread};
use crate::audit::Audit;
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

/// Verdicts of lists on a batch's packets, and working memory.
struct Columns {
    octets: [u32; BATCH],
    outcomes: [AclOutcome; BATCH],
    unread: Unread,
    scratch: Scratch,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            octets: [0; BATCH],
            outcomes: [AclOutcome::PASSED; BATCH],
            unread: Unread::new(),
            scratch: Scratch::default(),
        }
    }
}

/// The stage at [`Next::AclIn`]: the list of the interface by which a packet came.
#[derive(Default)]
pub struct AclIn {
    columns: Box<Columns>,
}

impl Stage for AclIn {
    /// For all packets of the batch:
    ///
    /// 1. The interface of arrival has the list.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. Permitted packets go on to IP.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let way = Direction::Inbound;
        if judge::<false>(ctx, batch, way, list_in, &mut self.columns) {
            return ctx.out.send_all(Next::Ip, batch);
        }
        forward(ctx, batch, &self.columns, |_, _| Ok(Next::Ip));
    }
}

/// The stage at [`Next::AclOut`]: the list of the interface by which a packet is to leave.
#[derive(Default)]
pub struct AclOut {
    columns: Box<Columns>,
}

impl Stage for AclOut {
    /// For all packets of the batch:
    ///
    /// 1. The interface of the adjacency has the list; packets of the node itself are not checked.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. Permitted packets go on as without a list.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        judge::<false>(ctx, batch, Direction::Outbound, list_out, &mut self.columns);
        forward(ctx, batch, &self.columns, |ctx, packet| {
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

fn list_in(tables: &Tables, meta: &Meta) -> u32 {
    arrival(tables, meta).list
}

fn list_out(tables: &Tables, meta: &Meta) -> u32 {
    match exit(tables, meta) {
        Some(exit) if meta.flags & FLAG_LOCAL == 0 => exit.list,
        _ => NO_LIST,
    }
}

/// The stage at [`Next::FrameAclIn`]: the list of the bridge's member or attachment circuit by
/// which a frame came.
#[derive(Default)]
pub struct FrameAclIn {
    columns: Box<Columns>,
}

impl Stage for FrameAclIn {
    /// For all frames of the batch: as [`AclIn`], and on into the bridge or the pseudowire.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        judge::<true>(ctx, batch, Direction::Inbound, frame_list_in, &mut self.columns);
        forward(ctx, batch, &self.columns, |ctx, packet| {
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
pub struct FrameAclOut {
    columns: Box<Columns>,
}

impl Stage for FrameAclOut {
    /// For all frames of the batch: as [`AclOut`], and on to the port.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        judge::<true>(ctx, batch, Direction::Outbound, frame_list_out, &mut self.columns);
        forward(ctx, batch, &self.columns, |ctx, packet| {
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

/// Applies lists to a batch of IP packets or whole frames, list by list. True if all may pass.
#[inline(always)]
fn judge<const FRAMES: bool>(
    ctx: &mut Ctx<'_>,
    batch: &[Packet],
    way: Direction,
    list: impl Fn(&Tables, &Meta) -> u32,
    columns: &mut Columns,
) -> bool {
    let (tables, tally) = (ctx.tables, &mut *ctx.tally);
    let count = batch.len().min(BATCH);
    tally.work.lookups += count as u64;
    columns.unread.clear();
    let same = columns.measure::<FRAMES>(batch, way);
    let mut from = 0;
    while from < count {
        let number = list(tables, batch[from].meta());
        let others = batch[from..count].iter().map(|packet| list(tables, packet.meta()));
        let to = if same { count } else { from + others.take_while(|&n| n == number).count() };
        let first = tables.lists.get(number as usize).map_or(0, |list| list.first_counter);
        let near = |counter: u32| tally.list_hits.prefetch(way, counter.wrapping_add(first));
        columns.apply::<FRAMES>(tables, (number, way), &batch[from..to], from, near);
        let (outcomes, octets) = (&columns.outcomes[from..to], &columns.octets[from..to]);
        tally.list_hits.count_all(way, first, outcomes, |outcome| outcome.counter(), octets);
        if outcomes.iter().fold(0, |any, outcome| any | outcome.0) & AclOutcome::LOGS != 0 {
            log::<FRAMES>(&mut tally.audit, (way, first), &batch[from..to], outcomes);
        }
        from = to;
    }
    let all = columns.outcomes[..count].iter().fold(u64::MAX, |all, outcome| all & outcome.0);
    all & AclOutcome::PERMITS != 0
}

impl Columns {
    /// Notes the packets' octets. True if all came, or leave, the same way, so that they have
    /// one list: as a rule they do.
    #[inline(always)]
    fn measure<const FRAMES: bool>(&mut self, batch: &[Packet], way: Direction) -> bool {
        let of = |meta: &Meta| match way {
            Direction::Outbound if !FRAMES => (meta.adjacency, meta.flags & FLAG_LOCAL),
            _ => (meta.iface.into(), 0),
        };
        let Some(first) = batch.first().map(|packet| of(packet.meta())) else { return true };
        let mut apart = 0;
        for (packet, octets) in batch.iter().zip(&mut self.octets) {
            *octets = packet.len() as u32;
            let other = of(packet.meta());
            apart |= (other.0 ^ first.0) | u32::from(other.1 ^ first.1);
        }
        apart == 0
    }

    /// Outcomes of packets that have this list, from place `from` on.
    #[inline(always)]
    fn apply<const FRAMES: bool>(
        &mut self,
        tables: &Tables,
        (number, way): (u32, Direction),
        packets: &[Packet],
        from: usize,
        near: impl Fn(u32),
    ) {
        let outcomes = &mut self.outcomes[from..from + packets.len()];
        let unread = (&mut self.unread, from);
        match tables.lists.get(number as usize) {
            Some(Numbered { list, .. }) if FRAMES => {
                let own = |frame: &Packet| own_tags(tables, frame.meta(), way);
                list.judge_frames(packets, own, outcomes, unread, &mut self.scratch.search);
            }
            Some(Numbered { list, .. }) => {
                list.judge_all(packets, outcomes, unread, &mut self.scratch, near);
            }
            None if number == NO_LIST => outcomes.fill(AclOutcome::PASSED),
            // A list that is not there lets nothing through.
            None => outcomes.fill(AclOutcome::REFUSED),
        }
    }
}

/// Notes packets whose entry is logged; the list's counters begin at `first`.
#[inline(never)]
fn log<const FRAMES: bool>(
    audit: &mut Audit,
    (way, first): (Direction, u32),
    packets: &[Packet],
    outcomes: &[AclOutcome],
) {
    for (packet, outcome) in packets.iter().zip(outcomes).filter(|(_, outcome)| outcome.logs()) {
        let at = if FRAMES { payload_at(packet.data()) } else { 0 };
        audit.log(outcome.counter().saturating_add(first), way, packet, at);
    }
}

/// Sends permitted packets where `then` says.
#[inline(always)]
fn forward(
    ctx: &mut Ctx<'_>,
    batch: &mut Box<Batch>,
    columns: &Columns,
    then: impl Fn(&Ctx<'_>, &mut Packet) -> Result<Next, Aside>,
) {
    let mut at = 0;
    ctx.forward(batch, |ctx, packet| {
        let outcome = columns.outcomes[at % BATCH];
        at += 1;
        match outcome.permits() {
            true => then(ctx, packet),
            false => Err(why(&columns.unread, at - 1)),
        }
    });
}

/// Drop reason of a packet that does not pass.
#[cold]
fn why(unread: &Unread, at: usize) -> Aside {
    let found = unread.iter().find(|unread| unread.0 == at);
    found.map_or(DropReason::AclDenied, |unread| unread.1).into()
}
