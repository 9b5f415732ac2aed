//! One text: counter mode in place, and its hash up to the block of lengths.
//!
//! ```text
//!   sealing   cipher 1 │ cipher 2 + hash 1 │ cipher 3 + hash 2 │ … │ hash n
//!   opening   cipher 1 + hash 1 │ cipher 2 + hash 2 │ …
//! ```
//!
//! A chunk is 256 octets. Instructions of the hash stand between the rounds of the cipher:
//! the two keep different units busy, and neither waits for the other.

use super::*;
use std::ptr;

/// Four vectors of ciphertext to be hashed, octets reversed.
type Chunk = [__m512i; 4];

/// The hash of a text under way.
pub(super) struct Hash<'a> {
    pub key: &'a Schedule,
    pub sum: Sum,
    /// Hash of the preceding sections, reduced: added to the next block, once.
    carry: __m512i,
    /// The power that the next block meets.
    power: usize,
    /// Blocks that are not hashed yet.
    left: usize,
}

impl<'a> Hash<'a> {
    /// Begins the hash of a text of so many blocks; `sum` is the hash in front of it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    pub fn new(key: &'a Schedule, sum: Sum, blocks: usize) -> Self {
        let (carry, power) = (_mm512_setzero_si512(), first_power(blocks));
        Self { key, sum, carry, power, left: blocks }
    }

    /// Prepares for the next chunk: its first block, and where its powers are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    pub fn begin(&mut self, first: &mut __m512i) -> *const __m128i {
        *first = _mm512_xor_si512(*first, self.carry);
        self.carry = _mm512_setzero_si512();
        self.key.power(self.power)
    }

    /// After a full chunk: at the end of a section that is not the last, reduces.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    pub fn end(&mut self) {
        const BLOCKS: usize = CHUNK / BLOCK;
        (self.left, self.power) = (self.left - BLOCKS, self.power - BLOCKS);
        if self.power == 0 {
            self.carry = self.sum.fold();
            self.sum = Sum::zero();
            self.power = first_power(self.left);
        }
    }
}

/// The power that the first of so many blocks meets: if they are more than a
/// section, its last meets H; otherwise the block of lengths behind them does.
#[inline]
pub(super) fn first_power(blocks: usize) -> usize {
    if blocks > SECTION / BLOCK { SECTION / BLOCK } else { blocks + 1 }
}

/// The rounds of `N` vectors' cipher but the last, with the products of `H` vectors
/// between them: the two keep different units of the processor busy.
///
/// # Safety
/// There must be `R` round keys, and as many powers as blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn cipher_and_hash<const N: usize, const H: usize, const R: usize>(
    key: &Schedule,
    state: &mut [__m512i; N],
    hashed: &[__m512i; H],
    powers: *const __m128i,
    sum: &mut Sum,
) {
    // SAFETY: the caller's promise.
    unsafe {
        rounds!(round of R {
            let round_key = round_key(key, round);
            for block in state.iter_mut() {
                *block = _mm512_aesenc_epi128(*block, round_key);
            }
            // Two vectors at a time, or the one that is left.
            if round % 4 == 2 && round / 2 <= H {
                let pair = round / 4 * 2;
                let powers = powers.add(4 * pair).cast::<__m512i>();
                let of = [_mm512_loadu_si512(powers), _mm512_loadu_si512(powers.add(1))];
                if pair + 1 < H {
                    sum.add_two([hashed[pair], hashed[pair + 1]], of);
                } else {
                    sum.add(hashed[pair], of[0]);
                }
            }
        });
    }
}

/// Full chunks in front of a text's last 1 to 256 octets. Sealing, the last of them
/// is returned and still to be hashed.
///
/// # Safety
/// From `at` on there must be so many; the key must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn chunks<const R: usize, const SEAL: bool, const LONG: bool>(
    counters: &mut Counters<LONG>,
    hash: &mut Hash<'_>,
    at: *mut u8,
    count: usize,
) -> Chunk {
    let key = hash.key;
    let mut behind: Chunk = [_mm512_setzero_si512(); 4];
    // SAFETY: the caller's promises.
    unsafe {
        for number in 0..count {
            let at = at.add(CHUNK * number);
            let mut state: Chunk = behind;
            for block in &mut state {
                *block = counters.take();
            }
            let mut given = behind;
            if !SEAL {
                for (i, given) in given.iter_mut().enumerate() {
                    *given = _mm512_loadu_si512(at.add(WIDTH * i).cast());
                }
            }
            // Sealing, the ciphertext is not there yet: the chunk before is hashed.
            if SEAL && number == 0 {
                cipher_and_hash::<4, 0, R>(key, &mut state, &[], ptr::null(), &mut hash.sum);
            } else {
                let mut hashed = if SEAL { behind } else { given.map(|g| reverse(g)) };
                let powers = hash.begin(&mut hashed[0]);
                cipher_and_hash::<4, 4, R>(key, &mut state, &hashed, powers, &mut hash.sum);
                hash.end();
            }
            let last = round_key(key, R);
            for (i, block) in state.into_iter().enumerate() {
                let at = at.add(WIDTH * i);
                let stream = _mm512_aesenclast_epi128(block, last);
                let given = if SEAL { _mm512_loadu_si512(at.cast()) } else { given[i] };
                let made = _mm512_xor_si512(given, stream);
                _mm512_storeu_si512(at.cast(), made);
                if SEAL {
                    behind[i] = reverse(made);
                }
            }
        }
    }
    behind
}

