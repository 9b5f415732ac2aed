//! Running nodes, wherever their sockets lie.
//!
//! ```text
//!   /run/ferrule/gw.sock              the socket of a node without `control`
//!   /run/ferrule/gw@4711.sock ─▶ …    a link to that of one with it, made by process 4711
//! ```
//!
//! Nodes that root starts are found in `/run/ferrule`, those of a user in
//! `$XDG_RUNTIME_DIR/ferrule`. An entry where nobody answers is of a node that is gone: it
//! is passed over, and the next node that starts takes it away.

use ferrule_ports::os::User;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Folder of the sockets of root's nodes.
pub(super) const RUN: &str = "/run/ferrule";
/// Entries of a folder that are looked at, at most.
const ENTRIES_MAX: usize = 1024;

/// A node that runs, or one whose socket may not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Its socket.
    pub socket: PathBuf,
}

/// Folders in which this user looks for nodes; the first that can be written is where
/// its own are.
pub fn folders() -> Vec<PathBuf> {
    let own = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let own = own.map(|folder| Path::new(&folder).join("ferrule"));
    std::iter::once(PathBuf::from(RUN)).chain(own).collect()
}

/// Makes a node found whose socket is somewhere else. Returns the entry, to be taken away at the
/// end; nothing where there is no place for an entry: then the node is named by its configuration.
pub fn register(name: &str, socket: &Path) -> Option<PathBuf> {
    let mut folders = folders();
    if !User::current().is_root() {
        folders.remove(0);
    }
    folders.iter().find_map(|folder| register_in(folder, name, socket).ok().flatten())
}

fn register_in(folder: &Path, name: &str, socket: &Path) -> io::Result<Option<PathBuf>> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    sweep(folder);
    if name.contains('/') || socket.parent() == Some(folder) {
        return Ok(None);
    }
    let entry = folder.join(format!("{name}@{}.sock", std::process::id()));
    // Of a process of the same number, before this one.
    let _ = fs::remove_file(&entry);
    symlink(socket, &entry).map(|()| Some(entry))
}

/// Takes links away that lead to no node.
fn sweep(folder: &Path) {
    for entry in entries(folder).into_iter().filter(|entry| entry.is_symlink()) {
        if !answers(&entry) {
            let _ = fs::remove_file(entry);
        }
    }
}

/// Running nodes, in the order of their names, each once.
pub fn running(folders: &[PathBuf]) -> Vec<Running> {
    let mut found: Vec<Running> = Vec::new();
    for entry in folders.iter().flat_map(|folder| entries(folder)).filter(|e| answers(e)) {
        let socket = fs::canonicalize(&entry).unwrap_or(entry.clone());
        if found.iter().all(|known| known.socket != socket) {
            found.extend(name_of(&entry).map(|name| Running { name, socket }));
        }
    }
    found.sort_by(|a, b| (&a.name, &a.socket).cmp(&(&b.name, &b.socket)));
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = all.map(|entry| entry.path()).filter(|p| p.extension() == Some("sock".as_ref()));
    sockets.take(ENTRIES_MAX).collect()
}

/// True if a node is there: it takes the connection, or would if it were not busy, or does not let
/// this user in. Never waits.
fn answers(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let connected = socket.and_then(|socket| connect(&socket, &SocketAddrUnix::new(path)?));
    matches!(connected, Ok(()) | Err(Errno::AGAIN | Errno::ACCESS | Errno::PERM))
}

/// `gw` of `gw.sock` and of `gw@4711.sock`.
fn name_of(entry: &Path) -> Option<String> {
    let stem = entry.file_stem()?.to_str()?;
    let name = match stem.rsplit_once('@') {
        Some((name, pid)) if pid.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => stem,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("ferrule-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        running(&[folder.to_owned()]).into_iter().map(|node| node.name).collect()
    }

    #[test]
    fn nodes_are_found_wherever_their_sockets_lie_and_those_that_are_gone_are_not() {
        let (run, elsewhere) = (Folder::new("run"), Folder::new("elsewhere"));
        let socket = elsewhere.0.join("x.socket");
        let node = UnixListener::bind(&socket).unwrap();
        let entry = register_in(&run.0, "gw-a", &socket).unwrap().expect("an entry");
        assert_eq!(names(&run.0), ["gw-a"]);
        let found = running(&[run.0.clone(), run.0.clone()]);
        assert_eq!(found.len(), 1, "each once");
        assert_eq!(found[0].socket, socket);
        // One with its socket here needs no entry.
        let default = run.0.join("b@c.sock");
        let other = UnixListener::bind(&default).unwrap();
        assert_eq!(register_in(&run.0, "b@c", &default).unwrap(), None);
        assert_eq!(names(&run.0), ["b@c", "gw-a"]);
        drop(node);
        assert_eq!(names(&run.0), ["b@c"], "nobody answers there");
        assert!(entry.is_symlink());
        // The next node to start tidies up.
        register_in(&run.0, "c", &default).unwrap();
        assert!(!entry.is_symlink() && default.exists());
        drop(other);
        assert_eq!(names(&run.0), [] as [String; 0]);
    }
}
