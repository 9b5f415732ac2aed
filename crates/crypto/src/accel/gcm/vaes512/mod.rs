//! Four blocks per instruction: AVX-512 with VAES and VPCLMULQDQ.
//!
//! ```text
//!   groups ─┬─ of one class ──▶ alike ─┬─ up to 128 octets ─▶ small
//!           │                          └─ longer ──────────▶ turns
//!           └─ all others ────▶ any ──── each one's text ──▶ text
//! ```
//!
//! This file has their common parts: products and their reduction, counters, moving blocks
//! between lanes. Nonces are put together in registers: a load that spans two stores just
//! made waits for both to reach the cache.

/// The same for each number. (In a loop that the compiler does not unroll, vectors
/// live in memory.)
macro_rules! each {
    ($i:ident in [$($n:literal)*] $body:block) => {
        $({
            let $i: usize = $n;
            $body
        })*
    };
}

/// The same for every round between the first key and the last one.
macro_rules! rounds {
    ($i:ident of $count:ident $body:block) => {
        each!($i in [1 2 3 4 5 6 7 8 9] $body);
        if $count > 10 {
            each!($i in [10 11 12 13] $body);
        }
    };
}

/// Vectors that are computed by here, in this order: no instruction, but the compiler may
/// not move their producers behind it, or their users in front of it. (Left to itself it
/// puts all products behind all rounds.)
macro_rules! by_here {
    ($($vector:expr),+ $(,)?) => {{
        $(std::arch::asm!(
            "/* {0} */",
            inout(zmm_reg) $vector,
            options(nomem, nostack, preserves_flags)
        );)+
    }};
}

mod alike;
mod any;
mod small;
mod text;
mod turns;

use super::hand::{Hand, deliver, settle};
use super::schedule::Schedule;
use super::{BLOCK, GROUP, Lane, Multiplier, SECTION, SHORT};
use alike::Alike;
use std::arch::x86_64::*;

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

    /// The same, twice.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add_two(&mut self, [a, b]: [__m512i; 2], [of_a, of_b]: [__m512i; 2]) {
        let lo = (_mm512_clmulepi64_epi128(a, of_a, 0x00), _mm512_clmulepi64_epi128(b, of_b, 0x00));
        self.lo = xor3(self.lo, lo.0, lo.1);
        let hi = (_mm512_clmulepi64_epi128(a, of_a, 0x11), _mm512_clmulepi64_epi128(b, of_b, 0x11));
        self.hi = xor3(self.hi, hi.0, hi.1);
        let one =
            (_mm512_clmulepi64_epi128(a, of_a, 0x01), _mm512_clmulepi64_epi128(b, of_b, 0x01));
        self.mi = xor3(self.mi, one.0, one.1);
        let two =
            (_mm512_clmulepi64_epi128(a, of_a, 0x10), _mm512_clmulepi64_epi128(b, of_b, 0x10));
        self.mi = xor3(self.mi, two.0, two.1);
    }

    /// The same for blocks whose lower half is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add_upper(&mut self, blocks: __m512i, powers: __m512i) {
        self.mi = _mm512_xor_si512(self.mi, _mm512_clmulepi64_epi128(blocks, powers, 0x01));
        self.hi = _mm512_xor_si512(self.hi, _mm512_clmulepi64_epi128(blocks, powers, 0x11));
    }

    /// The same for blocks of which the lower half counts.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add_lower(&mut self, blocks: __m512i, powers: __m512i) {
        self.lo = _mm512_xor_si512(self.lo, _mm512_clmulepi64_epi128(blocks, powers, 0x00));
        self.mi = _mm512_xor_si512(self.mi, _mm512_clmulepi64_epi128(blocks, powers, 0x10));
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

/// The counter block of a nonce, with zero for the counter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn counter_block(nonce: &[u8; 12]) -> __m128i {
    // SAFETY: three words are all of it.
    unsafe { _mm_maskz_loadu_epi32(0b0111, nonce.as_ptr().cast()) }
}

/// Their first counter blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn counter_blocks([a, b, c, d]: &[Lane<'_>; GROUP]) -> [__m128i; GROUP] {
    [counter_block(a.nonce), counter_block(b.nonce), counter_block(c.nonce), counter_block(d.nonce)]
}

/// Counters 2 to 257 in the last octets of blocks, four in a line. A text takes
/// those up to 255.
#[repr(align(64))]
struct Steps([[u32; 16]; SHORT.div_ceil(WIDTH)]);

static STEPS: Steps = {
    let mut steps = [[0; 16]; SHORT.div_ceil(WIDTH)];
    let mut block = 0;
    while block < 4 * steps.len() {
        steps[block / 4][block % 4 * 4 + 3] = ((block + 2) as u32) << 24;
        block += 1;
    }
    Steps(steps)
};

