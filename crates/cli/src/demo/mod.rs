//! `ferrule demo`: two sites joined across a provider's MPLS network, in the clear, under MACsec
//! and under ESP, carrying real traffic.
//!
//! ```text
//!   host1 ── CE1 ── PE1 ══ P ══ PE2 ── CE2 ── host2
//!              └────── MACsec or ESP ───┘
//!                    └─ pseudowire ─┘
//! ```
//!
//! As root on real interfaces, one process per node ([`live`]); otherwise the
//! same network in the laboratory, in virtual time ([`in_lab`]). [`plan`] describes the network,
//! [`report`] the result.

pub mod bench;
mod chain;
pub mod companion;
mod configs;
pub mod host;
mod html;
mod in_lab;
mod live;
mod measures;
mod network;
mod plan;
mod report;
mod traffic;
mod tshark;
mod wiretap;

use crate::answer;
use crate::output::print;
use crate::paint::{Paint, emit};
use crate::process::{Fault, Runner};
use clap::Args;
use ferrule_daemon::Finding;
use report::Outcome;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Two sites across an MPLS provider: plain, MACsec, ESP, with real traffic
///
/// As root: network namespaces, one process per node, stock tools. Otherwise, or with --virtual:
/// the same network in the laboratory, in virtual time.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Print JSON (schema ferrule-report/1) instead of the table
    #[arg(long)]
    json: bool,
    /// Folder for the report, new or empty [default: a new one for temporary files]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep captures, configurations and logs there, too
    #[arg(long)]
    keep: bool,
    /// In virtual time, also as root
    #[arg(long = "virtual")]
    in_lab: bool,
    /// Seconds of TCP in each direction
    #[arg(long, value_name = "SECONDS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Driver of the CEs' ports
    #[arg(long, default_value = "af-packet", value_parser = ["af-packet", "af-xdp"])]
    driver: String,
}

impl DemoArgs {
    /// Runs it: 0 if all holds, 1 if not, 3 if the machine lacks something.
    pub fn run(self) -> ExitCode {
        let begun = Instant::now();
        let paint = Paint::for_stream(&std::io::stderr());
        let say = |text: &str| {
            let time = format!("{:6.1} s", begun.elapsed().as_secs_f64());
            emit(&mut std::io::stderr().lock(), &format!("{}  {text}\n", paint.faint(time)));
        };
        match self.go(&say) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(fault) => {
                let cleaned = match self.keep {
                    false => "namespaces, processes and files of the demo are removed",
                    true => "namespaces and processes of the demo are removed, its files kept",
                };
                let text = format!("{} {fault}\n{cleaned}\n", paint.fault("demo failed:"));
                let exit = if matches!(fault, Fault::Missing(..)) { 3 } else { 1 };
                answer::refuse(&[Finding::told(&fault.to_string())], &text, exit)
            }
        }
    }

    /// Runs the demo; true if everything holds.
    fn go(&self, say: &dyn Fn(&str)) -> Result<bool, Fault> {
        let runner = Runner::new().map_err(|e| Fault::failed("signals", e))?;
        let (out, made) = self.folder()?;
        let done = self.outcome(&runner, &out, say).and_then(|outcome| {
            runner.check()?;
            let report = out.join("report.html");
            fs::write(&report, ferrule_report::html::render(&html::document(&outcome, &report)))
                .map_err(|e| Fault::failed(format!("writing {}", report.display()), e))?;
            Ok((outcome, report))
        });
        let (outcome, report) = match done {
            Ok(done) => done,
            Err(fault) => {
                // Only what we made, and only if nothing was to be kept.
                if made && !self.keep {
                    let _ = fs::remove_dir(&out);
                }
                return Err(fault);
            }
        };
        let kept = out.join("files");
        let kept = (self.keep && outcome.live).then_some(kept.as_path());
        let text = if self.json {
            ferrule_report::json::render(&html::document(&outcome, &report))
        } else {
            let paint = Paint::for_stream(&std::io::stdout());
            outcome.text(paint, &report, kept)
        };
        print(&text);
        Ok(outcome.findings().is_empty())
    }

    fn outcome(&self, runner: &Runner, out: &Path, say: &dyn Fn(&str)) -> Result<Outcome, Fault> {
        if self.in_lab || !is_root() {
            return in_lab::run(runner, say);
        }
        let wishes = live::Wishes {
            out: out.to_owned(),
            keep: self.keep,
            seconds: self.seconds,
            driver: self.driver.clone(),
        };
        match live::run(runner, &wishes, say) {
            // Root in a container may be root of nothing.
            Err(Fault::Missing(what, said)) if what.contains("namespaces") => {
                say(&format!("{what}: {}; going on in virtual time", said.trim()));
                in_lab::run(runner, say)
            }
            done => done,
        }
    }

    /// The folder of the report, and whether it is new.
    fn folder(&self) -> Result<(PathBuf, bool), Fault> {
        let path = self.out.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("ferrule-demo-{}", std::process::id()))
        });
        let path = std::path::absolute(&path).unwrap_or(path);
        let failed = |e| Fault::failed(format!("folder {}", path.display()), e);
        let new = !path.is_dir();
        if new {
            // A name that somebody else has made first is an error, not a trap.
            DirBuilder::new().mode(0o755).create(&path).map_err(failed)?;
        } else if self.out.is_none() || path.join("files").exists() {
            let what = format!("folder {} is in use", path.display());
            return Err(Fault::failed(what, "name another one with --out"));
        }
        Ok((path, new))
    }
}

/// Namespaces need root. (A user namespace would do for some of it, but not for
/// what distributions allow.)
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}
