//! The study, run as `--quick` does: what it must reproduce, and what it says where
//! something is missing.

mod held;

use ferrule_report::{
    Block, Cell, Claim, Judgement, Kind, Proof, Report, Table, Verdict, html, json,
};
use ferrule_studies::options::Options;
use ferrule_studies::prebuffered_ctr::live::{CROWDED, Live, Measured, Trial};
use ferrule_studies::prebuffered_ctr::model::{self, Model};
use ferrule_studies::prebuffered_ctr::published::Study;
use ferrule_studies::prebuffered_ctr::token::InLab;
use ferrule_studies::prebuffered_ctr::{document, judge};
use std::sync::OnceLock;

const NO_MODULE: &str = "not run: no PKCS#11 module";

fn nothing_live() -> Result<Live, String> {
    Err(NO_MODULE.into())
}

fn modelled() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| model::run(&Study::read(), Options::QUICK, &mut |_| {}))
}

fn reported() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| document(modelled(), &nothing_live()))
}

fn near(found: f64, wanted: f64, percent: f64) {
    let off = 100.0 * (found / wanted - 1.0);
    assert!(off.abs() <= percent, "{found} is not {wanted}: {off:.1} %");
}

#[test]
fn prebuffered_throughput_is_the_networks_before_empty_and_the_tokens_after() {
    let (study, model) = (Study::read(), modelled());
    for (row, blocks) in model.rows.iter().zip([65.0, 9.0]) {
        let printed = study.throughput_of(row.packet_bytes);
        let kbps = row.before_pps * row.packet_bytes as f64 * 8.0 / 1000.0;
        near(kbps, printed.prebuffered_before_empty_kbps, 1.0);
        // 126 blocks every 16 ms, or half of that.
        near(row.after_pps, 126.0 / 0.016 / blocks, 3.0);
        near(row.shared_pps, 126.0 / 0.032 / blocks, 4.0);
    }
    // 16 ms for 65 blocks, 12 for 9.
    near(model.rows[0].plain_pps, 62.5, 0.1);
    near(model.rows[1].plain_pps, 1000.0 / 12.0, 0.1);
}

#[test]
fn prebuffered_drain_curves_are_those_of_the_corrected_arithmetic() {
    let model = modelled();
    let starts = |run: &ferrule_studies::prebuffered_ctr::closed::Drained| {
        (run.filling_starts_s.expect("half empty"), run.empty_after_s.expect("empty"))
    };
    let (begins, ends) = starts(&model.drained);
    near(begins, 8.0, 1.0);
    near(ends, 18.0, 1.0);
    // Blocks of the study are not rounded up for each packet: 96 here for 95.
    let (begins, ends) = starts(&model.shaped);
    near(begins, 16.6, 2.0);
    near(ends, 44.9, 3.0);
    // What is left never grows while more is used than made.
    let falls = model.drained.curve.windows(2).all(|pair| pair[1].blocks <= pair[0].blocks + 126);
    assert!(falls);
}

#[test]
fn prebuffered_voip_sizing_the_plain_token_fails_and_the_least_ring_does() {
    let model = modelled();
    let plain = model.calls.iter().find(|call| call.ring.is_none()).expect("the plain token");
    assert!(plain.in_time * 2 < plain.packets, "{plain:?}");
    near(model.filled_per_second, 3937.0, 5.0);
    for call in model.calls.iter().filter(|call| call.ring.is_some()) {
        assert!(call.in_time + 2 >= call.packets, "{call:?}");
        // Half of the ring at 200 blocks a second.
        let half = call.ring.expect("a ring") as f64 / 2.0 / 200.0 * 1000.0;
        near(call.fill_every_ms.expect("filled again and again"), half, 15.0);
    }
}

#[test]
fn prebuffered_buffer_sizes_last_in_proportion() {
    let model = modelled();
    let empty: Vec<f64> =
        model.sizes.iter().map(|size| size.drained.empty_after_s.expect("empty")).collect();
    near(empty[1] / empty[0], 2.0, 1.0);
    near(empty[2] / empty[1], 2.0, 1.0);
    for (found, printed) in empty.iter().zip(&Study::read().empty_time.empty_after_s) {
        near(*found, *printed, 25.0);
    }
}

