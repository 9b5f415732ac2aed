//! The node's counters over files, shared with the daemon's clean stop.

use crate::state::{FileStore, StateError};
use ferrule_node::{Counter, CounterStore, StoreError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that node and daemon both hold.
#[derive(Clone)]
pub struct SharedStore(Arc<Mutex<FileStore>>);

impl SharedStore {
    /// Shares a store.
    pub fn new(store: FileStore) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    /// The store, while nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, FileStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(error: &StateError) -> StoreError {
    StoreError(format!("{error}\n{}", error.remedy()))
}

impl CounterStore for SharedStore {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        let found = self.lock().find(name, record).map_err(|e| told(&e))?;
        Ok(Counter { used: found.next - 1, edge: found.edge })
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        self.lock().raise(record, limit).map_err(|e| told(&e))
    }

    fn reserve_all(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), StoreError> {
        self.lock().raise_all(limits).map_err(|e| told(&e))
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.lock().raise_edge(record, edge).map_err(|e| told(&e))
    }
}
