//! Numbers that were reserved, kept where neither a crash nor a backup can lower them.
//!
//! A sequence number used twice under one counter-mode key gives the key stream
//! away. So a number is sent only when a limit above it is on the disk, and
//! after a crash counting goes on above the limit.
//!
//! ```text
//!   FOLDER/                     0700, locked by one process
//!     state                     which state this is; written once, locked as well
//!     FINGERPRINT.counter       the limit of a key
//!     FINGERPRINT.counter.new   the next one, while it is written
//!   used-keys                   of the host: which state a key belongs to
//!
//!   one write:  .new ─ sync ─ sync of the folder
//!               what .counter names is made void, and says what comes after it ─ sync
//!               .new is renamed to .counter ─ sync of the folder ─ is it that file?
//! ```
//!
//! Many records are written together: each step is done for all of them before the next.
//!
//! A file is made void while it still has its name. So one that says a limit is always the
//! one that the folder names: any other file that ever was is void, whatever hard link
//! leads to it, and a copy is not where it says that it is. Both files of a write that was
//! cut name each other.
//!
//! A file is named by a fingerprint of what makes its nonces, so a tunnel that
//! is given another name goes on with its counter, and a key that comes back
//! after another one finds the counter that it left.
//!
//! | what happened | what is done |
//! | --- | --- |
//! | killed, or power lost, during a write | it is undone if `.counter` stands, else finished |
//! | no files | refused: `ferrule state create` says that the key is fresh |
//! | that is said of a key which the list has | refused: its state is lost or elsewhere |
//! | a file is cut or altered | refused, unless that was a write of our own, as both files say |
//! | a file was copied, or comes from a backup | its inode and time of birth are not those in it: refused |
//! | a hard link from before comes back | it is void: refused |
//! | a second process, also by hard links | refused: folder and `state` are locked |
//! | the folder or `state` is taken from a process | nothing is reserved any more |
//!
//! Errors that this cannot see are in docs/state.md.

mod disk;
mod error;
mod identity;
pub mod record;
mod used;

pub use disk::{Disk, System};
pub use error::StateError;
pub use record::{Place, Record};
pub use used::of_host as used_keys;

use ferrule_node::CounterId;
use identity::Identity;
use record::{RECORD_MAX, Void, hex};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use used::UsedKeys;

/// How long a lock is waited for: a node that ends, or a process that another
/// thread is just starting, holds it a moment longer than it needs.
const PATIENCE: Duration = Duration::from_millis(400);

/// Files that are synced one by one; of more the whole file system is.
const SYNC_EACH_MAX: usize = 16;

/// The file that says which state a folder is.
const STATE: &str = "state";
/// Its name while it is written.
const STATE_NEW: &str = "state.new";

/// Reason for which a write does not count.
const ANOTHER: &str = "another file has its name";

/// Keys whose counters one folder holds at most.
pub const KEYS_MAX: usize = 1 << 20;

/// The counters of one node.
#[derive(Debug)]
pub struct FileStore<D: Disk = System> {
    disk: D,
    path: PathBuf,
    /// Locked for as long as they are open.
    folder: D::Handle,
    identity: D::Handle,
    id: [u8; 16],
    used: UsedKeys<D>,
    /// Makes what is missing instead of refusing.
    creates: bool,
    made: usize,
    records: HashMap<[u8; 16], Record>,
    /// Records of which a write failed: what the disk has is looked at again.
    unsure: HashSet<[u8; 16]>,
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
    /// Takes the state of a folder. `used` is the host's list of used keys.
    pub fn open(folder: &Path, used: &Path) -> Result<Self, StateError> {
        Self::open_on(System, folder, used)
    }

    /// Takes the state of a folder and makes it, and every counter that is asked for, if
    /// they are not there. Only for keys that were never used.
    pub fn create(folder: &Path, used: &Path) -> Result<Self, StateError> {
        Self::create_on(System, folder, used)
    }

