//! Section on the time of a transfer, by parts.

use super::super::cases::{Application, Mode, Way};
use super::super::live::Live;
use super::super::model::{Attributed, Model, PART_NAMES, Which};
use super::bytes;
use ferrule_report::{
    Axis, Bars, Column, Figure, Live as LiveNumber, Model as ModelNumber, Section, Table,
};

/// Parts of the response, and time inside the machines.
pub fn parts(model: &Model, live: &Live) -> Section {
    let mut section = Section::new("Where the time goes").text(
        "One after the other is let take time: first the line alone, then TCP's window and slow \
         start, acknowledgements that wait for company, card and stack, look-ups of policies and \
         SAs, the copy to a new buffer, hash or cipher, and last the fragments of what is longer \
         than the line takes. Each column is what the response grew by; together they are the \
         response. What a machine does while the line is busy anyway costs no response, so a \
         part may be smaller than the time inside the module, which stands below it. It is less \
         than nothing where waiting saves: an acknowledgement that waits is often not sent at \
         all.",
    );
    for application in Application::ALL {
        for which in Which::ALL {
            section = section.table(responses(model, which, application));
        }
    }
    section = section.figure(bars(model));
    for which in Which::ALL {
        section = section.table(inside(model, which));
    }
    if live.transfers.is_ok() {
        section = section.table(spent(live));
    }
    section
}

fn rows(model: &Model, which: Which, application: Application) -> Vec<&Attributed> {
    let is_meant = |found: &&Attributed| (found.which, found.application) == (which, application);
    model.attributed.iter().filter(is_meant).collect()
}

fn responses(model: &Model, which: Which, application: Application) -> Table {
    let rows = rows(model, which, application);
    let name = application.name();
    let id = format!("parts-{}-{}", name.to_lowercase(), which.name());
    let title = format!("{name}, {} machine: parts of the response", which.name());
    let mut table = Table::new(id, title)
        .column(Column::words("transfer", rows.iter().map(|row| bytes(row.octets))))
        .column(Column::words("protection", rows.iter().map(|row| row.way.name())));
    for (at, name) in PART_NAMES.into_iter().enumerate() {
        let each = rows.iter().map(|row| ModelNumber::from(row.parts[at] / 1000.0));
        table = table.column(Column::numbers(name, "ms", each).decimals(2));
    }
    let again = rows.iter().map(|row| ModelNumber::from(row.again_us / 1000.0));
    let all = rows.iter().map(|row| ModelNumber::from(row.response_us / 1000.0));
    table
        .column(Column::numbers("sent again", "ms", again).decimals(2))
        .column(Column::numbers("response", "ms", all).decimals(2))
}

/// FTP by part, for the largest size that was attributed.
fn bars(model: &Model) -> Figure {
    let plausible = rows(model, Which::Plausible, Application::Ftp);
    let largest = plausible.iter().map(|row| row.octets).max().unwrap_or(0);
    let mut bars = Bars::of::<ModelNumber>(Axis::new("response", "ms").from_zero(), DRAWN);
    for row in plausible {
        if row.octets == largest {
            let values = drawn(row);
            let about = format!("{:.1} ms", row.response_us / 1000.0);
            bars = bars.bar(row.way.name(), about, values.map(|us| ModelNumber::from(us / 1000.0)));
        }
    }
    let title = format!("FTP of {}, plausible machine: where the time goes", bytes(largest));
    Figure::new("parts", title, bars.plot()).caption(
        "The line is most of it; hash and cipher are hidden behind it or small. TCP is its \
             window and acknowledgements that wait; what saves time is taken off the part before \
             it, so that each bar is as long as its response.",
    )
}

/// Parts of a bar: no more than there are colours.
const DRAWN: [&str; 7] =
    ["line", "TCP", "stack", "look-up", "copies", "crypto", "fragments, sent again"];

/// A response's parts as a bar has them, none less than nothing, in microseconds.
fn drawn(row: &Attributed) -> [f64; 7] {
    let [line, window, waiting, stack, lookup, copies, crypto, fragments] = row.parts;
    let last = fragments + row.again_us;
    let mut parts = [line, window + waiting, stack, lookup, copies, crypto, last];
    for at in (1..parts.len()).rev() {
        let saved = parts[at].min(0.0);
        parts[at] -= saved;
        parts[at - 1] += saved;
    }
    parts
}

/// The study's figure 9: inside the module.
fn inside(model: &Model, which: Which) -> Table {
    let cells: Vec<_> = model
        .cells
        .iter()
        .filter(|cell| {
            cell.which == which
                && cell.application == Application::Ftp
                && cell.way.protection.suite().is_some()
                && cell.way.mode == Mode::Transport
        })
        .collect();
    let of = |f: fn(&super::super::model::Cell) -> f64| {
        cells.iter().map(move |cell| ModelNumber::from(f(cell) / 1000.0)).collect::<Vec<_>>()
    };
    let id = format!("inside-{}", which.name());
    let title = format!("Figure 9: time inside the IPsec module, FTP, {} machine", which.name());
    Table::new(id, title)
        .column(Column::words("transfer", cells.iter().map(|cell| bytes(cell.octets))))
        .column(Column::words("protection", cells.iter().map(|cell| cell.way.name())))
        .column(Column::numbers("look-up", "ms", of(|c| c.inside.lookup_us)).decimals(2))
        .column(Column::numbers("copies", "ms", of(|c| c.inside.copy_us)).decimals(2))
        .column(Column::numbers("crypto", "ms", of(|c| c.inside.crypto_us)).decimals(2))
        .column(Column::numbers("fragments", "ms", of(|c| c.inside.fragments_us)).decimals(2))
        .column(Column::numbers("module", "ms", of(|c| c.inside.module_us())).decimals(2))
        .column(Column::numbers("stack", "ms", of(|c| c.inside.stack_us)).decimals(2))
        .note(
            "Both hosts together, transport mode. The study plots this figure and prints no \
             numbers of it.",
        )
}

/// The same from the nodes' own counters.
fn spent(live: &Live) -> Table {
    let mut rows = Vec::new();
    for application in Application::ALL {
        for octets in live.sizes(application) {
            for way in Way::all().filter(|way| way.protection.suite().is_some()) {
                rows.push((application, octets, way));
            }
        }
    }
    let of = |f: fn(&super::super::live::Spent) -> f64| {
        let each = rows.iter().map(move |&(application, octets, way)| {
            let spent = live.spent(application, octets, way)?;
            Ok::<_, String>(LiveNumber::from(f(&spent) / 1000.0))
        });
        each.collect::<Vec<_>>()
    };
    Table::new("inside-live", "Time inside the nodes on this machine")
        .column(Column::words("application", rows.iter().map(|row| row.0.name())))
        .column(Column::words("transfer", rows.iter().map(|row| bytes(row.1))))
        .column(Column::words("protection", rows.iter().map(|row| row.2.name())))
        .column(Column::results("look-up", "ms", of(|s| s.lookup_us)).decimals(3))
        .column(Column::results("copies", "ms", of(|s| s.copy_us)).decimals(3))
        .column(Column::results("crypto", "ms", of(|s| s.crypto_us)).decimals(3))
        .column(Column::results("other", "ms", of(|s| s.other_us)).decimals(3))
        .note("Both nodes together, by their own counters.")
}
