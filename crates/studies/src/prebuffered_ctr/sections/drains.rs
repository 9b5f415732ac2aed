//! Figures 8 to 11: how long buffers last.

use super::super::closed::{Drained, Level};
use super::super::live::Live;
use super::super::model::Model;
use super::super::published::Study;
use super::{column, curve, kbps, measured};
use ferrule_formulas::draining::{Ring, drained_s, left};
use ferrule_report::{
    Argument, Axis, Column, Curve, Derived, Figure, Knob, Live as LiveNumber, Model as ModelNumber,
    Published, Section, Series, Shape, Table, evenly,
};

const MANY_DRAINS: &str =
    "The printed times are of three different drains, so no one model fits all.";
/// The traffic that the study delays, with the unit that it does not print.
const DELAYED: &str = "delay(5) as 5 ms";

/// Figures 8 to 10.
pub fn drains(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let print = &study.drain;
    let blocks = print.buffer_blocks;
    let (plain, slow) = (print.network_blocks_per_second, shaped_per_second(study));
    let section = Section::new("How long a buffer lasts")
        .text(
            "Packets of 1520 bytes at about 5 Mbit/s through a full buffer of 630,000 blocks, \
             10 MB of 10^6 octets; the token starts when half of it is gone. Delaying each large \
             packet slows the traffic, and the buffer lasts longer for those that are not delayed. \
             The print has \"delay(5)\", \"delay(3)\" and \"delay(2)\" without a unit: milliseconds \
             are our reading, with which the printed 18 s nearly agree.",
        )
        .table(drain_table(study, model, live))
        .figure(
            level(
                ("figure-8", "Figure 8: blocks left"),
                &model.drained,
                curve("blocks left", live, |m| Some(&m.drained), |at| at.blocks as f64),
                [(0.0, blocks), (print.filling_starts_s, blocks / 2.0), (print.empty_after_s, 0.0)],
            )
            .explored(knobs(study, plain), vec![left_over(study, plain)]),
        )
        .figure(
            level(
                ("figure-9", "Figure 9: blocks left, with delays"),
                &model.shaped,
                curve("blocks left", live, |m| Some(&m.shaped), |at| at.blocks as f64),
                [
                    (0.0, blocks),
                    (print.with_delay_filling_starts_s, blocks / 2.0),
                    (print.with_delay_empty_after_s, 0.0),
                ],
            )
            .explored(knobs(study, slow), vec![left_over(study, slow)]),
        )
        .figure(difference(study, model, live));
    match measured(live, |m| (!m.is_whole()).then_some(m)) {
        Ok(m) => section.figure(small(m.share, blocks, [&m.drained, &m.shaped])),
        Err(_) => section,
    }
}

/// Blocks a second of large packets that are delayed, one after the other.
fn shaped_per_second(study: &Study) -> f64 {
    let delay = study.drain.delay_ms.first().map_or(f64::NAN, |delay| delay.delay);
    study.drain.packet_bytes as f64 / 16.0 * 1000.0 / delay
}

/// The printed ring and token, with this traffic.
fn ring(study: &Study, used: f64) -> Ring {
    let exchange = study.token.blocks_per_exchange;
    let filled = exchange * 1000.0 / study.token.io_delay_ms_full;
    Ring { blocks: study.drain.buffer_blocks, used, filled, exchange }
}

/// Parameters of ring, traffic and token.
fn knobs(study: &Study, used: f64) -> Vec<Knob> {
    vec![
        Knob::around("buffer", "blocks", study.drain.buffer_blocks),
        Knob::around("traffic", "blocks/s", used),
        Knob::around("an exchange with the token", "ms", study.token.io_delay_ms_full)
            .within((1.0, 40.0), 0.5),
    ]
}

/// The closed form of what is left.
fn left_over(study: &Study, used: f64) -> Curve {
    let ring = ring(study, used);
    let (_, empty) = drained_s(&ring);
    let knobs = [0, 1, 2].map(Argument::Knob);
    let arguments = [Argument::Number(ring.exchange)].into_iter().chain(knobs).collect();
    let places = evenly((0.0, 1.5 * empty), 151);
    let knobs = self::knobs(study, used);
    Curve::over("blocks left", ("blocks_left", arguments), &places, &knobs, |after_s, given| {
        let [exchange, blocks, used, exchange_ms] = *given else { return f64::NAN };
        let filled = exchange * 1000.0 / exchange_ms;
        left(&Ring { blocks, used, filled, exchange }, after_s)
    })
}

