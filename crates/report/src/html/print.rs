//! The inventory of the reproduced publication as HTML: each item, and where the page shows it.

use super::blocks::inline;
use crate::document::Report;
use crate::inventory::{Item, State};
use crate::svg::escaped;
use std::fmt::Write;

pub const TITLE: &str = "All that the paper shows";

/// The section of a report.
pub fn section(page: &mut String, report: &Report, open: &str) {
    if report.inventory.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<section id=\"print\"><details{open}>\n<summary><h2>{TITLE}</h2></summary>\n<p>{}</p>",
        escaped(&tally(report))
    );
    table(page, report, "");
    page.push_str("</details></section>\n");
}

/// Number of items in each state.
pub fn tally(report: &Report) -> String {
    let states: Vec<State> = report.inventory.iter().map(|item| item.found(report).0).collect();
    let count = |state| states.iter().filter(|found| **found == state).count();
    let all = [State::Reproduced, State::NotRun, State::Waits, State::Drawing];
    let counts = all.map(|state| (count(state), state));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, state)| match (state, count) {
        (State::Drawing, 2..) => format!("{count} drawings or lists without a result"),
        (State::Drawing, _) => "1 drawing or list without a result".to_owned(),
        (State::Waits, 2..) => format!("{count} wait"),
        _ => format!("{count} {}", state.name()),
    });
    counts.collect::<Vec<_>>().join(", ") + "."
}

/// Every item with its state; `file` is the report's page, seen from this one.
pub fn table(page: &mut String, report: &Report, file: &str) {
    let title = escaped(&report.title);
    let _ = writeln!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}: the paper\">\
         <table class=\"inventory\">\n<caption class=\"quiet\">{title}: systems, tables and \
         figures of the paper</caption>\n<thead><tr><th scope=\"col\">in the paper</th>\
         <th scope=\"col\">section</th><th scope=\"col\">subject</th><th scope=\"col\">state</th>\
         <th scope=\"col\">here</th></tr></thead>\n<tbody>"
    );
    for item in &report.inventory {
        let (state, kinds) = item.found(report);
        let class = match state {
            State::Reproduced => "done",
            State::NotRun | State::Waits => "open",
            State::Drawing => "plain",
        };
        let words = match state {
            State::Reproduced => format!("{}: {}", state.name(), Item::names(&kinds)),
            State::NotRun | State::Waits | State::Drawing => state.name().to_owned(),
        };
        let here = match state {
            State::Waits => inline(&item.waits),
            _ => links(report, item, file),
        };
        let _ = writeln!(
            page,
            "<tr class=\"{class}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td>\
             <td>{words}</td><td>{here}</td></tr>",
            escaped(&item.place),
            escaped(&item.section),
            inline(&item.what)
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// To what stands for an item.
fn links(report: &Report, item: &Item, file: &str) -> String {
    let mut all = Vec::new();
    for id in &item.shown {
        let tables = report.tables().filter(|table| table.id == *id);
        let figures = report.figures().filter(|figure| figure.id == *id);
        let tables = tables.map(|table| ("table", &table.title));
        for (what, title) in tables.chain(figures.map(|figure| ("figure", &figure.title))) {
            all.push(format!(
                "<a href=\"{}#{what}-{}\" aria-label=\"{what}: {}\" title=\"{}\">{what}</a>",
                escaped(file),
                escaped(id),
                escaped(title),
                escaped(title)
            ));
        }
    }
    all.join(", ")
}
