//! IPsec on an offload engine (Shin, Kim, Park, Kim): software, look-aside, inline.
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | throughput over sending speed | figure 6, table 2 | [`model`], [`sections`] |
//! | throughput over packet size | figure 7 | the same |
//! | the bus | section IV.3 | [`bus`] |
//! | receiving, TCP, latency, host time | not in it | [`bench`] |
//!
//! The model's numbers are those of Ferrule's gateways in virtual time ([`network`]):
//! real ESP on every packet, a real queue pair to a chip behind the bus, a real card in
//! the port, as fast as the profiles `toe-software`, `toe-look-aside` and `toe-inline`
//! say.

pub mod bench;
pub mod bus;
mod claims;
mod errata;
pub mod fit;
pub mod live;
pub mod model;
pub mod network;
pub mod published;
mod sections;

use crate::options::Options;
pub use claims::judge;
use ferrule_report::{Block, Report, Section};
use live::Live;
use model::Model;
use network::System;
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "toe-ipsec";
/// The study's subject, in a line.
pub const ABOUT: &str =
    "IPsec in software, look-aside and inline on an offload engine (Shin et al.)";

const QUESTION: &str = "Where should a gigabit sender's IPsec be: in its processor, in a chip beyond \
    its bus, or between MAC and PHY?";

/// The study's report; machine, command and date are the caller's to add. `live` is what
/// somebody with cores measured, or why nobody did. `say` is told what comes next.
pub fn report(options: Options, live: Result<Live, String>, say: &mut dyn FnMut(&str)) -> Report {
    document(&model::run(options, say), &live)
}

/// The report on a model that ran.
pub fn document(model: &Model, live: &Result<Live, String>) -> Report {
    let study = Study::read();
    let mut report = crate::inventory::begun(NAME, QUESTION, "figure-6");
    report.answer = answer(model);
    report.sections = vec![
        Section::new("Claims, with their numbers")
            .block(Block::Claims(claims::judge(&study, model, live))),
        sections::speeds(&study, model, live),
        sections::sizes(model),
        sections::costs(&study, model),
        sections::streams(model),
        sections::bus(&study),
        sections::machine(live),
        sections::today(&study, live),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata::show(&study))),
        method(&study),
    ];
    report
}

fn answer(model: &Model) -> String {
    let share = |system| 100.0 * model.share(system, bench::Way::Out);
    format!(
        "At {} Mbit/s of {}-byte frames software carries {:.0} %, look-aside {:.0} % and inline \
         {:.0} % of what is sent, as two of them were fitted: five times software and a quarter more \
         than look-aside, not eight and two times.",
        model::FULL,
        model::OCTETS,
        share(System::Software),
        share(System::LookAside),
        share(System::Inline),
    )
}

fn method(study: &Study) -> Section {
    Section::new("How it was done")
        .text(format!(
            "The study: {}, {}. Its offload engine: {}. Its traffic: {}.",
            study.authors.join(", "),
            study.title,
            study.setup.offload_engine,
            study.setup.traffic
        ))
        .list([
            "Model: two of Ferrule's gateways and a tester (or two hosts with TCP) in virtual \
             time, ESP tunnel with AES-128-CBC and HMAC-SHA-1-96 on every packet; the first \
             gateway is the system under test, the other one takes no time.",
            "Software: each octet sealed or opened occupies the host, as much as table 2's 20 % \
             need. Look-aside: a real queue pair to a chip behind a bus of 32 bits at 133 MHz, \
             which each packet crosses four times; a crossing takes a fixed time beside its \
             clocks, as much as table 2's 80 % need; the chip itself is never busy. Inline: a \
             card in the port works at the line's rate, and the host does nothing.",
            "So one value was fitted for each of two systems to one printed share; the overheads \
             that the table states beside it are predicted. The cited 760 % are missed by far, \
             which is an erratum; `at most` 100 % excludes little.",
        ])
}
