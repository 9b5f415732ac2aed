//! Ahn, Shin 2019: MACsec switches across an MPLS provider against IPsec gateways.
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | overhead | figures 4, 5, 7 | [`overhead`] |
//! | load sweep | tables 1 to 3, figure 8 | [`load`], [`gateway`] |
//! | hop delay | figures 2, 9 | [`hops`] |
//! | chains of 32, delay by part | figures 2, 9, extended | [`chains`], [`parts`], [`software`] |
//! | handoff | tables 5 to 7 | not yet |
//!
//! The model's numbers are those of Ferrule's data path in virtual time ([`network`],
//! [`bench`]), under profiles with fewer free parameters than values ([`profiles`], [`fit`]).

pub mod bench;
pub mod chains;
mod claims;
mod errata;
pub mod fit;
pub mod gateway;
mod hops;
pub mod live;
mod load;
pub mod model;
pub mod network;
pub mod overhead;
mod parts;
pub mod profiles;
pub mod published;
pub mod software;

pub use claims::{WITHIN_PERCENT, judge};

use crate::options::Options;
use ferrule_report::{Block, Report, Section};
use live::Live;
use model::Model;
use network::System;
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "macsec-mobility";
/// The study's subject, in a line.
pub const ABOUT: &str = "hosts that move: MACsec switches across an MPLS provider against IPsec gateways (Ahn, Shin 2019)";

const QUESTION: &str = "Can MACsec switches take the place of IPsec gateways between sites that a \
    provider joins over MPLS, also for hosts that move: what does each cost in bytes, delay, load \
    and handoff?";

/// The study's report; machine, command and date are the caller's to add. `live` is what
/// somebody with ports measured, or why nobody did. `say` is told what comes next.
pub fn report(options: Options, live: Result<Live, String>, say: &mut dyn FnMut(&str)) -> Report {
    document(&model::run(&Study::read(), options, say), &live, say)
}

/// The report on a model that ran.
pub fn document(model: &Model, live: &Result<Live, String>, say: &mut dyn FnMut(&str)) -> Report {
    let study = Study::read();
    let claims = claims::judge(&study, model, live);
    let errata = errata::show(&study, model);
    let mut report = crate::inventory::begun(NAME, QUESTION, "load");
    report.answer = answer(&study, model);
    report.sections = vec![
        Section::new("Claims, with their numbers").block(Block::Claims(claims)),
        overhead::section(&study, model, live),
        load::section(&study, model, live),
        hops::section(&study, model, live),
        parts::section(&study, model, live, say),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata)),
        method(&study),
    ];
    report
}

fn answer(study: &Study, model: &Model) -> String {
    let extra = model.loads_of(System::Macsec).first().map_or(f64::NAN, |p| p.mean_us)
        - model.loads_of(System::Plain).first().map_or(f64::NAN, |p| p.mean_us);
    let [macsec, plain] = ["macsec", "plain"].map(|key| study.load_of(key).delay_us[0]);
    let printed = macsec - plain;
    let full = gateway::full_mbps(&model.gateway());
    format!(
        "MACsec adds {} bytes and {extra:.1} µs ({printed:.2} printed) and carries {:.0} % of the \
         line; the study's IPsec gateways add {} bytes and {:.0} µs and are full at {:.0} % \
         (fitted); handoff waits.",
        study.overhead.macsec_overhead,
        100.0 * 930.0 / study.setup.link_rate_mbps,
        study.overhead.ipsec_overhead,
        model.loads_of(System::Ipsec).first().map_or(f64::NAN, |p| p.mean_us)
            - model.loads_of(System::Plain).first().map_or(f64::NAN, |p| p.mean_us),
        100.0 * full / study.setup.link_rate_mbps,
    )
}

fn method(study: &Study) -> Section {
    Section::new("How it was done")
        .text(format!("The study: {}, {}, {}.", study.authors.join(", "), study.title, study.year))
        .list([
            "Model: five of Ferrule's nodes and a tester in virtual time, with real MPLS, MACsec \
             and ESP on every frame; a device profile prices the work that each node reports.",
            "Lines are full-duplex Ethernet of 1 Gbit/s; a frame is passed on once it has arrived \
             whole.",
            "Profiles are files under `profiles/`, which `ferrule lab run` takes as well. They have \
             fewer free parameters than the values they are fitted to; the search is a grid, the \
             same on every machine, and a test makes the files again.",
            "Two gateways' clocks differ by 1.6 %, so that every phase between them occurs.",
        ])
}
