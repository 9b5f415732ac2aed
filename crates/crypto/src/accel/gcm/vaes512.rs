//! Four blocks per instruction: AVX-512 with VAES and VPCLMULQDQ.
//!
//! The steps of [`group`]:
//! 1. The first counter block of each packet, all four encrypted as one vector;
//!    of packets with different keys, each in a register of its own.
//! 2. Packet by packet: counter mode over the text in chunks of up to 256 octets,
//!    and the chunk's ciphertext times powers of H, added up but not reduced.
//! 3. The sums of four packets become one vector each (low, middle, high), a lane
//!    per packet; additional data and lengths are multiplied for all four at once.
//! 4. One reduction; the masks of step 1; four ICVs.
//!
//! Nonces are put together in registers: a load that spans two stores just made
//! waits for both to reach the cache.

use super::schedule::Schedule;
use super::{BLOCK, GROUP, Lane, SECTION, SHORT};
use std::arch::x86_64::*;
use std::ptr;

/// Octets of a vector.
const WIDTH: usize = 64;
/// Octets that are worked on together: four vectors.
const CHUNK: usize = 4 * WIDTH;

/// A product of polynomials of 128 bits, not reduced: low half, middle (which
/// overlaps both), high half; in each lane.
#[derive(Clone, Copy)]
struct Sum {
    lo: __m512i,
    mi: __m512i,
    hi: __m512i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { lo: zero, mi: zero, hi: zero }
    }

    /// Adds the products of four blocks and four powers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add(&mut self, blocks: __m512i, powers: __m512i) {
        self.lo = _mm512_xor_si512(self.lo, _mm512_clmulepi64_epi128(blocks, powers, 0x00));
        self.hi = _mm512_xor_si512(self.hi, _mm512_clmulepi64_epi128(blocks, powers, 0x11));
        let (one, other) = (
            _mm512_clmulepi64_epi128(blocks, powers, 0x01),
            _mm512_clmulepi64_epi128(blocks, powers, 0x10),
        );
        self.mi = xor3(self.mi, one, other);
    }

    /// Field elements, one in each lane. The polynomial's low part is x^-128 times
    /// itself: two products with it move the lower halves up.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn reduce(self) -> __m512i {
        let polynomial = _mm512_broadcast_i32x4(_mm_set_epi64x(0xc2 << 56, 1));
        let folded = _mm512_clmulepi64_epi128(polynomial, self.lo, 0x01);
        let mi = xor3(self.mi, _mm512_shuffle_epi32(self.lo, 0x4e), folded);
        let folded = _mm512_clmulepi64_epi128(polynomial, mi, 0x01);
        xor3(self.hi, _mm512_shuffle_epi32(mi, 0x4e), folded)
    }

    /// The field element that all lanes make together, in the first lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn fold(self) -> __m512i {
        let all = self.reduce();
        let two = _mm256_xor_si256(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
        let one = _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
        _mm512_zextsi128_si512(one)
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64(a, b, c, 0x96)
}

/// Reverses the octets of each block: GHASH counts its bits from the other end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn reverse(blocks: __m512i) -> __m512i {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
}

/// A round key in all lanes.
///
/// # Safety
/// There must be a key of that number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn round_key(key: &Schedule, number: usize) -> __m512i {
    // SAFETY: the caller's promise.
    _mm512_broadcast_i32x4(unsafe { _mm_load_si128(key.rounds().add(number)) })
}

/// Four blocks of 16 octets as one vector.
///
/// # Safety
/// Each must be readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn gather(from: [*const __m128i; GROUP]) -> __m512i {
    let [a, b, c, d] = from;
    // SAFETY: the caller's promise.
    unsafe {
        let all = _mm512_castsi128_si512(_mm_loadu_si128(a));
        let all = _mm512_inserti32x4(all, _mm_loadu_si128(b), 1);
        let all = _mm512_inserti32x4(all, _mm_loadu_si128(c), 2);
        _mm512_inserti32x4(all, _mm_loadu_si128(d), 3)
    }
}

