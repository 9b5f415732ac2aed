//! The report's parts: tables and figures.

use super::bench::{Point, Way};
use super::bus::Bus;
use super::live::{Cost, Live};
use super::model::{FIXED, FULL, Model, OCTETS, SIZES, SPEEDS};
use super::network::System;
use super::published::Study;
use ferrule_lab::Profile;
use ferrule_report::{
    Axis, Column, Derived, Figure, Live as LiveNumber, Model as ModelNumber, Published, Section,
    Series, Shape, Table,
};

/// Every system, each way.
fn rows() -> Vec<(System, Way)> {
    let each = System::ALL.into_iter();
    each.flat_map(|system| Way::ALL.into_iter().map(move |way| (system, way))).collect()
}

/// The two columns that say which row it is.
fn keyed(table: Table) -> Table {
    table
        .column(Column::words("system", rows().into_iter().map(|(system, _)| system.key())))
        .column(Column::words("way", rows().into_iter().map(|(_, way)| way.name())))
}

fn carried(point: &Point) -> f64 {
    point.share * point.offered_mbps
}

/// Table 2 and figure 6.
pub fn speeds(study: &Study, model: &Model) -> Section {
    let printed = rows().into_iter().map(|(system, way)| match way {
        Way::Out => Ok(Published::from(100.0 * study.result_of(system).throughput_share)),
        Way::In => Err("not measured"),
    });
    let printed = Column::results("throughput", "%", printed);
    let share = rows().into_iter().map(|(system, way)| 100.0 * model.share(system, way));
    let found = Column::numbers("throughput", "%", share.map(ModelNumber::from)).decimals(1);
    let table = keyed(Table::new("throughput", "Table 2: throughput at the highest sending speed"))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed))
        .note(format!(
            "Of {FULL} Mbit/s in frames of {OCTETS} bytes, which is what the study's offload \
             engine sends; the study says close to 100 % for inline. It measured sending alone."
        ));
    let mut series = Vec::new();
    for system in System::ALL {
        let Some(curve) = model.curve(system, Way::Out) else { continue };
        let points = curve.speeds.iter();
        let points = points.map(|p| (p.offered_mbps, ModelNumber::from(carried(p))));
        series.push(Series::new(system.key(), Shape::Line, points));
        let share = study.result_of(system).throughput_share;
        series.push(Series::new(
            system.key(),
            Shape::Points,
            [(FULL, Published::from(share * FULL))],
        ));
    }
    let axes = [
        Axis::new("sending speed", "Mbit/s").from_zero(),
        Axis::new("throughput", "Mbit/s").from_zero(),
    ];
    let figure = Figure::xy("figure-6", "Figure 6: throughput by sending speed", axes, series)
        .caption(
            "Sending. The study plots this figure and prints the shares of table 2 alone: open \
             circles.",
        );
    Section::new("Throughput by sending speed").table(table).figure(figure).table(profiles())
}

/// The devices.
fn profiles() -> Table {
    let devices = System::ALL.map(System::device);
    let fitted = |profile: &Profile| match profile.free.as_slice() {
        [] => "nothing".to_owned(),
        free => free
            .iter()
            .filter_map(|path| {
                let key = ferrule_lab::profile::Key::find(path)?;
                let value = ferrule_report::shown((key.get)(profile));
                Some(format!("{path} {value} {}", key.unit))
            })
            .collect::<Vec<_>>()
            .join(", "),
    };
    let with = |of: fn(&Profile) -> f64| devices.each_ref().map(|d| Derived::from(of(d)));
    Table::new("profiles", "The device profiles and how well they fit")
        .column(Column::words("profile", devices.each_ref().map(|d| d.name.clone())))
        .column(Column::words("what was fitted", devices.each_ref().map(fitted)))
        .column(Column::numbers("free", "", with(|d| d.free.len() as f64)))
        .column(Column::numbers("values", "", with(|d| d.fit.points as f64)))
        .column(Column::numbers("error", "%", with(|d| d.fit.error_percent)).decimals(1))
        .column(Column::numbers("left out", "%", with(|d| d.fit.leave_one_out_percent)).decimals(1))
        .note(
            "Each is fitted to a throughput of table 2. The other value is the overhead that \
             table 2 prints beside it (760 % for crypto, up to 100 % for processing): left out, \
             predicted, and far off, since 8 and 2 times are not what was measured.",
        )
}

