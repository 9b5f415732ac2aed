//! A disk in memory that knows what was not synced. It fails from a given operation on,
//! and after a power loss has what was synced, and of the rest what was chosen.

use super::super::{Disk, Place};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard};

/// The number of a file or folder.
type Inode = usize;
/// Names in a folder, each with its file.
pub type Names = BTreeMap<String, Inode>;

const ROOT: Inode = 0;

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>),
    Folder(Names),
}

/// Change that is not on stable storage yet.
#[derive(Clone, Debug)]
enum Change {
    Append(Inode, Vec<u8>),
    Void(Inode),
    Names(Inode, Vec<(String, Option<Inode>)>),
}

/// Kinds of syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    New,
    Void,
    List,
    Created,
    Renamed,
    Folders,
}

/// Fate of a change when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Dropped,
    Kept,
    Torn,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    /// As processes see it.
    nodes: Vec<Node>,
    stable: Vec<Node>,
    changes: Vec<Change>,
    locks: BTreeMap<Inode, usize>,
    handles: usize,
    /// Operations that are still done, and how many fail then.
    left: usize,
    failing: usize,
    /// Hard links that are put into a folder at the last operation that is done.
    meddling: Option<(Inode, Names)>,
    /// A kind of sync that is left out.
    blind: Option<Sync>,
    /// The folder of which every state is kept, as by hard links.
    watched: Inode,
    backups: Vec<Names>,
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Simulated(Arc<Mutex<Inner>>);

/// An open file or folder.
#[derive(Debug)]
pub struct Handle {
    inode: Inode,
    number: usize,
    disk: Simulated,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disk.inner().locks.retain(|_, holder| *holder != self.number);
    }
}

fn failed() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

