//! Construction of trees: in bounded time, and of bounded size.
//!
//! At each node every run of bits in which rules differ is weighed: the number of rules
//! that are left for a packet of one of them, and the number of copies of rules. The best
//! one is cut, if it is of use.
//!
//! A rule behind one that covers the node's whole region is never the first to match there
//! and is left out. Copies are bounded from the root on: a node hands on what its cut has
//! left of [`COPIES`], and where that is used up, leaves stay long. If look-ups of the
//! rules' own traffic are long then, trees for wide and for narrow addresses are tried
//! apart, and the shorter ones are taken.

use super::tree::{Slot, TREES_MAX, Table, Tree};
use super::{FIELDS_MAX, KeyField, Rule, WORDS_MAX};
use std::collections::HashMap;

/// Rules that are not cut any more.
const LEAF: usize = 2;
/// Places of a rule in a tree at most, on average.
const COPIES: f32 = 8.0;
/// Nodes on one way down at most.
const DEPTH_MAX: u32 = 12;
/// Bits that one node cuts at most.
const WIDTH_MAX: u32 = 10;
/// Rules by which a cut is judged at most.
const SAMPLE: usize = 512;
/// A cut that leaves more than this part of the rules is not worth a step.
const PROGRESS: f32 = 0.85;
/// Steps and rules of a look-up, on average, from which on further trees are tried.
const LONG: f32 = 8.0;
/// An address of a rule is wide if its range is so many times the median, as a power of
/// two.
const WIDER: u32 = 8;

/// Compiles rules, which are in order.
pub fn table<R: Rule>(rules: Vec<R>) -> Table<R> {
    if rules.is_empty() {
        return Table::default();
    }
    let whole = Table::of(&rules, vec![Build::tree(&rules, (0..rules.len() as u32).collect())]);
    let cost = effort(&whole, &rules);
    if cost <= LONG {
        return whole;
    }
    let apart = groups(&rules).into_iter().map(|group| Build::tree(&rules, group)).collect();
    let apart = Table::of(&rules, apart);
    if effort(&apart, &rules) < cost { apart } else { whole }
}

/// Steps and rules that a look-up takes on average, for packets of some of the rules.
fn effort<R: Rule>(table: &Table<R>, rules: &[R]) -> f32 {
    let sample = rules.iter().step_by(rules.len().div_ceil(SAMPLE));
    let count = sample.len() as f32;
    sample.map(|rule| table.effort(&rule.middle()) as f32).sum::<f32>() / count
}

