//! Neighbour discovery as scenes between the node and its neighbours.

use super::rig::*;
use crate::Core;
use crate::neighbour::{Fault, State};
use ferrule_base::MacAddr;
use ferrule_wire::ndp;

const GROUP: &str = "ff02::1:ff00:1";
const ALICE6: &str = "2001:db8::2";

fn ask() -> String {
    "33:33:ff:00:00:02: 2001:db8::1 > ff02::1:ff00:2: who has 2001:db8::2 link 02:00:00:00:00:01"
        .to_string()
}

#[test]
fn nd_neighbour_is_asked_for_and_answers() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    assert_eq!(rig.sent(), [ask()]);
    let answer = advertisement(ALICE6, [true, true], Some(ALICE));
    rig.hear(&nd(ALICE6, "2001:db8::1", 255, &answer)).unwrap();
    assert_eq!(rig.events(), [set(ALICE6, ALICE)]);
    assert_eq!(rig.core.state(IFACE, ip(ALICE6)), Some(State::Reachable(ALICE)));
    // A link-local neighbour is asked from the link-local address.
    rig.resolve("fe80::2");
    let asked = rig.sent();
    assert!(asked[0].contains("fe80::1 > ff02::1:ff00:2: who has fe80::2"), "{asked:?}");
}

#[test]
fn nd_question_is_asked_three_times_and_then_given_up() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    rig.pass(3_000);
    assert_eq!(rig.sent(), [ask(), ask(), ask()]);
    assert_eq!(rig.events(), [unreachable(ALICE6)]);
    assert!(rig.core.is_empty());
}

#[test]
fn nd_neighbour_is_asked_again_by_its_own_address() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    let answer = advertisement(ALICE6, [true, true], Some(ALICE));
    rig.hear(&nd(ALICE6, "2001:db8::1", 255, &answer)).unwrap();
    let (_, _) = (rig.sent(), rig.events());
    rig.pass(35_000);
    let unicast = format!("{ALICE}: 2001:db8::1 > {ALICE6}: who has {ALICE6} link {OWN}");
    assert_eq!(rig.sent(), [unicast]);
    // The answer to a unicast question may leave the link address out.
    let answer = advertisement(ALICE6, [true, false], None);
    rig.hear(&nd(ALICE6, "2001:db8::1", 255, &answer)).unwrap();
    assert_eq!(rig.core.state(IFACE, ip(ALICE6)), Some(State::Reachable(ALICE)));
    rig.pass(38_000);
    assert_eq!(rig.events(), [remove(ALICE6), unreachable(ALICE6)]);
}

#[test]
fn nd_solicitation_for_us_is_answered_and_its_sender_learned() {
    let mut rig = Rig::new();
    for (src, dst, target) in [(ALICE6, GROUP, "2001:db8::1"), ("fe80::2", "fe80::1", "fe80::1")] {
        rig.hear(&nd(src, dst, 255, &solicitation(target, Some(ALICE)))).unwrap();
        let answer = format!("{ALICE}: {target} > {src}: neighbour {target} link {OWN}");
        assert_eq!(rig.sent(), [answer]);
        assert_eq!(rig.events(), [set(src, ALICE)]);
        assert_eq!(rig.core.state(IFACE, ip(src)), Some(State::Stale(ALICE)));
    }
    // Without a link address it is answered and not learned.
    rig.hear(&nd("2001:db8::7", GROUP, 255, &solicitation("2001:db8::1", None))).unwrap();
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(rig.core.len(), 2);
    // Not for us.
    let other = solicitation("2001:db8::9", Some(ALICE));
    rig.hear(&nd("2001:db8::7", "ff02::1:ff00:9", 255, &other)).unwrap();
    assert!(rig.sent().is_empty() && rig.core.len() == 2);
}

#[test]
fn nd_detection_of_our_address_by_another_is_answered_to_all() {
    let mut rig = Rig::new();
    rig.hear(&nd("::", GROUP, 255, &solicitation("2001:db8::1", None))).unwrap();
    let to_all =
        format!("33:33:00:00:00:01: 2001:db8::1 > ff02::1: neighbour 2001:db8::1 link {OWN}");
    assert_eq!(rig.sent(), [to_all]);
    assert!(rig.core.is_empty());
}

#[test]
fn nd_advertisements_that_nobody_asked_for_do_not_poison_the_table() {
    let mut rig = Rig::new();
    for flags in [[true, true], [false, true], [true, false], [false, false]] {
        let lie = advertisement(ALICE6, flags, Some(MALLORY));
        rig.hear(&nd(ALICE6, "2001:db8::1", 255, &lie)).unwrap();
    }
    assert!(rig.core.is_empty() && rig.events().is_empty() && rig.sent().is_empty());
}

