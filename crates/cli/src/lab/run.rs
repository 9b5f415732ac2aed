//! `ferrule lab run`: a topology in virtual time.

use super::packets::Packets;
use super::source::{Source, Wrong};
use super::{summary, trace};
use crate::answer;
use crate::desk;
use crate::paint::{Paint, emit};
use crate::search::{self, SearchArgs};
use crate::test::about;
use clap::Args;
use ferrule_base::{Duration, Instant};
use ferrule_lab::TapId;
use ferrule_lab::topology::{Lab, Setting, Topology, units};
use std::fs;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Steps in which the time goes on, for the progress line.
const STEPS: u32 = 100;
/// Nothing is said of progress before this time.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Run a topology in virtual time: no privilege, the same seed gives the same run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ferrule lab run two-gateways
  ferrule lab run two-gateways --packets --for 250ms | head -40
  ferrule lab run two-sites --variant macsec --seed 7 --for 5s
  ferrule lab run two-sites --trace                 a few packets through every stage
  ferrule lab run campus --capture sw1-sw2=cable.pcapng --json
  ferrule lab run ten-nodes --check --seeds 1000    look for a run in which something breaks
  ferrule lab run ten-nodes --check --json --shard 0/8   an eighth of it: `ferrule merge`
  ferrule lab run ten-nodes-seed-17/recording.toml  repeat what was found
  ferrule lab run ten-nodes --web                   looked at, stopped, stepped and
                                                    disturbed from a page

Control-C ends a search early: what was found is printed, marked as partial, with exit status 3.

Exit: 0 done, 1 something did not hold, 2 the topology is wrong, 3 the machine lacks something,
or it was stopped.")]
pub struct RunArgs {
    #[command(flatten)]
    source: Source,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For how long hosts send, as 5s or 250ms [default: what the topology says]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    /// Capture a link into a pcapng file; may be given several times
    #[arg(long, value_name = "LINK=FILE")]
    capture: Vec<String>,
    /// Print every frame on every link, layer by layer
    #[arg(long, conflicts_with = "json")]
    packets: bool,
    /// Follow packets through the stages of every node, so many at each
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, default_missing_value = "3",
          conflicts_with_all = ["json", "web"])]
    trace: Option<u64>,
    /// Print JSON (schema ferrule-report/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Serve a dashboard there and run at its pace until ctrl-C: the network can be
    /// looked at, stopped, stepped and disturbed from the page. Its address with
    /// the key that it needs is printed. Hosts send for an hour if nothing is said
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1,
          default_missing_value = "127.0.0.1:8080", conflicts_with_all = ["json", "report"])]
    web: Option<SocketAddr>,
    /// Write a page with interactive figures that needs nothing else, too
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
    #[command(flatten)]
    search: SearchArgs,
}

fn time(text: &str) -> Result<Duration, String> {
    units::time(text).filter(|time| !time.is_zero()).ok_or(units::TIME_FORM.into())
}

/// A capture that was asked for.
struct Wanted {
    tap: TapId,
    link: String,
    file: String,
}

/// Reason for which there is no run.
enum Fault {
    Wrong(Wrong),
    /// The machine: what, and what it said.
    Machine(String),
}

impl From<Wrong> for Fault {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

impl RunArgs {
    /// Runs it: 0 if all holds, 1 if not.
    pub fn run(self) -> ExitCode {
        if let Some((path, text)) = self.source.recording() {
            return search::repeat(&path, &text);
        }
        if self.search.check {
            return match self.source.remembered() {
                Ok((topology, source)) => self.search.run(topology, &source, self.json),
                Err(wrong) => wrong.exit(),
            };
        }
        match self.go() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(Fault::Wrong(wrong)) => wrong.exit(),
            Err(Fault::Machine(what)) => answer::wrong(&what.to_string(), 3),
        }
    }

