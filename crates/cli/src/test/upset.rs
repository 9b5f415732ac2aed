//! Tests that upset a device: more load than it can carry, and a reset.

use super::args::{self, Loads, Operations};
use super::bench::{Instrument, ResetBy};
use super::desk::{Desk, by_size, carries, failed, wrong};
use super::document::Circumstances;
use super::searches::{by_origin, settings};
use super::tables::{frames, number, pps};
use super::{Answer, Setup};
use ferrule_daemon::Fault;
use ferrule_report::{
    Axis, Column, Figure, Measure, Origin, Report, Section, Series, Shape, Table,
};
use ferrule_tester::search::recovery::{self, Recovery, recovery as recovery_search};
use ferrule_tester::search::reset::{self, reset as reset_search};
use ferrule_tester::search::throughput::throughput as rate_search;
use ferrule_tester::{Bench, BenchError, Plan, Rate, Sizes};
use std::time::Duration;

/// Time for which a device is overloaded, and for which it may recover.
#[derive(Clone, Copy)]
pub struct Times {
    /// Overloaded.
    pub overload: Duration,
    /// Watched afterwards.
    pub after: Duration,
}

impl Times {
    /// The times given, or else the usual ones.
    pub fn of(times: &args::Times, overload: Option<Duration>, after: Option<Duration>) -> Self {
        let (usual, quick) = (Duration::from_secs(5), Duration::from_secs(1));
        Self {
            overload: times.preset(overload, usual, quick),
            after: times.preset(after, usual, quick),
        }
    }
}

/// Traffic to forward: an operation's name, and its streams.
fn forwarded(plan: &Plan, operations: &Operations) -> Vec<(&'static str, Plan)> {
    let all = operations.all();
    if all.is_empty() {
        return vec![("as it is", plan.clone())];
    }
    let of = |o: &ferrule_tester::search::mpls::Operation| {
        let streams = plan.streams.iter().map(|s| o.stream(s)).collect();
        (o.name(), Plan { streams, line: plan.line })
    };
    all.iter().map(of).collect()
}

/// By operation: the throughput, and what was found there.
type Recoveries = Vec<(&'static str, Option<(u64, recovery::Found)>)>;

/// System recovery.
pub fn recovery(
    setup: &Setup,
    loads: &Loads,
    operations: &Operations,
    throughput: Option<u64>,
    times: Times,
    repeats: Option<u16>,
) -> Result<Answer, Fault> {
    let repeats = setup.times.preset(repeats, 3, 1);
    let search = settings(setup, loads.range(&setup.times)?, None);
    let timing = setup.times.of(times.overload + times.after);
    let count = operations.all().len().max(1) as u32;
    let time = |plan: &Plan| {
        let searched = if throughput.is_none() { search.time(plan) } else { Duration::ZERO };
        (searched + timing.sending() * u32::from(repeats)) * count
    };
    let asked =
        [("--throughput", throughput), ("--min", throughput.is_none().then_some(loads.min))];
    let (desk, found) = by_size(setup, &asked, time, |work, name, plan| {
        let mut found: Recoveries = Vec::new();
        for (operation, plan) in forwarded(plan, operations) {
            let name = format!("{name}, {operation}");
            let load = match throughput {
                Some(load) => Some(load),
                None => rate_search(work, &name, &plan, &search)?.load,
            };
            let Some(load) = load else {
                found.push((operation, None));
                continue;
            };
            let settings = Recovery {
                throughput: load,
                // An overload goes beyond the limit of the search.
                range: ferrule_tester::search::Range { max: None, ..search.range },
                timing,
                overload: times.overload,
                repeats: repeats.into(),
            };
            let one = recovery_search(work, &format!("{name}, recovery"), &plan, &settings)?;
            found.push((operation, Some((load, one))));
        }
        Ok(found)
    })?;
    let bad = |f: &Option<(u64, recovery::Found)>| f.as_ref().is_none_or(|f| !f.1.recovers());
    let finding = found.iter().any(|f| f.1.iter().any(|f| bad(&f.1)));
    let report = by_origin!(desk, recoveries)(&desk.circumstances(setup), &found, times);
    Ok(desk.answer(setup, report, finding))
}

fn recovery_words(found: &recovery::Found) -> String {
    match &found.summary {
        _ if !found.was_sent() => "no frame was sent in one of the phases".into(),
        _ if !found.recovers() => "not recovered at the end".into(),
        _ if !found.was_overloaded() => "not overloaded: no frame was lost".into(),
        Some(summary) => format!("{:.3} ms", summary.mean * 1e3),
        None => "none".into(),
    }
}

/// A size, an operation, and what was found at its throughput.
type Row<'a> = (&'a Sizes, &'a str, &'a Option<(u64, recovery::Found)>);

