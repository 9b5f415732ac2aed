//! A bench with its ports open, its streams, and the pieces of the work that are done on it.

use super::bench::{Instrument, LiveBench, PortName, Wiring};
use super::document::Circumstances;
use super::virtual_time::VirtualBench;
use super::watched::Watched;
use super::{Answer, Part, Setup};
use crate::interrupt;
use ferrule_daemon::{Blame, Fault};
use ferrule_report::Report;
use ferrule_tester::responder::Home;
use ferrule_tester::search::{Work, line_load};
use ferrule_tester::{
    Bench, BenchError, Change, Datagram, Field, LabelEntry, Layers, Plan, Rate, Sizes, Stream,
    Vary, VlanTag,
};
use ferrule_wire::{Ends, TrafficClass};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::time::Duration;

/// A bench with its ports open, and the streams that one asked for.
pub(super) struct Desk {
    pub bench: Watched,
    pub plan: Plan,
    quiet: bool,
    /// True once the work was stopped.
    stopped: bool,
}

pub(super) fn failed(error: BenchError) -> Fault {
    match error {
        BenchError::Plan(fault) => {
            Fault::new(Blame::Configuration, fault, "see `ferrule test --help`")
        }
        BenchError::Stopped => {
            Fault::environment("stopped before anything was found", "let it run for longer")
        }
        BenchError::Broken(what) => Fault::environment(what, "see the ports and the device"),
    }
}

