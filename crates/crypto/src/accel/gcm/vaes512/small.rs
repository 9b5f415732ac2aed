//! Streams of small packets: any number of groups of four, of texts up to 128 octets and
//! one length of additional data.
//!
//! ```text
//!   sealing   cipher 1 │ cipher 2 + hash 1 │ cipher 3 + hash 2 │ … │ hash n
//!   opening   cipher 1 + hash 1 │ cipher 2 + hash 2 │ …
//! ```
//!
//! The four packets of a group are ciphered in one go. As their blocks stand at the same
//! places, a vector of the hash takes one block of each packet, so that no sums need to be
//! moved about at the end. Instructions of the hash stand between the rounds of the cipher:
//! the two keep different units busy, and a packet of one vector is too short for the
//! processor to find enough of both by itself.

use super::alike::lengths;
use super::any::masks_of_each;
use super::*;

/// Input of the hash: of `N` vectors of four packets, the first blocks, then the second
/// blocks and so on, octets reversed.
type Blocks<const N: usize> = [[__m512i; 4]; N];

/// Properties that all packets of a stream share.
struct Stream {
    /// Octets of additional data.
    ad_len: usize,
    /// Initial value of every sum: the product of the additional data's length and H, if
    /// the packets have one key.
    start: Sum,
}

impl Stream {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new<const ONE: bool>(alike: Alike, first: &Lane<'_>) -> Self {
        let mut this = Self { ad_len: alike.ad_len, start: Sum::zero() };
        if ONE {
            let bits = _mm_set_epi64x((alike.ad_len as i64) << 3, 0);
            // SAFETY: every key has H.
            let h = unsafe { everywhere(first.key.schedule.power(1)) };
            this.start.add_upper(_mm512_broadcast_i32x4(bits), h);
        }
        this
    }
}

/// Layout of a group's texts in its vectors: all end with the same block, so that
/// blocks side by side meet the same power of H. In front of a text that is shorter than
/// others blocks are masked; they count as zeros, which change no hash.
#[derive(Clone, Copy)]
struct Places<const N: usize, const EVEN: bool> {
    /// Blocks of the longest.
    blocks: usize,
    /// Octets in front of each text, and those of the text in each vector.
    front: [usize; GROUP],
    masks: [[__mmask64; GROUP]; N],
}

/// The numbers of octets in two vectors.
#[repr(align(64))]
struct Octets([u8; 2 * WIDTH]);

static OCTETS: Octets = {
    let mut octets = [0; 2 * WIDTH];
    let mut i = 0;
    while i < octets.len() {
        octets[i] = i as u8;
        i += 1;
    }
    Octets(octets)
};

impl<const N: usize, const EVEN: bool> Places<N, EVEN> {
    /// Octets in front of a packet's text.
    #[inline]
    fn front(&self, at: usize) -> usize {
        if EVEN { 0 } else { self.front[at] }
    }

    /// Offset of a packet's vector.
    #[inline]
    fn vector(&self, lane: &Lane<'_>, at: usize, number: usize) -> *mut u8 {
        lane.sealed.at.wrapping_sub(self.front(at)).wrapping_add(WIDTH * number)
    }

    /// The octets of the text in a packet's vector.
    #[inline]
    fn mask(&self, at: usize, number: usize) -> __mmask64 {
        self.masks[number][if EVEN { 0 } else { at }]
    }
}

/// The places of a group. (A macro, as others here: to functions that the compiler does not
/// inline, vectors are passed in memory.)
macro_rules! places {
    ($lanes:expr, $N:ident, $EVEN:ident) => {{
        let mut this =
            Places::<$N, $EVEN> { blocks: 0, front: [0; GROUP], masks: [[0; GROUP]; $N] };
        let lens = $lanes.each_ref().map(|lane| lane.sealed.len());
        let [a, b, c, d] = lens.map(|len| len.div_ceil(BLOCK));
        this.blocks = if $EVEN { a } else { a.max(b).max(c.max(d)) };
        each!(at in [0 1 2 3] {
            if at == 0 || !$EVEN {
                this.front[at] = BLOCK * (this.blocks - [a, b, c, d][at]);
                let front = _mm512_set1_epi8(this.front[at] as i8);
                let len = _mm512_set1_epi8(lens[at] as i8);
                for (i, masks) in this.masks.iter_mut().enumerate() {
                    // Octets in front of the text become greater than any length.
                    let octets = _mm512_load_si512((&raw const OCTETS.0).cast::<__m512i>().add(i));
                    masks[at] = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(octets, front), len);
                }
            }
        });
        this
    }};
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

