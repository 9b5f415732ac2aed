//! Section IV.3.

use super::super::bus::Bus;
use super::super::published::Study;
use ferrule_report::{Asserted, Column, Derived, Section, Table};

/// Section IV.3.
pub fn bus(study: &Study) -> Section {
    let printed = &study.bus_model;
    let bus = Bus::of(printed);
    let sizes = [64.0, 512.0, printed.packet_bytes, 1460.0];
    let of = |f: &dyn Fn(f64) -> f64| sizes.map(|octets| Derived::from(f(octets)));
    let told = |value: f64| {
        sizes.map(|octets| match octets == printed.packet_bytes {
            true => Ok(Asserted::from(value)),
            false => Err("not said"),
        })
    };
    let line = Bus::line_us;
    let table = Table::new("bus", "Section IV.3: the bus, four crossings of 32 bits at 133 MHz")
        .column(Column::settings("packet", "B", sizes))
        .column(Column::results("bus : line", "", told(1.0)))
        .column(Column::numbers("bus", "µs", of(&|o| bus.time_us(o))).decimals(2))
        .column(Column::numbers("line", "µs", of(&line)).decimals(2))
        .column(Column::numbers("bus : line", "", of(&|o| bus.time_us(o) / line(o))).decimals(2))
        .column(Column::results("share of inline", "%", told(50.0)))
        .column(
            Column::numbers(
                "one after the other",
                "%",
                of(&|o| 100.0 * line(o) / (line(o) + bus.time_us(o))),
            )
            .decimals(0),
        )
        .column(
            Column::numbers(
                "pipelined",
                "%",
                of(&|o| 100.0 * line(o) / line(o).max(bus.time_us(o))),
            )
            .decimals(0),
        )
        .note(
            "The study takes 0.94 for 1 and lets bus and line wait for each other: half of inline. \
             Stages that work at the same time wait for the slower one alone; then the bus \
             carries a gigabit at every size, and costs latency only.",
        );
    let path = &study.look_aside_path;
    Section::new("The bus")
        .text(format!(
            "Figures 3 and 4: inline stands {}. A look-aside packet goes these ways, and crosses \
             the bus {} times:",
            study.inline_path.place,
            path.crossings()
        ))
        .list(path.steps.clone())
        .table(table)
}
