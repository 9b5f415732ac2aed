//! The numbers that an outbound SA may still use.
//!
//! Sequence numbers (ESP) and packet numbers (MACsec) make nonces; one that is
//! used twice under a counter-mode key gives the key stream away. So a
//! [`Sequence`] belongs to one SA, cannot be cloned, and hands each number out
//! once. Where a key outlives the process, numbers are *reserved* first: the
//! control part writes a limit to stable storage, and only then raises it here.
//!
//! ```text
//!   used ───────▶ next        limit (on disk)          max (of the protocol)
//!   1 2 3 … 4711 │4712 … … … │ not to be used yet     │ rekey before here
//! ```
//!
//! Several SAs of one key, one in each worker, [share](Sequence::share) one range: each
//! takes a few numbers at a time, and gives up those that others have left too far behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Numbers reserved at a time unless something else is asked for: at most this
/// many are skipped by a restart.
pub const RESERVE: u64 = 1 << 20;

/// The fewest at a time: stages look every 64 numbers, or once a batch, whether the
/// range runs low, so that a smaller one would be used up unseen.
pub const RESERVE_MIN: u64 = 256;

/// Numbers that one of several workers takes at a time: as many as window and range allow.
const CHUNK_MIN: u64 = 16;
const CHUNK_MAX: u64 = 1024;

/// Packets of the other end's replay window for each worker that shares numbers, at least:
/// so many may be under way in each, in half of the window.
pub const WINDOW_EACH: u32 = 512;

/// The right to take numbers out of a record on stable storage. Of one record only
/// the newest lease is ever extended: two SAs that have one key, one of which is about
/// to go, never take from the same range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The fingerprint of the key and of the nonces' constant part.
    pub record: [u8; 16],
    /// Number of the lease; 0 if its numbers are not recorded.
    pub number: u32,
}

/// The range that several sequences take from.
#[derive(Debug)]
#[repr(align(64))]
struct Common {
    next: AtomicU64,
    limit: AtomicU64,
    asked: AtomicBool,
}

/// The part that one of them has.
#[derive(Debug)]
struct Share {
    common: Arc<Common>,
    next: u64,
    end: u64,
    /// Numbers taken at a time.
    chunk: u64,
    /// Lead that the others may have, limited by the other end's window; nothing: any.
    behind: Option<u64>,
}

impl Share {
    fn take(&mut self) -> Option<u64> {
        if self.next == self.end || self.behind.is_some_and(|most| self.lags(most)) {
            let (mut end, chunk) = (0, self.chunk);
            let more = |first: u64| {
                let limit = self.common.limit.load(Ordering::Acquire);
                end = first.saturating_add(chunk).min(limit.saturating_add(1));
                (first <= limit).then_some(end)
            };
            let (order, next) = (Ordering::Relaxed, &self.common.next);
            self.next = next.fetch_update(order, order, more).ok()?;
            self.end = end;
        }
        let number = self.next;
        self.next += 1;
        Some(number)
    }

    /// True if others are further ahead than this.
    fn lags(&self, most: u64) -> bool {
        self.common.next.load(Ordering::Relaxed) - self.next > most
    }
}

/// A source of numbers, each given out once, in order.
#[derive(Debug)]
#[repr(C)]
pub struct Sequence {
    /// With a share beyond the limit, so that it is asked.
    next: u64,
    limit: u64,
    max: u64,
    step: u32,
    asked: bool,
    lease: Lease,
    share: Option<Box<Share>>,
}

impl Sequence {
    /// Numbers from `first` to `limit` are reserved; none above `max` exists.
    pub const fn new(first: u64, limit: u64, max: u64) -> Self {
        let limit = if limit < max { limit } else { max };
        let lease = Lease { record: [0; 16], number: 0 };
        Self { next: first, limit, max, step: RESERVE as u32, asked: false, lease, share: None }
    }

    /// The same, with so many reserved at a time: within [`RESERVE_MIN`] and
    /// [`RESERVE`].
    pub fn in_steps_of(self, step: u64) -> Self {
        Self { step: step.clamp(RESERVE_MIN, RESERVE) as u32, ..self }
    }

