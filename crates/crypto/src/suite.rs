//! The cipher suites: protection of a packet, and its sizes.
//!
//! ```text
//!   combined   AES-GCM, ChaCha20-Poly1305          one key; ICV of 16 octets
//!   in pairs   AES-CBC, AES-CTR, DES, 3DES, NULL   a key for the cipher, one for
//!              with HMAC-MD5, -SHA1, -SHA2         the keyed hash; ICV cut short
//!   alone      AES-GMAC, NULL with a keyed hash    integrity, nothing is hidden
//! ```
//!
//! A pair encrypts first and hashes the ciphertext (RFC 4303 section 3.3.2). DES,
//! 3DES and HMAC-MD5 are for studies of old networks: [`Suite::forbidden`].

use std::fmt;

/// Key length of AES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aes {
    /// AES-128.
    Aes128,
    /// AES-192.
    Aes192,
    /// AES-256.
    Aes256,
}

impl Aes {
    /// Every key size, the shortest first.
    pub const ALL: [Self; 3] = [Self::Aes128, Self::Aes192, Self::Aes256];

    /// Octets of key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes192 => 24,
            Self::Aes256 => 32,
        }
    }
}

/// Keyed hashes, truncated as ESP and AH use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mac {
    /// HMAC-MD5-96 (RFC 2403): for studies alone.
    HmacMd5_96,
    /// HMAC-SHA1-96 (RFC 2404).
    HmacSha1_96,
    /// HMAC-SHA256-128 (RFC 4868).
    HmacSha256_128,
    /// HMAC-SHA384-192 (RFC 4868).
    HmacSha384_192,
    /// HMAC-SHA512-256 (RFC 4868).
    HmacSha512_256,
}

impl Mac {
    /// Every algorithm.
    pub const ALL: [Self; 5] = [
        Self::HmacMd5_96,
        Self::HmacSha1_96,
        Self::HmacSha256_128,
        Self::HmacSha384_192,
        Self::HmacSha512_256,
    ];

    /// Octets of key: the hash's own length (RFC 2403 and RFC 2404 section 3, RFC 4868
    /// section 2.1.1).
    pub const fn key_len(self) -> usize {
        match self {
            Self::HmacMd5_96 => 16,
            Self::HmacSha1_96 => 20,
            Self::HmacSha256_128 => 32,
            Self::HmacSha384_192 => 48,
            Self::HmacSha512_256 => 64,
        }
    }

    /// Octets of ICV.
    pub const fn icv_len(self) -> usize {
        match self {
            Self::HmacMd5_96 | Self::HmacSha1_96 => 12,
            Self::HmacSha256_128 => 16,
            Self::HmacSha384_192 => 24,
            Self::HmacSha512_256 => 32,
        }
    }

    /// The name in configurations, `show` and `overhead`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HmacMd5_96 => "hmac-md5-96",
            Self::HmacSha1_96 => "hmac-sha1-96",
            Self::HmacSha256_128 => "hmac-sha256-128",
            Self::HmacSha384_192 => "hmac-sha384-192",
            Self::HmacSha512_256 => "hmac-sha512-256",
        }
    }
}

/// Protection of a packet: one AEAD, or a cipher with a keyed hash over the ciphertext, or
/// integrity alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-GCM with a 16-octet ICV (RFC 4106, 802.1AE clause 14).
    AesGcm(Aes),
    /// AES-GCM in ESP with an implicit IV: the sequence number is the IV, and does
    /// not travel (RFC 8750).
    AesGcmIiv(Aes),
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// The same with an implicit IV (RFC 8750).
    ChaCha20Poly1305Iiv,
    /// AES-GMAC: integrity alone, with a nonce (RFC 4543).
    AesGmac(Aes),
    /// AES-CBC, then HMAC over the ciphertext (RFC 3602, 2404, 4868).
    AesCbc(Aes, Mac),
    /// AES in counter mode, then HMAC over IV and ciphertext (RFC 3686).
    AesCtr(Aes, Mac),
    /// Integrity alone by a keyed hash: ESP with the NULL cipher (RFC 2410), or AH.
    Null(Mac),
    /// DES-CBC (RFC 2405), for studies alone.
    DesCbc(Mac),
    /// Triple DES in CBC mode with three keys (RFC 2451), for studies alone.
    TripleDesCbc(Mac),
    /// AES-CTR whose counter runs on through the SA, then HMAC over the
    /// ciphertext: a study's, not RFC 3686's. Only engines with keys on a token
    /// have it, and only in a laboratory.
    AesCtrStudy(Aes, Mac),
}

/// One static text for a cipher and whichever hash is beside it.
macro_rules! beside {
    ($cipher:literal, $mac:expr) => {
        match $mac {
            Mac::HmacMd5_96 => concat!($cipher, " hmac-md5-96"),
            Mac::HmacSha1_96 => concat!($cipher, " hmac-sha1-96"),
            Mac::HmacSha256_128 => concat!($cipher, " hmac-sha256-128"),
            Mac::HmacSha384_192 => concat!($cipher, " hmac-sha384-192"),
            Mac::HmacSha512_256 => concat!($cipher, " hmac-sha512-256"),
        }
    };
}

