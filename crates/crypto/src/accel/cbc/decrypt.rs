//! AES-CBC decryption of one packet, sixteen blocks at a time (SP 800-38A
//! section 6.2).
//!
//! ```text
//!   [ IV │ C1 │ C2 │ … │ Cn ]      Pi = D(Ci) XOR C(i-1)
//!                 ◀── from the end, so that C(i-1) is not yet plaintext
//! ```

use super::key::Schedule;
use super::{Aes, Key};
use crate::backend::parts::{BLOCK, Hashed};
use std::arch::x86_64::*;

/// Decrypts the blocks behind the IV in place.
pub(super) fn run(aes: Aes, key: &Key, parts: &mut Hashed<'_>) {
    let (blocks, _) = parts.body[parts.text..].as_chunks_mut::<BLOCK>();
    let open = key.open();
    // SAFETY: a key has a form, and that only where the machine has its instructions.
    unsafe {
        match (key.form().is_zmm(), aes) {
            (true, Aes::Aes128) => zmm::<10>(open, blocks),
            (true, Aes::Aes256) => zmm::<14>(open, blocks),
            (false, Aes::Aes128) => ymm::<10>(open, blocks),
            (false, Aes::Aes256) => ymm::<14>(open, blocks),
        }
    }
}

#[target_feature(enable = "avx512f,vaes")]
fn zmm<const ROUNDS: usize>(keys: &Schedule, blocks: &mut [[u8; BLOCK]]) {
    // SAFETY: each key has 16 octets.
    let key = |round: usize| unsafe {
        _mm512_broadcast_i32x4(_mm_loadu_si128((&raw const keys[round]).cast()))
    };
    let mut inner = [_mm512_setzero_si512(); ROUNDS];
    for (round, inner) in inner.iter_mut().enumerate() {
        *inner = key(round);
    }
    let (keys, last) = (inner, key(ROUNDS));
    let first = blocks.as_mut_ptr();
    let mut end = blocks.len();
    // Block 0 is the IV.
    while end > 16 {
        end -= 16;
        // SAFETY: blocks `end - 1` to `end + 15` are there, for `end` is at least 1.
        unsafe {
            let at = first.add(end);
            let mut text = [_mm512_setzero_si512(); 4];
            for (i, text) in text.iter_mut().enumerate() {
                *text = _mm512_xor_si512(_mm512_loadu_si512(at.add(4 * i).cast()), keys[0]);
            }
            for &key in &keys[1..] {
                for text in &mut text {
                    *text = _mm512_aesdec_epi128(*text, key);
                }
            }
            // From the end again: each reads blocks that the one before has not written.
            for (i, &text) in text.iter().enumerate().rev() {
                let before = _mm512_loadu_si512(at.sub(1).add(4 * i).cast());
                // The XOR goes into the last round key.
                let key = _mm512_xor_si512(last, before);
                _mm512_storeu_si512(at.add(4 * i).cast(), _mm512_aesdeclast_epi128(text, key));
            }
        }
    }
    while end > 1 {
        let count = (end - 1).min(4);
        end -= count;
        let mask = (1u16 << (2 * count)).wrapping_sub(1) as u8;
        // SAFETY: the mask covers `count` blocks from `end`, and from `end - 1`.
        unsafe {
            let at = first.add(end);
            let mut text = _mm512_maskz_loadu_epi64(mask, at.cast());
            let before = _mm512_maskz_loadu_epi64(mask, at.sub(1).cast());
            text = _mm512_xor_si512(text, keys[0]);
            for &key in &keys[1..] {
                text = _mm512_aesdec_epi128(text, key);
            }
            text = _mm512_aesdeclast_epi128(text, _mm512_xor_si512(last, before));
            _mm512_mask_storeu_epi64(at.cast(), mask, text);
        }
    }
}

#[target_feature(enable = "avx2,aes,vaes")]
fn ymm<const ROUNDS: usize>(keys: &Schedule, blocks: &mut [[u8; BLOCK]]) {
    // SAFETY: each key has 16 octets.
    let key = |round: usize| unsafe { _mm_loadu_si128((&raw const keys[round]).cast()) };
    let wide = |round: usize| _mm256_broadcastsi128_si256(key(round));
    let first = blocks.as_mut_ptr();
    let mut end = blocks.len();
    // Block 0 is the IV.
    while end > 16 {
        end -= 16;
        // SAFETY: blocks `end - 1` to `end + 15` are there, for `end` is at least 1.
        unsafe {
            let at = first.add(end);
            let mut text = [_mm256_setzero_si256(); 8];
            for (i, text) in text.iter_mut().enumerate() {
                *text = _mm256_xor_si256(_mm256_loadu_si256(at.add(2 * i).cast()), wide(0));
            }
            for round in 1..ROUNDS {
                let key = wide(round);
                for text in &mut text {
                    *text = _mm256_aesdec_epi128(*text, key);
                }
            }
            let last = wide(ROUNDS);
            // From the end again: each reads blocks that the one before has not written.
            for (i, &text) in text.iter().enumerate().rev() {
                let before = _mm256_loadu_si256(at.sub(1).add(2 * i).cast());
                let key = _mm256_xor_si256(last, before);
                _mm256_storeu_si256(at.add(2 * i).cast(), _mm256_aesdeclast_epi128(text, key));
            }
        }
    }
    while end > 1 {
        end -= 1;
        // SAFETY: blocks `end - 1` and `end` are there, for `end` is at least 1.
        unsafe {
            let at = first.add(end);
            let mut text = _mm_xor_si128(_mm_loadu_si128(at.cast()), key(0));
            for round in 1..ROUNDS {
                text = _mm_aesdec_si128(text, key(round));
            }
            let before = _mm_loadu_si128(at.sub(1).cast());
            text = _mm_aesdeclast_si128(text, _mm_xor_si128(key(ROUNDS), before));
            _mm_storeu_si128(at.cast(), text);
        }
    }
}
