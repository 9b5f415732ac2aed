//! Rules compiled for speed: decision trees that cut the headers' bits.
//!
//! ```text
//!   slot ─▶ "bits 8 to 15 of word 0" ─▶ │slot│slot│ … │slot│   one for each value
//!                                         │         └─▶ bits of another field
//!                                         └─▶ a rule's number, and others, in order
//! ```
//!
//! A node looks at up to ten bits that lie side by side, where rules differ most; a leaf
//! has the few rules that are left, and compares them exactly. So the cost of a look-up
//! does not follow the number of rules: with 10,000 of them it is two or three slots and a
//! rule or two. Rules that cannot be cut without copies too often stand in further trees,
//! at most [`TREES_MAX`] in all.
//!
//! [`Table::find_all`] takes many packets down side by side, so that one waits for
//! memory while others go on.
//!
//! (Known from the literature as HiCuts with the separation of EffiCuts; nodes cut
//! ranges of bits here, not equal parts of a range.)

use super::Rule;
use ferrule_pipeline::{BATCH, NEAR_MAX, prefetch_slice};
use std::hint::select_unpredictable;

/// Trees of a table at most.
pub(super) const TREES_MAX: usize = 4;

/// No rule.
pub const NONE: u32 = u32::MAX;

/// Next node of the tree, or the rules that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The first slot of the next node, or the number of a leaf's first rule: it is all
    /// that most leaves have.
    base: u32,
    /// A leaf: [`LEAF`] and the place of its other rules, if there are any. Otherwise which
    /// bits choose the slot.
    how: u32,
}

const LEAF: u32 = 1 << 31;
/// The place of other rules if there are none.
const ALONE: u32 = LEAF - 1;
/// With the number of a leaf's last rule.
const LAST: u32 = 1 << 31;

impl Slot {
    /// No rule.
    pub const EMPTY: Self = Self { base: NONE, how: LEAF | ALONE };

    /// A leaf of these rules; of all but the first the numbers are put behind the others'.
    pub fn leaf(rules: &[u32], others: &mut Vec<u32>) -> Self {
        let Some((&base, rest)) = rules.split_first() else { return Self::EMPTY };
        let Some((last, rest)) = rest.split_last() else { return Self { base, how: LEAF | ALONE } };
        let how = LEAF | others.len() as u32;
        others.extend(rest);
        others.push(LAST | last);
        Self { base, how }
    }

    /// Cuts `width` bits from bit `shift` of a word.
    pub const fn cut(base: u32, word: u32, shift: u32, width: u32) -> Self {
        Self { base, how: ((1 << width) - 1) << 16 | word << 8 | shift }
    }

    #[inline(always)]
    const fn is_leaf(self) -> bool {
        self.how & LEAF != 0
    }

    #[inline(always)]
    fn next<R: Rule>(self, words: &R::Words) -> usize {
        let bits = R::word(words, self.how >> 8 & 7) >> (self.how & 63);
        self.base as usize + (bits as u32 & self.how >> 16) as usize
    }
}

/// One tree, over rules that stand by themselves: many leaves may have the same ones, and
/// the nodes that all look-ups touch shall stay in the cache.
pub(super) struct Tree {
    pub root: Slot,
    pub slots: Box<[Slot]>,
    /// The numbers of leaves' rules but the first.
    pub others: Box<[u32]>,
    /// Nodes on the longest way down.
    pub depth: u32,
}

impl Tree {
    /// The number of its first rule.
    fn first(&self) -> u32 {
        let leaves = self.slots.iter().chain([&self.root]).filter(|slot| slot.is_leaf());
        leaves.map(|leaf| leaf.base).min().unwrap_or(NONE)
    }

    /// One step down; a leaf stays where it is. (No branch: the kind of the slot cannot be
    /// predicted.)
    #[inline(always)]
    fn step<R: Rule>(&self, slot: Slot, words: &R::Words) -> Slot {
        let next = select_unpredictable(slot.is_leaf(), 0, slot.next::<R>(words));
        let next = self.slots.get(next).copied().unwrap_or(Slot::EMPTY);
        select_unpredictable(slot.is_leaf(), slot, next)
    }

    /// The leaf of a packet.
    #[inline(always)]
    fn leaf<R: Rule>(&self, words: &R::Words) -> Slot {
        let mut slot = self.root;
        while !slot.is_leaf() {
            slot = self.step::<R>(slot, words);
        }
        slot
    }

    /// The leaves of many packets, level by level.
    #[inline(always)]
    fn leaves<R: Rule>(&self, keys: &[impl AsRef<R::Words>], slots: &mut [Slot]) {
        if self.root.is_leaf() {
            return slots.fill(self.root);
        }
        let mut closed = LEAF;
        for (slot, key) in slots.iter_mut().zip(keys) {
            let next = self.root.next::<R>(key.as_ref());
            *slot = self.slots.get(next).copied().unwrap_or(Slot::EMPTY);
            closed &= slot.how;
        }
        while closed & LEAF == 0 {
            closed = LEAF;
            for (slot, key) in slots.iter_mut().zip(keys) {
                *slot = self.step::<R>(*slot, key.as_ref());
                closed &= slot.how;
            }
        }
    }

    /// A leaf's rules behind the first, by number.
    fn others(&self, leaf: Slot) -> impl Iterator<Item = u32> {
        let from = self.others.get((leaf.how & !LEAF) as usize..).unwrap_or_default();
        let count = from.iter().position(|number| number & LAST != 0).map_or(0, |at| at + 1);
        from.iter().take(count).map(|number| number & !LAST)
    }

