//! Congestion control (RFC 2889 section 5.5): whether a port that gets more than it
//! can send holds up frames for another that does not.
//!
//! ```text
//!   first source  ── half ──▶ uncongested port      must lose nothing
//!                 └─ half ─┐
//!   second source ── all ──┴▶ congested port        150 % of what it can send
//! ```
//!
//! | what is seen | what it means |
//! | --- | --- |
//! | frames for the uncongested port are lost | head of line blocking |
//! | no frame for the congested port is lost, but sources were held up | back pressure |
//! | no frame is lost, and all were sent | the port was not congested |
//!
//! Over real ports a source that is held up shows as frames that could not be sent.

use super::mesh::between;
use super::{Range, Work, bridge};
use crate::bench::BenchError;
use crate::rate::Rate;
use crate::stream::{Plan, Stream};
use crate::trial::{Timing, TrialResult};
use ferrule_base::MacAddr;

/// Ports by their role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Sends to both.
    pub first: usize,
    /// Sends to the congested port alone.
    pub second: usize,
    /// Gets more than it can send.
    pub congested: usize,
    /// Gets half.
    pub uncongested: usize,
}

/// Counts of the frames for one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that were sent.
    pub offered: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
}

/// Reaction of the device to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The device drops frames that the congested port cannot send.
    Drops,
    /// The device slows the sources down.
    BackPressure,
    /// The port carried all that it got.
    NotCongested,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The maximum offered load of a source, in thousandths of a frame a second.
    pub load: u64,
    /// Frames for the congested port.
    pub congested: Share,
    /// Frames for the uncongested port.
    pub uncongested: Share,
    /// Congestion control seen.
    pub control: Control,
    /// The trial.
    pub result: TrialResult,
}

impl Found {
    /// True if frames were sent to both ports: else nothing is known.
    pub const fn was_sent(&self) -> bool {
        self.uncongested.offered > 0 && self.congested.offered > 0
    }

    /// True if frames for the free port were lost because they waited behind those for the
    /// congested one (head-of-line blocking).
    pub const fn is_blocked(&self) -> bool {
        self.uncongested.lost > 0
    }
}

/// The streams of the test at a load of the sources.
pub fn plan(
    stream: &Stream,
    macs: &[MacAddr],
    roles: &Roles,
    load: u64,
    line: Option<u64>,
) -> Plan {
    let part = |name: &str, tx, rx, rate, phase| Stream {
        name: name.into(),
        rate: Rate::MilliFrames(rate),
        ..between(stream, macs, (tx, rx), phase)
    };
    let Roles { first, second, congested, uncongested } = *roles;
    let streams = vec![
        part("first to uncongested", first, uncongested, load / 2, (0, 2)),
        part("first to congested", first, congested, load / 2, (1, 2)),
        part("second to congested", second, congested, load, (0, 1)),
    ];
    Plan { streams, line }
}

/// Runs the test once, at the highest load of a source.
pub fn congestion(
    work: &mut Work<'_>,
    stream: &Stream,
    macs: &[MacAddr],
    roles: &Roles,
    line: Option<u64>,
    range: &Range,
    timing: Timing,
) -> Result<Found, BenchError> {
    let Some(load) = range.top(&Plan::one(stream.clone(), line)) else {
        let what = "the highest load is not known: give the line's rate (--line) or --max";
        return Err(BenchError::Broken(what.into()));
    };
    let plan = plan(stream, macs, roles, load, line);
    bridge::teach(work, &plan)?;
    let result = work.trial("congestion", &plan, timing)?;
    let share = |places: &[usize]| {
        let mut sum = Share::default();
        for stream in places.iter().filter_map(|&i| result.streams.get(i)) {
            sum.intended += stream.offered + stream.unsent;
            sum.offered += stream.offered;
            sum.received += stream.received.frames;
            sum.lost += stream.lost();
        }
        sum
    };
    let (uncongested, congested) = (share(&[0]), share(&[1, 2]));
    let control = match (congested.lost, result.unsent()) {
        (0, 0) => Control::NotCongested,
        (0, _) => Control::BackPressure,
        _ => Control::Drops,
    };
    Ok(Found { load, congested, uncongested, control, result })
}
