//! `ferrule lab run`: a topology in virtual time.

use super::packets::Packets;
use super::source::{Source, Wrong};
use super::summary::{self, End};
use super::trace;
use crate::answer;
use crate::desk;
use crate::interrupt;
use crate::output::print;
use crate::paint::{Paint, emit};
use crate::search::{self, SearchArgs};
use crate::test::about;
use clap::Args;
use ferrule_base::{Duration, Instant};
use ferrule_daemon::Fault as MachineFault;
use ferrule_lab::TapId;
use ferrule_lab::topology::{Lab, Setting, Topology, units};
use ferrule_report::Report;
use std::fs;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Virtual time from one look at progress and control-C to the next.
const STEP: Duration = Duration::from_millis(10);
/// Nothing is said of progress before this time.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Run a topology in virtual time: no privilege, the same seed gives the same run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ferrule lab run two-gateways
  ferrule lab run two-gateways --packets --for 1.3s | head -40
  ferrule lab run two-sites --variant macsec --seed 7 --for 5s
  ferrule lab run two-sites --trace                 a few packets through every stage
  ferrule lab run campus --capture sw1-sw2=cable.pcapng --json
  ferrule lab run ten-nodes --check --seeds 1000    look for a run in which something breaks
  ferrule lab run ten-nodes --check --json --shard 0/8   an eighth of it: `ferrule merge`
  ferrule lab run ten-nodes-seed-17/recording.toml  repeat what was found
  ferrule lab run ten-nodes --web                   looked at, stopped, stepped and
                                                    disturbed from a page

Control-C ends a run or a search early: what was found is printed, marked as partial, with exit
status 3; a second one ends it at once.

Exit: 0 done, 1 something did not hold or some traffic sent nothing, 2 the topology is wrong,
3 the machine lacks something, or it was stopped.")]
pub struct RunArgs {
    #[command(flatten)]
    source: Source,
    /// The seed of everything random
    #[arg(long, default_value_t = 1, conflicts_with = "check")]
    seed: u64,
    /// When hosts stop sending, as 5s or 250ms [default: what the topology says]. Traffic begins
    /// at its `start`, else at 200 ms, over IPv6 at 1200 ms: choose a longer time. With --check,
    /// for how long hosts send in each run: --send-for
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "send_for")]
    length: Option<Duration>,
    /// Capture a link into a pcapng file of its own; may be given several times
    #[arg(long, value_name = "LINK=FILE", conflicts_with = "check")]
    capture: Vec<String>,
    /// Print every frame on every link, layer by layer
    #[arg(long, conflicts_with_all = ["json", "check"])]
    packets: bool,
    /// Follow packets through the stages of every node, so many at each
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, default_missing_value = "3",
          conflicts_with_all = ["json", "web", "check"])]
    trace: Option<u64>,
    /// Print JSON (schema ferrule-report/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Serve a dashboard there and run at its pace until ctrl-C: the network can be
    /// looked at, stopped, stepped and disturbed from the page. Its address with
    /// the key that it needs is printed. Hosts send for an hour if nothing is said
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1,
          default_missing_value = "127.0.0.1:8080",
          conflicts_with_all = ["json", "report", "check"])]
    web: Option<SocketAddr>,
    /// Write a page with interactive figures that needs nothing else, too
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
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
    Machine(MachineFault),
}

impl From<Wrong> for Fault {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

impl From<MachineFault> for Fault {
    fn from(fault: MachineFault) -> Self {
        Self::Machine(fault)
    }
}

/// A file that could not be written.
fn unwritten(file: impl std::fmt::Display, e: &std::io::Error) -> Fault {
    MachineFault::environment(format!("writing {file}: {e}"), "choose another file").into()
}

impl RunArgs {
    /// Runs it: 0 if all holds and every traffic entry sent something, 1 if not.
    pub fn run(mut self) -> ExitCode {
        if let Some((path, text)) = self.source.recording() {
            return search::repeat(&path, &text);
        }
        if self.search.check {
            self.search.send_for = self.length.unwrap_or(self.search.send_for);
            return match self.source.remembered() {
                Ok((topology, source)) => self.search.run(topology, &source, self.json),
                Err(wrong) => wrong.exit(),
            };
        }
        match self.go() {
            Ok(code) => code,
            Err(Fault::Wrong(wrong)) => wrong.exit(),
            Err(Fault::Machine(fault)) => answer::fault(&fault),
        }
    }

