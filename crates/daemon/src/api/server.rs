//! The daemon's end of the management socket: never blocks, never grows
//! without bound.

use super::registry::register;
use super::{CLIENTS_MAX, REQUEST_MAX, Reply, Request, UNREAD_MAX};
use crate::events;
use crate::fault::{Fault, Finding};
use ferrule_base::Secret;
use ferrule_ports::os::PollSet;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, fchmod};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Octets read from a client in one go.
const READ: usize = 64 << 10;
/// Clients that wait to be taken.
const WAITING_MAX: i32 = 128;
/// Characters of the reason why something is no request.
const WHY_MAX: usize = 200;
/// Time to take a shared reply whole, if the next one has no room without it. Progress does not
/// count: a client that takes an octet now and then would hold up all others.
const TAKE_WAIT: Duration = Duration::from_secs(5);
/// Times that a client is read from in one turn.
const READS_MAX: usize = 16;

struct Client {
    id: u64,
    stream: UnixStream,
    peer: Peer,
    input: Vec<u8>,
    /// Octets of it in which no line ends: a request of many comes in many parts.
    searched: usize,
    output: Vec<u8>,
    /// Octets of it that left.
    sent: usize,
    /// A reply that other clients get, too, behind the output; and how many octets of it left.
    shared: Option<(Arc<[u8]>, usize)>,
    /// When it was given.
    given: Instant,
    /// When it came or last asked for something, and whether it ever did.
    since: Instant,
    asked: bool,
    /// An answer is under way: requests behind it wait.
    waits: bool,
    place: usize,
    gone: bool,
}

/// Identity and rights of a client.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: i32,
    /// Root, or the node's own user.
    pub may_change: bool,
}

/// A request, and the client that it came from.
pub enum Action {
    /// Something is asked for.
    Asked(u64, Request),
    /// The client went away.
    Gone(u64),
}

/// The socket and its clients.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// The link by which it is found.
    entry: Option<PathBuf>,
    clients: Vec<Client>,
    next: u64,
    place: usize,
    /// Octets of the largest reply so far: a report of 100,000 entries is larger than all that
    /// may be left unread.
    largest: usize,
}

