//! Below IP: Ethernet, VLAN tags, bridges, ARP and neighbour discovery (802.1Q, RFC 826,
//! RFC 5227, RFC 4861).

use crate::craft::{self, UDP, with};
use crate::net::{Net, ethernet, mac};
use crate::rig::{HOST, Rig, at_lan, each, hops_later};
use ferrule_base::{DropReason, Duration, MacAddr};
use std::net::IpAddr;

const ROUTER: &str = r#"
    [node]
    name = "n1"
    lab = true
    [[port]]
    name = "lan"
    driver = "wire"
    [[port]]
    name = "out"
    driver = "wire"
    [[port]]
    name = "left"
    driver = "wire"
    [[port]]
    name = "right"
    driver = "wire"
    [[interface]]
    port = "lan"
    address = ["10.1.0.1/24", "2001:db8:1::1/64"]
    [[interface]]
    port = "out"
    vlan = 7
    address = ["10.2.0.1/24", "2001:db8:2::1/64"]
    [[bridge]]
    name = "br"
    member = [{ port = "left" }, { port = "right", vlan = 5 }]
"#;

/// A router with a host on each side, the one behind VLAN 7; and a bridge.
fn router(net: Net) -> Rig {
    let mut rig = Rig::alone(net, ROUTER, &["lan", "out", "left", "right"]);
    let hosts = [("10.1.0.9", HOST), ("2001:db8:1::9", HOST)];
    rig.know(0, &hosts);
    rig.know(0, &hosts.map(|(ip, mac)| (if ip.contains(':') { OUT6 } else { OUT4 }, mac)));
    rig
}

const OUT4: &str = "10.2.0.9";
const OUT6: &str = "2001:db8:2::9";

fn packet() -> Vec<u8> {
    craft::ip(UDP, "10.1.0.9", OUT4, &craft::udp(7, 9, &[1; 60]))
}

/// A packet from the LAN leaves by the VLAN, and one of the VLAN by the LAN.
fn routes(rig: &mut Rig) {
    let tagged = [&[0, 7, 8, 0][..], &hops_later(&packet(), 1)].concat();
    rig.passes("lan", &at_lan(&packet()), "out", &tagged);
    rig.passes("out", &vlan(0x8100, 7, &back()), "lan", &hops_later(&back(), 1));
}

fn back() -> Vec<u8> {
    craft::ip(UDP, OUT4, "10.1.0.9", &craft::udp(9, 7, &[1; 60]))
}

fn vlan(tpid: u16, vid: u16, packet: &[u8]) -> Vec<u8> {
    let tag = [&vid.to_be_bytes()[..], &[8, 0], packet].concat();
    ethernet(mac("n1", "out"), HOST, tpid, &tag)
}

#[test]
fn a_frame_shorter_than_its_header_is_malformed() {
    each(router, |rig| {
        for len in [1, 12, 13] {
            rig.refused("lan", &[at_lan(&packet())[..len].to_vec()], DropReason::Malformed);
        }
        for len in [14, 17] {
            rig.refused("out", &[vlan(0x8100, 7, &back())[..len].to_vec()], DropReason::Malformed);
        }
        routes(rig);
    });
}

#[test]
fn a_protocol_that_is_not_carried_is_unknown() {
    each(router, |rig| {
        let other = [0, 60, 0x05dc, 0x8847, 0x8863, 0x88e5, 0x9000, 0xffff]
            .map(|ethertype| ethernet(mac("n1", "lan"), HOST, ethertype, &packet()));
        rig.refused("lan", &other, DropReason::UnknownProtocol);
        routes(rig);
    });
}

#[test]
fn a_vlan_that_is_not_configured_is_unknown() {
    each(router, |rig| {
        let tags = [(0x8100, 8), (0x8100, 0xfff), (0x88a8, 7)];
        let frames = tags.map(|(tpid, vid)| vlan(tpid, vid, &back()));
        rig.refused("out", &frames, DropReason::UnknownVlan);
        let to_lan = [&[0, 7, 8, 0][..], &packet()].concat();
        let to_lan = ethernet(mac("n1", "lan"), HOST, 0x8100, &to_lan);
        rig.refused("lan", &[to_lan], DropReason::UnknownVlan);
        routes(rig);
    });
}

#[test]
fn a_frame_without_the_tag_of_its_port_is_attached_to_nothing() {
    each(router, |rig| {
        let untagged = craft::frame(mac("n1", "out"), HOST, &back());
        // A tag with a priority alone counts as none.
        rig.refused("out", &[untagged, vlan(0x8100, 0xe000, &back())], DropReason::NotAttached);
        routes(rig);
    });
}