    fn go(&self) -> Result<ExitCode, Fault> {
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
        let end = match self.web {
            Some(address) => serve(address, &topology, &mut lab, setting.length)?,
            None => advance(&mut lab, setting.length)?,
        };
        // Printed packets come out before the summary.
        if let Some(packets) = lab.network.observer::<Packets>() {
            packets.flush();
        }
        if let Some(traces) = traces {
            print(&traces.text(&topology, &lab));
        }
        for Wanted { tap, file, .. } in &captures {
            let octets = lab.network.take_capture(*tap);
            fs::write(file, octets).map_err(|e| unwritten(file, &e))?;
        }
        if self.web.is_some() {
            let broken = lab.findings.count();
            let text = format!("stopped at {}; {broken} promises broken\n", lab.network.now());
            print(&text);
            return Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let command = self.command(setting);
        let (mut report, sent) = summary::report(&topology, &mut lab, setting, end, command);
        for Wanted { link, file, .. } in &captures {
            report
                .sections
                .push(ferrule_report::Section::new("Capture").text(format!("{link}: `{file}`")));
        }
        self.give(&report)?;
        Ok(match end {
            _ if lab.findings.count() > 0 => ExitCode::FAILURE,
            End::Stopped => ExitCode::from(interrupt::PARTIAL),
            _ if !sent => ExitCode::FAILURE,
            End::Rest | End::Busy => ExitCode::SUCCESS,
        })
    }

    /// Writes the report where it was asked for, and prints it.
    fn give(&self, report: &Report) -> Result<(), Fault> {
        if let Some(path) = &self.report {
            let page = ferrule_report::html::render(report);
            fs::write(path, page).map_err(|e| unwritten(path.display(), &e))?;
        }
        let paint = Paint::for_stream(&std::io::stdout());
        let text = match self.json {
            true => ferrule_report::json::render(report),
            false => ferrule_report::terminal::render(report, paint.terminal()),
        };
        print(&text);
        Ok(())
    }

    /// Command that repeats this run.
    fn command(&self, setting: Setting) -> String {
        let millis = setting.length.as_secs_f64() * 1e3;
        format!("ferrule lab run {} --seed {} --for {millis}ms", self.source.words(), setting.seed)
    }

    fn taps(&self, topology: &Topology, lab: &mut Lab) -> Result<Vec<Wanted>, Wrong> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for text in &self.capture {
            let Some((link, file)) = text.split_once('=') else {
                return Err(Wrong::new(format!("`{text}` is no capture\n  write it as LINK=FILE")));
            };
            let names: Vec<&str> = topology.links.iter().map(|link| link.name.as_str()).collect();
            let Some(at) = names.iter().position(|name| *name == link) else {
                let names = names.join(", ");
                return Err(Wrong::new(format!("there is no link `{link}`\n  there are {names}")));
            };
            if let Some(other) = wanted.iter().find(|other| same_file(&other.file, file)) {
                let other = &other.link;
                return Err(Wrong::new(format!(
                    "`{other}` and `{link}` are both captured into {file}\n  give each a file of its own"
                )));
            }
            let tap =
                lab.network.tap(lab.links[at], None).map_err(|e| Wrong::new(e.to_string()))?;
            wanted.push(Wanted { tap, link: link.to_owned(), file: file.to_owned() });
        }
        Ok(wanted)
    }
}

/// True if two names are of one file, as far as they say.
fn same_file(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|name| std::path::absolute(name).unwrap_or_else(|_| name.into()));
    a == b
}

/// Lets the time go on as a page says.
fn serve(
    address: SocketAddr,
    topology: &Topology,
    lab: &mut Lab,
    length: Duration,
) -> Result<End, Fault> {
    let listener = crate::live::listen(address)?;
    let say = |address: &str| {
        print(&format!("dashboard: {address}\nctrl-C ends it\n"));
    };
    match desk::drive(topology, lab, listener, length, say) {
        Ok(true) => Ok(End::Rest),
        Ok(false) => Ok(End::Stopped),
        Err(e) => Err(MachineFault::environment(e, "see what the system said").into()),
    }
}

/// Lets the time go on, with a line about it on a terminal, until hosts have sent and everything
/// has arrived, or a person stops it.
fn advance(lab: &mut Lab, length: Duration) -> Result<End, Fault> {
    interrupt::flag()?;
    let (begun, end) = (std::time::Instant::now(), Instant::ZERO + length);
    let terminal = std::io::stderr().is_terminal();
    let mut said = None;
    while lab.network.now() < end && !interrupt::wanted() {
        lab.network.advance((lab.network.now() + STEP).min(end));
        let part = lab.network.now().since(Instant::ZERO).as_secs_f64() / length.as_secs_f64();
        let share = (part * 100.0) as u32;
        if terminal && begun.elapsed() > PATIENCE && said != Some(share) {
            let left = about(begun.elapsed().mul_f64(1.0 / part - 1.0));
            let line = format!("\r\x1b[K{share:>3} % of {length:?}, {left} left");
            emit(&mut std::io::stderr().lock(), &line);
            said = Some(share);
        }
    }
    let rest = lab.finish_unless(interrupt::wanted);
    if said.is_some() {
        emit(&mut std::io::stderr().lock(), "\r\x1b[K");
    }
    Ok(match (rest, interrupt::wanted()) {
        (true, _) => End::Rest,
        (false, true) => End::Stopped,
        (false, false) => End::Busy,
    })
}
