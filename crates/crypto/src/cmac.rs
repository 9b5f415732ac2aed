//! AES-CMAC (RFC 4493): integrity of MKPDUs, and the key derivation of MKA.

use aes::{Aes128Enc, Aes256Enc};
use cmac::digest::{FixedOutputReset, Update};
use cmac::{Cmac, KeyInit};
use ferrule_base::Secret;
use std::fmt;

/// A key, made ready once: a tag allocates nothing.
pub struct AesCmac(ByLength);

/// Keyed state for either length of key.
#[allow(clippy::large_enum_variant)] // a few for each port
enum ByLength {
    Aes128(Cmac<Aes128Enc>),
    Aes256(Cmac<Aes256Enc>),
}

fn tag_with(mac: &mut (impl Update + FixedOutputReset), parts: &[&[u8]]) -> [u8; AesCmac::LEN] {
    parts.iter().for_each(|part| mac.update(part));
    let mut tag = [0; AesCmac::LEN];
    tag.copy_from_slice(&mac.finalize_fixed_reset());
    tag
}

impl AesCmac {
    /// Octets of a tag.
    pub const LEN: usize = 16;

    /// A key of 16 or 32 octets; of any other length nothing.
    pub fn new(key: &Secret) -> Option<Self> {
        let octets = key.expose();
        Some(Self(match octets.len() {
            16 => ByLength::Aes128(Cmac::new_from_slice(octets).ok()?),
            32 => ByLength::Aes256(Cmac::new_from_slice(octets).ok()?),
            _ => return None,
        }))
    }

    /// The tag of these octets, one part behind the other.
    pub fn tag(&mut self, parts: &[&[u8]]) -> [u8; Self::LEN] {
        match &mut self.0 {
            ByLength::Aes128(mac) => tag_with(mac, parts),
            ByLength::Aes256(mac) => tag_with(mac, parts),
        }
    }

    /// True if this is the tag of a text. (In constant time.)
    pub fn is_tag(&mut self, text: &[u8], tag: &[u8]) -> bool {
        let own = self.tag(&[text]);
        tag.len() == own.len() && own.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

impl fmt::Debug for AesCmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesCmac")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::from_hex(text).unwrap()
    }

    /// RFC 4493 section 4, and NIST SP 800-38B of AES-256. One key makes many tags.
    #[test]
    fn cmac_is_that_of_the_standards() {
        let text = secret("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51");
        let mut mac = AesCmac::new(&secret("2b7e151628aed2a6abf7158809cf4f3c")).unwrap();
        for (octets, tag) in
            [(0, "bb1d6929e95937287fa37d129b756746"), (16, "070a16b46b4d4144f79bdd9dd04a287c")]
        {
            let (text, tag) = (&text.expose()[..octets], secret(tag));
            assert_eq!(mac.tag(&[text]), tag.expose());
            assert!(mac.is_tag(text, tag.expose()) && !mac.is_tag(text, &tag.expose()[..15]));
            for bit in 0..128 {
                let mut wrong = tag.expose().to_vec();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!mac.is_tag(text, &wrong), "{bit}");
            }
        }
        let key = secret("603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4");
        let tag = secret("28a7023f452e8f82bd4bf28d8c37c35c");
        let mut mac = AesCmac::new(&key).unwrap();
        assert_eq!(mac.tag(&[&text.expose()[..9], &text.expose()[9..16]]), tag.expose());
        assert!(AesCmac::new(&secret("00")).is_none());
    }
}
