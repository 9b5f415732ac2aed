//! The engine of keys that never leave their token.
//!
//! ```text
//!   submit ──▶ key stream here? ──yes──▶ done at once
//!                  │ no
//!                  ▼
//!              [ waits ]──┐ exactly its blocks      ┌─▶ done ──▶ collect
//!                         ├──▶ exchange ─▶ token ───┤
//!   rings below half ─────┘ what comes next         └─▶ rings
//! ```
//!
//! One exchange is under way at a time, for one key. It has the blocks that packets wait
//! for first, then E(J0) of unexpected packets, then blocks made ahead; so a token that is
//! slow is never idle while a ring has room, and never works ahead while a packet waits.
//!
//! *Forged packets.* A packet that may be forged gets one block in the first place; such
//! packets get half of the places to wait, half of an exchange, and every other exchange
//! where anything else has a use for one. They neither wake an SA nor keep it awake.
//!
//! *Failure.* An exchange that the token refuses fails its packets, and that SA asks again
//! after a pause. No packet waits longer than two seconds; no octet of a failed one leaves.
//!
//! Bounds: [`WAITS_MAX`] packets wait, [`SAS_MAX`] SAs, an exchange as large as
//! the token's. A packet that finds no room stays pending, as with every engine.

use super::gcm::Probe;
use super::line::{Exchange, Line};
use super::sa::{Sa, aes_of};
use super::settings::Settings;
use super::wait::{Step, Wait};
use crate::latency::Histogram;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::key::{InstallError, KeyId, KeySpec, Place};
use ferrule_crypto::{Engine, EngineReport, Job, Jobs, Verdict};
use std::collections::VecDeque;
use std::ops::Range;

/// Packets that wait for key stream at most.
pub const WAITS_MAX: usize = 1024;

/// Packets among them that may be forged at most.
pub const UNPROVEN_MAX: usize = WAITS_MAX / 2;

/// SAs on one token at most.
pub const SAS_MAX: usize = 4096;

/// A packet that waits longer than this is failed, and an exchange that takes longer
/// does not come back.
const HANGS_AFTER: Duration = Duration::from_secs(2);

/// Time between two looks for silent SAs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Purpose of a part of an exchange.
pub(super) enum Part {
    HashKey,
    /// Blocks of a packet made ahead, from this index on.
    Run(u64, u16),
    /// The ring's next blocks.
    Ring(u128),
    /// Blocks of a waiting packet, from this index on.
    Exact(u64, u16),
    Probe(Probe),
}

/// Counters of a token engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenStats {
    /// Exchanges with the token.
    pub exchanges: u64,
    /// Blocks that they brought.
    pub blocks: u64,
    /// Packets that found their key stream made.
    pub ready: u64,
    /// Packets that waited for it.
    pub waited: u64,
    /// Packets for which blocks were asked for exactly.
    pub asked: u64,
    /// Packets that were dropped because their key stream was gone, or never made.
    pub gone: u64,
    /// Unexpected packets that turned out to be authentic.
    pub followed: u64,
    /// Exchanges that failed.
    pub failed: u64,
}

pub(super) struct Slot {
    pub generation: u32,
    pub sa: Option<Sa>,
}