/// RFC 2544 section 26.5, RFC 5695 section 6.4.
fn recoveries<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Recoveries)],
    times: Times,
) -> Report {
    let rows: Vec<Row<'_>> =
        found.iter().flat_map(|(s, f)| f.iter().map(move |f| (s, f.0, &f.1))).collect();
    let words = rows.iter().map(|(size, operation, f)| {
        let said = f.as_ref().map_or("no throughput".into(), |f| recovery_words(&f.1));
        if *operation == "as it is" {
            format!("{said} ({size})")
        } else {
            format!("{operation} {said} ({size})")
        }
    });
    let words: Vec<_> = words.collect();
    let mut report = how.report(
        "System recovery",
        "How long are frames lost after an overload (RFC 2544 section 26.5, RFC 5695 section 6.4)?",
        format!("Recovery: {}.", words.join("; ")),
    );
    let table = recovery_table::<K>(&rows);
    let points = rows.iter().filter_map(|(size, operation, f)| {
        let trials = f.as_ref()?.1.trials.iter().enumerate();
        let points = trials
            .filter_map(|(i, t)| Some(((i + 1) as f64, number::<K>(t.time?.as_secs_f64() * 1e3))));
        let points: Vec<_> = points.collect();
        Some(Series::new(format!("{operation} {size}"), Shape::Points, points))
    });
    let axes = [Axis::new("trial", ""), Axis::new("recovery", "ms").from_zero()];
    let figure = Figure::xy("recovery-trials", "Each trial", axes, points.collect());
    report.sections.push(Section::new("Result").table(table).figure(figure));
    let phases = format!(
        "Overloaded for {:?} at 110 % of the throughput (no more than the line carries), then half \
         of that for {:?}.",
        times.overload, times.after
    );
    report.sections.push(how.section(&[&phases]));
    report
}

