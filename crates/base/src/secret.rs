//! Key bytes: wiped when dropped, never printed, never compared in a hurry.

use std::fmt;
use zeroize::Zeroizing;

/// Key material. `Debug` shows its length alone.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for the cipher that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Octets of key material.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No octets at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads hexadecimal digits; white space, `:` and a leading `0x` are allowed. The error
    /// never repeats the text.
    pub fn from_hex(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let text = text.strip_prefix("0x").unwrap_or(text);
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() / 2));
        let mut high = None;
        for c in text.chars().filter(|c| !c.is_whitespace() && *c != ':') {
            let digit = c.to_digit(16).ok_or("not hexadecimal digits")? as u8;
            match high.take() {
                None => high = Some(digit),
                Some(h) => out.push(h << 4 | digit),
            }
        }
        if high.is_some() {
            return Err("an odd number of hexadecimal digits");
        }
        Ok(Self(out))
    }

    /// Equality in constant time for equal lengths.
    pub fn same_as(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.0.iter().zip(other.0.iter()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_and_never_shown() {
        let s = Secret::from_hex("0x00:01 ff\n").unwrap();
        assert_eq!(s.expose(), [0, 1, 0xff]);
        assert_eq!(format!("{s:?}"), "Secret(3 octets)");
        assert!(Secret::from_hex("abc").is_err() && Secret::from_hex("zz").is_err());
        assert!(s.same_as(&s.clone()) && !s.same_as(&Secret::new(vec![0, 1])));
    }
}
