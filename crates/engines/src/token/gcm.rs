//! The standard mode: AES-GCM from key stream that was made ahead.
//!
//! The token gives E(0) once, the hash key H; with it the host computes GHASH.
//! A tag needs one block more, E(J0), so:
//!
//! * whether a packet is authentic is known with one block, before any of its
//!   key stream is asked for;
//! * nothing is decrypted, and no window moves, before that.
//!
//! A packet with an unexpected number (far ahead, or a nonce of another kind) does not
//! wait: it is dropped, and its E(J0) asked for beside others. If it was authentic, the
//! window follows it ([`Gcm::probe`]).

use super::ahead::{Ahead, Found};
use super::nonces::{Base, esp_number};
use super::parts::{self, Hash};
use super::vault::Block;
use super::wait::{Step, Wait};
use arrayvec::ArrayVec;
use ferrule_crypto::key::Coming;
use ferrule_crypto::{Job, Op, Verdict};
use zeroize::{Zeroize, Zeroizing};

/// Unexpected packets of an SA whose E(J0) is asked for at a time.
pub(super) const PROBES_MAX: usize = 8;

/// An unexpected packet: it was authentic if this is its E(J0), which is wiped with it.
#[derive(Clone)]
pub(super) struct Probe {
    pub nonce: [u8; 12],
    number: u64,
    want: Zeroizing<Block>,
}

/// One AES-GCM SA.
pub(super) struct Gcm {
    hash: Option<Hash>,
    base: Option<Base>,
    /// The peer chooses IVs: base and number are checked against each other.
    learns: bool,
    drop_gone: bool,
    pub ahead: Ahead,
    pub probes: ArrayVec<Probe, PROBES_MAX>,
    met: u64,
}

/// Position of a job's nonce in the SA's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Number(u64),
    Unlearned,
    Stranger,
}

impl Gcm {
    pub fn new(ahead: Ahead, coming: Option<&Coming>, drop_gone: bool) -> Self {
        let known = coming.filter(|c| c.known);
        Self {
            hash: None,
            base: known.map(|c| Base::new(&c.base)),
            learns: coming.is_none_or(|c| !c.known),
            drop_gone,
            ahead,
            probes: ArrayVec::new(),
            met: 0,
        }
    }

    /// The hash key has come.
    pub fn hash_key(&mut self, h: &Block) {
        self.hash = Some(Hash::new(h));
    }

    /// The token was not asked for the hash key yet, or has not answered.
    pub const fn wants_hash_key(&self) -> bool {
        self.hash.is_none()
    }

    /// The nonce of a number, if nonces are known.
    pub fn nonce(&self, number: u64) -> Option<[u8; 12]> {
        self.base.as_ref().map(|base| base.nonce(number))
    }

    fn place<B: AsMut<[u8]>>(&self, job: &mut Job<B>) -> Place {
        let Some(base) = &self.base else { return Place::Unlearned };
        let number = base.number(&job.nonce);
        let written = if self.learns { esp_number(&job.ad, job.buf.as_mut()) } else { number };
        match number {
            Some(number) if written == Some(number) => Place::Number(number),
            _ => Place::Stranger,
        }
    }

