//! Tables and figures.

use super::fit::{Limits, is_modelled, limit_of};
use super::model::Model;
use super::network::{RATE, line_rate};
use super::nodes::{Core, LABEL, List, System};
use super::published::Study;
use crate::residuals::{self, Residual};
use ferrule_formulas::limits;
use ferrule_report::{
    Argument, Axis, Column, Curve, Derived, Figure, Fitted, Knob, Measure, Model as ModelNumber,
    Published, Section, Series, Shape, Table, by_ratio,
};

/// A system's table: where it is printed, and what it is.
fn title(system: System) -> &'static str {
    match (system.core, system.list, system.both_ways) {
        (Core::Ip, List::None, false) => "Table 1: IP, no list, one way",
        (Core::Ip, List::None, true) => "Table 1: IP, no list, both ways",
        (Core::Ip, List::In, _) => "Table 2: IP, 120 entries in",
        (Core::Ip, List::Out, _) => "Table 3: IP, 120 entries out",
        (Core::Mpls, List::None, _) => "MPLS table: no list",
        (Core::Mpls, List::Out, _) => "MPLS table: 120 entries out",
        (Core::Mpls, List::In, _) => "MPLS table: 120 entries in",
    }
}

/// The printed tables and figures.
pub fn rates(study: &Study, model: &Model) -> Section {
    let mut section = Section::new("Frames a second by size").text(
        "90 streams of frames of one size on lines of 1 Gbit/s; sizes with FCS. Without a list \
         the rate is that of frames that arrive, with one that of frames that the device takes: \
         the study prints no rate of what its lists let pass.",
    );
    for system in System::ALL {
        section = section.table(table(study, model, system));
    }
    for (id, name, core) in [
        ("figures-3-and-5", "Figures 3 and 5: IP", Core::Ip),
        ("figure-8", "Figure 8: MPLS", Core::Mpls),
    ] {
        section = section.figure(figure(study, model, (id, name), core));
    }
    section
}

/// Reason for which there is no number at a size that no limit explains.
const ODD: &str = "out of line in the print";

fn table(study: &Study, model: &Model, system: System) -> Table {
    let printed = study.of(system.key());
    let sizes = &study.setup.frame_bytes;
    let rates = model.rates(system);
    let is_fitted = |octets: usize| limit_of((system, octets)).is_some();
    let each = || rates.iter().copied().zip(sizes.iter().copied());
    let fitted = each().map(|(rate, octets)| match is_fitted(octets) {
        true => Ok(Fitted::from(rate)),
        false => Err(if is_modelled(octets) { "not fitted" } else { ODD }),
    });
    let free = each().map(|(rate, octets)| match is_modelled(octets) {
        true if !is_fitted(octets) => Ok(ModelNumber::from(rate)),
        true => Err("fitted"),
        false => Err(ODD),
    });
    let derived = |of: &dyn Fn(f64, usize) -> f64| {
        let each = each().map(|(rate, octets)| match is_modelled(octets) {
            true => Ok(Derived::from(of(rate, octets))),
            false => Err(ODD),
        });
        each.collect::<Vec<_>>()
    };
    let known =
        Column::numbers("rate", "frames/s", printed.pps.iter().map(|v| Published::from(*v)));
    let found = Column::results("rate", "frames/s", derived(&|rate, _| rate));
    // Over a list it is the share of the rate without one.
    let before = model.rates(system.unlisted());
    let share = |rate: f64, octets: usize| match (system.list, system.core) {
        (_, Core::Mpls) => 100.0 * rate / line_rate(octets + LABEL),
        (List::None, _) => 100.0 * rate / line_rate(octets),
        _ => 100.0 * rate / before[study.at(octets)],
    };
    let mbps = |rate: f64, octets: usize| rate * (8 * octets) as f64 / 1e6;
    let mut table = Table::new(
        format!("rates-{}", system.key().replace(", ", "-").replace(' ', "-")),
        title(system),
    )
    .column(Column::settings("frame", "bytes", sizes.iter().map(|&octets| octets as f64)))
    .column(known.clone().decimals(0))
    .column(Column::results("rate", "frames/s", fitted).decimals(0));
    if sizes.iter().any(|&octets| is_modelled(octets) && !is_fitted(octets)) {
        table = table.column(Column::results("rate", "frames/s", free).decimals(0));
    }
    table
        .column(Column::deviation("off by", &found, &known))
        .column(
            Column::numbers("rate", "Mbit/s", printed.mbps.iter().map(|v| Published::from(*v)))
                .decimals(1),
        )
        .column(Column::results("rate", "Mbit/s", derived(&mbps)).decimals(1))
        .column(
            Column::numbers("share", "%", printed.util.iter().map(|v| Published::from(*v)))
                .decimals(1),
        )
        .column(Column::results("share", "%", derived(&share)).decimals(1))
        .note(match (system.core, system.list) {
            (Core::Ip, List::None) | (Core::Mpls, _) => "Share: of what the line carries.",
            _ => "Share: of the rate without a list, as the study has it here and not elsewhere.",
        })
}

fn figure(study: &Study, model: &Model, (id, title): (&str, &str), core: Core) -> Figure {
    let mut series = Vec::new();
    for system in System::ALL.into_iter().filter(|s| s.core == core && !s.both_ways) {
        let sizes = study.setup.frame_bytes.iter().map(|&octets| octets as f64);
        let points = sizes.clone().zip(model.rates(system));
        let points = points.filter(|(octets, _)| is_modelled(*octets as usize));
        // Where no limit binds, the line does; one curve has one origin.
        let points = points.map(|(octets, rate)| (octets, Fitted::from(rate)));
        series.push(Series::new(system.key(), Shape::Line, points));
        let printed = study.of(system.key()).pps.iter().map(|v| Published::from(*v));
        series.push(Series::new(system.key(), Shape::Points, sizes.zip(printed)));
    }
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("rate", "frames/s").from_zero()];
    let knobs = knobs(&model.limits, core);
    let systems = System::ALL.into_iter().filter(|s| s.core == core && !s.both_ways);
    let curves = systems.map(|system| curve(system, &knobs)).collect();
    Figure::xy(id, title, axes, series).explored(knobs, curves)
}

