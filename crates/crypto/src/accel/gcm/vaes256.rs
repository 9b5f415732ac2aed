//! Two blocks per instruction: AVX2 with VAES and VPCLMULQDQ, for machines
//! without AVX-512.
//!
//! The steps are those of [`vaes512`](super::vaes512). There are half as many
//! registers of half the width and no masks: chunks are of 128 octets, a partial
//! vector goes through a buffer, and the ends of four packets are worked on as
//! two pairs.

use super::hand::{Hand, settle};
use super::schedule::Schedule;
use super::{BLOCK, GROUP, Lane, SECTION, SHORT};
use std::arch::x86_64::*;
use std::ptr;

/// Octets of a vector.
const WIDTH: usize = 32;
/// Octets that are worked on together: four vectors.
const CHUNK: usize = 4 * WIDTH;
/// Packets of a pair.
const PAIR: usize = 2;

/// A product of polynomials of 128 bits, not reduced: low half, middle (which
/// overlaps both), high half; in each lane.
#[derive(Clone, Copy)]
struct Sum {
    lo: __m256i,
    mi: __m256i,
    hi: __m256i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn zero() -> Self {
        let zero = _mm256_setzero_si256();
        Self { lo: zero, mi: zero, hi: zero }
    }

    /// Adds the products of two blocks and two powers.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn add(&mut self, blocks: __m256i, powers: __m256i) {
        self.lo = _mm256_xor_si256(self.lo, _mm256_clmulepi64_epi128(blocks, powers, 0x00));
        self.hi = _mm256_xor_si256(self.hi, _mm256_clmulepi64_epi128(blocks, powers, 0x11));
        let (one, other) = (
            _mm256_clmulepi64_epi128(blocks, powers, 0x01),
            _mm256_clmulepi64_epi128(blocks, powers, 0x10),
        );
        self.mi = xor3(self.mi, one, other);
    }

    /// Field elements, one in each lane.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn reduce(self) -> __m256i {
        let polynomial = _mm256_broadcastsi128_si256(_mm_set_epi64x(0xc2 << 56, 1));
        let folded = _mm256_clmulepi64_epi128(polynomial, self.lo, 0x01);
        let mi = xor3(self.mi, _mm256_shuffle_epi32(self.lo, 0x4e), folded);
        let folded = _mm256_clmulepi64_epi128(polynomial, mi, 0x01);
        xor3(self.hi, _mm256_shuffle_epi32(mi, 0x4e), folded)
    }

    /// The field element that both lanes make together, in the first lane.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn fold(self) -> __m256i {
        let both = self.reduce();
        let (low, high) = (_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        _mm256_zextsi128_si256(_mm_xor_si128(low, high))
    }
}

#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_xor_si256(a, b), c)
}

/// Reverses the octets of each block.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn reverse(blocks: __m256i) -> __m256i {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm256_shuffle_epi8(blocks, _mm256_broadcastsi128_si256(order))
}

/// A round key in both lanes.
///
/// # Safety
/// There must be a key of that number.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
unsafe fn round_key(key: &Schedule, number: usize) -> __m256i {
    // SAFETY: the caller's promise.
    _mm256_broadcastsi128_si256(unsafe { _mm_load_si128(key.rounds().add(number)) })
}

/// Two blocks as one vector.
///
/// # Safety
/// Both must be readable.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
unsafe fn gather([a, b]: [*const __m128i; PAIR]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set_m128i(_mm_loadu_si128(b), _mm_loadu_si128(a)) }
}

/// The nonce and the counter 1.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn first_counter(nonce: &[u8; 12]) -> __m128i {
    let from = nonce.as_ptr();
    // SAFETY: eight octets and four of twelve.
    let (front, back) = unsafe { (_mm_loadu_si64(from), _mm_loadu_si32(from.add(8))) };
    let nonce = _mm_unpacklo_epi64(front, back);
    _mm_or_si128(nonce, _mm_set_epi32(1 << 24, 0, 0, 0))
}

/// At most 32 octets, padded with zeros.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn padded(octets: &[u8]) -> __m256i {
    let mut whole = [0_u8; WIDTH];
    for (to, &from) in whole.iter_mut().zip(octets) {
        *to = from;
    }
    // SAFETY: the array is as long as the vector.
    unsafe { _mm256_loadu_si256(whole.as_ptr().cast()) }
}

/// Counters of a text, two at a time.
#[derive(Clone, Copy)]
struct Counters<const LONG: bool>(__m256i);