fn is_void(octets: &[u8]) -> bool {
    octets.is_empty() || octets.starts_with(b"ferrule counter 2, void")
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Change {
    fn inode(&self) -> Inode {
        match self {
            Self::Append(inode, _) | Self::Void(inode) | Self::Names(inode, _) => *inode,
        }
    }

    fn apply(&self, nodes: &mut [Node], fate: Fate) {
        match (self, &mut nodes[self.inode()]) {
            _ if fate == Fate::Dropped => {}
            (Self::Append(_, octets), Node::File(file)) => {
                let len = if fate == Fate::Torn { octets.len() / 2 } else { octets.len() };
                file.extend(&octets[..len]);
            }
            (Self::Void(_), Node::File(file)) => file.clear(),
            (Self::Names(_, names), Node::Folder(folder)) => {
                for (name, inode) in names {
                    match inode {
                        Some(inode) => folder.insert(name.clone(), *inode),
                        None => folder.remove(name),
                    };
                }
            }
            _ => unreachable!("a change of another kind of node"),
        }
    }
}

impl Inner {
    fn at(&self, path: &Path) -> io::Result<Inode> {
        path.components().filter(|part| *part != Component::RootDir).try_fold(ROOT, |at, part| {
            let name = part.as_os_str().to_str().ok_or_else(missing)?;
            self.folder(at)?.get(name).copied().ok_or_else(missing)
        })
    }

    fn folder(&self, inode: Inode) -> io::Result<&Names> {
        match &self.nodes[inode] {
            Node::Folder(names) => Ok(names),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// One operation more.
    fn operate(&mut self) -> io::Result<()> {
        if self.left > 0 {
            self.left -= 1;
            if self.left == 0
                && let Some((folder, names)) = self.meddling.take()
            {
                self.nodes[folder] = Node::Folder(names.clone());
                self.stable[folder] = Node::Folder(names);
                self.changes.retain(|change| change.inode() != folder);
                self.left = usize::MAX;
            }
            return Ok(());
        }
        if self.failing > 0 {
            self.failing -= 1;
            return Err(failed());
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.nodes, Fate::Kept);
        self.changes.push(change);
        let names = match self.nodes.get(self.watched) {
            Some(Node::Folder(names)) if self.watched != ROOT => names.clone(),
            _ => return,
        };
        if self.backups.last() != Some(&names) {
            self.backups.push(names);
        }
    }

    fn add(&mut self, folder: Inode, name: &str, node: Node) -> io::Result<Inode> {
        if self.folder(folder)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.nodes.len();
        self.nodes.push(node.clone());
        self.stable.push(node);
        self.change(Change::Names(folder, vec![(name.into(), Some(inode))]));
        Ok(inode)
    }

    fn kind(&self, inode: Inode) -> Sync {
        let of_folders = |names: &[(String, Option<Inode>)]| {
            let mut inodes = names.iter().filter_map(|(_, inode)| *inode);
            inodes.any(|inode| matches!(self.nodes[inode], Node::Folder(_)))
        };
        match (&self.nodes[inode], self.changes.iter().rfind(|c| c.inode() == inode)) {
            (Node::File(octets), _) if is_void(octets) => Sync::Void,
            (Node::File(octets), _) if octets.starts_with(b"ferrule") => Sync::New,
            (Node::File(_), _) => Sync::List,
            (Node::Folder(_), Some(Change::Names(_, names))) if of_folders(names) => Sync::Folders,
            (Node::Folder(_), Some(Change::Names(_, names))) if names.len() > 1 => Sync::Renamed,
            (Node::Folder(_), _) => Sync::Created,
        }
    }
}

impl Simulated {
    /// An empty disk.
    pub fn new() -> Self {
        let root = Node::Folder(Names::new());
        let inner = Inner {
            nodes: vec![root.clone()],
            stable: vec![root],
            left: usize::MAX,
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics with it")
    }

    /// After so many operations, this many fail: all, where a process is killed.
    pub fn fail_after(&self, left: usize, failing: usize) {
        let mut inner = self.inner();
        (inner.left, inner.failing) = (left, failing);
    }

    /// Puts hard links into a folder before that operation from now, as an intruder would.
    pub fn meddle(&self, operation: usize, path: &str, links: &Names) {
        let mut inner = self.inner();
        let Ok(folder) = inner.at(Path::new(path)) else { return };
        (inner.left, inner.meddling) = (operation + 1, Some((folder, links.clone())));
    }

    /// True if operations failed.
    pub fn has_failed(&self) -> bool {
        self.inner().left == 0
    }

    /// Leaves out all syncs of a kind.
    pub fn blind(&self, kind: Option<Sync>) {
        self.inner().blind = kind;
    }

    /// Keeps what is in a folder after each change of a name, as hard links would.
    pub fn watch(&self, path: &str) {
        let mut inner = self.inner();
        if let Ok(inode) = inner.at(Path::new(path)) {
            inner.watched = inode;
        }
    }

    /// Backups taken so far.
    pub fn backups(&self) -> Vec<Names> {
        self.inner().backups.clone()
    }

    /// How many changes are not synced, and of which of them half may be there.
    pub fn unsynced(&self) -> Vec<bool> {
        self.inner().changes.iter().map(|c| matches!(c, Change::Append(..))).collect()
    }

    /// The disk after a power loss.
    pub fn after(&self, fates: &[Fate]) -> Self {
        let mut inner = self.inner().clone();
        let mut nodes = inner.stable.clone();
        for (change, fate) in inner.changes.iter().zip(fates) {
            change.apply(&mut nodes, *fate);
        }
        inner.stable.clone_from(&nodes);
        (inner.nodes, inner.changes, inner.locks) = (nodes, Vec::new(), BTreeMap::new());
        (inner.left, inner.failing, inner.blind) = (usize::MAX, 0, None);
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Another disk with the same on it, all of it synced.
    pub fn synced(&self) -> Self {
        self.after(&vec![Fate::Kept; self.unsynced().len()])
    }

    /// Names in a folder.
    pub fn links(&self, path: &str) -> Option<Names> {
        let inner = self.inner();
        inner.folder(inner.at(Path::new(path)).ok()?).ok().cloned()
    }

    /// Puts files into a folder in place of those that are there, by hard links.
    pub fn put_links(&self, path: &str, links: &Names) {
        let mut inner = self.inner();
        let Ok(inode) = inner.at(Path::new(path)) else { return };
        inner.nodes[inode] = Node::Folder(links.clone());
        inner.stable[inode] = Node::Folder(links.clone());
        inner.changes.retain(|change| change.inode() != inode);
    }

    /// Contents of the files of a folder.
    pub fn copies(&self, path: &str) -> BTreeMap<String, Vec<u8>> {
        let inner = self.inner();
        let Some(names) = inner.at(Path::new(path)).ok().and_then(|at| inner.folder(at).ok())
        else {
            return BTreeMap::new();
        };
        let octets = |inode: &Inode| match &inner.nodes[*inode] {
            Node::File(octets) => octets.clone(),
            Node::Folder(_) => Vec::new(),
        };
        names.iter().map(|(name, inode)| (name.clone(), octets(inode))).collect()
    }

    /// Writes copies over what is in a folder: into the files that are there, or in
    /// place of them.
    pub fn put_copies(&self, path: &str, copies: &BTreeMap<String, Vec<u8>>, into: bool) {
        let mut inner = self.inner();
        let Ok(folder) = inner.at(Path::new(path)) else { return };
        for (name, octets) in copies {
            let there = inner.folder(folder).ok().and_then(|names| names.get(name).copied());
            // Void files stay so: docs/state.md says which changes nothing can see.
            let is_void = |inode: &Inode| matches!(&inner.nodes[*inode], Node::File(octets) if is_void(octets));
            let inode = match there.filter(|inode| into && !is_void(inode)) {
                Some(inode) => inode,
                None => {
                    let names = vec![(name.clone(), None)];
                    inner.change(Change::Names(folder, names));
                    let Ok(inode) = inner.add(folder, name, Node::File(Vec::new())) else { return };
                    inode
                }
            };
            inner.change(Change::Void(inode));
            inner.change(Change::Append(inode, octets.clone()));
        }
    }

    /// Takes a folder away with all that is in it.
    pub fn lose(&self, path: &str) {
        let path = Path::new(path);
        let mut inner = self.inner();
        let above = path.parent().and_then(|above| inner.at(above).ok());
        let (Some(above), Some(name)) = (above, path.file_name().and_then(|n| n.to_str())) else {
            return;
        };
        inner.change(Change::Names(above, vec![(name.to_owned(), None)]));
    }

    fn handle(&self, inode: Inode) -> Handle {
        let mut inner = self.inner();
        inner.handles += 1;
        Handle { inode, number: inner.handles, disk: self.clone() }
    }
}

impl Disk for Simulated {
    type Handle = Handle;

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        let above = inner.at(path.parent().ok_or_else(missing)?)?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
        inner.add(above, name, Node::Folder(Names::new())).map(drop)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Handle> {
        let inode = self.inner().at(path)?;
        Ok(self.handle(inode))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let inner = self.inner();
        Ok(inner.folder(inner.at(path)?)?.keys().map(OsString::from).collect())
    }

    fn open(&self, folder: &Handle, name: &str) -> io::Result<Option<Handle>> {
        let inode = self.inner().folder(folder.inode)?.get(name).copied();
        Ok(inode.map(|inode| self.handle(inode)))
    }

    fn create(&self, folder: &Handle, name: &str) -> io::Result<Handle> {
        let mut inner = self.inner();
        inner.operate()?;
        let inode = inner.add(folder.inode, name, Node::File(Vec::new()))?;
        drop(inner);
        Ok(self.handle(inode))
    }

    fn rename(&self, folder: &Handle, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        let inode = inner.folder(folder.inode)?.get(from).copied().ok_or_else(missing)?;
        let names = vec![(from.into(), None), (to.into(), Some(inode))];
        inner.change(Change::Names(folder.inode, names));
        Ok(())
    }

    fn remove(&self, folder: &Handle, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        inner.change(Change::Names(folder.inode, vec![(name.into(), None)]));
        Ok(())
    }

    fn read(&self, file: &Handle, max: u64) -> io::Result<Vec<u8>> {
        match &self.inner().nodes[file.inode] {
            Node::File(octets) => Ok(octets.iter().copied().take(max as usize).collect()),
            Node::Folder(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn append(&self, file: &Handle, octets: &[u8]) -> io::Result<()> {
        let mut inner = self.inner();
        if octets.is_empty() {
            return Ok(());
        }
        let failed = inner.operate();
        // A full disk takes what still fits.
        let len = if failed.is_err() { octets.len() / 3 } else { octets.len() };
        inner.change(Change::Append(file.inode, octets[..len].to_vec()));
        failed
    }

    fn void(&self, file: &Handle) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        inner.change(Change::Void(file.inode));
        Ok(())
    }

    fn sync(&self, handle: &Handle) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        if inner.blind == Some(inner.kind(handle.inode)) {
            return Ok(());
        }
        inner.stable[handle.inode] = inner.nodes[handle.inode].clone();
        inner.changes.retain(|change| change.inode() != handle.inode);
        Ok(())
    }

    fn sync_all(&self, _: &Handle) -> io::Result<()> {
        let mut inner = self.inner();
        inner.operate()?;
        inner.stable = inner.nodes.clone();
        inner.changes.clear();
        Ok(())
    }

    fn lock(&self, handle: &Handle) -> io::Result<bool> {
        let mut inner = self.inner();
        Ok(*inner.locks.entry(handle.inode).or_insert(handle.number) == handle.number)
    }

    fn unlock(&self, handle: &Handle) -> io::Result<()> {
        self.inner().locks.remove(&handle.inode);
        Ok(())
    }

    fn place(&self, handle: &Handle) -> io::Result<Place> {
        Ok(Place { inode: handle.inode as u64, born: 1 })
    }

    fn mode(&self, _: &Handle) -> io::Result<u32> {
        Ok(0o700)
    }
}
