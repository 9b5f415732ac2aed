//! Throughput over sending speed and packet size.

use super::super::bench::{Point, Way};
use super::super::fit;
use super::super::live::{Live, Load};
use super::super::model::{self, FIXED, FULL, Model, OCTETS, SIZES, SPEEDS, paced_pps};
use super::super::network::System;
use super::super::published::Study;
use super::{carried, keyed, measured, rows};
use crate::residuals;
use ferrule_formulas::serving;
use ferrule_lab::Profile;
use ferrule_report::{
    Argument, Axis, Column, Curve, Derived, Figure, Fitted, Knob, Live as LiveNumber,
    Model as ModelNumber, Published, Section, Series, Shape, Table, evenly,
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
    // Two systems' devices were fitted to what they send.
    let is_fitted = |system: System, way| system != System::Inline && way == Way::Out;
    let share = |system, way| 100.0 * model.share(system, way);
    let fitted = rows().into_iter().map(|(system, way)| match is_fitted(system, way) {
        true => Ok(Fitted::from(share(system, way))),
        false => Err("not fitted"),
    });
    let fitted = Column::results("throughput", "%", fitted).decimals(1);
    let found = rows().into_iter().map(|(system, way)| match is_fitted(system, way) {
        false => Ok(ModelNumber::from(share(system, way))),
        true => Err("fitted"),
    });
    let found = Column::results("throughput", "%", found).decimals(1);
    let lived = rows().into_iter().map(|(system, way)| {
        let load = super::found(live, (Some(system), way), |sweep| fastest(&sweep.speeds))?;
        Ok::<_, String>(LiveNumber::from(100.0 * load.share()))
    });
    let lived = Column::results("throughput", "%", lived);
    let table = keyed(Table::new("throughput", "Table 2: throughput at the highest sending speed"))
        .column(printed)
        .column(fitted)
        .column(found)
        .column(lived.decimals(1))
        .note(format!(
            "Of {FULL} Mbit/s in frames of {OCTETS} bytes, which is what the study's offload \
             engine sends; the study says close to 100 % for inline. It measured sending alone. \
             Live the systems are nodes of this machine, whose processor is another one."
        ));
    let residuals = fit::residuals(study, model);
    let residuals = residuals::table("residuals", "The fits, value by value", &residuals);
    let both = format!(
        "One cost that is to give software's share and its cited overhead at once misses each by \
         {:.0} %.",
        fit::both_percent(study)
    );
    Section::new("Throughput by sending speed")
        .table(table)
        .figure(figure(model, live))
        .table(profiles())
        .table(residuals)
        .text(both)
}

/// Figure 6.
fn figure(model: &Model, live: &Result<Live, String>) -> Figure {
    let mut series = Vec::new();
    for system in System::ALL {
        let Some(curve) = model.curve(system, Way::Out) else { continue };
        let points = curve.speeds.iter();
        let points = points.map(|p| (p.offered_mbps, carried(p)));
        series.push(match fit::FITTED.contains(&system) {
            true => {
                let points = points.map(|(x, y)| (x, Fitted::from(y)));
                Series::new(system.key(), Shape::Line, points)
            }
            false => {
                let points = points.map(|(x, y)| (x, ModelNumber::from(y)));
                Series::new(system.key(), Shape::Line, points)
            }
        });
        let at = |load: &Load| (load.offered_mbps, load.share() * load.offered_mbps);
        series.extend(measured(live, system, |sweep| &sweep.speeds, at));
    }
    let axes = [
        Axis::new("sending speed", "Mbit/s").from_zero(),
        Axis::new("throughput", "Mbit/s").from_zero(),
    ];
    Figure::xy("figure-6", "Figure 6: throughput by sending speed", axes, series)
        .caption(
            "Sending. The study plots this figure and prints the shares of table 2 alone, without \
             the speed that they belong to: no point of it can be drawn.",
        )
        .explored(knobs(), curves(model))
}

/// Costs of the devices: the fitted ones, and the bus as printed.
fn knobs() -> Vec<Knob> {
    let [software, look_aside, _] = System::ALL.map(System::device);
    let bus = look_aside.look_aside;
    vec![
        Knob::around("software: an octet", "ns", software.sealed.octet_ns),
        Knob::around("look-aside: a crossing, beside its clocks", "ns", bus.bus_latency_ns),
        Knob::around("look-aside: the bus", "MHz", bus.bus_mhz).within((33.0, 532.0), 1.0),
        Knob::around("look-aside: crossings", "", bus.crossings).within((1.0, 8.0), 1.0),
    ]
}