impl<const LONG: bool> Counters<LONG> {
    /// Reverses the octets of the counter alone.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn reversed(blocks: __m256i) -> __m256i {
        let order = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
        _mm256_shuffle_epi8(blocks, _mm256_broadcastsi128_si256(order))
    }

    /// Adds to the counter of each lane.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn plus(self, by: [i32; 2]) -> Self {
        let [a, b] = by.map(|n| if LONG { n } else { n << 24 });
        Self(_mm256_add_epi32(self.0, _mm256_set_epi32(b, 0, 0, 0, a, 0, 0, 0)))
    }

    /// The counters behind the packet's first.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn new(first: __m128i) -> Self {
        let both = _mm256_broadcastsi128_si256(first);
        Self(if LONG { Self::reversed(both) } else { both }).plus([1, 2])
    }

    /// The next two blocks.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn take(&mut self) -> __m256i {
        let blocks = self.0;
        *self = self.plus([2; 2]);
        if LONG { Self::reversed(blocks) } else { blocks }
    }
}

/// A text under way.
struct Text<'a, const LONG: bool> {
    key: &'a Schedule,
    counters: Counters<LONG>,
    sum: Sum,
    /// Hash of the preceding sections, reduced: added to the next block, once.
    carry: __m256i,
}

impl<const LONG: bool> Text<'_, LONG> {
    /// Key stream for `N` vectors.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn stream<const N: usize, const R: usize>(&mut self) -> [__m256i; N] {
        let mut state = [_mm256_setzero_si256(); N];
        // SAFETY: R is the key's number of rounds.
        unsafe {
            let whitening = round_key(self.key, 0);
            for block in &mut state {
                *block = _mm256_xor_si256(self.counters.take(), whitening);
            }
            for round in 1..R {
                let round = round_key(self.key, round);
                for block in &mut state {
                    *block = _mm256_aesenc_epi128(*block, round);
                }
            }
            let round = round_key(self.key, R);
            for block in &mut state {
                *block = _mm256_aesenclast_epi128(*block, round);
            }
        }
        state
    }

    /// Hashes two blocks of ciphertext, of which the first meets H to `power`.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn hash(&mut self, sealed: __m256i, power: usize) {
        let blocks = _mm256_xor_si256(reverse(sealed), self.carry);
        self.carry = _mm256_setzero_si256();
        // SAFETY: there are two blocks from every power on.
        self.sum.add(blocks, unsafe { _mm256_loadu_si256(self.key.power(power).cast()) });
    }

    /// Works on `N` full vectors in place; the first block meets H to `power`.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn full<const N: usize, const R: usize, const SEAL: bool>(
        &mut self,
        text: &mut [u8],
        power: usize,
    ) {
        let stream = self.stream::<N, R>();
        for (i, (stream, octets)) in
            stream.into_iter().zip(text.chunks_exact_mut(WIDTH)).enumerate()
        {
            let at = octets.as_mut_ptr();
            // SAFETY: the piece is as long as a vector.
            let given = unsafe { _mm256_loadu_si256(at.cast()) };
            let made = _mm256_xor_si256(given, stream);
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(at.cast(), made) };
            self.hash(if SEAL { made } else { given }, power - PAIR * i);
        }
    }

    /// Works on the rest: less than a vector.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn partial<const R: usize, const SEAL: bool>(&mut self, text: &mut [u8], power: usize) {
        let [stream] = self.stream::<1, R>();
        let given = padded(text);
        let made = _mm256_xor_si256(given, stream);
        let mut whole = [0_u8; WIDTH];
        // SAFETY: the array is as long as the vector.
        unsafe { _mm256_storeu_si256(whole.as_mut_ptr().cast(), made) };
        for (to, from) in text.iter_mut().zip(whole) {
            *to = from;
        }
        self.hash(if SEAL { padded(text) } else { given }, power);
    }

    /// 32 blocks whose sum is reduced, with more blocks to come.
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn section<const R: usize, const SEAL: bool>(&mut self, text: &mut [u8]) {
        let mut power = SECTION / BLOCK;
        for chunk in text.chunks_exact_mut(CHUNK) {
            self.full::<4, R, SEAL>(chunk, power);
            power -= CHUNK / BLOCK;
        }
        self.carry = self.sum.fold();
        self.sum = Sum::zero();
    }
}

