//! One SA on the token: its mode, and its share of the next exchange.

use super::ahead::Ahead;
use super::gcm::Gcm;
use super::parts::{self, Keyed};
use super::ring::Ring;
use super::settings::Settings;
use super::study::{self, Study};
use super::vault::{Block, Vault};
use super::wait::{STUDY_IV, Step, Wait};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::key::{InstallError, TokenKey};
use ferrule_crypto::{Aes, KeySpec, Op, RingReport, Suite};

/// Shortest pause after a token has refused an SA.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// And at most.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Way in which an SA uses its key.
pub(super) enum Mode {
    Gcm(Box<Gcm>),
    Study(Box<Study>),
}

/// An SA.
pub(super) struct Sa {
    pub mode: Mode,
    /// The key's label, and `seal` or `open`: for reports.
    label: String,
    op: &'static str,
    /// Its last job has been submitted; it goes when the last is back.
    pub retired: bool,
    /// The token refused it: until then it is not asked again.
    rests_until: Instant,
    /// Length of the last pause; nothing once the token has answered.
    pause: Duration,
    /// Packets of it that wait.
    pub waiting: u32,
    /// Time of its last packet.
    pub seen: Instant,
    /// Nothing is made ahead before the next packet: it was silent for too long.
    pub asleep: bool,
}

/// The suite's cipher, if a token can have it.
pub(super) fn aes_of(suite: Suite) -> Option<Aes> {
    let aes = match suite {
        Suite::AesGcm(aes) | Suite::AesGcmIiv(aes) | Suite::AesCtrStudy(aes, _) => aes,
        _ => return None,
    };
    (aes != Aes::Aes192).then_some(aes)
}

impl Sa {
    pub fn new(
        spec: &KeySpec,
        key: &TokenKey,
        settings: &Settings,
        exchange: usize,
    ) -> Result<Self, InstallError> {
        let coming = key.coming.as_ref();
        let memory = |blocks| {
            let made =
                if settings.locked { Vault::locked(blocks) } else { Vault::unlocked(blocks) };
            made.map_err(|_| InstallError::Memory)
        };
        let mode = match spec.suite {
            Suite::AesGcm(_) | Suite::AesGcmIiv(_) => {
                let first = coming.map_or(0, |c| c.next);
                let ahead =
                    Ahead::new(memory(settings.blocks)?, settings.reach, settings.behind, first);
                Mode::Gcm(Box::new(Gcm::new(ahead, coming, settings.drop_gone)))
            }
            Suite::AesCtrStudy(_, mac) => {
                let (behind, first) = (settings.behind as usize, study::first_counter(coming));
                let ring = Ring::new(memory(settings.blocks)?, exchange, behind, first);
                let ring = ring.ok_or(InstallError::Memory)?;
                let need = mac.key_len();
                let wrong = InstallError::MacKeyLength(need, spec.mac_key.len());
                let keyed = Keyed::new(mac, &spec.mac_key).filter(|_| spec.mac_key.len() == need);
                let mac = (keyed.ok_or(wrong)?, mac);
                Mode::Study(Box::new(Study::new(ring, mac, coming, settings.drop_gone)))
            }
            other => return Err(InstallError::Unsupported(other)),
        };
        Ok(Self {
            mode,
            label: key.label.to_string(),
            op: match coming.map(|c| c.op) {
                Some(Op::Seal) => "seal",
                Some(Op::Open) => "open",
                None => "",
            },
            retired: false,
            rests_until: Instant::ZERO,
            pause: Duration::ZERO,
            waiting: 0,
            seen: Instant::ZERO,
            asleep: false,
        })
    }

    /// Octets of IV in front of the text.
    pub const fn iv(&self) -> usize {
        match self.mode {
            Mode::Gcm(_) => 0,
            Mode::Study(_) => STUDY_IV,
        }
    }

    /// True if exact questions may include E(J0).
    pub const fn plain(&self) -> bool {
        matches!(self.mode, Mode::Gcm(_))
    }

    /// True if packets can be asked for: not before the hash key is there.
    pub const fn can_ask(&self) -> bool {
        match &self.mode {
            Mode::Gcm(gcm) => !gcm.wants_hash_key(),
            Mode::Study(_) => true,
        }
    }

