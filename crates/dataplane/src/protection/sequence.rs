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

/// Numbers reserved at a time unless something else is asked for: at most this
/// many are skipped by a restart.
pub const RESERVE: u64 = 1 << 20;

/// The fewest at a time: stages look every 64 numbers, or once a batch, whether the
/// range runs low, so that a smaller one would be used up unseen.
pub const RESERVE_MIN: u64 = 256;

/// The right to take numbers out of a record on stable storage. Of one record only
/// the newest lease is ever extended: two SAs that have one key, one of which is about
/// to go, never take from the same range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The fingerprint of what makes the nonces.
    pub record: [u8; 16],
    /// Which lease it is; 0: of numbers that nobody keeps.
    pub number: u32,
}

/// A source of numbers, each given out once, in order.
#[derive(Debug)]
#[repr(C)]
pub struct Sequence {
    next: u64,
    limit: u64,
    max: u64,
    step: u32,
    asked: bool,
    lease: Lease,
}

impl Sequence {
    /// Numbers from `first` to `limit` are reserved; none above `max` exists.
    pub const fn new(first: u64, limit: u64, max: u64) -> Self {
        let limit = if limit < max { limit } else { max };
        let lease = Lease { record: [0; 16], number: 0 };
        Self { next: first, limit, max, step: RESERVE as u32, asked: false, lease }
    }

    /// The same, with so many reserved at a time: within [`RESERVE_MIN`] and
    /// [`RESERVE`].
    pub fn in_steps_of(self, step: u64) -> Self {
        Self { step: step.clamp(RESERVE_MIN, RESERVE) as u32, ..self }
    }

    /// The same, taken by this lease.
    pub const fn by(self, lease: Lease) -> Self {
        Self { lease, ..self }
    }

    /// By what right its numbers are taken.
    pub const fn lease(&self) -> Lease {
        self.lease
    }

    /// All numbers from `first` to `max`: for keys that die with the process.
    pub const fn unlimited(first: u64, max: u64) -> Self {
        Self::new(first, max, max)
    }

    /// The next number; nothing when the reserved range is used up.
    #[inline]
    pub const fn take(&mut self) -> Option<u64> {
        if self.next > self.limit {
            return None;
        }
        let number = self.next;
        self.next += 1;
        Some(number)
    }

    /// The number that [`take`](Self::take) would give.
    pub const fn peek(&self) -> u64 {
        self.next
    }

    /// The last number that the protocol has.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Whether the protocol has no numbers left: only a new key helps.
    pub const fn is_exhausted(&self) -> bool {
        self.next > self.max
    }

    /// The limit to reserve now, once half of the range is used: asked for once.
    #[inline]
    pub const fn wants(&mut self) -> Option<u64> {
        let step = self.step as u64;
        if self.asked || self.limit == self.max {
            return None;
        }
        if self.limit.saturating_sub(self.next) > step / 2 {
            return None;
        }
        self.asked = true;
        let wanted = self.next.saturating_add(step - 1);
        Some(if wanted < self.max { wanted } else { self.max })
    }

    /// Nobody heard what was [wanted](Self::wants): it is said again.
    pub const fn ask_again(&mut self) {
        self.asked = false;
    }

    /// Raises the limit to what is now on stable storage. It never falls.
    pub const fn extend(&mut self, limit: u64) {
        let limit = if limit < self.max { limit } else { self.max };
        if limit > self.limit {
            self.limit = limit;
        }
        self.asked = false;
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
    fn numbers_end_where_the_protocol_ends() {
        let mut s = Sequence::unlimited(u64::from(u32::MAX), u64::from(u32::MAX));
        assert_eq!(s.wants(), None);
        assert_eq!((s.take(), s.take()), (Some(u64::from(u32::MAX)), None));
        assert!(s.is_exhausted());
        let mut s = Sequence::unlimited(u64::MAX - 1, u64::MAX - 1);
        assert_eq!((s.take(), s.take()), (Some(u64::MAX - 1), None));
    }
}
