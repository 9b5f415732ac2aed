//! Streams of packets of one class from 129 octets on, with as many chunks and about as
//! many octets behind them: two abreast, and one pair after the other without a gap
//! between them.
//!
//! ```text
//!   sealing   … │ cipher A3 + hash A2 │ cipher B1 + hash A3 │ cipher B2 + hash B1 │ …
//!   opening   … │ cipher A3 + hash A3 │ cipher B1 + hash B1 │ cipher B2 + hash B2 │ …
//! ```
//!
//! A packet is some chunks of 256 octets and a last piece of `N` vectors; masks leave out
//! the missing part of a text. A round takes four cycles and two begin in each: the eight
//! vectors of two packets fill them, those of one do not. Sealing, a pair's last piece is
//! hashed while the next pair begins. (With a packet alone the processor waits at both of
//! its ends: a quarter of the time at 512 octets.)

use super::alike::lengths;
use super::text::first_power;
use super::*;
use crate::accel::prefetch::line;

/// Packets abreast.
const PAIR: usize = 2;

/// Vectors of a chunk.
const VECTORS: usize = CHUNK / WIDTH;

/// The octets of the last two vectors of two packets' pieces; those in front are whole.
type Masks = [[u64; 2]; PAIR];

/// Masks of pieces that are not the last.
const WHOLE: Masks = [[!0; 2]; PAIR];

/// The octets of a piece's vector.
macro_rules! mask {
    ($masks:ident, $p:expr, $i:expr, $c:expr) => {
        if $i + 2 < $c { !0 } else { $masks[$p][$i + 2 - $c] }
    };
}

/// Vectors of two packets' pieces.
type Pieces = [[__m512i; VECTORS]; PAIR];

/// A sum of products, by four multiplications each or, if there are to be `FEW`, by three
/// (Karatsuba): then the middle is of the sums of both factors' halves, and has the low
/// and the high product in it, too.
#[derive(Clone, Copy)]
struct Products<const FEW: bool>(Sum);

impl<const FEW: bool> Products<FEW> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn none() -> Self {
        Self(Sum::zero())
    }

    /// Adds the products of four blocks and four powers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add(&mut self, blocks: __m512i, powers: __m512i) {
        let Self(sum) = self;
        if !FEW {
            return sum.add(blocks, powers);
        }
        sum.lo = _mm512_xor_si512(sum.lo, _mm512_clmulepi64_epi128(blocks, powers, 0x00));
        sum.hi = _mm512_xor_si512(sum.hi, _mm512_clmulepi64_epi128(blocks, powers, 0x11));
        sum.mi = _mm512_xor_si512(sum.mi, Self::middle(blocks, powers));
    }

    /// The same, twice.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add_two(&mut self, [a, b]: [__m512i; 2], [of_a, of_b]: [__m512i; 2]) {
        let Self(sum) = self;
        if !FEW {
            return sum.add_two([a, b], [of_a, of_b]);
        }
        let lo = (_mm512_clmulepi64_epi128(a, of_a, 0x00), _mm512_clmulepi64_epi128(b, of_b, 0x00));
        sum.lo = xor3(sum.lo, lo.0, lo.1);
        let hi = (_mm512_clmulepi64_epi128(a, of_a, 0x11), _mm512_clmulepi64_epi128(b, of_b, 0x11));
        sum.hi = xor3(sum.hi, hi.0, hi.1);
        sum.mi = xor3(sum.mi, Self::middle(a, of_a), Self::middle(b, of_b));
    }

    /// The product of the sums of halves.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn middle(blocks: __m512i, powers: __m512i) -> __m512i {
        let blocks = _mm512_xor_si512(blocks, _mm512_shuffle_epi32(blocks, 0x4e));
        let powers = _mm512_xor_si512(powers, _mm512_shuffle_epi32(powers, 0x4e));
        _mm512_clmulepi64_epi128(blocks, powers, 0x00)
    }

    /// The sum in the form of [`Sum`]: the middle without the low and the high products.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn sum(self) -> Sum {
        let Self(Sum { lo, mi, hi }) = self;
        Sum { lo, mi: if FEW { xor3(lo, mi, hi) } else { mi }, hi }
    }
}

/// The hashes of two texts under way.
struct Hashes<'a, const FEW: bool> {
    keys: [&'a Schedule; PAIR],
    sums: [Products<FEW>; PAIR],
    /// Hash of each text's preceding sections, reduced: added to the next block, once.
    carries: [__m512i; PAIR],
    /// The power that the next block of each meets.
    power: [usize; PAIR],
    /// Blocks of each that are not hashed yet.
    left: [usize; PAIR],
}