    /// Gives folder and files to another user, who goes on with them. A link, a file that
    /// has another name elsewhere, and what is neither's stay whose they are: in a folder
    /// that was that user's before, anything may lie.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        let ours = rustix::process::geteuid().as_raw();
        let give = |file: &File| std::os::unix::fs::fchown(file, Some(uid), Some(gid));
        if ![ours, uid].contains(&self.folder.metadata()?.uid()) {
            let what = format!("folder `{}` is another user's", self.path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match openat(&self.folder, entry.file_name(), flags, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::LOOP | Errno::NXIO | Errno::NOENT) => continue,
                Err(e) => return Err(e.into()),
            };
            let found = file.metadata()?;
            if found.is_file() && found.nlink() == 1 && found.uid() == ours {
                give(&file)?;
            }
        }
        give(&self.folder)
    }

    /// Checks that the folder can still be used, after becoming another user.
    pub fn is_reachable(&self) -> Result<(), StateError> {
        let os = |e| StateError::Os(format!("folder `{}`", self.path.display()), e);
        let probe = self.path.join("probe");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(os)
    }
}

impl<D: Disk + Clone> FileStore<D> {
    /// [`open`](FileStore::open) on any file system.
    pub fn open_on(disk: D, path: &Path, used: &Path) -> Result<Self, StateError> {
        let (folder, os) = (open_folder(&disk, path)?, os_of(path));
        if !patiently(|| disk.lock(&folder)).map_err(&os)? {
            return Err(StateError::Locked(path.into()));
        }
        let Some(identity) = disk.open(&folder, STATE).map_err(&os)? else {
            return Err(StateError::NoState(path.into()));
        };
        if !patiently(|| disk.lock(&identity)).map_err(&os)? {
            return Err(StateError::Locked(path.into()));
        }
        let id = read_identity(&disk, &identity, path)?;
        let used = UsedKeys::open(disk.clone(), used)?;
        let store = Self {
            disk,
            path: path.into(),
            folder,
            identity,
            id,
            used,
            creates: false,
            made: 0,
            records: HashMap::new(),
            unsure: HashSet::new(),
        };
        store.is_ours()?;
        // Names that another process gave, and was killed before they were synced.
        store.disk.sync(&store.folder).map_err(os)?;
        Ok(store)
    }

    /// [`create`](FileStore::create) on any file system.
    pub fn create_on(disk: D, path: &Path, used: &Path) -> Result<Self, StateError> {
        make_path(&disk, path).map_err(os_of(path))?;
        begin(&disk, path)?;
        Ok(Self { creates: true, ..Self::open_on(disk, path, used)? })
    }

    /// Allows or forbids making counters that are missing, which is right only for keys that were
    /// never used.
    pub fn make_missing(&mut self, yes: bool) {
        self.creates = yes;
    }

