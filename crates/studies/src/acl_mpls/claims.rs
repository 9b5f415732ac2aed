//! A verdict on every claim.

use super::lists::title;
use super::live::{Case, Live, SMALL, TIMED, Timed};
use super::model::Model;
use super::network::{Point, line_rate};
use super::nodes::{Core, Entries, List, PRINTED, System};
use super::published::Study;
use crate::words;
use ferrule_report::{Claim, Evidence, Kind, Measure, Threshold};

/// A rate that is lower by less has not fallen.
const FLAT_PERCENT: f64 = 2.0;

const FITTED: &str = "the limits are fitted to these very rates";

type Judged = Result<(Evidence, String), &'static str>;

/// Judges each of the study's claims, in the study's order.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let each = study.claim.iter().map(|said| {
        type Found = fn(&words::Claim, &Study, &Live) -> Judged;
        let (judged, found): (Claim, Found) = match said.id.as_str() {
            "small-frames" => (small_frames(said, study, model), small_frames_live),
            "outbound-worse" => (outbound_worse(said, study, model), outbound_worse_live),
            "mpls-neutral" => (mpls_neutral(said, study, model), mpls_neutral_live),
            _ => (one_stream(said, study, model), one_stream_live),
        };
        match live.as_ref().map_err(String::as_str).and_then(|live| found(said, study, live)) {
            Ok((evidence, note)) => judged.judged(Kind::Live, evidence, note),
            Err(why) => judged.not_run(Kind::Live, why),
        }
    });
    each.collect()
}

/// Rates of a system by size: as printed, or as the fitted limits give them.
type Rates<'a> = &'a dyn Fn(System) -> Vec<f64>;

/// Printed rates and fitted ones, each with its origin and a remark.
fn both<'a>(printed: Rates<'a>, fitted: Rates<'a>) -> [(Kind, Rates<'a>, &'static str); 2] {
    [(Kind::Published, printed, ""), (Kind::Fitted, fitted, FITTED)]
}

fn printed_rates(study: &Study) -> impl Fn(System) -> Vec<f64> + '_ {
    |system| study.of(system.key()).pps.clone()
}

const fn system(core: Core, list: List) -> System {
    System { core, list, both_ways: false }
}

/// Sizes at which a list takes more than a little of what goes without.
fn fallen(study: &Study, rates: Rates<'_>, with: System) -> Vec<usize> {
    let (with, without) = (rates(with), rates(with.unlisted()));
    let pairs = with.iter().zip(&without).zip(&study.setup.frame_bytes);
    let lower = |((with, without), _): &((&f64, &f64), &usize)| {
        100.0 * (1.0 - *with / *without) > FLAT_PERCENT
    };
    pairs.filter(lower).map(|(_, octets)| *octets).collect()
}

fn small_frames(said: &words::Claim, study: &Study, model: &Model) -> Claim {
    let (printed, fitted) = (printed_rates(study), |system| model.rates(system));
    let mut claim = said.open();
    for (kind, rates, note) in both(&printed, &fitted) {
        for with in System::ALL.into_iter().filter(|system| system.list != List::None) {
            let small: &[usize] = if with.list == List::In { &[64, 96] } else { &[64, 96, 128] };
            let found = fallen(study, rates, with);
            let differ = |octets: &&usize| found.contains(octets) != small.contains(octets);
            let others = study.setup.frame_bytes.iter().filter(differ).count() as u64;
            let metric = format!("{}: sizes that are not as said", with.key());
            let list = found.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let evidence = Evidence::counted(metric, others, said.asked(""));
            let lower = format!("lower at {list} bytes");
            let note = if note.is_empty() { lower } else { format!("{lower}; {note}") };
            claim = claim.judged(kind, evidence, note);
        }
    }
    claim
}

fn outbound_worse(said: &words::Claim, study: &Study, model: &Model) -> Claim {
    let (printed, fitted) = (printed_rates(study), |system| model.rates(system));
    let mut claim = said.open();
    for (kind, rates, note) in both(&printed, &fitted) {
        let [inn, out] = [List::In, List::Out].map(|list| rates(system(Core::Ip, list)));
        let times = [64, 96, 128].map(|octets| out[study.at(octets)] / inn[study.at(octets)]);
        let asked = said.asked("");
        let evidence = Evidence::computed("rate, outbound of inbound", words::ends(&times), asked);
        let note = match kind {
            Kind::Published => "IP at 64, 96 and 128 bytes".to_owned(),
            _ => format!("{note}; {}", dropped_late(model)),
        };
        claim = claim.judged(kind, evidence.unit("times").against("inbound"), note);
    }
    claim
}

