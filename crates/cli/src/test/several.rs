//! Bridges of several ports: who sends to whom, and congestion.

use super::args::Loads;
use super::bench::Instrument;
use super::desk::{Desk, failed, wrong};
use super::document::Circumstances;
use super::searches::{by_origin, settings};
use super::tables::{frames, none, number, pps};
use super::{Answer, Setup};
use ferrule_base::MacAddr;
use ferrule_daemon::Fault;
use ferrule_report::{
    Axis, Column, Derived, Figure, Origin, Report, Section, Series, Shape, Table,
};
use ferrule_tester::search::bridge::{self, Forwarding};
use ferrule_tester::search::congestion::{self as congested, Control, Roles, Share};
use ferrule_tester::search::mesh::{PORTS_MAX, Pattern, Sides};
use ferrule_tester::search::throughput::{Found, throughput};
use ferrule_tester::search::{Range, line_load};
use ferrule_tester::{Bench, BenchError, Plan, Rate, Sizes};

/// Results for a pattern.
pub struct Meshed {
    pattern: Pattern,
    streams: usize,
    /// Load of each stream that the lines carry.
    theoretical: Option<u64>,
    throughput: Found,
    forwarding: Option<Forwarding>,
}

/// The addresses of all ports, with those that were asked for.
fn macs(desk: &Desk) -> Vec<MacAddr> {
    let mut macs = desk.bench.macs();
    if let Some(stream) = desk.plan.streams.first() {
        let own = [stream.layers.src, stream.layers.dst];
        macs.iter_mut().zip(own).for_each(|(mac, own)| *mac = own);
    }
    macs
}

/// A plan that can be sent.
fn checked(plan: &Plan) -> Result<Plan, Fault> {
    plan.at(Rate::frames(1)).check().map_err(|fault| failed(fault.into()))?;
    Ok(plan.clone())
}

/// The patterns that were asked for, or all for which there are ports.
fn wanted(patterns: &[Pattern], desk: &Desk, sides: &Sides) -> Result<Vec<Pattern>, Fault> {
    let (macs, stream) = (macs(desk), &desk.plan.streams[0]);
    let fits = |p: &Pattern| p.plan(stream, &macs, sides, None).is_some();
    if let Some(pattern) = patterns.iter().find(|p| !fits(p)) {
        let what = format!("{pattern} needs other ports than these {}", macs.len());
        let most = format!("repeat --tx and --rx, up to {PORTS_MAX} ports in all");
        return Err(wrong(what, &most));
    }
    Ok(match patterns {
        [] => Pattern::ALL.into_iter().filter(fits).collect(),
        some => some.to_vec(),
    })
}

/// Throughput and forwarding rates of the patterns.
pub fn mesh(
    setup: &Setup,
    loads: &Loads,
    patterns: &[Pattern],
    steps: u32,
) -> Result<Answer, Fault> {
    let (search, sides) = (settings(setup, loads.range(&setup.times)?, None), setup.ports.sides());
    let timing = setup.times.timing();
    let sizes = setup.frames.sizes();
    let mut desk = Desk::open(setup, sizes.iter().map(Sizes::max).max().unwrap_or(1518))?;
    let patterns = wanted(patterns, &desk, &sides)?;
    let macs = macs(&desk);
    let mut found = Vec::new();
    let each = search.time(&desk.plan.sized(&sizes[0])) + timing.sending() * steps;
    let pieces = Desk::pieces(setup, sizes.len()) * patterns.len();
    desk.bench.outlook.foretell(each, pieces);
    for (piece, size) in sizes.into_iter().enumerate() {
        let plan = checked(&desk.plan.sized(&size))?;
        if !desk.begins(setup, piece) {
            continue;
        }
        for &pattern in &patterns {
            let name = format!("{pattern}, {size} octets");
            let Some(plan) = pattern.plan(&plan.streams[0], &macs, &sides, plan.line) else {
                continue;
            };
            let meshed = desk.work(|work, _| {
                bridge::teach(work, &plan)?;
                let throughput = throughput(work, &name, &plan, &search)?;
                // Without a known line: up to twice what is carried.
                let doubled = throughput.load.map(|load| load * 2);
                let max = search.range.top(&plan).or(doubled);
                let range = Range { max, ..search.range };
                let forwarding = match max {
                    Some(_) => Some(bridge::forwarding(work, &name, &plan, timing, &range, steps)?),
                    None => None,
                };
                let (streams, theoretical) = (plan.streams.len(), line_load(&plan));
                Ok(Meshed { pattern, streams, theoretical, throughput, forwarding })
            })?;
            let Some(meshed) = meshed else { break };
            found.push((size.clone(), meshed));
            desk.bench.outlook.piece_is_done();
        }
    }
    if found.is_empty() && desk.is_stopped() {
        return Err(failed(BenchError::Stopped));
    }
    let finding = found.iter().any(|f| f.1.throughput.load.is_none());
    let report = by_origin!(desk, meshes)(&desk.circumstances(setup), &found, &macs, &sides);
    Ok(desk.answer(setup, report, finding))
}

