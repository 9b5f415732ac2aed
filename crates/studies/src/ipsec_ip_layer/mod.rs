//! IPsec in a host's IP layer, and what it costs applications (Lim, Kwon, Chung, 2001).
//!
//! | part | of the study | here |
//! | --- | --- | --- |
//! | operations of a hash and a cipher | section 4.3 | [`cost`] |
//! | slowdown of transfers | section 6 | [`sections`], as printed |
//!
//! The transfers themselves, in virtual time and live, need AH and transport mode; as
//! long as they are not here the study is not among those that `ferrule study` lists.

pub mod cases;
mod claims;
pub mod cost;
mod errata;
pub mod live;
pub mod published;
mod sections;

use ferrule_report::{Block, Report, Section};
use published::Study;

/// Its name on the command line.
pub const NAME: &str = "ipsec-ip-layer";
/// What it is about, in a line.
pub const ABOUT: &str = "IPsec in a host's IP layer, and what it costs applications (2001)";

const QUESTION: &str = "What does IPsec in a host's IP layer cost applications, and is it hash, \
    cipher, or something else?";

/// What can be said by arithmetic with the printed numbers alone.
pub fn arithmetic() -> Report {
    let study = Study::read();
    let counts = cost::Operations::of(&study.cost_model);
    let mut report = Report::new(study.title.clone(), QUESTION);
    report.answer = format!(
        "By its own counts DES costs {:.2} times MD5 for each bit, and cross they do within one \
         packet; a slowdown of ten cannot come from either.",
        counts.ratio()
    );
    report.sections = vec![
        Section::new("Claims").block(Block::Claims(claims::judge(&study))),
        sections::slowdowns(&study),
        sections::counts(&study),
        Section::new("Errata")
            .text(
                "Where the print contradicts itself or arithmetic. Each is shown by calculating \
                 with the printed numbers as this report is made.",
            )
            .block(Block::Errata(errata::show(&study))),
    ];
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_report::{Kind, Verdict, json};

    #[test]
    fn claims_have_a_verdict_from_the_print_and_say_what_was_not_run() {
        let report = arithmetic();
        let printed = |claim: &ferrule_report::Claim| {
            let by = claim.judgements.iter().find(|j| j.kind == Kind::Published);
            by.map(|judgement| judgement.verdict)
        };
        let found: Vec<_> =
            report.claims().map(|claim| (claim.id.clone(), printed(claim))).collect();
        let holds = Some(Verdict::Holds);
        let expected = [
            ("crossover", holds),
            ("size-factor", holds),
            ("bypass-cost", None),
            ("large-transfer", holds),
        ];
        let found: Vec<_> = found.iter().map(|(id, verdict)| (id.as_str(), *verdict)).collect();
        assert_eq!(found, expected);
        for claim in report.claims() {
            let live = claim.judgements.iter().find(|j| j.kind == Kind::Live);
            assert_eq!(live.map(|j| j.verdict), Some(Verdict::NotRun), "{}", claim.id);
        }
        assert_eq!(json::read(&json::render(&report)).expect("a report"), report);
    }
}