/// The nonce and the counter 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn first_counter(nonce: &[u8; 12]) -> __m128i {
    let from = nonce.as_ptr();
    // SAFETY: eight octets and four of twelve.
    let (front, back) = unsafe { (_mm_loadu_si64(from), _mm_loadu_si32(from.add(8))) };
    let nonce = _mm_unpacklo_epi64(front, back);
    _mm_or_si128(nonce, _mm_set_epi32(1 << 24, 0, 0, 0))
}

/// Counters of a text, four at a time.
#[derive(Clone, Copy)]
struct Counters<const LONG: bool>(__m512i);

impl<const LONG: bool> Counters<LONG> {
    /// Reverses the octets of the counter alone.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn reversed(blocks: __m512i) -> __m512i {
        let order = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
        _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
    }

    /// Adds to the counter of each lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn plus(self, by: [i32; 4]) -> Self {
        // Up to 254 blocks it is the last octet that counts, where it stands.
        let [a, b, c, d] = by.map(|n| if LONG { n } else { n << 24 });
        let by = _mm512_set_epi32(d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, a, 0, 0, 0);
        Self(_mm512_add_epi32(self.0, by))
    }

    /// The counters behind the packet's first.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new(first: __m128i) -> Self {
        let all = _mm512_broadcast_i32x4(first);
        Self(if LONG { Self::reversed(all) } else { all }).plus([1, 2, 3, 4])
    }

    /// The next four blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn take(&mut self) -> __m512i {
        let blocks = self.0;
        *self = self.plus([4; 4]);
        if LONG { Self::reversed(blocks) } else { blocks }
    }
}

/// A text under way.
struct Text<'a, const LONG: bool> {
    key: &'a Schedule,
    counters: Counters<LONG>,
    at: *mut u8,
    sum: Sum,
    /// What the sections before come to: added to the next block, once.
    carry: __m512i,
}

impl<const LONG: bool> Text<'_, LONG> {
    /// Works on `len` octets in `N` vectors, all but the last of them full; the
    /// first block meets H to `power`.
    ///
    /// # Safety
    /// So many octets from `at` on must be valid, and there must be the powers
    /// from this one down, and `R + 1` round keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn chunk<const N: usize, const R: usize, const SEAL: bool>(
        &mut self,
        len: usize,
        power: usize,
    ) {
        let last = _bzhi_u64(!0, (len - WIDTH * (N - 1)) as u32);
        let powers = self.key.power(power);
        // SAFETY: the caller's promises; a masked load or store touches no octet
        // that its mask leaves out.
        unsafe {
            let whitening = round_key(self.key, 0);
            let mut state = [_mm512_setzero_si512(); N];
            for block in &mut state {
                *block = _mm512_xor_si512(self.counters.take(), whitening);
            }
            for round in 1..R {
                let round = round_key(self.key, round);
                for block in &mut state {
                    *block = _mm512_aesenc_epi128(*block, round);
                }
            }
            let round = round_key(self.key, R);
            for (i, block) in state.into_iter().enumerate() {
                let stream = _mm512_aesenclast_epi128(block, round);
                let at = self.at.add(WIDTH * i);
                let (given, hashed);
                if i == N - 1 {
                    given = _mm512_maskz_loadu_epi8(last, at.cast());
                    let made = _mm512_xor_si512(given, stream);
                    _mm512_mask_storeu_epi8(at.cast(), last, made);
                    hashed = if SEAL { _mm512_maskz_mov_epi8(last, made) } else { given };
                } else {
                    given = _mm512_loadu_si512(at.cast());
                    let made = _mm512_xor_si512(given, stream);
                    _mm512_storeu_si512(at.cast(), made);
                    hashed = if SEAL { made } else { given };
                }
                let mut hashed = reverse(hashed);
                if i == 0 {
                    hashed = _mm512_xor_si512(hashed, self.carry);
                }
                self.sum.add(hashed, _mm512_loadu_si512(powers.add(4 * i).cast()));
            }
            self.at = self.at.add(len);
        }
        self.carry = _mm512_setzero_si512();
    }

    /// Two full chunks whose sum is reduced: what comes is more than 32 blocks.
    ///
    /// # Safety
    /// As for `chunk`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn section<const R: usize, const SEAL: bool>(&mut self) {
        // SAFETY: the caller's promises.
        unsafe {
            self.chunk::<4, R, SEAL>(CHUNK, 32);
            self.chunk::<4, R, SEAL>(CHUNK, 16);
        }
        self.carry = self.sum.fold();
        self.sum = Sum::zero();
    }
}

