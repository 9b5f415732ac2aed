//! What the search says.

use super::record::Written;
use crate::paint::Paint;
use anstyle::AnsiColor;
use ferrule_lab::check::shrink::Shrunk;
use ferrule_lab::check::{Failure, Finding, Names, Outcome, Recording, Score};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Before this, nobody needs to be told how far it is.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The schema of the JSON form.
const SCHEMA: &str = "ferrule-check/1";

/// A number with its thousands apart.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How far it is, in one line.
pub fn progress(score: &Score, seeds: u64, elapsed: Duration) -> String {
    let per_second = score.seeds as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = seeds.saturating_sub(score.seeds) as f64 / per_second.max(1e-9);
    format!(
        "{} of {} seeds, {per_second:.0} in a second, about {left:.0} s left",
        grouped(score.seeds),
        grouped(seeds)
    )
}

/// What was looked at, in a few lines.
fn looked_at(score: &Score) -> String {
    let mut out = String::new();
    let rows = [
        (score.visits, "frames at nodes"),
        (score.nonces, "nonces, none twice with its key"),
        (score.replay.accepted, "packets accepted as the standard's window accepts them"),
        (score.replay.rejected, "replayed or late ones rejected"),
        (score.received, "packets at hosts: whole, in order, once"),
    ];
    for (count, what) in rows {
        let _ = writeln!(out, "  {:>15}  {what}", grouped(count));
    }
    let (compared, left_out) = (score.replay.compared, score.replay.left_out);
    let _ = writeln!(
        out,
        "  {:>15}  inbound SAs compared with the model of a receiver, {left_out} left out",
        grouped(compared)
    );
    out
}

/// Nothing broke.
pub fn passed(paint: Paint, name: &str, names: &Names, score: &Score, elapsed: Duration) -> String {
    let verdict = format!("{name}: every promise holds under {} seeds", grouped(score.seeds));
    let mut out = format!("{}\n", paint.hue(AnsiColor::Green, verdict));
    let (nodes, links, flows) = (names.nodes.len(), names.links.len(), names.flows.len());
    let _ = writeln!(
        out,
        "  {nodes} nodes, {links} links, {flows} traffic entries; {:.1} s",
        elapsed.as_secs_f64()
    );
    out + &looked_at(score)
}

fn score_json(score: &Score) -> Value {
    json!({
        "seeds": score.seeds,
        "visits": score.visits,
        "nonces": score.nonces,
        "received": score.received,
        "replay": {
            "compared": score.replay.compared,
            "left_out": score.replay.left_out,
            "accepted": score.replay.accepted,
            "rejected": score.replay.rejected,
        },
    })
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "invariant": finding.invariant.name(),
        "at_ns": finding.at.as_nanos(),
        "place": finding.place,
        "what": finding.what,
    })
}

/// Nothing broke, as JSON.
pub fn passed_json(name: &str, score: &Score) -> String {
    let value =
        json!({ "schema": SCHEMA, "topology": name, "holds": true, "score": score_json(score) });
    format!("{value:#}\n")
}

/// Something broke.
pub struct Report<'a> {
    /// The topology.
    pub name: &'a str,
    /// Its names.
    pub names: &'a Names,
    /// What was run.
    pub score: &'a Score,
    /// The first failure.
    pub failure: &'a Failure,
}

