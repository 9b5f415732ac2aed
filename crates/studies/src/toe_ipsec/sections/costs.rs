//! Latency, host time and TCP, which the study did not measure.

use super::super::bench::{Point, Way};
use super::super::bus::Bus;
use super::super::model::{FULL, Model, OCTETS, SPEEDS};
use super::super::network::System;
use super::super::published::{Outcome, Study};
use super::{keyed, rows};
use ferrule_report::{
    Asserted, Axis, Column, Derived, Figure, Model as ModelNumber, Section, Series, Shape, Table,
};

/// Latency and host time, which the study did not measure.
pub fn costs(study: &Study, model: &Model) -> Section {
    let at = |system, way| model.curve(system, way).and_then(|curve| curve.speeds.first());
    let first = |of: fn(&Point) -> f64| {
        let each = rows()
            .into_iter()
            .map(move |(system, way)| ModelNumber::from(at(system, way).map_or(f64::NAN, of)));
        each.collect::<Vec<_>>()
    };
    // Cited and estimated: the study measured neither, and never adds them.
    let asserted = |of: fn(&Outcome) -> f64| {
        let each = rows().into_iter().map(move |(system, way)| match way {
            Way::Out => Ok(Asserted::from(of(study.result_of(system)))),
            Way::In => Err("not said"),
        });
        each.collect::<Vec<_>>()
    };
    let crypto = asserted(|line| line.crypto_overhead_percent);
    let packets = asserted(|line| line.packet_processing_overhead_percent);
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
        .column(Column::results("crypto overhead", "%", crypto))
        .column(Column::results("packet overhead, at most", "%", packets))
        .column(Column::numbers("of the line's time", "%", found).decimals(0))
        .note(format!(
            "At {} Mbit/s in frames of {OCTETS} bytes, where nobody waits. Host and bus: what a \
             packet occupies of them. The overheads of table 2 are against inline; 760 % is cited \
             from another study, 100 % an estimate from the bus. Beside them \
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
