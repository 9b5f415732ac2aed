//! Engines: who works through the jobs, and when they come back.

use crate::backend::{Backend, Key};
use crate::job::{Job, Verdict};
use crate::key::{InstallError, KeyId, KeySpec};
use arrayvec::ArrayVec;
use ferrule_base::Instant;

/// Jobs in one call at most: a batch of packets.
pub const BATCH: usize = 64;

/// Up to a batch of jobs.
pub type Jobs<B> = ArrayVec<Job<B>, BATCH>;

/// Keys that one engine holds at most.
pub const KEYS_MAX: usize = 1 << 20;

/// Seals and opens packets, now or later.
pub trait Engine<B: AsMut<[u8]>> {
    /// Installs a key for as long as it takes to [`retire`](Self::retire) it.
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError>;

    /// Gives the key up. It is wiped once its last job is back.
    fn retire(&mut self, key: KeyId);

    /// Takes jobs. Afterwards each job still in `jobs` is either finished (it
    /// has a verdict) or was not accepted because the queue is full (it is
    /// [`Verdict::Pending`]); the others are under way, for
    /// [`collect`](Self::collect). A job that carries a verdict already is left alone.
    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>);

    /// Appends finished jobs, in any order, as far as there is room.
    fn collect(&mut self, now: Instant, done: &mut Jobs<B>);

    /// When to call [`collect`](Self::collect) next; nothing when nothing is under way.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Jobs under way.
    fn in_flight(&self) -> usize;

    /// Every job is finished when [`submit`](Self::submit) returns, so their
    /// order needs no keeping.
    fn is_immediate(&self) -> bool {
        false
    }
}

/// The engine in the worker's own loop: completes every job in
/// [`submit`](Engine::submit), in place, and has no queue.
pub struct Software {
    backend: Backend,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    key: Option<Key>,
}

impl Software {
    /// An engine on this backend.
    pub fn new(backend: Backend) -> Self {
        Self { backend, slots: Vec::new(), free: Vec::new() }
    }

    /// The backend's name.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Keys installed.
    pub fn keys(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    fn key(&self, id: KeyId) -> Option<&Key> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.key.as_ref() } else { None }
    }

    /// Works through a slice of jobs.
    #[inline]
    pub fn run<B: AsMut<[u8]>>(&self, jobs: &mut [Job<B>]) {
        for job in jobs.iter_mut().filter(|j| j.verdict == Verdict::Pending) {
            job.verdict = match self.key(job.key) {
                Some(key) => key.run(job.op, &job.nonce, job.ad, job.text, job.buf.as_mut()),
                None => Verdict::Failed,
            };
        }
    }
}

impl Default for Software {
    fn default() -> Self {
        Self::new(Backend::best())
    }
}

impl<B: AsMut<[u8]>> Engine<B> for Software {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        spec.check()?;
        let key = self.backend.key(spec)?;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < KEYS_MAX => {
                self.slots.push(Slot { generation: 0, key: None });
                (self.slots.len() - 1) as u32
            }
            None => return Err(InstallError::Full),
        };
        let place = &mut self.slots[slot as usize];
        place.key = Some(key);
        Ok(KeyId { slot, generation: place.generation })
    }

    fn retire(&mut self, id: KeyId) {
        if let Some(place) = self.slots.get_mut(id.slot as usize)
            && place.generation == id.generation
            && place.key.take().is_some()
        {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    #[inline]
    fn submit(&mut self, _now: Instant, jobs: &mut Jobs<B>) {
        self.run(jobs);
    }

    fn collect(&mut self, _now: Instant, _done: &mut Jobs<B>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn in_flight(&self) -> usize {
        0
    }

    #[inline]
    fn is_immediate(&self) -> bool {
        true
    }
}