impl Suite {
    /// Every suite that software has and that may be used.
    pub const ALL: [Self; 39] = which(false);

    /// Suites that software has for studies in a laboratory: with an algorithm
    /// that is [forbidden](Self::forbidden) elsewhere.
    pub const OLD: [Self; 17] = which(true);

    /// The suites of a study, for keys on a token in a laboratory.
    pub const STUDY: [Self; 2] = [
        Self::AesCtrStudy(Aes::Aes128, Mac::HmacSha1_96),
        Self::AesCtrStudy(Aes::Aes128, Mac::HmacSha256_128),
    ];

    /// Every suite that software has.
    pub fn software() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::OLD)
    }

    /// The same cipher as it is outside ESP, where the transport of the IV makes no
    /// difference.
    pub const fn cipher(self) -> Self {
        match self {
            Self::AesGcmIiv(aes) => Self::AesGcm(aes),
            Self::ChaCha20Poly1305Iiv => Self::ChaCha20Poly1305,
            other => other,
        }
    }

    /// The keyed hash beside the cipher, or alone.
    pub const fn mac(self) -> Option<Mac> {
        match self {
            Self::AesCbc(_, mac)
            | Self::AesCtr(_, mac)
            | Self::AesCtrStudy(_, mac)
            | Self::Null(mac)
            | Self::DesCbc(mac)
            | Self::TripleDesCbc(mac) => Some(mac),
            _ => None,
        }
    }

    /// Octets of cipher key, without salt.
    pub const fn key_len(self) -> usize {
        match self {
            Self::AesGcm(aes)
            | Self::AesGcmIiv(aes)
            | Self::AesGmac(aes)
            | Self::AesCbc(aes, _)
            | Self::AesCtr(aes, _)
            | Self::AesCtrStudy(aes, _) => aes.key_len(),
            Self::ChaCha20Poly1305 | Self::ChaCha20Poly1305Iiv => 32,
            Self::Null(_) => 0,
            Self::DesCbc(_) => 8,
            Self::TripleDesCbc(_) => 24,
        }
    }

    /// Octets of integrity key; none for an AEAD.
    pub const fn mac_key_len(self) -> usize {
        match self.mac() {
            Some(mac) => mac.key_len(),
            None => 0,
        }
    }

    /// Octets of ICV.
    pub const fn icv_len(self) -> usize {
        match self.mac() {
            Some(mac) => mac.icv_len(),
            None => 16,
        }
    }

    /// Octets of salt in ESP's keying material (RFC 4106 section 4, RFC 7634 section 2,
    /// RFC 3686 section 4, RFC 4543 section 3.2).
    pub const fn esp_salt_len(self) -> usize {
        if self.is_counter_mode() { 4 } else { 0 }
    }

    /// True if the engine writes an IV in front of the text when it seals: CBC's, or the
    /// study's counter.
    pub const fn text_has_iv(self) -> bool {
        matches!(
            self,
            Self::AesCbc(..) | Self::DesCbc(_) | Self::TripleDesCbc(_) | Self::AesCtrStudy(..)
        )
    }

    /// Octets of explicit IV in an ESP packet.
    pub const fn esp_iv_len(self) -> usize {
        match self {
            Self::AesCbc(..) => 16,
            Self::AesGcmIiv(_) | Self::ChaCha20Poly1305Iiv | Self::Null(_) => 0,
            _ => 8,
        }
    }

    /// Multiple to which ESP pads the plaintext: the cipher's block, at least 4.
    pub const fn esp_align(self) -> usize {
        match self {
            Self::AesCbc(..) => 16,
            Self::DesCbc(_) | Self::TripleDesCbc(_) => 8,
            _ => 4,
        }
    }

    /// A repeated nonce under one key breaks it. (CBC only repeats an IV, and a
    /// keyed hash has none.)
    pub const fn is_counter_mode(self) -> bool {
        match self {
            Self::AesGcm(_)
            | Self::AesGcmIiv(_)
            | Self::ChaCha20Poly1305
            | Self::ChaCha20Poly1305Iiv
            | Self::AesGmac(_)
            | Self::AesCtr(..)
            | Self::AesCtrStudy(..) => true,
            Self::AesCbc(..) | Self::Null(_) | Self::DesCbc(_) | Self::TripleDesCbc(_) => false,
        }
    }

    /// One key encrypts and authenticates; ICV and text stand apart from the
    /// additional data.
    pub const fn is_aead(self) -> bool {
        self.mac().is_none() && !matches!(self, Self::AesGmac(_))
    }

    /// Nothing is encrypted: a job has everything under its additional data and an empty
    /// text. AH allows these suites alone.
    pub const fn is_integrity(self) -> bool {
        matches!(self, Self::Null(_) | Self::AesGmac(_))
    }

    /// The algorithm in it that is not to be used outside a laboratory (RFC 8221
    /// sections 5 and 6), by its name.
    pub const fn forbidden(self) -> Option<&'static str> {
        match self {
            Self::DesCbc(_) => Some("des-cbc"),
            Self::TripleDesCbc(_) => Some("3des-cbc"),
            _ => match self.mac() {
                Some(Mac::HmacMd5_96) => Some(Mac::HmacMd5_96.name()),
                _ => None,
            },
        }
    }

    /// The name in configurations, `show` and `overhead`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesGcm(Aes::Aes128) => "aes-gcm-128",
            Self::AesGcm(Aes::Aes192) => "aes-gcm-192",
            Self::AesGcm(Aes::Aes256) => "aes-gcm-256",
            Self::AesGcmIiv(Aes::Aes128) => "aes-gcm-128-iiv",
            Self::AesGcmIiv(Aes::Aes192) => "aes-gcm-192-iiv",
            Self::AesGcmIiv(Aes::Aes256) => "aes-gcm-256-iiv",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::ChaCha20Poly1305Iiv => "chacha20-poly1305-iiv",
            Self::AesGmac(Aes::Aes128) => "aes-gmac-128",
            Self::AesGmac(Aes::Aes192) => "aes-gmac-192",
            Self::AesGmac(Aes::Aes256) => "aes-gmac-256",
            Self::AesCbc(Aes::Aes128, mac) => beside!("aes-cbc-128", mac),
            Self::AesCbc(Aes::Aes192, mac) => beside!("aes-cbc-192", mac),
            Self::AesCbc(Aes::Aes256, mac) => beside!("aes-cbc-256", mac),
            Self::AesCtr(Aes::Aes128, mac) => beside!("aes-ctr-128", mac),
            Self::AesCtr(Aes::Aes192, mac) => beside!("aes-ctr-192", mac),
            Self::AesCtr(Aes::Aes256, mac) => beside!("aes-ctr-256", mac),
            Self::Null(mac) => beside!("null", mac),
            Self::DesCbc(mac) => beside!("des-cbc", mac),
            Self::TripleDesCbc(mac) => beside!("3des-cbc", mac),
            Self::AesCtrStudy(Aes::Aes128, mac) => beside!("aes-ctr-128-study", mac),
            Self::AesCtrStudy(Aes::Aes192, mac) => beside!("aes-ctr-192-study", mac),
            Self::AesCtrStudy(Aes::Aes256, mac) => beside!("aes-ctr-256-study", mac),
        }
    }

    /// The name where only integrity is asked for, as in AH: there a keyed hash
    /// needs no cipher beside it.
    pub const fn ah_name(self) -> Option<&'static str> {
        match self {
            Self::Null(mac) => Some(mac.name()),
            Self::AesGmac(_) => Some(self.name()),
            _ => None,
        }
    }

    /// The suite of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::software().chain(Self::STUDY).find(|s| s.name() == name)
    }
}