impl Report<'_> {
    /// For people.
    pub fn failed(
        &self,
        paint: Paint,
        small: &Shrunk,
        written: &Result<Written, String>,
    ) -> String {
        let Failure { case, finding } = self.failure;
        let verdict = format!("{}: seed {} breaks `{}`", self.name, case.seed, finding.invariant);
        let mut out = format!("{}\n", paint.fault(verdict));
        let _ = writeln!(out, "  {finding}");
        let _ = writeln!(
            out,
            "  found after {} seeds; made small in {} runs: {} of {} parts are left",
            grouped(self.score.seeds),
            small.runs,
            small.case.size(),
            case.size()
        );
        for line in small.case.words(self.names) {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "  {}", small.finding);
        match written {
            Ok(written) => {
                let path = written.recording.display();
                let _ = writeln!(out, "Recorded with {} captures. Repeat it:", written.captures);
                let _ = writeln!(out, "  {}", paint.bold(format!("ferrule lab run {path}")));
            }
            Err(e) => {
                let _ = writeln!(out, "No recording: {e}");
            }
        }
        out
    }

    /// For programs.
    pub fn failed_json(&self, small: &Shrunk, written: &Result<Written, String>) -> String {
        let recording = written.as_ref().ok().map(|w| w.recording.display().to_string());
        let value = json!({
            "schema": SCHEMA,
            "topology": self.name,
            "holds": false,
            "score": score_json(self.score),
            "seed": self.failure.case.seed,
            "finding": finding_json(&self.failure.finding),
            "small": { "case": small.case, "finding": finding_json(&small.finding) },
            "recording": recording,
        });
        format!("{value:#}\n")
    }
}

/// A recording was run again.
pub fn repeated(paint: Paint, recording: &Recording, names: &Names, outcome: &Outcome) -> String {
    let again = recording.is_repeated_by(&outcome.findings);
    let verdict = match (again, outcome.findings.is_empty()) {
        (true, _) => paint.fault("the same breaks again"),
        (false, false) => paint.fault("something else breaks than was recorded"),
        (false, true) => paint.hue(AnsiColor::Green, "nothing breaks any more"),
    };
    let mut out = format!("{verdict}\n  recorded: {}\n", recording.recording.found);
    for line in recording.case.words(names) {
        let _ = writeln!(out, "    {line}");
    }
    for finding in &outcome.findings {
        let _ = writeln!(out, "  {finding}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Instant;
    use ferrule_lab::check::{Case, Invariant};
    use std::path::PathBuf;

    fn score() -> Score {
        Score { seeds: 1000, visits: 1_234_567, nonces: 5, received: 999, ..Score::default() }
    }

    fn failure() -> Failure {
        let (place, what) = ("gw1".to_owned(), "two of them".to_owned());
        let (invariant, at) = (Invariant::NonceOnce, Instant::from_millis(3));
        let finding = Finding { invariant, at, place, what };
        Failure { case: Case { seed: 17, ..Case::default() }, finding }
    }

    #[test]
    fn search_tells_what_it_looked_at_and_how_far_it_is() {
        let text = passed(
            Paint::plain(80),
            "ten-nodes",
            &Names::default(),
            &score(),
            Duration::from_millis(1500),
        );
        assert!(text.starts_with("ten-nodes: every promise holds under 1,000 seeds\n"), "{text}");
        assert!(text.contains("        1,234,567  frames at nodes\n"), "{text}");
        let value: Value = serde_json::from_str(&passed_json("x", &score())).unwrap();
        assert_eq!((&value["holds"], &value["score"]["visits"]), (&json!(true), &json!(1_234_567)));
        let line = progress(&score(), 4000, Duration::from_secs(2));
        assert_eq!(line, "1,000 of 4,000 seeds, 500 in a second, about 6 s left");
    }

    #[test]
    fn search_tells_the_seed_what_is_left_and_how_to_repeat_it() {
        let (failure, score, names) = (failure(), score(), Names::default());
        let report = Report { name: "x", names: &names, score: &score, failure: &failure };
        let (case, finding) = (failure.case.clone(), failure.finding.clone());
        let small = Shrunk { case, finding, runs: 9 };
        let recording = PathBuf::from("x-seed-17/recording.toml");
        let written = Ok(Written { recording, captures: 3 });
        let text = report.failed(Paint::plain(80), &small, &written);
        assert!(text.starts_with("x: seed 17 breaks `nonce-once`\n"), "{text}");
        assert!(text.contains("ferrule lab run x-seed-17/recording.toml"), "{text}");
        let value: Value = serde_json::from_str(&report.failed_json(&small, &written)).unwrap();
        assert_eq!((&value["seed"], &value["holds"]), (&json!(17), &json!(false)));
        assert_eq!(value["finding"]["invariant"], "nonce-once");
        let text = report.failed(Paint::plain(80), &small, &Err("no room".into()));
        assert!(text.contains("No recording: no room"), "{text}");
    }
}
