//! A device that fails on command, for tests of its users.
//!
//! ```text
//!   killed   nothing comes back; of what it had, one request is half done
//!   hangs    takes requests, and neither works nor gives them up
//! ```
//!
//! Time is the time that it is called with, so a run in virtual time fails at the
//! same moment always.

use super::device::{Command, Device, Request, Requests};
use ferrule_base::Instant;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{KeySpec, Verdict};

/// Kind of device failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The device is gone.
    Killed,
    /// The device does not answer.
    Hangs,
}

/// A period in which a device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    /// Start of the period.
    pub from: Instant,
    /// End of the period, before which the device cannot be started again.
    pub until: Instant,
    /// Kind of failure.
    pub how: Failing,
}

/// A device with such spells.
pub struct Frail<B, D> {
    device: D,
    /// Failures that are to come, or not over yet.
    spells: Vec<Spell>,
    /// The one that it is in until it is started.
    failing: Option<Spell>,
    /// Requests kept while the device hangs, whose memory must not be touched.
    kept: Vec<Request<B>>,
}

impl<B, D: Device<B>> Frail<B, D> {
    /// This device, which has these spells.
    pub const fn new(device: D, spells: Vec<Spell>) -> Self {
        Self { device, spells, failing: None, kept: Vec::new() }
    }

    /// True if the device works now. A failure begins at the first call within its period.
    fn works(&mut self, now: Instant) -> bool {
        if self.failing.is_none() {
            self.spells.retain(|spell| now < spell.until);
            self.failing = self.spells.iter().find(|spell| spell.from <= now).copied();
        }
        self.failing.is_none()
    }
}

impl<B: AsMut<[u8]> + Send, D: Device<B>> Device<B> for Frail<B, D> {
    fn accepts(&self, spec: &KeySpec) -> Result<(), InstallError> {
        self.device.accepts(spec)
    }

    fn command(&mut self, command: Command) -> Result<(), Command> {
        match self.failing {
            None => self.device.command(command),
            Some(_) => Err(command),
        }
    }

    fn push(&mut self, now: Instant, requests: &mut Requests<B>) {
        if self.works(now) || self.failing.is_some_and(|spell| spell.how == Failing::Hangs) {
            self.device.push(now, requests);
        }
    }

    fn ring(&mut self, now: Instant) {
        if self.works(now) {
            self.device.ring(now);
        }
    }

    fn pop(&mut self, now: Instant, done: &mut Requests<B>) {
        if self.works(now) {
            self.device.pop(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.failing {
            None => self.device.poll_timeout(),
            Some(_) => None,
        }
    }

    fn is_alive(&self) -> bool {
        self.failing.is_none_or(|spell| spell.how != Failing::Killed)
    }

    fn abandon(&mut self, now: Instant, salvaged: &mut Vec<Request<B>>) {
        if self.failing.is_some_and(|spell| spell.how == Failing::Hangs) {
            return self.device.abandon(now, &mut self.kept);
        }
        let had = salvaged.len();
        self.device.abandon(now, salvaged);
        // The device died in the middle of a packet.
        if let Some(request) = salvaged.get_mut(had) {
            request.buf.as_mut().iter_mut().step_by(2).for_each(|octet| *octet ^= 0xff);
            request.verdict = Verdict::Failed;
        }
    }

    fn start(&mut self, now: Instant) -> bool {
        self.spells.retain(|spell| now < spell.until);
        self.failing = self.spells.iter().find(|spell| spell.from <= now).copied();
        if self.failing.is_some() || !self.device.start(now) {
            return false;
        }
        self.kept.clear();
        true
    }
}
