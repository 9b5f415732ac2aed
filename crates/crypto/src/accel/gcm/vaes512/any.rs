//! Packets of any keys and lengths.
//!
//! 1. The first counter blocks of all packets are encrypted: as one vector, or for
//!    different keys each in a register of its own.
//! 2. Packet by packet: [`text`](super::text), whose sum is not reduced.
//! 3. The sums become one vector each (low, middle, high), a lane per packet;
//!    additional data and lengths are multiplied for all at once.
//! 4. One reduction; the masks of step 1.

use super::text::{long_ad, long_text, text};
use super::*;
use std::ptr;

/// The ICVs of any packets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn any<const R: usize, const SEAL: bool>(lanes: &mut [Lane<'_>]) -> __m512i {
    let mut counters = [_mm_setzero_si128(); GROUP];
    for (counter, lane) in counters.iter_mut().zip(&*lanes) {
        *counter = counter_block(lane.nonce);
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
    _mm512_xor_si512(reverse(hashes(&parts, two_blocks)), masks)
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
        let mut state =
            xor3(gather([a, b, c, d]), round_key(key, 0), _mm512_broadcast_i32x4(one()));
        for round in 1..R {
            state = _mm512_aesenc_epi128(state, round_key(key, round));
        }
        _mm512_aesenclast_epi128(state, round_key(key, R))
    }
}

/// The same for packets of different keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn masks_of_each<const R: usize>(
    lanes: &[Lane<'_>],
    counters: &[__m128i; GROUP],
) -> __m512i {
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
            *block = _mm_xor_si128(_mm_xor_si128(*block, one()), _mm_load_si128(key));
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
    /// Bits of text, and of additional data above.
    bits: u64,
}

impl Part {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new<const R: usize, const SEAL: bool>(lane: &mut Lane<'_>, first: __m128i) -> Self {
        let key = &*lane.key.schedule;
        let (ad_len, len) = (lane.ad.len(), lane.sealed.len());
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
            // SAFETY: there are two powers from this one on, and the schedule
            // goes on behind them.
            let powers =
                unsafe { _mm512_loadu_si512(key.power(SECTION / BLOCK + ad_blocks).cast()) };
            sum.add(reverse(_mm512_zextsi256_si512(ad)), powers);
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
            bits: (ad_len as u64) << 35 | (len as u64) << 3,
        }
    }
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
