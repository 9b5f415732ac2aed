//! ARP as scenes between the node and its neighbours.

use super::rig::*;
use crate::Core;
use crate::neighbour::config::{ENTRIES_MAX, HEARD_MAX, INCOMPLETE_MAX};
use crate::neighbour::{Command, Fault, State, Timer};
use ferrule_base::MacAddr;
use ferrule_wire::arp::Operation::{Reply, Request};
use ferrule_wire::{EtherType, vlan};

const WHO_HAS: &str = "ff:ff:ff:ff:ff:ff: ARP who-has 10.0.0.2 tell 10.0.0.1";

#[test]
fn arp_neighbour_is_asked_for_and_answers() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    assert_eq!(rig.sent(), [WHO_HAS]);
    rig.resolve("10.0.0.2");
    assert!(rig.sent().is_empty(), "one question at a time");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    assert_eq!(rig.core.state(IFACE, ip("10.0.0.2")), Some(State::Reachable(ALICE)));
    rig.resolve("10.0.0.2");
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)], "a late question is answered at once");
}

#[test]
fn arp_question_is_asked_three_times_and_then_given_up() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    rig.pass(2_999);
    assert_eq!(rig.sent(), [WHO_HAS; 3]);
    assert_eq!(rig.events(), []);
    rig.pass(1);
    assert_eq!(rig.events(), [unreachable("10.0.0.2")]);
    assert_eq!((rig.core.len(), rig.timer()), (0, None));
    rig.pass(60_000);
    assert!(rig.sent().is_empty());
}

#[test]
fn arp_neighbour_is_asked_again_and_forgotten_when_gone() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    let (_, _) = (rig.sent(), rig.events());
    rig.pass(30_000);
    assert_eq!(rig.core.state(IFACE, ip("10.0.0.2")), Some(State::Stale(ALICE)));
    rig.pass(5_000);
    let unicast = format!("{ALICE}: ARP who-has 10.0.0.2 tell 10.0.0.1");
    assert_eq!(rig.sent(), std::slice::from_ref(&unicast));
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.core.state(IFACE, ip("10.0.0.2")), Some(State::Reachable(ALICE)));
    assert_eq!(rig.events(), [], "the data path need not know");
    rig.pass(38_000);
    assert_eq!(rig.sent(), [unicast.clone(), unicast.clone(), unicast]);
    assert_eq!(rig.events(), [remove("10.0.0.2"), unreachable("10.0.0.2")]);
    assert!(rig.core.is_empty());
}

