//! Edits of a list whose trees take time to make: until there are new ones, the old trees stand,
//! and beside them a few entries with small trees of their own.
//!
//! ```text
//!   trees      a ─ b ─ c ─ d ─ e       b goes, x comes before d
//!   patch      c ─ x ─ e               x, and what b shadowed: c and e overlap it, d does not
//!
//!   trees say d, patch says x: x, as it stands before d
//!   trees say b, which is gone: the patch decides, c, x or e; else no entry matches
//! ```
//!
//! The trees know the first entry of a packet only. If that one is gone, a later one decides;
//! it overlaps the one that is gone, and has a copy in the patch.

use super::compiled::ListRule;
use super::frame::FrameEntry;
use super::{AclEntry, AclOutcome, Verdict};
use crate::classify::hits::UNCOUNTED;
use crate::classify::{self, KeyField, Search, Table};
use std::sync::Arc;

/// Entries of a patch at most.
pub const EDITS_MAX: usize = 1024;
/// Comparisons of entries that went with later ones at most.
const COMPARISONS_MAX: usize = 200_000;

/// An edit of a list as it was compiled, when its entries were counted from 0 on in order,
/// and the packets that match none behind them.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// Counter of each of those entries now; [`UNCOUNTED`] of one that is gone. The last one
    /// counts packets that match no entry.
    pub counters: Arc<[u32]>,
    /// Entries for IP packets that come, in order, each with the entry of those before which it
    /// stands.
    pub packets: Vec<(u32, AclEntry)>,
    /// Entries for frames that come, likewise.
    pub frames: Vec<(u32, FrameEntry)>,
}

impl Edit {
    fn counter(&self, old: u32) -> u32 {
        self.counters.get(old as usize).copied().unwrap_or(UNCOUNTED)
    }

    fn is_gone(&self, rule: &impl ListRule) -> bool {
        self.counter(rule.outcome().counter()) == UNCOUNTED
    }
}

/// An edit of the entries of one shape.
pub struct Patch<R> {
    /// Entries that came, and copies of those that overlap one that is gone, in order.
    table: Table<R>,
    /// Counter in the trees of the entry before which each of them stands; its own of a copy.
    before: Box<[u32]>,
    /// Counters now by those in the trees.
    counters: Arc<[u32]>,
}

/// Lowest and highest value of each field of a rule.
fn bounds<R: ListRule>(rule: &R, fields: &[KeyField]) -> Vec<(u64, u64)> {
    fields.iter().map(|field| rule.bounds(field)).collect()
}

impl<R: ListRule> Patch<R> {
    /// A patch for trees of these rules; `new` are those that come, in order, each with the
    /// counter before which it stands. Nothing if it would be too large.
    pub fn new(rules: &[R], edit: &Edit, new: Vec<(u32, R)>) -> Option<Self> {
        if new.len() > EDITS_MAX {
            return None;
        }
        // Rules stand in the order of their counters.
        let from = |counter: u32| rules.partition_point(|rule| rule.outcome().counter() < counter);
        let gone = (0..).zip(&*edit.counters).filter(|(_, now)| **now == UNCOUNTED);
        let gone = gone.flat_map(|(old, _)| &rules[from(old)..from(old + 1)]);
        let Some(first) = gone.clone().next() else { return Self::of(new, edit) };
        let later = &rules[from(first.outcome().counter())..];
        let fields = R::fields();
        let gone: Vec<_> = gone
            .map(|rule| bounds(rule, &fields))
            .take(COMPARISONS_MAX / later.len() + 1)
            .collect();
        if gone.len() * later.len() > COMPARISONS_MAX {
            return None;
        }
        let overlaps = |rule: &R| {
            gone.iter().any(|gone| {
                fields.iter().zip(gone).all(|(field, gone)| {
                    let (low, high) = rule.bounds(field);
                    low <= gone.1 && gone.0 <= high
                })
            })
        };
        // New rules stand before those that were there.
        let mut all = new;
        for rule in later.iter().filter(|rule| overlaps(rule) && !edit.is_gone(*rule)) {
            let old = rule.outcome().counter();
            all.push((old, rule.counted_by(edit.counter(old))));
            if all.len() > EDITS_MAX {
                return None;
            }
        }
        all.sort_by_key(|(before, _)| *before);
        Self::of(all, edit)
    }

    /// A patch of these rules, in order.
    fn of(all: Vec<(u32, R)>, edit: &Edit) -> Option<Self> {
        let before = all.iter().map(|(before, _)| *before).collect();
        let table = classify::table(all.into_iter().map(|(_, rule)| rule).collect());
        Some(Self { table, before, counters: edit.counters.clone() })
    }

    /// The outcome where the trees have this one, and the patch a rule of this number.
    #[inline(always)]
    fn outcome(&self, old: AclOutcome, number: u32) -> AclOutcome {
        let counter = self.counters.get(old.counter() as usize).copied().unwrap_or(UNCOUNTED);
        let gone = counter == UNCOUNTED;
        let before = self.before.get(number as usize);
        let first = before.is_some_and(|&before| gone || before <= old.counter());
        match self.table.rule(number).filter(|_| first) {
            Some(rule) => rule.outcome(),
            None if gone => {
                let rest = self.counters.last().copied().unwrap_or(UNCOUNTED);
                AclOutcome::new(Verdict::Deny, rest)
            }
            None => old.counted_by(counter),
        }
    }

    /// The outcome for one key, for which the trees have this one.
    pub fn judge(&self, key: &R::Words, old: AclOutcome) -> AclOutcome {
        let number = self.table.number(key);
        self.outcome(old, number)
    }

    /// Outcomes for a batch of keys, for which the trees have these.
    #[inline(never)]
    pub fn judge_all(
        &self,
        keys: &[impl AsRef<R::Words>],
        outcomes: &mut [AclOutcome],
        search: &mut Search,
    ) {
        let found = self.table.find_all(keys, search, |_| ());
        for (&number, outcome) in found.iter().zip(outcomes) {
            *outcome = self.outcome(*outcome, number);
        }
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        self.table.octets() + size_of_val(&*self.before) + size_of_val(&*self.counters)
    }
}