/// The counter 1, with which the mask of the ICV is made.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn one() -> __m128i {
    _mm_set_epi32(1 << 24, 0, 0, 0)
}

/// Counter blocks of a text with the first round key already added, four at a time. Up to
/// 254 blocks only the last octet of the counter is not zero: a block is one addition to
/// the common part.
struct Counters<const LONG: bool> {
    base: __m512i,
    whitening: __m512i,
    step: *const __m512i,
}

impl<const LONG: bool> Counters<LONG> {
    /// Reverses the octets of the counter alone.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn reversed(blocks: __m512i) -> __m512i {
        let order = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
        _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
    }

    /// The counters from 2 on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new(first: __m128i, whitening: __m512i) -> Self {
        let all = _mm512_broadcast_i32x4(first);
        let base = if LONG {
            let counts = _mm512_set_epi32(5, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0);
            _mm512_add_epi32(Self::reversed(all), counts)
        } else {
            _mm512_xor_si512(all, whitening)
        };
        Self { base, whitening, step: (&raw const STEPS.0).cast() }
    }

    /// The next four blocks.
    ///
    /// # Safety
    /// Unless `LONG`, of a text of at most 254 blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn take(&mut self) -> __m512i {
        if LONG {
            let blocks = Self::reversed(self.base);
            let four = _mm512_broadcast_i32x4(_mm_set_epi32(4, 0, 0, 0));
            self.base = _mm512_add_epi32(self.base, four);
            return _mm512_xor_si512(blocks, self.whitening);
        }
        // SAFETY: so many lines there are.
        let step = unsafe { _mm512_load_si512(self.step) };
        self.step = self.step.wrapping_add(1);
        _mm512_xor_si512(self.base, step)
    }
}

/// A block in all lanes.
///
/// # Safety
/// `block` must be readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn everywhere(block: *const __m128i) -> __m512i {
    // SAFETY: the caller's promise.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(block) })
}

/// Four registers as one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn joined([a, b, c, d]: [__m128i; GROUP]) -> __m512i {
    let front = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    let back = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
    _mm512_inserti64x4(_mm512_castsi256_si512(front), back, 1)
}

/// Adds up the lanes of four vectors: lane i is the sum of the lanes of vector i.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn add_up([a, b, c, d]: [__m512i; GROUP]) -> __m512i {
    let ab = _mm512_xor_si512(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
    let cd = _mm512_xor_si512(_mm512_shuffle_i64x2(c, d, 0x88), _mm512_shuffle_i64x2(c, d, 0xdd));
    _mm512_xor_si512(_mm512_shuffle_i64x2(ab, cd, 0x88), _mm512_shuffle_i64x2(ab, cd, 0xdd))
}

/// Additional data of up to 32 octets, padded with zeros: two blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn short_ad(ad: &[u8]) -> __m256i {
    let mask = _bzhi_u32(!0, ad.len() as u32);
    // SAFETY: the mask leaves out the octets behind the slice.
    unsafe { _mm256_maskz_loadu_epi8(mask, ad.as_ptr().cast()) }
}

/// Seals or opens packets.
///
/// `R` is the number of rounds, which the keys must be for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn run<const R: usize, const SEAL: bool>(
    hand: &mut Hand<'_, '_>,
    multiplier: Multiplier,
) {
    loop {
        if let Some(alike) = hand.group().whole().and_then(|lanes| Alike::of(lanes)) {
            alike::stream::<R, SEAL>(hand, alike, multiplier);
            continue;
        }
        let lanes @ [_, ..] = hand.group().lanes() else { return };
        let icvs = any::any::<R, SEAL>(lanes);
        finish::<SEAL>(lanes, icvs);
        hand.turn();
    }
}

/// A block for lanes that have no packet.
static NONE: [u8; BLOCK] = [0; BLOCK];

/// Writes the ICVs, or compares them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn finish<const SEAL: bool>(lanes: &mut [Lane<'_>], icvs: __m512i) {
    if SEAL {
        let mut made = [[0_u8; BLOCK]; GROUP];
        // SAFETY: the array is as long as the vector.
        unsafe { _mm512_storeu_si512((&raw mut made).cast(), icvs) };
        return deliver(lanes, made);
    }
    let mut given = [(&raw const NONE).cast::<__m128i>(); GROUP];
    for (given, lane) in given.iter_mut().zip(&mut *lanes) {
        *given = lane.sealed.icv().as_ptr().cast();
    }
    // SAFETY: an ICV is a block.
    let wrong = _mm512_cmpneq_epi64_mask(unsafe { gather(given) }, icvs);
    if wrong == 0 {
        return settle(lanes, !0);
    }
    let wrong = u32::from(wrong | wrong >> 1);
    // Every other bit: 0, 2, 4, 6 become 0 to 3.
    settle(lanes, _pext_u32(!wrong, 0b0101_0101));
}