    /// Counters that were made because there were none.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Opens the counter of a key. The fingerprint decides; `id` is its present name, for people.
    pub fn find(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Found, StateError> {
        self.find_all(&[CounterId { id: id.into(), fingerprint, sends: false }])?;
        let record = &self.records[&fingerprint];
        Ok(Found { next: record.limit.saturating_add(1), edge: record.edge })
    }

    /// Opens the counters of many keys.
    pub fn find_all(&mut self, wanted: &[CounterId]) -> Result<(), StateError> {
        let mut fresh = HashMap::new();
        for CounterId { id, fingerprint, .. } in wanted {
            if fresh.contains_key(fingerprint) {
                continue;
            }
            let kept = match self.records.contains_key(fingerprint) {
                true => Some(self.record(*fingerprint)?),
                false => self.load(id, *fingerprint)?,
            };
            if let Some(record) = kept {
                self.records.insert(*fingerprint, record);
            } else if self.creates && self.records.len() + fresh.len() < KEYS_MAX {
                fresh.insert(*fingerprint, Record::new(id, self.id, *fingerprint));
            } else {
                return Err(StateError::Missing(id.clone(), self.path.clone()));
            }
        }
        let sending = wanted.iter().filter(|key| key.sends && fresh.contains_key(&key.fingerprint));
        self.used.are_new(sending.map(|key| (key.id.as_str(), key.fingerprint)))?;
        self.made += fresh.len();
        self.write(fresh)
    }

    /// A block of instances of SAs, which no other state of this host has.
    pub fn instances(&mut self) -> Result<Range<u64>, StateError> {
        self.is_ours()?;
        self.used.take_instances(self.id)
    }

    /// Numbers up to `limit` may be used once this returns.
    pub fn raise(&mut self, key: [u8; 16], limit: u64) -> Result<(), StateError> {
        self.raise_all(&[(key, limit)])
    }

    /// Raises the limits of many keys. On an error none of them counts as raised.
    pub fn raise_all(&mut self, limits: &[([u8; 16], u64)]) -> Result<(), StateError> {
        let known = |key: &[u8; 16]| self.records.get(key).map_or("", |record| &record.id);
        self.used.claim(self.id, limits.iter().map(|(key, _)| (known(key), *key)))?;
        self.change(limits, |record, limit| record.limit = record.limit.max(limit))
    }

    /// Keeps the edge of a replay window.
    pub fn raise_edge(&mut self, key: [u8; 16], edge: u64) -> Result<(), StateError> {
        self.raise_edges(&[(key, edge)])
    }

    /// Raises the edges of many replay windows.
    pub fn raise_edges(&mut self, edges: &[([u8; 16], u64)]) -> Result<(), StateError> {
        self.change(edges, |record, edge| record.edge = record.edge.max(edge))
    }

    /// Lowers a limit to the numbers that were used, once none is used any more: after a clean stop
    /// nothing needs to be skipped.
    pub fn settle(&mut self, key: [u8; 16], used: u64) -> Result<(), StateError> {
        self.settle_all(&[(key, used)])
    }

    /// Settles the limits of many keys.
    pub fn settle_all(&mut self, used: &[([u8; 16], u64)]) -> Result<(), StateError> {
        self.change(used, |record, used| record.limit = record.limit.min(used))
    }

    fn record(&mut self, key: [u8; 16]) -> Result<Record, StateError> {
        let missing = || StateError::Missing(hex(&key), self.path.clone());
        let known = self.records.get(&key).ok_or_else(missing)?;
        if !self.unsure.contains(&key) {
            return Ok(known.clone());
        }
        let id = known.id.clone();
        self.disk.sync(&self.folder).map_err(os_of(&self.path))?;
        let kept = self.load(&id, key)?;
        let record = kept.ok_or_else(|| StateError::Missing(id, self.path.clone()))?;
        self.unsure.remove(&key);
        self.records.insert(key, record.clone());
        Ok(record)
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
        changed.retain(|key, next| self.records[key] != *next);
        self.write(changed)
    }

    /// Writes records; from then on they are what is known.
    fn write(&mut self, mut changed: HashMap<[u8; 16], Record>) -> Result<(), StateError> {
        self.is_ours()?;
        for known in changed.keys().filter_map(|key| self.records.get(key)) {
            self.stands(known)?;
            self.unsure.insert(known.fingerprint);
        }
        self.store(changed.values_mut())?;
        changed.keys().for_each(|key| {
            self.unsure.remove(key);
        });
        self.records.extend(changed);
        Ok(())
    }

    /// Checks that a file is the one that was written last. If another one has its name, that one
    /// would be made void, and the last would not.
    fn stands(&self, known: &Record) -> Result<(), StateError> {
        let name = name_of(known.fingerprint);
        match self.reader().file(&name, &known.id)? {
            Says::This(record) if record == *known => Ok(()),
            _ => Err(StateError::Damaged(
                known.id.clone(),
                self.path.join(name),
                "is not the file that this process wrote",
            )),
        }
    }

    /// The steps of a write, each for all records before the next.
    fn store<'a>(
        &self,
        records: impl IntoIterator<Item = &'a mut Record>,
    ) -> Result<(), StateError> {
        let records: Vec<_> = records.into_iter().collect();
        if records.is_empty() {
            return Ok(());
        }
        let few = records.len() <= SYNC_EACH_MAX;
        let synced = |file: &D::Handle| if few { self.disk.sync(file) } else { Ok(()) };
        let all_synced = || if few { Ok(()) } else { self.disk.sync_all(&self.folder) };
        let mut written = Vec::with_capacity(records.len());
        for record in records {
            let name = name_of(record.fingerprint);
            let failed = self.failed(&name);
            let fresh = self.fresh(&name).map_err(&failed)?;
            record.after = record.place;
            record.place = self.disk.place(&fresh).map_err(&failed)?;
            record.generation += 1;
            let text = record.to_text();
            self.disk.append(&fresh, text.as_bytes()).map_err(&failed)?;
            synced(&fresh).map_err(&failed)?;
            written.push((name, record.after, record.place));
        }
        all_synced().and_then(|()| self.disk.sync(&self.folder)).map_err(os_of(&self.path))?;
        for (name, old, next) in &written {
            let void = Void { next: *next }.to_text();
            self.make_void(name, Some(*old), &void, synced).map_err(self.failed(name))?;
        }
        all_synced().map_err(os_of(&self.path))?;
        for (name, ..) in &written {
            let named = self.disk.rename(&self.folder, &new(name), name);
            named.map_err(self.failed(name))?;
        }
        self.disk.sync(&self.folder).map_err(os_of(&self.path))?;
        written
            .iter()
            .try_for_each(|(name, _, fresh)| self.has_name(name, *fresh).map_err(self.failed(name)))
    }