    pub fn admit<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        match &mut self.mode {
            Mode::Gcm(gcm) => gcm.admit(wait),
            Mode::Study(study) => study.admit(wait),
        }
    }

    pub fn step<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        match &mut self.mode {
            Mode::Gcm(gcm) => gcm.step(wait),
            Mode::Study(study) => study.step(wait),
        }
    }

    pub fn exact<B: AsMut<[u8]>>(
        &mut self,
        wait: &mut Wait<B>,
        first: u16,
        stream: &[Block],
    ) -> Step {
        match &mut self.mode {
            Mode::Gcm(gcm) => gcm.exact(wait, first, stream),
            Mode::Study(study) => study.exact(wait, first, stream),
        }
    }

    /// The block to encrypt for the block of a packet with this index.
    pub fn question<B>(&self, wait: &Wait<B>, index: u16) -> Block {
        match &self.mode {
            Mode::Gcm(_) => parts::counter_block(&wait.job.nonce, index.into()),
            Mode::Study(study) => {
                let counter = wait.at.unwrap_or_default() + u128::from(index) - 1;
                study.counter_block(counter).to_be_bytes()
            }
        }
    }

    /// The token has refused it, and is left alone for a while.
    pub fn rests(&self, now: Instant) -> bool {
        now < self.rests_until
    }

    /// An exchange of it failed; when the next may be tried.
    pub fn refused(&mut self, now: Instant) -> Instant {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.rests_until = now + self.pause;
        self.rests_until
    }

    /// An exchange of it brought something.
    pub const fn answered(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// A packet was authentic, or ours: key stream made ahead has a use.
    pub const fn wake(&mut self, now: Instant) {
        (self.seen, self.asleep) = (now, false);
    }

    /// True if key stream is made ahead for the SA. A retired one has no more than its last
    /// packets need.
    pub const fn is_filled(&self) -> bool {
        match self.mode {
            Mode::Gcm(_) => !self.asleep && !self.retired,
            Mode::Study(_) => !self.asleep && (!self.retired || self.waiting > 0),
        }
    }

    /// True if something is to be made ahead as soon as the line is free.
    pub fn wants(&mut self) -> bool {
        let filled = self.is_filled();
        match &mut self.mode {
            Mode::Gcm(gcm) => {
                let ahead = filled && gcm.nonce(0).is_some() && gcm.ahead.wants();
                let needed = filled || self.waiting > 0;
                ahead || (needed && gcm.wants_hash_key())
            }
            Mode::Study(study) => {
                filled
                    && study.wants().is_some_and(|range| {
                        study.ring.refused();
                        !range.is_empty()
                    })
            }
        }
    }

    /// True if unexpected packets wait for a probe.
    pub fn wonders(&self) -> bool {
        matches!(&self.mode, Mode::Gcm(gcm) if !self.retired && !gcm.probes.is_empty())
    }

    /// Wipes key stream made for a peer that is silent.
    pub fn sleep(&mut self) {
        self.asleep = true;
        match &mut self.mode {
            Mode::Gcm(gcm) => gcm.ahead.restart(gcm.ahead.low()),
            Mode::Study(study) => study.ring.restart(study.ring.low()),
        }
    }

    /// State of the SA's ring.
    pub fn report(&self, now: Instant) -> RingReport {
        let (filling, common) = match &self.mode {
            Mode::Gcm(gcm) => {
                let ring = &gcm.ahead;
                let size = ring.size();
                let common = RingReport {
                    mode: "standard",
                    size,
                    filled: size - ring.empty(),
                    start: size / 2,
                    stop: size,
                    depth: ring.depth(),
                    ..RingReport::default()
                };
                (ring.is_filling(), common)
            }
            Mode::Study(study) => {
                let ring = &study.ring;
                let common = RingReport {
                    mode: "study",
                    size: ring.size(),
                    filled: ring.ahead(),
                    start: ring.size() / 2,
                    stop: ring.stop(),
                    ..RingReport::default()
                };
                (ring.is_filling(), common)
            }
        };
        let state = match (self.rests(now), self.asleep, filling) {
            (true, ..) => "broken",
            (_, true, _) => "asleep",
            (_, _, true) => "fills",
            _ => "rests",
        };
        RingReport { key: self.label.clone(), op: self.op, state, ahead: self.ahead(), ..common }
    }

    /// Blocks made ahead and unused.
    pub fn ahead(&self) -> u64 {
        match &self.mode {
            Mode::Gcm(gcm) => gcm.ahead.ahead(),
            Mode::Study(study) => study.ring.ahead(),
        }
    }
}
