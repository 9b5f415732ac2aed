//! The printed slowdowns beside both machines', and what the machines cost.

use super::super::cases::{Application, Mode, Protection, Way};
use super::super::fit::{FREE, Target};
use super::super::live::Live;
use super::super::machine::{Costs, Machine};
use super::super::model::{Model, Slowdown, Which};
use super::super::published::Study;
use super::bytes;
use crate::residuals::{self, Residual};
use ferrule_report::{
    Axis, Column, Derived, Figure, Fitted, Live as LiveNumber, Measure, Model as ModelNumber,
    Published, Section, Series, Shape, Table,
};

/// Clocks in a nanosecond.
const GIGAHERTZ: f64 = 0.55;

/// The slowdown that stands for several transfers, in every table.
const STATISTIC: &str = "Of several transfers the one that is furthest from the print counts";

/// Live slowdown of a target, the furthest from the print of its transfers: what `run` refuses
/// stands for itself with its reason, but for MD5, for which SHA-1 stands.
fn live_slowdown(live: &Live, target: &Target) -> Result<Measure, String> {
    let protection = match target.protection {
        Protection::AhMd5 => Protection::AhSha1,
        other => other,
    };
    let way = |protection| Way::of(protection, Mode::Transport);
    let [least, most] = target.octets;
    let sizes = live.sizes(target.application).into_iter().filter(|n| (least..=most).contains(n));
    let mut sizes: Vec<u64> = sizes.collect();
    if sizes.is_empty() {
        sizes.push(least);
    }
    let times = sizes.into_iter().map(|octets| {
        let of = |protection| live.response(target.application, octets, way(protection));
        Ok(of(protection)?.median / of(Protection::None)?.median)
    });
    Ok(target.stated(&times.collect::<Result<Vec<f64>, String>>()?))
}

/// Transfers of a target, in words.
fn transfers(target: &Target) -> String {
    let [least, most] = target.octets;
    if least == most { bytes(least) } else { format!("{} to {}", bytes(least), bytes(most)) }
}

/// Section 6, and both machines.
pub fn slowdowns(study: &Study, model: &Model, live: &Live) -> Section {
    let lines = &model.slowdowns;
    let printed = lines.iter().map(|line| Published::from(line.target.printed));
    let printed = Column::numbers("slowdown", "× no IPsec", printed);
    let plausible = lines.iter().map(|line| ModelNumber::from(line.target.stated(&line.plausible)));
    let plausible = Column::numbers("plausible", "× no IPsec", plausible).decimals(2);
    let fitted = lines.iter().map(|line| Fitted::from(line.target.stated(&line.fitted)));
    let fitted = Column::numbers("fitted", "× no IPsec", fitted).decimals(2);
    let measured = lines.iter().map(|line| live_slowdown(live, &line.target).map(LiveNumber::from));
    let table = Table::new("slowdown", "Section 6: how many times longer a transfer takes")
        .column(Column::words(
            "application",
            lines.iter().map(|line| line.target.application.name()),
        ))
        .column(Column::words("transfer", lines.iter().map(|line| transfers(&line.target))))
        .column(Column::words("protection", lines.iter().map(|line| line.target.protection.name())))
        .column(printed)
        .column(plausible)
        .column(fitted)
        .column(Column::results("slowdown", "× no IPsec", measured).decimals(2))
        .note(format!(
            "\"Small\" is taken for 100 bytes. {STATISTIC}, with their range in brackets. Live has \
             SHA-1 where the study has MD5. {}.",
            study.setup.host
        ));
    let residuals = residuals(lines);
    let residuals = residuals::table("residuals", "The fitted machine, value by value", &residuals)
        .note(format!(
            "{STATISTIC}, as in the table above and in the fit itself. By the others: the whole fit \
             is made anew without this value, and then asked for it."
        ));
    Section::new("Slowdown")
        .text(format!(
            "{}, {}. The plausible machine costs what its parts are known to cost, the fitted \
             one what the printed slowdowns ask for.",
            study.setup.link, study.measured_mode.mode
        ))
        .table(table)
        .figure(curve(study, model, live))
        .table(residuals)
}

/// The printed slowdowns, and those of the fits with and without each; of several transfers that
/// which is further from the print.
fn residuals(lines: &[Slowdown]) -> Vec<Residual> {
    let each = lines.iter().map(|line| {
        let target = &line.target;
        Residual {
            of: format!(
                "{}, {}, {}",
                target.application.name(),
                transfers(target),
                target.protection.name()
            ),
            unit: "× no IPsec",
            printed: target.printed,
            asserted: false,
            fitted: Ok(target.furthest(line.fitted)),
            predicted: Ok(target.furthest(line.predicted)),
        }
    });
    each.collect()
}