    /// Checks that the folder names this file: names may be put back meanwhile.
    fn has_name(&self, name: &str, file: Place) -> io::Result<()> {
        let found = self.disk.open(&self.folder, name)?;
        match found.map(|found| self.disk.place(&found)).transpose()? == Some(file) {
            true => Ok(()),
            false => Err(io::Error::other(ANOTHER)),
        }
    }

    /// A new file for what comes after this one.
    fn fresh(&self, name: &str) -> io::Result<D::Handle> {
        self.undo(name)?;
        self.disk.create(&self.folder, &new(name))
    }

    /// Takes back a write that was cut. It may have been linked to, as any other file.
    fn undo(&self, name: &str) -> io::Result<()> {
        let new = new(name);
        if self.make_void(&new, None, "", |file| self.disk.sync(file))? {
            self.disk.remove(&self.folder, &new)?;
        }
        Ok(())
    }

    /// Makes a file void while it has its name, if it is the file that is meant; true if there was
    /// one.
    fn make_void(
        &self,
        name: &str,
        meant: Option<Place>,
        mark: &str,
        sync: impl Fn(&D::Handle) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(old) = self.disk.open(&self.folder, name)? else { return Ok(false) };
        if let Some(meant) = meant
            && self.disk.place(&old)? != meant
        {
            return Err(io::Error::other(ANOTHER));
        }
        self.disk.void(&old)?;
        self.disk.append(&old, mark.as_bytes())?;
        sync(&old)?;
        Ok(true)
    }

    /// Reads what is kept about a key. Nothing if nothing is.
    fn load(&self, id: &str, fingerprint: [u8; 16]) -> Result<Option<Record>, StateError> {
        let name = name_of(fingerprint);
        let kept = self.reader().read(&name, id, fingerprint)?;
        let failed = self.failed(&name);
        match kept {
            Kept::Nothing => self.undo(&name).map_err(failed).map(|()| None),
            Kept::Whole(record) => self.undo(&name).map_err(failed).map(|()| Some(record)),
            Kept::Cut(record) => {
                // The process that made it void was perhaps killed before it was synced.
                let void = Void { next: record.place }.to_text();
                let sync = |file: &D::Handle| self.disk.sync(file);
                self.make_void(&name, Some(record.after), &void, sync).map_err(&failed)?;
                self.disk.rename(&self.folder, &new(&name), &name).map_err(&failed)?;
                self.disk.sync(&self.folder).map_err(&failed)?;
                self.has_name(&name, record.place).map_err(failed)?;
                Ok(Some(record))
            }
        }
    }

