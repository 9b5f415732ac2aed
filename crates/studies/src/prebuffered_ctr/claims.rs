//! A verdict on every claim.

use super::live::Live;
use super::model::Model;
use super::published::Study;
use ferrule_report::{Claim, Kind, Verdict};

/// "About" six times is not less than this share of it.
const ABOUT: f64 = 0.95;

type Given<'a> = (&'a Study, &'a Model, &'a Result<Live, String>);

/// All of the study's claims, in its order.
pub fn judge(given: &Given<'_>) -> Vec<Claim> {
    let each = given.0.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        match claim.id.as_str() {
            "six-times" => six_times(judged, given),
            "voip-works" => voip(judged, given),
            "order-and-loss" => order(judged, given),
            _ => delay(judged, given),
        }
    });
    each.collect()
}

fn not_live(claim: Claim, live: &Result<Live, String>, why: &str) -> Claim {
    let why = match live {
        Err(why) => why.strip_prefix("not run: ").unwrap_or(why),
        Ok(_) => why,
    };
    claim.judged(Kind::Live, Verdict::NotRun, why)
}

fn six_times(claim: Claim, (study, model, live): &Given<'_>) -> Claim {
    const BYTES: usize = 128;
    let row = study.throughput_of(BYTES);
    let printed = row.prebuffered_after_empty_kbps / row.aes_ctr_kbps;
    let claim = claim.judged(
        Kind::Published,
        Verdict::of(printed >= 6.0 * ABOUT),
        format!(
            "{} / {} kbit/s = {printed:.1} times",
            row.prebuffered_after_empty_kbps, row.aes_ctr_kbps
        ),
    );
    let at = |model: &Model| model.rows.iter().find(|row| row.packet_bytes == BYTES).copied();
    let claim = match at(model) {
        Some(row) => {
            let times = row.after_pps / row.plain_pps;
            let evidence = format!(
                "{:.0} against {:.1} packets a second: {times:.1} times; an exchange brings key \
                 stream for fourteen packets in 16 ms instead of one in 12",
                row.after_pps, row.plain_pps
            );
            claim.judged(Kind::Model, Verdict::of(times >= 6.0 * ABOUT), evidence)
        }
        None => claim,
    };
    match live.as_ref().ok().and_then(|live| live.row(BYTES)) {
        Some(row) => {
            let times = row.after_pps / row.plain_pps;
            let evidence = format!(
                "{:.0} against {:.1} packets a second: {times:.1} times",
                row.after_pps, row.plain_pps
            );
            claim.judged(Kind::Live, Verdict::of(times >= 6.0 * ABOUT), evidence)
        }
        None => not_live(claim, live, "not measured on this machine"),
    }
}

fn voip(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let plain = model.calls.iter().find(|call| call.ring.is_none());
    let buffered = model.calls.iter().filter(|call| call.ring.is_some());
    let all = buffered.clone().all(|call| call.in_time + 2 >= call.packets);
    let fails = plain.is_some_and(|call| call.in_time * 2 < call.packets);
    let evidence = format!(
        "plain: {} of {} packets within 100 ms; with every ring from {} blocks on all but the \
         first",
        plain.map_or(0, |call| call.in_time),
        plain.map_or(0, |call| call.packets),
        buffered.filter_map(|call| call.ring).min().unwrap_or(0)
    );
    let claim = claim.judged(Kind::Model, Verdict::of(all && fails), evidence);
    not_live(claim, live, "a call was not measured on this machine")
}

fn order(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let wrong: u64 = model.order.iter().map(|case| case.wrong).sum();
    let (small, large): (Vec<_>, Vec<_>) = model.order.iter().partition(|case| case.ring < 1024);
    let all = large.iter().all(|case| case.right == case.arrived);
    let asked: u64 = small.iter().map(|case| case.asked).sum();
    let all = all && small.iter().all(|case| case.right + case.gone == case.arrived);
    let evidence = format!(
        "{} packets of {} opened right after loss and reordering, none wrong; with a ring too \
         small {asked} waited for blocks that were asked for again, {wrong} came out wrong",
        large.iter().map(|case| case.right).sum::<u64>(),
        large.iter().map(|case| case.arrived).sum::<u64>(),
    );
    let claim = claim.judged(Kind::Model, Verdict::of(all && wrong == 0), evidence);
    match live.as_ref().ok().and_then(|live| live.order) {
        Some([right, wrong, gone]) => {
            let evidence = format!("{right} opened right, {wrong} wrong, {gone} dropped");
            claim.judged(Kind::Live, Verdict::of(wrong == 0 && right > 0), evidence)
        }
        None => not_live(claim, live, "not measured on this machine"),
    }
}

fn delay(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let (without, with) = (model.drained.empty_after_s, model.shaped.empty_after_s);
    let later = matches!((without, with), (Some(a), Some(b)) if b > a);
    let shown = |at: Option<f64>| at.map_or("never".to_owned(), |s| format!("after {s:.1} s"));
    let evidence = format!(
        "empty {} without delays, {} with 5 ms for each packet of 1520 bytes",
        shown(without),
        shown(with)
    );
    let claim = claim.judged(Kind::Model, Verdict::of(later), evidence);
    not_live(claim, live, "a run of a minute was not made on this machine")
}