#[test]
fn arp_request_for_us_is_answered_and_its_sender_learned() {
    let mut rig = Rig::new();
    rig.hear(&arp(Request, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.sent(), [format!("{ALICE}: ARP 10.0.0.1 is-at {OWN}")]);
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    assert_eq!(rig.core.state(IFACE, ip("10.0.0.2")), Some(State::Stale(ALICE)));
    // Through a VLAN's tag just the same.
    let bytes = arp(Request, ALICE, "10.0.0.3", "10.0.0.1");
    let mut tagged = bytes[..12].to_vec();
    tagged.extend([0x81, 0, 0, 5]);
    tagged.extend(&bytes[12..]);
    assert_eq!(vlan::Repr::parse(&tagged[14..]).unwrap().0.ethertype, EtherType::ARP);
    rig.hear(&tagged).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.3", ALICE)]);
    rig.sent();
    // A sender that is not there is gone in eight seconds.
    rig.pass(8_000);
    assert!(rig.core.is_empty());
}

#[test]
fn arp_probe_for_our_address_is_answered_and_teaches_nothing() {
    let mut rig = Rig::new();
    rig.hear(&arp(Request, ALICE, "0.0.0.0", "10.0.0.1")).unwrap();
    assert_eq!(rig.sent(), [format!("{ALICE}: ARP 10.0.0.1 is-at {OWN}")]);
    assert!(rig.core.is_empty() && rig.events().is_empty());
}

#[test]
fn arp_answers_that_nobody_asked_for_do_not_poison_the_table() {
    let mut rig = Rig::new();
    for operation in [Reply, Request] {
        for target in ["10.0.0.1", "10.0.0.9", "10.0.0.2"] {
            if (operation, target) != (Request, "10.0.0.1") {
                rig.hear(&arp(operation, MALLORY, "10.0.0.2", target)).unwrap();
            }
        }
    }
    assert!(rig.core.is_empty() && rig.events().is_empty() && rig.sent().is_empty());
}

#[test]
fn arp_senders_that_cannot_be_are_refused() {
    let mut rig = Rig::new();
    for (bytes, fault) in [
        (arp(Request, ALICE, "10.0.1.2", "10.0.0.1"), Fault::OffLink),
        (arp(Request, ALICE, "10.0.0.255", "10.0.0.1"), Fault::Address),
        (arp(Request, ALICE, "10.0.0.0", "10.0.0.1"), Fault::Address),
        (arp(Request, MacAddr::BROADCAST, "10.0.0.2", "10.0.0.1"), Fault::LinkAddress),
        (arp(Request, MacAddr::ZERO, "10.0.0.2", "10.0.0.1"), Fault::LinkAddress),
        (arp(Request, OWN, "10.0.0.2", "10.0.0.1"), Fault::LinkAddress),
        (arp(Request, ALICE, "10.0.0.2", "10.0.0.1")[..41].to_vec(), Fault::Malformed),
        (link(OWN, ALICE, EtherType::IPV4, &[0; 28]), Fault::Malformed),
        (link(OWN, MacAddr::BROADCAST, EtherType::ARP, &[0; 28]), Fault::LinkAddress),
    ] {
        assert_eq!(rig.hear(&bytes), Err(fault));
    }
    let good = arp(Request, ALICE, "10.0.0.2", "10.0.0.1");
    assert_eq!(rig.core.handle_message(rig.now, 99, &good), Err(Fault::Interface));
    assert!(rig.core.is_empty() && rig.events().is_empty() && rig.sent().is_empty());
}

#[test]
fn arp_neighbour_that_moves_is_followed_and_asked() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    let (_, _) = (rig.sent(), rig.events());
    // Gratuitous: the standby took over.
    let standby = MacAddr([2, 0, 0, 0, 0, 0xb]);
    rig.hear(&arp(Request, standby, "10.0.0.2", "10.0.0.2")).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.2", standby)]);
    rig.pass(5_000);
    assert_eq!(rig.sent(), [format!("{standby}: ARP who-has 10.0.0.2 tell 10.0.0.1")]);
    // No answer comes: the claim was false.
    rig.pass(3_000);
    assert_eq!(rig.events(), [remove("10.0.0.2"), unreachable("10.0.0.2")]);
}

#[test]
fn next_hop_of_the_configuration_is_asked_for_until_it_answers() {
    let mut rig = Rig::new();
    rig.keep("10.0.0.2");
    assert_eq!(rig.sent(), [WHO_HAS]);
    rig.pass(60_000);
    assert!(rig.sent().len() > 15);
    assert!(rig.events().iter().all(|e| *e == unreachable("10.0.0.2")));
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    assert_eq!(rig.events(), [set("10.0.0.2", ALICE)]);
    rig.pass(8_000);
    assert_eq!(rig.events(), [remove("10.0.0.2"), unreachable("10.0.0.2")]);
    // A packet that waits does not wait for the next round.
    while rig.core.state(IFACE, ip("10.0.0.2")) != Some(State::Failed) {
        rig.pass(500);
    }
    rig.sent();
    rig.resolve("10.0.0.2");
    assert_eq!(rig.sent(), [WHO_HAS]);
    rig.command(Command::Release { iface: IFACE, ip: ip("10.0.0.2") });
    rig.pass(10_000);
    assert!(rig.core.is_empty() && rig.timer().is_none());
}

#[test]
fn addresses_that_are_no_neighbours_are_unreachable_at_once() {
    let mut rig = Rig::new();
    for bad in
        ["10.0.0.255", "10.0.0.0", "255.255.255.255", "224.0.0.1", "10.0.0.1", "ff02::1", "::"]
    {
        rig.resolve(bad);
        assert_eq!(rig.events(), [unreachable(bad)]);
    }
    assert!(rig.sent().is_empty() && rig.core.is_empty());
}

