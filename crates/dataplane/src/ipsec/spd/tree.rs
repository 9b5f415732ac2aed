//! Rules compiled for speed: decision trees that cut the headers' bits.
//!
//! ```text
//!   slot ─▶ "bits 8 to 15 of word 0" ─▶ │slot│slot│ … │slot│   one for each value
//!                                         │         └─▶ bits of another field
//!                                         └─▶ │rule│rule│     a few, in order
//! ```
//!
//! A node looks at up to ten bits that lie side by side, wherever rules differ most;
//! a leaf has the few rules that are left, and compares them exactly. So what a look-up
//! costs does not follow the number of rules: with 10,000 of them it is two or three
//! slots and a rule or two. What cannot be cut without copying rules too often stands
//! in further trees, at most [`TREES_MAX`] in all; those whose first rule comes after
//! what was found already are left out.
//!
//! [`Table::find_all`] takes many packets down side by side, so that one waits for
//! memory while others go on.
//!
//! (Known from the literature as HiCuts with the separation of EffiCuts; nodes cut
//! ranges of bits here, not equal parts of a range.)

use super::key::Address;
use super::rule::Rule;
use std::hint::{black_box, select_unpredictable};

/// Trees of a table at most.
pub(super) const TREES_MAX: usize = 4;

/// Where to go on, or the rules that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The first slot of the next node, or the first rule.
    base: u32,
    /// A leaf: [`LEAF`] and how many rules. Otherwise which bits choose the slot.
    how: u32,
}

const LEAF: u32 = 1 << 31;

/// Rules of a leaf that are compared before anybody asks which of them matches: how many
/// it takes nobody can foresee, and a branch that is guessed wrong costs more.
const ABREAST: usize = 4;

impl Slot {
    /// No rule.
    pub const EMPTY: Self = Self::leaf(0, 0);

    pub const fn leaf(first: u32, count: u32) -> Self {
        Self { base: first, how: LEAF | count }
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
    fn next<A: Address>(self, words: &A::Words) -> usize {
        let bits = A::word(words, self.how >> 8 & 7) >> (self.how & 63);
        self.base as usize + (bits as u32 & self.how >> 16) as usize
    }

    #[inline(always)]
    fn rules(self) -> std::ops::Range<usize> {
        let first = self.base as usize;
        first..first + (self.how & !LEAF) as usize
    }
}

/// One tree.
pub(super) struct Tree<A, T> {
    pub root: Slot,
    pub slots: Box<[Slot]>,
    pub rules: Box<[Rule<A, T>]>,
    /// Nodes on the longest way down.
    pub depth: u32,
}

impl<A: Address, T: Copy> Tree<A, T> {
    /// The order of its first rule.
    fn first(&self) -> u32 {
        self.rules.iter().map(|rule| rule.order).min().unwrap_or(u32::MAX)
    }

    /// One step down; a leaf stays where it is. (Which of them it is, nobody can foresee.)
    #[inline(always)]
    fn step(&self, slot: Slot, words: &A::Words) -> Slot {
        let next = select_unpredictable(slot.is_leaf(), 0, slot.next::<A>(words));
        let next = self.slots.get(next).copied().unwrap_or(Slot::EMPTY);
        select_unpredictable(slot.is_leaf(), slot, next)
    }

    #[inline(always)]
    fn at_leaf(&self, leaf: Slot, words: &A::Words) -> Option<&Rule<A, T>> {
        let rules = self.rules.get(leaf.rules())?;
        let last = rules.len().checked_sub(1)?;
        let mut hits = 0_u32;
        for at in 0..ABREAST {
            hits |= u32::from(rules[at.min(last)].matches(words)) << at;
        }
        match hits {
            0 if rules.len() > ABREAST => self.beyond(leaf, words),
            0 => None,
            _ => rules.get((hits.trailing_zeros() as usize).min(last)),
        }
    }

    /// The rest of a long leaf.
    #[inline(never)]
    fn beyond(&self, leaf: Slot, words: &A::Words) -> Option<&Rule<A, T>> {
        let rules = self.rules.get(leaf.rules()).unwrap_or_default();
        rules.iter().skip(ABREAST).find(|rule| rule.matches(words))
    }