/// Seals and opens with keys on a token. The same whether time is real or
/// virtual: the [`Line`] makes the difference.
pub struct TokenEngine<B: AsMut<[u8]>> {
    pub(super) line: Box<dyn Line>,
    pub(super) settings: Settings,
    /// Blocks of an exchange at most.
    pub(super) most: usize,
    pub(super) sas: Vec<Slot>,
    pub(super) free: Vec<u32>,
    pub(super) waits: VecDeque<Option<Wait<B>>>,
    /// The number of the first wait.
    pub(super) first: u64,
    /// Packets that wait.
    pub(super) waiting: usize,
    /// Waiting packets that may be forged.
    pub(super) unproven: usize,
    /// The last exchange was for such a packet.
    pub(super) was_unproven: bool,
    /// Earliest time of an exchange for unexpected packets alone.
    pub(super) wonder_at: Instant,
    /// Time of the next look for something to ask.
    pub(super) again: Option<Instant>,
    /// Finished, and not before when.
    pub(super) done: VecDeque<(Instant, Job<B>)>,
    /// The exchange, while none is under way.
    pub(super) idle: Option<Box<Exchange>>,
    pub(super) parts: Vec<(Part, Range<usize>)>,
    pub(super) flying: Option<u32>,
    pub(super) turn: usize,
    /// Something has changed since there was nothing to ask for.
    pub(super) stirred: bool,
    /// Time of the next search for silent SAs.
    pub(super) look: Instant,
    pub(super) paced: Instant,
    pub(super) now: Instant,
    pub(super) stats: TokenStats,
    /// The last exchange failed.
    pub(super) failing: bool,
    /// Start of the exchange that is under way.
    pub(super) begun: Instant,
    pub(super) waits_took: Histogram,
    pub(super) exchanges_took: Histogram,
}

impl<B: AsMut<[u8]>> TokenEngine<B> {
    /// An engine on this line, whose exchanges bring `exchange` blocks. Fails where memory
    /// cannot be locked.
    pub fn new(line: Box<dyn Line>, exchange: usize, settings: Settings) -> std::io::Result<Self> {
        Ok(Self {
            line,
            most: exchange,
            sas: Vec::new(),
            free: Vec::new(),
            waits: VecDeque::with_capacity(WAITS_MAX),
            first: 0,
            waiting: 0,
            unproven: 0,
            was_unproven: false,
            wonder_at: Instant::ZERO,
            again: None,
            done: VecDeque::with_capacity(WAITS_MAX),
            idle: Some(Box::new(Exchange::new(exchange, settings.locked)?)),
            parts: Vec::with_capacity(exchange),
            flying: None,
            turn: 0,
            stirred: false,
            look: Instant::ZERO,
            paced: Instant::ZERO,
            now: Instant::ZERO,
            settings,
            stats: TokenStats::default(),
            failing: false,
            begun: Instant::ZERO,
            waits_took: Histogram::default(),
            exchanges_took: Histogram::default(),
        })
    }

    /// Counters.
    pub const fn stats(&self) -> TokenStats {
        self.stats
    }

    /// Key stream made ahead for an SA: packets in the standard mode, blocks in
    /// the study's.
    pub fn ahead(&self, key: KeyId) -> Option<u64> {
        self.sas.get(key.slot as usize)?.sa.as_ref().map(Sa::ahead)
    }

    /// Works on: takes the token's results, and gives it the next exchange. `submit` and
    /// `collect` do so as well.
    pub fn pump(&mut self, now: Instant) {
        self.now = now;
        while let Some(exchange) = self.line.end(now) {
            self.arrived(exchange);
        }
        self.sleepers();
        if self.expires().is_some_and(|at| at <= now) {
            self.fail_waits();
        }
        if self.again.take_if(|at| *at <= now).is_some() {
            self.stirred = true;
        }
        if self.stirred && self.idle.is_some() {
            self.stirred = false;
            self.ask();
        }
    }

