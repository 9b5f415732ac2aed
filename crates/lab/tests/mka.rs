//! Customer edges keyed by MKA through a provider's pseudowire: loss, duplicates and disorder on
//! the core, an edge that is killed, clocks that jump. Nothing passes in clear, and all is well
//! once the trouble is over.

use ferrule_base::{Duration, Instant, Rng};
use ferrule_lab::host::{Outcome, Schedule};
use ferrule_lab::topology::{Disturbance, Kind, Setting, Shipped, Topology, Traffic, Upset};
use ferrule_lab::{Impairments, LinkId, Observer, Sighting};
use std::any::Any;
use std::collections::BTreeSet;

/// The core is impaired until then; edges are killed and clocks jump before.
const TROUBLE: Instant = Instant::from_millis(12_000);
/// A life time, and what follows, after that everything passes.
const CALM: Instant = Instant::from_millis(22_000);
const END: Duration = Duration::from_secs(27);

/// EtherTypes on the edges' lines.
struct Lines {
    links: Vec<LinkId>,
    seen: BTreeSet<u16>,
}

impl Observer for Lines {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        if self.links.contains(&seen.link)
            && let Some(&[high, low]) = frame.get(12..14)
        {
            self.seen.insert(u16::from_be_bytes([high, low]));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

fn ping(topology: &Topology, start: Instant, stop: Instant, count: Option<u64>) -> Traffic {
    let kind = Kind::Ping(98, Schedule::every(Duration::from_millis(20)));
    let address = topology.hosts[1].addresses[0].0;
    Traffic { kind, from: 0, to: 1, address, start, stop: Some(stop), count, window: 1 << 16 }
}

/// Two sites whose trouble is drawn.
fn troubled(seed: u64) -> Topology {
    let shipped = Shipped::named("two-sites").expect("it is shipped");
    let mut topology = shipped.topology(Some("macsec-mka")).unwrap_or_else(|e| panic!("{e}"));
    let end = Instant::ZERO + END;
    topology.traffic = vec![
        ping(&topology, Instant::from_millis(50), CALM, None),
        ping(&topology, CALM, end, Some(200)),
    ];
    let mut rng = Rng::new(seed);
    let share = |rng: &mut Rng| rng.below(300) as f64 / 1000.0;
    let impaired = Impairments {
        loss: share(&mut rng),
        duplicate: share(&mut rng),
        reorder: share(&mut rng),
        ..Impairments::default()
    };
    let at = |ms: u64| Instant::from_millis(ms);
    let core = topology.links.iter().position(|link| link.name == "p-pe2").expect("a core");
    let edge = |rng: &mut Rng| {
        let name = ["ce1", "ce2"][rng.below(2) as usize];
        topology.nodes.iter().position(|node| node.name == name).expect("an edge")
    };
    let down = Duration::from_millis(1 + rng.below(2000));
    let by = Duration::from_millis(rng.below(10_000));
    let all = [
        (at(0), Upset::Impair(core, impaired)),
        (at(500 + rng.below(9000)), Upset::Restart(edge(&mut rng), down)),
        (at(500 + rng.below(9000)), Upset::ClockJump(edge(&mut rng), by)),
        (TROUBLE, Upset::Impair(core, Impairments::default())),
    ];
    topology.disturbances = all.into_iter().map(|(at, what)| Disturbance { at, what }).collect();
    topology
}

#[test]
fn edges_that_agree_on_keys_survive_trouble_and_say_nothing_in_clear() {
    let (mut in_trouble, mut rekeyed) = (0, 0);
    for seed in 0..30 {
        let topology = troubled(seed);
        let setting = Setting { seed, length: END };
        let mut lab = topology.build(setting).unwrap_or_else(|e| panic!("{e}"));
        let of_edges = |name: &&str| name.contains("ce1-pe1") || name.contains("pe2-ce2");
        let names: Vec<&str> = topology.links.iter().map(|link| &*link.name).collect();
        let links: Vec<_> =
            (0..names.len()).filter(|&at| of_edges(&names[at])).map(|at| lab.links[at]).collect();
        assert_eq!(links.len(), 2, "{names:?}");
        lab.network.observe(Box::new(Lines { links, seen: BTreeSet::new() }));
        lab.run();
        assert_eq!(lab.findings.first(), None, "seed {seed}");
        let [Some(Outcome::Ping(before)), Some(Outcome::Ping(after))] = lab.outcomes()[..] else {
            panic!("two pings")
        };
        assert_eq!((after.sent, after.received), (200, 200), "seed {seed}");
        in_trouble += before.received;
        rekeyed += u64::from(before.received < before.sent);
        let lines: &mut Lines = lab.network.observer().expect("it looks on");
        assert_eq!(lines.seen, BTreeSet::from([0x888e, 0x88e5]), "seed {seed}");
    }
    assert!(in_trouble > 5000 && rekeyed > 20, "{in_trouble} {rekeyed}");
}
