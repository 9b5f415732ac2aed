//! Key files: a few lines of `word hex`, so that no key stands in a
//! configuration, on a command line or in an environment.
//!
//! ```text
//!   # ESP, AES-GCM: written by ferrule init
//!   cipher    00112233445566778899aabbccddeeff
//!   salt      a1b2c3d4
//! ```
//!
//! `cipher` is the cipher key or SAK, `integrity` the key of an HMAC, `salt` the
//! salt of an AEAD in ESP (4 octets) or of an XPN suite (12 octets), `cak` the CAK of MKA.

use super::TokenConfig;
use ferrule_base::Secret;
use ferrule_crypto::{KeySpec, Suite};

/// Where key files are read from.
pub trait KeySource {
    /// The text of the key file at `path`. The error is one sentence for people,
    /// and on a second line what helps, unless that is to make a key file.
    fn read(&mut self, path: &str) -> Result<Secret, String>;

    /// The text of a key file that is not there but follows from its name, with
    /// so many octets for each word: the laboratory has such, and whoever leaves a key to a node.
    fn derive(&mut self, _path: &str, _lengths: [(&str, usize); 3]) -> Option<Secret> {
        None
    }

    /// A name for the key of that label on the token, `len` octets that say nothing
    /// else about it; in place of the key, which nobody has. Errors as above.
    fn token(&mut self, _token: &TokenConfig, label: &str, _len: usize) -> Result<Secret, String> {
        Err(format!("key `token:{label}`: there is no token here"))
    }
}

/// Remedy for a key file that cannot be used.
pub(super) const MAKE: &str = "`ferrule init key --help` shows how to make one";

/// A key file whose name begins so is none: [`KeySource::derive`] makes it.
pub const LAB_KEY: &str = "lab:";

impl<F: FnMut(&str) -> Result<Secret, String>> KeySource for F {
    fn read(&mut self, path: &str) -> Result<Secret, String> {
        self(path)
    }
}

/// Key files whose names say what is in them, for tests and benchmarks: `KIND:N`
/// has a key of octets `N`, and what else its kind has of octets `N + 1`. A larger `N`
/// than an octet has is there with four octets, in turn. Kinds
/// are `gcm`, `gcm256`, `chacha`, `cbc-sha1`, `cbc-sha256` and the name of every
/// suite for ESP; `md5`, `sha1`, `sha256`, `sha384`, `sha512` for AH; `sak`,
/// `sak256`, `xpn` for MACsec, `cak` and `cak256` for MKA.
pub fn named_key(path: &str) -> Result<Secret, String> {
    let unknown = || format!("no key file is called `{path}`");
    let (kind, n) = path.split_once(':').ok_or_else(unknown)?;
    let n: u32 = n.parse().map_err(|_| unknown())?;
    let octets = match u8::try_from(n) {
        Ok(n) => [n; 4],
        Err(_) => n.to_be_bytes(),
    };
    // Octets of cipher key, integrity key and salt.
    let first = if kind.starts_with("cak") { "cak" } else { "cipher" };
    let lengths = match kind {
        "cak" => [16, 0, 0],
        "cak256" => [32, 0, 0],
        "gcm" => [16, 0, 4],
        "gcm256" | "chacha" => [32, 0, 4],
        "cbc-sha1" => [16, 20, 0],
        "cbc-sha256" => [16, 32, 0],
        "md5" => [0, 16, 0],
        "sha1" => [0, 20, 0],
        "sha256" => [0, 32, 0],
        "sha384" => [0, 48, 0],
        "sha512" => [0, 64, 0],
        "sak" => [16, 0, 0],
        "sak256" => [32, 0, 0],
        "xpn" => [16, 0, 12],
        "salt" => [0, 0, 4],
        suite => {
            let suite = Suite::from_name(suite).ok_or_else(unknown)?;
            [suite.key_len(), suite.mac_key_len(), suite.esp_salt_len()]
        }
    };
    let mut text = String::new();
    let words = [(first, 0), ("integrity", 1), ("salt", 1)].into_iter().zip(lengths);
    for ((word, add), len) in words.filter(|(_, len)| *len > 0) {
        let value = octets.into_iter().cycle().take(len).map(|octet| octet.wrapping_add(add));
        let hex: String = value.flat_map(|octet| [octet >> 4, octet & 15]).map(digit).collect();
        text += &format!("{word} {hex}\n");
    }
    Ok(Secret::new(text.into_bytes()))
}

