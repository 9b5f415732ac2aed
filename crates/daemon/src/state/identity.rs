//! Identity of a state, as its records, its lock and the list of used keys name it.
//!
//! ```text
//!   ferrule state 2
//!   id 84ae6b204b359b33bf0482ea5e3bab3e
//!   place 1835132/1763707551123456789
//!   check 6f0d…
//! ```
//!
//! The file is written once. It is the lock, too: removing the lock removes the state, and a folder
//! of hard links has the same lock.

use super::record::{Place, digits, hex, sealed, unsealed};

const MAGIC: &str = "ferrule state 2";

/// Identity of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A random number.
    pub id: [u8; 16],
    /// The file that it was written to.
    pub place: Place,
}

impl Identity {
    /// Text of the file.
    pub fn to_text(self) -> String {
        sealed(&format!("{MAGIC}\nid {}\nplace {}\n", hex(&self.id), self.place))
    }

    /// Reads what [`to_text`](Self::to_text) wrote, and nothing that it would write otherwise.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = unsealed(text)?.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut field = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        let identity =
            Self { id: digits(field("id")?)?, place: Place::from_text(field("place")?)? };
        (identity.to_text() == text).then_some(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_identity_reads_as_it_was_written_and_not_with_an_octet_changed() {
        let identity = Identity { id: [0xa5; 16], place: Place { inode: 3, born: 4 } };
        let text = identity.to_text();
        assert_eq!(Identity::from_text(&text), Some(identity));
        for at in 0..text.len() {
            let mut octets = text.clone().into_bytes();
            octets[at] ^= 1;
            let Ok(changed) = String::from_utf8(octets) else { continue };
            assert_eq!(Identity::from_text(&changed), None, "octet {at}");
        }
    }
}
