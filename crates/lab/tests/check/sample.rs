//! Seeds under which everything must hold.

use crate::ten::Ten;
use ferrule_base::Duration;
use ferrule_lab::check::{Case, Rig, campaign, run};

/// How long hosts send.
pub const LENGTH: Duration = Duration::from_millis(50);

#[test]
fn ten_nodes_carry_everything_when_nothing_disturbs_them() {
    let ten = Ten::new(LENGTH);
    let case = Case { length_ns: LENGTH.as_nanos() as u64, flows: (0..8).collect(), ..Case::default() };
    let outcome = run(&ten, &case, &Rig::default(), false);
    assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
    for flow in &outcome.flows { eprintln!("{flow:?}"); }
    eprintln!("{:?} {} {} {}", outcome.replay, outcome.nonces, outcome.visits, outcome.end);
}

#[test]
fn check_holds_every_invariant_over_a_sample_of_seeds() {
    let ten = Ten::new(LENGTH);
    let mut score = campaign::Score::default();
    for seed in 0..std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(30) {
        let (outcome, failure) = campaign::seed(&ten, seed, &Rig::default());
        score.add(&outcome);
        if let Some(failure) = failure {
            eprintln!("seed {seed}: {} ({} findings)", failure.finding, outcome.findings.len());
        }
    }
    eprintln!("{score:?}");
}
