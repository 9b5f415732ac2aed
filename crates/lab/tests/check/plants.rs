//! Bugs that are planted around nodes, and what the campaign makes of them. None
//! of them is in the product: a rig gives a node another configuration, engine or
//! counter store than the checkers hold it to.

use crate::sample::LENGTH;
use crate::ten::Ten;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, Job, Jobs, KeyId, KeySpec, Op, Verdict};
use ferrule_lab::LabEngine;
use ferrule_lab::check::shrink::Shrunk;
use ferrule_lab::check::{Failure, Invariant, Rig, campaign, run};
use ferrule_lab::topology::{Shipped, TopologySubject};
use ferrule_node::{Config, Counter, CounterStore, StoreError};
use ferrule_pipeline::Packet;
use std::collections::HashMap;
use std::sync::Arc;

/// Seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

/// Searches, and tells how many seeds it took.
fn find(what: &str, rig: &Rig, invariant: Invariant, place: &str) -> Failure {
    let ten = Ten::new(LENGTH);
    let (score, failure) = campaign::search(&ten, 0..SEEDS, rig, &mut |_| false);
    let failure = failure.unwrap_or_else(|| panic!("{what}: not found in {SEEDS} seeds"));
    println!("{what}: found by seed {} of {SEEDS}: {}", score.seeds, failure.finding);
    assert_eq!(failure.finding.invariant, invariant, "{}", failure.finding);
    assert!(failure.finding.place.contains(place), "{}", failure.finding);
    failure
}

/// Makes it small. What is left shows the same, again, and only with the bug.
fn small(failure: Failure, rig: &Rig) -> Shrunk {
    let ten = Ten::new(LENGTH);
    let (invariant, parts) = (failure.finding.invariant, failure.case.size());
    let small = campaign::small(&ten, failure, rig);
    println!("  {} of {parts} parts left: {:?}", small.case.size(), small.case);
    assert_eq!(small.finding.invariant, invariant, "{}", small.finding);
    let again = run(&ten, &small.case, rig, false);
    assert!(again.findings.contains(&small.finding), "{:?}", again.findings);
    let sound = run(&ten, &small.case, &Rig::default(), false);
    assert!(sound.findings.is_empty(), "{:?}", sound.findings);
    small
}

/// A node whose windows are as `change` makes them.
fn windows(node: &'static str, change: fn(u32) -> u32) -> Rig {
    let config = move |name: &str, config: &mut Config| {
        if name == node {
            config.tunnels.iter_mut().for_each(|t| t.window = change(t.window));
            config.secys.iter_mut().for_each(|s| s.entity.window = change(s.entity.window));
        }
    };
    Rig { config: Some(Arc::new(config)), ..Rig::default() }
}

#[test]
fn check_finds_a_replay_window_off_by_one() {
    find("MACsec window one larger", &windows("ce1", |w| w + 1), Invariant::Replay, "ce1");
    find("MACsec window one smaller", &windows("ce1", |w| w - 1), Invariant::Replay, "ce1");
    find("ESP, XPN window one smaller", &windows("gw2", |w| w - 1), Invariant::Replay, "gw2");
    let rig = windows("gw2", |w| w + 1);
    let failure = find("ESP, XPN window one larger", &rig, Invariant::Replay, "gw2");
    let small = small(failure, &rig);
    let parts = small.case.size() - small.case.flows.len();
    assert!(parts <= 4, "what reorders, and little else: {:?}", small.case);
}

/// A counter store that has forgotten, after a restart, the last values it was given.
struct Forgetful {
    inner: Box<dyn CounterStore>,
    last: HashMap<[u8; 16], u64>,
}

impl CounterStore for Forgetful {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        self.inner.open(name, record)
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        match self.last.insert(record, limit) {
            Some(before) => self.inner.reserve(record, before),
            None => Ok(()),
        }
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.inner.keep_edge(record, edge)
    }
}

