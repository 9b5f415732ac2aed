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
//! Packets of different SAs go together; only operation and length of the key are the
//! same. Jobs of a batch do not depend on each other, so that it does
//! not matter which is done first.

use super::lanes::Waiting;
use super::{Key, Made, parts};
use crate::accel::gcm::{self, LANES, Lane};
use crate::job::{Ad, Job, Op, Span, Verdict};
use crate::key::KeyId;
use crate::suite::Aes;
use crate::table::KeyTable;
use arrayvec::ArrayVec;
use std::{iter, slice};

/// Works through the pending jobs of a slice.
#[inline]
pub(super) fn run<B: AsMut<[u8]>>(keys: &KeyTable, jobs: &mut [Job<B>]) {
    let mut gcm = Groups::default();
    let mut cbc = Waiting::default();
    let mut jobs = jobs.iter_mut();
    while let Some(job) = jobs.as_slice().first() {
        if job.verdict != Verdict::Pending {
            jobs.next();
            continue;
        }
        match (job.key, job.op, keys.get(job.key).map(|key| &key.0)) {
            (id, op, Some(Made::Gcm(key))) => gcm.take(keys, &mut jobs, Run { id, op, key }),
            (.., made) => {
                if let Some(job) = jobs.next() {
                    other(made, job, &mut cbc);
                }
            }
        }
    }
    gcm.finish();
    cbc.finish();
}

/// What AES-GCM's kernels are not for.
#[inline(never)]
fn other<'a, B: AsMut<[u8]>>(made: Option<&'a Made>, job: &'a mut Job<B>, cbc: &mut Waiting<'a>) {
    match made {
        Some(Made::Cbc(key)) => cbc.push(key, job),
        Some(made) => {
            job.verdict = made.run(job.op, &job.nonce, job.ad, job.text, job.buf.as_mut());
        }
        None => job.verdict = Verdict::Failed,
    }
}

/// What waits for a kernel: by length of the key and operation.
#[derive(Default)]
struct Groups<'a>([ArrayVec<Lane<'a>, LANES>; 4]);

/// Jobs in a row that go to one kernel: their operation, and the key of the last.
struct Run<'a> {
    id: KeyId,
    op: Op,
    key: &'a gcm::Key,
}

impl<'a> Run<'a> {
    /// Whether a job goes the same way: with the same key, which is looked up once, or
    /// with another.
    #[inline(always)]
    fn has<B>(&mut self, keys: &'a KeyTable, job: &Job<B>) -> bool {
        job.op == self.op && (job.key == self.id || self.turn_to(keys, job.key))
    }

    /// Takes another key if it is of the same kind.
    #[inline(always)]
    fn turn_to(&mut self, keys: &'a KeyTable, id: KeyId) -> bool {
        match keys.get(id) {
            Some(Key(Made::Gcm(key))) if key.aes() == self.key.aes() => {
                (self.id, self.key) = (id, key);
                true
            }
            _ => false,
        }
    }

    /// Where they wait.
    fn place(&self) -> usize {
        let long = matches!(self.key.aes(), Aes::Aes256);
        usize::from(self.op == Op::Open) | usize::from(long) << 1
    }
}

impl<'a> Groups<'a> {
    /// Takes jobs as long as they go one way.
    #[inline(always)]
    fn take<B: AsMut<[u8]>>(
        &mut self,
        keys: &'a KeyTable,
        jobs: &mut slice::IterMut<'a, Job<B>>,
        mut run: Run<'a>,
    ) {
        let lanes = &mut self.0[run.place()];
        if lanes.is_full() {
            gcm::run(run.op, lanes);
            lanes.clear();
        }
        // `extend`, and not `push`: it keeps in a register how many there are.
        let room = lanes.remaining_capacity();
        let next = || loop {
            let job = jobs.as_slice().first()?;
            let pending = job.verdict == Verdict::Pending;
            if pending && !run.has(keys, job) {
                return None;
            }
            let job = jobs.next()?;
            if !pending {
                continue;
            }
            let Job { buf, nonce, verdict, ad, text, .. } = job;
            let Some(parts) = parts::Aead::cut(buf.as_mut(), ad, *text) else {
                *verdict = Verdict::Failed;
                continue;
            };
            let parts::Aead { ad, text, icv } = parts;
            return Some(Lane { key: run.key, nonce, ad, text, icv, verdict });
        };
        lanes.extend(iter::from_fn(next).take(room));
    }

    /// Works on all that wait.
    #[inline]
    fn finish(&mut self) {
        for (lanes, op) in self.0.iter_mut().zip([Op::Seal, Op::Open, Op::Seal, Op::Open]) {
            gcm::run(op, lanes);
        }
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
    let Some(parts) = parts::Aead::cut(buf, &ad, text) else { return Verdict::Failed };
    let parts::Aead { ad, text, icv } = parts;
    let mut verdict = Verdict::Failed;
    gcm::run(op, &mut [Lane { key, nonce, ad, text, icv, verdict: &mut verdict }]);
    verdict
}
