//! Key stream for AES-GCM, made ahead packet by packet.
//!
//! GCM begins every packet with a counter of its own, so what is made ahead is,
//! for each coming packet number, E(J0) for the tag and the first `k` blocks of
//! key stream. Longer packets have the rest fetched exactly; `k` follows the
//! traffic.
//!
//! ```text
//!   number      … │ 41  │ 42 │  43   │ 44    │ …        runs of 1 + k blocks, one
//!   blocks      … │ J J │ J··│ J···· │ J···· │ …        behind the other, as k was
//!                  oldest ─▶  low               next
//! ```
//!
//! `low` is one above the highest *authentic* number. Nothing but an authentic
//! packet moves it, and `next` never runs further from it than there is room: a
//! forged number moves nothing. Numbers from `oldest` to `low` are packets that
//! may still come late.

use super::vault::{Block, Vault};
use std::collections::VecDeque;
use zeroize::Zeroize;

/// Packets that are made ahead at most, whatever the room.
pub const PACKETS_MAX: usize = 1 << 16;

/// Blocks of a packet that are made ahead at most: 1500 octets and some.
pub const BLOCKS_MAX: u16 = 96;

/// One packet's run of blocks.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Where it begins, counted from the beginning of time.
    at: u64,
    /// E(J0) and the key stream behind it; 0 once it is used.
    blocks: u16,
    /// It has come.
    here: bool,
}

/// What is known of a packet's key stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// So many blocks are here, E(J0) first.
    Here(u16),
    /// They are on their way.
    Coming,
    /// Behind: lost packets' blocks that were given up, or used before.
    Gone,
    /// Not asked for yet, and near enough to be made ahead.
    Next,
    /// Further ahead than is ever made: only an authentic packet gets there.
    Far,
}

/// A run to make: a packet number, and its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make {
    /// The packet number.
    pub number: u64,
    /// E(J0) and so many less one blocks behind it.
    pub blocks: u16,
}

/// The packets made ahead in one direction.
#[derive(Debug)]
pub struct Ahead {
    blocks: Vault,
    runs: VecDeque<Run>,
    /// The number of the first run.
    oldest: u64,
    low: u64,
    /// Where the next run begins.
    head: u64,
    /// Numbers kept behind `low`.
    behind: u64,
    /// Numbers above `low` in which a packet is plausible.
    reach: u64,
    follow: Follow,
    filling: bool,
}

impl Ahead {
    /// In this memory, from `first` on; so many late packets keep theirs.
    ///
    /// `reach` packets above the last authentic one are made ahead or waited for at
    /// most.
    pub fn new(blocks: Vault, reach: u64, behind: u64, first: u64) -> Self {
        let packets = (blocks.len() / 2).clamp(1, PACKETS_MAX).min(reach.max(1) as usize);
        Self {
            runs: VecDeque::with_capacity(2 * packets),
            blocks,
            oldest: first,
            low: first,
            head: 0,
            behind: behind.min(packets as u64 / 2),
            reach: packets as u64,
            follow: Follow::default(),
            filling: false,
        }
    }

    /// One above the highest authentic number.
    pub const fn low(&self) -> u64 {
        self.low
    }

    /// The first number that nothing was asked for yet.
    pub fn next(&self) -> u64 {
        self.oldest + self.runs.len() as u64
    }

    /// Packets made ahead, or on their way.
    pub fn ahead(&self) -> u64 {
        self.next().saturating_sub(self.low)
    }

    /// Blocks of room.
    pub fn empty(&self) -> u64 {
        self.blocks.len() as u64 - self.held()
    }

    /// Blocks of a packet that are made ahead now, without E(J0).
    pub const fn depth(&self) -> u16 {
        self.follow.depth()
    }

    /// Runs are being made, until it is full.
    pub const fn is_filling(&self) -> bool {
        self.filling
    }

    /// What is known of a packet.
    pub fn find(&self, number: u64) -> Found {
        if number >= self.low.saturating_add(self.reach) {
            return Found::Far;
        }
        let Some(offset) = number.checked_sub(self.oldest) else { return Found::Gone };
        match self.runs.get(offset as usize) {
            None => Found::Next,
            Some(run) if run.blocks == 0 => Found::Gone,
            Some(run) if run.here => Found::Here(run.blocks),
            Some(_) => Found::Coming,
        }
    }

    /// A block of a packet that is here; 0 is E(J0).
    #[inline]
    pub fn block(&self, number: u64, index: u16) -> Option<&Block> {
        let run = self.runs.get(number.checked_sub(self.oldest)? as usize)?;
        if !run.here || index >= run.blocks {
            return None;
        }
        self.blocks.get(self.slot(run.at + u64::from(index)))
    }

    /// Whether the ring is low enough to be filled: starts at half empty, and goes
    /// on until a run no longer fits.
    pub fn wants(&mut self) -> bool {
        let size = self.blocks.len() as u64;
        let fits = self.fits(1 + u64::from(self.depth()));
        if !fits {
            self.filling = false;
        } else if self.empty() >= size / 2 || self.ahead() == 0 {
            self.filling = true;
        }
        self.filling && fits
    }

    /// Makes the next run, if it has no more blocks than that.
    pub fn make(&mut self, most: usize) -> Option<Make> {
        if !self.wants() {
            return None;
        }
        let blocks = 1 + self.depth();
        if usize::from(blocks) > most {
            return None;
        }
        let number = self.next();
        self.runs.push_back(Run { at: self.head, blocks, here: false });
        self.head += u64::from(blocks);
        Some(Make { number, blocks })
    }