/// Rules by which of their addresses are wide.
fn groups<R: Rule>(rules: &[R]) -> Vec<Vec<u32>> {
    let middle = |side: usize| {
        let mut all: Vec<u32> = rules.iter().map(|rule| rule.widths()[side]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let middles = [middle(0), middle(1)];
    let mut groups: [Vec<u32>; TREES_MAX] = Default::default();
    for (at, rule) in rules.iter().enumerate() {
        let wide = |side: usize| usize::from(rule.widths()[side] > middles[side] + WIDER);
        groups[wide(0) | wide(1) << 1].push(at as u32);
    }
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// The packets that come to a node, as far as cuts tell: for each field the bits that
/// are settled, and their values.
#[derive(Clone, Copy, Default)]
struct Region([(u64, u64); FIELDS_MAX]);

impl Region {
    fn bounds(&self, number: usize, field: &KeyField) -> (u64, u64) {
        let (settled, value) = self.0[number];
        (value, value | !settled & u64::MAX >> (64 - field.bits))
    }

    fn within(mut self, cut: &Cut, value: u64) -> Self {
        let (settled, old) = &mut self.0[cut.number];
        *settled |= cut.mask() << cut.shift;
        *old = *old & !(cut.mask() << cut.shift) | value << cut.shift;
        self
    }
}

/// Some bits of a field, counted from its lowest.
#[derive(Clone, Copy)]
struct Cut {
    number: usize,
    shift: u32,
    width: u32,
}

impl Cut {
    const fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    /// The values of these bits that values from `low` to `high` have.
    #[inline(always)]
    fn values(&self, (low, high): (u64, u64)) -> (usize, usize) {
        let above = |v: u64| v.checked_shr(self.shift + self.width).unwrap_or(0);
        if above(low) != above(high) {
            return (0, self.mask() as usize);
        }
        ((low >> self.shift & self.mask()) as usize, (high >> self.shift & self.mask()) as usize)
    }
}

/// A tree under construction.
struct Build<'a, R> {
    all: &'a [R],
    fields: Vec<KeyField>,
    slots: Vec<Slot>,
    others: Vec<u32>,
    /// Leaves with the same rules are one.
    known: HashMap<Vec<u32>, Slot>,
    depth: u32,
    /// Rules that begin and end at each value of a cut, and whether any do.
    counts: Vec<(i32, bool)>,
}

impl<'a, R: Rule> Build<'a, R> {
    /// A tree of these rules, and with how many of them a packet of one of them is
    /// compared on average.
    fn tree(all: &'a [R], list: Vec<u32>) -> Tree {
        let mut build = Self {
            all,
            fields: R::fields(),
            slots: Vec::new(),
            others: Vec::new(),
            known: HashMap::new(),
            depth: 0,
            counts: vec![(0, false); (1 << WIDTH_MAX) + 1],
        };
        let root = build.node(list, Region::default(), COPIES, 0);
        Tree { root, slots: build.slots.into(), others: build.others.into(), depth: build.depth }
    }

    /// A node for rules that may have so many places each.
    fn node(&mut self, mut list: Vec<u32>, region: Region, room: f32, depth: u32) -> Slot {
        self.trim(&mut list, &region);
        self.depth = self.depth.max(depth);
        if list.len() <= LEAF || depth == DEPTH_MAX {
            return self.leaf(list);
        }
        let Some(cut) = self.best(&list, &region, room) else { return self.leaf(list) };
        let mut lists = vec![Vec::new(); 1 << cut.width];
        for &at in &list {
            let (from, to) = cut.values(self.clipped(at, cut.number, &region));
            lists[from..=to].iter_mut().for_each(|list| list.push(at));
        }
        // Values with the same rules have one node, which stands for all of them.
        let mut alike: HashMap<&[u32], (u32, Option<Slot>)> = HashMap::new();
        lists.iter().for_each(|list| alike.entry(list).or_default().0 += 1);
        let places: usize = alike.keys().map(|list| list.len()).sum();
        let room = room * list.len() as f32 / places as f32;
        if room < 1.0 {
            return self.leaf(list);
        }
        let base = self.slots.len();
        self.slots.resize(base + lists.len(), Slot::EMPTY);
        for (value, list) in lists.iter().enumerate() {
            let Some((times, made)) = alike.get_mut(&**list) else { continue };
            let region = if *times == 1 { region.within(&cut, value as u64) } else { region };
            let slot = match made {
                Some(slot) => *slot,
                None => *made.insert(self.node(list.clone(), region, room, depth + 1)),
            };
            self.slots[base + value] = slot;
        }
        let field = &self.fields[cut.number];
        Slot::cut(base as u32, field.word, field.at + cut.shift, cut.width)
    }

    fn leaf(&mut self, list: Vec<u32>) -> Slot {
        if let Some(slot) = self.known.get(&list) {
            return *slot;
        }
        let slot = Slot::leaf(&list, &mut self.others);
        self.known.insert(list, slot);
        slot
    }

    /// Range of a field's values that a rule has in a region; the first is above the second
    /// if it has none.
    fn clipped(&self, at: u32, number: usize, region: &Region) -> (u64, u64) {
        let field = &self.fields[number];
        let (low, high) = self.all[at as usize].bounds(field);
        let (least, most) = region.bounds(number, field);
        (low.max(least), high.min(most))
    }

    /// Leaves out rules that have no part of a region, and those behind one that has
    /// all of it.
    fn trim(&self, list: &mut Vec<u32>, region: &Region) {
        list.retain(|&at| {
            (0..self.fields.len()).all(|number| {
                let (low, high) = self.clipped(at, number, region);
                low <= high
            })
        });
        let (least, most) = self.corners(region);
        let covers = |&at: &u32| {
            let rule = &self.all[at as usize];
            rule.matches(&least) && rule.matches(&most)
        };
        if let Some(at) = list.iter().position(covers) {
            list.truncate(at + 1);
        }
    }

    /// The lowest and the highest words of a region: with all bits that are not
    /// settled clear, and set.
    fn corners(&self, region: &Region) -> (R::Words, R::Words) {
        let (mut least, mut most) = ([0; WORDS_MAX], [0; WORDS_MAX]);
        for (number, field) in self.fields.iter().enumerate() {
            let (low, high) = region.bounds(number, field);
            least[field.word as usize] |= low << field.at;
            most[field.word as usize] |= high << field.at;
        }
        (R::from_words(&least), R::from_words(&most))
    }

    /// The bits whose cut leaves the fewest rules, if there are any of use.
    fn best(&mut self, list: &[u32], region: &Region, room: f32) -> Option<Cut> {
        let sample: Vec<u32> = list.iter().copied().step_by(list.len().div_ceil(SAMPLE)).collect();
        let width_max = (list.len() * 4).ilog2().min(WIDTH_MAX);
        let widths: &[u32] = if list.len() > 64 { &[2, 4, 6, 8, 10] } else { &[1, 2, 3, 4, 6] };
        let mut best = (PROGRESS, None);
        for number in 0..self.fields.len() {
            let ranges: Vec<(u64, u64)> =
                sample.iter().map(|&at| self.clipped(at, number, region)).collect();
            let &(low, high) = ranges.first()?;
            let differ = ranges.iter().fold(0, |all, r| all | (r.0 ^ low) | (r.1 ^ high));
            if differ == 0 {
                continue;
            }
            let top = u64::BITS - differ.leading_zeros();
            // No range begins or ends within less.
            let edges = ranges.iter().fold(0, |all, r| all | r.0 | r.1.wrapping_add(1));
            let least = edges.trailing_zeros().min(top);
            for &width in widths {
                if width > width_max || width > self.fields[number].bits {
                    continue;
                }
                for shift in least.min(top.saturating_sub(width))..=top.saturating_sub(width) {
                    let cut = Cut { number, shift, width };
                    let score = self.score(&ranges, &cut, room);
                    if score < best.0 {
                        best = (score, Some(cut));
                    }
                }
            }
        }
        best.1
    }

    /// The part of the rules that is left where a packet of one of them arrives, times
    /// the root of the copies of each.
    fn score(&mut self, ranges: &[(u64, u64)], cut: &Cut, room: f32) -> f32 {
        let last = cut.mask() as usize;
        let counts = &mut self.counts[..last + 2];
        counts.fill((0, false));
        let mut everywhere = 0;
        for &range in ranges {
            let (from, to) = cut.values(range);
            if (from, to) == (0, last) {
                everywhere += 1;
                continue;
            }
            counts[from] = (counts[from].0 + 1, true);
            counts[to + 1] = (counts[to + 1].0 - 1, true);
        }
        // Neighbours with the same rules share a node; so do all with none but those
        // that are everywhere.
        let (mut here, mut plain) = (everywhere, false);
        let (mut sum, mut squares) = (0.0, 0.0);
        for (value, &(change, marked)) in counts[..=last].iter().enumerate() {
            if !marked && value > 0 {
                continue;
            }
            here += change;
            if here > everywhere || !std::mem::replace(&mut plain, true) {
                sum += here as f32;
                squares += here as f32 * here as f32;
            }
        }
        let all = ranges.len() as f32;
        let copies = sum / all;
        if sum == 0.0 || copies > room { 1.0 } else { squares / sum / all * copies.sqrt() }
    }
}