/// Counter mode over a text in place. To `sum` come the products of its
/// ciphertext and powers of H; the block of lengths is still missing.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn text<const R: usize, const SEAL: bool, const LONG: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    mut octets: &mut [u8],
) -> Sum {
    let counters = Counters::new(first);
    let mut text = Text::<LONG> { key, counters, sum, carry: _mm256_setzero_si256() };
    while octets.len() > SECTION {
        let (section, rest) = octets.split_at_mut(SECTION);
        text.section::<R, SEAL>(section);
        octets = rest;
    }
    let mut power = octets.len().div_ceil(BLOCK) + 1;
    while octets.len() >= CHUNK {
        let (chunk, rest) = octets.split_at_mut(CHUNK);
        text.full::<4, R, SEAL>(chunk, power);
        (octets, power) = (rest, power - CHUNK / BLOCK);
    }
    let whole = octets.len() / WIDTH;
    let (vectors, rest) = octets.split_at_mut(whole * WIDTH);
    match whole {
        0 => {}
        1 => text.full::<1, R, SEAL>(vectors, power),
        2 => text.full::<2, R, SEAL>(vectors, power),
        _ => text.full::<3, R, SEAL>(vectors, power),
    }
    if !rest.is_empty() {
        text.partial::<R, SEAL>(rest, power - PAIR * whole);
    }
    text.sum
}

/// The same for a jumbo frame.
#[inline(never)]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn long_text<const R: usize, const SEAL: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    octets: &mut [u8],
) -> Sum {
    text::<R, SEAL, true>(key, first, sum, octets)
}

/// Additional data of more than 32 octets (GMAC) as one block: the hash of all
/// blocks but the last, and the last.
#[inline(never)]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn long_ad(key: &Schedule, ad: &[u8]) -> __m256i {
    let (front, last) = ad.split_at((ad.len() - 1) / BLOCK * BLOCK);
    let mut carry = _mm256_setzero_si256();
    for section in front.chunks(SECTION) {
        let mut sum = Sum::zero();
        let mut power = section.len() / BLOCK;
        let vectors = section.chunks_exact(WIDTH);
        let odd = vectors.remainder();
        for vector in vectors {
            // SAFETY: the piece is as long as a vector; there are two powers.
            let (blocks, powers) = unsafe {
                (
                    _mm256_loadu_si256(vector.as_ptr().cast()),
                    _mm256_loadu_si256(key.power(power).cast()),
                )
            };
            sum.add(_mm256_xor_si256(reverse(blocks), carry), powers);
            carry = _mm256_setzero_si256();
            power -= PAIR;
        }
        if !odd.is_empty() {
            // SAFETY: there are two blocks from H on.
            let powers = unsafe { _mm256_loadu_si256(key.power(1).cast()) };
            sum.add(_mm256_xor_si256(reverse(padded(odd)), carry), powers);
        }
        carry = sum.fold();
    }
    // As it would stand in memory: additional data are reversed later.
    _mm256_xor_si256(reverse(carry), padded(last))
}

/// The masks of the ICVs: the first counter blocks, encrypted, in place.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn encrypt_each<const R: usize>(lanes: &[Lane<'_>], state: &mut [__m128i; GROUP]) {
    let mut keys = [ptr::null::<__m128i>(); GROUP];
    for (i, key) in keys.iter_mut().enumerate() {
        // A group of fewer has its last packet's key in the lanes that are left.
        let Some(lane) = lanes.get(i).or(lanes.last()) else { return };
        *key = lane.key.schedule.rounds();
    }
    // SAFETY: each key has R + 1 round keys.
    unsafe {
        for (block, key) in state.iter_mut().zip(keys) {
            *block = _mm_xor_si128(*block, _mm_load_si128(key));
        }
        for round in 1..R {
            for (block, key) in state.iter_mut().zip(keys) {
                *block = _mm_aesenc_si128(*block, _mm_load_si128(key.add(round)));
            }
        }
        for (block, key) in state.iter_mut().zip(keys) {
            *block = _mm_aesenclast_si128(*block, _mm_load_si128(key.add(R)));
        }
    }
}

/// A packet's contribution to the final hash of its group.
#[derive(Clone, Copy)]
struct Part {
    sum: Sum,
    /// Two blocks of additional data.
    ad: __m256i,
    /// Addresses of the powers by which the two blocks are multiplied.
    ad_powers: [*const __m128i; 2],
    /// Address of H.
    h: *const __m128i,
    /// The block of lengths, reversed.
    lengths: __m128i,
}

