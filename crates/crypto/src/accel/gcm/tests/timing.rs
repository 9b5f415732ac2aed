//! Time that depends on a secret shows as a difference between two classes of
//! inputs that are measured in turn, in random order (Welch's t-test, as dudect
//! does it: Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?").
//!
//! The machine is shared and noisy: measurements above a quantile are left out,
//! and a difference counts only if it is significant, large enough to be used and
//! found again in every one of several attempts. What the method finds at all is
//! shown with a comparison that gives up early.

use super::super::{GROUP, Key, run};
use super::*;
use crate::job::Op;
use crate::suite::Aes;
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
fn clocks(work: impl FnOnce()) -> f64 {
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

/// Whether the two classes of `work` differ, in one attempt.
fn differs(rng: &mut Rng, work: &mut impl FnMut(bool) -> f64) -> bool {
    let mut classes = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        let class = rng.below(2) == 1;
        classes[usize::from(class)].push(work(class));
    }
    // What was interrupted is above the quantile, whichever class it is of.
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

/// Whether they differ in all attempts.
fn leaks(mut work: impl FnMut(bool) -> f64) -> bool {
    let mut rng = Rng::new(17);
    for _ in 0..SAMPLES / 4 {
        work(rng.below(2) == 1);
    }
    (0..ATTEMPTS).all(|_| differs(&mut rng, &mut work))
}

/// A group of four packets of 256 octets.
#[derive(Clone)]
struct Group {
    text: [[u8; 256]; GROUP],
    icv: [[u8; 16]; GROUP],
}

impl Group {
    fn run(&mut self, op: Op, keys: [&Key; GROUP]) -> f64 {
        let mut verdicts = [Verdict::Pending; GROUP];
        let packets = self.text.iter_mut().zip(&mut self.icv).zip(&mut verdicts).zip(keys);
        let lanes = packets.map(|(((text, icv), verdict), key)| Lane {
            key,
            nonce: &[3; 12],
            ad: &[4; 12],
            text,
            icv,
            verdict,
        });
        let mut lanes: Vec<_> = lanes.collect();
        let spent = clocks(|| run(op, black_box(&mut lanes)));
        drop(lanes);
        black_box(verdicts);
        spent
    }
}

fn key(kernel: Kernel, aes: Aes, octet: u8) -> Key {
    Key::new(kernel, aes, &vec![octet; aes.key_len()]).unwrap()
}

fn each(mut check: impl FnMut(Kernel, Aes)) {
    for kernel in kernels() {
        for aes in [Aes::Aes128, Aes::Aes256] {
            check(kernel, aes);
        }
    }
}

#[test]
fn timing_of_refusal_does_not_tell_where_an_icv_is_wrong() {
    each(|kernel, aes| {
        let key = key(kernel, aes, 1);
        let mut sealed = Group { text: [[5; 256]; GROUP], icv: [[0; 16]; GROUP] };
        sealed.run(Op::Seal, [&key; GROUP]);
        assert!(
            !leaks(|last| {
                let mut group = sealed.clone();
                for icv in &mut group.icv {
                    icv[if last { 15 } else { 0 }] ^= 1;
                }
                group.run(Op::Open, [&key; GROUP])
            }),
            "{kernel:?} {aes:?}"
        );
    });
}

#[test]
fn timing_of_sealing_does_not_tell_keys_or_texts() {
    each(|kernel, aes| {
        let octets = [0, 0xb7];
        let constant = key(kernel, aes, octets[0]);
        let mut rng = Rng::new(5);
        let mut noise = [0; 256];
        rng.fill(&mut noise);
        let texts = [[0; 256], noise];
        // Made anew each time, so that both lie where the other did: an address is no
        // secret, and tells.
        let by_key = leaks(|class| {
            let key = key(kernel, aes, octets[usize::from(class)]);
            let mut group = Group { text: [texts[0]; GROUP], icv: [[0; 16]; GROUP] };
            group.run(Op::Seal, [&key; GROUP])
        });
        let by_text = leaks(|class| {
            let mut group =
                Group { text: [texts[usize::from(class)]; GROUP], icv: [[0; 16]; GROUP] };
            group.run(Op::Seal, [&constant; GROUP])
        });
        assert!(!by_key && !by_text, "{kernel:?} {aes:?}: key {by_key}, text {by_text}");
    });
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
