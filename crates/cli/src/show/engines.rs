//! `ferrule show engines`: who seals and opens, and what a token has made ahead.

use super::draw;
use ferrule_daemon::report::{EngineView, LatencyView, Report, RingView};

/// The engines, and under them the rings of tokens and how long things took.
pub(super) fn text(report: &Report) -> String {
    if report.engines.is_empty() {
        return "none\n".into();
    }
    let head =
        ["WORKER#", "PLACEMENT", "WITH", "STATE", "KEYS#", "IN FLIGHT#", "DEPTH#", "COUNTED"];
    let mut text = draw(&head, &report.engines.iter().map(engine).collect::<Vec<_>>());
    let rings = report.engines.iter().flat_map(|e| e.rings.iter().map(move |r| ring(e, r)));
    let rings: Vec<_> = rings.collect();
    if !rings.is_empty() {
        let head = [
            "WORKER#", "KEY", "WAY", "MODE", "RING", "FILLED#", "START#", "STOP#", "SIZE#",
            "AHEAD#", "BLOCKS",
        ];
        text += "\nkey stream made ahead, in blocks of 16 octets\n";
        text += &draw(&head, &rings);
    }
    let took = report.engines.iter().flat_map(|e| {
        let measured = e.latencies.iter().filter(|(_, l)| l.count > 0);
        measured.map(move |(of, l)| latency(e, of, l))
    });
    let took: Vec<_> = took.collect();
    if !took.is_empty() {
        let head = ["WORKER#", "PLACEMENT", "OF", "COUNT#", "MEDIAN us#", "99 % us#", "MOST us#"];
        text += "\nhow long it took\n";
        text += &draw(&head, &took);
    }
    text
}

fn engine(e: &EngineView) -> Vec<String> {
    let counted = e.counters.iter().filter(|&(_, &n)| n > 0);
    let counted = counted.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
    let mut row = vec![e.worker.to_string(), e.placement.clone(), e.with.clone(), e.state.clone()];
    let none = |n: usize| if n == 0 { "-".to_owned() } else { n.to_string() };
    row.extend([e.keys.to_string(), e.in_flight.to_string(), none(e.depth)]);
    row.push(counted.join(", "));
    row
}

fn ring(e: &EngineView, r: &RingView) -> Vec<String> {
    let blocks = match (r.least, r.most) {
        (0, 0) => "-".to_owned(),
        (least, most) if least == most => format!("1+{most}"),
        (least, most) => format!("1+{least} to {most}"),
    };
    let mut row = vec![e.worker.to_string(), r.key.clone(), r.op.clone()];
    row.extend([r.mode.clone(), r.state.clone()]);
    row.extend([r.filled, r.start, r.stop, r.size, r.ahead].map(|n| n.to_string()));
    row.push(blocks);
    row
}

fn latency(e: &EngineView, of: &str, l: &LatencyView) -> Vec<String> {
    let mut row = vec![e.worker.to_string(), e.placement.clone(), of.to_owned()];
    row.extend([l.count, l.median_us, l.p99_us, l.max_us].map(|n| n.to_string()));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let engine = |placement: &str, with: &str, keys, counters: &[(&str, u64)]| EngineView {
            placement: placement.into(),
            with: with.into(),
            state: "works".into(),
            keys,
            counters: counters.iter().map(|&(name, n)| (name.to_owned(), n)).collect(),
            ..EngineView::default()
        };
        let software = engine("software", "vaes512", 1, &[("jobs", 40)]);
        let aside = EngineView { depth: 1024, ..engine("look-aside", "", 2, &[("completed", 7)]) };
        let counted = [("hits", 90), ("refetches", 3), ("gone", 1), ("followed", 0)];
        let mut token = engine("token", "microsd", 1, &counted);
        token.depth = 1024;
        let ring = RingView {
            key: "to-hq".into(),
            op: "seal".into(),
            mode: "standard".into(),
            state: "fills".into(),
            size: 4096,
            filled: 1000,
            start: 2048,
            stop: 4096,
            ahead: 90,
            least: 6,
            most: 88,
        };
        token.rings.push(ring);
        let wait = LatencyView { count: 3, median_us: 12_000, p99_us: 16_000, max_us: 17_000 };
        token.latencies.insert("wait".into(), wait);
        token.latencies.insert("exchange".into(), LatencyView::default());
        Report { engines: vec![software, aside, token], ..Report::default() }
    }

    #[test]
    fn show_engines_has_software_look_aside_and_token_with_its_rings() {
        let text = text(&report());
        for line in [
            "WORKER  PLACEMENT   WITH     STATE  KEYS  IN FLIGHT  DEPTH  COUNTED",
            "     0  software    vaes512  works     1          0      -  jobs 40",
            "     0  look-aside           works     2          0   1024  completed 7",
            "     0  token       microsd  works     1          0   1024  gone 1, hits 90, refetches 3",
            "WORKER  KEY    WAY   MODE      RING   FILLED  START  STOP  SIZE  AHEAD  BLOCKS",
            "     0  to-hq  seal  standard  fills    1000   2048  4096  4096     90  1+6 to 88",
            "WORKER  PLACEMENT  OF    COUNT  MEDIAN us  99 % us  MOST us",
            "     0  token      wait      3      12000    16000    17000",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert_eq!(super::text(&Report::default()), "none\n");
    }
}
