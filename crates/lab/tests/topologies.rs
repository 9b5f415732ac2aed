//! Shipped topologies as subjects of the search by seed.

use ferrule_base::Duration;
use ferrule_lab::check::{Case, Rig, Subject, run};
use ferrule_lab::topology::{Shipped, TopologySubject};

#[test]
fn ten_nodes_topology_holds_every_invariant_for_a_few_seeds() {
    let topology = Shipped::named("ten-nodes").expect("it is shipped").topology(None);
    let topology = topology.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(topology.nodes.len(), 10);
    let subject = TopologySubject::new(topology, Duration::from_millis(100));
    let (mut received, mut duplicated) = (0, 0);
    for seed in 0..6 {
        let case = Case::draw(seed, &subject.shape());
        let outcome = run(&subject, &case, &Rig::default(), false);
        assert!(outcome.findings.is_empty(), "seed {seed}: {:?}", outcome.findings);
        received += outcome.flows.iter().map(|flow| flow.received).sum::<u64>();
        duplicated += case.impairment.len();
        assert!(outcome.flows.iter().all(|flow| flow.protected));
    }
    assert!(received > 500 && duplicated > 5, "{received} packets, {duplicated} impairments");
}
