//! Streams of packets of one length of text from 129 octets on: one after the other,
//! without a gap between them.
//!
//! ```text
//!   sealing   … │ cipher A3 + hash A2 │ cipher B1 + hash A3 │ cipher B2 + hash B1 │ …
//!   opening   … │ cipher A3 + hash A3 │ cipher B1 + hash B1 │ cipher B2 + hash B2 │ …
//! ```
//!
//! A packet is some chunks of 256 octets and a last piece of `N` vectors. Sealing, its
//! last piece is hashed while the next packet begins. (With a packet alone the
//! processor waits at both of its ends: a quarter of the time at 512 octets.)

use super::text::Hash;
use super::*;

/// What a stream's packets have in common.
struct Alike {
    len: usize,
    ad_len: usize,
}

impl Alike {
    /// Whether additional data are hashed with the first section of the text; if there
    /// is no other, they are multiplied for four packets at once.
    const fn is_long(&self) -> bool {
        self.len > SECTION
    }
}

/// One piece of a text: `$c` vectors ciphered in place, `$h` vectors of `$blocks`
/// hashed meanwhile. Opening, these are the piece's own; sealing, those in `$blocks`
/// are exchanged for the piece's. With a packet's first piece goes `$mask`, its first
/// counter block, which becomes the mask of its ICV. (A macro, since what the compiler
/// does not inline has its vectors in memory.)
macro_rules! piece {
    ($first:literal, $c:expr, $h:expr, $seal:expr, $R:ident, $key:expr, $counters:expr,
     $mask:ident, $at:expr, $last:expr, $hash:expr, $blocks:expr) => {{
        let (key, at, last): (&Schedule, *mut u8, u64) = ($key, $at, $last);
        let mut state = [_mm512_setzero_si512(); $c];
        for state in &mut state {
            *state = $counters.take();
        }
        if !$seal {
            for i in 0..$c {
                let mask = if i == $c - 1 { last } else { !0 };
                let given = _mm512_maskz_loadu_epi8(mask, at.add(WIDTH * i).cast());
                $blocks[i] = reverse(given);
            }
        }
        let powers = $hash.begin(&mut $blocks[0]);
        rounds!(round of $R {
            let round_key = round_key(key, round);
            for block in &mut state {
                *block = _mm512_aesenc_epi128(*block, round_key);
            }
            if $first {
                $mask = _mm_aesenc_si128($mask, _mm512_castsi512_si128(round_key));
            }
            // Two vectors at a time, or the one that is left.
            if round % 4 == 2 && round / 2 <= $h {
                let pair = round / 4 * 2 % 4;
                let powers = powers.add(4 * pair).cast::<__m512i>();
                let of = [_mm512_loadu_si512(powers), _mm512_loadu_si512(powers.add(1))];
                if pair + 1 < $h {
                    $hash.sum.add_two([$blocks[pair], $blocks[pair + 1]], of);
                } else {
                    $hash.sum.add($blocks[pair], of[0]);
                }
            }
        });
        let round_key = round_key(key, $R);
        if $first {
            $mask = _mm_aesenclast_si128($mask, _mm512_castsi512_si128(round_key));
        }
        for i in 0..$c {
            let to = at.add(WIDTH * i);
            let mask = if i == $c - 1 { last } else { !0 };
            let given = _mm512_maskz_loadu_epi8(mask, to.cast());
            let made = _mm512_xor_si512(given, _mm512_aesenclast_epi128(state[i], round_key));
            _mm512_mask_storeu_epi8(to.cast(), mask, made);
            if $seal {
                $blocks[i] = reverse(_mm512_maskz_mov_epi8(mask, made));
            }
        }
    }};
}

/// All pieces of a text: full chunks, and the last piece of `$N` vectors. Sealing,
/// with the first of them `$before` is hashed.
macro_rules! pieces {
    ($N:ident, $SEAL:ident, $R:ident, $key:ident, $counters:ident, $mask:ident, $at:ident,
     $full:ident, $last:ident, $before:ident, $own:ident, $blocks:ident) => {
        // The one that begins the packet, or goes on with it.
        macro_rules! some {
            ($first:literal, $c:expr, $h:expr, $end:expr, $hash:expr) => {
                piece!($first, $c, $h, $SEAL, $R, $key, $counters, $mask, $at, $end, $hash, $blocks)
            };
        }
        if $full == 0 {
            some!(true, $N, $N, $last, if $SEAL { &mut $before } else { &mut $own });
        } else {
            if $SEAL {
                some!(true, 4, $N, !0, $before);
            } else {
                some!(true, 4, 4, !0, $own);
                $own.end();
            }
            for _ in 1..$full {
                $at = $at.add(CHUNK);
                some!(false, 4, 4, !0, $own);
                $own.end();
            }
            $at = $at.add(CHUNK);
            if $SEAL {
                some!(false, $N, 4, $last, $own);
                $own.end();
            } else {
                some!(false, $N, $N, $last, $own);
            }
        }
    };
}