impl Server {
    /// Makes the socket, for its owner alone or also for its group, whose members
    /// may look. One that nobody serves any more is replaced.
    pub fn bind(path: &Path, for_group: bool) -> Result<Self, Fault> {
        let fault = |e: io::Error| {
            let remedy = "choose another path: control = \"PATH\" in [node]";
            Fault::environment(format!("socket {}: {e}", path.display()), remedy)
        };
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty())
            && !folder.is_dir()
        {
            DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(fault)?;
        }
        if path.exists() {
            if UnixStream::connect(path).is_ok() {
                let what = format!("a node answers at {} already", path.display());
                return Err(Fault::environment(what, "stop it first: `ferrule stop`"));
            }
            fs::remove_file(path).map_err(fault)?;
        }
        // The socket is made under another name, so that clients only ever find it served.
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&fresh);
        let listener = listen(&fresh, for_group).map_err(fault)?;
        fs::rename(&fresh, path).map_err(fault)?;
        Ok(Self {
            listener,
            path: path.into(),
            entry: None,
            clients: Vec::new(),
            next: 0,
            place: 0,
            largest: 0,
        })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets clients find it by the node's name, or without one.
    pub fn register(&mut self, name: &str) {
        self.entry = register(name, &self.path);
    }

    /// The link by which it is found, where there is one.
    pub fn entry(&self) -> Option<&Path> {
        self.entry.as_deref()
    }

    /// Adds the descriptors to sleep on.
    pub fn add_to(&mut self, set: &mut PollSet) {
        self.place = set.add(self.listener.as_raw_fd(), false);
        for client in &mut self.clients {
            client.place = set.add(client.stream.as_raw_fd(), client.has_output());
        }
    }

    /// True if requests wait that came together with others.
    pub fn has_more(&self) -> bool {
        self.clients.iter().any(|c| !c.is_waiting() && c.searched < c.input.len())
    }

    /// Takes what arrived, a request of each client, and sends what waits.
    pub fn turn(&mut self, set: &PollSet) -> Vec<Action> {
        let mut actions = Vec::new();
        for client in &mut self.clients {
            if set.is_ready(client.place) {
                client.read();
            }
        }
        // The client with the longest unfinished request goes, so that others can send.
        while self.clients.iter().map(|c| c.input.len()).sum::<usize>() > REQUEST_MAX {
            let most = self.clients.iter_mut().max_by_key(|c| c.input.len());
            most.into_iter().for_each(Client::close);
        }
        actions.extend(self.clients.iter_mut().filter_map(Client::request));
        self.flush();
        self.bound_unread();
        for client in self.clients.extract_if(.., |c| c.gone) {
            actions.push(Action::Gone(client.id));
        }
        while set.is_ready(self.place) {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if self.clients.len() >= CLIENTS_MAX {
                // A client that never asked for anything goes first.
                let silent = self.clients.iter().enumerate();
                let silent =
                    silent.min_by_key(|(_, c)| (c.waits, c.asked, c.since)).map(|(i, _)| i);
                actions.extend(silent.map(|i| Action::Gone(self.clients.remove(i).id)));
            }
            self.next += 1;
            self.clients.extend(Client::new(self.next, stream));
        }
        actions
    }

    /// Identity and rights of a client, while it is connected.
    pub fn peer(&self, client: u64) -> Option<Peer> {
        self.clients.iter().find(|c| c.id == client).map(|c| c.peer)
    }

    /// Holds a client's further requests until it is answered, which others may be before.
    pub fn keep_waiting(&mut self, client: u64) {
        self.clients.iter_mut().filter(|c| c.id == client).for_each(|c| c.waits = true);
    }

    /// Says something to a client. False if it left too much unread already, or
    /// is gone.
    pub fn say(&mut self, client: u64, reply: &Reply) -> bool {
        let is_unasked = reply.is_unasked();
        if !is_unasked {
            self.bound_unread();
        }
        let Some(client) = self.clients.iter_mut().find(|c| c.id == client && !c.gone) else {
            return false;
        };
        if is_unasked && client.unread() > UNREAD_MAX {
            return false;
        }
        client.waits &= is_unasked;
        let before = client.output.len();
        if serde_json::to_writer(&mut client.output, reply).is_err() {
            return false;
        }
        client.output.push(b'\n');
        self.largest = self.largest.max(client.output.len() - before);
        true
    }

    /// Gives a client a reply, a whole line, that others get as well: in memory it is there once.
    /// Requests behind it wait until it left. False if the client is gone.
    pub fn say_line(&mut self, client: u64, line: Arc<[u8]>) -> bool {
        self.bound_unread();
        let Some(client) = self.clients.iter_mut().find(|c| c.id == client && !c.gone) else {
            return false;
        };
        self.largest = self.largest.max(line.len());
        client.waits = false;
        (client.shared, client.given) = (Some((line, 0)), Instant::now());
        true
    }

    /// True if there is memory for another shared reply beside those on their way: all but one of
    /// these have left. Otherwise clients that had [`TAKE_WAIT`] go.
    pub fn has_room(&mut self) -> bool {
        if self.unread() <= UNREAD_MAX + self.largest {
            return true;
        }
        let late = |c: &&mut Client| c.shared.is_some() && c.given.elapsed() > TAKE_WAIT;
        self.clients.iter_mut().filter(late).for_each(Client::close);
        false
    }

    /// Octets that clients left unread; a reply to several of them counts once.
    fn unread(&self) -> usize {
        let mut lines: Vec<&Arc<[u8]>> = Vec::new();
        for (line, _) in self.clients.iter().filter_map(|c| c.shared.as_ref()) {
            if !lines.iter().any(|one| Arc::ptr_eq(one, line)) {
                lines.push(line);
            }
        }
        let own = self.clients.iter().map(|c| c.output.len() - c.sent).sum::<usize>();
        own + lines.iter().map(|line| line.len()).sum::<usize>()
    }

    /// Closes the client with the most unread output, where that of all clients is too much. Two of
    /// the largest reply are allowed: one may be on its way to each of two clients.
    fn bound_unread(&mut self) {
        let most = 2 * (UNREAD_MAX + self.largest);
        if self.unread() > most {
            let most = self.clients.iter_mut().max_by_key(|c| c.unread());
            most.into_iter().for_each(Client::close);
        }
    }

    /// Sends what waits, as far as clients take it.
    pub fn flush(&mut self) {
        self.clients.iter_mut().filter(|c| c.has_output()).for_each(Client::write);
    }

    /// Gives the socket to another user and group.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        let (found, ours) = (file.metadata()?, rustix::process::geteuid().as_raw());
        if !found.file_type().is_socket() || found.nlink() != 1 || found.uid() != ours {
            let what = format!("{} is not the socket that was made", self.path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }
}

