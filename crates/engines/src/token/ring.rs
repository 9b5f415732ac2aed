//! Key stream of one direction, made ahead, as the study has it: one counter
//! runs on through the whole SA.
//!
//! ```text
//!      overwritten │ kept for the late │ made ahead │ not yet made
//!   ───────────────┼───────────────────┼────────────┼──────────────▶ counter
//!             low - behind            low          next
//!        slot of a block = its counter mod size, tagged with the counter
//! ```
//!
//! `low` is one above the highest counter that an *authentic* packet used (of our own
//! packets all are), `next` the first block that is not made yet. Blocks are made in order.
//! Blocks of lost packets stay until the ring comes round (and at least as long as they lie
//! within `behind`), so a late packet finds its own, if they are still there: a tag names
//! the counter of a slot's block, and pointers are counters, which never wrap.
//!
//! Watermarks, for exchanges that bring `exchange` blocks: making starts when half of the
//! ring is empty, and stops when there is no room for another exchange. The study calls the
//! ring empty when fewer blocks than an exchange are left ([`Ring::is_empty`]); these can
//! be used all the same.

use super::vault::{Block, Vault};
use std::ops::Range;
use zeroize::Zeroize;

/// The tag of a slot that holds nothing.
const NONE: u128 = u128::MAX;

/// Key stream by counter.
#[derive(Debug)]
pub struct Ring {
    blocks: Vault,
    /// The counter that each slot holds.
    tags: Box<[u128]>,
    exchange: u64,
    behind: u64,
    low: u128,
    next: u128,
    asked: u128,
    filling: bool,
}

impl Ring {
    /// In this memory, from counter `first` on; an exchange brings so many blocks,
    /// and so many stay for packets that come late. Nothing if the memory has no
    /// room for two exchanges beside these.
    pub fn new(blocks: Vault, exchange: usize, behind: usize, first: u128) -> Option<Self> {
        if exchange == 0 || blocks.len() < behind.checked_add(exchange.checked_mul(2)?)? {
            return None;
        }
        let tags = vec![NONE; blocks.len()].into();
        let (exchange, behind) = (exchange as u64, behind as u64);
        let filling = false;
        Some(Self {
            blocks,
            tags,
            exchange,
            behind,
            low: first,
            next: first,
            asked: first,
            filling,
        })
    }

    /// Blocks that it can hold.
    pub const fn size(&self) -> u64 {
        self.tags.len() as u64
    }

    /// Blocks made and not yet used.
    pub const fn ahead(&self) -> u64 {
        (self.next - self.low) as u64
    }

    /// Blocks of room: those neither made ahead nor kept behind.
    pub const fn empty(&self) -> u64 {
        self.size() - self.ahead()
    }

    /// No room for another exchange.
    pub const fn is_full(&self) -> bool {
        self.ahead() >= self.stop()
    }

    /// Blocks made ahead with which it is full.
    pub const fn stop(&self) -> u64 {
        self.size() - self.exchange - self.behind
    }

    /// Fewer blocks than an exchange brings are left.
    pub const fn is_empty(&self) -> bool {
        self.empty() > self.size() - self.exchange
    }

    /// Blocks are being made, until it is full.
    pub const fn is_filling(&self) -> bool {
        self.filling
    }

    /// One above the highest counter that was used.
    pub const fn low(&self) -> u128 {
        self.low
    }

    /// The first block that is not made yet.
    pub const fn next(&self) -> u128 {
        self.next
    }

    /// The counters to make now: at most an exchange, and none while some are
    /// under way. Starts at half empty, sleeps when full.
    pub fn wants(&mut self) -> Option<Range<u128>> {
        if self.is_full() {
            self.filling = false;
        } else if self.empty() >= self.size() / 2 {
            self.filling = true;
        }
        if !self.filling || self.asked != self.next {
            return None;
        }
        let room = self.size() - self.behind - self.ahead();
        self.asked = self.next + u128::from(self.exchange.min(room));
        Some(self.next..self.asked)
    }

    /// Marks blocks under way as not asked for: the token refused, and they may be asked
    /// for again.
    pub const fn refused(&mut self) {
        self.asked = self.next;
    }

    /// Takes key stream that has come, from this counter on. Blocks that are of no use any
    /// more, or would take the place of blocks that are still wanted, are left out.
    pub fn put(&mut self, first: u128, stream: &[Block]) {
        let wanted = self.window();
        for (counter, block) in (first..).zip(stream) {
            if wanted.contains(&counter) {
                let slot = self.slot(counter);
                self.blocks[slot] = *block;
                self.tags[slot] = counter;
            }
        }
        let end = (first + stream.len() as u128).min(wanted.end);
        if (first..end).contains(&self.next) {
            self.next = end;
        }
        self.asked = self.next;
    }

    /// The block of a counter, if it is there: made ahead, or passed over and not
    /// yet overwritten.
    #[inline]
    pub fn block(&self, counter: u128) -> Option<&Block> {
        let slot = self.slot(counter);
        if self.tags[slot] == counter { self.blocks.get(slot) } else { None }
    }

    /// Leading blocks of a range that are there.
    pub fn have(&self, counters: Range<u128>) -> usize {
        counters.take_while(|&c| self.block(c).is_some()).count()
    }

    /// True if the blocks of a range will be made without a request; they are then made
    /// now, however full the ring is. Blocks behind `next`, or further ahead than the ring
    /// is filled, must be asked for.
    pub fn expects(&mut self, counters: &Range<u128>) -> bool {
        let most = self.low + u128::from(self.size() - self.behind - self.exchange);
        let coming = counters.start >= self.next && counters.end <= most;
        self.filling |= coming;
        coming
    }

    /// An authentic packet used these counters: its blocks are wiped, and the blocks above
    /// are next. Below, packets may still come late.
    pub fn used(&mut self, counters: Range<u128>) {
        let count = counters.end.saturating_sub(counters.start).min(self.size().into());
        for counter in counters.start..counters.start + count {
            self.wipe(counter);
        }
        self.low = self.low.max(counters.end);
        if self.next < self.low {
            self.next = self.low;
            self.asked = self.low;
        }
    }

    /// Wipes everything, and goes on from this counter.
    pub fn restart(&mut self, counter: u128) {
        self.blocks.as_flattened_mut().zeroize();
        self.tags.fill(NONE);
        (self.low, self.next, self.asked) = (counter, counter, counter);
        self.filling = false;
    }

    /// The counter whose low half travelled: the one closest to `low`.
    pub fn recover(&self, low_half: u64) -> u128 {
        let distance = low_half.wrapping_sub(self.low as u64) as i64;
        self.low.checked_add_signed(distance.into()).unwrap_or(low_half.into())
    }

    /// The memory as it is, for the test that it is wiped.
    #[cfg(test)]
    pub fn raw(&self) -> &[Block] {
        &self.blocks
    }

    /// Counters that may be made now without taking the place of blocks that are kept.
    fn window(&self) -> Range<u128> {
        let from = self.low.saturating_sub(self.behind.into());
        from..from + u128::from(self.size())
    }

    fn wipe(&mut self, counter: u128) {
        let slot = self.slot(counter);
        if self.tags[slot] == counter {
            self.blocks[slot].zeroize();
            self.tags[slot] = NONE;
        }
    }

    /// Most counters fit one word, and division by one is much faster.
    const fn slot(&self, counter: u128) -> usize {
        let size = self.tags.len();
        if counter >> 64 == 0 {
            (counter as u64 % size as u64) as usize
        } else {
            (counter % size as u128) as usize
        }
    }
}
