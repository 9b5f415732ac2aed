//! Numbers that were reserved, kept where a crash cannot lower them.
//!
//! A sequence number used twice under one counter-mode key gives the key stream
//! away. So a number is sent only when a limit above it is on the disk, and
//! after a crash counting goes on above the limit.
//!
//! ```text
//!   FOLDER/                          0700, held by one process (flock)
//!     lock
//!     FINGERPRINT.anchor             written first ┐ both name the limit; the
//!     FINGERPRINT.counter            written then  ┘ higher one counts
//!
//!   one write: FILE.new ─ sync ─ rename over the anchor ─ fsync of the folder
//!                              ─ rename over the counter ─ fsync of the folder
//! ```
//!
//! Many records are written together: each step is done for all of them before the next.
//!
//! A file is named by a fingerprint of what makes its nonces, so a tunnel that
//! is given another name goes on with its counter, and a key that comes back
//! after another one finds the counter that it left.
//!
//! | what happened | what is done |
//! | --- | --- |
//! | killed during a write | the file before or the file after is there; both are at or above what was used |
//! | no files | refused: `ferrule state create` says that the key is fresh |
//! | one of the two files is gone, cut or altered | refused |
//! | a file came from a backup | its inode and time of birth are not those in it: refused |
//! | one file is older than the other can explain | refused |
//! | a second process | refused: the folder is locked |
//!
//! What this cannot see is a whole disk or machine set back to a snapshot: keys
//! that were in use then must be replaced.

mod record;

pub use record::{Place, Record};

use ferrule_node::CounterId;
use record::{RECORD_MAX, hex};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How long a lock is waited for: a node that ends, or a process that another
/// thread is just starting, holds it a moment longer than it needs.
const PATIENCE: Duration = Duration::from_millis(400);

/// Files that are synced one by one; of more the whole file system is.
const SYNC_EACH_MAX: usize = 16;

/// The files of a record, in the order in which they are written.
const KINDS: [&str; 2] = ["anchor", "counter"];

/// Keys whose counters one folder holds at most.
pub const KEYS_MAX: usize = 1 << 20;

