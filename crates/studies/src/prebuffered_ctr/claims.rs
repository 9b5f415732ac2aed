//! A verdict on every claim.

use super::closed::Drained;
use super::gains;
use super::live::{CROWDED, Live};
use super::model::Model;
use super::order::Disturbed;
use super::published::Study;
use super::voip::{Call, Crowded};
use crate::words::{self, why_not};
use ferrule_report::{Claim, Evidence, Kind};

/// The print, the model and what was measured.
pub(super) type Given<'a> = (&'a Study, &'a Model, &'a Result<Live, String>);

/// Judges each of the study's claims, in the study's order.
pub fn judge(given: &Given<'_>) -> Vec<Claim> {
    let each = given.0.claim.iter().map(|said| match said.id.as_str() {
        "six-times" => gains::six_times(said, given),
        "six-or-more" => gains::six_or_more(said, given),
        "size-matters-less" => gains::size_matters(said, given),
        "small-packets-gain" => gains::small_packets(said, given),
        "plain-rises" => gains::plain_rises(said, given),
        "voip-works" => voip(said, given),
        "order-and-loss" => order(said, given),
        _ => delay(said, given),
    });
    each.collect()
}

/// The plain token's call, and the worst of those with a buffer, in packets in time.
fn calls(mut claim: Claim, kind: Kind, said: &words::Claim, calls: &[Call]) -> Claim {
    let share = |call: &Call| 100.0 * call.in_time as f64 / call.packets.max(1) as f64;
    let evidence = |metric: &str, call: &Call, of: &str| {
        Evidence::share(metric, (call.in_time, call.packets), said.asked(of))
    };
    let number = |call: &Call| format!("{} of {} packets", call.in_time, call.packets);
    let plain = calls.iter().find(|call| call.ring.is_none());
    let buffered = calls.iter().filter(|call| call.ring.is_some());
    let worst = buffered.min_by(|a, b| share(a).total_cmp(&share(b)));
    for (metric, call, of) in [
        ("plain token, within 100 ms", plain, "plain"),
        ("worst of all buffers, within 100 ms", worst, "buffered"),
    ] {
        claim = match call {
            Some(call) => claim.judged(kind, evidence(metric, call, of), number(call)),
            None => claim.not_run(kind, format!("no call: {metric}")),
        };
    }
    claim
}

fn voip(said: &words::Claim, (study, model, live): &Given<'_>) -> Claim {
    let print = &study.voip;
    let (plain, filled) = (print.plain_packets_per_second, print.blocks_per_second_filled);
    let plain = Evidence::computed("plain token at most", plain, said.asked("needed"));
    let filled = Evidence::computed("key stream for one direction", filled, said.asked("filled"));
    let claim = said
        .open()
        .judged(
            Kind::Published,
            plain.unit("packets a second").against("50 each way"),
            format!(
                "{} ms an exchange; a call over plain AES-CTR did not work",
                study.token.io_delay_ms_small
            ),
        )
        .judged(
            Kind::Published,
            filled.unit("blocks a second"),
            "calculated; no call with a buffer is reported",
        );
    let claim = calls(claim, Kind::Model, said, &model.calls);
    match live {
        Ok(live) => calls(claim, Kind::Live, said, &live.measured.calls),
        Err(_) => claim.not_run(Kind::Live, why_not(live)),
    }
}

