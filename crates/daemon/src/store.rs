//! The node's counters over files, shared with the daemon's clean stop.
//!
//! ```text
//!   control part ─ numbers wanted, edges of windows ─▶ │ waiting │ ─▶ thread ─▶ files, synced
//!        ▲                                                            │
//!        └──────────────────── reserved, or why not ──────────────────┘
//! ```
//!
//! Numbers and edges of a running node wait for a thread of their own, which writes all of them
//! in one go: a slow disk delays no timer of the control part. What a configuration needs before
//! it can be in force is written at once.

use crate::state::{FileStore, StateError};
use ferrule_node::{Counter, CounterStore, Reserved, StoreError};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A store that node and daemon both hold.
#[derive(Clone)]
pub struct SharedStore(Arc<Shared>);

struct Shared {
    files: Mutex<FileStore>,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// How soon edges that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Numbers and edges to be written, and results of those that were.
#[derive(Default)]
struct Waiting {
    limits: Vec<([u8; 16], u64)>,
    /// Edges of replay windows that are still to be written.
    edges: HashMap<[u8; 16], u64>,
    reserved: VecDeque<Reserved>,
    /// A block of instances of SAs is wanted, and the one that was taken.
    wants_instances: bool,
    instances: Option<Result<Range<u64>, StoreError>>,
    /// Edges could not be written the last time, and when they are tried again.
    edges_failed: Option<(StoreError, Instant)>,
    is_closing: bool,
}

impl Waiting {
    /// True if there is something to write that did not fail just now.
    fn is_urgent(&self) -> bool {
        let failed = self.edges_failed.as_ref();
        let is_time = failed.is_none_or(|&(_, again)| again <= Instant::now());
        let is_asked = !self.limits.is_empty() || self.wants_instances;
        is_asked || (!self.edges.is_empty() && is_time)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn told(error: &StateError) -> StoreError {
    StoreError(format!("{error}\n{}", error.remedy()))
}

impl SharedStore {
    /// Shares a store.
    pub fn new(store: FileStore) -> Self {
        let (files, waiting) = (Mutex::new(store), Mutex::new(Waiting::default()));
        Self(Arc::new(Shared { files, waiting, wake: Condvar::new(), writer: Mutex::new(None) }))
    }

    /// The files, locked for the caller.
    pub fn lock(&self) -> MutexGuard<'_, FileStore> {
        locked(&self.0.files)
    }

    /// Writes what waits; nothing is written any more by the thread.
    pub fn close(&self) {
        locked(&self.0.waiting).is_closing = true;
        self.0.wake.notify_all();
        if let Some(writer) = locked(&self.0.writer).take() {
            // One that panicked has written what it could.
            let _ = writer.join();
        }
        self.0.write();
    }

    /// Settles numbers and windows, once no worker counts any more: one record that cannot be
    /// written holds up no other. Returns the errors.
    pub fn settle(&self, used: &[([u8; 16], u64)], edges: &[([u8; 16], u64)]) -> Vec<StoreError> {
        let used = each(used, |some| self.lock().settle_all(some));
        let edges = each(edges, |some| self.lock().raise_edges(some));
        used.into_iter().chain(edges).filter_map(|one| one.done.err()).collect()
    }

    /// Leaves something to the thread, which is there from the first time on.
    fn leave(&self, what: impl FnOnce(&mut Waiting)) {
        what(&mut locked(&self.0.waiting));
        self.0.wake.notify_all();
        let mut writer = locked(&self.0.writer);
        if writer.as_ref().is_none_or(JoinHandle::is_finished) {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("counters".into());
            *writer = thread.spawn(move || shared.write_on()).ok();
            if writer.is_none() {
                // Slow is better than never.
                self.0.write();
            }
        }
    }
}

impl Shared {
    /// Writes whatever waits, until the store is closed.
    fn write_on(&self) {
        loop {
            let mut waiting = locked(&self.waiting);
            while !waiting.is_urgent() {
                if waiting.is_closing {
                    return;
                }
                let woken = self.wake.wait_timeout(waiting, AGAIN);
                waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            drop(waiting);
            self.write();
        }
    }

    /// Writes what waits now.
    fn write(&self) {
        let mut waiting = locked(&self.waiting);
        let limits = std::mem::take(&mut waiting.limits);
        let wants_instances = std::mem::take(&mut waiting.wants_instances);
        let edges: Vec<_> = waiting.edges.iter().map(|(&record, &edge)| (record, edge)).collect();
        drop(waiting);
        let limits = each(&limits, |some| locked(&self.files).raise_all(some));
        let edges = each(&edges, |some| locked(&self.files).raise_edges(some));
        let instances =
            wants_instances.then(|| locked(&self.files).instances().map_err(|e| told(&e)));
        let mut waiting = locked(&self.waiting);
        waiting.instances = instances.or(waiting.instances.take());
        if !edges.is_empty() {
            let failed = edges.iter().find_map(|edge| edge.done.clone().err());
            waiting.edges_failed = failed.map(|why| (why, Instant::now() + AGAIN));
        }
        // Edges that could not be written, or moved meanwhile, wait for the next time.
        for Reserved { record, limit: edge, .. } in edges.iter().filter(|edge| edge.done.is_ok()) {
            if waiting.edges.get(record) == Some(edge) {
                waiting.edges.remove(record);
            }
        }
        waiting.reserved.extend(limits);
    }
}

/// Result for each of some records: all are written in one go, and one by one only where that
/// fails for one of them.
fn each(
    all: &[([u8; 16], u64)],
    mut write: impl FnMut(&[([u8; 16], u64)]) -> Result<(), StateError>,
) -> Vec<Reserved> {
    let all_done = all.is_empty() || write(all).is_ok();
    let mut done = |one| if all_done { Ok(()) } else { write(&[one]).map_err(|e| told(&e)) };
    let reserved =
        |&one: &([u8; 16], u64)| Reserved { record: one.0, limit: one.1, done: done(one) };
    all.iter().map(reserved).collect()
}

impl CounterStore for SharedStore {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        // An edge that waits is known as well as one that is written.
        let waits = locked(&self.0.waiting).edges.get(&record).copied();
        let found = self.lock().find(name, record).map_err(|e| told(&e))?;
        Ok(Counter { used: found.next - 1, edge: found.edge.max(waits.unwrap_or_default()) })
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        self.lock().raise(record, limit).map_err(|e| told(&e))
    }

