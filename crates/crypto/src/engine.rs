//! Engines: execution of jobs, at once or later.

use crate::backend::{Backend, SelectError};
use crate::job::Job;
use crate::key::{InstallError, KeyId, KeySpec};
use crate::table::KeyTable;
use arrayvec::ArrayVec;
use ferrule_base::{Duration, Instant, Work};

/// Jobs in one call at most: a batch of packets.
pub const BATCH: usize = 128;

/// Up to a batch of jobs.
pub type Jobs<B> = ArrayVec<Job<B>, BATCH>;

/// Seals and opens packets, now or later.
pub trait Engine<B: AsMut<[u8]>> {
    /// Installs a key for as long as it takes to [`retire`](Self::retire) it.
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError>;

    /// Gives the key up. It is wiped once its last job is back.
    fn retire(&mut self, key: KeyId);

    /// Takes jobs. Afterwards each job still in `jobs` is either finished (it
    /// has a verdict) or was not accepted because the queue is full (it is
    /// [`Pending`](crate::Verdict::Pending)); the others are under way, for
    /// [`collect`](Self::collect). A job that carries a verdict already is left alone.
    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>);

    /// Appends finished jobs, in any order, as far as there is room.
    fn collect(&mut self, now: Instant, done: &mut Jobs<B>);

    /// Time of the next call of [`collect`](Self::collect); nothing when no job is under
    /// way.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Works through jobs whose packets lie beside them: job `i` on buffer `i`, as many as
    /// there are of both. A job that carries a verdict already is left alone; every other
    /// one has one afterwards. Only for an engine that is
    /// [immediate](Self::is_immediate), which no other can be asked for.
    fn run_beside(&mut self, now: Instant, buffers: &mut [B], jobs: &mut [Job<()>]) {
        let _ = now;
        debug_assert!(
            !jobs.iter().zip(buffers).any(|(job, _)| job.is_pending()),
            "an engine that takes its time owns its jobs",
        );
    }

    /// Asks the processor for the part of a key that a text of so many octets will need, so
    /// that it is at hand when the job is run. A hint, which does nothing for a key that is
    /// not.
    #[inline]
    fn prefetch(&self, key: KeyId, text: usize) {
        let _ = (key, text);
    }

    /// Jobs under way.
    fn in_flight(&self) -> usize;

    /// Every job is finished when [`submit`](Self::submit) returns, so their
    /// order needs no keeping.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Work done elsewhere, and octets copied to get there and back, since the last call.
    /// To be called at the end of the turn in which jobs were submitted.
    fn take_work(&mut self) -> Work {
        Work::default()
    }

    /// State and counters of each engine.
    fn report(&self) -> Vec<EngineReport> {
        Vec::new()
    }
}

/// An engine, for `show engines` and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// The word of its placement.
    pub place: &'static str,
    /// Backend or token profile that it uses.
    pub with: String,
    /// State in a word: `works`, or the fault.
    pub state: &'static str,
    /// Keys that it has.
    pub keys: usize,
    /// Jobs that it takes at most.
    pub depth: usize,
    /// Jobs under way.
    pub in_flight: usize,
    /// Counters by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Latencies by name.
    pub latencies: Vec<(&'static str, Latency)>,
    /// Key stream made ahead.
    pub rings: Vec<RingReport>,
}

/// Distribution of a measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of measurements.
    pub count: u64,
    /// Half of the measurements are not longer.
    pub median: Duration,
    /// 99 of 100 measurements are not longer.
    pub p99: Duration,
    /// The longest measurement.
    pub most: Duration,
}

/// Key stream made ahead for one SA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingReport {
    /// The key's label.
    pub key: String,
    /// `seal` or `open`.
    pub op: &'static str,
    /// `standard`, or `study`.
    pub mode: &'static str,
    /// `fills`, `rests`, `asleep` or `broken`.
    pub state: &'static str,
    /// Blocks that it can hold.
    pub size: u64,
    /// Blocks in it.
    pub filled: u64,
    /// Level below which filling begins.
    pub start: u64,
    /// Level at which filling stops.
    pub stop: u64,
    /// Made ahead: packets in the standard mode, blocks in the study's.
    pub ahead: u64,
    /// Blocks of text that are made of every packet, and of a near one; in the
    /// study's mode none.
    pub depth: (u16, u16),
}

/// The engine in the worker's own loop: completes every job in
/// [`submit`](Engine::submit), in place, and has no queue.
#[derive(Debug)]
pub struct Software {
    backend: Backend,
    keys: KeyTable,
}

impl Software {
    /// An engine on this backend.
    pub fn new(backend: Backend) -> Self {
        Self { backend, keys: KeyTable::default() }
    }

    /// An engine on the backend that the environment forces, or the best. An
    /// environment that names no backend is an error.
    pub fn from_env() -> Result<Self, SelectError> {
        Backend::from_env().map(Self::new)
    }

    /// The backend's name.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Keys installed.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Works through a slice of jobs.
    #[inline]
    pub fn run<B: AsMut<[u8]>>(&self, jobs: &mut [Job<B>]) {
        self.backend.run(&self.keys, jobs);
    }

    /// The same for jobs whose buffers lie beside them: job `i` works on buffer `i`.
    #[inline]
    pub fn run_beside<B: AsMut<[u8]>>(&self, buffers: &mut [B], jobs: &mut [Job<()>]) {
        self.backend.run_beside(&self.keys, buffers, jobs);
    }

    /// Asks the processor for the part of a key that a text of so many octets will need.
    #[inline]
    pub fn prefetch(&self, key: KeyId, text: usize) {
        if let Some(key) = self.keys.get(key) {
            key.prefetch(text);
        }
    }
}

impl Default for Software {
    /// As [`from_env`](Self::from_env), but a wrong name in the environment is passed over.
    fn default() -> Self {
        Self::from_env().unwrap_or_else(|_| Self::new(Backend::best()))
    }
}

impl<B: AsMut<[u8]>> Engine<B> for Software {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        self.keys.insert(self.backend.key(spec)?)
    }

    fn retire(&mut self, id: KeyId) {
        self.keys.remove(id);
    }

    #[inline]
    fn submit(&mut self, _now: Instant, jobs: &mut Jobs<B>) {
        self.run(jobs);
    }

    #[inline]
    fn run_beside(&mut self, _now: Instant, buffers: &mut [B], jobs: &mut [Job<()>]) {
        Software::run_beside(self, buffers, jobs);
    }

    #[inline]
    fn prefetch(&self, key: KeyId, text: usize) {
        Software::prefetch(self, key, text);
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

/// An engine chosen at run time.
impl<B: AsMut<[u8]>, E: Engine<B> + ?Sized> Engine<B> for Box<E> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        (**self).install(spec)
    }

    fn retire(&mut self, key: KeyId) {
        (**self).retire(key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        (**self).submit(now, jobs);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        (**self).collect(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }

    fn run_beside(&mut self, now: Instant, buffers: &mut [B], jobs: &mut [Job<()>]) {
        (**self).run_beside(now, buffers, jobs);
    }

    fn prefetch(&self, key: KeyId, text: usize) {
        (**self).prefetch(key, text);
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn is_immediate(&self) -> bool {
        (**self).is_immediate()
    }

    fn take_work(&mut self) -> Work {
        (**self).take_work()
    }

    fn report(&self) -> Vec<EngineReport> {
        (**self).report()
    }
}
