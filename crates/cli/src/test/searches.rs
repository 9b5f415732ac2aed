//! Each test, from its arguments to its answer.

use super::args::{Loads, Operations};
use super::bench::{Instrument, LiveBench, PortName, Wiring};
use super::document::{self, Circumstances};
use super::virtual_time::VirtualBench;
use super::{Answer, Setup, tables};
use ferrule_base::MacAddr;
use ferrule_daemon::{Blame, Fault};
use ferrule_tester::responder::Home;
use ferrule_tester::search::back_to_back::{BackToBack, back_to_back as burst_search};
use ferrule_tester::search::bridge::{self as bridges, Addresses, Roles};
use ferrule_tester::search::latency::latency as latency_search;
use ferrule_tester::search::loss::loss as loss_search;
use ferrule_tester::search::mesh::{Pattern, Sides};
use ferrule_tester::search::mlrsearch::{Goal, mlrsearch as mlr_search};
use ferrule_tester::search::mpls as labels;
use ferrule_tester::search::soak::soak as soak_search;
use ferrule_tester::search::throughput::{Found, Throughput, throughput as rate_search};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{
    Bench, BenchError, Change, Datagram, Field, LabelEntry, Layers, Plan, Rate, Sizes, Stream,
    Vary, VlanTag,
};
use ferrule_wire::{Ends, TrafficClass};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most loads that a search of a bridge's address table begins with.
const LEARNING_RATE: u64 = 1000;

/// A bench with its ports open, and the streams that one asked for.
pub(super) struct Desk {
    pub bench: Box<dyn Instrument>,
    pub plan: Plan,
    quiet: bool,
}

pub(super) fn failed(error: BenchError) -> Fault {
    match error {
        BenchError::Plan(fault) => {
            Fault::new(Blame::Configuration, fault, "see `ferrule test --help`")
        }
        BenchError::Stopped => Fault::environment("stopped before the end", "run it again"),
        BenchError::Broken(what) => Fault::environment(what, "see the ports and the device"),
    }
}

impl Desk {
    /// Opens the ports, finds the gateways, and makes a plan of the frames that
    /// were asked for, at one frame a second.
    pub fn open(setup: &Setup, longest: usize) -> Result<Self, Fault> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| {
                Fault::environment(format!("signals: {e}"), "see what the system said")
            })?;
        }
        let ports = &setup.ports;
        let names = ports.all();
        let mut bench: Box<dyn Instrument> = match &ports.lab {
            Some(lab) => {
                let bench = VirtualBench::build(lab, ports.variant.as_deref(), ports.seed, &names);
                Box::new(bench?)
            }
            None => {
                let names = names.into_iter().flatten().map(|name| {
                    name.parse::<PortName>().map_err(|e| wrong(e, "see `ferrule test --help`"))
                });
                let names = names.collect::<Result<Vec<_>, _>>()?;
                let wiring = Wiring { threads: ports.threads.into(), line: ports.line, longest };
                Box::new(LiveBench::open(&names, wiring, stop)?)
            }
        };
        let plan = plan(setup, &mut *bench)?;
        Ok(Self { bench, plan, quiet: setup.results.quiet })
    }

    /// Does some work on the bench, saying on a terminal what is done.
    pub fn work<T>(
        &mut self,
        run: impl FnOnce(&mut Work<'_>, &Plan) -> Result<T, BenchError>,
    ) -> Result<T, Fault> {
        let tells = std::io::stderr().is_terminal() && !self.quiet;
        let mut watch = |line: &str| {
            if tells {
                eprintln!("  {line}");
            }
        };
        let mut work = Work::new(&mut *self.bench, &mut watch);
        run(&mut work, &self.plan).map_err(failed)
    }

    pub fn circumstances(&self, setup: &Setup) -> Circumstances {
        Circumstances {
            about: self.bench.about(),
            timing: setup.times.timing(),
            streams: self.plan.streams.len(),
            threads: setup.ports.threads,
        }
    }

    pub fn line(&self) -> Option<u64> {
        self.plan.line
    }
}

/// A rendering for the origin that the bench's numbers have.
macro_rules! by_origin {
    ($desk:expr, $($render:ident)::+) => {
        if $desk.bench.about().is_virtual {
            $($render)::+::<ferrule_report::Model>
        } else {
            $($render)::+::<ferrule_report::Live>
        }
    };
}
pub(super) use by_origin;

