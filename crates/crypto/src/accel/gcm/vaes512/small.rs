//! Streams of small packets: any number of groups of four, all of one length of text
//! up to 128 octets and one of additional data.
//!
//! ```text
//!   sealing   cipher 1 │ cipher 2 + hash 1 │ cipher 3 + hash 2 │ … │ hash n
//!   opening   cipher 1 + hash 1 │ cipher 2 + hash 2 │ …
//! ```
//!
//! The four packets of a group are ciphered in one go. As their blocks stand at the
//! same places, a vector of the hash takes one block of each packet, so that no sums
//! need to be moved about at the end. What is hashed stands between the rounds of
//! what is ciphered: the two keep different units busy, and a packet of one vector
//! is too short for the processor to find enough of both by itself.

use super::any::masks_of_each;
use super::*;

/// What stands ready to be hashed: of `N` vectors of four packets, first blocks,
/// second blocks and so on, octets reversed.
type Blocks<const N: usize> = [[__m512i; 4]; N];

/// What a stream's packets have in common, as it is needed here.
struct Shape<const N: usize> {
    /// Octets of text, and blocks that they begin.
    len: usize,
    blocks: usize,
    /// The octets of the last vector.
    last: u64,
    /// Octets of additional data.
    ad_len: usize,
    /// What every sum starts with: the product of the lengths and H, if the packets
    /// have one key.
    lengths: Sum,
}

impl<const N: usize> Shape<N> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new<const ONE: bool>(alike: Alike, first: &Lane<'_>) -> Self {
        let Alike { len, ad_len, .. } = alike;
        let mut this = Self {
            len,
            blocks: len.div_ceil(BLOCK),
            last: _bzhi_u64(!0, (len - WIDTH * (N - 1)) as u32),
            ad_len,
            lengths: Sum::zero(),
        };
        if ONE {
            // SAFETY: every key has H.
            let h = unsafe { everywhere(first.key.schedule.power(1)) };
            this.lengths.add(this.bits(), h);
        }
        this
    }

    /// The block of lengths, in each lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn bits(&self) -> __m512i {
        let (ad, text) = ((self.ad_len as i64) << 3, (self.len as i64) << 3);
        _mm512_broadcast_i32x4(_mm_set_epi64x(ad, text))
    }
}

/// The schedules of a group's keys.
type Keys<'a> = [&'a Schedule; GROUP];

#[inline]
fn keys<'a, const ONE: bool>(lanes: &[Lane<'a>; GROUP]) -> Keys<'a> {
    let of = |lane: &Lane<'a>| &*lane.key.schedule;
    let [a, b, c, d] = lanes;
    if ONE { [of(a); GROUP] } else { [of(a), of(b), of(c), of(d)] }
}

/// A power of H in each lane, of its packet's key.
///
/// # Safety
/// There must be this power.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn powers<const ONE: bool>(keys: &Keys<'_>, power: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if ONE { everywhere(keys[0].power(power)) } else { gather(keys.map(|k| k.power(power))) }
    }
}

/// A group whose text is to be hashed, or is being hashed.
struct Hash<'a, const N: usize, const ONE: bool> {
    keys: Keys<'a>,
    blocks: Blocks<N>,
    masks: __m512i,
    sum: Sum,
}

