//! A verdict on every claim.

use super::closed::Drained;
use super::live::Live;
use super::model::Model;
use super::order::Disturbed;
use super::published::Study;
use super::voip::Call;
use ferrule_report::{Claim, Kind, Verdict};

/// "About" six times is not less than this share of it.
const ABOUT: f64 = 0.95;

/// The first packets find the rings empty, one each way.
const MISSED_MAX: u64 = 2;
/// What a machine that has other things to do may be late with.
const BUSY_PERCENT: u64 = 1;

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

fn not_live(claim: Claim, live: &Result<Live, String>) -> Claim {
    let why = match live {
        Err(why) => why.strip_prefix("not run: ").unwrap_or(why),
        Ok(_) => "not measured on this machine",
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
    match live.as_ref().ok().and_then(|live| live.measured.row(BYTES)) {
        Some(row) => {
            let times = row.after_pps / row.plain_pps;
            let evidence = format!(
                "{:.0} against {:.1} packets a second: {times:.1} times",
                row.after_pps, row.plain_pps
            );
            claim.judged(Kind::Live, Verdict::of(times >= 6.0 * ABOUT), evidence)
        }
        None => not_live(claim, live),
    }
}

/// Whether the plain token fails a call and every buffer carries it.
fn carries(calls: &[Call], missed_percent: u64) -> (Verdict, String) {
    let plain = calls.iter().find(|call| call.ring.is_none());
    let mut buffered = calls.iter().filter(|call| call.ring.is_some());
    let missed_max = |call: &Call| MISSED_MAX + call.packets * missed_percent / 100;
    let all = buffered.clone().all(|call| call.in_time + missed_max(call) >= call.packets);
    let fails = plain.is_some_and(|call| call.in_time * 2 < call.packets);
    let missed = buffered.clone().map(|call| call.packets - call.in_time).max().unwrap_or(0);
    let rest = if missed == 0 { String::new() } else { format!(" but {missed} at most") };
    let evidence = format!(
        "plain: {} of {} packets within 100 ms; with every ring from {} blocks on all{rest}",
        plain.map_or(0, |call| call.in_time),
        plain.map_or(0, |call| call.packets),
        buffered.by_ref().filter_map(|call| call.ring).min().unwrap_or(0)
    );
    (Verdict::of(all && fails), evidence)
}

fn voip(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let (verdict, evidence) = carries(&model.calls, 0);
    let claim = claim.judged(Kind::Model, verdict, evidence);
    match live {
        Ok(live) => {
            let (verdict, evidence) = carries(&live.measured.calls, BUSY_PERCENT);
            claim.judged(Kind::Live, verdict, evidence)
        }
        Err(_) => not_live(claim, live),
    }
}

/// Whether every packet that arrived was opened right, or in a ring too small dropped.
fn finds(cases: &[Disturbed]) -> (Verdict, String) {
    let wrong: u64 = cases.iter().map(|case| case.wrong).sum();
    let (small, large): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.ring < 1024);
    let all = large.iter().all(|case| case.right == case.arrived);
    let asked: u64 = small.iter().map(|case| case.asked).sum();
    let all = all && small.iter().all(|case| case.right + case.gone == case.arrived);
    let evidence = format!(
        "{} packets of {} opened right after loss and reordering, none wrong; with a ring too \
         small {asked} waited for blocks that were asked for again, {wrong} came out wrong",
        large.iter().map(|case| case.right).sum::<u64>(),
        large.iter().map(|case| case.arrived).sum::<u64>(),
    );
    (Verdict::of(all && wrong == 0 && !large.is_empty()), evidence)
}

fn order(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let (verdict, evidence) = finds(&model.order);
    let claim = claim.judged(Kind::Model, verdict, evidence);
    match live {
        Ok(live) => {
            let (verdict, evidence) = finds(&live.measured.order);
            claim.judged(Kind::Live, verdict, evidence)
        }
        Err(_) => not_live(claim, live),
    }
}

/// Whether delays postpone the empty buffer, and by how much.
fn postpones(drained: &Drained, shaped: &Drained, share: f64) -> (Verdict, String) {
    let (without, with) = (drained.empty_after_s, shaped.empty_after_s);
    let later = matches!((without, with), (Some(a), Some(b)) if b > a);
    let shown = |at: Option<f64>| at.map_or("never".to_owned(), |s| format!("after {s:.1} s"));
    let part = match share < 1.0 {
        true => format!("{:.0} % of the buffer: ", 100.0 * share),
        false => String::new(),
    };
    let evidence = format!(
        "{part}empty {} without delays, {} with 5 ms for each packet of 1520 bytes",
        shown(without),
        shown(with)
    );
    (Verdict::of(later), evidence)
}

fn delay(claim: Claim, (_, model, live): &Given<'_>) -> Claim {
    let (verdict, evidence) = postpones(&model.drained, &model.shaped, 1.0);
    let claim = claim.judged(Kind::Model, verdict, evidence);
    match live {
        Ok(live) => {
            let m = &live.measured;
            let (verdict, evidence) = postpones(&m.drained, &m.shaped, m.share);
            claim.judged(Kind::Live, verdict, evidence)
        }
        Err(_) => not_live(claim, live),
    }
}
