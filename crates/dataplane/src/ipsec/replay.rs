//! The anti-replay window of an inbound SA (RFC 4303 section 3.4.3, appendix A).
//!
//! ```text
//!   seen, or too old │ ◀────────── size ──────────▶ │ not seen yet
//!   ─────────────────┼──────────────────────────────┼──────────────▶ number
//!                    │  one bit each: seen or not   └ edge: the highest seen
//! ```
//!
//! The bits lie in a ring of words (RFC 6479): a step forward clears the words
//! that it enters and moves nothing. Looking and moving are two calls, because
//! the ICV is checked between them: [`Window::check`] gives a [`Candidate`], and
//! only with a proof that the packet is [`Authentic`] does [`Window::commit`]
//! move the window. Several candidates of one number may be under way at once;
//! `commit` takes the first of them.

use crate::protection::authentic::{Authentic, Candidate};
use ferrule_pipeline::prefetch_slice;

/// Numbers of the largest window.
pub const WINDOW_MAX: u32 = 131_072;

/// How far back an extended number may lie where replay is not checked.
const REACH: u64 = 64;

/// The window of one SA.
#[derive(Debug)]
pub struct Window {
    edge: u64,
    size: u64,
    /// The number was seen: one bit each, word `number / 64` modulo the length,
    /// which is a power of two and holds `size` and one word more.
    seen: Box<[u64]>,
}

impl Window {
    /// A window of `size` numbers (at most [`WINDOW_MAX`]; 0: replay is not
    /// checked) that has seen everything up to `edge`.
    pub fn new(size: u32, edge: u64) -> Self {
        let size = u64::from(size.min(WINDOW_MAX));
        let words = (size.div_ceil(64) + 1).next_power_of_two();
        let mut seen = vec![u64::MAX; words as usize].into_boxed_slice();
        seen[(edge / 64 % words) as usize] = u64::MAX >> (63 - edge % 64);
        Self { edge, size, seen }
    }

    /// The same window at another size. What was seen stays seen; where it is wider
    /// now, what had left it does not come back.
    pub fn resized(&self, size: u32) -> Self {
        let mut new = Self::new(size, self.edge);
        let reach = self.size.min(new.size);
        if reach == 0 {
            return new;
        }
        let first = self.edge.saturating_sub(reach - 1);
        for of in first / 64..=self.edge / 64 {
            let (from, to) = (self.word(of * 64), new.word(of * 64));
            // Numbers before the first are too old, whatever their bits say.
            let old = if of == first / 64 { (1 << (first % 64)) - 1 } else { 0 };
            new.seen[to] = self.seen[from] | old;
        }
        new
    }

    /// The highest number seen.
    pub const fn edge(&self) -> u64 {
        self.edge
    }

    /// Asks for the word in which the edge is.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_slice(&self.seen, self.word(self.edge));
    }

    /// Octets of its bits, which lie apart.
    pub fn octets(&self) -> usize {
        size_of_val(&*self.seen)
    }

    /// The full number of a packet that shows the low half of it: the first one
    /// from the window's left end on (RFC 4303 appendix A2.2).
    #[inline]
    pub fn extend(&self, low: u32) -> Option<u64> {
        let reach = if self.size == 0 { REACH } else { self.size };
        let left = self.edge.saturating_sub(reach - 1);
        left.checked_add(low.wrapping_sub(left as u32).into())
    }

    /// Returns a number as a candidate if it has not been seen and is not too old. Never zero.
    #[inline]
    pub fn check(&self, number: u64) -> Option<Candidate> {
        (number != 0 && self.is_new(number)).then_some(Candidate::new(number))
    }

    /// Marks a candidate as seen and moves the edge up to it. False if another
    /// packet of this number, or a long step of the edge, came in between.
    #[inline]
    #[must_use]
    pub fn commit(&mut self, candidate: Candidate, _: Authentic) -> bool {
        let number = candidate.number();
        if !self.is_new(number) {
            return false;
        }
        if number > self.edge {
            self.advance(number);
        }
        let word = self.word(number);
        self.seen[word] |= 1 << (number % 64);
        true
    }

    #[inline]
    fn is_new(&self, number: u64) -> bool {
        if number > self.edge || self.size == 0 {
            return true;
        }
        self.edge - number < self.size && self.seen[self.word(number)] >> (number % 64) & 1 == 0
    }

    #[inline]
    fn advance(&mut self, to: u64) {
        let fresh = (to / 64 - self.edge / 64).min(self.seen.len() as u64);
        for word in 0..fresh {
            let word = self.word(to - word * 64);
            self.seen[word] = 0;
        }
        self.edge = to;
    }

    #[inline]
    const fn word(&self, number: u64) -> usize {
        (number / 64) as usize & (self.seen.len() - 1)
    }
}