    fn reserve_all(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), StoreError> {
        self.lock().raise_all(limits).map_err(|e| told(&e))
    }

    fn begin_reserve(&mut self, record: [u8; 16], limit: u64) -> Option<Result<(), StoreError>> {
        self.leave(|waiting| waiting.limits.push((record, limit)));
        None
    }

    fn poll_reserved(&mut self) -> Option<Reserved> {
        locked(&self.0.waiting).reserved.pop_front()
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        self.lock().instances().map_err(|e| told(&e))
    }

    fn begin_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        self.leave(|waiting| waiting.wants_instances = true);
        None
    }

    fn poll_instances(&mut self) -> Option<Result<Range<u64>, StoreError>> {
        locked(&self.0.waiting).instances.take()
    }

    /// An edge waits for the thread; the error is of those that were written last.
    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.leave(|waiting| {
            let known = waiting.edges.entry(record).or_default();
            *known = (*known).max(edge);
        });
        let failed = locked(&self.0.waiting).edges_failed.clone();
        failed.map_or(Ok(()), |(why, _)| Err(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    const RECORDS: u8 = 100;

    /// A folder of the test's own, gone when that is.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn opened(folder: &Path) -> FileStore {
        let mut files = FileStore::create(&folder.join("gw.state"), &folder.join("used-keys"));
        let store = files.as_mut().expect("a store");
        for n in 0..RECORDS {
            store.find(&format!("esp-out t{n}"), [n; 16]).expect("a counter");
        }
        files.expect("a store")
    }

    #[test]
    fn what_waits_is_written_and_answered_by_the_thread() {
        let folder = std::env::temp_dir().join(format!("ferrule-store-{}", std::process::id()));
        let folder = Folder(folder);
        let mut shared = SharedStore::new(opened(&folder.0));
        // While somebody else has the files, nobody waits for them.
        let of_all = shared.0.clone();
        let busy = locked(&of_all.files);
        for n in 0..RECORDS {
            assert_eq!(shared.begin_reserve([n; 16], 1000 + u64::from(n)), None);
            for edge in 1..20 {
                assert_eq!(shared.keep_edge([n; 16], edge), Ok(()));
            }
        }
        // A record that is not there is refused alone.
        assert_eq!(shared.begin_reserve([0xee; 16], 5), None);
        assert_eq!(shared.poll_reserved(), None);
        drop(busy);
        drop(of_all);
        let (begin, mut done) = (Instant::now(), HashMap::new());
        while done.len() <= usize::from(RECORDS) && begin.elapsed() < Duration::from_secs(60) {
            match shared.poll_reserved() {
                Some(reserved) => _ = done.insert(reserved.record, reserved),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        for n in 0..RECORDS {
            let reserved = &done[&[n; 16]];
            assert_eq!((reserved.limit, &reserved.done), (1000 + u64::from(n), &Ok(())));
        }
        assert!(done[&[0xee; 16]].done.is_err());
        shared.close();
        drop(shared);
        let mut again = SharedStore::new(opened(&folder.0));
        let kept = again.open("esp-out t7", [7; 16]).expect("a counter");
        assert_eq!(kept, Counter { used: 1007, edge: 19 });
    }

    #[test]
    fn edges_wait_for_no_other_and_are_known_while_they_do() {
        let folder = std::env::temp_dir().join(format!("ferrule-edges-{}", std::process::id()));
        let folder = Folder(folder);
        let mut shared = SharedStore::new(opened(&folder.0));
        let edge = |shared: &SharedStore| shared.lock().find("esp-out t3", [3; 16]).map(|c| c.edge);
        // One that cannot be written, told again and again, as the node does.
        let begin = Instant::now();
        for told in 1.. {
            let _ = shared.keep_edge([0xee; 16], 7);
            if begin.elapsed() > Duration::from_millis(400) {
                let _ = shared.keep_edge([3; 16], 50);
                let kept = shared.open("esp-out t3", [3; 16]).expect("a counter");
                assert_eq!(kept.edge, 50, "known at once, written or not");
            }
            if edge(&shared).is_ok_and(|edge| edge == 50) {
                break;
            }
            assert!(begin.elapsed() < 5 * AGAIN, "told {told} times and not written");
            std::thread::sleep(Duration::from_millis(200));
        }
        shared.close();
    }

    #[test]
    fn at_a_clean_stop_one_record_holds_up_no_other() {
        let folder = std::env::temp_dir().join(format!("ferrule-settle-{}", std::process::id()));
        let folder = Folder(folder);
        let shared = SharedStore::new(opened(&folder.0));
        let failed = shared.settle(&[([0xee; 16], 5)], &[([0xee; 16], 5), ([3; 16], 50)]);
        assert_eq!(failed.len(), 2);
        drop(shared);
        let kept = opened(&folder.0).find("esp-out t3", [3; 16]).expect("a counter");
        assert_eq!(kept.edge, 50);
    }
}