#[test]
fn nd_messages_from_beyond_the_link_are_refused() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    rig.sent();
    let answer = advertisement(ALICE6, [true, true], Some(MALLORY));
    let question = solicitation("2001:db8::1", Some(MALLORY));
    for hop_limit in [0, 64, 254] {
        assert_eq!(rig.hear(&nd(ALICE6, GROUP, hop_limit, &question)), Err(Fault::HopLimit));
        let refused = rig.hear(&nd(ALICE6, "2001:db8::1", hop_limit, &answer));
        assert_eq!(refused, Err(Fault::HopLimit));
    }
    let far = nd("2001:db8:1::2", GROUP, 255, &question);
    assert_eq!(rig.hear(&far), Err(Fault::OffLink));
    assert!(rig.events().is_empty() && rig.sent().is_empty());
}

#[test]
fn nd_messages_that_break_a_rule_are_refused() {
    let mut rig = Rig::new();
    let ours = "2001:db8::1";
    let mut wrong_sum = nd(ALICE6, GROUP, 255, &solicitation(ours, Some(ALICE)));
    let last = wrong_sum.len() - 1;
    wrong_sum[last] ^= 1;
    let router = ndp::Repr::RouterSolicitation { source_link: None };
    let redirect =
        ndp::Repr::Redirect { target: v6("fe80::9"), destination: v6(ALICE6), target_link: None };
    for (bytes, fault) in [
        (wrong_sum, Fault::Malformed),
        (nd("::", GROUP, 255, &solicitation(ours, Some(ALICE))), Fault::Unspecified),
        (nd("::", ours, 255, &solicitation(ours, None)), Fault::Unspecified),
        (nd(ALICE6, GROUP, 255, &solicitation("ff02::1", None)), Fault::Address),
        (nd("ff02::7", GROUP, 255, &solicitation(ours, None)), Fault::OffLink),
        (nd(ALICE6, GROUP, 255, &solicitation(ours, Some(MacAddr::BROADCAST))), Fault::LinkAddress),
        (nd(ALICE6, GROUP, 255, &solicitation(ours, Some(OWN))), Fault::LinkAddress),
        (nd(ALICE6, "ff02::1", 255, &advertisement(ALICE6, [true, true], None)), Fault::Solicited),
        (nd("::", ours, 255, &advertisement(ALICE6, [true, true], None)), Fault::Address),
        (nd("fe80::9", "ff02::2", 255, &router), Fault::Router),
        (nd("fe80::9", ours, 255, &redirect), Fault::Router),
    ] {
        assert_eq!(rig.hear(&bytes), Err(fault));
    }
    assert!(rig.core.is_empty() && rig.events().is_empty() && rig.sent().is_empty());
}

#[test]
fn nd_override_flag_decides_whether_a_neighbour_moved() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    let answer = advertisement(ALICE6, [true, true], Some(ALICE));
    rig.hear(&nd(ALICE6, "2001:db8::1", 255, &answer)).unwrap();
    rig.events();
    let proxy = advertisement(ALICE6, [false, false], Some(MALLORY));
    rig.hear(&nd(ALICE6, "ff02::1", 255, &proxy)).unwrap();
    assert_eq!(rig.core.state(IFACE, ip(ALICE6)), Some(State::Stale(ALICE)), "in doubt, not moved");
    assert!(rig.events().is_empty());
    let standby = MacAddr([2, 0, 0, 0, 0, 0xb]);
    let moved = advertisement(ALICE6, [false, true], Some(standby));
    rig.hear(&nd(ALICE6, "ff02::1", 255, &moved)).unwrap();
    assert_eq!(rig.events(), [set(ALICE6, standby)]);
    assert_eq!(rig.core.state(IFACE, ip(ALICE6)), Some(State::Stale(standby)));
}

/// Router, solicited, override: of the only advertisement that was made.
fn flags(rig: &mut Rig) -> [bool; 3] {
    let frames: Vec<_> = std::iter::from_fn(|| rig.core.poll_transmit()).collect();
    let [(_, frame)] = &frames[..] else { panic!("{frames:02x?}") };
    match ndp::Repr::parse(&frame[54..]).unwrap().0 {
        ndp::Repr::NeighbourAdvertisement { router, solicited, override_cache, .. } => {
            [router, solicited, override_cache]
        }
        other => panic!("{other}"),
    }
}

#[test]
fn nd_answers_say_router_and_override_and_solicited_to_who_asked_alone() {
    for (src, is_to_one) in [(ALICE6, true), ("::", false)] {
        let mut rig = Rig::new();
        let source_link = Some(ALICE).filter(|_| is_to_one);
        let question = nd(src, GROUP, 255, &solicitation("2001:db8::1", source_link));
        rig.core.handle_message(rig.now, IFACE, &question).unwrap();
        assert_eq!(flags(&mut rig), [true, is_to_one, true]);
    }
}

#[test]
fn nd_advertisement_without_a_link_address_answers_no_open_question() {
    let mut rig = Rig::new();
    rig.resolve(ALICE6);
    let empty = advertisement(ALICE6, [true, true], None);
    rig.hear(&nd(ALICE6, "2001:db8::1", 255, &empty)).unwrap();
    assert_eq!(rig.core.state(IFACE, ip(ALICE6)), Some(State::Incomplete(1)));
    assert!(rig.events().is_empty());
    rig.pass(3_000);
    assert_eq!((rig.sent().len(), rig.events()), (3, vec![unreachable(ALICE6)]));
}
