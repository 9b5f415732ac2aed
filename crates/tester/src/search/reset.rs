//! Reset (RFC 2544 section 26.6 as updated by RFC 6201, RFC 5695 section 6.5): how
//! long a device does not forward when it is reset under load.
//!
//! ```text
//!   sent      | | | | | | | | | | | | | | | |
//!   arrived   | | |                 | | | | |
//!                 A                 B          by time stamps: from A to B
//!                   x x x x x x x x            by loss: frames lost / their rate
//! ```
//!
//! Both ways of RFC 6201 section 4.3 are computed. That of time stamps is exact to
//! the time of one frame on either side; that by loss also counts what was lost
//! apart from the outage, so the two differ where the device loses more.

use super::{Work, check};
use crate::bench::BenchError;
use crate::rate::Rate;
use crate::stream::Plan;
use crate::trial::{Timing, TrialResult};
use ferrule_base::Duration;

/// The answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// Load of each stream, in thousandths of a frame a second.
    pub load: u64,
    /// Frames that were sent.
    pub offered: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// From the last frame before the outage to the first behind it; nothing if
    /// no frame was lost, or none came any more.
    pub by_time: Option<Duration>,
    /// The time of the frames that were lost; nothing as above.
    pub by_loss: Option<Duration>,
    /// True if frames arrived again at the end.
    pub is_back: bool,
    /// The trial.
    pub result: TrialResult,
}

impl Found {
    /// True if there was an outage at all.
    pub const fn was_reset(&self) -> bool {
        self.lost > 0
    }
}

/// Sends at `load` while the device is reset, so long after the measurement began;
/// without `at` somebody else resets it.
pub fn reset(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
    load: u64,
    at: Option<Duration>,
) -> Result<Found, BenchError> {
    check(plan)?;
    let plan = plan.at(Rate::MilliFrames(load));
    if let Some(at) = at {
        work.reset_at(at)?;
    }
    let result = work.trial(name, &plan, timing)?;
    let streams = &result.streams;
    let is_back = streams.iter().all(|s| s.offered == 0 || s.received.next >= s.offered);
    let lost = result.lost();
    let silence = streams.iter().map(|s| s.received.silence_nanos()).max().unwrap_or(0);
    let rate = load as f64 / 1e3 * streams.len() as f64;
    let known = lost > 0 && is_back;
    Ok(Found {
        load,
        offered: result.offered(),
        lost,
        by_time: known.then(|| Duration::from_nanos(silence)),
        by_loss: known.then(|| Duration::from_secs_f64(lost as f64 / rate)),
        is_back,
        result,
    })
}
