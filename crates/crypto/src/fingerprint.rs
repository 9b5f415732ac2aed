//! A name for a key that says nothing about the key.

use ferrule_base::Secret;
use sha2::{Digest, Sha256};

/// Separates this use of the hash from every other.
const LABEL: &[u8] = b"ferrule key fingerprint 1\0";

/// Names a key in a context (an SPI, an SCI). The name is stored beside a counter, so that
/// a counter is never continued with another key or forgotten for the same one. The first
/// 16 octets of SHA-256 over label, length of the context, context and key.
///
/// Only for keys with the entropy of a key: a guessed one can be checked.
pub fn fingerprint(key: &Secret, context: &[u8]) -> [u8; 16] {
    let digest = Sha256::new()
        .chain_update(LABEL)
        .chain_update((context.len() as u64).to_be_bytes())
        .chain_update(context)
        .chain_update(key.expose())
        .finalize();
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().zip(digest) {
        *to = from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_depends_on_key_and_context_and_on_where_they_part() {
        let print = |key: &[u8], context: &[u8]| fingerprint(&Secret::new(key.to_vec()), context);
        let first = print(b"key", b"context");
        assert_eq!(first, print(b"key", b"context"));
        for (key, context) in [("kez", "context"), ("key", "contexu"), ("tkey", "contex")] {
            assert_ne!(first, print(key.as_bytes(), context.as_bytes()));
        }
    }

    /// Stored states name keys by it: it must not change. (Python's hashlib.)
    #[test]
    fn a_fingerprint_is_the_same_in_every_version() {
        let key = Secret::new((0..16).collect());
        let want: [u8; 16] = 0x84ae6b204b359b33bf0482ea5e3bab3eu128.to_be_bytes();
        assert_eq!(fingerprint(&key, &[0xde, 0xad, 0xbe, 0xef]), want);
    }
}
