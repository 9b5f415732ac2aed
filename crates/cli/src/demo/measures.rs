//! Everything that the demo measured, as tables: for programs, and for readers who want more than
//! the one table that the verdict rests on.

use super::report::{Outcome, Row};
use super::wiretap::OnWire;
use ferrule_report::{Column, Derived, Measure, Origin, Section, Table};
use std::path::Path;

/// Every table, and the place of the files.
pub fn section<K: Origin>(outcome: &Outcome, page: &Path) -> Section {
    let rows = &outcome.rows;
    let section = Section::new("Everything that was measured")
        .table(wires::<K>(rows))
        .table(traffic::<K>(rows))
        .table(refused::<K>(rows))
        .table(transfers::<K>(rows))
        .table(readings::<K>(rows));
    section.table(files(rows, page))
}

fn number<K: Origin>(value: f64) -> K {
    K::from(Measure::new(value))
}

fn key(row: &Row) -> &'static str {
    row.variant.key
}

/// The study's frames on both core links.
fn wires<K: Origin>(rows: &[Row]) -> Table {
    let each = || {
        rows.iter().flat_map(|row| row.wires.iter().zip(["PE1–P", "P–PE2"]).map(move |w| (row, w)))
    };
    let count =
        |f: fn(&OnWire) -> usize| each().map(move |(_, (wire, _))| number::<K>(f(wire) as f64));
    Table::new("wires", "The study's frames on the core links")
        .column(Column::words("variant", each().map(|(row, _)| key(row))))
        .column(Column::words("link", each().map(|(_, (_, link))| link)))
        .column(Column::numbers("bytes", "", count(|w| w.bytes)).decimals(0))
        .column(
            Column::numbers(
                "calculated",
                "",
                each().map(|(_, (w, _))| number::<Derived>(w.expected_bytes as f64)),
            )
            .decimals(0),
        )
        .column(Column::numbers("labels", "", count(|w| w.labels)).decimals(0))
        .column(Column::numbers("frames", "", count(|w| w.frames)).decimals(0))
}

/// Traffic that hosts sent and received.
fn traffic<K: Origin>(rows: &[Row]) -> Table {
    let stack = |row: &Row| row.variant.stack(1).map_or_else(|_| String::new(), |s| s.to_string());
    let column = |head: &str, unit: &str, f: fn(&Row) -> f64| {
        Column::numbers(head, unit, rows.iter().map(|row| number::<K>(f(row))))
    };
    Table::new("traffic", "From host to host")
        .column(Column::words("variant", rows.iter().map(key)))
        .column(Column::words("stack from P to PE2", rows.iter().map(stack)))
        .column(column("sent", "frames", |r| r.delivery.sent.into()).decimals(0))
        .column(column("received", "frames", |r| r.delivery.received.into()).decimals(0))
        .column(column("spoilt", "frames", |r| r.delivery.spoilt as f64).decimals(0))
        .column(column("loss", "%", Row::loss_percent).decimals(3))
        .column(column("TCP to host2", "bit/s", |r| r.throughput[0]).decimals(0))
        .column(column("TCP back", "bit/s", |r| r.throughput[1]).decimals(0))
        .column(column("echoes sent", "", |r| r.rtt.sent as f64).decimals(0))
        .column(column("replies", "", |r| r.rtt.received as f64).decimals(0))
        .column(column("round trip, median", "µs", |r| r.rtt.median_us).decimals(1))
}

/// The flow that PE1's list refuses.
fn refused<K: Origin>(rows: &[Row]) -> Table {
    let column = |head: &str, f: fn(&Row) -> f64| {
        Column::numbers(head, "packets", rows.iter().map(|row| number::<K>(f(row)))).decimals(0)
    };
    Table::new("refused", "A flow that PE1's access list refuses")
        .column(Column::words("variant", rows.iter().map(key)))
        .column(column("sent", |r| r.refused.sent.into()))
        .column(column("denied", |r| r.refused.denied as f64))
        .column(column("arrived", |r| r.refused.arrived.into()))
}

/// The file.
fn transfers<K: Origin>(rows: &[Row]) -> Table {
    let value = |f: fn(&super::traffic::Fetched) -> f64| {
        rows.iter()
            .map(move |row| row.file.as_ref().map(|file| number::<K>(f(file))).ok_or("not fetched"))
    };
    let sum = |at: usize| {
        rows.iter().map(move |row| {
            row.file.as_ref().and_then(|f| f.sha256.get(at)).cloned().unwrap_or_else(|| "-".into())
        })
    };
    Table::new("file", "A file fetched by HTTP")
        .column(Column::words("variant", rows.iter().map(key)))
        .column(Column::results("size", "bytes", value(|f| f.bytes as f64)).decimals(0))
        .column(Column::results("time", "s", value(|f| f.seconds)).decimals(3))
        .column(Column::findings::<K>("SHA-256 served", sum(0)))
        .column(Column::findings::<K>("SHA-256 arrived", sum(1)))
}

/// Verdicts of tshark on the captures.
fn readings<K: Origin>(rows: &[Row]) -> Table {
    let each = || {
        rows.iter().flat_map(|row| row.tshark.iter().zip(["PE1–P", "P–PE2"]).map(move |t| (row, t)))
    };
    let said = |f: fn(&super::tshark::Verdict) -> String| {
        each().map(move |(_, (verdict, _))| verdict.as_ref().map_or_else(|| "not read".into(), f))
    };
    Table::new("tshark", "What tshark makes of the captures")
        .column(Column::words("variant", each().map(|(row, _)| key(row))))
        .column(Column::words("link", each().map(|(_, (_, link))| link)))
        .column(Column::findings::<K>("layers", said(|v| v.layers.clone())))
        .column(Column::findings::<K>(
            "all layers",
            said(|v| if v.complete { "yes" } else { "NO" }.into()),
        ))
        .column(Column::findings::<K>("complaints", said(|v| v.complaints.to_string())))
}

/// Table of files.
fn files(rows: &[Row], page: &Path) -> Table {
    let mut list = vec![("this page".to_owned(), page.display().to_string())];
    for row in rows {
        let named = row.captures.iter().zip(["PE1–P", "P–PE2"]);
        list.extend(
            named.map(|(file, link)| (format!("{} {link}", key(row)), file.display().to_string())),
        );
    }
    let (what, paths): (Vec<_>, Vec<_>) = list.into_iter().unzip();
    Table::new("files", "Files")
        .column(Column::words("what", what))
        .column(Column::words("where", paths))
}