    #[inline]
    fn find(&self, words: &A::Words) -> Option<&Rule<A, T>> {
        let mut slot = self.root;
        while !slot.is_leaf() {
            slot = self.step(slot, words);
        }
        self.at_leaf(slot, words)
    }
}

/// All rules of a family.
pub(super) struct Table<A, T> {
    /// With the order of each one's first rule, lowest first.
    trees: Box<[(u32, Tree<A, T>)]>,
}

impl<A, T> Default for Table<A, T> {
    fn default() -> Self {
        Self { trees: Box::default() }
    }
}

/// The answer of a table: the order of the first rule that matches, and what it
/// stands for.
pub(super) type Answer<T> = Option<(u32, T)>;

impl<A: Address, T: Copy> Table<A, T> {
    pub fn of(trees: Vec<Tree<A, T>>) -> Self {
        let mut trees: Box<[_]> = trees.into_iter().map(|tree| (tree.first(), tree)).collect();
        trees.sort_by_key(|(first, _)| *first);
        Self { trees }
    }

    /// The first rule for a packet.
    #[inline]
    pub fn find(&self, words: &A::Words) -> Answer<T> {
        let mut best: Answer<T> = None;
        for (first, tree) in &self.trees {
            if best.is_some_and(|(order, _)| order < *first) {
                break;
            }
            best = earlier(best, tree.find(words));
        }
        best
    }

    /// The first rules for many packets: `answers` as `packets`, and as many.
    pub fn find_all(&self, packets: &[A::Words], answers: &mut [Answer<T>]) {
        let mut slots = [Slot::EMPTY; ferrule_pipeline::BATCH];
        for (nth, (_, tree)) in self.trees.iter().enumerate() {
            let slots = &mut slots[..packets.len().min(ferrule_pipeline::BATCH)];
            slots.fill(tree.root);
            for _ in 0..tree.depth {
                let mut under_way = false;
                for (slot, words) in slots.iter_mut().zip(packets) {
                    *slot = tree.step(*slot, words);
                    under_way |= !slot.is_leaf();
                }
                if !under_way {
                    break;
                }
            }
            // Nothing is asked of them yet: so their lines come side by side.
            let touch = |at: usize| tree.rules.get(at).map_or(0, Rule::touch);
            let all = slots.iter().fold(0, |all, leaf| {
                let rules = leaf.rules();
                let last = rules.len().clamp(1, ABREAST) - 1;
                all ^ touch(rules.start) ^ touch(rules.start + last / 2) ^ touch(rules.start + last)
            });
            black_box(all);
            for ((slot, words), answer) in slots.iter().zip(packets).zip(&mut *answers) {
                let found = tree.at_leaf(*slot, words);
                *answer = if nth == 0 {
                    found.map(|rule| (rule.order, rule.then))
                } else {
                    earlier(*answer, found)
                };
            }
        }
    }

    /// Steps down, and rules compared, until the first rule for a packet is found.
    pub fn effort(&self, words: &A::Words) -> usize {
        let (mut best, mut effort): (Answer<T>, usize) = (None, 0);
        for (first, tree) in &self.trees {
            if best.is_some_and(|(order, _)| order < *first) {
                break;
            }
            let mut slot = tree.root;
            while !slot.is_leaf() {
                slot = tree.step(slot, words);
                effort += 1;
            }
            let rules = tree.rules.get(slot.rules()).unwrap_or_default();
            let found = rules.iter().position(|rule| rule.matches(words));
            effort += found.map_or(rules.len(), |at| at + 1);
            best = earlier(best, found.map(|at| &rules[at]));
        }
        effort
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        let tree = |(_, tree): &(u32, Tree<A, T>)| {
            size_of_val(&*tree.slots) + size_of_val(&*tree.rules) + size_of_val(tree)
        };
        self.trees.iter().map(tree).sum()
    }

    /// The longest way down, and the rules of the fullest leaf.
    pub fn worst(&self) -> (u32, usize) {
        let leaf = |slot: &Slot| if slot.is_leaf() { slot.rules().len() } else { 0 };
        let tree = |(_, tree): &(u32, Tree<A, T>)| {
            let leaves = tree.slots.iter().chain([&tree.root]).map(leaf).max();
            (tree.depth, leaves.unwrap_or(0))
        };
        let each = self.trees.iter().map(tree);
        each.fold((0, 0), |(depth, rules), (d, r)| (depth + d, rules + r))
    }
}

#[inline(always)]
fn earlier<A, T: Copy>(best: Answer<T>, found: Option<&Rule<A, T>>) -> Answer<T> {
    match (best, found) {
        (Some(best), Some(rule)) if best.0 < rule.order => Some(best),
        (_, Some(rule)) => Some((rule.order, rule.then)),
        (best, None) => best,
    }
}