#[test]
fn scan_of_a_network_does_not_use_up_the_table() {
    let mut rig = Rig::new();
    let mut wide = interface();
    wide.v4[0].1 = 8;
    rig.command(Command::Interface(wide));
    for n in 0..2 * INCOMPLETE_MAX {
        rig.resolve(&format!("10.1.{}.{}", n / 200, 1 + n % 200));
    }
    assert_eq!(rig.core.len(), INCOMPLETE_MAX);
    assert_eq!(rig.events().len(), INCOMPLETE_MAX, "the others are unreachable");
    // A neighbour that a configuration names is asked for all the same.
    rig.keep("10.9.9.9");
    assert_eq!(rig.core.len(), INCOMPLETE_MAX + 1);
    assert!(matches!(rig.timer(), Some(Timer::Answer(_))));
}

#[test]
fn flood_of_senders_does_not_keep_out_who_is_needed() {
    let mut rig = Rig::new();
    let mut wide = interface();
    wide.v4[0].1 = 8;
    rig.command(Command::Interface(wide));
    for n in 0..2 * ENTRIES_MAX {
        let sender = format!("10.1.{}.{}", n / 200, 1 + n % 200);
        rig.hear(&arp(Request, MALLORY, &sender, "10.0.0.1")).unwrap();
    }
    assert_eq!(rig.core.len(), HEARD_MAX);
    rig.sent();
    rig.resolve("10.9.9.9");
    assert_eq!((rig.core.len(), rig.sent().len()), (HEARD_MAX + 1, 1));
    rig.pass(10_000);
    assert!(rig.core.is_empty());
}

#[test]
fn somebody_who_claims_all_addresses_and_answers_keeps_out_nobody() {
    let mut rig = Rig::new();
    let mut wide = interface();
    wide.v4[0].1 = 8;
    rig.command(Command::Interface(wide));
    let liar = |n: usize| format!("10.1.{}.{}", n / 200, 1 + n % 200);
    for n in 0..ENTRIES_MAX {
        rig.hear(&arp(Request, MALLORY, &liar(n), "10.0.0.1")).unwrap();
    }
    rig.pass(5_000);
    for n in 0..ENTRIES_MAX {
        let _ = rig.hear(&arp(Reply, MALLORY, &liar(n), "10.0.0.1"));
    }
    let reachable = |rig: &Rig| {
        let state = |n| rig.core.state(IFACE, ip(&liar(n)));
        (0..ENTRIES_MAX).filter(|&n| matches!(state(n), Some(State::Reachable(_)))).count()
    };
    assert_eq!(reachable(&rig), HEARD_MAX);
    // Neighbours that packets need, as many as there is room for: the liar's go.
    for n in 0..ENTRIES_MAX {
        let wanted = format!("10.2.{}.{}", n / 200, 1 + n % 200);
        rig.resolve(&wanted);
        rig.hear(&arp(Reply, ALICE, &wanted, "10.0.0.1")).unwrap();
        assert_eq!(rig.core.state(IFACE, ip(&wanted)), Some(State::Reachable(ALICE)), "{n}");
    }
    assert_eq!((reachable(&rig), rig.core.len()), (0, ENTRIES_MAX));
}

#[test]
fn one_who_moves_again_and_again_is_asked_in_time() {
    let mut rig = Rig::new();
    rig.resolve("10.0.0.2");
    rig.hear(&arp(Reply, ALICE, "10.0.0.2", "10.0.0.1")).unwrap();
    rig.sent();
    for turn in 0..4 {
        let mac = if turn % 2 == 0 { MALLORY } else { ALICE };
        rig.hear(&arp(Request, mac, "10.0.0.2", "10.0.0.2")).unwrap();
        rig.pass(3_000);
    }
    assert!(rig.sent().iter().any(|frame| frame.contains("who-has 10.0.0.2")));
}
