//! The errata, each shown by arithmetic with the printed numbers: nothing here is
//! quoted, every figure is computed as the report is made.

use super::bench::{FRAME, LINE_OVERHEAD, frames_per_second};
use super::model::{Model, slope};
use super::network::System;
use super::overhead::{CORE_LINKS, calculated, calculated_ceiling, modelled, published, stack};
use super::published::Study;
use crate::words::{self, Proof};
use ferrule_crypto::Suite;
use ferrule_overhead::esp_suites;
use ferrule_report::Erratum;

/// Steps of arithmetic, and whether they come out as the erratum says.
type Steps = (Vec<String>, bool);

type With<'a> = (&'a Study, &'a Model);

const fn proofs<'a>() -> [Proof<With<'a>>; 10] {
    [
        ("tables 5 to 7", "frames lost", frames_are_not_milliseconds),
        ("section 3.3", "1.94", ratio_of_overheads),
        ("section 4.2", "five rates", rates),
        ("section 3.3", "like for like", not_alike),
        ("tables 1 and 3", "95 %", ninety_five),
        ("section 3.4", "10 times", ten_times),
        ("section 3.1 and table 3", "0.74", hop_and_path),
        ("table 7", "drift", drift),
        ("figures 4, 5 and 7", "one label", labels),
        ("table 2", "one server", one_server),
    ]
}

const OPEN: &str =
    "not a matter of arithmetic: the handoff part, which comes later, runs the missing cells";

