//! Ways round an access list: fragments (RFC 1858, RFC 3128), options and extension headers
//! in front of the fields that an entry compares, and packets that show too few of them.

use crate::craft::{self, DESTINATION, TCP, UDP, behind_options, halves, moved, v4, v4_with};
use crate::net::Net;
use crate::rig::{HOST, Rig, at_lan, each, hops_later};
use crate::router::{HERE4, HERE6, NODE4, OUT4, OUT6, ROUTER};
use ferrule_base::DropReason;

/// A router that takes no Telnet and no new connections from its LAN, and lets go what UDP
/// has to port 9.
fn listed(net: Net) -> Rig {
    let lists = r#"
    [[access-list]]
    name = "lan"
    entry = [
        { action = "deny", protocol = ["tcp", "udp"], to-ports = 23 },
        { action = "deny", protocol = "tcp", tcp-flags = "syn+!ack" },
        { action = "permit", protocol = "udp", to-ports = 9 },
        { action = "permit", protocol = "tcp" },
        { action = "permit", protocol = "tcp", fragments = true },
    ]
    "#;
    let with_list =
        ROUTER.replacen("port = \"lan\"\n", "port = \"lan\"\n    acl-in = \"lan\"\n", 1);
    let mut rig = Rig::alone(net, &(with_list + lists), &["lan", "out"]);
    rig.know(0, &[(HERE4, HOST), (HERE6, HOST), (OUT4, HOST), (OUT6, HOST)]);
    rig
}

fn tcp(to: u16, flags: u8) -> Vec<u8> {
    let mut segment = [&4000_u16.to_be_bytes()[..], &to.to_be_bytes(), &[0; 56]].concat();
    (segment[12], segment[13]) = (5 << 4, flags);
    segment
}

const SYN: u8 = 2;
const ACK: u8 = 16;

fn both(protocol: u8, payload: &[u8]) -> [Vec<u8>; 2] {
    [(HERE4, OUT4), (HERE6, OUT6)].map(|(from, to)| craft::ip(protocol, from, to, payload))
}

/// Packets that the list permits still pass.
fn permitted_passes(rig: &mut Rig) {
    let udp = both(UDP, &craft::udp(7, 9, &[1; 60]));
    let tcp = both(TCP, &tcp(80, ACK));
    for packet in udp.iter().chain(&tcp) {
        rig.passes("lan", &at_lan(packet), "out", &hops_later(packet, 1));
    }
}

fn refused(rig: &mut Rig, packets: &[Vec<u8>], reason: DropReason) {
    let frames: Vec<_> = packets.iter().map(|packet| at_lan(packet)).collect();
    rig.refused("lan", &frames, reason);
}

#[test]
fn traffic_that_a_list_denies_is_dropped_and_nobody_is_told() {
    each(listed, |rig| {
        let denied = [both(TCP, &tcp(23, ACK)), both(TCP, &tcp(80, SYN))];
        let unnamed = [both(UDP, &craft::udp(7, 10, &[1; 60])), both(47, &[0; 60])];
        refused(rig, &denied.concat(), DropReason::AclDenied);
        refused(rig, &unnamed.concat(), DropReason::AclDenied);
        permitted_passes(rig);
    });
}

#[test]
fn a_list_sees_the_ports_behind_options_and_extension_headers() {
    each(listed, |rig| {
        let telnet = craft::udp(7, 23, &[1; 60]);
        let four = craft::ip(UDP, HERE4, OUT4, &telnet);
        let (header, payload) = four.split_at(20);
        let four = v4_with(&v4([header, &[1; 8], payload].concat()), |p| p[0] = 0x47);
        let six: Vec<_> = (1..=3)
            .map(|count| craft::ip(DESTINATION, HERE6, OUT6, &behind_options(count, UDP, &telnet)))
            .collect();
        refused(rig, &[&[four][..], &six].concat(), DropReason::AclDenied);
        permitted_passes(rig);
    });
}

#[test]
fn a_first_fragment_that_hides_tcp_flags_passes_no_list() {
    each(listed, |rig| {
        let first = |packet: &Vec<u8>| halves(packet, 8)[0].clone();
        let hidden: Vec<_> = both(TCP, &tcp(80, SYN)).iter().map(first).collect();
        refused(rig, &hidden, DropReason::FragmentTiny);
        permitted_passes(rig);
    });
}

#[test]
fn a_fragment_that_would_write_the_tcp_flags_anew_passes_no_list() {
    each(listed, |rig| {
        let second = |packet: &Vec<u8>| moved(&halves(packet, 32)[1], -24, &[SYN; 24]);
        let rewriting: Vec<_> = both(TCP, &tcp(80, ACK)).iter().map(second).collect();
        refused(rig, &rewriting, DropReason::FragmentTiny);
        permitted_passes(rig);
    });
}

#[test]
fn later_fragments_pass_only_by_an_entry_that_asks_for_nothing_in_them() {
    each(listed, |rig| {
        let second = |packet: &Vec<u8>| halves(packet, 32)[1].clone();
        // UDP is permitted by port, which they do not show.
        let udp: Vec<_> = both(UDP, &craft::udp(7, 9, &[1; 60])).iter().map(second).collect();
        refused(rig, &udp, DropReason::AclDenied);
        // TCP's have an entry; of IPv6 their protocol is not believed.
        let [four, six] = both(TCP, &tcp(80, ACK)).map(|packet| second(&packet));
        rig.passes("lan", &at_lan(&four), "out", &hops_later(&four, 1));
        refused(rig, &[six], DropReason::AclDenied);
        permitted_passes(rig);
    });
}

#[test]
fn a_list_guards_the_node_itself() {
    each(listed, |rig| {
        let ping = craft::icmp4(HERE4, NODE4, &[8, 0, 0, 0, 0, 1, 0, 1, 7, 7]);
        let telnet = craft::ip(TCP, HERE4, NODE4, &tcp(23, SYN));
        refused(rig, &[ping, telnet], DropReason::AclDenied);
        permitted_passes(rig);
    });
}

#[test]
fn a_packet_that_ends_before_its_ports_is_no_entrys_that_asks_for_them() {
    each(listed, |rig| {
        refused(rig, &both(UDP, &[0, 7]), DropReason::AclDenied);
        permitted_passes(rig);
    });
}
