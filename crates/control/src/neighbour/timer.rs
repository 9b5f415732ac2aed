//! Timers of the core.

use super::state::Key;

/// A reason to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A neighbour that was asked did not answer yet.
    Answer(Key),
    /// A neighbour was not heard of for the time that an answer is good.
    Reachable(Key),
    /// A stale neighbour is to be asked.
    Stale(Key),
    /// A neighbour that a configuration names is to be asked for again, or one that was refused
    /// may be.
    Again(Key),
    /// An own address is to be announced, or had no other claim.
    Announce(Key),
    /// The group of an own address is to be reported once more.
    Join(Key),
    /// A query for groups on an interface is to be answered.
    Report(u16),
}
