//! When each frame should leave: exact, in integers, for any rate and time.
//!
//! ```text
//!   frame        0        1        2     …     the sum of the times of all
//!   intended     s      s + t₀   s + t₀ + t₁   frames before, rounded down once
//! ```
//!
//! The time of a frame is a fraction of nanoseconds. What is below a nanosecond
//! is carried along as a numerator over one denominator, so nothing drifts: the
//! n-th frame of a day is as exact as the first.
//!
//! With bursts, every burst begins when its first frame would be due at the
//! average rate, and inside it frames follow at the rate of the burst.

use crate::rate::Rate;

/// The time of a frame: nanoseconds, and parts of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    whole: u64,
    part: u64,
}

/// A point in time that advances by fractions of nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    at: u64,
    part: u64,
    /// Parts in a nanosecond.
    parts: u64,
}

impl Pace {
    #[inline]
    const fn advance(&mut self, step: Step) {
        self.at = self.at.saturating_add(step.whole);
        self.part += step.part;
        if self.part >= self.parts {
            self.part -= self.parts;
            self.at = self.at.saturating_add(1);
        }
    }
}

/// Steps for every size of a stream, over one denominator.
#[derive(Clone, Debug)]
struct Steps {
    steps: Vec<Step>,
    parts: u64,
}

impl Steps {
    /// Nothing if the rate means nothing or cannot be counted in 63 bits.
    fn new(rate: Rate, lens: &[usize], line: Option<u64>) -> Option<Self> {
        let fractions: Vec<_> =
            lens.iter().map(|&len| rate.nanos(len, line)).collect::<Option<_>>()?;
        // The denominator is the same for all sizes; what all have in common goes.
        let den = fractions.first()?.1;
        let common = fractions.iter().fold(den, |c, f| gcd(c, f.0));
        let parts = u64::try_from(den / common).ok().filter(|p| *p <= i64::MAX as u64)?;
        let step = |(num, _): &(u128, u128)| {
            let num = num / common;
            let whole = u64::try_from(num / u128::from(parts)).ok()?;
            Some(Step { whole, part: (num % u128::from(parts)) as u64 })
        };
        Some(Self { steps: fractions.iter().map(step).collect::<Option<_>>()?, parts })
    }

    const fn pace(&self, at: u64) -> Pace {
        Pace { at, part: 0, parts: self.parts }
    }

    #[inline]
    fn of(&self, size: usize) -> Step {
        self.steps.get(size).copied().unwrap_or_default()
    }
}

const fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Frames that leave closer together than the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Frames of each.
    pub frames: u64,
    /// Rate inside a burst.
    pub rate: Rate,
}

struct Bursts {
    frames: u64,
    left: u64,
    steps: Steps,
    pace: Pace,
}

/// The intended times of a stream.
pub struct Schedule {
    steps: Steps,
    average: Pace,
    bursts: Option<Bursts>,
    end: u64,
    left: u64,
}

impl Schedule {
    /// A schedule for frames of these lengths (without FCS) that is over
    /// before it begins. Nothing if a rate is zero, or a share of a line whose
    /// rate is not known.
    pub fn new(
        rate: Rate,
        burst: Option<Burst>,
        lens: &[usize],
        line: Option<u64>,
    ) -> Option<Self> {
        let steps = Steps::new(rate, lens, line)?;
        let bursts = match burst {
            None => None,
            Some(burst) => {
                let steps = Steps::new(burst.rate, lens, line)?;
                let frames = burst.frames.max(1);
                Some(Bursts { frames, left: 0, pace: steps.pace(0), steps })
            }
        };
        Some(Self { average: steps.pace(0), steps, bursts, end: 0, left: 0 })
    }

    /// Starts anew at nanosecond `at`: frames due before `end`, and `count` of
    /// them at most.
    pub fn start(&mut self, at: u64, end: u64, count: u64) {
        self.average = self.steps.pace(at);
        (self.end, self.left) = (end, count);
        if let Some(bursts) = &mut self.bursts {
            bursts.left = bursts.frames;
            bursts.pace = bursts.steps.pace(at);
        }
    }

