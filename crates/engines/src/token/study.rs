//! The study's mode: AES-CTR whose counter runs on through the whole SA, with a
//! keyed hash over the ciphertext.
//!
//! ```text
//!   counter block   │ nonce, 32 bits │ high, 32 │ low, 64 │   +1 for each block
//!   packet          │ ESP header │ low, 8 octets │ ciphertext │ ICV │
//! ```
//!
//! The high half stays at both ends, and the nonce is the SA's salt. The hash is
//! the host's own and is checked first, so nothing forged touches the ring.
//!
//! A counter may never be used twice. An SA begins with its first sequence number times
//! [`PER_PACKET`], and no packet uses more counters than that: a reservation of sequence
//! numbers on stable storage reserves the counters too.

use super::parts::Keyed;
use super::ring::Ring;
use super::vault::Block;
use super::wait::{STUDY_IV, Step, Wait};
use ferrule_crypto::key::Coming;
use ferrule_crypto::{Mac, Op, Verdict};

/// Counters for each sequence number: the largest packet has no more blocks.
pub const PER_PACKET: u128 = 1 << 12;

/// Bits of high and low half.
const COUNTER_BITS: u32 = 96;

/// One SA of the study.
pub(super) struct Study {
    mac: Keyed,
    icv_len: usize,
    nonce: [u8; 4],
    pub ring: Ring,
    /// Sealing: the next counter.
    counter: u128,
    /// The ring stands where the traffic is.
    placed: bool,
    /// A packet whose key stream is gone is not asked for.
    drop_gone: bool,
}

/// First counter of an SA.
pub(super) fn first_counter(coming: Option<&Coming>) -> u128 {
    coming.map_or(0, |c| u128::from(c.next) * PER_PACKET)
}

impl Study {
    pub fn new(
        ring: Ring,
        (mac, kind): (Keyed, Mac),
        coming: Option<&Coming>,
        drop_gone: bool,
    ) -> Self {
        let nonce = coming.and_then(|c| c.base.first_chunk().copied()).unwrap_or_default();
        let counter = first_counter(coming);
        let placed = coming.is_some_and(|c| c.op == Op::Seal);
        Self { mac, icv_len: kind.icv_len(), nonce, ring, counter, placed, drop_gone }
    }

    /// The counter block of a counter.
    pub fn counter_block(&self, counter: u128) -> u128 {
        let low = counter & ((1 << COUNTER_BITS) - 1);
        u128::from(u32::from_be_bytes(self.nonce)) << COUNTER_BITS | low
    }

    /// Range of blocks to be made ahead; nothing until the position is known.
    pub fn wants(&mut self) -> Option<std::ops::Range<u128>> {
        if self.placed { self.ring.wants() } else { None }
    }

    /// A packet has arrived.
    pub fn admit<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        let text = wait.job.text;
        let [a, b, c, d, ..] = wait.job.nonce;
        if self.nonce != [a, b, c, d] && !self.placed {
            self.nonce = [a, b, c, d];
        }
        let iv = usize::from(text.start)..usize::from(text.start) + STUDY_IV;
        if usize::from(text.len) < STUDY_IV || wait.hashed(self.icv_len).is_none() {
            return Step::Done(Verdict::Failed);
        }
        let Some(iv) = wait.job.buf.as_mut().get_mut(iv).and_then(|iv| iv.first_chunk_mut()) else {
            return Step::Done(Verdict::Failed);
        };
        if wait.job.op == Op::Seal {
            *iv = (self.counter as u64).to_be_bytes();
            if !self.placed {
                self.ring.restart(self.counter);
                self.placed = true;
            }
            wait.at = Some(self.counter);
            self.counter += u128::from(wait.need);
            return self.step(wait);
        }
        let low = u64::from_be_bytes(*iv);
        let good = wait.hashed(self.icv_len).is_some_and(|parts| self.mac.check(&parts));
        if !good {
            return Step::Done(Verdict::BadIcv);
        }
        wait.proven = true;
        let counter = if self.placed { self.ring.recover(low) } else { low.into() };
        if !self.placed {
            self.ring.restart(counter);
            self.placed = true;
        }
        let range = counter..counter + u128::from(wait.need);
        let behind = range.end <= self.ring.low();
        if self.drop_gone && behind && self.ring.have(range) < usize::from(wait.need) {
            return Step::Done(Verdict::Gone);
        }
        wait.at = Some(counter);
        self.step(wait)
    }

    /// Takes the packet on with the key stream that is there.
    pub fn step<B: AsMut<[u8]>>(&mut self, wait: &mut Wait<B>) -> Step {
        let Some(at) = wait.at else { return Step::Done(Verdict::Failed) };
        let from = at + u128::from(wait.done);
        while wait.done < wait.need {
            let Some(stream) = self.ring.block(at + u128::from(wait.done)) else { break };
            wait.cover(STUDY_IV, stream);
        }
        let (here, end) = (at + u128::from(wait.done), at + u128::from(wait.need));
        if from < here {
            self.ring.used(from..here);
        }
        if here == end {
            return Step::Done(self.finish(wait));
        }
        if self.ring.expects(&(here..end)) { Step::Coming } else { Step::Ask }
    }

    /// Blocks that were asked for exactly have come: from this index on, counted
    /// as if the first block of text were 1.
    pub fn exact<B: AsMut<[u8]>>(
        &mut self,
        wait: &mut Wait<B>,
        first: u16,
        stream: &[Block],
    ) -> Step {
        for (index, block) in (first..).zip(stream) {
            if index == wait.done + 1 && wait.done < wait.need {
                wait.cover(STUDY_IV, block);
                if let Some(at) = wait.at {
                    let counter = at + u128::from(index) - 1;
                    self.ring.used(counter..counter + 1);
                }
            }
        }
        self.step(wait)
    }

    fn finish<B: AsMut<[u8]>>(&self, wait: &mut Wait<B>) -> Verdict {
        if wait.job.op == Op::Seal {
            let Some(parts) = wait.hashed(self.icv_len) else { return Verdict::Failed };
            self.mac.write(parts);
        }
        Verdict::Done
    }
}