/// Figure 7.
pub fn sizes(model: &Model) -> Section {
    let mut table = keyed(Table::new("sizes", "Figure 7: share that arrives, by size of frame"));
    for (at, octets) in SIZES.into_iter().enumerate() {
        let shares = rows().into_iter().map(|(system, way)| {
            let point = model.curve(system, way).and_then(|curve| curve.sizes.get(at));
            ModelNumber::from(100.0 * point.map_or(f64::NAN, |point| point.share))
        });
        table = table.column(Column::numbers(format!("{octets} B"), "%", shares).decimals(1));
    }
    let table = table.note(
        "The study plots this figure and prints no numbers. With a cost for each crossing beside \
         its bytes it is small packets that suffer: that look-aside falls behind as packets grow \
         cannot come from the bus.",
    );
    let series = System::ALL.into_iter().filter_map(|system| {
        let points = model.curve(system, Way::Out)?.sizes.iter();
        let points = points.map(|p| (p.octets as f64, ModelNumber::from(100.0 * p.share)));
        Some(Series::new(system.key(), Shape::Line, points))
    });
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("arrives", "%").from_zero()];
    let title = "Figure 7: share that arrives by size of frame";
    Section::new("Throughput by packet size")
        .text(format!("Frames of one size at {FIXED} Mbit/s of the line."))
        .table(table)
        .figure(Figure::xy("figure-7", title, axes, series.collect()).caption("Sending."))
}

/// Latency and host time, which the study did not measure.
pub fn costs(study: &Study, model: &Model) -> Section {
    let at = |system, way| model.curve(system, way).and_then(|curve| curve.speeds.first());
    let first = |of: fn(&Point) -> f64| {
        let each = rows()
            .into_iter()
            .map(move |(system, way)| ModelNumber::from(at(system, way).map_or(f64::NAN, of)));
        each.collect::<Vec<_>>()
    };
    let overhead = rows().into_iter().map(|(system, way)| {
        let line = study.result_of(system);
        match way {
            Way::Out => Ok(Published::from(
                line.crypto_overhead_percent + line.packet_processing_overhead_percent,
            )),
            Way::In => Err("not measured"),
        }
    });
    // Beside the packet's own time on the line, as the study counts.
    let line_us = (OCTETS + 20) as f64 * 8.0 / FULL;
    let away = |system: System| {
        let speed = system.device().look_aside;
        let bus = Bus { bits: speed.bus_bits, mhz: speed.bus_mhz, crossings: speed.crossings };
        match system {
            System::LookAside => {
                bus.time_us(OCTETS as f64) + speed.crossings * speed.bus_latency_ns / 1000.0
            }
            _ => 0.0,
        }
    };
    let bus = rows().into_iter().map(|(system, _)| Derived::from(away(system)));
    let found = rows().into_iter().map(|(system, way)| {
        let host = at(system, way).map_or(f64::NAN, |point| point.host_us);
        Derived::from(100.0 * (host + away(system)) / line_us)
    });
    let table = keyed(Table::new("costs", "Latency and host time of a packet"))
        .column(Column::numbers("latency", "µs", first(|point| point.mean_us)).decimals(1))
        .column(Column::numbers("host", "µs", first(|point| point.host_us)).decimals(1))
        .column(Column::numbers("bus", "µs", bus).decimals(1))
        .column(Column::results("overhead", "%", overhead))
        .column(Column::numbers("of the line's time", "%", found).decimals(0))
        .note(format!(
            "At {} Mbit/s in frames of {OCTETS} bytes, where nobody waits. Host and bus: what a \
             packet occupies of them. The printed overheads are against inline; beside them \
             stands what a packet occupies of host and bus, in per cent of its time on the line at \
             {FULL} Mbit/s.",
            SPEEDS[0]
        ));
    let series = System::ALL.into_iter().filter_map(|system| {
        let points = model.curve(system, Way::Out)?.speeds.iter();
        let points = points.map(|p| (p.offered_mbps, ModelNumber::from(p.mean_us)));
        Some(Series::new(system.key(), Shape::Line, points))
    });
    let axes = [Axis::new("sending speed", "Mbit/s"), Axis::new("latency", "µs").log()];
    let figure = Figure::xy("latency", "Latency by sending speed", axes, series.collect()).caption(
        "Of what arrives, sending. Where a system is full, what waits (64 at most) is the latency.",
    );
    Section::new("Latency and host time").table(table).figure(figure)
}