    /// The longest time between two frames at the average rate, in nanoseconds.
    pub fn gap(&self) -> u64 {
        let longest = self.steps.steps.iter().map(|s| s.whole).max().unwrap_or(0);
        longest.saturating_add(1)
    }

    /// When the next frame is due; nothing once the schedule is over.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let at = self.bursts.as_ref().map_or(self.average.at, |b| b.pace.at);
        (self.left > 0 && at < self.end).then_some(at)
    }

    /// The frame due next, of the size with this index, was sent.
    #[inline]
    pub fn advance(&mut self, size: usize) {
        self.left = self.left.saturating_sub(1);
        self.average.advance(self.steps.of(size));
        if let Some(bursts) = &mut self.bursts {
            bursts.left -= 1;
            if bursts.left == 0 {
                bursts.left = bursts.frames;
                // A burst that takes longer than its share begins when it can.
                let step = bursts.steps.of(size);
                bursts.pace.advance(step);
                if self.average.at > bursts.pace.at {
                    bursts.pace = bursts.steps.pace(self.average.at);
                }
            } else {
                bursts.pace.advance(bursts.steps.of(size));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(schedule: &mut Schedule, sizes: &[usize]) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some(at) = schedule.next() {
            schedule.advance(sizes[out.len() % sizes.len()]);
            out.push(at);
        }
        out
    }

    #[test]
    fn a_day_at_an_odd_rate_does_not_drift() {
        // 7 frames a second: the last of a day is exact to a nanosecond.
        let mut schedule = Schedule::new(Rate::frames(7), None, &[60], None).unwrap();
        let day = 86_400_000_000_000;
        schedule.start(0, day, u64::MAX);
        let times = times(&mut schedule, &[0]);
        assert_eq!(times.len(), 7 * 86_400);
        assert_eq!(times[7 * 86_400 - 1], day - 1_000_000_000u64.div_ceil(7));
    }

    #[test]
    fn bursts_keep_the_average_and_follow_closely_inside() {
        let burst = Burst { frames: 4, rate: Rate::LINE };
        let mut schedule =
            Schedule::new(Rate::frames(1_000_000), Some(burst), &[60], Some(10_000_000_000))
                .unwrap();
        schedule.start(0, 10_000, u64::MAX);
        let times = times(&mut schedule, &[0]);
        assert_eq!(times, [0, 67, 134, 201, 4000, 4067, 4134, 4201, 8000, 8067, 8134, 8201]);
    }

    #[test]
    fn a_share_of_an_unknown_line_is_no_schedule() {
        assert!(Schedule::new(Rate::LINE, None, &[60], None).is_none());
        assert!(Schedule::new(Rate::MilliFrames(0), None, &[60], None).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// The model: the sum of all times before, as one fraction of big integers.
        #[test]
        fn intended_times_equal_the_sum_of_fractions(
            kind in 0..3, value in 1u32..=1_000_000, start in 0u64..1 << 50,
            sizes in proptest::collection::vec(60usize..1514, 1..5),
        ) {
            let rate = match kind {
                0 => Rate::MilliFrames(u64::from(value) * 7919),
                1 => Rate::Bits(u64::from(value) * 10_007),
                _ => Rate::LineShare(value),
            };
            let line = Some(10_312_500_000);
            let mut schedule = Schedule::new(rate, None, &sizes, line).unwrap();
            schedule.start(start, u64::MAX, 300);
            let order: Vec<usize> = (0..sizes.len()).collect();
            let got = times(&mut schedule, &order);
            let (mut sum, den) = (0u128, rate.nanos(60, line).unwrap().1);
            for (i, &at) in got.iter().enumerate() {
                prop_assert_eq!(u128::from(at), u128::from(start) + sum / den);
                sum += rate.nanos(sizes[i % sizes.len()], line).unwrap().0;
            }
            prop_assert_eq!(got.len(), 300);
        }
    }
}
