//! Messages to the service manager (sd_notify(3)): ready, reloading, stopping, alive.
//!
//! ```text
//!   main thread ── pulse 7 ──▶ workers: each notes 7 in its next turn
//!        │  ◀── all noted 7 ──────┘
//!        └─ WATCHDOG=1, pulse 8        a worker that hangs notes nothing: no word
//! ```
//!
//! So the watchdog sees the main loop and every worker turn, and no timer stands in for
//! them.

use crate::runtime::Board;
use ferrule_base::{Duration, Instant};
use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager, if it asked to be told.
pub struct Supervisor {
    socket: Option<UnixDatagram>,
    /// Interval at which the service manager is told that the node is alive.
    every: Option<Duration>,
    next: Instant,
}

impl Supervisor {
    /// Service manager that the environment names, if it does.
    pub fn of_environment() -> Self {
        let socket = env::var("NOTIFY_SOCKET").ok().and_then(|path| connect(&path).ok());
        let pid = env::var("WATCHDOG_PID").ok();
        let ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let limit = env::var("WATCHDOG_USEC").ok().filter(|_| ours);
        let limit = limit.and_then(|limit| limit.parse().ok()).map(Duration::from_micros);
        // Half of it is what systemd advises: one word may be late.
        Self { socket, every: limit.map(|limit| limit / 2), next: Instant::ZERO }
    }

    /// Packets pass.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// A change is under way: `ready` ends it.
    pub fn reloading(&self) {
        self.say("RELOADING=1");
    }

    /// The node goes down.
    pub fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=packets inside go out");
    }

    /// Says that the node is alive, when it is time to, if it is.
    pub fn turn(&mut self, now: Instant, board: &Board) {
        let Some(every) = self.every else { return };
        if now >= self.next && board.is_turning() {
            self.say("WATCHDOG=1");
            self.next = now + every;
        }
    }

    fn say(&self, what: &str) {
        if let Some(socket) = &self.socket {
            // Without a service manager any more there is none to tell.
            let _ = socket.send(what.as_bytes());
        }
    }
}

/// `@` stands for the zero of an abstract name.
fn connect(path: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match path.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(path)?,
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(socket: &UnixDatagram) -> Option<String> {
        let mut octets = [0; 256];
        let len = socket.recv(&mut octets).ok()?;
        Some(String::from_utf8_lossy(&octets[..len]).into_owned())
    }

    #[test]
    fn watchdog_is_silent_from_the_moment_that_a_worker_does_not_turn() {
        let name = format!("ferrule-watchdog-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let manager = UnixDatagram::bind_addr(&address).expect("a free name");
        manager.set_nonblocking(true).expect("a socket");
        let socket = Some(connect(&format!("@{name}")).expect("somebody listens"));
        let mut ours =
            Supervisor { socket, every: Some(Duration::from_secs(5)), next: Instant::ZERO };
        let board = Board::new(2, false).expect("descriptors");
        ours.ready("a runs");
        assert_eq!(told(&manager).as_deref(), Some("READY=1\nSTATUS=a runs"));
        ours.turn(Instant::from_secs(1), &board);
        assert_eq!(told(&manager).as_deref(), Some("WATCHDOG=1"));
        ours.turn(Instant::from_secs(2), &board);
        assert_eq!(told(&manager), None, "before its time");
        board.note_turn(0);
        ours.turn(Instant::from_secs(7), &board);
        assert_eq!(told(&manager), None, "worker 1 hangs");
        board.note_turn(1);
        ours.turn(Instant::from_secs(8), &board);
        assert_eq!(told(&manager).as_deref(), Some("WATCHDOG=1"));
    }
}
