//! Rate limit of a node's messages about packets: a token bucket (RFC 1812 section 4.3.2.8,
//! RFC 4443 section 2.4 (f)), one for each worker and purpose.

use ferrule_base::Instant;

/// A token bucket: a rate per second on average, and a burst.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Nanoseconds for one.
    each: u64,
    /// Nanoseconds saved up at most.
    most: u64,
    /// Nanoseconds saved up at `since`.
    saved: u64,
    since: Instant,
}

impl Bucket {
    /// A full bucket. `per_second` is at least 1.
    pub const fn new(per_second: u64, burst: u64) -> Self {
        let each = 1_000_000_000 / per_second;
        let most = each * burst;
        Self { each, most, saved: most, since: Instant::ZERO }
    }

    /// Spends one token if there is one, and tells whether there was.
    #[inline]
    pub fn take(&mut self, now: Instant) -> bool {
        let gained = now.as_nanos().saturating_sub(self.since.as_nanos());
        self.since = self.since.max(now);
        self.saved = self.saved.saturating_add(gained).min(self.most);
        let enough = self.saved >= self.each;
        if enough {
            self.saved -= self.each;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_lets_a_burst_through_and_then_the_rate() {
        let mut bucket = Bucket::new(100, 5);
        let start = Instant::from_secs(7);
        assert_eq!((0..20).filter(|_| bucket.take(start)).count(), 5);
        // 100 a second for 2 seconds, asked 1000 times a second.
        let asked = (1..=2000).map(|n| Instant::from_millis(7000 + n));
        assert_eq!(asked.filter(|&now| bucket.take(now)).count(), 200);
        assert!(!bucket.take(Instant::ZERO), "time that goes back gives nothing");
    }
}
