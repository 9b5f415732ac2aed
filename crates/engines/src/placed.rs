//! Every engine of a worker, behind the interface of one.
//!
//! ```text
//!   KeyId.slot   │ tag, 4 bits │ slot of the engine that has the key, 28 bits │
//!                  0 software, 1 look-aside, 2 token
//! ```
//!
//! While every key is used in the worker's loop, a batch costs one branch more
//! than without this: jobs are done when `submit` returns and need no ticket.
//! As long as one key is used elsewhere all jobs take tickets, those of software
//! too, since the stages ask once for a batch whether order needs keeping.

use ferrule_base::{Instant, Work};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, EngineReport, Job, Jobs, KeyId, KeySpec, Place, Software, Verdict};
use std::collections::HashSet;

/// Bit of a slot number at which the tag of the placement begins.
const TAG: u32 = 28;

/// The name under which software counts its nanoseconds.
pub const ENGINE_TIME: &str = "busy-ns";

/// Engines beside software.
const AWAY: usize = 2;

/// An engine that does not work in the worker's loop.
pub type Away<B> = Box<dyn Engine<B> + Send>;

/// Engines of one worker, one for each placement.
pub struct Placed<B> {
    software: Software,
    /// Jobs that software did.
    done: u64,
    /// Clock in nanoseconds, where the time of software is to be measured.
    clock: Option<fn() -> u64>,
    /// Time that software took, in nanoseconds.
    busy: u64,
    /// Nothing is, or can be, under way elsewhere.
    immediate: bool,
    away: [Option<Away<B>>; AWAY],
    /// Keys that are used elsewhere.
    keys: HashSet<KeyId>,
}

/// The place of an engine in [`Placed::away`]; nothing for software.
const fn seat(place: &Place) -> Option<usize> {
    match place {
        Place::Software => None,
        Place::LookAside => Some(0),
        Place::Token(_) => Some(1),
    }
}

/// The engine that has a key, and the key as that engine knows it.
#[inline]
const fn untag(id: KeyId) -> (usize, KeyId) {
    (id.slot as usize >> TAG, KeyId { slot: id.slot & ((1 << TAG) - 1), ..id })
}

#[inline]
const fn tagged(tag: usize, id: KeyId) -> KeyId {
    KeyId { slot: id.slot | (tag as u32) << TAG, ..id }
}

impl<B> Placed<B> {
    /// Software alone.
    pub fn new(software: Software) -> Self {
        let away = [const { None }; AWAY];
        let (clock, keys) = (None, HashSet::new());
        Self { software, done: 0, clock, busy: 0, immediate: true, away, keys }
    }

    /// Adds an engine for the keys of [`Place::LookAside`].
    #[must_use]
    pub fn with_look_aside(mut self, engine: Away<B>) -> Self {
        self.away[0] = Some(engine);
        self
    }

    /// Adds an engine for the keys of [`Place::Token`].
    #[must_use]
    pub fn with_token(mut self, engine: Away<B>) -> Self {
        self.away[1] = Some(engine);
        self
    }

    /// Counts how long software takes, by this clock of nanoseconds.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The engine in the worker's loop.
    pub const fn software(&self) -> &Software {
        &self.software
    }
}

impl<B: AsMut<[u8]>> Placed<B> {
    fn engines(&self) -> impl Iterator<Item = &Away<B>> {
        self.away.iter().flatten()
    }

    /// Runs jobs in the worker's loop.
    #[inline]
    fn run(&mut self, jobs: &mut Jobs<B>) {
        self.done += jobs.len() as u64;
        match self.clock {
            None => self.software.run(jobs),
            Some(clock) => self.work_timed(clock, |software| software.run(jobs)),
        }
    }

    /// The same for jobs whose packets lie beside them.
    #[inline]
    fn work_beside(&mut self, buffers: &mut [B], jobs: &mut [Job<()>]) {
        self.done += jobs.len().min(buffers.len()) as u64;
        match self.clock {
            None => self.software.run_beside(buffers, jobs),
            Some(clock) => self.work_timed(clock, |software| software.run_beside(buffers, jobs)),
        }
    }

    #[cold]
    fn work_timed(&mut self, clock: fn() -> u64, work: impl FnOnce(&Software)) {
        let begun = clock();
        work(&self.software);
        self.busy += clock().saturating_sub(begun);
    }

    /// Sets `immediate`: order needs no keeping if nothing can be under way. It does until
    /// the last job is back, even if no key is left.
    fn look(&mut self) {
        self.immediate = self.keys.is_empty() && self.engines().all(|e| e.in_flight() == 0);
    }

    /// Jobs of engines elsewhere, or of several.
    #[inline(never)]
    fn submit_apart(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        let Some(first) = jobs.first().map(|job| untag(job.key).0) else { return };
        if jobs.iter().all(|job| untag(job.key).0 == first) {
            return self.submit_to(now, first, jobs);
        }
        let mut parts: [Jobs<B>; AWAY + 1] = Default::default();
        let mut unknown = Jobs::new();
        for job in jobs.drain(..) {
            match parts.get_mut(untag(job.key).0) {
                Some(part) => part.push(job),
                None => unknown.push(job),
            }
        }
        for (tag, mut part) in parts.into_iter().enumerate() {
            self.submit_to(now, tag, &mut part);
            jobs.extend(part);
        }
        jobs.extend(unknown.into_iter().map(failed));
    }

