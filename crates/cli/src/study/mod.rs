//! `ferrule study`: a published study done again, with a verdict on every claim.

pub mod applications;
mod ends;
mod list;
mod part;
mod phone;
mod queue_pair;
mod rig;
mod suites;
mod systems;
pub mod token;
pub mod trials;
mod written;

pub use part::{Part, SCHEMA};

use crate::answer;
use crate::demo::{bench, is_root};
use crate::output::print;
use crate::paint::{Paint, emit};
use crate::shard::Shard;
use crate::{interrupt, machine};
use clap::Args;
use ferrule_report::{Circumstance, Report, json, terminal};
use ferrule_studies::options::{Options, Seed};
use ferrule_studies::{acl_mpls, ipsec_ip_layer, macsec_mobility, prebuffered_ctr, toe_ipsec};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use written::Written;

/// Exit status where a file cannot be written.
const ENVIRONMENT: u8 = 3;
/// Exit status for words that mean nothing.
const USAGE: u8 = 2;

/// Do a published study again: published, model and live numbers side by side
///
/// Every claim gets a verdict, every erratum its arithmetic. The model needs no root; live
/// columns need it and say so where they are missing. The exit status is 1 if a claim fails.
/// Control-C leaves out what is measured live and not begun, ends with the report of the
/// study under way, marked as partial, and the exit status 3; a second one ends at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferrule study list                            what the papers show, and where it is
  ferrule study all --report pages              a page for each study, and pages/index.html
  ferrule study macsec-mobility --report study.html
  ferrule study prebuffered-ctr
  ferrule study all --json --quick              one document for each study
  ferrule study all --json --shard 0/4 > 0.json   the first of four parts, for `ferrule merge`
  ferrule study macsec-mobility --out results     page, JSON, CSV, SVG, fit, environment")]
pub struct StudyArgs {
    /// A study's name, `list`, or `all`
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON (schema ferrule-report/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Write a page with interactive figures that needs nothing else; of `all` a folder of
    /// pages with an index
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Write page, JSON, environment, what models were fitted to and as what, a CSV file for
    /// each table and figure and an SVG file for each figure here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fewer frames and coarser searches: seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// Seed of everything that the models draw, in place of the studies' own; what is measured
    /// live draws none
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Of `all`: do every N-th study from the I-th on, counted from 0; the parts' JSON goes to
    /// `ferrule merge`
    #[arg(long, value_name = "I/N", requires = "json", conflicts_with_all = ["report", "out"])]
    shard: Option<Shard>,
}

/// The studies: name, what they are about.
const STUDIES: [(&str, &str); 5] = [
    (macsec_mobility::NAME, macsec_mobility::ABOUT),
    (ipsec_ip_layer::NAME, ipsec_ip_layer::ABOUT),
    (prebuffered_ctr::NAME, prebuffered_ctr::ABOUT),
    (toe_ipsec::NAME, toe_ipsec::ABOUT),
    (acl_mpls::NAME, acl_mpls::ABOUT),
];

impl StudyArgs {
    /// Runs it: 0 if every claim that was looked at holds, 1 if one fails.
    pub fn run(self) -> ExitCode {
        let chosen: Vec<&'static str> = match self.name.as_str() {
            "list" => return list::print(self.json),
            "all" => STUDIES.iter().map(|(name, _)| *name).collect(),
            name => {
                STUDIES.iter().map(|(known, _)| *known).filter(|known| *known == name).collect()
            }
        };
        if chosen.is_empty() {
            let known = STUDIES.map(|(name, _)| name).join(", ");
            let what = format!(
                "there is no study `{}`\n  there are {known}, and `list` and `all`",
                self.name
            );
            return answer::wrong(&what, USAGE);
        }
        if let Err(fault) = interrupt::flag() {
            return answer::fault(&fault);
        }
        match self.shard {
            Some(_) if self.name != "all" => {
                answer::wrong("a study is not divided: `--shard` goes with `all`", USAGE)
            }
            Some(shard) => self.part(&chosen, shard),
            None => self.each(&chosen),
        }
    }

    fn options(&self) -> Options {
        let seed = self.seed.map_or(Seed::OWN, Seed::chosen);
        Options { quick: self.quick, seed }
    }

