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

/// Works through the pending jobs of a slice.
#[inline]
pub(super) fn run<B: AsMut<[u8]>>(keys: &KeyTable, jobs: &mut [Job<B>]) {
    let mut gcm = Groups::default();
    let mut cbc = Waiting::default();
    // A run of packets of one SA looks its key up once.
    let mut last: Option<(KeyId, Option<&Key>)> = None;
    for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
        let key = match last {
            Some((id, key)) if id == job.key => key,
            _ => keys.get(job.key),
        };
        last = Some((job.key, key));
        match key.map(|key| &key.0) {
            Some(Made::Gcm(key)) => gcm.push(key, job),
            Some(Made::Cbc(key)) => cbc.push(key, job),
            Some(made) => {
                job.verdict = made.run(job.op, &job.nonce, job.ad, job.text, job.buf.as_mut());
            }
            None => job.verdict = Verdict::Failed,
        }
    }
    gcm.finish();
    cbc.finish();
}

/// What waits for a kernel: by length of the key and operation.
#[derive(Default)]
struct Groups<'a>([ArrayVec<Lane<'a>, LANES>; 4]);

/// The place in [`Groups`].
#[inline(always)]
const fn place(op: Op, aes: Aes) -> usize {
    matches!(op, Op::Open) as usize | (matches!(aes, Aes::Aes256) as usize) << 1
}

impl<'a> Groups<'a> {
    #[inline(always)]
    fn push<B: AsMut<[u8]>>(&mut self, key: &'a gcm::Key, job: &'a mut Job<B>) {
        let Job { buf, nonce, op, verdict, ad, text, .. } = job;
        let Some(parts) = parts::Aead::cut(buf.as_mut(), ad, *text) else {
            *verdict = Verdict::Failed;
            return;
        };
        let parts::Aead { ad, text, icv } = parts;
        let lanes = &mut self.0[place(*op, key.aes())];
        if lanes.is_full() {
            gcm::run(*op, lanes);
            lanes.clear();
        }
        lanes.push(Lane { key, nonce, ad, text, icv, verdict });
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
