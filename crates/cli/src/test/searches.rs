//! Each test, from its arguments to its answer.

use super::args::{Loads, Operations};
use super::bench::Instrument;
use super::desk::{Desk, by_size, ends, failed, wrong};
use super::document;
use super::{Answer, Setup, tables};
use ferrule_base::MacAddr;
use ferrule_daemon::Fault;
use ferrule_tester::responder::Home;
use ferrule_tester::search::back_to_back::{BackToBack, back_to_back as burst_search};
use ferrule_tester::search::bridge::{self as bridges, Addresses, Roles};
use ferrule_tester::search::latency::{self as latencies, latency as latency_search};
use ferrule_tester::search::loss::loss as loss_search;
use ferrule_tester::search::mesh::{Pattern, Sides};
use ferrule_tester::search::mlrsearch::{Goal, mlrsearch as mlr_search, time as mlr_time};
use ferrule_tester::search::mpls as labels;
use ferrule_tester::search::soak::soak as soak_search;
use ferrule_tester::search::throughput::{Found, Throughput, throughput as rate_search};
use ferrule_tester::search::{Measured, Range};
use ferrule_tester::{Bench, BenchError, Field, Plan, Rate, Sizes, Timing, Vary};
use std::path::Path;
use std::time::Duration;

/// The most loads that a search of a bridge's address table begins with.
const LEARNING_RATE: u64 = 1000;

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

pub(super) fn settings(setup: &Setup, range: Range, confirm: Option<Duration>) -> Throughput {
    let confirm = confirm.filter(|c| !c.is_zero()).map(|c| setup.times.of(c));
    Throughput { range, probe: setup.times.timing(), confirm }
}

/// The highest load without loss.
pub fn throughput(
    setup: &Setup,
    loads: &Loads,
    confirm: Option<Duration>,
    repeats: u16,
) -> Result<Answer, Fault> {
    let confirm = setup.times.preset(confirm, Duration::from_secs(5), Duration::ZERO);
    let search = settings(setup, loads.range(&setup.times)?, Some(confirm));
    let time = |plan: &Plan| search.time(plan) * u32::from(repeats);
    let (desk, found) = by_size(setup, &[("--min", Some(loads.min))], time, |work, name, plan| {
        let mut found = Vec::new();
        while found.len() < usize::from(repeats) && !work.is_stopped() {
            match rate_search(work, name, plan, &search) {
                // The repeats before it are an answer.
                Err(BenchError::Stopped) if !found.is_empty() => {}
                one => found.push(one?),
            }
        }
        Ok(found)
    })?;
    let finding = found.iter().any(|f| f.1.iter().any(|f| f.load.is_none()));
    let report =
        by_origin!(desk, document::throughput)(&desk.circumstances(setup), &found, desk.line());
    Ok(desk.answer(setup, report, finding))
}

/// Latency at a load, or at the throughput.
pub fn latency(
    setup: &Setup,
    loads: &Loads,
    at: Option<u64>,
    repeats: Option<u16>,
) -> Result<Answer, Fault> {
    let repeats = setup.times.preset(repeats, 5, 2);
    let search = settings(setup, loads.range(&setup.times)?, None);
    let timing = setup.times.timing();
    let time = |plan: &Plan| {
        let searched = if at.is_none() { search.time(plan) } else { Duration::ZERO };
        searched + timing.sending() * u32::from(repeats)
    };
    // Nothing is searched for from --min on if the load is given.
    let asked = [("--at", at), ("--min", at.is_none().then_some(loads.min))];
    let (desk, found) = by_size(setup, &asked, time, |work, name, plan| {
        let load = match at {
            Some(load) => Some(load),
            None => rate_search(work, name, plan, &search)?.load,
        };
        let Some(load) = load else { return Ok(None) };
        latency_search(work, name, plan, timing, load, repeats.into()).map(Some)
    })?;
    let is_measured =
        |f: &Option<latencies::Found>| f.as_ref().is_some_and(latencies::Found::is_measured);
    let finding = !found.iter().all(|f| is_measured(&f.1));
    let report = by_origin!(desk, document::latency)(&desk.circumstances(setup), &found);
    Ok(desk.answer(setup, report, finding))
}