/// Why a counter cannot be used.
#[derive(Debug)]
pub enum StateError {
    /// There is no folder.
    NoFolder(PathBuf),
    /// Others could write the folder.
    OpenFolder(PathBuf, u32),
    /// Another process has the folder.
    Locked(PathBuf),
    /// There is no counter for the key.
    Missing(String, PathBuf),
    /// The files contradict themselves or each other.
    Damaged(String, PathBuf, &'static str),
    /// The system did not do it.
    Os(String, io::Error),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFolder(path) => {
                write!(f, "there is no folder `{}` for the counters", path.display())
            }
            Self::OpenFolder(path, mode) => {
                write!(f, "others may look into `{}` (mode {mode:04o})", path.display())
            }
            Self::Locked(path) => {
                write!(f, "another process has the counters in `{}`", path.display())
            }
            Self::Missing(id, path) => {
                write!(f, "no counter state for `{id}` in `{}`", path.display())
            }
            Self::Damaged(id, path, why) => {
                write!(f, "the counter state for `{id}`, `{}`, {why}", path.display())
            }
            Self::Os(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for StateError {}

impl StateError {
    /// What a person can do.
    pub fn remedy(&self) -> String {
        match self {
            Self::NoFolder(_) | Self::Missing(..) => {
                "if the key has never been used: `ferrule state create NODE.toml` (for a node \
                 that runs: `ferrule apply --new-keys`); else make a new key with \
                 `ferrule init key`"
                    .into()
            }
            Self::OpenFolder(path, _) => format!("chmod 700 {}", path.display()),
            Self::Locked(_) => "stop the other one first, or give each node a folder".into(),
            Self::Damaged(..) => "make a new key with `ferrule init key` at both ends, then \
                                  `ferrule state create NODE.toml`"
                .into(),
            Self::Os(..) => {
                "see whether the user may write there, and whether there is room".into()
            }
        }
    }
}

/// The counters of one node.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    /// Held open: the lock lasts as long as this.
    _lock: File,
    /// Makes what is missing instead of refusing.
    creates: bool,
    made: usize,
    records: HashMap<[u8; 16], Record>,
}

/// A counter as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Never below any number that was used.
    pub next: u64,
    /// The edge of the replay window as last kept.
    pub edge: u64,
}

impl FileStore {
    /// Takes the folder, which must exist.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        check_folder(folder)?;
        let path = folder.join("lock");
        let os = |e| StateError::Os(format!("`{}`", path.display()), e);
        let lock =
            OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(os)?;
        let patient = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < patient => sleep(PATIENCE / 20),
                Err(TryLockError::WouldBlock) => return Err(StateError::Locked(folder.into())),
                Err(TryLockError::Error(e)) => return Err(os(e)),
            }
        }
        Ok(Self {
            folder: folder.into(),
            _lock: lock,
            creates: false,
            made: 0,
            records: HashMap::new(),
        })
    }

    /// Takes the folder and makes it, and every counter that is asked for, if
    /// they are not there. Only for keys that were never used.
    pub fn create(folder: &Path) -> Result<Self, StateError> {
        let os = |e| StateError::Os(format!("making `{}`", folder.display()), e);
        if !folder.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(os)?;
            fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(os)?;
        }
        Ok(Self { creates: true, ..Self::open(folder)? })
    }

    /// Whether counters that are not there are made from now on, which is right
    /// only for keys that were never used.
    pub fn make_missing(&mut self, yes: bool) {
        self.creates = yes;
    }

    /// Counters that were made because there were none.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Gives folder and files to another user, who goes on with them.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        std::os::unix::fs::chown(&self.folder, Some(uid), Some(gid))?;
        for entry in fs::read_dir(&self.folder)? {
            std::os::unix::fs::lchown(entry?.path(), Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Opens the counter of a key. All else goes by the fingerprint: `id` is what it is
    /// called today, for people.
    pub fn find(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Found, StateError> {
        self.find_all(&[CounterId { id: id.into(), fingerprint }])?;
        let record = &self.records[&fingerprint];
        Ok(Found { next: record.limit.saturating_add(1), edge: record.edge })
    }

    /// Opens the counters of many keys.
    pub fn find_all(&mut self, wanted: &[CounterId]) -> Result<(), StateError> {
        let mut fresh = HashMap::new();
        for CounterId { id, fingerprint } in wanted {
            if self.records.contains_key(fingerprint) || fresh.contains_key(fingerprint) {
                continue;
            }
            if let Some(record) = self.load(id, *fingerprint)? {
                self.records.insert(*fingerprint, record);
            } else if self.creates && self.records.len() + fresh.len() < KEYS_MAX {
                fresh.insert(*fingerprint, Record::new(id, *fingerprint));
            } else {
                return Err(StateError::Missing(id.clone(), self.folder.clone()));
            }
        }
        self.store(fresh.values_mut(), &KINDS)?;
        self.made += fresh.len();
        self.records.extend(fresh);
        Ok(())
    }

    /// Numbers up to `limit` may be used once this returns.
    pub fn raise(&mut self, key: [u8; 16], limit: u64) -> Result<(), StateError> {
        self.raise_all(&[(key, limit)])
    }

    /// The same of many keys. On an error none of their limits counts as raised.
    pub fn raise_all(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), StateError> {
        self.change(limits, |record, limit| record.limit = record.limit.max(limit))
    }

    /// Keeps the edge of a replay window. An edge is written often and may be
    /// late, so only one of the two files gets it.
    pub fn raise_edge(&mut self, key: [u8; 16], edge: u64) -> Result<(), StateError> {
        let mut record = self.record(key)?;
        if edge <= record.edge {
            return Ok(());
        }
        record.edge = edge;
        self.store([&mut record], &KINDS[1..])?;
        self.records.insert(key, record);
        Ok(())
    }

    /// What numbers were used is known, for nobody uses them any more: at a
    /// clean stop nothing needs to be skipped.
    pub fn settle(&mut self, key: [u8; 16], used: u64) -> Result<(), StateError> {
        self.change(&[(key, used)], |record, used| record.limit = record.limit.min(used))
    }

    /// Whether the folder can still be used, after becoming another user.
    pub fn is_reachable(&self) -> Result<(), StateError> {
        let os = |e| StateError::Os(format!("folder `{}`", self.folder.display()), e);
        let probe = self.folder.join("probe");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(os)
    }

    fn record(&self, key: [u8; 16]) -> Result<Record, StateError> {
        let record = self.records.get(&key).cloned();
        record.ok_or_else(|| StateError::Missing(hex(&key), self.folder.clone()))
    }

    fn change(
        &mut self,
        numbers: &[([u8; 16], u64)],
        change: impl Fn(&mut Record, u64),
    ) -> Result<(), StateError> {
        let mut changed = HashMap::new();
        for &(key, number) in numbers {
            let mut next = changed.remove(&key).map_or_else(|| self.record(key), Ok)?;
            change(&mut next, number);
            changed.insert(key, next);
        }
        changed.retain(|key, next| self.records[key].limit != next.limit);
        changed.values_mut().for_each(|next| next.generation += 1);
        self.store(changed.values_mut(), &KINDS)?;
        self.records.extend(changed);
        Ok(())
    }

    /// Reads both files and believes the higher one, if they fit each other. Nothing if
    /// there are none.
    fn load(&self, id: &str, fingerprint: [u8; 16]) -> Result<Option<Record>, StateError> {
        let [anchor, counter] = paths(&self.folder, fingerprint);
        let damaged = |path: &Path, why| StateError::Damaged(id.into(), path.into(), why);
        let (first, second) = match (read(&anchor, id)?, read(&counter, id)?) {
            (Some(first), Some(second)) => (first, second),
            (None, None) => return Ok(None),
            // The very first write was cut between the two: nothing was sent.
            (Some(first), None) if first.generation == 1 && self.creates => return Ok(None),
            (Some(_), None) => return Err(damaged(&counter, "is gone")),
            (None, Some(_)) => return Err(damaged(&anchor, "is gone")),
        };
        if first.fingerprint != fingerprint || second.fingerprint != fingerprint {
            return Err(damaged(&counter, "is another key's"));
        }
        if second.generation > first.generation || second.generation + 1 < first.generation {
            return Err(damaged(&counter, "is older than its anchor, or the anchor older than it"));
        }
        if second.generation == first.generation {
            let (limit, edge) = (first.limit.max(second.limit), first.edge.max(second.edge));
            return Ok(Some(Record { limit, edge, ..first }));
        }
        // A write was cut between the two. The higher limit counts (a clean
        // stop lowers it), and both files agree again before anything is used.
        let limit = first.limit.max(second.limit);
        let mut whole = Record { limit, edge: first.edge.max(second.edge), ..first.clone() };
        self.store([&mut whole], &KINDS[1..])?;
        if limit != first.limit {
            whole.generation += 1;
            self.store([&mut whole], &KINDS)?;
        }
        Ok(Some(whole))
    }

    /// Writes these files of some records: what is in them is on the disk before they have
    /// their names, and all anchors have theirs before any counter.
    fn store<'a>(
        &self,
        records: impl IntoIterator<Item = &'a mut Record>,
        kinds: &[&str],
    ) -> Result<(), StateError> {
        let records: Vec<_> = records.into_iter().collect();
        let few = records.len() * kinds.len() <= SYNC_EACH_MAX;
        let failed = |path: &Path, e| StateError::Os(format!("writing `{}`", path.display()), e);
        let folder = File::open(&self.folder).map_err(|e| failed(&self.folder, e))?;
        let mut names = vec![Vec::new(); kinds.len()];
        for record in records {
            for (kind, names) in kinds.iter().zip(&mut names) {
                let path = path(&self.folder, record.fingerprint, kind);
                let fresh = path.with_extension(format!("{kind}.new"));
                write(&fresh, record, few).map_err(|e| failed(&path, e))?;
                names.push((fresh, path));
            }
        }
        if !few {
            rustix::fs::syncfs(&folder).map_err(|e| failed(&self.folder, e.into()))?;
        }
        for names in names.iter().filter(|names| !names.is_empty()) {
            for (fresh, path) in names {
                fs::rename(fresh, path).map_err(|e| failed(path, e))?;
            }
            folder.sync_all().map_err(|e| failed(&self.folder, e))?;
        }
        Ok(())
    }
}

/// Whether what is kept about a key can be used, without taking the folder: a
/// node may be running on it.
pub fn look(folder: &Path, id: &str, fingerprint: [u8; 16]) -> Result<(), StateError> {
    check_folder(folder)?;
    let [anchor, counter] = paths(folder, fingerprint);
    if read(&anchor, id)?.is_none() || read(&counter, id)?.is_none() {
        return Err(StateError::Missing(id.into(), folder.into()));
    }
    Ok(())
}

fn paths(folder: &Path, fingerprint: [u8; 16]) -> [PathBuf; 2] {
    KINDS.map(|kind| path(folder, fingerprint, kind))
}

fn path(folder: &Path, fingerprint: [u8; 16], kind: &str) -> PathBuf {
    folder.join(format!("{}.{kind}", hex(&fingerprint)))
}

/// The folder is there, and its owner's alone.
fn check_folder(folder: &Path) -> Result<(), StateError> {
    let about = match fs::metadata(folder) {
        Ok(about) if about.is_dir() => about,
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(StateError::Os(format!("folder `{}`", folder.display()), e));
        }
        _ => return Err(StateError::NoFolder(folder.into())),
    };
    let mode = about.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(StateError::OpenFolder(folder.into(), mode));
    }
    Ok(())
}

