//! Throughput over sending speed and packet size.

use super::super::bench::Way;
use super::super::live::{Live, Load};
use super::super::model::{FIXED, FULL, Model, OCTETS, SIZES};
use super::super::network::System;
use super::super::published::Study;
use super::{carried, keyed, measured, rows};
use ferrule_lab::Profile;
use ferrule_report::{
    Axis, Column, Derived, Figure, Live as LiveNumber, Model as ModelNumber, Published, Section,
    Series, Shape, Table,
};

/// The load at the highest speed.
fn fastest(loads: &[Load]) -> Option<&Load> {
    loads.iter().max_by(|a, b| a.offered_mbps.total_cmp(&b.offered_mbps))
}

/// Table 2 and figure 6.
pub fn speeds(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let printed = rows().into_iter().map(|(system, way)| match way {
        Way::Out => Ok(Published::from(100.0 * study.result_of(system).throughput_share)),
        Way::In => Err("not measured"),
    });
    let printed = Column::results("throughput", "%", printed);
    let share = rows().into_iter().map(|(system, way)| 100.0 * model.share(system, way));
    let found = Column::numbers("throughput", "%", share.map(ModelNumber::from)).decimals(1);
    let lived = rows().into_iter().map(|(system, way)| {
        let load = super::found(live, (Some(system), way), |sweep| fastest(&sweep.speeds))?;
        Ok::<_, String>(LiveNumber::from(100.0 * load.share()))
    });
    let lived = Column::results("throughput", "%", lived);
    let table = keyed(Table::new("throughput", "Table 2: throughput at the highest sending speed"))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed))
        .column(lived.decimals(1))
        .note(format!(
            "Of {FULL} Mbit/s in frames of {OCTETS} bytes, which is what the study's offload \
             engine sends; the study says close to 100 % for inline. It measured sending alone. \
             Live the systems are nodes of this machine, whose processor is another one."
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
        let at = |load: &Load| (load.offered_mbps, load.share() * load.offered_mbps);
        series.extend(measured(live, system, |sweep| &sweep.speeds, at));
    }
    let axes = [
        Axis::new("sending speed", "Mbit/s").from_zero(),
        Axis::new("throughput", "Mbit/s").from_zero(),
    ];
    let figure = Figure::xy("figure-6", "Figure 6: throughput by sending speed", axes, series)
        .caption("Sending. The study plots this figure and prints the shares of table 2 alone.");
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
