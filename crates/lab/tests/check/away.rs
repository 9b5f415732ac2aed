//! Packets that are sealed and opened elsewhere: by engines beside the nodes, by cards
//! in their ports, with keys on tokens. The same promises hold, whatever fails.

use crate::sample::LENGTH;
use crate::ten::{START, Ten};
use ferrule_base::Instant;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, Job, Jobs, KeyId, KeySpec, Op, Verdict};
use ferrule_lab::LabEngine;
use ferrule_lab::check::case::{At, Away, Disturbance, Upset};
use ferrule_lab::check::{Case, Failure, Invariant, Outcome, Rig, campaign, run};
use ferrule_pipeline::Packet;
use std::sync::Arc;

/// Nodes that seal and open.
const SECURED: [&str; 6] = ["ce1", "ce2", "sw1", "sw2", "gw1", "gw2"];

/// Packets that hosts receive of each flow when nothing is lost.
const ALL: [u64; 8] = [200, 75, 125, 200, 75, 125, 25, 25];

const LOOK_ASIDE: At = At::LookAside { depth: 1024, copies: 2, packet_ns: 10_000, drop: false };

fn case(ten: &Ten, at: At) -> Case {
    let away = SECURED.map(|name| Away { node: ten.place(name), at });
    let (start_ns, length_ns) = (START.as_nanos(), LENGTH.as_nanos() as u64);
    Case { start_ns, length_ns, flows: (0..8).collect(), away: away.into(), ..Case::default() }
}

fn holds(case: &Case, says: &str) -> (Outcome, Vec<u64>) {
    let outcome = run(&Ten::new(LENGTH), case, &Rig::default(), false);
    assert!(outcome.findings.is_empty(), "{says}: {:#?}", outcome.findings);
    let received = outcome.flows.iter().map(|f| f.received).collect();
    (outcome, received)
}

/// The engines of two nodes, or their cards, fail one after the other.
fn fail(ten: &Ten, what: fn(usize) -> Upset) -> Vec<Disturbance> {
    let at = |name, at_ns| Disturbance { at_ns, for_ns: 4_000_000, what: what(ten.place(name)) };
    vec![at("ce1", 10_000_000), at("gw2", 15_000_000)]
}

#[test]
fn check_ten_nodes_carry_everything_look_aside_inline_and_with_tokens() {
    let ten = Ten::new(LENGTH);
    for at in [LOOK_ASIDE, At::Inline, At::Token] {
        let (outcome, received) = holds(&case(&ten, at), &format!("{at:?}"));
        assert_eq!(received, ALL, "{at:?}: all that was sent");
        assert_eq!((outcome.replay.compared, outcome.replay.left_out), (8, 0), "{at:?}");
        // Each frame is sealed once or three times, and opened as often.
        let there = outcome.engines.packets;
        assert_eq!(there > 2 * (450 + 3 * 425), at != At::Token, "{at:?}: {there}");
        assert_eq!(outcome.engines.failures + outcome.engines.resets, 0, "{at:?}");
    }
}

#[test]
fn check_engines_that_are_killed_or_hang_lose_no_order_and_no_secrecy() {
    let ten = Ten::new(LENGTH);
    for (copies, drop) in [(0, false), (0, true), (2, false), (4, true)] {
        for what in [Upset::EngineKill as fn(usize) -> Upset, Upset::EngineHang] {
            let at = At::LookAside { depth: 1024, copies, packet_ns: 20_000, drop };
            let case = Case { disturbance: fail(&ten, what), ..case(&ten, at) };
            let says = format!("{copies} copies, drop {drop}, {:?}", case.disturbance[0].what);
            let (outcome, received) = holds(&case, &says);
            assert_eq!(outcome.engines.failures, 2, "{says}");
            assert_eq!(outcome.engines.fallbacks > 0, !drop, "{says}");
            match (copies, drop) {
                (2.., false) => assert_eq!(received, ALL, "{says}: every packet was here"),
                _ => {
                    let (got, all) = (received.iter().sum::<u64>(), ALL.iter().sum::<u64>());
                    assert!(got < all && got > all / 3, "{says}: {received:?}");
                }
            }
        }
    }
}

#[test]
fn check_cards_that_are_reset_or_fail_lose_no_order_and_no_secrecy() {
    let ten = Ten::new(LENGTH);
    for what in [Upset::CardReset as fn(usize) -> Upset, Upset::CardHalt] {
        let case = Case { disturbance: fail(&ten, what), ..case(&ten, At::Inline) };
        let says = format!("{:?}", case.disturbance[0].what);
        let (outcome, received) = holds(&case, &says);
        let (got, all) = (received.iter().sum::<u64>(), ALL.iter().sum::<u64>());
        match case.disturbance[0].what {
            // Two of the gateway's, and one of the other node; they are filled at once.
            Upset::CardReset(_) => assert!(outcome.engines.resets == 3 && got == all, "{says}"),
            // A card that does not answer is only reset after seconds.
            _ => assert!(outcome.engines.resets == 0 && got < all && got > all / 4, "{says}"),
        }
    }
}

/// An engine that calls jobs done which it could not do.
struct Boasting(LabEngine);

impl Engine<Packet> for Boasting {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        self.0.install(spec)
    }

    fn retire(&mut self, key: KeyId) {
        self.0.retire(key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        self.0.submit(now, jobs);
        boast(jobs);
    }

    fn run_beside(&mut self, now: Instant, buffers: &mut [Packet], jobs: &mut [Job<()>]) {
        self.0.run_beside(now, buffers, jobs);
        boast(jobs);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<Packet>) {
        self.0.collect(now, done);
        boast(done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn is_immediate(&self) -> bool {
        self.0.is_immediate()
    }
}

fn boast<B>(jobs: &mut [Job<B>]) {
    for job in jobs.iter_mut().filter(|job| job.op == Op::Seal) {
        if job.verdict == Verdict::Failed {
            job.verdict = Verdict::Done;
        }
    }
}

#[test]
fn check_finds_an_engine_that_calls_unsealed_packets_done_when_it_fails() {
    let engine = |name: &str, inner: LabEngine| -> LabEngine {
        if name == "ce1" { Box::new(Boasting(inner)) } else { inner }
    };
    let rig = Rig { engine: Some(Arc::new(engine)), ..Rig::default() };
    let ten = Ten::new(LENGTH);
    let at = At::LookAside { depth: 1024, copies: 2, packet_ns: 20_000, drop: true };
    let disturbance = vec![Disturbance {
        at_ns: 20_000_000,
        for_ns: 4_000_000,
        what: Upset::EngineKill(ten.place("ce1")),
    }];
    let case = Case { disturbance, ..case(&ten, at) };
    holds(&case, "with an honest engine");
    let finding = run(&ten, &case, &rig, false).findings.into_iter().next().expect("it is found");
    assert_eq!(finding.invariant, Invariant::NoClearText, "{finding}");
    let small = campaign::small(&ten, Failure { case, finding }, &rig);
    assert_eq!(small.case.away.len(), 1, "an engine beside the node: {:?}", small.case);
    assert_eq!(small.case.disturbance.len(), 1, "that failed: {:?}", small.case);
}
