//! Key files: fresh randomness as `word hex` lines, readable by their owner alone.

use ferrule_base::Secret;
use ferrule_crypto::{Suite, random};

/// Octets of an XPN suite's salt (802.1AE clause 10.7.8).
const XPN_SALT_LEN: usize = 12;

/// Use of a key, which decides the words in its file, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFor {
    /// One direction of an ESP tunnel.
    Esp(Suite),
    /// A secure association of MACsec.
    Macsec {
        /// Octets of the SAK.
        sak_len: usize,
        /// With the salt of 64-bit packet numbers.
        xpn: bool,
    },
    /// A CAK of MKA, of so many octets.
    Mka(usize),
}

/// Names of CAKs, and their octets.
const CAKS: [(&str, usize); 2] = [("mka-128", 16), ("mka-256", 32)];

/// MACsec's names, as configurations have them: SAK octets, and whether it is XPN.
pub const MACSEC_CIPHERS: [(&str, usize, bool); 4] = [
    ("gcm-aes-128", 16, false),
    ("gcm-aes-256", 32, false),
    ("gcm-aes-xpn-128", 16, true),
    ("gcm-aes-xpn-256", 32, true),
];

impl KeyFor {
    /// By the name of a suite of ESP or of MACsec.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let esp = Suite::from_name(name).map(Self::Esp);
        let macsec = MACSEC_CIPHERS.into_iter().find(|(word, ..)| *word == name);
        let macsec = macsec.map(|(_, sak_len, xpn)| Self::Macsec { sak_len, xpn });
        let cak = CAKS.into_iter().find(|(word, _)| *word == name).map(|(_, len)| Self::Mka(len));
        esp.or(macsec).or(cak).ok_or_else(|| {
            let esp = Suite::ALL.map(Suite::name).join(", ");
            let macsec = MACSEC_CIPHERS.map(|(word, ..)| word).join(", ");
            let mka = CAKS.map(|(word, _)| word).join(", ");
            format!("there is no suite `{name}`; for ESP: {esp}; for MACsec: {macsec}, {mka}")
        })
    }

    /// The words of its file and their lengths in octets.
    pub fn words(self) -> Vec<(&'static str, usize)> {
        let words = match self {
            Self::Esp(suite) => [
                ("cipher", suite.key_len()),
                ("integrity", suite.mac_key_len()),
                ("salt", suite.esp_salt_len()),
            ],
            Self::Macsec { sak_len, xpn } => {
                let salt = if xpn { XPN_SALT_LEN } else { 0 };
                [("cipher", sak_len), ("integrity", 0), ("salt", salt)]
            }
            Self::Mka(len) => [("cak", len), ("integrity", 0), ("salt", 0)],
        };
        words.into_iter().filter(|(_, len)| *len > 0).collect()
    }

    /// A file with a fresh key. `what` is the use of the key, for a comment in the file.
    pub fn fresh(self, what: &str) -> Result<Secret, random::Unavailable> {
        let mut text = format!("# {what}\n").into_bytes();
        for (word, len) in self.words() {
            let mut octets = vec![0; len];
            random::fill(&mut octets)?;
            let octets = Secret::new(octets);
            text.extend_from_slice(format!("{word:<9} ").as_bytes());
            for octet in octets.expose() {
                text.extend(hex(*octet));
            }
            text.push(b'\n');
        }
        Ok(Secret::new(text))
    }
}

/// Two hexadecimal digits.
fn hex(octet: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [octet >> 4, octet & 15].map(|digit| DIGITS[usize::from(digit)])
}

/// A locally administered address, chosen at random so that no other port is likely to have it. Its
/// last three octets are never all zero, for tshark takes such an inner address for a pseudowire
/// without control word.
pub fn fresh_mac() -> Result<ferrule_base::MacAddr, random::Unavailable> {
    let mut octets = [0; 6];
    random::fill(&mut octets)?;
    octets[0] = 2;
    octets[5] |= 1;
    Ok(ferrule_base::MacAddr(octets))
}