/// Every erratum with its proof, in the file's order.
pub fn show(study: &Study, model: &Model) -> Vec<Erratum> {
    words::shown(&study.erratum, &proofs(), &(study, model), OPEN)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn frames_are_not_milliseconds(&(study, _): &With<'_>) -> Steps {
    let (mut steps, mut holds) = (Vec::new(), true);
    for result in &study.handoff.result {
        for ((lost, pps), printed) in
            result.frames_lost.iter().zip(&result.pps).zip(&result.mean_ms)
        {
            let lost = mean(lost);
            let millis = 1000.0 * lost / pps;
            holds &= (millis / printed - 1.0).abs() < 0.005;
            steps.push(format!(
                "{}: {lost:.1} frames / {pps} per second = {millis:.1} ms; printed {printed} ms",
                result.system
            ));
        }
    }
    (steps, holds)
}

fn ratio_of_overheads(&(study, _): &With<'_>) -> Steps {
    let (ipsec, macsec) = (study.overhead.ipsec_overhead, study.overhead.macsec_overhead);
    let ratio = ipsec / macsec;
    let frames = study.overhead.ipsec_on_wire / study.overhead.macsec_on_wire;
    let steps = vec![
        format!("{ipsec} / {macsec} = {ratio:.2}, not 1.4"),
        format!(
            "whole frames: {} / {} = {frames:.2}, not 1.4 either",
            study.overhead.ipsec_on_wire, study.overhead.macsec_on_wire
        ),
    ];
    (steps, (ratio - 1.94).abs() < 0.005)
}

fn rates(&(study, _): &With<'_>) -> Steps {
    let mut rates: Vec<f64> = study.handoff.result.iter().flat_map(|r| r.pps.clone()).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let list: Vec<String> = rates.iter().map(f64::to_string).collect();
    (
        vec![format!("rates in tables 5 to 7: {} = {} of 5", list.join(", "), rates.len())],
        rates.len() == 3,
    )
}

fn not_alike(&(study, _): &With<'_>) -> Steps {
    let provider = study.overhead.plain_on_wire - study.frame.total_bytes;
    let without_tag = study.frame.total_bytes - study.frame.vlan_tag;
    let added = study.overhead.ipsec_on_wire - provider - without_tag;
    let gcm = calculated("esp aes-gcm-128 tunnel", 1);
    let implicit = calculated("esp aes-gcm-128-iiv tunnel", 1);
    // Those that a network could have been asked to use.
    let allowed = esp_suites().filter(|suite| suite.forbidden().is_none());
    let on_wire = study.overhead.ipsec_on_wire;
    let fitting: Vec<&str> = allowed
        .map(Suite::name)
        .filter(|suite| calculated(&format!("esp {suite} tunnel"), 1) == on_wire)
        .collect();
    let steps = vec![
        format!(
            "{} - {provider} = {}",
            study.overhead.ipsec_on_wire,
            study.overhead.ipsec_on_wire - provider
        ),
        format!(
            "the tunnel takes an IP packet, without the tag: {} - {} = {without_tag}",
            study.frame.total_bytes, study.frame.vlan_tag
        ),
        format!(
            "{} - {without_tag} = {added}, not {}",
            study.overhead.ipsec_on_wire - provider,
            study.overhead.ipsec_overhead
        ),
        format!("with AES-GCM: {gcm} bytes; with an implicit IV: {implicit}"),
        format!("suites that give {}: {}", study.overhead.ipsec_on_wire, fitting.join("; ")),
    ];
    // Key length and a 128-bit key: of those that fit, one has it.
    let one = fitting.iter().filter(|suite| suite.starts_with("aes-cbc-128")).count() == 1;
    (steps, added == 66.0 && gcm == 1072.0 && implicit == 1064.0 && one)
}

fn ninety_five(&(study, model): &With<'_>) -> Steps {
    let rate = study.setup.link_rate_mbps;
    let top = study.load_of("macsec").offered_mbps.last().copied().unwrap_or(f64::NAN);
    let slot = FRAME + LINE_OVERHEAD;
    let mut steps = vec![format!("{top} / {rate} = {:.0} %", 100.0 * top / rate)];
    let mut ceilings = Vec::new();
    for system in [System::Plain, System::Macsec, System::Ipsec] {
        let wire = published(study, system) as usize + LINE_OVERHEAD;
        let share = 100.0 * slot as f64 / wire as f64;
        steps.push(format!(
            "{}: ({FRAME} + {LINE_OVERHEAD}) / ({} + {LINE_OVERHEAD}) = {share:.2} %",
            system.name(),
            wire - LINE_OVERHEAD
        ));
        ceilings.push(share);
    }
    steps.push(format!(
        "in the laboratory MACsec at 95 % loses {:.2} %",
        model.at_95.loss_percent()
    ));
    let rounded: Vec<String> = ceilings.iter().map(|c| format!("{c:.1}")).collect();
    (steps, rounded == ["97.9", "95.0", "92.4"] && ceilings[1] < 95.0)
}

fn ten_times(&(study, _): &With<'_>) -> Steps {
    let top = study.load_of("macsec").offered_mbps.last().copied().unwrap_or(f64::NAN);
    let ipsec = study.load_of("ipsec");
    let shown = ipsec.offered_mbps.last().copied().unwrap_or(f64::NAN);
    let text = ipsec.saturates_at_mbps.unwrap_or(f64::NAN);
    let by = [("table 2", 100.0), ("the text", text), ("the highest point shown", shown)];
    let steps = by.map(|(which, load)| format!("by {which}: {top} / {load} = {:.2}", top / load));
    let more = by.iter().filter(|(_, load)| top / load > 10.0).count();
    (steps.to_vec(), more == 1)
}

fn hop_and_path(&(study, _): &With<'_>) -> Steps {
    let line = study.overhead.macsec_overhead * 8.0 / study.setup.link_rate_mbps;
    let [plain, macsec] = ["plain", "macsec"].map(|system| study.load_of(system).delay_us[0]);
    let (more, links) = (macsec - plain, 4.0);
    let steps = vec![
        format!("{macsec} - {plain} = {more:.2} µs from end to end"),
        format!("{} bytes on a line: {line:.3} µs", study.overhead.macsec_overhead),
        format!(
            "on the four lines between the edges: 4 × {line:.3} = {:.3} µs, more than {more:.2}, before anything is sealed",
            links * line
        ),
        format!(
            "{} µs a hop leave {:.3} µs for two operations",
            study.hop_delay.macsec_extra_us_per_hop,
            study.hop_delay.macsec_extra_us_per_hop - line
        ),
    ];
    (steps, (more - 0.74).abs() < 1e-9 && links * line > more)
}

fn drift(&(study, _): &With<'_>) -> Steps {
    let Some(table) = study.handoff.result.last() else { return (Vec::new(), false) };
    let (Some(lost), Some(pps)) = (table.frames_lost.last(), table.pps.last()) else {
        return (Vec::new(), false);
    };
    let millis: Vec<f64> = lost.iter().map(|lost| 1000.0 * lost / pps).collect();
    let points: Vec<(f64, f64)> =
        millis.iter().enumerate().map(|(n, ms)| (n as f64, *ms)).collect();
    let (mean, slope) = (mean(&millis), slope(&points));
    let squares: f64 = millis.iter().map(|ms| (ms - mean).powi(2)).sum();
    // Student's t for four degrees of freedom, 95 %.
    let half = 2.776 * (squares / 4.0 / 5.0).sqrt();
    let explained: f64 = points.iter().map(|(n, _)| (slope * (n - 2.0)).powi(2)).sum();
    let list: Vec<String> = millis.iter().map(|ms| format!("{ms:.1}")).collect();
    let steps = vec![
        format!("runs at {pps} per second, in ms: {}", list.join(", ")),
        format!("each longer than the one before: {}", millis.windows(2).all(|w| w[1] > w[0])),
        format!(
            "the slope of {slope:.1} ms a run explains {:.0} % of the variance",
            100.0 * explained / squares
        ),
        format!("mean {mean:.1} ms, 95 % interval {:.0} to {:.0}", mean - half, mean + half),
    ];
    (steps, millis.windows(2).all(|pair| pair[1] > pair[0]))
}

fn labels(&(study, model): &With<'_>) -> Steps {
    let rate = (study.setup.link_rate_mbps * 1e6) as u64;
    let (mut steps, mut holds) = (Vec::new(), true);
    for system in [System::Plain, System::Macsec, System::Ipsec] {
        let [two, one] = CORE_LINKS.map(|link| modelled(model, system, link));
        let share = calculated_ceiling(system.transform(), 2, rate);
        let labels = stack(system.transform(), 2).transforms_text();
        steps.push(format!(
            "{}: {one} bytes behind P, {two} before it ({labels}); ceiling {share:.1} %",
            system.name()
        ));
        holds &= one == published(study, system) && two == one + 4.0;
        holds &= two == calculated(system.transform(), 2);
    }
    (steps, holds)
}

fn one_server(&(study, model): &With<'_>) -> Steps {
    let ipsec = study.load_of("ipsec");
    let (first, last) = (ipsec.delay_us[0], ipsec.delay_us.last().copied().unwrap_or(f64::NAN));
    let shown = ipsec.offered_mbps.last().copied().unwrap_or(f64::NAN);
    let plain = study.load_of("plain").delay_us[0];
    let each = (first - plain) / 2.0;
    let full = 1e6 / each / frames_per_second(1.0);
    let steps = vec![
        format!("({first} - {plain}) / 2 = {each:.0} µs a gateway at 20 Mbit/s"),
        format!("one frame each {each:.0} µs is {full:.0} Mbit/s, yet {shown} are without loss"),
        format!(
            "{last} / {first} = {:.2}: it grows by {:.0} %, where frames at a constant rate would not wait",
            last / first,
            100.0 * (last / first - 1.0)
        ),
        format!(
            "a server with a queue fits within {:.1} %, a gateway that looks at fixed times within {:.1} %",
            model.queue.error_percent, model.profiles.gateway.fit.error_percent
        ),
    ];
    (steps, full < shown && last / first > 1.25)
}