/// The last 1 to 256 octets of a text: `N` vectors, all but the last full. Sealing,
/// the chunk before is hashed meanwhile, if there is one.
///
/// # Safety
/// So many octets from `at` on must be valid, and the key have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn tail<const N: usize, const R: usize, const SEAL: bool, const LONG: bool>(
    counters: &mut Counters<LONG>,
    hash: &mut Hash<'_>,
    (at, len): (*mut u8, usize),
    before: Option<Chunk>,
) {
    let key = hash.key;
    let last = _bzhi_u64(!0, (len - WIDTH * (N - 1)) as u32);
    let mut state = [_mm512_setzero_si512(); N];
    let (mut given, mut hashed) = (state, state);
    // SAFETY: the caller's promises; a masked load or store touches no octet that
    // its mask leaves out.
    unsafe {
        for (i, (state, given)) in state.iter_mut().zip(&mut given).enumerate() {
            *state = counters.take();
            let mask = if i == N - 1 { last } else { !0 };
            *given = _mm512_maskz_loadu_epi8(mask, at.add(WIDTH * i).cast());
        }
        if !SEAL {
            hashed = given.map(|given| reverse(given));
            let powers = hash.begin(&mut hashed[0]);
            cipher_and_hash::<N, N, R>(key, &mut state, &hashed, powers, &mut hash.sum);
        } else if let Some(mut before) = before {
            let powers = hash.begin(&mut before[0]);
            cipher_and_hash::<N, 4, R>(key, &mut state, &before, powers, &mut hash.sum);
            hash.end();
        } else {
            cipher_and_hash::<N, 0, R>(key, &mut state, &[], ptr::null(), &mut hash.sum);
        }
        let round = round_key(key, R);
        for (i, (state, given)) in state.into_iter().zip(given).enumerate() {
            let made = _mm512_xor_si512(given, _mm512_aesenclast_epi128(state, round));
            let mask = if i == N - 1 { last } else { !0 };
            _mm512_mask_storeu_epi8(at.add(WIDTH * i).cast(), mask, made);
            hashed[i] = reverse(_mm512_maskz_mov_epi8(mask, made));
        }
        if SEAL {
            let powers = hash.begin(&mut hashed[0]);
            for (i, &blocks) in hashed.iter().enumerate() {
                hash.sum.add(blocks, _mm512_loadu_si512(powers.add(4 * i).cast()));
            }
        }
    }
}

/// Counter mode over a text in place. To `sum` come the products of its
/// ciphertext and powers of H; the block of lengths is still missing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn text<const R: usize, const SEAL: bool, const LONG: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    text: &mut [u8],
) -> Sum {
    let blocks = text.len().div_ceil(BLOCK);
    let mut hash = Hash::new(key, sum, blocks);
    // SAFETY: every key has a first round key.
    let mut counters = Counters::<LONG>::new(first, unsafe { round_key(key, 0) });
    let (at, count) = (text.as_mut_ptr(), text.len().saturating_sub(1) / CHUNK);
    let (counters, hash) = (&mut counters, &mut hash);
    // SAFETY: chunks and the rest are the text; the caller's R is the key's.
    unsafe {
        let before = (count > 0).then(|| chunks::<R, SEAL, LONG>(counters, hash, at, count));
        let left = text.len() - CHUNK * count;
        let rest = (at.add(CHUNK * count), left);
        match left.div_ceil(WIDTH) {
            0 => {}
            1 => tail::<1, R, SEAL, LONG>(counters, hash, rest, before),
            2 => tail::<2, R, SEAL, LONG>(counters, hash, rest, before),
            3 => tail::<3, R, SEAL, LONG>(counters, hash, rest, before),
            _ => tail::<4, R, SEAL, LONG>(counters, hash, rest, before),
        }
    }
    hash.sum
}

/// The same for a jumbo frame.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn long_text<const R: usize, const SEAL: bool>(
    key: &Schedule,
    first: __m128i,
    sum: Sum,
    octets: &mut [u8],
) -> Sum {
    text::<R, SEAL, true>(key, first, sum, octets)
}

/// Longer additional data (GMAC), reduced to one block that is multiplied like a single
/// block of it: the hash of all blocks but the last, and the last.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn long_ad(key: &Schedule, ad: &[u8]) -> __m256i {
    let (front, last) = ad.split_at((ad.len() - 1) / BLOCK * BLOCK);
    let mut carry = _mm512_setzero_si512();
    for section in front.chunks(SECTION) {
        let mut sum = Sum::zero();
        let mut power = section.len() / BLOCK;
        for piece in section.chunks(WIDTH) {
            let mask = _bzhi_u64(!0, piece.len() as u32);
            // SAFETY: the mask leaves out the octets behind the piece; the powers are those
            // from 32 down.
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
