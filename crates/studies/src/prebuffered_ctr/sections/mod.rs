//! The report's parts: tables and figures.

mod call;
mod drains;
mod nodes;
mod order;
mod throughput;

pub use call::call;
pub use drains::{drains, sizes};
pub use nodes::nodes;
pub use order::order;
pub use throughput::throughput;

use super::closed::Drained;
use super::live::{Live, Measured};
use super::model::Row;
use ferrule_report::{Column, Live as LiveNumber, Series, Shape};

/// Bits of an octet, thousands of a kilobit.
fn kbps(pps: f64, octets: usize) -> f64 {
    Drained::kbps(pps, octets)
}

/// Something that was measured, or why not.
fn measured<'a, T>(
    live: &'a Result<Live, String>,
    of: impl Fn(&'a Measured) -> Option<T>,
) -> Result<T, String> {
    let live = live.as_ref().map_err(Clone::clone)?;
    of(&live.measured).ok_or_else(|| "not reached".into())
}

/// A live column of as many rows, or why not.
fn column<'a>(
    (head, unit): (&str, &str),
    live: &'a Result<Live, String>,
    rows: usize,
    of: impl Fn(&'a Measured, usize) -> Option<f64>,
) -> Column {
    let cells = (0..rows).map(|row| measured(live, |m| of(m, row)).map(LiveNumber::from));
    Column::results(head, unit, cells)
}

/// Curve that a live run measured; `None` if its buffer was smaller than the drawn one.
fn curve(
    name: &str,
    live: &Result<Live, String>,
    of: impl Fn(&Measured) -> Option<&Drained>,
    y: impl Fn(&super::closed::Level) -> f64,
) -> Option<Series> {
    let run = measured(live, |m| of(m).filter(|_| m.is_whole())).ok()?;
    let points = run.curve.iter().map(|at| (at.at_s, LiveNumber::from(y(at))));
    Some(Series::new(name, Shape::Step, points))
}

/// Rates of a row of table 1 in its three conditions: one direction, or one of two.
fn conditions(row: &Row, shared: bool) -> [f64; 3] {
    match shared {
        false => [row.before_pps, row.after_pps, row.plain_pps],
        true => [row.before_pps, row.shared_pps, row.plain_pps / 2.0],
    }
}