/// Curves of the smaller buffers with which a quick run measures.
fn small(share: f64, blocks: f64, [drained, shaped]: [&Drained; 2]) -> Figure {
    let line = |name: &str, run: &Drained| {
        let points = run.curve.iter().map(|at| (at.at_s, LiveNumber::from(at.blocks as f64)));
        Series::new(name, Shape::Step, points)
    };
    let series = vec![line("no delay", drained), line(DELAYED, shaped)];
    let axes = [Axis::new("time", "s"), Axis::new("left in the buffer", "blocks").from_zero()];
    let title = format!("Figures 8 and 9 in a hurry: a buffer of {:.0} blocks", share * blocks);
    Figure::xy("figure-8-live", title, axes, series).caption(
        "Everything is the same share of the printed figures; without --quick it is whole.",
    )
}

/// Times at which filling starts and the buffer is empty, without delays and with them.
fn drain_table(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let print = &study.drain;
    let ring = ring(study, print.network_blocks_per_second);
    let plain = drained_s(&ring);
    let slow = shaped_per_second(study);
    let shaped = drained_s(&Ring { used: slow, ..ring });
    let what = ["filling starts", "empty", "filling starts", "empty"];
    let how = ["no delay", "no delay", DELAYED, DELAYED];
    let said = [
        print.filling_starts_s,
        print.empty_after_s,
        print.with_delay_filling_starts_s,
        print.with_delay_empty_after_s,
    ];
    let ran = [
        model.drained.filling_starts_s,
        model.drained.empty_after_s,
        model.shaped.filling_starts_s,
        model.shaped.empty_after_s,
    ];
    let corrected = [plain.0, plain.1, shaped.0, shaped.1];
    let ran = ran.map(|at| at.map(ModelNumber::from).ok_or("not reached"));
    let printed = Column::numbers("after", "s", said.map(Published::from));
    let found = Column::results("after", "s", ran).decimals(1);
    let share = measured(live, |m| Some(m.share)).unwrap_or(1.0);
    let lived = column(("after", "s"), live, what.len(), |m, row| {
        let run = if row < 2 { &m.drained } else { &m.shaped };
        if row % 2 == 0 { run.filling_starts_s } else { run.empty_after_s }
    });
    let table =
        Table::new("drain", "Figures 8 to 10: a buffer of 630,000 blocks at 39,375 a second");
    let table = table
        .column(Column::words("delays", how))
        .column(Column::words("what", what))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed))
        .column(Column::numbers("corrected", "s", corrected.map(Derived::from)).decimals(1))
        .column(lived.clone().decimals(if share < 1.0 { 2 } else { 1 }));
    let table = match share < 1.0 {
        true => table.column(as_printed(&lived, share)),
        false => table,
    };
    table.note(format!(
        "Corrected: the erratum's arithmetic for a token with 126 blocks in 16 ms that has one \
         direction to serve. The print's 19 s need 12 ms, and its 18 s and 56 s no one rate. Live: \
         a buffer of {:.0} blocks.",
        share * print.buffer_blocks
    ))
}

/// Times of a smaller buffer, scaled to the printed one.
fn as_printed(lived: &Column, share: f64) -> Column {
    let cells = lived.cells().iter().map(|cell| match cell.measure() {
        Some(found) => Ok(Derived::from(found.value / share)),
        None => Err("–"),
    });
    Column::results("live, for all blocks", "s", cells).decimals(1)
}

fn level(
    (id, title): (&str, &str),
    run: &Drained,
    live: Option<Series>,
    print: [(f64, f64); 3],
) -> Figure {
    let found = run.curve.iter().map(|at| (at.at_s, ModelNumber::from(at.blocks as f64)));
    let [_, (starts, _), _] = print;
    let mut series = vec![
        Series::new("blocks left", Shape::Line, found),
        Series::new(
            "blocks left",
            Shape::Points,
            print.map(|(at, left)| (at, Published::from(left))),
        ),
    ];
    series.extend(live);
    let axes = [Axis::new("time", "s"), Axis::new("left in the buffer", "blocks").from_zero()];
    Figure::xy(id, title, axes, series).mark(starts, "filling starts, as printed").caption(
        "Open circles: what the text says of the figure (full, half when filling starts, empty).",
    )
}

fn difference(study: &Study, model: &Model, live: &Result<Live, String>) -> Figure {
    let octets = study.drain.packet_bytes;
    let line = |name: &str, run: &Drained| {
        let points =
            run.curve.iter().map(|at| (at.at_s, ModelNumber::from(kbps(at.pps, octets) / 1000.0)));
        Series::new(name, Shape::Step, points)
    };
    let mbps = |at: &Level| kbps(at.pps, octets) / 1000.0;
    let mut series = vec![line("no delay", &model.drained), line(DELAYED, &model.shaped)];
    series.extend(curve("no delay", live, |m| Some(&m.drained), mbps));
    series.extend(curve(DELAYED, live, |m| Some(&m.shaped), mbps));
    let axes = [Axis::new("time", "s"), Axis::new("throughput", "Mbit/s").from_zero()];
    Figure::xy("figure-10", "Figure 10: throughput with and without delays", axes, series)
        .mark(study.drain.empty_after_s, "empty, as printed")
        .mark(study.drain.with_delay_empty_after_s, "with delays, as printed")
        .caption("The study plots this figure and prints no numbers but those two times.")
}

