//! The cipher suites and their sizes.

use std::fmt;

/// Key length of AES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aes {
    /// AES-128.
    Aes128,
    /// AES-256.
    Aes256,
}

impl Aes {
    /// Octets of key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }
}

/// Keyed hashes, truncated as ESP uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mac {
    /// HMAC-SHA1-96 (RFC 2404).
    HmacSha1_96,
    /// HMAC-SHA256-128 (RFC 4868).
    HmacSha256_128,
}

impl Mac {
    /// Octets of key: the hash's own length (RFC 2404 section 3, RFC 4868 section 2.1.1).
    pub const fn key_len(self) -> usize {
        match self {
            Self::HmacSha1_96 => 20,
            Self::HmacSha256_128 => 32,
        }
    }

    /// Octets of ICV.
    pub const fn icv_len(self) -> usize {
        match self {
            Self::HmacSha1_96 => 12,
            Self::HmacSha256_128 => 16,
        }
    }
}

/// What protects a packet: one AEAD, or a cipher with a keyed hash over the
/// ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-GCM with a 16-octet ICV (RFC 4106, 802.1AE clause 14).
    AesGcm(Aes),
    /// AES-GCM in ESP with an implicit IV: the sequence number is the IV, and does
    /// not travel (RFC 8750).
    AesGcmIiv(Aes),
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-CBC, then HMAC over the ciphertext (RFC 3602, 2404, 4868).
    AesCbc(Aes, Mac),
    /// AES-CTR whose counter runs on through the SA, then HMAC over the
    /// ciphertext: a study's, not RFC 3686's. Only engines with keys on a token
    /// have it, and only in a laboratory.
    AesCtr(Aes, Mac),
}

impl Suite {
    /// Every suite that software has.
    pub const ALL: [Self; 9] = [
        Self::AesGcm(Aes::Aes128),
        Self::AesGcm(Aes::Aes256),
        Self::ChaCha20Poly1305,
        Self::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        Self::AesCbc(Aes::Aes256, Mac::HmacSha1_96),
        Self::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
        Self::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
        Self::AesGcmIiv(Aes::Aes128),
        Self::AesGcmIiv(Aes::Aes256),
    ];

    /// The suites of a study, for keys on a token in a laboratory.
    pub const STUDY: [Self; 2] = [
        Self::AesCtr(Aes::Aes128, Mac::HmacSha1_96),
        Self::AesCtr(Aes::Aes128, Mac::HmacSha256_128),
    ];

    /// The same cipher as it is outside ESP, where nobody asks how an IV travels.
    pub const fn cipher(self) -> Self {
        match self {
            Self::AesGcmIiv(aes) => Self::AesGcm(aes),
            other => other,
        }
    }

    /// Octets of cipher key, without salt.
    pub const fn key_len(self) -> usize {
        match self {
            Self::AesGcm(aes)
            | Self::AesGcmIiv(aes)
            | Self::AesCbc(aes, _)
            | Self::AesCtr(aes, _) => aes.key_len(),
            Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Octets of integrity key; none for an AEAD.
    pub const fn mac_key_len(self) -> usize {
        match self {
            Self::AesCbc(_, mac) | Self::AesCtr(_, mac) => mac.key_len(),
            _ => 0,
        }
    }

    /// Octets of ICV.
    pub const fn icv_len(self) -> usize {
        match self {
            Self::AesCbc(_, mac) | Self::AesCtr(_, mac) => mac.icv_len(),
            _ => 16,
        }
    }

    /// Octets of salt in ESP's keying material (RFC 4106 section 4, RFC 7634 section 2).
    pub const fn esp_salt_len(self) -> usize {
        match self {
            Self::AesCbc(..) => 0,
            _ => 4,
        }
    }

    /// What the engine writes in front of the text when it seals: CBC's IV, or the
    /// study's counter.
    pub const fn text_has_iv(self) -> bool {
        matches!(self, Self::AesCbc(..) | Self::AesCtr(..))
    }

    /// Octets of explicit IV in an ESP packet.
    pub const fn esp_iv_len(self) -> usize {
        match self {
            Self::AesCbc(..) => 16,
            Self::AesGcmIiv(_) => 0,
            _ => 8,
        }
    }

    /// What ESP pads the plaintext to: the cipher's block, at least 4.
    pub const fn esp_align(self) -> usize {
        match self {
            Self::AesCbc(..) => 16,
            _ => 4,
        }
    }

    /// A repeated nonce under one key breaks it. (CBC only repeats an IV.)
    pub const fn is_counter_mode(self) -> bool {
        !matches!(self, Self::AesCbc(..))
    }

    /// The name in configurations, `show` and `overhead`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesGcm(Aes::Aes128) => "aes-gcm-128",
            Self::AesGcm(Aes::Aes256) => "aes-gcm-256",
            Self::AesGcmIiv(Aes::Aes128) => "aes-gcm-128-iiv",
            Self::AesGcmIiv(Aes::Aes256) => "aes-gcm-256-iiv",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::AesCbc(Aes::Aes128, Mac::HmacSha1_96) => "aes-cbc-128 hmac-sha1-96",
            Self::AesCbc(Aes::Aes256, Mac::HmacSha1_96) => "aes-cbc-256 hmac-sha1-96",
            Self::AesCbc(Aes::Aes128, Mac::HmacSha256_128) => "aes-cbc-128 hmac-sha256-128",
            Self::AesCbc(Aes::Aes256, Mac::HmacSha256_128) => "aes-cbc-256 hmac-sha256-128",
            Self::AesCtr(Aes::Aes128, Mac::HmacSha1_96) => "aes-ctr-128-study hmac-sha1-96",
            Self::AesCtr(Aes::Aes256, Mac::HmacSha1_96) => "aes-ctr-256-study hmac-sha1-96",
            Self::AesCtr(Aes::Aes128, Mac::HmacSha256_128) => "aes-ctr-128-study hmac-sha256-128",
            Self::AesCtr(Aes::Aes256, Mac::HmacSha256_128) => "aes-ctr-256-study hmac-sha256-128",
        }
    }

    /// The suite of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain(Self::STUDY).find(|s| s.name() == name)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
