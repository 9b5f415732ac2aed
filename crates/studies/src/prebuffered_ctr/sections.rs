//! The report's parts: tables and figures.

use super::closed::Drained;
use super::errata::drained_s;
use super::live::Live;
use super::model::{Model, Row};
use super::published::{Study, Throughput};
use super::voip::Call;
use ferrule_report::{
    Axis, Column, Derived, Figure, Live as LiveNumber, Model as ModelNumber, Published, Section,
    Series, Shape, Table,
};

/// Rows of table 1 in the report: each size in three conditions.
const CONDITIONS: [&str; 3] = ["before empty", "after empty", "plain AES-CTR"];

/// Bits of an octet, thousands of a kilobit.
fn kbps(pps: f64, octets: usize) -> f64 {
    Drained::kbps(pps, octets)
}

fn printed(row: &Throughput) -> [[f64; 2]; 3] {
    [
        [row.prebuffered_before_empty_kbps, row.prebuffered_before_empty_pps],
        [row.prebuffered_after_empty_kbps, row.prebuffered_after_empty_pps],
        [row.aes_ctr_kbps, row.aes_ctr_pps],
    ]
}

/// Table 1.
pub fn throughput(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let rows: Vec<(&Throughput, &Row, usize)> = study
        .throughput
        .iter()
        .zip(&model.rows)
        .flat_map(|(printed, row)| (0..CONDITIONS.len()).map(move |at| (printed, row, at)))
        .collect();
    let alone = |row: &Row| [row.before_pps, row.after_pps, row.plain_pps];
    let shared = |row: &Row| [row.before_pps, row.shared_pps, row.plain_pps / 2.0];
    let model_of = |of: &dyn Fn(&Row) -> [f64; 3]| {
        let each = rows.iter().map(|(_, row, at)| kbps(of(row)[*at], row.packet_bytes));
        each.map(ModelNumber::from).collect::<Vec<_>>()
    };
    let measured = rows.iter().map(|(_, row, at)| {
        let live = live.as_ref().map_err(Clone::clone)?;
        let found = live.row(row.packet_bytes).ok_or("not measured")?;
        let pps = [found.before_pps, found.after_pps, found.plain_pps][*at];
        Ok::<_, String>(LiveNumber::from(kbps(pps, row.packet_bytes)))
    });
    let print = rows.iter().map(|(row, _, at)| Published::from(printed(row)[*at][0]));
    let print = Column::numbers("throughput", "kbit/s", print);
    let one = Column::numbers("one direction", "kbit/s", model_of(&alone)).decimals(0);
    let pps = rows.iter().map(|(row, _, at)| Published::from(printed(row)[*at][1]));
    let fits = rows.iter().map(|(row, _, at)| {
        Derived::from(printed(row)[*at][0] * 1000.0 / (row.packet_bytes as f64 * 8.0))
    });
    let table = Table::new(
        "throughput",
        "Table 1: throughput before and after the buffer is empty",
    )
    .column(Column::settings("packet", "B", rows.iter().map(|(row, ..)| row.packet_bytes as f64)))
    .column(Column::words("", rows.iter().map(|(.., at)| CONDITIONS[*at])))
    .column(print.clone())
    .column(one.clone())
    .column(Column::deviation("off by", &one, &print))
    .column(Column::numbers("both ways busy", "kbit/s", model_of(&shared)).decimals(0))
    .column(Column::results("one direction", "kbit/s", measured).decimals(0))
    .column(Column::numbers("packets", "1/s", pps))
    .column(Column::numbers("from kbit/s", "1/s", fits).decimals(1))
    .note(format!(
        "Before empty the network decides: {:.1} Mbit/s, one value for both sizes. Afterwards \
             the token as printed, 126 blocks in 16 ms, for one direction, or for one of two. \
             The last two columns are the first erratum: the packets a second that were printed, \
             and those that follow from the bits.",
        model.network_kbps / 1000.0
    ));
    Section::new("Throughput")
        .text(
            "Packets back to back through a full buffer until it is empty and on. Packet by packet \
             the printed token takes longer than its own delays say; after empty it lies between \
             the token for one direction and for one of two with large packets, and below both \
             with small ones. No one exchange time fits all four.",
        )
        .table(table)
        .figure(bars(study, model))
        .table(implied(study))
}

