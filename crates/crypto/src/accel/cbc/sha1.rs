//! SHA-1 (FIPS 180-4 section 6.1.2): sixteen messages in the lanes of zmm
//! registers, or one or two with the SHA instructions, one in the other's latency.

use super::hmac::{Hash, States, Words};
use super::{LANES, sha256};
use std::arch::x86_64::*;

pub(super) struct Sha1;

/// FIPS 180-4 section 4.2.1.
const K: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

/// Truth tables for a ternary operation: first, second and third operand have
/// the weights 4, 2 and 1.
const CHOOSE: i32 = 0xca;
const PARITY: i32 = 0x96;
const MAJORITY: i32 = 0xe8;

impl Hash for Sha1 {
    const START: Words = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0];
    const WORDS: usize = 5;
    const FEW: usize = 4;

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

/// # Safety
///
/// As for [`Hash::sixteen`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sixteen(states: &mut States<LANES>, at: &[*const u8; LANES], blocks: usize) {
    let rows = states.0.as_mut_ptr().cast::<__m512i>();
    // SAFETY: a row is one aligned register; there are eight.
    let [mut a, mut b, mut c, mut d, mut e] =
        unsafe { [*rows, *rows.add(1), *rows.add(2), *rows.add(3), *rows.add(4)] };
    for block in 0..blocks {
        let before = [a, b, c, d, e];
        // SAFETY: as the caller promises.
        let mut w = unsafe { sha256::words_of_sixteen(at, block) };
        macro_rules! round {
            ($table:ident $k:ident $t:literal) => {
                if $t >= 16 {
                    let x = _mm512_ternarylogic_epi32::<PARITY>(
                        w[($t + 13) % 16],
                        w[($t + 8) % 16],
                        w[($t + 2) % 16],
                    );
                    w[$t % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(x, w[$t % 16]));
                }
                let f = _mm512_ternarylogic_epi32::<$table>(b, c, d);
                let more =
                    _mm512_add_epi32(_mm512_add_epi32(e, f), _mm512_add_epi32(w[$t % 16], $k));
                e = d;
                d = c;
                c = _mm512_rol_epi32::<30>(b);
                b = a;
                a = _mm512_add_epi32(_mm512_rol_epi32::<5>(a), more);
            };
        }
        macro_rules! twenty {
            ($table:ident $k:literal: $($t:literal)*) => {
                let k = _mm512_set1_epi32(K[$k] as i32);
                $(round!($table k $t);)*
            };
        }
        twenty!(CHOOSE 0: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        twenty!(PARITY 1: 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
        twenty!(MAJORITY 2: 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
        twenty!(PARITY 3: 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
        a = _mm512_add_epi32(a, before[0]);
        b = _mm512_add_epi32(b, before[1]);
        c = _mm512_add_epi32(c, before[2]);
        d = _mm512_add_epi32(d, before[3]);
        e = _mm512_add_epi32(e, before[4]);
    }
    for (row, word) in [a, b, c, d, e].into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { *rows.add(row) = word };
    }
}

/// # Safety
///
/// As for [`Hash::few`].
#[target_feature(enable = "sha,ssse3,sse4.1")]
unsafe fn few<const M: usize>(states: [Words; M], at: [*const u8; M], blocks: usize) -> [Words; M] {
    // The first word of a message or state is the highest of a register.
    let backwards = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    let zero = _mm_setzero_si128();
    let (mut abcd, mut e) = ([zero; M], [zero; M]);
    for (m, state) in states.iter().enumerate() {
        let [a, b, c, d, last, ..] = state.map(|word| word as i32);
        (abcd[m], e[m]) = (_mm_set_epi32(a, b, c, d), _mm_set_epi32(last, 0, 0, 0));
    }
    for block in 0..blocks {
        let before = (abcd, e);
        let mut w = [[zero; M]; 4];
        for (part, w) in w.iter_mut().enumerate() {
            for (m, w) in w.iter_mut().enumerate() {
                // SAFETY: a quarter of a block that the caller promises.
                let piece = unsafe { _mm_loadu_si128(at[m].add(block * 64 + part * 16).cast()) };
                *w = _mm_shuffle_epi8(piece, backwards);
            }
        }
        macro_rules! four_rounds {
            ($function:literal $($t:literal)*) => {$(
                for m in 0..M {
                    let w0 = w[$t % 4][m];
                    let sum = match $t {
                        0 => _mm_add_epi32(e[m], w0),
                        _ => _mm_sha1nexte_epu32(e[m], w0),
                    };
                    e[m] = abcd[m];
                    abcd[m] = _mm_sha1rnds4_epu32::<$function>(abcd[m], sum);
                    if $t < 16 {
                        let x = _mm_sha1msg1_epu32(w0, w[($t + 1) % 4][m]);
                        let x = _mm_xor_si128(x, w[($t + 2) % 4][m]);
                        w[$t % 4][m] = _mm_sha1msg2_epu32(x, w[($t + 3) % 4][m]);
                    }
                }
            )*};
        }
        four_rounds!(0 0 1 2 3 4);
        four_rounds!(1 5 6 7 8 9);
        four_rounds!(2 10 11 12 13 14);
        four_rounds!(3 15 16 17 18 19);
        for m in 0..M {
            e[m] = _mm_sha1nexte_epu32(e[m], before.1[m]);
            abcd[m] = _mm_add_epi32(abcd[m], before.0[m]);
        }
    }
    let mut out = [[0; 8]; M];
    for (m, out) in out.iter_mut().enumerate() {
        let words = [
            _mm_extract_epi32::<3>(abcd[m]),
            _mm_extract_epi32::<2>(abcd[m]),
            _mm_extract_epi32::<1>(abcd[m]),
            _mm_extract_epi32::<0>(abcd[m]),
            _mm_extract_epi32::<3>(e[m]),
        ];
        out.iter_mut().zip(words).for_each(|(to, word)| *to = word as u32);
    }
    out
}
