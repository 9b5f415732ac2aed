//! Protocols that give gateways orders all the time, in virtual time: new keys for a tunnel, and
//! routes. Each order is answered within milliseconds, no packet is lost or overtaken, no nonce
//! comes twice.

use ferrule_base::{Duration, Instant, Rng, Secret};
use ferrule_crypto::{Aes, KeySpec, Place, Suite};
use ferrule_lab::host::{Outcome, Schedule};
use ferrule_lab::topology::{Kind, Lab, Setting, Shipped, Topology, Traffic};
use ferrule_node::{AgreedSa, Delta, DynamicRoute, NextHop, RouteName, Sa, SaOrder, Token};
use std::collections::HashMap;

/// 500 pairs of SAs a second for each gateway: 1,000 are added and 1,000 dropped.
const EVERY: Duration = Duration::from_millis(2);
const START: Instant = Instant::from_millis(100);
const BEGIN: Instant = Instant::from_millis(200);
const LAST: Instant = Instant::from_millis(1180);
const STOP: Instant = Instant::from_millis(1190);
const END: Instant = Instant::from_millis(1200);
/// From an order to its answer.
const ANSWERED: Duration = Duration::from_millis(5);

fn two_gateways(seed: u64) -> Topology {
    let shipped = Shipped::named("two-gateways").expect("it is shipped");
    let mut topology = shipped.topology(None).unwrap_or_else(|e| panic!("{e}"));
    let mut rng = Rng::new(seed);
    for node in &mut topology.nodes {
        node.profile.batch = 1 + rng.below(64) as usize;
        node.profile.timer = Duration::from_micros(rng.below(100));
    }
    let udp = |from: usize, to: usize| Traffic {
        kind: Kind::Udp(200, Schedule::every(Duration::from_micros(50))),
        from,
        to,
        address: topology.hosts[to].addresses[0].0,
        start: START,
        stop: Some(STOP),
        count: None,
        window: 1 << 16,
    };
    topology.traffic = vec![udp(0, 1), udp(1, 0)];
    topology
}

/// Keying of both gateways: it knows what it ordered, when and of whom.
struct Keying {
    rng: Rng,
    spi: u32,
    given: HashMap<(usize, Token), (Instant, SaOrder)>,
    /// New SAs of the exchange under way: added inbound, added outbound.
    coming: [Vec<Sa>; 2],
    used: [Vec<Sa>; 2],
    /// Keys that the other end is told once it can be sent to with them.
    agreed: [Option<AgreedSa>; 2],
    slowest: Duration,
    dropped: usize,
}

impl Keying {
    fn give(&mut self, lab: &mut Lab, node: usize, order: SaOrder) {
        let (id, now) = (lab.devices[node], lab.network.now());
        let control = lab.network.device_mut(id).control_mut().expect("it is up");
        let token = control.order(order.clone());
        assert!(self.given.insert((node, token), (now, order)).is_none());
    }

    fn begin(&mut self, lab: &mut Lab) {
        assert!(self.coming.iter().all(Vec::is_empty), "one exchange after the other");
        self.spi += 2;
        for node in [0, 1] {
            let mut key = vec![0; 20];
            self.rng.fill(&mut key);
            let sa = AgreedSa {
                lifetimes: Default::default(),
                tunnel: "sites".into(),
                spi: 0x4000_0000 + self.spi + node as u32,
                keys: KeySpec {
                    suite: Suite::AesGcm(Aes::Aes128),
                    key: Secret::new(key[..16].to_vec()),
                    mac_key: Secret::new(Vec::new()),
                    place: Place::Software,
                },
                salt: Secret::new(key[16..].to_vec()),
                worker: 0,
            };
            self.agreed[node] = Some(sa.clone());
            self.give(lab, node, SaOrder::AddInbound(sa));
        }
    }

    /// Takes answers, and goes on: receive, then send, then let go of what was before.
    fn hear(&mut self, lab: &mut Lab) {
        for node in [0, 1] {
            let id = lab.devices[node];
            let now = lab.network.now();
            loop {
                let control = lab.network.device_mut(id).control_mut().expect("it is up");
                let Some((token, answer)) = control.poll_answer() else { break };
                let (given, order) = self.given.remove(&(node, token)).expect("asked for once");
                self.slowest = self.slowest.max(now.since(given));
                let sa = answer.unwrap_or_else(|why| panic!("{order:?}: {why:?}"));
                match order {
                    SaOrder::AddInbound(_) => {
                        self.coming[node].push(sa);
                        // This end receives: the other one may send.
                        let sa = self.agreed[node].take().expect("keys");
                        self.give(lab, 1 - node, SaOrder::AddOutbound(sa));
                    }
                    SaOrder::AddOutbound(_) => {
                        self.coming[node].push(sa);
                        self.give(lab, node, SaOrder::Use(sa, None));
                    }
                    SaOrder::Use(..) | SaOrder::Move(..) => {}
                    SaOrder::Drop(_) => self.dropped += 1,
                }
            }
        }
    }

    fn hear_until(&mut self, lab: &mut Lab, now: &mut Instant, end: Instant) {
        while *now < end {
            *now += Duration::from_micros(50);
            lab.network.advance(*now);
            self.hear(lab);
        }
    }

