//! TCP one way: a source that sends as fast as it may, and a sink that compares
//! every octet with what must have been sent.

use super::payload;
use super::result::Tcp;
use super::task::Turn;
use ferrule_base::Instant;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::wire::IpEndpoint;

/// A socket with windows of so many octets.
pub fn socket(window: usize) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; window]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(CongestionControl::Cubic);
    socket.set_nagle_enabled(false);
    socket
}

/// Sender of a stream.
pub struct Source {
    flow: u32,
    ends: (u16, IpEndpoint),
    start: Instant,
    stop: Instant,
    /// Octets to send; nothing: until `stop`.
    bytes: Option<u64>,
    socket: SocketHandle,
    begun: bool,
    ended: bool,
    sent: u64,
}

impl Source {
    pub fn new(
        flow: u32,
        ends: (u16, IpEndpoint),
        (start, stop): (Instant, Instant),
        bytes: Option<u64>,
        window: usize,
        turn: &mut Turn<'_>,
    ) -> Self {
        let socket = turn.sockets.add(socket(window));
        let ended = start >= stop;
        Self { flow, ends, start, stop, bytes, socket, begun: ended, ended, sent: 0 }
    }

    pub fn due(&self) -> Option<Instant> {
        if self.begun { Some(self.stop).filter(|_| !self.ended) } else { Some(self.start) }
    }

    pub fn result(&self) -> Tcp {
        Tcp { sent: self.sent, ..Tcp::default() }
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        if !self.begun {
            if turn.now < self.start {
                return false;
            }
            self.begun = true;
            return socket.connect(turn.stack, self.ends.1, self.ends.0).is_ok();
        }
        if self.ended {
            return false;
        }
        let left = match self.bytes {
            _ if turn.now >= self.stop => 0,
            None => u64::MAX,
            Some(bytes) => bytes - self.sent,
        };
        if left == 0 {
            self.ended = true;
            socket.close();
            return true;
        }
        if !socket.may_send() {
            return false;
        }
        let (flow, from) = (self.flow, self.sent);
        let given = socket.send(|room| {
            let len = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            payload::stream(flow, from, &mut room[..len]);
            (len, len)
        });
        let given = given.unwrap_or(0) as u64;
        self.sent += given;
        given > 0
    }
}

/// Receiver of a stream, which compares each octet.
pub struct Sink {
    flow: u32,
    socket: SocketHandle,
    result: Tcp,
}

impl Sink {
    pub fn new(flow: u32, port: u16, window: usize, turn: &mut Turn<'_>) -> Self {
        let mut socket = socket(window);
        // The socket is closed, and the port is not zero.
        let _ = socket.listen(port);
        Self { flow, socket: turn.sockets.add(socket), result: Tcp::default() }
    }

    pub fn result(&self) -> Tcp {
        self.result
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut moved = false;
        while socket.can_recv() {
            let (flow, from) = (self.flow, self.result.received);
            let taken = socket.recv(|octets| {
                (octets.len(), (octets.len(), payload::is_stream(flow, from, octets)))
            });
            let Ok((len, whole)) = taken else { break };
            self.result.received += len as u64;
            self.result.broken |= !whole;
            let first = self.result.between.map_or(turn.now, |(first, _)| first);
            self.result.between = Some((first, turn.now));
            moved = true;
        }
        if socket.state() == State::CloseWait && socket.recv_queue() == 0 {
            self.result.complete = true;
            socket.close();
            moved = true;
        }
        moved
    }
}
