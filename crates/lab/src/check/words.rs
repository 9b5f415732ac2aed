//! A case in words, for people.

use super::case::{At, Case, Disturbance, Impairment, Kind, Upset};

/// The names of what a case speaks of by place.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Traffic entries.
    pub flows: Vec<String>,
    /// Links.
    pub links: Vec<String>,
    /// Nodes.
    pub nodes: Vec<String>,
}

fn name(names: &[String], place: usize) -> &str {
    names.get(place).map_or("?", String::as_str)
}

/// Nanoseconds as people write them.
fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{}us", decimal(ns, 1000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(ns, 1_000_000)),
        _ => format!("{}s", decimal(ns, 1_000_000_000)),
    }
}

/// `ns` in a unit, with up to three decimal places.
fn decimal(ns: u64, unit: u64) -> String {
    let thousandths = ns / (unit / 1000).max(1);
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn percent(thousandths: u64) -> String {
    format!("{} %", decimal(thousandths * 100, 1000))
}

impl Case {
    /// One line for each part.
    pub fn words(&self, names: &Names) -> Vec<String> {
        let mut lines = vec![format!(
            "seed {}, hosts send for {} from {} on",
            self.seed,
            time(self.length_ns),
            time(self.start_ns)
        )];
        if self.before_wrap > 0 {
            let n = self.before_wrap;
            lines.push(format!("extended numbers begin {n} before their upper half changes"));
        }
        if let Some(s) = &self.settings {
            let rule = if s.strict { "strict" } else { "standard" };
            let esn = if s.esn { "with" } else { "without" };
            lines.push(format!("all windows {}, MACsec {rule}, ESP {esn} ESN", s.window));
        }
        lines.extend(self.flows.iter().map(|&f| format!("traffic {}", name(&names.flows, f))));
        for Impairment { link, kind } in &self.impairment {
            let what = match kind {
                Kind::Loss(n) => format!("loses {} of frames", percent(*n)),
                Kind::Duplicate(n) => format!("copies {} of frames", percent(*n)),
                Kind::Corrupt(n) => format!("turns a bit of {} of frames", percent(*n)),
                Kind::Reorder(n, by) => {
                    format!("holds {} of frames behind {by} others", percent(*n))
                }
                Kind::Jitter(us) => format!("adds up to {us}us of delay"),
                Kind::Slow(mbit) => format!("carries {mbit} Mbit/s"),
            };
            lines.push(format!("link {} {what}", name(&names.links, *link)));
        }
        lines.extend(self.disturbance.iter().map(|d| self.upset_words(d, names)));
        for late in &self.late {
            let delay = time(late.delay_ns);
            let node = name(&names.nodes, late.node);
            lines.push(format!("node {node} has crypto that takes up to {delay}, in any order"));
        }
        for w in &self.workers {
            lines.push(format!("node {} has {} workers", name(&names.nodes, w.node), w.count));
        }
        for p in &self.pace {
            let (node, timer, frame) =
                (name(&names.nodes, p.node), time(p.timer_ns), time(p.frame_ns));
            let (batch, queue) = (p.batch, p.queue);
            lines.push(format!(
                "node {node} looks after {timer}, takes up to {batch} frames at once, {frame} each; \
                 {queue} wait"
            ));
        }
        lines.extend(self.rekey_words(names));
        lines.extend(self.away_words(names));
        lines
    }

    fn upset_words(&self, d: &Disturbance, names: &Names) -> String {
        let (at, lasts) = (time(self.start_ns + d.at_ns), time(d.for_ns));
        let node = |n: usize| name(&names.nodes, n);
        match d.what {
            Upset::Link(l) => {
                format!("at {at} link {} is down for {lasts}", name(&names.links, l))
            }
            Upset::Kill(n) => {
                format!("at {at} node {} is killed, and back after {lasts}", node(n))
            }
            Upset::Jump(n) => {
                let by = time(d.for_ns.saturating_mul(1000));
                format!("at {at} the clock of node {} jumps by {by}", node(n))
            }
            Upset::EngineKill(n) => {
                format!("at {at} the engines beside node {} end, and are away for {lasts}", node(n))
            }
            Upset::EngineHang(n) => {
                format!("at {at} the engines beside node {} hang for {lasts}", node(n))
            }
            Upset::CardReset(n) => format!("at {at} the cards of node {} are reset", node(n)),
            Upset::CardHalt(n) => format!("at {at} the cards of node {} fail", node(n)),
        }
    }

    fn away_words(&self, names: &Names) -> Vec<String> {
        let words = self.away.iter().map(|away| {
            let node = name(&names.nodes, away.node);
            let place = match away.at {
                At::Inline => "in the cards of its ports".into(),
                At::Token => "with keys on a token".into(),
                At::LookAside { depth, copies, packet_ns, drop } => {
                    let failing = if drop { "drops" } else { "does itself" };
                    format!(
                        "look-aside, {copies} copies, {} each, {depth} at once; what fails there it \
                         {failing}",
                        time(packet_ns)
                    )
                }
            };
            format!("node {node} seals and opens {place}")
        });
        words.collect()
    }

    fn rekey_words(&self, names: &Names) -> Vec<String> {
        let words = self.rekey.iter().map(|r| {
            let (at, step) = (time(self.start_ns + r.at_ns), time(r.step_ns));
            let (node, sa) = (name(&names.nodes, r.node), r.sa);
            format!(
                "at {at} what node {node} seals with (outbound association {sa}) gets a fresh key, \
                 {step} from step to step"
            )
        });
        words.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Away, Disturbance, Late, Pace, Rekey, Settings, Workers};
    use super::*;

    #[test]
    fn a_case_is_told_in_words() {
        let list = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        let names = Names {
            flows: list(&["udp h1 > h2"]),
            links: list(&["a-b", "b-c"]),
            nodes: list(&["a", "b"]),
        };
        let case = Case {
            seed: 7,
            start_ns: 2_980_000_000,
            length_ns: 12_500_000,
            before_wrap: 3,
            settings: Some(Settings { window: 64, esn: true, strict: false }),
            flows: vec![0],
            impairment: vec![
                Impairment { link: 1, kind: Kind::Reorder(152, 90) },
                Impairment { link: 0, kind: Kind::Loss(5) },
            ],
            disturbance: vec![
                Disturbance { at_ns: 10_000, for_ns: 500, what: Upset::Kill(1) },
                Disturbance { at_ns: 20_000, for_ns: 700, what: Upset::EngineKill(0) },
                Disturbance { at_ns: 30_000, for_ns: 900, what: Upset::CardReset(1) },
            ],
            late: vec![Late { node: 0, delay_ns: 293_000, depth: 9 }],
            workers: vec![Workers { node: 9, count: 2 }],
            pace: vec![Pace {
                node: 0,
                batch: 64,
                queue: 8,
                timer_ns: 5_000,
                frame_ns: 1_500,
                stagger_ns: 0,
            }],
            rekey: vec![Rekey { node: 1, sa: 5, at_ns: 20_000_000, step_ns: 1_500_000 }],
            away: vec![
                Away {
                    node: 0,
                    at: At::LookAside { depth: 64, copies: 2, packet_ns: 1_500, drop: true },
                },
                Away { node: 1, at: At::Inline },
            ],
        };
        let expected = [
            "seed 7, hosts send for 12.5ms from 2.98s on",
            "extended numbers begin 3 before their upper half changes",
            "all windows 64, MACsec standard, ESP with ESN",
            "traffic udp h1 > h2",
            "link b-c holds 15.2 % of frames behind 90 others",
            "link a-b loses 0.5 % of frames",
            "at 2.98s node b is killed, and back after 0.5us",
            "at 2.98s the engines beside node a end, and are away for 0.7us",
            "at 2.98s the cards of node b are reset",
            "node a has crypto that takes up to 293us, in any order",
            "node ? has 2 workers",
            "node a looks after 5us, takes up to 64 frames at once, 1.5us each; 8 wait",
            "at 3s what node b seals with (outbound association 5) gets a fresh key, 1.5ms from step \
             to step",
            "node a seals and opens look-aside, 2 copies, 1.5us each, 64 at once; what fails there it \
             drops",
            "node b seals and opens in the cards of its ports",
        ];
        assert_eq!(case.words(&names), expected);
        assert_eq!([time(0), time(999), time(1_234_567)], ["0us", "0.999us", "1.234ms"]);
    }
}