#[test]
fn check_finds_a_reused_nonce() {
    let store = |name: &str, inner: Box<dyn CounterStore>| -> Box<dyn CounterStore> {
        if name == "gw1" { Box::new(Forgetful { inner, last: HashMap::new() }) } else { inner }
    };
    let rig = Rig { store: Some(Arc::new(store)), ..Rig::default() };
    let small = small(find("a counter that forgets", &rig, Invariant::NonceOnce, "gw1"), &rig);
    assert_eq!(small.case.disturbance.len(), 1, "one crash: {:?}", small.case);
    assert_eq!((small.case.impairment.len(), small.case.late.len()), (0, 0));
    assert!(small.finding.what.contains("of gw1"), "{}", small.finding);
    assert!(small.finding.at > Instant::ZERO, "{}", small.finding);
}

/// An engine that says of each so-manieth packet that it is sealed.
struct Leaking {
    inner: LabEngine,
    sealed: u64,
}

impl Engine<Packet> for Leaking {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        self.inner.install(spec)
    }

    fn retire(&mut self, key: KeyId) {
        self.inner.retire(key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        for job in jobs.iter_mut().filter(|job| job.op == Op::Seal) {
            self.sealed += 1;
            if self.sealed.is_multiple_of(60) {
                job.verdict = Verdict::Done;
            }
        }
        self.inner.submit(now, jobs);
    }

    fn run_beside(&mut self, now: Instant, buffers: &mut [Packet], jobs: &mut [Job<()>]) {
        for job in jobs.iter_mut().filter(|job| job.op == Op::Seal) {
            self.sealed += 1;
            if self.sealed.is_multiple_of(60) {
                job.verdict = Verdict::Done;
            }
        }
        self.inner.run_beside(now, buffers, jobs);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<Packet>) {
        self.inner.collect(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn is_immediate(&self) -> bool {
        self.inner.is_immediate()
    }
}

#[test]
fn check_finds_a_frame_leaked_in_clear() {
    for node in ["gw1", "ce2"] {
        let engine = move |name: &str, inner: LabEngine| -> LabEngine {
            if name == node { Box::new(Leaking { inner, sealed: 0 }) } else { inner }
        };
        let rig = Rig { engine: Some(Arc::new(engine)), ..Rig::default() };
        let small = small(find("a frame in clear", &rig, Invariant::NoClearText, node), &rig);
        assert_eq!(small.case.size(), small.case.flows.len(), "traffic is enough");
    }
}

/// An engine that never gives back one of the packets that it was to seal.
struct Hoarding {
    inner: LabEngine,
    seen: u64,
    kept: Jobs<Packet>,
}

impl Engine<Packet> for Hoarding {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        self.inner.install(spec)
    }

    fn retire(&mut self, key: KeyId) {
        self.inner.retire(key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        let sealed = jobs.iter().filter(|job| job.op == Op::Seal).count() as u64;
        self.seen += sealed;
        if self.seen >= 60 && self.kept.is_empty() && sealed > 0 {
            self.kept.extend(jobs.pop());
        }
        self.inner.submit(now, jobs);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<Packet>) {
        self.inner.collect(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.kept.len()
    }
}

/// The same behind a transfer that goes on for longer than the checkers wait for rest.
#[test]
fn check_finds_a_packet_that_an_engine_keeps() {
    let engine = |name: &str, inner: LabEngine| -> LabEngine {
        match name {
            "gw1" => Box::new(Hoarding { inner, seen: 0, kept: Jobs::new() }),
            _ => inner,
        }
    };
    let rig = Rig { engine: Some(Arc::new(engine)), ..Rig::default() };
    let topology = Shipped::named("two-gateways").expect("it is shipped").topology(None);
    let topology = topology.unwrap_or_else(|e| panic!("{e}"));
    let subject = TopologySubject::new(topology, Duration::from_millis(300));
    let (_, slow) = campaign::seed(&subject, 43, &rig);
    let (score, first) = campaign::search(&subject, 0..100, &rig, &mut |_| false);
    println!("a packet that an engine keeps: found by seed {} of 100", score.seeds);
    for failure in [slow, first] {
        let failure = failure.expect("a finding");
        assert_eq!(failure.finding.invariant, Invariant::ComesToRest, "{}", failure.finding);
    }
}
