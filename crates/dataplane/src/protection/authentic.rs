//! Proof that a packet is authentic, and the number that it may then use up: what every
//! replay window asks for before it moves.

use ferrule_crypto::{Job, Op, Verdict};

/// A number that was not seen when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate(u64);

impl Candidate {
    /// A number that a window found new.
    #[inline]
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The candidate of a job.
    #[inline]
    pub(crate) const fn of<B>(job: &Job<B>) -> Self {
        Self(job.number)
    }

    /// The number, all 64 bits.
    #[inline]
    pub const fn number(&self) -> u64 {
        self.0
    }
}

/// Proof that an engine found a packet's ICV right.
#[derive(Debug)]
pub struct Authentic(());

impl Authentic {
    /// The proof, if the job has it.
    #[inline]
    pub fn proof<B>(job: &Job<B>) -> Option<Self> {
        match (job.op, job.verdict) {
            (Op::Open, Verdict::Done) => Some(Self(())),
            _ => None,
        }
    }
}
