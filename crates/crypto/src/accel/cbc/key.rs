//! The keys of one SA: AES round keys for both directions (FIPS 197), and the
//! two hash states after the padded integrity key (RFC 2104 section 4).

use super::hmac::{Hash, Words};
use super::sha1::Sha1;
use super::sha256::Sha256;
use super::{Aes, Mac};
use crate::backend::parts::BLOCK;
use crate::suite;
use std::arch::x86_64::*;

/// AES-256 has 14 rounds and so 15 round keys.
pub(super) const ROUND_KEYS_MAX: usize = 15;

/// Round keys, in the order in which they are used.
pub(super) type Schedule = [u128; ROUND_KEYS_MAX];

/// Instruction set of the kernels. A value exists only on a machine that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Zmm,
    Ymm,
}

impl Form {
    /// 512 bits: AVX-512 with VAES, and the SHA instructions where few lanes
    /// are busy.
    pub fn zmm() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        (has && Self::ymm().is_some()).then_some(Self(Width::Zmm))
    }

    /// 256 bits: AVX2 with VAES, and the SHA instructions.
    pub fn ymm() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("sse4.1");
        has.then_some(Self(Width::Ymm))
    }

    /// AVX-512 may be used.
    pub(super) fn is_zmm(self) -> bool {
        self.0 == Width::Zmm
    }
}

/// The two keys of one SA. Wiped when dropped.
#[repr(C, align(64))]
pub struct Key {
    seal: Schedule,
    open: Schedule,
    inner: Words,
    outer: Words,
    /// Size of the cipher's key; nothing: a keyed hash alone.
    aes: Option<Aes>,
    mac: Mac,
    form: Form,
}

impl Key {
    /// The keys of a suite; nothing if a length is wrong, or the kernels lack the
    /// algorithm.
    pub fn new(
        form: Form,
        aes: suite::Aes,
        mac: suite::Mac,
        key: &[u8],
        mac_key: &[u8],
    ) -> Option<Box<Self>> {
        let aes = Aes::of(aes).filter(|aes| key.len() == aes.key_len())?;
        let mut made = Self::hash(form, mac, mac_key)?;
        made.aes = Some(aes);
        let Self { seal, open, .. } = &mut *made;
        // SAFETY: a `Form` exists only where the machine has AES and SSE4.1.
        unsafe { expand(aes, key, seal, open) };
        Some(made)
    }

    /// A keyed hash without a cipher.
    pub fn hash(form: Form, mac: suite::Mac, mac_key: &[u8]) -> Option<Box<Self>> {
        let mac = Mac::of(mac).filter(|_| mac_key.len() <= PAD_LEN)?;
        let (zero, words) = ([0; ROUND_KEYS_MAX], [0; 8]);
        let mut made = Box::new(Self {
            seal: zero,
            open: zero,
            inner: words,
            outer: words,
            aes: None,
            mac,
            form,
        });
        made.inner = padded(mac, mac_key, 0x36);
        made.outer = padded(mac, mac_key, 0x5c);
        Some(made)
    }

    /// Octets of the blocks that a text is made of; 0 without a cipher.
    pub fn block(&self) -> usize {
        if self.aes.is_some() { BLOCK } else { 0 }
    }

    /// Octets of the ICV.
    pub fn icv_len(&self) -> usize {
        self.mac.icv_len()
    }

    pub(super) fn aes(&self) -> Option<Aes> {
        self.aes
    }

