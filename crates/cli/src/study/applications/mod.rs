//! FTP, SMTP and Telnet transfers of real programs between two hosts, each behind a node
//! of its own: response times, and what the nodes did meanwhile.
//!
//! [`lanes`] says what stands between the hosts, [`hosts`] builds it, [`servers`] run on
//! one host, [`clients`] on the other, and [`node_times`] asks the nodes.

pub mod clients;
mod hosts;
mod lanes;
mod node_times;
mod servers;
mod shown;
mod telnet;

use super::rig::program;
use crate::demo::is_root;
use crate::process::{Background, Fault, Folder, Runner, stop_all};
use clients::{Plan, Seen, Way};
use ferrule_studies::ipsec_ip_layer::cases::{Application, SIZES};
use ferrule_studies::ipsec_ip_layer::live::Transfers;
use hosts::{Hosts, Joined, Place};
use lanes::LANES;
use servers::Files;
use std::time::{Duration, Instant};

/// One round of transfers takes less than this, or something hangs.
const ROUND_LIMIT: Duration = Duration::from_secs(240);

/// Exit status of who was interrupted.
const INTERRUPTED: i32 = 130;
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 80;

/// How much is measured.
struct Extent {
    sizes: Vec<usize>,
    /// A terminal is no way for more.
    telnet_most: usize,
    rounds: usize,
    /// No round is begun that would end later.
    time: Duration,
}

impl Extent {
    fn new(quick: bool) -> Self {
        let whole = SIZES.map(|octets| octets as usize);
        match quick {
            true => Self {
                sizes: vec![1, 1_000, 100_000, 1_000_000],
                telnet_most: 100_000,
                rounds: 2,
                time: Duration::from_secs(20),
            },
            false => Self {
                sizes: whole.to_vec(),
                telnet_most: 1_000_000,
                rounds: 15,
                time: Duration::from_secs(150),
            },
        }
    }

    fn work(&self) -> Vec<(Application, Vec<usize>)> {
        let telnet = self.sizes.iter().copied().filter(|octets| *octets <= self.telnet_most);
        vec![
            (Application::Ftp, self.sizes.clone()),
            (Application::Smtp, self.sizes.clone()),
            (Application::Telnet, telnet.collect()),
        ]
    }
}

/// Programs that the transfers need and that are not installed, each with its package.
pub fn missing() -> Vec<String> {
    let each = servers::missing().into_iter();
    each.map(|(program, package)| format!("{program} ({package})")).collect()
}

/// Measures; or why not.
pub fn run(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Transfers, String> {
    if !is_root() {
        return Err("not run: needs root".into());
    }
    let missing = missing();
    if !missing.is_empty() {
        return Err(format!("not run: not installed: {}", missing.join(", ")));
    }
    let seen = measure(quick, say).map_err(|fault| {
        // All of it for who looks on, one line for a cell of a table.
        say(&format!("live: {fault}"));
        if matches!(fault, Fault::Interrupted) {
            // Everything was ended on the way here; nobody waits for a report any more.
            std::process::exit(INTERRUPTED);
        }
        format!("not run: {}", fault.reason(REASON_MAX))
    })?;
    Ok(shown::transfers(&seen))
}

fn measure(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Vec<Seen>, Fault> {
    let runner = Runner::new().map_err(|e| Fault::failed("signals", e))?;
    let named = |what: &str| {
        let name = format!("ferrule-study-{}-{what}", std::process::id());
        Folder::new(std::env::temp_dir().join(name), false)
    };
    let (own, served) = (named("nodes")?, named("hosts")?);
    let extent = Extent::new(quick);
    let files = Files::new(served.path(), &extent.sizes)?;
    let hosts = Hosts::build(&runner, own.path())?;
    let mut stand =
        Stand { runner: &runner, hosts: &hosts, lanes: Vec::new(), daemons: Vec::new() };
    say("live: two hosts, and a pair of nodes for each protection");
    for (at, lane) in LANES.iter().enumerate() {
        stand.lanes.push(hosts.join(at + 1, lane)?);
    }
    stand.daemons = servers::start(&hosts, &files)?;
    let plan = Plan {
        lanes: stand.ways(own.path()),
        work: extent.work(),
        first: 0,
        files: served.path().to_owned(),
        own: own.path().to_owned(),
    };
    let joined = stand.companion(&plan, true);
    // Who ended by itself is the reason, not that nobody answers.
    stand.check()?;
    joined?;
    let seen = stand.rounds(plan, &extent, say)?;
    stand.end();
    Ok(seen)
}

/// Everything that runs.
struct Stand<'a> {
    runner: &'a Runner,
    hosts: &'a Hosts<'a>,
    lanes: Vec<Joined>,
    daemons: Vec<Background>,
}

impl Stand<'_> {
    /// As many rounds as there is time for, each with another lane first.
    fn rounds(
        &mut self,
        mut plan: Plan,
        extent: &Extent,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Seen>, Fault> {
        let begun = Instant::now();
        let (mut seen, mut longest) = (Vec::new(), Duration::ZERO);
        for round in 0..extent.rounds {
            if round > 0 && begun.elapsed() + longest > extent.time {
                break;
            }
            say(&format!("live: files, mail and shells, round {}", round + 1));
            let start = Instant::now();
            plan.first = round % LANES.len();
            seen.extend(self.companion(&plan, false)?);
            longest = longest.max(start.elapsed());
            self.check()?;
        }
        Ok(seen)
    }

    fn ways(&self, folder: &std::path::Path) -> Vec<Way> {
        let way = |(at, lane): (usize, &Joined)| Way {
            server: lane.server,
            sockets: match lane.nodes.is_empty() {
                true => Vec::new(),
                false => ["a", "b"].map(|n| folder.join(format!("{n}{}.socket", at + 1))).to_vec(),
            },
            processes: lane.nodes.iter().map(Background::process).collect(),
            wire: lane.wire.clone(),
        };
        self.lanes.iter().enumerate().map(way).collect()
    }

    fn companion(&self, plan: &Plan, join: bool) -> Result<Vec<Seen>, Fault> {
        let failed = |e: serde_json::Error| Fault::failed("the clients' words", e);
        let text = serde_json::to_string(plan).map_err(failed)?;
        let mut command = self.hosts.on(Place::Client);
        command.arg(program()?).args(["study-apps", "--plan", &text]);
        if join {
            command.arg("--join");
        }
        let said = self.runner.done(&mut command, ROUND_LIMIT)?;
        serde_json::from_str(&said).map_err(failed)
    }

    /// Fails if a node or daemon that was started has ended.
    fn check(&mut self) -> Result<(), Fault> {
        let nodes = self.lanes.iter_mut().flat_map(|lane| &mut lane.nodes);
        nodes.chain(&mut self.daemons).try_for_each(Background::check)
    }

    fn end(self) {
        let nodes = self.lanes.into_iter().flat_map(|lane| lane.nodes);
        stop_all(self.daemons.into_iter().chain(nodes).collect());
    }
}