    /// A run has come.
    pub fn put(&mut self, number: u64, stream: &[Block]) {
        let Some(offset) = number.checked_sub(self.oldest) else { return };
        let Some(run) = self.runs.get_mut(offset as usize) else { return };
        if run.here || usize::from(run.blocks) != stream.len() {
            return;
        }
        run.here = true;
        let at = run.at;
        for (i, block) in (0..).zip(stream) {
            let slot = self.slot(at + i);
            self.blocks[slot] = *block;
        }
    }

    /// A run does not come: it may be made again only by asking exactly.
    pub fn refused(&mut self, number: u64) {
        if let Some(run) = self.run_mut(number).filter(|run| !run.here) {
            run.blocks = 0;
        }
    }

    /// An authentic packet of so many blocks of text had this number: its run is
    /// wiped, what lies above is made next, and the depth follows.
    pub fn used(&mut self, number: u64, text: usize) {
        let had = self.run_mut(number).map_or(0, |run| run.blocks.saturating_sub(1));
        self.wipe(number);
        self.follow.see(text);
        if number >= self.low {
            self.low = number.saturating_add(1);
            self.forget();
        }
        if self.follow.misses(had, text) {
            self.begin_again();
        }
    }

    /// Wipes everything, and goes on from this number.
    pub fn restart(&mut self, number: u64) {
        self.blocks.as_flattened_mut().zeroize();
        self.runs.clear();
        (self.oldest, self.low) = (number, number);
        self.filling = false;
    }

    /// Gives up what lies too far behind.
    fn forget(&mut self) {
        let keep = self.low.saturating_sub(self.behind);
        if keep >= self.next() {
            // Everything is behind.
            let low = self.low;
            self.blocks.as_flattened_mut().zeroize();
            self.runs.clear();
            self.oldest = low;
            return;
        }
        while self.oldest < keep {
            self.wipe(self.oldest);
            self.runs.pop_front();
            self.oldest += 1;
        }
        // Numbers that were passed over before they were made get empty runs: they
        // are packets that were lost, or come late and are asked for.
        while self.next() < self.low {
            self.runs.push_back(Run { at: self.head, blocks: 0, here: true });
        }
    }

    /// Packets have become so much longer that what was made is not worth keeping.
    /// (What is on its way is dropped when it comes: its length is another's.)
    fn begin_again(&mut self) {
        while self.next() > self.low {
            let last = self.next() - 1;
            self.wipe(last);
            if let Some(run) = self.runs.pop_back() {
                self.head = run.at;
            }
        }
    }

    fn wipe(&mut self, number: u64) {
        let Some(run) = self.run_mut(number) else { return };
        let (at, blocks) = (run.at, if run.here { run.blocks } else { 0 });
        (run.blocks, run.here) = (0, true);
        for i in 0..u64::from(blocks) {
            let slot = self.slot(at + i);
            self.blocks[slot].zeroize();
        }
    }

    fn run_mut(&mut self, number: u64) -> Option<&mut Run> {
        self.runs.get_mut(number.checked_sub(self.oldest)? as usize)
    }

    /// Blocks from the first run's beginning to the head.
    fn held(&self) -> u64 {
        self.head - self.runs.front().map_or(self.head, |run| run.at)
    }

    fn fits(&self, blocks: u64) -> bool {
        let packets = self.runs.len() < 2 * self.reach as usize;
        packets && self.held() + blocks <= self.blocks.len() as u64 && self.ahead() < self.reach
    }

    fn slot(&self, at: u64) -> usize {
        (at % self.blocks.len() as u64) as usize
    }
}

/// Packets in a row whose runs were too short, though no longer ones would be made
/// now, before all runs are made again.
const MISSES_MAX: u8 = 4;

/// How many blocks the packets of late have had: three quarters have no more.
#[derive(Clone, Copy, Debug)]
struct Follow {
    /// In sixteenths of a block.
    depth: u32,
    misses: u8,
}

impl Default for Follow {
    /// A short packet: 96 octets.
    fn default() -> Self {
        Self { depth: 6 * 16, misses: 0 }
    }
}

impl Follow {
    const fn depth(self) -> u16 {
        let blocks = self.depth.div_ceil(16);
        if blocks > BLOCKS_MAX as u32 { BLOCKS_MAX } else { blocks as u16 }
    }

    /// Sees a packet's blocks: up by three steps or down by one.
    fn see(&mut self, blocks: usize) {
        let blocks = blocks.min(BLOCKS_MAX.into()) as u16;
        let (step, aim) = (4 + self.depth / 16, u32::from(blocks) * 16);
        match blocks.cmp(&self.depth()) {
            std::cmp::Ordering::Greater => self.depth = (self.depth + 3 * step).min(aim),
            std::cmp::Ordering::Less => self.depth = self.depth.saturating_sub(step).max(aim),
            std::cmp::Ordering::Equal => {}
        }
    }

    /// Whether runs as they were made before are too short for what comes.
    fn misses(&mut self, had: u16, blocks: usize) -> bool {
        let depth = usize::from(self.depth());
        let short = (1..blocks).contains(&had.into()) && blocks <= depth;
        self.misses = if short { self.misses + 1 } else { 0 };
        if self.misses < MISSES_MAX {
            return false;
        }
        self.misses = 0;
        true
    }
}
