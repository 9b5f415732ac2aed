//! Many seeds, one after the other: the first failure is made small.
//!
//! This crate has no threads. A driver gives each of its threads some of the
//! seeds and calls [`seed`] for each; [`small`] turns a failure into what a
//! person wants to see.

use super::case::Case;
use super::finding::Finding;
use super::oracle::Tally;
use super::places::Befell;
use super::rig::Rig;
use super::run::{Outcome, run};
use super::shrink::{Shrunk, shrink};
use super::subject::Subject;
use ferrule_base::Instant;

/// Sums over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Seeds that ran.
    pub seeds: u64,
    /// Seeds with a finding.
    pub failed: u64,
    /// Frames that arrived at nodes.
    pub visits: u64,
    /// Nonces, each used once.
    pub nonces: u64,
    /// Packets that hosts received.
    pub received: u64,
    /// Comparisons that the replay oracle made.
    pub replay: Tally,
    /// Counts of look-aside engines and cards.
    pub engines: Befell,
}

impl Score {
    /// Counts a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.failed += u64::from(!outcome.findings.is_empty());
        self.visits += outcome.visits;
        self.nonces += outcome.nonces;
        self.received += outcome.flows.iter().map(|f| f.received).sum::<u64>();
        self.replay.merge(&outcome.replay);
        self.engines.merge(&outcome.engines);
    }

    /// Adds another's.
    pub const fn merge(&mut self, o: &Self) {
        self.seeds += o.seeds;
        self.failed += o.failed;
        self.visits += o.visits;
        self.nonces += o.nonces;
        self.received += o.received;
        self.replay.merge(&o.replay);
        self.engines.merge(&o.engines);
    }
}

/// A seed under which something broke.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Case drawn from the seed.
    pub case: Case,
    /// First broken invariant.
    pub finding: Finding,
}

/// Runs what a seed draws.
pub fn seed(subject: &dyn Subject, seed: u64, rig: &Rig) -> (Outcome, Option<Failure>) {
    let case = Case::draw(seed, &subject.shape());
    let outcome = run(subject, &case, rig, false);
    let failure = outcome.findings.first().cloned().map(|finding| Failure { case, finding });
    (outcome, failure)
}

/// Makes a failure small: the same promise broken, by as little as can be.
pub fn small(subject: &dyn Subject, failure: Failure, rig: &Rig) -> Shrunk {
    let Failure { case, finding } = failure;
    let invariant = finding.invariant;
    shrink(case, finding, &mut |case| {
        let mut found = run(subject, case, rig, false).findings;
        let at = found.iter().position(|f| f.invariant == invariant)?;
        Some(found.swap_remove(at))
    })
}

/// The first of `seeds` under which something breaks, and how many were run.
/// `stop` is asked between two of them.
pub fn search(
    subject: &dyn Subject,
    seeds: impl IntoIterator<Item = u64>,
    rig: &Rig,
    stop: &mut dyn FnMut(&Outcome) -> bool,
) -> (Score, Option<Failure>) {
    let mut score = Score::default();
    for number in seeds {
        let (outcome, failure) = seed(subject, number, rig);
        score.add(&outcome);
        if failure.is_some() || stop(&outcome) {
            return (score, failure);
        }
    }
    (score, None)
}

/// The end of a run that is repeated from a recording: what broke, if anything,
/// with captures of all links.
pub fn repeat(subject: &dyn Subject, case: &Case) -> (Outcome, Option<Instant>) {
    let outcome = run(subject, case, &Rig::default(), true);
    let at = outcome.findings.first().map(|f| f.at);
    (outcome, at)
}
