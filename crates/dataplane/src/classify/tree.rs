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

    /// One step down from a slot that is no leaf.
    #[inline(always)]
    fn step<R: Rule>(&self, slot: Slot, words: &R::Words) -> Slot {
        self.slots.get(slot.next::<R>(words)).copied().unwrap_or(Slot::EMPTY)
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

    /// The leaves of many packets, level by level: all take the first step, then those that
    /// are at no leaf yet. With `FAR`, the rules of a large table are asked for as they are known.
    #[inline(never)]
    fn leaves<R: Rule, const FAR: bool>(
        &self,
        keys: &[impl AsRef<R::Words>],
        rules: &[R],
        search: &mut Search,
    ) {
        let (root, all) = (self.root, &*self.slots);
        let Search { slots, places, .. } = search;
        if root.is_leaf() {
            return slots.fill(root);
        }
        let mut open = Open { places, count: 0 };
        let step = |slot: Slot, words: &R::Words| {
            let slot = all.get(slot.next::<R>(words)).copied().unwrap_or(Slot::EMPTY);
            if FAR && slot.is_leaf() {
                prefetch_slice(rules, slot.base as usize);
            }
            slot
        };
        for at in 0..keys.len().min(BATCH) {
            slots[at] = step(root, keys[at].as_ref());
            open.keep(at, !slots[at].is_leaf());
        }
        while open.count > 0 {
            open.each(|at| {
                slots[at] = step(slots[at], keys[at].as_ref());
                !slots[at].is_leaf()
            });
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

/// Working memory of look-ups for whole batches.
pub struct Search {
    slots: [Slot; BATCH],
    found: [u32; BATCH],
    places: [u8; BATCH],
}

impl Default for Search {
    fn default() -> Self {
        Self { slots: [Slot::EMPTY; BATCH], found: [NONE; BATCH], places: [0; BATCH] }
    }
}

/// Packets of a batch that need another round, by place. (Their number is in a register: in
/// memory, each packet would wait for the one before.)
struct Open<'a> {
    places: &'a mut [u8; BATCH],
    count: usize,
}

impl Open<'_> {
    /// Puts a packet behind the others if it needs another round. (No branch: whether it does
    /// cannot be predicted.)
    #[inline(always)]
    fn keep(&mut self, at: usize, needs: bool) {
        self.places[self.count % BATCH] = at as u8;
        self.count = self.count.wrapping_add(usize::from(needs));
    }

    /// A round of those that need one; `step` says which need another.
    #[inline(always)]
    fn each(&mut self, mut step: impl FnMut(usize) -> bool) {
        // A packet is put at or before the place from which it was read.
        for turn in 0..std::mem::take(&mut self.count).min(BATCH) {
            let at = usize::from(self.places[turn]) % BATCH;
            let needs = step(at);
            self.keep(at, needs);
        }
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
        self.rule(self.number(words))
    }

    /// The number of the first rule for a packet, or [`NONE`].
    pub fn number(&self, words: &R::Words) -> u32 {
        let mut best = NONE;
        for (first, tree) in &self.trees {
            if best < *first {
                break;
            }
            let mut numbers = tree.numbers(tree.leaf::<R>(words));
            best = best.min(numbers.find(|&number| self.has(number, words)).unwrap_or(NONE));
        }
        best
    }

    /// The numbers of the first rules for a batch of packets, or [`NONE`]. Of a large table,
    /// `near` is told of rules that are likely to be found.
    pub fn find_all<'a>(
        &self,
        keys: &[impl AsRef<R::Words>],
        search: &'a mut Search,
        near: impl Fn(&R),
    ) -> &'a [u32] {
        let keys = keys.get(..BATCH).unwrap_or(keys);
        match &*self.trees {
            [(_, tree)] => self.find_in(tree, keys, search, near),
            trees => {
                let mut best = [NONE; BATCH];
                for (_, tree) in trees {
                    self.find_in(tree, keys, search, &near);
                    best.iter_mut().zip(&search.found).for_each(|(b, &n)| *b = n.min(*b));
                }
                search.found = best;
            }
        }
        &search.found[..keys.len()]
    }

    /// The same for one tree:
    ///
    /// 1. level by level to the leaves;
    /// 2. their first rules;
    /// 3. the others, for those that did not match.
    #[inline(always)]
    fn find_in(
        &self,
        tree: &Tree,
        keys: &[impl AsRef<R::Words>],
        search: &mut Search,
        near: impl Fn(&R),
    ) {
        let count = if self.rules.len() > NEAR_MAX {
            tree.leaves::<R, true>(keys, &self.rules, search);
            self.prefetch_others(tree, keys.len(), search);
            self.firsts(keys, search, near)
        } else {
            tree.leaves::<R, false>(keys, &self.rules, search);
            self.firsts(keys, search, |_| ())
        };
        let Search { slots, found, places } = search;
        let mut open = Open { places, count };
        while open.count > 0 {
            open.each(|at| {
                let other = (slots[at].how & !LEAF) as usize;
                slots[at].how += 1;
                let number = tree.others.get(other).copied().unwrap_or(NONE);
                let has = self.has(number & !LAST, keys[at].as_ref());
                found[at] = select_unpredictable(has, number & !LAST, NONE);
                !has & (number & LAST == 0)
            });
        }
    }

    /// Asks for the second rules of leaves: those who need them would wait together.
    #[inline(never)]
    fn prefetch_others(&self, tree: &Tree, count: usize, search: &mut Search) {
        let Search { slots, places, .. } = search;
        let mut open = Open { places, count: 0 };
        for (at, slot) in slots.iter().enumerate().take(count) {
            open.keep(at, slot.how != LEAF | ALONE);
        }
        open.each(|at| {
            prefetch_slice(&tree.others, (slots[at].how & !LEAF) as usize);
            true
        });
        open.each(|at| {
            if let Some(number) = tree.others.get((slots[at].how & !LEAF) as usize) {
                prefetch_slice(&self.rules, (number & !LAST) as usize);
            }
            false
        });
    }

    /// Step 2; the number of those that did not match and have others.
    #[inline(never)]
    fn firsts(
        &self,
        keys: &[impl AsRef<R::Words>],
        search: &mut Search,
        near: impl Fn(&R),
    ) -> usize {
        let rules = &*self.rules;
        let Search { slots, found, places } = search;
        let mut open = Open { places, count: 0 };
        for at in 0..keys.len().min(BATCH) {
            let Slot { base, how } = slots[at];
            let has = rules.get(base as usize).is_some_and(|rule| {
                near(rule);
                rule.matches(keys[at].as_ref())
            });
            found[at] = select_unpredictable(has, base, NONE);
            open.keep(at, !has & (how != LEAF | ALONE));
        }
        open.count
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