    /// Takes a job, or gives it back: finished, or because there is no room.
    fn admit(&mut self, mut job: Job<B>) -> Option<Job<B>> {
        let id = job.key;
        let slot = self.sas.get_mut(id.slot as usize).filter(|s| s.generation == id.generation);
        let Some(sa) = slot.and_then(|s| s.sa.as_mut()).filter(|sa| !sa.retired) else {
            job.verdict = Verdict::Failed;
            return Some(job);
        };
        if self.waits.len() >= WAITS_MAX || self.done.len() >= WAITS_MAX {
            return Some(job);
        }
        self.stirred = true;
        let octets = usize::from(job.text.len);
        let mut wait = Wait::new(job, id.slot, sa.iv(), self.now);
        let step = sa.admit(&mut wait);
        if wait.proven {
            sa.wake(self.now);
        }
        match step {
            Step::Coming | Step::Ask if sa.rests(self.now) => {
                wait.give_up();
                return Some(wait.into_job(Verdict::Failed));
            }
            Step::Coming | Step::Ask if !wait.proven && self.unproven >= UNPROVEN_MAX => {
                return Some(wait.into_job(Verdict::Pending));
            }
            Step::Done(verdict) => {
                self.stats.ready += u64::from(verdict == Verdict::Done);
                self.stats.gone += u64::from(verdict == Verdict::Gone);
                let job = wait.into_job(verdict);
                return self.pace(job, octets);
            }
            Step::Coming | Step::Ask => {
                sa.waiting += 1;
                self.stats.waited += 1;
                self.waiting += 1;
                wait.counted = !wait.proven;
                self.unproven += usize::from(wait.counted);
                self.waits.push_back(Some(wait));
            }
        }
        None
    }

    /// A finished job: now, or once its delay is over.
    fn pace(&mut self, job: Job<B>, octets: usize) -> Option<Job<B>> {
        let Some(delay) = self.settings.delay(octets).filter(|_| job.verdict == Verdict::Done)
        else {
            return Some(job);
        };
        self.paced = self.paced.max(self.now) + delay;
        self.done.push_back((self.paced, job));
        None
    }

    /// A waiting packet has all it needs, or will never have.
    pub(super) fn finish(&mut self, mut wait: Wait<B>, verdict: Verdict) {
        if verdict != Verdict::Done {
            wait.give_up();
        }
        self.stats.gone += u64::from(verdict == Verdict::Gone);
        self.waiting -= 1;
        self.unproven -= usize::from(wait.counted);
        self.waits_took.record(self.now.since(wait.since));
        let slot = wait.sa;
        let octets = usize::from(wait.job.text.len);
        let job = wait.into_job(verdict);
        if let Some(job) = self.pace(job, octets) {
            self.done.push_back((self.now, job));
        }
        if let Some(sa) = self.sa_mut(slot) {
            sa.waiting -= 1;
        }
        self.bury(slot);
    }

    /// A retired SA goes with its last packet; an exchange of it may be under way.
    pub(super) fn bury(&mut self, slot: u32) {
        if self.flying == Some(slot) {
            return;
        }
        let Some(place) = self.sas.get_mut(slot as usize) else { return };
        if place.sa.take_if(|sa| sa.retired && sa.waiting == 0).is_some() {
            place.generation = place.generation.wrapping_add(1);
            self.line.close(slot);
            self.free.push(slot);
        }
    }

    /// The token does not answer any more.
    fn hangs(&self) -> bool {
        self.flying.is_some() && self.now.since(self.begun) >= HANGS_AFTER
    }

    /// Time at which the oldest packet will have waited too long.
    fn expires(&self) -> Option<Instant> {
        let oldest = self.waits.iter().flatten().next()?;
        Some(oldest.since + HANGS_AFTER)
    }

    /// Looks again at that time, or before.
    pub(super) fn look_at(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }

    /// Fails packets that have waited too long.
    fn fail_waits(&mut self) {
        for index in 0..self.waits.len() {
            let Some(place) = self.waits.get_mut(index) else { break };
            let (now, old) = (self.now, HANGS_AFTER);
            if let Some(wait) = place.take_if(|wait| now.since(wait.since) >= old) {
                self.finish(wait, Verdict::Failed);
            }
        }
        self.drop_finished();
    }

    /// Places of packets that are done, at the front of those that wait.
    pub(super) fn drop_finished(&mut self) {
        while let Some(None) = self.waits.front() {
            self.waits.pop_front();
            self.first += 1;
        }
    }

    pub(super) fn sa_mut(&mut self, slot: u32) -> Option<&mut Sa> {
        self.sas.get_mut(slot as usize)?.sa.as_mut()
    }