#[test]
fn a_second_tag_behind_the_first_hops_to_no_other_vlan() {
    each(router, |rig| {
        let double = [&[0, 7, 0x81, 0, 0, 5, 8, 0][..], &back()].concat();
        let double = ethernet(mac("n1", "out"), HOST, 0x8100, &double);
        rig.refused("out", &[double], DropReason::UnknownProtocol);
        routes(rig);
    });
}

#[test]
fn a_bridge_learns_no_group_as_a_source() {
    each(router, |rig| {
        let from = |src: [u8; 6]| ethernet(HOST, MacAddr(src), 0x88b5, &[7; 60]);
        let frames = [[0xff; 6], [1, 0, 0x5e, 0, 0, 9], [0x33, 0x33, 0, 0, 0, 1]].map(from);
        rig.refused("left", &frames, DropReason::BadSource);
        let good = from([2, 0, 0, 0, 0, 9]);
        let tagged = [&[0, 5, 0x88, 0xb5][..], &[7; 60]].concat();
        rig.passes("left", &good, "right", &tagged);
    });
}

#[test]
fn a_bridge_forwards_no_protocol_of_the_link_itself() {
    // Spanning tree, pause, LACP, authentication, LLDP.
    each(router, |rig| {
        let to = |last: u8| MacAddr([1, 0x80, 0xc2, 0, 0, last]);
        let from = MacAddr([2, 0, 0, 0, 0, 9]);
        let all: Vec<_> = (0..16).map(|n| ethernet(to(n), from, 0x88b5, &[7; 60])).collect();
        rig.refused("left", &all, DropReason::BridgeReserved);
        let tagged = [&[0, 5, 0x88, 0xb5][..], &[7; 60]].concat();
        rig.passes("left", &ethernet(to(16), from, 0x88b5, &[7; 60]), "right", &tagged);
    });
}

/// The bridge with a list at its left member and one at its right: of what is EtherType 88b5
/// the right one lets out nothing of VLAN 9 in the bridge, and of labels EXP 5 alone.
fn listed(net: Net) -> Rig {
    let lists = r#"
    [[access-list]]
    name = "left"
    entry = [
        { action = "deny", mac-from = "02:00:5e:00:00:00/24" },
        { action = "permit", ethertype = 0x88b5 },
        { action = "permit", ethertype = 0x8847 },
    ]
    [[access-list]]
    name = "right"
    entry = [
        { action = "deny", vlan = 9 },
        { action = "permit", exp = 5 },
        { action = "permit", ethertype = 0x88b5 },
    ]
    "#;
    let with = ROUTER
        .replacen("{ port = \"left\" }", "{ port = \"left\", acl-in = \"left\" }", 1)
        .replacen("vlan = 5 }", "vlan = 5, acl-out = \"right\" }", 1);
    Rig::alone(net, &(with + lists), &["lan", "out", "left", "right"])
}

#[test]
fn frames_that_a_members_list_denies_do_not_cross_the_bridge() {
    let station = MacAddr([2, 0, 0, 0, 0, 9]);
    let of =
        |vid: u8| ethernet(HOST, station, 0x8100, &[&[0, vid, 0x88, 0xb5][..], &[7; 60]].concat());
    let label = |exp: u8| {
        ethernet(HOST, station, 0x8847, &[&[0, 1, exp << 1 | 1, 64][..], &[7; 56]].concat())
    };
    let in_right = |frame: &[u8]| [&frame[12..14], &frame[14..]].concat();
    each(listed, |rig| {
        let virtual_router = ethernet(HOST, MacAddr([2, 0, 0x5e, 0, 0, 9]), 0x88b5, &[7; 60]);
        let other = ethernet(HOST, station, 0x0806, &[7; 60]);
        rig.refused("left", &[virtual_router, other], DropReason::AclDenied);
        // Frames that the member on the right denies, flooded there or known to be there.
        for _ in 0..2 {
            rig.refused_as_taken("left", &[of(9), label(4)], DropReason::AclDenied);
            for good in [of(8), label(5), ethernet(HOST, station, 0x88b5, &[7; 60])] {
                rig.passes("left", &good, "right", &[&[0, 5][..], &in_right(&good)].concat());
            }
            let answer = [&[0, 5, 0x88, 0xb5][..], &[7; 60]].concat();
            rig.send("right", &[ethernet(station, HOST, 0x8100, &answer)]);
            rig.heard();
        }
    });
}

