//! Figure 2: MACsec's extra delay by hop; figure 9: delay by hop and load.

use super::live::{Live, LiveHop};
use super::model::{HOPS, Hop, Model, SURFACE_LOADS, Surface};
use super::network::System;
use super::published::Study;
use ferrule_report::{
    Axis, Column, Figure, Fitted, Live as LiveNumber, Measure, Model as ModelNumber, Published,
    Section, Series, Shape, Table,
};

/// Switches that figure 9 is drawn for: the print's ends, and the longest chain.
const DRAWN: [usize; 3] = [1, HOPS, 32];

/// Both figures.
pub fn section(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let measured =
        live.as_ref().map_err(Clone::clone).and_then(|l| l.hops.as_deref().map_err(Clone::clone));
    Section::new("Delay by hop")
        .text(
            "Switches in a row between the two edges. With MACsec each opens at its input and \
             seals at its output, and each link carries 32 bytes more; with IPsec the edges are \
             gateways and the switches between them know of nothing.",
        )
        .table(per_hop(study, model, live))
        .table(hop_table(model, &measured))
        .figure(hop_figure(model))
        .table(surface_table(model))
        .figure(surface_figure(model))
}

fn per_hop(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let measured = live.as_ref().map_err(Clone::clone).and_then(|live| {
        let why = || live.hops.as_ref().err().cloned().unwrap_or_default();
        let (extra, turns) = live.extra_per_hop_us().ok_or_else(why)?;
        // An interval around nothing is no value.
        match extra.low.zip(extra.high) {
            Some((low, high)) if low * high > 0.0 => Ok(LiveNumber::from(extra)),
            _ => Err(format!("undecided: {turns} turns differ by more than that")),
        }
    });
    let extra = Column::numbers(
        "extra per hop",
        "µs",
        [Published::from(study.hop_delay.macsec_extra_us_per_hop)],
    );
    let found = Column::numbers("extra per hop", "µs", [Fitted::from(model.extra_per_hop_us())]);
    Table::new("hop-delay", "Figure 2: what MACsec adds for each hop")
        .column(Column::words("delay", ["MACsec over plain"]))
        .column(extra.clone().decimals(3))
        .column(found.clone().decimals(3))
        .column(Column::deviation("off by", &found, &extra))
        .column(Column::results("extra per hop", "µs", [measured]).decimals(1))
        .note(
            "The slope through one to six switches. 0.256 µs of it are the 32 bytes on one more \
             line, the rest two operations, which were fitted to this figure. Live: the slope \
             through one to eight switches; plain and MACsec are asked in turn, each turn has a \
             slope, and in brackets is where their median lies with 95 %. Where nothing lies \
             within, this machine cannot tell.",
        )
}

/// Figure 2's chains in numbers.
fn hop_table(model: &Model, live: &Result<&[LiveHop], String>) -> Table {
    let hops = &model.hops;
    let modelled = |of: fn(&Hop) -> f64| hops.iter().map(move |hop| ModelNumber::from(of(hop)));
    let measured = |of: fn(&LiveHop) -> [f64; 3]| {
        let each = hops.iter().map(move |hop| {
            let live = live.as_ref().map_err(|why| (*why).clone())?;
            let found = live.iter().find(|live| live.switches == hop.switches);
            let [median, least, greatest] = of(found.ok_or("not measured")?);
            Ok::<_, String>(LiveNumber::from(Measure::within(median, least, greatest)))
        });
        each.collect::<Vec<_>>()
    };
    Table::new("hops", "Figure 2: delay by number of switches")
        .column(Column::settings("switches", "", hops.iter().map(|hop| hop.switches as f64)))
        .column(Column::numbers("plain", "µs", modelled(|hop| hop.plain_us)).decimals(2))
        .column(Column::numbers("MACsec", "µs", modelled(|hop| hop.macsec_us)).decimals(2))
        .column(Column::results("plain", "µs", measured(|hop| hop.plain)).decimals(0))
        .column(Column::results("MACsec", "µs", measured(|hop| hop.macsec)).decimals(0))
        .note(
            "Model at 100 Mbit/s. Live at 20 Mbit/s, each switch a process and each cable a veth \
             pair: the median of trials, and the least and the greatest. What a hop costs there \
             is a scheduler's doing.",
        )
}

fn hop_figure(model: &Model) -> Figure {
    let line = |system: System, of: fn(&Hop) -> f64| {
        let points = model.hops.iter().map(|hop| (hop.switches as f64, ModelNumber::from(of(hop))));
        Series::new(system.name(), Shape::Line, points)
    };
    let series =
        vec![line(System::Plain, |hop| hop.plain_us), line(System::Macsec, |hop| hop.macsec_us)];
    let axes = [Axis::new("switches", ""), Axis::new("delay", "µs").from_zero()];
    Figure::xy("hops", "Figure 2: delay by number of switches", axes, series).caption(
        "At 100 Mbit/s. The study prints no delays for this figure, only the difference of \
         0.63 µs for each hop.",
    )
}

/// The places of a system with so many switches.
fn row(model: &Model, system: System, switches: usize) -> impl Iterator<Item = &Surface> {
    model.surface.iter().filter(move |s| s.system == system && s.switches == switches)
}

/// The numbers of switches, each once.
fn switches(model: &Model) -> Vec<usize> {
    let mut all: Vec<usize> = model.surface.iter().map(|place| place.switches).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn surface_table(model: &Model) -> Table {
    let rows: Vec<(System, usize)> = [System::Macsec, System::Ipsec]
        .into_iter()
        .flat_map(|system| switches(model).into_iter().map(move |n| (system, n)))
        .collect();
    let mut table = Table::new("hop-load", "Figure 9: delay by hop and load")
        .column(Column::words("system", rows.iter().map(|(system, _)| system.name())))
        .column(Column::settings("switches", "", rows.iter().map(|(_, n)| *n as f64)));
    for (at, load) in SURFACE_LOADS.into_iter().enumerate() {
        let delays = rows.iter().map(|(system, n)| {
            let place = row(model, *system, *n).nth(at);
            ModelNumber::from(place.map_or(f64::NAN, |place| place.point.mean_us))
        });
        table = table.column(Column::numbers(format!("{load} Mbit/s"), "µs", delays).decimals(1));
    }
    table.note(
        "The study plots this figure, up to six switches, and prints no numbers: model only, \
         and on to 32.",
    )
}

fn surface_figure(model: &Model) -> Figure {
    let mut series = Vec::new();
    for system in [System::Macsec, System::Ipsec] {
        for count in switches(model).into_iter().filter(|count| DRAWN.contains(count)) {
            let points = row(model, system, count);
            let points = points.map(|s| (s.point.load_mbps, ModelNumber::from(s.point.mean_us)));
            let hops = if count == 1 { "1 switch".to_owned() } else { format!("{count} switches") };
            let name = format!("{}, {hops}", system.name());
            series.push(Series::new(name.clone(), Shape::Line, points).named(name));
        }
    }
    let axes = [Axis::new("offered load", "Mbit/s"), Axis::new("delay", "µs").log()];
    Figure::xy("hop-load", "Figure 9: delay by load, for each number of switches", axes, series)
        .caption(
            "MACsec's delay grows with every hop and not with load, the gateways' with load and, \
             up to six switches, hardly with hops. With 32, lines and switches are nearly all of \
             MACsec's delay and half of the gateways'. Of one length they never meet.",
        )
}
