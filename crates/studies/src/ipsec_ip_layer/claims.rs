//! A verdict on every claim: by what was printed, by the plausible machine, and by this
//! one.

use super::cases::{Application, Mode, Protection, Way};
use super::live::Live;
use super::model::{Model, Which};
use super::published::Study;
use super::sections::crypto_crossover;
use ferrule_report::{Claim, Kind, Verdict};

/// A factor matters if what it changes is more than so many percent of the response.
const MATTERS_PERCENT: f64 = 1.0;
/// "3 to 4 times".
const BYPASS: std::ops::RangeInclusive<f64> = 3.0..=4.0;
/// "Tenfold."
const TENFOLD: f64 = 10.0;
/// Transfers that are small and large on this machine.
const SMALL: std::ops::RangeInclusive<u64> = 100..=1_000;
const LARGE: u64 = 1_000_000;

/// All of the study's claims, in its order.
pub fn judge(study: &Study, model: &Model, live: &Live) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        let (judged, of): (_, fn(&Live) -> Measured) = match claim.id.as_str() {
            "crossover" => (crossover(judged, study, model), live_crossover),
            "size-factor" => (size_factor(judged, study, model), live_size),
            "bypass-cost" => (bypass(judged, model), live_bypass),
            _ => (large(judged, study, model), live_large),
        };
        match of(live) {
            Ok((verdict, evidence)) => judged.judged(Kind::Live, verdict, evidence),
            Err(why) => {
                let why = why.strip_prefix("not run: ").unwrap_or(&why).to_owned();
                judged.judged(Kind::Live, Verdict::NotRun, why)
            }
        }
    });
    each.collect()
}

fn transport(protection: Protection) -> Way {
    Way::of(protection, Mode::Transport)
}

/// The first and the last line of an application: smallest and largest transfer.
fn ends(study: &Study, application: &str) -> Option<[(f64, f64); 2]> {
    let lines: Vec<_> = study.of(application).map(|(_, ah, esp)| (ah, esp)).collect();
    Some([*lines.first()?, *lines.last()?])
}

fn crossover(claim: Claim, study: &Study, model: &Model) -> Claim {
    let mut holds = true;
    let mut evidence = Vec::new();
    for application in ["FTP", "SMTP"] {
        let Some([small, large]) = ends(study, application) else { continue };
        holds &= small.0 > small.1 && large.0 < large.1;
        evidence.push(format!(
            "{application}: AH {} and ESP {} times no IPsec for small transfers, {} and {} for large \
             ones",
            small.0, small.1, large.0, large.1
        ));
    }
    let claim = claim.judged(Kind::Published, Verdict::of(holds), evidence.join("; "));
    let (small, large) = (*SMALL.start(), model.largest());
    let inside = |protection, octets| {
        let way = transport(protection);
        model.cell(Which::Plausible, Application::Ftp, octets, way).inside.crypto_us / 1000.0
    };
    let both = |octets| [Protection::AhMd5, Protection::EspDes].map(|p| inside(p, octets));
    let (at_small, at_large) = (both(small), both(large));
    let holds = at_small[0] > at_small[1] && at_large[0] < at_large[1];
    let at = crypto_crossover(model.costs(Which::Plausible));
    let evidence = format!(
        "FTP, hash against cipher inside both hosts: {:.2} against {:.2} ms at {small} bytes, \
         {:.1} against {:.1} ms at {large}; but they cross at {} bytes of data in a packet, and \
         not at 56 kB of a transfer",
        at_small[0],
        at_small[1],
        at_large[0],
        at_large[1],
        at.map_or("no".into(), |at| at.to_string())
    );
    claim.judged(Kind::Model, Verdict::of(holds), evidence)
}

fn size_factor(claim: Claim, study: &Study, model: &Model) -> Claim {
    let Some([small, large]) = ends(study, "FTP") else { return claim };
    let evidence = format!(
        "FTP: from {} to {} times with AH, from {} to {} with ESP; one processor and one stack were \
         measured",
        small.0, large.0, small.1, large.1
    );
    let holds = small.0 > large.0 && small.1 > large.1;
    let mut claim = claim.judged(Kind::Published, Verdict::of(holds), evidence);
    for which in Which::ALL {
        let mut kinds: Vec<&str> = model.factors.iter().map(|factor| factor.of).collect();
        kinds.dedup();
        kinds.truncate(kinds.len() / Which::ALL.len());
        let spread = |of: &str| {
            let all = model.factors.iter().filter(|f| f.which == which && f.of == of);
            // Size changes the response itself; what it does to the slowdown counts.
            let values = all.map(|f| if of == "size" { f.slowdown } else { f.response_us });
            let (low, high) = values.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
            100.0 * (high / low - 1.0)
        };
        let spreads: Vec<(&str, f64)> = kinds.iter().map(|&of| (of, spread(of))).collect();
        let matter = spreads.iter().all(|(_, percent)| *percent > MATTERS_PERCENT);
        let each = spreads.iter().map(|(of, percent)| format!("{of} {percent:.1} %"));
        let evidence = format!(
            "{} machine, what each changes by itself: {}",
            which.name(),
            each.collect::<Vec<_>>().join(", ")
        );
        claim = claim.judged(Kind::Model, Verdict::of(matter), evidence);
    }
    claim
}

