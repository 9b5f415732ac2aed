//! A shard's part of a test in a file, and all of them as one.

use super::watched::{Again, Trials};
use crate::machine;
use crate::output::print;
use crate::shard::{Shard, unsharded};
use ferrule_daemon::{Blame, Fault};
use ferrule_report::Report;
use ferrule_tester::About;
use serde::{Deserialize, Serialize};

/// The name and version of the format.
pub const SCHEMA: &str = "ferrule-trials/1";

/// Measurements of one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    schema: String,
    /// The command's words behind `ferrule`, without those that name the shard.
    pub words: Vec<String>,
    shard: Shard,
    program: String,
    machine: String,
    date: String,
    about: About,
    trials: Trials,
}

impl Part {
    /// Part of the command that is running, with its trials.
    pub fn new(shard: Shard, about: About, trials: Trials) -> Self {
        Self {
            schema: SCHEMA.into(),
            words: unsharded(std::env::args().skip(1)),
            shard,
            program: machine::program(),
            machine: machine::describe(),
            date: machine::date(),
            about,
            trials,
        }
    }

    /// As JSON.
    pub fn print(&self) {
        let text = serde_json::to_string(self).unwrap_or_default() + "\n";
        print(&text);
    }

    /// The trials of all parts, in the order of the work.
    pub fn join(parts: &[Self]) -> Result<Again, Fault> {
        let wrong = |what: String| {
            Fault::new(
                Blame::Configuration,
                what,
                "give the JSON of every part of one test, each once",
            )
        };
        let shards: Vec<Shard> = parts.iter().map(|part| part.shard).collect();
        Shard::all(&shards).map_err(wrong)?;
        let Some(first) = parts.first() else { return Err(wrong("there is no part".into())) };
        for part in parts {
            if part.words != first.words {
                let commands = [part, first].map(|p| machine::typed(p.words.clone()));
                return Err(wrong(format!("{} is another test than {}", commands[0], commands[1])));
            }
            if part.program != first.program {
                return Err(wrong(format!(
                    "{} made one part, {} another",
                    part.program, first.program
                )));
            }
        }
        let mut trials = first.trials.clone();
        for part in &parts[1..] {
            trials.pieces.extend(part.trials.pieces.clone());
            trials.stopped |= part.trials.stopped;
        }
        Ok(Again::new(first.about.clone(), trials))
    }

    /// Says where the numbers of a report come from.
    pub fn name(parts: &[Self], report: &mut Report) {
        let Some(first) = parts.first() else { return };
        let mut machines: Vec<&str> = parts.iter().map(|part| part.machine.as_str()).collect();
        machines.sort_unstable();
        machines.dedup();
        report.machine = machines.join("; ");
        report.program.clone_from(&first.program);
        report.command = format!("ferrule {}", machine::typed(first.words.clone()));
        let dates = parts.iter().map(|part| part.date.as_str());
        report.date = dates.min().unwrap_or_default().into();
    }
}
