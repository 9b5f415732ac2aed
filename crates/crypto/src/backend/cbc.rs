//! AES-CBC, then HMAC over the ciphertext (RFC 3602, RFC 2404, RFC 4868), with
//! RustCrypto's parts. Both backends use it; `aws` says why.
//!
//! ```text
//!   seal   [ nonce 0000 | plain … ]  ──CBC, zero IV──▶  [ IV | cipher … ]
//!   open   HMAC first; only if it is right   [ IV | cipher … ] ──▶ [ IV | plain … ]
//! ```
//!
//! Sealing encrypts the nonce as if it were the first block of plaintext, so
//! that what comes out is the IV for the rest (SP 800-38A appendix C).

use super::parts::{self, BLOCK};
use crate::job::{Ad, Op, Span, Verdict};
use crate::suite::{Aes, Mac};
use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, consts::U16};
use aes::{Aes128Dec, Aes128Enc, Aes256Dec, Aes256Enc};
use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::Sha256;

/// The two keys of one SA.
pub(super) struct CbcHmac {
    cipher: Cipher,
    mac: Keyed,
}

/// Both directions' schedules: a key does not say what it will be used for.
#[allow(clippy::large_enum_variant)] // always boxed, as part of a key
enum Cipher {
    Aes128(Aes128Enc, Aes128Dec),
    Aes256(Aes256Enc, Aes256Dec),
}

/// The hash states after the padded key; each packet starts from a copy.
enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl CbcHmac {
    /// Nothing if a key has a length that it cannot have.
    pub fn new(aes: Aes, mac: Mac, key: &[u8], mac_key: &[u8]) -> Option<Box<Self>> {
        Some(Box::new(Self { cipher: Cipher::new(aes, key)?, mac: Keyed::new(mac, mac_key)? }))
    }

    /// Seals or opens in place.
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        let Some(parts) = parts::Cbc::cut(buf, &ad, text, self.mac.icv_len()) else {
            return Verdict::Failed;
        };
        match op {
            Op::Seal => self.seal(nonce, parts),
            Op::Open => self.open(parts),
        }
    }

    fn seal(&self, nonce: &[u8; 12], parts: parts::Cbc<'_>) -> Verdict {
        let parts::Cbc { before, body, text, after, icv } = parts;
        self.cipher.encrypt(parts::nonce_block(nonce), &mut body[text..]);
        match &self.mac {
            Keyed::Sha1(mac) => write_icv(mac.clone(), [before, body, after], icv),
            Keyed::Sha256(mac) => write_icv(mac.clone(), [before, body, after], icv),
        }
        Verdict::Done
    }

    fn open(&self, parts: parts::Cbc<'_>) -> Verdict {
        let parts::Cbc { before, body, text, after, icv } = parts;
        let good = match &self.mac {
            Keyed::Sha1(mac) => is_icv(mac.clone(), [before, body, after], icv),
            Keyed::Sha256(mac) => is_icv(mac.clone(), [before, body, after], icv),
        };
        if !good {
            return Verdict::BadIcv;
        }
        self.cipher.decrypt(&mut body[text..]);
        Verdict::Done
    }
}

