//! A verdict on every claim.

use super::live::Live;
use super::model::Model;
use super::network::System;
use super::overhead::{CORE_LINKS, modelled, published};
use super::published::Study;
use ferrule_report::{Claim, Kind, Verdict};

/// "Far below one per cent": a tenth of that would be far, a half is not; between is
/// taken as far enough.
const FAR_BELOW_ONE_PERCENT: f64 = 0.5;
/// A delay that grows by less does not grow with load.
const FLAT_PERCENT: f64 = 1.0;
/// Printed and modelled are the same within this.
pub const WITHIN_PERCENT: f64 = 5.0;

/// All of the study's claims, in its order.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let claims = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        match claim.id.as_str() {
            "overhead-exact" => overhead(judged, study, model, live),
            "hop-delay" => hop_delay(judged, study, model, live),
            "load-flat" => load_flat(judged, study, model, live),
            _ => {
                let why = "the handoff part of this study comes later";
                let claim = judged.judged(Kind::Model, Verdict::NotRun, why);
                claim.judged(Kind::Live, Verdict::NotRun, why)
            }
        }
    });
    claims.collect()
}

fn not_live(claim: Claim, live: &Result<Live, String>) -> Claim {
    match live {
        Err(why) => {
            let why = why.strip_prefix("not run: ").unwrap_or(why);
            claim.judged(Kind::Live, Verdict::NotRun, why)
        }
        Ok(_) => claim.judged(Kind::Live, Verdict::NotRun, "not measured on this machine"),
    }
}

fn overhead(claim: Claim, study: &Study, model: &Model, live: &Result<Live, String>) -> Claim {
    let evidence = |octets: &[(System, f64)]| {
        let each = octets.iter().map(|(system, octets)| format!("{} {octets}", system.name()));
        format!("{} bytes from P to PE2", each.collect::<Vec<_>>().join(", "))
    };
    let exact = |octets: &[(System, f64)]| {
        let same = octets.iter().all(|(system, found)| *found == published(study, *system));
        Verdict::of(same && octets.len() == System::ALL.len())
    };
    let found = System::ALL.map(|system| (system, modelled(model, system, CORE_LINKS[1])));
    let claim = claim.judged(Kind::Model, exact(&found), evidence(&found));
    let Ok(measured) = live else { return not_live(claim, live) };
    let found: Vec<(System, f64)> = System::ALL
        .into_iter()
        .filter_map(|system| Some((system, measured.octets(system)?[1] as f64)))
        .collect();
    claim.judged(Kind::Live, exact(&found), evidence(&found))
}

fn hop_delay(claim: Claim, study: &Study, model: &Model, live: &Result<Live, String>) -> Claim {
    let path = study.load_of("plain").delay_us[0];
    let extra = study.hop_delay.macsec_extra_us_per_hop;
    let share = 100.0 * extra / path;
    let claim = claim.judged(
        Kind::Published,
        Verdict::of(share < FAR_BELOW_ONE_PERCENT),
        format!("{extra} µs a hop of the {path} µs path of table 1 are {share:.2} %"),
    );
    let shares = model.hops.iter().map(|hop| 100.0 * model.extra_per_hop_us() / hop.plain_us);
    let shares: Vec<f64> = shares.collect();
    let (longest, shortest) = (shares.last(), shares.first());
    let evidence = format!(
        "{:.3} µs a hop; of the path's delay {:.2} % with one switch, {:.2} % with {}",
        model.extra_per_hop_us(),
        shortest.copied().unwrap_or(f64::NAN),
        longest.copied().unwrap_or(f64::NAN),
        model.hops.len()
    );
    let far = shares.iter().all(|share| *share < FAR_BELOW_ONE_PERCENT);
    hop_delay_live(claim.judged(Kind::Model, Verdict::of(far), evidence), live)
}

/// A machine whose trials are farther apart than the bound cannot tell.
fn hop_delay_live(claim: Claim, live: &Result<Live, String>) -> Claim {
    let measured = live.as_ref().ok().and_then(|live| Some((live, live.extra_per_hop_us()?)));
    let Some((live, (extra, spread))) = measured else { return not_live(claim, live) };
    let hops = live.hops.as_deref().unwrap_or_default();
    let shortest = hops.first().map_or(f64::NAN, |hop| hop.plain[0]);
    let bound = FAR_BELOW_ONE_PERCENT / 100.0 * shortest;
    let evidence = format!(
        "{extra:.1} µs a hop of {shortest:.0} µs with one switch, on veth pairs; what MACsec has more \
         is up to {spread:.1} µs apart from trial to trial"
    );
    let verdict = match (extra - bound).abs() > spread {
        true => Verdict::of(extra < bound),
        false => Verdict::NotRun,
    };
    claim.judged(Kind::Live, verdict, evidence)
}

fn load_flat(claim: Claim, study: &Study, model: &Model, live: &Result<Live, String>) -> Claim {
    let macsec = model.loads_of(System::Macsec);
    let lost: u64 = macsec.iter().map(|point| point.lost).sum();
    let delays = macsec.iter().map(|point| point.mean_us);
    let (low, high) = delays.fold((f64::MAX, f64::MIN), |(l, h), d| (l.min(d), h.max(d)));
    let growth = 100.0 * (high / low - 1.0);
    let top = macsec.iter().map(|point| point.load_mbps).fold(0.0, f64::max);
    let full = super::gateway::full_mbps(&model.gateway());
    let share = 100.0 * full / study.setup.link_rate_mbps;
    let overflow = model.loads_of(System::Ipsec).iter().find(|point| point.lost > 0);
    let saturates = (share / 12.0 - 1.0).abs() * 100.0 < WITHIN_PERCENT && overflow.is_some();
    let holds = lost == 0 && growth < FLAT_PERCENT && saturates;
    let evidence = format!(
        "MACsec at {top} Mbit/s (the print's 95 % is 93 %): {lost} frames lost, delay grows by \
         {growth:.2} %; at 95.0 % {:.2} % are lost, for two labels leave 94.6 %; the gateway is \
         full at {full:.0} Mbit/s, {share:.1} % of the line",
        model.at_95.loss_percent()
    );
    let claim = claim.judged(Kind::Model, Verdict::of(holds), evidence);
    let Ok(measured) = live else { return not_live(claim, live) };
    let each =
        measured.ceilings.iter().map(|(system, mbps)| format!("{} {mbps:.0}", system.name()));
    let evidence = format!(
        "no lines of 1 Gbit/s here: veth pairs on this machine's processors carry, in Mbit/s, {}",
        each.collect::<Vec<_>>().join(", ")
    );
    claim.judged(Kind::Live, Verdict::NotRun, evidence)
}