/// Counter mode over a text in place. To `sum` come the products of its
/// ciphertext and powers of H; the block of lengths is still missing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn text<const R: usize, const SEAL: bool, const LONG: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    text: &mut [u8],
) -> Sum {
    let mut left = text.len();
    let at = text.as_mut_ptr();
    let counters = Counters::new(first);
    let mut text = Text::<LONG> { key, counters, at, sum, carry: _mm512_setzero_si512() };
    // SAFETY: `left` octets remain from `at` on at each step, and each chunk is
    // given no more; its power is 34 at most. The caller's R is the key's.
    unsafe {
        while left > SECTION {
            text.section::<R, SEAL>();
            left -= SECTION;
        }
        let mut power = left.div_ceil(BLOCK) + 1;
        if left > CHUNK {
            text.chunk::<4, R, SEAL>(CHUNK, power);
            (left, power) = (left - CHUNK, power - CHUNK / BLOCK);
        }
        match left.div_ceil(WIDTH) {
            0 => {}
            1 => text.chunk::<1, R, SEAL>(left, power),
            2 => text.chunk::<2, R, SEAL>(left, power),
            3 => text.chunk::<3, R, SEAL>(left, power),
            _ => text.chunk::<4, R, SEAL>(left, power),
        }
    }
    text.sum
}

/// The same for a jumbo frame.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn long_text<const R: usize, const SEAL: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    octets: &mut [u8],
) -> Sum {
    text::<R, SEAL, true>(key, first, sum, octets)
}

/// Additional data of up to 32 octets, padded with zeros: two blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn short_ad(ad: &[u8]) -> __m256i {
    let mask = _bzhi_u32(!0, ad.len() as u32);
    // SAFETY: the mask leaves out what is behind the slice.
    unsafe { _mm256_maskz_loadu_epi8(mask, ad.as_ptr().cast()) }
}

/// Longer additional data (GMAC) as one block: what must be multiplied like a
/// single block of it. It is the hash of all blocks but the last, and the last.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn long_ad(key: &Schedule, ad: &[u8]) -> __m256i {
    let (front, last) = ad.split_at((ad.len() - 1) / BLOCK * BLOCK);
    let mut carry = _mm512_setzero_si512();
    for section in front.chunks(SECTION) {
        let mut sum = Sum::zero();
        let mut power = section.len() / BLOCK;
        for piece in section.chunks(WIDTH) {
            let mask = _bzhi_u64(!0, piece.len() as u32);
            // SAFETY: the mask leaves out what is behind the piece; the powers are
            // those from 32 down.
            unsafe {
                let blocks = reverse(_mm512_maskz_loadu_epi8(mask, piece.as_ptr().cast()));
                let powers = _mm512_loadu_si512(key.power(power).cast());
                sum.add(_mm512_xor_si512(blocks, carry), powers);
            }
            carry = _mm512_setzero_si512();
            power = power.saturating_sub(4);
        }
        carry = sum.fold();
    }
    // As it would stand in memory: additional data are reversed later.
    let hash = _mm512_castsi512_si256(reverse(carry));
    _mm256_xor_si256(hash, short_ad(last))
}

