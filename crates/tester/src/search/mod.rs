//! Searches: trials after trials until a question has its answer.
//!
//! | search | question | standard |
//! | --- | --- | --- |
//! | [`throughput`] | the highest load without loss | RFC 2544 section 26.1 |
//! | [`latency`] | how long frames take at a load | RFC 2544 section 26.2 |
//! | [`loss`] | how much is lost at each load | RFC 2544 section 26.3 |
//! | [`back_to_back`] | the longest burst without loss | RFC 2544 section 26.4, RFC 9004 |
//! | [`mlrsearch`] | the load for each of several loss ratios | RFC 9971 |
//! | [`bridge`] | forwarding rate, addresses, broadcast, errored frames | RFC 2889 section 5 |
//! | [`mesh`] | who sends to whom among several ports | RFC 2889 sections 5.1 to 5.4 |
//! | [`congestion`] | what becomes of an uncongested port beside a congested one | RFC 2889 section 5.5 |
//! | [`mpls`] | the first three for push, swap and pop | RFC 5695 section 6 |
//! | [`recovery`] | how long frames are lost after an overload | RFC 2544 section 26.5, RFC 5695 section 6.4 |
//! | [`reset`] | how long a reset takes | RFC 6201, RFC 5695 section 6.5 |
//! | [`soak`] | whether a load is carried for long | |
//!
//! A load is a rate for each stream of the plan, in thousandths of a frame a
//! second: an integer, so that a bisection ends where it says.
//!
//! A trial passes when every frame that should have been sent was sent and
//! arrived whole. If frames could not be sent, it fails as well, and the answer
//! says that it is the tester's limit and not the device's. A trial in which no
//! frame was sent, because it is too short for its load, says nothing of the
//! device and never passes.
//!
//! A search that is stopped answers with what it has found so far, if that is anything;
//! [`Work::is_stopped`] says so.

pub mod back_to_back;
pub mod bridge;
pub mod congestion;
pub mod latency;
pub mod loss;
pub mod mesh;
pub mod mlrsearch;
pub mod mpls;
pub mod recovery;
pub mod reset;
pub mod soak;
pub mod throughput;

use crate::bench::{Bench, BenchError};
use crate::rate::{Rate, line_bits};
use crate::stream::{Fault, Plan};
use crate::trial::{Timing, TrialResult, TrialSpec};
use ferrule_base::Duration;

/// Trials of a search at most.
pub const TRIALS_MAX: usize = 10_000;

/// One trial as a search saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Load of each stream, in thousandths of a frame a second.
    pub load: u64,
    /// How long it was measured.
    pub duration: Duration,
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that were sent.
    pub offered: u64,
    /// Frames that arrived where they should, whole.
    pub received: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
    /// Frames that could not be sent.
    pub unsent: u64,
    /// Mean latency in nanoseconds.
    pub latency_mean: Option<f64>,
    /// How late the latest frame left, in nanoseconds.
    pub late_max: u64,
}

impl Measured {
    fn of(load: u64, result: &TrialResult) -> Self {
        Self {
            load,
            duration: result.duration,
            intended: result.intended(),
            offered: result.offered(),
            received: result.received(),
            lost: result.lost(),
            unsent: result.unsent(),
            latency_mean: result.latency().mean(),
            late_max: result.lateness().max,
        }
    }

    /// True if every frame was sent and arrived whole, and there was one at least.
    pub const fn passes(&self) -> bool {
        self.offered > 0 && self.unsent == 0 && self.received == self.offered
    }

    /// True if no frame was due: the trial is too short for its load.
    pub const fn is_silent(&self) -> bool {
        self.intended == 0
    }

    /// True if the load was nearly as intended, but not quite: the tester was kept from sending for
    /// a while, and sent late and in a burst, or not all. The frames' fate then says nothing about
    /// the load.
    pub fn is_uneven(&self, timing: &Timing) -> bool {
        let late = u128::from(self.late_max) > timing.grace.as_nanos();
        self.unsent <= self.intended / 10 && (self.unsent > 0 || late)
    }

    /// The share of what should have arrived and did not; all, if no frame was due: nothing is known
    /// of such a load.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended == 0 {
            return 1.0;
        }
        (self.intended - self.received.min(self.intended)) as f64 / self.intended as f64
    }
}

/// Receives a line on each step of the work.
pub type Watch<'a> = dyn FnMut(&str) + 'a;

/// A bench, the function that is told of each trial, and the measurements made so far.
pub struct Work<'a> {
    bench: &'a mut dyn Bench,
    watch: &'a mut Watch<'a>,
    /// Every trial in order.
    pub trials: Vec<Measured>,
    stopped: bool,
}

