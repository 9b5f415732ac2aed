//! The suites that the grammar offers, and where the standards set what each adds to a packet.
//!
//! Names and sizes are [`Suite`]'s: the calculator adds the order and the sections.

use ferrule_crypto::{Aes, Mac, Suite};

/// Each cipher of ESP, with `mac` beside those that do not authenticate (RFC 4303 section
/// 3.2.3).
pub fn esp_ciphers(mac: Mac) -> Vec<Suite> {
    let study = Suite::AesCtrStudy(Aes::Aes128, mac);
    [
        &Aes::ALL.map(Suite::AesGcm)[..],
        &Aes::ALL.map(Suite::AesGcmIiv),
        &[Suite::ChaCha20Poly1305, Suite::ChaCha20Poly1305Iiv],
        &Aes::ALL.map(|aes| Suite::AesCbc(aes, mac)),
        &Aes::ALL.map(|aes| Suite::AesCtr(aes, mac)),
        &[study, Suite::DesCbc(mac), Suite::TripleDesCbc(mac), Suite::Null(mac)],
        &Aes::ALL.map(Suite::AesGmac),
    ]
    .concat()
}

/// The word for the cipher of a suite of ESP.
pub fn cipher_name(suite: Suite) -> &'static str {
    let name = suite.name();
    name.split_once(' ').map_or(name, |(cipher, _)| cipher)
}

/// Every suite of ESP, by cipher.
pub fn esp_suites() -> impl Iterator<Item = Suite> {
    let beside = Mac::ALL.map(esp_ciphers);
    (0..beside[0].len()).flat_map(move |at| {
        let mut suites = beside.each_ref().map(|ciphers| ciphers[at]).to_vec();
        suites.dedup();
        suites
    })
}

/// Every suite of AH, with its word: a keyed hash, or AES-GMAC.
pub fn ah_suites() -> impl Iterator<Item = (&'static str, Suite)> {
    let suites = Mac::ALL.map(Suite::Null).into_iter().chain(Aes::ALL.map(Suite::AesGmac));
    suites.filter_map(|suite| Some((suite.ah_name()?, suite)))
}

/// Sections that specify the IV of a suite, and its check value.
pub(crate) fn rules(suite: Suite) -> (&'static str, &'static str) {
    match suite {
        Suite::AesGcm(_) => ("RFC 4106 §3.1", "RFC 4106 §6"),
        Suite::AesGcmIiv(_) => ("RFC 8750 §4", "RFC 4106 §6"),
        Suite::ChaCha20Poly1305 => ("RFC 7634 §2", "RFC 7634 §2"),
        Suite::ChaCha20Poly1305Iiv => ("RFC 8750 §4", "RFC 7634 §2"),
        Suite::AesGmac(_) => ("RFC 4543 §3", "RFC 4543 §3"),
        Suite::AesCbc(_, mac) => ("RFC 3602 §3", mac_rule(mac)),
        Suite::AesCtr(_, mac) => ("RFC 3686 §3.1", mac_rule(mac)),
        Suite::AesCtrStudy(_, mac) => ("as the study has it", mac_rule(mac)),
        Suite::DesCbc(mac) => ("RFC 2405 §3", mac_rule(mac)),
        Suite::TripleDesCbc(mac) => ("RFC 2451 §2.1", mac_rule(mac)),
        Suite::Null(mac) => ("RFC 2410 §2", mac_rule(mac)),
    }
}

fn mac_rule(mac: Mac) -> &'static str {
    match mac {
        Mac::HmacMd5_96 => "RFC 2403 §2",
        Mac::HmacSha1_96 => "RFC 2404 §2",
        Mac::HmacSha256_128 | Mac::HmacSha384_192 | Mac::HmacSha512_256 => "RFC 4868 §2.3",
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
    /// Every cipher, in the order of the standard.
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

    /// True if packet numbers have 64 bits.
    pub fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }
}
