//! Numbers that must survive a restart.
//!
//! A static key outlives the process that uses it, so the numbers used with it
//! must, too. Before a range of numbers is used its end is *reserved*: written
//! and synced by a [`CounterStore`]. After a restart the node goes on behind the
//! last reserved number, whether it was used or not.
//!
//! Each entry belongs to a *record*: the fingerprint of the key and the constant part of
//! its nonces (key and salt, key and SCI). Names of tunnels and ports, SPIs and association
//! numbers come and go, also with a configuration that is refused in the end; they tell the
//! operator the use of a record, and are never used to find one.

use std::collections::HashMap;
use std::ops::Range;

/// Stored state of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The highest number that may have been used; 0: none.
    pub used: u64,
    /// The edge of the replay window; 0: nothing was kept.
    pub edge: u64,
}

/// Reason that a counter cannot be used. Its text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Numbers of a record that are reserved, or why they are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The record.
    pub record: [u8; 16],
    /// The last number.
    pub limit: u64,
    /// The outcome: on stable storage, or the error.
    pub done: Result<(), StoreError>,
}

/// Storage of counters, each under the fingerprint of the key and the constant part of its
/// nonces.
pub trait CounterStore: Send {
    /// The counter of a key, and its present name for operators. An error if there is none,
    /// or it is older than one that was there before.
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError>;

    /// Numbers up to `limit` may be used once this returns: they are on stable
    /// storage. A limit below an earlier one changes nothing.
    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError>;

    /// The same of many records in one go. After an error none of them may be used
    /// further than before.
    fn reserve_all(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), StoreError> {
        limits.iter().try_for_each(|&(record, limit)| self.reserve(record, limit))
    }

    /// Begins to reserve, and returns the result if it is known at once; otherwise
    /// [`poll_reserved`](Self::poll_reserved) returns it later, so that no thread waits for a
    /// disk.
    fn begin_reserve(&mut self, record: [u8; 16], limit: u64) -> Option<Result<(), StoreError>> {
        Some(self.reserve(record, limit))
    }

    /// The next of those that were begun and are done.
    fn poll_reserved(&mut self) -> Option<Reserved> {
        None
    }

    /// A block of instances of SAs whose keys a program gives, 1 to
    /// [`INSTANCE_MAX`](ferrule_dataplane::ipsec::INSTANCE_MAX): no node of this host had one of
    /// them before, or will have. An error where there is no host that remembers.
    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        Err(StoreError("nothing remembers which instances of SAs there were".into()))
    }

    /// The same, begun as [`begin_reserve`](Self::begin_reserve) does.
    fn begin_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        Some(self.instances())
    }

    /// The block that was begun to be taken, once it is there.
    fn poll_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        None
    }

    /// Keeps the edge of a replay window, at once or soon. An error may be of an earlier one.
    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError>;
}

/// Keeps counters for as long as the process lives: for the laboratory, whose
/// keys live no longer.
#[derive(Default)]
pub struct Volatile {
    counters: HashMap<[u8; 16], Counter>,
    /// The last instance of an SA.
    instance: u64,
}

/// Instances of SAs in a block.
pub const INSTANCES: u64 = 4096;

impl CounterStore for Volatile {
    fn open(&mut self, _: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        Ok(*self.counters.entry(record).or_default())
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        let counter = self.counters.entry(record).or_default();
        counter.used = counter.used.max(limit);
        Ok(())
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        let counter = self.counters.entry(record).or_default();
        counter.edge = counter.edge.max(edge);
        Ok(())
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        let first = self.instance + 1;
        self.instance += INSTANCES;
        Ok(first..self.instance + 1)
    }
}
