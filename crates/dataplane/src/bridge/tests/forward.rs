//! Learning, flooding, ageing, moves, VLANs, reserved addresses.

use super::{AGEING, QINQ, frame, host, rig};
use crate::bridge::Learned;
use crate::route::tests::rig::Fate;
use crate::tables::Tables;
use ferrule_base::{DropReason, Instant, MacAddr};

const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 1]);

#[test]
fn bridge_floods_what_it_does_not_know_and_sends_what_it_knows_to_one_member() {
    let mut rig = rig();
    assert_eq!(rig.ports(0, &frame(host(2), host(1), 0)).unwrap(), [1, 4]);
    assert_eq!(rig.tally.made, 1);
    assert_eq!(rig.ports(1, &frame(host(1), host(2), 0)).unwrap(), [0]);
    assert_eq!(rig.ports(0, &frame(host(2), host(1), 0)).unwrap(), [1]);
    assert_eq!((rig.tally.made, rig.tally.work.lookups), (1, 6));
}

#[test]
fn bridge_floods_groups_and_broadcast_always() {
    let mut rig = rig();
    for dst in [GROUP, MacAddr::BROADCAST] {
        assert_eq!(rig.ports(0, &frame(dst, host(1), 0)).unwrap(), [1, 4]);
        assert_eq!(rig.ports(4, &frame(dst, host(2), 0)).unwrap(), [0, 1]);
    }
}

#[test]
fn bridge_copies_are_whole() {
    let mut rig = rig();
    let tagged = frame(host(2), host(1), 0x600a);
    let untagged = frame(host(2), host(1), 0);
    let mut double = tagged.clone();
    double.splice(12..12, [0x88, 0xa8, 0x60, 30]);
    let want = [(1, tagged.clone()), (2, untagged.clone()), (3, untagged), (4, double)];
    assert_eq!(rig.leaves(0, &tagged).unwrap(), want, "priority goes to the outer tag");
}

#[test]
fn bridge_never_sends_a_frame_back() {
    let mut rig = rig();
    rig.ports(0, &frame(host(9), host(1), 0)).unwrap();
    assert_eq!(rig.ports(0, &frame(host(1), host(2), 0)), Err(DropReason::BridgeSamePort));
    assert_eq!(rig.ports(0, &frame(host(1), host(1), 0)), Err(DropReason::BridgeSamePort));
    assert_eq!(rig.ports(5, &frame(host(1), host(2), 0)), Err(DropReason::BridgeSamePort));
}

#[test]
fn bridge_forgets_what_it_has_not_seen_for_long() {
    let mut rig = rig();
    let at = |seconds: u32| Instant::from_secs(1 + u64::from(seconds));
    rig.ports(1, &frame(host(9), host(2), 0)).unwrap();
    rig.now = at(AGEING - 1);
    assert_eq!(rig.ports(0, &frame(host(2), host(1), 0)).unwrap(), [1]);
    rig.now = at(AGEING);
    assert_eq!(rig.ports(0, &frame(host(2), host(1), 0)).unwrap(), [1, 4]);
    // Host 1 was seen meanwhile.
    rig.now = at(2 * AGEING - 1);
    assert_eq!(rig.ports(1, &frame(host(1), host(2), 0)).unwrap(), [0]);
}

#[test]
fn bridge_follows_an_address_that_moves() {
    let mut rig = rig();
    rig.ports(0, &frame(host(9), host(1), 0)).unwrap();
    rig.ports(4, &frame(host(9), host(1), 0)).unwrap();
    assert_eq!(rig.ports(1, &frame(host(1), host(2), 0)).unwrap(), [4]);
    let table = &rig.tables.bridges[0].table;
    assert_eq!(table.learn(0, host(1), 1, rig.now), Learned::Moved(4));
    assert_eq!(table.learn(0, host(1), 1, rig.now), Learned::Known);
}

#[test]
fn bridge_keeps_vlans_apart() {
    let mut rig = rig();
    rig.ports(0, &frame(host(9), host(1), 10)).unwrap();
    rig.ports(1, &frame(host(9), host(1), 20)).unwrap();
    assert_eq!(rig.ports(4, &frame(host(1), host(2), 10)).unwrap(), [0]);
    assert_eq!(rig.ports(4, &frame(host(1), host(2), 20)).unwrap(), [1]);
    assert_eq!(rig.ports(4, &frame(host(1), host(2), 30)).unwrap(), [0, 1]);
    // The priority is not part of the VLAN; VLAN 0 is none.
    assert_eq!(rig.ports(4, &frame(host(1), host(2), 0xa00a)).unwrap(), [0]);
    rig.ports(0, &frame(host(9), host(1), 0xa000)).unwrap();
    assert_eq!(rig.ports(4, &frame(host(1), host(2), 0)).unwrap(), [0]);
    assert_eq!(rig.ports(0, &frame(host(1), host(2), 0xfff)), Err(DropReason::UnknownVlan));
}

