//! The three systems as nodes of the machine at hand.

use super::super::bench::Way;
use super::super::live::{FIXED, Live, Load, Sweep};
use super::super::model::OCTETS;
use super::super::network::System;
use ferrule_report::{Axis, Column, Figure, Live as LiveNumber, Section, Series, Shape, Table};

/// Name of a system in this section.
fn name(system: Option<System>) -> &'static str {
    system.map_or("nothing sealed", System::key)
}

/// Throughput, latency and host cycles of every system.
pub fn machine(live: &Result<Live, String>) -> Section {
    let section = Section::new("The three systems as nodes of this machine").text(
        "Live alone: two gateways, a process each, on veth pairs in a network namespace of their \
         own, the tester at both ends. The first one has its crypto in its worker's loop, in a \
         thread of its own behind a queue pair that copies, or in a card in its port; the last \
         system seals nothing. The far one is software.",
    );
    let nodes = live.as_ref().map_err(Clone::clone).and_then(|live| {
        let nodes = live.nodes.as_ref().map_err(Clone::clone)?;
        Ok((nodes, live.gigahertz))
    });
    let (sweeps, gigahertz) = match nodes {
        Ok(nodes) => nodes,
        Err(why) => return section.text(format!("Live: {why}.")),
    };
    let speeds = |sweep: &Sweep| sweep.speeds.clone();
    let sizes = |sweep: &Sweep| sweep.sizes.clone();
    let mbps = |load: &Load| (load.offered_mbps, "offered", "Mbit/s");
    let octets = |load: &Load| (load.octets as f64, "frame", "B");
    let by_speed = format!("By sending speed, frames of {OCTETS} bytes");
    let by_size = format!("By size of frame, {FIXED} Mbit/s of the line");
    section
        .table(table("speeds-live", &by_speed, sweeps, gigahertz, speeds, mbps))
        .table(table("sizes-live", &by_size, sweeps, gigahertz, sizes, octets))
        .figure(arrives(sweeps))
        .figure(cycles(sweeps, gigahertz))
        .figure(latency(sweeps))
}

/// One row for each system, way and load.
fn table(
    id: &str,
    title: &str,
    sweeps: &[Sweep],
    gigahertz: f64,
    of: fn(&Sweep) -> Vec<Load>,
    at: fn(&Load) -> (f64, &'static str, &'static str),
) -> Table {
    let mut rows: Vec<(&Sweep, Load)> = Vec::new();
    for sweep in sweeps {
        let mut loads = of(sweep);
        loads.sort_by(|a, b| at(a).0.total_cmp(&at(b).0));
        rows.extend(loads.into_iter().map(|load| (sweep, load)));
    }
    let (_, head, unit) = rows.first().map_or((0.0, "", ""), |(_, load)| at(load));
    let shown = |f: &dyn Fn(&Load) -> f64| {
        let each = rows.iter().map(|(_, load)| match load.was_offered() {
            true => Ok(LiveNumber::from(f(load))),
            false => Err("tester too slow"),
        });
        each.collect::<Vec<_>>()
    };
    Table::new(id, title)
        .column(Column::words("system", rows.iter().map(|(sweep, _)| name(sweep.system))))
        .column(Column::words("way", rows.iter().map(|(sweep, _)| sweep.way.name())))
        .column(Column::settings(head, unit, rows.iter().map(|(_, load)| at(load).0)))
        .column(Column::results("arrived", "%", shown(&|load| 100.0 * load.share())).decimals(1))
        .column(Column::results("latency", "µs", shown(&|load| load.median_us)).decimals(0))
        .column(
            Column::results("host", "cycles", shown(&|load| load.host_ns * gigahertz)).decimals(0),
        )
        .note(
            "Latency: the median through both nodes. Host: what the first node's worker was on a \
             core for each frame that arrived, its system calls and its looking for work \
             included. The card's work is in it for inline, since the same thread does it here; \
             what the stack above a card does is what a node without crypto does, the last rows. \
             Tester and nodes share this machine's cores.",
        )
}

fn arrives(sweeps: &[Sweep]) -> Figure {
    let series = sending(sweeps).map(|sweep| {
        let loads = sweep.sizes.iter().filter(|load| load.was_offered());
        let points = loads.map(|load| (load.octets as f64, 100.0 * load.share()));
        let points = points.map(|(x, y)| (x, LiveNumber::from(y)));
        Series::new(name(sweep.system), Shape::Line, points)
    });
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("arrives", "%").from_zero()];
    Figure::xy("figure-7-live", "Figure 7 on this machine", axes, series.collect())
        .caption(format!("Sending, {FIXED} Mbit/s of the line: slower than the model's sweep."))
}

fn cycles(sweeps: &[Sweep], gigahertz: f64) -> Figure {
    let series = sending(sweeps).map(|sweep| {
        let loads = sweep.sizes.iter().filter(|load| load.was_offered());
        let points = loads.map(|load| (load.octets as f64, load.host_ns * gigahertz));
        let points = points.map(|(x, y)| (x, LiveNumber::from(y)));
        Series::new(name(sweep.system), Shape::Line, points)
    });
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("host", "cycles").from_zero()];
    Figure::xy("cycles", "Host cycles of a frame by its size", axes, series.collect())
        .caption("Sending. Where a node has less to do it looks for work in vain for longer.")
}

fn latency(sweeps: &[Sweep]) -> Figure {
    let series = sending(sweeps).map(|sweep| {
        let loads = sweep.speeds.iter().filter(|load| load.was_offered());
        let points = loads.map(|load| (load.offered_mbps, LiveNumber::from(load.median_us)));
        Series::new(name(sweep.system), Shape::Line, points)
    });
    let axes = [Axis::new("sending speed", "Mbit/s"), Axis::new("latency", "µs").log()];
    Figure::xy("latency-live", "Latency by sending speed on this machine", axes, series.collect())
        .caption("Sending, the median.")
}

fn sending(sweeps: &[Sweep]) -> impl Iterator<Item = &Sweep> {
    sweeps.iter().filter(|sweep| sweep.way == Way::Out)
}
