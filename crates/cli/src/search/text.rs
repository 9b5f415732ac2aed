//! Text of a search's result.

use super::document::{Broken, Counts, Network, Searched};
use crate::paint::Paint;
use anstyle::AnsiColor;
use ferrule_lab::check::{Names, Outcome, Recording, Score};
use std::fmt::Write;
use std::time::Duration;

/// Time before which no progress is shown.
pub const PATIENCE: Duration = Duration::from_secs(2);

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

/// Progress in one line.
pub fn progress(score: &Score, seeds: u64, elapsed: Duration) -> String {
    let per_second = score.seeds as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = seeds.saturating_sub(score.seeds) as f64 / per_second.max(1e-9);
    format!(
        "{} of {} seeds, {per_second:.0} in a second, about {left:.0} s left",
        grouped(score.seeds),
        grouped(seeds)
    )
}

/// Amount of work in a search, in a few lines.
fn looked_at(score: &Counts) -> String {
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

/// Nothing broke, as far as it went.
fn passed(paint: Paint, found: &Searched, elapsed: Option<Duration>) -> String {
    let (name, seeds) = (&found.topology, grouped(found.score.seeds));
    let verdict = match found.partial {
        false => format!("{name}: every promise holds under {seeds} seeds"),
        true => format!(
            "{name}: stopped: every promise holds under {seeds} seeds of {}",
            grouped(found.seeds.count)
        ),
    };
    let hue = if found.partial { AnsiColor::Yellow } else { AnsiColor::Green };
    let mut out = format!("{}\n", paint.hue(hue, verdict));
    let Network { nodes, links, flows } = found.network;
    let _ = write!(out, "  {nodes} nodes, {links} links, {flows} traffic entries");
    let _ = match elapsed {
        Some(elapsed) => writeln!(out, "; {:.1} s", elapsed.as_secs_f64()),
        None => writeln!(out),
    };
    out + &looked_at(&found.score)
}

/// Something broke.
fn failed(paint: Paint, found: &Searched, broken: &Broken) -> String {
    let Broken { seed, finding, small, .. } = broken;
    let verdict = format!("{}: seed {seed} breaks `{}`", found.topology, finding.invariant);
    let mut out = format!("{}\n", paint.fault(verdict));
    let _ = writeln!(out, "  {finding}");
    let _ = writeln!(
        out,
        "  found after {} seeds; made small in {} runs: {} of {} parts are left",
        grouped(found.score.seeds),
        small.runs,
        small.left,
        small.parts
    );
    for line in &small.words {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(out, "  {}", small.finding);
    match (&broken.recording, &broken.no_recording) {
        (Some(path), _) => {
            let _ = writeln!(out, "Recorded with {} captures. Repeat it:", small.captures);
            let _ = writeln!(out, "  {}", paint.bold(format!("ferrule lab run {path}")));
        }
        (None, why) => {
            let _ = writeln!(out, "No recording: {}", why.as_deref().unwrap_or("not written"));
        }
    }
    out
}

/// Result of a search, for people.
pub fn told(paint: Paint, found: &Searched, elapsed: Option<Duration>) -> String {
    match &found.failure {
        Some(broken) => failed(paint, found, broken),
        None => passed(paint, found, elapsed),
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
    use super::super::document::{Counts, SCHEMA, Seeds};
    use super::super::record::Written;
    use super::*;
    use crate::shard::Shard;
    use ferrule_base::Instant;
    use ferrule_lab::check::shrink::Shrunk;
    use ferrule_lab::check::{Case, Failure, Finding, Invariant, Names};
    use serde_json::{Value, json};
    use std::path::PathBuf;

    fn score() -> Score {
        Score { seeds: 1000, visits: 1_234_567, nonces: 5, received: 999, ..Score::default() }
    }

    fn found(failure: Option<Broken>) -> Searched {
        Searched {
            schema: SCHEMA.into(),
            topology: "x".into(),
            network: Network::default(),
            seeds: Seeds { first: 0, count: 4000 },
            shard: None,
            partial: false,
            holds: failure.is_none(),
            score: Counts::from(&score()),
            failure,
        }
    }

    fn broken(seed: u64, written: &Result<Written, String>) -> Broken {
        let (place, what) = ("gw1".to_owned(), "two of them".to_owned());
        let (invariant, at) = (Invariant::NonceOnce, Instant::from_millis(3));
        let finding = Finding { invariant, at, place, what };
        let case = Case { seed, ..Case::default() };
        let small = Shrunk { case: case.clone(), finding: finding.clone(), runs: 9 };
        Broken::of(&Failure { case, finding }, &small, &Names::default(), written)
    }

    #[test]
    fn search_tells_what_it_looked_at_and_how_far_it_is() {
        let whole = found(None);
        let text = told(Paint::plain(80), &whole, Some(Duration::from_millis(2500)));
        assert!(text.starts_with("x: every promise holds under 1,000 seeds\n"), "{text}");
        assert!(text.contains("traffic entries; 2.5 s\n"), "{text}");
        assert!(text.contains("        1,234,567  frames at nodes\n"), "{text}");
        let value: Value = serde_json::from_str(&whole.json()).unwrap();
        assert_eq!((&value["holds"], &value["score"]["visits"]), (&json!(true), &json!(1_234_567)));
        let line = progress(&score(), 4000, Duration::from_secs(2));
        assert_eq!(line, "1,000 of 4,000 seeds, 500 in a second, about 6 s left");
        let part = Searched { partial: true, ..whole };
        let text = told(Paint::plain(80), &part, None);
        let verdict = "x: stopped: every promise holds under 1,000 seeds of 4,000\n";
        assert!(text.starts_with(verdict), "{text}");
    }

    #[test]
    fn search_tells_the_seed_what_is_left_and_how_to_repeat_it() {
        let recording = PathBuf::from("x-seed-17/recording.toml");
        let report = found(Some(broken(17, &Ok(Written { recording, captures: 3 }))));
        let text = told(Paint::plain(80), &report, None);
        assert!(text.starts_with("x: seed 17 breaks `nonce-once`\n"), "{text}");
        assert!(text.contains("  nonce-once at 0.003000000s (gw1): two of them\n"), "{text}");
        assert!(text.contains("ferrule lab run x-seed-17/recording.toml"), "{text}");
        let value: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&value["seed"], &value["holds"]), (&json!(17), &json!(false)));
        assert_eq!(value["finding"]["invariant"], "nonce-once");
        assert_eq!(serde_json::from_str::<Searched>(&report.json()).unwrap(), report);
        let text = told(Paint::plain(80), &found(Some(broken(17, &Err("no room".into())))), None);
        assert!(text.contains("No recording: no room"), "{text}");
    }

    #[test]
    fn search_of_all_shards_has_the_lowest_seed_that_fails_and_counts_all() {
        let shard =
            |index, failure| Searched { shard: Some(Shard { index, of: 3 }), ..found(failure) };
        let written = Err("no room".to_owned());
        let parts = vec![
            shard(1, Some(broken(40, &written))),
            shard(0, Some(broken(17, &written))),
            shard(2, None),
        ];
        let all = Searched::join(parts.clone()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((all.score.seeds, all.holds, all.shard), (3000, false, None));
        assert_eq!(all.failure.map(|f| f.seed), Some(17));
        let fault = Searched::join(parts[..2].to_vec()).expect_err("one is missing");
        assert!(fault.to_string().contains("part 2/3 is missing"), "{fault}");
        let mut other = parts;
        other[2].topology = "y".into();
        assert!(Searched::join(other).is_err());
    }
}
