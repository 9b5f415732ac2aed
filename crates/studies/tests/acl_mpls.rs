//! The study, run as `--quick` does: what it must reproduce, and what it says where
//! something is missing.

mod held;

use ferrule_report::{Block, Cell, Kind, Proof, Report, Table, Verdict, html, json};
use ferrule_studies::acl_mpls::model::{self, Model};
use ferrule_studies::acl_mpls::nodes::{List, System};
use ferrule_studies::acl_mpls::published::Study;
use ferrule_studies::acl_mpls::{document, live};
use std::sync::OnceLock;

fn modelled() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| model::run(&Study::read(), true, &mut |_| {}))
}

fn reported() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| document(modelled(), &Err("not run: a test".into())))
}

#[test]
fn acl_mpls_rates_are_the_printed_ones_within_three_percent_but_at_256_bytes() {
    let study = Study::read();
    let worst = modelled().worst_percent(&study);
    assert!(worst < 3.0, "{worst}: {:#?}", modelled().points);
    // What the limits leave open: the model would have the line's rate there.
    let at = study.at(256);
    let found = modelled().rates(System::ALL[0])[at];
    assert!(found > 1.1 * study.of("ip, no acl, one way").pps[at], "{found}");
}

#[test]
fn acl_mpls_lists_let_one_stream_of_ninety_pass_and_every_frame_has_one_fate() {
    for system in System::ALL {
        for point in modelled().of(system) {
            let share = point.forwarded / point.processed;
            if system.list == List::None {
                assert_eq!(point.denied, 0.0, "{system:?}: {point:?}");
                // A label in front of a full line costs some on the way.
                assert!(share > 0.8, "{system:?}: {point:?}");
                continue;
            }
            // About 200 of 20,000 frames go to it, less what is lost.
            assert!((share * 90.0 - 1.0).abs() < 0.3, "{system:?}: {point:?}");
            let fates = point.denied + point.forwarded;
            assert!((fates / point.processed - 1.0).abs() < 0.01, "{system:?}: {point:?}");
        }
    }
}

#[test]
fn acl_mpls_claims_have_verdicts_and_errata_are_shown() {
    let verdicts: Vec<_> = reported()
        .claims()
        .map(|claim| {
            let of = |kind| claim.by(kind);
            (claim.id.as_str(), of(Kind::Published), of(Kind::Model), of(Kind::Live))
        })
        .collect();
    let (holds, not_run) = (Verdict::Holds, Verdict::NotRun);
    let expected = [
        ("small-frames", holds, not_run, not_run),
        ("outbound-worse", holds, not_run, not_run),
        ("mpls-neutral", holds, not_run, not_run),
        ("one-stream", not_run, holds, not_run),
    ];
    assert_eq!(verdicts, expected);
    let mut errata = 0;
    for block in reported().blocks() {
        let Block::Errata(all) = block else { continue };
        for erratum in all {
            errata += 1;
            match &erratum.proof {
                Proof::Shown(steps) => assert!(!steps.is_empty()),
                Proof::Open(_) => assert!(erratum.text.contains("one-stream"), "{erratum:?}"),
                Proof::Refuted(steps) => panic!("{}: {steps:#?}", erratum.place),
            }
        }
    }
    assert_eq!(errata, 10);
}

#[test]
fn acl_mpls_report_has_every_printed_table_and_reads_back() {
    let text = json::render(reported());
    assert_eq!(json::read(&text).map_err(|e| e.to_string()).as_ref(), Ok(reported()));
    assert_eq!(reported().tables().count(), 7 + 2 + 4);
    assert_eq!(reported().figures().count(), 2);
    let page = html::render(reported());
    for word in ["1,250,020", "674,500", "1,304,000", "Table 3: IP, 120 entries out"] {
        let plain = word.replace(',', "");
        assert!(page.contains(word) || page.contains(&plain), "{word}");
    }
}

/// A clock that only counts how often it is read: every case passes what it should, and
/// everything that is asked for is measured.
#[test]
fn acl_mpls_live_has_every_case() {
    let mut now = 0;
    let mut clock = || {
        now += 51_200;
        now
    };
    let live = live::run(&Study::read(), true, &mut clock, &mut |_| {});
    let report = document(modelled(), &live);
    let is_missing = |cell: &Cell| matches!(cell, Cell::Missing { .. });
    let whole = |table: &&Table| table.columns().iter().all(|c| !c.cells().iter().any(is_missing));
    let ours = |table: &&Table| ["sizes", "permitted", "places", "streams"].contains(&&*table.id);
    assert_eq!(report.tables().filter(ours).filter(whole).count(), 4, "{live:?}");
    // Every frame took 100 ns: no difference is beyond the spread.
    let judged =
        |id: &str| report.claims().find(|claim| claim.id == id).expect("a claim").by(Kind::Live);
    assert_eq!(judged("small-frames"), Verdict::Fails);
    assert_eq!(judged("outbound-worse"), Verdict::Fails);
    assert_eq!(judged("mpls-neutral"), Verdict::Holds);
    assert_eq!(judged("one-stream"), Verdict::Fails);
}

#[test]
fn nothing_that_the_paper_shows_is_missing_in_silence() {
    held::inventory(
        ferrule_studies::acl_mpls::NAME,
        &[reported()],
        &[1, 2, 3],
        &[1, 2, 3, 4, 5, 8],
    );
}