impl<'a, const FEW: bool> Hashes<'a, FEW> {
    /// Begins the hashes of two texts of so many blocks; `sums` are the hashes in front of
    /// them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new(keys: [&'a Schedule; PAIR], sums: [Products<FEW>; PAIR], left: [usize; PAIR]) -> Self {
        let carries = [_mm512_setzero_si512(); PAIR];
        Self { keys, sums, carries, power: left.map(first_power), left }
    }

    /// Begins the hashes of two packets: with their additional data, if their texts are
    /// long.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn begin(lanes: &[Lane<'a>; PAIR], alike: &Alike) -> Self {
        let keys = lanes.each_ref().map(|lane| &*lane.key.schedule);
        let mut sums = [Products::none(); PAIR];
        if alike.is_long() {
            let at = SECTION / BLOCK + alike.ad_len.div_ceil(BLOCK);
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                let ad = reverse(_mm512_zextsi256_si512(short_ad(lane.ad)));
                // SAFETY: there are two powers from this one on, and the schedule goes on
                // behind them.
                sum.add(ad, unsafe { _mm512_loadu_si512(lane.key.schedule.power(at).cast()) });
            }
        }
        Self::new(keys, sums, lanes.each_ref().map(|lane| lane.sealed.len().div_ceil(BLOCK)))
    }

    /// Addresses of the powers for the next pieces.
    #[inline]
    fn powers(&self) -> [*const __m128i; PAIR] {
        [self.keys[0].power(self.power[0]), self.keys[1].power(self.power[1])]
    }

    /// Takes the hash of the preceding sections of one text.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn take_carry(&mut self, number: usize) -> __m512i {
        std::mem::replace(&mut self.carries[number], _mm512_setzero_si512())
    }

    /// Hashes last pieces with nothing to be ciphered meanwhile.
    ///
    /// # Safety
    /// There must be powers for them.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn alone<const N: usize>(mut self, mut pieces: Pieces) -> [Products<FEW>; PAIR] {
        let powers = self.powers();
        for p in 0..PAIR {
            pieces[p][0] = _mm512_xor_si512(pieces[p][0], self.take_carry(p));
            for (i, &blocks) in pieces[p][..N].iter().enumerate() {
                // SAFETY: the caller's promise.
                let powers = unsafe { _mm512_loadu_si512(powers[p].add(4 * i).cast()) };
                self.sums[p].add(blocks, powers);
            }
        }
        self.sums
    }

    /// After full chunks: at the end of sections that are not the last, reduces.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn end(&mut self) {
        const BLOCKS: usize = CHUNK / BLOCK;
        self.left = self.left.map(|left| left - BLOCKS);
        self.power = self.power.map(|power| power - BLOCKS);
        // Both texts have as many chunks: they are at the end of a section together.
        if self.power[0] == 0 {
            self.carries = self.sums.map(|products| products.sum().fold());
            self.sums = [Products::none(); PAIR];
            self.power = self.left.map(first_power);
        }
    }
}

/// The octets of a text in the last two vectors in front of this end, if there are two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn last_masks(lane: &Lane<'_>, end: usize) -> [u64; 2] {
    [2, 1].map(|back| {
        let left = (lane.sealed.len() + WIDTH * back).saturating_sub(end);
        _bzhi_u64(!0, left.min(WIDTH) as u32)
    })
}

/// Counters of two texts, and their first counter blocks with the first round key added.
///
/// # Safety
/// Texts must have at most 254 blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn counters(
    keys: [&Schedule; PAIR],
    [a, b]: [__m128i; PAIR],
) -> ([Counters<false>; PAIR], [__m128i; PAIR]) {
    // SAFETY: every key has a first round key.
    let [of_a, of_b] = keys.map(|key| unsafe { round_key(key, 0) });
    let mask = |first, whitening| {
        _mm_xor_si128(_mm_xor_si128(first, one()), _mm512_castsi512_si128(whitening))
    };
    ([Counters::new(a, of_a), Counters::new(b, of_b)], [mask(a, of_a), mask(b, of_b)])
}

