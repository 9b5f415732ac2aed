//! Listener discovery as scenes between the node, switches and routers.

use super::rig::*;
use crate::neighbour::{Command, Fault};
use ferrule_wire::mld::{Querier, Record, Repr};
use std::net::Ipv6Addr;

const ALL_NODES: &str = "ff02::1";
const GROUP: &str = "ff02::1:ff00:1";

fn query(group: &str, delay: u16, version_2: bool) -> Repr {
    let v2 = version_2.then_some(Querier { flags: 2, interval: 125, sources: 0 });
    Repr::Query { group: v6(group), delay, v2 }
}

fn report(what: &str) -> String {
    format!("fe80::1 > ff02::16: MLDv2 {what}")
}

#[test]
fn group_of_a_new_address_is_reported_twice_and_before_anybody_is_asked() {
    let mut rig = Rig::new();
    let mut more = interface();
    more.v6.push((v6("2001:db8::77"), 64));
    rig.command(Command::Interface(more.clone()));
    let sent = rig.sent();
    assert_eq!(sent[0], report("joins ff02::1:ff00:77"));
    assert!(sent[1].contains("who has 2001:db8::77") && sent.len() == 2, "{sent:?}");
    rig.pass(10_000);
    let again: Vec<_> = rig.sent().into_iter().filter(|s| s.contains("MLD")).collect();
    assert_eq!(again, [report("joins ff02::1:ff00:77")]);
    // The same again changes nothing.
    rig.command(Command::Interface(more));
    assert!(rig.sent().is_empty());
}

#[test]
fn group_is_left_with_its_last_address_alone() {
    let mut rig = Rig::new();
    let mut fewer = interface();
    // Both addresses end in the same 24 bits.
    fewer.v6.truncate(1);
    rig.command(Command::Interface(fewer.clone()));
    assert_eq!(rig.sent(), Vec::<String>::new());
    fewer.v6[0].0 = v6("fe80::99");
    rig.command(Command::Interface(fewer));
    let sent = rig.sent();
    assert_eq!(sent[0], ":: > ff02::16: MLDv2 leaves ff02::1:ff00:1", "nothing is ours yet");
    assert_eq!(sent[1], ":: > ff02::16: MLDv2 joins ff02::1:ff00:99");
}

#[test]
fn queries_are_answered_in_their_version_once_and_not_at_once() {
    for (version_2, expected) in [
        (true, report("listens to ff02::1:ff00:1")),
        (false, format!("fe80::1 > {GROUP}: MLDv1 listens to {GROUP}")),
    ] {
        for group in ["::", GROUP] {
            let mut rig = Rig::new();
            let dst = if group == "::" { ALL_NODES } else { GROUP };
            let asked = listener("fe80::9", dst, 1, &query(group, 1_000, version_2));
            for _ in 0..100 {
                rig.hear(&asked).unwrap();
            }
            assert!(rig.sent().is_empty());
            rig.pass(1_000);
            assert_eq!(rig.sent(), [expected.as_str()]);
            // A querier that gives no time gets no more answers than one in 10 ms.
            let hasty = listener("fe80::9", dst, 1, &query(group, 0, version_2));
            for _ in 0..100 {
                rig.hear(&hasty).unwrap();
                rig.pass(1);
            }
            assert_eq!(rig.sent().len(), 10);
        }
    }
}

#[test]
fn queries_about_others_and_from_afar_are_not_answered() {
    let mut rig = Rig::new();
    let any = query("::", 100, true);
    rig.hear(&listener("fe80::9", "ff02::1:ff00:9", 1, &query("ff02::1:ff00:9", 100, true)))
        .unwrap();
    let mut wrong_sum = listener("fe80::9", ALL_NODES, 1, &any);
    *wrong_sum.last_mut().unwrap() ^= 1;
    let group: Ipv6Addr = v6(GROUP);
    for (frame, fault) in [
        (listener("fe80::9", ALL_NODES, 255, &any), Fault::HopLimit),
        (listener("2001:db8::9", ALL_NODES, 1, &any), Fault::OffLink),
        (listener("::", ALL_NODES, 1, &any), Fault::OffLink),
        (wrong_sum, Fault::Malformed),
    ] {
        assert_eq!(rig.hear(&frame), Err(fault));
    }
    // Reports of others are heard, and nothing is kept of them.
    for report in [Repr::ReportV2 { record: Record::Joins, group }, Repr::ReportV1 { group }] {
        rig.hear(&listener("::", ALL_NODES, 1, &report)).unwrap();
    }
    rig.pass(60_000);
    assert!(rig.sent().is_empty() && rig.events().is_empty() && rig.core.is_empty());
}
