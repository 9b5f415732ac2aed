//! A batch of jobs, shared out: packets of one kind go to the kernel that takes
//! several of them at a time, all others one by one.
//!
//! ```text
//!   jobs   g G g x g c G g …          g, G: AES-GCM, seal and open; c: AES-CBC;
//!            │                         x: another
//!            ├─ g … g ─▶ by length, in groups of four ─▶ kernel
//!            ├─ G … G ─▶ the same
//!            ├─ c … c ─▶ sixteen lanes ────────────────▶ kernels
//!            └─ x ─────▶ its own library
//! ```
//!
//! First each job's key is found, and the lengths by which jobs are put in order. All else
//! of a job is read when its turn comes: the computation of its bounds then goes on beside
//! the kernel, which has use for other parts of the processor. Packets of different SAs go
//! together; only operation and length of the key are the same. Jobs of a batch do not
//! depend on each other, so their order does not matter.

use super::lanes::Waiting;
use super::{Key, Made, parts};
use crate::accel::gcm::{self, Group, Lane, Sealed, Source};
use crate::accel::order::{Order, Set, Walk};
use crate::engine::BATCH;
use crate::job::{Ad, Job, Op, Span, Task, Verdict};
use crate::table::KeyTable;
use std::{iter, mem};

/// Works through the pending jobs of a slice, of which each goes with an element of another
/// one; `task` makes one thing of both.
#[inline]
pub(super) fn run<A, B>(
    keys: &KeyTable,
    jobs: &mut [Job<A>],
    beside: &mut [B],
    task: impl for<'a> Fn(&'a mut Job<A>, &'a mut B) -> Task<'a> + Copy,
) {
    for (jobs, beside) in jobs.chunks_mut(BATCH).zip(beside.chunks_mut(BATCH)) {
        let count = jobs.len().min(beside.len());
        let mut found = Found::default();
        let others = found.note(keys, &jobs[..count]);
        if !found.gcm.is_empty() {
            found.run(jobs, beside, task);
        }
        if !others.is_empty() {
            run_others(keys, others, jobs.iter_mut().zip(beside).map(|(j, b)| task(j, b)));
        }
    }
}

/// AES-GCM jobs of a batch.
struct Found<'a> {
    gcm: Set,
    keys: [Option<&'a gcm::Key>; BATCH],
    /// Sort octets of the jobs.
    sorts: [u8; BATCH],
}

impl Default for Found<'_> {
    #[inline(always)]
    fn default() -> Self {
        Self { gcm: Set::default(), keys: [None; BATCH], sorts: [0; BATCH] }
    }
}

impl<'a> Found<'a> {
    /// Notes the keys of the pending jobs that the AES-GCM kernel takes; returns the set of
    /// the other pending jobs.
    #[inline(always)]
    fn note<A>(&mut self, keys: &'a KeyTable, jobs: &[Job<A>]) -> Set {
        const WORD: usize = u64::BITS as usize;
        let mut other = [0; BATCH / WORD];
        let places = self.keys.chunks_mut(WORD).zip(self.sorts.chunks_mut(WORD));
        let words = self.gcm.0.iter_mut().zip(&mut other);
        for (((places, sorts), jobs), (gcm, other)) in places.zip(jobs.chunks(WORD)).zip(words) {
            // In registers meanwhile.
            let (mut own, mut bit) = (0, 1_u64);
            for ((place, sort), job) in places.iter_mut().zip(sorts).zip(jobs) {
                if job.is_pending() {
                    if let Some(Key(Made::Gcm(key))) = keys.get(job.key) {
                        (*place, *sort) = (Some(key), key.sort(job.op, job.text.len));
                        own |= bit;
                    } else {
                        *other |= bit;
                    }
                }
                bit <<= 1;
            }
            *gcm = own;
        }
        Set(other)
    }

    /// Works through those that were noted.
    #[inline(always)]
    fn run<A, B>(
        &self,
        jobs: &mut [Job<A>],
        beside: &mut [B],
        task: impl for<'b> Fn(&'b mut Job<A>, &'b mut B) -> Task<'b> + Copy,
    ) {
        let order = Order::new(&self.sorts, self.gcm);
        let kind = |number: u8| self.sorts[number as usize] >> gcm::KIND;
        let mut walk = order.walk(jobs, beside);
        while let Some(first) = walk.numbers().first().map(|&number| kind(number)) {
            let same = walk.numbers().partition_point(|&number| kind(number) == first);
            let op = if first & 2 == 0 { Op::Seal } else { Op::Open };
            gcm::run(op, &mut Feed { walk: walk.front(same), keys: &self.keys, task });
        }
    }
}

/// Jobs for one call of a kernel, with their keys.
struct Feed<'a, A, B, F> {
    walk: Walk<'a, Job<A>, B>,
    keys: &'a [Option<&'a gcm::Key>; BATCH],
    task: F,
}

impl<'a, A, B, F> Source<'a> for Feed<'a, A, B, F>
where
    F: Fn(&'a mut Job<A>, &'a mut B) -> Task<'a>,
{
    fn fill(&mut self, groups: &mut [Group<'a>]) {
        // In registers meanwhile.
        let mut walk = mem::take(&mut self.walk);
        let mut next = || {
            loop {
                let (number, job, beside) = walk.next()?;
                let Task { buf, nonce, verdict, ad, text, .. } = (self.task)(job, beside);
                let parts = parts::Aead::in_one(buf, ad, text);
                let parts = parts.and_then(|(ad, sealed)| Some((ad, Sealed::new(sealed)?)));
                match (self.keys.get(number), parts) {
                    (Some(&Some(key)), Some((ad, sealed))) => {
                        return Some(Lane { key, nonce, ad, sealed, verdict });
                    }
                    _ => *verdict = Verdict::Failed,
                }
            }
        };
        groups.iter_mut().for_each(|group| group.fill(&mut next));
        self.walk = walk;
    }
}

/// Jobs of a batch that AES-GCM's kernels are not for.
#[inline(never)]
fn run_others<'a>(keys: &'a KeyTable, others: Set, tasks: impl Iterator<Item = Task<'a>>) {
    let mut cbc = Waiting::default();
    for (_, task) in tasks.enumerate().filter(|(number, _)| others.has(*number)) {
        match keys.get(task.key).map(|key| &key.0) {
            Some(Made::Cbc(key)) => cbc.push(key, task),
            Some(made) => {
                let Task { buf, nonce, op, verdict, ad, text, .. } = task;
                *verdict = made.run(op, nonce, *ad, text, buf);
            }
            None => *task.verdict = Verdict::Failed,
        }
    }
    cbc.finish();
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
