//! A packet that waits for key stream.

use super::parts::{self, Hashed};
use super::vault::{BLOCK, Block};
use ferrule_base::Instant;
use ferrule_crypto::{Job, Op, Verdict};
use zeroize::Zeroize;

/// Octets of IV in front of the study mode's text.
pub(super) const STUDY_IV: usize = 8;

/// A job, and how far it has come.
pub(super) struct Wait<B> {
    pub job: Job<B>,
    /// Slot of the SA.
    pub sa: u32,
    /// Time of arrival.
    pub since: Instant,
    /// The packet number, or the first counter of the study mode; nothing while
    /// it is not known, or when no ring is to be asked.
    pub at: Option<u128>,
    /// The packet is outbound, or its ICV was right.
    pub proven: bool,
    /// E(J0) has come. Of a packet of ours it stands in the place of the ICV until that
    /// is made, of another's it is kept nowhere.
    pub j0: bool,
    /// Blocks of text that are done, from the first.
    pub done: u16,
    /// Blocks of text.
    pub need: u16,
    /// Key stream for it is under way, asked for exactly.
    pub asked: bool,
    /// The packet is counted among those that wait and may be forged.
    pub counted: bool,
}

/// Next step for a waiting packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// None: the packet is finished.
    Done(Verdict),
    /// Key stream that is coming without a request.
    Coming,
    /// Exactly its blocks.
    Ask,
}

impl<B: AsMut<[u8]>> Wait<B> {
    pub fn new(job: Job<B>, sa: u32, iv: usize, since: Instant) -> Self {
        let need = parts::blocks_of(usize::from(job.text.len).saturating_sub(iv)) as u16;
        let proven = job.op == Op::Seal;
        let (j0, asked, counted) = (false, false, false);
        Self { job, sa, since, at: None, proven, j0, done: 0, need, asked, counted }
    }

    /// The job, with its result.
    pub fn into_job(mut self, verdict: Verdict) -> Job<B> {
        self.job.verdict = verdict;
        self.job
    }

    /// Key stream for the next block of text.
    pub fn cover(&mut self, iv: usize, stream: &Block) {
        let start = usize::from(self.job.text.start) + iv;
        let end = self.job.text.end();
        if let Some(text) = self.job.buf.as_mut().get_mut(start..end) {
            parts::cover(text, self.done.into(), stream);
        }
        self.done += 1;
    }

    /// The study mode's buffer.
    pub fn hashed(&mut self, icv_len: usize) -> Option<Hashed<'_>> {
        Hashed::cut(&mut self.job, icv_len)
    }

    /// Abandons the packet: a half-made text is wiped, so that neither it nor key stream
    /// leaves.
    pub fn give_up(&mut self) {
        if self.j0
            && self.job.op == Op::Seal
            && let Some((_, _, icv)) = parts::aead(&mut self.job)
        {
            icv.zeroize();
        }
        if self.done == 0 {
            return;
        }
        let range = self.job.text.range();
        if let Some(text) = self.job.buf.as_mut().get_mut(range) {
            text.zeroize();
        }
    }

    /// Blocks that an exact question has to bring: the index of the first (0 is
    /// E(J0), 1 the first of the text), and one past the last. Of a packet that
    /// may be forged no more than E(J0).
    pub fn missing(&self, plain: bool) -> (u16, u16) {
        let all = self.need + 1;
        match (self.j0 || !plain, self.proven) {
            (true, _) => (self.done + 1, all),
            (false, true) => (0, all),
            (false, false) => (0, 1),
        }
    }
}

const _: () = assert!(u16::MAX as usize / BLOCK < u16::MAX as usize - 1);
