//! Protection common to ESP, AH and MACsec: jobs for an engine beside the packets of a
//! batch, the order in which packets leave, SAs in places, and numbers used once.
//!
//! ```text
//!            ┌ prepare ┐           ┌─ immediate: beside the batch ─┐   ┌ finish ┐
//!   batch ─▶ │ a job   │ ─▶ engine ┤                               ├─▶ │ verdict│ ─▶ next
//!            │ each    │           └─ later: tickets keep order ───┘   │ each   │
//!            └─────────┘                                               └────────┘
//! ```
//!
//! A protocol brings `Protection::prepare_all` and `Protection::finish`, and these are
//! the same for every engine.
//!
//! * [`authentic`] the proof that a replay window requires before it moves.
//! * [`sequence`] the numbers that an outbound SA may use.
//! * `table`: SAs by index, and how they come and go without losing a packet.
//! * [`tickets`] order for jobs that come back later.

pub mod authentic;
pub mod sequence;
pub(crate) mod table;
pub mod tickets;

use crate::graph::{Aside, Ctx, Next};
use ferrule_base::{DropReason, Flow, PortId};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op};
use ferrule_pipeline::{AHEAD, BATCH, Batch, Packet};
use ferrule_wire::esp;
use tickets::{Lane, Submitter, Tickets};

/// A protocol's part of sealing or opening.
pub(crate) trait Protection {
    /// Stage that submits the jobs.
    const SUBMITTER: Submitter;

    /// Asks the processor for the memory that [`prepare_all`](Self::prepare_all) and the engine
    /// are going to read, where that is more than the nearest cache holds.
    fn prefetch<E: Engine<Packet>>(&self, ctx: &Ctx<'_>, engine: &E, batch: &Batch) {
        let _ = (ctx, engine, batch);
    }

    /// Lays each packet of a batch out for the engine and writes its job beside it, in whose
    /// `ticket` is the slot of the SA; those that have none are [taken out](take_out).
    fn prepare_all(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch, jobs: &mut [Job<()>; BATCH]);

    /// Next place of a whole batch whose finished jobs leave nothing to do. Otherwise
    /// [`finish`](Self::finish) decides for each packet.
    #[inline(always)]
    fn all_finished(&mut self, jobs: &[Job<()>]) -> Option<Next> {
        let _ = jobs;
        None
    }

    /// Completes a finished job, and gives the next place of its packet.
    fn finish(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside>;

    /// The queue in which packets of an SA keep their order.
    fn queue(&mut self, slot: u32) -> Option<&mut Lane>;

    /// A job of the SA is back, or was never accepted: one that was retired may go.
    fn returned(&mut self, slot: u32);
}

/// Jobs of one stage.
pub(crate) struct InFlight {
    tickets: Tickets,
    /// Beside the packets of a batch. (Written in place: to hand them over by value cost
    /// more than to make them.)
    jobs: Box<[Job<()>; BATCH]>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { tickets: Tickets::default(), jobs: Box::new([Job::BLANK; BATCH]) }
    }
}

impl InFlight {
    /// Packets in an engine, or waiting for one that is.
    pub fn held(&self) -> usize {
        self.tickets.held()
    }

    /// Takes a batch through prepare, engine and finish.
    #[inline(always)]
    pub fn run<P: Protection, E: Engine<Packet>>(
        &mut self,
        protection: &mut P,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        protection.prefetch(ctx, engine, batch);
        protection.prepare_all(ctx, batch, &mut self.jobs);
        self.work(protection, ctx, engine, batch);
    }

    /// The place of the job beside packet `at` of a batch for [`work`](Self::work).
    pub fn job(&mut self, at: usize) -> &mut Job<()> {
        &mut self.jobs[at % BATCH]
    }

    /// The same from the jobs on.
    #[inline(always)]
    pub fn work<P: Protection, E: Engine<Packet>>(
        &mut self,
        protection: &mut P,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        let (jobs, _) = self.jobs.split_at_mut(batch.len());
        count(ctx, jobs);
        if !engine.is_immediate() {
            return self.submit(protection, ctx, engine, batch);
        }
        // The engine finds texts by these.
        batch.iter().for_each(Packet::prefetch_meta);
        engine.run_beside(ctx.now, batch, jobs);
        if let Some(next) = protection.all_finished(jobs) {
            return ctx.out.send_all(next, batch);
        }
        let mut jobs = jobs.iter();
        ctx.forward_from_afar(batch, |ctx, packet| match jobs.next() {
            Some(job) => protection.finish(ctx, packet, job),
            None => Err(DropReason::EngineFailed.into()),
        });
    }

