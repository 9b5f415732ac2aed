//! Entries of one shape, compiled: for IPv4 packets, for IPv6 packets, or for whole frames.

use super::AclOutcome;
use super::edit::{Edit, Patch};
use crate::classify::{self, Rule, Search, Table};
use std::sync::Arc;

/// A rule of an access list.
pub trait ListRule: Rule {
    /// Verdict and counter of its entry.
    fn outcome(&self) -> AclOutcome;
    /// The same rule, counted by another counter.
    fn counted_by(self, counter: u32) -> Self;
}

/// The trees of all entries, and edits since they were made.
pub struct Compiled<R> {
    base: Arc<Table<R>>,
    patch: Option<Box<Patch<R>>>,
}

impl<R> Default for Compiled<R> {
    fn default() -> Self {
        Self { base: Arc::default(), patch: None }
    }
}

impl<R: ListRule> Compiled<R> {
    /// Compiles rules, which are in order.
    pub fn new(rules: Vec<R>) -> Self {
        Self { base: Arc::new(classify::table(rules)), patch: None }
    }

    /// The same trees with an edit and the rules that it brings, each before a counter. Nothing
    /// if the edit is too large.
    pub fn edited(&self, edit: &Edit, new: Vec<(u32, R)>) -> Option<Self> {
        let patch = Patch::new(self.base.rules(), edit, new)?;
        Some(Self { base: self.base.clone(), patch: Some(Box::new(patch)) })
    }

    /// The outcome for one key; `rest` is that of packets that match no entry.
    pub fn judge(&self, key: &R::Words, rest: AclOutcome) -> AclOutcome {
        let outcome = self.base.find(key).map_or(rest, R::outcome);
        match &self.patch {
            Some(patch) => patch.judge(key, outcome),
            None => outcome,
        }
    }

    /// Outcomes for a batch of keys; `rest` is that of packets that match no entry. Of a large
    /// list, `near` is told of counters that are likely to count.
    #[inline(always)]
    pub fn judge_all(
        &self,
        keys: &[impl AsRef<R::Words>],
        rest: AclOutcome,
        outcomes: &mut [AclOutcome],
        search: &mut Search,
        near: impl Fn(u32),
    ) {
        let found = self.base.find_all(keys, search, |rule| near(rule.outcome().counter()));
        for (&number, outcome) in found.iter().zip(&mut *outcomes) {
            *outcome = self.base.rule(number).map_or(rest, R::outcome);
        }
        if let Some(patch) = &self.patch {
            patch.judge_all(keys, outcomes, search);
        }
    }

    /// Octets of the trees and of the edit.
    pub fn octets(&self) -> usize {
        self.base.octets() + self.patch.as_ref().map_or(0, |patch| patch.octets())
    }
}
