//! The order in which the jobs of a batch go: those that a kernel takes together, and of
//! these the ones of about one length, behind one another.
//!
//! Every job has an octet, its *sort*. Jobs are put in order bit by bit, the lowest bit
//! first: those without it, then those with it, 64 jobs at a time. That is work for each
//! bit in which sorts differ, not for each job, and none where they are alike.

use crate::engine::BATCH;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ptr;

const _: () = assert!(BATCH == 128, "two words of bits, two vectors of octets");

/// A set of a batch's jobs: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(pub [u64; 2]);

impl Set {
    /// The first ones, so many.
    #[inline]
    fn first(count: usize) -> Self {
        let word = |count: usize| u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        Self([word(count.min(64)), word(count.saturating_sub(64).min(64))])
    }

    /// True if the set has no members.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 2]
    }

    /// Number of members.
    #[inline]
    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if `number` is a member.
    #[inline(always)]
    pub fn has(self, number: usize) -> bool {
        self.0[number / 64 % 2] >> (number % 64) & 1 == 1
    }
}

/// Numbers of jobs, each once.
pub struct Order {
    numbers: [u8; BATCH],
    count: usize,
}

impl Order {
    /// Members of a set by their sort octets: the lowest first, and equal ones in order of
    /// arrival.
    pub fn new(sorts: &[u8; BATCH], set: Set) -> Self {
        if is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("popcnt")
        {
            // SAFETY: the machine has the instructions of `by_bits`.
            return unsafe { Self::by_bits(sorts, set) };
        }
        Self::one_by_one(sorts, set)
    }

    /// The same on every machine.
    fn one_by_one(sorts: &[u8; BATCH], set: Set) -> Self {
        let mut numbers = [0; BATCH];
        let mut count = 0;
        for (number, own) in (0..BATCH).filter(|&n| set.has(n)).zip(&mut numbers) {
            (*own, count) = (number as u8, count + 1);
        }
        numbers[..count].sort_unstable_by_key(|&number| (sorts[number as usize], number));
        Self { numbers, count }
    }

    /// The same with a vector for 64 octets.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn by_bits(sorts: &[u8; BATCH], set: Set) -> Self {
        let mut own = Octets::of(sorts);
        let mut numbers = Octets::of(&NUMBERS);
        let count = set.len();
        let Set(present) = Set::first(count);
        // Members of the set first.
        if set.0 != present {
            own.part([set.0, [0; 2]]);
            numbers.part([set.0, [0; 2]]);
        }
        let differ = own.differ(present);
        for bit in (0..8).filter(|bit| differ >> bit & 1 == 1) {
            let with = own.with(1 << bit, present);
            let parts = [[0, 1].map(|i| present[i] & !with[i]), with];
            own.part(parts);
            numbers.part(parts);
        }
        // Each call puts every number of the set once at one of the first places.
        Self { numbers: *numbers.octets(), count }
    }

    /// The numbers.
    #[inline]
    pub fn numbers(&self) -> &[u8] {
        &self.numbers[..self.count]
    }

    /// Elements of two slices in this order, those of one number together. (Numbers behind
    /// the end of either are left out.)
    #[inline]
    pub fn walk<'a, A, B>(&'a self, a: &'a mut [A], b: &'a mut [B]) -> Walk<'a, A, B> {
        let len = a.len().min(b.len());
        let (a, b) = (a.as_mut_ptr(), b.as_mut_ptr());
        Walk { numbers: self.numbers(), len, a, b, of: PhantomData }
    }
}

/// Elements of two slices in some order.
pub struct Walk<'a, A, B> {
    /// Numbers yet to come, without repetition.
    numbers: &'a [u8],
    /// Elements of the shorter slice.
    len: usize,
    a: *mut A,
    b: *mut B,
    of: PhantomData<(&'a mut A, &'a mut B)>,
}

impl<'a, A, B> Walk<'a, A, B> {
    /// The numbers of those that are to come.
    #[inline]
    pub fn numbers(&self) -> &'a [u8] {
        self.numbers
    }

    /// The first of them as a walk of its own.
    #[inline]
    pub fn front(&mut self, count: usize) -> Self {
        let (front, rest) = self.numbers.split_at(count.min(self.numbers.len()));
        self.numbers = rest;
        Self { numbers: front, ..*self }
    }
}

/// A walk that has ended.
impl<A, B> Default for Walk<'_, A, B> {
    fn default() -> Self {
        let (a, b) = (ptr::dangling_mut(), ptr::dangling_mut());
        Self { numbers: &[], len: 0, a, b, of: PhantomData }
    }
}

