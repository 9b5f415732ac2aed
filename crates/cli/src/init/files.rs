//! Writing what `init` made: all files or none, and over no file of others.

use ferrule_base::Secret;
use ferrule_daemon::{Blame, Fault};
use ferrule_node::config::Config;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Keys: their owner alone.
const SECRET_MODE: u32 = 0o600;
/// Mode of configurations, which everyone may read.
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
    /// File whose owner and group this one gets.
    predecessor: Option<PathBuf>,
}

impl Files {
    /// A key.
    pub fn secret(&mut self, path: impl Into<PathBuf>, content: Secret) {
        let (path, mode) = (path.into(), SECRET_MODE);
        self.entries.push(Entry { path, mode, content, predecessor: None });
    }

    /// A key that comes after another one, for the same reader.
    pub fn successor(&mut self, path: impl Into<PathBuf>, content: Secret, of: PathBuf) {
        let (path, mode) = (path.into(), SECRET_MODE);
        self.entries.push(Entry { path, mode, content, predecessor: Some(of) });
    }

    /// A configuration.
    pub fn text(&mut self, path: impl Into<PathBuf>, content: String) {
        let content = Secret::new(content.into_bytes());
        let (path, mode) = (path.into(), OPEN_MODE);
        self.entries.push(Entry { path, mode, content, predecessor: None });
    }

    /// Puts all of them into a folder.
    pub fn under(&mut self, folder: &Path) {
        for entry in &mut self.entries {
            entry.path = folder.join(&entry.path);
        }
    }

    /// Paths of the files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(|entry| entry.path.as_path())
    }

    /// Checks that a node takes every configuration, with the keys that are here. The error is for
    /// people.
    pub fn check(&self) -> Result<(), String> {
        let configurations =
            self.entries.iter().filter(|e| e.path.extension() == Some("toml".as_ref()));
        for entry in configurations {
            let folder = entry.path.parent().unwrap_or(Path::new("")).to_owned();
            let mut keys = |name: &str| {
                let key = self.entries.iter().find(|key| key.path == folder.join(name));
                key.map(|key| key.content.clone()).ok_or_else(|| format!("no key file `{name}`"))
            };
            let text = String::from_utf8_lossy(entry.content.expose());
            Config::parse(&entry.path.display().to_string(), &text, &mut keys).map_err(|e| {
                let wrong = Fault::in_file(Blame::Configuration, &e);
                format!("these arguments do not fit together; nothing was written\n{wrong}")
            })?;
        }
        Ok(())
    }

    /// Writes them. Without `force` nothing is written if any exists already; with it, old
    /// keys are replaced, never mixed with new ones. If one cannot be written, or what is
    /// written is not [kept](Written::keep), all is as it was before.
    pub fn write(&self, force: bool) -> io::Result<Written> {
        if !force && let Some(path) = self.paths().find(|path| path.symlink_metadata().is_ok()) {
            let what = format!(
                "{} exists already; --force replaces it, and every other file of this set",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        let mut written = Written::default();
        for entry in &self.entries {
            entry.write(force, &mut written).map_err(|e| {
                let what =
                    format!("cannot write {}: {e}; nothing was written", entry.path.display());
                io::Error::new(e.kind(), what)
            })?;
        }
        Ok(written)
    }
}

/// Files that were written: they go again unless they are kept.
#[derive(Default)]
#[must_use]
pub struct Written {
    files: Vec<PathBuf>,
    /// Files that stood there before: their path, and where each is kept.
    before: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl Written {
    /// Keeps the files, and removes those that stood there before.
    pub fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
        for (_, old) in self.before.drain(..) {
            let _ = fs::remove_file(old);
        }
    }

    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        let missing = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists());
        let missing: Vec<_> = missing.map(Path::to_owned).collect();
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        // The outermost is the last to go.
        self.folders.splice(0..0, missing);
        made
    }

    /// Moves aside what stands there.
    fn make_room(&mut self, path: &Path) -> io::Result<()> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".old-{}", std::process::id()));
        let aside = PathBuf::from(aside);
        match fs::rename(path, &aside) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(()) => {
                self.before.push((path.to_owned(), aside));
                Ok(())
            }
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // A file that cannot be put back can be found under its other name.
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        for (path, old) in self.before.drain(..) {
            let _ = fs::rename(old, path);
        }
        for folder in self.folders.drain(..) {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Entry {
    fn write(&self, force: bool, written: &mut Written) -> io::Result<()> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            written.make_folder(folder)?;
        }
        if force {
            // A new file in its place: the old one's mode and links go with it.
            written.make_room(&self.path)?;
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&self.path)?;
        written.files.push(self.path.clone());
        if let Some(predecessor) = &self.predecessor {
            give_owner_of(&fs::metadata(predecessor)?, &file)?;
        }
        file.write_all(self.content.expose())?;
        file.sync_all()
    }
}

/// The owner and group of another file.
pub fn give_owner_of(other: &Metadata, file: &File) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (other.uid(), other.gid()) {
        return Ok(());
    }
    fchown(file, Some(other.uid()), Some(other.gid()))
}
