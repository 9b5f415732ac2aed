//! Influences on the cost: the study's claim on size, algorithm, processor and implementation.

use super::super::model::{Factor, Model};
use ferrule_report::{Column, Model as ModelNumber, Section, Table};

/// One table, both machines.
pub fn factors(model: &Model) -> Section {
    let rows = &model.factors;
    let of = |f: fn(&Factor) -> f64| {
        rows.iter().map(move |row| ModelNumber::from(f(row))).collect::<Vec<_>>()
    };
    let table = Table::new("factors", "What the cost depends on")
        .column(Column::words("factor", rows.iter().map(|row| row.of)))
        .column(Column::words("value", rows.iter().map(|row| row.value.clone())))
        .column(Column::words("machine", rows.iter().map(|row| row.which.name())))
        .column(Column::numbers("response", "ms", of(|row| row.response_us / 1000.0)).decimals(1))
        .column(Column::numbers("slowdown", "× no IPsec", of(|row| row.slowdown)).decimals(2))
        .column(Column::numbers("module", "ms", of(|row| row.module_us / 1000.0)).decimals(2))
        .column(Column::numbers("busy", "%", of(|row| 100.0 * row.busy)).decimals(0))
        .note(
            "FTP of 57344 bytes with ESP-DES in transport mode, but for what is varied. Busy: the \
             busier host's processor, of the response. A share of a core: the rest belongs to \
             other programs, so all work takes longer. In stack: headers are made in the \
             packet's own buffer, and nothing is copied.",
        );
    Section::new("Size, algorithm, processor, implementation").table(table)
}
