//! Result of a search as JSON: of one run, of a shard, of all shards.

use super::record::Written;
use crate::interrupt::PARTIAL;
use crate::shard::Shard;
use ferrule_base::Instant;
use ferrule_daemon::{Blame, Fault};
use ferrule_lab::check::shrink::Shrunk;
use ferrule_lab::check::{Case, Failure, Finding, Names, Score};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// The name and version of the format.
pub const SCHEMA: &str = "ferrule-check/1";

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    pub schema: String,
    pub topology: String,
    pub network: Network,
    pub seeds: Seeds,
    /// A part of the seeds alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Stopped before all seeds were run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Nothing broke.
    pub holds: bool,
    pub score: Counts,
    #[serde(flatten)]
    pub failure: Option<Broken>,
}

/// Size of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub nodes: usize,
    pub links: usize,
    pub flows: usize,
}

impl Network {
    pub fn of(names: &Names) -> Self {
        Self { nodes: names.nodes.len(), links: names.links.len(), flows: names.flows.len() }
    }
}

/// Seeds that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    pub first: u64,
    pub count: u64,
}

/// Amount of work in a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub seeds: u64,
    pub visits: u64,
    pub nonces: u64,
    pub received: u64,
    pub replay: Replay,
}

/// Comparisons with the model of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    pub compared: u64,
    pub left_out: u64,
    pub accepted: u64,
    pub rejected: u64,
}

impl From<&Score> for Counts {
    fn from(score: &Score) -> Self {
        let Score { seeds, visits, nonces, received, replay, .. } = *score;
        let replay = Replay {
            compared: replay.compared,
            left_out: replay.left_out,
            accepted: replay.accepted,
            rejected: replay.rejected,
        };
        Self { seeds, visits, nonces, received, replay }
    }
}

impl Counts {
    const fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.visits += other.visits;
        self.nonces += other.nonces;
        self.received += other.received;
        self.replay.compared += other.replay.compared;
        self.replay.left_out += other.replay.left_out;
        self.replay.accepted += other.replay.accepted;
        self.replay.rejected += other.replay.rejected;
    }
}

/// Seed that fails, with its finding and the smallest case that still fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    pub seed: u64,
    pub finding: Found,
    pub small: Small,
    /// The recording, if it could be written, or why not.
    pub recording: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_recording: Option<String>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    pub invariant: String,
    pub at_ns: u64,
    pub place: String,
    pub what: String,
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            invariant: finding.invariant.name().into(),
            at_ns: finding.at.as_nanos(),
            place: finding.place.clone(),
            what: finding.what.clone(),
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = Instant::from_nanos(self.at_ns);
        write!(f, "{} at {at} ({}): {}", self.invariant, self.place, self.what)
    }
}

/// As little as shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Small {
    pub case: Case,
    pub finding: Found,
    /// Runs that it took, parts at first, and parts that are left.
    pub runs: u64,
    pub parts: usize,
    pub left: usize,
    /// The case in words.
    pub words: Vec<String>,
    pub captures: usize,
}

impl Broken {
    /// A failure, made small and written down.
    pub fn of(
        failure: &Failure,
        small: &Shrunk,
        names: &Names,
        written: &Result<Written, String>,
    ) -> Self {
        Self {
            seed: failure.case.seed,
            finding: (&failure.finding).into(),
            small: Small {
                finding: (&small.finding).into(),
                runs: small.runs as u64,
                parts: failure.case.size(),
                left: small.case.size(),
                words: small.case.words(names),
                captures: written.as_ref().map_or(0, |w| w.captures),
                case: small.case.clone(),
            },
            recording: written.as_ref().ok().map(|w| w.recording.display().to_string()),
            no_recording: written.as_ref().err().cloned(),
        }
    }
}

impl Searched {
    /// The exit status: a finding first, then what is missing.
    pub fn code(&self) -> ExitCode {
        match &self.failure {
            Some(broken) if broken.recording.is_none() => ExitCode::from(super::ENVIRONMENT),
            Some(_) => ExitCode::from(super::FOUND),
            None if self.partial => ExitCode::from(PARTIAL),
            None => ExitCode::SUCCESS,
        }
    }

    /// As a program reads it.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|_| String::new(), |text| text + "\n")
    }

    /// Joint result of all shards: of several failures, the one with the lowest seed.
    pub fn join(parts: Vec<Self>) -> Result<Self, Fault> {
        let wrong = |what: String| {
            let remedy = "give the JSON of every part of one search, each once";
            Fault::new(Blame::Configuration, what, remedy)
        };
        let shards: Option<Vec<Shard>> = parts.iter().map(|part| part.shard).collect();
        let shards = shards.ok_or_else(|| wrong("one is of a whole search".into()))?;
        Shard::all(&shards).map_err(wrong)?;
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return Err(wrong("there is no part".into())) };
        all.shard = None;
        for part in parts {
            if (&part.topology, part.seeds, part.network) != (&all.topology, all.seeds, all.network)
            {
                let of = |s: &Self| {
                    format!("{} seeds of {} from {}", s.seeds.count, s.topology, s.seeds.first)
                };
                return Err(wrong(format!("{} and {} are two searches", of(&part), of(&all))));
            }
            all.score.merge(&part.score);
            all.partial |= part.partial;
            all.holds &= part.holds;
            let first = all.failure.as_ref().map_or(u64::MAX, |f| f.seed);
            if part.failure.as_ref().is_some_and(|f| f.seed < first) {
                all.failure = part.failure;
            }
        }
        Ok(all)
    }
}
