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

    fn octets(hex: &str) -> Vec<u8> {
        ferrule_base::Secret::from_hex(hex).unwrap().expose().to_vec()
    }

    fn hmac(mac: Mac, key: &[u8], data: &[u8]) -> Vec<u8> {
        let mut icv = vec![0; mac.icv_len()];
        match Keyed::new(mac, key).unwrap() {
            Keyed::Sha1(mac) => write_icv(mac.clone(), [data, &[], &[]], &mut icv),
            Keyed::Sha256(mac) => write_icv(mac.clone(), [&[], data, &[]], &mut icv),
        }
        icv
    }

    fn counted(from: u8, len: usize) -> Vec<u8> {
        (from..).take(len).collect()
    }

    /// RFC 2202 section 3, truncated.
    #[test]
    fn hmac_sha1_96_answers_rfc_2202() {
        let cases: [(&[u8], &[u8], &str); 7] = [
            (&[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6"),
            (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5"),
            (&[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af4"),
            (&counted(1, 25), &[0xcd; 50], "4c9007f4026250c6bc8414f9"),
            (&[0x0c; 20], b"Test With Truncation", "4c1a03424b55e07fe7f27be1"),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "aa4ae5e15272d00e95705637",
            ),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
                "e8e99d0f45237d786d6bbaa7",
            ),
        ];
        for (key, data, icv) in cases {
            assert_eq!(hmac(Mac::HmacSha1_96, key, data), octets(icv));
        }
    }

    /// RFC 4231 section 4, truncated.
    #[test]
    fn hmac_sha256_128_answers_rfc_4231() {
        let cases: [(&[u8], &[u8], &str); 7] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b"),
            (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a7"),
            (&counted(1, 25), &[0xcd; 50], "82558a389a443c0ea4cc819899f2083a"),
            (&[0x0c; 20], b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b"),
            (&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First", "60e431591ee0b67f0d8a26aacbf5b77f"),
            (&[0xaa; 131], b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.", "9b09ffa71b942fcb27635fbcd5b0e944"),
        ];
        for (key, data, icv) in cases {
            assert_eq!(hmac(Mac::HmacSha256_128, key, data), octets(icv));
        }
    }

    /// RFC 3602 section 4, cases 1 to 4. The IV is put where it belongs by
    /// sealing from the block that encrypts to it.
    #[test]
    fn aes_cbc_answers_rfc_3602() {
        let cases: [[&str; 4]; 4] = [
            [
                "06a9214036b8a15b512e03d534120006",
                "3dafba429d9eb430b422da802c9fac41",
                "53696e676c6520626c6f636b206d7367",
                "e353779c1079aeb82708942dbe77181a",
            ],
            [
                "c286696d887c9aa0611bbb3e2025a45a",
                "562e17996d093d28ddb3ba695a2e6f58",
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
            ],
            [
                "6c3ea0477630ce21a2ce334aa746c2cd",
                "c782dc4c098c66cbd9cd27d825682c81",
                "5468697320697320612034382d62797465206d657373616765202865786163746c7920332041455320626c6f636b7329",
                "d0a02b3836451753d493665d33f0e8862dea54cdb293abc7506939276772f8d5021c19216bad525c8579695d83ba2684",
            ],
            [
                "56e47a38c5598974bc46903dba290349",
                "8ce82eefbea0da3c44699ed7db51b7d9",
                "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf",
                "c30e32ffedc0774e6aff6af0869f71aa0f3af07a9a31a9c684db207eb0ef8e4e35907aa632c3ffdf868bb7b29d3d46ad83ce9f9a102ee99d49a53e87f4c3da55",
            ],
        ];
        for [key, iv, plain, sealed] in cases.map(|case| case.map(octets)) {
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