    /// A packet has arrived: where it stands.
    pub fn admit<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        if parts::aead(&mut wait.job).is_none() {
            return Step::Done(Verdict::Failed);
        }
        let sealing = wait.job.op == Op::Seal;
        match (self.place(&mut wait.job), sealing) {
            (Place::Number(number), true) => match self.ahead.find(number) {
                Found::Here(_) | Found::Coming => wait.at = Some(number.into()),
                Found::Next | Found::Gone => self.ahead.used(number, wait.need.into()),
                Found::Far => self.ahead.restart(number.saturating_add(1)),
            },
            (Place::Number(number), false) => match self.ahead.find(number) {
                Found::Far => return self.probe(wait, number),
                Found::Gone if self.drop_gone => return Step::Done(Verdict::Gone),
                _ => wait.at = Some(number.into()),
            },
            (Place::Stranger, false) => {
                let number = esp_number(&wait.job.ad, wait.job.buf.as_mut());
                return number.map_or(Step::Done(Verdict::Gone), |n| self.probe(wait, n));
            }
            // Not to be foreseen: exactly its blocks.
            (Place::Stranger, true) | (Place::Unlearned, _) => {}
        }
        self.step(wait)
    }

    /// Remembers an unexpected packet by the E(J0) that would prove it. Where many
    /// come, each has the same chance to be remembered.
    fn probe<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>, number: u64) -> Step {
        let nonce = wait.job.nonce;
        let (Some(hash), Some((ad, text, icv))) = (&self.hash, parts::aead(&mut wait.job)) else {
            return Step::Done(Verdict::Gone);
        };
        let want = Zeroizing::new(parts::xor(&hash.of(ad, text), icv));
        let probe = Probe { nonce, number, want };
        self.met = self.met.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        if let Err(full) = self.probes.try_push(probe) {
            let place = (self.met >> 33) as usize % PROBES_MAX;
            if let Some(probe) = self.probes.get_mut(place) {
                *probe = full.element();
            }
        }
        Step::Done(Verdict::Gone)
    }

    /// The next of them. It stays nowhere else.
    pub fn next_probe(&mut self) -> Option<Probe> {
        let probe = self.probes.last()?.clone();
        if let Some(last) = self.probes.last_mut() {
            last.want.zeroize();
        }
        self.probes.pop();
        Some(probe)
    }

    /// Takes the answer to a probe: an authentic packet moves the window.
    pub fn probed(&mut self, probe: &Probe, j0: &Block) -> bool {
        if !parts::same(&probe.want, j0) {
            return false;
        }
        if self.learns {
            self.base = Some(Base::learned(&probe.nonce, probe.number));
        } else if probe.number < self.ahead.low() {
            return true;
        }
        self.ahead.restart(probe.number.saturating_add(1));
        self.probes.clear();
        true
    }

    /// Takes the packet on with the key stream that is there.
    pub fn step<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        if self.hash.is_none() {
            return Step::Coming;
        }
        if let Some(number) = wait.at.map(|at| at as u64) {
            match self.ahead.find(number) {
                Found::Here(_) => {
                    if let Some(step) = self.take(wait, number) {
                        return step;
                    }
                }
                Found::Coming => return Step::Coming,
                Found::Gone | Found::Next | Found::Far => {}
            }
        }
        if wait.done == wait.need && wait.j0 {
            return Step::Done(self.finish(wait));
        }
        Step::Ask
    }

    /// Uses a run that is here, as far as it goes.
    fn take<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>, number: u64) -> Option<Step> {
        if !wait.j0 {
            let j0 = self.ahead.block(number, 0)?;
            if !self.prove(wait, j0) {
                return Some(Step::Done(Verdict::BadIcv));
            }
        }
        let missing = usize::from(wait.need.saturating_sub(wait.done));
        for stream in self.ahead.stream(number, wait.done + 1).take(missing) {
            wait.cover(0, stream);
        }
        if wait.done < wait.need && self.ahead.is_growing(number) {
            return Some(Step::Coming);
        }
        self.ahead.used(number, wait.need.into());
        None
    }

    /// E(J0) has come: is the packet authentic? An outbound one is.
    fn prove<B: AsMut<[u8]>>(&self, wait: &mut Wait<B>, j0: &Block) -> bool {
        if !wait.proven {
            let (Some(hash), Some((ad, text, icv))) = (&self.hash, parts::aead(&mut wait.job))
            else {
                return false;
            };
            let want = Zeroizing::new(parts::xor(&hash.of(ad, text), icv));
            if !parts::same(&want, j0) {
                return false;
            }
            wait.proven = true;
        } else if wait.job.op == Op::Seal {
            let Some((_, _, icv)) = parts::aead(&mut wait.job) else { return false };
            *icv = *j0;
        }
        wait.j0 = true;
        true
    }

    /// Blocks that were asked for exactly have come: from this index on.
    pub fn exact<B: AsMut<[u8]>>(
        &mut self,
        wait: &mut Wait<B>,
        first: u16,
        stream: &[Block],
    ) -> Step {
        let mut rest = stream;
        if first == 0 {
            let Some((j0, text)) = stream.split_first() else { return Step::Ask };
            rest = text;
            // The run of this number may have come together with the question.
            if !wait.j0 {
                if !self.prove(wait, j0) {
                    return Step::Done(Verdict::BadIcv);
                }
                self.proved(wait);
            }
        }
        for (index, block) in (first.max(1)..).zip(rest) {
            if index == wait.done + 1 && wait.done < wait.need {
                wait.cover(0, block);
            }
        }
        self.step(wait)
    }

    /// A packet that no run was there for is authentic.
    fn proved<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) {
        if wait.job.op == Op::Seal {
            return;
        }
        match wait.at {
            // Its run may be here by now: then it is used, not thrown away.
            Some(number) if !matches!(self.ahead.find(number as u64), Found::Here(_)) => {
                self.ahead.used(number as u64, wait.need.into());
            }
            None if self.base.is_none() => {
                let Some(number) = esp_number(&wait.job.ad, wait.job.buf.as_mut()) else { return };
                self.base = Some(Base::learned(&wait.job.nonce, number));
                self.ahead.restart(number.saturating_add(1));
            }
            _ => {}
        }
    }

    /// Ends a packet whose key stream is used up: an outbound one gets its tag.
    fn finish<B: AsMut<[u8]>>(&self, wait: &mut Wait<B>) -> Verdict {
        if wait.job.op == Op::Open {
            return Verdict::Done;
        }
        let (Some(hash), Some((ad, text, icv))) = (&self.hash, parts::aead(&mut wait.job)) else {
            return Verdict::Failed;
        };
        *icv = parts::xor(&hash.of(ad, text), icv);
        Verdict::Done
    }
}
