//! What each algorithm adds to an ESP packet or a MACsec frame: two tables.
//!
//! ESP separates the cipher from the integrity algorithm unless the cipher is combined-mode
//! (RFC 4303 section 3.2.3); only sizes matter here, so an algorithm is a row of sizes and the
//! section that sets them.

use crate::error::StackError;
use std::fmt;

/// A cipher as ESP uses it.
#[derive(Debug, PartialEq, Eq)]
pub struct EspCipher {
    /// The word of the grammar.
    pub name: &'static str,
    /// Octets of initialization vector that each packet carries.
    pub iv: usize,
    /// The ciphertext is a multiple of this many octets (at least 4, RFC 4303 section 2.4).
    pub block: usize,
    /// Octets of check value that a combined-mode cipher makes; 0: it needs an integrity algorithm.
    pub icv: usize,
    /// Whether the packet's content is hidden, or only authenticated.
    pub hides: bool,
    /// Where the IV is specified.
    pub iv_rule: &'static str,
    /// Where a combined-mode cipher's check value is specified.
    pub icv_rule: &'static str,
}

/// An integrity algorithm beside a cipher.
#[derive(Debug, PartialEq, Eq)]
pub struct EspIntegrity {
    /// The word of the grammar.
    pub name: &'static str,
    /// Octets of check value.
    pub icv: usize,
    /// Where it is specified.
    pub rule: &'static str,
}

/// A combined-mode row: content hidden, 16 octets of check value, 4-octet alignment.
const fn aead(name: &'static str, iv: usize, rules: [&'static str; 2]) -> EspCipher {
    let [iv_rule, icv_rule] = rules;
    EspCipher { name, iv, block: 4, icv: 16, hides: true, iv_rule, icv_rule }
}

/// A row that needs an integrity algorithm beside it.
const fn plain(name: &'static str, iv: usize, block: usize, iv_rule: &'static str) -> EspCipher {
    EspCipher { name, iv, block, icv: 0, hides: true, iv_rule, icv_rule: "" }
}

const GCM: [&str; 2] = ["RFC 4106 §3.1", "RFC 4106 §6"];
const GCM_IIV: [&str; 2] = ["RFC 8750 §4", "RFC 4106 §6"];
const GMAC: [&str; 2] = ["RFC 4543 §3", "RFC 4543 §3"];
const CHACHA: [&str; 2] = ["RFC 7634 §2", "RFC 7634 §2"];
const CHACHA_IIV: [&str; 2] = ["RFC 8750 §4", "RFC 7634 §2"];

/// Every ESP cipher that the grammar knows.
pub static ESP_CIPHERS: &[EspCipher] = &[
    aead("aes-gcm-128", 8, GCM),
    aead("aes-gcm-192", 8, GCM),
    aead("aes-gcm-256", 8, GCM),
    aead("aes-gcm-128-iiv", 0, GCM_IIV),
    aead("aes-gcm-192-iiv", 0, GCM_IIV),
    aead("aes-gcm-256-iiv", 0, GCM_IIV),
    aead("chacha20-poly1305", 8, CHACHA),
    aead("chacha20-poly1305-iiv", 0, CHACHA_IIV),
    plain("aes-cbc-128", 16, 16, "RFC 3602 §3"),
    plain("aes-cbc-192", 16, 16, "RFC 3602 §3"),
    plain("aes-cbc-256", 16, 16, "RFC 3602 §3"),
    plain("aes-ctr-128", 8, 4, "RFC 3686 §3.1"),
    plain("aes-ctr-192", 8, 4, "RFC 3686 §3.1"),
    plain("aes-ctr-256", 8, 4, "RFC 3686 §3.1"),
    plain("aes-ctr-128-study", 8, 4, "as the study has it"),
    plain("des-cbc", 8, 8, "RFC 2405 §3"),
    plain("3des-cbc", 8, 8, "RFC 2451 §2.1"),
    EspCipher { hides: false, ..plain("null", 0, 4, "RFC 2410 §2") },
    EspCipher { hides: false, ..aead("aes-gmac-128", 8, GMAC) },
    EspCipher { hides: false, ..aead("aes-gmac-192", 8, GMAC) },
    EspCipher { hides: false, ..aead("aes-gmac-256", 8, GMAC) },
];