impl<'a, A, B> Iterator for Walk<'a, A, B> {
    type Item = (usize, &'a mut A, &'a mut B);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (&number, rest) = self.numbers.split_first()?;
        self.numbers = rest;
        let number = number as usize;
        if number >= self.len {
            return None;
        }
        // SAFETY: both slices have an element of this number, and were lent for `'a`; an
        // order has each number once, and none is given out again.
        Some(unsafe { (number, &mut *self.a.add(number), &mut *self.b.add(number)) })
    }
}

/// Octets of a vector.
const WIDTH: usize = 64;

/// The numbers of a whole batch.
static NUMBERS: [u8; BATCH] = {
    let (mut numbers, mut i) = ([0; BATCH], 0);
    while i < BATCH {
        numbers[i] = i as u8;
        i += 1;
    }
    numbers
};

/// An octet for each job; and more, for stores beyond the last.
#[repr(align(64))]
struct Octets([u8; BATCH + WIDTH]);

impl Octets {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn of(octets: &[u8; BATCH]) -> Self {
        let mut this = Self([0; BATCH + WIDTH]);
        this.0[..BATCH].copy_from_slice(octets);
        this
    }

    fn octets(&self) -> &[u8; BATCH] {
        self.0.first_chunk().expect("a batch, and more")
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn vectors(&self) -> [__m512i; 2] {
        let at: *const __m512i = self.0.as_ptr().cast();
        // SAFETY: there are three vectors.
        unsafe { [_mm512_load_si512(at), _mm512_load_si512(at.add(1))] }
    }

    /// Puts octets with a bit in each pair of masks together, the first pair's first.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn part(&mut self, masks: [[u64; 2]; 2]) {
        let (from, mut at) = (self.vectors(), 0);
        for mask in masks {
            for (from, mask) in from.into_iter().zip(mask) {
                let together = _mm512_maskz_compress_epi8(mask, from);
                // SAFETY: no octet is in two masks, so at most a batch is in front of these.
                unsafe { _mm512_storeu_si512(self.0.as_mut_ptr().add(at).cast(), together) };
                at += mask.count_ones() as usize;
            }
        }
    }

    /// Positions, among those present, that have a bit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn with(&self, bit: u8, present: [u64; 2]) -> [u64; 2] {
        let (from, bit) = (self.vectors(), _mm512_set1_epi8(bit as i8));
        [0, 1].map(|i| _mm512_mask_test_epi8_mask(present[i], from[i], bit))
    }

    /// The bits in which those that are present differ from the first one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    fn differ(&self, present: [u64; 2]) -> u8 {
        let (from, first) = (self.vectors(), _mm512_set1_epi8(self.0[0] as i8));
        let a = _mm512_maskz_mov_epi8(present[0], _mm512_xor_si512(from[0], first));
        let b = _mm512_maskz_mov_epi8(present[1], _mm512_xor_si512(from[1], first));
        let all = _mm512_reduce_or_epi64(_mm512_or_si512(a, b)) as u64;
        all.to_le_bytes().into_iter().fold(0, |all, octet| all | octet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn jobs_go_in_the_order_of_their_sorts_however_it_is_found(
            sorts in prop_oneof![
                prop::collection::vec(prop_oneof![any::<u8>(), 3_u8..6], BATCH),
                any::<u8>().prop_map(|sort| vec![sort; BATCH]),
            ],
            words in prop_oneof![any::<[u64; 2]>(), Just([!0; 2]), Just([0xffff, 0])],
        ) {
            let sorts = <[u8; BATCH]>::try_from(sorts).unwrap();
            let set = Set(words);
            let mut expected: Vec<u8> = (0..BATCH as u8).filter(|&n| set.has(n.into())).collect();
            expected.sort_by_key(|&number| sorts[number as usize]);
            for order in [Order::new(&sorts, set), Order::one_by_one(&sorts, set)] {
                prop_assert_eq!(order.numbers(), &expected[..]);
            }
        }
    }

    #[test]
    fn a_walk_gives_each_element_once_and_none_that_is_not_there() {
        let order = Order::new(&[0; BATCH], Set([0b1011, 1]));
        let (mut a, mut b) = ([1, 2, 3, 4, 5], ["a", "b", "c", "d"]);
        let walked: Vec<_> = order.walk(&mut a, &mut b).map(|(n, a, b)| (n, *a, *b)).collect();
        assert_eq!(walked, [(0, 1, "a"), (1, 2, "b"), (3, 4, "d")]);
    }
}
