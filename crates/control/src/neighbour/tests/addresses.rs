//! Own addresses: announced, checked, defended, taken away.

use super::rig::*;
use crate::neighbour::{Command, State};
use ferrule_wire::arp::Operation::{Reply, Request};

const ANNOUNCE: &str = "ff:ff:ff:ff:ff:ff: ARP who-has 10.0.0.1 tell 10.0.0.1";

#[test]
fn own_ipv4_address_is_announced_twice() {
    let mut rig = Rig::bare();
    let mut only_v4 = interface();
    only_v4.v6.clear();
    rig.command(Command::Interface(only_v4.clone()));
    assert_eq!(rig.sent(), [ANNOUNCE]);
    rig.pass(2_000);
    assert_eq!(rig.sent(), [ANNOUNCE]);
    rig.pass(60_000);
    assert!(rig.sent().is_empty());
    // The same again changes nothing; a new link address does.
    rig.command(Command::Interface(only_v4.clone()));
    assert!(rig.sent().is_empty());
    only_v4.v4.push(("10.0.7.1".parse().unwrap(), 24));
    rig.command(Command::Interface(only_v4));
    assert_eq!(rig.sent(), ["ff:ff:ff:ff:ff:ff: ARP who-has 10.0.7.1 tell 10.0.7.1"]);
}

#[test]
fn own_ipv6_address_is_checked_and_then_announced() {
    let mut rig = Rig::bare();
    let mut only_v6 = interface();
    only_v6.v4.clear();
    only_v6.v6.truncate(1);
    rig.command(Command::Interface(only_v6));
    let joined = ":: > ff02::16: MLDv2 joins ff02::1:ff00:1";
    let asked = "33:33:ff:00:00:01: :: > ff02::1:ff00:1: who has fe80::1";
    assert_eq!(rig.sent(), [joined, asked]);
    // Not ours yet: no answer.
    rig.hear(&nd("fe80::2", "fe80::1", 255, &solicitation("fe80::1", Some(ALICE)))).unwrap();
    assert!(rig.sent().is_empty() && rig.events().is_empty());
    assert!(rig.core.withheld().eq([(IFACE, "fe80::1".parse().unwrap())]));
    rig.pass(1_000);
    assert_eq!((rig.events(), rig.core.withheld().count()), (vec![unique("fe80::1")], 0));
    let announced = format!("33:33:00:00:00:01: fe80::1 > ff02::1: neighbour fe80::1 link {OWN}");
    let joined = "fe80::1 > ff02::16: MLDv2 joins ff02::1:ff00:1".to_owned();
    assert_eq!(rig.sent(), [announced, joined]);
    rig.hear(&nd("fe80::2", "fe80::1", 255, &solicitation("fe80::1", Some(ALICE)))).unwrap();
    assert_eq!(rig.sent().len(), 1);
}

#[test]
fn own_ipv6_address_that_another_has_is_not_used() {
    for claim in [
        nd("::", "ff02::1:ff00:1", 255, &solicitation("fe80::1", None)),
        nd("fe80::1", "ff02::1", 255, &advertisement("fe80::1", [false, true], Some(ALICE))),
    ] {
        let mut rig = Rig::bare();
        let mut only_v6 = interface();
        only_v6.v4.clear();
        only_v6.v6.truncate(1);
        rig.command(Command::Interface(only_v6));
        rig.sent();
        rig.hear(&claim).unwrap();
        assert_eq!(rig.events(), [duplicate("fe80::1")]);
        assert_eq!(rig.sent(), [":: > ff02::16: MLDv2 leaves ff02::1:ff00:1"]);
        rig.pass(60_000);
        assert!(rig.sent().is_empty() && rig.events().is_empty());
        assert!(rig.core.withheld().eq([(IFACE, "fe80::1".parse().unwrap())]));
        rig.hear(&nd("fe80::2", "fe80::1", 255, &solicitation("fe80::1", Some(ALICE)))).unwrap();
        assert!(rig.sent().is_empty());
    }
}

#[test]
fn own_address_is_defended_but_not_for_ever() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.hear(&arp(Reply, MALLORY, "10.0.0.1", "10.0.0.2")).unwrap();
    }
    assert_eq!((rig.sent(), rig.events()), (vec![ANNOUNCE.into()], vec![duplicate("10.0.0.1")]));
    rig.pass(10_000);
    rig.hear(&arp(Request, MALLORY, "10.0.0.1", "10.0.0.1")).unwrap();
    assert_eq!(rig.sent(), [ANNOUNCE]);
    let claim = advertisement("2001:db8::1", [false, true], Some(MALLORY));
    rig.hear(&nd("2001:db8::1", "ff02::1", 255, &claim)).unwrap();
    assert_eq!(rig.sent().len(), 1);
    assert!(rig.core.is_empty(), "and never learned");
}

#[test]
fn neighbours_go_with_their_network_and_their_interface() {
    let mut rig = Rig::new();
    for (n, neighbour) in ["10.0.0.2", "10.0.0.3"].into_iter().enumerate() {
        rig.resolve(neighbour);
        if n == 0 {
            rig.hear(&arp(Reply, ALICE, neighbour, "10.0.0.1")).unwrap();
        }
    }
    rig.hear(&nd("fe80::2", "fe80::1", 255, &solicitation("fe80::1", Some(ALICE)))).unwrap();
    rig.events();
    let mut moved = interface();
    moved.v4[0].0 = "10.7.0.1".parse().unwrap();
    rig.command(Command::Interface(moved));
    assert_eq!(rig.events(), [remove("10.0.0.2"), unreachable("10.0.0.3")]);
    assert_eq!(rig.core.state(IFACE, ip("fe80::2")), Some(State::Stale(ALICE)));
    rig.command(Command::Gone(IFACE));
    assert_eq!(rig.events(), [remove("fe80::2")]);
    assert_eq!(rig.timer(), None);
    rig.resolve("10.7.0.2");
    assert_eq!(rig.events(), [unreachable("10.7.0.2")]);
}