    /// One study after the other, until somebody wants an end.
    fn each(&self, chosen: &[&'static str]) -> ExitCode {
        told_missing(chosen);
        let mut written = Written::to(self.report.clone(), self.out.clone(), chosen.len() > 1);
        let mut failed = false;
        for (done, name) in chosen.iter().enumerate() {
            let report = study(name, self.options());
            failed |= ferrule_studies::has_failed(&report);
            match written.add(name, &report) {
                Ok(pages) => self.show(&report, pages),
                Err((path, error)) => {
                    return answer::wrong(&format!("{}: {error}", path.display()), ENVIRONMENT);
                }
            }
            if interrupt::wanted() {
                let text = format!("stopped: {} of {} studies begun\n", done + 1, chosen.len());
                emit(&mut std::io::stderr().lock(), &text);
                return ExitCode::from(interrupt::PARTIAL);
            }
        }
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// A shard's studies, for the report of all.
    fn part(&self, chosen: &[&str], shard: Shard) -> ExitCode {
        let mut part = Part::new(shard, chosen);
        for (place, name) in chosen.iter().enumerate().filter(|(at, _)| shard.has(*at as u64)) {
            if !interrupt::wanted() {
                part.reports.insert(place as u64, study(name, self.options()));
            }
        }
        part.print();
        part.code(interrupt::wanted())
    }

    /// Prints a report: as JSON, or for people with where its pages are.
    fn show(&self, report: &Report, pages: Vec<PathBuf>) {
        let text = if self.json {
            json::render(report)
        } else {
            let terminal = Paint::for_stream(&std::io::stdout()).terminal();
            let mut text = terminal::render(report, terminal);
            for path in pages {
                let path = std::path::absolute(&path).unwrap_or(path);
                text += &format!("report    file://{}\n", path.display());
            }
            text
        };
        print(&text);
    }
}

/// Says before anything runs which programs are missing, all at once.
fn told_missing(chosen: &[&str]) {
    let missing: Vec<String> = chosen.iter().flat_map(|name| list::missing(name)).collect();
    if !missing.is_empty() {
        let text = format!("not installed, so not run live: {}\n", missing.join(", "));
        emit(&mut std::io::stderr().lock(), &text);
    }
}

/// Runs a study, with progress on a terminal.
fn study(name: &str, options: Options) -> Report {
    let begun = Instant::now();
    let load = machine::load();
    let terminal = std::io::stderr().is_terminal();
    let paint = Paint::for_stream(&std::io::stderr());
    // Whoever wants an end gets what there is, and a model that is soon done.
    let quick = || options.quick || interrupt::wanted();
    let options = || Options { quick: quick(), ..options };
    let mut told = false;
    let mut say = |what: &str| {
        if interrupt::wanted() && !std::mem::replace(&mut told, true) {
            let text = format!("{name} goes to its end; control-C again ends it at once\n");
            emit(&mut std::io::stderr().lock(), &text);
        }
        if terminal {
            let time = paint.faint(format!("{:6.1} s", begun.elapsed().as_secs_f64()));
            emit(&mut std::io::stderr().lock(), &format!("{time}  {name}: {what}\n"));
        }
    };
    let say = &mut say;
    let mut report = match name {
        prebuffered_ctr::NAME => {
            let live = unless_stopped(|| token::run(quick(), say));
            prebuffered_ctr::report(options(), live, say)
        }
        ipsec_ip_layer::NAME => {
            let costs = unless_stopped(|| suites::run(quick(), say));
            let transfers = unless_stopped(|| applications::run(quick(), say));
            let live = ipsec_ip_layer::live::Live { transfers, costs };
            ipsec_ip_layer::report(options(), &live, say)
        }
        toe_ipsec::NAME => {
            let live = unless_stopped(|| queue_pair::run(quick(), say));
            toe_ipsec::report(options(), live, say)
        }
        acl_mpls::NAME => {
            let study = acl_mpls::published::Study::read();
            let mut clock = || begun.elapsed().as_nanos() as u64;
            let live = unless_stopped(|| acl_mpls::live::run(&study, quick(), &mut clock, say));
            acl_mpls::report(options(), &live, say)
        }
        _ => {
            let live = match is_root() {
                true => unless_stopped(|| bench::run(say)),
                false => Err("not run: needs root".into()),
            };
            macsec_mobility::report(options(), live, say)
        }
    };
    report.partial = interrupt::wanted();
    report.device =
        "Ferrule's data path: in virtual time (model), for real on this machine (live)".into();
    report.program = machine::program();
    report.machine = machine::describe();
    report.command = machine::command();
    report.date = machine::date();
    report.circumstances = circumstances(options().seed, load, begun.elapsed().as_secs());
    report.citations.push(format!(
        "Ferrule {}, commit {}, `CITATION.cff`: the reproduction",
        env!("CARGO_PKG_VERSION"),
        machine::commit()
    ));
    report
}

/// Circumstances of a run, beside machine and date.
fn circumstances(seed: Seed, load: String, seconds: u64) -> Vec<Circumstance> {
    let all = [
        ("commit", machine::commit().to_owned()),
        ("seed", seed.words()),
        ("load", format!("{load} before (1, 5, 15 minutes); {} after", machine::load())),
        ("memory", machine::memory()),
        ("clock", machine::clock()),
        ("root", if is_root() { "yes" } else { "no" }.to_owned()),
        ("took", format!("{seconds} s")),
    ];
    all.map(|(name, value)| Circumstance { name: name.to_owned(), value }).into()
}

/// Runs a live measurement unless the user has asked to stop.
fn unless_stopped<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    if interrupt::wanted() { Err("not run: stopped before the end".into()) } else { run() }
}