/// A hexadecimal digit.
fn digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value & 15)])
}

/// The CAK of a key file: `cak`, 16 or 32 octets.
pub fn cak(text: &Secret) -> Result<Secret, String> {
    let cak = KeyFile::parse(text)?.cak;
    match cak.len() {
        16 | 32 => Ok(cak),
        0 => Err("there is no `cak`".into()),
        other => Err(format!("`cak` has {other} octets, 16 or 32 are needed")),
    }
}

/// The SAK of a key file, and the salt beside it, which may be empty.
pub fn sak(text: &Secret) -> Result<(Secret, Secret), String> {
    let KeyFile { cipher, salt, .. } = KeyFile::parse(text)?;
    match cipher.len() {
        16 | 32 => Ok((cipher, salt)),
        0 => Err("there is no `cipher`".into()),
        other => Err(format!("`cipher` has {other} octets, 16 or 32 are needed")),
    }
}

/// The keys of a suite in the text of a key file, and the salt, of the right lengths.
pub fn key_of_suite(text: &Secret, suite: Suite) -> Result<(KeySpec, Secret), String> {
    let KeyFile { cipher, integrity, salt, .. } = KeyFile::parse(text)?;
    let needs = [
        ("cipher", cipher.len(), suite.key_len()),
        ("integrity", integrity.len(), suite.mac_key_len()),
        ("salt", salt.len(), suite.esp_salt_len()),
    ];
    match needs.into_iter().find(|(_, has, needs)| has != needs) {
        Some((word, has, needs)) => {
            Err(format!("has {has} octets of `{word}`, {needs} are needed for {suite}"))
        }
        None => Ok((KeySpec::new(suite, cipher, integrity), salt)),
    }
}

/// Contents of a key file.
pub(super) struct KeyFile {
    pub cipher: Secret,
    pub integrity: Secret,
    pub salt: Secret,
    pub cak: Secret,
    /// The cipher key is on the token, and called so there.
    pub label: Option<String>,
}

impl KeyFile {
    /// Nothing.
    pub fn empty() -> Self {
        let none = || Secret::new(Vec::new());
        Self { cipher: none(), integrity: none(), salt: none(), cak: none(), label: None }
    }

    /// Reads the text. Errors name the line, never its content.
    pub fn parse(text: &Secret) -> Result<Self, String> {
        let text = std::str::from_utf8(text.expose()).map_err(|_| "is not text".to_owned())?;
        let mut file = Self::empty();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = number + 1;
            let (word, hex) = line
                .split_once(|c: char| c.is_whitespace() || c == '=')
                .ok_or_else(|| format!("line {at}: a word and hexadecimal digits are expected"))?;
            let hex = hex.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
            let value = Secret::from_hex(hex).map_err(|e| format!("line {at}: {e}"))?;
            match word {
                "cipher" => file.cipher = value,
                "integrity" => file.integrity = value,
                "salt" => file.salt = value,
                "cak" => file.cak = value,
                _ => {
                    return Err(format!(
                        "line {at}: unknown word; there are cipher, integrity, salt and cak"
                    ));
                }
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_are_read_and_their_errors_name_lines_not_keys() {
        let text = |s: &str| Secret::new(s.as_bytes().to_vec());
        let file = KeyFile::parse(&text("# c\ncipher 0011\n salt = 0a:0b # s\n")).unwrap();
        assert_eq!((file.cipher.expose(), file.salt.expose()), (&[0, 0x11][..], &[10, 11][..]));
        for bad in ["cipher", "cipher deadbeefz", "kipher dead", "cipher 123"] {
            let error = KeyFile::parse(&text(bad)).err().unwrap();
            assert!(error.starts_with("line 1:") && !error.contains("dead"), "{error}");
        }
    }

    #[test]
    fn a_sak_has_16_or_32_octets_and_what_salt_there_is() {
        let (key, salt) = sak(&named_key("xpn:1").unwrap()).unwrap();
        assert_eq!((key.len(), salt.len()), (16, 12));
        let (key, salt) = sak(&named_key("sak256:1").unwrap()).unwrap();
        assert_eq!((key.len(), salt.len()), (32, 0));
        for (name, said) in [("cak:1", "there is no `cipher`"), ("aes-gcm-192:1", "24 octets")] {
            let error = sak(&named_key(name).unwrap()).err().unwrap();
            assert!(error.contains(said), "{name}: {error}");
        }
    }
}