impl<'a> Work<'a> {
    /// Work on a bench; `watch` is told of every trial.
    pub fn new(bench: &'a mut dyn Bench, watch: &'a mut Watch<'a>) -> Self {
        Self { bench, watch, trials: Vec::new(), stopped: false }
    }

    /// The bench.
    pub fn bench(&self) -> &dyn Bench {
        self.bench
    }

    /// True if the work was stopped: results cover the measurements made before.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// See [`Bench::interrupted`].
    pub fn interrupted(&mut self) -> Option<TrialResult> {
        self.bench.interrupted()
    }

    /// See [`Bench::reset_at`].
    pub fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        self.bench.reset_at(after)
    }

    /// Runs one trial of `plan` as it is.
    pub fn trial(
        &mut self,
        what: &str,
        plan: &Plan,
        timing: Timing,
    ) -> Result<TrialResult, BenchError> {
        if self.trials.len() >= TRIALS_MAX {
            return Err(BenchError::Broken(format!("no answer after {TRIALS_MAX} trials")));
        }
        let rate = plan.streams.first().map_or(Rate::MilliFrames(0), |s| s.rate);
        let spec = TrialSpec { plan: plan.clone(), timing };
        let result = self.bench.trial(&spec);
        self.stopped |= matches!(result, Err(BenchError::Stopped));
        let result = result?;
        let load = match rate {
            Rate::MilliFrames(load) => load,
            _ => 0,
        };
        let measured = Measured::of(load, &result);
        (self.watch)(&line(what, rate, &measured));
        self.trials.push(measured);
        Ok(result)
    }

    /// Runs one trial with every stream at `load`.
    pub fn at(
        &mut self,
        what: &str,
        plan: &Plan,
        timing: Timing,
        load: u64,
    ) -> Result<(Measured, TrialResult), BenchError> {
        let result = self.trial(what, &plan.at(Rate::MilliFrames(load)), timing)?;
        Ok((Measured::of(load, &result), result))
    }
}

/// Work that may have been stopped: nothing if it was, and the trials so far are worth an answer.
fn so_far<T>(done: Result<T, BenchError>, is_something: bool) -> Result<Option<T>, BenchError> {
    match done {
        Err(BenchError::Stopped) if is_something => Ok(None),
        done => done.map(Some),
    }
}

/// A trial in one line.
fn line(what: &str, rate: Rate, m: &Measured) -> String {
    let mut line = format!("{what}: {rate} for {:?}: ", m.duration);
    if m.is_silent() {
        line += "no frame was sent";
    } else if m.passes() {
        line += &format!("all {} frames arrived", m.received);
    } else {
        line += &format!("{} of {} frames arrived", m.received, m.offered);
        if m.unsent > 0 {
            line += &format!(", {} could not be sent", m.unsent);
        }
    }
    line
}

/// Bounds and resolution of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lowest load that is tried.
    pub min: u64,
    /// The highest; nothing: the line's, or where doubling ends.
    pub max: Option<u64>,
    /// The search ends when the bounds are as close as this share of the upper.
    pub resolution: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { min: 1000, max: None, resolution: 0.005 }
    }
}

impl Range {
    /// The highest load: as given, but never more than the line carries.
    pub fn top(&self, plan: &Plan) -> Option<u64> {
        match (self.max, line_load(plan)) {
            (Some(max), Some(line)) => Some(max.min(line)),
            (max, line) => max.or(line),
        }
    }

    /// Halvings until two bounds that are far apart are close enough, about.
    pub fn halvings(&self) -> u32 {
        (1.0 / self.resolution.clamp(1e-9, 1.0)).log2().ceil() as u32 + 1
    }

    /// True if two bounds are close enough.
    pub fn is_met(&self, low: u64, high: u64) -> bool {
        high - low <= 1 || (high - low) as f64 <= self.resolution * high as f64
    }
}

/// The load at which the busiest port fills its line, every stream at the same
/// rate; nothing if the line's rate is not known.
pub fn line_load(plan: &Plan) -> Option<u64> {
    let line = plan.line?;
    let mut bits = vec![0f64; plan.ports()];
    for stream in &plan.streams {
        let (lens, order) = stream.sizes.pattern()?;
        let sum: u64 =
            order.iter().filter_map(|&i| lens.get(usize::from(i))).map(|&l| line_bits(l)).sum();
        *bits.get_mut(stream.tx)? += sum as f64 / order.len() as f64;
    }
    let most = bits.into_iter().fold(0.0, f64::max);
    (most > 0.0).then(|| (line as f64 * 1000.0 / most) as u64)
}

/// A plan and what a search of it needs.
pub(crate) fn check(plan: &Plan) -> Result<(), Fault> {
    plan.at(Rate::frames(1)).check()
}