/// The masks of four ICVs: the first counter blocks, encrypted.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn masks<const R: usize>(lanes: &[Lane<'_>], counters: &[__m128i; GROUP]) -> __m512i {
    let first = lanes.first().map_or(ptr::null(), |lane| &raw const *lane.key.schedule);
    if !lanes.iter().all(|lane| ptr::eq(&raw const *lane.key.schedule, first)) {
        return masks_of_each::<R>(lanes, counters);
    }
    let [a, b, c, d] = counters.each_ref().map(|counter| &raw const *counter);
    // SAFETY: blocks of this function's caller; and `first` is of the first of the
    // lanes, for no lane has led to the return above or has no key.
    unsafe {
        let Some(key) = first.as_ref() else { return _mm512_setzero_si512() };
        let mut state = _mm512_xor_si512(gather([a, b, c, d]), round_key(key, 0));
        for round in 1..R {
            state = _mm512_aesenc_epi128(state, round_key(key, round));
        }
        _mm512_aesenclast_epi128(state, round_key(key, R))
    }
}

/// The same for packets of different keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn masks_of_each<const R: usize>(lanes: &[Lane<'_>], counters: &[__m128i; GROUP]) -> __m512i {
    let mut state = *counters;
    let mut keys = [ptr::null::<__m128i>(); GROUP];
    for (i, key) in keys.iter_mut().enumerate() {
        // A group of fewer has its last packet's key in the lanes that are left.
        let lane = lanes.get(i).or(lanes.last());
        *key = lane.map_or(ptr::null(), |lane| lane.key.schedule.rounds());
    }
    // SAFETY: there is a lane, or its keys would be equal; all have R + 1 round keys.
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
        let [a, b, c, d] = state.each_ref().map(|block| &raw const *block);
        gather([a, b, c, d])
    }
}

/// What a packet adds to its group's end.
#[derive(Clone, Copy)]
struct Part {
    sum: Sum,
    /// Two blocks of additional data.
    ad: __m256i,
    /// Where the power is that the first and the second of them meet.
    ad_powers: [*const __m128i; 2],
    /// Where H is.
    h: *const __m128i,
    /// Bits of text, and of additional data above.
    bits: u64,
}

impl Part {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new<const R: usize, const SEAL: bool>(lane: &mut Lane<'_>, first: __m128i) -> Self {
        let key = &*lane.key.schedule;
        let (ad_len, len) = (lane.ad.len(), lane.text.len());
        let mut ad_blocks = ad_len.div_ceil(BLOCK);
        let mut ad = if ad_blocks <= 2 {
            short_ad(lane.ad)
        } else {
            ad_blocks = 1;
            long_ad(key, lane.ad)
        };
        // Behind the additional data come the text's first section and, if there
        // is no other, the block of lengths.
        let mut sum = Sum::zero();
        let behind = if len > SECTION {
            // They belong to the first section, which is reduced on its way.
            // SAFETY: there are two powers from this one on, and what they stand
            // in goes on.
            let powers =
                unsafe { _mm512_loadu_si512(key.power(SECTION / BLOCK + ad_blocks).cast()) };
            sum.add(reverse(_mm512_zextsi256_si512(ad)), powers);
            ad = _mm256_setzero_si256();
            SECTION / BLOCK
        } else {
            len.div_ceil(BLOCK) + 1
        };
        let sum = if len <= SHORT {
            text::<R, SEAL, false>(key, first, sum, lane.text)
        } else {
            long_text::<R, SEAL>(key, first, sum, lane.text)
        };
        let power = behind + ad_blocks;
        Self {
            sum,
            ad,
            // Without additional data, what is multiplied is zero.
            ad_powers: [key.power(power), key.power(power - 1)],
            h: key.power(1),
            bits: (ad_len as u64) << 35 | (len as u64) << 3,
        }
    }
}

