//! The errata, each shown by arithmetic with the printed numbers.

use super::model::Model;
use super::network::line_rate;
use super::nodes::{LABEL, List, System};
use super::published::Study;
use crate::words::{self, Proof};
use ferrule_report::Erratum;

type Steps = (Vec<String>, bool);
type With<'a> = (&'a Study, &'a Model);

const fn proofs<'a>() -> [Proof<With<'a>>; 9] {
    [
        ("table 1", "baseline", baseline),
        ("tables 2 and 3", "share of the rate", utils),
        ("sections 4.2.2 and 4.2.3", "what remains", remains),
        ("section 4.2", "1/90", forwarded),
        ("section 4.3.2", "outbound list costs more", outbound),
        ("section 4.1.2", "88.46", odd_one),
        ("mpls table", "667.6", product),
        ("mpls tables", "428,000", faster),
        ("tables 1 to 3", "930", below_the_line),
    ]
}

const OPEN: &str = "not a matter of arithmetic: the study prints no figure for one stream";

/// Every erratum with its proof, in the file's order.
pub fn show(study: &Study, model: &Model) -> Vec<Erratum> {
    words::shown(&study.erratum, &proofs(), &(study, model), OPEN)
}

fn within(a: f64, b: f64, percent: f64) -> bool {
    (a / b - 1.0).abs() * 100.0 <= percent
}

fn baseline(&(study, _): &With<'_>) -> Steps {
    let printed = &study.of("ip, no acl, one way").pps;
    let mut steps = Vec::new();
    let mut holds = true;
    for octets in [96, 128] {
        let (printed, line) = (printed[study.at(octets)], line_rate(octets));
        holds &= within(printed, line, 0.1);
        steps
            .push(format!("{octets} bytes: {printed} frames a second; the line carries {line:.0}"));
    }
    steps.push(
        "a device with 120 entries in the way would not fill the line: there are none".into(),
    );
    (steps, holds)
}

fn utils(&(study, _): &With<'_>) -> Steps {
    let (none, inn) = (study.of("ip, no acl, one way"), study.of("ip, 120 acl inbound"));
    let of_rate = 100.0 * inn.pps[0] / none.pps[0];
    let of_line = 100.0 * inn.pps[0] / line_rate(64);
    let steps = vec![
        format!(
            "table 2, 64 bytes: {} / {} = {of_rate:.2} %, printed {}",
            inn.pps[0], none.pps[0], inn.util[0]
        ),
        format!("of the line: {} / {:.0} = {of_line:.2} %", inn.pps[0], line_rate(64)),
        format!(
            "table 1, 64 bytes: {} / {:.0} = {:.2} %, printed {}",
            none.pps[0],
            line_rate(64),
            100.0 * none.pps[0] / line_rate(64),
            none.util[0]
        ),
    ];
    (
        steps,
        within(of_rate, inn.util[0], 0.1)
            && within(100.0 * none.pps[0] / line_rate(64), none.util[0], 0.1),
    )
}

fn remains(&(study, _): &With<'_>) -> Steps {
    let none = study.of("ip, no acl, one way");
    let mut steps = Vec::new();
    let mut lost = Vec::new();
    for (system, sizes) in
        [("ip, 120 acl inbound", &[64, 96][..]), ("ip, 120 acl outbound", &[64, 96, 128])]
    {
        for &octets in sizes {
            let at = study.at(octets);
            let left = 100.0 * study.of(system).pps[at] / none.pps[at];
            lost.push(100.0 - left);
            steps.push(format!(
                "{system}, {octets} bytes: {left:.1} % remain, {:.1} % are lost",
                100.0 - left
            ));
        }
    }
    let [in64, in96, out64, _, out128] = lost[..] else { return (steps, false) };
    let holds = (in64 - 28.0).abs() < 1.0
        && (in96 - 16.0).abs() < 1.0
        && (out64 - 47.0).abs() < 1.0
        && (out128 - 20.0).abs() < 1.0;
    (steps, holds)
}

fn forwarded(&(study, model): &With<'_>) -> Steps {
    let streams = study.setup.streams as f64;
    let printed = study.of("ip, 120 acl inbound").pps[0];
    let mut steps =
        vec![format!("{printed} / {streams} = {:.0} frames a second at most", printed / streams)];
    let mut holds = true;
    for system in System::ALL.into_iter().filter(|system| system.list != List::None) {
        let Some(point) = model.of(system).first() else { continue };
        let share = point.forwarded / point.processed;
        // Which stream a frame belongs to is drawn: the share of one in 90 has a spread.
        holds &= within(share, 1.0 / streams, 25.0);
        steps.push(format!(
            "model, {}, 64 bytes: {:.0} processed, {:.0} denied, {:.0} forwarded: one of {:.1}",
            system.key(),
            point.processed,
            point.denied,
            point.forwarded,
            1.0 / share
        ));
    }
    (steps, holds)
}

fn outbound(&(study, _): &With<'_>) -> Steps {
    let (ip, mpls) = (study.of("ip, 120 acl outbound"), study.of("mpls, 120 acl outbound"));
    let mut steps = Vec::new();
    let mut holds = true;
    for octets in [64, 96, 128] {
        let at = study.at(octets);
        holds &= mpls.pps[at] > ip.pps[at];
        steps.push(format!("{octets} bytes: {} over MPLS, {} over IP", mpls.pps[at], ip.pps[at]));
    }
    (steps, holds)
}

fn odd_one(&(study, _): &With<'_>) -> Steps {
    let at = study.at(256);
    let printed = study.of("ip, no acl, one way");
    let share = 100.0 * printed.pps[at] / line_rate(256);
    let steps = vec![format!("{} / {:.0} = {share:.2} %", printed.pps[at], line_rate(256))];
    (steps, share < 95.0 && within(share, 88.46, 0.1))
}

fn product(&(study, _): &With<'_>) -> Steps {
    let printed = study.of("mpls, no acl");
    let mbps = printed.pps[0] * 64.0 * 8.0 / 1e6;
    let steps = vec![format!(
        "{} × 64 × 8 = {mbps:.1} Mbit/s, printed {}",
        printed.pps[0], printed.mbps[0]
    )];
    (steps, within(mbps, 667.6, 0.02) && printed.mbps[0] < mbps)
}

fn faster(&(study, _): &With<'_>) -> Steps {
    let at = study.at(256);
    let (none, out) =
        (study.of("mpls, no acl").pps[at], study.of("mpls, 120 acl outbound").pps[at]);
    let line = 1e9 / (8.0 * (256 + 20 + LABEL) as f64);
    let steps = vec![
        format!("256 bytes over MPLS: {none} without a list, {out} with one out"),
        format!(
            "the line with a label carries {line:.0}: neither is limited by it, nor by frames a second"
        ),
    ];
    (steps, out > none && out < line)
}

fn below_the_line(&(study, _): &With<'_>) -> Steps {
    let mut steps = Vec::new();
    let mut holds = true;
    for octets in [768, 1024] {
        let at = study.at(octets);
        let (ip, mpls) =
            (study.of("ip, no acl, both ways").pps[at], study.of("mpls, no acl").pps[at]);
        let (plain, labelled) = (line_rate(octets), line_rate(octets + LABEL));
        holds &= ip < 0.965 * plain && mpls > 0.985 * labelled && mpls > ip;
        steps.push(format!(
            "{octets} bytes: IP {ip} of {plain:.0} ({:.1} %), MPLS {mpls} of {labelled:.0} ({:.1} %)",
            100.0 * ip / plain, 100.0 * mpls / labelled
        ));
    }
    (steps, holds)
}
