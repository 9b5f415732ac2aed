//! Soak: one load for a long time, looked at in parts.

use super::{Work, check};
use crate::bench::BenchError;
use crate::sink::Interval;
use crate::stream::Plan;
use crate::trial::{Timing, TrialResult};
use ferrule_base::Duration;

/// Result of a long trial.
#[derive(Clone, Debug)]
pub struct Found {
    /// The trial.
    pub result: TrialResult,
    /// The length of a part.
    pub part: Duration,
    /// Parts in which frames were lost: place and frames.
    pub lossy: Vec<(usize, u64)>,
    /// The part with the largest latency, and that latency in nanoseconds.
    pub slowest: Option<(usize, u64)>,
}

impl Found {
    /// True if every frame was sent and arrived whole, once, at the right port, and there was one
    /// at least.
    pub fn is_clean(&self) -> bool {
        let result = &self.result;
        let odd = |s: &crate::StreamResult| {
            s.elsewhere + s.received.duplicated + s.received.stale + s.received.misencapsulated
        };
        result.offered() > 0
            && result.unsent() == 0
            && result.received() == result.offered()
            && result.streams.iter().map(odd).sum::<u64>() == 0
    }
}

/// Carries the plan's own rates for `timing`.
pub fn soak(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
) -> Result<Found, BenchError> {
    check(plan)?;
    let part = timing.interval.unwrap_or(Duration::from_secs(1));
    let trial = work.trial(name, plan, Timing { interval: Some(part), ..timing });
    let result = match trial {
        Err(BenchError::Stopped) => work.interrupted().ok_or(BenchError::Stopped)?,
        trial => trial?,
    };
    let missing = |i: &Interval| i.offered.saturating_sub(i.received);
    let parts = result.intervals.iter().enumerate();
    let lossy = parts.clone().filter(|p| missing(p.1) > 0).map(|(i, p)| (i, missing(p))).collect();
    let slowest = parts.map(|(i, p)| (i, p.latency_max)).max_by_key(|p| p.1);
    Ok(Found { part, lossy, slowest, result })
}
