//! The classifier of policies and access lists: of many rules the first one that has a
//! packet.
//!
//! ```text
//!   packet ─▶ key: its fields in a few words ─▶ trees ─▶ leaves ─▶ first rule
//! ```
//!
//! * [`selector`] traffic as an operator describes it. `key` the fields of a packet. `rule` one
//!   selector, compiled. A list of another shape brings its own [`Rule`].
//! * `tree` all rules; `build` how.
//! * [`hits`] matches of each entry.

mod build;
pub mod hits;
mod key;
mod rule;
pub mod selector;
mod tree;

use std::fmt::Debug;

pub use build::table;
pub use key::{Address, Direction, Key};
pub(crate) use key::{Plain4, Seen, read};
pub(crate) use rule::SelectorRule;
pub use tree::{NONE, Search, Table};

/// Fields of a key at most.
pub const FIELDS_MAX: usize = 25;
/// Words of a key at most.
pub const WORDS_MAX: usize = 8;

/// Bits of a key that have a meaning together.
#[derive(Clone, Copy, Debug)]
pub struct KeyField {
    /// The word that has them.
    pub word: u32,
    /// The lowest.
    pub at: u32,
    /// Number of bits.
    pub bits: u32,
}

/// A rule over keys of one shape.
pub trait Rule: Copy {
    /// A key: fields of a packet in words. Bits that belong to no field are zero.
    type Words: Copy + Debug + PartialEq + Send + Sync;

    /// The fields by which keys may be cut.
    fn fields() -> Vec<KeyField>;
    /// The word at a position.
    fn word(words: &Self::Words, at: u32) -> u64;
    /// The first words of these, as many as a key has.
    fn from_words(words: &[u64; WORDS_MAX]) -> Self::Words;

    /// True if the rule has a packet of this key.
    fn matches(&self, words: &Self::Words) -> bool;
    /// Lowest and highest value of a field that the rule has; perhaps not all between
    /// them. A rule that has the lowest and the highest of some bits, the others being
    /// settled, has all.
    fn bounds(&self, field: &KeyField) -> (u64, u64);
    /// A key that the rule has, neither the lowest nor the highest.
    fn middle(&self) -> Self::Words;
    /// Width in bits of its local and of its remote addresses.
    fn widths(&self) -> [u32; 2];
}
