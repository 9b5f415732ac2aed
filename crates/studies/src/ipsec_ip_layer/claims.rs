//! A verdict on every claim, by what was printed; the rest is not run yet.

use super::published::Study;
use ferrule_report::{Claim, Kind, Verdict};

/// All of the study's claims, in its order.
pub fn judge(study: &Study) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        let judged = match claim.id.as_str() {
            "crossover" => crossover(judged, study),
            "size-factor" => size_factor(judged, study),
            "large-transfer" => large(judged, study),
            _ => judged,
        };
        let why = "transfers were not modelled";
        let judged = judged.judged(Kind::Model, Verdict::NotRun, why);
        judged.judged(Kind::Live, Verdict::NotRun, "transfers were not measured on this machine")
    });
    each.collect()
}

/// The first and the last line of an application: smallest and largest transfer.
fn ends(study: &Study, application: &str) -> Option<[(f64, f64); 2]> {
    let lines: Vec<_> = study.of(application).map(|(_, ah, esp)| (ah, esp)).collect();
    Some([*lines.first()?, *lines.last()?])
}

fn crossover(claim: Claim, study: &Study) -> Claim {
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
    claim.judged(Kind::Published, Verdict::of(holds), evidence.join("; "))
}

fn size_factor(claim: Claim, study: &Study) -> Claim {
    let Some([small, large]) = ends(study, "FTP") else { return claim };
    let evidence = format!(
        "FTP: from {} to {} times with AH, from {} to {} with ESP; one processor and one stack were \
         measured",
        small.0, large.0, small.1, large.1
    );
    claim.judged(Kind::Published, Verdict::of(small.0 > large.0 && small.1 > large.1), evidence)
}

fn large(claim: Claim, study: &Study) -> Claim {
    let all = ["FTP", "SMTP"].map(|application| ends(study, application));
    let slowdowns = all.into_iter().flatten().flat_map(|[_, (ah, esp)]| [ah, esp]);
    let slowdowns: Vec<f64> = slowdowns.collect();
    let least = slowdowns.iter().copied().fold(f64::MAX, f64::min);
    let shown: Vec<_> = slowdowns.iter().map(f64::to_string).collect();
    let evidence = format!("large transfers: {} times; 10 MB hung the host", shown.join(", "));
    claim.judged(Kind::Published, Verdict::of(least >= 10.0), evidence)
}