    pub(super) fn mac(&self) -> Mac {
        self.mac
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn seal(&self) -> &Schedule {
        &self.seal
    }

    pub(super) fn open(&self) -> &Schedule {
        &self.open
    }

    /// The state after the inner pad.
    pub(super) fn inner(&self) -> &Words {
        &self.inner
    }

    /// The state after the outer pad.
    pub(super) fn outer(&self) -> &Words {
        &self.outer
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        wipe(&mut self.seal);
        wipe(&mut self.open);
        wipe(&mut self.inner);
        wipe(&mut self.outer);
    }
}

/// Values of which every bit pattern is one, zero among them.
pub(super) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u128 {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

impl Plain for __m128i {}

/// Writes zeros that the compiler may not leave out.
#[inline]
pub(super) fn wipe<T: Plain>(value: &mut T) {
    let place = std::ptr::from_mut(value);
    // SAFETY: the place is borrowed for writing, and zero is a value of it. The
    // empty instruction is told where it is: for all the compiler knows it reads
    // the zeros.
    unsafe {
        place.write_bytes(0, 1);
        std::arch::asm!("/* {} */", in(reg) place, options(nostack, preserves_flags));
    }
}

/// Octets of a block of either hash, to which the key is padded.
const PAD_LEN: usize = 64;

/// The state after the key, padded with zeros, each octet XOR `pad`.
fn padded(mac: Mac, key: &[u8], pad: u8) -> Words {
    let mut block = [pad; PAD_LEN];
    block.iter_mut().zip(key).for_each(|(to, octet)| *to ^= octet);
    // SAFETY: the pointer is good for the one block that is read; a key is made with a
    // `Form`, so the machine has the SHA instructions.
    let [state] = unsafe {
        match mac {
            Mac::HmacSha1_96 => Sha1::few([Sha1::START], [block.as_ptr()], 1),
            Mac::HmacSha256_128 => Sha256::few([Sha256::START], [block.as_ptr()], 1),
        }
    };
    wipe(&mut block);
    state
}

/// FIPS 197 section 5.2, and the round keys of the equivalent inverse cipher
/// (section 5.3.5).
#[target_feature(enable = "aes,sse4.1")]
fn expand(aes: Aes, key: &[u8], seal: &mut Schedule, open: &mut Schedule) {
    let mut keys = [_mm_setzero_si128(); ROUND_KEYS_MAX];
    for (to, part) in keys.iter_mut().zip(key.as_chunks::<16>().0) {
        // SAFETY: the chunk has the 16 octets that are read.
        *to = unsafe { _mm_loadu_si128(part.as_ptr().cast()) };
    }
    let rounds = match aes {
        Aes::Aes128 => expand_128(&mut keys),
        Aes::Aes256 => expand_256(&mut keys),
    };
    for round in 0..=rounds {
        let key = keys[rounds - round];
        let inner = round != 0 && round != rounds;
        store(&mut seal[round], keys[round]);
        store(&mut open[round], if inner { _mm_aesimc_si128(key) } else { key });
    }
    wipe(&mut keys);
}

#[target_feature(enable = "sse4.1")]
fn store(to: &mut u128, from: __m128i) {
    // SAFETY: the place has 16 octets.
    unsafe { _mm_storeu_si128((&raw mut *to).cast(), from) };
}

/// Each word XOR all those before it.
#[target_feature(enable = "sse4.1")]
fn summed(key: __m128i) -> __m128i {
    let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    _mm_xor_si128(key, _mm_slli_si128::<8>(key))
}

#[target_feature(enable = "aes,sse4.1")]
fn expand_128(keys: &mut [__m128i; ROUND_KEYS_MAX]) -> usize {
    macro_rules! next {
        ($($at:literal $constant:literal),*) => {$(
            let word = _mm_aeskeygenassist_si128::<$constant>(keys[$at - 1]);
            keys[$at] = _mm_xor_si128(summed(keys[$at - 1]), _mm_shuffle_epi32::<0xff>(word));
        )*};
    }
    next!(1 0x01, 2 0x02, 3 0x04, 4 0x08, 5 0x10, 6 0x20, 7 0x40, 8 0x80, 9 0x1b, 10 0x36);
    10
}

#[target_feature(enable = "aes,sse4.1")]
fn expand_256(keys: &mut [__m128i; ROUND_KEYS_MAX]) -> usize {
    macro_rules! even {
        ($at:literal $constant:literal) => {
            let word = _mm_aeskeygenassist_si128::<$constant>(keys[$at - 1]);
            keys[$at] = _mm_xor_si128(summed(keys[$at - 2]), _mm_shuffle_epi32::<0xff>(word));
        };
    }
    macro_rules! next {
        ($($at:literal $constant:literal),*) => {$(
            even!($at $constant);
            let word = _mm_aeskeygenassist_si128::<0>(keys[$at]);
            keys[$at + 1] = _mm_xor_si128(summed(keys[$at - 1]), _mm_shuffle_epi32::<0xaa>(word));
        )*};
    }
    next!(2 0x01, 4 0x02, 6 0x04, 8 0x08, 10 0x10, 12 0x20);
    even!(14 0x40);
    14
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Aes, Mac};

    fn words(schedule: &Schedule, rounds: usize) -> Vec<u32> {
        let octets = schedule[..=rounds].iter().flat_map(|key| key.to_le_bytes());
        let octets: Vec<u8> = octets.collect();
        octets.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
    }

    /// FIPS 197 appendix A.1 and A.3: the first and the last words.
    #[test]
    fn round_keys_are_those_of_fips_197() {
        let Some(form) = Form::ymm() else { return };
        let octets = |hex: &str| ferrule_base::Secret::from_hex(hex).unwrap();
        let key = octets("2b7e151628aed2a6abf7158809cf4f3c");
        let made = Key::new(form, Aes::Aes128, Mac::HmacSha1_96, key.expose(), &[]).unwrap();
        let got = words(made.seal(), 10);
        assert_eq!(got[4..8], [0xa0fafe17, 0x88542cb1, 0x23a33939, 0x2a6c7605]);
        assert_eq!(got[40..], [0xd014f9a8, 0xc9ee2589, 0xe13f0cc8, 0xb6630ca6]);

        let key = octets("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
        let made = Key::new(form, Aes::Aes256, Mac::HmacSha1_96, key.expose(), &[]).unwrap();
        let got = words(made.seal(), 14);
        assert_eq!(got[8..12], [0x9ba35411, 0x8e6925af, 0xa51a8b5f, 0x2067fcde]);
        assert_eq!(got[56..], [0xfe4890d1, 0xe6188d0b, 0x046df344, 0x706c631e]);
    }

    #[test]
    fn a_key_of_another_length_gives_none() {
        let Some(form) = Form::ymm() else { return };
        for (aes, len) in
            [(Aes::Aes128, 32), (Aes::Aes256, 16), (Aes::Aes128, 0), (Aes::Aes192, 24)]
        {
            assert!(Key::new(form, aes, Mac::HmacSha1_96, &[1; 32][..len], &[2; 20]).is_none());
        }
    }

    #[test]
    fn zeroizing_a_dropped_cbc_key_leaves_zeros() {
        let Some(form) = Form::ymm() else { return };
        let mac = Mac::HmacSha256_128;
        let made = Key::new(form, Aes::Aes256, mac, &[3; 32], &[4; 32]).unwrap();
        let mut place = std::mem::ManuallyDrop::new(*made);
        assert!(place.seal.iter().chain(&place.open).all(|&key| key != 0));
        // SAFETY: it is not dropped again, and its parts are plain numbers.
        unsafe { std::ptr::drop_in_place(&raw mut *place) };
        assert_eq!((place.seal, place.open), ([0; 15], [0; 15]));
        assert_eq!((place.inner, place.outer), ([0; 8], [0; 8]));
    }
}
