//! MLRsearch (RFC 9971): the load for each of several loss ratios, in one search.
//!
//! A goal says which loss ratio is tolerated, how long a trial must be to count
//! fully, how much time of such trials is wanted in all, and which share of that
//! time may exceed the ratio (so that one bad moment does not decide). Every
//! trial counts for every goal.
//!
//! ```text
//!   loads   ──lower bound──▶ │ conditional │ ◀──upper bound──
//!           trials classify: │ throughput  │
//!           lower, upper or not yet decided
//! ```
//!
//! Trials are short first and grow from phase to phase; each phase begins at the
//! bounds of the one before and ends when its bounds are close enough. Only the
//! last phase counts: there the goal's own durations hold.

use super::{Measured, Range, Work, check, so_far};
use crate::bench::BenchError;
use crate::stream::Plan;
use crate::trial::Timing;
use ferrule_base::Duration;
use std::collections::BTreeMap;

/// Trials of a search at most.
const TRIALS_MAX: usize = 2000;
/// Phases before the last.
const PHASES: u32 = 3;
/// By how much bounds widen while they are looked for outwards.
const WIDEN: f64 = 4.0;

/// Goal of a search (RFC 9971, Search Goal).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Goal Loss Ratio: what a trial may lose.
    pub loss_ratio: f64,
    /// Goal Exceed Ratio: the share of the time that may lose more.
    pub exceed_ratio: f64,
    /// Goal Initial Trial Duration.
    pub initial: Duration,
    /// Goal Final Trial Duration: trials as long as this count fully.
    pub last: Duration,
    /// Goal Duration Sum: so much time of them is wanted.
    pub sum: Duration,
    /// Goal Width: how close the bounds must be, as a share of the upper.
    pub width: f64,
}

impl Goal {
    /// A goal with the loss ratio given; half of the time may exceed it.
    pub fn new(loss_ratio: f64, last: Duration) -> Self {
        let initial = last.div_f64(8.0);
        Self { loss_ratio, exceed_ratio: 0.5, initial, last, sum: last * 2, width: 0.005 }
    }

    /// One long trial decides: the conditions of RFC 2544 (RFC 9971 has the same
    /// example).
    pub fn rfc2544(last: Duration) -> Self {
        Self { exceed_ratio: 0.0, sum: last, ..Self::new(0.0, last) }
    }

    /// The goal of a phase before the last: one shorter trial decides.
    fn phase(&self, phase: u32) -> Self {
        if phase == PHASES {
            return *self;
        }
        let share = f64::from(phase) / f64::from(PHASES);
        let (first, last) = (self.initial.as_secs_f64(), self.last.as_secs_f64());
        let secs = first * (last / first).powf(share);
        // Without a first length there is none between it and the last.
        let last = Duration::try_from_secs_f64(secs).map_or(self.last, |d| d.min(self.last));
        let width = (self.width * 2f64.powi((PHASES - phase) as i32)).min(0.5);
        Self { last, sum: last, width, ..*self }
    }
}

/// Class of a load under a goal, from the trials at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

/// Loss ratios and durations of the trials at one load, in seconds.
type Trials = Vec<(f64, f64)>;

/// Load Classification (RFC 9971 section 6.1 and its appendix): whether the goal
/// would hold, or not, however trials still missing came out.
fn classify(trials: &Trials, goal: &Goal) -> Class {
    let sum = |full: bool, high: bool| -> f64 {
        let of = |t: &&(f64, f64)| {
            (t.1 >= goal.last.as_secs_f64()) == full && (t.0 > goal.loss_ratio) == high
        };
        trials.iter().filter(of).map(|t| t.1).sum()
    };
    // Short trials without too much loss make up for short ones with it, and
    // count for nothing else.
    let balance = sum(false, false) * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let excess = (sum(false, true) - balance).max(0.0);
    let (low, high) = (sum(true, false), sum(true, true) + excess);
    let whole = (low + high).max(goal.sum.as_secs_f64());
    let tolerated = whole * goal.exceed_ratio;
    // Rounding of sums must not decide.
    let tiny = whole * 1e-9;
    match (whole - low <= tolerated + tiny, high <= tolerated + tiny) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// Conditional Throughput (RFC 9971 section 6.3): the load less the loss ratio
/// that all but the tolerated share of the time stays within.
fn conditional(load: u64, trials: &Trials, goal: &Goal) -> f64 {
    let mut full: Trials =
        trials.iter().filter(|t| t.1 >= goal.last.as_secs_f64()).copied().collect();
    full.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = full.iter().map(|t| t.1).sum::<f64>().max(goal.sum.as_secs_f64());
    let mut left = whole * (1.0 - goal.exceed_ratio);
    let mut ratio = 1.0;
    for (loss, secs) in full {
        if left <= whole * 1e-9 {
            break;
        }
        ratio = loss;
        left -= secs;
    }
    load as f64 * (1.0 - ratio)
}

/// Result for one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The goal.
    pub goal: Goal,
    /// Relevant Lower Bound: load of each stream, in thousandths of a frame a
    /// second; nothing if the goal fails at the lowest load too (irregular).
    pub lower: Option<u64>,
    /// Relevant Upper Bound; nothing if the goal holds at the highest load.
    pub upper: Option<u64>,
    /// Conditional Throughput, in thousandths of a frame a second.
    pub conditional: Option<f64>,
}

