//! For spreadsheets: a table as CSV (RFC 4180).

use crate::document::Report;
use crate::figure::{Figure, Plot};
use crate::table::{Column, Table};
use crate::value::{Cell, Kind};

/// A table of a report: one line of heads, one line for each row. A column with spread has
/// two more, for the lower and the upper end. The last columns say for each row which device
/// was measured by which program, so that tables of several may be put together.
pub fn render(report: &Report, table: &Table) -> String {
    let named = [("device", &report.device), ("program", &report.program)];
    let source: Vec<_> = named.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let spread: Vec<bool> = table.columns().iter().map(has_spread).collect();
    let mut text = String::new();
    let heads = table.columns().iter().zip(&spread).flat_map(|(column, &spread)| {
        let ends = spread.then_some([" low", " high"]).into_iter().flatten();
        std::iter::once("").chain(ends).map(|end| quoted(&head(column, end))).collect::<Vec<_>>()
    });
    line(&mut text, heads.chain(source.iter().map(|(name, _)| (*name).to_owned())));
    for row in 0..table.rows() {
        let cells = table.columns().iter().zip(&spread).flat_map(|(column, &spread)| {
            let cell = column.cells().get(row);
            let mut fields = vec![cell.map_or_else(String::new, field)];
            if spread {
                let measure = cell.and_then(Cell::measure);
                let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
                fields.push(end(measure.and_then(|m| m.low)));
                fields.push(end(measure.and_then(|m| m.high)));
            }
            fields
        });
        line(&mut text, cells.chain(source.iter().map(|(_, value)| quoted(value))));
    }
    text
}

/// A figure of a report: a line for each point, or for each part of a bar.
pub fn figure(report: &Report, figure: &Figure) -> String {
    let named = [("device", &report.device), ("program", &report.program)];
    let source: Vec<_> = named.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let (heads, rows): (Vec<String>, Vec<Vec<String>>) = match &figure.plot {
        Plot::Xy(xy) => {
            let (x, y) = (quoted(&xy.x.name()), quoted(&xy.y.name()));
            let low_high = ["low", "high"].map(str::to_owned);
            let heads = ["series".to_owned(), "origin".to_owned(), x, y].into_iter();
            let points = xy.series.iter().flat_map(|series| {
                series.points().iter().map(move |point| {
                    let of = [quoted(&series.name), series.kind().name().to_owned()];
                    let at = [point.x, point.y.value].map(|value| value.to_string());
                    of.into_iter().chain(at).chain([number(point.y.low), number(point.y.high)])
                })
            });
            (heads.chain(low_high).collect(), points.map(Iterator::collect).collect())
        }
        Plot::Bars(bars) => {
            let heads = ["bar".to_owned(), "part".to_owned(), "origin".to_owned()].into_iter();
            let parts = bars.bars.iter().flat_map(|bar| {
                bar.values().iter().zip(&bars.parts).map(|(value, part)| {
                    let of = [quoted(&bar.name), quoted(part), bars.kind().name().to_owned()];
                    of.into_iter().chain([value.to_string()]).collect()
                })
            });
            (heads.chain([quoted(&bars.axis.name())]).collect(), parts.collect())
        }
    };
    let mut text = String::new();
    line(&mut text, heads.into_iter().chain(source.iter().map(|(name, _)| (*name).to_owned())));
    for row in rows {
        line(&mut text, row.into_iter().chain(source.iter().map(|(_, value)| quoted(value))));
    }
    text
}

fn has_spread(column: &Column) -> bool {
    column.cells().iter().filter_map(Cell::measure).any(|m| m.low.is_some() || m.high.is_some())
}

/// Name, unit and origin.
fn head(column: &Column, end: &str) -> String {
    let mut text = column.head().to_owned();
    if !column.unit().is_empty() {
        text += &format!(" [{}]", column.unit());
    }
    if column.kind() != Kind::Key {
        text += &format!(" {}", column.kind().name());
    }
    text + end
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Number(measure) => measure.value.to_string(),
        Cell::Text { text } => quoted(text),
        Cell::Missing { missing } => quoted(missing),
    }
}

/// In quotes where that is needed. A spreadsheet takes words that begin like a
/// formula for one: an apostrophe says that they are words.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    *text += &fields.collect::<Vec<_>>().join(",");
    *text += "\r\n";
}
