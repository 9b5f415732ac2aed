//! `ferrule lab calibrate`: this machine as a device profile.

use crate::live::finish;
use crate::output::print;
use crate::paint::Paint;
use crate::{machine, paint};
use clap::Args;
use ferrule_daemon::{Blame, Fault};
use ferrule_lab::calibrate::{Calibration, Observation, calibrate};
use ferrule_lab::profile::{KEYS, Profile};
use ferrule_report::{Column, Derived, Live, Report, Section, Table, json, terminal};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// A price in a table has as many digits as the file.
const DECIMALS: u8 = 3;

/// Measure what the data path costs on this machine, and write it as a device
/// profile for `ferrule lab run`.
///
/// Eighteen paths (bridge, flood, IPv4 and its policy, access lists in and out, validated
/// sources, MACsec and ESP sealed and opened, VPN, label switch, pseudowire) with four lengths
/// run memory to memory on one core, in turn, with 512 flows; beside them IPv4 over up to
/// 100,000 routes and through lists of up to 100,000 entries, and ESP of up to 10,000 SAs, each
/// packet by one at random. Prices of each packet in each stage, of octets and of large tables
/// are fitted to what they take, and printed with the largest error; a stage
/// that no path visits has none. Run it on a machine that does nothing else. The file says which
/// machine and when; a topology names it as `profile`.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule lab calibrate                      writes calibrated.toml
  ferrule lab calibrate mine.toml --force    over an older one
  ferrule lab calibrate --json | jq .answer

Exit: 0 done, 2 the command line is wrong, 3 the file cannot be written.")]
pub struct CalibrateArgs {
    /// The profile to write; its name is the file's, without the ending.
    #[arg(default_value = "calibrated.toml")]
    file: PathBuf,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
    /// Print JSON (schema ferrule-report/1) instead of the tables.
    #[arg(long)]
    json: bool,
}

impl CalibrateArgs {
    /// Measures.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let name = name_of(&self.file)?;
        if self.file.exists() && !self.force {
            let what = format!("{} is there already", self.file.display());
            return Err(Fault::environment(what, "name another file, or say --force"));
        }
        let done = measure(&name);
        let text = file_text(&done.profile);
        std::fs::write(&self.file, text).map_err(|e| {
            let what = format!("{}: {e}", self.file.display());
            Fault::environment(what, "name a file in a folder that can be written")
        })?;
        let report = report(&done, &self.file);
        let text = match self.json {
            true => json::render(&report) + "\n",
            false => {
                let paint = Paint::for_stream(&std::io::stdout());
                terminal::render(&report, paint.terminal())
            }
        };
        print(&text);
        Ok(())
    }
}

fn name_of(file: &Path) -> Result<String, Fault> {
    let stem = file.file_stem().and_then(|s| s.to_str()).filter(|s| !s.is_empty());
    let named = stem.filter(|_| file.extension().is_some_and(|e| e == "toml"));
    named.map(String::from).ok_or_else(|| {
        let what = format!("{} is no name for a profile", file.display());
        Fault::new(Blame::Configuration, what, "name a file that ends in .toml")
    })
}

fn measure(name: &str) -> Calibration {
    let start = Instant::now();
    let shows = std::io::stderr().is_terminal();
    let mut clock = || start.elapsed().as_nanos() as u64;
    let mut progress = |done: usize, all: usize| {
        if shows && (done.is_multiple_of(10) || done == all) {
            let end = if done == all { "\r\x1b[K" } else { "" };
            paint::emit(&mut std::io::stderr().lock(), &format!("\r  round {done} of {all}{end}"));
        }
    };
    // A profile is worth what is known of its machine, and of when it was so.
    let origin = format!("{}, {}", machine::describe(), machine::date());
    calibrate(name, &origin, &mut clock, &mut progress)
}

/// Text of the file: a description, then the profile.
fn file_text(profile: &Profile) -> String {
    let mut text = format!("# Written by `ferrule lab calibrate`, {}.\n", machine::date());
    if cfg!(debug_assertions) {
        text += "# By a build with checks: an optimised one is faster.\n";
    }
    text + &profile.to_toml()
}

fn report(done: &Calibration, file: &Path) -> Report {
    let profile = &done.profile;
    let mut report = Report::new(
        "Calibration of this machine",
        "What does the data path cost here, per packet and per octet of each kind of work?",
    );
    let shown = file.display();
    report.answer = format!(
        "{shown} prices {} measured times within {} %, and each within {} % from the others alone.",
        profile.fit.points, profile.fit.error_percent, profile.fit.leave_one_out_percent
    );
    report.device = "Ferrule's data path, memory to memory".into();
    report.program = machine::program();
    report.machine = machine::describe();
    report.command = machine::command();
    report.date = machine::date();
    report.sections = vec![
        Section::new("Prices").table(prices(profile)),
        Section::new("Measured and priced").table(paths(&done.observations, profile)),
    ];
    report
}

fn prices(profile: &Profile) -> Table {
    let fitted = || KEYS.iter().filter(|k| profile.free.iter().any(|f| f == k.path));
    Table::new("prices", "The profile")
        .column(Column::words("of each", fitted().map(|k| k.about)))
        .column(Column::words("key", fitted().map(|k| k.path)))
        .column(
            Column::numbers("price", "ns", fitted().map(|k| Derived::from((k.get)(profile))))
                .decimals(DECIMALS),
        )
        .note("0: too small to be told from the others")
}

fn paths(observations: &[Observation], profile: &Profile) -> Table {
    let measured = observations.iter().map(|o| Live::from(o.measured_ns()));
    let priced = observations.iter().map(|o| Derived::from(o.priced_ns(profile)));
    let measured = Column::numbers("measured", "ns/frame", measured).decimals(1);
    let priced = Column::numbers("profile", "ns/frame", priced).decimals(1);
    let error = Column::deviation("error", &priced, &measured);
    Table::new("paths", "Frames of each path, by length")
        .column(Column::words("path", observations.iter().map(|o| &*o.path)))
        .column(Column::settings("frame", "octets", observations.iter().map(|o| o.octets as f64)))
        .column(measured)
        .column(priced)
        .column(error)
        .note(
            "frames without FCS, of 512 flows, or each by an SA or a route at random; batches of \
             128 on one core, the median of 51 rounds",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_calibrate_writes_a_profile_of_this_machine_that_reads_back() {
        let done = measure("here");
        let text = file_text(&done.profile);
        let read = Profile::parse("here.toml", &text).expect("the file is right");
        assert_eq!(read, done.profile, "{text}");
        assert_eq!((&*read.name, read.source.name()), ("here", "calibrated"));
        let date = machine::date();
        let (machine, year) = (machine::describe(), &date[..4]);
        assert!(read.origin.starts_with(&format!("{machine}, {year}")), "{}", read.origin);
        assert!(done.observations.iter().all(|o| o.measured_ns() > 0.0));
        let report = report(&done, Path::new("here.toml"));
        let text = terminal::render(&report, Paint::plain(120).terminal());
        assert!(text.contains("IPv4, ESP opened") && text.contains("occupancy.sealed.octet-ns"));
    }

    #[test]
    fn lab_calibrate_wants_a_toml_file() {
        assert_eq!(name_of(Path::new("dir/mine.toml")).ok().as_deref(), Some("mine"));
        assert!(name_of(Path::new("mine.json")).is_err() && name_of(Path::new("/")).is_err());
    }
}
