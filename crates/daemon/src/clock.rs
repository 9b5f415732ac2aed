//! The system's monotonic clock, as the node counts: from its start.

use ferrule_base::Instant;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the first call, for stopwatches.
pub fn nanoseconds() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// A clock that began when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
    /// The time of day at the start, in nanoseconds since 1970.
    epoch: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(epoch.as_nanos()).unwrap_or(0);
        Self { start: std::time::Instant::now(), epoch }
    }

    /// The node's time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// The time of day of a point in the node's time, for captures.
    pub fn time_of_day(&self, at: Instant) -> u64 {
        self.epoch.saturating_add(at.as_nanos())
    }
}
