//! File system operations that counters need, and those of the operating system.
//!
//! Few operations, each of which either happened or not: tests record them, lose those
//! that were not synced, and look at what a node makes of the rest.

use super::record::Place;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A file system.
pub trait Disk {
    /// An open file or folder.
    type Handle: std::fmt::Debug + Send;

    /// Makes a folder where one is, its owner's alone.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Opens a folder.
    fn open_folder(&self, path: &Path) -> io::Result<Self::Handle>;
    /// Names in a folder.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Opens a file of a folder, if it is there.
    fn open(&self, folder: &Self::Handle, name: &str) -> io::Result<Option<Self::Handle>>;
    /// Makes a file that is not there, its owner's alone.
    fn create(&self, folder: &Self::Handle, name: &str) -> io::Result<Self::Handle>;
    /// Gives a file another name, and takes that from whatever had it.
    fn rename(&self, folder: &Self::Handle, from: &str, to: &str) -> io::Result<()>;
    /// Takes the name from a file.
    fn remove(&self, folder: &Self::Handle, name: &str) -> io::Result<()>;
    /// Octets of a file, `max` at most.
    fn read(&self, file: &Self::Handle, max: u64) -> io::Result<Vec<u8>>;
    /// Adds octets at the end.
    fn append(&self, file: &Self::Handle, octets: &[u8]) -> io::Result<()>;
    /// Leaves nothing in a file, by whatever name it is known.
    fn void(&self, file: &Self::Handle) -> io::Result<()>;
    /// Waits until a file's content, or a folder's names, are on stable storage.
    fn sync(&self, handle: &Self::Handle) -> io::Result<()>;
    /// Waits until all files and folders of this file system are on stable storage.
    fn sync_all(&self, folder: &Self::Handle) -> io::Result<()>;
    /// Takes the lock, which goes with the handle; false if another process has it.
    fn lock(&self, handle: &Self::Handle) -> io::Result<bool>;
    /// Gives the lock back.
    fn unlock(&self, handle: &Self::Handle) -> io::Result<()>;
    /// Identity of a file, different from that of every other file.
    fn place(&self, handle: &Self::Handle) -> io::Result<Place>;
    /// Access permissions.
    fn mode(&self, handle: &Self::Handle) -> io::Result<u32>;
}

/// The system's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Disk for System {
    type Handle = File;

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o700))
    }

    fn open_folder(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?.into())
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn open(&self, folder: &File, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(None),
            file => Ok(Some(file?.into())),
        }
    }

    fn create(&self, folder: &File, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        Ok(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    fn rename(&self, folder: &File, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(folder, from, folder, to)?)
    }

    fn remove(&self, folder: &File, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    fn read(&self, mut file: &File, max: u64) -> io::Result<Vec<u8>> {
        let mut octets = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(max).read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn append(&self, mut file: &File, octets: &[u8]) -> io::Result<()> {
        file.write_all(octets)
    }

    fn void(&self, file: &File) -> io::Result<()> {
        file.set_len(0)
    }

    fn sync(&self, handle: &File) -> io::Result<()> {
        handle.sync_all()
    }

    fn sync_all(&self, folder: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(folder)?)
    }

    fn lock(&self, handle: &File) -> io::Result<bool> {
        match handle.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&self, handle: &File) -> io::Result<()> {
        handle.unlock()
    }

    fn place(&self, handle: &File) -> io::Result<Place> {
        let about = handle.metadata()?;
        let born = about.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0));
        Ok(Place { inode: about.ino(), born })
    }

    fn mode(&self, handle: &File) -> io::Result<u32> {
        Ok(handle.metadata()?.mode() & 0o777)
    }
}