/// Loss over loads.
pub fn loss(setup: &Setup, loads: &Loads, steps: u32) -> Result<Answer, Fault> {
    if loads.max.is_none() && setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("the highest load is not known", "give --max or --line"));
    }
    let range = loads.range(&setup.times)?;
    let timing = setup.times.timing();
    let (desk, found) = by_size(
        setup,
        &[("--min", Some(loads.min))],
        |_| timing.sending() * steps,
        |work, name, plan| loss_search(work, name, plan, timing, &range, steps),
    )?;
    let finding = found.iter().any(|f| f.1.first().is_none_or(Measured::is_silent));
    let report = by_origin!(desk, document::loss)(&desk.circumstances(setup), &found);
    Ok(desk.answer(setup, report, finding))
}

/// The longest burst without loss.
pub fn back_to_back(
    setup: &Setup,
    longest: Option<Duration>,
    repeats: Option<u16>,
    throughput: Option<u64>,
) -> Result<Answer, Fault> {
    let longest = setup.times.preset(longest, Duration::from_secs(2), Duration::from_millis(250));
    let repeats = setup.times.preset(repeats, 10, 2);
    if setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("bursts follow each other at the line's rate", "give it with --line"));
    }
    let (drain, resolution) = (setup.times.drain(), setup.times.preset(None, 0.001, 0.01));
    let search = BackToBack { longest, repeats: repeats.into(), drain, resolution, throughput };
    let (desk, found) = by_size(
        setup,
        &[("--throughput", throughput)],
        |_| search.time(),
        |work, name, plan| burst_search(work, name, plan, &search),
    )?;
    let report = by_origin!(desk, document::back_to_back)(&desk.circumstances(setup), &found);
    Ok(desk.answer(setup, report, false))
}

/// Result for each goal of a search, and the trials behind it.
pub struct Mlr {
    /// By goal.
    pub found: Vec<ferrule_tester::search::mlrsearch::Found>,
    /// Every trial.
    pub trials: Vec<Measured>,
    /// True if the search was not stopped.
    pub is_whole: bool,
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
    let (range, last) = (loads.range(&setup.times)?, setup.times.duration());
    let goal = |&ratio: &f64| Goal {
        sum: sum.unwrap_or(last * 3),
        width: range.resolution,
        ..Goal::new(ratio, last)
    };
    let goals: Vec<Goal> = goals.iter().map(goal).collect();
    let timing = setup.times.timing();
    let (desk, found) = by_size(
        setup,
        &[("--min", Some(loads.min))],
        |_| mlr_time(timing, &goals),
        |work, name, plan| {
            let found = mlr_search(work, name, plan, timing, &range, &goals)?;
            Ok(Mlr { found, trials: work.trials.clone(), is_whole: !work.is_stopped() })
        },
    )?;
    let finding = found.iter().any(|f| f.1.is_whole && f.1.found.iter().any(|f| f.lower.is_none()));
    let report =
        by_origin!(desk, document::mlrsearch)(&desk.circumstances(setup), &found, desk.line());
    Ok(desk.answer(setup, report, finding))
}

/// Results for a bridge.
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
    let search = settings(setup, loads.range(&setup.times)?, None);
    let timing = setup.times.timing();
    let time = |plan: &Plan| search.time(plan) * 2 + timing.sending() * steps;
    let (mut desk, found) =
        by_size(setup, &[("--min", Some(loads.min))], time, |work, name, plan| {
            let mesh = both_ways(plan);
            bridges::teach(work, &mesh)?;
            let throughput = rate_search(work, name, &mesh, &search)?;
            // Without a known line: up to twice what is carried.
            let doubled = throughput.load.map(|l| l * 2);
            let range = Range { max: search.range.top(&mesh).or(doubled), ..search.range };
            let forwarding = bridges::forwarding(work, name, &mesh, timing, &range, steps)?;
            let one = Plan::one(plan.streams[0].clone(), plan.line);
            let broadcast = rate_search(
                work,
                &format!("{name}, broadcast"),
                &bridges::broadcast(&one),
                &search,
            )?;
            Ok(Bridged { throughput, forwarding, broadcast })
        })?;
    // Tests that have no frame size are a piece of their own.
    let last = desk.begins(setup, setup.frames.sizes().len());
    let errored = if last { errored_frames(&mut desk, timing)? } else { Vec::new() };
    let cached = match setup.ports.monitor {
        Some(_) if last => caching(&mut desk, addresses, ageing)?,
        _ => None,
    };
    let finding = errored.iter().any(|e| e.forwarded > 0)
        || found.iter().any(|f| f.1.throughput.load.is_none());
    let report = by_origin!(desk, document::bridge)(
        &desk.circumstances(setup),
        &found,
        &errored,
        cached.as_ref(),
        desk.line(),
    );
    Ok(desk.answer(setup, report, finding))
}

