//! Kim, Park: what access lists cost a provider edge, with and without MPLS.
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | IP, no list, one way and both ways | table 1, figure 3 | [`model`], [`sections`] |
//! | IP, 120 entries in and out | tables 2 and 3, figure 5 | the same |
//! | MPLS VPN, no list, in and out | the MPLS table, figure 8 | the same |
//! | what becomes of each frame | not in it | the same |
//! | share of streams permitted, place of the entry | not in it | [`lists`] |
//! | lists of this machine's nodes | | [`live`], [`lists`] |
//! | one stream against 90 | section 4.1.2, without figures | [`model`], [`live`], [`lists`] |
//!
//! The model's numbers are those of Ferrule's nodes in virtual time ([`network`]): real
//! lists of 120 entries, asked for every packet, real labels, under four limits that are
//! fitted to the print ([`fit`]).

mod claims;
mod errata;
pub mod fit;
mod lists;
pub mod live;
pub mod model;
pub mod network;
pub mod nodes;
pub mod published;
mod sections;

pub use claims::judge;

use crate::options::Options;
use ferrule_report::{Block, Report, Section};
use live::Live;
use model::Model;
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "acl-mpls";
/// The study's subject, in a line.
pub const ABOUT: &str = "120-entry access lists on a provider edge, IP and MPLS VPN (Kim, Park)";

const QUESTION: &str = "What does a list of 120 entries cost a provider edge with gigabit ports, in \
    and out, over IP and over MPLS?";

/// The study's report; machine, command and date are the caller's to add. `say` is told
/// what comes next.
pub fn report(options: Options, live: &Result<Live, String>, say: &mut dyn FnMut(&str)) -> Report {
    document(&model::run(&Study::read(), options, say), live)
}

/// The report on a model that ran, and on what was measured, or why nothing was.
pub fn document(model: &Model, live: &Result<Live, String>) -> Report {
    let study = Study::read();
    let mut report = crate::inventory::begun(NAME, QUESTION, "figures-3-and-5");
    report.answer = answer(&study);
    report.sections = vec![
        Section::new("Claims, with their numbers")
            .block(Block::Claims(claims::judge(&study, model, live))),
        sections::rates(&study, model),
        sections::fates(model),
        lists::contents(&study, model, live),
        lists::sizes(&study, live),
        lists::streams(&study, model, live),
        sections::limits(&study, model),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata::show(&study, model))),
        method(&study, model),
    ];
    report
}

fn answer(study: &Study) -> String {
    let left = |system: &str| {
        let (with, without) = (study.of(system), study.of("ip, no acl, one way"));
        100.0 * with.pps[0] / without.pps[0]
    };
    format!(
        "At 64 bytes {:.0} % of the frames a second are left with 120 entries on the way in and \
         {:.0} % on the way out, and from 256 bytes on all; over MPLS alike.",
        left("ip, 120 acl inbound"),
        left("ip, 120 acl outbound"),
    )
}

fn method(study: &Study, model: &Model) -> Section {
    Section::new("How it was done")
        .text(format!(
            "The study: {}, {}. Its devices: {}. Its tester: {}.",
            study.authors.join(", "),
            study.title,
            study.setup.device,
            study.setup.tester
        ))
        .text(format!(
            "Four limits give every printed rate but those at 256 bytes within {:.1} %; of 90 \
             streams one is forwarded.",
            model.worst_percent(study)
        ))
        .list([
            "Model: one of Ferrule's routers (IP) or two provider edges with a VRF (MPLS, one VPN \
             label between them) and a tester in virtual time; lines of 1 Gbit/s.",
            "90 streams, each to an address of its own, drawn at random. With a list, entries 1 to 89 deny \
             a stream each, entries 90 to 119 what nobody sends, entry 120 permits the last stream.",
            "Without a list the tester offers what the line carries; with one, what the same system \
             carried without: the rates that the study's `Util` refers to.",
            "Limits of a device are token buckets in front of it: frames a second by where its list \
             is, and bits a second over IP. That a list costs anything is put in by them; what it \
             denies is found out by asking it.",
            "Live: one worker of the same nodes takes frames from memory and gives them back, with \
             neighbours known; cases of a table in turn, the median of rounds and the middle half \
             of them.",
        ])
}