/// Slowdown by size.
fn curve(study: &Study, model: &Model, live: &Live) -> Figure {
    let ftp = Application::Ftp;
    let both = [(Protection::AhMd5, 0), (Protection::EspDes, 1)];
    let mut series = Vec::new();
    for (protection, which) in both {
        let name = protection.name();
        let points = study.of(ftp.name()).filter_map(|(line, ah, esp)| {
            // "Above 56 Kbyte" is a range: there is no point to draw.
            let is_point = line.bytes_above.is_none();
            is_point.then_some((line.octets()?, Published::from([ah, esp][which])))
        });
        series.push(Series::new(name, Shape::Points, points));
        let way = Way::of(protection, Mode::Transport);
        for machine in Which::ALL {
            let points = model.sizes.iter();
            let points =
                points.map(|&octets| (octets as f64, model.slowdown(machine, ftp, octets, way)));
            let drawn = match machine {
                Which::Plausible => {
                    Series::new(name, Shape::Line, points.map(|(x, y)| (x, ModelNumber::from(y))))
                }
                Which::Fitted => {
                    Series::new(name, Shape::Line, points.map(|(x, y)| (x, Fitted::from(y))))
                }
            };
            series.push(drawn.named(format!("{name}, {}", machine.name())));
        }
    }
    let way = |protection| Way::of(protection, Mode::Transport);
    for protection in [Protection::AhSha1, Protection::EspDes, Protection::AesGcm] {
        let points = live.sizes(ftp).into_iter().filter_map(|octets| {
            let of = live.response(ftp, octets, way(protection)).ok()?.median;
            let without = live.response(ftp, octets, way(Protection::None)).ok()?.median;
            Some((octets as f64, LiveNumber::from(of / without)))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            series.push(Series::new(protection.name(), Shape::Points, points));
        }
    }
    let axes =
        [Axis::new("FTP transfer", "bytes").log(), Axis::new("slowdown", "× no IPsec").log()];
    Figure::xy("slowdown", "Slowdown of FTP by size", axes, series).caption(
        "The lower lines are what the machine's parts cost, the upper ones what the print asks for.",
    )
}

/// Costs of the machines, and the quality of the fit.
pub fn machines(model: &Model) -> Section {
    let of = |machine: &Machine| {
        let mut costs: Costs = machine.cost;
        FREE.map(|(_, place)| *place(&mut costs))
    };
    let (plausible, fitted) = (of(&model.plausible), of(&model.fitted));
    let words = [
        "each look-up of the module (policies)",
        "each protected packet: SA, header",
        "each octet copied to a new buffer",
        "each fragment made or taken in",
        "each block of MD5, 64 octets",
        "each block of DES, 8 octets",
    ];
    let fit = &model.fitted.fit;
    let table = Table::new("machines", "What a machine's work costs: known, and asked for")
        .column(Column::words("cost", FREE.iter().map(|(name, _)| *name)))
        .column(Column::words("of", words))
        .column(Column::numbers("plausible", "ns", plausible.map(ModelNumber::from)))
        .column(Column::numbers("fitted", "ns", fitted.map(ModelNumber::from)).decimals(0))
        .column(
            Column::numbers("fitted", "clocks", fitted.map(|ns| Derived::from(ns * GIGAHERTZ)))
                .decimals(0),
        )
        .column(
            Column::numbers(
                "fitted : plausible",
                "",
                plausible.iter().zip(fitted).map(|(a, b)| Derived::from(b / a)),
            )
            .decimals(1),
        )
        .note(format!(
            "{} free costs, {} printed values. The largest error is a factor of {:.1}; of a value \
             left out of its own fit, {:.1}. Card and stack ({} ns a frame, {} ns an octet) are the same in both.",
            FREE.len(),
            fit.points,
            factor(fit.error_percent),
            factor(fit.leave_one_out_percent),
            model.plausible.cost.frame,
            model.plausible.cost.octet
        ));
    Section::new("Two machines of 2001")
        .text(
            "The plausible machine's costs come from RFC 1810 (MD5 on a Pentium) and from what \
             DES, memory, an ISA bus and an interrupt took then, on the high side. The fitted one \
             has six free costs that make the model print what the study printed, as well as any \
             six can.",
        )
        .table(table)
        .text(why(model))
}

/// Argument that the cipher does not explain the printed slowdowns.
fn why(model: &Model) -> String {
    let (known, asked) = (&model.plausible.cost, &model.fitted.cost);
    let fit = &model.fitted.fit;
    format!(
        "To explain the print, a block of DES would have to take {:.0} times what it is known to \
         take, a block of MD5 {:.0} times, and what every protected packet pays whatever its \
         algorithm {:.0} times ({:.1} ms, {:.1} million clocks): no cipher and no hash costs \
         that. And even then a printed value is missed by a factor of {:.1}, and of {:.1} where it \
         is left out of the fit: BYPASS at every size, small and large transfers do not go together with \
         costs of any height. So the print does not follow from what hash and cipher do. A fixed \
         time of milliseconds for each packet would fit files that are read, messages that are \
         logged or ticks that are waited for, inside the module; which of them it was the print \
         does not say.",
        asked.des_block / known.des_block,
        asked.md5_block / known.md5_block,
        asked.sa / known.sa,
        asked.sa / 1e6,
        asked.sa * GIGAHERTZ / 1e6,
        factor(fit.error_percent),
        factor(fit.leave_one_out_percent)
    )
}

/// An error as a ratio of the greater to the smaller value.
fn factor(percent: f64) -> f64 {
    1.0 + percent / 100.0
}
