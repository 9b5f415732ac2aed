//! Parts that the commands around a running node share: reading a configuration, finding the node,
//! ending with the right exit code.

use crate::answer::{self, Form};
use clap::Args;
use ferrule_daemon::api::{Client, Reply, socket_path};
use ferrule_daemon::load::{self, Loaded};
use ferrule_daemon::{Blame, Fault};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Running node that is meant.
#[derive(Args)]
pub struct Which {
    /// The node's name, or its configuration; not needed where one node runs.
    #[arg(long, value_name = "NAME|NODE.toml", conflicts_with = "socket")]
    node: Option<String>,
    /// The node's management socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Which {
    /// Connects to it.
    pub fn connect(&self) -> Result<Client, Fault> {
        match (&self.socket, &self.node) {
            (Some(path), _) => Client::connect(path),
            (None, Some(node)) if node.ends_with(".toml") => {
                Client::connect(&load::socket_of(Path::new(node))?)
            }
            (None, node) => Client::find(node.as_deref()),
        }
    }

    /// Connects to it, or where nothing was said, to the node of a configuration.
    pub fn connect_for(&self, loaded: &Loaded) -> Result<Client, Fault> {
        if self.node.is_some() || self.socket.is_some() {
            return self.connect();
        }
        let config = &loaded.config;
        Client::connect(&socket_path(config.control.as_deref(), &config.name))
    }
}

/// Options of a command that asks a running node.
#[derive(Args)]
pub struct ClientArgs {
    #[command(flatten)]
    pub form: Form,
    #[command(flatten)]
    pub which: Which,
}

/// Reads a configuration with its key files.
pub fn load(path: &Path) -> Result<Loaded, Fault> {
    load::load(path)
}

/// A dashboard's listener.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).map_err(|e| {
        let remedy = "choose an address of this machine and a free port; 0 takes any";
        Fault::environment(format!("--web {address}: {e}"), remedy)
    })
}

/// From now on ctrl-C ends a trace or capture as its end does, with all that
/// was recorded; a second one ends it at once.
pub fn end_on_interrupt(client: &Client) -> Result<(), Fault> {
    let failed = |e| Fault::environment(format!("signals: {e}"), "see `ulimit -n`");
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let mut end = Some(client.ender()?);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match end.take() {
                Some(end) => end(),
                None => std::process::exit(128 + signal),
            }
        }
    });
    Ok(())
}

/// The exit code; what went wrong is said.
pub fn finish(result: Result<(), Fault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => answer::fault(&fault),
    }
}

/// A reply that does not answer the request.
pub fn unexpected(reply: Reply) -> Fault {
    match reply {
        Reply::Refused { text, exit, findings } => {
            let blame = if exit == 2 { Blame::Configuration } else { Blame::Environment };
            Fault::told(blame, text, findings)
        }
        _ => Fault::environment(
            "the node answered something else",
            "use a `ferrule` of the node's version",
        ),
    }
}

/// The companion of a node that gave its privileges up: opens ports for it.
/// Started by `ferrule run`, never by a person.
#[derive(Args)]
pub struct CompanionArgs {
    left: Vec<PathBuf>,
}

impl CompanionArgs {
    /// Serves until the node is gone.
    pub fn run(self) -> ExitCode {
        match ferrule_daemon::opening::serve(&self.left) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(3),
        }
    }
}
