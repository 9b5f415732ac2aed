//! Leases: the right to take numbers out of a record on stable storage.
//!
//! ```text
//!   plan ─▶ draw: a range of the record, by a lease of its own; all are reserved together
//!   in force ─▶ the lease is the record's newest: it alone is extended, it alone
//!               says at a clean stop how far the record was used
//!   refused ─▶ nobody has the lease; numbers are skipped, none comes twice
//! ```
//!
//! While a configuration changes two SAs of one key may be there, one to come and one
//! to go. Their ranges never meet: the one that goes keeps what it has.

use crate::control::BuildError;
use crate::counter::{Counter, CounterStore, Reserved, StoreError};
use crate::incident::Incident;
use crate::static_keys::CounterId;
use ferrule_dataplane::ipsec::Account;
use ferrule_dataplane::{Lease, Sequence};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The store, and the leases of its records.
pub(crate) struct Leases {
    store: Box<dyn CounterStore>,
    newest: HashMap<[u8; 16], u32>,
    /// Leases drawn so far.
    drawn: u32,
    /// Last known edge of each window.
    edges: HashMap<[u8; 16], u64>,
    /// Edges are not written: the operator was told.
    edges_fail: bool,
    /// Windows whose edge is to be kept again.
    unkept: HashSet<[u8; 16]>,
    /// Accounts of keys whose lives have bounds, by record and whether it sends.
    accounts: HashMap<([u8; 16], bool), Account>,
    /// How far the numbers of each record go.
    most: HashMap<[u8; 16], u64>,
    /// Records that have few numbers left, and whether the operator was told.
    low: HashMap<[u8; 16], Low>,
}

/// A record with few numbers left.
struct Low {
    left: u64,
    told: bool,
}

impl Leases {
    pub fn new(store: Box<dyn CounterStore>) -> Self {
        let (newest, edges) = (HashMap::new(), HashMap::new());
        let (most, low, accounts) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self {
            store,
            newest,
            drawn: 0,
            edges,
            edges_fail: false,
            unkept: HashSet::new(),
            accounts,
            most,
            low,
        }
    }

    /// A block of instances of SAs.
    pub fn instances(&mut self) -> Result<Range<u64>, BuildError> {
        Ok(self.store.instances()?)
    }