impl<'a, const N: usize, const ONE: bool> Hash<'a, N, ONE> {
    /// A group whose text and masks are not known yet.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new(lanes: &[Lane<'a>; GROUP], shape: &Shape<N>) -> Self {
        let zero = _mm512_setzero_si512();
        Self { keys: keys::<ONE>(lanes), blocks: [[zero; 4]; N], masks: zero, sum: shape.lengths }
    }

    /// Two blocks of each packet: pair number 0 to `2 * N - 1`.
    ///
    /// # Safety
    /// The texts must be as `shape` says.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn pair<const FULL: bool>(&mut self, pair: usize, shape: &Shape<N>) {
        let (one, two) = (2 * pair, 2 * pair + 1);
        let power = |number: usize| shape.blocks + 1 - number;
        let of = |number: usize| self.blocks[number / 4][number % 4];
        // SAFETY: the caller's promise: so many blocks there are, and there are powers
        // for all that a text of 128 octets can have.
        unsafe {
            if FULL || two < shape.blocks {
                let powers = [power(one), power(two)].map(|p| powers::<ONE>(&self.keys, p));
                self.sum.add_two([of(one), of(two)], powers);
            } else if one < shape.blocks {
                self.sum.add(of(one), powers::<ONE>(&self.keys, power(one)));
            }
            by_here!(self.sum.lo, self.sum.mi, self.sum.hi);
        }
    }

    /// Additional data and lengths.
    ///
    /// # Safety
    /// The packets must be as `shape` says.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn rest(&mut self, lanes: &[Lane<'_>; GROUP], shape: &Shape<N>) {
        let Shape { ad_len, blocks, .. } = *shape;
        let mask = _bzhi_u32(!0, ad_len as u32);
        // SAFETY: masks leave out what is behind the additional data, which are alike;
        // for two blocks of them there are two powers.
        unsafe {
            if !ONE {
                self.sum.add(shape.bits(), powers::<ONE>(&self.keys, 1));
            }
            if ad_len == 0 {
                return;
            }
            let power = blocks + 1 + ad_len.div_ceil(BLOCK);
            let load = |ad: &[u8]| _mm_maskz_loadu_epi8(mask as u16, ad.as_ptr().cast());
            let first = reverse(joined(lanes.each_ref().map(|lane| load(lane.ad))));
            if ad_len <= BLOCK / 2 {
                // ESP's and no more: half of the block is zero.
                self.sum.add_upper(first, powers::<ONE>(&self.keys, power));
            } else {
                self.sum.add(first, powers::<ONE>(&self.keys, power));
            }
            if ad_len > BLOCK {
                let load = |ad: &[u8]| {
                    let from = ad.as_ptr().wrapping_add(BLOCK);
                    _mm_maskz_loadu_epi8((mask >> BLOCK) as u16, from.cast())
                };
                let second = reverse(joined(lanes.each_ref().map(|lane| load(lane.ad))));
                self.sum.add(second, powers::<ONE>(&self.keys, power - 1));
            }
        }
    }

    /// All of it, with nothing to be ciphered meanwhile.
    ///
    /// # Safety
    /// The packets must be as `shape` says.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn alone<const FULL: bool>(
        mut self,
        lanes: &[Lane<'_>; GROUP],
        shape: &Shape<N>,
    ) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            for pair in 0..2 * N {
                self.pair::<FULL>(pair, shape);
            }
            self.rest(lanes, shape);
        }
        self.icvs()
    }

    /// The ICVs, after all pairs and the rest: before the last rounds, not behind them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn icvs(&self) -> __m512i {
        let mut icvs = _mm512_xor_si512(reverse(self.sum.reduce()), self.masks);
        // SAFETY: it is no instruction.
        unsafe { by_here!(icvs) };
        icvs
    }
}

/// Turns packets into lanes: of four packets' vectors, those of their first,
/// second, third and fourth blocks, octets reversed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn transpose([a, b, c, d]: [__m512i; GROUP]) -> [__m512i; GROUP] {
    let front = [_mm512_shuffle_i64x2(a, b, 0x44), _mm512_shuffle_i64x2(c, d, 0x44)];
    let back = [_mm512_shuffle_i64x2(a, b, 0xee), _mm512_shuffle_i64x2(c, d, 0xee)];
    [
        reverse(_mm512_shuffle_i64x2(front[0], front[1], 0x88)),
        reverse(_mm512_shuffle_i64x2(front[0], front[1], 0xdd)),
        reverse(_mm512_shuffle_i64x2(back[0], back[1], 0x88)),
        reverse(_mm512_shuffle_i64x2(back[0], back[1], 0xdd)),
    ]
}

/// The texts of a group as they stand.
///
/// # Safety
/// They must have `N` vectors, the last of them as `shape` says.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn load<const N: usize, const FULL: bool>(
    lanes: &[Lane<'_>; GROUP],
    shape: &Shape<N>,
) -> [[__m512i; GROUP]; N] {
    let mut given = [[_mm512_setzero_si512(); GROUP]; N];
    for (i, given) in given.iter_mut().enumerate() {
        for (given, lane) in given.iter_mut().zip(lanes) {
            let at = lane.sealed.at.cast_const().wrapping_add(WIDTH * i);
            // SAFETY: the caller's promise; a mask leaves out what is behind the text.
            *given = unsafe {
                if FULL || i < N - 1 {
                    _mm512_loadu_si512(at.cast())
                } else {
                    _mm512_maskz_loadu_epi8(shape.last, at.cast())
                }
            };
        }
    }
    given
}

/// One round for a group's texts, and for the masks of one key.
///
/// # Safety
/// There must be a round key of that number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn encrypt<const N: usize, const ONE: bool>(
    keys: &Keys<'_>,
    round: usize,
    state: &mut [[__m512i; GROUP]; N],
    masks: &mut __m512i,
) {
    each!(at in [0 1 2 3] {
        // SAFETY: the caller's promise.
        let round_key = unsafe { round_key(keys[at], round) };
        for state in state.iter_mut() {
            state[at] = _mm512_aesenc_epi128(state[at], round_key);
            // SAFETY: it is no instruction.
            unsafe { by_here!(state[at]) };
        }
        if ONE && at == 0 {
            *masks = _mm512_aesenc_epi128(*masks, round_key);
            // SAFETY: it is no instruction.
            unsafe { by_here!(*masks) };
        }
    });
}

/// The last round for one packet of a group: its text is written, and is in `$state`
/// then.
macro_rules! last_round {
    ($at:ident of $group:ident, $key:expr, $given:ident, $state:ident, $shape:ident, $N:ident,
     $FULL:ident) => {
        let round_key = $key;
        for (i, state) in $state.iter_mut().enumerate() {
            let stream = _mm512_aesenclast_epi128(state[$at], round_key);
            let made = _mm512_xor_si512($given[i][$at], stream);
            let to = $group[$at].sealed.as_mut_ptr().wrapping_add(WIDTH * i);
            state[$at] = if $FULL || i < $N - 1 {
                _mm512_storeu_si512(to.cast(), made);
                made
            } else {
                _mm512_mask_storeu_epi8(to.cast(), $shape.last, made);
                _mm512_maskz_mov_epi8($shape.last, made)
            };
        }
    };
}

