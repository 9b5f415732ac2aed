//! The study, run as `--quick` does: what it must reproduce, and what it says where
//! something is missing.

mod held;

use ferrule_report::{Block, Cell, Kind, Proof, Report, Table, Verdict, html, json};
use ferrule_studies::acl_mpls::model::{self, Model};
use ferrule_studies::acl_mpls::nodes::{Core, List, System};
use ferrule_studies::acl_mpls::published::Study;
use ferrule_studies::acl_mpls::{document, judge, live};
use ferrule_studies::options::{Options, Seed};
use std::sync::OnceLock;

fn modelled() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| model::run(&Study::read(), Options::QUICK, &mut |_| {}))
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

/// The curves that a reader moves are the model's, before they are moved.
#[test]
fn acl_mpls_closed_form_agrees_with_the_laboratory() {
    let sizes = &Study::read().setup.frame_bytes;
    let mut compared = 0;
    for id in ["figures-3-and-5", "figure-8"] {
        let figure = reported().figures().find(|figure| figure.id == id).expect("a figure");
        let explore = figure.explore.as_ref().expect("parameters");
        for curve in &explore.curves {
            let of = |system: &System| system.key() == curve.group;
            let system = System::ALL.into_iter().find(of).expect("a system");
            for (octets, rate) in sizes.iter().zip(modelled().rates(system)) {
                let near = |p: &&ferrule_report::Point| (p.x / *octets as f64 - 1.0).abs() < 1e-9;
                let Some(point) = curve.points.iter().find(near) else { continue };
                let off = point.y.value / rate - 1.0;
                // Of a few frames, some are in a queue yet: 512 of 20,000.
                assert!(off.abs() < 0.026, "{}, {octets} bytes: {off}", curve.group);
                compared += 1;
            }
        }
    }
    assert!(compared >= 18, "at least three of each curve: {compared}");
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
            let by = [Kind::Published, Kind::Fitted, Kind::Model, Kind::Live].map(of);
            (claim.id.as_str(), by)
        })
        .collect();
    let (holds, fitted, not_run) = (Verdict::Holds, Verdict::Fitted, Verdict::NotRun);
    let expected = [
        ("small-frames", [holds, fitted, not_run, not_run]),
        ("outbound-worse", [holds, fitted, not_run, not_run]),
        ("mpls-neutral", [holds, fitted, not_run, not_run]),
        ("one-stream", [not_run, not_run, holds, not_run]),
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
    assert_eq!(reported().tables().count(), 7 + 2 + 5);
    assert_eq!(reported().figures().count(), 2);
    let page = html::render(reported());
    for word in ["1,250,020", "674,500", "1,304,000", "Table 3: IP, 120 entries out"] {
        let plain = word.replace(',', "");
        assert!(page.contains(word) || page.contains(&plain), "{word}");
    }
}