/// Frames of 64 octets at a gentle load.
fn slow(plan: &Plan) -> Plan {
    plan.sized(&Sizes::Fixed(64)).at(Rate::frames(LEARNING_RATE))
}

fn errored_frames(desk: &mut Desk, timing: Timing) -> Result<Vec<bridges::Errored>, Fault> {
    let done = desk.work(|work, plan| bridges::errored(work, &slow(plan), timing, 1518))?;
    Ok(done.unwrap_or_default())
}

/// Addresses that the bridge learns, how many and how fast.
fn caching(
    desk: &mut Desk,
    addresses: u64,
    ageing: Duration,
) -> Result<Option<document::Addressed>, Fault> {
    desk.work(|work, plan| {
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
    })
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
    let search = settings(setup, loads.range(&setup.times)?, None);
    let test = labels::Mpls { throughput: search, timing, repeats: 3, steps: 10 };
    let count = operations.len() as u32;
    let time = |plan: &Plan| (search.time(plan) + timing.sending() * (3 + 10)) * count;
    let (desk, found) = by_size(setup, &[("--min", Some(loads.min))], time, |work, _, plan| {
        operations.iter().map(|o| labels::mpls(work, o, plan, &test)).collect::<Result<Vec<_>, _>>()
    })?;
    let all = || found.iter().flat_map(|f| &f.1);
    let finding = all().any(|f| f.misencapsulated > 0 || f.throughput.load.is_none());
    let report = by_origin!(desk, document::mpls)(&desk.circumstances(setup), &found, desk.line());
    Ok(desk.answer(setup, report, finding))
}

/// One load for long.
pub fn soak(setup: &Setup, at: u64, interval: Duration) -> Result<Answer, Fault> {
    let timing = ferrule_tester::Timing { interval: Some(interval), ..setup.times.timing() };
    let rate = Rate::MilliFrames(at);
    let (desk, found) = by_size(
        setup,
        &[("--at", Some(at))],
        |_| timing.sending(),
        |work, name, plan| soak_search(work, name, &plan.at(rate), timing),
    )?;
    let finding = !found.iter().all(|f| f.1.is_clean());
    let report = by_origin!(desk, document::soak)(&desk.circumstances(setup), &found);
    Ok(desk.answer(setup, report, finding))
}

/// Streams of a file.
pub fn stream(setup: &Setup, file: &Path) -> Result<Answer, Fault> {
    let shown = file.display();
    if setup.results.shard.is_some() {
        return Err(wrong("streams of one plan are sent at one time", "leave out --shard"));
    }
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
    slow_enough(&desk.plan, desk.bench.about().line.or(desk.plan.line), &shown.to_string())?;
    desk.bench.answer_for(homes(&desk.plan, &desk.bench.macs()));
    let mut timing = setup.times.timing();
    timing.interval = Some((timing.duration / 50).max(Duration::from_millis(10)));
    desk.bench.outlook.foretell(timing.sending(), 1);
    let found = desk.work(|work, plan| soak_search(work, "streams", plan, timing))?;
    let found = found.ok_or_else(|| failed(BenchError::Stopped))?;
    let finding = !found.is_clean();
    let report =
        by_origin!(desk, tables::streams)(&desk.circumstances(setup), &found, &shown.to_string());
    Ok(desk.answer(setup, report, finding))
}

/// Refuses streams of a file that are faster than a line.
fn slow_enough(plan: &Plan, line: Option<u64>, file: &str) -> Result<(), Fault> {
    let fast = plan.streams.iter().find(|s| s.is_above_line(line));
    let Some((stream, line)) = fast.zip(line) else { return Ok(()) };
    let (rate, line) = (stream.rate, Rate::Bits(line));
    let what = format!("{rate} is more than a line of {line} carries of its frames");
    let what = format!("{file}: stream {}: {what}", stream.name);
    Err(wrong(what, "give a lower rate, or a share such as 80%"))
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
