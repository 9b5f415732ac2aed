//! A verdict on every claim.

use super::model::Model;
use super::network::{List, System};
use super::published::Study;
use ferrule_report::{Claim, Kind, Verdict};

/// A rate that is lower by less has not fallen.
const FLAT_PERCENT: f64 = 2.0;

const FITTED: &str = "the model's limits are fitted to these very rates: it cannot say";
const NOT_LIVE: &str = "not measured: what this machine's own lists cost is in `make bench`";

/// All of the study's claims, in its order.
pub fn judge(study: &Study, model: &Model) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        let judged = match claim.id.as_str() {
            "small-frames" => small_frames(judged, study),
            "outbound-worse" => outbound_worse(judged, study, model),
            "mpls-neutral" => mpls_neutral(judged, study),
            _ => one_stream(judged),
        };
        judged.judged(Kind::Live, Verdict::NotRun, NOT_LIVE)
    });
    each.collect()
}

/// Sizes at which a list takes more than a little of what goes without.
fn fallen(study: &Study, with: &str, without: &str) -> Vec<usize> {
    let pairs = study.of(with).pps.iter().zip(&study.of(without).pps);
    let pairs = pairs.zip(&study.setup.frame_bytes);
    let lower = |((with, without), _): &((&f64, &f64), &usize)| {
        100.0 * (1.0 - *with / *without) > FLAT_PERCENT
    };
    pairs.filter(lower).map(|(_, octets)| *octets).collect()
}

fn small_frames(claim: Claim, study: &Study) -> Claim {
    let pairs = [
        ("ip, 120 acl inbound", "ip, no acl, one way", &[64, 96][..]),
        ("mpls, 120 acl inbound", "mpls, no acl", &[64, 96]),
        ("ip, 120 acl outbound", "ip, no acl, one way", &[64, 96, 128]),
        ("mpls, 120 acl outbound", "mpls, no acl", &[64, 96, 128]),
    ];
    let found = pairs.map(|(with, without, said)| (with, fallen(study, with, without), said));
    let holds = found.iter().all(|(_, found, said)| found == said);
    let list =
        |octets: &[usize]| octets.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let evidence = found.map(|(with, found, _)| format!("{with}: lower at {} bytes", list(&found)));
    claim.judged(Kind::Published, Verdict::of(holds), evidence.join("; ")).judged(
        Kind::Model,
        Verdict::NotRun,
        FITTED,
    )
}

fn outbound_worse(claim: Claim, study: &Study, model: &Model) -> Claim {
    let (inn, out) = ("ip, 120 acl inbound", "ip, 120 acl outbound");
    let times = [64, 96, 128].map(|octets| {
        let at = study.at(octets);
        study.of(out).pps[at] / study.of(inn).pps[at]
    });
    let holds = times.iter().all(|times| *times < 1.0);
    let evidence = format!(
        "IP, outbound of inbound at 64, 96 and 128 bytes: {:.0}, {:.0} and {:.0} %",
        100.0 * times[0],
        100.0 * times[1],
        100.0 * times[2]
    );
    let claim = claim.judged(Kind::Published, Verdict::of(holds), evidence);
    // What can be found out: that a list out denies what has been routed already.
    let fates = System::ALL.into_iter().filter(|system| system.list == List::Out);
    let denied = fates.map(|system| {
        let point = model.of(system).first().copied().unwrap_or_default();
        format!("{}: {:.1} %", system.key(), 100.0 * point.denied / point.processed)
    });
    let evidence = format!(
        "{FITTED}; of what a list out has routed before it, it drops at 64 bytes {}",
        denied.collect::<Vec<_>>().join(", ")
    );
    claim.judged(Kind::Model, Verdict::NotRun, evidence)
}

fn mpls_neutral(claim: Claim, study: &Study) -> Claim {
    let (ip, mpls) = (study.of("ip, 120 acl inbound"), study.of("mpls, 120 acl inbound"));
    let off = [64, 96]
        .map(|octets| 100.0 * (mpls.pps[study.at(octets)] / ip.pps[study.at(octets)] - 1.0));
    let holds = off.iter().all(|off| off.abs() < FLAT_PERCENT);
    let evidence = format!("{:+.1} % at 64 bytes, {:+.1} % at 96", off[0], off[1]);
    claim.judged(Kind::Published, Verdict::of(holds), evidence).judged(
        Kind::Model,
        Verdict::NotRun,
        FITTED,
    )
}

fn one_stream(claim: Claim) -> Claim {
    claim.judged(Kind::Published, Verdict::NotRun, "the study prints no figure of it").judged(
        Kind::Model,
        Verdict::NotRun,
        "two output queues are not modelled yet",
    )
}