    /// Both ends send with the new keys; what was sent with the old ones has arrived.
    fn end(&mut self, lab: &mut Lab) {
        for node in [0, 1] {
            let new = std::mem::take(&mut self.coming[node]);
            assert_eq!(new.len(), 2);
            for old in std::mem::replace(&mut self.used[node], new) {
                self.give(lab, node, SaOrder::Drop(old));
            }
        }
    }
}

#[test]
fn keys_change_five_hundred_times_a_second_and_nothing_is_lost() {
    for seed in 0..12 {
        let topology = two_gateways(seed);
        let length = END.since(Instant::ZERO);
        let mut lab = topology.build(Setting { seed, length }).unwrap_or_else(|e| panic!("{e}"));
        let mut keying = Keying {
            rng: Rng::new(seed),
            spi: 0,
            given: HashMap::new(),
            coming: Default::default(),
            used: Default::default(),
            agreed: Default::default(),
            slowest: Duration::ZERO,
            dropped: 0,
        };
        lab.network.advance(BEGIN);
        let (mut now, mut exchanges) = (BEGIN, 0);
        while now < LAST {
            keying.begin(&mut lab);
            exchanges += 1;
            let next = now + EVERY;
            keying.hear_until(&mut lab, &mut now, next);
            keying.end(&mut lab);
        }
        keying.hear_until(&mut lab, &mut now, END);
        lab.run();
        assert_eq!(lab.findings.first(), None, "seed {seed}");
        assert!(keying.given.is_empty(), "seed {seed}: {:?}", keying.given);
        assert_eq!(keying.dropped, 4 * (exchanges - 1), "seed {seed}");
        assert!(keying.slowest <= ANSWERED, "seed {seed}: {:?}", keying.slowest);
        for outcome in lab.outcomes() {
            let Some(Outcome::Udp(udp)) = outcome else { panic!("datagrams") };
            assert!(udp.sent > 15_000, "seed {seed}: {udp:?}");
            let arrived = (udp.received, udp.duplicates, udp.reordered);
            assert_eq!(arrived, (udp.sent, 0, 0), "seed {seed}");
        }
    }
}

/// A batch for a gateway: other routes, and one that its traffic takes, or takes no longer.
fn batch(rng: &mut Rng, node: usize, has_own: &mut bool) -> Vec<Delta> {
    let hop = NextHop {
        via: Some([192, 0, 2, 2 - node as u8].into()),
        interface: rng.one_in(2).then(|| "wan".into()),
        labels: Vec::new(),
    };
    let set = |prefix: String, paths| {
        let (vrf, prefix) = (String::new(), prefix.parse().expect("a prefix"));
        Delta::SetRoute(DynamicRoute { vrf, prefix, paths, pipe: false, entropy_label: false })
    };
    let own = format!("10.{}.0.0/25", 2 - node);
    let mut deltas: Vec<Delta> = (0..rng.below(4))
        .map(|n| set(format!("10.{}.{n}.0/24", 100 + rng.below(50)), vec![hop.clone()]))
        .collect();
    if std::mem::replace(has_own, !*has_own) {
        let (vrf, prefix) = (String::new(), own.parse().expect("a prefix"));
        deltas.push(Delta::DropRoute(RouteName { vrf, prefix }));
    } else {
        let paths = vec![hop.clone(); 1 + rng.below(2) as usize];
        deltas.push(set(own, paths));
    }
    deltas
}

#[test]
fn routes_change_a_thousand_times_a_second_and_nothing_is_lost() {
    for seed in 0..12 {
        let topology = two_gateways(seed);
        let length = END.since(Instant::ZERO);
        let mut lab = topology.build(Setting { seed, length }).unwrap_or_else(|e| panic!("{e}"));
        let (mut rng, mut has_own) = (Rng::new(seed), [false; 2]);
        let mut given: HashMap<(usize, Token), Instant> = HashMap::new();
        let (mut slowest, mut answers) = (Duration::ZERO, 0);
        lab.network.advance(BEGIN);
        let mut now = BEGIN;
        for step in 0.. {
            if now >= END {
                break;
            }
            for node in [0, 1] {
                let control = lab.network.device_mut(lab.devices[node]).control_mut();
                let control = control.expect("it is up");
                if step % 20 == 10 * node && now < LAST {
                    let deltas = batch(&mut rng, node, &mut has_own[node]);
                    given.insert((node, control.change_entries(now, deltas)), now);
                }
                while let Some((token, answer)) = control.poll_changed() {
                    assert_eq!(answer, Ok(()), "seed {seed}");
                    let begun = given.remove(&(node, token)).expect("asked for once");
                    slowest = slowest.max(now.since(begun));
                    answers += 1;
                }
            }
            now += Duration::from_micros(50);
            lab.network.advance(now);
        }
        lab.run();
        assert_eq!(lab.findings.first(), None, "seed {seed}");
        assert!(given.is_empty() && answers > 1_900, "seed {seed}: {answers}, {given:?}");
        assert!(slowest <= ANSWERED, "seed {seed}: {slowest:?}");
        for outcome in lab.outcomes() {
            let Some(Outcome::Udp(udp)) = outcome else { panic!("datagrams") };
            let arrived = (udp.received, udp.duplicates, udp.reordered);
            assert_eq!(arrived, (udp.sent, 0, 0), "seed {seed}");
        }
    }
}
