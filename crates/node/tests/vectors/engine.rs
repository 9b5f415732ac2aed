//! The engines that the sets run on.

use ferrule_base::{Duration, Instant};
use ferrule_crypto::backend::Backend;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, Job, Jobs, KeyId, KeySpec, Late, Software};
use ferrule_pipeline::Packet;

/// Jobs of the late engine under way at most, and how long each may take.
const DEPTH: usize = 64;
const DELAY: Duration = Duration::from_micros(50);

/// Engine for sealing and opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At once, on this backend.
    AtOnce(Backend),
    /// Later, in whatever order this seed gives.
    Late(u64),
}

/// One engine of either kind.
pub enum AnyEngine {
    AtOnce(Software),
    Late(Box<Late<Packet>>),
}

impl AnyEngine {
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::AtOnce(backend) => Self::AtOnce(Software::new(backend)),
            Kind::Late(seed) => {
                Self::Late(Box::new(Late::new(Software::default(), seed, DELAY, DEPTH)))
            }
        }
    }
}

impl Engine<Packet> for AnyEngine {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        match self {
            Self::AtOnce(e) => Engine::<Packet>::install(e, spec),
            Self::Late(e) => e.install(spec),
        }
    }

    fn retire(&mut self, key: KeyId) {
        match self {
            Self::AtOnce(e) => Engine::<Packet>::retire(e, key),
            Self::Late(e) => e.retire(key),
        }
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        match self {
            Self::AtOnce(e) => e.submit(now, jobs),
            Self::Late(e) => e.submit(now, jobs),
        }
    }

    fn run_beside(&mut self, now: Instant, buffers: &mut [Packet], jobs: &mut [Job<()>]) {
        match self {
            Self::AtOnce(e) => Engine::run_beside(e, now, buffers, jobs),
            Self::Late(e) => e.run_beside(now, buffers, jobs),
        }
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<Packet>) {
        match self {
            Self::AtOnce(e) => e.collect(now, done),
            Self::Late(e) => e.collect(now, done),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::AtOnce(e) => Engine::<Packet>::poll_timeout(e),
            Self::Late(e) => e.poll_timeout(),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Self::AtOnce(e) => Engine::<Packet>::in_flight(e),
            Self::Late(e) => e.in_flight(),
        }
    }

    fn is_immediate(&self) -> bool {
        matches!(self, Self::AtOnce(_))
    }
}
