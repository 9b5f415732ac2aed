//! A shard's studies in a file, and all of them in order.

use crate::interrupt::PARTIAL;
use crate::machine;
use crate::output::print;
use crate::shard::Shard;
use ferrule_daemon::{Blame, Fault};
use ferrule_report::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The name and version of the format.
pub const SCHEMA: &str = "ferrule-studies/1";

/// Result of one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    schema: String,
    program: String,
    shard: Shard,
    /// All studies that were asked for, of all shards.
    studies: Vec<String>,
    /// The shard's own, by their place among all.
    pub reports: BTreeMap<u64, Report>,
}

impl Part {
    /// Nothing done yet.
    pub fn new(shard: Shard, studies: &[&str]) -> Self {
        let studies = studies.iter().map(|&name| name.to_owned()).collect();
        let program = machine::program();
        Self { schema: SCHEMA.into(), program, shard, studies, reports: BTreeMap::new() }
    }

    /// As JSON.
    pub fn print(&self) {
        let text = serde_json::to_string(self).unwrap_or_default() + "\n";
        print(&text);
    }

    /// The exit status of what it has.
    pub fn code(&self, stopped: bool) -> ExitCode {
        let failed = self.reports.values().any(ferrule_studies::has_failed);
        match (stopped, failed) {
            (true, _) => ExitCode::from(PARTIAL),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        }
    }

    /// The reports of all parts in the order of the studies, and whether one is missing
    /// because somebody stopped its shard.
    pub fn join(parts: Vec<Self>) -> Result<(Self, bool), Fault> {
        let wrong = |what: String| {
            let remedy = "give the JSON of every part of one `study all`, each once";
            Fault::new(Blame::Configuration, what, remedy)
        };
        let shards: Vec<Shard> = parts.iter().map(|part| part.shard).collect();
        Shard::all(&shards).map_err(wrong)?;
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return Err(wrong("there is no part".into())) };
        for part in parts {
            if (&part.studies, &part.program) != (&all.studies, &all.program) {
                return Err(wrong("the parts are not of the same studies and program".into()));
            }
            all.reports.extend(part.reports);
        }
        let partial = all.reports.values().any(|report| report.partial);
        let missing = partial || all.reports.len() < all.studies.len();
        Ok((all, missing))
    }
}