/// The model draws which stream a frame is of, and so which of them a full bucket loses.
#[test]
fn acl_mpls_another_seed_gives_other_numbers_the_same_verdicts_and_itself_again() {
    let with = |seed| model::run(&Study::read(), Options { seed, ..Options::QUICK }, &mut |_| {});
    let [one, again] = [7, 7].map(|seed| with(Seed::chosen(seed)));
    let listed = System::ALL[2];
    assert_eq!(format!("{:?}", one.of(listed)), format!("{:?}", again.of(listed)));
    assert_ne!(format!("{:?}", one.of(listed)), format!("{:?}", modelled().of(listed)));
    let verdicts = |model: &Model| {
        let claims = judge(&Study::read(), model, &Err("not run: a test".into()));
        claims.iter().map(|claim| claim.verdict()).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&one), verdicts(modelled()));
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
fn acl_mpls_planted_wrong_fit_and_errors_of_the_digest_change_verdicts() {
    let text = include_str!("../../../studies/acl-mpls.toml");
    let by = |text: &str, model: &Model, id: &str, kind| {
        let claims = judge(&Study::parse(text), model, &Err("not run: a test".into()));
        claims.iter().find(|claim| claim.id == id).expect("a claim").by(kind)
    };
    let planted = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    // Limits that do not give what they were fitted to: a list costs the more the further in it
    // is, MPLS half, and frames of any size something.
    let mut wrong = modelled().clone();
    for (system, points) in &mut wrong.points {
        let part = match (system.list, system.core) {
            (List::None, _) => 1.0,
            (List::In, Core::Ip) => 0.5,
            (List::In, Core::Mpls) => 0.25,
            (List::Out, _) => 0.75,
        };
        points.iter_mut().for_each(|point| point.processed = part * 1.3e6);
    }
    for id in ["small-frames", "outbound-worse", "mpls-neutral"] {
        assert_eq!(by(text, modelled(), id, Kind::Fitted), Verdict::Fitted, "{id}: never holds");
        assert_eq!(by(text, &wrong, id, Kind::Fitted), Verdict::Fails, "{id}");
    }
    let few = &mut wrong.few[0].1;
    few.iter_mut().for_each(|point| point.forwarded = 2e6);
    assert_eq!(by(text, &wrong, "one-stream", Kind::Model), Verdict::Fails);
    // The digest's errors: a rate of large frames, one of small ones, and a list's in and out.
    let large = planted("400500, 361400", "400500, 261400");
    assert_eq!(by(&large, modelled(), "small-frames", Kind::Published), Verdict::Fails);
    let label = planted("[887000, 899000", "[787000, 899000");
    assert_eq!(by(&label, modelled(), "mpls-neutral", Kind::Published), Verdict::Undecided);
    let out = planted("[657000, 675000, 674500", "[957000, 975000, 974500");
    assert_eq!(by(&out, modelled(), "outbound-worse", Kind::Published), Verdict::Fails);
}

#[test]
fn acl_mpls_noise_decides_no_claim() {
    // Some rounds of a few cases.
    const WHILE: u64 = 3_001;
    // Readings of the clock that are as long as this, for two fifths of a while, or as that.
    let judged = |[short, long]: [u64; 2]| {
        let (mut now, mut read) = (0, 0);
        let mut clock = || {
            read += 1;
            now += if read % WHILE < 2 * WHILE / 5 { short } else { long };
            now
        };
        let live = live::run(&Study::read(), true, &mut clock, &mut |_| {});
        let report = document(modelled(), &live);
        report.claims().map(|claim| claim.by(Kind::Live)).collect::<Vec<_>>()
    };
    // A frame takes 100 ns; then 100 ns, or 20 us, with 672 ns to 8.4 us on the line.
    let [quiet, noise] = [[51_200; 2], [51_200, 10_240_000]].map(judged);
    assert!(quiet.iter().all(|verdict| *verdict != Verdict::Undecided), "{quiet:?}");
    assert_eq!(noise, [Verdict::Undecided; 4]);
}

#[test]
fn acl_mpls_every_rate_has_a_residual_with_and_without_it_in_the_fit() {
    let study = Study::read();
    let table = reported().tables().find(|table| table.id == "residuals").expect("residuals");
    assert_eq!(table.rows(), System::ALL.len() * (study.setup.frame_bytes.len() - 1));
    let off = |column: usize| {
        let cells = table.columns()[column].cells().iter();
        cells.filter_map(|cell| cell.measure()).map(|m| m.value.abs()).fold(0.0, f64::max)
    };
    let (fitted, predicted) = (off(4), off(6));
    assert!(fitted < 3.0 && predicted > fitted && predicted < 6.0, "{fitted} {predicted}");
    // The outermost rate of a limit pulls it: without it the fit goes elsewhere.
    let slowest = (System::ALL[3], 64);
    let found = modelled().predicted.iter().find(|(rate, _)| *rate == slowest).expect("it").1;
    assert!(found > 1.01 * modelled().rates(slowest.0)[0], "{found}");
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