    /// Begins to take another one; nothing: the result is [heard](Self::poll_instances) later.
    pub fn begin_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        self.store.begin_instances()
    }

    /// The block that was begun to be taken, once it is there.
    pub fn poll_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        self.store.poll_instances()
    }

    /// Stored state of a key, with the latest known edge of its window.
    pub fn look(&mut self, id: &CounterId) -> Result<Counter, BuildError> {
        let mut kept = self.store.open(&id.id, id.fingerprint)?;
        kept.edge = kept.edge.max(self.edge(id.fingerprint));
        Ok(kept)
    }

    /// A first range of a record for a new user, who may use it once the `limits` are
    /// [reserved](Self::reserve).
    pub fn draw(
        &mut self,
        id: &CounterId,
        step: u64,
        max: u64,
        limits: &mut Vec<([u8; 16], u64)>,
    ) -> Result<Sequence, BuildError> {
        let used = self.look(id)?.used;
        let limit = used.saturating_add(step).min(max);
        limits.push((id.fingerprint, limit));
        self.most.insert(id.fingerprint, max);
        self.note_limit(id.fingerprint, limit);
        self.drawn += 1;
        let lease = Lease { record: id.fingerprint, number: self.drawn };
        let numbers = Sequence::new(used.saturating_add(1), limit, max);
        Ok(numbers.in_steps_of(step).by(lease))
    }

    /// The account on which a key lives, whose packets are so long at most: the same for all of
    /// its SAs, one after the other.
    pub fn account(&mut self, id: &CounterId, longest: u64) -> Account {
        let new = || Account::new(longest);
        self.accounts.entry((id.fingerprint, id.sends)).or_insert_with(new).clone()
    }

    /// Reserves what was drawn.
    pub fn reserve(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), BuildError> {
        Ok(self.store.reserve_all(limits)?)
    }

    /// Makes these leases the newest of their records. Records that are not `used` any more
    /// have none.
    pub fn grant(&mut self, leases: &[Lease], used: &HashSet<[u8; 16]>) {
        self.newest.extend(leases.iter().map(|lease| (lease.record, lease.number)));
        self.newest.retain(|record, _| used.contains(record));
        // An edge that is not kept yet is known nowhere else.
        self.edges.retain(|record, _| used.contains(record) || self.unkept.contains(record));
        self.accounts.retain(|(record, _), _| used.contains(record));
        self.most.retain(|record, _| used.contains(record));
        self.low.retain(|record, _| used.contains(record));
    }

    /// True if the record has a lease, in force or planned.
    pub fn has(&self, record: [u8; 16]) -> bool {
        self.newest.contains_key(&record)
    }

    /// True if a lease is the newest of its record.
    pub fn is_newest(&self, lease: Lease) -> bool {
        self.newest.get(&lease.record) == Some(&lease.number)
    }

    /// Begins to reserve more numbers for a lease that is its record's newest; nothing: the
    /// result is [heard](Self::poll_reserved) later.
    pub fn extend(&mut self, lease: Lease, limit: u64) -> Option<Result<(), StoreError>> {
        let done = self.store.begin_reserve(lease.record, limit)?;
        if done.is_ok() {
            self.note_limit(lease.record, limit);
        }
        Some(done)
    }

    /// The next range whose reservation was begun and is done.
    pub fn poll_reserved(&mut self) -> Option<Reserved> {
        let reserved = self.store.poll_reserved()?;
        if reserved.done.is_ok() {
            self.note_limit(reserved.record, reserved.limit);
        }
        Some(reserved)
    }

    /// A quarter of the numbers left is few: time enough for a new key.
    fn note_limit(&mut self, record: [u8; 16], limit: u64) {
        let Some(&max) = self.most.get(&record) else { return };
        let left = max.saturating_sub(limit);
        if left <= max / 4 {
            self.low.entry(record).or_insert(Low { left, told: false }).left = left;
        }
    }

    /// Records that have few numbers left, each once, with how many.
    pub fn take_low(&mut self) -> Vec<([u8; 16], u64)> {
        let news = self.low.iter_mut().filter(|(_, low)| !low.told);
        news.map(|(&record, low)| {
            low.told = true;
            (record, low.left)
        })
        .collect()
    }

    /// True if every number of a record is reserved.
    pub fn is_last(&self, record: [u8; 16]) -> bool {
        self.low.get(&record).is_some_and(|low| low.left == 0)
    }

    /// The edge of a window as it was told last.
    pub fn edge(&self, record: [u8; 16]) -> u64 {
        self.edges.get(&record).copied().unwrap_or_default()
    }

    /// Tries once more to keep edges that could not be kept.
    pub fn keep_edges_again(&mut self) -> Vec<Incident> {
        let again = std::mem::take(&mut self.unkept).into_iter();
        again.filter_map(|record| self.keep_edge(record, self.edge(record))).collect()
    }

    /// Keeps the edge of a window. Returns an incident for the operator, if there is one.
    pub fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Option<Incident> {
        let known = self.edges.entry(record).or_default();
        *known = (*known).max(edge);
        let kept = self.store.keep_edge(record, *known);
        if kept.is_err() {
            self.unkept.insert(record);
        }
        let failed = kept.is_err();
        let news = failed != self.edges_fail;
        self.edges_fail = failed;
        match kept {
            Err(e) if news => Some(Incident::WindowsNotWritten(e.to_string())),
            Ok(()) if news => Some(Incident::WindowsWritten),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Volatile;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A disk that may be full.
    struct Disk(Volatile, Arc<AtomicBool>);

    impl CounterStore for Disk {
        fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
            self.0.open(name, record)
        }

        fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
            self.0.reserve(record, limit)
        }

        fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
            match self.1.load(Ordering::Acquire) {
                true => Err(StoreError("it is full".into())),
                false => self.0.keep_edge(record, edge),
            }
        }
    }

    #[test]
    fn an_edge_that_could_not_be_kept_outlives_its_sa() {
        let is_full = Arc::new(AtomicBool::new(false));
        let mut leases = Leases::new(Box::new(Disk(Volatile::default(), is_full.clone())));
        let id = CounterId { id: "esp-in-t".into(), fingerprint: [7; 16], sends: false };
        leases.look(&id).expect("a counter");
        is_full.store(true, Ordering::Release);
        assert!(leases.keep_edge([7; 16], 1000).is_some());
        // Configurations without the key, and one with it.
        leases.grant(&[], &HashSet::new());
        assert_eq!(leases.look(&id).expect("a counter").edge, 1000);
        is_full.store(false, Ordering::Release);
        assert!(leases.keep_edges_again().len() == 1, "people are told");
        leases.grant(&[], &HashSet::new());
        assert_eq!(leases.look(&id).expect("a counter").edge, 1000);
    }
}