#[test]
fn a_frame_for_where_it_came_from_goes_nowhere() {
    each(router, |rig| {
        let (one, two) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let tagged = [&[0, 5, 0x88, 0xb5][..], &[7; 60]].concat();
        for (to, from) in [(two, one), (HOST, two)] {
            rig.passes("left", &ethernet(to, from, 0x88b5, &[7; 60]), "right", &tagged);
        }
        let same = ethernet(two, one, 0x88b5, &[7; 60]);
        rig.refused("left", &[same], DropReason::BridgeSamePort);
        rig.passes("left", &ethernet(HOST, one, 0x88b5, &[7; 60]), "right", &tagged);
    });
}

#[test]
fn a_bridge_takes_no_tag_that_its_member_has_not() {
    each(router, |rig| {
        let frame = ethernet(HOST, MacAddr([2, 0, 0, 0, 0, 9]), 0x8100, &[0, 6, 0x88, 0xb5, 7]);
        rig.refused("right", &[frame], DropReason::UnknownVlan);
        let good = with(&ethernet(HOST, MacAddr([2, 0, 0, 0, 0, 9]), 0x8100, &[0, 5]), |f| {
            f.extend([0x88, 0xb5]);
            f.extend([7; 60]);
        });
        rig.passes("right", &good, "left", &[7; 60]);
    });
}

/// An ARP message.
fn arp(operation: u8, sender: (MacAddr, [u8; 4]), target: [u8; 4]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    let arp = [&head[..], &sender.0.0, &sender.1, &[0; 6], &target].concat();
    ethernet(MacAddr::BROADCAST, HOST, 0x0806, &arp)
}

/// A host asks who we are, is answered, and known from then on.
fn asks(rig: &mut Rig) {
    rig.send("lan", &[arp(1, (HOST, [10, 1, 0, 9]), [10, 1, 0, 1])]);
    let heard = rig.heard();
    let [("lan", answer)] = &heard[..] else { panic!("{heard:02x?}") };
    assert_eq!(answer[20..22], [0, 2]);
    routes(rig);
}

#[test]
fn arp_from_another_network_is_off_the_link() {
    each(router, |rig| {
        let frames = [[10, 2, 0, 9], [8, 8, 8, 8], [127, 0, 0, 1], [224, 0, 0, 1]];
        let frames = frames.map(|ip| arp(1, (HOST, ip), [10, 1, 0, 1]));
        rig.refused("lan", &frames, DropReason::NeighbourOffLink);
        asks(rig);
    });
}

#[test]
fn arp_with_a_group_as_a_link_address_is_refused() {
    each(router, |rig| {
        let macs = [[0xff; 6], [1, 0, 0x5e, 0, 0, 9], [0; 6], mac("n1", "lan").0];
        let frames = macs.map(|m| arp(2, (MacAddr(m), [10, 1, 0, 9]), [10, 1, 0, 1]));
        rig.refused("lan", &frames, DropReason::NeighbourLinkAddress);
        asks(rig);
    });
}

#[test]
fn arp_for_the_address_of_the_network_or_its_broadcast_is_refused() {
    each(router, |rig| {
        let frames = [0, 255].map(|n| arp(1, (HOST, [10, 1, 0, n]), [10, 1, 0, 1]));
        rig.refused("lan", &frames, DropReason::NeighbourAddress);
        asks(rig);
    });
}

#[test]
fn arp_cut_short_or_of_other_hardware_is_malformed() {
    each(router, |rig| {
        let good = arp(1, (HOST, [10, 1, 0, 9]), [10, 1, 0, 1]);
        rig.refused("lan", &[good[..41].to_vec()], DropReason::Malformed);
        for (at, value) in [(15, 6), (16, 9), (18, 5), (19, 16)] {
            rig.refused("lan", &[with(&good, |f| f[at] = value)], DropReason::Malformed);
        }
        asks(rig);
    });
}

#[test]
fn arp_answers_that_nobody_asked_for_poison_no_neighbour() {
    each(router, |rig| {
        // Nothing is dropped: it is read, and not believed.
        let frames: Vec<_> =
            (10..200).map(|n| arp(2, (HOST, [10, 1, 0, n]), [10, 1, 0, 1])).collect();
        let before = rig.net.members[0].control.neighbours();
        let out = rig.dropped("lan", &frames, &[]);
        assert_eq!(out, []);
        assert_eq!(rig.net.members[0].control.neighbours(), before);
        asks(rig);
    });
}

