//! Writing what `init` made: all files or none, and nobody's over.

use ferrule_base::Secret;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Keys: their owner alone.
const SECRET_MODE: u32 = 0o600;
/// Configurations: for everybody to read.
const OPEN_MODE: u32 = 0o644;

/// Files that belong together.
#[derive(Default)]
pub struct Files {
    entries: Vec<Entry>,
}

struct Entry {
    path: PathBuf,
    mode: u32,
    content: Secret,
}

impl Files {
    /// A key.
    pub fn secret(&mut self, path: impl Into<PathBuf>, content: Secret) {
        self.entries.push(Entry { path: path.into(), mode: SECRET_MODE, content });
    }

    /// A configuration.
    pub fn text(&mut self, path: impl Into<PathBuf>, content: String) {
        let content = Secret::new(content.into_bytes());
        self.entries.push(Entry { path: path.into(), mode: OPEN_MODE, content });
    }

    /// Puts all of them into a folder.
    pub fn under(&mut self, folder: &Path) {
        for entry in &mut self.entries {
            entry.path = folder.join(&entry.path);
        }
    }

    /// Where they go, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(|entry| entry.path.as_path())
    }

    /// Writes them. Without `force` nothing is written if any exists already;
    /// with it, old keys are replaced, never mixed with new ones.
    pub fn write(&self, force: bool) -> io::Result<()> {
        if !force && let Some(path) = self.paths().find(|path| path.symlink_metadata().is_ok()) {
            let what = format!(
                "{} exists already; --force replaces it, and every other file of this set",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        self.entries.iter().try_for_each(|entry| {
            let named = |e: io::Error| {
                io::Error::new(e.kind(), format!("cannot write {}: {e}", entry.path.display()))
            };
            entry.write(force).map_err(named)
        })
    }
}

impl Entry {
    fn write(&self, force: bool) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        if force {
            // A new file in its place: the old one's mode and links go with it.
            match std::fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&self.path)?;
        file.write_all(self.content.expose())?;
        file.sync_all()
    }
}
