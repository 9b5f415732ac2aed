//! `ferrule lab`: whole networks, in virtual time or in network namespaces.
//!
//! ```text
//!   topology ─▶ run      virtual time, this process, no privilege
//!            └▶ up       namespaces, veth pairs, one process per node; status, down
//! ```

mod calibrate;
mod down;
mod keys;
mod list;
mod packets;
mod run;
mod source;
mod standing;
mod summary;
mod trace;
mod up;
mod wire;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// A whole network from one file, in virtual time or in network namespaces
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule lab list
  ferrule lab run two-gateways                          three seconds of it, in virtual time
  ferrule lab run two-gateways --packets --for 1.3s     every frame, layer by layer
  ferrule lab run two-sites --variant esp-gcm --capture p-pe2=core.pcapng
  ferrule lab show campus > mine.toml                   a file to start from
  sudo ferrule lab up two-gateways                      the same file on real interfaces
  sudo ferrule lab down

Exit: 0 done, 1 something did not hold, 2 the topology is wrong, 3 the machine lacks something.")]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    Calibrate(calibrate::CalibrateArgs),
    List(list::ListArgs),
    Show(list::ShowArgs),
    Run(run::RunArgs),
    Up(up::UpArgs),
    Status(down::StatusArgs),
    Down(down::DownArgs),
    Wire(wire::WireArgs),
}

impl LabArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        match self.command {
            LabCommand::Calibrate(args) => args.run(),
            LabCommand::List(args) => args.run(),
            LabCommand::Show(args) => args.run(),
            LabCommand::Run(args) => args.run(),
            LabCommand::Up(args) => args.run(),
            LabCommand::Status(args) => args.run(),
            LabCommand::Down(args) => args.run(),
            LabCommand::Wire(args) => args.run(),
        }
    }
}
