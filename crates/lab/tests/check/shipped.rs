//! The topologies that come with Ferrule, under a few seeds each.

use ferrule_base::Duration;
use ferrule_lab::check::{Rig, Score, campaign};
use ferrule_lab::topology::{SHIPPED, Shipped, TopologySubject};

/// How long hosts send.
const LENGTH: Duration = Duration::from_millis(60);

fn score(shipped: &Shipped, seeds: u64) -> Score {
    let topology = shipped.topology(None).unwrap_or_else(|e| panic!("{e}"));
    let subject = TopologySubject::new(topology, LENGTH);
    let (score, failure) = campaign::search(&subject, 0..seeds, &Rig::default(), &mut |_| false);
    assert!(failure.is_none(), "{}: {failure:#?}", shipped.name);
    println!("{}: {score:?}", shipped.name);
    score
}

#[test]
fn check_holds_every_invariant_in_each_shipped_topology() {
    for shipped in SHIPPED {
        let score = score(shipped, 4);
        assert!(score.received > 0, "{}: {score:?}", shipped.name);
    }
}

#[test]
fn check_holds_every_invariant_in_the_shipped_ten_node_network() {
    let ten = Shipped::named("ten-nodes").expect("it is shipped");
    let nodes = ten.topology(None).unwrap_or_else(|e| panic!("{e}")).nodes;
    assert_eq!(nodes.len(), 10);
    assert!(nodes.iter().any(|n| !n.config.tunnels.is_empty()), "IPsec");
    assert!(nodes.iter().any(|n| !n.config.secys.is_empty()), "MACsec");
    let score = score(ten, 30);
    // Two ESP and eight MACsec associations, at each seed.
    assert_eq!(score.replay.compared + score.replay.left_out, 30 * 10, "{score:?}");
    assert!(score.replay.compared > 20 * score.replay.left_out, "{score:?}");
    assert!(score.replay.rejected > 30 * 5, "{score:?}");
    assert!(score.received > 30 * 60, "{score:?}");
}