fn bypass(claim: Claim, model: &Model) -> Claim {
    let of = |which| {
        let each = [100, 1_000].map(|octets| {
            let way = transport(Protection::Bypass);
            model.slowdown(which, Application::Ftp, octets, way)
        });
        each.into_iter().fold(0.0, f64::max)
    };
    let (plausible, fitted) = (of(Which::Plausible), of(Which::Fitted));
    let needed = model.fitted.cost.lookup / model.plausible.cost.lookup;
    let evidence = format!(
        "small FTP transfers: {plausible:.3} times no IPsec on the plausible machine; {fitted:.2} \
         on the fitted one, whose look-ups take {needed:.0} times as long"
    );
    claim.judged(Kind::Model, Verdict::of(BYPASS.contains(&plausible)), evidence)
}

fn large(claim: Claim, study: &Study, model: &Model) -> Claim {
    let all = ["FTP", "SMTP"].map(|application| ends(study, application));
    let slowdowns = all.into_iter().flatten().flat_map(|[_, (ah, esp)]| [ah, esp]);
    let slowdowns: Vec<f64> = slowdowns.collect();
    let least = slowdowns.iter().copied().fold(f64::MAX, f64::min);
    let shown: Vec<_> = slowdowns.iter().map(f64::to_string).collect();
    let evidence = format!("large transfers: {} times; 10 MB hung the host", shown.join(", "));
    let claim = claim.judged(Kind::Published, Verdict::of(least >= TENFOLD), evidence);
    let octets = model.largest();
    let most = |which| {
        let each = [Protection::AhMd5, Protection::AhSha1, Protection::EspDes].map(|protection| {
            let way = transport(protection);
            let cell = model.cell(which, Application::Ftp, octets, way);
            let busy = cell.run.busy_us / cell.run.response_us;
            (model.slowdown(which, Application::Ftp, octets, way), busy)
        });
        each.into_iter().fold((0.0, 0.0_f64), |a, b| if b.0 > a.0 { b } else { a })
    };
    let (known, asked) = (most(Which::Plausible), most(Which::Fitted));
    let evidence = format!(
        "FTP of {octets} bytes: at most {:.2} times no IPsec on the plausible machine, its \
         processor busy for {:.0} % of it; {:.1} times and {:.0} % on the fitted one, where nothing \
         is left for anybody else: a host that seems to hang",
        known.0,
        100.0 * known.1,
        asked.0,
        100.0 * asked.1
    );
    claim.judged(Kind::Model, Verdict::of(known.0 >= TENFOLD), evidence)
}

/// What the machine at hand says, or why it says nothing.
type Measured = Result<(Verdict, String), String>;

fn live_slowdown(live: &Live, octets: u64, protection: Protection) -> Result<f64, String> {
    let of = |protection| live.response(Application::Ftp, octets, transport(protection));
    Ok(of(protection)?.median / of(Protection::None)?.median)
}

/// The measured size that is small, and the largest.
fn live_sizes(live: &Live) -> Result<(u64, u64), String> {
    if let Err(why) = &live.transfers {
        return Err(why.clone());
    }
    let sizes = live.sizes(Application::Ftp);
    let small = sizes.iter().find(|octets| SMALL.contains(octets));
    let large = sizes.iter().rev().find(|octets| **octets >= LARGE);
    Ok((*small.ok_or("no small transfer")?, *large.ok_or("no large transfer")?))
}

fn live_crossover(live: &Live) -> Measured {
    let (small, large) = live_sizes(live)?;
    let both = |octets| -> Result<[f64; 2], String> {
        let hash = live_slowdown(live, octets, Protection::AhMd5)
            .or_else(|_| live_slowdown(live, octets, Protection::AhSha1))?;
        Ok([hash, live_slowdown(live, octets, Protection::EspDes)?])
    };
    let (at_small, at_large) = (both(small)?, both(large)?);
    let evidence = format!(
        "FTP: AH {:.2} and ESP-DES {:.2} times no IPsec at {small} bytes, {:.2} and {:.2} at {large}",
        at_small[0], at_small[1], at_large[0], at_large[1]
    );
    let holds = at_small[0] > at_small[1] && at_large[0] < at_large[1];
    Ok((Verdict::of(holds), evidence))
}

/// Of what was measured the first that has both sizes.
fn live_ends(live: &Live) -> Result<(Protection, f64, f64, (u64, u64)), String> {
    let (small, large) = live_sizes(live)?;
    let all = [Protection::AhSha1, Protection::AesGcm, Protection::EspDes, Protection::AhMd5];
    let mut why = "not measured".to_owned();
    for protection in all {
        let of = |octets| live_slowdown(live, octets, protection);
        match (of(small), of(large)) {
            (Ok(a), Ok(b)) => return Ok((protection, a, b, (small, large))),
            (Err(missing), _) | (_, Err(missing)) => why = missing,
        }
    }
    Err(why)
}

fn live_size(live: &Live) -> Measured {
    let (protection, at_small, at_large, (small, large)) = live_ends(live)?;
    let evidence = format!(
        "FTP with {}: {at_small:.2} times no IPsec at {small} bytes, {at_large:.2} at {large}",
        protection.name()
    );
    let changes = 100.0 * (at_small.max(at_large) / at_small.min(at_large) - 1.0);
    Ok((Verdict::of(changes > MATTERS_PERCENT), evidence))
}

fn live_bypass(live: &Live) -> Measured {
    let (small, _) = live_sizes(live)?;
    let slowdown = live_slowdown(live, small, Protection::Bypass)?;
    let evidence = format!("FTP of {small} bytes: {slowdown:.2} times no node at all");
    Ok((Verdict::of(BYPASS.contains(&slowdown)), evidence))
}

fn live_large(live: &Live) -> Measured {
    let (protection, _, at_large, (_, large)) = live_ends(live)?;
    let evidence =
        format!("FTP of {large} bytes with {}: {at_large:.2} times no IPsec", protection.name());
    Ok((Verdict::of(at_large >= TENFOLD), evidence))
}
