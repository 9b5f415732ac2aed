//! Numbers that must survive a restart.
//!
//! A static key outlives the process that uses it, so the numbers used with it
//! must, too. Before a range of numbers is used its end is *reserved*: written
//! and synced by a [`CounterStore`]. After a restart the node goes on behind the
//! last reserved number, whether it was used or not.

use std::fmt;

/// What a store knows of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The highest number that may have been used; 0: none.
    pub used: u64,
    /// The edge of the replay window; 0: nothing was kept.
    pub edge: u64,
}

/// Why a counter cannot be used. Its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// Where counters are kept. An `id` is a stable, printable name; the
/// fingerprint binds the counter to key and SPI or SCI.
pub trait CounterStore: Send {
    /// The counter of a key. An error if there is none, or it is of another
    /// key, or older than one that was there before.
    fn open(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Counter, StoreError>;

    /// Numbers up to `limit` may be used once this returns: they are on stable
    /// storage. A limit below an earlier one changes nothing.
    fn reserve(&mut self, id: &str, limit: u64) -> Result<(), StoreError>;

    /// Keeps the edge of a replay window.
    fn keep_edge(&mut self, id: &str, edge: u64) -> Result<(), StoreError>;
}

/// Keeps counters for as long as the process lives: for the laboratory, whose
/// keys live no longer.
#[derive(Default)]
pub struct Volatile(std::collections::HashMap<String, ([u8; 16], Counter)>);

impl CounterStore for Volatile {
    fn open(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Counter, StoreError> {
        let entry = self.0.entry(id.into()).or_insert((fingerprint, Counter::default()));
        if entry.0 != fingerprint {
            *entry = (fingerprint, Counter::default());
        }
        Ok(entry.1)
    }

    fn reserve(&mut self, id: &str, limit: u64) -> Result<(), StoreError> {
        if let Some((_, counter)) = self.0.get_mut(id) {
            counter.used = counter.used.max(limit);
        }
        Ok(())
    }

    fn keep_edge(&mut self, id: &str, edge: u64) -> Result<(), StoreError> {
        if let Some((_, counter)) = self.0.get_mut(id) {
            counter.edge = counter.edge.max(edge);
        }
        Ok(())
    }
}
