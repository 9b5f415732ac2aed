//! Transfers in the manner of HTTP/1.1 (RFC 9112), one connection each: a GET for
//! so many octets, a body that the request's path decides, and its SHA-256 in
//! the head, which the client compares.

use super::payload;
use super::result::Http;
use super::stream::socket;
use super::task::Turn;
use ferrule_base::Instant;
use sha2::{Digest, Sha256};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::IpEndpoint;
use std::fmt::Write;

/// Octets of a head at most.
const HEAD_MAX: usize = 512;
/// Octets of a body at most.
pub const BODY_MAX: u64 = 1 << 34;
/// Octets of a body that are made and digested at a time.
const CHUNK: usize = 4096;

/// The digest of a body of a flow.
pub fn digest(flow: u32, bytes: u64) -> String {
    let (mut sha, mut at) = (Sha256::new(), 0);
    let mut chunk = [0; CHUNK];
    while at < bytes {
        let len = (bytes - at).min(CHUNK as u64) as usize;
        payload::stream(flow, at, &mut chunk[..len]);
        sha.update(&chunk[..len]);
        at += len as u64;
    }
    hex(&sha.finalize())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// State of the response that a client is receiving.
enum Response {
    /// Octets of the head so far.
    Head(Vec<u8>),
    /// Octets of the body that are missing, its digest so far and as the head has it.
    Body(u64, Sha256, String),
}

/// Client that fetches files, one after the other.
pub struct Client {
    to: IpEndpoint,
    flow: u32,
    /// Local ports are taken from here on, in turn.
    port: u16,
    bytes: u64,
    count: u64,
    between: (Instant, Instant),
    window: usize,
    socket: SocketHandle,
    /// When the connection under way was begun, and what came.
    begun: Option<(Instant, Response)>,
    asked: bool,
    /// Octets of all responses, heads and those of broken ones too.
    received: u64,
    result: Http,
}

impl Client {
    pub fn new(
        flow: u32,
        (port, to): (u16, IpEndpoint),
        between: (Instant, Instant),
        (bytes, count): (u64, u64),
        window: usize,
        turn: &mut Turn<'_>,
    ) -> Self {
        let handle = turn.sockets.add(socket(window));
        let result = Http::default();
        Self {
            to,
            flow,
            port,
            bytes,
            count,
            between,
            window,
            socket: handle,
            begun: None,
            asked: false,
            received: 0,
            result,
        }
    }

    /// When to begin; all but the first begin by the end of the one before.
    pub fn due(&self) -> Option<Instant> {
        let (start, stop) = self.between;
        (self.result.requests == 0 && self.count > 0 && start < stop).then_some(start)
    }

    pub fn result(&self) -> Http {
        self.result
    }

    /// Octets that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.begun.is_none() {
            return self.begin(turn);
        }
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut moved = false;
        if !self.asked && socket.may_send() {
            let request = format!(
                "GET /{}/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.flow, self.bytes, self.to.addr
            );
            self.asked = socket.send_slice(request.as_bytes()).is_ok();
            moved = true;
        }
        while socket.can_recv() {
            let Some((_, response)) = &mut self.begun else { break };
            let mut came = 0;
            let taken = socket.recv(|octets| {
                came = octets.len();
                (came, take(response, octets))
            });
            self.received += came as u64;
            moved = true;
            if taken != Ok(true) {
                return self.end(turn, false);
            }
        }
        if !socket.may_recv() && socket.state() != State::SynSent {
            let whole = matches!(&self.begun, Some((_, Response::Body(0, sha, want)))
                if hex(&sha.clone().finalize()) == *want);
            return self.end(turn, whole);
        }
        moved
    }

    fn begin(&mut self, turn: &mut Turn<'_>) -> bool {
        let (start, stop) = self.between;
        if turn.now < start || turn.now >= stop || self.result.requests >= self.count {
            return false;
        }
        // The server has seen the end of the last connection before it gets the next.
        if turn.sockets.get::<Socket<'_>>(self.socket).state() != State::Closed {
            return false;
        }
        let mut fresh = socket(self.window);
        // The range of a flow's own ports; a connection is over before its port comes again.
        let port = self.port + (self.result.requests % super::PORTS_PER_FLOW) as u16;
        self.result.requests += 1;
        self.begun = Some((turn.now, Response::Head(Vec::new())));
        self.asked = false;
        let connected = fresh.connect(turn.stack, self.to, port).is_ok();
        turn.sockets.remove(self.socket);
        self.socket = turn.sockets.add(fresh);
        if connected { true } else { self.end(turn, false) }
    }

    /// The response is over.
    fn end(&mut self, turn: &mut Turn<'_>, whole: bool) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        if whole {
            socket.close()
        } else {
            socket.abort()
        }
        if let Some((begun, _)) = self.begun.take() {
            if whole {
                self.result.intact += 1;
                self.result.octets += self.bytes;
                self.result.duration.add(turn.now - begun);
            } else {
                self.result.broken += 1;
            }
        }
        true
    }
}

/// Takes in a piece of a response; false if it is none.
fn take(response: &mut Response, octets: &[u8]) -> bool {
    match response {
        Response::Head(head) => {
            let had = head.len();
            head.extend_from_slice(&octets[..octets.len().min(HEAD_MAX - had)]);
            let Some(end) = end_of_head(head) else { return head.len() < HEAD_MAX };
            let Some((bytes, want)) = described(&head[..end]) else { return false };
            *response = Response::Body(bytes, Sha256::new(), want);
            take(response, octets.get(end - had..).unwrap_or_default())
        }
        Response::Body(left, sha, _) => {
            sha.update(octets);
            let len = octets.len() as u64;
            let fits = len <= *left;
            *left = left.saturating_sub(len);
            fits
        }
    }
}

