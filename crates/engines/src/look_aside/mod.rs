//! Look-aside: jobs go through a queue pair to an engine elsewhere, and back.
//!
//! ```text
//!   submit ─▶ [ batch fills ] ─▶ [copy] ─▶ requests ─▶ ┌────────┐
//!                 │ wait is over                       │ device │
//!   collect ◀─ finished ◀─ [copy] ◀─────── completions └────────┘
//!                 ▲                    late, dead or hung: given up
//!                 └── software, or a reason to drop ◀──┘
//! ```
//!
//! - *Batches*: requests wait until there are `batch`, or the first has waited
//!   for `wait`. Then the doorbell rings once.
//! - *Back-pressure*: at most `depth` jobs are under way. A job beyond that is
//!   left pending, which the stage drops in its turn, or done here at once.
//! - *Copies*: with none, the packet itself goes to the device. Over a bus it is
//!   copied to memory of the device and back, twice each way through memory of
//!   the host; the packet stays here meanwhile.
//! - *Failure*: a device that is gone, or has not brought a job back by its
//!   deadline, is given up. Jobs whose packet is here as it was are sealed or
//!   opened in software (the same nonce over the same octets: the same packet,
//!   and nothing of what the device made is used), or failed, as configured.
//!   A packet that the device shared and had begun is failed; if it hangs, the
//!   packet's memory stays with it and an empty one stands in. So order goes on,
//!   and nothing leaves that was not sealed whole. After a pause the device is
//!   started again, and told its keys.

mod device;
mod flying;
mod frail;
mod keys;
pub mod model;
mod owed;
mod recover;
mod service;
mod wait;

pub use device::{Cipher, Command, Device, Memory, Own, Request, Requests};
pub use frail::{Failing, Frail, Spell};
pub use model::{Model, Speed};
pub use service::{HUNG_MAX, MakeCipher, Pin, Service};

use crate::look_aside::flying::Flying;
use crate::look_aside::keys::Keys;
use crate::look_aside::owed::Owed;
use ferrule_base::{Duration, Instant, Work};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Ad, Engine, EngineReport, Job, Jobs, KeyId, KeySpec, Op, Software, Verdict};
use std::collections::VecDeque;

/// Handling of a job that the device cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The job is done in the worker's own loop.
    Software,
    /// The job fails, or is left pending: its packet is dropped with a reason.
    Drop,
}

/// Parameters of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Jobs under way at most.
    pub depth: usize,
    /// Requests that go together.
    pub batch: usize,
    /// Time that the first request of a batch waits for others.
    pub wait: Duration,
    /// Copies of each packet on its way there and back: 0, 2 or 4.
    pub copies: usize,
    /// A job that is not back by then shows that the device hangs.
    pub deadline: Duration,
    /// Handling of jobs while the device has failed.
    pub on_failure: Otherwise,
    /// Handling of jobs beyond `depth`.
    pub on_full: Otherwise,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            depth: 1024,
            batch: 32,
            wait: Duration::from_micros(5),
            copies: 0,
            deadline: Duration::from_millis(100),
            on_failure: Otherwise::Software,
            on_full: Otherwise::Drop,
        }
    }
}

/// Empty packets that stand in for those that a hung device keeps.
pub type Spares<B> = Box<dyn FnMut() -> Option<B> + Send>;

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Jobs taken.
    submitted: u64,
    /// Jobs that the device did, with any result.
    completed: u64,
    /// Times that the doorbell rang.
    batches: u64,
    /// Jobs beyond the depth.
    full: u64,
    /// Jobs done here instead.
    fallbacks: u64,
    /// Batches in which they were done.
    fallback_batches: u64,
    /// Jobs that failed because the device did.
    failed: u64,
    /// Packets that a device kept, in whose place others went on.
    kept: u64,
    /// Times that the device was given up.
    failures: u64,
    /// Times that it was started again.
    resets: u64,
    /// Packets that were copied once, in one direction.
    copies: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// Given up; to be started again at this time.
    Down(Instant),
}

