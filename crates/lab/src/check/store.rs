//! Counters of nodes under test: they survive their node, may be asked by the
//! oracle, and may begin just before the upper half of a number changes.

use super::finding::lock;
use ferrule_base::MacAddr;
use ferrule_node::{Config, Counter, CounterStore, StoreError, Volatile};
use std::collections::HashMap;
use std::ops::Range;
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
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        lock(&self.0).open(name, record)
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        lock(&self.0).reserve(record, limit)
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        lock(&self.0).instances()
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        lock(&self.0).keep_edge(record, edge)
    }
}

/// Counters that begin at a number, as though the SAs had been used up to there.
pub(super) struct Numbered {
    inner: Volatile,
    start: u64,
    /// Extended ones that were not opened yet, and whether they are sent with.
    fresh: HashMap<[u8; 16], bool>,
}

impl Numbered {
    /// The extended SAs of a configuration begin `before_wrap` numbers before 2^32.
    pub fn new(config: &Config, macs: &[MacAddr], before_wrap: u64) -> Self {
        // In the order in which `counters` gives them.
        let mut extended = Vec::new();
        for tunnel in &config.tunnels {
            extended.extend([(tunnel.esn, true), (tunnel.esn, false)]);
        }
        for secy in &config.secys {
            extended.extend(secy.transmit.iter().map(|_| (secy.entity.xpn, true)));
            extended.extend(secy.receive.iter().map(|_| (secy.entity.xpn, false)));
        }
        let counters = ferrule_node::counters(config, macs).into_iter().zip(extended);
        let extended = counters.filter(|&(_, (extended, _))| extended && before_wrap > 0);
        Self {
            inner: Volatile::default(),
            start: (1_u64 << 32).saturating_sub(before_wrap),
            fresh: extended.map(|(counter, (_, sends))| (counter.fingerprint, sends)).collect(),
        }
    }
}

impl CounterStore for Numbered {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        if let Some(sends) = self.fresh.remove(&record) {
            if sends {
                self.inner.reserve(record, self.start)?;
            } else {
                self.inner.keep_edge(record, self.start)?;
            }
        }
        self.inner.open(name, record)
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        self.inner.reserve(record, limit)
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        self.inner.instances()
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.inner.keep_edge(record, edge)
    }
}
