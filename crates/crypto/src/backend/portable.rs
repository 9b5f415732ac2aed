//! RustCrypto: every suite in Rust, on every target.
//!
//! It is the reference that the other backends are compared with, and the only
//! one in a browser. Each algorithm uses the machine's instructions where it
//! finds them at run time. Every type here wipes itself when dropped (feature
//! `zeroize` of each crate).

use super::cbc::CbcHmac;
use super::parts;
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::suite::{Aes, Suite};
use aes::cipher::{Array, KeyInit, consts::U12, consts::U16};
use aes::{Aes128Enc, Aes256Enc};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use chacha20poly1305::ChaCha20Poly1305;

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
        let made = match spec.suite.cipher() {
            Suite::AesGcm(Aes::Aes128) => boxed(key).map(Self::Gcm128),
            Suite::AesGcm(Aes::Aes256) => boxed(key).map(Self::Gcm256),
            Suite::ChaCha20Poly1305 => boxed(key).map(Self::ChaCha),
            Suite::AesGcmIiv(_) | Suite::AesCtr(..) => None,
            Suite::AesCbc(aes, mac) => {
                CbcHmac::new(aes, mac, key, spec.mac_key.expose()).map(Self::Cbc)
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