#[test]
fn prebuffered_loss_and_reordering_never_give_a_wrong_packet() {
    let order = &modelled().order;
    assert!(order.iter().all(|case| case.wrong == 0), "{order:#?}");
    for case in order {
        assert_eq!(case.right + case.gone, case.arrived, "every packet is accounted for: {case:?}");
        // In a ring too small key stream is overwritten, and asked for exactly.
        assert_eq!(case.ring < 1024, case.asked > 0, "{case:?}");
    }
    assert!(order.iter().any(|case| case.ring < 1024));
}

#[test]
fn prebuffered_claims_have_verdicts_and_errata_are_shown() {
    let verdicts: Vec<_> =
        reported().claims().map(|claim| (claim.id.as_str(), claim.verdict())).collect();
    let expected = [
        // Ten times by the token's own 12 and 16 ms: not about six, but six or more.
        ("six-times", Verdict::Fails),
        ("six-or-more", Verdict::Holds),
        // 1.1 and 6.0 times.
        ("size-matters-less", Verdict::Fails),
        ("small-packets-gain", Verdict::Holds),
        ("plain-rises", Verdict::Holds),
        ("voip-works", Verdict::Holds),
        ("order-and-loss", Verdict::Holds),
        ("delay-shapes", Verdict::Holds),
    ];
    assert_eq!(verdicts, expected);
    let errata = reported().blocks().find_map(|block| match block {
        Block::Errata(errata) => Some(errata),
        _ => None,
    });
    let errata = errata.expect("errata");
    assert_eq!(errata.len(), Study::read().erratum.len());
    assert!(errata.iter().all(|e| matches!(e.proof, Proof::Shown(_))), "{errata:#?}");
}

#[test]
fn prebuffered_networks_value_has_a_residual_for_each_size_and_is_marked_as_fitted() {
    let table = |id: &str| reported().tables().find(|table| table.id == id).expect("a table");
    let numbers = |table: &Table, kind: Kind, nth: usize| {
        let column = table.columns().iter().filter(|c| c.kind() == kind).nth(nth).expect("it");
        column.cells().iter().filter_map(|c| c.measure()).map(|m| m.value).collect::<Vec<_>>()
    };
    let (residuals, throughput) = (table("residuals"), table("throughput"));
    let printed = numbers(residuals, Kind::Published, 0);
    let [a, b] = printed[..] else { panic!("{printed:?}") };
    // Of two values each is predicted by the other one.
    assert_eq!(numbers(residuals, Kind::Model, 0), [b, a]);
    assert_eq!(numbers(residuals, Kind::Fitted, 0), [f64::midpoint(a, b); 2]);
    // Before empty, of each size: the value itself, as in the table of its residuals.
    assert_eq!(numbers(throughput, Kind::Fitted, 0), numbers(residuals, Kind::Fitted, 0));
    let fitted = numbers(residuals, Kind::Derived, 0);
    let shown = numbers(throughput, Kind::Derived, 0);
    for (residual, at) in fitted.iter().zip([0, 3]) {
        assert!((residual - shown[at]).abs() < 1e-9, "{residual} {shown:?}");
    }
    // Both tokens stand beside the print, each with its error.
    assert_eq!(numbers(throughput, Kind::Derived, 0).len(), 6);
    assert_eq!(numbers(throughput, Kind::Derived, 1).len(), 4);
}

/// The curves that a reader moves are the model's, before they are moved.
#[test]
fn prebuffered_closed_form_agrees_with_the_laboratory() {
    for (id, run) in [("figure-8", &modelled().drained), ("figure-9", &modelled().shaped)] {
        let figure = reported().figures().find(|figure| figure.id == id).expect("it");
        let points = &figure.explore.as_ref().expect("parameters").curves[0].points;
        let whole = Study::read().drain.buffer_blocks;
        for point in points {
            let after = run.curve.iter().find(|level| level.at_s >= point.x);
            let Some(level) = after.filter(|level| level.at_s - point.x < 0.3) else { continue };
            let off = (point.y.value - level.blocks as f64) / whole;
            assert!(off.abs() < 0.03, "{id} after {} s: {off}", point.x);
        }
        let empty = points.iter().find(|point| point.y.value == 0.0).expect("an end").x;
        let found = run.empty_after_s.expect("an end");
        assert!((empty / found - 1.0).abs() < 0.1, "{empty} {found}");
    }
}