/// A socket that its owner, or also its group, may open, from the first moment.
fn listen(path: &Path, for_group: bool) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let owner = Mode::RUSR | Mode::WUSR;
    let group = if for_group { Mode::RGRP | Mode::WGRP } else { Mode::empty() };
    // The file gets the socket's own mode, as far as the mask lets it.
    fchmod(&socket, owner | group)?;
    let mask = for_group.then(|| rustix::process::umask(Mode::RWXO | Mode::XGRP));
    let bound = bind(&socket, &SocketAddrUnix::new(path)?);
    mask.map(rustix::process::umask);
    bound?;
    rustix::net::listen(&socket, WAITING_MAX)?;
    Ok(socket.into())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.flush();
        let _ = fs::remove_file(&self.path);
        self.entry.iter().for_each(|entry| drop(fs::remove_file(entry)));
    }
}

impl Client {
    fn new(id: u64, stream: UnixStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        let found = socket_peercred(&stream).ok()?;
        let may_change = found.uid.is_root() || found.uid == rustix::process::geteuid();
        let (uid, pid) = (found.uid.as_raw(), found.pid.as_raw_nonzero().get());
        let peer = Peer { uid, pid, may_change };
        Some(Self {
            id,
            stream,
            peer,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            sent: 0,
            shared: None,
            given: Instant::now(),
            since: Instant::now(),
            asked: false,
            waits: false,
            place: usize::MAX,
            gone: false,
        })
    }

    fn unread(&self) -> usize {
        let shared = self.shared.as_ref().map_or(0, |(line, sent)| line.len() - sent);
        self.output.len() - self.sent + shared
    }

    /// True if requests wait until the reply to the one before them left, or is there.
    const fn is_waiting(&self) -> bool {
        self.waits || self.shared.is_some()
    }

    const fn has_output(&self) -> bool {
        !self.output.is_empty() || self.shared.is_some()
    }

    /// Forgets what it sent and what it did not read.
    fn close(&mut self) {
        self.gone = true;
        self.wipe();
        (self.output, self.sent, self.shared) = (Vec::new(), 0, None);
    }

    /// There may be keys in what it sent.
    fn wipe(&mut self) {
        drop(Secret::new(std::mem::take(&mut self.input)));
        self.searched = 0;
    }

    fn read(&mut self) {
        let mut room = vec![0; READ];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut room) {
                Ok(0) => return self.close(),
                Ok(count) => {
                    self.input.reserve_exact(count);
                    self.input.extend_from_slice(&room[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.close(),
            }
        }
    }

    /// The first request of what it sent, if that is whole. What is none is
    /// answered here.
    fn request(&mut self) -> Option<Action> {
        if self.is_waiting() {
            return None;
        }
        let fresh = &self.input[self.searched..];
        let Some(end) = fresh.iter().position(|&b| b == b'\n') else {
            self.searched = self.input.len();
            return None;
        };
        // There may be keys in it: it is wiped when done with.
        let line = Secret::new(self.input.drain(..=self.searched + end).collect());
        (self.searched, self.since, self.asked) = (0, Instant::now(), true);
        if self.input.is_empty() {
            self.wipe();
        }
        let text = match serde_json::from_slice(line.expose()) {
            Ok(request) if self.peer.may_change || matches!(request, Request::Show {}) => {
                return Some(Action::Asked(self.id, request));
            }
            Ok(request) => {
                events::asked(Some(self.peer), request.name(), Err("a monitor may look"));
                "error: you may look at this node, not change or record\n  ask root, or \
                      the node's own user\n"
                    .to_owned()
            }
            Err(e) => {
                // The error repeats words of the request, however long they are.
                let why: String = e.to_string().chars().take(WHY_MAX).collect();
                format!("error: not a request: {why}\n")
            }
        };
        let refused = Reply::Refused { findings: vec![Finding::told(&text)], text, exit: 2 };
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.output, &refused);
        self.output.push(b'\n');
        None
    }

