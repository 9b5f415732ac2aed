//! Time that depends on a secret shows as a difference between two classes of
//! inputs that are measured in turn, in random order (Welch's t-test, as dudect
//! does it: Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?").
//!
//! The machine is shared and noisy: measurements above a quantile are left out, and a
//! difference counts only if it is significant, large enough to be used and found again in
//! every one of several attempts. A comparison that gives up early shows that the method
//! finds leaks.

use ferrule_base::Rng;
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::hint::black_box;

/// Measurements of an attempt, both classes together.
const SAMPLES: usize = 6000;
/// A leak is found in each of so many attempts.
const ATTEMPTS: usize = 8;
/// Standard errors above which a difference is none by chance.
const SIGNIFICANT: f64 = 10.0;
/// Part of the whole below which a difference is none to be used.
const USABLE: f64 = 0.01;

/// Clocks of one call.
pub(crate) fn clocks(work: impl FnOnce()) -> f64 {
    // SAFETY: every x86-64 has both.
    let begin = unsafe {
        _mm_lfence();
        _rdtsc()
    };
    work();
    // SAFETY: as above.
    let end = unsafe {
        _mm_lfence();
        _rdtsc()
    };
    (end - begin) as f64
}

/// Mean, variance of the mean.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

/// True if the timings of the two classes of `work` differ in one attempt.
fn differs(rng: &mut Rng, work: &mut impl FnMut(bool) -> f64) -> bool {
    let mut classes = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        let class = rng.below(2) == 1;
        classes[usize::from(class)].push(work(class));
    }
    // Measurements that were interrupted are above the quantile, whichever class they are
    // of.
    let mut all: Vec<f64> = classes.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let limit = all[all.len() * 7 / 10];
    let [a, b] = classes.map(|class| {
        let kept: Vec<f64> = class.into_iter().filter(|&v| v <= limit).collect();
        moments(&kept)
    });
    let difference = (a.0 - b.0).abs();
    difference / (a.1 + b.1).sqrt().max(1e-9) > SIGNIFICANT && difference / a.0 > USABLE
}

/// True if the timings of the two classes differ in every attempt.
pub(crate) fn leaks(mut work: impl FnMut(bool) -> f64) -> bool {
    let mut rng = Rng::new(17);
    for _ in 0..SAMPLES / 4 {
        work(rng.below(2) == 1);
    }
    (0..ATTEMPTS).all(|_| differs(&mut rng, &mut work))
}

/// The method's own test: a comparison of 4 KiB that ends at the first difference.
#[test]
fn timing_of_a_comparison_that_gives_up_early_is_found() {
    let (one, mut other) = (vec![1_u8; 4096], vec![1_u8; 4096]);
    let found = leaks(|late| {
        other.fill(1);
        other[if late { 4000 } else { 100 }] = 2;
        let (one, other) = (black_box(&one), black_box(&other));
        clocks(|| {
            black_box(one.iter().zip(other).position(|(a, b)| a != b));
        })
    });
    assert!(found);
}
