//! `ferrule man` and `ferrule completions`: what clap knows of the commands, as manual
//! pages and for shells.

use crate::Cli;
use crate::live::finish;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use ferrule_daemon::Fault;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page, or write those of all commands into a folder.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule man | man -l -
  ferrule man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Where the pages of all commands go; it is made if it is not there.
    folder: Option<PathBuf>,
}

impl ManArgs {
    /// Prints or writes them.
    pub fn run(self) -> ExitCode {
        let written = match &self.folder {
            Some(folder) => std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), folder)),
            None => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock()),
        };
        finish(written.map_err(|e| Fault::environment(e, "choose a folder that can be written")))
    }
}

/// Print what a shell needs to complete ferrule's commands and options.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule completions bash > /etc/bash_completion.d/ferrule
  ferrule completions fish > ~/.config/fish/completions/ferrule.fish")]
pub struct CompletionsArgs {
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints it.
    pub fn run(self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "ferrule", &mut script);
        let printed = io::stdout().lock().write_all(&script);
        finish(printed.map_err(|e| Fault::environment(e, "see what standard output is")))
    }
}
