//! `ferrule merge`: what several machines did, as though one had done it all.

use crate::answer;
use crate::output::print;
use crate::paint::Paint;
use crate::results::Files;
use crate::search::{self, Searched};
use crate::{Cli, Command, study, test};
use clap::{Args, Parser};
use ferrule_daemon::{Blame, Fault};
use ferrule_report::{json, terminal};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make one report of the parts that several machines did with `--shard`
///
/// The parts are of one seed search, one test or all studies; each part's JSON is a file. Every
/// part must be there, once. The report is the one that a single run would have made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferrule lab run ten-nodes --check --seeds 100000 --json --shard 0/8 > 0.json     and so on
  ferrule test throughput --tx af-xdp:a --rx af-xdp:b --size rfc2544 --json --shard 0/7 > 0.json
  ferrule study all --json --shard 0/4 > 0.json
  ferrule merge *.json
  ferrule merge *.json --report all.html            of a test
examples/kubernetes-job.yaml and examples/slurm-array.sh run the parts on a cluster.

Exit: as the command that was divided.")]
pub struct MergeArgs {
    /// The parts
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON, as the command that was divided prints it
    #[arg(long)]
    json: bool,
    /// Of a test: write one HTML page with table and figures
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Of a test: write page, JSON, a CSV file for each table and an SVG file for each figure here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn wrong(what: impl std::fmt::Display, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

const REMEDY: &str = "give files that `--json --shard I/N` wrote, of one piece of work";

impl MergeArgs {
    /// Merges.
    pub fn run(self) -> ExitCode {
        match self.merge() {
            Ok(code) => code,
            Err(fault) => answer::fault(&fault),
        }
    }

    fn merge(&self) -> Result<ExitCode, Fault> {
        let read = |path: &PathBuf| {
            let shown = path.display();
            let text = fs::read_to_string(path)
                .map_err(|e| wrong(format!("{shown}: {e}"), "name files that can be read"))?;
            let value: Value =
                serde_json::from_str(&text).map_err(|e| wrong(format!("{shown}: {e}"), REMEDY))?;
            Ok((shown.to_string(), value))
        };
        let parts = self.files.iter().map(read).collect::<Result<Vec<_>, Fault>>()?;
        let schemas: Vec<&str> =
            parts.iter().map(|p| p.1["schema"].as_str().unwrap_or("")).collect();
        let schema = schemas.first().copied().unwrap_or_default();
        if let Some(at) = schemas.iter().position(|other| *other != schema) {
            let what = format!("{} is of another kind than {}", parts[at].0, parts[0].0);
            return Err(wrong(what, REMEDY));
        }
        if schema != test::PART && (self.report.is_some() || self.out.is_some()) {
            return Err(wrong(
                "`--report` and `--out` are for the parts of a test",
                "leave them out",
            ));
        }
        match schema {
            search::SCHEMA => self.searches(typed(&parts)?),
            test::PART => self.tests(&typed(&parts)?),
            study::SCHEMA => self.studies(typed(&parts)?),
            _ => Err(wrong(format!("{} is no part of anything", parts[0].0), REMEDY)),
        }
    }

    fn searches(&self, parts: Vec<Searched>) -> Result<ExitCode, Fault> {
        let all = Searched::join(parts)?;
        let stdout = &mut std::io::stdout();
        let paint = Paint::for_stream(stdout);
        let text = if self.json { all.json() } else { search::told(paint, &all, None) };
        print(&text);
        Ok(all.code())
    }

    /// The test is made again, of the trials that the parts have.
    fn tests(&self, parts: &[test::Part]) -> Result<ExitCode, Fault> {
        let words = parts.first().map(|part| part.words.clone()).unwrap_or_default();
        let words = std::iter::once("ferrule".to_owned()).chain(words);
        let cli = Cli::try_parse_from(words).map_err(|e| {
            wrong(format!("the command of the parts is not understood: {e}"), "make them again")
        })?;
        let Command::Test(test) = cli.command else {
            return Err(wrong("the parts are of no `ferrule test`", REMEDY));
        };
        let (report, code) = test.again(parts)?;
        let files =
            Files { report: self.report.as_deref(), folder: self.out.as_deref(), index: None };
        files.give(&report, self.json)?;
        Ok(code)
    }

    fn studies(&self, parts: Vec<study::Part>) -> Result<ExitCode, Fault> {
        let (all, partial) = study::Part::join(parts)?;
        let stdout = &mut std::io::stdout();
        let paint = Paint::for_stream(stdout).terminal();
        for report in all.reports.values() {
            let text = match self.json {
                true => json::render(report),
                false => terminal::render(report, paint),
            };
            print(&text);
        }
        Ok(all.code(partial))
    }
}

fn typed<T: DeserializeOwned>(parts: &[(String, Value)]) -> Result<Vec<T>, Fault> {
    let each = parts.iter().map(|(name, value)| {
        T::deserialize(value).map_err(|e| wrong(format!("{name}: {e}"), REMEDY))
    });
    each.collect()
}
