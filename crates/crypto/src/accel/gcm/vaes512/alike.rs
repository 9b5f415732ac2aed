//! Packets of one length of text up to 256 octets and one of additional data: what
//! streams of small packets are.
//!
//! If they have one key, too, all that depends on it is loaded once. Up to 128 octets
//! they are [`small`]. Longer ones are ciphered in turn, each hashed while the next is
//! ciphered (or, opening, while it is ciphered itself).

use super::any::masks_of_each;
use super::{small, *};
use std::ptr;

/// The longest texts that are taken together.
const ALIKE: usize = 4 * WIDTH;

/// How many groups of packets stand at the front that are alike, and whether they
/// have one key.
#[inline]
pub(super) fn alike(lanes: &[Lane<'_>]) -> Option<(usize, bool)> {
    let (first, rest) = lanes.split_first()?;
    let (len, ad) = (first.text.len(), first.ad.len());
    if len == 0 || len > ALIKE || ad > 2 * BLOCK {
        return None;
    }
    let (mut count, mut one) = (1, true);
    for lane in rest.iter().take(LANES - 1) {
        if lane.text.len() != len || lane.ad.len() != ad {
            break;
        }
        if one && !ptr::eq(&raw const *lane.key.schedule, &raw const *first.key.schedule) {
            // Those of one key are better off by themselves.
            if count >= GROUP {
                break;
            }
            one = false;
        }
        count += 1;
    }
    (count >= GROUP).then_some((count / GROUP, one))
}

/// Seals or opens packets that are alike: a bit for each that is good.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn stream<const R: usize, const SEAL: bool>(
    groups: &mut [[Lane<'_>; GROUP]],
    one: bool,
) -> u64 {
    if one { by_length::<R, SEAL, true>(groups) } else { by_length::<R, SEAL, false>(groups) }
}

/// Those of one key (`ONE`), or of several.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn by_length<const R: usize, const SEAL: bool, const ONE: bool>(
    groups: &mut [[Lane<'_>; GROUP]],
) -> u64 {
    let len = groups.first().map_or(0, |group| group[0].text.len());
    // SAFETY: they are alike, and so long; the caller's R is the key's.
    unsafe {
        match len {
            WIDTH => small::stream::<1, true, R, SEAL, ONE>(groups),
            ..WIDTH => small::stream::<1, false, R, SEAL, ONE>(groups),
            65..=128 => small::stream::<2, false, R, SEAL, ONE>(groups),
            129..=192 => in_turns::<3, R, SEAL, ONE>(groups),
            _ => in_turns::<4, R, SEAL, ONE>(groups),
        }
    }
}

/// A power of H in each lane, of its packet's key.
///
/// # Safety
/// There must be this power.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn powers<const ONE: bool>([a, b, c, d]: &[Lane<'_>; GROUP], power: usize) -> __m512i {
    let of = |lane: &Lane<'_>| lane.key.schedule.power(power);
    // SAFETY: the caller's promise.
    unsafe { if ONE { everywhere(of(a)) } else { gather([of(a), of(b), of(c), of(d)]) } }
}

/// The masks of the ICVs: the first counter blocks, encrypted.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn masks<const R: usize, const ONE: bool>(
    lanes: &[Lane<'_>; GROUP],
    counters: [__m128i; GROUP],
) -> __m512i {
    if !ONE {
        return masks_of_each::<R>(lanes, &counters);
    }
    let key = &*lanes[0].key.schedule;
    // SAFETY: the caller's R is the key's.
    unsafe {
        let mut masks = xor3(joined(counters), round_key(key, 0), one());
        for round in 1..R {
            masks = _mm512_aesenc_epi128(masks, round_key(key, round));
        }
        _mm512_aesenclast_epi128(masks, round_key(key, R))
    }
}

/// One packet's cipher in place, `N` vectors of which the last is masked. Between
/// its rounds, if `HASH`, the products of `hashed` go to `sum`: the packet's own
/// ciphertext, opening, or that of the one before, sealing, which leaves its own.
///
/// # Safety
/// The text must have so many vectors, the key `R + 1` round keys; at `powers` there
/// must be as many powers as blocks are hashed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn turn<const N: usize, const R: usize, const SEAL: bool, const HASH: bool>(
    key: &Schedule,
    text: (*mut u8, u64),
    mut counters: Counters<false>,
    powers: *const __m128i,
    hashed: &mut [__m512i; N],
    sum: &mut Sum,
) {
    let (at, last) = text;
    let mut state = [_mm512_setzero_si512(); N];
    let mut given = state;
    // SAFETY: the caller's promises.
    unsafe {
        for (i, (state, given)) in state.iter_mut().zip(&mut given).enumerate() {
            *state = counters.take();
            let from = at.add(WIDTH * i);
            let mask = if i == N - 1 { last } else { !0 };
            *given = _mm512_maskz_loadu_epi8(mask, from.cast());
            if !SEAL {
                hashed[i] = reverse(*given);
            }
        }
        rounds!(round of R {
            let round_key = round_key(key, round);
            for block in &mut state {
                *block = _mm512_aesenc_epi128(*block, round_key);
            }
            if HASH && round % 2 == 1 && round / 2 < N {
                let i = round / 2;
                sum.add(hashed[i], _mm512_loadu_si512(powers.add(4 * i).cast()));
            }
        });
        let round = round_key(key, R);
        for (i, (state, given)) in state.into_iter().zip(given).enumerate() {
            let made = _mm512_xor_si512(given, _mm512_aesenclast_epi128(state, round));
            let mask = if i == N - 1 { last } else { !0 };
            _mm512_mask_storeu_epi8(at.add(WIDTH * i).cast(), mask, made);
            if SEAL {
                hashed[i] = reverse(_mm512_maskz_mov_epi8(mask, made));
            }
        }
    }
}

/// Packets of 129 to 256 octets: a bit for each that is good.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn in_turns<const N: usize, const R: usize, const SEAL: bool, const ONE: bool>(
    groups: &mut [[Lane<'_>; GROUP]],
) -> u64 {
    let mut good = 0;
    for (number, group) in groups.iter_mut().enumerate() {
        let icvs = in_turn::<N, R, SEAL, ONE>(group);
        good |= u64::from(finish::<SEAL>(group, icvs)) << (GROUP * number);
    }
    good
}

/// The ICVs of four packets of 129 to 256 octets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn in_turn<const N: usize, const R: usize, const SEAL: bool, const ONE: bool>(
    lanes: &mut [Lane<'_>; GROUP],
) -> __m512i {
    let len = lanes[0].text.len();
    let blocks = len.div_ceil(BLOCK);
    let last = _bzhi_u64(!0, (len - WIDTH * (N - 1)) as u32);
    let keys = {
        let [a, b, c, d] = &*lanes;
        [&*a.key.schedule, &*b.key.schedule, &*c.key.schedule, &*d.key.schedule]
    };
    // The packet whose hash stands between the rounds of this one.
    let hashes = |number: usize| if SEAL { number.saturating_sub(1) } else { number };
    let firsts = counter_blocks(lanes);
    let mut sums = [Sum::zero(); GROUP];
    let mut hashed = [_mm512_setzero_si512(); N];
    // SAFETY: the texts are alike, and `last` is what their last vector has; the
    // caller's R is the key's.
    unsafe {
        for number in 0..GROUP {
            let key = keys[number];
            let text = (lanes[number].text.as_mut_ptr(), last);
            let counters = Counters::new(firsts[number], round_key(key, 0));
            let powers = keys[hashes(number)].power(blocks + 1);
            let sum = &mut sums[hashes(number)];
            if SEAL && number == 0 {
                turn::<N, R, SEAL, false>(key, text, counters, powers, &mut hashed, sum);
            } else {
                turn::<N, R, SEAL, true>(key, text, counters, powers, &mut hashed, sum);
            }
        }
        if SEAL {
            let powers = keys[GROUP - 1].power(blocks + 1);
            for (i, &blocks) in hashed.iter().enumerate() {
                sums[GROUP - 1].add(blocks, _mm512_loadu_si512(powers.add(4 * i).cast()));
            }
        }
    }
    let masks = masks::<R, ONE>(lanes, firsts);
    let sum = Sum {
        lo: add_up(sums.map(|sum| sum.lo)),
        mi: add_up(sums.map(|sum| sum.mi)),
        hi: add_up(sums.map(|sum| sum.hi)),
    };
    icvs::<ONE>(sum, lanes, masks)
}

/// The ICVs, from what the texts come to: additional data and lengths are missing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn icvs<const ONE: bool>(mut sum: Sum, lanes: &[Lane<'_>; GROUP], masks: __m512i) -> __m512i {
    let [a, b, c, d] = lanes;
    let (len, ad_len) = (a.text.len(), a.ad.len());
    let bits = _mm_set_epi64x((ad_len as i64) << 3, (len as i64) << 3);
    let power = len.div_ceil(BLOCK) + 1 + ad_len.div_ceil(BLOCK);
    let mask = _bzhi_u32(!0, ad_len as u32);
    // SAFETY: the mask leaves out what is behind the additional data, which are
    // alike; for two blocks there are two powers.
    unsafe {
        sum.add(_mm512_broadcast_i32x4(bits), powers::<ONE>(lanes, 1));
        if ad_len > 0 {
            let load = |ad: &[u8]| _mm256_maskz_loadu_epi8(mask, ad.as_ptr().cast());
            let ads = [load(a.ad), load(b.ad), load(c.ad), load(d.ad)];
            let first = joined(ads.map(|ad| _mm256_castsi256_si128(ad)));
            sum.add(reverse(first), powers::<ONE>(lanes, power));
            if ad_len > BLOCK {
                let second = joined(ads.map(|ad| _mm256_extracti128_si256(ad, 1)));
                sum.add(reverse(second), powers::<ONE>(lanes, power - 1));
            }
        }
    }
    _mm512_xor_si512(reverse(sum.reduce()), masks)
}

/// Their first counter blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn counter_blocks([a, b, c, d]: &[Lane<'_>; GROUP]) -> [__m128i; GROUP] {
    [counter_block(a.nonce), counter_block(b.nonce), counter_block(c.nonce), counter_block(d.nonce)]
}
