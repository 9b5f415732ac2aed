//! A dialogue of two programs: who opens which connection, who says how many octets,
//! who closes, in order, as protocols like FTP and SMTP prescribe it.
//!
//! ```text
//!   client   Open 0   ·      Say 0   ·       ·       (reads)   Say 0     ─▶ time
//!   server   (waits)  Say 0  (reads) Open 1  Say 1   Close 1   (reads)
//! ```
//!
//! Both hosts go through the same lines. A line is done for who speaks once its stack
//! has all of it, and for who listens once it was read: so replies wait for requests,
//! and what one says twice in a row it says at once. Every octet is compared.

use super::payload;
use super::task::Turn;
use ferrule_base::{Duration, Instant};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::wire::{IpAddress, IpEndpoint};
use std::ops::Range;

/// Connections of a dialogue at most.
pub const CONNECTIONS_MAX: usize = 8;

/// Party of a dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The party that begins.
    Client,
    /// The party that answers.
    Server,
}

/// A step of a dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The party opens a connection to the other.
    Open(usize, Party),
    /// The party sends so many octets.
    Say(usize, Party, u64),
    /// The party closes; the other sees the end and closes too.
    Close(usize, Party),
}

impl Line {
    const fn connection(self) -> usize {
        match self {
            Self::Open(at, _) | Self::Say(at, ..) | Self::Close(at, _) => at,
        }
    }
}

/// A dialogue, and which of its lines are timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// From the first to the last.
    pub lines: Vec<Line>,
    /// Lines that are timed, from when the client begins the first until it has done the last.
    pub timed: Range<usize>,
}

/// Parameters of the hosts' TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Octets of its windows.
    pub window: usize,
    /// Slow start and what follows; without it the window alone is the limit.
    pub slow_start: bool,
    /// A small segment waits while another is under way (RFC 9293 section 3.7.4).
    pub nagle: bool,
    /// Time for which an acknowledgement may wait for another segment; nothing: it goes at once.
    pub ack_delay: Option<Duration>,
}

/// Result of a dialogue, as the client saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// When the first timed line began.
    pub begun: Option<Instant>,
    /// When the last one was done.
    pub ended: Option<Instant>,
    /// True once all lines are done.
    pub complete: bool,
    /// An octet was not as it was sent, or a connection broke.
    pub broken: bool,
}

impl Dialogue {
    /// How long the timed lines took, if they are done and nothing broke.
    pub fn response(&self) -> Option<Duration> {
        let (begun, ended) = (self.begun?, self.ended?);
        (!self.broken).then(|| ended - begun)
    }
}

struct Connection {
    socket: SocketHandle,
    /// Octets said and read.
    said: u64,
    read: u64,
    called: bool,
}

/// One party's part.
pub(super) struct Speaker {
    flow: u32,
    party: Party,
    to: IpAddress,
    /// Ports of the connections: of who is called, and of who calls, from here on.
    ports: [u16; 2],
    start: Instant,
    script: Script,
    connections: Vec<Connection>,
    begun: bool,
    at: usize,
    /// Octets of the line under way that are done.
    done: u64,
    result: Dialogue,
}

impl Speaker {
    pub(super) fn new(
        (flow, party): (u32, Party),
        (to, ports): (IpAddress, [u16; 2]),
        start: Instant,
        script: Script,
        behaviour: &Behaviour,
        turn: &mut Turn<'_>,
    ) -> Self {
        let count = script.lines.iter().map(|line| line.connection() + 1).max().unwrap_or(0);
        let connections = (0..count.min(CONNECTIONS_MAX)).map(|at| {
            let mut socket = socket(behaviour);
            let waits = script.lines.iter().any(|line| match line {
                Line::Open(which, by) => *which == at && *by != party,
                _ => false,
            });
            if waits {
                // The socket is closed, and the port is not zero.
                let _ = socket.listen(ports[0] + at as u16);
            }
            Connection { socket: turn.sockets.add(socket), said: 0, read: 0, called: false }
        });
        let connections = connections.collect();
        let (begun, at, done, result) = (false, 0, 0, Dialogue::default());
        Self { flow, party, to, ports, start, script, connections, begun, at, done, result }
    }

