//! Findings of the checkers, and the list that collects them.

use ferrule_base::Instant;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Findings of one run that are kept; more are only counted.
pub const FINDINGS_MAX: usize = 16;

/// A promise that every run must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// No nonce is used twice with one key.
    NonceOnce,
    /// Nothing of a host shows on an untrusted link.
    NoClearText,
    /// A receiver accepts what the standard's window accepts, and nothing else.
    Replay,
    /// Packets sent or made are received, dropped or lost, each counted.
    Conservation,
    /// Each node accounts for each of its packets.
    Ledger,
    /// A host gets no packet of a protected flow twice.
    NoDuplicate,
    /// Packets of a flow stay in order where no link changes it.
    Order,
    /// A host gets what was sent, or nothing.
    Unaltered,
    /// Once no packet is sent any more, none is left anywhere.
    ComesToRest,
    /// Nothing that was asked of a node fails.
    NodeWorks,
    /// Nothing panics.
    NoPanic,
    /// The run is short enough for the checkers to remember all of it.
    WithinBounds,
}

impl Invariant {
    /// Every promise.
    pub const ALL: [Self; 12] = [
        Self::NonceOnce,
        Self::NoClearText,
        Self::Replay,
        Self::Conservation,
        Self::Ledger,
        Self::NoDuplicate,
        Self::Order,
        Self::Unaltered,
        Self::ComesToRest,
        Self::NodeWorks,
        Self::NoPanic,
        Self::WithinBounds,
    ];

    /// The name in reports and recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NonceOnce => "nonce-once",
            Self::NoClearText => "no-clear-text",
            Self::Replay => "replay",
            Self::Conservation => "conservation",
            Self::Ledger => "ledger",
            Self::NoDuplicate => "no-duplicate",
            Self::Order => "order",
            Self::Unaltered => "unaltered",
            Self::ComesToRest => "comes-to-rest",
            Self::NodeWorks => "node-works",
            Self::NoPanic => "no-panic",
            Self::WithinBounds => "within-bounds",
        }
    }

    /// The promise of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|i| i.name() == name)
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Broken invariant.
    pub invariant: Invariant,
    /// Time of the observation.
    pub at: Instant,
    /// Node, link or flow.
    pub place: String,
    /// Observation, in a sentence.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ({}): {}", self.invariant, self.at, self.place, self.what)
    }
}

/// List that the checkers of one run add their findings to. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Findings(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    first: Vec<Finding>,
    more: u64,
}

impl Findings {
    /// Adds a finding.
    pub fn add(&self, invariant: Invariant, at: Instant, place: &str, what: String) {
        let mut kept = lock(&self.0);
        if kept.first.len() < FINDINGS_MAX {
            kept.first.push(Finding { invariant, at, place: place.into(), what });
        } else {
            kept.more += 1;
        }
    }

    /// The first of them, in the order in which they were seen.
    pub fn all(&self) -> Vec<Finding> {
        lock(&self.0).first.clone()
    }

    /// The first.
    pub fn first(&self) -> Option<Finding> {
        lock(&self.0).first.first().cloned()
    }

    /// Number of findings, those beyond the list's bound included.
    pub fn count(&self) -> u64 {
        let kept = lock(&self.0);
        kept.first.len() as u64 + kept.more
    }
}

/// The lock of a value that one run's checkers share. A checker that panicked
/// leaves it as it was, which is what a report wants to show.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_kept_in_order_and_bounded() {
        let findings = Findings::default();
        for n in 0..FINDINGS_MAX as u64 + 5 {
            let at = Instant::from_nanos(n);
            findings.clone().add(Invariant::Order, at, "h1", "out of order".into());
        }
        assert_eq!(findings.count(), FINDINGS_MAX as u64 + 5);
        assert_eq!(findings.all().len(), FINDINGS_MAX);
        assert_eq!(findings.first().unwrap().at, Instant::ZERO);
    }

    #[test]
    fn every_invariant_has_a_name_of_its_own() {
        for invariant in Invariant::ALL {
            assert_eq!(Invariant::by_name(invariant.name()), Some(invariant));
        }
    }
}