    /// Sends as much as the client takes. A shared reply that began is not interrupted.
    fn write(&mut self) {
        if self.shared.as_ref().is_none_or(|(_, sent)| *sent == 0) && !self.write_output() {
            return;
        }
        if let Some((line, mut sent)) = self.shared.take() {
            match send(&self.stream, &line, &mut sent) {
                Ok(true) => _ = self.write_output(),
                Ok(false) => self.shared = Some((line, sent)),
                Err(_) => self.close(),
            }
        }
    }

    /// True if all of the output left.
    fn write_output(&mut self) -> bool {
        match send(&self.stream, &self.output, &mut self.sent) {
            Ok(true) => (self.output, self.sent) = (Vec::new(), 0),
            // Octets that left are dropped once they are more than half.
            Ok(false) if self.sent > self.output.len() / 2 => {
                self.output.drain(..std::mem::take(&mut self.sent));
                self.output.shrink_to(2 * self.output.len());
            }
            Ok(false) => {}
            Err(_) => self.close(),
        }
        self.output.is_empty()
    }
}

/// Sends octets from a place on. True if all of them left.
fn send(mut stream: &UnixStream, octets: &[u8], sent: &mut usize) -> io::Result<bool> {
    while *sent < octets.len() {
        match stream.write(&octets[*sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Seen;
    use std::io::{BufRead, BufReader};

    struct Socket(PathBuf);

    impl Socket {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("ferrule-api-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn turn(server: &mut Server) -> Vec<Action> {
        let mut set = PollSet::new();
        server.add_to(&mut set);
        set.wait(Some(Duration::from_millis(50))).unwrap();
        server.turn(&set)
    }

    /// Two clients that take an octet now and then of a reply each: others wait for them, and not
    /// for longer than [`TAKE_WAIT`].
    #[test]
    fn shared_lines_that_are_taken_too_slowly_make_room() {
        let socket = Socket::new("drip");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut clients: Vec<UnixStream> =
            (0..2).map(|_| UnixStream::connect(&socket.0).unwrap()).collect();
        turn(&mut server);
        for client in 1..=2 {
            assert!(server.has_room());
            let line: Arc<[u8]> = vec![b'x'; 3 * UNREAD_MAX].into();
            assert!(server.say_line(client, line));
        }
        let drip = |server: &mut Server, clients: &mut [UnixStream]| {
            clients.iter_mut().for_each(|client| client.read_exact(&mut [0]).unwrap());
            turn(server);
            server.has_room()
        };
        turn(&mut server);
        assert!(!drip(&mut server, &mut clients));
        assert!(server.clients.iter().all(|client| !client.gone));
        for client in &mut server.clients {
            client.given -= TAKE_WAIT;
        }
        assert!(!drip(&mut server, &mut clients));
        turn(&mut server);
        assert!(server.has_room() && server.clients.is_empty());
    }

    /// A line that several clients get, larger than their sockets take at once: each has it whole,
    /// and what was asked behind it is answered behind it.
    #[test]
    fn shared_line_reaches_each_client_whole_and_counts_once() {
        let socket = Socket::new("shared");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut clients: Vec<UnixStream> =
            (0..3).map(|_| UnixStream::connect(&socket.0).unwrap()).collect();
        for client in &mut clients {
            client.write_all(b"{\"show\":{}}\n{\"show\":{}}\n").unwrap();
        }
        let mut asked = 0;
        while asked < 3 {
            asked += turn(&mut server).len();
        }
        let line: Arc<[u8]> = [&vec![b'x'; 3 * UNREAD_MAX][..], b"\n"].concat().into();
        assert!((1..=3).all(|client| server.say_line(client, line.clone())));
        assert_eq!(server.unread(), line.len());
        // None of them reads: nothing else is asked for, and nobody is closed.
        for _ in 0..5 {
            assert!(turn(&mut server).is_empty() && !server.has_more());
        }
        let readers = clients.into_iter().map(|client| {
            std::thread::spawn(move || {
                let (mut first, mut second) = (Vec::new(), Vec::new());
                let mut read = BufReader::new(client);
                read.read_until(b'\n', &mut first).unwrap();
                read.read_until(b'\n', &mut second).unwrap();
                (first, second)
            })
        });
        let readers: Vec<_> = readers.collect();
        let mut asked = 0;
        while asked < 3 {
            for action in turn(&mut server) {
                // Whoever has both is gone.
                let Action::Asked(client, _) = action else { continue };
                assert!(server.say_line(client, b"second\n"[..].into()));
                asked += 1;
            }
            server.flush();
        }
        while server.unread() > 0 {
            turn(&mut server);
        }
        for reader in readers {
            let (first, second) = reader.join().unwrap();
            assert!(first == line[..]);
            assert_eq!(second, b"second\n");
        }
    }

    #[test]
    fn api_socket_is_its_owners_and_served_once() {
        let socket = Socket::new("owner");
        let server = Server::bind(&socket.0, false).unwrap();
        assert_eq!(fs::metadata(&socket.0).unwrap().mode() & 0o777, 0o600);
        let second = Server::bind(&socket.0, false).err().unwrap();
        assert!(second.to_string().contains("answers"), "{second}");
        std::mem::forget(server);
    }

    #[test]
    fn api_answers_nonsense_and_goes_on() {
        let socket = Socket::new("nonsense");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut client = UnixStream::connect(&socket.0).unwrap();
        client.write_all(b"what?\n{\"show\":{}}\n{\"show\":").unwrap();
        turn(&mut server);
        let asked: Vec<_> = (0..2).flat_map(|_| turn(&mut server)).collect();
        assert!(matches!(asked.as_slice(), [Action::Asked(1, Request::Show {})]));
        turn(&mut server);
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        assert!(line.contains("refused") && line.contains("not a request"), "{line}");
        drop(client);
        assert!(turn(&mut server).iter().any(|a| matches!(a, Action::Gone(1))));
    }

    #[test]
    fn api_requests_that_come_in_parts_are_taken_when_they_are_whole() {
        let socket = Socket::new("parts");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut client = UnixStream::connect(&socket.0).unwrap();
        turn(&mut server);
        let mut asked = 0;
        for part in ["{\"sho", "w\":", "{}}", "\n{\"show\":{}}\n{", "\"show\":{}}\n"] {
            client.write_all(part.as_bytes()).unwrap();
            let mut actions = turn(&mut server);
            while server.has_more() {
                actions.extend(turn(&mut server));
            }
            assert!(actions.iter().all(|a| matches!(a, Action::Asked(1, Request::Show {}))));
            asked += actions.len();
            let whole = match part {
                "\n{\"show\":{}}\n{" => 2,
                "\"show\":{}}\n" => 3,
                _ => 0,
            };
            assert_eq!(asked, whole, "{part:?}");
        }
    }

    #[test]
    fn api_client_that_does_not_read_loses_records_and_nothing_else() {
        let socket = Socket::new("slow");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let _slow = UnixStream::connect(&socket.0).unwrap();
        turn(&mut server);
        let seen = Seen {
            time: 0,
            worker: 0,
            point: "received".into(),
            reason: None,
            port: "wan".into(),
            id: 0,
            len: 1000,
            data: "00".repeat(1000),
        };
        let taken = (0..10_000).filter(|_| {
            let taken = server.say(1, &Reply::Record(seen.clone()));
            server.flush();
            taken
        });
        let taken = taken.count();
        assert!(taken > 100 && taken < 5_000, "{taken} records were kept");
        assert!(server.clients[0].unread() < UNREAD_MAX + 4096);
    }

    #[test]
    fn api_clients_that_say_nothing_make_room() {
        let socket = Socket::new("many");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let connect = |server: &mut Server| {
            let client = UnixStream::connect(&socket.0).unwrap();
            turn(server);
            client
        };
        // The first asks for something: it stays.
        let mut asks = connect(&mut server);
        asks.write_all(b"{\"show\":{}}\n").unwrap();
        turn(&mut server);
        let silent: Vec<_> = (0..3 * CLIENTS_MAX).map(|_| connect(&mut server)).collect();
        assert_eq!(server.clients.len(), CLIENTS_MAX);
        let kept: Vec<_> = server.clients.iter().map(|c| c.id).collect();
        let last = 1 + silent.len() as u64;
        let newest = last + 2 - CLIENTS_MAX as u64..=last;
        assert_eq!(kept, std::iter::once(1).chain(newest).collect::<Vec<_>>());
    }

    #[test]
    fn api_requests_without_an_end_take_room_of_one_and_hinder_nobody() {
        let socket = Socket::new("endless");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let connect = || {
            let stream = UnixStream::connect(&socket.0).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let mut endless: Vec<_> = (0..4).map(|_| Some(connect())).collect();
        let junk = vec![b'x'; 256 << 10];
        let (mut written, mut asked) = (0, 0);
        while written < 64 << 20 {
            for place in &mut endless {
                match place.as_mut().map(|client| client.write(&junk)) {
                    Some(Ok(count)) => written += count,
                    Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock => {}
                    _ => *place = Some(connect()),
                }
            }
            let mut good = connect();
            good.write_all(b"{\"show\":{}}\n").unwrap();
            let actions = (0..2).flat_map(|_| turn(&mut server));
            asked += actions.filter(|a| matches!(a, Action::Asked(..))).count();
            let held: usize = server.clients.iter().map(|c| c.input.capacity()).sum();
            assert!(held <= REQUEST_MAX + 8 * READ, "{held} octets");
        }
        assert!(asked > 50, "{asked} requests of others were taken");
    }

    #[test]
    fn api_replies_that_nobody_reads_are_bounded_for_all_together() {
        let socket = Socket::new("unread");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let slow: Vec<_> = (0..10)
            .map(|_| {
                let client = UnixStream::connect(&socket.0).unwrap();
                turn(&mut server);
                client
            })
            .collect();
        let text = "y".repeat(1 << 20);
        for round in 0..20 {
            for client in 1..=slow.len() as u64 {
                server.say(
                    client,
                    &Reply::Refused { text: text.clone(), exit: round, findings: Vec::new() },
                );
            }
            server.flush();
            let held: usize = server.clients.iter().map(Client::unread).sum();
            assert!(held <= 2 * (UNREAD_MAX + text.len()) + (2 << 20), "{held} octets");
        }
    }

    #[test]
    fn api_reply_that_is_larger_than_all_that_may_be_unread_arrives() {
        let socket = Socket::new("large");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut clients = [0; 2].map(|_| {
            let client = UnixStream::connect(&socket.0).unwrap();
            turn(&mut server);
            client.set_nonblocking(true).unwrap();
            client
        });
        let text = "y".repeat(6 * UNREAD_MAX);
        for client in 1..=2 {
            let reply = Reply::Refused { text: text.clone(), exit: 2, findings: Vec::new() };
            assert!(server.say(client, &reply));
        }
        let (mut taken, mut room) = ([0; 2], vec![0; 1 << 20]);
        while taken.iter().any(|&octets| octets < text.len()) {
            turn(&mut server);
            for (client, taken) in clients.iter_mut().zip(&mut taken) {
                match client.read(&mut room) {
                    Ok(0) => panic!("hung up after {taken} octets"),
                    Ok(count) => *taken += count,
                    Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
                }
            }
        }
    }

    #[test]
    fn api_answers_to_nonsense_that_nobody_reads_are_bounded() {
        let socket = Socket::new("refused");
        let mut server = Server::bind(&socket.0, false).unwrap();
        let mut client = UnixStream::connect(&socket.0).unwrap();
        turn(&mut server);
        let long = format!("{{\"{}\":{{}}}}\n", "z".repeat(1 << 20));
        client.set_nonblocking(true).unwrap();
        let mut left = long.as_bytes();
        while !left.is_empty() {
            left = &left[client.write(left).unwrap_or(0)..];
            turn(&mut server);
        }
        assert!(server.clients[0].unread() < 1 << 10, "a word of the request is not repeated");
        for _ in 0..200_000 {
            if client.write(b"\n").is_err() && server.clients.is_empty() {
                return;
            }
            turn(&mut server);
            let held: usize = server.clients.iter().map(|c| c.output.capacity()).sum();
            assert!(held <= 6 * UNREAD_MAX, "{held} octets");
        }
        panic!("a client that never reads is still there");
    }
}
