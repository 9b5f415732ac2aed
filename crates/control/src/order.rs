//! Orders of a core to the data path: each has a token, by which it is answered once.

/// Number of an order of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The data path did not carry an order out; why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);