/// The counter blocks of a group's texts, with the first round keys already added.
///
/// # Safety
/// Texts must have at most 254 blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn counters<const N: usize, const ONE: bool>(
    keys: &Keys<'_>,
    firsts: [__m128i; GROUP],
) -> [[__m512i; GROUP]; N] {
    // SAFETY: every key has a first round key.
    let whitening =
        unsafe { if ONE { round_key(keys[0], 0) } else { gather(keys.map(|key| key.rounds())) } };
    let all = _mm512_xor_si512(joined(firsts), whitening);
    let each = [
        _mm512_shuffle_i64x2(all, all, 0x00),
        _mm512_shuffle_i64x2(all, all, 0x55),
        _mm512_shuffle_i64x2(all, all, 0xaa),
        _mm512_shuffle_i64x2(all, all, 0xff),
    ];
    let mut state = [each; N];
    for (state, step) in state.iter_mut().zip(&STEPS.0) {
        // SAFETY: a line is a vector.
        let step = unsafe { _mm512_load_si512(step.as_ptr().cast()) };
        *state = state.map(|base| _mm512_xor_si512(base, step));
    }
    state
}

/// The first counter blocks before their first round, or, with a key for each packet,
/// after the last.
///
/// # Safety
/// Keys must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn begin_masks<const R: usize, const ONE: bool>(
    lanes: &[Lane<'_>; GROUP],
    firsts: [__m128i; GROUP],
) -> __m512i {
    if !ONE {
        return masks_of_each::<R>(lanes, &firsts);
    }
    // SAFETY: every key has a first round key.
    xor3(
        joined(firsts),
        unsafe { round_key(&lanes[0].key.schedule, 0) },
        _mm512_broadcast_i32x4(one()),
    )
}

/// Seals or opens groups as long as they are alike. (One function: what is called, the
/// compiler passes vectors to in memory.)
///
/// # Safety
/// The first must be as `alike` says: with `N` vectors of text (`FULL`: all of them
/// whole), `ONE`: and one key. Keys must have `R + 1` round keys.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) unsafe fn stream<
    const N: usize,
    const FULL: bool,
    const R: usize,
    const SEAL: bool,
    const ONE: bool,
>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    const { assert!(4 * N < R, "two rounds for each two blocks") };
    let Some(group) = hand.group().whole() else { return };
    let shape = Shape::<N>::new::<ONE>(alike, &group[0]);
    // Sealing, the group before is hashed: first one of zeros, not what another stream left.
    let (mut hash, mut begun) = (Hash::<N, ONE>::new(group, &shape), false);
    loop {
        let (group, before) = hand.both();
        let mut before = before.whole().filter(|_| SEAL && begun);
        let Some(group) = group.whole() else { return };
        let keys = keys::<ONE>(group);
        let firsts = counter_blocks(group);
        // SAFETY: the caller's promises.
        unsafe {
            let given = load::<N, FULL>(group, &shape);
            if !SEAL {
                hash = Hash::new(group, &shape);
                hash.blocks = given.map(|given| transpose(given));
            }
            let mut masks = begin_masks::<R, ONE>(group, firsts);
            let mut state = counters::<N, ONE>(&keys, firsts);
            // Two rounds of all five vectors, then the products of two blocks.
            for pair in 0..2 * N {
                for round in [2 * pair + 1, 2 * pair + 2] {
                    encrypt::<N, ONE>(&keys, round, &mut state, &mut masks);
                }
                hash.pair::<FULL>(pair, &shape);
            }
            hash.rest(before.as_deref().unwrap_or(group), &shape);
            for round in 4 * N + 1..R {
                encrypt::<N, ONE>(&keys, round, &mut state, &mut masks);
            }
            let icvs = hash.icvs();
            let last_keys = keys.map(|key| round_key(key, R));
            masks = if ONE { _mm512_aesenclast_epi128(masks, last_keys[0]) } else { masks };
            each!(at in [0 1 2 3] {
                last_round!(at of group, last_keys[at], given, state, shape, N, FULL);
            });
            if SEAL {
                hash = Hash::new(group, &shape);
                hash.blocks = state.map(|made| transpose(made));
                hash.masks = masks;
                if let Some(before) = &mut before {
                    finish::<SEAL>(*before, icvs);
                }
                begun = true;
            } else {
                finish::<SEAL>(group, _mm512_xor_si512(icvs, masks));
            }
        }
        hand.turn();
        if !alike.has_next(hand) {
            break;
        }
    }
    if SEAL && let Some(last) = hand.before().whole() {
        // SAFETY: the caller's promises.
        let icvs = unsafe { hash.alone::<FULL>(last, &shape) };
        finish::<SEAL>(last, icvs);
    }
}
