//! Jobs that a device has: the host's record of each, in order of submission.
//!
//! ```text
//!   slots   │ 0 kept │ 1 free │ 2 away │ 3 kept │ …
//!   oldest ───▶ 2 ──▶ 0 ──▶ 3 ◀─── newest        by when they were submitted
//! ```

use ferrule_base::Instant;
use ferrule_crypto::Job;

const NIL: u32 = u32::MAX;

/// A job whose buffer is here, or went to the device.
pub(super) type Kept<B> = Job<Option<B>>;

struct Slot<B> {
    /// Counts up whenever the slot is taken, so that a job that comes back twice, or out of
    /// an earlier life, finds nothing.
    life: u32,
    job: Option<Kept<B>>,
    since: Instant,
    older: u32,
    newer: u32,
}

/// The table of one queue pair, of a fixed size.
pub(super) struct Flying<B> {
    slots: Vec<Slot<B>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl<B> Flying<B> {
    pub fn new(depth: usize) -> Self {
        let slot = |_| Slot { life: 0, job: None, since: Instant::ZERO, older: NIL, newer: NIL };
        let slots = (0..depth).map(slot).collect();
        Self { slots, free: (0..depth as u32).rev().collect(), oldest: NIL, newest: NIL }
    }

    /// Jobs in it.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Keeps a job; the ticket by which it is found again. Nothing if it is full.
    pub fn insert(&mut self, now: Instant, job: Kept<B>) -> Option<u64> {
        let at = self.free.pop()?;
        let (older, slot) = (self.newest, &mut self.slots[at as usize]);
        slot.life = slot.life.wrapping_add(1);
        slot.job = Some(job);
        (slot.since, slot.older, slot.newer) = (now, older, NIL);
        let ticket = u64::from(slot.life) << 32 | u64::from(at);
        match older {
            NIL => self.oldest = at,
            older => self.slots[older as usize].newer = at,
        }
        self.newest = at;
        Some(ticket)
    }

    /// The job of a ticket, once.
    pub fn take(&mut self, ticket: u64) -> Option<Kept<B>> {
        let (at, life) = (ticket as u32, (ticket >> 32) as u32);
        let slot = self.slots.get_mut(at as usize).filter(|slot| slot.life == life)?;
        let job = slot.job.take()?;
        let (older, newer) = (slot.older, slot.newer);
        match older {
            NIL => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        self.free.push(at);
        Some(job)
    }

    /// Submission time of the oldest request.
    pub fn oldest(&self) -> Option<Instant> {
        self.slots.get(self.oldest as usize).map(|slot| slot.since)
    }

    /// The ticket of the oldest that `wanted` says.
    pub fn find(&self, wanted: impl Fn(&Kept<B>) -> bool) -> Option<u64> {
        let mut at = self.oldest;
        while let Some(slot) = self.slots.get(at as usize) {
            if slot.job.as_ref().is_some_and(&wanted) {
                return Some(u64::from(slot.life) << 32 | u64::from(at));
            }
            at = slot.newer;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;
    use ferrule_crypto::{Ad, KeyId, Op, Span, Verdict};

    fn job(ticket: u64) -> Kept<u8> {
        Job {
            buf: None,
            key: KeyId::default(),
            ticket,
            number: 0,
            nonce: [0; 12],
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::default()),
            text: Span::default(),
        }
    }

    #[test]
    fn the_oldest_job_is_known_whatever_comes_back_first() {
        let (mut flying, mut rng) = (Flying::new(16), Rng::new(1));
        let mut model: Vec<(u64, u64)> = Vec::new();
        for n in 0..2000 {
            if rng.below(2) == 0 && !flying.is_full() {
                model.push((flying.insert(Instant::from_nanos(n), job(n)).unwrap(), n));
            } else if !model.is_empty() {
                let (ticket, n) = model.remove(rng.below(model.len() as u64) as usize);
                assert_eq!(flying.take(ticket).map(|job| job.ticket), Some(n));
                assert!(flying.take(ticket).is_none(), "a job comes back once");
            }
            assert_eq!(flying.oldest().map(Instant::as_nanos), model.first().map(|m| m.1));
            assert_eq!(flying.find(|_| true), model.first().map(|m| m.0));
            assert_eq!((flying.len(), flying.is_full()), (model.len(), model.len() == 16));
        }
        assert!(flying.take(u64::MAX).is_none());
    }
}
