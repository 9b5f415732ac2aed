//! `ferrule run`: a live node, until it is told to stop.

use crate::live::{finish, load};
use clap::Args;
use ferrule_daemon::{Daemon, Fault};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a node: packets between real interfaces, until ctrl-C or `ferrule stop`.
///
/// The node needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, until its
/// ports are open; with user = "NAME" in [node] it then becomes that user. A
/// node with static keys needs counters that survive a restart: make them once
/// with `ferrule state create`.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule init gateway --name gw            writes gw.toml, keys and counters
  ferrule check gw.toml
  sudo ferrule run gw.toml
  sudo ferrule show ports --node gw.toml    while it runs, from elsewhere
  sudo ferrule apply gw.toml                after a change, without losing a packet

Exit: 0 stopped as told, 2 the configuration is wrong, 3 the machine lacks something.")]
pub struct RunArgs {
    /// The node's configuration.
    node: PathBuf,
    /// Say nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

impl RunArgs {
    /// Runs the node.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let daemon = Daemon::start(load(&self.node)?)?;
        if !self.quiet {
            println!("{}", daemon.hello());
        }
        daemon.run()
    }
}
