//! The daemon's end of the management socket: never blocks, never grows
//! without bound.

use super::{CLIENTS_MAX, LINE_MAX, Reply, Request, UNREAD_MAX};
use crate::fault::Fault;
use ferrule_base::Secret;
use ferrule_ports::os::PollSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Octets read from a client in one go.
const READ: usize = 64 << 10;

struct Client {
    id: u64,
    stream: UnixStream,
    input: Vec<u8>,
    /// Octets of it in which no line ends: a request of many comes in many parts.
    searched: usize,
    output: Vec<u8>,
    place: usize,
    gone: bool,
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
    clients: Vec<Client>,
    next: u64,
    place: usize,
}

impl Server {
    /// Makes the socket, for its owner alone. One that nobody serves any more
    /// is replaced.
    pub fn bind(path: &Path) -> Result<Self, Fault> {
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
        // Nobody may connect before the permissions are right: it is made under
        // another name.
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh).map_err(fault)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o600)).map_err(fault)?;
        fs::rename(&fresh, path).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        Ok(Self { listener, path: path.into(), clients: Vec::new(), next: 0, place: 0 })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to sleep on.
    pub fn add_to(&mut self, set: &mut PollSet) {
        self.place = set.add(self.listener.as_raw_fd(), false);
        for client in &mut self.clients {
            client.place = set.add(client.stream.as_raw_fd(), !client.output.is_empty());
        }
    }

    /// Takes what arrived and sends what waits.
    pub fn turn(&mut self, set: &PollSet) -> Vec<Action> {
        let mut actions = Vec::new();
        for client in &mut self.clients {
            if set.is_ready(client.place) {
                client.read(&mut actions);
            }
        }
        self.flush();
        for client in self.clients.extract_if(.., |c| c.gone) {
            actions.push(Action::Gone(client.id));
        }
        while set.is_ready(self.place) {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if self.clients.len() >= CLIENTS_MAX || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            let (input, output) = (Vec::new(), Vec::new());
            let (id, place) = (self.next, usize::MAX);
            let (searched, gone) = (0, false);
            self.clients.push(Client { id, stream, input, searched, output, place, gone });
        }
        actions
    }

    /// Says something to a client. False if it left too much unread already, or
    /// is gone.
    pub fn say(&mut self, client: u64, reply: &Reply) -> bool {
        let Some(client) = self.clients.iter_mut().find(|c| c.id == client && !c.gone) else {
            return false;
        };
        if client.output.len() > UNREAD_MAX {
            return false;
        }
        if serde_json::to_writer(&mut client.output, reply).is_err() {
            return false;
        }
        client.output.push(b'\n');
        true
    }

    /// Sends what waits, as far as clients take it.
    pub fn flush(&mut self) {
        self.clients.iter_mut().filter(|c| !c.output.is_empty()).for_each(Client::write);
    }

    /// Gives the socket to another user.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        std::os::unix::fs::chown(&self.path, Some(uid), Some(gid))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.flush();
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    fn read(&mut self, actions: &mut Vec<Action>) {
        let mut room = vec![0; READ];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                Ok(count) => self.input.extend_from_slice(&room[..count]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
            if self.input.len() > LINE_MAX {
                self.gone = true;
                return;
            }
        }
        while let Some(end) = self.input[self.searched..].iter().position(|&b| b == b'\n') {
            // There may be keys in it: it is wiped when done with.
            let line = Secret::new(self.input.drain(..=self.searched + end).collect());
            self.searched = 0;
            match serde_json::from_slice(line.expose()) {
                Ok(request) => actions.push(Action::Asked(self.id, request)),
                Err(e) => {
                    let text = format!("error: not a request: {e}\n");
                    let refused = Reply::Refused { text, exit: 2 };
                    let _ = serde_json::to_writer(&mut self.output, &refused);
                    self.output.push(b'\n');
                }
            }
        }
        self.searched = self.input.len();
    }

    fn write(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => self.gone = true,
                Ok(count) => {
                    self.output.drain(..count);
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.gone = true,
            }
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Seen;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

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

    #[test]
    fn api_socket_is_its_owners_and_served_once() {
        let socket = Socket::new("owner");
        let server = Server::bind(&socket.0).unwrap();
        assert_eq!(fs::metadata(&socket.0).unwrap().mode() & 0o777, 0o600);
        let second = Server::bind(&socket.0).err().unwrap();
        assert!(second.to_string().contains("answers"), "{second}");
        std::mem::forget(server);
    }

    #[test]
    fn api_answers_nonsense_and_goes_on() {
        let socket = Socket::new("nonsense");
        let mut server = Server::bind(&socket.0).unwrap();
        let mut client = UnixStream::connect(&socket.0).unwrap();
        client.write_all(b"what?\n{\"show\":{}}\n{\"show\":").unwrap();
        turn(&mut server);
        let asked = turn(&mut server);
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
        let mut server = Server::bind(&socket.0).unwrap();
        let mut client = UnixStream::connect(&socket.0).unwrap();
        turn(&mut server);
        let mut asked = 0;
        for part in ["{\"sho", "w\":", "{}}", "\n{\"show\":{}}\n{", "\"show\":{}}\n"] {
            client.write_all(part.as_bytes()).unwrap();
            let actions = turn(&mut server);
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
        let mut server = Server::bind(&socket.0).unwrap();
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
        assert!(server.clients[0].output.len() < UNREAD_MAX + 4096);
    }

    #[test]
    fn api_takes_so_many_clients_and_no_more() {
        let socket = Socket::new("many");
        let mut server = Server::bind(&socket.0).unwrap();
        let clients: Vec<_> = (0..CLIENTS_MAX + 10)
            .map(|_| {
                let client = UnixStream::connect(&socket.0).unwrap();
                turn(&mut server);
                client
            })
            .collect();
        assert_eq!(server.clients.len(), CLIENTS_MAX);
        drop(clients);
    }
}
