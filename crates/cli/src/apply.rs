//! `ferrule apply`: another configuration for a running node; and `ferrule
//! stop`, its end.

use crate::live::{Which, finish, load, unexpected};
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Reply, Request};
use std::path::PathBuf;
use std::process::ExitCode;

/// Put another configuration in force, without losing a packet.
///
/// The running node checks all of it first; whatever is wrong with it, the node
/// goes on as it was. Counters never go back. Key files are read by this
/// command, so the node itself need not be able to.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule check gw.toml && sudo ferrule apply gw.toml
  sudo ferrule apply gw.toml --new-keys      rekeying: counters for fresh keys
  sudo ferrule apply gw.toml --socket /run/ferrule/gw.sock

Exit: 0 in force, 2 the configuration is wrong, 3 the machine lacks something.")]
pub struct ApplyArgs {
    /// The node's new configuration.
    file: PathBuf,
    /// Make the counters that are not there. This says: these keys have never
    /// been used (see `ferrule state create --help`).
    #[arg(long)]
    new_keys: bool,
    #[command(flatten)]
    which: Which,
}

impl ApplyArgs {
    /// Applies.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let loaded = load(&self.file)?;
        let mut client = self.which.connect_for(&loaded)?;
        let request = Request::Apply {
            file: std::path::absolute(&self.file).unwrap_or(self.file).display().to_string(),
            text: loaded.source.text,
            keys: ferrule_daemon::load::to_send(&loaded.keys),
            new_keys: self.new_keys,
        };
        match client.ask(&request)? {
            Reply::Applied { opened, closed } => {
                let list = |what: &str, ports: &[String]| match ports {
                    [] => String::new(),
                    ports => format!("; ports {what}: {}", ports.join(", ")),
                };
                println!(
                    "{} is in force{}{}",
                    loaded.config.name,
                    list("opened", &opened),
                    list("closed", &closed)
                );
                Ok(())
            }
            reply => Err(unexpected(reply)),
        }
    }
}

/// Stop a running node: what is inside goes out, counters are kept exactly.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule stop
  sudo ferrule stop --node gw")]
pub struct StopArgs {
    #[command(flatten)]
    which: Which,
}

impl StopArgs {
    /// Stops it, and waits until it is gone.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let mut client = self.which.connect()?;
        match client.ask(&Request::Stop {})? {
            Reply::Stopping {} => {
                while let Ok(Some(_)) = client.receive() {}
                Ok(())
            }
            reply => Err(unexpected(reply)),
        }
    }
}
