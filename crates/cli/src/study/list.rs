//! `ferrule study list`: what the papers show, and where each of it is.

use super::{STUDIES, applications};
use crate::output;
use crate::paint::Paint;
use crate::softhsm;
use ferrule_report::{Column, Item, State, Table, terminal};
use ferrule_studies::inventory::Digest;
use ferrule_studies::{ipsec_ip_layer, prebuffered_ctr};
use std::process::ExitCode;

/// Programs that a study's live part needs and that are not here, each with its package.
pub fn missing(name: &str) -> Vec<String> {
    match name {
        ipsec_ip_layer::NAME => applications::missing(),
        prebuffered_ctr::NAME if softhsm::module().is_none() => {
            vec!["PKCS#11 module (softhsm2)".into()]
        }
        _ => Vec::new(),
    }
}

/// Prints it.
pub fn print(json: bool) -> ExitCode {
    let text = match json {
        true => as_json(),
        false => {
            let terminal = Paint::for_stream(&std::io::stdout()).terminal();
            STUDIES.map(|(name, about)| shown(name, about, terminal)).concat()
        }
    };
    output::print(&text);
    ExitCode::SUCCESS
}

/// An item's state where all of it runs, in words.
fn state(item: &Item) -> String {
    match item.at_best() {
        State::Reproduced => Item::names(&item.with),
        State::Waits => format!("waits: {}", item.waits),
        state => state.name().into(),
    }
}

fn shown(name: &str, about: &str, terminal: terminal::Terminal) -> String {
    let Some(digest) = Digest::of(name) else { return String::new() };
    let items = &digest.inventory;
    let of = |words: fn(&Item) -> String| items.iter().map(words).collect::<Vec<_>>();
    let table = Table::new(name, format!("{name}: {about}"))
        .column(Column::words("in the paper", of(|item| item.place.clone())))
        .column(Column::words("section", of(|item| item.section.clone())))
        .column(Column::words("subject", of(|item| item.what.clone())))
        .column(Column::words("state", of(state)));
    let missing = missing(name);
    let note = match missing.is_empty() {
        true => String::new(),
        false => format!("Its live part is not run here: not installed: {}.", missing.join(", ")),
    };
    terminal::render_table(&table.note(note), terminal) + "\n"
}

fn as_json() -> String {
    let each = STUDIES.map(|(name, about)| {
        let digest = Digest::of(name);
        let items = digest.map(|digest| digest.inventory).unwrap_or_default();
        let items = items.iter().map(|item| {
            serde_json::json!({
                "place": item.place,
                "section": item.section,
                "what": item.what,
                "state": item.at_best().name(),
                "with": item.with,
                "shown": item.shown,
                "waits": item.waits,
            })
        });
        serde_json::json!({
            "name": name,
            "about": about,
            "missing": missing(name),
            "inventory": items.collect::<Vec<_>>(),
        })
    });
    format!("{:#}\n", serde_json::Value::from(each.to_vec()))
}
