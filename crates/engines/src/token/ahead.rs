//! Key stream for AES-GCM, made ahead packet by packet.
//!
//! GCM begins every packet with a counter of its own, so for each coming packet number
//! E(J0) for the tag and the first blocks of key stream are made ahead. Of longer packets
//! the rest is fetched exactly.
//!
//! ```text
//!   number    … │ 41 │ 42 │ 43 │ 44 │ 45 │ 46 │ 47 │ 48 │ 49 │ …
//!   blocks        J    J    J    J    J    J    J    J    J
//!                 ·    ·    ·    ·    ·    ·    ·    ·    ·     as most packets need
//!                 ·    ·    ·                                   as long ones need
//!               low ───────▶ deep                          next
//! ```
//!
//! The number of blocks follows the traffic, in two ways: every packet gets the blocks that
//! suffice for three quarters of the packets at least, and the nearest quarter of them
//! those that suffice at most. So neither a burst of short packets after some long ones nor
//! a long packet after many short ones waits; and the token is never idle while there is
//! room to make the near ones longer.
//!
//! `low` is one above the highest *authentic* number. Nothing but an authentic
//! packet moves it, and `next` never runs further from it than there is room: a
//! forged number moves nothing. Numbers from `oldest` to `low` are packets that
//! may still come late.

use super::follow::{BLOCKS_MAX, Follow};
use super::pages::{Chain, Pages};
use super::vault::{Block, Vault};
use std::collections::VecDeque;

/// Packets that are made ahead at most, even if there is room.
pub const PACKETS_MAX: usize = 1 << 16;

/// The part of the packets made ahead that is made long: one in so many, the
/// nearest.
const NEAR_SHARE: u64 = 4;

/// Near runs have so many blocks at least, even after shorter packets: with E(J0) a page,
/// and enough for a packet of 112 octets after some that were next to empty.
const SHORT: u16 = 7;

/// A run that is made longer takes no more of the room than one in so many blocks.
const LONG_SHARE: u64 = 8;

/// Packets in a row whose runs were too short, though no longer ones would be made
/// now, before the runs are gone through again.
const MISSES_MAX: u8 = 4;

/// One packet's run of blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    chain: Chain,
    /// E(J0) and the key stream behind it, so far.
    here: u16,
    /// The same with blocks on their way.
    asked: u16,
    /// Used, given up, or passed over.
    gone: bool,
}

/// State of a packet's key stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// So many blocks are here, E(J0) first.
    Here(u16),
    /// Blocks are on their way.
    Coming,
    /// Behind: lost packets' blocks that were given up, or used before.
    Gone,
    /// Not asked for yet, and near enough to be made ahead.
    Next,
    /// Further ahead than is ever made: only an authentic packet gets there.
    Far,
}

/// A run to make, or to make longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make {
    /// The packet number.
    pub number: u64,
    /// The first block; 0 is E(J0).
    pub first: u16,
    /// Number of blocks.
    pub blocks: u16,
}

/// The packets made ahead in one direction.
#[derive(Debug)]
pub struct Ahead {
    pages: Pages,
    runs: VecDeque<Run>,
    /// The number of the first run.
    oldest: u64,
    low: u64,
    /// Runs below are as long as they are to be.
    deep: u64,
    /// Numbers kept behind `low`.
    behind: u64,
    /// Numbers above `low` in which a packet is plausible.
    reach: u64,
    most: Follow,
    least: Follow,
    misses: u8,
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
            pages: Pages::new(blocks),
            oldest: first,
            low: first,
            deep: first,
            behind: behind.min(packets as u64 / 2),
            reach: packets as u64,
            most: Follow::most(),
            least: Follow::least(),
            misses: 0,
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

    /// Blocks that it can hold.
    pub const fn size(&self) -> u64 {
        self.pages.size()
    }

    /// Blocks of room.
    pub const fn empty(&self) -> u64 {
        self.pages.empty()
    }

    /// Blocks of a packet that are made ahead now, without E(J0): of every packet,
    /// and of a near one.
    pub const fn depth(&self) -> (u16, u16) {
        (self.least.depth(), self.most.depth())
    }

    /// Runs are being made, until it is full.
    pub const fn is_filling(&self) -> bool {
        self.filling
    }

    /// State of the key stream of this packet.
    pub fn find(&self, number: u64) -> Found {
        if number >= self.low.saturating_add(self.reach) {
            return Found::Far;
        }
        let Some(offset) = number.checked_sub(self.oldest) else { return Found::Gone };
        match self.runs.get(offset as usize) {
            None => Found::Next,
            Some(run) if run.gone => Found::Gone,
            Some(run) if run.here > 0 => Found::Here(run.here),
            Some(_) => Found::Coming,
        }
    }

    /// More of a packet's blocks are on their way.
    pub fn is_growing(&self, number: u64) -> bool {
        self.run(number).is_some_and(|run| !run.gone && run.here < run.asked)
    }

    /// The blocks of a packet that are here, from an index on; 0 is E(J0).
    pub fn stream(&self, number: u64, from: u16) -> impl Iterator<Item = &Block> {
        let run = self.run(number).copied().unwrap_or_default();
        self.pages.stream(run.chain, from, run.here)
    }

    /// A block of a packet that is here.
    pub fn block(&self, number: u64, index: u16) -> Option<&Block> {
        self.stream(number, index).next()
    }

    /// True if key stream is to be made ahead: from half empty, or half of the long ones
    /// used, until nothing more fits.
    pub fn wants(&mut self) -> bool {
        if self.plan().is_none() {
            self.filling = false;
            return false;
        }
        let near = self.low + self.ahead() / (2 * NEAR_SHARE);
        self.filling |= self.empty() >= self.size() / 2 || self.ahead() == 0 || self.deep < near;
        self.filling
    }