/// The bench that was asked for.
fn open(setup: &Setup, longest: usize) -> Result<Box<dyn Instrument>, Fault> {
    let ports = &setup.ports;
    if let Some(again) = &setup.results.again {
        return Ok(Box::new(again.clone()));
    }
    let stop = interrupt::flag()?;
    let names = ports.all();
    if let Some(lab) = &ports.lab {
        let variant = ports.variant.as_deref();
        return Ok(Box::new(VirtualBench::build(lab, variant, ports.seed, &names, stop)?));
    }
    let names = names
        .into_iter()
        .flatten()
        .map(|name| name.parse::<PortName>().map_err(|e| wrong(e, "see `ferrule test --help`")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let wiring = Wiring { threads: ports.threads.into(), line: ports.line, longest };
    Ok(Box::new(LiveBench::open(&names, wiring, stop)?))
}

impl Desk {
    /// Opens the ports, finds the gateways, and makes a plan of the frames that
    /// were asked for, at one frame a second.
    pub fn open(setup: &Setup, longest: usize) -> Result<Self, Fault> {
        let mut bench = Watched::new(open(setup, longest)?, setup.results.shard.is_some());
        let plan = plan(setup, &mut bench)?;
        Ok(Self { bench, plan, quiet: setup.results.quiet, stopped: false })
    }

    /// Begins a piece of the work; false if another shard has it, or the work was stopped. (With
    /// the trials of an earlier run each piece may have been stopped by itself.)
    pub fn begins(&mut self, setup: &Setup, piece: usize) -> bool {
        let here = setup.results.shard.is_none_or(|shard| shard.has(piece as u64));
        if !here || (self.stopped && setup.results.again.is_none()) {
            return false;
        }
        self.bench.begin(piece as u64);
        true
    }

    /// Number of pieces, of so many in all, that are done here.
    pub fn pieces(setup: &Setup, all: usize) -> usize {
        let shard = setup.results.shard;
        (0..all).filter(|&piece| shard.is_none_or(|shard| shard.has(piece as u64))).count()
    }

    /// Does some work on the bench, saying on a terminal what is done. Nothing if it was stopped
    /// before there was a result.
    pub fn work<T>(
        &mut self,
        run: impl FnOnce(&mut Work<'_>, &Plan) -> Result<T, BenchError>,
    ) -> Result<Option<T>, Fault> {
        let tells = std::io::stderr().is_terminal() && !self.quiet;
        let outlook = self.bench.outlook.clone();
        let mut watch = |line: &str| {
            if tells {
                eprintln!("  {line}{}", outlook.words());
            }
        };
        let mut work = Work::new(&mut self.bench, &mut watch);
        let done = run(&mut work, &self.plan);
        self.stopped |= work.is_stopped();
        match done {
            Err(BenchError::Stopped) => Ok(None),
            done => done.map(Some).map_err(failed),
        }
    }

    /// True if the work was stopped.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub fn circumstances(&self, setup: &Setup) -> Circumstances {
        let mut about = self.bench.about();
        about.device = setup.ports.device.clone().unwrap_or(about.device);
        Circumstances {
            about,
            timing: setup.times.timing(),
            streams: self.plan.streams.len(),
            threads: setup.ports.threads,
            quick: setup.times.quick,
            cut: self.bench.cut.clone(),
        }
    }

    pub fn line(&self) -> Option<u64> {
        self.plan.line
    }

    /// The answer that a report is; of a shard also what the report of all is made from.
    pub fn answer(mut self, setup: &Setup, mut report: Report, finding: bool) -> Answer {
        report.partial = self.stopped;
        if self.stopped {
            report.answer = format!("Stopped before the end. {}", report.answer);
        }
        let about = self.circumstances(setup).about;
        let trials = setup.results.shard.zip(self.bench.take_trials());
        let part = trials.map(|(shard, trials)| Part::new(shard, about, trials));
        Answer { report, finding, part }
    }
}

pub(super) fn wrong(what: impl std::fmt::Display, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

/// The streams that the command line describes.
fn plan(setup: &Setup, bench: &mut Watched) -> Result<Plan, Fault> {
    let frames = &setup.frames;
    let macs = bench.macs();
    let mut layers =
        Layers::new(frames.src_mac.unwrap_or(macs[0]), frames.dst_mac.unwrap_or(macs[1]));
    if let Some((src, dst)) = frames.src.zip(frames.dst).or(bench.ends()) {
        layers.datagram = Some(Datagram::between(src, dst).ok_or_else(|| {
            wrong("--src and --dst are of two families", "give both as IPv4 or both as IPv6")
        })?);
    }
    let (src, dst) = ends(&layers);
    // A request for an address behind a port is answered with the port's own.
    let home = |first, mac| vec![Home { first, count: 1, mac }];
    bench.answer_for(vec![home(src, layers.src), home(dst, macs[1])]);
    let gateway = frames.gateway.first().copied().or(bench.next_hop(0, src, dst));
    if let (Some(gateway), None) = (gateway, frames.dst_mac) {
        layers.dst = bench.resolve(0, src, gateway)?;
    }
    let (priority, class) = (TrafficClass::masked(0), TrafficClass::masked(0));
    layers.vlans =
        frames.vlan.iter().map(|&vid| VlanTag { vid, priority, service: false }).collect();
    let entry = |&label| LabelEntry { label, class, ttl: 64 };
    layers.labels = frames.label.iter().flat_map(|l| l.0.iter().map(entry)).collect();
    let mut stream = Stream::new("forth", layers, 64, Rate::frames(1));
    stream.filler = frames.filler.into();
    if frames.flows > 1 {
        let change = Change::Increment { step: 1, count: frames.flows };
        stream.vary = vec![Vary { field: Field::UdpSrc, change }];
        if let Some(datagram) = &mut stream.layers.datagram {
            datagram.src_port = 5000;
        }
    }
    let mut streams = vec![stream];
    if frames.both_ways {
        let mut back = streams[0].reversed();
        back.layers.src = macs[1];
        back.layers.dst = match frames.gateway.get(1).copied().or(bench.next_hop(1, dst, src)) {
            Some(gateway) => bench.resolve(1, dst, gateway)?,
            None => streams[0].layers.src,
        };
        streams.push(back);
    }
    Ok(Plan { streams, line: setup.ports.line.or(bench.about().line) })
}

pub(super) fn ends(layers: &Layers) -> (IpAddr, IpAddr) {
    match layers.datagram.map(|d| d.ends) {
        Some(Ends::V6(a, b)) => (a.into(), b.into()),
        Some(Ends::V4(a, b)) => (a.into(), b.into()),
        None => ([0; 4].into(), [0; 4].into()),
    }
}

pub(super) fn longest(sizes: &[Sizes]) -> usize {
    sizes.iter().map(Sizes::max).max().unwrap_or(1518)
}

/// Loads of the command line, by their options; those that were given.
pub(super) type Asked<'a> = &'a [(&'a str, Option<u64>)];

/// Refuses loads that a known line does not carry in a plan's frames.
pub(super) fn carries(plan: &Plan, asked: Asked<'_>) -> Result<(), Fault> {
    let Some((line, most)) = plan.line.zip(line_load(plan)) else { return Ok(()) };
    let above = asked.iter().find_map(|&(option, load)| {
        let load = load.filter(|load| *load > most)?;
        Some((option, Rate::MilliFrames(load)))
    });
    let Some((option, load)) = above else { return Ok(()) };
    let sizes = plan.streams.first().map_or(String::new(), |s| s.sizes.to_string());
    // In whole frames where there are any, so that it can be given as it stands.
    let most = Rate::MilliFrames(if most < 1000 { most } else { most - most % 1000 });
    let what = format!(
        "{option} {load} is more than a line of {} carries of frames of {sizes} octets: {most}",
        Rate::Bits(line)
    );
    Err(wrong(
        what,
        &format!("give {option} {} at most, or shorter frames with --size", written(most)),
    ))
}

/// A rate as the command line takes it.
fn written(rate: Rate) -> String {
    rate.to_string().replace(' ', "")
}

/// Opens ports for all sizes and runs `each` on the plan of every size; `time` foretells how
/// long the trials of one take. Loads that were `asked` for must be those that the line carries.
/// With what was found before somebody stopped it, if anything.
pub(super) fn by_size<T>(
    setup: &Setup,
    asked: Asked<'_>,
    time: impl FnOnce(&Plan) -> Duration,
    mut each: impl FnMut(&mut Work<'_>, &str, &Plan) -> Result<T, BenchError>,
) -> Result<(Desk, Vec<(Sizes, T)>), Fault> {
    let sizes = setup.frames.sizes();
    let mut desk = Desk::open(setup, longest(&sizes))?;
    // A plan that cannot be sent is refused before anything is measured.
    for size in &sizes {
        let plan = desk.plan.sized(size);
        plan.at(Rate::frames(1)).check().map_err(|fault| failed(fault.into()))?;
        carries(&plan, asked)?;
    }
    let first = desk.plan.sized(&sizes[0]);
    desk.bench.outlook.foretell(time(&first), Desk::pieces(setup, sizes.len()));
    let mut found = Vec::new();
    for (piece, size) in sizes.into_iter().enumerate() {
        if !desk.begins(setup, piece) {
            continue;
        }
        let name = format!("{size} octets");
        let answer = desk.work(|work, plan| each(work, &name, &plan.sized(&size)))?;
        found.extend(answer.map(|answer| (size, answer)));
        desk.bench.outlook.piece_is_done();
    }
    if found.is_empty() && desk.stopped {
        return Err(failed(BenchError::Stopped));
    }
    Ok((desk, found))
}
