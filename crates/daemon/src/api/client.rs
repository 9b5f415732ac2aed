//! The client's end of the management socket.

use super::registry::{self, RUN, Running};
use super::{REPLY_MAX, REQUEST_MAX, Reply, Request};
use crate::fault::Fault;
use ferrule_base::Secret;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

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
        let folders = registry::folders();
        let all = registry::running(&folders);
        let is_meant = |node: &&Running| name.is_none_or(|name| node.name == name);
        match all.iter().filter(is_meant).collect::<Vec<_>>().as_slice() {
            [one] => Self::connect(&one.socket),
            [] => Err(nobody(name, &all, &folders)),
            several => {
                let what = match name {
                    Some(name) => format!("{} nodes of the name {name} run here", several.len()),
                    None => format!("{} nodes run here", several.len()),
                };
                Err(Fault::environment(what, format!("say which: {}", choice(several))))
            }
        }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<(), Fault> {
        let mut line = serde_json::to_vec(request).map_err(|e| self.broken(&e.into()))?;
        line.push(b'\n');
        // There may be keys in it.
        let line = Secret::new(line);
        if line.len() > REQUEST_MAX {
            let what = format!("{} octets are too much for one request", line.len());
            let remedy = "fewer routes and tunnels in one file, or stop the node and start it";
            return Err(Fault::environment(what, remedy));
        }
        self.stream.get_mut().write_all(line.expose()).map_err(|e| self.broken(&e))
    }

    /// Handle that ends a trace or capture while another thread waits for its records.
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

/// Nodes listed at most.
const LISTED_MAX: usize = 16;

/// The words that tell nodes apart: names, or sockets where two have one name.
fn choice(nodes: &[&Running]) -> String {
    let word = |node: &&Running| {
        let is_alone = nodes.iter().filter(|other| other.name == node.name).count() == 1;
        match is_alone {
            true => format!("--node {}", node.name),
            false => format!("--socket {}", node.socket.display()),
        }
    };
    let mut words: Vec<_> = nodes.iter().take(LISTED_MAX).map(word).collect();
    let rest = nodes.len() - words.len();
    words.extend((rest > 0).then(|| format!("{rest} more")));
    words.join(" or ")
}

fn nobody(name: Option<&str>, all: &[Running], folders: &[PathBuf]) -> Fault {
    let all: Vec<_> = all.iter().collect();
    match name {
        Some(name) if !all.is_empty() => {
            let what = format!("no node of the name {name} runs here");
            Fault::environment(what, format!("those that run: {}", choice(&all)))
        }
        _ => {
            let of_name = name.map_or_else(String::new, |name| format!(" of the name {name}"));
            let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
            let what =
                format!("no node{of_name} runs here: nobody answers in {}", folders.join(" or "));
            let remedy =
                "start one with `ferrule run NODE.toml`, or name its socket: --socket PATH";
            Fault::environment(what, remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_are_told_apart_by_words_that_can_be_typed() {
        let node = |name: &str, socket: &str| Running { name: name.into(), socket: socket.into() };
        let all = [node("a", "/x/a"), node("b", "/x/b"), node("b", "/y/b")];
        let each: Vec<_> = all.iter().collect();
        assert_eq!(choice(&each), "--node a or --socket /x/b or --socket /y/b");
        assert_eq!(choice(&each[..2]), "--node a or --node b");
        let fault = nobody(Some("c"), &all[..1], &[]).to_string();
        assert!(fault.contains("no node of the name c") && fault.contains("--node a"), "{fault}");
        let fault = nobody(None, &[], &["/run/ferrule".into()]).to_string();
        assert!(fault.contains("/run/ferrule") && fault.contains("ferrule run"), "{fault}");
    }
}
