//! RustCrypto: every suite in Rust, on every target.
//!
//! It is the reference that the other backends are compared with, and the only
//! one in a browser. Each algorithm uses the machine's instructions where it
//! finds them at run time. Every type here wipes itself when dropped (feature
//! `zeroize` of each crate).

use super::parts;
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::suite::{Aes, Mac, Suite};
use aes::cipher::{
    Array, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, consts::U12, consts::U16,
};
use aes::{Aes128Dec, Aes128Enc, Aes256Dec, Aes256Enc};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::Sha256;

/// A key of any suite.
pub enum Key {
    Gcm128(Box<AesGcm<Aes128Enc, U12>>),
    Gcm256(Box<AesGcm<Aes256Enc, U12>>),
    ChaCha(Box<ChaCha20Poly1305>),
    Cbc(Box<CbcHmac>),
}

impl Key {
    /// Expands the key.
    pub fn new(spec: &KeySpec) -> Result<Self, InstallError> {
        let key = spec.key.expose();
        let made = match spec.suite {
            Suite::AesGcm(Aes::Aes128) => boxed(key).map(Self::Gcm128),
            Suite::AesGcm(Aes::Aes256) => boxed(key).map(Self::Gcm256),
            Suite::ChaCha20Poly1305 => boxed(key).map(Self::ChaCha),
            Suite::AesCbc(aes, mac) => {
                CbcHmac::new(aes, mac, key, spec.mac_key.expose()).map(Box::new).map(Self::Cbc)
            }
        };
        made.ok_or(InstallError::Unsupported(spec.suite))
    }

    /// Seals or opens in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            Self::Gcm128(key) => aead(&**key, op, nonce, ad, text, buf),
            Self::Gcm256(key) => aead(&**key, op, nonce, ad, text, buf),
            Self::ChaCha(key) => aead(&**key, op, nonce, ad, text, buf),
            Self::Cbc(key) => key.run(op, nonce, ad, text, buf),
        }
    }

    /// Octets on the heap.
    pub fn heap_len(&self) -> usize {
        match self {
            Self::Gcm128(key) => size_of_val(&**key),
            Self::Gcm256(key) => size_of_val(&**key),
            Self::ChaCha(key) => size_of_val(&**key),
            Self::Cbc(key) => size_of_val(&**key),
        }
    }
}

fn boxed<K: KeyInit>(key: &[u8]) -> Option<Box<K>> {
    K::new_from_slice(key).ok().map(Box::new)
}

fn aead<A>(cipher: &A, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict
where
    A: AeadInOut<NonceSize = U12, TagSize = U16>,
{
    let Some(parts) = parts::Aead::cut(buf, &ad, text) else { return Verdict::Failed };
    let nonce = Array::cast_from_core(nonce);
    match op {
        Op::Seal => match cipher.encrypt_inout_detached(nonce, parts.ad, parts.text.into()) {
            Ok(tag) => {
                parts.icv.copy_from_slice(&tag);
                Verdict::Done
            }
            Err(_) => Verdict::Failed,
        },
        // The ICV is compared, in constant time, before anything is decrypted.
        Op::Open => {
            let tag = Array::cast_from_core(parts.icv);
            match cipher.decrypt_inout_detached(nonce, parts.ad, parts.text.into(), tag) {
                Ok(()) => Verdict::Done,
                Err(_) => Verdict::BadIcv,
            }
        }
    }
}

/// AES-CBC, then HMAC over the ciphertext.
pub struct CbcHmac {
    cipher: Cipher,
    mac: Keyed,
}

/// Both directions' schedules: a key does not say what it will be used for.
enum Cipher {
    Aes128(Aes128Enc, Aes128Dec),
    Aes256(Aes256Enc, Aes256Dec),
}

/// The hash states after the padded key; a packet starts from a copy.
enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl CbcHmac {
    fn new(aes: Aes, mac: Mac, key: &[u8], mac_key: &[u8]) -> Option<Self> {
        let cipher = match aes {
            Aes::Aes128 => {
                let enc = Aes128Enc::new_from_slice(key).ok()?;
                let dec = Aes128Dec::from(&enc);
                Cipher::Aes128(enc, dec)
            }
            Aes::Aes256 => {
                let enc = Aes256Enc::new_from_slice(key).ok()?;
                let dec = Aes256Dec::from(&enc);
                Cipher::Aes256(enc, dec)
            }
        };
        let mac = match mac {
            Mac::HmacSha1_96 => Keyed::Sha1(KeyInit::new_from_slice(mac_key).ok()?),
            Mac::HmacSha256_128 => Keyed::Sha256(KeyInit::new_from_slice(mac_key).ok()?),
        };
        Some(Self { cipher, mac })
    }

    fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        let parts = match &self.mac {
            Keyed::Sha1(_) => parts::Cbc::cut(buf, &ad, text, Mac::HmacSha1_96.icv_len()),
            Keyed::Sha256(_) => parts::Cbc::cut(buf, &ad, text, Mac::HmacSha256_128.icv_len()),
        };
        let Some(mut parts) = parts else { return Verdict::Failed };
        if op == Op::Seal {
            self.cipher.encrypt(nonce, &mut parts.body[parts.text..]);
        }
        let good = match &self.mac {
            Keyed::Sha1(mac) => authenticate(mac.clone(), op, &mut parts),
            Keyed::Sha256(mac) => authenticate(mac.clone(), op, &mut parts),
        };
        if !good {
            return Verdict::BadIcv;
        }
        if op == Op::Open {
            self.cipher.decrypt(&mut parts.body[parts.text..]);
        }
        Verdict::Done
    }
}

impl Cipher {
    /// From a zero IV over the nonce's block and the plaintext, so that the
    /// encrypted nonce comes out as the IV of the rest.
    fn encrypt(&self, nonce: &[u8; 12], text: &mut [u8]) {
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(text);
        if let Some(first) = blocks.first_mut() {
            *first = parts::nonce_block(nonce).into();
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

    fn decrypt(&self, text: &mut [u8]) {
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(text);
        let Some((iv, blocks)) = blocks.split_first_mut() else { return };
        match self {
            Self::Aes128(_, key) => cbc::Decryptor::inner_iv_init(key, iv).decrypt_blocks(blocks),
            Self::Aes256(_, key) => cbc::Decryptor::inner_iv_init(key, iv).decrypt_blocks(blocks),
        }
    }
}

/// Sealing writes the ICV; opening compares it, in constant time.
fn authenticate<M: hmac::Mac>(mut mac: M, op: Op, parts: &mut parts::Cbc<'_>) -> bool {
    for piece in [parts.before, &*parts.body, parts.after] {
        mac.update(piece);
    }
    match op {
        Op::Seal => {
            let full = mac.finalize().into_bytes();
            for (to, from) in parts.icv.iter_mut().zip(full) {
                *to = from;
            }
            true
        }
        Op::Open => mac.verify_truncated_left(parts.icv).is_ok(),
    }
}
