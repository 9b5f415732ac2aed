//! `ferrule card`: the control channel of the card in a port.

use crate::answer::Form;
use crate::live::{Which, finish, unexpected};
use clap::{Args, Subcommand};
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Reply, Request};
use serde_json::json;
use std::process::ExitCode;

/// Reset the card of a port (crypto placed inline).
///
/// The card forgets its tables and keys; until the node has installed them again,
/// nothing passes the port, in clear or otherwise. Numbers go on behind the last that
/// was reserved. `ferrule show cards` has state, policy, associations and drops.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule card reset wan
  sudo ferrule show cards")]
pub struct CardArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Let the card of a port start again.
    Reset {
        /// The port's name.
        port: String,
        #[command(flatten)]
        form: Form,
        #[command(flatten)]
        which: Which,
    },
}

impl CardArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let What::Reset { port, form, which } = self.what;
        match which.connect()?.ask(&Request::ResetCard { port: port.clone() })? {
            Reply::Done {} => form.give(json!({ "port": port, "reset": true }), || {
                format!("the card of port {port} starts again\n")
            }),
            reply => return Err(unexpected(reply)),
        }
        Ok(())
    }
}