struct Search<'s, 'a> {
    work: &'s mut Work<'a>,
    plan: &'s Plan,
    name: &'s str,
    timing: Timing,
    min: u64,
    max: u64,
    loads: BTreeMap<u64, Trials>,
    count: usize,
}

/// Searches for all goals; the answers come in the order of the goals.
///
/// `timing` gives warm-up, drain and grace; the goals give the durations. A search that is
/// stopped has the bounds that its trials are enough for.
pub fn mlrsearch(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
    range: &Range,
    goals: &[Goal],
) -> Result<Vec<Found>, BenchError> {
    check(plan)?;
    let broken = |what: &str| Err(BenchError::Broken(what.into()));
    let Some(max) = range.top(plan) else {
        return broken("the highest load is not known: give the line's rate (--line) or --max");
    };
    let is_wrong =
        |g: &Goal| !(0.0..1.0).contains(&g.exceed_ratio) || g.initial.is_zero() || g.last.is_zero();
    if goals.iter().any(is_wrong) {
        return broken("a goal's exceed ratio is at least 0 and below 1, its trials take time");
    }
    let min = range.min.min(max);
    let (loads, count) = (BTreeMap::new(), 0);
    let mut search = Search { work, plan, name, timing, min, max, loads, count };
    // The loosest goal first: its bounds are the outermost.
    let mut order: Vec<usize> = (0..goals.len()).collect();
    order.sort_by(|&a, &b| goals[b].loss_ratio.total_cmp(&goals[a].loss_ratio));
    let done = search.phases(goals, &order);
    so_far(done, !search.loads.is_empty())?;
    // Trials for one goal count for the others: the bounds may have moved.
    let found = goals.iter().map(|goal| {
        let (lower, upper) = search.bounds(goal);
        let trials = lower.and_then(|l| search.loads.get(&l));
        let conditional = lower.zip(trials).map(|(l, t)| conditional(l, t, goal));
        Found { goal: *goal, lower, upper, conditional }
    });
    Ok(found.collect())
}

/// How long the trials of such a search take, about: in each phase a few for each goal, in
/// the last one so many that both bounds have their time.
pub fn time(timing: Timing, goals: &[Goal]) -> Duration {
    let phase = |goal: &Goal, phase| {
        let goal = goal.phase(phase);
        let trials = (goal.sum.as_secs_f64() / goal.last.as_secs_f64()).ceil().max(1.0) as u32;
        (timing.warm_up + goal.last) * trials * 3
    };
    let each = |goal| (0..=PHASES).map(move |at| phase(goal, at)).sum::<Duration>();
    goals.iter().map(each).sum()
}

type Bounds = (Option<u64>, Option<u64>);

impl Search<'_, '_> {
    /// Runs every phase, its goals in the order given.
    fn phases(&mut self, goals: &[Goal], order: &[usize]) -> Result<(), BenchError> {
        let mut hints = vec![(None, None); goals.len()];
        for phase in 0..=PHASES {
            for &i in order {
                hints[i] = self.refine(&goals[i].phase(phase), hints[i])?;
            }
        }
        Ok(())
    }

    /// Relevant bounds: the smallest upper bound, and the largest lower bound
    /// below it.
    fn bounds(&self, goal: &Goal) -> Bounds {
        let class = |c: Class| move |t: &(&u64, &Trials)| classify(t.1, goal) == c;
        let upper = self.loads.iter().find(class(Class::Upper)).map(|t| *t.0);
        let below = self.loads.range(..upper.unwrap_or(u64::MAX));
        let lower = below.rev().find(class(Class::Lower)).map(|t| *t.0);
        (lower, upper)
    }

    /// Trials until the bounds of a goal are close enough.
    fn refine(&mut self, goal: &Goal, hint: Bounds) -> Result<Bounds, BenchError> {
        let mut step = goal.width;
        loop {
            let (lower, upper) = self.bounds(goal);
            let Some(load) = self.next(goal, (lower, upper), hint, &mut step) else {
                return Ok((lower, upper));
            };
            self.decide(goal, load)?;
        }
    }

