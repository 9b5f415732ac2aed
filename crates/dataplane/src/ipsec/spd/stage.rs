//! The stage at the boundary: what leaves sealed, in clear, or not at all
//! (RFC 4301 section 5.1).

use super::{Action, Direction, Outcome, Refused};
use crate::graph::{Ctx, FLAG_EXEMPT, Next, Stage};
use crate::link::Gate;
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch};

/// Asks the policy of the interface by which each packet is to leave.
#[derive(Default)]
pub struct Policy;

impl Stage for Policy {
    /// For all packets of the batch:
    ///
    /// 1. The interface of the adjacency has the policy; what is sealed already, or exempt,
    ///    goes on to its adjacency.
    /// 2. The first entry that matches decides, and is counted.
    /// 3. PROTECT goes to the SA in its slot: this worker's own, or another worker's.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (mut outcomes, mut octets) = ([Outcome::OPEN; BATCH], [0; BATCH]);
        let mut refused = Refused::new();
        decide(ctx.tables, batch, &mut outcomes, &mut octets, &mut refused);
        let outcomes_here = &outcomes[..batch.len()];
        ctx.tally.hits.count_all(Direction::Outbound, 0, outcomes_here, |o| o.counter(), &octets);
        let (mut at, tables) = (0, ctx.tables);
        let slots = tables.sas.slots(ctx.worker);
        ctx.forward(batch, |ctx, packet| {
            let outcome = outcomes[at % BATCH];
            at += 1;
            match outcome.action() {
                Action::Protect(slot) => slots.next(ctx.worker, slot, packet, &tables.acquires),
                Action::Bypass => Ok(Next::Output),
                Action::Discard => Err(why(&refused, at - 1).into()),
            }
        });
    }
}

/// Drop reason of a discarded packet.
#[cold]
fn why(refused: &Refused, at: usize) -> DropReason {
    let found = refused.iter().find(|refused| refused.0 == at);
    found.map_or(DropReason::PolicyDiscard, |refused| refused.1)
}

/// Steps 1 and 2, policy by policy; and the packets' octets.
#[inline(always)]
fn decide(
    tables: &Tables,
    batch: &Batch,
    outcomes: &mut [Outcome; BATCH],
    octets: &mut [u32; BATCH],
    refused: &mut Refused,
) {
    let mut gates = [Gate::OPEN; BATCH];
    for ((packet, gate), octets) in batch.iter().zip(&mut gates).zip(octets) {
        *octets = packet.len() as u32;
        let meta = packet.meta();
        if meta.flags & FLAG_EXEMPT == 0 {
            let exit = tables.hot.exits.get(meta.adjacency as usize);
            *gate = exit.map_or(Gate::CLOSED, |exit| exit.gate);
        }
    }
    let mut from = 0;
    while let Some(&gate) = gates[..batch.len()].get(from) {
        let rest = &gates[from..batch.len()];
        // As a rule all are alike, which takes a few vectors to see.
        let to = match rest.iter().fold(0, |all, other| all | other.0 ^ gate.0) {
            0 => batch.len(),
            _ => from + rest.iter().take_while(|&&other| other == gate).count(),
        };
        match tables.policies.get(gate.0 as usize) {
            Some(spd) => {
                spd.decide_outbound(&batch[from..to], &mut outcomes[from..to], refused, from);
            }
            None if gate == Gate::OPEN => {}
            None => outcomes[from..to].fill(Outcome::CLOSED),
        }
        from = to;
    }
}