/// The limits: frames a second by where the list is, and bits a second over IP.
fn knobs(limits: &Limits, core: Core) -> Vec<Knob> {
    let names = ["no list", "a list in", "a list out"];
    let frames = names.into_iter().zip(limits.frames);
    let frames = frames.map(|(name, value)| Knob::around(name, "frames/s", value));
    let bits = Knob::around("all", "bit/s", limits.bits).within((1e8, 1e9), 1e6);
    frames.chain((core == Core::Ip).then_some(bits)).collect()
}

/// The closed form of a system: the least of line and limits.
fn curve(system: System, knobs: &[Knob]) -> Curve {
    let (bits, label) = match system.core {
        Core::Ip => (Argument::Knob(List::ALL.len()), 0.0),
        Core::Mpls => (Argument::Number(0.0), LABEL as f64),
    };
    let (line, label) = (Argument::Number(RATE as f64), Argument::Number(label));
    let arguments = vec![line, Argument::Knob(system.list as usize), bits, label];
    let call = ("limited_rate", arguments);
    Curve::over(system.key(), call, &by_ratio((64.0, 1024.0), 61), knobs, |octets, given| {
        let [line, frames, bits, label] = *given else { return f64::NAN };
        limits::rate(&limits::Limits { line, frames, bits, label }, octets)
    })
}

/// Section on the frames' fates: offered, processed, denied, forwarded.
pub fn fates(model: &Model) -> Section {
    let systems: Vec<System> = System::ALL.into_iter().collect();
    let first = |of: fn(&super::network::Point) -> f64| {
        systems
            .iter()
            .map(move |&system| model.of(system).first().map_or(f64::NAN, of))
            .collect::<Vec<_>>()
    };
    let found = |of| first(of).into_iter().map(ModelNumber::from);
    // At this size each system is at a limit that was fitted to it.
    let forwarded = systems.iter().zip(first(|p| p.forwarded)).map(|(system, rate)| {
        let has_list = system.list != List::None;
        has_list.then_some(ModelNumber::from(rate)).ok_or("all of it")
    });
    let processed = first(|p| p.processed).into_iter().map(Fitted::from);
    let table = Table::new("fates", "Frames of 64 bytes, a second and direction")
        .column(Column::words("system", systems.iter().map(|system| system.key())))
        .column(Column::numbers("offered", "frames/s", found(|p| p.offered)).decimals(0))
        .column(Column::numbers("processed", "frames/s", processed).decimals(0))
        .column(Column::numbers("denied", "frames/s", found(|p| p.denied)).decimals(0))
        .column(Column::results("forwarded", "frames/s", forwarded).decimals(0))
        .note(
            "The study tells none of these apart: its rates with a list are those processed. The \
             list lets one stream of 90 pass.",
        );
    Section::new("Offered, processed, denied, forwarded").table(table)
}

/// The fitted limits.
pub fn limits(study: &Study, model: &Model) -> Section {
    let limits = model.limits;
    let rows = [
        ("no list", "frames/s", limits.frames[0]),
        ("a list in", "frames/s", limits.frames[1]),
        ("a list out", "frames/s", limits.frames[2]),
        ("IP, bits of frames without FCS", "bit/s", limits.bits),
    ];
    let residuals = residuals(study, model);
    let table = Table::new("limits", "Limits fitted to the print, for IP and MPLS together")
        .column(Column::words("limit", rows.map(|(name, ..)| name)))
        .column(Column::words("unit", rows.map(|(_, unit, _)| unit)))
        .column(
            Column::numbers("value", "", rows.map(|(.., value)| Derived::from(value))).decimals(0),
        )
        .note(format!(
            "{} values for {} printed rates (256 bytes aside); the largest error of a rate that \
             one of them binds is {:.1} %, of any rate {:.1} %; of one that is left out of the \
             fit {:.1} %. IP and MPLS with limits of frames of their own, seven values, would fit \
             within {:.1} %.",
            rows.len(),
            model.predicted.len(),
            model.quality.error,
            model.worst_percent(study),
            residuals::worst(&residuals, Residual::predicted_off),
            Limits::apart_percent(study)
        ));
    let each = residuals::table(
        "residuals",
        "Printed rates, and the fits with and without each",
        &residuals,
    );
    Section::new("What stands for the devices").table(table).table(each).text(
        "At 256 bytes every system without a list stays at 400,000 frames a second, below the line \
         and below what it carries of 128 and 320 bytes; over MPLS a list makes it faster. No limit \
         of frames or bits does that, and the model leaves the size out.",
    )
}

/// Every printed rate that the limits say something about; those that none binds are the line's.
fn residuals(study: &Study, model: &Model) -> Vec<Residual> {
    let each = model.predicted.iter().map(|&((system, octets), predicted)| {
        let at = study.at(octets);
        let bound = limit_of((system, octets)).is_some();
        Residual {
            of: format!("{}, {octets} bytes", system.key()),
            unit: "frames/s",
            printed: Measure::new(study.of(system.key()).pps[at]),
            asserted: false,
            fitted: bound.then_some(model.rates(system)[at]).ok_or("the line's"),
            predicted: Ok(predicted),
        }
    });
    each.collect()
}
