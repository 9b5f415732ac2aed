//! Table 1.

use super::super::live::Live;
use super::super::model::{Model, Row};
use super::super::published::{Study, Throughput};
use super::super::token::blocks;
use super::{column, conditions, kbps};
use ferrule_report::{
    Axis, Column, Derived, Figure, Live as LiveNumber, Model as ModelNumber, Published, Section,
    Series, Shape, Table,
};

/// Rows of table 1 in the report: each size in three conditions.
const CONDITIONS: [&str; 3] = ["before empty", "after empty", "plain AES-CTR"];

fn printed(row: &Throughput) -> [[f64; 2]; 3] {
    [
        [row.prebuffered_before_empty_kbps, row.prebuffered_before_empty_pps],
        [row.prebuffered_after_empty_kbps, row.prebuffered_after_empty_pps],
        [row.aes_ctr_kbps, row.aes_ctr_pps],
    ]
}

/// Table 1, what it says of the token, and what the machine at hand does without a
/// network.
pub fn throughput(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let section = Section::new("Throughput")
        .text(
            "Packets back to back through a full buffer until it is empty and on. Packet by packet \
             the printed token takes longer than its own delays say; after empty it lies between \
             the token for one direction and for one of two with large packets, and below both \
             with small ones. No one exchange time fits all four.",
        )
        .table(table(study, model, live))
        .figure(figure(study, model, live))
        .table(implied(study));
    match live {
        Ok(_) => section.table(unlimited(study, live)),
        Err(_) => section,
    }
}

fn table(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let rows: Vec<(&Throughput, &Row, usize)> = study
        .throughput
        .iter()
        .zip(&model.rows)
        .flat_map(|(printed, row)| (0..CONDITIONS.len()).map(move |at| (printed, row, at)))
        .collect();
    let model_of = |shared| {
        let each =
            rows.iter().map(|(_, row, at)| kbps(conditions(row, shared)[*at], row.packet_bytes));
        each.map(ModelNumber::from).collect::<Vec<_>>()
    };
    let live_of = |head, shared| {
        let found = column((head, "kbit/s"), live, rows.len(), |m, index| {
            let (printed, _, at) = rows.get(index)?;
            let row = m.row(printed.packet_bytes)?;
            Some(kbps(conditions(row, shared)[*at], row.packet_bytes))
        });
        found.decimals(0)
    };
    let print = rows.iter().map(|(row, _, at)| Published::from(printed(row)[*at][0]));
    let print = Column::numbers("throughput", "kbit/s", print);
    let one = Column::numbers("one direction", "kbit/s", model_of(false)).decimals(0);
    let pps = rows.iter().map(|(row, _, at)| Published::from(printed(row)[*at][1]));
    let fits = rows.iter().map(|(row, _, at)| {
        Derived::from(printed(row)[*at][0] * 1000.0 / (row.packet_bytes as f64 * 8.0))
    });
    Table::new("throughput", "Table 1: throughput before and after the buffer is empty")
        .column(Column::settings("packet", "B", rows.iter().map(|(r, ..)| r.packet_bytes as f64)))
        .column(Column::words("", rows.iter().map(|(.., at)| CONDITIONS[*at])))
        .column(print.clone())
        .column(one.clone())
        .column(Column::deviation("off by", &one, &print))
        .column(Column::numbers("both ways busy", "kbit/s", model_of(true)).decimals(0))
        .column(live_of("one direction", false))
        .column(live_of("both ways busy", true))
        .column(Column::numbers("packets", "1/s", pps))
        .column(Column::numbers("from kbit/s", "1/s", fits).decimals(1))
        .note(format!(
            "Before empty the network decides: {:.1} Mbit/s, one value fitted to the two sizes \
             (fit {:.1} %, each left out {:.1} %); live the same is set. Afterwards the token as \
             printed, 126 blocks in 16 ms, for one direction, or for one of two. The last two \
             columns are the first erratum: the packets a second that were printed, and those \
             that follow from the bits.",
            model.network_kbps / 1000.0,
            fit_percent(study),
            left_out_percent(study)
        ))
}

fn before(study: &Study) -> [f64; 2] {
    let mut each = study.throughput.iter().map(|row| row.prebuffered_before_empty_kbps);
    [each.next().unwrap_or(f64::NAN), each.next().unwrap_or(f64::NAN)]
}

/// Deviation of the fitted value from either printed one, in percent.
fn fit_percent(study: &Study) -> f64 {
    let [a, b] = before(study);
    100.0 * (f64::midpoint(a, b) / a.min(b) - 1.0)
}

/// Deviation of one printed value from a fit to the other alone, in percent.
fn left_out_percent(study: &Study) -> f64 {
    let [a, b] = before(study);
    100.0 * (a.max(b) / a.min(b) - 1.0)
}

fn figure(study: &Study, model: &Model, live: &Result<Live, String>) -> Figure {
    let mut series = Vec::new();
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        let print = study.throughput.iter();
        let print =
            print.map(|row| (row.packet_bytes as f64, Published::from(printed(row)[at][0])));
        let of = |row: &Row| kbps(conditions(row, false)[at], row.packet_bytes);
        let found = model.rows.iter();
        let found = found.map(|row| (row.packet_bytes as f64, ModelNumber::from(of(row))));
        series.push(Series::new(condition, Shape::Line, found));
        series.push(Series::new(condition, Shape::Points, print));
        if let Ok(live) = live {
            let found = live.measured.rows.iter();
            let found = found.map(|row| (row.packet_bytes as f64, LiveNumber::from(of(row))));
            series.push(Series::new(condition, Shape::Points, found));
        }
    }
    let axes = [Axis::new("IP packet", "bytes").log(), Axis::new("throughput", "kbit/s").log()];
    Figure::xy("throughput", "Table 1: throughput by size of packet", axes, series)
        .caption("Lines are the model, with the token for one direction.")
}

/// Table of the token's exchange times that the printed rates imply.
fn implied(study: &Study) -> Table {
    let rows = &study.throughput;
    let blocks = |row: &Throughput| blocks(row.packet_bytes) as f64;
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

/// Throughput of the machine at hand while its ring lasts.
fn unlimited(study: &Study, live: &Result<Live, String>) -> Table {
    let rows = &study.throughput;
    let found = column(("throughput", "Mbit/s"), live, rows.len(), |m, row| {
        let octets = rows.get(row)?.packet_bytes;
        Some(kbps(*m.unlimited_pps.get(row)?, octets) / 1000.0)
    });
    Table::new("unlimited", "Before empty, and no network in the way")
        .column(Column::settings("packet", "B", rows.iter().map(|row| row.packet_bytes as f64)))
        .column(found.decimals(0))
        .note("From memory to memory, one packet at a time, key stream from the token's ring.")
}