/// The closed forms: what arrives is what is offered, up to what processor or bus have time for.
fn curves(model: &Model) -> Vec<Curve> {
    let knobs = knobs();
    let bits = Argument::Number(8.0 * (OCTETS + 20) as f64);
    let speeds = evenly((SPEEDS[0], FULL), 65);
    let device = System::Software.device();
    let first = model.curve(System::Software, Way::Out).and_then(|curve| curve.speeds.first());
    // Octets that the processor works on for a frame.
    let octets = first.map_or(f64::NAN, |p| p.host_us * 1000.0 / device.sealed.octet_ns);
    let arguments = vec![bits, Argument::Number(octets), Argument::Knob(0)];
    let call = ("software_mbps", arguments);
    let software = Curve::over(System::Software.key(), call, &speeds, &knobs, |offered, given| {
        let [bits, octets, octet_ns] = *given else { return f64::NAN };
        serving::carried_mbps(offered, bits, octets * octet_ns / 1000.0)
    });
    let width = Argument::Number(System::LookAside.device().look_aside.bus_bits);
    let numbers = [bits, Argument::Number(OCTETS as f64), width];
    let arguments = numbers.into_iter().chain([2, 3, 1].map(Argument::Knob)).collect();
    let call = ("look_aside_mbps", arguments);
    let look_aside =
        Curve::over(System::LookAside.key(), call, &speeds, &knobs, |offered, given| {
            let [bits, octets, width, mhz, crossings, latency_ns] = *given else { return f64::NAN };
            let busy_us = serving::bus_us(octets, width, mhz, crossings, latency_ns / 1000.0);
            serving::carried_mbps(offered, bits, busy_us)
        });
    vec![software, look_aside]
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
    Table::new("profiles", "The device profiles, and what was fitted")
        .column(Column::words("profile", devices.each_ref().map(|d| d.name.clone())))
        .column(Column::words("what was fitted", devices.each_ref().map(fitted)))
        .column(Column::numbers("free", "", with(|d| d.free.len() as f64)))
        .note(
            "One cost by one value, its throughput in table 2, which it fits exactly: that tests \
             nothing. The overhead that table 2 has beside it was left out, since nobody measured \
             it: 760 % for crypto, cited, is far off, as 8 times is not what was measured; at \
             most 100 % for processing is a range. What each says of the other stands below.",
        )
}

/// Figure 7.
pub fn sizes(model: &Model) -> Section {
    let paced = format!("at {:.0} frames a second", paced_pps());
    let fixed = format!("at {FIXED} Mbit/s of the line");
    Section::new("Throughput by packet size")
        .text(format!(
            "The study made packets larger \"at the same speed\" (section IV.2) and prints no rate. It \
             set speeds by the delay between packets (section IV.1), so one reading is frames of \
             one size {paced}, which is our choice; the other is {fixed}, whatever the size."
        ))
        .table(by_size(model, ("sizes", &paced), |curve| &curve.paced).note(
            "The study plots this figure and prints no numbers. At one rate of packets larger ones \
             are more bits a second, and software and look-aside fall behind.",
        ))
        .figure(shares(model, ("figure-7", &paced), |curve| &curve.paced))
        .table(by_size(model, ("sizes-fixed", &fixed), |curve| &curve.sizes).note(
            "With a cost for each crossing beside its bytes it is small packets that suffer: at one \
             rate of bits, that look-aside falls behind as packets grow cannot come from the bus.",
        ))
        .figure(shares(model, ("figure-7-fixed", &fixed), |curve| &curve.sizes))
}

/// A sweep over sizes in numbers.
fn by_size(model: &Model, (id, how): (&str, &str), of: fn(&model::Curve) -> &[Point]) -> Table {
    let title = format!("Figure 7: share that arrives, by size of frame, {how}");
    let mut table = keyed(Table::new(id, title));
    for (at, octets) in SIZES.into_iter().enumerate() {
        let shares = rows().into_iter().map(|(system, way)| {
            let point = model.curve(system, way).and_then(|curve| of(curve).get(at));
            ModelNumber::from(100.0 * point.map_or(f64::NAN, |point| point.share))
        });
        table = table.column(Column::numbers(format!("{octets} B"), "%", shares).decimals(1));
    }
    table
}

/// The same as a figure.
fn shares(model: &Model, (id, how): (&str, &str), of: fn(&model::Curve) -> &[Point]) -> Figure {
    let series = System::ALL.into_iter().filter_map(|system| {
        let points = of(model.curve(system, Way::Out)?).iter();
        let points = points.map(|p| (p.octets as f64, ModelNumber::from(100.0 * p.share)));
        Some(Series::new(system.key(), Shape::Line, points))
    });
    let axes = [Axis::new("frame", "bytes").log(), Axis::new("arrives", "%").from_zero()];
    let title = format!("Figure 7: share that arrives by size of frame, {how}");
    Figure::xy(id, title, axes, series.collect()).caption("Sending.")
}
