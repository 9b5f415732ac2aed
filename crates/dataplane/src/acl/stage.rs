//! The stages: before the routing table and behind it.

use super::{AclOutcome, Unread};
use crate::classify::Direction;
use crate::graph::{Aside, Ctx, FLAG_LOCAL, Next, Stage};
use crate::link::{Arrival, Exit};
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Meta};

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
    /// 3. What it permits goes on to IP.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let list = |tables: &Tables, meta: &Meta| arrival(tables, meta).list;
        judge(ctx, batch, Direction::Inbound, list, |_, _| Next::Ip);
    }
}

/// The stage at [`Next::AclOut`]: the list of the interface by which a packet is to leave.
#[derive(Default)]
pub struct AclOut;

impl Stage for AclOut {
    /// For all packets of the batch:
    ///
    /// 1. The interface of the adjacency has the list; what was made here is not judged.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. What it permits goes on as without a list.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let list = |tables: &Tables, meta: &Meta| match exit(tables, meta) {
            Some(exit) if meta.flags & FLAG_LOCAL == 0 => exit.list,
            _ => NO_LIST,
        };
        judge(ctx, batch, Direction::Outbound, list, |tables, meta| {
            exit(tables, meta).map_or(Next::Output, |exit| exit.after_list(arrival(tables, meta)))
        });
    }
}

fn arrival(tables: &Tables, meta: &Meta) -> Arrival {
    tables.hot.arrivals.get(usize::from(meta.iface)).copied().unwrap_or(Arrival::NONE)
}

fn exit<'a>(tables: &'a Tables, meta: &Meta) -> Option<&'a Exit> {
    tables.hot.exits.get(meta.adjacency as usize)
}

/// Judges a batch, list by list; what passes goes where `then` says.
#[inline(always)]
fn judge(
    ctx: &mut Ctx<'_>,
    batch: &mut Box<Batch>,
    way: Direction,
    list: impl Fn(&Tables, &Meta) -> u32,
    then: impl Fn(&Tables, &Meta) -> Next,
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
            Some(list) => {
                list.judge_all(&batch[from..to], &mut outcomes[from..to], &mut unread, from);
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
            ctx.tally.audit.log(outcome.counter(), way, packet);
        }
    }
    ctx.tally.list_hits.count_all(way, judged, |outcome| outcome.counter(), &octets);
    let mut at = 0;
    ctx.forward(batch, |ctx, packet| {
        let outcome = outcomes[at % BATCH];
        at += 1;
        match outcome.permits() {
            true => Ok(then(ctx.tables, packet.meta())),
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
