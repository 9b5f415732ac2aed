//! The demo's report as a document: what was asked, what each way costs, where the
//! bytes of a frame go.

use super::measures;
use super::plan::STUDY_LEN;
use super::report::Outcome;
use crate::machine;
use ferrule_overhead::Layout;
use ferrule_report::{
    Axis, Bars, Block, Claim, Derived, Evidence, Figure, Kind, Live, Model, Report, Section,
    Threshold,
};
use std::path::Path;

const QUESTION: &str = "What does it cost to carry a site's frames privately across somebody \
    else's MPLS network: in the clear, under MACsec, under ESP?";

/// The whole document, which goes to `page`.
pub fn document(outcome: &Outcome, page: &Path) -> Report {
    let mut report = Report::new("Two sites joined across an MPLS provider", QUESTION);
    report.answer = outcome.verdict();
    let how = if outcome.live { "as processes on real interfaces" } else { "in virtual time" };
    report.device = format!("Ferrule's data path, {how}");
    report.program = machine::program();
    report.machine = machine::describe();
    report.command = machine::command();
    report.date = machine::date();
    let network = Section::new("What each way costs")
        .block(Block::Code(NETWORK.into()))
        .table(outcome.table())
        .text(outcome.refused())
        .text(outcome.note());
    let bytes = Section::new("Where the bytes go").figure(drawing(outcome));
    let all = match outcome.live {
        true => measures::section::<Live>(outcome, page),
        false => measures::section::<Model>(outcome, page),
    };
    report.sections = vec![network, bytes, checks(outcome), all];
    report
}

const NETWORK: &str = "host1 ── CE1 ── PE1 ══ P ══ PE2 ── CE2 ── host2
        └────── MACsec or ESP ───┘
              └─ pseudowire ─┘";

/// Of what a variant's checks find.
const NONE: (Threshold, &str) = (Threshold::Exactly(0.0), "every check of the demo holds");

/// One claim for each variant: that its checks hold.
fn checks(outcome: &Outcome) -> Section {
    let kind = if outcome.live { Kind::Live } else { Kind::Model };
    let findings = outcome.findings();
    let claims = outcome.rows.iter().map(|row| {
        let name = row.variant.name;
        let prefix = format!("{name}: ");
        let own: Vec<&str> = findings.iter().filter_map(|f| f.strip_prefix(&prefix)).collect();
        let evidence = if own.is_empty() {
            let arrived = format!("{} of {} frames", row.delivery.received, row.delivery.sent);
            format!("{arrived} arrived, {} bytes from P to PE2", row.wires[1].bytes)
        } else {
            own.join("; ")
        };
        Claim::new(
            row.variant.key,
            format!("{name}: bytes on both core links as calculated, every check holds"),
        )
        .judged(
            kind,
            Evidence::counted("checks that failed", own.len() as u64, NONE),
            evidence,
        )
    });
    Section::new("Checks").block(Block::Claims(claims.collect()))
}

/// One bar each, in the parts that the calculator knows.
fn drawing(outcome: &Outcome) -> Figure {
    let parts = ["the provider's headers", "protection by the customer", "the user's packet"];
    let mut bars = Bars::of::<Derived>(Axis::new("frame from P to PE2", "bytes"), parts);
    for row in &outcome.rows {
        let Ok(stack) = row.variant.stack(1) else { continue };
        let Ok(layout) = stack.layout() else { continue };
        let values = shares(&layout).map(|bytes| Derived::from(bytes as f64));
        bars = bars.bar(row.variant.name, stack.transforms_text(), values);
    }
    Figure::new("bytes", format!("Bytes of the {STUDY_LEN}-byte frame, from P to PE2"), bars.plot())
        .caption("As the calculator has them; the table above has what was on the wire.")
}

/// Octets of the provider, of the customer's protection, and of the user's frame
/// that are left.
fn shares(layout: &Layout) -> [usize; 3] {
    let stages = layout.stages.len();
    let mut octets = [0; 3];
    for segment in &layout.segments {
        let part = match segment.stage {
            0 => 2,
            stage if stage == stages => 0,
            _ => 1,
        };
        octets[part] += segment.bytes;
    }
    octets
}