    /// Jobs of one engine.
    fn submit_to(&mut self, now: Instant, tag: usize, jobs: &mut Jobs<B>) {
        let Some(seat) = tag.checked_sub(1) else { return self.run(jobs) };
        let Some(engine) = self.away.get_mut(seat).and_then(Option::as_mut) else {
            for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
                job.verdict = Verdict::Failed;
            }
            return;
        };
        jobs.iter_mut().for_each(|job| job.key = untag(job.key).1);
        engine.submit(now, jobs);
        jobs.iter_mut().for_each(|job| job.key = tagged(tag, job.key));
    }
}

/// A job whose key does not exist.
fn failed<B>(mut job: Job<B>) -> Job<B> {
    if job.verdict == Verdict::Pending {
        job.verdict = Verdict::Failed;
    }
    job
}

impl<B: AsMut<[u8]>> Engine<B> for Placed<B> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        let Some(seat) = seat(&spec.place) else {
            return Engine::<B>::install(&mut self.software, spec);
        };
        let engine = self.away.get_mut(seat).and_then(Option::as_mut);
        let engine = engine.ok_or(InstallError::NoEngine(spec.place.name()))?;
        let id = engine.install(spec)?;
        if id.slot >> TAG != 0 {
            engine.retire(id);
            return Err(InstallError::Full);
        }
        let id = tagged(seat + 1, id);
        self.keys.insert(id);
        self.immediate = false;
        Ok(id)
    }

    fn retire(&mut self, id: KeyId) {
        let (tag, own) = untag(id);
        let Some(seat) = tag.checked_sub(1) else {
            return Engine::<B>::retire(&mut self.software, id);
        };
        if let Some(engine) = self.away.get_mut(seat).and_then(Option::as_mut)
            && self.keys.remove(&id)
        {
            engine.retire(own);
            self.look();
        }
    }

    #[inline]
    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        if self.immediate {
            self.run(jobs);
        } else {
            self.submit_apart(now, jobs);
        }
    }

    #[inline]
    fn run_beside(&mut self, _now: Instant, buffers: &mut [B], jobs: &mut [Job<()>]) {
        debug_assert!(self.immediate, "keys that are used elsewhere take owned jobs");
        if self.immediate {
            self.work_beside(buffers, jobs);
        }
    }

    #[inline]
    fn prefetch(&self, key: KeyId, text: usize) {
        // A key that is used elsewhere has a tag, so that software finds none.
        self.software.prefetch(key, text);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        if self.immediate {
            return;
        }
        for (seat, engine) in self.away.iter_mut().enumerate() {
            let Some(engine) = engine else { continue };
            let had = done.len();
            engine.collect(now, done);
            done.iter_mut().skip(had).for_each(|job| job.key = tagged(seat + 1, job.key));
        }
        self.look();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.engines().filter_map(|engine| engine.poll_timeout()).min()
    }

    fn in_flight(&self) -> usize {
        self.engines().map(|engine| engine.in_flight()).sum()
    }

    #[inline]
    fn is_immediate(&self) -> bool {
        self.immediate
    }

    fn take_work(&mut self) -> Work {
        let mut work = Work::default();
        for engine in self.away.iter_mut().flatten() {
            work.merge(&engine.take_work());
        }
        work
    }

    fn report(&self) -> Vec<EngineReport> {
        let mut counters = vec![("jobs", self.done)];
        counters.extend(self.clock.map(|_| (ENGINE_TIME, self.busy)));
        let software = EngineReport {
            place: Place::Software.name(),
            with: self.software.backend().name().into(),
            state: "works",
            keys: self.software.keys(),
            counters,
            ..EngineReport::default()
        };
        let away = self.engines().flat_map(|engine| engine.report());
        std::iter::once(software).chain(away).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::{Duration, Secret};
    use ferrule_crypto::{Ad, Aes, Late, Op, Span, Suite};

    const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

    fn spec(place: Place) -> KeySpec {
        KeySpec::new(SUITE, Secret::new(vec![7; 16]), Secret::new(Vec::new())).at(place)
    }

    fn job(key: KeyId, ticket: u64) -> Job<Vec<u8>> {
        let buf = vec![ticket as u8; 48];
        let nonce = [ticket as u8; 12];
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        let (ad, text) = (Ad::Span(Span::new(0, 8)), Span::new(8, 24));
        Job { buf, key, ticket, number: 0, nonce, op, verdict, ad, text }
    }

    fn late() -> Away<Vec<u8>> {
        let software = Software::default();
        Box::new(Late::new(software, 1, Duration::from_millis(1), 64))
    }

    #[test]
    fn a_placement_without_its_engine_is_refused_by_name() {
        let mut engine = Placed::<Vec<u8>>::new(Software::default());
        let refused = engine.install(&spec(Place::LookAside));
        assert_eq!(refused, Err(InstallError::NoEngine("look-aside")));
        assert!(engine.is_immediate());
        let mut jobs = Jobs::new();
        jobs.push(job(KeyId { slot: 1 << TAG, generation: 0 }, 1));
        jobs.push(job(KeyId { slot: 9 << TAG, generation: 0 }, 2));
        engine.submit(Instant::ZERO, &mut jobs);
        assert!(jobs.iter().all(|job| job.verdict == Verdict::Failed));
    }

    #[test]
    fn while_only_software_has_keys_jobs_are_done_at_once() {
        let mut engine = Placed::new(Software::default()).with_look_aside(late());
        let key = engine.install(&spec(Place::Software)).unwrap();
        assert!(engine.is_immediate());
        let mut jobs = Jobs::new();
        jobs.push(job(key, 1));
        engine.submit(Instant::ZERO, &mut jobs);
        assert_eq!((jobs[0].verdict, engine.in_flight()), (Verdict::Done, 0));
    }

    #[test]
    fn jobs_beside_their_packets_are_the_work_of_software() {
        let mut engine = Placed::new(Software::default()).with_look_aside(late());
        let key = engine.install(&spec(Place::Software)).unwrap();
        let (mut buffers, mut jobs, mut owned) = (Vec::new(), Vec::new(), Jobs::new());
        for ticket in 0..3 {
            owned.push(job(key, ticket));
            jobs.push(job(key, ticket).map(|buf| buffers.push(buf)));
        }
        engine.run_beside(Instant::ZERO, &mut buffers, &mut jobs);
        engine.submit(Instant::ZERO, &mut owned);
        for ((job, buffer), owned) in jobs.iter().zip(buffers).zip(owned) {
            assert_eq!((job.verdict, buffer), (Verdict::Done, owned.buf));
        }
        assert_eq!(Engine::report(&engine)[0].counters, [("jobs", 6)]);
    }

    #[test]
    fn a_mixed_batch_goes_to_each_engine_and_comes_back_with_its_keys() {
        let mut engine =
            Placed::new(Software::default()).with_look_aside(late()).with_token(late());
        let token = Place::Token(ferrule_crypto::TokenKey::new("k"));
        let places = [Place::Software, Place::LookAside, token];
        let keys = places.map(|place| engine.install(&spec(place)).unwrap());
        assert!(!engine.is_immediate());
        let mut jobs = Jobs::new();
        jobs.extend((0..30).map(|i| job(keys[i as usize % 3], i)));
        engine.submit(Instant::ZERO, &mut jobs);
        assert_eq!((jobs.len(), engine.in_flight()), (10, 20), "software is done");
        let mut seen: Vec<_> = jobs.drain(..).collect();
        engine.collect(Instant::from_secs(1), &mut jobs);
        seen.extend(jobs.drain(..));
        seen.sort_by_key(|job| job.ticket);
        assert_eq!(seen.len(), 30);
        let mut plain = Software::default();
        let key = Engine::<Vec<u8>>::install(&mut plain, &spec(Place::Software)).unwrap();
        for (i, found) in seen.iter().enumerate() {
            assert_eq!((found.key, found.verdict), (keys[i % 3], Verdict::Done));
            let mut expected = [job(key, i as u64)];
            plain.run(&mut expected);
            assert_eq!(found.buf, expected[0].buf, "the same octets wherever it was sealed");
        }
    }

    #[test]
    fn with_a_clock_software_says_how_long_its_jobs_took() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static CLOCK: AtomicU64 = AtomicU64::new(0);
        let plain = Placed::<Vec<u8>>::new(Software::default());
        let busy = |report: &[EngineReport]| {
            let counters = report.iter().flat_map(|engine| engine.counters.iter());
            counters.filter(|(name, _)| *name == ENGINE_TIME).map(|(_, time)| *time).next()
        };
        assert_eq!(busy(&Engine::report(&plain)), None);
        let mut engine = plain.with_clock(|| CLOCK.fetch_add(100, Ordering::Relaxed));
        let key = engine.install(&spec(Place::Software)).unwrap();
        for ticket in 0..3 {
            let mut jobs = Jobs::new();
            jobs.push(job(key, ticket));
            engine.submit(Instant::ZERO, &mut jobs);
        }
        assert_eq!(busy(&Engine::report(&engine)), Some(300), "each job took 100 ns");
    }

    #[test]
    fn order_needs_keeping_until_the_last_job_is_back() {
        let mut engine = Placed::new(Software::default()).with_look_aside(late());
        let key = engine.install(&spec(Place::LookAside)).unwrap();
        let mut jobs = Jobs::new();
        jobs.push(job(key, 1));
        engine.submit(Instant::ZERO, &mut jobs);
        engine.retire(key);
        assert!(jobs.is_empty() && !engine.is_immediate());
        engine.collect(Instant::from_secs(1), &mut jobs);
        assert_eq!(jobs[0].verdict, Verdict::Done, "it was submitted before the key was retired");
        assert!(engine.is_immediate());
    }
}
