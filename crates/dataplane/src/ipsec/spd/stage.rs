//! The stage at the boundary: what leaves sealed, in clear, or not at all
//! (RFC 4301 section 5.1).

use super::{Action, Decision, Spd};
use crate::graph::{Aside, Ctx, FLAG_EXEMPT, Next, Stage};
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Packet};

/// Asks the policy of the interface by which each packet is to leave.
#[derive(Default)]
pub struct Policy;

/// What is known of each packet of a batch: what the policy says, if it was asked.
type Decisions = [Option<Result<Decision, DropReason>>; BATCH];

impl Stage for Policy {
    /// For all packets of the batch:
    ///
    /// 1. The interface of the adjacency has the policy; what is sealed already, or exempt,
    ///    goes on to its adjacency.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. PROTECT goes to the worker that owns the SA.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let mut decisions: Decisions = [None; BATCH];
        decide(ctx.tables, batch, &mut decisions);
        for (packet, decision) in batch.iter().zip(&decisions) {
            if let Some(Ok(decision)) = decision {
                ctx.tally.hits.outbound(decision.counter, 1, packet.len() as u64);
            }
        }
        let mut decisions = decisions.into_iter();
        ctx.forward(batch, |ctx, packet| match decisions.next().flatten() {
            Some(decision) => carry_out(ctx, packet, decision?),
            None => match Gate::of(ctx.tables, packet) {
                Gate::Open => Ok(Next::Output),
                Gate::Closed | Gate::Policy(_) => Err(DropReason::PolicyDiscard.into()),
            },
        });
    }
}

/// Steps 1 and 2, policy by policy.
#[inline(always)]
fn decide(tables: &Tables, batch: &Batch, decisions: &mut Decisions) {
    let mut from = 0;
    while let Some(first) = batch.get(from) {
        let gate = Gate::of(tables, first);
        let same = |packet: &&Packet| Gate::of(tables, packet).is(&gate);
        let to = from + batch[from..].iter().take_while(same).count().max(1);
        if let Gate::Policy(spd) = gate {
            let asked = |(at, p)| (from..to).contains(&at).then_some(p);
            spd.outbound_all(batch.iter().map(Packet::data).enumerate().map(asked), decisions);
        }
        from = to;
    }
}

/// Step 3, and the two other actions.
#[inline(always)]
fn carry_out(ctx: &Ctx<'_>, packet: &mut Packet, decision: Decision) -> Result<Next, Aside> {
    match decision.action {
        Action::Protect(sa) => {
            packet.meta_mut().sa = sa;
            match ctx.tables.sas.outbound(sa) {
                Some(worker) if worker == ctx.worker => Ok(Next::EspOut),
                Some(worker) => Err(Aside::HandOff(worker, Next::EspOut)),
                None => Err(DropReason::EspNoSa.into()),
            }
        }
        Action::Bypass => Ok(Next::Output),
        Action::Discard => Err(DropReason::PolicyDiscard.into()),
    }
}

/// What stands between a packet and its adjacency.
enum Gate<'a> {
    /// Nothing.
    Open,
    /// A policy that is not there: nothing passes.
    Closed,
    Policy(&'a Spd),
}

impl<'a> Gate<'a> {
    /// Step 1. An adjacency that is not there has the policy that is not there.
    #[inline(always)]
    fn of(tables: &'a Tables, packet: &Packet) -> Self {
        let meta = packet.meta();
        if meta.flags & FLAG_EXEMPT != 0 {
            return Self::Open;
        }
        match tables.hot.exits.get(meta.adjacency as usize) {
            Some(exit) if exit.is_routed => match exit.policy() {
                Some(policy) => tables.policies.get(policy).map_or(Self::Closed, Self::Policy),
                None => Self::Open,
            },
            _ => Self::Closed,
        }
    }

    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Policy(one), Self::Policy(other)) => std::ptr::eq(*one, *other),
            (Self::Open, Self::Open) | (Self::Closed, Self::Closed) => true,
            _ => false,
        }
    }
}