fn bars(study: &Study, model: &Model) -> Figure {
    let mut series = Vec::new();
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        let print = study.throughput.iter();
        let print =
            print.map(|row| (row.packet_bytes as f64, Published::from(printed(row)[at][0])));
        let found = model.rows.iter().map(|row| {
            let pps = [row.before_pps, row.after_pps, row.plain_pps][at];
            (row.packet_bytes as f64, ModelNumber::from(kbps(pps, row.packet_bytes)))
        });
        series.push(Series::new(condition, Shape::Line, found));
        series.push(Series::new(condition, Shape::Points, print));
    }
    let axes = [Axis::new("IP packet", "bytes").log(), Axis::new("throughput", "kbit/s").log()];
    Figure::xy("throughput", "Table 1: throughput by size of packet", axes, series)
        .caption("Open circles are printed, lines are the model, with the token for one direction.")
}

/// What the printed numbers say of the token.
fn implied(study: &Study) -> Table {
    let rows = &study.throughput;
    let blocks = |row: &Throughput| super::token::blocks(row.packet_bytes) as f64;
    let exchange = study.token.blocks_per_exchange;
    let after = rows.iter().map(|row| {
        Derived::from(exchange * 1000.0 / (row.prebuffered_after_empty_pps * blocks(row)))
    });
    let plain = rows.iter().map(|row| Derived::from(1000.0 / row.aes_ctr_pps));
    Table::new("implied", "What table 1 says of the token's exchanges")
        .column(Column::settings("packet", "B", rows.iter().map(|row| row.packet_bytes as f64)))
        .column(Column::settings("blocks", "", rows.iter().map(blocks)))
        .column(Column::numbers("126 blocks, after empty", "ms", after).decimals(1))
        .column(Column::numbers("one packet, plain", "ms", plain).decimals(1))
        .note("From the printed packets a second; the printed delays are 16 and 12 ms.")
}

/// Section 4.1.1.
pub fn call(study: &Study, model: &Model) -> Section {
    let print = &study.voip;
    let used = print.blocks_per_second_used;
    let filled = model.filled_per_second;
    let rows = [
        ("blocks of a packet", "", print.blocks_per_packet, super::token::blocks(60) as f64),
        ("blocks filled for one of two directions", "1/s", print.blocks_per_second_filled, filled),
        (
            "seconds served for a second of filling",
            "s",
            print.seconds_served_per_second_of_filling,
            (filled - used) / used,
        ),
    ];
    let values = Table::new("call", "One G.729 call: the token's arithmetic")
        .column(Column::words("", rows.iter().map(|(what, ..)| *what)))
        .column(Column::words("unit", rows.iter().map(|(_, unit, ..)| *unit)))
        .column(Column::numbers("", "", rows.iter().map(|row| Published::from(row.2))))
        .column(
            Column::numbers("", "", rows.iter().map(|row| ModelNumber::from(row.3))).decimals(1),
        );
    Section::new("One call")
        .text(
            "Fifty packets of 60 bytes a second each way, a minute long, both ways through one token. \
             A packet counts if it is through within 100 ms.",
        )
        .table(values)
        .table(calls(study, model))
}

fn calls(study: &Study, model: &Model) -> Table {
    let print = &study.voip;
    let calls = &model.calls;
    let name = |call: &Call| match call.ring {
        None => "plain token".to_owned(),
        Some(ring) => format!("{ring} blocks, {} kept for late packets", call.behind),
    };
    let least = print.minimum_buffer_blocks as usize;
    let every = calls.iter().map(|call| match call.ring {
        Some(ring) if ring == least => Ok(Published::from(print.fill_event_every_ms_at_minimum)),
        _ => Err("not printed"),
    });
    let model_every = calls.iter().map(|call| match call.ring {
        Some(_) => Ok(ModelNumber::from(call.fill_every_ms)),
        None => Err("no buffer"),
    });
    let share = |call: &Call| ModelNumber::from(100.0 * call.in_time as f64 / call.packets as f64);
    let waits = calls.iter().map(|call| ModelNumber::from(call.wait_max_ms));
    Table::new("voip", "One G.729 call: buffers of each direction")
        .column(Column::words("buffer", calls.iter().map(name)))
        .column(Column::numbers("in time", "%", calls.iter().map(share)).decimals(1))
        .column(Column::numbers("longest wait", "ms", waits).decimals(0))
        .column(Column::results("filled every", "ms", every))
        .column(Column::results("filled every", "ms", model_every).decimals(0))
        .note(
            "The least buffer is two exchanges, 252 blocks, printed as 256, for which 640 ms are \
             printed. With room for five late packets it is 272. The longest wait is that of a \
             packet after the first second.",
        )
}

