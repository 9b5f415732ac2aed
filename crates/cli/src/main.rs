//! `ferrule`: the command. One arm per subcommand; each lives in a module of its own.
#![forbid(unsafe_code)]

mod init;
mod overhead;
mod paint;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Private traffic, encrypted, across an MPLS provider.
#[derive(Parser)]
#[command(name = "ferrule", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::InitArgs),
    Overhead(overhead::OverheadArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Init(args) => args.run(),
        Command::Overhead(args) => args.run(),
    }
}