/// Seals or opens packets that are alike, whole groups of them: a bit for each that
/// is good.
///
/// # Safety
/// All must have the first one's lengths, `N` vectors of text behind full chunks, at
/// most 254 blocks of it and two blocks of additional data. Keys must have `R + 1` round
/// keys.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) unsafe fn stream<const N: usize, const R: usize, const SEAL: bool>(
    groups: &mut [[Lane<'_>; GROUP]],
) -> u64 {
    let Some([first, ..]) = groups.first() else { return 0 };
    let (len, ad_len) = (first.text.len(), first.ad.len());
    // Full chunks in front of the last piece, and the octets of its last vector.
    let full = len.saturating_sub(1) / CHUNK;
    let last = _bzhi_u64(!0, (len - CHUNK * full - WIDTH * (N - 1)) as u32);
    let alike = Alike { len, ad_len };
    let zero = _mm512_setzero_si512();
    // Sealing: the packet before, and its last piece.
    let mut before = Hash::nothing(&first.key.schedule);
    let mut blocks = [zero; 4];
    let (mut sums, mut masks) = ([Sum::zero(); GROUP], zero);
    let mut good = 0;
    for number in 0..groups.len() {
        let firsts = counter_blocks(&groups[number]);
        let mut own_masks = firsts;
        for (i, first) in firsts.into_iter().enumerate() {
            let lane = &mut groups[number][i];
            let mut own = begin(lane, &alike);
            let key: &Schedule = own.key;
            let mut at = lane.text.as_mut_ptr();
            // SAFETY: the caller's promises.
            unsafe {
                let whitening = round_key(key, 0);
                let mut counters = Counters::<false>::new(first, whitening);
                let one = _mm_xor_si128(_mm512_castsi512_si128(whitening), one());
                let mut mask = _mm_xor_si128(first, one);
                pieces!(N, SEAL, R, key, counters, mask, at, full, last, before, own, blocks);
                own_masks[i] = mask;
            }
            if !SEAL {
                sums[i] = own.sum;
                continue;
            }
            let whole = std::mem::replace(&mut before, own).sum;
            match i.checked_sub(1) {
                Some(i) => sums[i] = whole,
                None => {
                    // The group before is complete.
                    sums[GROUP - 1] = whole;
                    if let Some(group) = number.checked_sub(1).map(|number| &mut groups[number]) {
                        let icvs = icvs(&sums, group, &alike, masks);
                        write(group, icvs);
                    }
                }
            }
        }
        masks = joined(own_masks);
        if !SEAL {
            let icvs = icvs(&sums, &groups[number], &alike, masks);
            good |= u64::from(compare(&groups[number], icvs)) << (GROUP * number);
        }
    }
    if SEAL && let Some(group) = groups.last_mut() {
        let powers = before.begin(&mut blocks[0]);
        for (i, &blocks) in blocks[..N].iter().enumerate() {
            // SAFETY: so many powers there are.
            before.sum.add(blocks, unsafe { _mm512_loadu_si512(powers.add(4 * i).cast()) });
        }
        sums[GROUP - 1] = before.sum;
        let icvs = icvs(&sums, group, &alike, masks);
        write(group, icvs);
        good = !0 >> (LANES - GROUP * groups.len());
    }
    good
}

/// The hash of a packet that begins: with its additional data, if its text is long.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn begin<'a>(lane: &Lane<'a>, alike: &Alike) -> Hash<'a> {
    let key: &'a Schedule = &lane.key.schedule;
    let mut sum = Sum::zero();
    if alike.is_long() {
        let at = SECTION / BLOCK + alike.ad_len.div_ceil(BLOCK);
        // SAFETY: there are two powers from this one on, and what they stand in goes on.
        let powers = unsafe { _mm512_loadu_si512(key.power(at).cast()) };
        sum.add(reverse(_mm512_zextsi256_si512(short_ad(lane.ad))), powers);
    }
    Hash::new(key, sum, alike.len.div_ceil(BLOCK))
}

/// The ICVs, from what the texts come to.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn icvs(sums: &[Sum; GROUP], lanes: &[Lane<'_>; GROUP], alike: &Alike, masks: __m512i) -> __m512i {
    let Alike { len, ad_len, .. } = *alike;
    let powers = |power: usize| lanes.each_ref().map(|lane| lane.key.schedule.power(power));
    let mut sum = Sum {
        lo: add_up(sums.each_ref().map(|sum| sum.lo)),
        mi: add_up(sums.each_ref().map(|sum| sum.mi)),
        hi: add_up(sums.each_ref().map(|sum| sum.hi)),
    };
    let bits = _mm_set_epi64x((ad_len as i64) << 3, (len as i64) << 3);
    // SAFETY: keys have these powers.
    unsafe {
        sum.add(_mm512_broadcast_i32x4(bits), gather(powers(1)));
        if ad_len > 0 && !alike.is_long() {
            let power = len.div_ceil(BLOCK) + 1 + ad_len.div_ceil(BLOCK);
            let ads = lanes.each_ref().map(|lane| short_ad(lane.ad));
            let first = joined(ads.map(|ad| _mm256_castsi256_si128(ad)));
            sum.add(reverse(first), gather(powers(power)));
            if ad_len > BLOCK {
                let second = joined(ads.map(|ad| _mm256_extracti128_si256(ad, 1)));
                sum.add(reverse(second), gather(powers(power - 1)));
            }
        }
    }
    _mm512_xor_si512(reverse(sum.reduce()), masks)
}
