//! Counters of nodes under test: they survive their node, may be asked by the
//! oracle, and may begin just before the upper half of a number changes.

use super::finding::lock;
use ferrule_base::MacAddr;
use ferrule_node::{Config, Counter, CounterStore, StoreError, Volatile};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// A counter store that survives its node. Clones share it.
#[derive(Clone)]
pub(super) struct Surviving(Arc<Mutex<Box<dyn CounterStore>>>);

impl Surviving {
    pub fn new(store: Box<dyn CounterStore>) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }
}

impl CounterStore for Surviving {
    fn open(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Counter, StoreError> {
        lock(&self.0).open(id, fingerprint)
    }

    fn reserve(&mut self, id: &str, limit: u64) -> Result<(), StoreError> {
        lock(&self.0).reserve(id, limit)
    }

    fn keep_edge(&mut self, id: &str, edge: u64) -> Result<(), StoreError> {
        lock(&self.0).keep_edge(id, edge)
    }
}

/// Counters that begin at a number, as though the SAs had been used up to there.
pub(super) struct Numbered {
    inner: Volatile,
    start: u64,
    /// Extended ones that were not opened yet.
    fresh: HashSet<String>,
}

impl Numbered {
    /// The extended SAs of a configuration begin `before_wrap` numbers before 2^32.
    pub fn new(config: &Config, macs: &[MacAddr], before_wrap: u64) -> Self {
        // In the order in which `counters` gives them.
        let mut extended = Vec::new();
        for tunnel in &config.tunnels {
            extended.extend([tunnel.esn; 2]);
        }
        for secy in &config.secys {
            extended.extend(vec![secy.xpn; secy.transmit.len() + secy.receive.len()]);
        }
        let counters = ferrule_node::counters(config, macs).into_iter().zip(extended);
        let extended = counters.filter(|&(_, extended)| extended && before_wrap > 0);
        Self {
            inner: Volatile::default(),
            start: (1_u64 << 32).saturating_sub(before_wrap),
            fresh: extended.map(|(counter, _)| counter.id).collect(),
        }
    }
}

impl CounterStore for Numbered {
    fn open(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Counter, StoreError> {
        self.inner.open(id, fingerprint)?;
        if self.fresh.remove(id) {
            self.inner.reserve(id, self.start)?;
            self.inner.keep_edge(id, self.start)?;
        }
        self.inner.open(id, fingerprint)
    }

    fn reserve(&mut self, id: &str, limit: u64) -> Result<(), StoreError> {
        self.inner.reserve(id, limit)
    }

    fn keep_edge(&mut self, id: &str, edge: u64) -> Result<(), StoreError> {
        self.inner.keep_edge(id, edge)
    }
}