/// Figures 8 to 10.
pub fn drains(study: &Study, model: &Model) -> Section {
    let print = &study.drain;
    let blocks = print.buffer_blocks;
    Section::new("How long a buffer lasts")
        .text(
            "Packets of 1520 bytes at about 5 Mbit/s through a full buffer of 10 MB; the token \
             starts when half of it is gone. Delaying each large packet by 5 ms slows the \
             traffic, and the buffer lasts longer for those that are not delayed.",
        )
        .table(drain_table(study, model))
        .figure(level(
            ("figure-8", "Figure 8: blocks left"),
            &model.drained,
            [(0.0, blocks), (print.filling_starts_s, blocks / 2.0), (print.empty_after_s, 0.0)],
        ))
        .figure(level(
            ("figure-9", "Figure 9: blocks left, with delays"),
            &model.shaped,
            [
                (0.0, blocks),
                (print.with_delay_filling_starts_s, blocks / 2.0),
                (print.with_delay_empty_after_s, 0.0),
            ],
        ))
        .figure(difference(study, model))
}

/// When filling starts and when the buffer is empty, without delays and with them.
fn drain_table(study: &Study, model: &Model) -> Table {
    let (print, exchange) = (&study.drain, study.token.blocks_per_exchange);
    let rate = exchange * 1000.0 / study.token.io_delay_ms_full;
    let plain = drained_s(print.buffer_blocks, print.network_blocks_per_second, rate, exchange);
    let delay = print.delay_ms.first().map_or(f64::NAN, |delay| delay.delay);
    let slow = print.packet_bytes as f64 / 16.0 * 1000.0 / delay;
    let shaped = drained_s(print.buffer_blocks, slow, rate, exchange);
    let what = ["filling starts", "empty", "filling starts", "empty"];
    let how = ["no delay", "no delay", "5 ms a packet", "5 ms a packet"];
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
    Table::new("drain", "Figures 8 to 10: a buffer of 630,000 blocks at 39,375 a second")
        .column(Column::words("", how))
        .column(Column::words("what", what))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed))
        .column(Column::numbers("corrected", "s", corrected.map(Derived::from)).decimals(1))
        .note(
            "Corrected: the erratum's arithmetic for a token with 126 blocks in 16 ms that has one \
             direction to serve. The print's 19 s need 12 ms, and its 18 s and 56 s no one rate.",
        )
}

fn level((id, title): (&str, &str), run: &Drained, print: [(f64, f64); 3]) -> Figure {
    let found = run.curve.iter().map(|at| (at.at_s, ModelNumber::from(at.blocks as f64)));
    let [_, (starts, _), _] = print;
    let series = vec![
        Series::new("blocks left", Shape::Line, found),
        Series::new(
            "blocks left",
            Shape::Points,
            print.map(|(at, left)| (at, Published::from(left))),
        ),
    ];
    let axes = [Axis::new("time", "s"), Axis::new("blocks left", "").from_zero()];
    Figure::xy(id, title, axes, series).mark(starts, "filling starts, as printed").caption(
        "Open circles: what the text says of the figure (full, half when filling starts, empty).",
    )
}

fn difference(study: &Study, model: &Model) -> Figure {
    let octets = study.drain.packet_bytes;
    let line = |name: &str, run: &Drained| {
        let points =
            run.curve.iter().map(|at| (at.at_s, ModelNumber::from(kbps(at.pps, octets) / 1000.0)));
        Series::new(name, Shape::Step, points)
    };
    let series = vec![line("no delay", &model.drained), line("5 ms a packet", &model.shaped)];
    let axes = [Axis::new("time", "s"), Axis::new("throughput", "Mbit/s").from_zero()];
    Figure::xy("figure-10", "Figure 10: throughput with and without delays", axes, series)
        .mark(study.drain.empty_after_s, "empty, as printed")
        .mark(study.drain.with_delay_empty_after_s, "with delays, as printed")
        .caption("The study plots this figure and prints no numbers but those two times.")
}

