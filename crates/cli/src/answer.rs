//! Answers: lines for people, or with `--json` one JSON object for machines, on standard
//! output; what went wrong as lines on standard error, or as an object in the answer's
//! place:
//!
//! ```text
//!   {"exit": 2, "errors": [{"file": "gw.toml", "line": 12, "column": 8,
//!                           "what": "…", "remedy": "…"}]}
//! ```

use crate::output::{self, print};
use crate::paint::{Paint, emit};
use clap::ArgMatches;
use ferrule_daemon::{Fault, Finding};
use serde::Serialize;
use serde_json::json;
use std::io::stderr;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The option of every command that answers.
pub const JSON: &str = "json";

static IS_JSON: OnceLock<bool> = OnceLock::new();

/// Takes the form of this process's answers from its command line, once.
pub fn as_told(matches: &ArgMatches) {
    let mut innermost = matches;
    while let Some((_, inner)) = innermost.subcommand() {
        innermost = inner;
    }
    let said = innermost.try_get_one::<bool>(JSON).ok().flatten();
    let _ = IS_JSON.set(said.copied().unwrap_or(false));
}

/// A command line that means nothing; help and version are no such thing.
pub fn misused(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args().any(|word| word == "--json");
    if !wants_json || !error.use_stderr() {
        let written = error.print();
        if !error.use_stderr() {
            output::note(written);
        }
        return ExitCode::from(error.exit_code() as u8);
    }
    let _ = IS_JSON.set(true);
    refuse(&[Finding::told(&error.to_string())], "", error.exit_code() as u8)
}

/// The option itself.
#[derive(Debug, Clone, clap::Args)]
pub struct Form {
    /// Answer with one JSON object, errors included.
    #[arg(long)]
    pub json: bool,
}

impl Form {
    /// Prints an answer.
    pub fn give(&self, object: impl Serialize, text: impl FnOnce() -> String) {
        let text = match self.json {
            true => {
                serde_json::to_string_pretty(&object).map_or_else(|e| e.to_string(), |t| t + "\n")
            }
            false => text(),
        };
        print(&text);
    }
}

/// Says what went wrong; the exit code.
pub fn fault(fault: &Fault) -> ExitCode {
    refuse(fault.findings(), &fault.to_string(), fault.exit_code())
}

/// Says what went wrong in a sentence, with what helps on the lines below it.
pub fn wrong(what: &str, exit: u8) -> ExitCode {
    let paint = Paint::for_stream(&stderr());
    let text = format!("{} {}\n", paint.fault("error:"), what.trim_end());
    refuse(&[Finding::told(what)], &text, exit)
}

/// Says what went wrong; `text` is the same for people.
pub fn refuse(findings: &[Finding], text: &str, exit: u8) -> ExitCode {
    if IS_JSON.get().copied().unwrap_or(false) {
        let object = json!({ "exit": exit, "errors": findings });
        print(&format!("{object:#}\n"));
    } else {
        emit(&mut stderr().lock(), text);
    }
    ExitCode::from(exit)
}
