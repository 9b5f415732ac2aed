//! `ferrule state`: the counters that survive a restart.

use crate::answer::Form;
use crate::live::{finish, load};
use clap::{Args, Subcommand};
use ferrule_daemon::Fault;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// The counters of static keys, which must survive a restart.
#[derive(Args)]
pub struct StateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(CreateArgs),
}

/// Make the counters that a configuration needs and that are not there.
///
/// This says: these keys have never been used. A number used twice under one
/// key gives traffic away, so a node refuses to start where a counter is
/// missing, damaged, or came from a backup. If a key may have been used, make a
/// new one at both ends (`ferrule init key`) instead.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule state create gw.toml

Counters that are there are left as they are.")]
struct CreateArgs {
    /// The node's configuration.
    node: PathBuf,
    #[command(flatten)]
    form: Form,
}

impl StateArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let What::Create(args) = self.what;
        finish(args.go())
    }
}

impl CreateArgs {
    fn go(self) -> Result<(), Fault> {
        let loaded = load(&self.node)?;
        let folder = loaded.config.state.clone().unwrap_or_default();
        let made = ferrule_daemon::create_state(loaded)?;
        let object = json!({ "made": made, "folder": folder });
        self.form.give(object, || format!("{made} counters made in {folder}\n"));
        Ok(())
    }
}
