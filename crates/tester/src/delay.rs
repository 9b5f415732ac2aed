//! Latency and its variation.
//!
//! Latency is from the time at which a frame should have left to the time at
//! which the receiver had it, so a sender that falls behind shows, and hides
//! nothing. Minimum, mean and maximum are exact; quantiles come from a
//! histogram with three significant digits (HDR), of fixed size.
//!
//! Variation is given three ways, each under its name:
//! * IPDV (RFC 3393): differences between frames that follow each other in the
//!   stream and arrived in that order, without sign;
//! * interarrival jitter (RFC 3550 section 6.4.1): the running estimate at the
//!   end of the trial;
//! * PDV (RFC 5481 section 4.2): quantiles of the latency above its minimum,
//!   which the histogram gives.

use crate::record;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Nanoseconds that a histogram tells apart at most: 18 minutes.
const HIGHEST: u64 = 1 << 40;
const DIGITS: u8 = 3;

/// Latencies of some frames, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Option<Box<Histogram<u64>>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Latency {
    /// Without any; quantiles only where a histogram is kept.
    pub fn new(histogram: bool) -> Self {
        let make = || Histogram::new_with_bounds(1, HIGHEST, DIGITS).ok().map(Box::new);
        Self {
            histogram: if histogram { make() } else { None },
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// One more.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(nanos);
        }
    }

    /// Adds another stream's.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if let (Some(mine), Some(theirs)) = (&mut self.histogram, &other.histogram) {
            // Same bounds: nothing can be out of range.
            let _ = mine.add(theirs.as_ref());
        }
    }

    /// Count, sum, minimum and maximum, as they are kept.
    pub(crate) const fn totals(&self) -> (u64, u128, u64, u64) {
        (self.count, self.sum, self.min, self.max)
    }

    pub(crate) const fn has_histogram(&self) -> bool {
        self.histogram.is_some()
    }

    /// The same again from [`totals`](Self::totals) and buckets.
    pub(crate) fn again(
        (count, sum, min, max): (u64, u128, u64, u64),
        buckets: Option<&[(u64, u64)]>,
    ) -> Self {
        let mut latency = Self { count, sum, min, max, ..Self::new(buckets.is_some()) };
        for &(value, count) in buckets.unwrap_or_default() {
            if let Some(histogram) = &mut latency.histogram {
                histogram.saturating_record_n(value, count);
            }
        }
        latency
    }

    /// Number of frames.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; nothing without any.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest; nothing without any.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean; nothing without any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value that a share of the frames does not exceed, to three digits.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref().filter(|_| self.count > 0)?;
        Some(histogram.value_at_quantile(share).clamp(self.min, self.max))
    }

    /// The histogram's filled buckets: highest value of each, and its count.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let Some(histogram) = &self.histogram else { return Vec::new() };
        let within = |value: u64| value.clamp(self.min, self.max.max(self.min));
        let recorded = histogram.iter_recorded();
        recorded.map(|v| (within(v.value_iterated_to()), v.count_at_value())).collect()
    }
}

/// Variation of the latency of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    last: Option<u64>,
    /// Sixteenths of nanoseconds, as in RFC 3550 appendix A.8.
    running: u64,
    /// Pairs of frames.
    pub pairs: u64,
    #[serde(with = "record::sum")]
    sum: u128,
    /// The largest difference, in nanoseconds.
    pub max: u64,
}

impl Jitter {
    /// A frame arrived in order, with this latency; `follows` if the one before
    /// it in the stream was the last that arrived.
    #[inline]
    pub fn record(&mut self, nanos: u64, follows: bool) {
        if let Some(last) = self.last.replace(nanos) {
            let difference = nanos.abs_diff(last);
            self.running += difference;
            self.running -= (self.running - difference + 8) >> 4;
            if follows {
                self.pairs += 1;
                self.sum += u128::from(difference);
                self.max = self.max.max(difference);
            }
        }
    }

    /// Mean of the differences without sign (RFC 3393), in nanoseconds.
    pub fn ipdv_mean(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.sum as f64 / self.pairs as f64)
    }

    /// The running estimate of RFC 3550, in nanoseconds.
    pub const fn rfc3550(&self) -> u64 {
        self.running >> 4
    }
}

/// Lateness of frames: bucket n has those that left 2ⁿ⁻¹ nanoseconds late and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    #[serde(with = "record::counters")]
    buckets: [u64; 65],
    /// Frames.
    pub count: u64,
    #[serde(with = "record::sum")]
    sum: u128,
    /// The latest, in nanoseconds.
    pub max: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: [0; 65], count: 0, sum: 0, max: 0 }
    }
}

impl Lateness {
    /// A frame left so many nanoseconds after its time.
    #[inline]
    pub const fn record(&mut self, nanos: u64) {
        self.buckets[64 - nanos.leading_zeros() as usize] += 1;
        self.count += 1;
        self.sum += nanos as u128;
        if nanos > self.max {
            self.max = nanos;
        }
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// A bound that a share of the frames does not exceed: a power of two, or
    /// the maximum.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut below = 0;
        for (i, &count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= wanted {
                return (1u64 << i.min(63)).min(self.max);
            }
        }
        self.max
    }

    /// Adds another stream's.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn histogram_quantiles_are_within_a_thousandth_of_the_sorted_list(
            mut values in proptest::collection::vec(0u64..1 << 36, 1..400), share in 0.0f64..=1.0,
        ) {
            let mut latency = Latency::new(true);
            values.iter().for_each(|&v| latency.record(v));
            values.sort_unstable();
            let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len());
            let (exact, got) = (values[rank - 1], latency.quantile(share).unwrap());
            prop_assert!(got.abs_diff(exact) <= exact / 999 + 1, "{} for {}", got, exact);
            prop_assert_eq!(latency.min(), values.first().copied());
            prop_assert_eq!(latency.max(), values.last().copied());
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((latency.mean().unwrap() - mean).abs() <= mean * 1e-12);
        }
    }

    #[test]
    fn histogram_of_one_value_has_that_value() {
        let mut latency = Latency::new(true);
        (0..1000).for_each(|_| latency.record(1_048_577));
        assert_eq!(latency.buckets(), [(1_048_577, 1000)]);
        assert_eq!((latency.min(), latency.max()), (Some(1_048_577), Some(1_048_577)));
    }

    #[test]
    fn jitter_is_that_of_rfc_3393_and_rfc_3550() {
        let mut jitter = Jitter::default();
        // Transit times 100, 116, 100 with a gap before the last of them.
        jitter.record(100, true);
        jitter.record(116, true);
        assert_eq!(jitter.rfc3550(), 1, "16 sixteenths of the first difference");
        jitter.record(100, false);
        assert_eq!((jitter.pairs, jitter.ipdv_mean(), jitter.max), (1, Some(16.0), 16));
        for _ in 0..1000 {
            jitter.record(100, true);
        }
        assert_eq!(jitter.rfc3550(), 0, "it fades");
    }

    #[test]
    fn lateness_is_bounded_by_powers_of_two() {
        let mut lateness = Lateness::default();
        [0, 1, 900, 1000, u64::MAX].iter().for_each(|&n| lateness.record(n));
        assert_eq!(lateness.quantile(0.8), 1024);
        assert_eq!((lateness.max, lateness.count), (u64::MAX, 5));
    }
}