/// One piece of each text: `$c` vectors ciphered in place, `$h` vectors of `$blocks` hashed
/// meanwhile. Opening, these are the pieces' own; sealing, those in `$blocks` are exchanged
/// for the pieces'. With first pieces go `$masks`, the first counter blocks, which become
/// the masks of the ICVs. The same piece of the next pair's texts, at `$ahead`, is asked
/// for meanwhile. (A macro, since a function that the compiler does not inline has its
/// vectors in memory.)
macro_rules! piece {
    ($first:literal, $c:expr, $h:expr, $seal:expr, $R:ident, $keys:ident, $counters:ident,
     $masks:ident, $at:ident, $ahead:ident, $last:expr, $hash:expr, $blocks:ident) => {{
        let present = $last;
        let mut state = [[_mm512_setzero_si512(); $c]; PAIR];
        each!(p in [0 1] {
            for state in &mut state[p] {
                *state = $counters[p].take();
            }
        });
        let powers = $hash.powers();
        rounds!(round of $R {
            each!(p in [0 1] {
                let round_key = round_key($keys[p], round);
                for block in &mut state[p] {
                    *block = _mm512_aesenc_epi128(*block, round_key);
                    by_here!(*block);
                }
                if $first {
                    $masks[p] = _mm_aesenc_si128($masks[p], _mm512_castsi512_si128(round_key));
                }
            });
            if round <= $c {
                $ahead.iter().for_each(|at| line(at.wrapping_add(WIDTH * (round - 1)).cast()));
            }
            // Two vectors of one of them at a time, or the one that is left.
            let (p, pair) = ((round / 2 + 1) % PAIR, (round - 1) / 4 * 2 % VECTORS);
            if round % 2 == 0 && round <= 2 * VECTORS && pair < $h {
                let powers = powers[p].add(4 * pair).cast::<__m512i>();
                let of = [_mm512_loadu_si512(powers), _mm512_loadu_si512(powers.add(1))];
                let block = |number: usize| {
                    if $seal {
                        return $blocks[p][number];
                    }
                    let mask = mask!(present, p, number, $c);
                    reverse(_mm512_maskz_loadu_epi8(mask, $at[p].add(WIDTH * number).cast()))
                };
                let mut one = block(pair);
                if pair == 0 {
                    one = _mm512_xor_si512(one, $hash.take_carry(p));
                }
                if pair + 1 < $h {
                    $hash.sums[p].add_two([one, block(pair + 1)], of);
                } else {
                    $hash.sums[p].add(one, of[0]);
                }
                let Products(sum) = &mut $hash.sums[p];
                by_here!(sum.lo, sum.mi, sum.hi);
            }
        });
        each!(p in [0 1] {
            let round_key = round_key($keys[p], $R);
            if $first {
                $masks[p] = _mm_aesenclast_si128($masks[p], _mm512_castsi512_si128(round_key));
            }
            for (i, &state) in state[p].iter().enumerate() {
                let to = $at[p].add(WIDTH * i);
                let mask = mask!(present, p, i, $c);
                let given = _mm512_maskz_loadu_epi8(mask, to.cast());
                let made = _mm512_xor_si512(given, _mm512_aesenclast_epi128(state, round_key));
                _mm512_mask_storeu_epi8(to.cast(), mask, made);
                if $seal {
                    $blocks[p][i] = reverse(_mm512_maskz_mov_epi8(mask, made));
                }
            }
        });
    }};
}

/// Processes two texts whole: full chunks, then the last pieces of `$N` vectors. When
/// sealing, `$before` is hashed along with the first chunk.
macro_rules! pieces {
    ($N:ident, $SEAL:ident, $R:ident, $keys:ident, $counters:ident, $masks:ident, $at:ident,
     $ahead:ident, $full:ident, $last:ident, $before:ident, $own:ident, $blocks:ident) => {
        // The ones that begin the packets, or go on with them.
        macro_rules! some {
            ($first:literal, $c:expr, $h:expr, $end:expr, $hash:expr) => {
                piece!(
                    $first, $c, $h, $SEAL, $R, $keys, $counters, $masks, $at, $ahead, $end, $hash,
                    $blocks
                )
            };
        }
        // Goes on to the chunks behind.
        macro_rules! on {
            () => {
                $at = $at.map(|at| at.add(CHUNK));
                $ahead = $ahead.map(|at| at.wrapping_add(CHUNK));
            };
        }
        if $full == 0 {
            some!(true, $N, $N, $last, if $SEAL { &mut $before } else { &mut $own });
        } else {
            if $SEAL {
                some!(true, VECTORS, $N, WHOLE, $before);
            } else {
                some!(true, VECTORS, VECTORS, WHOLE, $own);
                $own.end();
            }
            for _ in 1..$full {
                on!();
                some!(false, VECTORS, VECTORS, WHOLE, $own);
                $own.end();
            }
            on!();
            if $SEAL {
                some!(false, $N, VECTORS, $last, $own);
                $own.end();
            } else {
                some!(false, $N, $N, $last, $own);
            }
        }
    };
}