#[test]
fn bridge_access_members_take_part_in_their_vlan_alone() {
    let mut rig = rig();
    let ports = |rig: &mut crate::mpls::tests::Rig<_>, tci| {
        crate::mpls::tests::Rig::ports(rig, 0, &frame(GROUP, host(1), tci)).unwrap()
    };
    assert_eq!(ports(&mut rig, 0), [1, 4]);
    assert_eq!(ports(&mut rig, 10), [1, 2, 3, 4]);
    assert_eq!(ports(&mut rig, 20), [1, 4]);
    // As `Attach` sends it: with the tag of the VLAN, which goes at the other.
    rig.ports(2, &frame(host(9), host(2), 10)).unwrap();
    let out = rig.leaves(3, &frame(host(2), host(3), 10)).unwrap();
    assert_eq!(out, [(2, frame(host(2), host(3), 0))]);
    // An address learned in one VLAN is not reached from another.
    let table = &rig.tables.bridges[0].table;
    table.learn(20, host(2), 2, rig.now);
    assert_eq!(rig.ports(0, &frame(host(2), host(3), 20)), Err(DropReason::UnknownVlan));
}

#[test]
fn bridge_does_not_forward_reserved_addresses() {
    let mut rig = rig();
    for last in 0..=0x20 {
        let dst = MacAddr([1, 0x80, 0xc2, 0, 0, last]);
        let out = rig.ports(0, &frame(dst, host(1), 0));
        if last < 0x10 {
            assert_eq!(out, Err(DropReason::BridgeReserved));
        } else {
            assert_eq!(out.unwrap(), [1, 4]);
        }
    }
}

#[test]
fn bridge_learns_no_group_as_source() {
    let mut rig = rig();
    for src in [GROUP, MacAddr::BROADCAST] {
        assert_eq!(rig.ports(0, &frame(host(1), src, 0)), Err(DropReason::BadSource));
    }
    assert_eq!(rig.tables.bridges[0].table.entries(rig.now).count(), 0);
}

#[test]
fn bridge_floods_what_was_known_at_a_member_that_left() {
    let mut rig = rig();
    let table = &rig.tables.bridges[0].table;
    for (number, iface) in [(1, 5), (2, 77)] {
        table.learn(0, host(number), iface, rig.now);
    }
    assert_eq!(rig.ports(0, &frame(host(1), host(3), 0)).unwrap(), [1, 4]);
    assert_eq!(rig.ports(0, &frame(host(2), host(3), 0)).unwrap(), [1, 4]);
}

#[test]
fn bridge_without_a_buffer_for_copies_drops_and_counts() {
    let mut rig = rig();
    let mut packet = rig.packet(&frame(GROUP, host(1), 0));
    packet.meta_mut().iface = 0;
    let taken: Vec<_> = std::iter::from_fn(|| rig.cache.packet()).collect();
    assert!(matches!(rig.run(packet)[..], [Fate::Dropped(DropReason::NoBuffer)]));
    drop(taken);
    assert_eq!(rig.ports(0, &frame(GROUP, host(1), 0)).unwrap(), [1, 4]);
}

#[test]
fn bridge_refuses_what_is_no_frame_and_what_is_not_bridged() {
    let mut rig = rig();
    let whole = frame(host(1), host(2), 7);
    for short in 0..18 {
        assert_eq!(rig.ports(0, &whole[..short]), Err(DropReason::Malformed));
    }
    assert_eq!(rig.ports(6, &whole), Err(DropReason::NotAttached));
    rig.tables = Tables { bridges: Vec::new(), ..rig.tables };
    assert_eq!(rig.ports(0, &whole), Err(DropReason::NotAttached));
}

#[test]
fn bridge_service_tag_is_payload() {
    let mut rig = rig();
    let mut octets = frame(host(9), host(1), 10);
    octets[12..14].copy_from_slice(&QINQ.to_be_bytes());
    assert_eq!(rig.ports(0, &octets).unwrap(), [1, 4]);
    let entry = rig.tables.bridges[0].table.entries(rig.now).next().unwrap();
    assert_eq!((entry.vlan, entry.mac, entry.iface, entry.age_seconds), (0, host(1), 0, 0));
}