/// The host's side of a queue pair.
pub struct LookAside<B, D> {
    device: D,
    options: Options,
    state: State,
    /// Time that the device stays down if it fails now.
    pause: Duration,
    keys: Keys,
    /// Commands for which the device had no room, in order: see [`Owed`].
    owed: Owed,
    /// Does jobs that the device does not, where that is configured.
    software: Software,
    flying: Flying<B>,
    waiting: VecDeque<Request<B>>,
    waiting_since: Instant,
    finished: VecDeque<Job<B>>,
    spares: Spares<B>,
    /// Memory of the device that is free, and of the host for four copies.
    memory: Vec<Vec<u8>>,
    bounce: Vec<u8>,
    counts: Counts,
    work: Work,
}

impl<B: AsMut<[u8]>, D: Device<B>> LookAside<B, D> {
    /// A queue pair to a device that runs. `software` stands in for it, and
    /// `spares` for packets that it keeps.
    pub fn new(device: D, options: Options, software: Software, spares: Spares<B>) -> Self {
        let depth = options.depth.max(1);
        Self {
            device,
            options: Options { depth, batch: options.batch.clamp(1, depth), ..options },
            state: State::Works,
            pause: recover::PAUSE_MIN,
            keys: Keys::default(),
            owed: Owed::default(),
            software,
            flying: Flying::new(depth),
            waiting: VecDeque::with_capacity(depth),
            waiting_since: Instant::ZERO,
            finished: VecDeque::with_capacity(depth),
            spares,
            memory: Vec::with_capacity(depth),
            bounce: Vec::new(),
            counts: Counts::default(),
            work: Work::default(),
        }
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// True if the device works.
    pub fn is_up(&self) -> bool {
        self.state == State::Works
    }

    fn has_twins(&self) -> bool {
        let options = &self.options;
        options.on_failure == Otherwise::Software || options.on_full == Otherwise::Software
    }

    /// Does what is due: checks the device's health, sends the batch whose wait is over,
    /// restarts the device.
    fn look(&mut self, now: Instant) {
        match self.state {
            State::Down(until) => {
                self.replace_lost();
                if now >= until && self.flying.len() == 0 {
                    self.restart(now);
                }
            }
            State::Works => {
                if self.is_lost(now) {
                    // The answers that have come in the meantime may have been all.
                    self.receive(now);
                    if self.is_lost(now) {
                        return self.give_up(now);
                    }
                }
                if !self.waiting.is_empty() && now.since(self.waiting_since) >= self.options.wait {
                    self.flush(now, 1);
                } else if !self.owed.is_empty() {
                    self.settle(now);
                }
            }
        }
    }

    /// True if the device is dead or hangs.
    fn is_lost(&self, now: Instant) -> bool {
        let late = |since| now.since(since) >= self.options.deadline;
        let owed = self.owed.since().is_some_and(late);
        !self.device.is_alive() || owed || self.flying.oldest().is_some_and(late)
    }

    /// Passes owed commands to the device, as far as it has room. True: all of them.
    fn settle(&mut self, now: Instant) -> bool {
        while let Some(command) = self.owed.next() {
            if let Err(command) = self.device.command(command) {
                self.owed.put_back(now, command);
                self.device.ring(now);
                return false;
            }
            self.owed.took();
        }
        true
    }

    /// Sends batches as long as at least `least` requests wait.
    fn flush(&mut self, now: Instant, least: usize) {
        // No request may overtake its key.
        if !self.settle(now) {
            return;
        }
        let mut rings = false;
        while self.waiting.len() >= least.max(1) {
            let mut batch = Requests::new();
            let count = self.waiting.len().min(self.options.batch).min(batch.capacity());
            batch.extend(self.waiting.drain(..count));
            self.device.push(now, &mut batch);
            rings |= batch.len() < count;
            if !batch.is_empty() {
                batch.into_iter().rev().for_each(|request| self.waiting.push_front(request));
                break;
            }
        }
        self.waiting_since = now;
        if rings {
            self.counts.batches += 1;
            self.device.ring(now);
        }
    }

    /// Takes a job that there is room for.
    fn send(&mut self, now: Instant, job: Job<B>) {
        self.keys.fly(job.key);
        self.counts.submitted += 1;
        let octets = under_icv(&job);
        match job.op {
            Op::Seal => self.work.sealed_away.add(octets),
            Op::Open => self.work.opened_away.add(octets),
        }
        // The part that stays here, and the part that goes: the packet is in one of them.
        let Job { mut buf, key, ticket, number, nonce, op, verdict, ad, text } = job;
        let (memory, packet) = match self.options.copies {
            0 => (Memory::Shared(buf), None),
            _ => (Memory::Copied(self.copy_there(buf.as_mut())), Some(buf)),
        };
        let kept = Job { buf: packet, key, ticket, number, nonce, op, verdict, ad, text };
        let Some(ticket) = self.flying.insert(now, kept) else { return };
        if self.waiting.is_empty() {
            self.waiting_since = now;
        }
        self.waiting.push_back(Job {
            buf: memory,
            key,
            ticket,
            number,
            nonce,
            op,
            verdict,
            ad,
            text,
        });
    }

    fn copied(&mut self, octets: usize) {
        self.counts.copies += 1;
        self.work.copied.add(octets);
    }

    /// Half of the copies: into memory of the device.
    fn copy_there(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut memory = self.memory.pop().unwrap_or_default();
        memory.clear();
        if self.options.copies > 2 {
            self.bounce.clear();
            self.bounce.extend_from_slice(packet);
            memory.extend_from_slice(&self.bounce);
            self.copied(packet.len());
        } else {
            memory.extend_from_slice(packet);
        }
        self.copied(packet.len());
        memory
    }

    /// The other half: back into the packet. Of a refused job the packet stays as it is.
    fn copy_back(&mut self, memory: Vec<u8>, done: bool, packet: &mut [u8]) {
        if done && memory.len() == packet.len() {
            if self.options.copies > 2 {
                self.bounce.clear();
                self.bounce.extend_from_slice(&memory);
                packet.copy_from_slice(&self.bounce);
                self.copied(packet.len());
            } else {
                packet.copy_from_slice(&memory);
            }
            self.copied(packet.len());
        }
        if self.memory.len() < self.options.depth {
            self.memory.push(memory);
        }
    }

    /// Takes the requests that the device completed.
    fn receive(&mut self, now: Instant) {
        loop {
            let mut done = Requests::new();
            self.device.pop(now, &mut done);
            if done.is_empty() {
                return;
            }
            self.pause = recover::PAUSE_MIN;
            let more = done.is_full();
            for request in done {
                self.counts.completed += 1;
                self.complete(request);
            }
            if !more {
                return;
            }
        }
    }

    /// A request is back: it becomes the job again that it was.
    fn complete(&mut self, request: Request<B>) {
        let Some(mut kept) = self.flying.take(request.ticket) else { return };
        kept.verdict = match request.verdict {
            // Cannot happen: a job that was not done has failed.
            Verdict::Pending => Verdict::Failed,
            verdict => verdict,
        };
        let packet = match (kept.buf.take(), request.buf) {
            (Some(mut packet), Memory::Copied(memory)) => {
                self.copy_back(memory, kept.verdict == Verdict::Done, packet.as_mut());
                packet
            }
            (_, Memory::Shared(packet)) => packet,
            (None, Memory::Copied(_)) => return,
        };
        self.finish(kept.map(|_| packet));
    }

    /// A job is back, one way or another.
    fn finish(&mut self, job: Job<B>) {
        if let Some(last) = self.keys.land(job.key) {
            self.wipe(job.key, last);
        }
        self.finished.push_back(job);
    }

    /// The last job of a retired key is back: the key has no user any more.
    fn wipe(&mut self, id: KeyId, held: keys::Held) {
        if let Some(twin) = held.twin {
            Engine::<B>::retire(&mut self.software, twin);
        }
        if self.state == State::Works {
            self.tell(Command::Retire(id.slot));
        }
    }

    fn tell(&mut self, command: Command) {
        let command = match self.owed.is_empty() {
            true => self.device.command(command),
            false => Err(command),
        };
        if let Err(command) = command {
            self.owed.add(command);
        }
    }
}

/// Octets of the packet under the ICV, as the stages count them.
fn under_icv<B>(job: &Job<B>) -> usize {
    let beside = match job.ad {
        Ad::Span(span) | Ad::SpanThen(span, _) | Ad::Widened(span, _) => span.len.into(),
        Ad::Inline(_) => 8,
    };
    beside + usize::from(job.text.len)
}

impl<B: AsMut<[u8]>, D: Device<B>> Engine<B> for LookAside<B, D> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        spec.check()?;
        self.device.accepts(spec)?;
        let twin = match self.has_twins() {
            true => Some(Engine::<B>::install(&mut self.software, spec)?),
            false => None,
        };
        let id = self.keys.insert(spec, twin)?;
        // A device that is down is told all keys when it starts.
        if self.state == State::Works {
            self.tell(Command::Install(id.slot, Box::new(spec.clone())));
        }
        Ok(id)
    }

    fn retire(&mut self, key: KeyId) {
        if let Some(last) = self.keys.retire(key) {
            self.wipe(key, last);
        }
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        self.look(now);
        // Jobs that are done here instead, all of them together.
        let mut here = Jobs::new();
        for mut job in std::mem::take(jobs) {
            let comes_back = if job.verdict != Verdict::Pending {
                true
            } else if !self.keys.is_usable(job.key) {
                job.verdict = Verdict::Failed;
                true
            } else if self.state != State::Works {
                self.refuse(&mut job)
            } else if self.flying.is_full() {
                self.overflow()
            } else {
                self.send(now, job);
                continue;
            };
            if comes_back { jobs.push(job) } else { here.push(job) }
        }
        self.stand_in(&mut here);
        jobs.extend(here);
        let least = if self.options.wait.is_zero() { 1 } else { self.options.batch };
        if self.waiting.len() >= least {
            self.flush(now, least);
        }
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        if self.state == State::Works {
            self.receive(now);
        }
        self.look(now);
        let count = self.finished.len().min(done.remaining_capacity());
        done.extend(self.finished.drain(..count));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.finished.is_empty() {
            return Some(Instant::ZERO);
        }
        if let State::Down(until) = self.state {
            return Some(until);
        }
        let oldest = [self.flying.oldest(), self.owed.since()].into_iter().flatten().min();
        let due = oldest.map(|since| since + self.options.deadline);
        // While the device takes no command, no batch goes either, however long it waited.
        let goes = !self.waiting.is_empty() && self.owed.since().is_none();
        let batch = goes.then(|| self.waiting_since + self.options.wait);
        let busy = oldest.is_some() || !self.owed.is_empty();
        let device = if busy { self.device.poll_timeout() } else { None };
        batch.into_iter().chain(device).chain(due).min()
    }

    fn in_flight(&self) -> usize {
        self.flying.len() + self.finished.len()
    }

    fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    fn report(&self) -> Vec<EngineReport> {
        let c = &self.counts;
        vec![EngineReport {
            place: "look-aside",
            state: if self.is_up() { "works" } else { "down" },
            keys: self.keys.len(),
            depth: self.options.depth,
            in_flight: self.in_flight(),
            counters: vec![
                ("submitted", c.submitted),
                ("completed", c.completed),
                ("batches", c.batches),
                ("full", c.full),
                ("fallbacks", c.fallbacks),
                ("fallback-batches", c.fallback_batches),
                ("failed", c.failed),
                ("kept", c.kept),
                ("failures", c.failures),
                ("resets", c.resets),
                ("copies", c.copies),
            ],
            ..EngineReport::default()
        }]
    }
}