    /// When to begin; afterwards it goes by what comes.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.party == Party::Client && !self.begun).then_some(self.start)
    }

    pub(super) fn result(&self) -> Dialogue {
        self.result
    }

    /// Octets read so far, of all connections.
    pub(super) fn received(&self) -> u64 {
        self.connections.iter().map(|connection| connection.read).sum()
    }

    pub(super) fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        if turn.now < self.start || self.result.broken {
            return false;
        }
        self.begun = true;
        let mut moved = false;
        while let Some(&line) = self.script.lines.get(self.at) {
            if self.at == self.script.timed.start && self.result.begun.is_none() {
                self.result.begun = Some(turn.now);
            }
            let Some(connection) = self.connections.get(line.connection()) else {
                self.result.broken = true;
                return false;
            };
            let socket = connection.socket;
            let (acted, done) = match line {
                Line::Open(at, by) => self.open(turn, at, by),
                Line::Say(at, by, octets) if by == self.party => self.say(turn, at, octets),
                Line::Say(at, _, octets) => self.read(turn, at, octets),
                Line::Close(_, by) => {
                    let socket = turn.sockets.get_mut::<Socket<'_>>(socket);
                    let over = by == self.party || !socket.may_recv() && socket.recv_queue() == 0;
                    if over {
                        socket.close();
                    }
                    (over, over)
                }
            };
            moved |= acted;
            if !done {
                let state = turn.sockets.get::<Socket<'_>>(socket).state();
                let opened = self.opened(line.connection());
                self.result.broken |= opened && state == State::Closed;
                return moved;
            }
            (self.at, self.done) = (self.at + 1, 0);
            if self.at == self.script.timed.end {
                self.result.ended = Some(turn.now);
            }
        }
        self.result.complete = true;
        moved
    }

    /// True once the line that opens the connection is done.
    fn opened(&self, connection: usize) -> bool {
        let mut before = self.script.lines.iter().take(self.at);
        before.any(|line| matches!(line, Line::Open(at, _) if *at == connection))
    }

    fn open(&mut self, turn: &mut Turn<'_>, at: usize, by: Party) -> (bool, bool) {
        let connection = &mut self.connections[at];
        let socket = turn.sockets.get_mut::<Socket<'_>>(connection.socket);
        if by == self.party && !connection.called {
            connection.called = true;
            let to = IpEndpoint::new(self.to, self.ports[0] + at as u16);
            let from = self.ports[1] + at as u16;
            self.result.broken |= socket.connect(turn.stack, to, from).is_err();
            return (true, false);
        }
        (false, socket.may_send())
    }

    fn say(&mut self, turn: &mut Turn<'_>, at: usize, octets: u64) -> (bool, bool) {
        let connection = &mut self.connections[at];
        let socket = turn.sockets.get_mut::<Socket<'_>>(connection.socket);
        let (left, from) = (octets - self.done, connection.said);
        let stream = stream_of(self.flow, at, self.party);
        let given = socket.send(|room| {
            let len = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            payload::stream(stream, from, &mut room[..len]);
            (len, len)
        });
        let given = given.unwrap_or(0) as u64;
        self.done += given;
        connection.said += given;
        (given > 0, self.done == octets)
    }

    fn read(&mut self, turn: &mut Turn<'_>, at: usize, octets: u64) -> (bool, bool) {
        let other = match self.party {
            Party::Client => Party::Server,
            Party::Server => Party::Client,
        };
        let stream = stream_of(self.flow, at, other);
        let connection = &mut self.connections[at];
        let socket = turn.sockets.get_mut::<Socket<'_>>(connection.socket);
        let mut moved = false;
        while self.done < octets && socket.can_recv() {
            let (left, from) = (octets - self.done, connection.read);
            let taken = socket.recv(|there| {
                let len = there.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                (len, (len, payload::is_stream(stream, from, &there[..len])))
            });
            let Ok((len, whole)) = taken else { break };
            self.done += len as u64;
            connection.read += len as u64;
            self.result.broken |= !whole;
            moved |= len > 0;
        }
        (moved, self.done == octets)
    }
}

/// Number of the stream that a party sends on a connection: each has content of its own.
fn stream_of(flow: u32, connection: usize, party: Party) -> u32 {
    flow * 2 * CONNECTIONS_MAX as u32 + 2 * connection as u32 + u32::from(party == Party::Client)
}

fn socket(behaviour: &Behaviour) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; behaviour.window]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(match behaviour.slow_start {
        true => CongestionControl::Cubic,
        false => CongestionControl::None,
    });
    socket.set_nagle_enabled(behaviour.nagle);
    let delay = behaviour.ack_delay.map(|delay| delay.as_micros() as u64);
    socket.set_ack_delay(delay.map(smoltcp::time::Duration::from_micros));
    socket
}
