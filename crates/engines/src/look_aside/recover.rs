//! Recovery of a device that failed: the jobs under way, and the restart.
//!
//! 1. Jobs that it completed before are taken as usual.
//! 2. It is given up; requests that it certainly does not touch any more come back.
//! 3. A job whose packet is here as it was (it never left, or was not begun) is
//!    done in software or failed, as configured. Nothing of the device's work on
//!    it was used or is used later: completions of an earlier life find nothing.
//! 4. A job whose packet the device had begun is failed.
//! 5. A job whose packet the device still has gets an empty packet and is failed.
//! 6. After a pause, which doubles as long as nothing comes of it, the device is
//!    started and told all keys.

use super::{Command, Device, LookAside, Memory, Otherwise, State};
use arrayvec::ArrayVec;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::{Job, Jobs, KeyId, Verdict};

/// Shortest time that a failed device stays down.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(10);

/// And at most.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl<B: AsMut<[u8]>, D: Device<B>> LookAside<B, D> {
    /// The device is dead or hangs.
    pub(super) fn give_up(&mut self, now: Instant) {
        self.counts.failures += 1;
        self.state = State::Down(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.owed.clear();
        // Never pushed, so as they were.
        let mut back: Vec<_> = self.waiting.drain(..).collect();
        self.device.abandon(now, &mut back);
        // Jobs that are done here, a batch at a time: many packets cost less together.
        let mut here = Jobs::new();
        for request in back {
            if matches!(request.verdict, Verdict::Done | Verdict::BadIcv) {
                self.counts.completed += 1;
                self.complete(request);
                continue;
            }
            // Of a copy nothing is needed: the packet is here.
            if let Memory::Shared(packet) = request.buf
                && let Some(kept) = self.flying.take(request.ticket)
            {
                let as_it_was = request.verdict == Verdict::Pending;
                self.without_device(kept.map(|_| packet), as_it_was, &mut here);
            }
        }
        while let Some(ticket) = self.flying.find(|kept| kept.buf.is_some()) {
            let Some(mut kept) = self.flying.take(ticket) else { break };
            if let Some(packet) = kept.buf.take() {
                self.without_device(kept.map(|_| packet), true, &mut here);
            }
        }
        self.redo(&mut here);
        self.replace_lost();
    }

    /// Jobs whose packets a hung device keeps, as far as there is something to
    /// stand in. They are its own until it lets go of them, or for good.
    pub(super) fn replace_lost(&mut self) {
        while let Some(ticket) = self.flying.find(|_| true) {
            let Some(spare) = (self.spares)() else { return };
            let Some(kept) = self.flying.take(ticket) else { return };
            self.counts.kept += 1;
            self.fail(kept.map(|_| spare));
        }
    }

    /// Ends a job that was under way: in the next batch that is done here, or as
    /// failed.
    fn without_device(&mut self, mut job: Job<B>, as_it_was: bool, here: &mut Jobs<B>) {
        if !as_it_was || self.options.on_failure == Otherwise::Drop {
            return self.fail(job);
        }
        job.verdict = Verdict::Pending;
        if here.is_full() {
            self.redo(here);
        }
        here.push(job);
    }

    fn fail(&mut self, mut job: Job<B>) {
        job.verdict = Verdict::Failed;
        self.counts.failed += 1;
        self.finish(job);
    }

    fn redo(&mut self, here: &mut Jobs<B>) {
        self.stand_in(here);
        here.drain(..).for_each(|job| self.finish(job));
    }

    /// A job for a device that is down. False: it is to be done here.
    pub(super) fn refuse(&mut self, job: &mut Job<B>) -> bool {
        if self.options.on_failure == Otherwise::Software {
            return false;
        }
        job.verdict = Verdict::Failed;
        self.counts.failed += 1;
        true
    }

    /// A job beyond the depth. False: it is to be done here.
    pub(super) fn overflow(&mut self) -> bool {
        self.counts.full += 1;
        self.options.on_full == Otherwise::Drop
    }

    /// Does jobs in software, all of them together, with their own nonces: the result is
    /// the same as the device's would have been.
    pub(super) fn stand_in(&mut self, jobs: &mut Jobs<B>) {
        if jobs.is_empty() {
            return;
        }
        // A key without twin is none that software knows: such a job fails.
        const NONE: KeyId = KeyId { slot: u32::MAX, generation: u32::MAX };
        let keys: ArrayVec<KeyId, BATCH> = jobs.iter().map(|job| job.key).collect();
        for job in jobs.iter_mut() {
            job.key = self.keys.twin(job.key).unwrap_or(NONE);
        }
        self.software.run(jobs);
        for (job, key) in jobs.iter_mut().zip(keys) {
            job.key = key;
        }
        self.counts.fallbacks += jobs.len() as u64;
        self.counts.fallback_batches += 1;
    }

    /// Starts the device again, and tells it all keys.
    pub(super) fn restart(&mut self, now: Instant) {
        if !self.device.start(now) {
            self.state = State::Down(now + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return;
        }
        self.counts.resets += 1;
        self.state = State::Works;
        let keys: Vec<_> = self.keys.iter().map(|(slot, held)| (slot, held.spec.clone())).collect();
        for (slot, spec) in keys {
            self.tell(Command::Install(slot, spec));
        }
        self.device.ring(now);
    }
}
