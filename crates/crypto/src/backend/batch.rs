//! A batch of jobs, shared out: packets of one kind go to the kernel that takes
//! several of them at a time, all others one by one.
//!
//! ```text
//!   jobs   g G g x g c G g …          g, G: AES-GCM, seal and open; c: AES-CBC;
//!            │                         x: another
//!            ├─ g g g g ─▶ group of four ─▶ kernel
//!            ├─ G G ─────▶ less than four: when the batch is at its end
//!            ├─ c … c ───▶ all of the batch: sixteen lanes ─▶ kernels
//!            └─ x ───────▶ its own library
//! ```
//!
//! Packets of different SAs stand in one group; only operation and length of the
//! key are the same. Jobs of a batch do not depend on each other, so that it does
//! not matter which is done first.

use super::lanes::Waiting;
use super::{Key, Made, parts};
use crate::accel::gcm::{self, GROUP, Lane};
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

/// Groups that fill: by operation and length of the key.
#[derive(Default)]
struct Groups<'a>([ArrayVec<Lane<'a>, GROUP>; 4]);

impl<'a> Groups<'a> {
    #[inline]
    fn push<B: AsMut<[u8]>>(&mut self, key: &'a gcm::Key, job: &'a mut Job<B>) {
        let Job { buf, nonce, op, verdict, ad, text, .. } = job;
        let Some(parts) = parts::Aead::cut(buf.as_mut(), ad, *text) else {
            *verdict = Verdict::Failed;
            return;
        };
        let parts::Aead { ad, text, icv } = parts;
        let [seal_128, open_128, seal_256, open_256] = &mut self.0;
        let group = match (*op, key.aes()) {
            (Op::Seal, Aes::Aes128) => seal_128,
            (Op::Open, Aes::Aes128) => open_128,
            (Op::Seal, Aes::Aes256) => seal_256,
            (Op::Open, Aes::Aes256) => open_256,
        };
        group.push(Lane { key, nonce, ad, text, icv, verdict });
        if group.is_full() {
            gcm::run(*op, group);
            group.clear();
        }
    }

    /// Works on what is left in groups that did not fill.
    #[inline]
    fn finish(mut self) {
        for (group, op) in self.0.iter_mut().zip([Op::Seal, Op::Open, Op::Seal, Op::Open]) {
            if !group.is_empty() {
                gcm::run(op, group);
            }
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
