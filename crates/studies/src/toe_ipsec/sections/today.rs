//! Expectations of today's machines, beside measurements on the machine at hand.

use super::super::live::{Cost, Engines, Live, Point};
use super::super::published::Study;
use ferrule_report::{Axis, Column, Figure, Live as LiveNumber, Section, Series, Shape, Table};

/// Section on today's machines: expectations, and the engines measured.
pub fn today(study: &Study, live: &Result<Live, String>) -> Section {
    let mut section = Section::new("Today: software against look-aside on this machine");
    for note in &study.expectation {
        section = section.text(format!("Expected, and no claim of the study: {}.", note.text));
    }
    let live = match live {
        Ok(live) => live,
        Err(why) => return section.text(format!("Live: {why}.")),
    };
    let mut section = section.text(live.note.clone());
    for engines in &live.engines {
        let id = match engines.suite.split_once(' ') {
            Some(_) => "-study",
            None => "",
        };
        section = section
            .table(costs(engines, id))
            .table(crossover(engines, id))
            .figure(figure(engines, id));
    }
    section
}

/// Cost of a packet in software and by look-aside.
fn costs(engines: &Engines, id: &str) -> Table {
    let points = &engines.points;
    let of = |f: &dyn Fn(&Point) -> f64| {
        points.iter().map(|point| LiveNumber::from(f(point))).collect::<Vec<_>>()
    };
    Table::new(format!("today{id}"), format!("{}, from memory to memory", engines.suite))
        .column(Column::settings("packet", "B", points.iter().map(|p| p.octets as f64)))
        .column(Column::settings("batch", "", points.iter().map(|p| p.batch as f64)))
        .column(Column::numbers("software", "Mpps", of(&|p| p.software.mpps)).decimals(2))
        .column(Column::numbers("look-aside", "Mpps", of(&|p| p.look_aside.mpps)).decimals(2))
        .column(Column::numbers("software", "cycles", of(&|p| p.software.host_cycles)).decimals(0))
        .column(
            Column::numbers("look-aside", "cycles", of(&|p| p.look_aside.host_cycles)).decimals(0),
        )
        .column(Column::numbers("software", "µs", of(&|p| p.software.latency_us)).decimals(1))
        .column(Column::numbers("look-aside", "µs", of(&|p| p.look_aside.latency_us)).decimals(1))
        .note(
            "Cycles of the host's core for each packet; microseconds from submission to return. \
             Look-aside: a queue pair to a thread on another core that runs the same kernels.",
        )
}

/// From which size on look-aside is ahead.
fn crossover(engines: &Engines, id: &str) -> Table {
    let batches = engines.batches();
    let at = |f: fn(&Cost) -> f64| {
        let each = batches.iter().map(move |batch| match engines.crossover(*batch, f) {
            _ if !engines.is_steady(*batch) => Err("undecided"),
            Some(octets) => Ok(LiveNumber::from(octets as f64)),
            None => Err("never"),
        });
        each.collect::<Vec<_>>()
    };
    let title = format!("{}: from which size on look-aside is ahead", engines.suite);
    Table::new(format!("crossover{id}"), title)
        .column(Column::settings("batch", "", batches.iter().map(|batch| *batch as f64)))
        .column(Column::results("in host cycles", "B", at(|cost| cost.host_ns)))
        .column(Column::results("in throughput", "B", at(|cost| -cost.mpps)))
        .column(Column::results("in latency", "B", at(|cost| cost.latency_us)))
        .note(
            "Below, a core with vector AES is faster than the way to another one and back. \
             Undecided: look-aside's times differ a hundredfold between sizes, as the other core \
             slept or had other work.",
        )
}

/// Host cycles by size.
fn figure(engines: &Engines, id: &str) -> Figure {
    let (points, batches) = (&engines.points, engines.batches());
    let line = |name: &str, f: fn(&Point) -> &Cost| {
        let most = batches.last().copied().unwrap_or(1);
        let at = points.iter().filter(move |point| point.batch == most);
        let at = at.map(move |point| (point.octets as f64, LiveNumber::from(f(point).host_cycles)));
        Series::new(name, Shape::Line, at)
    };
    let series = vec![line("software", |p| &p.software), line("look-aside", |p| &p.look_aside)];
    let axes = [Axis::new("packet", "bytes").log(), Axis::new("host", "cycles").from_zero()];
    let title = format!("{}: host cycles of a packet by its size", engines.suite);
    Figure::xy(format!("today{id}"), title, axes, series).caption("In the largest batches.")
}
