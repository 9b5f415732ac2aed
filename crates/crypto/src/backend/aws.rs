//! aws-lc-rs: the fastest code that there is for one packet at a time.
//!
//! An AEAD's context lives on the library's heap, which wipes what it frees.
//! Nothing is allocated per packet.

use super::parts;
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::suite::{Aes, Mac, Suite};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::{constant_time, hmac, iv::FixedLength};

/// A key of any suite.
pub enum Key {
    Aead(LessSafeKey),
    Cbc(Box<CbcHmac>),
}

impl Key {
    /// Expands the key.
    pub fn new(spec: &KeySpec) -> Result<Self, InstallError> {
        let algorithm = match spec.suite {
            Suite::AesGcm(Aes::Aes128) => &AES_128_GCM,
            Suite::AesGcm(Aes::Aes256) => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::AesCbc(aes, mac) => {
                return CbcHmac::new(aes, mac, spec)
                    .map(Box::new)
                    .map(Self::Cbc)
                    .ok_or(InstallError::Unsupported(spec.suite));
            }
        };
        match UnboundKey::new(algorithm, spec.key.expose()) {
            Ok(key) => Ok(Self::Aead(LessSafeKey::new(key))),
            Err(_) => Err(InstallError::Unsupported(spec.suite)),
        }
    }

    /// Seals or opens in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            Self::Aead(key) => aead(key, op, nonce, ad, text, buf),
            Self::Cbc(key) => key.run(op, nonce, ad, text, buf),
        }
    }

    /// Octets on the heap: the library's own context is 0x250 octets.
    pub fn heap_len(&self) -> usize {
        match self {
            Self::Aead(_) => 600,
            Self::Cbc(key) => size_of_val(&**key),
        }
    }
}

#[inline(always)]
fn aead(
    key: &LessSafeKey,
    op: Op,
    nonce: &[u8; 12],
    ad: Ad,
    text: Span,
    buf: &mut [u8],
) -> Verdict {
    let Some(parts) = parts::Aead::cut(buf, &ad, text) else { return Verdict::Failed };
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let ad = Aad::from(parts.ad);
    match op {
        Op::Seal => match key.seal_in_place_scatter(nonce, ad, parts.text, &[], parts.icv) {
            Ok(()) => Verdict::Done,
            Err(_) => Verdict::Failed,
        },
        // Decrypts while it authenticates; what is not authentic is zeroed.
        Op::Open => match key.open_in_place_separate_tag(nonce, ad, parts.icv, parts.text) {
            Ok(_) => Verdict::Done,
            Err(_) => Verdict::BadIcv,
        },
    }
}

pub struct CbcHmac {
    enc: EncryptingKey,
    dec: DecryptingKey,
    icv: usize,
    mac: hmac::Key,
}

impl CbcHmac {
    fn new(aes: Aes, mac: Mac, spec: &KeySpec) -> Option<Self> {
        let alg = match aes {
            Aes::Aes128 => &AES_128,
            Aes::Aes256 => &AES_256,
        };
        let k = || UnboundCipherKey::new(alg, spec.key.expose()).ok();
        Some(Self {
            enc: EncryptingKey::cbc(k()?).ok()?,
            dec: DecryptingKey::cbc(k()?).ok()?,
            icv: mac.icv_len(),
            mac: hmac::Key::new(
                match mac {
                    Mac::HmacSha1_96 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                    _ => hmac::HMAC_SHA256,
                },
                spec.mac_key.expose(),
            ),
        })
    }
    fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        let Some(p) = parts::Cbc::cut(buf, &ad, text, self.icv) else { return Verdict::Failed };
        if op == Op::Seal {
            p.body[p.text..p.text + 16].copy_from_slice(&parts::nonce_block(nonce));
            if self
                .enc
                .less_safe_encrypt(
                    &mut p.body[p.text..],
                    EncryptionContext::Iv128(FixedLength::from([0; 16])),
                )
                .is_err()
            {
                return Verdict::Failed;
            }
        }
        let mut c = hmac::Context::with_key(&self.mac);
        for x in [p.before, &*p.body, p.after] {
            if !x.is_empty() {
                c.update(x);
            }
        }
        let tag = c.sign();
        let tag = &tag.as_ref()[..self.icv];
        match op {
            Op::Seal => p.icv.copy_from_slice(tag),
            Op::Open => {
                if constant_time::verify_slices_are_equal(tag, p.icv).is_err() {
                    return Verdict::BadIcv;
                }
                let (iv, rest) = p.body[p.text..].split_first_chunk_mut::<16>().unwrap();
                if self.dec.decrypt(rest, DecryptionContext::Iv128(FixedLength::from(*iv))).is_err()
                {
                    return Verdict::Failed;
                }
            }
        }
        Verdict::Done
    }
}