    /// SAs that are silent for too long have their key stream wiped.
    fn sleepers(&mut self) {
        let Some(keep) = self.settings.keep.filter(|_| self.now >= self.look) else { return };
        self.look = self.now + LOOK_EVERY;
        let (now, flying) = (self.now, self.flying);
        for (slot, place) in self.sas.iter_mut().enumerate() {
            if let Some(sa) = &mut place.sa
                && !sa.asleep
                && sa.waiting == 0
                && flying != Some(slot as u32)
                && now.since(sa.seen) >= keep
            {
                sa.sleep();
            }
        }
    }
}

/// Packets that wait are dropped with it: nothing half done stays in their buffers.
impl<B: AsMut<[u8]>> Drop for TokenEngine<B> {
    fn drop(&mut self) {
        self.waits.iter_mut().flatten().for_each(Wait::give_up);
    }
}

impl<B: AsMut<[u8]>> Engine<B> for TokenEngine<B> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        let Place::Token(key) = &spec.place else { return Err(InstallError::NoEngine("token")) };
        let aes = aes_of(spec.suite).ok_or(InstallError::Unsupported(spec.suite))?;
        let mut sa = Sa::new(spec, key, &self.settings, self.most)?;
        sa.seen = self.now;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.sas.len() < SAS_MAX => {
                self.sas.push(Slot { generation: 0, sa: None });
                self.sas.len() as u32 - 1
            }
            None => return Err(InstallError::Full),
        };
        self.line.open(slot, &key.label, aes);
        let place = &mut self.sas[slot as usize];
        place.sa = Some(sa);
        self.stirred = true;
        Ok(KeyId { slot, generation: place.generation })
    }

    fn retire(&mut self, key: KeyId) {
        let slot = self.sas.get_mut(key.slot as usize).filter(|s| s.generation == key.generation);
        if let Some(sa) = slot.and_then(|s| s.sa.as_mut()) {
            sa.retired = true;
            self.bury(key.slot);
        }
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        self.now = now;
        let mut back = Jobs::new();
        for job in jobs.drain(..) {
            if job.verdict == Verdict::Pending {
                back.extend(self.admit(job));
            } else {
                back.push(job);
            }
        }
        *jobs = back;
        self.pump(now);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        self.pump(now);
        let mut at = 0;
        while !done.is_full() && at < self.done.len() {
            // Short packets pass long ones that are delayed.
            if self.done[at].0 > now {
                at += 1;
            } else if let Some((_, job)) = self.done.remove(at) {
                done.push(job);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let paced = self.done.iter().map(|(due, _)| *due).min();
        let due = [paced, self.line.poll_timeout(), self.expires(), self.again];
        due.into_iter().flatten().min()
    }

    fn in_flight(&self) -> usize {
        self.waiting + self.done.len()
    }

    fn report(&self) -> Vec<EngineReport> {
        let s = &self.stats;
        let rings: Vec<_> = self.sas.iter().filter_map(|place| place.sa.as_ref()).collect();
        vec![EngineReport {
            place: "token",
            with: self.settings.name.clone(),
            state: match (self.hangs(), self.failing) {
                (true, _) => "hangs",
                (_, true) => "failing",
                _ => "works",
            },
            keys: rings.len(),
            depth: WAITS_MAX,
            in_flight: self.in_flight(),
            counters: vec![
                ("exchanges", s.exchanges),
                ("blocks", s.blocks),
                ("hits", s.ready),
                ("waits", s.waited),
                ("refetches", s.asked),
                ("gone", s.gone),
                ("followed", s.followed),
                ("failed", s.failed),
            ],
            latencies: vec![
                ("wait", self.waits_took.report()),
                ("exchange", self.exchanges_took.report()),
            ],
            rings: rings.into_iter().map(|sa| sa.report(self.now)).collect(),
        }]
    }
}
