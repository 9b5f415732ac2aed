//! IPsec in a host's IP layer, and what it costs applications (Lim, Kwon, Chung, 2001).
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | operations of a hash and a cipher | section 4.3 | [`cost`] |
//! | transfers, their slowdown, time inside the module | section 6, figures 9 to 12 | [`model`], [`network`], [`scripts`] |
//! | the machine | section 6.2 | [`machine`], [`fit`] |
//! | places for a VPN box | figure 1 | [`places`] |
//!
//! The model's numbers are those of Ferrule's nodes in virtual time: real SPD, AH, ESP,
//! fragments and reassembly on every packet, between hosts with TCP, on machines that
//! cost what the parts of the study's are known to cost, and what its print asks for.

pub mod cases;
mod claims;
pub mod cost;
mod delays;
mod errata;
pub mod fit;
pub mod live;
pub mod machine;
pub mod model;
pub mod network;
pub mod places;
pub mod published;
pub mod scripts;
mod sections;

use crate::options::Options;
use cases::Protection;
pub use claims::judge;
use ferrule_report::{Block, Report, Section};
use live::Live;
use model::{Model, Which};
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "ipsec-ip-layer";
/// The study's subject, in a line.
pub const ABOUT: &str = "IPsec in a host's IP layer, and what it costs applications (2001)";

const QUESTION: &str = "What does IPsec in a host's IP layer cost applications, and is it hash, \
    cipher, or something else?";

/// The study's report; machine, command and date are the caller's to add. `live` is what
/// somebody with namespaces measured, each part or why it is missing. `say` is told what
/// comes next.
pub fn report(options: Options, live: &Live, say: &mut dyn FnMut(&str)) -> Report {
    let study = Study::read();
    let model = model::model(&study, options, say);
    document(&study, &model, live)
}

/// The report on a model that ran.
pub fn document(study: &Study, model: &Model, live: &Live) -> Report {
    let mut report = crate::inventory::begun(NAME, QUESTION, "slowdown");
    report.answer = answer(model);
    report.sections = vec![
        Section::new("Claims, with their numbers")
            .block(Block::Claims(claims::judge(study, model, live))),
        sections::slowdowns(study, model, live),
        sections::machines(model),
        sections::parts(model, live),
        sections::transfers(model, live),
        sections::factors(model),
        sections::costs(model, live),
        sections::counts(study),
        sections::places(&model.places),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata::show(study))),
        method(study),
    ];
    report
}

fn answer(model: &Model) -> String {
    let octets = model.largest(cases::TIMED_MOST);
    let of = |which, protection| {
        let way = cases::Way::of(protection, cases::Mode::Transport);
        model.slowdown(which, cases::Application::Ftp, octets, way)
    };
    format!(
        "Something else: where parts cost what they are known to cost, FTP of {} bytes takes {:.2} \
         times as long under AH-MD5, {:.2} under ESP-DES and {:.2} under BYPASS, not ten to eighteen \
         and three to four.",
        octets,
        of(Which::Plausible, Protection::AhMd5),
        of(Which::Plausible, Protection::EspDes),
        of(Which::Plausible, Protection::Bypass),
    )
}

fn method(study: &Study) -> Section {
    Section::new("How it was done")
        .text(format!("The study: {}, {}, {}.", study.authors.join(", "), study.title, study.year))
        .list([
            "Model: two hosts with TCP in virtual time, a Ferrule node in the place of each \
             host's IPsec, and 10 Mbit/s Ethernet that both directions share, without collisions. \
             Program and TCP take no time of their own; card, stack and module take what the \
             machine's file says.",
            "TCP: windows of 32 KiB, slow start, Nagle's algorithm, acknowledgements that wait \
             for 10 ms at most: a tick of Linux 2.0. It is no copy of that stack.",
            "What is too long is cut, as the study's hosts did: the sealed packet, in both \
             modes. In tunnel mode the study cuts first and seals the pieces; Ferrule's gateways \
             have that too, but the model's hosts do not put pieces together.",
            "Ferrule has no ESP without integrity (RFC 8221 section 4). ESP-DES has HMAC-MD5-96 \
             beside it, whose 12 octets are on the line; the model prices DES alone.",
            "The machines are files under `profiles/studies`. The fit is least squares on \
             logarithms of slowdowns, and the laboratory says how each follows each cost. For each \
             value that is left out the fit is made anew, from the plausible machine on; the file \
             has what comes out, and a test looks whether it is what the fit makes.",
        ])
}
