//! Durations of jobs: a histogram of fixed size with four bins to an octave.

use ferrule_base::Duration;
use ferrule_crypto::Latency;

/// Places of an octave.
const PARTS: usize = 4;

/// Nanoseconds from 1 to above an hour.
const PLACES: usize = 43 * PARTS;

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    places: [u64; PLACES],
    count: u64,
    most: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { places: [0; PLACES], count: 0, most: Duration::ZERO }
    }
}

/// The octave, and the part of it.
const fn place(nanos: u64) -> usize {
    let octave = nanos.ilog2() as usize;
    let part = if octave < 2 { 0 } else { (nanos >> (octave - 2)) as usize % PARTS };
    let place = octave * PARTS + part;
    if place < PLACES { place } else { PLACES - 1 }
}

/// The first duration above a place.
fn above(place: usize) -> u64 {
    let (octave, part) = ((place / PARTS) as u32, (place % PARTS) as u64);
    ((PARTS as u64 + part + 1) << octave) / PARTS as u64
}

impl Histogram {
    /// Something took so long.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.places[place(nanos.max(1))] += 1;
        self.count += 1;
        self.most = self.most.max(time);
    }

    /// Upper bound of so many thousandths of the measurements, to the next quarter of an
    /// octave.
    fn quantile(&self, thousandths: u64) -> Duration {
        let wanted = (self.count * thousandths).div_ceil(1000);
        let mut seen = 0;
        for (place, count) in self.places.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Duration::from_nanos(above(place)).min(self.most);
            }
        }
        self.most
    }

    /// Count, quantiles and maximum.
    pub fn report(&self) -> Latency {
        let (median, p99) = (self.quantile(500), self.quantile(990));
        Latency { count: self.count, median, p99, most: self.most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_latency_are_right_within_a_quarter_of_an_octave() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.report(), Latency::default());
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let found = histogram.report();
        assert_eq!((found.count, found.most), (10_000, Duration::from_millis(10)));
        for (have, want) in [(found.median, 5_000), (found.p99, 9_900)] {
            let want = Duration::from_micros(want);
            assert!((want..=want * 5 / 4).contains(&have), "{have:?}, not {want:?}");
        }
        for odd in [Duration::ZERO, Duration::from_nanos(3), Duration::from_secs(1 << 40)] {
            histogram.record(odd);
        }
        assert_eq!(histogram.report().most, Duration::from_secs(1 << 40));
    }
}