    /// Numbers of a leaf's rules.
    fn numbers(&self, leaf: Slot) -> impl Iterator<Item = u32> {
        Some(leaf.base).filter(|&base| base != NONE).into_iter().chain(self.others(leaf))
    }
}

/// Rules in order.
pub struct Table<R> {
    rules: Box<[R]>,
    /// With the number of each one's first rule, lowest first.
    trees: Box<[(u32, Tree)]>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rules: Box::default(), trees: Box::default() }
    }
}

impl<R: Rule> Table<R> {
    pub(super) fn of(rules: &[R], trees: Vec<Tree>) -> Self {
        let mut trees: Box<[_]> = trees.into_iter().map(|tree| (tree.first(), tree)).collect();
        trees.sort_by_key(|(first, _)| *first);
        Self { rules: rules.into(), trees }
    }

    /// Every rule, in order.
    pub fn rules(&self) -> &[R] {
        &self.rules
    }

    /// The only rule, if it is.
    pub fn only(&self) -> Option<&R> {
        self.rules.first().filter(|_| self.rules.len() == 1)
    }

    /// Asks the processor for the first rule.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_slice(&self.rules, 0);
    }

    /// A rule by its number.
    #[inline(always)]
    pub fn rule(&self, number: u32) -> Option<&R> {
        self.rules.get(number as usize)
    }

    #[inline(always)]
    fn has(&self, number: u32, words: &R::Words) -> bool {
        self.rule(number).is_some_and(|rule| rule.matches(words))
    }

    /// True if there is a rule for a packet.
    #[inline]
    pub fn admits(&self, words: &R::Words) -> bool {
        match self.only() {
            Some(rule) => rule.matches(words),
            None => self.find(words).is_some(),
        }
    }

    /// The first rule for a packet.
    pub fn find(&self, words: &R::Words) -> Option<&R> {
        let mut best = NONE;
        for (first, tree) in &self.trees {
            if best < *first {
                break;
            }
            let mut numbers = tree.numbers(tree.leaf::<R>(words));
            best = best.min(numbers.find(|&number| self.has(number, words)).unwrap_or(NONE));
        }
        self.rule(best)
    }

    /// The numbers of the first rules for a batch of packets; `found` is [`NONE`] before.
    ///
    /// 1. level by level to the leaves;
    /// 2. their first rules;
    /// 3. the others, for those that did not match.
    pub fn find_all(&self, keys: &[impl AsRef<R::Words>], found: &mut [u32]) {
        for (_, tree) in &self.trees {
            let mut slots = [Slot::EMPTY; BATCH];
            let slots = &mut slots[..keys.len().min(BATCH)];
            tree.leaves::<R>(keys, slots);
            if self.rules.len() > NEAR_MAX {
                slots.iter().for_each(|slot| prefetch_slice(&self.rules, slot.base as usize));
            }
            let mut open = [0; BATCH];
            let mut count = 0;
            for (at, ((slot, key), found)) in slots.iter().zip(keys).zip(&mut *found).enumerate() {
                let has = self.has(slot.base, key.as_ref());
                *found = select_unpredictable(has, slot.base.min(*found), *found);
                open[count % BATCH] = at as u8;
                count += usize::from(!has & (slot.how != LEAF | ALONE));
            }
            while count > 0 {
                let left = std::mem::take(&mut count);
                for turn in 0..left.min(BATCH) {
                    let at = usize::from(open[turn]);
                    let slot = &mut slots[at];
                    let other = (slot.how & !LEAF) as usize;
                    let number = tree.others.get(other).copied().unwrap_or(NONE);
                    let has = self.has(number & !LAST, keys[at].as_ref());
                    let best = found[at].min(number & !LAST);
                    found[at] = select_unpredictable(has, best, found[at]);
                    slot.how += 1;
                    // Written at or before the place that was read.
                    open[count % BATCH] = at as u8;
                    count += usize::from(!has & (number & LAST == 0));
                }
            }
        }
    }

    /// Steps down, and rules compared, until the first rule for a packet is found.
    pub(super) fn effort(&self, words: &R::Words) -> usize {
        let (mut best, mut effort) = (NONE, 0);
        for (first, tree) in &self.trees {
            if best < *first {
                break;
            }
            let mut slot = tree.root;
            while !slot.is_leaf() {
                slot = tree.step::<R>(slot, words);
                effort += 1;
            }
            for number in tree.numbers(slot) {
                effort += 1;
                if self.has(number, words) {
                    best = best.min(number);
                    break;
                }
            }
        }
        effort
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        let tree = |(_, tree): &(u32, Tree)| {
            size_of_val(&*tree.slots) + size_of_val(&*tree.others) + size_of_val(tree)
        };
        size_of_val(&*self.rules) + self.trees.iter().map(tree).sum::<usize>()
    }

    /// The longest way down, and the rules of the fullest leaf.
    pub fn worst(&self) -> (u32, usize) {
        let tree = |(_, tree): &(u32, Tree)| {
            let leaves = tree.slots.iter().chain([&tree.root]).filter(|slot| slot.is_leaf());
            (tree.depth, leaves.map(|&leaf| tree.numbers(leaf).count()).max().unwrap_or(0))
        };
        let each = self.trees.iter().map(tree);
        each.fold((0, 0), |(depth, rules), (d, r)| (depth + d, rules + r))
    }
}
