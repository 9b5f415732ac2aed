//! A key, expanded, as one SA keeps it for the kernels.
//!
//! ```text
//!   powers   H^36 H^35 … H^2 H^1   576 octets, the highest first
//!   rounds   K0 … K10 or K14       240 octets, loaded into all lanes at once
//! ```
//!
//! A vector of four blocks is multiplied by four powers in a row, so one unaligned load
//! serves wherever in a packet it stands. A load at H^3 or lower takes octets beyond H^1,
//! which meet lanes that are zero.
//!
//! The powers are kept as GHASH's multiplication wants them: octets reversed,
//! and times x, which undoes that a product of reflected polynomials is one
//! bit short.

use crate::suite::Aes;
use std::arch::x86_64::*;
use std::ops::Range;
use zeroize::{Zeroize, Zeroizing};

/// Powers of H that are kept: a section of 32 blocks, the block of lengths, two
/// blocks of additional data, and one to fill the line.
pub(super) const POWERS: usize = 36;

/// Round keys of AES-256.
const ROUND_KEYS_MAX: usize = 15;

/// x^128 + x^127 + x^126 + x^121 + 1, reflected, without its highest term.
const POLYNOMIAL: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;

/// Round keys and powers of H of one key. Wiped when it is dropped.
#[repr(C, align(64))]
pub(super) struct Schedule {
    powers: [u128; POWERS],
    rounds: [u128; ROUND_KEYS_MAX],
    aes: Aes,
}

impl Schedule {
    /// Expands a key, on the heap from the start; nothing if its length is wrong, or
    /// that of AES-192, which the kernels lack.
    #[target_feature(enable = "aes,pclmulqdq,sse4.1")]
    pub fn new(aes: Aes, key: &[u8]) -> Option<Box<Self>> {
        if key.len() != aes.key_len() || aes == Aes::Aes192 {
            return None;
        }
        let empty = Self { powers: [0; POWERS], rounds: [0; ROUND_KEYS_MAX], aes };
        let mut made = Box::new(empty);
        expand(key, &mut made.rounds);
        let count = made.round_count();
        let h = Zeroizing::new(encrypt_zero(&made.rounds, count).swap_bytes());
        // Times x, without a branch on the bit that falls out.
        let first = Zeroizing::new((*h << 1) ^ (POLYNOMIAL & 0_u128.wrapping_sub(*h >> 127)));
        let mut power = *first;
        for place in made.powers.iter_mut().rev() {
            *place = power;
            power = multiply(power, *first);
        }
        power.zeroize();
        Some(made)
    }

    /// The last round key's number.
    fn round_count(&self) -> usize {
        self.aes.key_len() / 4 + 6
    }

    /// The octets that a text of so many takes: powers, two more for lengths and
    /// additional data, and round keys.
    #[inline]
    pub fn used_by(&self, text: usize) -> Range<usize> {
        let powers = (text.div_ceil(16) + 2).min(POWERS);
        16 * (POWERS - powers)..16 * (POWERS + self.round_count() + 1)
    }

    /// Round keys, the first at the pointer; at least eleven, or fifteen for AES-256.
    #[inline(always)]
    pub fn rounds(&self) -> *const __m128i {
        (&raw const self.rounds).cast()
    }

    /// Address of this power of H, with lower ones behind it. Four blocks and more may be
    /// read from there for every power from 0 to [`POWERS`].
    #[inline(always)]
    pub fn power(&self, power: usize) -> *const __m128i {
        debug_assert!(power <= POWERS);
        let all: *const Self = self;
        // The powers come first, and round keys follow: 51 blocks in a row.
        all.cast::<__m128i>().wrapping_add(POWERS - power)
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.rounds.zeroize();
    }
}

