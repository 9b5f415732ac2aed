//! A verdict on every claim.

use super::lists::title;
use super::live::{Case, Live, SMALL, TIMED, Timed};
use super::model::Model;
use super::network::{Point, line_rate};
use super::nodes::{Entries, List, PRINTED, System};
use super::published::Study;
use ferrule_report::{Claim, Kind, Measure, Verdict};

/// A rate that is lower by less has not fallen.
const FLAT_PERCENT: f64 = 2.0;

const FITTED: &str = "the model's limits are fitted to these very rates: it cannot say";

type Judged = Result<(Verdict, String), String>;

/// All of the study's claims, in its order.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let each = study.claim.iter().map(|claim| {
        let judged = Claim::new(&claim.id, &claim.text);
        type Found = fn(&Study, &Live) -> Judged;
        let (judged, found): (Claim, Found) = match claim.id.as_str() {
            "small-frames" => (small_frames(judged, study), small_frames_live),
            "outbound-worse" => (outbound_worse(judged, study, model), outbound_worse_live),
            "mpls-neutral" => (mpls_neutral(judged, study), mpls_neutral_live),
            _ => (one_stream(judged, study, model), one_stream_live),
        };
        let found = live.as_ref().map_err(Clone::clone).and_then(|live| found(study, live));
        let (verdict, evidence) = found.unwrap_or_else(|why| (Verdict::NotRun, why));
        judged.judged(Kind::Live, verdict, evidence)
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

/// The model has two queues, as the study says, and finds out where one stream lacks the other.
fn one_stream(claim: Claim, study: &Study, model: &Model) -> Claim {
    let claim = claim.judged(Kind::Published, Verdict::NotRun, "the study prints no figure of it");
    let (Some((_, alone)), Some((_, all))) = (model.few.first(), model.few.last()) else {
        return claim;
    };
    let sizes = &study.setup.frame_bytes;
    let lacks = |few: &[Point], at: usize| 100.0 * (1.0 - few[at].forwarded / all[at].forwarded);
    let slower: Vec<usize> =
        (0..sizes.len()).filter(|&at| lacks(alone, at) > FLAT_PERCENT).collect();
    let each = slower.iter().map(|&at| format!("{:.0} % at {} bytes", lacks(alone, at), sizes[at]));
    let said: Vec<String> = each.collect();
    // Small frames, and no others.
    let holds = !slower.is_empty() && slower.iter().enumerate().all(|(nth, &at)| nth == at);
    let few = model.few.iter().rev().take_while(|(_, few)| lacks(few, 0) <= FLAT_PERCENT);
    let enough = few.last().map_or(0, |(streams, _)| *streams);
    let evidence = format!(
        "with two queues that each have half of the frames a second, one stream lacks {}, and \
         nothing at larger ones; from {enough} streams on they have all at 64 bytes (the study: \
         20). That there are two is the study's word, their share is ours",
        said.join(", ")
    );
    claim.judged(Kind::Model, Verdict::of(holds && slower.len() < sizes.len()), evidence)
}

/// Whether a frame of one stream takes longer than one of many.
fn one_stream_live(study: &Study, live: &Live) -> Judged {
    let (one, all) =
        (live.of(Case::few(1, study))?, live.of(Case::few(study.setup.streams, study))?);
    let evidence = format!(
        "a frame of 64 bytes takes {:.0} ns of one stream and {:.0} ns of {}, one worker with one \
         queue; on the line it has {:.0} ns",
        one.value,
        all.value,
        study.setup.streams,
        1e9 / line_rate(SMALL)
    );
    Ok((Verdict::of(above(one, all)), evidence))
}

/// Whether a frame with a list takes longer than its slot on the line, by size.
fn small_frames_live(study: &Study, live: &Live) -> Judged {
    let entries = Entries::Permit(study.setup.streams);
    let (mut late, mut widest) = (Vec::new(), 0.0_f64);
    for (timed, list) in TIMED.into_iter().filter(|(_, list)| *list != List::None) {
        for &octets in &study.setup.frame_bytes {
            let ns =
                live.of(Case { timed, list, entries, octets, streams: study.setup.streams })?;
            let slot = 1e9 / line_rate(octets);
            widest = widest.max(ns.value / slot);
            if ns.low.unwrap_or(ns.value) > slot {
                late.push(format!("{} at {octets} bytes", title(timed, list)));
            }
        }
    }
    let of_slot = format!("a frame takes at most {:.0} % of its time on the line", 100.0 * widest);
    match late.is_empty() {
        true => Ok((
            Verdict::Fails,
            format!("a list costs a line of 1 Gbit/s no frame of any size: {of_slot}"),
        )),
        false => {
            let small = late.iter().all(|case| {
                case.ends_with(" 64 bytes")
                    || case.ends_with(" 96 bytes")
                    || case.ends_with(" 128 bytes")
            });
            Ok((Verdict::of(small), format!("frames are lost: {}", late.join(", "))))
        }
    }
}

/// Whether one number is above another beyond the spread of both.
fn above(a: Measure, b: Measure) -> bool {
    a.low.unwrap_or(a.value) > b.high.unwrap_or(b.value)
}

/// The study's list, in and out.
fn outbound_worse_live(study: &Study, live: &Live) -> Judged {
    let streams = study.setup.streams;
    let timed = Timed::Router;
    let of = |list| live.of(Case { timed, list, entries: PRINTED, octets: SMALL, streams });
    let (inn, out) = (of(List::In)?, of(List::Out)?);
    let evidence = format!(
        "the study's list at 64 bytes takes a frame {:.0} ns in and {:.0} ns out",
        inn.value, out.value
    );
    match (above(out, inn), above(inn, out)) {
        (false, false) => Err(format!("{evidence}: within the spread")),
        (worse, _) => Ok((Verdict::of(worse), evidence)),
    }
}

/// What the list in adds to a router and to an edge.
fn mpls_neutral_live(study: &Study, live: &Live) -> Judged {
    let entries = Entries::Permit(study.setup.streams);
    let added = |timed| -> Result<Measure, &'static str> {
        let streams = study.setup.streams;
        let of = |list| live.of(Case { timed, list, entries, octets: SMALL, streams });
        let (with, without) = (of(List::In)?, of(List::None)?);
        let ends = |m: Measure| (m.low.unwrap_or(m.value), m.high.unwrap_or(m.value));
        let ((low, high), (least, most)) = (ends(with), ends(without));
        Ok(Measure::within(with.value - without.value, low - most, high - least))
    };
    let (ip, mpls) = (added(Timed::Router)?, added(Timed::Pe1)?);
    let evidence = format!(
        "a list in adds {:.0} ns to a frame of 64 bytes over IP and {:.0} ns over MPLS",
        ip.value, mpls.value
    );
    Ok((Verdict::of(!above(mpls, ip)), evidence))
}
