//! Rules compiled for speed: decision trees that cut the headers' bits.
//!
//! ```text
//!   slot ─▶ "bits 8 to 15 of word 0" ─▶ │slot│slot│ … │slot│   one for each value
//!                                         │         └─▶ bits of another field
//!                                         └─▶ │number│number│   of a few rules, in order
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
    /// The first slot of the next node, or where the leaf's rules begin.
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

/// One tree, over rules that stand by themselves: many leaves may have the same ones, and
/// what all look-ups touch shall stay in the cache.
pub(super) struct Tree {
    pub root: Slot,
    pub slots: Box<[Slot]>,
    /// The numbers of the leaves' rules.
    pub leaves: Box<[u32]>,
    /// Nodes on the longest way down.
    pub depth: u32,
}

impl Tree {
    /// The number of its first rule.
    fn first(&self) -> u32 {
        self.leaves.iter().copied().min().unwrap_or(u32::MAX)
    }

    /// One step down; a leaf stays where it is. (Which of them it is, nobody can foresee.)
    #[inline(always)]
    fn step<A: Address>(&self, slot: Slot, words: &A::Words) -> Slot {
        let next = select_unpredictable(slot.is_leaf(), 0, slot.next::<A>(words));
        let next = self.slots.get(next).copied().unwrap_or(Slot::EMPTY);
        select_unpredictable(slot.is_leaf(), slot, next)
    }

    /// The leaf of a packet.
    #[inline(always)]
    fn leaf<A: Address>(&self, words: &A::Words) -> Slot {
        let mut slot = self.root;
        while !slot.is_leaf() {
            slot = self.step::<A>(slot, words);
        }
        slot
    }

    /// The rules of a leaf, by number.
    #[inline(always)]
    fn numbers(&self, leaf: Slot) -> &[u32] {
        self.leaves.get(leaf.rules()).unwrap_or_default()
    }
}

/// All rules of a family.
pub(super) struct Table<A, T> {
    /// In order.
    rules: Box<[Rule<A, T>]>,
    /// With the number of each one's first rule, lowest first.
    trees: Box<[(u32, Tree)]>,
}

impl<A, T> Default for Table<A, T> {
    fn default() -> Self {
        Self { rules: Box::default(), trees: Box::default() }
    }
}

/// The answer of a table: the order of the first rule that matches, and what it
/// stands for.
pub(super) type Answer<T> = Option<(u32, T)>;

impl<A: Address, T: Copy> Table<A, T> {
    pub fn of(rules: &[Rule<A, T>], trees: Vec<Tree>) -> Self {
        let mut trees: Box<[_]> = trees.into_iter().map(|tree| (tree.first(), tree)).collect();
        trees.sort_by_key(|(first, _)| *first);
        Self { rules: rules.into(), trees }
    }

    /// The first of a leaf's rules that has a packet.
    #[inline(always)]
    fn at_leaf(&self, numbers: &[u32], words: &A::Words) -> Option<&Rule<A, T>> {
        let last = numbers.len().checked_sub(1)?;
        let mut hits = 0_u32;
        for at in 0..ABREAST {
            let rule = self.rules.get(numbers[at.min(last)] as usize)?;
            hits |= u32::from(rule.matches(words)) << at;
        }
        match hits {
            0 if numbers.len() > ABREAST => self.beyond(&numbers[ABREAST..], words),
            0 => None,
            _ => self.rules.get(numbers[(hits.trailing_zeros() as usize).min(last)] as usize),
        }
    }

    /// The rest of a long leaf.
    #[inline(never)]
    fn beyond(&self, numbers: &[u32], words: &A::Words) -> Option<&Rule<A, T>> {
        let mut rules = numbers.iter().filter_map(|&number| self.rules.get(number as usize));
        rules.find(|rule| rule.matches(words))
    }

    /// The first rule for a packet.
    #[inline]
    pub fn find(&self, words: &A::Words) -> Answer<T> {
        let mut best: Answer<T> = None;
        for (first, tree) in &self.trees {
            if self.is_before(best, *first) {
                break;
            }
            best = earlier(best, self.at_leaf(tree.numbers(tree.leaf::<A>(words)), words));
        }
        best
    }

    /// Whether what was found comes before a rule.
    #[inline(always)]
    fn is_before(&self, best: Answer<T>, number: u32) -> bool {
        let order = self.rules.get(number as usize).map_or(u32::MAX, |rule| rule.order);
        best.is_some_and(|(found, _)| found < order)
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
                    *slot = tree.step::<A>(*slot, words);
                    under_way |= !slot.is_leaf();
                }
                if !under_way {
                    break;
                }
            }
            self.touch(tree, slots);
            for ((slot, words), answer) in slots.iter().zip(packets).zip(&mut *answers) {
                let found = self.at_leaf(tree.numbers(*slot), words);
                *answer = if nth == 0 {
                    found.map(|rule| (rule.order, rule.then))
                } else {
                    earlier(*answer, found)
                };
            }
        }
    }

    /// Asks for the rules of leaves while nothing is asked of them yet: so their lines
    /// come side by side.
    #[inline(always)]
    fn touch(&self, tree: &Tree, leaves: &[Slot]) {
        let touch = |&number: &u32| self.rules.get(number as usize).map_or(0, Rule::touch);
        let all = leaves.iter().fold(0, |all, leaf| {
            let numbers = tree.numbers(*leaf);
            numbers.iter().take(ABREAST).fold(all, |all, number| all ^ touch(number))
        });
        black_box(all);
    }

    /// Steps down, and rules compared, until the first rule for a packet is found.
    pub fn effort(&self, words: &A::Words) -> usize {
        let (mut best, mut effort): (Answer<T>, usize) = (None, 0);
        for (first, tree) in &self.trees {
            if self.is_before(best, *first) {
                break;
            }
            let mut slot = tree.root;
            while !slot.is_leaf() {
                slot = tree.step::<A>(slot, words);
                effort += 1;
            }
            let numbers = tree.numbers(slot);
            let rule = |at: usize| &self.rules[numbers[at] as usize];
            let found = (0..numbers.len()).find(|&at| rule(at).matches(words));
            effort += found.map_or(numbers.len(), |at| at + 1);
            best = earlier(best, found.map(rule));
        }
        effort
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        let tree = |(_, tree): &(u32, Tree)| {
            size_of_val(&*tree.slots) + size_of_val(&*tree.leaves) + size_of_val(tree)
        };
        size_of_val(&*self.rules) + self.trees.iter().map(tree).sum::<usize>()
    }

    /// The longest way down, and the rules of the fullest leaf.
    pub fn worst(&self) -> (u32, usize) {
        let leaf = |slot: &Slot| if slot.is_leaf() { slot.rules().len() } else { 0 };
        let tree = |(_, tree): &(u32, Tree)| {
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
