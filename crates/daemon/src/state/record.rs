//! Record of one key, as a small text that shows when it was damaged, and when it is not the file
//! that was written.
//!
//! ```text
//!   ferrule counter 2
//!   for esp-out berlin 0x1001
//!   state 0f3c…
//!   fingerprint 84ae6b204b359b33bf0482ea5e3bab3e
//!   generation 17
//!   limit 17825792
//!   edge 0
//!   place 1835132/1763707551123456789
//!   after 1835131/1763707551012345678
//!   check 6f0d…
//! ```
//!
//! `place` is the inode and the time of birth of the file that it was written
//! to. Neither can be chosen, so a copy that comes back from a backup shows that
//! it is one.

use ferrule_base::Secret;
use std::fmt::{self, Write};

const MAGIC: &str = "ferrule counter 2";
const VOID: &str = "ferrule counter 2, void";
const CHECK_CONTEXT: &[u8] = b"counter record";

/// Octets of a record at most; more is not one of ours.
pub const RECORD_MAX: u64 = 4096;

/// Place of a file: inode and time of birth in nanoseconds (0: not known).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number in the file system.
    pub inode: u64,
    /// When it was made.
    pub born: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.inode, self.born)
    }
}

impl Place {
    /// Reads what `Display` wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let (inode, born) = text.split_once('/')?;
        Some(Self { inode: inode.parse().ok()?, born: born.parse().ok()? })
    }
}

/// Record of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the counter, for people.
    pub id: String,
    /// The state that it belongs to.
    pub state: [u8; 16],
    /// The key and where it is used.
    pub fingerprint: [u8; 16],
    /// Number of times that it was written.
    pub generation: u64,
    /// Numbers up to here may have been used.
    pub limit: u64,
    /// Numbers below here were seen from the other side.
    pub edge: u64,
    /// The file that it was written to.
    pub place: Place,
    /// The file that it takes the name of.
    pub after: Place,
}

/// Content of a superseded file: the file that came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// Place of that file.
    pub next: Place,
}

impl Void {
    /// Text of the file.
    pub fn to_text(self) -> String {
        sealed(&format!("{VOID}\nnext {}\n", self.next))
    }

    /// Reads what [`to_text`](Self::to_text) wrote, and nothing that it would write otherwise.
    pub fn from_text(text: &str) -> Option<Self> {
        let place = unsealed(text)?.strip_prefix(VOID)?.strip_prefix("\nnext ")?;
        let void = Self { next: Place::from_text(place.strip_suffix('\n')?)? };
        (void.to_text() == text).then_some(void)
    }
}

/// Hexadecimal digits.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// The number behind 32 hexadecimal digits.
pub fn digits(text: &str) -> Option<[u8; 16]> {
    let all = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    all.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(u128::to_be_bytes)
}

fn check(text: &str) -> String {
    hex(&ferrule_crypto::fingerprint(&Secret::new(text.as_bytes().to_vec()), CHECK_CONTEXT))
}

/// A text with its check.
pub fn sealed(body: &str) -> String {
    format!("{body}check {}\n", check(body))
}

/// The text before its check; nothing if a single octet is missing or different.
pub fn unsealed(text: &str) -> Option<&str> {
    let (body, sum) = text.strip_suffix('\n')?.rsplit_once("check ")?;
    (check(body) == sum).then_some(body)
}

impl Record {
    /// Record of a key that was never used.
    pub fn new(id: &str, state: [u8; 16], fingerprint: [u8; 16]) -> Self {
        let id = id.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (place, after) = (Place::default(), Place::default());
        Self { id, state, fingerprint, generation: 0, limit: 0, edge: 0, place, after }
    }

    /// Text of the file.
    pub fn to_text(&self) -> String {
        let Self { id, generation, limit, edge, place, after, .. } = self;
        sealed(&format!(
            "{MAGIC}\nfor {id}\nstate {}\nfingerprint {}\ngeneration {generation}\n\
             limit {limit}\nedge {edge}\nplace {place}\nafter {after}\n",
            hex(&self.state),
            hex(&self.fingerprint),
        ))
    }

    /// Reads what [`to_text`](Self::to_text) wrote, and nothing that it would write otherwise.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = unsealed(text)?.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut field = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        let record = Self {
            id: field("for")?.to_owned(),
            state: digits(field("state")?)?,
            fingerprint: digits(field("fingerprint")?)?,
            generation: field("generation")?.parse().ok()?,
            limit: field("limit")?.parse().ok()?,
            edge: field("edge")?.parse().ok()?,
            place: Place::from_text(field("place")?)?,
            after: Place::from_text(field("after")?)?,
        };
        (record.to_text() == text).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            id: "esp-out berlin 0x1001".into(),
            state: [9; 16],
            fingerprint: [7; 16],
            generation: 17,
            limit: u64::MAX,
            edge: 12,
            place: Place { inode: 3, born: u64::MAX },
            after: Place { inode: u64::MAX, born: 0 },
        }
    }

    #[test]
    fn counter_record_reads_as_it_was_written() {
        let odd = Record::new("two\nlines", [9; 16], [7; 16]);
        for record in [record(), odd] {
            assert_eq!(Record::from_text(&record.to_text()), Some(record));
        }
    }

    #[test]
    fn counter_record_cut_anywhere_or_with_any_octet_changed_is_refused() {
        let text = record().to_text();
        for cut in 0..text.len() {
            assert_eq!(Record::from_text(&text[..cut]), None, "cut at {cut}");
            let mut octets = text.clone().into_bytes();
            octets[cut] ^= 1;
            let Ok(changed) = String::from_utf8(octets) else { continue };
            assert_eq!(Record::from_text(&changed), None, "octet {cut} changed");
        }
        assert_eq!(Record::from_text(&format!("{text}more\n")), None);
    }

    #[test]
    fn counter_record_that_would_be_written_otherwise_is_refused() {
        let body = record().to_text();
        let (body, _) = body.rsplit_once("check ").unwrap();
        assert_eq!(Record::from_text(&sealed(body)), Some(record()));
        for (from, to) in [
            ("generation 17", "generation +17"),
            ("generation 17", "generation 017"),
            ("\nlimit", "\r\nlimit"),
            ("edge 12\n", "edge 12\nplace 3/4\n"),
            ("after", "more 1\nafter"),
            ("\nplace 3/", "\nplace +3/"),
        ] {
            let changed = body.replace(from, to);
            assert_ne!(changed, body, "{from}");
            assert_eq!(Record::from_text(&sealed(&changed)), None, "{changed}");
        }
        assert_eq!(Record::from_text(&sealed(&format!("{body}more\n"))), None);
        let void = Void { next: Place { inode: 1, born: 2 } }.to_text();
        let (void, _) = void.rsplit_once("check ").unwrap();
        assert_eq!(Void::from_text(&sealed(&void.replace("1/2", "01/2"))), None);
    }
}