/// RFC 2889 sections 5.1 to 5.4.
fn meshes<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Meshed)],
    macs: &[MacAddr],
    sides: &Sides,
) -> Report {
    let all = |m: &Meshed| m.throughput.load.map(|l| pps(l) * m.streams as f64);
    let words = found.iter().map(|(size, m)| match all(m) {
        Some(rate) => format!("{} {} at {size}", m.pattern, frames(rate)),
        None => format!("{} {} at {size}", m.pattern, none(&m.throughput)),
    });
    let words: Vec<_> = words.collect();
    let answer = format!("Throughput of all streams together: {}.", words.join(", "));
    let question = "How well does the device bridge among several ports (RFC 2889)?";
    let mut report = how.report("Mesh", question, answer);
    let curves = found.iter().filter_map(|(size, m)| {
        let points = m.forwarding.as_ref()?.curve.iter().map(|c| {
            let secs = c.duration.as_secs_f64();
            let offered = c.offered as f64 / secs;
            (offered, number::<K>(c.received as f64 / secs))
        });
        let name = format!("{} {size}", m.pattern);
        Some(Series::new(name, Shape::Line, points.collect::<Vec<_>>()))
    });
    let axes = [
        Axis::new("offered", "frames/s").from_zero(),
        Axis::new("forwarded", "frames/s").from_zero(),
    ];
    let figure = Figure::xy("mesh-load", "Forwarded over offered", axes, curves.collect());
    report.sections.push(Section::new("Result").table(mesh_table::<K>(found)).figure(figure));
    let names = |ports: &[usize]| {
        let name = |&p: &usize| how.about.ports.get(p).map_or("?", String::as_str).to_owned();
        ports.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let ports = format!(
        "{} ports: {} send where traffic has one direction, {} receive.",
        macs.len(),
        names(&sides.near),
        names(&sides.far)
    );
    report.sections.push(how.section(&[
        &ports,
        "Every address shows itself before it is sent to. A port that sends to several takes turns.",
    ]));
    report
}

fn mesh_table<K: Origin>(found: &[(Sizes, Meshed)]) -> Table {
    let rate = |f: fn(&Forwarding) -> f64| {
        let each = found.iter().map(move |(_, m)| {
            m.forwarding.as_ref().map(|found| number::<K>(f(found))).ok_or("no highest load")
        });
        each.collect::<Vec<_>>()
    };
    let lost = found.iter().map(|(_, m)| {
        let last = m.forwarding.as_ref().and_then(|f| f.curve.last()).ok_or("no highest load")?;
        Ok::<_, &str>(number::<K>(100.0 * last.lost as f64 / last.offered.max(1) as f64))
    });
    let most = found.iter().map(|(_, m)| {
        let each = m.theoretical.ok_or("line not known")?;
        Ok::<_, &str>(number::<Derived>(pps(each) * m.streams as f64))
    });
    Table::new("mesh", "Patterns by frame size")
        .column(Column::words("pattern", found.iter().map(|f| f.1.pattern.name())))
        .column(Column::words("section", found.iter().map(|f| f.1.pattern.section())))
        .column(Column::words("frame", found.iter().map(|f| f.0.to_string())))
        .column(Column::settings("streams", "", found.iter().map(|f| f.1.streams as f64)))
        .column(
            Column::results(
                "each stream",
                "frames/s",
                found
                    .iter()
                    .map(|f| f.1.throughput.load.map(|l| number::<K>(pps(l))).ok_or("none")),
            )
            .decimals(0),
        )
        .column(
            Column::results(
                "throughput",
                "frames/s",
                found.iter().map(|f| {
                    let streams = f.1.streams as f64;
                    f.1.throughput.load.map(|l| number::<K>(pps(l) * streams)).ok_or("none")
                }),
            )
            .decimals(0),
        )
        .column(Column::results("theoretical", "frames/s", most).decimals(0))
        .column(Column::results("at highest load", "frames/s", rate(|f| f.at_maximum)).decimals(0))
        .column(Column::results("highest", "frames/s", rate(|f| f.maximum.0)).decimals(0))
        .column(Column::results("lost there", "%", lost).decimals(2))
        .note(
            "Throughput: all streams together without loss; theoretical: what the lines carry of \
             them. Forwarding rates (RFC 2285 section \
             3.6): frames that arrived a second at the highest load, and at the load where most \
             did; lost there: at the highest load.",
        )
}

/// Congestion control.
pub fn congestion(setup: &Setup, loads: &Loads) -> Result<Answer, Fault> {
    let sides = setup.ports.sides();
    let (&[first, second, ..], &[hot, cool, ..]) = (&sides.near[..], &sides.far[..]) else {
        let what = "congestion needs two ports that send and two that receive";
        return Err(wrong(what, "give --tx twice and --rx twice"));
    };
    if loads.max.is_none() && setup.ports.line.is_none() && setup.ports.lab.is_none() {
        return Err(wrong("the highest load is not known", "give --max or --line"));
    }
    let roles = Roles { first, second, congested: hot, uncongested: cool };
    let (range, timing) = (loads.range(&setup.times)?, setup.times.timing());
    let sizes = setup.frames.sizes();
    let mut desk = Desk::open(setup, sizes.iter().map(Sizes::max).max().unwrap_or(1518))?;
    let (macs, mut found) = (macs(&desk), Vec::new());
    desk.bench.outlook.foretell(timing.sending(), Desk::pieces(setup, sizes.len()));
    for (piece, size) in sizes.into_iter().enumerate() {
        let plan = checked(&desk.plan.sized(&size))?;
        if !desk.begins(setup, piece) {
            continue;
        }
        let (stream, line) = (&plan.streams[0], plan.line);
        let one = desk.work(|work, _| {
            congested::congestion(work, stream, &macs, &roles, line, &range, timing)
        })?;
        found.extend(one.map(|one| (size, one)));
        desk.bench.outlook.piece_is_done();
    }
    if found.is_empty() && desk.is_stopped() {
        return Err(failed(BenchError::Stopped));
    }
    let finding = found.iter().any(|f| f.1.is_blocked() || !f.1.was_sent());
    let report = by_origin!(desk, congestions)(&desk.circumstances(setup), &found);
    Ok(desk.answer(setup, report, finding))
}

fn control_words(control: Control) -> &'static str {
    match control {
        Control::Drops => "drops what the port cannot send",
        Control::BackPressure => "back pressure",
        Control::NotCongested => "the port was not congested",
    }
}

