//! Orders and their answers: late, in any order, refused.

use super::laws::{Step, step};
use super::rig::*;
use crate::Core;
use crate::neighbour::config::{AGAIN, ENTRIES_MAX, REFUSAL_TOLD};
use crate::neighbour::{Command, Discovery, Event, Key, News, Order, State};
use crate::tests::LatePath;
use ferrule_base::{Duration, MacAddr, Rng};
use ferrule_wire::arp::Operation::{Reply, Request};
use proptest::prelude::*;
use std::collections::BTreeMap;

const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

fn refused(neighbour: &str) -> Wish {
    Wish::News(News::Refused { iface: IFACE, ip: ip(neighbour), why: "no room".into() })
}

fn state(rig: &Rig, neighbour: &str) -> Option<State> {
    rig.core.state(IFACE, ip(neighbour))
}

#[test]
fn neighbour_that_the_data_path_refuses_is_unreachable_for_a_while() {
    let mut rig = Rig::new();
    rig.is_full = true;
    rig.resolve("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    let told = [set("10.0.0.2", ALICE), unreachable("10.0.0.2"), refused("10.0.0.2")];
    assert_eq!(rig.events(), told);
    assert_eq!(state(&rig, "10.0.0.2"), Some(State::Refused));
    rig.sent();
    // Packets for it do not wait, and nothing that it says is tried again meanwhile.
    rig.resolve("10.0.0.2");
    assert_eq!(rig.events(), [unreachable("10.0.0.2")]);
    for mac in [ALICE, BOB] {
        rig.hear(&arp(Request, mac, "10.0.0.2", "10.0.0.2")).unwrap();
    }
    assert!(rig.events().is_empty() && rig.sent().is_empty());
    rig.pass(AGAIN.as_millis() as u64);
    assert!(rig.core.is_empty() && rig.timer().is_none() && rig.events().is_empty());
    // There is room now.
    rig.is_full = false;
    rig.resolve("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    assert_eq!(state(&rig, "10.0.0.2"), Some(State::Reachable(ALICE)));
}

#[test]
fn neighbour_that_moved_and_is_refused_is_not_sent_to_where_it_was() {
    let mut rig = Rig::new();
    rig.hear(&arp(Request, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    rig.is_full = true;
    rig.hear(&arp(Request, BOB, "10.0.0.2", "10.0.0.1")).unwrap();
    let (moved, gone) = (set("10.0.0.2", BOB), remove("10.0.0.2"));
    assert_eq!(rig.events(), [moved, gone, unreachable("10.0.0.2"), refused("10.0.0.2")]);
}

#[test]
fn next_hop_of_the_configuration_that_is_refused_is_tried_again_without_a_storm() {
    let mut rig = Rig::new();
    rig.is_full = true;
    rig.keep("10.0.0.2");
    for _ in 0..600 {
        rig.pass(100);
        // The neighbour answers every question, and sends unsolicited announcements.
        rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
        rig.hear(&arp(Request, BOB, "10.0.0.2", "10.0.0.2")).unwrap();
    }
    let events = rig.events();
    let count = |wish: &Wish| events.iter().filter(|event| *event == wish).count();
    let (orders, told) = (count(&set("10.0.0.2", ALICE)), count(&refused("10.0.0.2")));
    let minute = Duration::from_secs(60).as_secs();
    assert!((8..=minute / AGAIN.as_secs()).contains(&(orders as u64)), "{orders} orders");
    assert!((3..=minute / REFUSAL_TOLD.as_secs()).contains(&(told as u64)), "{told} told");
    assert_eq!(count(&set("10.0.0.2", BOB)), 0);
    rig.is_full = false;
    for _ in 0..60 {
        rig.pass(100);
        rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    }
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    assert_eq!(state(&rig, "10.0.0.2"), Some(State::Reachable(ALICE)));
}

#[test]
fn neighbours_that_are_refused_do_not_keep_out_who_is_needed() {
    let mut rig = Rig::new();
    let mut wide = interface();
    wide.v4[0].1 = 8;
    rig.command(Command::Interface(wide));
    rig.is_full = true;
    for n in 0..ENTRIES_MAX {
        let sender = format!("10.1.{}.{}", n / 200, 1 + n % 200);
        rig.hear(&arp(Request, MALLORY, &sender, "10.0.0.1")).unwrap();
    }
    assert_eq!(rig.core.len(), ENTRIES_MAX);
    let told = rig.events().into_iter().filter(|e| matches!(e, Wish::News(News::Refused { .. })));
    assert_eq!(told.count(), 1, "people are told once of all of them");
    (rig.is_full, rig.sent) = (false, Vec::new());
    rig.resolve("10.9.9.9");
    rig.hear(&arp(Reply, ALICE, "10.9.9.9", "10.0.0.1")).unwrap();
    assert_eq!(state(&rig, "10.9.9.9"), Some(State::Reachable(ALICE)));
}

#[test]
fn packet_that_waits_is_told_of_even_if_the_neighbour_goes_before_its_order() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    // The node does not poll meanwhile.
    let reply = arp(Reply, ALICE, "10.0.0.2", "10.0.0.1");
    rig.core.handle_message(rig.now, IFACE, &reply).unwrap();
    rig.command(Command::Gone(IFACE));
    assert_eq!(rig.events(), [unreachable("10.0.0.2")]);
}

#[test]
fn neighbours_are_forgotten_with_the_carrier_and_next_hops_asked_for_when_it_comes() {
    let mut rig = Rig::new();
    rig.keep("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    rig.hear(&arp(Request, BOB, "10.0.0.3", "10.0.0.1")).unwrap();
    (_, rig.sent) = (rig.events(), Vec::new());
    rig.command(Command::Carrier(IFACE));
    let gone = [remove("10.0.0.2"), remove("10.0.0.3")];
    assert!(gone.iter().all(|wish| rig.events.contains(wish)), "{:?}", rig.events);
    assert_eq!(state(&rig, "10.0.0.3"), None);
    // Nobody answers for a while.
    rig.pass(20_000);
    assert_ne!(state(&rig, "10.0.0.2").and_then(State::mac), Some(ALICE));
    (_, rig.sent) = (rig.events(), Vec::new());
    rig.command(Command::Carrier(IFACE));
    assert_eq!(rig.sent().len(), 1, "the next hop is asked for at once");
    rig.hear(&arp(Reply, BOB, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(state(&rig, "10.0.0.2"), Some(State::Reachable(BOB)));
}

/// Steps that often concern the same neighbour, which moves, goes and comes back.
fn of_few() -> impl Strategy<Value = Step> {
    let neighbour = || (2u8..5).prop_map(|n| format!("10.0.0.{n}"));
    let mac = prop::sample::select(vec![ALICE, BOB]);
    let keep = |kept| {
        move |neighbour: String| {
            let (iface, ip) = (IFACE, ip(&neighbour));
            Step::Tell(if kept {
                Command::Keep { iface, ip }
            } else {
                Command::Release { iface, ip }
            })
        }
    };
    prop_oneof![
        12 => (neighbour(), mac, any::<bool>()).prop_map(|(from, mac, asks)| {
            Step::Hear(arp(if asks { Request } else { Reply }, mac, &from, "10.0.0.1"))
        }),
        4 => neighbour().prop_map(Step::Wait),
        1 => neighbour().prop_map(keep(true)),
        1 => neighbour().prop_map(keep(false)),
        2 => Just(Step::Tell(Command::Gone(IFACE))),
        2 => Just(Step::Tell(Command::Carrier(IFACE))),
        4 => Just(Step::Tell(Command::Interface(interface()))),
        4 => (0u64..6_000).prop_map(Step::Pass),
        4 => step(),
    ]
}

/// A data path that takes its time, and may have room or not.
struct Late {
    path: LatePath<Discovery>,
    table: BTreeMap<Key, MacAddr>,
    rng: Rng,
}

impl Late {
    /// Takes some of the orders, answers some of those that it took.
    fn turn(&mut self, rig: &mut Rig, refuses: bool) {
        let Self { path, table, rng } = self;
        let count = rng.below(3);
        path.take(&mut rig.core, count, |order| match *order {
            Order::Set { .. } if refuses && rng.one_in(3) => false,
            Order::Set { iface, ip, mac } => {
                table.insert((iface, ip), mac);
                true
            }
            Order::Remove { iface, ip } => {
                assert!(table.remove(&(iface, ip)).is_some(), "it was set");
                true
            }
        });
        let count = rng.below(3);
        let seen = |core: &Discovery| format!("{core:?}");
        path.answer((rig.now, &mut rig.core), count, rng, seen);
    }

    /// Everything that is under way comes to its end.
    fn settle(&mut self, rig: &mut Rig) {
        for _ in 0..10_000 {
            self.turn(rig, false);
            if rig.core.data_path.pending() == 0 {
                return;
            }
        }
        panic!("orders without end");
    }

    /// The table has the neighbours that the core believes in, and no others.
    fn agrees(&self, rig: &Rig) {
        let believed = rig.core.table.keys(IFACE).into_iter();
        let believed = believed.filter_map(|key| Some((key, rig.core.state(key.0, key.1)?.mac()?)));
        assert_eq!(self.table, believed.collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn neighbour_orders_are_answered_once_and_the_data_path_has_what_is_believed(
        steps in prop::collection::vec(of_few(), 0..120),
        seed in any::<u64>(),
    ) {
        let mut rig = Rig::new();
        let mut late =
            Late { path: LatePath::new(), table: BTreeMap::new(), rng: Rng::new(seed) };
        for step in steps {
            match step {
                Step::Hear(frame) => _ = rig.core.handle_message(rig.now, IFACE, &frame),
                Step::Tell(command) => rig.core.handle_command(rig.now, command),
                Step::Wait(neighbour) => {
                    let waits = Event::Waits { iface: IFACE, ip: ip(&neighbour) };
                    rig.core.handle_event(rig.now, waits);
                }
                Step::Pass(millis) => {
                    rig.now += Duration::from_millis(millis);
                    rig.core.handle_timeout(rig.now);
                }
            }
            late.turn(&mut rig, true);
            if late.rng.one_in(8) {
                late.settle(&mut rig);
                late.agrees(&rig);
            }
        }
        late.settle(&mut rig);
        late.agrees(&rig);
        // The interface goes with orders under way.
        rig.core.handle_message(rig.now, IFACE, &arp(Request, BOB, "10.0.0.5", "10.0.0.1")).ok();
        late.path.take(&mut rig.core, 1, |_| false);
        rig.core.handle_command(rig.now, Command::Gone(IFACE));
        late.settle(&mut rig);
        prop_assert!(late.table.is_empty() && rig.core.is_empty() && late.path.is_done());
    }
}