/// Adds additional data and lengths to a hash, of whose group the packets must be.
macro_rules! rest {
    ($hash:ident, $lanes:expr, $stream:ident, $EVEN:ident, $ONE:ident) => {{
        let (lanes, ad_len) = ($lanes, $stream.ad_len);
        let mask = _bzhi_u32(!0, ad_len as u32);
        let h = powers::<$ONE>(&$hash.keys, 1);
        if $ONE {
            // The upper half is where the sum started.
            $hash.sum.add_lower(lengths(lanes, ad_len), h);
        } else {
            $hash.sum.add(lengths(lanes, ad_len), h);
        }
        let first = $hash.powers_behind::<$EVEN>(lanes, ad_len.div_ceil(BLOCK));
        let load = |ad: &[u8]| _mm_maskz_loadu_epi8(mask as u16, ad.as_ptr().cast());
        let ad = reverse(joined(lanes.each_ref().map(|lane| load(lane.ad))));
        if ad_len <= BLOCK / 2 {
            // ESP's and no more: half of the block is zero.
            $hash.sum.add_upper(ad, first);
        } else {
            $hash.sum.add(ad, first);
        }
        if ad_len > BLOCK {
            let mut sum = $hash.sum;
            sum.add_second(lanes, mask, $hash.powers_behind::<$EVEN>(lanes, 1));
            $hash.sum = sum;
        }
    }};
}

impl Sum {
    /// Adds the second blocks of additional data; the mask leaves out the octets behind
    /// them.
    ///
    /// # Safety
    /// So many octets there must be.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn add_second(&mut self, lanes: &[Lane<'_>; GROUP], mask: u32, powers: __m512i) {
        let load = |ad: &[u8]| {
            let from = ad.as_ptr().wrapping_add(BLOCK);
            // SAFETY: the caller's promise.
            unsafe { _mm_maskz_loadu_epi8((mask >> BLOCK) as u16, from.cast()) }
        };
        self.add(reverse(joined(lanes.each_ref().map(|lane| load(lane.ad)))), powers);
    }
}

/// A group whose text is to be hashed, or is being hashed.
struct Hash<'a, const N: usize, const ONE: bool> {
    keys: Keys<'a>,
    blocks: Blocks<N>,
    /// Blocks of the longest text.
    count: usize,
    masks: __m512i,
    sum: Sum,
}