/// Number of suites that software implements.
const SOFTWARE: usize = 56;

/// Every suite that software has: those with one key, then each cipher beside each
/// keyed hash.
const fn every() -> [Suite; SOFTWARE] {
    use Suite::{AesCbc, AesCtr, AesGcm, AesGcmIiv, AesGmac, DesCbc, Null, TripleDesCbc};
    let mut all = [Suite::ChaCha20Poly1305; SOFTWARE];
    let (mut at, mut i) = (0, 0);
    while i < Aes::ALL.len() {
        let aes = Aes::ALL[i];
        [all[at], all[at + 1], all[at + 2]] = [AesGcm(aes), AesGcmIiv(aes), AesGmac(aes)];
        (at, i) = (at + 3, i + 1);
    }
    // One of the two stands there already.
    all[at + 1] = Suite::ChaCha20Poly1305Iiv;
    (at, i) = (at + 2, 0);
    while i < Mac::ALL.len() {
        let (mac, [a, b, c]) = (Mac::ALL[i], Aes::ALL);
        let cbc = [AesCbc(a, mac), AesCbc(b, mac), AesCbc(c, mac)];
        let ctr = [AesCtr(a, mac), AesCtr(b, mac), AesCtr(c, mac)];
        let other = [Null(mac), DesCbc(mac), TripleDesCbc(mac)];
        let mut j = 0;
        while j < 3 {
            [all[at + j], all[at + 3 + j], all[at + 6 + j]] = [cbc[j], ctr[j], other[j]];
            j += 1;
        }
        (at, i) = (at + 9, i + 1);
    }
    assert!(at == SOFTWARE);
    all
}

/// The suites with a forbidden algorithm, or those without one.
const fn which<const N: usize>(forbidden: bool) -> [Suite; N] {
    let all = every();
    let (mut some, mut count, mut i) = ([all[0]; N], 0, 0);
    while i < SOFTWARE {
        if all[i].forbidden().is_some() == forbidden {
            some[count] = all[i];
            count += 1;
        }
        i += 1;
    }
    assert!(count == N);
    some
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
