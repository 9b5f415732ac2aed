//! The companion: opens ports for a daemon that has no privilege any more.
//!
//! Another process image, which has never seen a key, and which only the daemon reaches. It opens
//! the ports that were granted before the daemon became its user ([`Grant`]) and is
//! [confined](super::confine) to that.

use super::confine::confine;
use super::message::{Answer, Grant, MESSAGE_MAX, Message};
use ferrule_ports::pass::{recv_fds, send_fds};
use ferrule_ports::{OpenError, Opener};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The hidden command that a companion is started with.
pub const COMMAND: &str = "open-ports";

/// Life of the companion: standard input is the daemon. Ends when the daemon does, and then removes
/// what it leaves: the management socket, and the link by which it is found.
pub fn serve(left: &[PathBuf]) -> io::Result<()> {
    // A signal to the whole group is for the daemon, which then stops in peace.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, std::sync::Arc::default())?;
    }
    let daemon = ferrule_ports::os::inherited()?;
    let left: Vec<Leftover> = left.iter().filter_map(|path| Leftover::of(path).ok()).collect();
    let mut grants = Vec::new();
    loop {
        match receive(&daemon)? {
            Some(Message::Grant(grant)) => grants.push(grant),
            Some(Message::Begin) => break,
            Some(Message::Open(_)) | None => return Ok(()),
        }
    }
    let confined = confine(&grants, left.iter().map(|l| &l.folder));
    let answer = match &confined {
        Ok(()) => Answer::Done,
        Err(e) => {
            Answer::refusal(&OpenError::os("confining the companion", io::Error::other(e.clone())))
        }
    };
    send_fds(&daemon, &serde_json::to_vec(&answer)?, &[])?;
    confined.map_err(io::Error::other)?;
    let ended = open_for(&daemon, &grants);
    left.into_iter().for_each(Leftover::remove);
    ended
}

/// Opens ports on request until the daemon is gone, or sends a message that it never sends.
fn open_for(daemon: &OwnedFd, grants: &[Grant]) -> io::Result<()> {
    let mut opener = Opener::new();
    while let Some(Message::Open(wanted)) = receive(daemon)? {
        let (answer, fds) = match wanted.open(grants, &mut opener) {
            Ok(fds) => (Answer::Done, fds),
            Err(e) => (Answer::refusal(&e), Vec::new()),
        };
        let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        send_fds(daemon, &serde_json::to_vec(&answer)?, &raw)?;
    }
    Ok(())
}

/// The next message; nothing: the daemon is gone, or is not itself.
fn receive(daemon: &OwnedFd) -> io::Result<Option<Message>> {
    let mut octets = [0; MESSAGE_MAX];
    loop {
        match recv_fds(daemon, &mut octets) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok((len, _)) => return Ok(serde_json::from_slice(&octets[..len]).ok()),
        }
    }
}

/// The management socket's file, or a link to it: removed only while it is the file that the daemon
/// made.
struct Leftover {
    folder: OwnedFd,
    name: OsString,
    identity: (u64, u64),
}

impl Leftover {
    fn of(path: &Path) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let name = path.file_name().ok_or_else(missing)?.to_owned();
        let above = path.parent().filter(|p| !p.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(above.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        let identity = identity(&folder, &name).ok_or_else(missing)?;
        Ok(Self { folder, name, identity })
    }

    fn remove(self) {
        if identity(&self.folder, &self.name) == Some(self.identity) {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Device and inode of a socket's file, or of a link.
fn identity(folder: &OwnedFd, name: &OsString) -> Option<(u64, u64)> {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(found.st_mode);
    matches!(kind, FileType::Socket | FileType::Symlink).then_some((found.st_dev, found.st_ino))
}