#[test]
fn prebuffered_report_has_every_figure_and_reads_back() {
    let figures: Vec<&str> = reported().figures().map(|figure| figure.id.as_str()).collect();
    for id in ["throughput", "figure-8", "figure-9", "figure-10", "figure-11"] {
        assert!(figures.contains(&id), "{id} of {figures:?}");
    }
    let live = reported().tables().flat_map(|table| table.columns());
    let live: Vec<_> = live.filter(|column| column.kind() == Kind::Live).collect();
    assert!(!live.is_empty());
    for column in live {
        assert!(column.cells().iter().all(|cell| *cell == Cell::missing(NO_MODULE)));
    }
    let text = json::render(reported());
    assert_eq!(json::read(&text).expect("a report"), *reported());
    let page = html::render(reported());
    for words in ["7312", "1024", "630,000", "id=\"figure-figure-11\""] {
        assert!(page.contains(words), "{words}");
    }
}

/// Live results of a quick run on a token exactly as slow as the card: the same functions, with a
/// tenth of the buffers, in virtual time.
fn as_if_live() -> Live {
    let (study, model) = (Study::read(), modelled().clone());
    let share = 0.1;
    let drains = |shape| model::drains(&study, &mut InLab, shape, share).expect("a drain");
    let sizes = study.empty_time.buffer_mib.iter();
    let sizes = sizes.map(|&mib| model::sized(&study, &mut InLab, mib, share).expect("a drain"));
    let measured = Measured {
        share,
        rows: model.rows,
        unlimited_pps: vec![1e5, 2e5],
        calls: model.calls,
        filled_per_second: model.filled_per_second,
        drained: drains(false),
        shaped: drains(true),
        sizes: sizes.collect(),
        order: model.order,
    };
    let trial = Trial {
        what: "a call, both ways".into(),
        packet_bytes: 60,
        offered_pps: 100.0,
        offered: 200,
        received: 200,
        corrupted: 0,
        received_pps: 100.0,
        in_time: 100.0,
        mean_ms: 0.2,
        max_ms: 3.0,
    };
    let crowded = CROWDED.map(|what| Trial { what: what.into(), ..trial.clone() });
    let trials = [trial].into_iter().chain(crowded).collect();
    Live { note: "as if".into(), measured, nodes: Ok(trials) }
}

#[test]
fn prebuffered_live_columns_and_verdicts_stand_beside_the_model_and_never_in_it() {
    let live = Ok(as_if_live());
    let report = document(modelled(), &live);
    let by = |id: &str| report.claims().find(|c| c.id == id).expect("a claim").by(Kind::Live);
    // Packets are counted; what was timed once decides nothing.
    assert_eq!(["voip-works", "order-and-loss"].map(by), [Verdict::Holds; 2]);
    let timed = ["six-times", "six-or-more", "size-matters-less", "small-packets-gain"];
    assert_eq!(timed.map(by), [Verdict::Undecided; 4]);
    assert_eq!(["plain-rises", "delay-shapes"].map(by), [Verdict::Undecided; 2]);
    let table = |id| report.tables().find(|table| table.id == id).expect("a table");
    for id in ["throughput", "call", "voip", "drain", "sizes", "order", "nodes", "unlimited"] {
        let columns = table(id).columns().iter().filter(|column| column.kind() == Kind::Live);
        let filled = columns.filter(|c| c.cells().iter().any(|cell| cell.measure().is_some()));
        assert!(filled.count() > 0, "{id} has live numbers");
    }
    // A tenth of the buffer is empty in a tenth of the time, but for what is left of an
    // exchange.
    let column = |kind, head: &str| {
        let found = table("drain").columns().iter().find(|c| c.kind() == kind && c.head() == head);
        found.expect("a column").cells().iter().map(|cell| cell.measure().expect("a number").value)
    };
    let scaled = column(Kind::Derived, "live, for all blocks");
    for (whole, scaled) in column(Kind::Model, "after").zip(scaled) {
        near(scaled, whole, 2.0);
    }
    let figures: Vec<&str> = report.figures().map(|figure| figure.id.as_str()).collect();
    assert!(figures.contains(&"figure-8-live"), "{figures:?}");
    let page = html::render(&report);
    assert!(page.contains("63000 blocks"), "what the live buffer was");
    assert_eq!(json::read(&json::render(&report)).expect("a report"), report);
}

/// The digest.
const DIGEST: &str = include_str!("../../../studies/prebuffered-ctr.toml");

/// A claim as a digest and a model have it.
fn judged(text: &str, model: &Model, id: &str) -> Claim {
    let (study, live) = (Study::parse(text), nothing_live());
    let claims = judge(&(&study, model, &live));
    claims.into_iter().find(|claim| claim.id == id).expect("a claim")
}