#[test]
fn an_arp_announcement_moves_a_known_neighbour_and_is_looked_into() {
    // Nothing in ARP tells a host that moved from one that lies.
    each(router, |rig| {
        asks(rig);
        let moved = MacAddr([2, 0, 0xaa, 0, 0, 0x66]);
        let own = [10, 1, 0, 9];
        let claim = with(&arp(1, (moved, own), own), |f| f[..6].fill(0xff));
        rig.send("lan", &[claim]);
        assert_eq!(rig.heard(), []);
        let known = |rig: &Rig| {
            let all = rig.net.members[0].control.neighbours();
            all.into_iter().find(|(_, ip, _)| *ip == IpAddr::from(own)).map(|(_, _, mac)| mac)
        };
        assert_eq!(known(rig), Some(moved));
        // The new address is asked within five seconds, and gone after eight without an
        // answer.
        rig.net.wait(Duration::from_secs(6));
        let asked = rig.heard();
        assert!(asked.iter().any(|(port, f)| *port == "lan" && f[..6] == moved.0), "{asked:02x?}");
        rig.net.wait(Duration::from_secs(3));
        assert_eq!(known(rig), None);
        rig.heard();
        rig.know(0, &[("10.1.0.9", HOST)]);
        routes(rig);
    });
}

const NODE6: &str = "2001:db8:1::1";

/// A neighbour message of this type with a target and the sender's link address.
fn nd(from: &str, hops: u8, kind: u8, target: &str, link: [u8; 6]) -> Vec<u8> {
    let target = target.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let option = if kind == 135 { 1 } else { 2 };
    let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target, &[option, 1], &link].concat();
    at_lan(&with(&craft::icmp6(from, NODE6, &message), |p| p[7] = hops))
}

/// A host asks by IPv6 and is answered.
fn asks6(rig: &mut Rig) {
    rig.send("lan", &[nd("2001:db8:1::9", 255, 135, NODE6, HOST.0)]);
    let heard = rig.heard();
    let [("lan", answer)] = &heard[..] else { panic!("{heard:02x?}") };
    assert_eq!((answer[20], answer[54]), (58, 136));
    routes(rig);
}

#[test]
fn neighbour_discovery_with_a_hop_limit_below_255_comes_from_afar() {
    each(router, |rig| {
        let each = [(254, 135), (64, 135), (0, 135), (254, 136), (1, 136)];
        let each = each.map(|(hops, kind)| nd("2001:db8:1::9", hops, kind, NODE6, HOST.0));
        rig.refused("lan", &each, DropReason::NeighbourFromAfar);
        asks6(rig);
    });
}

#[test]
fn neighbour_discovery_with_a_group_as_a_link_address_is_refused() {
    each(router, |rig| {
        let macs = [[0xff; 6], [0x33, 0x33, 0, 0, 0, 1], [0; 6], mac("n1", "lan").0];
        let frames = macs.map(|m| nd("2001:db8:1::9", 255, 135, NODE6, m));
        rig.refused("lan", &frames, DropReason::NeighbourLinkAddress);
        asks6(rig);
    });
}

#[test]
fn neighbour_discovery_from_another_network_is_off_the_link() {
    each(router, |rig| {
        let froms = ["2001:db8:2::9", "2001:db8:77::9"];
        let frames = froms.map(|from| nd(from, 255, 135, NODE6, HOST.0));
        rig.refused("lan", &frames, DropReason::NeighbourOffLink);
        asks6(rig);
    });
}

#[test]
fn neighbour_discovery_without_a_source_that_names_a_link_address_is_refused() {
    each(router, |rig| {
        let bad = nd("::", 255, 135, NODE6, HOST.0);
        rig.refused("lan", &[bad], DropReason::NeighbourUnspecified);
        asks6(rig);
    });
}

#[test]
fn neighbour_discovery_whose_checksum_is_wrong_is_malformed() {
    each(router, |rig| {
        let good = nd("2001:db8:1::9", 255, 135, NODE6, HOST.0);
        rig.refused("lan", &[with(&good, |f| f[56] ^= 1)], DropReason::Malformed);
        asks6(rig);
    });
}

#[test]
fn an_option_of_neighbour_discovery_with_length_zero_is_malformed() {
    each(router, |rig| {
        let target = NODE6.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target, &[1, 0], &HOST.0].concat();
        let bad = with(&craft::icmp6("2001:db8:1::9", NODE6, &message), |p| p[7] = 255);
        rig.refused("lan", &[at_lan(&bad)], DropReason::Malformed);
        asks6(rig);
    });
}

#[test]
fn a_router_advertisement_moves_no_route() {
    each(router, |rig| {
        for (kind, len) in [(133, 8), (134, 16), (137, 40)] {
            let message = with(&vec![0; len], |m| m[0] = kind);
            let bad = with(&craft::icmp6("fe80::9", "ff02::1", &message), |p| p[7] = 255);
            let frame = craft::frame(MacAddr([0x33, 0x33, 0, 0, 0, 1]), HOST, &bad);
            rig.refused("lan", &[frame], DropReason::RouterMessage);
        }
        asks6(rig);
    });
}