    /// The same, taken by this lease.
    pub fn by(self, lease: Lease) -> Self {
        Self { lease, ..self }
    }

    /// The same for so many SAs of the same key, one in each worker. None sends a number
    /// that is more than half of the other end's replay `window` behind; 0: that has none.
    pub fn share(self, workers: usize, window: u32) -> Vec<Self> {
        let Self { next, limit, max, step, lease, .. } = self;
        let (from, to, asked) =
            (AtomicU64::new(next), AtomicU64::new(limit), AtomicBool::new(false));
        let common = Arc::new(Common { next: from, limit: to, asked });
        let each = |all: u64| all / 4 / workers.max(1) as u64;
        let behind = (window > 0).then_some(u64::from(window / 2));
        let most = if window > 0 { each(window.into()) } else { CHUNK_MAX };
        let chunk = most.min(each(step.into())).clamp(CHUNK_MIN, CHUNK_MAX);
        let one = |_| {
            let share = Share { common: common.clone(), next: 0, end: 0, chunk, behind };
            let (next, limit, share) = (1, 0, Some(Box::new(share)));
            Self { next, limit, max, step, asked: false, lease, share }
        };
        (0..workers).map(one).collect()
    }

    /// The lease under which its numbers are taken.
    pub const fn lease(&self) -> Lease {
        self.lease
    }

    /// Every number from `first` to `max`: for keys that die with the process.
    pub const fn unlimited(first: u64, max: u64) -> Self {
        Self::new(first, max, max)
    }