/// The part of the claim that can be found out: a list out denies what has been routed already.
fn dropped_late(model: &Model) -> String {
    let fates = System::ALL.into_iter().filter(|system| system.list == List::Out);
    let denied = fates.map(|system| {
        let point = model.of(system).first().copied().unwrap_or_default();
        format!("{}: {:.1} %", system.key(), 100.0 * point.denied / point.processed)
    });
    let denied = denied.collect::<Vec<_>>().join(", ");
    format!("of what a list out has routed before it, it drops at 64 bytes {denied}")
}

fn mpls_neutral(said: &words::Claim, study: &Study, model: &Model) -> Claim {
    let (printed, fitted) = (printed_rates(study), |system| model.rates(system));
    let mut claim = said.open();
    for (kind, rates, note) in both(&printed, &fitted) {
        let [ip, mpls] = [Core::Ip, Core::Mpls].map(|core| rates(system(core, List::In)));
        let off = [64, 96].map(|octets| study.at(octets));
        let off = off.map(|at| 100.0 * (mpls[at] / ip[at] - 1.0));
        let evidence = Evidence::computed("rate, inbound", words::ends(&off), said.asked(""));
        let note = if note.is_empty() { "at 64 and 96 bytes" } else { note };
        claim = claim.judged(kind, evidence.unit("%").against("IP"), note);
    }
    claim
}

/// The model has two queues, as the study says, and finds out where one stream lacks the other.
fn one_stream(said: &words::Claim, study: &Study, model: &Model) -> Claim {
    let claim = said.open().not_run(Kind::Asserted, "the study prints no figure of it");
    let (Some((_, alone)), Some((_, all))) = (model.few.first(), model.few.last()) else {
        return claim;
    };
    let sizes = &study.setup.frame_bytes;
    let lacks = |few: &[Point], at: usize| 100.0 * (1.0 - few[at].forwarded / all[at].forwarded);
    let slower: Vec<usize> =
        (0..sizes.len()).filter(|&at| lacks(alone, at) > FLAT_PERCENT).collect();
    let each = slower.iter().map(|&at| format!("{:.0} % at {} bytes", lacks(alone, at), sizes[at]));
    let lacking: Vec<String> = each.collect();
    let few = model.few.iter().rev().take_while(|(_, few)| lacks(few, 0) <= FLAT_PERCENT);
    let enough = few.last().map_or(0, |(streams, _)| *streams);
    let note = format!(
        "with two queues that each have half of the frames a second, one stream lacks {}; from \
         {enough} streams on they have all at 64 bytes (the study: 20). That there are two is the \
         study's word, their share is ours",
        lacking.join(", ")
    );
    let times = alone[0].forwarded / all[0].forwarded;
    let evidence = Evidence::computed("frames of 64 bytes, one stream", times, said.asked(""));
    // Small frames, and no others.
    let small = slower.iter().enumerate().all(|(nth, &at)| nth == at) && slower.len() < sizes.len();
    let others = Evidence::computed(
        "frames of 1024 bytes, one stream",
        1.0 - lacks(alone, sizes.len() - 1) / 100.0,
        (Threshold::AtLeast(1.0 - FLAT_PERCENT / 100.0), "for small frames; section 4.1.2"),
    );
    let evidence = evidence.unit("times").against("90 streams");
    let shape = if small { "the smallest alone" } else { "not the smallest alone" };
    claim.judged(Kind::Model, evidence, note).judged(
        Kind::Model,
        others.unit("times").against("90 streams"),
        shape,
    )
}

/// Ratio of two frame times, with its interval from the middle halves of interleaved rounds.
fn times(of: Measure, by: Measure) -> Measure {
    let ends = |m: Measure| (m.low.unwrap_or(m.value), m.high.unwrap_or(m.value));
    let ((low, high), (least, most)) = (ends(of), ends(by));
    Measure::within(of.value / by.value, low / most, high / least)
}