    /// The packet to be made next, and the number of blocks it should have.
    fn plan(&mut self) -> Option<(u64, u16)> {
        let least = 1 + self.least.depth();
        let room = (self.size() / LONG_SHARE).clamp(SHORT.into(), BLOCKS_MAX.into()) as u16;
        let most = self.most.depth().clamp(SHORT, room);
        let most = 1 + most;
        let next = self.next();
        // The last one may have been cut off where an exchange ended.
        if let Some(last) = self.runs.back()
            && next > self.low
            && last.lacks(least)
            && self.pages.fits(&last.chain, least)
        {
            return Some((next - 1, least));
        }
        let packets = self.ahead() < self.reach && self.runs.len() < 2 * self.reach as usize;
        let fits = packets && self.pages.fits(&Chain::default(), least);
        let near = if fits { self.low + self.ahead() / NEAR_SHARE } else { next };
        self.deep = self.deep.max(self.low);
        while self.deep < near
            && let Some(run) = self.run(self.deep)
        {
            if run.lacks(most) {
                return self.pages.fits(&run.chain, most).then_some((self.deep, most));
            }
            self.deep += 1;
        }
        fits.then_some((next, least))
    }

    /// Makes the next run, no more than so many blocks of it.
    pub fn make(&mut self, most: usize) -> Option<Make> {
        if most == 0 || !self.wants() {
            return None;
        }
        let (number, upto) = self.plan()?;
        if number == self.next() {
            self.runs.push_back(Run::default());
        }
        let offset = number.checked_sub(self.oldest)? as usize;
        let run = self.runs.get_mut(offset)?;
        let first = run.asked;
        let blocks = usize::from(upto.checked_sub(first)?).min(most) as u16;
        if !self.pages.grow(&mut run.chain, first + blocks) {
            return None;
        }
        run.asked = first + blocks;
        Some(Make { number, first, blocks })
    }

    /// Blocks have come: of this packet, from this index on.
    pub fn put(&mut self, number: u64, first: u16, stream: &[Block]) {
        let Some(offset) = number.checked_sub(self.oldest) else { return };
        let Some(run) = self.runs.get_mut(offset as usize) else { return };
        // Meanwhile it may have been used, or given up and begun anew.
        let end = usize::from(first) + stream.len();
        if run.gone || run.here != first || end > usize::from(run.asked) {
            return;
        }
        self.pages.put(run.chain, first, stream);
        run.here = end as u16;
    }

    /// Blocks from this index on do not come. They are made anew later: the last request is
    /// refused first, so that the state before it is restored.
    pub fn refused(&mut self, number: u64, first: u16) {
        if !self.is_growing(number) {
            return;
        }
        let last = number.checked_add(1) == Some(self.next());
        let Some(offset) = number.checked_sub(self.oldest) else { return };
        let Some(run) = self.runs.get_mut(offset as usize) else { return };
        if first > 0 {
            run.asked = first.max(run.here);
            return;
        }
        self.give_up(number);
        if last {
            self.runs.pop_back();
        }
    }

    /// An authentic packet of so many blocks of text had this number: its run is wiped,
    /// runs above it are made next, and the depth follows.
    pub fn used(&mut self, number: u64, text: usize) {
        let had = self.run(number).map_or(0, |run| run.here.saturating_sub(1));
        self.give_up(number);
        self.most.see(text);
        self.least.see(text);
        if number >= self.low {
            self.low = number.saturating_add(1);
            self.forget();
        }
        let deepest = usize::from(self.most.depth());
        let short = (1..text).contains(&had.into()) && text <= deepest;
        self.misses = if short { self.misses + 1 } else { 0 };
        if self.misses >= MISSES_MAX {
            self.misses = 0;
            self.look_again();
        }
    }

    /// Wipes everything, and goes on from this number.
    pub fn restart(&mut self, number: u64) {
        self.pages.clear();
        self.runs.clear();
        (self.oldest, self.low, self.deep) = (number, number, number);
        self.filling = false;
    }

    /// Gives up runs that lie too far behind.
    fn forget(&mut self) {
        let keep = self.low.saturating_sub(self.behind);
        if keep >= self.next() {
            // Everything is behind.
            let filling = self.filling;
            self.restart(self.low);
            self.filling = filling;
            return;
        }
        while self.oldest < keep {
            self.give_up(self.oldest);
            self.runs.pop_front();
            self.oldest += 1;
        }
        // Numbers that were passed over before they were made are packets that were
        // lost, or come late and are asked for.
        while self.next() < self.low {
            self.runs.push_back(Run { gone: true, ..Run::default() });
        }
    }

    /// Packets have become longer than those for which the near runs were made:
    /// these are made longer, if need be in place of the furthest.
    fn look_again(&mut self) {
        (self.deep, self.filling) = (self.low, true);
        while self.empty() < self.size() / 2 && self.ahead() > 1 {
            self.give_up(self.next() - 1);
            self.runs.pop_back();
        }
    }

    fn give_up(&mut self, number: u64) {
        let Some(offset) = number.checked_sub(self.oldest) else { return };
        if let Some(run) = self.runs.get_mut(offset as usize) {
            self.pages.release(&mut run.chain);
            *run = Run { gone: true, ..Run::default() };
        }
    }

    fn run(&self, number: u64) -> Option<&Run> {
        self.runs.get(number.checked_sub(self.oldest)? as usize)
    }

    /// The memory as it is, for the test that it is locked and wiped.
    #[cfg(test)]
    pub fn raw(&self) -> &[Block] {
        self.pages.raw()
    }
}

impl Run {
    /// More of it could be made, to have so many blocks.
    const fn lacks(&self, blocks: u16) -> bool {
        !self.gone && self.asked < blocks
    }
}
