//! Key stream made ahead of time by a slow token (a study of 2015 or so): AES-CTR for
//! an IPsec VPN on a phone with a crypto token in a MicroSD card.
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | throughput | table 1 | [`sections`] |
//! | one call | section 4.1.1 | [`voip`] |
//! | how long a buffer lasts | figures 8 to 10, 11 | [`closed`] |
//! | loss, reordering | section 3.2.3, figure 7 | [`order`] |
//!
//! The model's numbers are those of Ferrule's token engine and ring ([`token`]) in
//! virtual time, under the profile `profiles/token/microsd.toml`: the study's own
//! 12 and 16 ms, nothing fitted. The network alone is fitted, one value for two.

mod claims;
pub mod closed;
mod errata;
mod gains;
pub mod live;
pub mod model;
pub mod order;
pub mod published;
mod sections;
pub mod token;
pub mod voip;

use crate::options::Options;
pub use claims::judge;
use ferrule_report::{Block, Report, Section};
use live::Live;
use model::Model;
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "prebuffered-ctr";
/// The study's subject, in a line.
pub const ABOUT: &str = "key stream made ahead of time by a slow crypto token (about 2015)";

const QUESTION: &str = "Can a VPN whose key never leaves a slow token be fast: how fast, for how \
    long, and what happens to packets that are lost or late?";

/// The study's report; machine, command and date are the caller's to add. `live` is what
/// somebody with a token measured, or why nobody did. `say` is told what comes next.
pub fn report(options: Options, live: Result<Live, String>, say: &mut dyn FnMut(&str)) -> Report {
    document(&model::run(&Study::read(), options, say), &live)
}

/// The report on a model that ran.
pub fn document(model: &Model, live: &Result<Live, String>) -> Report {
    let study = Study::read();
    let given = (&study, model, live);
    let mut report = crate::inventory::begun(NAME, QUESTION, "throughput");
    report.answer = answer(&study, model);
    report.sections = vec![
        Section::new("Claims, with their numbers").block(Block::Claims(claims::judge(&given))),
        sections::throughput(&study, model, live),
        sections::call(&study, model, live),
        sections::drains(&study, model, live),
        sections::sizes(&study, model, live),
        sections::order(&study, model, live),
        sections::nodes(live),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata::show(&study))),
        method(live),
    ];
    report
}

fn answer(study: &Study, model: &Model) -> String {
    let times = |of: fn(&model::Row) -> f64| {
        let each = model.rows.iter().map(|row| format!("{:.0}", of(row) / row.plain_pps));
        each.collect::<Vec<_>>().join(" and ")
    };
    let printed = |of: fn(&published::Throughput) -> f64| {
        let each = study.throughput.iter().map(|row| format!("{:.0}", of(row)));
        each.collect::<Vec<_>>().join(" and ")
    };
    let sizes = model.rows.iter().map(|row| row.packet_bytes.to_string());
    let shown = |at: Option<f64>| at.map_or_else(|| "–".into(), |s| format!("{s:.0}"));
    format!(
        "As fast as the network until its buffer is empty: {} times the plain token at {} bytes \
         (printed: {} times), then {} times ({}); 10 MB last {} s ({} s), {} s if large packets \
         are delayed ({} s).",
        times(|row| row.before_pps),
        sizes.collect::<Vec<_>>().join(" and "),
        printed(|row| row.prebuffered_before_empty_kbps / row.aes_ctr_kbps),
        times(|row| row.after_pps),
        printed(|row| row.prebuffered_after_empty_kbps / row.aes_ctr_kbps),
        shown(model.drained.empty_after_s),
        study.drain.empty_after_s,
        shown(model.shaped.empty_after_s),
        study.drain.with_delay_empty_after_s,
    )
}

fn method(live: &Result<Live, String>) -> Section {
    let section = Section::new("How it was done").list([
        "Model: Ferrule's token engine, its ring and its line to the token in virtual time; a \
         token in software does the AES, the profile `microsd` says how long an exchange takes: \
         16 ms for 126 blocks, 12 ms up to 768 bytes, as printed. Nothing of it is fitted.",
        "The network and the host before the buffer is empty are one fitted value for the two \
         printed ones.",
        "Every SA has an integrity algorithm (HMAC-SHA-1-96), which the study leaves out: counter \
         mode alone lets anybody flip bits.",
        "A packet whose key stream is gone waits for exactly its blocks; slots \
         are tagged with the counter that they hold, and counters have 96 bits and never wrap.",
    ]);
    match live {
        Ok(live) => section.text(format!("Live: {}", live.note)),
        Err(why) => section.text(format!("Live: {why}.")),
    }
}