    /// The next number; nothing when the reserved range is used up.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        if self.next > self.limit {
            return self.take_shared();
        }
        let number = self.next;
        self.next += 1;
        Some(number)
    }

    #[inline(never)]
    fn take_shared(&mut self) -> Option<u64> {
        self.share.as_mut()?.take()
    }

    /// The number that [`take`](Self::take) would give; of a shared range the first that is
    /// not taken.
    pub fn peek(&self) -> u64 {
        self.range().0
    }

    /// First number that is not taken, and the last that is reserved.
    fn range(&self) -> (u64, u64) {
        match &self.share {
            Some(share) => {
                let Common { next, limit, .. } = &*share.common;
                (next.load(Ordering::Relaxed), limit.load(Ordering::Relaxed))
            }
            None => (self.next, self.limit),
        }
    }

    /// The last number that the protocol has.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// True if the protocol has no numbers left: only a new key helps.
    pub fn is_exhausted(&self) -> bool {
        self.peek() > self.max
    }

    /// The limit to reserve now, once half of the range is used: asked for once.
    #[inline]
    pub fn wants(&mut self) -> Option<u64> {
        let (step, (next, limit)) = (u64::from(self.step), self.range());
        if self.asked || limit == self.max || limit.saturating_sub(next) > step / 2 {
            return None;
        }
        let asked = match &self.share {
            Some(share) => share.common.asked.swap(true, Ordering::Relaxed),
            None => std::mem::replace(&mut self.asked, true),
        };
        let wanted = next.saturating_add(step - 1).min(self.max);
        (!asked).then_some(wanted)
    }

    /// The request of [`wants`](Self::wants) was lost: it is to be made again.
    pub fn ask_again(&mut self) {
        self.asked = false;
        if let Some(share) = &self.share {
            share.common.asked.store(false, Ordering::Relaxed);
        }
    }

    /// Raises the limit to the one that is now on stable storage. It never falls.
    pub fn extend(&mut self, limit: u64) {
        let limit = limit.min(self.max);
        match &self.share {
            Some(share) => _ = share.common.limit.fetch_max(limit, Ordering::Release),
            None => self.limit = self.limit.max(limit),
        }
        self.ask_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice_nor_beyond_what_is_reserved() {
        let mut s = Sequence::new(1, 3, u64::MAX - 1);
        assert_eq!([s.take(), s.take(), s.take(), s.take()], [Some(1), Some(2), Some(3), None]);
        let wanted = s.wants().unwrap();
        assert_eq!((wanted, s.wants()), (3 + RESERVE, None), "asked for once");
        s.extend(2);
        assert_eq!(s.take(), None, "a limit never falls");
        s.extend(wanted);
        assert_eq!(s.take(), Some(4));
        assert_eq!(s.wants(), None, "not before half of it is used");
    }

    #[test]
    fn reserved_in_small_steps_no_more_than_one_step_is_ever_skipped() {
        let step = RESERVE_MIN;
        let mut s = Sequence::new(1, step, u64::from(u32::MAX)).in_steps_of(step);
        for number in 1..=20 * step {
            assert_eq!(s.take(), Some(number));
            if let Some(limit) = s.wants() {
                assert!(limit - number <= step, "{limit} is asked for at {number}");
                s.extend(limit);
            }
        }
        let mut s = Sequence::new(1, 2, u64::MAX - 1).in_steps_of(0);
        assert_eq!(s.wants(), Some(RESERVE_MIN), "no fewer at a time");
        let mut s = Sequence::new(1, 2, u64::MAX - 1).in_steps_of(u64::MAX);
        assert_eq!(s.wants(), Some(RESERVE), "and no more");
    }

    #[test]
    fn workers_that_share_a_range_use_each_number_once_and_none_that_is_not_reserved() {
        let lease = Lease { record: [7; 16], number: 3 };
        let all = Sequence::new(1, 1000, 1 << 40).in_steps_of(1000).by(lease).share(4, 0);
        let take = |mut s: Sequence| {
            let mut own: Vec<u64> = Vec::new();
            for _ in 0..20_000 {
                // As the control part does it, with a store that is never late.
                if let Some(limit) = s.wants() {
                    s.extend(limit);
                }
                own.extend(s.take());
            }
            let (limit, lease) = (s.range().1, s.lease());
            (own, limit, lease)
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = all.into_iter().map(|s| scope.spawn(move || take(s))).collect();
            threads.into_iter().map(|t| t.join().expect("nobody panics")).collect()
        });
        let limit = found.iter().map(|one| one.1).max().unwrap();
        assert!(found.iter().all(|one| one.2 == lease && one.0.is_sorted()));
        let mut numbers: Vec<u64> = found.into_iter().flat_map(|one| one.0).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "none twice");
        assert!(count > 1000 && numbers[count - 1] <= limit);
    }

    #[test]
    fn a_worker_that_was_idle_gives_up_numbers_that_the_window_has_left() {
        let mut all = Sequence::new(1, 500, 500).share(2, 512);
        let (mut a, mut b) = (all.remove(0), all.remove(0));
        assert_eq!((a.take(), b.take(), a.take()), (Some(1), Some(65), Some(2)));
        for number in 66..=128 {
            assert_eq!(b.take(), Some(number));
        }
        assert_eq!((a.take(), b.take()), (Some(3), Some(129)));
        for _ in 0..64 {
            b.take();
        }
        assert_eq!((a.take(), a.peek()), (Some(4), 257), "253 behind");
        for _ in 0..64 {
            b.take();
        }
        assert_eq!((a.take(), a.peek()), (Some(321), 385), "5 is too old");
        let rest = std::iter::from_fn(|| b.take().or_else(|| a.take()));
        assert_eq!(rest.last(), Some(384), "b's end first, then what a has");
        assert_eq!((a.take(), a.is_exhausted(), b.wants()), (None, true, None));
    }

    #[test]
    fn numbers_end_where_the_protocol_ends() {
        let mut s = Sequence::unlimited(u64::from(u32::MAX), u64::from(u32::MAX));
        assert_eq!(s.wants(), None);
        assert_eq!((s.take(), s.take()), (Some(u64::from(u32::MAX)), None));
        assert!(s.is_exhausted());
        let mut s = Sequence::unlimited(u64::MAX - 1, u64::MAX - 1);
        assert_eq!((s.take(), s.take()), (Some(u64::MAX - 1), None));
    }
}