pub(super) fn wrong(what: impl std::fmt::Display, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

/// The streams that the command line describes.
fn plan(setup: &Setup, bench: &mut dyn Instrument) -> Result<Plan, Fault> {
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
    // Whoever asks for an address behind a port gets the port's own.
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

fn ends(layers: &Layers) -> (IpAddr, IpAddr) {
    match layers.datagram.map(|d| d.ends) {
        Some(Ends::V6(a, b)) => (a.into(), b.into()),
        Some(Ends::V4(a, b)) => (a.into(), b.into()),
        None => ([0; 4].into(), [0; 4].into()),
    }
}

fn longest(sizes: &[Sizes]) -> usize {
    sizes.iter().map(Sizes::max).max().unwrap_or(1518)
}

/// Opens ports for all sizes and runs `each` on the plan of every size.
pub(super) fn by_size<T>(
    setup: &Setup,
    mut each: impl FnMut(&mut Work<'_>, &str, &Plan) -> Result<T, BenchError>,
) -> Result<(Desk, Vec<(Sizes, T)>), Fault> {
    let sizes = setup.frames.sizes();
    let mut desk = Desk::open(setup, longest(&sizes))?;
    // A plan that cannot be sent is refused before anything is measured.
    for size in &sizes {
        let check = desk.plan.sized(size).at(Rate::frames(1)).check();
        check.map_err(|fault| failed(fault.into()))?;
    }
    let mut found = Vec::new();
    for size in sizes {
        let name = format!("{size} octets");
        let answer = desk.work(|work, plan| each(work, &name, &plan.sized(&size)))?;
        found.push((size, answer));
    }
    Ok((desk, found))
}

pub(super) fn settings(setup: &Setup, range: Range, confirm: Option<Duration>) -> Throughput {
    let confirm = confirm.filter(|c| !c.is_zero()).map(|c| setup.times.of(c));
    Throughput { range, probe: setup.times.timing(), confirm }
}

/// The highest load without loss.
pub fn throughput(
    setup: &Setup,
    loads: &Loads,
    confirm: Duration,
    repeats: u16,
) -> Result<Answer, Fault> {
    let search = settings(setup, loads.range(), Some(confirm));
    let (desk, found) = by_size(setup, |work, name, plan| {
        (0..repeats).map(|_| rate_search(work, name, plan, &search)).collect::<Result<Vec<_>, _>>()
    })?;
    let finding = found.iter().any(|f| f.1.iter().any(|f| f.load.is_none()));
    let report =
        by_origin!(desk, document::throughput)(&desk.circumstances(setup), &found, desk.line());
    Ok(Answer { report, finding })
}

/// Latency at a load, or at the throughput.
pub fn latency(
    setup: &Setup,
    loads: &Loads,
    at: Option<u64>,
    repeats: u16,
) -> Result<Answer, Fault> {
    let search = settings(setup, loads.range(), None);
    let (desk, found) = by_size(setup, |work, name, plan| {
        let load = match at {
            Some(load) => Some(load),
            None => rate_search(work, name, plan, &search)?.load,
        };
        let Some(load) = load else { return Ok(None) };
        latency_search(work, name, plan, setup.times.timing(), load, repeats.into()).map(Some)
    })?;
    let finding = found.iter().any(|f| f.1.is_none());
    let report = by_origin!(desk, document::latency)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding })
}

/// Loss over loads.
pub fn loss(setup: &Setup, loads: &Loads, steps: u32) -> Result<Answer, Fault> {
    if loads.max.is_none() && setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("the highest load is not known", "give --max or --line"));
    }
    let range = loads.range();
    let (desk, found) = by_size(setup, |work, name, plan| {
        loss_search(work, name, plan, setup.times.timing(), &range, steps)
    })?;
    let report = by_origin!(desk, document::loss)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding: false })
}