    /// To an engine that finishes later: each job owns its packet, and has a place in the
    /// order of its SA.
    #[inline(never)]
    fn submit<P: Protection, E: Engine<Packet>>(
        &mut self,
        protection: &mut P,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let mut owned = Jobs::new();
        for (packet, job) in batch.drain(..).zip(self.jobs.iter_mut()) {
            let mut job = std::mem::replace(job, Job::BLANK);
            let slot = job.ticket as u32;
            let queue = protection.queue(slot);
            match queue.and_then(|queue| self.tickets.issue(queue, slot)) {
                Some(ticket) => {
                    job.ticket = P::SUBMITTER.mark(ticket.into());
                    owned.push(job.map(|()| packet));
                }
                None => conclude(protection, ctx, packet, &job),
            }
        }
        engine.submit(ctx.now, &mut owned);
        self.finish(protection, ctx, &mut owned);
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`: each SA's in
    /// the order in which they came. (A job without an SA would be an engine's invention;
    /// its packet must not vanish all the same.)
    pub fn finish<P: Protection>(
        &mut self,
        protection: &mut P,
        ctx: &mut Ctx<'_>,
        jobs: &mut Jobs<Packet>,
    ) {
        for job in std::mem::take(jobs) {
            if !P::SUBMITTER.owns(job.ticket) {
                jobs.push(job);
                continue;
            }
            let ticket = job.ticket as u32;
            let owner = self.tickets.owner(ticket);
            let Some(slot) = owner.filter(|&slot| protection.queue(slot).is_some()) else {
                ctx.out.drop(job.buf, DropReason::EngineFailed);
                continue;
            };
            self.tickets.park(ticket, job);
            self.release(protection, ctx, slot);
        }
    }

    /// Concludes all at the head of an SA's queue that are back. SAs may share a queue: the
    /// last one that was served stays until the next is, so that the queue can be found.
    fn release<P: Protection>(&mut self, protection: &mut P, ctx: &mut Ctx<'_>, slot: u32) {
        let mut served = None;
        while let Some((slot, job)) =
            protection.queue(served.unwrap_or(slot)).and_then(|queue| self.tickets.release(queue))
        {
            let mut packet = None;
            let job = job.map(|buf| packet = Some(buf));
            if let Some(packet) = packet {
                conclude(protection, ctx, packet, &Job { ticket: slot.into(), ..job });
            }
            if let Some(before) = served.replace(slot).filter(|&before| before != slot) {
                protection.returned(before);
            }
        }
        if let Some(last) = served {
            protection.returned(last);
        }
    }
}

/// Sends a packet to where its finished job says.
fn conclude<P: Protection>(
    protection: &mut P,
    ctx: &mut Ctx<'_>,
    mut packet: Packet,
    job: &Job<()>,
) {
    match protection.finish(ctx, &mut packet, job) {
        Ok(next) => ctx.out.send(next, packet),
        Err(aside) => ctx.set_aside(packet, aside),
    }
}

/// Writes the jobs of packets that have one port, from packet `done` on, which counts on: up
/// to a packet of another port, or to one that has no job, and where that goes.
#[inline(always)]
pub(crate) fn prepare_of_port(
    batch: &mut Batch,
    jobs: &mut [Job<()>; BATCH],
    done: &mut usize,
    port: PortId,
    mut prepare: impl FnMut(&mut Packet, &mut Job<()>) -> Result<(), Aside>,
) -> Option<Aside> {
    while *done < batch.len() {
        batch.get(*done + AHEAD).into_iter().for_each(Packet::prefetch);
        let Some((packet, job)) = batch.get_mut(*done).zip(jobs.get_mut(*done)) else { break };
        if packet.meta().port != port {
            break;
        }
        if let Err(aside) = prepare(packet, job) {
            return Some(aside);
        }
        *done += 1;
    }
    None
}

/// Prepares the packets of a batch one by one.
#[inline(always)]
pub(crate) fn prepare_each(
    ctx: &mut Ctx<'_>,
    batch: &mut Batch,
    jobs: &mut [Job<()>; BATCH],
    mut prepare: impl FnMut(&mut Ctx<'_>, &mut Packet, &mut Job<()>) -> Result<(), Aside>,
) {
    let mut count = 0;
    while count < batch.len() {
        batch.get(count + AHEAD).into_iter().for_each(Packet::prefetch);
        let Some((packet, job)) = batch.get_mut(count).zip(jobs.get_mut(count)) else { break };
        match prepare(ctx, packet, job) {
            Ok(()) => count += 1,
            Err(aside) => take_out(ctx, batch, count, aside),
        }
    }
}

/// Takes a packet out of its batch.
#[cold]
pub(crate) fn take_out(ctx: &mut Ctx<'_>, batch: &mut Batch, at: usize, aside: Aside) {
    let packet = batch.remove(at);
    ctx.set_aside(packet, aside);
}

/// Counts the work of some jobs.
#[inline(always)]
fn count(ctx: &mut Ctx<'_>, jobs: &[Job<()>]) {
    let octets = jobs.iter().map(|job| octets(job) as u64).sum();
    let flow = Flow { packets: jobs.len() as u64, octets };
    match jobs.first().map(|job| job.op) {
        Some(Op::Seal) => ctx.tally.work.sealed.merge(flow),
        Some(Op::Open) => ctx.tally.work.opened.merge(flow),
        None => {}
    }
}

/// Octets that a job is about.
#[inline(always)]
fn octets(job: &Job<()>) -> usize {
    let beside = match job.ad {
        Ad::Inline(_) => esp::Header::LEN,
        Ad::Span(span) | Ad::SpanThen(span, _) | Ad::Widened(span, _) => span.len.into(),
    };
    usize::from(job.text.len) + beside
}
