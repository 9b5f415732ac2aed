//! The replay window of a receive association (clauses 10.6.2, 10.6.4).
//!
//! ```text
//!            lowest acceptable        next expected
//!   … late …  │ ◀── window ──▶        │ ── new ──▶
//! ```
//!
//! The standard only keeps these two numbers. It lets a duplicate inside the
//! window pass; with [`Replay::Strict`] each number inside it has a bit.

use super::config::Replay;
use crate::protection::authentic::{Authentic, Candidate};

/// The largest window with a bitmap.
pub const BITMAP_MAX: u32 = 4096;

/// A window, and the numbers received in it.
#[derive(Clone, Debug)]
pub struct Window {
    mode: Replay,
    width: u64,
    next: u64,
    lowest: u64,
    /// A ring: the bit of a number is at the number, modulo the ring's size. It
    /// has a word more than the window, so that whole words can be cleared.
    seen: Box<[u64]>,
}

impl Window {
    /// A window with nothing received; numbers from `lowest` on are acceptable. A bitmap is
    /// never wider than [`BITMAP_MAX`].
    pub fn new(mode: Replay, width: u32, lowest: u64) -> Self {
        let (width, words) = match mode {
            Replay::Strict => {
                let width = width.min(BITMAP_MAX);
                (width, (width as usize / 64 + 2).next_power_of_two())
            }
            _ => (width, 0),
        };
        let seen = vec![0; words].into_boxed_slice();
        Self { mode, width: width.into(), next: lowest, lowest, seen }
    }

    /// Another rule, or another width, from now on. Numbers that are late stay late. Where
    /// single numbers begin to be told apart, those in the window count as received, since
    /// it is not known which of them were.
    pub fn change(&mut self, mode: Replay, width: u32) {
        if mode == self.mode && u64::from(width) == self.width {
            return;
        }
        let mut new = Self::new(mode, width, self.next);
        let floor = match (self.mode, mode) {
            (Replay::Strict, _) | (_, Replay::Off | Replay::Standard) => self.lowest,
            (_, Replay::Strict) => self.next.max(self.lowest),
        };
        new.lowest = floor.max(self.next.saturating_sub(new.width)).min(self.next.max(floor));
        if (self.mode, mode) == (Replay::Strict, Replay::Strict) {
            for pn in (new.lowest..self.next).filter(|&pn| self.is_seen(pn)) {
                new.mark_place(pn);
            }
        }
        *self = new;
    }

    /// Lowest number that a new window may accept, so that no number passes twice that this
    /// window would have stopped.
    pub fn edge(&self) -> u64 {
        if self.mode == Replay::Strict { self.next.max(self.lowest) } else { self.lowest }
    }

    /// Numbers below this one are late from now on.
    pub fn raise(&mut self, lowest: u64) {
        self.lowest = self.lowest.max(lowest);
    }

    /// The number after the highest that was received.
    #[inline]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The lowest acceptable number.
    #[inline]
    pub const fn lowest(&self) -> u64 {
        self.lowest
    }

    /// True if the number is late by the standard's count.
    #[inline]
    pub const fn is_late(&self, pn: u64) -> bool {
        pn < self.lowest
    }

    /// Admits a frame with this number if it may pass. Called before its ICV is checked, to
    /// save the work, and again by [`commit`](Self::commit).
    #[inline]
    pub fn check(&self, pn: u64) -> Option<Candidate> {
        self.is_new(pn).then(|| Candidate::new(pn))
    }

    #[inline]
    fn is_new(&self, pn: u64) -> bool {
        match self.mode {
            Replay::Off => true,
            Replay::Standard => pn >= self.lowest,
            Replay::Strict => pn >= self.lowest && (pn >= self.next || !self.is_seen(pn)),
        }
    }

    /// A frame with this number is authentic. If the number may (still) pass,
    /// the window moves.
    #[inline]
    pub fn commit(&mut self, candidate: Candidate, _: Authentic) -> bool {
        let pn = candidate.number();
        if !self.is_new(pn) {
            return false;
        }
        if self.mode == Replay::Strict {
            self.mark(pn);
        }
        if pn >= self.next {
            self.next = pn.saturating_add(1);
            self.lowest = self.lowest.max(self.next.saturating_sub(self.width));
        }
        true
    }

    #[inline]
    fn place(&self, pn: u64) -> (usize, u64) {
        ((pn / 64) as usize & (self.seen.len() - 1), 1 << (pn % 64))
    }

    #[inline]
    fn is_seen(&self, pn: u64) -> bool {
        let (word, bit) = self.place(pn);
        self.seen[word] & bit != 0
    }

    /// Sets the number's bit; the words between the newest number and a newer
    /// one belong to numbers that are late by then, and are cleared. Out of line,
    /// so that the standard's window is small enough to be inlined.
    #[inline(never)]
    fn mark(&mut self, pn: u64) {
        if pn >= self.next {
            let newest = self.next.saturating_sub(1) / 64;
            let fresh = (pn / 64 - newest).min(self.seen.len() as u64);
            for i in 1..=fresh {
                let (word, _) = self.place((newest + i) * 64);
                self.seen[word] = 0;
            }
        }
        self.mark_place(pn);
    }

    fn mark_place(&mut self, pn: u64) {
        let (word, bit) = self.place(pn);
        self.seen[word] |= bit;
    }
}
