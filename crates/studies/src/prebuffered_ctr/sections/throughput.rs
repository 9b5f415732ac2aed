//! Table 1.

use super::super::live::Live;
use super::super::model::{Model, Row, centre};
use super::super::published::{Study, Throughput};
use super::super::token::blocks;
use super::{column, conditions, kbps};
use crate::residuals::{self, Residual};
use ferrule_report::{
    Axis, Column, Derived, Figure, Fitted, Live as LiveNumber, Measure, Model as ModelNumber,
    Published, Section, Series, Shape, Table,
};

/// Rows of table 1 in the report: each size in three conditions.
const CONDITIONS: [&str; 3] = ["before empty", "after empty", "plain AES-CTR"];

/// True of the condition in which the network decides, whose limit is fitted to it.
fn is_fitted(condition: usize) -> bool {
    condition == 0
}

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
    let gain = |row: &Throughput| row.prebuffered_before_empty_kbps / row.aes_ctr_kbps;
    let [small, large] = [128, 1024].map(|bytes| gain(study.throughput_of(bytes)));
    let section = Section::new("Throughput")
        .text(
            "Packets back to back through a full buffer until it is empty and on. Packet by packet \
             the printed token takes longer than its own delays say; after empty it lies between \
             the token for one direction and for one of two with large packets, and below both \
             with small ones. No one exchange time fits all four.",
        )
        .text(format!(
            "The study claims its gain of six times for the empty buffer. Before empty the printed \
             rates are {large:.0} times those of the plain token at 1024 bytes, {small:.0} times at 128.",
        ))
        .table(table(study, model, live))
        .figure(figure(study, model, live))
        .table(residuals::table(
            "residuals",
            "The network's value, size by size",
            &fitted(study, model),
        ))
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
    let rate = |(_, row, at): &(&Throughput, &Row, usize), shared| {
        kbps(conditions(row, shared)[*at], row.packet_bytes)
    };
    let model_of = |shared| {
        let each = rows.iter().map(|row| match is_fitted(row.2) {
            true => Err("fitted"),
            false => Ok(ModelNumber::from(rate(row, shared))),
        });
        each.collect::<Vec<_>>()
    };
    let fitted = rows.iter().map(|row| match is_fitted(row.2) {
        true => Ok(Fitted::from(model.network_kbps)),
        false => Err("not fitted"),
    });
    let whole = rows.iter().map(|row| match is_fitted(row.2) {
        true => Derived::from(model.network_kbps),
        false => Derived::from(rate(row, false)),
    });
    let whole = Column::numbers("", "kbit/s", whole);
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
    let one = Column::results("one direction", "kbit/s", model_of(false)).decimals(0);
    let both = Column::results("both ways busy", "kbit/s", model_of(true)).decimals(0);
    let pps = rows.iter().map(|(row, _, at)| Published::from(printed(row)[*at][1]));
    let fits = rows.iter().map(|(row, _, at)| {
        Derived::from(printed(row)[*at][0] * 1000.0 / (row.packet_bytes as f64 * 8.0))
    });
    Table::new("throughput", "Table 1: throughput before and after the buffer is empty")
        .column(Column::settings("packet", "B", rows.iter().map(|(r, ..)| r.packet_bytes as f64)))
        .column(Column::words("buffer", rows.iter().map(|(.., at)| CONDITIONS[*at])))
        .column(print.clone())
        .column(Column::results("the network", "kbit/s", fitted).decimals(0))
        .column(one)
        .column(Column::deviation("off by", &whole, &print))
        .column(both.clone())
        .column(Column::deviation("off by", &both, &print))
        .column(live_of("one direction", false))
        .column(live_of("both ways busy", true))
        .column(Column::numbers("packets", "1/s", pps))
        .column(Column::numbers("from kbit/s", "1/s", fits).decimals(1))
        .note(format!(
            "Before empty the network decides: {:.1} Mbit/s, one value fitted to the two sizes; \
             live the same is set. Afterwards the token as printed, 126 blocks in 16 ms, for one \
             direction, or for one of two: {}. The last two columns are the first erratum: the \
             packets a second that were printed, and those that follow from the bits.",
            model.network_kbps / 1000.0,
            nearer(study, model)
        ))
}

/// The number of rates of the token that are nearer to one that has two directions to serve.
fn nearer(study: &Study, model: &Model) -> String {
    let off = |printed: &Throughput, row: &Row, at: usize, shared| {
        let found = kbps(conditions(row, shared)[at], row.packet_bytes);
        residuals::off(found, Measure::new(self::printed(printed)[at][0])).abs()
    };
    let token = || (0..CONDITIONS.len()).filter(|at| !is_fitted(*at));
    let rows = study.throughput.iter().zip(&model.rows);
    let all: Vec<bool> = rows
        .flat_map(|(print, row)| {
            token().map(move |at| off(print, row, at, true) < off(print, row, at, false))
        })
        .collect();
    let nearer = all.iter().filter(|nearer| **nearer).count();
    format!("{nearer} of the print's {} rates are nearer to the latter", all.len())
}

/// The network's one value: halfway between the two sizes, and without one of them the other.
fn fitted(study: &Study, model: &Model) -> Vec<Residual> {
    let rows = &study.throughput;
    let each = rows.iter().enumerate().map(|(at, row)| {
        let others = rows.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.map(|(_, row)| row.prebuffered_before_empty_kbps);
        Residual {
            of: format!("table 1, {} bytes, before empty", row.packet_bytes),
            unit: "kbit/s",
            printed: Measure::new(row.prebuffered_before_empty_kbps),
            asserted: false,
            fitted: Ok(model.network_kbps),
            predicted: Ok(centre(others)),
        }
    });
    each.collect()
}

fn figure(study: &Study, model: &Model, live: &Result<Live, String>) -> Figure {
    let mut series = Vec::new();
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        let print = study.throughput.iter();
        let print =
            print.map(|row| (row.packet_bytes as f64, Published::from(printed(row)[at][0])));
        let of = |row: &Row| kbps(conditions(row, false)[at], row.packet_bytes);
        let found = model.rows.iter();
        let found = found.map(|row| (row.packet_bytes as f64, of(row)));
        series.push(match is_fitted(at) {
            true => {
                let points = found.map(|(x, _)| (x, Fitted::from(model.network_kbps)));
                Series::new(condition, Shape::Line, points)
            }
            false => {
                let points = found.map(|(x, y)| (x, ModelNumber::from(y)));
                Series::new(condition, Shape::Line, points)
            }
        });
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