/// Recovery times with what was lost.
fn recovery_table<K: Origin>(rows: &[Row<'_>]) -> Table {
    let load = |f: fn(&(u64, recovery::Found)) -> u64| {
        let each =
            rows.iter().map(move |r| r.2.as_ref().map(|r| number::<K>(pps(f(r)))).ok_or("none"));
        each.collect::<Vec<_>>()
    };
    let sum = |f: fn(&recovery::Recovered) -> u64| {
        let each = rows.iter().map(move |r| {
            let found = r.2.as_ref().ok_or("none")?;
            Ok::<_, &str>(number::<K>(found.1.trials.iter().map(f).sum::<u64>() as f64))
        });
        each.collect::<Vec<_>>()
    };
    let time = rows.iter().map(|r| match r.2 {
        Some((_, f)) if !f.was_sent() => Err("no frame sent"),
        Some((_, f)) if !f.recovers() => Err("not recovered"),
        Some((_, f)) if !f.was_overloaded() => Err("not overloaded"),
        Some((_, f)) => f.summary.as_ref().ok_or("none").map(|s| {
            let ms = |secs: f64| secs * 1e3;
            K::from(match s.mean_95 {
                Some((low, high)) => Measure::within(ms(s.mean), ms(low), ms(high)),
                None => Measure::new(ms(s.mean)),
            })
        }),
        None => Err("no throughput"),
    });
    Table::new("recovery", "Recovery by frame size")
        .column(Column::words("operation", rows.iter().map(|r| r.1)))
        .column(Column::words("frame", rows.iter().map(|r| r.0.to_string())))
        .column(Column::results("throughput", "frames/s", load(|f| f.0)).decimals(0))
        .column(Column::results("overload", "frames/s", load(|f| f.1.overload)).decimals(0))
        .column(Column::results("afterwards", "frames/s", load(|f| f.1.rest)).decimals(0))
        .column(Column::results("lost overloaded", "frames", sum(|t| t.lost_overloaded)).decimals(0))
        .column(Column::results("lost afterwards", "frames", sum(|t| t.lost_after)).decimals(0))
        .column(Column::results("recovery", "ms", time).decimals(3))
        .note(
            "From the fall of the load to the time at which the last lost frame should have left; \
             mean over the trials with its 95 % interval (Student's t). Frames are those of all trials.",
        )
}

/// Kind of reset that the command line asks for; nothing: a reset by hand.
pub fn by(
    command: Option<&String>,
    by_hand: bool,
    node: Option<&String>,
    down: Duration,
) -> Result<Option<ResetBy>, Fault> {
    match (command, node) {
        (Some(command), _) => Ok(Some(ResetBy::Command(command.clone()))),
        (None, Some(name)) => Ok(Some(ResetBy::Node { name: name.clone(), down })),
        (None, None) if by_hand => Ok(None),
        (None, None) => Err(wrong(
            "nothing is said of what resets the device",
            "give --command or --by-hand; in the lab, --node",
        )),
    }
}

/// By operation: what was found at a load, if there was one.
type Resets = Vec<(&'static str, Option<reset::Found>)>;

/// Reset.
pub fn reset(
    setup: &Setup,
    loads: &Loads,
    operations: &Operations,
    at: Option<u64>,
    by: Option<&ResetBy>,
) -> Result<Answer, Fault> {
    let sizes = setup.frames.sizes();
    let size = sizes.iter().min_by_key(|s| s.max()).cloned().unwrap_or(Sizes::Fixed(64));
    let mut desk = Desk::open(setup, size.max())?;
    by.map_or(Ok(()), |by| desk.bench.reset_by(by))?;
    let (search, timing) =
        (settings(setup, loads.range(&setup.times)?, None), setup.times.timing());
    let when = by.map(|_| timing.duration / 5);
    let plan = desk.plan.sized(&size);
    plan.at(Rate::frames(1)).check().map_err(|fault| failed(fault.into()))?;
    carries(&plan, &[("--at", at), ("--min", at.is_none().then_some(loads.min))])?;
    let mut found: Resets = Vec::new();
    let all = forwarded(&plan, operations);
    let searched = if at.is_none() { search.time(&plan) } else { Duration::ZERO };
    desk.bench.outlook.foretell(searched + timing.sending(), Desk::pieces(setup, all.len()));
    for (piece, (operation, plan)) in all.into_iter().enumerate() {
        if !desk.begins(setup, piece) {
            continue;
        }
        let one = desk.work(|work, _| {
            let load = match at {
                Some(load) => Some(load),
                None => rate_search(work, operation, &plan, &search)?.load,
            };
            let Some(load) = load else { return Ok(None) };
            if when.is_none() && setup.results.again.is_none() {
                eprintln!("reset the device now: frames are sent for {:?}", timing.duration);
            }
            let part = (timing.duration / 200).max(Duration::from_millis(1));
            let timing = ferrule_tester::Timing { interval: Some(part), ..timing };
            reset_search(work, "reset", &plan, timing, load, when).map(Some)
        })?;
        found.extend(one.map(|one| (operation, one)));
        desk.bench.outlook.piece_is_done();
    }
    if found.is_empty() && desk.is_stopped() {
        return Err(failed(BenchError::Stopped));
    }
    let good = |f: &Option<reset::Found>| f.as_ref().is_some_and(|f| f.is_back && f.was_reset());
    let finding = found.iter().any(|f| !good(&f.1));
    let report = by_origin!(desk, resets)(&desk.circumstances(setup), &found, &size);
    Ok(desk.answer(setup, report, finding))
}

fn reset_words(found: &reset::Found) -> String {
    match found.by_time {
        Some(time) => format!("{:.3} ms", time.as_secs_f64() * 1e3),
        None if found.offered == 0 => "no frame was sent".into(),
        None if !found.was_reset() => "no frame was lost: it was not reset".into(),
        None => "no frame came any more: the trial was too short".into(),
    }
}

/// RFC 6201, RFC 5695 section 6.5.
fn resets<K: Origin>(how: &Circumstances, found: &Resets, size: &Sizes) -> Report {
    let words = found.iter().map(|(operation, f)| {
        let said = f.as_ref().map_or("no load without loss".into(), reset_words);
        if *operation == "as it is" { said } else { format!("{operation} {said}") }
    });
    let words: Vec<_> = words.collect();
    let mut report = how.report(
        "Reset",
        "How long does the device not forward when it is reset (RFC 6201, RFC 5695 section 6.5)?",
        format!("Reset time with frames of {size}: {}.", words.join("; ")),
    );
    let value = |f: &dyn Fn(&reset::Found) -> Option<f64>| {
        let each = found.iter().map(|r| {
            let found = r.1.as_ref().ok_or("no load")?;
            let why = match found.offered {
                0 => "no frame sent",
                _ if found.was_reset() => "not back",
                _ => "not reset",
            };
            f(found).map(number::<K>).ok_or(why)
        });
        each.collect::<Vec<_>>()
    };
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let table = Table::new("reset", "Reset time")
        .column(Column::words("operation", found.iter().map(|f| f.0)))
        .column(Column::results("load", "frames/s", value(&|f| Some(pps(f.load)))).decimals(0))
        .column(Column::results("offered", "frames", value(&|f| Some(f.offered as f64))).decimals(0))
        .column(Column::results("lost", "frames", value(&|f| Some(f.lost as f64))).decimals(0))
        .column(Column::results("by time stamps", "ms", value(&|f| f.by_time.map(ms))).decimals(3))
        .column(Column::results("by loss", "ms", value(&|f| f.by_loss.map(ms))).decimals(3))
        .note(
            "By time stamps: from the last frame before the outage to the first behind it. By loss: \
             the lost frames' share of time (RFC 6201 section 4.3).",
        );
    let series = found.iter().filter_map(|(operation, f)| {
        let result = &f.as_ref()?.result;
        let parts = result.intervals.len().max(1);
        let secs = result.duration.as_secs_f64() / parts as f64;
        let points = result.intervals.iter().enumerate();
        let points = points.map(|(i, p)| (i as f64 * secs, number::<K>(p.received as f64 / secs)));
        Some(Series::new(*operation, Shape::Step, points.collect::<Vec<_>>()))
    });
    let axes = [Axis::new("time", "s").from_zero(), Axis::new("forwarded", "frames/s").from_zero()];
    let figure = Figure::xy(
        "reset-time",
        "Frames forwarded, by when they were sent",
        axes,
        series.collect(),
    );
    report.sections.push(Section::new("Result").table(table).figure(figure));
    let load = found.iter().find_map(|f| f.1.as_ref()).map_or(0.0, |f| pps(f.load));
    let sent = format!("Frames of {size} at {} while the device is reset.", frames(load));
    report.sections.push(how.section(&[&sent]));
    report
}
