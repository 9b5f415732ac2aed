//! A part of work that several machines do: `--shard 0/8` is the first of eight. What they
//! print goes to `ferrule merge`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Parts at most.
const PARTS_MAX: u64 = 100_000;

/// One of several parts, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its index, from 0.
    pub index: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// True if the shard has this piece of the work: pieces are dealt in turn.
    pub const fn has(self, piece: u64) -> bool {
        piece % self.of == self.index
    }

    /// Checks that these are all shards of one piece of work, each once; the error is the reason.
    pub fn all(shards: &[Self]) -> Result<(), String> {
        let Some(of) = shards.first().map(|shard| shard.of) else {
            return Err("there is no part at all".into());
        };
        if let Some(other) = shards.iter().find(|shard| shard.of != of) {
            return Err(format!("one is of {of} parts, another of {}", other.of));
        }
        let count = |index| shards.iter().filter(|shard| shard.index == index).count();
        for index in 0..of {
            match count(index) {
                1 => {}
                0 => return Err(format!("part {index}/{of} is missing")),
                _ => return Err(format!("part {index}/{of} is there twice")),
            }
        }
        Ok(())
    }
}

/// A command's words without those that name a shard.
pub fn unsharded(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for word in words {
        if std::mem::take(&mut is_value) || word.starts_with("--shard=") {
            continue;
        }
        is_value = word == "--shard";
        if !is_value {
            kept.push(word);
        }
    }
    kept
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no part: write INDEX/COUNT, counted from 0, such as 0/8 to 7/8")
        };
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let (index, of) = index.parse().ok().zip(of.parse().ok()).ok_or_else(wrong)?;
        if index < of && of <= PARTS_MAX { Ok(Self { index, of }) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_every_piece_once_and_say_what_is_missing() {
        let shards: Vec<Shard> = ["2/3", "0/3", "1/3"].map(|s| s.parse().unwrap()).into();
        for piece in 0..100 {
            assert_eq!(shards.iter().filter(|shard| shard.has(piece)).count(), 1);
        }
        assert_eq!(Shard::all(&shards), Ok(()));
        assert_eq!(Shard::all(&shards[..2]), Err("part 1/3 is missing".into()));
        let twice = [shards.clone(), shards[..1].to_vec()].concat();
        assert_eq!(Shard::all(&twice), Err("part 2/3 is there twice".into()));
        assert!(Shard::all(&[shards[0], "0/2".parse().unwrap()]).is_err());
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for command in ["a --shard 0/3 b", "a b --shard=0/3", "a b"] {
            assert_eq!(unsharded(words(command)), ["a", "b"], "{command}");
        }
        for bad in ["3/3", "1", "-1/3", "0/0", "1/x", "0/1000000"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