/// A frame of one stream against one of many: rates are the other way round.
fn one_stream_live(said: &words::Claim, study: &Study, live: &Live) -> Judged {
    let (one, all) =
        (live.of(Case::few(1, study))?, live.of(Case::few(study.setup.streams, study))?);
    let note = format!(
        "a frame takes {:.0} and {:.0} ns, one worker with one queue; on the line it has {:.0} ns",
        one.value,
        all.value,
        1e9 / line_rate(SMALL)
    );
    let found = (times(all, one), live.rounds());
    let evidence = Evidence::repeated("rate at 64 bytes, one stream", found, said.asked(""));
    Ok((evidence.unit("times").against("90 streams"), note))
}

/// Sizes at which a frame with a list takes longer than its slot on the line. Where a slot lies
/// within the spread of rounds nobody can tell, and the number of sizes has an interval.
fn small_frames_live(said: &words::Claim, study: &Study, live: &Live) -> Judged {
    let entries = Entries::Permit(study.setup.streams);
    let (mut late, mut widest) = (Vec::new(), 0.0_f64);
    let (mut others, mut unclear) = (0_u32, 0_u32);
    for (timed, list) in TIMED.into_iter().filter(|(_, list)| *list != List::None) {
        let small = if list == List::Out { 128 } else { 96 };
        for &octets in &study.setup.frame_bytes {
            let ns =
                live.of(Case { timed, list, entries, octets, streams: study.setup.streams })?;
            let slot = 1e9 / line_rate(octets);
            widest = widest.max(ns.value / slot);
            let is_late = ns.low.unwrap_or(ns.value) > slot;
            if !is_late && ns.high.unwrap_or(ns.value) > slot {
                unclear += 1;
                continue;
            }
            if is_late {
                late.push(format!("{} at {octets} bytes", title(timed, list)));
            }
            others += u32::from(is_late != (octets <= small));
        }
    }
    let note = format!(
        "a frame takes at most {:.0} % of its time on the line; later than that: {}",
        100.0 * widest,
        if late.is_empty() { "none".into() } else { late.join(", ") }
    );
    let [least, most] = [others, others + unclear].map(f64::from);
    let found = (Measure::within(least, least, most), live.rounds());
    let metric = "sizes and lists that are not as said";
    Ok((Evidence::repeated(metric, found, said.asked("")), note))
}

/// The study's list, in and out.
fn outbound_worse_live(said: &words::Claim, study: &Study, live: &Live) -> Judged {
    let streams = study.setup.streams;
    let timed = Timed::Router;
    let of = |list| live.of(Case { timed, list, entries: PRINTED, octets: SMALL, streams });
    let (inn, out) = (of(List::In)?, of(List::Out)?);
    let note = format!(
        "the study's list at 64 bytes takes a frame {:.0} ns in and {:.0} ns out",
        inn.value, out.value
    );
    let found = (times(inn, out), live.rounds());
    let evidence = Evidence::repeated("rate, outbound of inbound", found, said.asked(""));
    Ok((evidence.unit("times").against("inbound"), note))
}

/// Cost of an inbound list, as a share of the rate: an edge's against a router's.
fn mpls_neutral_live(said: &words::Claim, study: &Study, live: &Live) -> Judged {
    let entries = Entries::Permit(study.setup.streams);
    let streams = study.setup.streams;
    let of = |timed, list| live.of(Case { timed, list, entries, octets: SMALL, streams });
    let rate = |timed| -> Result<(Measure, f64), &'static str> {
        let (with, without) = (of(timed, List::In)?, of(timed, List::None)?);
        Ok((times(without, with), with.value - without.value))
    };
    let ((ip, added_ip), (mpls, added_mpls)) = (rate(Timed::Router)?, rate(Timed::Pe1)?);
    let note = format!(
        "a list in adds {added_ip:.0} ns to a frame of 64 bytes over IP and {added_mpls:.0} ns over \
         MPLS"
    );
    let Measure { value, low, high } = times(mpls, ip);
    let percent = |times: f64| 100.0 * (times - 1.0);
    let off = Measure { value: percent(value), low: low.map(percent), high: high.map(percent) };
    let evidence =
        Evidence::repeated("rate with the list in", (off, live.rounds()), said.asked(""));
    Ok((evidence.unit("%").against("IP"), note))
}
