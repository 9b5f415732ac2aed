//! The packets that a kernel has in hand: the group that it works on, the one before,
//! and some that come next.
//!
//! ```text
//!   source ──fill──▶ │group│group│group│group│ group│group│group│group│
//!                            ▲ before  ▲ now   ▲ next
//! ```
//!
//! A ring of two halves: before the last group of one is worked on, the other is filled, so
//! that the next group is known and its texts can be asked for. Sealing, a group's
//! ciphertext is hashed along with the next group, so the one before stays.

use super::{BLOCK, GROUP, Lane};
use crate::job::Verdict;
use std::mem::MaybeUninit;

/// Supply of packets until there are no more: all of one operation, with keys for one
/// kernel and one AES.
pub trait Source<'a> {
    /// Puts the next packets into groups.
    fn fill(&mut self, groups: &mut [Group<'a>]);
}

impl<'a, I: Iterator<Item = Lane<'a>>> Source<'a> for I {
    #[inline]
    fn fill(&mut self, groups: &mut [Group<'a>]) {
        groups.iter_mut().for_each(|group| group.fill(|| self.next()));
    }
}

/// Up to four packets; fewer than four are a batch's last.
pub struct Group<'a> {
    lanes: [MaybeUninit<Lane<'a>>; GROUP],
    /// Lanes in use.
    count: usize,
}

impl<'a> Group<'a> {
    const fn new() -> Self {
        Self { lanes: [const { MaybeUninit::uninit() }; GROUP], count: 0 }
    }

    /// Exchanges its packets for the next ones.
    #[inline(always)]
    pub fn fill(&mut self, mut next: impl FnMut() -> Option<Lane<'a>>) {
        let mut count = 0;
        for place in &mut self.lanes {
            let Some(lane) = next() else { break };
            place.write(lane);
            count += 1;
        }
        self.count = count;
    }

    /// Its packets.
    #[inline(always)]
    pub fn lanes(&mut self) -> &mut [Lane<'a>] {
        let first = self.lanes.as_mut_ptr().cast();
        // SAFETY: `count` says how many were written, from the first on.
        unsafe { std::slice::from_raw_parts_mut(first, self.count) }
    }

    /// Its packets if they are four.
    #[inline(always)]
    pub fn whole(&mut self) -> Option<&mut [Lane<'a>; GROUP]> {
        self.lanes().try_into().ok()
    }
}

/// Groups in the ring.
const RING: usize = 8;

/// The groups of packets that a kernel holds: the current one, the one before and the next
/// ones.
pub struct Hand<'a, 's> {
    source: &'s mut dyn Source<'a>,
    ring: [Group<'a>; RING],
    /// Position of the current group in the ring.
    now: usize,
}

impl<'a, 's> Hand<'a, 's> {
    /// A ring filled with the first groups.
    #[inline]
    pub fn new(source: &'s mut dyn Source<'a>) -> Self {
        let mut ring = [const { Group::new() }; RING];
        source.fill(&mut ring[..RING / 2]);
        Self { source, ring, now: 0 }
    }

    /// Goes on with the next group; the one that was worked on becomes the one before.
    #[inline(always)]
    pub fn turn(&mut self) {
        self.now = (self.now + 1) % RING;
        if self.now % (RING / 2) == RING / 2 - 1 {
            self.refill();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let other = (self.now + 1) % RING;
        self.source.fill(&mut self.ring[other..][..RING / 2]);
    }

    /// The group that is worked on.
    #[inline(always)]
    pub fn group(&mut self) -> &mut Group<'a> {
        &mut self.ring[self.now % RING]
    }

    /// The group before.
    #[inline(always)]
    pub fn before(&mut self) -> &mut Group<'a> {
        &mut self.ring[(self.now + RING - 1) % RING]
    }

    /// Addresses of the next group's first texts, if it has so many packets.
    #[inline(always)]
    pub fn next_texts<const N: usize>(&mut self) -> Option<[*const u8; N]> {
        let next = self.ring[(self.now + 1) % RING].lanes().first_chunk::<N>()?;
        Some(next.each_ref().map(|lane| lane.sealed.at.cast_const()))
    }

    /// Both of them, the one that is worked on first.
    #[inline(always)]
    pub fn both(&mut self) -> (&mut Group<'a>, &mut Group<'a>) {
        let (now, before) = (self.now % RING, (self.now + RING - 1) % RING);
        let [now, before] = self.ring.get_disjoint_mut([now, before]).expect("two places");
        (now, before)
    }
}

/// Writes the verdicts of packets, of which those with a bit are good; the text of others
/// was decrypted and is wiped.
#[inline(always)]
pub fn settle(lanes: &mut [Lane<'_>], good: u32) {
    let all = (1 << lanes.len()) - 1;
    if good & all != all {
        return refuse(lanes, good);
    }
    lanes.iter_mut().for_each(|lane| *lane.verdict = Verdict::Done);
}

#[cold]
fn refuse(lanes: &mut [Lane<'_>], good: u32) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane.verdict = if good >> i & 1 == 1 {
            Verdict::Done
        } else {
            lane.sealed.text().fill(0);
            Verdict::BadIcv
        };
    }
}

/// Writes the ICVs of packets that were sealed.
#[inline(always)]
pub fn deliver(lanes: &mut [Lane<'_>], icvs: [[u8; BLOCK]; GROUP]) {
    for (lane, icv) in lanes.iter_mut().zip(icvs) {
        (*lane.sealed.icv(), *lane.verdict) = (icv, Verdict::Done);
    }
}
