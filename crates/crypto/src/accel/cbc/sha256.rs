//! SHA-256 (FIPS 180-4 section 6.2.2): sixteen messages in the lanes of zmm
//! registers, or one or two with the SHA instructions, one in the other's latency.

use super::LANES;
use super::hmac::{Hash, States, Words};
use std::arch::x86_64::*;

pub(super) struct Sha256;

/// FIPS 180-4 section 4.2.2.
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Truth tables for a ternary operation: first, second and third operand have
/// the weights 4, 2 and 1.
const CHOOSE: i32 = 0xca;
const PARITY: i32 = 0x96;
const MAJORITY: i32 = 0xe8;

impl Hash for Sha256 {
    const START: Words = [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
        0x5be0cd19,
    ];
    const WORDS: usize = 8;
    const FEW: usize = 8;

    unsafe fn sixteen(states: &mut States<LANES>, at: &[*const u8; LANES], blocks: usize) {
        // SAFETY: as the caller promises.
        unsafe { sixteen(states, at, blocks) }
    }

    unsafe fn few<const M: usize>(
        states: [Words; M],
        at: [*const u8; M],
        blocks: usize,
    ) -> [Words; M] {
        // SAFETY: as the caller promises.
        unsafe { few(states, at, blocks) }
    }
}

/// The sixteen words of a block, of all lanes: word `i` of lane `j` goes from row
/// `j` to place `j` of register `i`.
///
/// # Safety
///
/// The machine has AVX-512F and BW; each pointer is good for this block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn words_of_sixteen(at: &[*const u8; LANES], block: usize) -> [__m512i; 16] {
    let swap = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    macro_rules! row {
        ($lane:expr) => {{
            // SAFETY: as the caller promises.
            let row = unsafe { _mm512_loadu_si512(at[$lane].add(block * 64).cast()) };
            _mm512_shuffle_epi8(row, swap)
        }};
    }
    // Sixteen streams are more than the machine foresees.
    for at in at {
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(block * 64 + 127).cast());
    }
    // Four lanes: a register for each column of four, with the words 4q + column
    // of lane `$lane` to `$lane + 3` in quarter q.
    macro_rules! four_lanes {
        ($lane:literal) => {{
            let [r0, r1] = [row!($lane), row!($lane + 1)];
            let [r2, r3] = [row!($lane + 2), row!($lane + 3)];
            let [x0, x1] = [_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1)];
            let [x2, x3] = [_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3)];
            [
                _mm512_unpacklo_epi64(x0, x2),
                _mm512_unpackhi_epi64(x0, x2),
                _mm512_unpacklo_epi64(x1, x3),
                _mm512_unpackhi_epi64(x1, x3),
            ]
        }};
    }
    let (p, q, r, s) = (four_lanes!(0), four_lanes!(4), four_lanes!(8), four_lanes!(12));
    let mut words = [_mm512_setzero_si512(); 16];
    // Then the quarters: from [q0 q1 q2 q3] of four groups of lanes to one
    // register for each q.
    macro_rules! column {
        ($($c:literal)*) => {$(
            let x0 = _mm512_shuffle_i32x4::<0x88>(p[$c], q[$c]);
            let x1 = _mm512_shuffle_i32x4::<0xdd>(p[$c], q[$c]);
            let x2 = _mm512_shuffle_i32x4::<0x88>(r[$c], s[$c]);
            let x3 = _mm512_shuffle_i32x4::<0xdd>(r[$c], s[$c]);
            words[$c] = _mm512_shuffle_i32x4::<0x88>(x0, x2);
            words[$c + 4] = _mm512_shuffle_i32x4::<0x88>(x1, x3);
            words[$c + 8] = _mm512_shuffle_i32x4::<0xdd>(x0, x2);
            words[$c + 12] = _mm512_shuffle_i32x4::<0xdd>(x1, x3);
        )*};
    }
    column!(0 1 2 3);
    words
}

/// XOR of three rotations.
macro_rules! sigma {
    ($x:expr, $a:literal $b:literal $c:literal) => {
        _mm512_ternarylogic_epi32::<PARITY>(
            _mm512_ror_epi32::<$a>($x),
            _mm512_ror_epi32::<$b>($x),
            _mm512_ror_epi32::<$c>($x),
        )
    };
    ($x:expr, $a:literal $b:literal shift $c:literal) => {
        _mm512_ternarylogic_epi32::<PARITY>(
            _mm512_ror_epi32::<$a>($x),
            _mm512_ror_epi32::<$b>($x),
            _mm512_srli_epi32::<$c>($x),
        )
    };
}

