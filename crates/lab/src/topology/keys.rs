//! Keys of a topology: in virtual time a name is enough to make one; on real
//! interfaces each name gets a fresh key, in a file.

use ferrule_base::Secret;
use ferrule_node::config::{KeySource, LAB_KEY, TokenConfig};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Domain separation: no other use of SHA-256 derives the same keys.
const DOMAIN: &[u8] = b"ferrule laboratory key";

/// Keys of the laboratory, which are public: anyone can compute them.
#[derive(Default)]
pub struct LabKeys {
    /// Keys asked for so far by path, each with the words in its file and their lengths.
    pub asked: BTreeMap<String, Vec<(String, usize)>>,
    /// Labels of keys on a token, and how many octets each has.
    pub on_token: BTreeMap<String, usize>,
}

impl KeySource for LabKeys {
    fn read(&mut self, path: &str) -> Result<Secret, String> {
        Err(format!(
            "`{path}` is no key of the laboratory\nname it `{LAB_KEY}WORD`: it is derived from the word"
        ))
    }

    fn derive(&mut self, path: &str, lengths: [(&str, usize); 3]) -> Option<Secret> {
        let word = path.strip_prefix(LAB_KEY).filter(|word| !word.is_empty())?;
        let needed = lengths.iter().filter(|(_, len)| *len > 0);
        let needed: Vec<_> = needed.map(|(name, len)| ((*name).to_owned(), *len)).collect();
        self.asked.entry(path.to_owned()).or_insert_with(|| needed.clone());
        let each = needed.iter().map(|(name, len)| (name.as_str(), octets(word, name, *len)));
        Some(key_file(each))
    }

    fn token(&mut self, _: &TokenConfig, label: &str, len: usize) -> Result<Secret, String> {
        self.on_token.insert(label.to_owned(), len);
        Ok(Secret::new(octets(label, "name on a token", len)))
    }
}

/// The key of a label on a token of the laboratory: the cipher key of the key file
/// `lab:LABEL`, so that the other end may have it in software.
pub fn token_key(label: &str, len: usize) -> Secret {
    Secret::new(octets(label, "cipher", len))
}

/// The text of a key file.
pub fn key_file<'a>(words: impl Iterator<Item = (&'a str, Vec<u8>)>) -> Secret {
    let mut text = String::new();
    for (word, octets) in words {
        let _ = write!(text, "{word} ");
        octets.iter().for_each(|octet| {
            let _ = write!(text, "{octet:02x}");
        });
        text.push('\n');
    }
    Secret::new(text.into_bytes())
}

/// As many octets as needed: SHA-256 over domain, key word, use of the key, and a number that
/// counts up.
fn octets(word: &str, kind: &str, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 32);
    let mut count = 0_u32;
    while out.len() < len {
        let parts = [DOMAIN, b"\0", word.as_bytes(), b"\0", kind.as_bytes(), b"\0"];
        let sha = parts.iter().fold(Sha256::new(), |sha, part| sha.chain_update(part));
        out.extend(sha.chain_update(count.to_be_bytes()).finalize());
        count += 1;
    }
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_keys_follow_from_the_word_and_differ_by_word_and_use() {
        let mut keys = LabKeys::default();
        let mut text = |word, lengths| {
            let secret = keys.derive(word, lengths).expect("a key");
            String::from_utf8(secret.expose().to_vec()).expect("text")
        };
        let gcm = [("cipher", 16), ("integrity", 0), ("salt", 4)];
        let one = text("lab:one", gcm);
        assert_eq!(one, text("lab:one", gcm));
        assert_ne!(one, text("lab:two", gcm));
        assert_eq!(one.lines().map(str::len).collect::<Vec<_>>(), [7 + 32, 5 + 8]);
        let cbc = text("lab:one", [("cipher", 16), ("integrity", 64), ("salt", 0)]);
        let words: Vec<&str> = cbc.split_whitespace().collect();
        assert_eq!((words[1].len(), words[3].len()), (32, 128));
        assert_ne!(words[1], &words[3][..32], "a use of its own");
        assert!(keys.derive("one", gcm).is_none() && keys.derive("lab:", gcm).is_none());
        assert!(keys.read("one.key").is_err());
    }
}