    fn reader(&self) -> Reader<'_, D> {
        let Self { disk, path, folder, id, .. } = self;
        Reader { disk, path, folder, state: *id }
    }

    /// Checks that folder and identity still have the names by which others look for them: else
    /// another state may have been begun there.
    fn is_ours(&self) -> Result<(), StateError> {
        let os = os_of(&self.path);
        let gone = || StateError::Unsound(self.path.join(STATE), "is not there any more");
        let same = |a: &D::Handle, b: &D::Handle| -> Result<bool, StateError> {
            Ok(self.disk.place(a).map_err(&os)? == self.disk.place(b).map_err(&os)?)
        };
        let folder = match self.disk.open_folder(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(gone()),
            folder => folder.map_err(&os)?,
        };
        let identity = self.disk.open(&folder, STATE).map_err(&os)?.ok_or_else(gone)?;
        match same(&folder, &self.folder)? && same(&identity, &self.identity)? {
            true => Ok(()),
            false => Err(StateError::Unsound(
                self.path.join(STATE),
                "is another one than when this process took it",
            )),
        }
    }

    fn failed(&self, name: &str) -> impl Fn(io::Error) -> StateError + use<D> {
        let path = self.path.join(name);
        move |e| StateError::Os(format!("writing `{}`", path.display()), e)
    }
}

/// Record found for a key.
enum Kept {
    /// Nothing, or a first write that was cut.
    Nothing,
    /// This.
    Whole(Record),
    /// This, in a file that has not got its name yet.
    Cut(Record),
}

/// Content of a file.
enum Says {
    /// There is none.
    Nothing,
    /// Nothing that can be understood: perhaps it was about to be made void.
    Garbage(Place),
    /// Superseded by another file.
    Void(Place, Void),
    This(Record),
}

/// Reads records, and changes nothing.
struct Reader<'a, D: Disk> {
    disk: &'a D,
    path: &'a Path,
    folder: &'a D::Handle,
    state: [u8; 16],
}

impl<D: Disk> Reader<'_, D> {
    fn read(&self, name: &str, id: &str, fingerprint: [u8; 16]) -> Result<Kept, StateError> {
        let damaged = |why| StateError::Damaged(id.into(), self.path.join(name), why);
        let (place, next, why) = match self.file(name, id)? {
            Says::Nothing => return Ok(Kept::Nothing),
            Says::This(record) if record.fingerprint == fingerprint => {
                return Ok(Kept::Whole(record));
            }
            Says::This(_) => return Err(damaged("is another key's")),
            Says::Garbage(place) => (place, None, "is cut short or was altered"),
            Says::Void(place, void) => {
                (place, Some(void.next), "is void: newer numbers were reserved since")
            }
        };
        match self.file(&new(name), id) {
            Ok(Says::This(record))
                if record.fingerprint == fingerprint
                    && record.after == place
                    && next.is_none_or(|next| next == record.place) =>
            {
                Ok(Kept::Cut(record))
            }
            _ => Err(damaged(why)),
        }
    }

    fn file(&self, name: &str, id: &str) -> Result<Says, StateError> {
        let path = self.path.join(name);
        let os = |e| StateError::Os(format!("reading `{}`", path.display()), e);
        let damaged = |why| StateError::Damaged(id.into(), path.clone(), why);
        let Some(file) = self.disk.open(self.folder, name).map_err(os)? else {
            return Ok(Says::Nothing);
        };
        let octets = self.disk.read(&file, RECORD_MAX + 1).map_err(os)?;
        let place = self.disk.place(&file).map_err(os)?;
        let text = std::str::from_utf8(&octets).unwrap_or_default();
        if let Some(void) = Void::from_text(text) {
            return Ok(Says::Void(place, void));
        }
        let Some(record) = Record::from_text(text) else { return Ok(Says::Garbage(place)) };
        if record.place != place {
            return Err(damaged("was copied or came from a backup: newer numbers may be in use"));
        }
        if record.state != self.state {
            return Err(damaged("belongs to another state"));
        }
        Ok(Says::This(record))
    }
}

/// Checks that a folder has a state, without taking it: a node may be running on it. Its identity.
pub fn look_at_folder(path: &Path) -> Result<[u8; 16], StateError> {
    let (folder, os) = (open_folder(&System, path)?, os_of(path));
    let Some(identity) = System.open(&folder, STATE).map_err(os)? else {
        return Err(StateError::NoState(path.into()));
    };
    read_identity(&System, &identity, path)
}