/// FIPS 197 section 5.2, words in the order of their octets.
#[target_feature(enable = "aes,sse4.1")]
fn expand(key: &[u8], rounds: &mut [u128; ROUND_KEYS_MAX]) {
    let mut words = Zeroizing::new([0_u32; 4 * ROUND_KEYS_MAX]);
    let given = key.len() / 4;
    for (word, octets) in words.iter_mut().zip(key.chunks_exact(4)) {
        *word = octets.iter().rev().fold(0, |word, &octet| word << 8 | u32::from(octet));
    }
    let mut constant = 1_u32;
    for i in given..4 * (given + 7) {
        let mut word = words[i - 1];
        if i % given == 0 {
            word = substitute(word.rotate_right(8)) ^ constant;
            constant = (constant << 1) ^ (0x11b * (constant >> 7));
        } else if given > 6 && i % given == 4 {
            word = substitute(word);
        }
        words[i] = words[i - given] ^ word;
    }
    for (round, four) in rounds.iter_mut().zip(words.chunks_exact(4)) {
        *round = four.iter().rev().fold(0, |round, &word| round << 32 | u128::from(word));
    }
}

/// The S-box on four octets, in constant time: the last round of a block whose
/// columns are alike, so that shifting its rows changes nothing.
#[target_feature(enable = "aes,sse4.1")]
fn substitute(word: u32) -> u32 {
    let block = _mm_aesenclast_si128(_mm_set1_epi32(word as i32), _mm_setzero_si128());
    _mm_cvtsi128_si32(block) as u32
}

/// The zero block, encrypted, its first octet lowest.
#[target_feature(enable = "aes,sse4.1")]
fn encrypt_zero(rounds: &[u128; ROUND_KEYS_MAX], count: usize) -> u128 {
    let mut block = vector(rounds[0]);
    for &round in &rounds[1..count] {
        block = _mm_aesenc_si128(block, vector(round));
    }
    number(_mm_aesenclast_si128(block, vector(rounds[count])))
}

/// The product of two field elements, as the kernels compute it.
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn multiply(a: u128, b: u128) -> u128 {
    let (a, b) = (vector(a), vector(b));
    let polynomial = _mm_set_epi64x((POLYNOMIAL >> 64) as i64, 1);
    let low = _mm_clmulepi64_si128(a, b, 0x00);
    let middle = _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10));
    let high = _mm_clmulepi64_si128(a, b, 0x11);
    let fold = |low: __m128i, up: __m128i| {
        let folded = _mm_clmulepi64_si128(polynomial, low, 0x01);
        _mm_xor_si128(_mm_xor_si128(up, _mm_shuffle_epi32(low, 0x4e)), folded)
    };
    number(fold(fold(low, middle), high))
}

#[target_feature(enable = "sse4.1")]
fn vector(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

#[target_feature(enable = "sse4.1")]
fn number(vector: __m128i) -> u128 {
    let (low, high) = (_mm_cvtsi128_si64(vector), _mm_extract_epi64(vector, 1));
    u128::from(high as u64) << 64 | u128::from(low as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(aes: Aes) -> Option<Box<Schedule>> {
        let key: Vec<u8> = (0..aes.key_len() as u8).collect();
        if !std::arch::is_x86_feature_detected!("aes") {
            return None;
        }
        // SAFETY: every machine with AES instructions has the other two.
        unsafe { Schedule::new(aes, &key) }
    }

    /// FIPS 197 appendix A has the last words for other keys; these are of the
    /// keys of its appendix C, whose expansion it shows round by round.
    #[test]
    fn round_keys_are_those_of_fips_197() {
        let last = |aes: Aes| {
            let made = of(aes)?;
            Some(made.rounds[made.round_count()].to_le_bytes())
        };
        let Some(aes_128) = last(Aes::Aes128) else { return };
        assert_eq!(u128::from_be_bytes(aes_128), 0x13111d7f_e3944a17_f307a78b_4d2b30c5);
        let aes_256 = last(Aes::Aes256).unwrap();
        assert_eq!(u128::from_be_bytes(aes_256), 0x24fc79cc_bf0979e9_371ac23c_6d68de36);
    }

    #[test]
    fn an_sa_of_the_kernels_takes_less_than_a_kibibyte() {
        assert_eq!(size_of::<Schedule>(), 832);
        assert_eq!(align_of::<Schedule>(), 64);
    }

    #[test]
    fn a_key_of_another_length_has_no_schedule() {
        if of(Aes::Aes128).is_some() {
            // SAFETY: as above.
            assert!(unsafe { Schedule::new(Aes::Aes128, &[0; 32]) }.is_none());
        }
    }
}