impl<'a, const N: usize, const ONE: bool> Hash<'a, N, ONE> {
    /// A group whose text and masks are not known yet.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn new(lanes: &[Lane<'a>; GROUP], stream: &Stream, count: usize) -> Self {
        let zero = _mm512_setzero_si512();
        let (keys, sum) = (keys::<ONE>(lanes), stream.start);
        Self { keys, blocks: [[zero; 4]; N], count, masks: zero, sum }
    }

    /// Two blocks of each packet: pair number 0 to `2 * N - 1`.
    ///
    /// # Safety
    /// There must be powers for so many blocks and one more.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn pair(&mut self, pair: usize) {
        let (one, two) = (2 * pair, 2 * pair + 1);
        let power = |number: usize| self.count + 1 - number;
        let of = |number: usize| self.blocks[number / 4][number % 4];
        // SAFETY: the caller's promise: so many blocks there are, and there are powers
        // for all that a text of 128 octets can have.
        unsafe {
            if two < self.count {
                let powers = [power(one), power(two)].map(|p| powers::<ONE>(&self.keys, p));
                self.sum.add_two([of(one), of(two)], powers);
            } else if one < self.count {
                self.sum.add(of(one), powers::<ONE>(&self.keys, power(one)));
            }
            by_here!(self.sum.lo, self.sum.mi, self.sum.hi);
        }
    }

    /// The powers that the first of so many blocks of additional data meet. (Behind them
    /// comes each text, not the blocks in front of it here.)
    ///
    /// # Safety
    /// The packets must be those of this hash.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn powers_behind<const EVEN: bool>(
        &self,
        lanes: &[Lane<'_>; GROUP],
        blocks: usize,
    ) -> __m512i {
        // SAFETY: texts of 128 octets leave powers for more than two blocks.
        unsafe {
            if EVEN {
                return powers::<ONE>(&self.keys, self.count + 1 + blocks);
            }
            let [a, b, c, d] = lanes.each_ref().map(|lane| {
                lane.key.schedule.power(lane.sealed.len().div_ceil(BLOCK) + 1 + blocks)
            });
            gather([a, b, c, d])
        }
    }

    /// Hashes all blocks, with no encryption in between.
    ///
    /// # Safety
    /// The packets must be those of the stream and of this hash.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    unsafe fn alone<const EVEN: bool>(
        mut self,
        lanes: &[Lane<'_>; GROUP],
        stream: &Stream,
    ) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            for pair in 0..2 * N {
                self.pair(pair);
            }
            rest!(self, lanes, stream, EVEN, ONE);
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
/// The places must be theirs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn load<const N: usize, const EVEN: bool>(
    lanes: &[Lane<'_>; GROUP],
    places: &Places<N, EVEN>,
) -> [[__m512i; GROUP]; N] {
    let mut given = [[_mm512_setzero_si512(); GROUP]; N];
    for (i, given) in given.iter_mut().enumerate() {
        for (at, (given, lane)) in given.iter_mut().zip(lanes).enumerate() {
            let from = places.vector(lane, at, i).cast_const().cast();
            // SAFETY: the caller's promise; a mask leaves out octets that are not the
            // text's.
            *given = unsafe { _mm512_maskz_loadu_epi8(places.mask(at, i), from) };
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
    ($at:ident of $group:ident, $key:expr, $given:ident, $state:ident, $places:ident) => {
        let round_key = $key;
        for (i, state) in $state.iter_mut().enumerate() {
            let stream = _mm512_aesenclast_epi128(state[$at], round_key);
            let made = _mm512_xor_si512($given[i][$at], stream);
            let to = $places.vector(&$group[$at], $at, i);
            let mask = $places.mask($at, i);
            _mm512_mask_storeu_epi8(to.cast(), mask, made);
            state[$at] = _mm512_maskz_mov_epi8(mask, made);
        }
    };
}

/// Counters from 2 on in the last octets of blocks, for two vectors, and in front of them
/// as many that no text meets.
#[repr(align(64))]
struct FromTwo([[u32; 4]; 16]);

static FROM_TWO: FromTwo = {
    let mut steps = [[0; 4]; 16];
    let mut block = 8;
    while block < 16 {
        steps[block][3] = ((block - 6) as u32) << 24;
        block += 1;
    }
    FromTwo(steps)
};

/// The counter blocks of a group's texts, with the first round keys already added.
///
/// # Safety
/// Texts must have at most 128 octets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn counters<const N: usize, const EVEN: bool, const ONE: bool>(
    keys: &Keys<'_>,
    firsts: [__m128i; GROUP],
    places: &Places<N, EVEN>,
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
    for (i, state) in state.iter_mut().enumerate() {
        for (at, state) in state.iter_mut().enumerate() {
            let steps = (&raw const FROM_TWO.0).cast::<u8>();
            // SAFETY: in front of the counter 2 are as many as there are in two vectors,
            // and two vectors of them from there.
            let step = unsafe {
                _mm512_loadu_si512(steps.add(2 * WIDTH - places.front(at) + WIDTH * i).cast())
            };
            *state = _mm512_xor_si512(*state, step);
        }
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

/// Seals or opens groups as long as they are alike. (One function: to functions that it
/// calls, the compiler passes vectors in memory.)
///
/// # Safety
/// The first must be as `alike` says: with `N` vectors of text, `EVEN`: as long as each
/// other, `ONE`: and of one key. Keys must have `R + 1` round keys.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) unsafe fn stream<
    const N: usize,
    const EVEN: bool,
    const R: usize,
    const SEAL: bool,
    const ONE: bool,
>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    const { assert!(4 * N < R, "two rounds for each two blocks") };
    let Some(group) = hand.group().whole() else { return };
    let common = Stream::new::<ONE>(alike, &group[0]);
    // SAFETY: there are as many octets to compare with.
    let even = unsafe { places!(group, N, EVEN) };
    // Sealing, the group before is hashed: first one of zeros, not another stream's rest.
    let (mut hash, mut begun) = (Hash::<N, ONE>::new(group, &common, 0), false);
    loop {
        let (group, before) = hand.both();
        let mut before = before.whole().filter(|_| SEAL && begun);
        let Some(group) = group.whole() else { return };
        let (keys, firsts) = (keys::<ONE>(group), counter_blocks(group));
        // SAFETY: the caller's promises.
        unsafe {
            let places = if EVEN { even } else { places!(group, N, EVEN) };
            let given = load::<N, EVEN>(group, &places);
            if !SEAL {
                let blocks = given.map(|given| transpose(given));
                hash = Hash { blocks, ..Hash::new(group, &common, places.blocks) };
            }
            let mut masks = begin_masks::<R, ONE>(group, firsts);
            let mut state = counters::<N, EVEN, ONE>(&keys, firsts, &places);
            // Behind every two rounds the products of two blocks, then of the rest.
            rounds!(round of R {
                encrypt::<N, ONE>(&keys, round, &mut state, &mut masks);
                if let (pair @ 1.., 0) = (round / 2, round % 2) && round <= 4 * N {
                    hash.pair(pair - 1);
                }
                if round == 4 * N {
                    rest!(hash, before.as_deref().unwrap_or(group), common, EVEN, ONE);
                }
            });
            let icvs = hash.icvs();
            let last_keys = keys.map(|key| round_key(key, R));
            masks = if ONE { _mm512_aesenclast_epi128(masks, last_keys[0]) } else { masks };
            each!(at in [0 1 2 3] {
                last_round!(at of group, last_keys[at], given, state, places);
            });
            if SEAL {
                let blocks = state.map(|made| transpose(made));
                hash = Hash { blocks, masks, ..Hash::new(group, &common, places.blocks) };
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
        let icvs = unsafe { hash.alone::<EVEN>(last, &common) };
        finish::<SEAL>(last, icvs);
    }
}