/// The digest with another rate of the plain token at 128 bytes.
fn planted(aes: &str) -> String {
    DIGEST.replace("aes_ctr_kbps = 55.4", &format!("aes_ctr_kbps = {aes}"))
}

/// A claim's judgements by numbers of one origin, each with its value.
fn values(claim: &Claim, kind: Kind) -> Vec<(f64, Verdict)> {
    let found = claim.judgements.iter().filter(|judgement| judgement.kind() == kind);
    let value = |j: &Judgement| (j.evidence().expect("evidence").value.value, j.verdict());
    found.map(value).collect()
}

#[test]
fn prebuffered_six_times_is_judged_on_two_sides_and_by_the_digest() {
    let by = |text: &str, kind| judged(text, modelled(), "six-times").by(kind);
    assert_eq!(
        (by(DIGEST, Kind::Published), by(DIGEST, Kind::Model)),
        (Verdict::Holds, Verdict::Fails)
    );
    // Fewer would fail as well as more.
    for aes in ["34.1", "100.0"] {
        assert_eq!(by(&planted(aes), Kind::Published), Verdict::Fails, "{aes}");
    }
}

#[test]
fn prebuffered_six_times_is_judged_for_a_token_of_one_direction_and_of_two() {
    let found = values(&judged(DIGEST, modelled(), "six-times"), Kind::Model);
    let [(alone, not), (both, nor)] = found[..] else { panic!("{found:?}") };
    near(alone, 10.5, 1.0);
    near(both, 5.25, 3.0);
    assert_eq!([not, nor], [Verdict::Fails; 2]);
    // What one of them misses is not made good by the other.
    let mut slow = modelled().clone();
    let row = slow.rows.iter_mut().find(|row| row.packet_bytes == 128).expect("a size");
    row.after_pps = 6.0 * row.plain_pps;
    let found = values(&judged(DIGEST, &slow, "six-times"), Kind::Model);
    assert_eq!(found.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [Verdict::Holds, Verdict::Fails]);
}

/// The conclusion says "or more" of the empty buffer, and section 4.2.1 "about".
#[test]
fn prebuffered_six_times_or_more_admits_more_and_is_of_the_empty_buffer() {
    let by = |text: &str, kind| judged(text, modelled(), "six-or-more").by(kind);
    assert_eq!([Kind::Published, Kind::Model].map(|kind| by(DIGEST, kind)), [Verdict::Holds; 2]);
    assert_eq!(by(&planted("34.1"), Kind::Published), Verdict::Holds);
    assert_eq!(by(&planted("100.0"), Kind::Published), Verdict::Fails);
    let printed = values(&judged(DIGEST, modelled(), "six-or-more"), Kind::Published);
    near(printed[0].0, 341.0 / 55.4, 0.01);
    // The gain before that is a remark, and no erratum: nothing in the print contradicts it.
    assert!(Study::read().erratum.iter().all(|erratum| erratum.place != "conclusion"));
    let page = html::render(reported());
    assert!(page.contains("28 times those of the plain token at 1024 bytes, 131 times at 128"));
    // Ten per cent are nowhere in the print.
    let words = judged(DIGEST, modelled(), "six-times").judgements[0].words();
    assert!(words.contains("within 10 % is our reading; section 4.2.1"), "{words}");
}

#[test]
fn prebuffered_table_1_is_judged_by_all_that_section_4_2_1_says_of_it() {
    let found = |id: &str, kind| values(&judged(DIGEST, modelled(), id), kind);
    for (id, printed, model) in [
        ("size-matters-less", &[1.76, 4.66][..], &[1.11, 6.0][..]),
        ("small-packets-gain", &[2.65], &[5.42]),
        ("plain-rises", &[1.714], &[1.333]),
    ] {
        for (kind, wanted) in [(Kind::Published, printed), (Kind::Model, model)] {
            let found = found(id, kind);
            assert_eq!(found.len(), wanted.len(), "{id}");
            found.iter().zip(wanted).for_each(|((found, _), wanted)| near(*found, *wanted, 2.0));
        }
    }
    let verdicts = |kind| found("size-matters-less", kind).iter().map(|f| f.1).collect::<Vec<_>>();
    assert_eq!(verdicts(Kind::Published), [Verdict::Holds; 2]);
    assert_eq!(verdicts(Kind::Model), [Verdict::Fails; 2]);
    // With as many packets a second whatever their size nothing rises.
    let even = DIGEST.replace("aes_ctr_pps = 54", "aes_ctr_pps = 31.5");
    assert_eq!(judged(&even, modelled(), "plain-rises").by(Kind::Published), Verdict::Fails);
}