impl Part {
    #[inline]
    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
    fn new<const R: usize, const SEAL: bool>(lane: &mut Lane<'_>, first: __m128i) -> Self {
        let key = &*lane.key.schedule;
        let (ad_len, len) = (lane.ad.len(), lane.sealed.len());
        let mut ad_blocks = ad_len.div_ceil(BLOCK);
        let mut ad = if ad_blocks <= 2 {
            padded(lane.ad)
        } else {
            ad_blocks = 1;
            long_ad(key, lane.ad)
        };
        // Behind the additional data come the text's first section and, if there
        // is no other, the block of lengths.
        let mut sum = Sum::zero();
        let behind = if len > SECTION {
            // They belong to the first section, which is reduced on its way.
            // SAFETY: there are two powers from this one on, and the schedule
            // goes on behind them.
            let powers =
                unsafe { _mm256_loadu_si256(key.power(SECTION / BLOCK + ad_blocks).cast()) };
            sum.add(reverse(ad), powers);
            ad = _mm256_setzero_si256();
            SECTION / BLOCK
        } else {
            len.div_ceil(BLOCK) + 1
        };
        let sum = if len <= SHORT {
            text::<R, SEAL, false>(key, first, sum, lane.sealed.text())
        } else {
            long_text::<R, SEAL>(key, first, sum, lane.sealed.text())
        };
        let power = behind + ad_blocks;
        Self {
            sum,
            ad,
            // Without additional data, zero is multiplied.
            ad_powers: [key.power(power), key.power(power - 1)],
            h: key.power(1),
            lengths: _mm_set_epi64x((ad_len as i64) << 3, (len as i64) << 3),
        }
    }
}

/// Lane i is the sum of the lanes of vector i.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn add_up([a, b]: [__m256i; PAIR]) -> __m256i {
    let (low, high) =
        (_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
    _mm256_xor_si256(low, high)
}

/// The hashes of two packets, a lane for each.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn hashes(parts: &[Part; PAIR]) -> __m256i {
    let parts = parts.each_ref();
    let mut sum = Sum {
        lo: add_up(parts.map(|part| part.sum.lo)),
        mi: add_up(parts.map(|part| part.sum.mi)),
        hi: add_up(parts.map(|part| part.sum.hi)),
    };
    let block = |number: usize| {
        parts.map(|part| (&raw const part.ad).cast::<__m128i>().wrapping_add(number))
    };
    // SAFETY: blocks of `parts`; powers of their keys, or zeros.
    unsafe {
        let lengths = gather(parts.map(|part| &raw const part.lengths));
        sum.add(lengths, gather(parts.map(|part| part.h)));
        for number in 0..2 {
            let powers = gather(parts.map(|part| part.ad_powers[number]));
            sum.add(reverse(gather(block(number))), powers);
        }
    }
    sum.reduce()
}

/// A block for lanes that have no packet.
static NONE: [u8; BLOCK] = [0; BLOCK];

/// Seals or opens packets.
///
/// `R` is the number of rounds, which the keys must be for.
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
pub(super) fn run<const R: usize, const SEAL: bool>(hand: &mut Hand<'_, '_>) {
    while let lanes @ [_, ..] = hand.group().lanes() {
        let good = group::<R, SEAL>(lanes);
        settle(lanes, good);
        hand.turn();
    }
}

/// One to four packets: a bit for each that is good.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq,bmi2")]
fn group<const R: usize, const SEAL: bool>(lanes: &mut [Lane<'_>]) -> u32 {
    let mut counters = [_mm_setzero_si128(); GROUP];
    for (counter, lane) in counters.iter_mut().zip(&*lanes) {
        *counter = first_counter(lane.nonce);
    }
    let mut masks = counters;
    encrypt_each::<R>(lanes, &mut masks);

    let none = (&raw const NONE).cast::<__m128i>();
    let empty = Part {
        sum: Sum::zero(),
        ad: _mm256_setzero_si256(),
        ad_powers: [none; 2],
        h: none,
        lengths: _mm_setzero_si128(),
    };
    let mut parts = [[empty; PAIR]; GROUP / PAIR];
    let each = parts.as_flattened_mut().iter_mut().zip(lanes.iter_mut()).zip(&counters);
    for ((part, lane), &first) in each {
        *part = Part::new::<R, SEAL>(lane, first);
    }
    let mut good = 0;
    let pairs = lanes.chunks_mut(PAIR).zip(&parts).zip(masks.as_chunks::<PAIR>().0);
    for (number, ((lanes, parts), [a, b])) in pairs.enumerate() {
        let icvs = _mm256_xor_si256(reverse(hashes(parts)), _mm256_set_m128i(*b, *a));
        let mut made = [[0_u8; BLOCK]; PAIR];
        // SAFETY: the array is as long as the vector.
        unsafe { _mm256_storeu_si256((&raw mut made).cast(), icvs) };
        for (i, (lane, made)) in lanes.iter_mut().zip(made).enumerate() {
            if SEAL {
                *lane.sealed.icv() = made;
            }
            let difference = u128::from_ne_bytes(made) ^ u128::from_ne_bytes(*lane.sealed.icv());
            good |= u32::from(difference == 0) << (PAIR * number + i);
        }
    }
    good
}
