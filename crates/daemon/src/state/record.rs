//! What is kept about one key, as a small text that says when it was damaged,
//! and when it is not the file that was written.
//!
//! ```text
//!   ferrule counter 1
//!   for esp-out berlin 0x1001
//!   fingerprint 84ae6b204b359b33bf0482ea5e3bab3e
//!   generation 17
//!   limit 17825792
//!   edge 0
//!   place 1835132/1763707551123456789
//!   check 6f0d…
//! ```
//!
//! `place` is the inode and the time of birth of the file that it was written
//! to. Neither can be chosen, so a copy that comes back from a backup shows that
//! it is one.

use ferrule_base::Secret;
use std::fmt::Write;

const MAGIC: &str = "ferrule counter 1";
const CHECK_CONTEXT: &[u8] = b"counter record";

/// Octets of a record at most; more is not one of ours.
pub const RECORD_MAX: u64 = 4096;

/// Where a file lies: inode and time of birth in nanoseconds (0: not known).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number in the file system.
    pub inode: u64,
    /// When it was made.
    pub born: u64,
}

/// What is kept about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it counts, for people.
    pub id: String,
    /// The key and where it is used.
    pub fingerprint: [u8; 16],
    /// How often it was written.
    pub generation: u64,
    /// Numbers up to here may have been used.
    pub limit: u64,
    /// Numbers below here were seen from the other side.
    pub edge: u64,
    /// The file that it was written to.
    pub place: Place,
}

/// Hexadecimal digits.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn check(text: &str) -> String {
    hex(&ferrule_crypto::fingerprint(&Secret::new(text.as_bytes().to_vec()), CHECK_CONTEXT))
}

impl Record {
    /// Record of a key that was never used.
    pub fn new(id: &str, fingerprint: [u8; 16]) -> Self {
        let (id, place) = (id.into(), Place::default());
        Self { id, fingerprint, generation: 1, limit: 0, edge: 0, place }
    }

    /// As it is written.
    pub fn to_text(&self) -> String {
        let Self { id, generation, limit, edge, place, .. } = self;
        let id: String = id.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let body = format!(
            "{MAGIC}\nfor {id}\nfingerprint {}\ngeneration {generation}\nlimit {limit}\n\
             edge {edge}\nplace {}/{}\n",
            hex(&self.fingerprint),
            place.inode,
            place.born,
        );
        let sum = check(&body);
        format!("{body}check {sum}\n")
    }

    /// Reads what [`to_text`](Self::to_text) wrote; nothing if a single octet
    /// is missing or different.
    pub fn from_text(text: &str) -> Option<Self> {
        let (body, sum) = text.strip_suffix('\n')?.rsplit_once("\ncheck ")?;
        if check(&format!("{body}\n")) != sum {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut field = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        let id = field("for")?.to_owned();
        let print = u128::from_str_radix(field("fingerprint")?, 16).ok()?;
        let generation = field("generation")?.parse().ok()?;
        let limit = field("limit")?.parse().ok()?;
        let edge = field("edge")?.parse().ok()?;
        let (inode, born) = field("place")?.split_once('/')?;
        let place = Place { inode: inode.parse().ok()?, born: born.parse().ok()? };
        Some(Self { id, fingerprint: print.to_be_bytes(), generation, limit, edge, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            id: "esp-out berlin 0x1001".into(),
            fingerprint: [7; 16],
            generation: 17,
            limit: u64::MAX,
            edge: 12,
            place: Place { inode: 3, born: u64::MAX },
        }
    }

    #[test]
    fn counter_record_reads_as_it_was_written() {
        let odd = Record { id: "two\nlines".into(), ..record() };
        assert_eq!(Record::from_text(&record().to_text()), Some(record()));
        assert_eq!(Record::from_text(&odd.to_text()).unwrap().id, "two lines");
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
}