#[test]
fn prebuffered_voip_is_judged_by_the_print_as_well_where_the_print_has_it() {
    let claim = judged(DIGEST, modelled(), "voip-works");
    assert!(claim.section.starts_with("section 4.2.1"), "{}", claim.section);
    let printed = [(83.0, Verdict::Holds), (3937.0, Verdict::Holds)];
    assert_eq!(values(&claim, Kind::Published), printed);
    let most = "plain_packets_per_second = ";
    let fast = DIGEST.replace(&format!("{most}83"), &format!("{most}100"));
    assert_eq!(judged(&fast, modelled(), "voip-works").by(Kind::Published), Verdict::Fails);
}

#[test]
fn prebuffered_units_that_are_not_printed_are_marked_as_our_reading() {
    let erratum = |place: &str| {
        let mut errata = reported().blocks().filter_map(|block| match block {
            Block::Errata(errata) => errata.iter().find(|e| e.place == place).cloned(),
            _ => None,
        });
        let found = errata.next().expect("an erratum");
        (found.text, format!("{:?}", found.proof))
    };
    let (text, proof) = erratum("section 4.1.2");
    assert!(text.contains("without a unit") && proof.contains("our reading"), "{text} {proof}");
    let words: String = judged(DIGEST, modelled(), "delay-shapes")
        .judgements
        .iter()
        .map(Judgement::words)
        .collect();
    assert!(words.contains("read as 5 ms"), "{words}");
    let page = html::render(reported());
    assert!(page.contains("without a unit: milliseconds are our reading"));
    assert!(!page.contains("5 ms a packet"));
    // What is calculated as MiB is called so; ten MB are of 10^6 octets.
    let (text, proof) = erratum("figure 11");
    assert!(text.contains("taken as MiB") && proof.contains("16 MiB in 17.7 s"), "{text} {proof}");
    let sizes = reported().tables().find(|table| table.id == "sizes").expect("sizes");
    assert_eq!(sizes.columns()[0].unit(), "MiB");
    near(Study::read().drain.buffer_blocks * 16.0, 10e6, 1.0);
}

#[test]
fn prebuffered_640_ms_stand_beside_256_blocks_and_the_headline_has_the_printed_gains() {
    let voip = reported().tables().find(|table| table.id == "voip").expect("voip");
    let every = voip.columns().iter().find(|c| c.kind() == Kind::Published).expect("printed");
    let at = |n: usize| (voip.columns()[0].show(n), every.cells()[n].measure().map(|m| m.value));
    let rows: Vec<_> = (0..voip.rows()).map(at).filter(|(_, ms)| ms.is_some()).collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].0.starts_with("256 blocks") && rows[0].1 == Some(640.0), "{rows:?}");
    // And the model has it: half of 256 at 200 a second.
    let model = modelled().calls.iter().find(|call| call.ring == Some(256)).expect("a call");
    near(model.fill_every_ms.expect("again and again"), 640.0, 5.0);
    for words in ["28 and 131 times", "56 s"] {
        assert!(reported().answer.contains(words), "{words}: {}", reported().answer);
    }
}

#[test]
fn prebuffered_delays_are_judged_by_small_packets_beside_large_ones() {
    let [without, with] = modelled().crowded;
    assert!(without.packets == with.packets && without.in_time < with.in_time, "{without:?}");
    let by = |model: &Model| {
        let (study, live) = (Study::read(), nothing_live());
        let claims = judge(&(&study, model, &live));
        claims.iter().find(|claim| claim.id == "delay-shapes").expect("it").by(Kind::Model)
    };
    assert_eq!(by(modelled()), Verdict::Holds);
    // Delays that keep the buffer and not the call are none.
    let mut slow = modelled().clone();
    slow.crowded[1].in_time = slow.crowded[1].packets * 9 / 10;
    assert_eq!(by(&slow), Verdict::Fails);
}

#[test]
fn nothing_that_the_paper_shows_is_missing_in_silence() {
    held::inventory(
        ferrule_studies::prebuffered_ctr::NAME,
        &[reported()],
        &[1],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
}