    /// The load to look at next; nothing if there is nothing left to ask.
    fn next(
        &self,
        goal: &Goal,
        (lower, upper): Bounds,
        hint: Bounds,
        step: &mut f64,
    ) -> Option<u64> {
        // The bounds of the phase before come first.
        let inside = |load: &u64| {
            lower.is_none_or(|l| *load > l)
                && upper.is_none_or(|u| *load < u)
                && (self.min..=self.max).contains(load)
        };
        let hinted = [hint.0, hint.1].into_iter().flatten().find(inside);
        match (lower, upper) {
            (Some(low), Some(high)) if is_close(low, high, goal.width) => None,
            _ if hinted.is_some() => hinted,
            (Some(low), Some(high)) => Some(middle(low, high)),
            (Some(low), None) if low >= self.max => None,
            (Some(low), None) => {
                *step *= WIDEN;
                Some(((low as f64 * (1.0 + *step)) as u64 + 1).min(self.max))
            }
            (None, Some(high)) if high <= self.min => None,
            (None, Some(high)) => {
                *step *= WIDEN;
                Some(((high as f64 * (1.0 - step.min(0.5))) as u64).clamp(self.min, high - 1))
            }
            (None, None) => Some(self.max),
        }
    }

    /// Trials at one load until it is known which bound it is.
    fn decide(&mut self, goal: &Goal, load: u64) -> Result<(), BenchError> {
        loop {
            if self.count >= TRIALS_MAX {
                let what = format!("no bounds after {TRIALS_MAX} trials: the device is too uneven");
                return Err(BenchError::Broken(what));
            }
            self.count += 1;
            let timing = Timing { duration: goal.last, ..self.timing };
            let (measured, _) = self.work.at(self.name, self.plan, timing, load)?;
            let trial = (ratio(&measured), goal.last.as_secs_f64());
            let trials = self.loads.entry(load).or_default();
            trials.push(trial);
            if classify(trials, goal) != Class::Undecided {
                return Ok(());
            }
        }
    }
}

/// Trial Loss Ratio: what could not be sent counts as lost, and so does a trial without
/// a frame, for nothing is known of the load that was asked for.
fn ratio(measured: &Measured) -> f64 {
    measured.loss_ratio()
}

fn is_close(low: u64, high: u64, width: f64) -> bool {
    high - low <= 1 || (high - low) as f64 <= width * high as f64
}

/// Halfway in ratio.
fn middle(low: u64, high: u64) -> u64 {
    let middle = (low as f64 * high as f64).sqrt() as u64;
    middle.clamp(low + 1, high - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(exceed_ratio: f64, sum: u64) -> Goal {
        let last = Duration::from_secs(10);
        Goal { exceed_ratio, sum: Duration::from_secs(sum), ..Goal::new(0.0, last) }
    }

    #[test]
    fn goals_without_a_length_of_trial_have_a_time() {
        let timing = Timing::new(Duration::ZERO);
        assert_eq!(time(timing, &[Goal::new(0.0, Duration::ZERO)]), Duration::ZERO);
        // An eighth of a nanosecond is none.
        let short = Goal::new(0.0, Duration::from_nanos(1));
        assert!(short.initial.is_zero() && time(timing, &[short]) > Duration::ZERO);
        assert_eq!(short.phase(1).last, short.last);
    }

    #[test]
    fn loads_are_classified_as_rfc_9971_says() {
        let (good, bad) = ((0.0, 10.0), (0.1, 10.0));
        let strict = goal(0.0, 10);
        assert_eq!(classify(&vec![good], &strict), Class::Lower);
        assert_eq!(classify(&vec![bad], &strict), Class::Upper);
        // Two minutes, half of which may exceed: six good ones decide, or seven
        // bad ones.
        let half = goal(0.5, 120);
        assert_eq!(classify(&vec![good; 5], &half), Class::Undecided);
        assert_eq!(classify(&vec![good; 6], &half), Class::Lower);
        assert_eq!(classify(&vec![bad; 6], &half), Class::Undecided);
        assert_eq!(classify(&vec![bad; 7], &half), Class::Upper);
        // Short trials alone may make an upper bound and never a lower one, and
        // short good ones make up for short bad ones.
        assert_eq!(classify(&vec![(0.0, 1.0); 500], &half), Class::Undecided);
        assert_eq!(classify(&vec![(0.1, 1.0); 61], &half), Class::Upper);
        let both = [vec![(0.1, 1.0); 61], vec![(0.0, 1.0); 61]].concat();
        assert_eq!(classify(&both, &half), Class::Undecided);
    }

    #[test]
    fn conditional_throughput_takes_the_loss_of_the_tolerated_quantile() {
        let half = goal(0.5, 40);
        let trials = vec![(0.3, 10.0), (0.0, 10.0), (0.002, 10.0), (0.0, 10.0)];
        assert_eq!(conditional(1000, &trials, &half), 1000.0);
        let strict = goal(0.0, 40);
        assert_eq!(conditional(1000, &trials, &strict), 700.0);
        assert_eq!(conditional(1000, &trials, &goal(0.25, 40)), 998.0);
    }
}
