//! The client's end of the management socket.

use super::{REPLY_MAX, REQUEST_MAX, Reply, Request};
use crate::fault::Fault;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where nodes have their sockets unless they are configured otherwise.
const RUN: &str = "/run/ferrule";

/// The socket of a node: as configured, or by its name.
pub fn socket_path(control: Option<&str>, name: &str) -> PathBuf {
    control.map_or_else(|| Path::new(RUN).join(format!("{name}.sock")), PathBuf::from)
}

/// A connection to a running node.
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Client {
    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> Result<Self, Fault> {
        let stream = UnixStream::connect(path).map_err(|e| {
            let remedy = match e.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "no node answers there: start it with `ferrule run NODE.toml`"
                }
                io::ErrorKind::PermissionDenied => {
                    "the socket is its owner's: use `sudo`, or join the group of `monitors`"
                }
                _ => "see whether the path is right",
            };
            Fault::environment(format!("{}: {e}", path.display()), remedy)
        })?;
        Ok(Self { stream: BufReader::new(stream), path: path.into() })
    }

    /// Connects to the only node that runs here, or to the one of this name.
    pub fn find(name: Option<&str>) -> Result<Self, Fault> {
        if let Some(name) = name {
            return Self::connect(&socket_path(None, name));
        }
        let entries = std::fs::read_dir(RUN).into_iter().flatten().flatten();
        let mut sockets: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        sockets.retain(|p| p.extension().is_some_and(|e| e == "sock"));
        sockets.sort();
        match sockets.as_slice() {
            [one] => Self::connect(one),
            [] => Err(Fault::environment(
                format!("no node runs here: nothing in {RUN}"),
                "start one with `ferrule run NODE.toml`, or name its socket: --socket PATH",
            )),
            several => {
                let name = |p: &PathBuf| Some(p.file_stem()?.to_string_lossy().into_owned());
                let names: Vec<_> = several.iter().filter_map(name).collect();
                let what = format!("{} nodes run here", several.len());
                let remedy = format!("say which: --node {}", names.join(" or --node "));
                Err(Fault::environment(what, remedy))
            }
        }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<(), Fault> {
        let mut line = serde_json::to_vec(request).map_err(|e| self.broken(&e.into()))?;
        line.push(b'\n');
        if line.len() > REQUEST_MAX {
            let what = format!("{} octets are too much for one request", line.len());
            let remedy = "fewer routes and tunnels in one file, or stop the node and start it";
            return Err(Fault::environment(what, remedy));
        }
        self.stream.get_mut().write_all(&line).map_err(|e| self.broken(&e))
    }

    /// What ends a trace or capture while another thread waits for its records.
    pub fn ender(&self) -> Result<impl FnOnce() + Send + 'static, Fault> {
        let stream = self.stream.get_ref().try_clone().map_err(|e| self.broken(&e))?;
        Ok(move || {
            // If the node is gone, whoever waits for it hears of that.
            let _ = serde_json::to_writer(&stream, &Request::Enough {});
            let _ = (&stream).write_all(b"\n");
        })
    }

    /// The next reply; nothing when the daemon is gone.
    pub fn receive(&mut self) -> Result<Option<Reply>, Fault> {
        let mut line = Vec::new();
        let read = self.stream.by_ref().take(REPLY_MAX as u64).read_until(b'\n', &mut line);
        read.map_err(|e| self.broken(&e))?;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| self.broken(&e.into()))
    }

    /// Sends a request and waits for its one reply. What the node refuses is
    /// the reply, not an error.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Fault> {
        self.send(request)?;
        let reply = self.receive()?;
        reply.ok_or_else(|| self.broken(&io::ErrorKind::UnexpectedEof.into()))
    }

    fn broken(&self, error: &io::Error) -> Fault {
        let what = format!("{}: {error}", self.path.display());
        Fault::environment(what, "see whether the node still runs, and is of this version")
    }
}