/// Every packet that arrived was opened right, or in a ring too small dropped.
fn finds(claim: Claim, kind: Kind, said: &words::Claim, cases: &[Disturbed]) -> Claim {
    let sum = |of: fn(&Disturbed) -> u64| cases.iter().map(of).sum::<u64>();
    let right = |case: &&Disturbed| match case.ring < 1024 {
        true => case.right + case.gone == case.arrived,
        false => case.right == case.arrived,
    };
    let arrived = sum(|case| case.arrived);
    if arrived == 0 {
        return claim.not_run(kind, "no packet arrived");
    }
    let lacking = cases.iter().filter(|case| !right(case)).count() as u64;
    let note = format!(
        "{} of {arrived} opened right after loss and reordering; {} waited for blocks that were \
         overwritten in a ring too small and asked for again, {} were dropped",
        sum(|case| case.right),
        sum(|case| case.asked),
        sum(|case| case.gone),
    );
    let wrong = Evidence::counted("packets that came out wrong", sum(|c| c.wrong), said.asked(""));
    let lacking = Evidence::counted("cases with packets unaccounted for", lacking, said.asked(""));
    claim.judged(kind, wrong, note).judged(kind, lacking, "")
}

fn order(said: &words::Claim, (_, model, live): &Given<'_>) -> Claim {
    let claim = finds(said.open(), Kind::Model, said, &model.order);
    match live {
        Ok(live) => finds(claim, Kind::Live, said, &live.measured.order),
        Err(_) => claim.not_run(Kind::Live, why_not(live)),
    }
}

/// Judges by how much delays postpone the time at which the buffer is empty.
fn postpones(
    claim: Claim,
    kind: Kind,
    said: &words::Claim,
    (drained, shaped, share): (&Drained, &Drained, f64),
) -> Claim {
    let part = match share < 1.0 {
        true => format!("{:.0} % of the buffer: ", 100.0 * share),
        false => String::new(),
    };
    let (Some(without), Some(with)) = (drained.empty_after_s, shaped.empty_after_s) else {
        return claim.not_run(kind, "the buffer was not empty in time");
    };
    let evidence = Evidence::computed("time until empty", with / without, said.asked("later"));
    let note = format!(
        "{part}empty after {without:.1} s without delays, {with:.1} s with delay(5), read as 5 \
         ms, for each packet of 1520 bytes; printed are 19 and 56 s"
    );
    claim.judged(kind, evidence.unit("times").against("no delays"), note)
}

/// Small packets beside large ones that are delayed, and what becomes of them without.
fn served(
    claim: Claim,
    kind: Kind,
    said: &words::Claim,
    [without, with]: [Option<Crowded>; 2],
) -> Claim {
    let (Some(without), Some(with)) = (without, with) else {
        return claim.not_run(kind, "no call beside large packets");
    };
    let counts = (with.in_time, with.packets);
    let evidence = Evidence::share("a call beside large packets", counts, said.asked("served"));
    let note = format!(
        "within 100 ms, until the buffer has been empty for a while without delays; without them \
         {:.0} %",
        100.0 * without.in_time as f64 / without.packets.max(1) as f64
    );
    claim.judged(kind, evidence, note)
}

/// A trial between nodes in numbers of packets.
fn crowded(live: &Live, what: &str) -> Option<Crowded> {
    let trial = live.nodes.as_ref().ok()?.iter().find(|trial| trial.what == what)?;
    let in_time = (trial.in_time / 100.0 * trial.offered as f64).round() as u64;
    Some(Crowded { packets: trial.offered, in_time })
}

fn delay(said: &words::Claim, (study, model, live): &Given<'_>) -> Claim {
    let printed = &study.drain;
    let times = printed.with_delay_empty_after_s / printed.empty_after_s;
    let evidence = Evidence::computed("time until empty", times, said.asked("later"));
    let claim =
        said.open().judged(Kind::Published, evidence.unit("times").against("no delays"), "");
    let claim = postpones(claim, Kind::Model, said, (&model.drained, &model.shaped, 1.0));
    let claim = served(claim, Kind::Model, said, model.crowded.map(Some));
    match live {
        Ok(live) => {
            let m = &live.measured;
            let claim = postpones(claim, Kind::Live, said, (&m.drained, &m.shaped, m.share));
            served(claim, Kind::Live, said, CROWDED.map(|what| crowded(live, what)))
        }
        Err(_) => claim.not_run(Kind::Live, why_not(live)),
    }
}
