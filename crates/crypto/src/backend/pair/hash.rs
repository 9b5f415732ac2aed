//! Keyed hashes: HMAC (RFC 2104), cut as RFC 2403, RFC 2404 and RFC 4868 say.

use crate::suite::Mac;
use hmac::{Hmac, KeyInit};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

/// The hash states after the padded key; each packet starts from a copy.
pub(super) enum Keyed {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

impl Keyed {
    pub fn new(mac: Mac, key: &[u8]) -> Option<Self> {
        match mac {
            Mac::HmacMd5_96 => Hmac::new_from_slice(key).ok().map(Self::Md5),
            Mac::HmacSha1_96 => Hmac::new_from_slice(key).ok().map(Self::Sha1),
            Mac::HmacSha256_128 => Hmac::new_from_slice(key).ok().map(Self::Sha256),
            Mac::HmacSha384_192 => Hmac::new_from_slice(key).ok().map(Self::Sha384),
            Mac::HmacSha512_256 => Hmac::new_from_slice(key).ok().map(Self::Sha512),
        }
    }

    pub const fn icv_len(&self) -> usize {
        match self {
            Self::Md5(_) => Mac::HmacMd5_96.icv_len(),
            Self::Sha1(_) => Mac::HmacSha1_96.icv_len(),
            Self::Sha256(_) => Mac::HmacSha256_128.icv_len(),
            Self::Sha384(_) => Mac::HmacSha384_192.icv_len(),
            Self::Sha512(_) => Mac::HmacSha512_256.icv_len(),
        }
    }

    /// Writes the ICV of the pieces, one behind the other.
    pub fn write(&self, pieces: [&[u8]; 3], icv: &mut [u8]) {
        match self {
            Self::Md5(mac) => write(mac.clone(), pieces, icv),
            Self::Sha1(mac) => write(mac.clone(), pieces, icv),
            Self::Sha256(mac) => write(mac.clone(), pieces, icv),
            Self::Sha384(mac) => write(mac.clone(), pieces, icv),
            Self::Sha512(mac) => write(mac.clone(), pieces, icv),
        }
    }

    /// True if the ICV is that of the pieces; compared in constant time.
    pub fn is_right(&self, pieces: [&[u8]; 3], icv: &[u8]) -> bool {
        match self {
            Self::Md5(mac) => is_right(mac.clone(), pieces, icv),
            Self::Sha1(mac) => is_right(mac.clone(), pieces, icv),
            Self::Sha256(mac) => is_right(mac.clone(), pieces, icv),
            Self::Sha384(mac) => is_right(mac.clone(), pieces, icv),
            Self::Sha512(mac) => is_right(mac.clone(), pieces, icv),
        }
    }
}

fn write<M: hmac::Mac>(mut mac: M, pieces: [&[u8]; 3], icv: &mut [u8]) {
    pieces.into_iter().for_each(|piece| mac.update(piece));
    let full = mac.finalize().into_bytes();
    icv.iter_mut().zip(full).for_each(|(to, from)| *to = from);
}

fn is_right<M: hmac::Mac>(mut mac: M, pieces: [&[u8]; 3], icv: &[u8]) -> bool {
    pieces.into_iter().for_each(|piece| mac.update(piece));
    mac.verify_truncated_left(icv).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vectors;

    fn answers(cases: Vec<vectors::Hmac>) {
        for vectors::Hmac { mac, key, data, icv } in cases {
            let keyed = Keyed::new(mac, &key).unwrap();
            let mut got = vec![0; mac.icv_len()];
            keyed.write([&[], &data, &[]], &mut got);
            assert_eq!(got, icv);
            assert!(keyed.is_right([&data, &[], &[]], &icv));
            got[mac.icv_len() - 1] ^= 1;
            assert!(!keyed.is_right([&[], &[], &data], &got));
        }
    }

    #[test]
    fn hmac_md5_96_answers_rfc_2202() {
        answers(vectors::rfc_2202_md5());
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

    #[test]
    fn hmac_sha384_192_answers_rfc_4231_and_rfc_4868() {
        answers(vectors::rfc_4231_sha384());
        answers(vectors::rfc_4868_sha384());
    }

    #[test]
    fn hmac_sha512_256_answers_rfc_4231_and_rfc_4868() {
        answers(vectors::rfc_4231_sha512());
        answers(vectors::rfc_4868_sha512());
    }

    #[test]
    fn every_keyed_hash_wipes_itself() {
        fn wiped<T: zeroize::ZeroizeOnDrop>() {}
        // An HMAC holds two states of its hash.
        wiped::<Md5>();
        wiped::<Sha1>();
        wiped::<Sha256>();
        wiped::<Sha384>();
        wiped::<Sha512>();
    }
}