/// TCP.
pub fn streams(model: &Model) -> Section {
    let found = rows().into_iter().map(|(system, way)| {
        ModelNumber::from(model.curve(system, way).map_or(f64::NAN, |curve| curve.tcp_mbps))
    });
    let table = keyed(Table::new("tcp", "A TCP stream"))
        .column(Column::numbers("goodput", "Mbit/s", found).decimals(0))
        .note(
            "What the receiving program gets, segments of 1380 bytes. The study measured datagrams \
             alone. Acknowledgements go the other way through the same system.",
        );
    Section::new("TCP").text("Two hosts with TCP in place of the tester.").table(table)
}

/// Section IV.3.
pub fn bus(study: &Study) -> Section {
    let printed = &study.bus_model;
    let bus = Bus::of(printed);
    let sizes = [64.0, 512.0, printed.packet_bytes, 1460.0];
    let of = |f: &dyn Fn(f64) -> f64| sizes.map(|octets| Derived::from(f(octets)));
    let told = |value: f64| {
        sizes.map(|octets| match octets == printed.packet_bytes {
            true => Ok(Published::from(value)),
            false => Err("not printed"),
        })
    };
    let line = Bus::line_us;
    let table = Table::new("bus", "Section IV.3: the bus, four crossings of 32 bits at 133 MHz")
        .column(Column::settings("packet", "B", sizes))
        .column(Column::results("bus : line", "", told(1.0)))
        .column(Column::numbers("bus", "µs", of(&|o| bus.time_us(o))).decimals(2))
        .column(Column::numbers("line", "µs", of(&line)).decimals(2))
        .column(Column::numbers("bus : line", "", of(&|o| bus.time_us(o) / line(o))).decimals(2))
        .column(Column::results("share of inline", "%", told(50.0)))
        .column(
            Column::numbers(
                "one after the other",
                "%",
                of(&|o| 100.0 * line(o) / (line(o) + bus.time_us(o))),
            )
            .decimals(0),
        )
        .column(
            Column::numbers(
                "pipelined",
                "%",
                of(&|o| 100.0 * line(o) / line(o).max(bus.time_us(o))),
            )
            .decimals(0),
        )
        .note(
            "The study takes 0.94 for 1 and lets bus and line wait for each other: half of inline. \
             Stages that work at the same time wait for the slower one alone; then the bus \
             carries a gigabit at every size, and costs latency only.",
        );
    Section::new("The bus").table(table)
}

/// What one expects of today's machines.
pub fn today(live: &Result<Live, String>) -> Section {
    let section = Section::new("Today: software against look-aside on this machine");
    let live = match live {
        Ok(live) => live,
        Err(why) => return section.text(format!("Live: {why}.")),
    };
    let points = &live.points;
    let of = |f: &dyn Fn(&super::live::Point) -> f64| {
        points.iter().map(|point| LiveNumber::from(f(point))).collect::<Vec<_>>()
    };
    let table = Table::new("today", format!("{}, from memory to memory", live.suite))
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
        );
    let batches = live.batches();
    let at = |f: fn(&Cost) -> f64| {
        let each = batches.iter().map(move |batch| match live.crossover(*batch, f) {
            Some(octets) => Ok(LiveNumber::from(octets as f64)),
            None => Err("never"),
        });
        each.collect::<Vec<_>>()
    };
    let crossover = Table::new("crossover", "From which size on look-aside is ahead")
        .column(Column::settings("batch", "", batches.iter().map(|batch| *batch as f64)))
        .column(Column::results("in host cycles", "B", at(|cost| cost.host_ns)))
        .column(Column::results("in throughput", "B", at(|cost| -cost.mpps)))
        .column(Column::results("in latency", "B", at(|cost| cost.latency_us)))
        .note("Below, a core with vector AES is faster than the way to another one and back.");
    let line = |name: &str, f: fn(&super::live::Point) -> &Cost| {
        let most = batches.last().copied().unwrap_or(1);
        let at = points.iter().filter(move |point| point.batch == most);
        let at = at.map(move |point| (point.octets as f64, LiveNumber::from(f(point).host_cycles)));
        Series::new(name, Shape::Line, at)
    };
    let series = vec![line("software", |p| &p.software), line("look-aside", |p| &p.look_aside)];
    let axes = [Axis::new("packet", "bytes").log(), Axis::new("host cycles", "").from_zero()];
    let figure = Figure::xy("today", "Host cycles of a packet by its size", axes, series)
        .caption("In the largest batches.");
    section.text(live.note.clone()).table(table).table(crossover).figure(figure)
}
