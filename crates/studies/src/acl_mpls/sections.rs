//! Tables and figures.

use super::fit::is_modelled;
use super::model::Model;
use super::network::line_rate;
use super::nodes::{Core, LABEL, List, System};
use super::published::Study;
use ferrule_report::{
    Axis, Column, Derived, Figure, Model as ModelNumber, Published, Section, Series, Shape, Table,
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

fn table(study: &Study, model: &Model, system: System) -> Table {
    let printed = study.of(system.key());
    let sizes = &study.setup.frame_bytes;
    let rates = model.rates(system);
    let modelled = |of: fn(f64, usize) -> f64| {
        let each = rates.iter().zip(sizes).map(move |(&rate, &octets)| {
            if is_modelled(octets) {
                Ok(ModelNumber::from(of(rate, octets)))
            } else {
                Err("out of line in the print")
            }
        });
        each.collect::<Vec<_>>()
    };
    let known =
        Column::numbers("rate", "frames/s", printed.pps.iter().map(|v| Published::from(*v)));
    let found = Column::results("rate", "frames/s", modelled(|rate, _| rate)).decimals(0);
    // Over a list it is the share of the rate without one.
    let before = model.rates(system.unlisted());
    let util = rates.iter().zip(sizes).zip(&before).map(|((&rate, &octets), &before)| {
        let whole = if system.list == List::None || system.core == Core::Mpls {
            line_rate(octets + if system.core == Core::Mpls { LABEL } else { 0 })
        } else {
            before
        };
        match is_modelled(octets) {
            true => Ok(ModelNumber::from(100.0 * rate / whole)),
            false => Err("out of line in the print"),
        }
    });
    Table::new(
        format!("rates-{}", system.key().replace(", ", "-").replace(' ', "-")),
        title(system),
    )
    .column(Column::settings("frame", "bytes", sizes.iter().map(|&octets| octets as f64)))
    .column(known.clone().decimals(0))
    .column(found.clone())
    .column(Column::deviation("off by", &found, &known))
    .column(
        Column::numbers("rate", "Mbit/s", printed.mbps.iter().map(|v| Published::from(*v)))
            .decimals(1),
    )
    .column(
        Column::results(
            "rate",
            "Mbit/s",
            modelled(|rate, octets| rate * (8 * octets) as f64 / 1e6),
        )
        .decimals(1),
    )
    .column(
        Column::numbers("share", "%", printed.util.iter().map(|v| Published::from(*v))).decimals(1),
    )
    .column(Column::results("share", "%", util).decimals(1))
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
        let points = points.map(|(octets, rate)| (octets, ModelNumber::from(rate)));
        series.push(Series::new(system.key(), Shape::Line, points));
        let printed = study.of(system.key()).pps.iter().map(|v| Published::from(*v));
        series.push(Series::new(system.key(), Shape::Points, sizes.zip(printed)));
    }
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("rate", "frames/s").from_zero()];
    Figure::xy(id, title, axes, series)
}

/// Section on the frames' fates: offered, processed, denied, forwarded.
pub fn fates(model: &Model) -> Section {
    let systems: Vec<System> = System::ALL.into_iter().collect();
    let first = |of: fn(&super::network::Point) -> f64| {
        systems
            .iter()
            .map(move |&system| ModelNumber::from(model.of(system).first().map_or(f64::NAN, of)))
            .collect::<Vec<_>>()
    };
    let table = Table::new("fates", "Frames of 64 bytes, a second and direction")
        .column(Column::words("system", systems.iter().map(|system| system.key())))
        .column(Column::numbers("offered", "frames/s", first(|p| p.offered)).decimals(0))
        .column(Column::numbers("processed", "frames/s", first(|p| p.processed)).decimals(0))
        .column(Column::numbers("denied", "frames/s", first(|p| p.denied)).decimals(0))
        .column(Column::numbers("forwarded", "frames/s", first(|p| p.forwarded)).decimals(0))
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
    let table = Table::new("limits", "Limits fitted to the print, for IP and MPLS together")
        .column(Column::words("limit", rows.map(|(name, ..)| name)))
        .column(Column::words("unit", rows.map(|(_, unit, _)| unit)))
        .column(
            Column::numbers("value", "", rows.map(|(.., value)| Derived::from(value))).decimals(0),
        )
        .note(format!(
            "{} values for {} printed rates (256 bytes aside); the largest error of a rate that \
             one of them binds is {:.1} %, of any rate {:.1} %.",
            rows.len(),
            System::ALL.len() * (study.setup.frame_bytes.len() - 1),
            model.fit_percent,
            model.worst_percent(study)
        ));
    Section::new("What stands for the devices").table(table).text(
        "At 256 bytes every system without a list stays at 400,000 frames a second, below the line \
         and below what it carries of 128 and 320 bytes; over MPLS a list makes it faster. No limit \
         of frames or bits does that, and the model leaves the size out.",
    )
}
