//! When packets are due. The schedule does not wait for what came of earlier
//! packets, and no rounding adds up: each time is computed from the start.

use ferrule_base::{Duration, Instant};

/// Evenly spaced times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    start: Instant,
    /// Nothing is due at this time or later.
    stop: Instant,
    /// How many at most.
    count: u64,
    /// Nanoseconds that `per` of them take.
    nanos: u64,
    per: u64,
    next: u64,
}

impl Schedule {
    /// One every `gap`.
    pub fn every(gap: Duration) -> Self {
        Self::new(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX), 1)
    }

    /// So many in a second.
    pub fn per_second(packets: u64) -> Self {
        Self::new(1_000_000_000, packets)
    }

    /// As many frames of `octets` as make up `rate` bits per second.
    pub fn bits_per_second(rate: u64, octets: usize) -> Self {
        Self::new((octets as u64).saturating_mul(8_000_000_000), rate)
    }

    fn new(nanos: u64, per: u64) -> Self {
        let (start, stop) = (Instant::ZERO, Instant::FAR_FUTURE);
        Self { start, stop, count: u64::MAX, nanos: nanos.max(1), per: per.max(1), next: 0 }
    }

    /// From `start` until before `stop`, `count` at most.
    pub fn within(self, start: Instant, stop: Instant, count: Option<u64>) -> Self {
        Self { start, stop, count: count.unwrap_or(u64::MAX), ..self }
    }

    /// When the next is due; nothing: no more.
    pub fn due(&self) -> Option<Instant> {
        let after = u128::from(self.next) * u128::from(self.nanos) / u128::from(self.per);
        let due = self.start + Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX));
        (self.next < self.count && due < self.stop).then_some(due)
    }

    /// The number of the next and its time, if that has come.
    pub fn take(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let due = self.due().filter(|due| *due <= now)?;
        self.next += 1;
        Some((self.next - 1, due))
    }

    /// How many have been due.
    pub fn taken(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_udp_schedule_is_exact_to_a_nanosecond_after_a_million_packets() {
        let (start, stop) = (Instant::from_millis(100), Instant::from_secs(1_000));
        let mut schedule = Schedule::per_second(3).within(start, stop, None);
        let mut last = 0;
        for n in 0..2000 {
            let due = schedule.due().expect("a time");
            assert_eq!(due.as_nanos(), 100_000_000 + n * 1_000_000_000 / 3);
            assert_eq!(schedule.take(Instant::from_nanos(due.as_nanos() - 1)), None);
            assert_eq!(schedule.take(due), Some((n, due)));
            last = due.as_nanos();
        }
        assert!(last < stop.as_nanos());
        let mut schedule = Schedule::bits_per_second(1_000_000_000, 1000);
        for n in 0..1_000_001 {
            assert_eq!(schedule.take(Instant::FAR_FUTURE).map(|(n, _)| n), Some(n));
        }
        assert_eq!(schedule.due(), Some(Instant::from_nanos(1_000_001 * 8000)));
    }

    #[test]
    fn lab_schedule_ends_by_count_and_by_time() {
        let gap = Schedule::every(Duration::from_millis(10));
        let count = |mut s: Schedule| std::iter::from_fn(|| s.take(Instant::FAR_FUTURE)).count();
        let (start, stop) = (Instant::from_millis(5), Instant::from_millis(35));
        assert_eq!(count(gap.within(start, stop, None)), 3, "5, 15, 25; 35 is too late");
        assert_eq!(count(gap.within(start, stop, Some(2))), 2);
    }
}
