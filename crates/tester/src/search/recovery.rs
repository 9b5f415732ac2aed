//! System recovery (RFC 2544 section 26.5, RFC 5695 section 6.4): how long a device
//! still loses frames after it was given more than it can carry.
//!
//! ```text
//!   load   110 % of the throughput, or what the line carries
//!          ──────────┐
//!                    └──────────  half of that
//!   lost   xx x xx x  x x
//!                    A    B       recovery: from A, when the load falls, to B,
//!                                 when the last lost frame should have left
//! ```
//!
//! A frame's own number says which was lost last, and its schedule when that should
//! have left: exact to the time of one frame.

use super::{Range, Work, check};
use crate::bench::BenchError;
use crate::rate::Rate;
use crate::statistics::Summary;
use crate::stream::{Plan, Stream};
use crate::trial::{Timing, TrialResult};
use ferrule_base::Duration;

/// Parameters of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// The throughput, in thousandths of a frame a second.
    pub throughput: u64,
    /// Bounds of loads.
    pub range: Range,
    /// The trial's phases; what it measures begins overloaded.
    pub timing: Timing,
    /// How long the device is overloaded (RFC 2544: 60 s at least).
    pub overload: Duration,
    /// Trials.
    pub repeats: usize,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Frames lost of those that were sent while it was overloaded.
    pub lost_overloaded: u64,
    /// Frames lost of those that were sent afterwards.
    pub lost_after: u64,
    /// From the fall of the load to the last lost frame; zero if none was lost
    /// after it, nothing if frames were lost until the end.
    pub time: Option<Duration>,
    /// True if the whole load was offered.
    pub was_offered: bool,
    /// True if frames were sent both while it was overloaded and afterwards: else nothing is known.
    pub was_sent: bool,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The load while it was overloaded.
    pub overload: u64,
    /// The load afterwards.
    pub rest: u64,
    /// By trial.
    pub trials: Vec<Recovered>,
    /// Recovery times in seconds; nothing if there is none.
    pub summary: Option<Summary>,
    /// The last trial.
    pub result: Option<TrialResult>,
}

impl Found {
    /// True if frames were lost while the load was above the throughput: without that there is no
    /// overload to recover from.
    pub fn was_overloaded(&self) -> bool {
        self.trials.iter().any(|t| t.lost_overloaded > 0)
    }

    /// True if every trial sent frames in both phases.
    pub fn was_sent(&self) -> bool {
        self.trials.iter().all(|t| t.was_sent)
    }

    /// True if every trial ended without loss.
    pub fn recovers(&self) -> bool {
        self.trials.iter().all(|t| t.was_sent && t.time.is_some())
    }
}

/// The plan: every stream twice, first faster, then slower.
fn plan(plan: &Plan, overload: u64, rest: u64, until: Duration) -> Plan {
    let part = |stream: &Stream, name: &str, load, after, until| Stream {
        name: format!("{} {name}", stream.name),
        rate: Rate::MilliFrames(load),
        after,
        until,
        ..stream.clone()
    };
    let fast = |s| part(s, "overload", overload, Duration::ZERO, Some(until));
    let slow = |s| part(s, "after", rest, until, None);
    let streams = plan.streams.iter().map(fast).chain(plan.streams.iter().map(slow)).collect();
    Plan { streams, line: plan.line }
}

/// Overloads the device and lets it recover.
pub fn recovery(
    work: &mut Work<'_>,
    name: &str,
    streams: &Plan,
    settings: &Recovery,
) -> Result<Found, BenchError> {
    check(streams)?;
    let asked = (u128::from(settings.throughput) * 11 / 10) as u64;
    let overload = settings.range.top(streams).map_or(asked, |top| top.min(asked)).max(2);
    let rest = overload / 2;
    let plan = plan(streams, overload, rest, settings.overload);
    let timing = settings.timing;
    if timing.duration <= settings.overload {
        let what = "the trial ends before the load falls: measure for longer";
        return Err(BenchError::Broken(what.into()));
    }
    let (mut trials, mut last) = (Vec::new(), None);
    for _ in 0..settings.repeats.max(1) {
        let result = work.trial(name, &plan, timing)?;
        trials.push(recovered(&result, streams.streams.len(), settings.overload));
        last = Some(result);
    }
    let times: Option<Vec<f64>> = trials.iter().map(|t| Some(t.time?.as_secs_f64())).collect();
    let summary = times.and_then(|times| Summary::of(&times));
    Ok(Found { overload, rest, trials, summary, result: last })
}

fn recovered(result: &TrialResult, count: usize, overload: Duration) -> Recovered {
    let (fast, slow) = result.streams.split_at(count.min(result.streams.len()));
    let lost = |part: &[crate::StreamResult]| part.iter().map(crate::StreamResult::lost).sum();
    // Frames are lost until the end if a stream's last frame is.
    let until_end = slow.iter().any(|s| s.offered > 0 && s.received.next < s.offered);
    let latest = slow.iter().filter_map(|s| s.last_lost).max();
    let time = latest.map_or(Duration::ZERO, |at| at.saturating_sub(overload));
    let any = |part: &[crate::StreamResult]| part.iter().any(|s| s.offered > 0);
    Recovered {
        lost_overloaded: lost(fast),
        lost_after: lost(slow),
        time: (!until_end).then_some(time),
        was_offered: result.was_offered(),
        was_sent: any(fast) && any(slow),
    }
}
