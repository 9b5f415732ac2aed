//! A batch of jobs, shared out: packets of one kind go to the kernel that takes
//! several of them at a time, all others one by one.
//!
//! ```text
//!   jobs   g G g x g c G g …          g, G: AES-GCM, seal and open; c: AES-CBC;
//!            │                         x: another
//!            ├─ g … g ─▶ all of the batch: in groups of four ─▶ kernel
//!            ├─ G … G ─▶ the same
//!            ├─ c … c ─▶ all of the batch: sixteen lanes ─────▶ kernels
//!            └─ x ─────▶ its own library
//! ```
//!
//! What the first job is decides what is picked out and done; then the same for those
//! that are left. Packets of different SAs go together; only operation and length of the
//! key are the same. Jobs of a batch do not depend on each other, so that it does
//! not matter which is done first.

use super::lanes::Waiting;
use super::{Key, Made, parts};
use crate::accel::gcm::{self, Group, Lane, Sealed, Source};
use crate::job::{Ad, Job, Op, Span, Verdict};
use crate::key::KeyId;
use crate::table::KeyTable;
use std::{iter, mem, slice};

/// Works through the pending jobs of a slice.
#[inline]
pub(super) fn run<B: AsMut<[u8]>>(keys: &KeyTable, jobs: &mut [Job<B>]) {
    while let Some(first) = jobs.iter().find(|job| job.verdict == Verdict::Pending) {
        let others = match keys.get(first.key) {
            Some(Key(Made::Gcm(key))) => {
                let mut kind = Kind {
                    op: first.op,
                    id: first.key,
                    key,
                    keys,
                    others: false,
                    jobs: jobs.iter_mut(),
                };
                gcm::run(kind.op, &mut kind);
                kind.others
            }
            _ => no_gcm(keys, jobs),
        };
        if !others {
            return;
        }
    }
}

/// Jobs that AES-GCM's kernels are not for; whether there are others.
#[inline(never)]
fn no_gcm<B: AsMut<[u8]>>(keys: &KeyTable, jobs: &mut [Job<B>]) -> bool {
    let mut cbc = Waiting::default();
    let mut others = false;
    for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
        match keys.get(job.key).map(|key| &key.0) {
            Some(Made::Gcm(_)) => others = true,
            Some(Made::Cbc(key)) => cbc.push(key, job),
            Some(made) => {
                job.verdict = made.run(job.op, &job.nonce, job.ad, job.text, job.buf.as_mut());
            }
            None => job.verdict = Verdict::Failed,
        }
    }
    cbc.finish();
    others
}

/// The jobs of a batch that go to a kernel together, and the key of the one before.
struct Kind<'a, B> {
    op: Op,
    id: KeyId,
    key: &'a gcm::Key,
    keys: &'a KeyTable,
    /// There were jobs of another kind.
    others: bool,
    jobs: slice::IterMut<'a, Job<B>>,
}

impl<'a, B> Kind<'a, B> {
    /// Whether a job is one of them, if it is not of the same key as the one before.
    #[inline(never)]
    fn takes(&mut self, job: &Job<B>) -> bool {
        if job.verdict != Verdict::Pending {
            return false;
        }
        match self.keys.get(job.key) {
            Some(Key(Made::Gcm(key))) if job.op == self.op && key.aes() == self.key.aes() => {
                (self.id, self.key) = (job.key, key);
                true
            }
            _ => {
                self.others = true;
                false
            }
        }
    }
}

/// Both as one number, which is one comparison for each packet.
#[inline(always)]
const fn state(op: Op, verdict: Verdict) -> u16 {
    u16::from_ne_bytes([op as u8, verdict as u8])
}

impl<'a, B: AsMut<[u8]>> Source<'a> for Kind<'a, B> {
    fn fill(&mut self, groups: &mut [Group<'a>]) {
        // In a register meanwhile.
        let mut jobs = mem::take(&mut self.jobs);
        let mut next = || {
            loop {
                let job = jobs.next()?;
                let same = state(job.op, job.verdict) == state(self.op, Verdict::Pending)
                    && job.key == self.id;
                if !same && !self.takes(job) {
                    continue;
                }
                let Job { buf, nonce, verdict, ad, text, .. } = job;
                let parts = parts::Aead::in_one(buf.as_mut(), ad, *text);
                match parts.and_then(|(ad, sealed)| Some((ad, Sealed::new(sealed)?))) {
                    Some((ad, sealed)) => {
                        return Some(Lane { key: self.key, nonce, ad, sealed, verdict });
                    }
                    None => *verdict = Verdict::Failed,
                }
            }
        };
        groups.iter_mut().for_each(|group| group.fill(&mut next));
        self.jobs = jobs;
    }
}

/// One packet.
#[inline]
pub(super) fn one(
    key: &gcm::Key,
    op: Op,
    nonce: &[u8; 12],
    ad: Ad,
    text: Span,
    buf: &mut [u8],
) -> Verdict {
    let mut verdict = Verdict::Failed;
    if let Some((ad, sealed)) = parts::Aead::in_one(buf, &ad, text)
        && let Some(sealed) = Sealed::new(sealed)
    {
        gcm::run(op, &mut iter::once(Lane { key, nonce, ad, sealed, verdict: &mut verdict }));
    }
    verdict
}
