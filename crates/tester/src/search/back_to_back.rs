//! Back-to-back frames (RFC 1242 section 3.1, RFC 2544 section 26.4): the longest
//! burst at the rate of the line of which no frame is lost, as RFC 9004 updates
//! it: the search is repeated, the mean is the answer, and from it follows how
//! long the device can hold frames.

use super::{Work, check, line_load, so_far};
use crate::bench::BenchError;
use crate::rate::Rate;
use crate::statistics::Summary;
use crate::stream::Plan;
use crate::trial::Timing;
use ferrule_base::Duration;

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackToBack {
    /// The longest burst, in time (RFC 2544: 2 s at least).
    pub longest: Duration,
    /// How often the search is repeated (RFC 2544: 50 times).
    pub repeats: usize,
    /// Waited for frames after a burst.
    pub drain: Duration,
    /// Bounds of a burst are this close when a search ends, as a share.
    pub resolution: f64,
    /// The throughput of the same plan, if it was measured: with it the time that
    /// the device holds frames is corrected (RFC 9004 section 6.4).
    pub throughput: Option<u64>,
}

impl BackToBack {
    /// How long its trials take, about: bursts that grow shorter, each with as much again.
    pub fn time(&self) -> Duration {
        let halvings = (1.0 / self.resolution.clamp(1e-9, 1.0)).log2().ceil() as u32;
        (self.longest * 4 + self.longest * halvings / 2) * self.repeats as u32
    }
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The longest burst that passed in each repeat.
    pub bursts: Vec<u64>,
    /// Mean, spread and confidence of them.
    pub summary: Option<Summary>,
    /// The rate of the bursts, in thousandths of a frame a second.
    pub load: u64,
    /// How long the device can hold frames, in seconds, from the mean.
    pub buffer_secs: f64,
    /// The same time, corrected by the frames that the device forwarded meanwhile.
    pub buffer_corrected_secs: Option<f64>,
    /// The longest burst that was tried passed: the device may take more.
    pub at_limit: bool,
}

/// Searches for the longest burst of which every frame arrives.
pub fn back_to_back(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    settings: &BackToBack,
) -> Result<Found, BenchError> {
    check(plan)?;
    let Some(load) = line_load(plan) else {
        let what = "bursts follow each other at the line's rate: give it (--line)";
        return Err(BenchError::Broken(what.into()));
    };
    let longest = (load as f64 / 1000.0 * settings.longest.as_secs_f64()).max(1.0) as u64;
    let mut bursts = Vec::new();
    for _ in 0..settings.repeats.max(1) {
        let burst = longest_burst(work, name, plan, settings, load, longest);
        let Some(burst) = so_far(burst, !bursts.is_empty())? else { break };
        bursts.push(burst);
    }
    let values: Vec<f64> = bursts.iter().map(|&b| b as f64).collect();
    let summary = Summary::of(&values);
    let mean = summary.as_ref().map_or(0.0, |s| s.mean);
    let buffer_secs = mean / (load as f64 / 1000.0);
    let share = settings.throughput.map(|t| (t as f64 / load as f64).min(1.0));
    Ok(Found {
        at_limit: bursts.contains(&longest),
        bursts,
        summary,
        load,
        buffer_secs,
        buffer_corrected_secs: share.map(|share| buffer_secs * (1.0 - share)),
    })
}

fn longest_burst(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    settings: &BackToBack,
    load: u64,
    longest: u64,
) -> Result<u64, BenchError> {
    let mut passes = |frames: u64| {
        let mut plan = plan.at(Rate::MilliFrames(load));
        plan.streams.iter_mut().for_each(|s| s.frames = Some(frames));
        // Twice its own time, so that no frame is cut off by the end.
        let secs = frames as f64 / (load as f64 / 1000.0) * 2.0;
        let timing = Timing {
            warm_up: Duration::ZERO,
            drain: settings.drain,
            ..Timing::new(Duration::from_secs_f64(secs.max(0.001)))
        };
        let result = work.trial(&format!("{name}, {frames} frames"), &plan, timing)?;
        let (offered, received) = (result.offered(), result.received());
        Ok::<_, BenchError>(offered > 0 && result.unsent() == 0 && received == offered)
    };
    if passes(longest)? {
        return Ok(longest);
    }
    let (mut low, mut high) = (0, longest);
    while high - low > 1 && (high - low) as f64 > settings.resolution * high as f64 {
        let middle = low + (high - low) / 2;
        *(if passes(middle)? { &mut low } else { &mut high }) = middle;
    }
    Ok(low)
}
