//! The order in which packets go: those of one kind, and of one class of lengths,
//! together.
//!
//! Every packet has an octet, its *sort*. Packets are put in order bit by bit, the
//! lowest first: those without the bit, then those with it, 64 packets at a time. That
//! is work for each bit in which sorts differ, not for each packet, and none where they
//! are alike.

use super::KIND;
use super::hand::Order;
use crate::engine::BATCH;
use std::arch::x86_64::*;

const _: () = assert!(BATCH == 128, "two vectors of octets");

/// Octets of a vector.
const WIDTH: usize = 64;

/// Up to a batch of sorts, or numbers: more octets, for what is stored behind the last.
#[repr(align(64))]
struct Octets([u8; BATCH + WIDTH]);

impl Octets {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]
    fn vectors(&self) -> [__m512i; 2] {
        let at: *const __m512i = self.0.as_ptr().cast();
        // SAFETY: there are three vectors.
        unsafe { [_mm512_load_si512(at), _mm512_load_si512(at.add(1))] }
    }

    /// Puts octets with a bit in each pair of masks together, the first pair's first.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]
    fn part(&mut self, from: [__m512i; 2], masks: [[u64; 2]; 2]) {
        let mut at = 0;
        for (from, mask) in masks.iter().flat_map(|masks| from.iter().zip(masks)) {
            let together = _mm512_maskz_compress_epi8(*mask, *from);
            // SAFETY: in front of this one are at most a batch's octets.
            unsafe { _mm512_storeu_si512(self.0.as_mut_ptr().add(at).cast(), together) };
            at += mask.count_ones() as usize;
        }
    }
}

/// The order of these sorts: the lowest first, and those that are alike as they came.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]
pub fn by_sort(sorts: &[u8; BATCH], count: usize) -> Order {
        let present = [count.min(WIDTH), count.saturating_sub(WIDTH).min(WIDTH)];
    let present = present.map(|count| _bzhi_u64(!0, count as u32));
    let at: *const __m512i = sorts.as_ptr().cast();
    // SAFETY: two vectors are a batch.
    let mut own = unsafe { [_mm512_loadu_si512(at), _mm512_loadu_si512(at.add(1))] };
    let differ = differ(own, sorts[0], present);
    if differ == 0 {
        return Order::identity(count);
    }
    let mut numbers = Octets([0; BATCH + WIDTH]);
    numbers.0.iter_mut().zip(0..BATCH as u8).for_each(|(number, i)| *number = i);
    let mut sorted = Octets([0; BATCH + WIDTH]);
    for bit in (0..8).filter(|bit| differ >> bit & 1 == 1) {
        let bit = _mm512_set1_epi8(1 << bit);
        let (mut without, mut with) = ([0; 2], [0; 2]);
        for i in 0..2 {
            with[i] = _mm512_mask_test_epi8_mask(present[i], own[i], bit);
            without[i] = present[i] & !with[i];
        }
        sorted.part(own, [without, with]);
        numbers.part(numbers.vectors(), [without, with]);
        own = sorted.vectors();
    }
    // SAFETY: each pair of masks has every present bit once, so at first and after every
    // bit the first `count` are the numbers up to it.
    unsafe { Order::from_numbers(numbers.0[..BATCH].try_into().expect("a batch"), count) }
}

/// The bits in which sorts differ from the first one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]
fn differ(own: [__m512i; 2], first: u8, present: [u64; 2]) -> u8 {
    let first = _mm512_set1_epi8(first as i8);
    let [a, b] = [0, 1].map(|i| _mm512_maskz_mov_epi8(present[i], _mm512_xor_si512(own[i], first)));
    let all = _mm512_reduce_or_epi64(_mm512_or_si512(a, b)) as u64;
    all.to_le_bytes().into_iter().fold(0, |all, octet| all | octet)
}

/// The order of kinds alone, on every machine.
pub fn by_kind(sorts: &[u8; BATCH], count: usize) -> Order {
    let mut numbers = [0; BATCH];
    let mut places = numbers.iter_mut();
    for kind in 0..=u8::MAX >> KIND {
        let own = (0..).zip(&sorts[..count]).filter(|(_, sort)| **sort >> KIND == kind);
        own.zip(places.by_ref()).for_each(|((number, _), place)| *place = number);
    }
    // SAFETY: each number up to the count is of one kind.
    unsafe { Order::from_numbers(numbers, count) }
}
