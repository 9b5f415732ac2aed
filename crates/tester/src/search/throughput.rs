//! Throughput (RFC 1242 section 3.17, RFC 2544 section 26.1): the highest load
//! at which no frame is lost.
//!
//! ```text
//!   max ──fails──▶ bisect: low passes, high fails, until they are close
//!       ──passes─▶ that is it: the line's limit
//! ```
//!
//! Where no highest load is known, loads are doubled until one fails. What was
//! found with short trials is confirmed by one of full length; if that fails, the
//! search goes on below with trials of that length.
//!
//! A trial that fails and in which the tester sent unevenly is no trial of that
//! load: it is repeated a few times before it counts.

use super::{Measured, Range, Work, check, so_far};
use crate::bench::BenchError;
use crate::stream::Plan;
use crate::trial::{Timing, TrialResult};
use ferrule_base::Duration;

/// Trials at a load that fail while the tester itself was kept from sending: the
/// last of them decides.
const ATTEMPTS: usize = 4;
/// Where doubling begins, and how often it may double.
const FIRST: u64 = 10_000_000;
const DOUBLINGS_MAX: usize = 24;
/// Usual number of doublings: up to ten million frames a second.
const DOUBLINGS_USUAL: u32 = 10;

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Loads.
    pub range: Range,
    /// Trials while searching.
    pub probe: Timing,
    /// The trial that confirms what was found; nothing: it is not confirmed.
    pub confirm: Option<Timing>,
}

impl Throughput {
    /// How long its trials take, about: one at the top and the bisection, and the one that
    /// confirms. Without a known top, loads are doubled first.
    pub fn time(&self, plan: &Plan) -> Duration {
        let doubled = if self.range.top(plan).is_none() { DOUBLINGS_USUAL } else { 0 };
        let probes = 1 + doubled + self.range.halvings();
        self.probe.sending() * probes + self.confirm.map_or(Duration::ZERO, |c| c.sending())
    }
}

/// Reason for which no higher load passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At a higher load frames were lost.
    Device,
    /// The load is the highest allowed, or the highest that the line carries.
    Range,
    /// A higher load could not be sent.
    Tester,
    /// No frame was sent: the trial is too short for the load.
    Silent,
    /// The search was stopped. The loads between this one and the lowest that failed, if one did,
    /// are not known.
    Stopped,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// Load of each stream; nothing if no load passed: at the lowest frames were lost as well, or
    /// none was sent.
    pub load: Option<u64>,
    /// The lowest load that failed above it.
    pub failed: Option<u64>,
    /// Reason for which no higher load passed.
    pub limit: Limit,
    /// The trial at that load.
    pub result: Option<TrialResult>,
}

struct Search<'s, 'a> {
    work: &'s mut Work<'a>,
    plan: &'s Plan,
    name: &'s str,
    /// The highest load that passed, with its trial.
    low: Option<(u64, TrialResult)>,
    /// The lowest load that failed, and how.
    high: Option<(u64, Limit)>,
}

impl Search<'_, '_> {
    fn probe(&mut self, timing: Timing, load: u64) -> Result<bool, BenchError> {
        let (mut measured, mut result) = self.work.at(self.name, self.plan, timing, load)?;
        for _ in 1..ATTEMPTS {
            if measured.passes() || !measured.is_uneven(&timing) {
                break;
            }
            (measured, result) = self.work.at(self.name, self.plan, timing, load)?;
        }
        let passes = measured.passes();
        if passes {
            self.low = Some((load, result));
        } else {
            // What failed above says more than a trial that is too short to send.
            let above = self.high.filter(|_| measured.is_silent());
            self.high = Some((load, above.map_or_else(|| limit(&measured), |high| high.1)));
        }
        Ok(passes)
    }

    fn run(&mut self, settings: &Throughput) -> Result<(), BenchError> {
        self.bound(settings)?;
        self.bisect(settings, settings.probe)?;
        settings.confirm.map_or(Ok(()), |timing| self.confirm(settings, timing))
    }

    /// Bounds on both sides, or none above the top.
    fn bound(&mut self, settings: &Throughput) -> Result<(), BenchError> {
        if let Some(top) = settings.range.top(self.plan) {
            self.probe(settings.probe, top)?;
            return Ok(());
        }
        let mut load = FIRST.max(settings.range.min);
        for _ in 0..DOUBLINGS_MAX {
            if !self.probe(settings.probe, load)? {
                break;
            }
            load *= 2;
        }
        Ok(())
    }

    fn bisect(&mut self, settings: &Throughput, timing: Timing) -> Result<(), BenchError> {
        while let Some((high, _)) = self.high {
            let low = self.low.as_ref().map_or(settings.range.min, |l| l.0).min(high);
            if settings.range.is_met(low, high) {
                if self.low.is_some() || low >= high {
                    break;
                }
                // Nothing passed so far: the lowest load has the last word.
                self.probe(timing, low)?;
                break;
            }
            self.probe(timing, low + (high - low) / 2)?;
        }
        Ok(())
    }

    /// Tries what was found once more, for longer. If that fails, long trials go
    /// down by steps that grow until one passes, and from there bisect.
    fn confirm(&mut self, settings: &Throughput, timing: Timing) -> Result<(), BenchError> {
        let Some(found) = self.low.take() else { return Ok(()) };
        let load = found.0;
        let confirmed = self.probe(timing, load);
        if confirmed == Err(BenchError::Stopped) {
            self.low = Some(found);
        }
        if confirmed? {
            return Ok(());
        }
        let mut step = (load as f64 * settings.range.resolution).max(1.0);
        let mut below = load;
        loop {
            step *= 2.0;
            below = below.saturating_sub(step as u64);
            if below <= settings.range.min || self.probe(timing, below)? {
                return self.bisect(settings, timing);
            }
        }
    }
}

/// Cause of a failed trial: the tester if it could not send everything, no frame, or the device.
fn limit(measured: &Measured) -> Limit {
    if measured.is_silent() {
        return Limit::Silent;
    }
    let arrived = measured.received == measured.offered;
    if measured.unsent > 0 && arrived { Limit::Tester } else { Limit::Device }
}

/// Searches for the highest load at which every frame arrives.
pub fn throughput(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    settings: &Throughput,
) -> Result<Found, BenchError> {
    check(plan)?;
    let mut search = Search { work, plan, name, low: None, high: None };
    let done = search.run(settings);
    let done = so_far(done, search.low.is_some() || search.high.is_some())?;
    let Search { low, high, .. } = search;
    let (load, result) = low.unzip();
    let limit = high.map_or(Limit::Range, |h| h.1);
    let limit = if done.is_some() { limit } else { Limit::Stopped };
    Ok(Found { load, failed: high.map(|h| h.0), limit, result })
}