/// The longest burst without loss.
pub fn back_to_back(
    setup: &Setup,
    longest: Duration,
    repeats: u16,
    throughput: Option<u64>,
) -> Result<Answer, Fault> {
    if setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("bursts follow each other at the line's rate", "give it with --line"));
    }
    let drain = setup.times.drain;
    let search =
        BackToBack { longest, repeats: repeats.into(), drain, resolution: 0.001, throughput };
    let (desk, found) = by_size(setup, |work, name, plan| burst_search(work, name, plan, &search))?;
    let report = by_origin!(desk, document::back_to_back)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding: false })
}

/// The load for each of several loss ratios.
pub fn mlrsearch(
    setup: &Setup,
    loads: &Loads,
    goals: &[f64],
    sum: Option<Duration>,
) -> Result<Answer, Fault> {
    if loads.max.is_none() && setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("the highest load is not known", "give --max or --line"));
    }
    let (range, last) = (loads.range(), setup.times.duration);
    let goal = |&ratio: &f64| Goal {
        sum: sum.unwrap_or(last * 3),
        width: range.resolution,
        ..Goal::new(ratio, last)
    };
    let goals: Vec<Goal> = goals.iter().map(goal).collect();
    let (desk, found) = by_size(setup, |work, name, plan| {
        let found = mlr_search(work, name, plan, setup.times.timing(), &range, &goals)?;
        Ok((found, work.trials.clone()))
    })?;
    let finding = found.iter().any(|f| f.1.0.iter().any(|f| f.lower.is_none()));
    let report = by_origin!(desk, document::mlrsearch)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding })
}

/// What was found of a bridge.
pub struct Bridged {
    /// Throughput both ways.
    pub throughput: Found,
    /// Forwarding rates.
    pub forwarding: bridges::Forwarding,
    /// Throughput of broadcast frames.
    pub broadcast: Found,
}

/// A bridge.
pub fn bridge(
    setup: &Setup,
    loads: &Loads,
    addresses: u64,
    ageing: Duration,
    steps: u32,
) -> Result<Answer, Fault> {
    let search = settings(setup, loads.range(), None);
    let timing = setup.times.timing();
    let (mut desk, found) = by_size(setup, |work, name, plan| {
        let mesh = both_ways(plan);
        bridges::teach(work, &mesh)?;
        let throughput = rate_search(work, name, &mesh, &search)?;
        // Without a known line: up to twice what is carried.
        let doubled = throughput.load.map(|l| l * 2);
        let range = Range { max: search.range.top(&mesh).or(doubled), ..search.range };
        let forwarding = bridges::forwarding(work, name, &mesh, timing, &range, steps)?;
        let one = Plan::one(plan.streams[0].clone(), plan.line);
        let broadcast =
            rate_search(work, &format!("{name}, broadcast"), &bridges::broadcast(&one), &search)?;
        Ok(Bridged { throughput, forwarding, broadcast })
    })?;
    let slow = |plan: &Plan| plan.sized(&Sizes::Fixed(64)).at(Rate::frames(LEARNING_RATE));
    let errored = desk.work(|work, plan| bridges::errored(work, &slow(plan), timing, 1518))?;
    let cached = match setup.ports.monitor {
        None => None,
        Some(_) => Some(desk.work(|work, plan| {
            let how = Addresses {
                roles: Roles { test: 0, learning: 1, monitor: 2 },
                learning_rate: LEARNING_RATE,
                test_rate: LEARNING_RATE,
                ageing,
                first: MacAddr([0x02, 0x10, 0, 0, 0, 0]),
            };
            let stream = &slow(plan).streams[0];
            let (capacity, tries) =
                bridges::caching_capacity(work, stream, plan.line, &how, addresses)?;
            let some = capacity.clamp(1, 64);
            let range = Range { max: Some(100_000_000), resolution: 0.02, ..Range::default() };
            let how = Addresses { first: MacAddr([0x02, 0x20, 0, 0, 0, 0]), ..how };
            let rate = bridges::learning_rate(work, stream, plan.line, &how, some, &range)?;
            Ok((capacity, tries, some, rate))
        })?),
    };
    let finding = errored.iter().any(|e| e.forwarded > 0)
        || found.iter().any(|f| f.1.throughput.load.is_none());
    let report = by_origin!(desk, document::bridge)(
        &desk.circumstances(setup),
        &found,
        &errored,
        cached.as_ref(),
    );
    Ok(Answer { report, finding })
}

