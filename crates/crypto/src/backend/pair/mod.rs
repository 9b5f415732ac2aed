//! A cipher, then a keyed hash over its output (RFC 4303 section 3.3.2), with RustCrypto's
//! parts. Every backend uses it; `aws` says why.
//!
//! ```text
//!   CBC, DES   seal   [ nonce 0000 | plain … ]  ──CBC, zero IV──▶  [ IV | cipher … ]
//!              open   [ IV | cipher … ] ──▶ [ IV | plain … ]
//!   CTR        the nonce and a counter from 1 make the key stream; the IV is part
//!              of the additional data
//!   NULL       text stays text
//! ```
//!
//! To open, the hash comes first; only if it is right is anything decrypted.

mod cipher;
mod hash;

use super::parts::Hashed;
use crate::job::{Ad, Op, Span, Verdict};
use crate::suite::Suite;
use cipher::Cipher;
use hash::Keyed;

/// The two keys of one SA.
pub(super) struct Pair {
    cipher: Cipher,
    mac: Keyed,
}

impl Pair {
    /// The keys of a suite; nothing if a length is wrong, or the suite is no pair.
    pub fn new(suite: Suite, key: &[u8], mac_key: &[u8]) -> Option<Box<Self>> {
        let (cipher, mac) = (Cipher::new(suite, key)?, Keyed::new(suite.mac()?, mac_key)?);
        Some(Box::new(Self { cipher, mac }))
    }

    /// Seals or opens in place.
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        let block = self.cipher.iv_len();
        let Some(parts) = Hashed::cut(buf, &ad, text, block, self.mac.icv_len()) else {
            return Verdict::Failed;
        };
        let Hashed { before, body, text, after, icv } = parts;
        match op {
            Op::Seal => {
                self.cipher.encrypt(nonce, &mut body[text..]);
                self.mac.write([before, body, after], icv);
                Verdict::Done
            }
            Op::Open if self.mac.is_right([before, body, after], icv) => {
                self.cipher.decrypt(nonce, &mut body[text..]);
                Verdict::Done
            }
            Op::Open => Verdict::BadIcv,
        }
    }
}