/// # Safety
///
/// As for [`Hash::sixteen`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sixteen(states: &mut States<LANES>, at: &[*const u8; LANES], blocks: usize) {
    let rows = states.0.as_mut_ptr().cast::<__m512i>();
    let mut state = [_mm512_setzero_si512(); 8];
    for (row, word) in state.iter_mut().enumerate() {
        // SAFETY: a row is one aligned register; there are eight.
        *word = unsafe { *rows.add(row) };
    }
    for block in 0..blocks {
        // SAFETY: as the caller promises.
        let mut w = unsafe { words_of_sixteen(at, block) };
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        macro_rules! rounds {
            ($($t:literal)*) => {$(
                if $t >= 16 {
                    let (w1, w14) = (w[($t + 1) % 16], w[($t + 14) % 16]);
                    let x = _mm512_add_epi32(w[$t % 16], w[($t + 9) % 16]);
                    let y = _mm512_add_epi32(sigma!(w1, 7 18 shift 3), sigma!(w14, 17 19 shift 10));
                    w[$t % 16] = _mm512_add_epi32(x, y);
                }
                let wk = _mm512_add_epi32(w[$t % 16], _mm512_set1_epi32(K[$t] as i32));
                let choice = _mm512_ternarylogic_epi32::<CHOOSE>(e, f, g);
                let t1 = _mm512_add_epi32(_mm512_add_epi32(h, wk), choice);
                let t1 = _mm512_add_epi32(t1, sigma!(e, 6 11 25));
                let majority = _mm512_ternarylogic_epi32::<MAJORITY>(a, b, c);
                let t2 = _mm512_add_epi32(sigma!(a, 2 13 22), majority);
                h = g;
                g = f;
                f = e;
                e = _mm512_add_epi32(d, t1);
                d = c;
                c = b;
                b = a;
                a = _mm512_add_epi32(t1, t2);
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        rounds!(16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        rounds!(32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
        rounds!(48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = _mm512_add_epi32(*word, more);
        }
    }
    for (row, word) in state.into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { *rows.add(row) = word };
    }
}

/// # Safety
///
/// As for [`Hash::few`].
#[target_feature(enable = "sha,ssse3,sse4.1")]
unsafe fn few<const M: usize>(states: [Words; M], at: [*const u8; M], blocks: usize) -> [Words; M] {
    // Octets of each word backwards; the first word of a state is the highest.
    let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let zero = _mm_setzero_si128();
    let (mut abef, mut cdgh) = ([zero; M], [zero; M]);
    for (m, state) in states.iter().enumerate() {
        let [a, b, c, d, e, f, g, h] = state.map(|word| word as i32);
        (abef[m], cdgh[m]) = (_mm_set_epi32(a, b, e, f), _mm_set_epi32(c, d, g, h));
    }
    for block in 0..blocks {
        let before = (abef, cdgh);
        let mut w = [[zero; M]; 4];
        for (part, w) in w.iter_mut().enumerate() {
            for (m, w) in w.iter_mut().enumerate() {
                // SAFETY: a quarter of a block that the caller promises.
                let piece = unsafe { _mm_loadu_si128(at[m].add(block * 64 + part * 16).cast()) };
                *w = _mm_shuffle_epi8(piece, swap);
            }
        }
        macro_rules! four_rounds {
            ($($t:literal)*) => {$(
                // SAFETY: four of the 64 constants.
                let k = unsafe { _mm_loadu_si128(K.as_ptr().add($t * 4).cast()) };
                for m in 0..M {
                    let w0 = w[$t % 4][m];
                    let wk = _mm_add_epi32(w0, k);
                    cdgh[m] = _mm_sha256rnds2_epu32(cdgh[m], abef[m], wk);
                    let high = _mm_shuffle_epi32::<0x0e>(wk);
                    abef[m] = _mm_sha256rnds2_epu32(abef[m], cdgh[m], high);
                    if $t < 12 {
                        let [w1, w2, w3] = [1, 2, 3].map(|i| w[($t + i) % 4][m]);
                        let x = _mm_sha256msg1_epu32(w0, w1);
                        let x = _mm_add_epi32(x, _mm_alignr_epi8::<4>(w3, w2));
                        w[$t % 4][m] = _mm_sha256msg2_epu32(x, w3);
                    }
                }
            )*};
        }
        four_rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for m in 0..M {
            abef[m] = _mm_add_epi32(abef[m], before.0[m]);
            cdgh[m] = _mm_add_epi32(cdgh[m], before.1[m]);
        }
    }
    let mut out = [[0; 8]; M];
    for (m, out) in out.iter_mut().enumerate() {
        let words = [
            _mm_extract_epi32::<3>(abef[m]),
            _mm_extract_epi32::<2>(abef[m]),
            _mm_extract_epi32::<3>(cdgh[m]),
            _mm_extract_epi32::<2>(cdgh[m]),
            _mm_extract_epi32::<1>(abef[m]),
            _mm_extract_epi32::<0>(abef[m]),
            _mm_extract_epi32::<1>(cdgh[m]),
            _mm_extract_epi32::<0>(cdgh[m]),
        ];
        out.iter_mut().zip(words).for_each(|(to, word)| *to = word as u32);
    }
    out
}
