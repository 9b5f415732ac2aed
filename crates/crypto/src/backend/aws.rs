//! aws-lc: the fastest code that there is for one packet at a time.
//!
//! An AEAD's context lives on the library's heap, which wipes memory that it frees. Nothing
//! is allocated per packet.
//!
//! A cipher with HMAC is RustCrypto's here too. AES-CBC through aws-lc-rs's safe
//! interface it copies 1232 octets of hash context per packet and keeps 2248
//! octets per key against 656, and it was slower at small sizes and no faster at
//! large ones: 64 octets sealed with HMAC-SHA1 took 354 ns against 281, 1424
//! octets 2421 against 2177, both in one run. DES and MD5 it does not have.

use super::pair::Pair;
use super::{gmac, parts};
use crate::accel::aws::{Aead, Context};
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::suite::{Aes, Suite};

/// Octets that the library allocates for an AEAD's key: 564 of state, three words, and its
/// note of the length.
const AEAD_CONTEXT: usize = 600;

/// A key of any suite.
pub enum Key {
    Aead(Context),
    Gmac(Context),
    Pair(Box<Pair>),
}

impl Key {
    /// Expands the key.
    pub fn new(spec: &KeySpec) -> Result<Self, InstallError> {
        let key = spec.key.expose();
        let made = match spec.suite.cipher() {
            Suite::AesGcm(aes) => Context::new(gcm(aes), key).map(Self::Aead),
            Suite::ChaCha20Poly1305 => Context::new(Aead::ChaCha20Poly1305, key).map(Self::Aead),
            Suite::AesGmac(aes) => Context::new(gcm(aes), key).map(Self::Gmac),
            pair => Pair::new(pair, key, spec.mac_key.expose()).map(Self::Pair),
        };
        made.ok_or(InstallError::Unsupported(spec.suite))
    }

    /// Seals or opens in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            Self::Aead(key) => match parts::Aead::cut(buf, &ad, text) {
                Some(parts) => run(key, op, nonce, parts),
                None => Verdict::Failed,
            },
            _ => self.run_other(op, nonce, ad, text, buf),
        }
    }

    /// Runs a job of a suite that is no AEAD. (Out of line: inline it made the code around
    /// an AEAD's call longer.)
    #[inline(never)]
    fn run_other(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            Self::Aead(_) => Verdict::Failed,
            Self::Gmac(key) => gmac::run(buf, &ad, text, |ad, icv| {
                run(key, op, nonce, parts::Aead { ad, text: &mut [], icv })
            }),
            Self::Pair(key) => key.run(op, nonce, ad, text, buf),
        }
    }

    /// Octets on the heap.
    pub fn heap_len(&self) -> usize {
        match self {
            Self::Aead(_) | Self::Gmac(_) => AEAD_CONTEXT,
            Self::Pair(key) => size_of_val(&**key),
        }
    }
}

const fn gcm(aes: Aes) -> Aead {
    match aes {
        Aes::Aes128 => Aead::Aes128Gcm,
        Aes::Aes192 => Aead::Aes192Gcm,
        Aes::Aes256 => Aead::Aes256Gcm,
    }
}

#[inline(always)]
fn run(key: &Context, op: Op, nonce: &[u8; 12], parts: parts::Aead<'_>) -> Verdict {
    match op {
        Op::Seal if key.seal(nonce, parts.ad, parts.text, parts.icv) => Verdict::Done,
        Op::Seal => Verdict::Failed,
        // Decrypts while it authenticates; the text of a packet that is not authentic is
        // zeroed.
        Op::Open if key.open(nonce, parts.ad, parts.text, parts.icv) => Verdict::Done,
        Op::Open => Verdict::BadIcv,
    }
}
