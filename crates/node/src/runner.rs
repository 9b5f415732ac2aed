//! The runner: batches from stage to stage of a graph.
//!
//! ```text
//!   batch ─▶ stage ─▶ run: most of the batch goes one way, and straight on to that stage
//!                └──▶ queues, one for each place, for the next pass in the order of `Next`
//! ```

use ferrule_base::{DropReason, Instant};
use ferrule_crypto::{Engine, Jobs};
use ferrule_dataplane::graph::{Ctx, Next, Outputs};
use ferrule_pipeline::{Batch, Packet};

/// Stages that a batch goes through without a stop.
const RUN_MAX: usize = 32;

/// Passes over the queues in one turn at most; the rest waits for the next.
const PASSES_MAX: usize = 64;

/// The graph of a worker or a card: its places, and the stage at each of them.
pub(crate) trait Graph {
    /// A place. Stages name the places of a node, each of which is one of these.
    type Place: Copy + From<Next>;
    /// Crypto engine of the stages.
    type Engine: Engine<Packet>;

    /// Output and engine of the stages.
    fn parts(&mut self) -> (&mut Outputs, &mut Self::Engine);

    /// Takes a batch through the stage at a place, and settles the packets dropped there.
    fn visit(&mut self, place: Self::Place, batch: &mut Box<Batch>);

    /// Gives each job to the stage that it is of.
    fn finish(&mut self, done: &mut Jobs<Packet>);

    /// Takes a batch through its stage, and on through the next ones as long as most of it
    /// goes the same way.
    fn carry(&mut self, place: Self::Place, batch: &mut Box<Batch>) {
        let mut place = place;
        for _ in 1..RUN_MAX {
            self.visit(place, batch);
            debug_assert!(batch.is_empty(), "a stage left packets behind");
            match self.parts().0.take_run(batch) {
                Some(next) => place = next.into(),
                None => return,
            }
        }
        // The packets go round: another pass, and in the end the turns that are counted.
        self.visit(place, batch);
    }

    /// Visits every stage that has something waiting, until none has. Returns how many
    /// packets moved.
    fn run(&mut self, batch: &mut Box<Batch>) -> usize {
        let mut moved = 0;
        for _ in 0..PASSES_MAX {
            let before = moved;
            for next in Next::ALL {
                while let queue = self.parts().0.queue(next)
                    && !queue.is_empty()
                {
                    let count = queue.len().min(batch.capacity());
                    batch.extend(queue.drain(..count));
                    moved += count;
                    self.carry(next.into(), batch);
                }
            }
            if moved == before {
                break;
            }
        }
        moved
    }

    /// Jobs that an engine finished later. Returns how many.
    fn collect(&mut self, now: Instant) -> usize {
        if self.parts().1.is_immediate() {
            return 0;
        }
        let mut count = 0;
        loop {
            let mut done = Jobs::new();
            self.parts().1.collect(now, &mut done);
            if done.is_empty() {
                return count;
            }
            count += done.len();
            self.finish(&mut done);
            debug_assert!(done.is_empty(), "every job belongs to a stage");
        }
    }
}

/// Counts dropped packets, after a last look at each.
#[inline]
pub(crate) fn settle(ctx: &mut Ctx<'_>, mut look: impl FnMut(&mut Packet, DropReason)) {
    for (mut packet, reason) in ctx.out.dropped().drain(..) {
        look(&mut packet, reason);
        ctx.tally.drops.count(reason);
        ctx.tally.audit.note(ctx.now, reason, &packet);
        ctx.cache.recycle(packet);
    }
}
