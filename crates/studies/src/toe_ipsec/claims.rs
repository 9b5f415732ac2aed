//! A verdict on every claim.

use super::bench::Way;
use super::live::Live;
use super::model::{FIXED, Model, SIZES};
use super::network::System;
use super::published::Study;
use ferrule_report::{Claim, Kind, Verdict};

/// What is printed as "about" so many times is within this of it.
const ABOUT_PERCENT: f64 = 25.0;
/// A share that is lower by less has not fallen.
const FLAT: f64 = 0.01;

/// All of the study's claims, in its order, and what one expects of today's machines.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        let judged = match claim.id.as_str() {
            "inline-wins" => inline_wins(judged, study, model),
            "size-hurts-look-aside" => size_hurts(judged, model),
            _ => inline_flat(judged, model),
        };
        judged.judged(Kind::Live, Verdict::NotRun, "no offload engine and no crypto chip here")
    });
    let expected =
        study.expectation.iter().map(|note| crossover(Claim::new("crossover", &note.text), live));
    each.chain(expected).collect()
}

fn inline_wins(claim: Claim, study: &Study, model: &Model) -> Claim {
    let about = |times: f64, said: f64| (times / said - 1.0).abs() * 100.0 <= ABOUT_PERCENT;
    let judge = |share: &dyn Fn(System) -> f64| {
        let inline = share(System::Inline);
        let times = [System::Software, System::LookAside].map(|system| inline / share(system));
        let evidence = format!("{:.1} times software, {:.2} times look-aside", times[0], times[1]);
        (Verdict::of(about(times[0], 8.0) && about(times[1], 2.0)), evidence)
    };
    let (verdict, evidence) = judge(&|system| study.result_of(system).throughput_share);
    let claim = claim.judged(Kind::Published, verdict, format!("table 2: {evidence}"));
    let mut claim = claim;
    for way in Way::ALL {
        let (verdict, evidence) = judge(&|system| model.share(system, way));
        claim = claim.judged(Kind::Model, verdict, format!("{}: {evidence}", way.name()));
    }
    claim
}

fn shares(model: &Model, system: System, way: Way) -> Vec<f64> {
    let curve = model.curve(system, way);
    curve.map(|c| c.sizes.iter().map(|point| point.share).collect()).unwrap_or_default()
}

fn size_hurts(claim: Claim, model: &Model) -> Claim {
    let found = shares(model, System::LookAside, Way::Out);
    let (first, last) = (found.first(), found.last());
    let (first, last) = (first.copied().unwrap_or(f64::NAN), last.copied().unwrap_or(f64::NAN));
    let evidence = format!(
        "at {FIXED} Mbit/s {:.0} % of frames of {} bytes and {:.0} % of {} bytes arrive: what a \
         crossing costs beside its bytes weighs on small packets, and bus and line grow alike",
        100.0 * first,
        SIZES[0],
        100.0 * last,
        SIZES[SIZES.len() - 1]
    );
    claim.judged(Kind::Model, Verdict::of(last < first - FLAT), evidence)
}

fn inline_flat(claim: Claim, model: &Model) -> Claim {
    let all = Way::ALL.into_iter().flat_map(|way| shares(model, System::Inline, way));
    let least = all.fold(1.0, f64::min);
    let evidence = format!(
        "at {FIXED} Mbit/s at least {:.1} % arrive at every size, both ways",
        100.0 * least
    );
    claim.judged(Kind::Model, Verdict::of(least > 1.0 - FLAT), evidence)
}

/// It holds if software is ahead somewhere.
fn crossover(claim: Claim, live: &Result<Live, String>) -> Claim {
    let live = match live {
        Ok(live) => live,
        Err(why) => {
            let why = why.strip_prefix("not run: ").unwrap_or(why);
            return claim.judged(Kind::Live, Verdict::NotRun, why);
        }
    };
    let each = live.batches().into_iter().map(|batch| {
        let at = |of| match live.crossover(batch, of) {
            Some(octets) => format!("from {octets} bytes on"),
            None => "never".into(),
        };
        format!(
            "batches of {batch}: look-aside ahead in host time {}, in throughput {}",
            at(|cost| cost.host_ns),
            at(|cost| -cost.mpps)
        )
    });
    let ahead = live.points.iter().any(|p| p.software.host_ns < p.look_aside.host_ns);
    let evidence = each.collect::<Vec<_>>().join("; ");
    claim.judged(Kind::Live, Verdict::of(ahead), evidence)
}
