//! Phone and gateway as nodes of their own, end to end.

use super::super::live::{Live, Trial};
use ferrule_report::{Column, Live as LiveNumber, Section, Table};

/// Section on end-to-end measurements by the tester at both ends.
pub fn nodes(live: &Result<Live, String>) -> Section {
    let section = Section::new("From end to end").text(
        "Live alone: phone and gateway are nodes, a process each, on veth pairs in a network \
         namespace of their own, with the study's suite and the phone's key in SoftHSM behind the \
         card's delay. The tester stands at both ends.",
    );
    let trials = match live.as_ref().map_err(Clone::clone).and_then(|live| live.nodes.clone()) {
        Ok(trials) => trials,
        Err(why) => return section.text(format!("Live: {why}.")),
    };
    let of = |f: &dyn Fn(&Trial) -> f64| {
        trials.iter().map(|trial| LiveNumber::from(f(trial))).collect::<Vec<_>>()
    };
    let table = Table::new("nodes", "A phone with the token and its gateway")
        .column(Column::words("traffic", trials.iter().map(|trial| trial.what.as_str())))
        .column(Column::settings("packet", "B", trials.iter().map(|t| t.packet_bytes as f64)))
        .column(Column::settings("offered", "1/s", trials.iter().map(|t| t.offered_pps)))
        .column(Column::numbers("arrive", "1/s", of(&|t| t.received_pps)).decimals(0))
        .column(
            Column::numbers(
                "arrived",
                "%",
                of(&|t| 100.0 * t.received as f64 / t.offered.max(1) as f64),
            )
            .decimals(1),
        )
        .column(Column::numbers("within 100 ms", "%", of(&|t| t.in_time)).decimals(1))
        .column(Column::numbers("mean delay", "ms", of(&|t| t.mean_ms)).decimals(2))
        .column(Column::numbers("longest", "ms", of(&|t| t.max_ms)).decimals(0))
        .column(Column::numbers("altered", "", of(&|t| t.corrupted as f64)))
        .note(
            "Packets of the study's sizes as long as the ring lasts, and twice as many as it can be \
             filled for, of which all arrive, late; a call both ways beside large packets until the ring is empty, with and \
             without the study's delays; and a wire that loses packets and lets others pass. With \
             delays large packets come no faster than one each 5 ms (our reading of \"delay(5)\"), as from a sender that waits: \
             one that does not is not slowed down by packets that wait sealed.",
        );
    section.table(table)
}
