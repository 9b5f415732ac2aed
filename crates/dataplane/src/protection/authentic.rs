//! Proof that a packet is authentic, with the number that it may use up: every replay
//! window requires it before it moves.

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ferrule_crypto::{Ad, KeyId, Span};

    fn job(op: Op, verdict: Verdict) -> Job<()> {
        let (nonce, key, text) = ([0; 12], KeyId::default(), Span::default());
        Job { buf: (), key, ticket: 0, number: 7, nonce, op, verdict, ad: Ad::Span(text), text }
    }

    /// A proof of nothing, for tests of windows.
    pub(crate) fn authentic() -> Authentic {
        Authentic::proof(&job(Op::Open, Verdict::Done)).expect("an ICV that was right")
    }

    #[test]
    fn only_an_opened_packet_whose_icv_was_right_is_authentic() {
        for verdict in [Verdict::Pending, Verdict::BadIcv, Verdict::Gone, Verdict::Failed] {
            assert!(Authentic::proof(&job(Op::Open, verdict)).is_none());
        }
        assert!(Authentic::proof(&job(Op::Seal, Verdict::Done)).is_none());
        assert_eq!(Candidate::of(&job(Op::Open, Verdict::Done)).number(), 7);
    }
}