/// Where an open file lies.
fn place(file: &File) -> io::Result<Place> {
    let about = file.metadata()?;
    let born = about.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0));
    Ok(Place { inode: about.ino(), born })
}

/// Writes a record to a file beside its own, which has its name later.
fn write(fresh: &Path, record: &mut Record, sync: bool) -> io::Result<()> {
    match fs::remove_file(fresh) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
    record.place = place(&file)?;
    file.write_all(record.to_text().as_bytes())?;
    if sync { file.sync_all() } else { Ok(()) }
}

fn read(path: &Path, id: &str) -> Result<Option<Record>, StateError> {
    let os = |e| StateError::Os(format!("reading `{}`", path.display()), e);
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(os)?,
    };
    let mut octets = Vec::new();
    (&file).take(RECORD_MAX + 1).read_to_end(&mut octets).map_err(os)?;
    let damaged = |why| StateError::Damaged(id.into(), path.into(), why);
    let record = std::str::from_utf8(&octets).ok().and_then(Record::from_text);
    let record = record.ok_or_else(|| damaged("is cut short or was altered"))?;
    if record.place != place(&file).map_err(os)? {
        return Err(damaged("was copied or came from a backup: newer numbers may be in use"));
    }
    Ok(Some(record))
}

#[cfg(test)]
mod tests;
