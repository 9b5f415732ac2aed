//! Order in which the frames of a stream arrived: reordering with its extent (RFC 4737 sections 3
//! and 4.2), duplicates, and frames too late to be told apart.
//!
//! ```text
//!   sent      1 2 3 4 5 6 7
//!   arrived   1 3 4 5 2 6 7      2 is reordered, by 3: frame 3 came first of
//!                   '-extent     those after it, three places before it
//! ```
//!
//! Memory is bounded: a bitmap of the last [`WINDOW`] numbers says what is a
//! duplicate, and the last [`GAPS`] gaps say how far a late frame is late.

use crate::record;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Numbers below the highest one for which it is known whether they arrived.
pub const WINDOW: u64 = 1 << 16;
/// Gaps that are remembered.
pub const GAPS: usize = 1024;
/// Extents counted one by one; larger ones together.
pub const EXTENTS: usize = 64;

/// Classification of a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Later than all before it; right behind the frame before it or not.
    InOrder {
        /// No frame is missing in front of it.
        follows: bool,
    },
    /// A later one came before it, so many places ago (nothing: it is too long
    /// ago to say).
    Reordered(Option<u64>),
    /// A frame with this number has arrived before.
    Duplicate,
    /// More than [`WINDOW`] frames behind: late, or a duplicate.
    Stale,
}

/// Missing numbers, and when (counted in arrivals) the frame behind them came.
#[derive(Clone, Copy, Debug)]
struct Gap {
    last: u64,
    first: u64,
    arrival: u64,
}

/// The order of one stream.
#[derive(Clone, Debug)]
pub struct Order {
    /// The next number if nothing is missing (NextExp of RFC 4737).
    next: u64,
    /// Frames that arrived, duplicates not counted.
    arrivals: u64,
    seen: Box<[u64]>,
    gaps: VecDeque<Gap>,
    /// The last number that never came among those that the bitmap has left behind.
    gone: Option<u64>,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            next: 0,
            arrivals: 0,
            seen: vec![0; (WINDOW / 64) as usize].into(),
            gaps: VecDeque::with_capacity(GAPS),
            gone: None,
        }
    }
}

impl Order {
    /// The whole number of which the low 32 bits arrived: the nearest to what is
    /// expected.
    #[inline]
    const fn whole(&self, sequence: u32) -> Option<u64> {
        let ahead = sequence.wrapping_sub(self.next as u32) as i32 as i64;
        self.next.checked_add_signed(ahead)
    }

    /// The word and bit of a number.
    #[inline]
    fn bit(&mut self, number: u64) -> (&mut u64, u64) {
        let word = (number % WINDOW / 64) as usize;
        (&mut self.seen[word], 1 << (number % 64))
    }

    /// A frame arrived.
    #[inline]
    pub fn arrive(&mut self, sequence: u32) -> Arrival {
        let Some(number) = self.whole(sequence) else { return Arrival::Stale };
        if number < self.next {
            return self.late(number);
        }
        let follows = number == self.next;
        if follows {
            // The common case: its word is cleared when its first bit is used.
            if number.is_multiple_of(64) {
                self.enter(number / 64);
            }
        } else {
            self.skip_to(number);
        }
        let (word, bit) = self.bit(number);
        *word |= bit;
        self.next = number + 1;
        self.arrivals += 1;
        Arrival::InOrder { follows }
    }

    /// Numbers before `number` are missing.
    #[cold]
    fn skip_to(&mut self, number: u64) {
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        let (first, last) = (self.next, number - 1);
        self.gaps.push_back(Gap { first, last, arrival: self.arrivals });
        if number - first >= WINDOW {
            self.seen.fill(0);
            // The bitmap begins inside the gap.
            self.gone = ((number / 64 + 1).saturating_sub(WINDOW / 64) * 64).checked_sub(1);
            return;
        }
        // Clear the words that are entered, up to that of `number`.
        let mut word = first.div_ceil(64);
        while word <= number / 64 {
            self.enter(word);
            word += 1;
        }
    }

    /// A word of the bitmap becomes that of new numbers.
    #[inline]
    fn enter(&mut self, word: u64) {
        let (place, _) = self.bit(word * 64);
        let old = std::mem::take(place);
        if old != u64::MAX {
            self.leave(word, old);
        }
    }

    /// Numbers of which some never came are left behind.
    #[cold]
    fn leave(&mut self, word: u64, seen: u64) {
        if let Some(word) = word.checked_sub(WINDOW / 64) {
            self.gone = Some(word * 64 + 63 - u64::from((!seen).leading_zeros()));
        }
    }

    /// The next number if nothing is missing.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The highest number before the next that has not arrived, if one has not.
    pub fn last_missing(&self) -> Option<u64> {
        let last = self.next.checked_sub(1)? / 64;
        // Of the last word, only what is before the next number.
        let mut valid = u64::MAX >> (63 - (self.next - 1) % 64);
        for word in (last.saturating_sub(WINDOW / 64 - 1)..=last).rev() {
            let seen = self.seen.get((word % (WINDOW / 64)) as usize).copied().unwrap_or(u64::MAX);
            let missing = !seen & valid;
            if missing != 0 {
                return Some(word * 64 + 63 - u64::from(missing.leading_zeros()));
            }
            valid = u64::MAX;
        }
        self.gone
    }

    #[cold]
    fn late(&mut self, number: u64) -> Arrival {
        // The word of the number in front may have been cleared already.
        if self.next - number > WINDOW - 64 {
            return Arrival::Stale;
        }
        let (word, bit) = self.bit(number);
        if *word & bit != 0 {
            return Arrival::Duplicate;
        }
        *word |= bit;
        let arrivals = self.arrivals;
        self.arrivals += 1;
        // The first frame to arrive with a higher number made the gap.
        let at = self.gaps.partition_point(|gap| gap.last < number);
        let gap = self.gaps.get(at).filter(|gap| gap.first <= number);
        Arrival::Reordered(gap.map(|gap| arrivals - gap.arrival))
    }
}

