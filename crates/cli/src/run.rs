//! `ferrule run`: a live node, until it is told to stop.

use crate::answer::Form;
use crate::live::{finish, listen, load};
use crate::output::print;
use clap::Args;
use ferrule_daemon::{Daemon, Fault};
use serde_json::json;
use std::net::SocketAddr;
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
  sudo ferrule run gw.toml --web            with a dashboard at 127.0.0.1:8080
  sudo ferrule show ports --node gw.toml    while it runs, from elsewhere
  sudo ferrule apply gw.toml                after a change, without losing a packet

Exit: 0 stopped as told, 2 the configuration is wrong, 3 the machine lacks something.")]
pub struct RunArgs {
    /// The node's configuration.
    node: PathBuf,
    /// Say nothing but errors, and the dashboard's address.
    #[arg(short, long)]
    quiet: bool,
    /// Say that it runs, or why it does not, as one JSON object. Events are as `log` in
    /// [node] says.
    #[arg(long)]
    json: bool,
    /// Serve a dashboard there: what the node has and does, in a browser. Its
    /// address with the key that it needs is printed.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1,
          default_missing_value = "127.0.0.1:8080")]
    web: Option<SocketAddr>,
}

impl RunArgs {
    /// Runs the node.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let loaded = load(&self.node)?;
        let (node, form) = (loaded.config.name.clone(), Form { json: self.json });
        let daemon = Daemon::start(loaded, self.web.map(listen).transpose()?)?;
        if self.json {
            let object = json!({ "node": node, "says": daemon.hello(),
                                 "dashboard": daemon.dashboard() });
            form.give(object, String::new);
            return daemon.run();
        }
        if !self.quiet {
            print(&format!("{}\n", daemon.hello()));
        }
        if let Some(address) = daemon.dashboard() {
            print(&format!("dashboard: {address}\n"));
        }
        daemon.run()
    }
}