/// Figure 11.
pub fn sizes(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let print = &study.empty_time;
    let settings = model.sizes.iter().map(|size| size.mib);
    let found = model.sizes.iter().map(|s| s.drained.empty_after_s.map(ModelNumber::from));
    let found = found.map(|at| at.ok_or("not reached"));
    let printed = print.empty_after_s.iter().map(|s| Published::from(*s));
    let printed = Column::numbers("empty after", "s", printed);
    let found = Column::results("empty after", "s", found).decimals(1);
    let table = Table::new("sizes", "Figure 11: buffers of three sizes, 1024-byte packets")
        .column(Column::settings("buffer", "MiB", settings))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed));
    let lived = column(("empty after", "s"), live, print.buffer_mib.len(), |m, row| {
        m.sizes.get(row)?.drained.empty_after_s
    });
    let table = after(table, study, model, live, lived);
    let mut series = Vec::new();
    for (size, empty) in model.sizes.iter().zip(&print.empty_after_s) {
        let name = format!("{} MiB", size.mib);
        let points = size.drained.curve.iter();
        let points = points.map(|at| (at.at_s, ModelNumber::from(kbps(at.pps, 1024) / 1000.0)));
        series.push(Series::new(name.clone(), Shape::Step, points));
        let after = Published::from(print.after_empty_kbps / 1000.0);
        series.push(Series::new(name, Shape::Points, [(*empty, after)]));
    }
    for (row, size) in model.sizes.iter().enumerate() {
        let mbps = |at: &Level| kbps(at.pps, 1024) / 1000.0;
        let name = format!("{} MiB", size.mib);
        series.extend(curve(&name, live, |m| Some(&m.size(row)?.drained), mbps));
    }
    let axes = [Axis::new("time", "s"), Axis::new("throughput", "Mbit/s").from_zero()];
    let figure = Figure::xy("figure-11", "Figure 11: throughput by size of buffer", axes, series)
        .caption("Steps are the model, open circles where the study says that a buffer is empty.");
    Section::new("Sizes of buffers")
        .text(
            "Packets of 1024 bytes back to back at about 7 Mbit/s. The printed 4, 8 and 16 MB are \
             taken as MiB, unlike the 10 MB of figures 8 to 10; as 10^6 octets each lasts 5 % less.",
        )
        .table(table)
        .figure(figure)
}

/// The rest of figure 11's table: live times, the print's net drains, and what goes on
/// when a buffer is empty.
fn after(
    table: Table,
    study: &Study,
    model: &Model,
    live: &Result<Live, String>,
    lived: Column,
) -> Table {
    let print = &study.empty_time;
    let share = measured(live, |m| Some(m.share)).unwrap_or(1.0);
    let after = |run: &Drained| Some(kbps(run.after_pps?, 1024));
    let found = model.sizes.iter().map(|size| after(&size.drained).map(ModelNumber::from));
    let found = found.map(|kbps| kbps.ok_or("not reached"));
    let net = print.buffer_mib.iter().zip(&print.empty_after_s);
    let net = net.map(|(mib, s)| Derived::from(mib * 1024.0 * 1024.0 * 8.0 / s / 1e6));
    let table = table.column(lived.clone().decimals(if share < 1.0 { 2 } else { 1 }));
    let table = match share < 1.0 {
        true => table.column(as_printed(&lived, share)),
        false => table,
    };
    let printed = print.buffer_mib.iter().map(|_| Published::from(print.after_empty_kbps));
    let rows = print.buffer_mib.len();
    let live_after =
        column(("after empty", "kbit/s"), live, rows, |m, row| after(&m.size(row)?.drained));
    table
        .column(Column::numbers("printed: net drain", "Mbit/s", net).decimals(1))
        .column(Column::numbers("after empty", "kbit/s", printed))
        .column(Column::results("after empty", "kbit/s", found).decimals(0))
        .column(live_after.decimals(0))
        .note(match share < 1.0 {
            true => format!("{MANY_DRAINS} Live: buffers of {:.0} % of these.", 100.0 * share),
            false => MANY_DRAINS.into(),
        })
}