/// The first stream of a plan and its like from the other port, with the addresses
/// that were asked for.
fn both_ways(plan: &Plan) -> Plan {
    let Some(stream) = plan.streams.first() else { return plan.clone() };
    let (macs, sides) = ([stream.layers.src, stream.layers.dst], [vec![0], vec![1]]);
    let [near, far] = sides;
    let mesh = Pattern::Full.plan(stream, &macs, &Sides { near, far }, plan.line);
    mesh.unwrap_or_else(|| plan.clone())
}

/// A label switching router.
pub fn mpls(setup: &Setup, loads: &Loads, operations: &Operations) -> Result<Answer, Fault> {
    let operations = operations.all();
    if operations.is_empty() {
        return Err(wrong("no operation to test", "give --push, --swap or --pop"));
    }
    let timing = setup.times.timing();
    let search = settings(setup, loads.range(), None);
    let test = labels::Mpls { throughput: search, timing, repeats: 3, steps: 10 };
    let (desk, found) = by_size(setup, |work, _, plan| {
        operations.iter().map(|o| labels::mpls(work, o, plan, &test)).collect::<Result<Vec<_>, _>>()
    })?;
    let all = || found.iter().flat_map(|f| &f.1);
    let finding = all().any(|f| f.misencapsulated > 0 || f.throughput.load.is_none());
    let report = by_origin!(desk, document::mpls)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding })
}

/// One load for long.
pub fn soak(setup: &Setup, at: u64, interval: Duration) -> Result<Answer, Fault> {
    let timing = ferrule_tester::Timing { interval: Some(interval), ..setup.times.timing() };
    let rate = Rate::MilliFrames(at);
    let (desk, found) =
        by_size(setup, |work, name, plan| soak_search(work, name, &plan.at(rate), timing))?;
    let finding = !found.iter().all(|f| f.1.is_clean());
    let report = by_origin!(desk, document::soak)(&desk.circumstances(setup), &found);
    Ok(Answer { report, finding })
}

/// Streams of a file.
pub fn stream(setup: &Setup, file: &Path) -> Result<Answer, Fault> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|e| wrong(format!("{shown}: {e}"), "name a plan that can be read"))?;
    // Once without the ports, whose addresses stand in for nothing yet: what is
    // wrong with the file shows before anything is opened.
    let read = |macs: &[MacAddr]| {
        let plan = ferrule_tester::plan::read(&text, macs);
        let plan = plan.map_err(|e| wrong(format!("{shown}: {e}"), "mend the plan"))?;
        plan.check().map_err(|e| wrong(format!("{shown}: {e}"), "mend the plan"))?;
        Ok::<_, Fault>(plan)
    };
    let ports = setup.ports.all().len();
    let longest = read(&vec![MacAddr::ZERO; ports])?.streams.iter().map(|s| s.sizes.max()).max();
    let mut desk = Desk::open(setup, longest.unwrap_or(1518))?;
    desk.plan = read(&desk.bench.macs())?;
    desk.plan.line = desk.plan.line.or(setup.ports.line);
    desk.bench.answer_for(homes(&desk.plan, &desk.bench.macs()));
    let mut timing = setup.times.timing();
    timing.interval = Some((timing.duration / 50).max(Duration::from_millis(10)));
    let found = desk.work(|work, plan| soak_search(work, "streams", plan, timing))?;
    let finding = !found.is_clean();
    let report =
        by_origin!(desk, tables::streams)(&desk.circumstances(setup), &found, &shown.to_string());
    Ok(Answer { report, finding })
}

/// Every address of a plan is at home behind the port that it is sent to or from.
fn homes(plan: &Plan, macs: &[MacAddr]) -> Vec<Vec<Home>> {
    let mut homes = vec![Vec::new(); macs.len()];
    for stream in &plan.streams {
        let (src, dst) = ends(&stream.layers);
        let count = |field: Field| {
            let vary = stream.vary.iter().find(|v| v.field == field);
            vary.map_or(1, Vary::count)
        };
        for (port, first, field) in [(stream.tx, src, Field::IpSrc), (stream.rx, dst, Field::IpDst)]
        {
            if let (Some(homes), Some(&mac)) = (homes.get_mut(port), macs.get(port)) {
                homes.push(Home { first, count: count(field), mac });
            }
        }
    }
    homes
}
