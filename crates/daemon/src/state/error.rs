//! Reasons for which a counter cannot be used, and their remedies.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason for which a counter cannot be used.
#[derive(Debug)]
pub enum StateError {
    /// There is no state.
    NoState(PathBuf),
    /// Others could write the folder.
    OpenFolder(PathBuf, u32),
    /// A folder without a state has something else in it.
    NotEmpty(PathBuf),
    /// Another process has the state.
    Locked(PathBuf),
    /// The state is not the one that was written in this folder.
    Unsound(PathBuf, &'static str),
    /// There is no counter for the key.
    Missing(String, PathBuf),
    /// A counter contradicts what is known of it.
    Damaged(String, PathBuf, &'static str),
    /// Numbers of the key were given out from another state, as the list says.
    Used(String, PathBuf),
    /// All instances of SAs whose keys a program gives are handed out, by this list.
    NoInstances(PathBuf),
    /// The system did not do it.
    Os(String, io::Error),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoState(path) => write!(f, "there is no counter state in `{}`", path.display()),
            Self::OpenFolder(path, mode) => {
                write!(f, "others may look into `{}` (mode {mode:04o})", path.display())
            }
            Self::NotEmpty(path) => {
                let path = path.display();
                write!(f, "the folder `{path}` has files, but no counter state (`state`) for them")
            }
            Self::Locked(path) => {
                write!(f, "another process has the counters in `{}`", path.display())
            }
            Self::Unsound(path, why) => write!(f, "the counter state `{}` {why}", path.display()),
            Self::Missing(id, path) => {
                write!(f, "no counter state for `{id}` in `{}`", path.display())
            }
            Self::Damaged(id, path, why) => {
                write!(f, "the counter state for `{id}`, `{}`, {why}", path.display())
            }
            Self::Used(id, list) => {
                let list = list.display();
                write!(f, "the key of `{id}` was used with another counter state (`{list}`)")
            }
            Self::NoInstances(list) => {
                write!(f, "`{}` has no instances of SAs left", list.display())
            }
            Self::Os(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for StateError {}

impl StateError {
    /// Remedy for people.
    pub fn remedy(&self) -> String {
        match self {
            Self::NoState(_) | Self::Missing(..) => {
                "if the key has never been used: `ferrule state create NODE.toml` (for a node \
                 that runs: `ferrule apply --new-keys`); a state that is lost means a new key \
                 at both ends: `ferrule init key`"
                    .into()
            }
            Self::OpenFolder(path, _) => format!("chmod 700 {}", path.display()),
            Self::Locked(_) => {
                "stop the other one first; a node of its own has keys and a state of its own".into()
            }
            Self::NotEmpty(_) | Self::Unsound(..) => {
                "make new keys with `ferrule init key` at both ends, then `ferrule state create \
                 NODE.toml` with a new folder"
                    .into()
            }
            Self::Damaged(..) | Self::Used(..) => {
                "make a new key with `ferrule init key` at both ends, then `ferrule state create \
                 NODE.toml`"
                    .into()
            }
            Self::NoInstances(_) => {
                "use keys of the file from now on: `ferrule rekey`; a hundred million SAs were \
                 given to the nodes of this host"
                    .into()
            }
            Self::Os(..) => {
                "see whether the user may write there, and whether there is room".into()
            }
        }
    }
}