/// Every ESP integrity algorithm that the grammar knows.
pub static ESP_INTEGRITIES: &[EspIntegrity] = &[
    EspIntegrity { name: "hmac-md5-96", icv: 12, rule: "RFC 2403 §2" },
    EspIntegrity { name: "hmac-sha1-96", icv: 12, rule: "RFC 2404 §2" },
    EspIntegrity { name: "hmac-sha256-128", icv: 16, rule: "RFC 4868 §2.3" },
    EspIntegrity { name: "hmac-sha384-192", icv: 24, rule: "RFC 4868 §2.3" },
    EspIntegrity { name: "hmac-sha512-256", icv: 32, rule: "RFC 4868 §2.3" },
];

/// A cipher with the integrity algorithm it needs: what an ESP SA uses.
///
/// Only valid pairs exist: a combined-mode cipher alone, any other with an integrity algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspSuite {
    cipher: &'static EspCipher,
    integrity: Option<&'static EspIntegrity>,
}

impl EspSuite {
    /// Pairs a cipher with an integrity algorithm, if the pair is one that ESP allows.
    pub fn new(
        cipher: &'static EspCipher,
        integrity: Option<&'static EspIntegrity>,
    ) -> Result<Self, StackError> {
        match (cipher.icv, integrity) {
            (0, None) => Err(StackError::new(format!(
                "`{}` does not authenticate: ESP needs an integrity algorithm beside it",
                cipher.name
            ))
            .with_help("add `hmac-sha256-128`, or `hmac-sha1-96` as the study has it")),
            (1.., Some(integrity)) => Err(StackError::new(format!(
                "`{}` authenticates by itself and takes no `{}`",
                cipher.name, integrity.name
            ))
            .with_help(format!("leave `{}` out", integrity.name))),
            _ => Ok(Self { cipher, integrity }),
        }
    }

    /// Looks a suite up by the grammar's words: `("aes-cbc-128", Some("hmac-sha1-96"))`.
    pub fn by_name(cipher: &str, integrity: Option<&str>) -> Result<Self, StackError> {
        let found = ESP_CIPHERS.iter().find(|row| row.name == cipher).ok_or_else(|| {
            let names = ESP_CIPHERS.iter().map(|row| row.name);
            StackError::unknown("ESP cipher", cipher, names)
        })?;
        let beside = integrity.map(|name| {
            ESP_INTEGRITIES.iter().find(|row| row.name == name).ok_or_else(|| {
                let names = ESP_INTEGRITIES.iter().map(|row| row.name);
                StackError::unknown("ESP integrity algorithm", name, names)
            })
        });
        Self::new(found, beside.transpose()?)
    }

    /// The cipher.
    pub fn cipher(&self) -> &'static EspCipher {
        self.cipher
    }

    /// Octets of initialization vector in each packet.
    pub fn iv_len(&self) -> usize {
        self.cipher.iv
    }

    /// Octets of check value in each packet.
    pub fn icv_len(&self) -> usize {
        self.integrity.map_or(self.cipher.icv, |row| row.icv)
    }

    /// Where the check value is specified.
    pub fn icv_rule(&self) -> &'static str {
        self.integrity.map_or(self.cipher.icv_rule, |row| row.rule)
    }

    /// Octets of padding behind `content` octets, so that with the two octets of pad length and
    /// next header the whole is a multiple of the block and of 4 (RFC 4303 section 2.4).
    pub fn padding(&self, content: usize) -> usize {
        (content + 2).next_multiple_of(self.cipher.block) - (content + 2)
    }
}

impl fmt::Display for EspSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cipher.name)?;
        self.integrity.map_or(Ok(()), |row| write!(f, " {}", row.name))
    }
}

/// A MACsec cipher suite (802.1AE clause 14): all of them have a check value of 16 octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MacsecCipher {
    /// GCM-AES-128, the default (clause 14.5).
    #[default]
    GcmAes128,
    /// GCM-AES-256 (clause 14.6).
    GcmAes256,
    /// GCM-AES-XPN-128, 64-bit packet numbers of which 32 are on the wire (clause 14.7).
    GcmAesXpn128,
    /// GCM-AES-XPN-256 (clause 14.8).
    GcmAesXpn256,
}

impl MacsecCipher {
    /// All of them, in the order of the standard.
    pub const ALL: [Self; 4] =
        [Self::GcmAes128, Self::GcmAes256, Self::GcmAesXpn128, Self::GcmAesXpn256];

    /// The word of the grammar.
    pub fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::GcmAesXpn128 => "gcm-aes-xpn-128",
            Self::GcmAesXpn256 => "gcm-aes-xpn-256",
        }
    }

    /// Whether packet numbers have 64 bits.
    pub fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }
}