/// Figure 11.
pub fn sizes(study: &Study, model: &Model) -> Section {
    let print = &study.empty_time;
    let settings = model.sizes.iter().map(|size| size.mib);
    let found = model.sizes.iter().map(|s| s.drained.empty_after_s.map(ModelNumber::from));
    let found = found.map(|at| at.ok_or("not reached"));
    let printed = print.empty_after_s.iter().map(|s| Published::from(*s));
    let printed = Column::numbers("empty after", "s", printed);
    let found = Column::results("empty after", "s", found).decimals(1);
    let after = model.sizes.iter().map(|s| ModelNumber::from(kbps(s.drained.after_pps, 1024)));
    let net = print.buffer_mib.iter().zip(&print.empty_after_s);
    let net = net.map(|(mib, s)| Derived::from(mib * 1024.0 * 1024.0 * 8.0 / s / 1e6));
    let table = Table::new("sizes", "Figure 11: buffers of three sizes, 1024-byte packets")
        .column(Column::settings("buffer", "MB", settings))
        .column(printed.clone())
        .column(found.clone())
        .column(Column::deviation("off by", &found, &printed))
        .column(Column::numbers("printed: net drain", "Mbit/s", net).decimals(1))
        .column(Column::numbers(
            "after empty",
            "kbit/s",
            print.buffer_mib.iter().map(|_| Published::from(print.after_empty_kbps)),
        ))
        .column(Column::numbers("after empty", "kbit/s", after).decimals(0))
        .note("The printed times are of three different drains, so no one model fits all.");
    let mut series = Vec::new();
    for (size, empty) in model.sizes.iter().zip(&print.empty_after_s) {
        let name = format!("{} MB", size.mib);
        let points = size.drained.curve.iter();
        let points = points.map(|at| (at.at_s, ModelNumber::from(kbps(at.pps, 1024) / 1000.0)));
        series.push(Series::new(name.clone(), Shape::Step, points));
        let after = Published::from(print.after_empty_kbps / 1000.0);
        series.push(Series::new(name, Shape::Points, [(*empty, after)]));
    }
    let axes = [Axis::new("time", "s"), Axis::new("throughput", "Mbit/s").from_zero()];
    let figure = Figure::xy("figure-11", "Figure 11: throughput by size of buffer", axes, series)
        .caption("Steps are the model, open circles where the study says that a buffer is empty.");
    Section::new("Sizes of buffers")
        .text("Packets of 1024 bytes back to back at about 7 Mbit/s.")
        .table(table)
        .figure(figure)
}

/// Loss and reordering.
pub fn order(study: &Study, model: &Model) -> Section {
    let cases = &model.order;
    let count = |of: fn(&super::order::Disturbed) -> u64| {
        cases.iter().map(|case| ModelNumber::from(of(case) as f64)).collect::<Vec<_>>()
    };
    let table = Table::new("order", "Packets that were lost or late, and the rest")
        .column(Column::words("on the way", cases.iter().map(|case| case.what)))
        .column(Column::settings("ring", "blocks", cases.iter().map(|case| case.ring as f64)))
        .column(Column::numbers("arrived", "", count(|case| case.arrived)))
        .column(Column::numbers("right", "", count(|case| case.right)))
        .column(Column::numbers("wrong", "", count(|case| case.wrong)))
        .column(Column::numbers("dropped", "", count(|case| case.gone)))
        .column(Column::numbers("asked for exactly", "", count(|case| case.asked)))
        .note(
            "Sizes of 60 to 1024 bytes in turn. Each opened packet is compared with what was \
             sealed. The study prints no numbers: it says that a late packet in a small buffer is \
             decrypted to garbage (figure 7); here it waits for exactly its blocks.",
        );
    let hazards = study.hazard.iter().map(|hazard| hazard.text.clone());
    Section::new("Loss and reordering")
        .text("A peer seals, packets are lost or late, and the phone opens what arrives.")
        .table(table)
        .text("What one had better not build so, and what is done here:")
        .list(hazards)
}