/// Adds up the lanes of four vectors: lane i is the sum of the lanes of vector i.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn add_up([a, b, c, d]: [__m512i; GROUP]) -> __m512i {
    let ab = _mm512_xor_si512(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
    let cd = _mm512_xor_si512(_mm512_shuffle_i64x2(c, d, 0x88), _mm512_shuffle_i64x2(c, d, 0xdd));
    _mm512_xor_si512(_mm512_shuffle_i64x2(ab, cd, 0x88), _mm512_shuffle_i64x2(ab, cd, 0xdd))
}

/// The hashes of four packets, a lane for each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn hashes(parts: &[Part; GROUP], two_blocks: bool) -> __m512i {
    let mut sum = Sum {
        lo: add_up(parts.each_ref().map(|part| part.sum.lo)),
        mi: add_up(parts.each_ref().map(|part| part.sum.mi)),
        hi: add_up(parts.each_ref().map(|part| part.sum.hi)),
    };
    let [a, b, c, d] = parts.each_ref().map(|part| part.bits as i64);
    let bits = _mm512_cvtepu32_epi64(_mm256_set_epi64x(d, c, b, a));
    let block = |number: usize| {
        parts.each_ref().map(|p| (&raw const p.ad).cast::<__m128i>().wrapping_add(number))
    };
    let power = |number: usize| parts.each_ref().map(|p| p.ad_powers[number]);
    // SAFETY: blocks of `parts`; powers of their keys, or zeros.
    unsafe {
        sum.add(bits, gather(parts.each_ref().map(|part| part.h)));
        sum.add(reverse(gather(block(0))), gather(power(0)));
        if two_blocks {
            sum.add(reverse(gather(block(1))), gather(power(1)));
        }
    }
    sum.reduce()
}

/// A block for lanes that have no packet.
static NONE: [u8; BLOCK] = [0; BLOCK];

/// Seals or opens one to four packets: a bit for each that is good. The text of
/// one that is not has been decrypted; the caller wipes it.
///
/// `R` is the number of rounds, which the keys must be for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn group<const R: usize, const SEAL: bool>(lanes: &mut [Lane<'_>]) -> u32 {
    let mut counters = [_mm_setzero_si128(); GROUP];
    for (counter, lane) in counters.iter_mut().zip(&*lanes) {
        *counter = first_counter(lane.nonce);
    }
    let masks = masks::<R>(lanes, &counters);

    let none = (&raw const NONE).cast::<__m128i>();
    let empty = Part {
        sum: Sum::zero(),
        ad: _mm256_setzero_si256(),
        ad_powers: [none; 2],
        h: none,
        bits: 0,
    };
    let mut parts = [empty; GROUP];
    let mut two_blocks = false;
    for ((part, lane), &first) in parts.iter_mut().zip(lanes.iter_mut()).zip(&counters) {
        *part = Part::new::<R, SEAL>(lane, first);
        two_blocks |= lane.ad.len() > BLOCK;
    }
    let icvs = _mm512_xor_si512(reverse(hashes(&parts, two_blocks)), masks);

    if SEAL {
        let mut made = [[0_u8; BLOCK]; GROUP];
        // SAFETY: the array is as long as the vector.
        unsafe { _mm512_storeu_si512((&raw mut made).cast(), icvs) };
        for (lane, icv) in lanes.iter_mut().zip(made) {
            *lane.icv = icv;
        }
        return !0;
    }
    let mut given = [none; GROUP];
    for (given, lane) in given.iter_mut().zip(&*lanes) {
        *given = lane.icv.as_ptr().cast();
    }
    // SAFETY: an ICV is a block.
    let wrong = _mm512_cmpneq_epi64_mask(unsafe { gather(given) }, icvs);
    let wrong = u32::from(wrong | wrong >> 1);
    // Every other bit: 0, 2, 4, 6 become 0 to 3.
    !_pext_u32(wrong, 0b0101_0101)
}