    fn go(&self) -> Result<bool, Fault> {
        let topology = self.source.read()?;
        let long = if self.web.is_some() { desk::LENGTH } else { topology.runs_for };
        let setting = Setting { seed: self.seed, length: self.length.unwrap_or(long) };
        let mut lab = topology.build(setting).map_err(|e| Wrong::new(e.to_string()))?;
        let captures = self.taps(&topology, &mut lab)?;
        if self.packets {
            let ends: Vec<[String; 2]> =
                topology.links.iter().map(|l| topology.end_names(l)).collect();
            lab.network.observe(Box::new(Packets::new(&ends)));
        }
        let traces = self.trace.map(|count| {
            // Before the first traffic there are neighbours' messages alone.
            lab.network.advance(trace::first_start(&topology));
            trace::begin(&mut lab, count)
        });
        let rest = match self.web {
            Some(address) => serve(address, &topology, &mut lab, setting.length)?,
            None => advance(&mut lab, setting.length),
        };
        // Printed packets come out before the summary.
        if let Some(packets) = lab.network.observer::<Packets>() {
            packets.flush();
        }
        if let Some(traces) = traces {
            emit(&mut std::io::stdout().lock(), &traces.text(&topology, &lab));
        }
        for Wanted { tap, file, .. } in &captures {
            let octets = lab.network.take_capture(*tap);
            fs::write(file, octets).map_err(|e| Fault::Machine(format!("writing {file}: {e}")))?;
        }
        if self.web.is_some() {
            let broken = lab.findings.count();
            let text = format!("stopped at {}; {broken} promises broken\n", lab.network.now());
            emit(&mut std::io::stdout().lock(), &text);
            return Ok(broken == 0);
        }
        let command = self.command(setting);
        let mut report = summary::report(&topology, &mut lab, setting, rest, command);
        for Wanted { link, file, .. } in &captures {
            report
                .sections
                .push(ferrule_report::Section::new("Capture").text(format!("{link}: `{file}`")));
        }
        if let Some(path) = &self.report {
            let page = ferrule_report::html::render(&report);
            fs::write(path, page)
                .map_err(|e| Fault::Machine(format!("writing {}: {e}", path.display())))?;
        }
        let paint = Paint::for_stream(&std::io::stdout());
        let text = match self.json {
            true => ferrule_report::json::render(&report),
            false => ferrule_report::terminal::render(&report, paint.terminal()),
        };
        emit(&mut std::io::stdout().lock(), &text);
        Ok(lab.findings.count() == 0)
    }

    /// Command that repeats this run.
    fn command(&self, setting: Setting) -> String {
        let millis = setting.length.as_secs_f64() * 1e3;
        format!("ferrule lab run {} --seed {} --for {millis}ms", self.source.words(), setting.seed)
    }

    fn taps(&self, topology: &Topology, lab: &mut Lab) -> Result<Vec<Wanted>, Wrong> {
        let mut wanted = Vec::new();
        for text in &self.capture {
            let Some((link, file)) = text.split_once('=') else {
                return Err(Wrong::new(format!("`{text}` is no capture\n  write it as LINK=FILE")));
            };
            let names: Vec<&str> = topology.links.iter().map(|link| link.name.as_str()).collect();
            let Some(at) = names.iter().position(|name| *name == link) else {
                let names = names.join(", ");
                return Err(Wrong::new(format!("there is no link `{link}`\n  there are {names}")));
            };
            let tap =
                lab.network.tap(lab.links[at], None).map_err(|e| Wrong::new(e.to_string()))?;
            wanted.push(Wanted { tap, link: link.to_owned(), file: file.to_owned() });
        }
        Ok(wanted)
    }
}

/// Lets the time go on as a page says. True if the run came to its end, and the
/// network to rest.
fn serve(
    address: SocketAddr,
    topology: &Topology,
    lab: &mut Lab,
    length: Duration,
) -> Result<bool, Fault> {
    let listener = crate::live::listen(address).map_err(|e| Fault::Machine(e.to_string()))?;
    let say = |address: &str| {
        emit(&mut std::io::stdout().lock(), &format!("dashboard: {address}\nctrl-C ends it\n"));
    };
    desk::drive(topology, lab, listener, length, say).map_err(|e| Fault::Machine(e.to_string()))
}

/// Lets the time go on, with a line about it on a terminal. True if the network came to rest
/// afterwards.
fn advance(lab: &mut Lab, length: Duration) -> bool {
    let begun = std::time::Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let mut said = false;
    for step in 1..=STEPS {
        lab.network.advance(Instant::ZERO + length * step / STEPS);
        if terminal && begun.elapsed() > PATIENCE {
            let share = step * 100 / STEPS;
            let left = about(begun.elapsed() * (STEPS - step) / step);
            let line = format!("\r\x1b[K{share:>3} % of {length:?}, {left} left");
            emit(&mut std::io::stderr().lock(), &line);
            said = true;
        }
    }
    let rest = lab.finish();
    if said {
        emit(&mut std::io::stderr().lock(), "\r\x1b[K");
    }
    rest
}
