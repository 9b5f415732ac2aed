//! Operation counts of section 4.3.

use super::super::cost::{Operations, SEGMENT, ah_octets, esp_octets, frames};
use super::super::published::Study;
use ferrule_report::{Axis, Column, Derived, Figure, Section, Series, Shape, Table};

/// Octets of data of a packet, for tables and curves.
const DATA: [usize; 8] = [1, 16, 64, 128, 256, 512, 1024, SEGMENT];

/// Section 4.3.
pub fn counts(study: &Study) -> Section {
    let counts = Operations::of(&study.cost_model);
    let of = |f: &dyn Fn(usize) -> f64| DATA.map(|data| Derived::from(f(data)));
    let table = Table::new("operations", "Section 4.3: operations of a packet, in one unit")
        .column(Column::settings("data", "B", DATA.map(|data| data as f64)))
        .column(Column::numbers("HMAC-MD5 (AH)", "operations", of(&|n| counts.ah(n))).decimals(0))
        .column(Column::numbers("DES (ESP)", "operations", of(&|n| counts.esp(n))).decimals(0))
        .column(
            Column::numbers("DES : MD5", "", of(&|n| counts.esp(n) / counts.ah(n))).decimals(2),
        )
        .column(Column::numbers("frames, AH", "", of(&|n| frames(ah_octets(n)) as f64)))
        .column(Column::numbers("frames, ESP", "", of(&|n| frames(esp_octets(n)) as f64)))
        .note(format!(
            "Table look-ups and XORs of 32 bits, each counted once, transport mode. For each bit DES \
             costs {:.2} times MD5, which follows from the print and does not stand in it. An HMAC has \
             three blocks that a packet of any size pays for, so hash and cipher cross at {} bytes of \
             data, within one packet.",
            counts.ratio(),
            counts.crossover().map_or("no".into(), |at| at.to_string())
        ));
    let line = |name: &str, f: &dyn Fn(usize) -> f64| {
        let points = (1..=SEGMENT).step_by(8).map(|data| (data as f64, Derived::from(f(data))));
        Series::new(name, Shape::Step, points.collect::<Vec<_>>())
    };
    let series = vec![line("HMAC-MD5", &|n| counts.ah(n)), line("DES", &|n| counts.esp(n))];
    let axes = [Axis::new("data", "bytes").log(), Axis::new("operations", "").log()];
    let crossover = counts.crossover().map_or(f64::NAN, |at| at as f64);
    Section::new("Operations of hash and cipher").table(table).figure(
        Figure::xy("operations", "Operations of a packet by its data", axes, series)
            .mark(crossover, "DES costs more"),
    )
}
