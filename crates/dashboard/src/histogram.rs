//! Counting how large things are, in classes, from the packets' own thread.

use crate::state::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of frame sizes, by their largest frame without FCS: those of RMON's
/// etherStatsTable (RFC 2819), less the four octets of the FCS.
pub const FRAME_OCTETS: [u64; 7] = [60, 123, 251, 507, 1019, 1514, u64::MAX];
/// Classes of batches: how many frames were taken at once.
pub const BATCH_FRAMES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Counters of classes. One thread counts, any may look.
#[derive(Debug)]
pub struct Classes<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> Classes<N> {
    /// Classes by their largest value, ascending. What is above the last one
    /// counts as the last.
    pub const fn new(bounds: &'static [u64; N]) -> Self {
        Self { bounds, counts: [const { AtomicU64::new(0) }; N] }
    }

    /// Takes a value in. The counters have one writer, so no locked instruction.
    #[inline]
    pub fn add(&self, value: u64) {
        let class = self.bounds.iter().take_while(|&&bound| bound < value).count();
        if let Some(count) = self.counts.get(class.min(N - 1)) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Histogram as the page gets it.
    pub fn view(&self, name: &str, of: &str, unit: &str) -> Histogram {
        Histogram {
            name: name.into(),
            of: of.into(),
            unit: unit.into(),
            bounds: self.bounds.iter().map(|&b| (b != u64::MAX).then_some(b)).collect(),
            counts: self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_histogram_puts_each_value_into_the_class_that_holds_it() {
        let sizes = Classes::new(&FRAME_OCTETS);
        for octets in [0, 60, 61, 123, 1514, 1515, 9000] {
            sizes.add(octets);
        }
        let view = sizes.view("frame sizes", "wan in", "octets");
        assert_eq!(view.counts, [2, 2, 0, 0, 0, 1, 2]);
        assert_eq!((view.bounds[0], view.bounds[6]), (Some(60), None));
        let batches = Classes::new(&BATCH_FRAMES);
        batches.add(64);
        batches.add(65);
        assert_eq!(batches.view("", "", "").counts[6], 2, "above the last counts as the last");
    }
}
