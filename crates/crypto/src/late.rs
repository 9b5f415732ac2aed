//! An engine that completes late and out of order, by seed.

use crate::engine::{Engine, Jobs, Software};
use crate::job::{Job, Verdict};
use crate::key::{InstallError, KeyId, KeySpec};
use ferrule_base::{Duration, Instant, Rng};

/// Takes every job away and brings it back after a random delay of up to
/// `delay`, in the order of the delays. The work is done on the way back, so a
/// stage that looks at a packet too early sees it undone.
///
/// Every data-plane test also runs on this engine: an order, a retired key or
/// a replay check that only holds for synchronous crypto does not pass.
pub struct Late<B> {
    software: Software,
    rng: Rng,
    delay: Duration,
    depth: usize,
    flying: Vec<(Instant, Job<B>)>,
    retired: Vec<KeyId>,
}

impl<B> Late<B> {
    /// Up to `depth` jobs under way, each for up to `delay`.
    pub fn new(software: Software, seed: u64, delay: Duration, depth: usize) -> Self {
        let flying = Vec::with_capacity(depth);
        Self { software, rng: Rng::new(seed), delay, depth, flying, retired: Vec::new() }
    }

    fn in_use(&self, key: KeyId) -> bool {
        self.flying.iter().any(|(_, job)| job.key == key)
    }
}

impl<B: AsMut<[u8]>> Engine<B> for Late<B> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        Engine::<B>::install(&mut self.software, spec)
    }

    fn retire(&mut self, key: KeyId) {
        if self.in_use(key) {
            if !self.retired.contains(&key) {
                self.retired.push(key);
            }
        } else {
            Engine::<B>::retire(&mut self.software, key);
        }
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        let mut left = Jobs::new();
        for mut job in jobs.drain(..) {
            if job.verdict == Verdict::Pending && self.retired.contains(&job.key) {
                // Given up, though it is still here for the jobs before.
                job.verdict = Verdict::Failed;
            }
            if job.verdict != Verdict::Pending || self.flying.len() == self.depth {
                left.push(job);
                continue;
            }
            let nanos = self.rng.below(self.delay.as_nanos() as u64 + 1);
            self.flying.push((now + Duration::from_nanos(nanos), job));
        }
        *jobs = left;
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        self.flying.sort_by_key(|&(due, _)| due);
        let due = self.flying.iter().take_while(|(due, _)| *due <= now).count();
        let count = due.min(done.remaining_capacity());
        for (_, mut job) in self.flying.drain(..count) {
            self.software.run(std::slice::from_mut(&mut job));
            done.push(job);
        }
        for key in std::mem::take(&mut self.retired) {
            self.retire(key);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.flying.iter().map(|&(due, _)| due).min()
    }

    fn in_flight(&self) -> usize {
        self.flying.len()
    }
}