impl Cipher {
    fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        match aes {
            Aes::Aes128 => {
                let enc = Aes128Enc::new_from_slice(key).ok()?;
                let dec = Aes128Dec::from(&enc);
                Some(Self::Aes128(enc, dec))
            }
            Aes::Aes256 => {
                let enc = Aes256Enc::new_from_slice(key).ok()?;
                let dec = Aes256Dec::from(&enc);
                Some(Self::Aes256(enc, dec))
            }
        }
    }

    /// Puts `first` in front and encrypts everything from a zero IV.
    fn encrypt(&self, first: [u8; BLOCK], text: &mut [u8]) {
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(text);
        if let Some(block) = blocks.first_mut() {
            *block = first.into();
        }
        let zero = Array::default();
        match self {
            Self::Aes128(key, _) => {
                cbc::Encryptor::inner_iv_init(key, &zero).encrypt_blocks(blocks);
            }
            Self::Aes256(key, _) => {
                cbc::Encryptor::inner_iv_init(key, &zero).encrypt_blocks(blocks);
            }
        }
    }

    /// Decrypts what follows the IV.
    fn decrypt(&self, text: &mut [u8]) {
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(text);
        let Some((iv, blocks)) = blocks.split_first_mut() else { return };
        match self {
            Self::Aes128(_, key) => cbc::Decryptor::inner_iv_init(key, iv).decrypt_blocks(blocks),
            Self::Aes256(_, key) => cbc::Decryptor::inner_iv_init(key, iv).decrypt_blocks(blocks),
        }
    }
}

impl Keyed {
    fn new(mac: Mac, key: &[u8]) -> Option<Self> {
        match mac {
            Mac::HmacSha1_96 => Hmac::new_from_slice(key).ok().map(Self::Sha1),
            Mac::HmacSha256_128 => Hmac::new_from_slice(key).ok().map(Self::Sha256),
        }
    }

    const fn icv_len(&self) -> usize {
        match self {
            Self::Sha1(_) => Mac::HmacSha1_96.icv_len(),
            Self::Sha256(_) => Mac::HmacSha256_128.icv_len(),
        }
    }
}

fn write_icv<M: hmac::Mac>(mut mac: M, pieces: [&[u8]; 3], icv: &mut [u8]) {
    pieces.into_iter().for_each(|piece| mac.update(piece));
    let full = mac.finalize().into_bytes();
    icv.iter_mut().zip(full).for_each(|(to, from)| *to = from);
}

/// In constant time.
fn is_icv<M: hmac::Mac>(mut mac: M, pieces: [&[u8]; 3], icv: &[u8]) -> bool {
    pieces.into_iter().for_each(|piece| mac.update(piece));
    mac.verify_truncated_left(icv).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vectors;

    fn answers(cases: Vec<vectors::Hmac>) {
        for vectors::Hmac { mac, key, data, icv } in cases {
            let mut got = vec![0; mac.icv_len()];
            match Keyed::new(mac, &key).unwrap() {
                Keyed::Sha1(mac) => write_icv(mac, [&[], &data, &[]], &mut got),
                Keyed::Sha256(mac) => write_icv(mac, [&[], &data, &[]], &mut got),
            }
            assert_eq!(got, icv);
        }
    }

    #[test]
    fn hmac_sha1_96_answers_rfc_2202() {
        answers(vectors::rfc_2202());
    }

    #[test]
    fn hmac_sha256_128_answers_rfc_4231_and_rfc_4868() {
        answers(vectors::rfc_4231());
        answers(vectors::rfc_4868());
    }

    /// The IV is put where it belongs by sealing from the block that encrypts to
    /// it.
    #[test]
    fn aes_cbc_answers_rfc_3602() {
        for vectors::Cbc { key, iv, plain, sealed } in vectors::rfc_3602() {
            let cipher = Cipher::new(Aes::Aes128, &key).unwrap();
            let mut text = [iv.clone(), sealed].concat();
            let expected = text.clone();
            cipher.decrypt(&mut text);
            assert_eq!(text, [&iv[..], &plain[..]].concat());

            let mut first = [&[0; BLOCK], &iv[..]].concat();
            cipher.decrypt(&mut first);
            cipher.encrypt(*first[BLOCK..].first_chunk().unwrap(), &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn every_part_of_a_key_wipes_itself() {
        fn wiped<T: zeroize::ZeroizeOnDrop>() {}
        wiped::<Aes128Enc>();
        wiped::<Aes128Dec>();
        wiped::<Aes256Enc>();
        wiped::<Aes256Dec>();
        // An HMAC holds two states of its hash.
        wiped::<Sha1>();
        wiped::<Sha256>();
    }
}