/// RFC 2889 section 5.5.
fn congestions<K: Origin>(how: &Circumstances, found: &[(Sizes, congested::Found)]) -> Report {
    let words = found.iter().map(|(size, f)| {
        let blocked = match f.is_blocked() {
            true => "HEAD OF LINE BLOCKING",
            false if f.was_sent() => "no blocking",
            false => return format!("no frame was sent to one of the ports at {size}"),
        };
        format!("{blocked}, {} at {size}", control_words(f.control))
    });
    let words: Vec<_> = words.collect();
    let mut report = how.report(
        "Congestion control",
        "Does a congested port hold up another (RFC 2889 section 5.5)?",
        format!("{}.", words.join("; ")),
    );
    let rows: Vec<(&Sizes, &str, Share, &congested::Found)> = found
        .iter()
        .flat_map(|(size, f)| {
            [(size, "uncongested", f.uncongested, f), (size, "congested", f.congested, f)]
        })
        .collect();
    let count =
        |f: fn(&Share) -> u64| rows.iter().map(|r| number::<K>(f(&r.2) as f64)).collect::<Vec<_>>();
    let loss = |s: &Share| 100.0 * s.lost as f64 / s.offered.max(1) as f64;
    let table = Table::new("congestion", "What became of the frames for each port")
        .column(Column::words("frame", rows.iter().map(|r| r.0.to_string())))
        .column(Column::words("port", rows.iter().map(|r| r.1)))
        .column(Column::settings("source's load", "frames/s", rows.iter().map(|r| pps(r.3.load))).decimals(0))
        .column(Column::numbers("offered", "frames", count(|s| s.offered)).decimals(0))
        .column(Column::numbers("received", "frames", count(|s| s.received)).decimals(0))
        .column(Column::numbers("lost", "frames", count(|s| s.lost)).decimals(0))
        .column(Column::numbers("not sent", "frames", count(|s| s.intended - s.offered)).decimals(0))
        .column(Column::numbers("loss", "%", rows.iter().map(|r| number::<K>(loss(&r.2)))).decimals(2))
        .column(Column::findings::<K>("control", rows.iter().map(|r| control_words(r.3.control))))
        .note(
            "The congested port gets one and a half times what a source sends. Frames lost for the \
             uncongested one are blocked behind those for the other; without any loss, sources that \
             could not send all were held back.",
        );
    let bars = |name: &str, f: fn(&congested::Found) -> Share| {
        let points = found.iter().map(|(size, found)| {
            let share = f(found);
            (size.mean(), number::<K>(100.0 * share.received as f64 / share.offered.max(1) as f64))
        });
        Series::new(name, Shape::Points, points.collect::<Vec<_>>())
    };
    let axes = [Axis::new("frame", "octets"), Axis::new("forwarded", "%").from_zero()];
    let series = vec![bars("uncongested", |f| f.uncongested), bars("congested", |f| f.congested)];
    let figure = Figure::xy("congestion", "Share of the frames that arrived", axes, series);
    report.sections.push(Section::new("Result").table(table).figure(figure));
    report.sections.push(how.section(&[]));
    report
}
