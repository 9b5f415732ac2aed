//! Latency (RFC 1242 section 3.8, RFC 2544 section 26.2) at one load, repeated.
//!
//! RFC 2544 tags one frame of a stream of 120 s and repeats that 20 times; here
//! every frame is measured, from the time at which it should have left to the
//! time at which the receiver had it. Both clocks are one, so nothing is to be
//! taken off for the receiver; the time of the tester's own ports is in it, and
//! a trial over a wire in place of the device tells how much that is.

use super::{Work, check, so_far};
use crate::bench::BenchError;
use crate::delay::{Jitter, Latency, Lateness};
use crate::statistics::Summary;
use crate::stream::Plan;
use crate::trial::Timing;

/// Result at one load.
#[derive(Clone, Debug)]
pub struct Found {
    /// Load of each stream.
    pub load: u64,
    /// Latency of all frames of all repeats.
    pub latency: Latency,
    /// The repeats' means in nanoseconds, with their confidence.
    pub means: Option<Summary>,
    /// Variation, by stream, of the last repeat.
    pub jitter: Vec<(String, Jitter)>,
    /// Lateness of frames.
    pub lateness: Lateness,
    /// Frames sent and received over all repeats.
    pub offered: u64,
    /// Frames that arrived.
    pub received: u64,
}

impl Found {
    /// True if a frame arrived: else there is no latency.
    pub const fn is_measured(&self) -> bool {
        self.received > 0
    }
}

/// Measures latency at `load`, `repeats` times.
pub fn latency(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
    load: u64,
    repeats: usize,
) -> Result<Found, BenchError> {
    check(plan)?;
    let mut found = Found {
        load,
        latency: Latency::new(true),
        means: None,
        jitter: Vec::new(),
        lateness: Lateness::default(),
        offered: 0,
        received: 0,
    };
    let mut means = Vec::new();
    for _ in 0..repeats.max(1) {
        let trial = work.at(name, plan, timing, load);
        let Some((_, result)) = so_far(trial, !means.is_empty())? else { break };
        let latency = result.latency();
        means.extend(latency.mean());
        found.latency.merge(&latency);
        found.lateness.merge(&result.lateness());
        found.offered += result.offered();
        found.received += result.received();
        let jitter = |s: &crate::StreamResult| (s.name.clone(), s.received.jitter);
        found.jitter = result.streams.iter().map(jitter).collect();
    }
    found.means = Summary::of(&means);
    Ok(found)
}
