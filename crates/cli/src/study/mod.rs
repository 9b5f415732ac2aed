//! `ferrule study`: a published study done again, with a verdict on every claim.

pub mod applications;
mod ends;
mod phone;
mod queue_pair;
mod rig;
mod suites;
mod systems;
pub mod token;
pub mod trials;

use crate::answer;
use crate::demo::{bench, is_root};
use crate::machine;
use crate::paint::{Paint, emit};
use clap::Args;
use ferrule_report::{Report, csv, html, json, svg, terminal};
use ferrule_studies::{ipsec_ip_layer, macsec_mobility, prebuffered_ctr, toe_ipsec};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Exit status where a file cannot be written.
const ENVIRONMENT: u8 = 3;
/// Exit status for words that mean nothing.
const USAGE: u8 = 2;

/// Do a published study again: published, model and live numbers side by side
///
/// Every claim gets a verdict, every erratum its arithmetic. The model needs no root; live
/// columns need it and say so where they are missing. The exit status is 1 if a claim fails.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferrule study list
  ferrule study macsec-mobility --report study.html
  ferrule study prebuffered-ctr
  ferrule study all --json --quick              one document for each study
  ferrule study macsec-mobility --out results     page, JSON, a CSV for each table, SVG figures")]
pub struct StudyArgs {
    /// A study's name, `list`, or `all`
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON (schema ferrule-report/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Write a page with interactive figures that needs nothing else
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write page, JSON, a CSV file for each table and an SVG file for each figure here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fewer frames and coarser searches: seconds instead of a minute
    #[arg(long)]
    quick: bool,
}

/// The studies: name, what they are about.
const STUDIES: [(&str, &str); 4] = [
    (macsec_mobility::NAME, macsec_mobility::ABOUT),
    (ipsec_ip_layer::NAME, ipsec_ip_layer::ABOUT),
    (prebuffered_ctr::NAME, prebuffered_ctr::ABOUT),
    (toe_ipsec::NAME, toe_ipsec::ABOUT),
];

impl StudyArgs {
    /// Runs it: 0 if every claim that was looked at holds, 1 if one fails.
    pub fn run(self) -> ExitCode {
        let chosen: Vec<&str> = match self.name.as_str() {
            "list" => return list(self.json),
            "all" => STUDIES.iter().map(|(name, _)| *name).collect(),
            name if STUDIES.iter().any(|(known, _)| *known == name) => vec![name],
            name => {
                let known: Vec<_> = STUDIES.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                let what = format!(
                    "there is no study `{name}`\n  there are {known}, and `list` and `all`"
                );
                return answer::wrong(&what, USAGE);
            }
        };
        let mut failed = false;
        for name in &chosen {
            let report = study(name, self.quick);
            failed |= ferrule_studies::has_failed(&report);
            if let Err((path, error)) = self.write(&report, name, chosen.len() > 1) {
                return answer::wrong(&format!("{}: {error}", path.display()), ENVIRONMENT);
            }
        }
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Where it is asked for; on the terminal unless JSON goes there.
    fn write(&self, report: &Report, name: &str, several: bool) -> Result<(), Failed> {
        let named = |path: &Path| {
            // Several studies do not overwrite each other.
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let end = path.extension().map(|end| format!(".{}", end.to_string_lossy()));
            match several {
                true => path.with_file_name(format!("{stem}-{name}{}", end.unwrap_or_default())),
                false => path.to_owned(),
            }
        };
        let mut written = Vec::new();
        if let Some(path) = self.report.as_deref().map(named) {
            save(&path, &html::render(report))?;
            written.push(path);
        }
        if let Some(folder) = &self.out {
            written.push(write_all(report, &folder.join(if several { name } else { "" }))?);
        }
        let text = if self.json {
            json::render(report)
        } else {
            let terminal = Paint::for_stream(&std::io::stdout()).terminal();
            let mut text = terminal::render(report, terminal);
            for path in written {
                let path = std::path::absolute(&path).unwrap_or(path);
                text += &format!("report    file://{}\n", path.display());
            }
            text
        };
        emit(&mut std::io::stdout().lock(), &text);
        Ok(())
    }
}

type Failed = (PathBuf, std::io::Error);

fn save(path: &Path, text: &str) -> Result<(), Failed> {
    fs::write(path, text).map_err(|error| (path.to_owned(), error))
}

/// All renderings; the page's path.
fn write_all(report: &Report, folder: &Path) -> Result<PathBuf, Failed> {
    fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
    for table in report.tables() {
        save(&folder.join(format!("{}.csv", table.id)), &csv::render(table))?;
    }
    for figure in report.figures() {
        save(&folder.join(format!("{}.svg", figure.id)), &svg::render(figure))?;
    }
    save(&folder.join("report.json"), &json::render(report))?;
    let page = folder.join("report.html");
    save(&page, &html::render(report))?;
    Ok(page)
}

fn list(json: bool) -> ExitCode {
    let text = if json {
        let each = STUDIES.map(|(name, about)| serde_json::json!({ "name": name, "about": about }));
        format!("{:#}\n", serde_json::Value::from(each.to_vec()))
    } else {
        STUDIES.map(|(name, about)| format!("{name:<18}{about}\n")).concat()
    };
    emit(&mut std::io::stdout().lock(), &text);
    ExitCode::SUCCESS
}

/// Runs a study, with progress on a terminal.
fn study(name: &str, quick: bool) -> Report {
    let begun = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let paint = Paint::for_stream(&std::io::stderr());
    let mut say = |what: &str| {
        if terminal {
            let time = paint.faint(format!("{:6.1} s", begun.elapsed().as_secs_f64()));
            emit(&mut std::io::stderr().lock(), &format!("{time}  {name}: {what}\n"));
        }
    };
    let mut report = match name {
        prebuffered_ctr::NAME => {
            let live = token::run(quick, &mut say);
            prebuffered_ctr::report(quick, live, &mut say)
        }
        ipsec_ip_layer::NAME => {
            let costs = suites::run(quick, &mut say);
            let transfers = applications::run(quick, &mut say);
            let live = ipsec_ip_layer::live::Live { transfers, costs };
            ipsec_ip_layer::report(quick, &live, &mut say)
        }
        toe_ipsec::NAME => {
            let live = queue_pair::run(quick, &mut say);
            toe_ipsec::report(quick, live, &mut say)
        }
        _ => {
            let live = match is_root() {
                true => bench::run(&mut say),
                false => Err("not run: needs root".into()),
            };
            macsec_mobility::report(quick, live, &mut say)
        }
    };
    report.machine = machine::describe();
    report.command = machine::command();
    report.date = machine::date();
    report
}