/// Counts of extents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// Number of frames that were late by so many places (the first stands for none).
    #[serde(with = "record::counters")]
    pub counts: [u64; EXTENTS],
    /// Late by more.
    pub beyond: u64,
    /// Too long ago to say.
    pub unknown: u64,
    /// The largest.
    pub max: u64,
    sum: u64,
}

impl Default for Extents {
    fn default() -> Self {
        Self { counts: [0; EXTENTS], beyond: 0, unknown: 0, max: 0, sum: 0 }
    }
}

impl Extents {
    /// Counts one.
    pub fn record(&mut self, extent: Option<u64>) {
        let Some(extent) = extent else {
            self.unknown += 1;
            return;
        };
        match self.counts.get_mut(extent as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
        self.max = self.max.max(extent);
        self.sum = self.sum.saturating_add(extent);
    }

    /// The mean of those that are known.
    pub fn mean(&self) -> f64 {
        let count = self.counts.iter().sum::<u64>() + self.beyond;
        if count == 0 { 0.0 } else { self.sum as f64 / count as f64 }
    }

    /// Adds another stream's.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.beyond += other.beyond;
        self.unknown += other.unknown;
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn arrivals(numbers: &[u32]) -> Vec<Arrival> {
        let mut order = Order::default();
        numbers.iter().map(|&n| order.arrive(n)).collect()
    }

    #[test]
    fn reordering_extent_is_that_of_rfc_4737() {
        // 4 arrives between 8 and 9; 5 came four places before it.
        let got = arrivals(&[0, 1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        let late: Vec<_> = got.iter().filter(|a| matches!(a, Arrival::Reordered(_))).collect();
        assert_eq!(late, [&Arrival::Reordered(Some(4))]);
        // Two in a row that are late, both behind 7.
        let got = arrivals(&[0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 5, 6, 12]);
        assert_eq!(got[10..12], [Arrival::Reordered(Some(5)), Arrival::Reordered(Some(6))]);
    }

    #[test]
    fn duplicates_and_what_is_too_late_are_kept_apart() {
        let got = arrivals(&[0, 1, 1, 70_000, 2, 69_000, 69_000]);
        assert_eq!(got[2], Arrival::Duplicate);
        assert_eq!(got[4], Arrival::Stale);
        assert_eq!(got[5], Arrival::Reordered(Some(1)));
        assert_eq!(got[6], Arrival::Duplicate);
        assert_eq!(arrivals(&[u32::MAX, 0])[0], Arrival::Stale, "before the first");
    }

    #[test]
    fn the_last_number_that_is_missing_is_known_however_long_ago() {
        let mut order = Order::default();
        assert_eq!(order.last_missing(), None);
        for number in (0..200_000u32).filter(|n| ![3, 900, 901].contains(n)) {
            order.arrive(number);
        }
        assert_eq!((order.last_missing(), order.next()), (Some(901), 200_000));
        // A late one fills its place; a long gap begins before the bitmap.
        order.arrive(200_002);
        assert_eq!(order.last_missing(), Some(200_001));
        order.arrive(200_001);
        assert_eq!(order.last_missing(), Some(200_000));
        order.arrive(200_000);
        assert_eq!(order.last_missing(), Some(901));
        order.arrive(400_000);
        assert_eq!(order.last_missing(), Some(399_999));
        for number in 400_001..500_000 {
            order.arrive(number);
        }
        assert_eq!(order.last_missing(), Some(399_999));
    }

    #[test]
    fn numbers_go_on_beyond_32_bits() {
        let mut order = Order { next: (1 << 32) - 1, ..Order::default() };
        assert_eq!(order.arrive(u32::MAX), Arrival::InOrder { follows: true });
        assert_eq!(order.arrive(1), Arrival::InOrder { follows: false });
        assert_eq!(order.arrive(0), Arrival::Reordered(Some(1)));
        assert_eq!(order.next, (1 << 32) + 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// The model keeps everything: all numbers that arrived, in order.
        #[test]
        fn order_equals_a_model_that_remembers_everything(
            moves in proptest::collection::vec((0u32..400, 0usize..40), 0..600),
        ) {
            // Each number is put back by some places, a few are left out or twice.
            let mut line: Vec<u32> = Vec::new();
            for (i, (kind, back)) in moves.into_iter().enumerate() {
                if kind % 10 == 9 {
                    continue;
                }
                let back = if kind % 4 == 0 { back } else { 0 };
                line.insert(line.len().saturating_sub(back), i as u32 * 3);
                if kind % 7 == 0 {
                    line.push(i as u32 * 3);
                }
            }
            let (mut order, mut seen, mut history) = (Order::default(), HashSet::new(), vec![]);
            for number in line {
                let expected = if !seen.insert(number) {
                    Arrival::Duplicate
                } else if let Some(at) = history.iter().position(|&n| n > number) {
                    Arrival::Reordered(Some((history.len() - at) as u64))
                } else {
                    let follows = number == history.iter().max().map_or(0, |m| m + 1);
                    Arrival::InOrder { follows }
                };
                if expected != Arrival::Duplicate {
                    history.push(number);
                }
                prop_assert_eq!(order.arrive(number), expected);
            }
            let next = history.iter().max().map_or(0, |m| m + 1);
            let missing = (0..next).rev().find(|n| !seen.contains(n));
            prop_assert_eq!(order.last_missing(), missing.map(u64::from));
        }
    }
}
