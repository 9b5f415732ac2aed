//! `ferrule lab`: networks in virtual time.

mod calibrate;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Whole networks in virtual time, and what they need.
#[derive(Args)]
pub struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Calibrate(calibrate::CalibrateArgs),
}

impl LabArgs {
    /// Does it.
    pub fn run(self) -> ExitCode {
        match self.what {
            What::Calibrate(args) => args.run(),
        }
    }
}
