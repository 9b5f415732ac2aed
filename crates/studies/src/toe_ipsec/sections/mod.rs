//! The report's parts: tables and figures.

mod bus;
mod costs;
mod machine;
mod throughput;
mod today;

pub use bus::bus;
pub use costs::{costs, streams};
pub use machine::machine;
pub use throughput::{sizes, speeds};
pub use today::today;

use super::bench::{Point, Way};
use super::live::{Live, Load, Sweep};
use super::network::System;
use ferrule_report::{Column, Live as LiveNumber, Series, Shape, Table};

/// Every system, each way.
fn rows() -> Vec<(System, Way)> {
    let each = System::ALL.into_iter();
    each.flat_map(|system| Way::ALL.into_iter().map(move |way| (system, way))).collect()
}

/// The two columns that say which row it is.
fn keyed(table: Table) -> Table {
    table
        .column(Column::words("system", rows().into_iter().map(|(system, _)| system.key())))
        .column(Column::words("way", rows().into_iter().map(|(_, way)| way.name())))
}

fn carried(point: &Point) -> f64 {
    point.share * point.offered_mbps
}

/// A load of a system as a node, or why there is none.
fn found<'a>(
    live: &'a Result<Live, String>,
    (system, way): (Option<System>, Way),
    of: impl Fn(&'a Sweep) -> Option<&'a Load>,
) -> Result<&'a Load, String> {
    let live = live.as_ref().map_err(Clone::clone)?;
    let load = of(live.sweep(system, way)?).ok_or("not measured")?;
    if load.was_offered() { Ok(load) } else { Err("tester too slow".into()) }
}

/// Points of a figure, measured: a system as a sending node, over speed or size.
fn measured(
    live: &Result<Live, String>,
    system: System,
    of: fn(&Sweep) -> &[Load],
    at: fn(&Load) -> (f64, f64),
) -> Option<Series> {
    let sweep = live.as_ref().ok()?.sweep(Some(system), Way::Out).ok()?;
    let points = of(sweep).iter().filter(|load| load.was_offered()).map(at);
    let points = points.map(|(x, y)| (x, LiveNumber::from(y)));
    Some(Series::new(system.key(), Shape::Points, points))
}