/// Texts of the pair behind each pair of a group, the last of which stands for itself where
/// nothing comes next.
#[inline(always)]
fn texts_behind(
    group: &[Lane<'_>; GROUP],
    next: Option<[*const u8; PAIR]>,
) -> [[*const u8; PAIR]; PAIR] {
    let [.., c, d] = group.each_ref().map(|lane| lane.sealed.at.cast_const());
    [[c, d], next.unwrap_or([c, d])]
}

/// Seals or opens groups as long as they are alike.
///
/// # Safety
/// The first must be as `alike` says: with `N` vectors of text behind full chunks. Keys
/// must have `R + 1` round keys.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) unsafe fn stream<const N: usize, const R: usize, const SEAL: bool, const FEW: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    let [first, ..] = hand.group().lanes() else { return };
    let full = alike.chunks;
    let zero = _mm512_setzero_si512();
    // Sealing: the pair before, and its last pieces. At first that is one of zeros.
    let nobody = [&*first.key.schedule; PAIR];
    let mut before = Hashes::<FEW>::new(nobody, [Products::none(); PAIR], [CHUNK / BLOCK; PAIR]);
    let mut blocks: Pieces = [[zero; VECTORS]; PAIR];
    let (mut sums, mut masks) = ([Products::none(); GROUP], zero);
    let mut begun = false;
    loop {
        let next = hand.next_texts::<PAIR>();
        let (group, group_before) = hand.both();
        let Some(group) = group.whole() else { return };
        let behind = texts_behind(group, next);
        let firsts = counter_blocks(group);
        let mut own_masks = firsts;
        for (number, pair) in group.as_chunks_mut::<PAIR>().0.iter_mut().enumerate() {
            let mut own = Hashes::begin(pair, &alike);
            let keys = own.keys;
            let mut at = pair.each_mut().map(|lane| lane.sealed.as_mut_ptr());
            let mut ahead = behind[number];
            let last: Masks =
                pair.each_ref().map(|lane| last_masks(lane, CHUNK * full + WIDTH * N));
            let firsts = [firsts[PAIR * number], firsts[PAIR * number + 1]];
            // SAFETY: the caller's promises.
            unsafe {
                let (mut counters, mut masks) = counters(keys, firsts);
                pieces!(
                    N, SEAL, R, keys, counters, masks, at, ahead, full, last, before, own, blocks
                );
                own_masks[PAIR * number..][..PAIR].copy_from_slice(&masks);
            }
            let whole = if SEAL { std::mem::replace(&mut before, own).sums } else { own.sums };
            // Sealing, the pair before is complete, and maybe its group.
            if (number == 0) == SEAL {
                (sums[2], sums[3]) = (whole[0], whole[1]);
            } else {
                (sums[0], sums[1]) = (whole[0], whole[1]);
            }
            if SEAL
                && number == 0
                && begun
                && let Some(group) = group_before.whole()
            {
                let icvs = icvs(&sums, group, &alike, masks);
                finish::<SEAL>(group, icvs);
            }
        }
        begun = true;
        masks = joined(own_masks);
        if !SEAL {
            let icvs = icvs(&sums, group, &alike, masks);
            finish::<SEAL>(group, icvs);
        }
        hand.turn();
        if !alike.has_next(hand) {
            break;
        }
    }
    if SEAL && let Some(group) = hand.before().whole() {
        // SAFETY: the caller's promise.
        [sums[2], sums[3]] = unsafe { before.alone::<N>(blocks) };
        let icvs = icvs(&sums, group, &alike, masks);
        finish::<SEAL>(group, icvs);
    }
}

/// The ICVs, from the products of the texts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn icvs<const FEW: bool>(
    sums: &[Products<FEW>; GROUP],
    lanes: &[Lane<'_>; GROUP],
    alike: &Alike,
    masks: __m512i,
) -> __m512i {
    let ad_len = alike.ad_len;
    let all = Products::<FEW>(Sum {
        lo: add_up(sums.each_ref().map(|Products(sum)| sum.lo)),
        mi: add_up(sums.each_ref().map(|Products(sum)| sum.mi)),
        hi: add_up(sums.each_ref().map(|Products(sum)| sum.hi)),
    });
    let mut sum = all.sum();
    // SAFETY: keys have these powers.
    unsafe {
        sum.add(lengths(lanes, ad_len), gather(lanes.each_ref().map(|l| l.key.schedule.power(1))));
        if ad_len > 0 && !alike.is_long() {
            // Behind the first of so many blocks of additional data come the others, the
            // text and the block of lengths.
            let powers = |ad_blocks: usize| {
                lanes.each_ref().map(|lane| {
                    let blocks = lane.sealed.len().div_ceil(BLOCK);
                    lane.key.schedule.power(blocks + 1 + ad_blocks)
                })
            };
            let ads = lanes.each_ref().map(|lane| short_ad(lane.ad));
            let first = joined(ads.map(|ad| _mm256_castsi256_si128(ad)));
            sum.add(reverse(first), gather(powers(ad_len.div_ceil(BLOCK))));
            if ad_len > BLOCK {
                let second = joined(ads.map(|ad| _mm256_extracti128_si256(ad, 1)));
                sum.add(reverse(second), gather(powers(1)));
            }
        }
    }
    _mm512_xor_si512(reverse(sum.reduce()), masks)
}
