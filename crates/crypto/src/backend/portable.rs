//! RustCrypto: every suite in Rust, on every target.
//!
//! The reference that the other backends are compared with, and the only one in a browser.
//! Each algorithm uses the machine's instructions where it finds them at run time. Every
//! type here wipes itself when dropped (feature `zeroize` of each crate).

use super::pair::Pair;
use super::{gmac, parts};
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::suite::{Aes, Suite};
use aes::cipher::{Array, KeyInit, consts::U12, consts::U16};
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use chacha20poly1305::ChaCha20Poly1305;

/// A key of any suite.
pub enum Key {
    Aead(Aead),
    Gmac(Aead),
    Pair(Box<Pair>),
}

/// A key that encrypts and authenticates.
pub enum Aead {
    Gcm128(Box<AesGcm<Aes128Enc, U12>>),
    Gcm192(Box<AesGcm<Aes192Enc, U12>>),
    Gcm256(Box<AesGcm<Aes256Enc, U12>>),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl Key {
    /// Expands the key.
    pub fn new(spec: &KeySpec) -> Result<Self, InstallError> {
        let key = spec.key.expose();
        let made = match spec.suite.cipher() {
            Suite::AesGcm(aes) => Aead::gcm(aes, key).map(Self::Aead),
            Suite::ChaCha20Poly1305 => boxed(key).map(Aead::ChaCha).map(Self::Aead),
            Suite::AesGmac(aes) => Aead::gcm(aes, key).map(Self::Gmac),
            pair => Pair::new(pair, key, spec.mac_key.expose()).map(Self::Pair),
        };
        made.ok_or(InstallError::Unsupported(spec.suite))
    }

    /// Seals or opens in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            Self::Aead(key) => match parts::Aead::cut(buf, &ad, text) {
                Some(parts) => key.run(op, nonce, parts),
                None => Verdict::Failed,
            },
            Self::Gmac(key) => gmac::run(buf, &ad, text, |ad, icv| {
                key.run(op, nonce, parts::Aead { ad, text: &mut [], icv })
            }),
            Self::Pair(key) => key.run(op, nonce, ad, text, buf),
        }
    }

    /// Octets on the heap.
    pub fn heap_len(&self) -> usize {
        match self {
            Self::Aead(key) | Self::Gmac(key) => key.heap_len(),
            Self::Pair(key) => size_of_val(&**key),
        }
    }
}

impl Aead {
    fn gcm(aes: Aes, key: &[u8]) -> Option<Self> {
        match aes {
            Aes::Aes128 => boxed(key).map(Self::Gcm128),
            Aes::Aes192 => boxed(key).map(Self::Gcm192),
            Aes::Aes256 => boxed(key).map(Self::Gcm256),
        }
    }

    fn run(&self, op: Op, nonce: &[u8; 12], parts: parts::Aead<'_>) -> Verdict {
        match self {
            Self::Gcm128(key) => run(&**key, op, nonce, parts),
            Self::Gcm192(key) => run(&**key, op, nonce, parts),
            Self::Gcm256(key) => run(&**key, op, nonce, parts),
            Self::ChaCha(key) => run(&**key, op, nonce, parts),
        }
    }

    fn heap_len(&self) -> usize {
        match self {
            Self::Gcm128(key) => size_of_val(&**key),
            Self::Gcm192(key) => size_of_val(&**key),
            Self::Gcm256(key) => size_of_val(&**key),
            Self::ChaCha(key) => size_of_val(&**key),
        }
    }
}

fn boxed<K: KeyInit>(key: &[u8]) -> Option<Box<K>> {
    K::new_from_slice(key).ok().map(Box::new)
}

fn run<A>(cipher: &A, op: Op, nonce: &[u8; 12], parts: parts::Aead<'_>) -> Verdict
where
    A: AeadInOut<NonceSize = U12, TagSize = U16>,
{
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