/// Checks that the record of a key can be used, without taking the folder.
pub fn look(path: &Path, id: &str, fingerprint: [u8; 16]) -> Result<(), StateError> {
    let (folder, state) = (open_folder(&System, path)?, look_at_folder(path)?);
    let reader = Reader { disk: &System, path, folder: &folder, state };
    match reader.read(&name_of(fingerprint), id, fingerprint)? {
        Kept::Nothing => Err(StateError::Missing(id.into(), path.into())),
        Kept::Whole(_) | Kept::Cut(_) => Ok(()),
    }
}

/// Makes the identity of a state in a folder that has nothing in it. One that is there
/// stays.
fn begin<D: Disk>(disk: &D, path: &Path) -> Result<(), StateError> {
    let (folder, os) = (open_folder(disk, path)?, os_of(path));
    if !patiently(|| disk.lock(&folder)).map_err(&os)? {
        return Err(StateError::Locked(path.into()));
    }
    if disk.open(&folder, STATE).map_err(&os)?.is_some() {
        return Ok(());
    }
    if disk.names(path).map_err(&os)?.iter().any(|name| name != STATE_NEW) {
        return Err(StateError::NotEmpty(path.into()));
    }
    if disk.open(&folder, STATE_NEW).map_err(&os)?.is_some() {
        disk.remove(&folder, STATE_NEW).map_err(&os)?;
    }
    let mut id = [0; 16];
    let random = ferrule_crypto::random::fill(&mut id).map_err(io::Error::other);
    random.map_err(&os)?;
    let file = disk.create(&folder, STATE_NEW).map_err(&os)?;
    let identity = Identity { id, place: disk.place(&file).map_err(&os)? };
    disk.append(&file, identity.to_text().as_bytes()).map_err(&os)?;
    disk.sync(&file).map_err(&os)?;
    disk.rename(&folder, STATE_NEW, STATE).map_err(&os)?;
    disk.sync(&folder).map_err(os)
}

/// The folder, which must be its owner's alone.
fn open_folder<D: Disk>(disk: &D, path: &Path) -> Result<D::Handle, StateError> {
    let folder = match disk.open_folder(path) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(StateError::NoState(path.into()));
        }
        folder => folder.map_err(os_of(path))?,
    };
    let mode = disk.mode(&folder).map_err(os_of(path))?;
    if mode & 0o077 != 0 {
        return Err(StateError::OpenFolder(path.into(), mode));
    }
    Ok(folder)
}

fn read_identity<D: Disk>(disk: &D, file: &D::Handle, path: &Path) -> Result<[u8; 16], StateError> {
    let unsound = |why| StateError::Unsound(path.join(STATE), why);
    let octets = disk.read(file, RECORD_MAX + 1).map_err(os_of(path))?;
    let identity = std::str::from_utf8(&octets).ok().and_then(Identity::from_text);
    let identity = identity.ok_or_else(|| unsound("is cut short or was altered"))?;
    if identity.place != disk.place(file).map_err(os_of(path))? {
        return Err(unsound("was copied or came from a backup: newer numbers may be in use"));
    }
    Ok(identity.id)
}

/// Makes a folder and those above it; the names of all are on stable storage.
fn make_path<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    match disk.open_folder(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        there => return there.map(drop),
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    make_path(disk, above)?;
    match disk.make_folder(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    disk.sync(&disk.open_folder(above)?)
}

/// Takes a lock, waiting a little; true if it was free in the end.
fn patiently(lock: impl Fn() -> io::Result<bool>) -> io::Result<bool> {
    let end = Instant::now() + PATIENCE;
    loop {
        match lock()? {
            false if Instant::now() < end => sleep(PATIENCE / 20),
            free => return Ok(free),
        }
    }
}

fn os_of(path: &Path) -> impl Fn(io::Error) -> StateError {
    move |e| StateError::Os(format!("folder `{}`", path.display()), e)
}

fn name_of(fingerprint: [u8; 16]) -> String {
    format!("{}.counter", hex(&fingerprint))
}

/// The name of a file while it is written.
fn new(name: &str) -> String {
    format!("{name}.new")
}

#[cfg(test)]
mod tests;
