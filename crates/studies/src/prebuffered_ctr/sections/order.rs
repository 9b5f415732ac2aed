//! Loss and reordering.

use super::super::live::Live;
use super::super::model::Model;
use super::super::order::Disturbed;
use super::super::published::Study;
use super::column;
use ferrule_report::{Column, Model as ModelNumber, Published, Section, Table};

/// A count of packets, and what stands above it.
type Count = (&'static str, fn(&Disturbed) -> u64);

/// Loss and reordering.
pub fn order(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let cases = &model.order;
    let mut table = Table::new("order", "Packets that were lost or late, and the rest")
        .column(Column::words("on the way", cases.iter().map(|case| case.what.as_str())))
        .column(Column::settings("ring", "blocks", cases.iter().map(|case| case.ring as f64)));
    let counts: [Count; 5] = [
        ("arrived", |case| case.arrived),
        ("right", |case| case.right),
        ("wrong", |case| case.wrong),
        ("dropped", |case| case.gone),
        ("asked for exactly", |case| case.asked),
    ];
    for (head, of) in counts {
        let numbers = cases.iter().map(|case| ModelNumber::from(of(case) as f64));
        table = table.column(Column::numbers(head, "", numbers));
    }
    for (head, of) in counts {
        let of = move |m: &super::Measured, row: usize| Some(of(m.order.get(row)?) as f64);
        table = table.column(column((head, ""), live, cases.len(), of));
    }
    let table = table.note(
        "Sizes of 60 to 1024 bytes in turn. Each opened packet is compared with what was sealed. \
         The study prints no numbers: it says that a late packet in a small buffer is decrypted \
         to garbage (figure 7); here it waits for exactly its blocks.",
    );
    let rules = rules(study);
    let hazards = study.hazard.iter().map(|hazard| hazard.text.clone());
    Section::new("Loss and reordering")
        .text("A peer seals, packets are lost or late, and the phone opens what arrives.")
        .table(table)
        .table(rules)
        .text("What one had better not build so, and what is done here:")
        .list(hazards)
}

/// Section 3.2.3: what the ring does, as printed and here.
fn rules(study: &Study) -> Table {
    let print = &study.buffer;
    let rows = [
        ("a block's place", &print.layout, "the same, and a tag with the counter that it holds"),
        ("full", &print.full_when, "no room for another exchange"),
        ("empty", &print.empty_when, "the same word, but what is left is used"),
        ("filling starts", &print.start_filling_when, "the same"),
        ("sleeps", &print.sleep_when, "the same, and while key stream is no longer kept"),
        (
            "a packet waits",
            &print.dequeue_waits_when,
            "a block's tag is not its counter, and it is still to be made; counters never wrap",
        ),
        (
            "a lost packet",
            &print.lost_packets,
            "the same; filling goes by the highest authentic counter",
        ),
        (
            "a late packet",
            &print.reordered_packets,
            "the same, while its blocks are kept; then they are asked for exactly",
        ),
    ];
    let printed = rows.iter().map(|(_, printed, _)| printed.as_str());
    Table::new("rules", "Section 3.2.3: the ring's rules")
        .column(Column::words("packet", rows.iter().map(|(what, ..)| *what)))
        .column(Column::findings::<Published>("rule", printed))
        .column(Column::findings::<ModelNumber>("rule", rows.iter().map(|(.., here)| *here)))
        .note("What the model runs, live runs too.")
}