/// Octets up to the empty line and with it.
fn end_of_head(octets: &[u8]) -> Option<usize> {
    octets.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Length and digest of the body, from a head that promises one.
fn described(head: &[u8]) -> Option<(u64, String)> {
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    lines.next().filter(|line| line.starts_with("HTTP/1.1 200 "))?;
    let (mut bytes, mut digest) = (None, None);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name {
            "Content-Length" => bytes = value.parse().ok(),
            "SHA-256" => digest = Some(value),
            _ => {}
        }
    }
    Some((bytes?, digest?.to_owned()))
}

/// State of a server's connection.
enum Serving {
    /// Octets of the request so far.
    Request(Vec<u8>),
    /// The head, the flow and length of the body, and octets of both that were sent.
    Response(Vec<u8>, u32, u64, u64),
}

/// Server of files.
pub struct Server {
    port: u16,
    window: usize,
    socket: SocketHandle,
    serving: Serving,
}

impl Server {
    pub fn new(port: u16, window: usize, turn: &mut Turn<'_>) -> Self {
        let handle = turn.sockets.add(listening(port, window));
        Self { port, window, socket: handle, serving: Serving::Request(Vec::new()) }
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        match socket.state() {
            // The client has all and has said so, or has gone.
            State::TimeWait | State::Closed => {
                turn.sockets.remove(self.socket);
                self.socket = turn.sockets.add(listening(self.port, self.window));
                self.serving = Serving::Request(Vec::new());
                return true;
            }
            State::CloseWait => {
                socket.close();
                return true;
            }
            _ => {}
        }
        match &mut self.serving {
            Serving::Request(head) => {
                let mut moved = false;
                while socket.can_recv() && head.len() < HEAD_MAX {
                    let room = HEAD_MAX - head.len();
                    let taken = socket.recv(|octets| {
                        let len = octets.len().min(room);
                        head.extend_from_slice(&octets[..len]);
                        (len, ())
                    });
                    moved = taken.is_ok();
                }
                if let Some(end) = end_of_head(head) {
                    match asked(&head[..end]) {
                        Some((flow, bytes)) => self.serving = answer(flow, bytes),
                        None => socket.abort(),
                    }
                    return true;
                }
                if head.len() >= HEAD_MAX {
                    socket.abort();
                }
                moved
            }
            Serving::Response(head, flow, bytes, sent) => {
                respond(socket, head, (*flow, *bytes), sent)
            }
        }
    }
}

fn listening(port: u16, window: usize) -> Socket<'static> {
    let mut socket = socket(window);
    // The socket is closed, and the port is not zero.
    let _ = socket.listen(port);
    socket
}

/// `GET /FLOW/OCTETS HTTP/1.1`.
fn asked(head: &[u8]) -> Option<(u32, u64)> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let path = line.strip_prefix("GET /")?.strip_suffix(" HTTP/1.1")?;
    let (flow, bytes) = path.split_once('/')?;
    Some((flow.parse().ok()?, bytes.parse().ok().filter(|bytes| *bytes <= BODY_MAX)?))
}

fn answer(flow: u32, bytes: u64) -> Serving {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nSHA-256: {}\r\n\
         Connection: close\r\n\r\n",
        digest(flow, bytes)
    );
    Serving::Response(head.into_bytes(), flow, bytes, 0)
}

/// Gives the stack what it takes of the response; closes behind the end.
fn respond(
    socket: &mut Socket<'_>,
    head: &[u8],
    (flow, bytes): (u32, u64),
    sent: &mut u64,
) -> bool {
    if !socket.may_send() {
        return false;
    }
    let all = head.len() as u64 + bytes;
    if *sent == all {
        socket.close();
        return true;
    }
    let given = socket.send(|room| {
        let len = room.len().min(usize::try_from(all - *sent).unwrap_or(usize::MAX));
        let room = &mut room[..len];
        let from_head = head.get(*sent as usize..).unwrap_or_default();
        let first = from_head.len().min(len);
        room[..first].copy_from_slice(&from_head[..first]);
        let offset = (*sent).saturating_sub(head.len() as u64);
        payload::stream(flow, offset, &mut room[first..]);
        (len, len)
    });
    let given = given.unwrap_or(0) as u64;
    *sent += given;
    given > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_http_response_is_taken_in_any_pieces_and_refused_when_wrong() {
        let Serving::Response(head, ..) = answer(5, 1000) else { panic!("a response") };
        let mut whole = head.clone();
        whole.resize(head.len() + 1000, 0);
        payload::stream(5, 0, &mut whole[head.len()..]);
        for size in [1, 7, 64, 100, 2000] {
            let mut response = Response::Head(Vec::new());
            assert!(whole.chunks(size).all(|piece| take(&mut response, piece)));
            let Response::Body(left, sha, want) = response else { panic!("a body") };
            assert_eq!((left, hex(&sha.finalize())), (0, want));
        }
        let mut response = Response::Head(Vec::new());
        whole.push(0);
        assert!(!take(&mut response, &whole), "more than was promised");
        let endless = vec![b'x'; 4 * HEAD_MAX];
        assert!(!take(&mut Response::Head(Vec::new()), &endless));
        for request in ["GET /1/5 HTTP/1.0", "GET /1 HTTP/1.1", "GET /1/99999999999999 HTTP/1.1"] {
            assert_eq!(asked(request.as_bytes()), None, "{request}");
        }
        assert_eq!(asked(b"GET /1/5 HTTP/1.1\r\n\r\n"), Some((1, 5)));
    }
}
