//! The keys of which this host has given numbers out, each with its state.
//!
//! A key is used with one state, the first. If that is lost, what is made instead of it
//! does not know how far it was; if a configuration is cloned, the clone would begin the
//! same numbers again. Both are another state for a key that is in this list.
//!
//! ```text
//!   84ae6b204b359b33bf0482ea5e3bab3e 0f3c…    fingerprint of a key, state
//! ```
//!
//! Instances of SAs are handed out in the same way: a line with `instance` and the number of a
//! block of them in place of a key says whose it is, so that a state that is lost, and one that
//! is made in its place, have none in common.
//!
//! Lines are only added, and synced before the first number of the key is sent. A line
//! that was cut short was never relied upon.

use super::disk::Disk;
use super::error::StateError;
use super::record::{digits, hex};
use super::{make_path, patiently};
use ferrule_dataplane::ipsec::INSTANCE_MAX;
use ferrule_node::INSTANCES;
use ferrule_ports::os::User;
use std::collections::{HashMap, HashSet};
use std::env;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names another file: for containers of one host, whose `/var/lib` is not the host's.
const ELSEWHERE: &str = "FERRULE_USED_KEYS";

/// Octets of the list at most.
const LIST_MAX: u64 = 1 << 28;

/// Path of the list of this host: of all nodes that root starts, or of this user's.
pub fn of_host() -> Result<PathBuf, StateError> {
    if let Some(path) = env::var_os(ELSEWHERE) {
        return Ok(path.into());
    }
    if User::current().is_root() {
        return Ok("/var/lib/ferrule/used-keys".into());
    }
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".local/state"));
    match env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home) {
        Some(folder) => Ok(folder.join("ferrule/used-keys")),
        None => {
            let what = format!("no place for the list of used keys: set HOME or {ELSEWHERE}");
            Err(StateError::Os(what, io::ErrorKind::NotFound.into()))
        }
    }
}

/// The list, open for as long as a state is: a node that became another user could not
/// open it.
#[derive(Debug)]
pub struct UsedKeys<D: Disk> {
    disk: D,
    path: PathBuf,
    file: D::Handle,
    /// Keys that are in the list with our state.
    ours: HashSet<[u8; 16]>,
}

impl<D: Disk> UsedKeys<D> {
    /// Opens the list; an empty one if there is none.
    pub fn open(disk: D, path: &Path) -> Result<Self, StateError> {
        let os = |e| StateError::Os(format!("list of used keys `{}`", path.display()), e);
        let odd = || os(io::ErrorKind::InvalidFilename.into());
        let above = path.parent().ok_or_else(odd)?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(odd)?;
        make_path(&disk, above).map_err(os)?;
        let folder = disk.open_folder(above).map_err(os)?;
        let file = match disk.open(&folder, name).map_err(os)? {
            Some(file) => file,
            None => match disk.create(&folder, name) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    disk.open(&folder, name).map_err(os)?.ok_or_else(odd)?
                }
                made => made.map_err(os)?,
            },
        };
        // Also of one who made it and did not come to sync it.
        disk.sync(&folder).map_err(os)?;
        Ok(Self { disk, path: path.into(), file, ours: HashSet::new() })
    }

    /// Checks that none of these keys was used before: neither with this state nor another.
    pub fn are_new<'a>(
        &self,
        keys: impl Iterator<Item = (&'a str, [u8; 16])>,
    ) -> Result<(), StateError> {
        // The list may be long, and counters are looked up one by one.
        let mut keys = keys.peekable();
        if keys.peek().is_none() {
            return Ok(());
        }
        let used = self.read().map_err(|e| self.os(e))?;
        for (id, key) in keys {
            if used.states.contains_key(&key) {
                return Err(StateError::Used(id.into(), self.path.clone()));
            }
        }
        Ok(())
    }

    /// Enters keys with their state, if no other state has them.
    pub fn claim<'a>(
        &mut self,
        state: [u8; 16],
        keys: impl Iterator<Item = (&'a str, [u8; 16])>,
    ) -> Result<(), StateError> {
        let keys: Vec<_> = keys.filter(|(_, key)| !self.ours.contains(key)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        self.locked(|this| this.claim_locked(state, &keys))?;
        self.ours.extend(keys.iter().map(|(_, key)| *key));
        Ok(())
    }

    /// Enters the next block of instances of SAs with a state, and hands it out.
    pub fn take_instances(&self, state: [u8; 16]) -> Result<Range<u64>, StateError> {
        let number = self.locked(|this| {
            let used = this.read().map_err(|e| this.os(e))?;
            let last = used.states.keys().filter_map(block_of).max().unwrap_or_default();
            this.claim_locked(state, &[("", block(last + 1))])?;
            Ok(last + 1)
        })?;
        // Block 0 would have instance 0, which none has.
        match (number + 1) * INSTANCES <= INSTANCE_MAX {
            true => Ok(number * INSTANCES..(number + 1) * INSTANCES),
            false => Err(StateError::NoInstances(self.path.clone())),
        }
    }

    /// Does something that no other process does at the same time.
    fn locked<T>(
        &self,
        what: impl FnOnce(&Self) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let free = patiently(|| self.disk.lock(&self.file)).map_err(|e| self.os(e))?;
        if !free {
            return Err(StateError::Locked(self.path.clone()));
        }
        let done = what(self);
        self.disk.unlock(&self.file).map_err(|e| self.os(e))?;
        done
    }

    fn claim_locked(&self, state: [u8; 16], keys: &[(&str, [u8; 16])]) -> Result<(), StateError> {
        let used = self.read().map_err(|e| self.os(e))?;
        let mut text = if used.is_cut { "\n".to_owned() } else { String::new() };
        for &(id, key) in keys {
            match used.states.get(&key) {
                Some(&other) if other != state => {
                    return Err(StateError::Used(id.into(), self.path.clone()));
                }
                Some(_) => {}
                None => text += &format!("{} {}\n", hex(&key), hex(&state)),
            }
        }
        if !text.is_empty() {
            self.disk.append(&self.file, text.as_bytes()).map_err(|e| self.os(e))?;
        }
        // Also what another process entered for this state and did not come to sync.
        self.disk.sync(&self.file).map_err(|e| self.os(e))
    }

    fn read(&self) -> io::Result<List> {
        let octets = self.disk.read(&self.file, LIST_MAX + 1)?;
        if octets.len() as u64 > LIST_MAX {
            // A key behind what is read would be taken for one that was never used.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let text = String::from_utf8_lossy(&octets);
        let line = |line: &str| {
            let (key, state) = line.split_once(' ')?;
            Some((digits(key)?, digits(state)?))
        };
        let mut states = HashMap::new();
        for (key, state) in text.lines().filter_map(line) {
            states.entry(key).or_insert(state);
        }
        Ok(List { states, is_cut: !text.is_empty() && !text.ends_with('\n') })
    }

    fn os(&self, error: io::Error) -> StateError {
        StateError::Os(format!("list of used keys `{}`", self.path.display()), error)
    }
}

/// Octets in front of the number of a block of instances, in place of a key's fingerprint.
const BLOCK: [u8; 8] = *b"instance";

/// Line of a block, in the form of a fingerprint.
fn block(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&BLOCK);
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of a block, if a line is one's.
fn block_of(key: &[u8; 16]) -> Option<u64> {
    let number = key.strip_prefix(&BLOCK)?.first_chunk()?;
    Some(u64::from_be_bytes(*number))
}

/// Content of the list.
struct List {
    /// The state of each key, the first that is entered.
    states: HashMap<[u8; 16], [u8; 16]>,
    /// The last line has no end.
    is_cut: bool,
}
