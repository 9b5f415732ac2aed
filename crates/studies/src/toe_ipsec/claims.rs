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
/// The same on a machine that has other things to do.
const BUSY: f64 = 0.1;

/// All of the study's claims, in its order, and what one expects of today's machines.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        let (judged, of): (_, fn(&Live) -> Measured) = match claim.id.as_str() {
            "inline-wins" => (inline_wins(judged, study, model), live_wins),
            "size-hurts-look-aside" => (size_hurts(judged, model), live_hurts),
            _ => (inline_flat(judged, model), live_flat),
        };
        match live.as_ref().map_err(Clone::clone).and_then(of) {
            Ok((verdict, evidence)) => judged.judged(Kind::Live, verdict, evidence),
            Err(why) => {
                let why = why.strip_prefix("not run: ").unwrap_or(&why).to_owned();
                judged.judged(Kind::Live, Verdict::NotRun, why)
            }
        }
    });
    let expected =
        study.expectation.iter().map(|note| crossover(Claim::new("crossover", &note.text), live));
    each.chain(expected).collect()
}

/// "About" so many times.
fn about(times: f64, said: f64) -> bool {
    (times / said - 1.0).abs() * 100.0 <= ABOUT_PERCENT
}

fn inline_wins(claim: Claim, study: &Study, model: &Model) -> Claim {
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

/// What the machine at hand says, or why it says nothing.
type Measured = Result<(Verdict, String), String>;

/// What arrives at the highest speed that the tester could offer to all.
fn live_wins(live: &Live) -> Measured {
    let share = |system| -> Result<f64, String> {
        let loads = &live.sweep(Some(system), Way::Out)?.speeds;
        let fastest = loads.iter().max_by(|a, b| a.offered_mbps.total_cmp(&b.offered_mbps));
        let load = fastest.filter(|load| load.was_offered()).ok_or("the tester was too slow")?;
        Ok(load.share())
    };
    let inline = share(System::Inline)?;
    let (software, look_aside) = (share(System::Software)?, share(System::LookAside)?);
    let times = [inline / software, inline / look_aside];
    let evidence = format!(
        "sending, {:.1} times software, {:.2} times look-aside: a card and a chip made of this \
         machine's own cores",
        times[0], times[1]
    );
    Ok((Verdict::of(about(times[0], 8.0) && about(times[1], 2.0)), evidence))
}

/// What arrives by size, smallest first, out of what arrives where nothing is sealed.
fn against_clear(live: &Live, system: System) -> Result<Vec<(usize, f64)>, String> {
    let clear = &live.sweep(None, Way::Out)?.sizes;
    let sealed = &live.sweep(Some(system), Way::Out)?.sizes;
    let mut ratios = Vec::new();
    for load in sealed.iter().filter(|load| load.was_offered()) {
        let same = clear.iter().find(|c| c.octets == load.octets && c.was_offered());
        ratios.extend(same.map(|clear| (load.octets, load.share() / clear.share())));
    }
    ratios.sort_by_key(|(octets, _)| *octets);
    if ratios.len() > 1 { Ok(ratios) } else { Err("the tester was too slow".into()) }
}

fn live_hurts(live: &Live) -> Measured {
    let ratios = against_clear(live, System::LookAside)?;
    let (first, last) = (ratios[0], ratios[ratios.len() - 1]);
    let evidence = format!(
        "of what arrives where nothing is sealed, {:.0} % of frames of {} bytes and {:.0} % of {} \
         bytes",
        100.0 * first.1,
        first.0,
        100.0 * last.1,
        last.0
    );
    Ok((Verdict::of(last.1 < first.1 - BUSY), evidence))
}

fn live_flat(live: &Live) -> Measured {
    let ratios = against_clear(live, System::Inline)?;
    let (first, last) = (ratios[0], ratios[ratios.len() - 1]);
    let least = ratios.iter().map(|(_, ratio)| *ratio).fold(f64::MAX, f64::min);
    let evidence = format!(
        "from {} to {} bytes at least {:.0} % of what arrives where nothing is sealed; this card \
         is no hardware, but a part of the node's own thread",
        first.0,
        last.0,
        100.0 * least
    );
    Ok((Verdict::of(least > 1.0 - BUSY), evidence))
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
    let each = live.engines.iter().flat_map(|engines| {
        engines.batches().into_iter().map(move |batch| {
            let at = |of| match engines.crossover(batch, of) {
                Some(octets) => format!("from {octets} bytes on"),
                None => "never".into(),
            };
            format!(
                "{}, batches of {batch}: look-aside ahead in host time {}, in throughput {}, in \
                 latency {}",
                engines.suite,
                at(|cost| cost.host_ns),
                at(|cost| -cost.mpps),
                at(|cost| cost.latency_us)
            )
        })
    });
    let mut points = live.engines.iter().flat_map(|engines| &engines.points);
    let ahead = points.any(|p| p.software.host_ns < p.look_aside.host_ns);
    let evidence = each.collect::<Vec<_>>().join("; ");
    claim.judged(Kind::Live, Verdict::of(ahead), evidence)
}
