//! The topologies that come with Ferrule, under a few seeds each.

use ferrule_base::Duration;
use ferrule_lab::check::{Rig, campaign};
use ferrule_lab::topology::{SHIPPED, TopologySubject};

#[test]
fn check_holds_every_invariant_in_each_shipped_topology() {
    let seeds = std::env::var("FERRULE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(6);
    for shipped in SHIPPED {
        let topology = shipped.topology(None).unwrap_or_else(|e| panic!("{e}"));
        let subject = TopologySubject::new(topology, Duration::from_millis(50));
        let rig = Rig::default();
        for seed in 0..seeds {
            let (o, failure) = campaign::seed(&subject, seed, &rig);
            if let Some(f) = failure { println!("{} {seed}: {}", shipped.name, f.finding); }
            if seed < 1 { println!("{} {:?} {:?} {}", shipped.name, o.replay, o.flows.iter().map(|f| f.received).collect::<Vec<_>>(), o.visits); }
        }
    }
}
