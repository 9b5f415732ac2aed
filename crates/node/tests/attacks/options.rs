//! IPv6 options of unknown types: each itself tells the treatment of its packet (RFC 8200
//! section 4.2).

use crate::craft::{self, DESTINATION, UDP, with};
use crate::net::mac;
use crate::rig::{HOST, Rig, at_lan, each, hops_later};
use crate::router::{HERE6, OUT6, router, routes, udp};
use ferrule_base::{DropReason, MacAddr};

const NODE6: &str = "2001:db8:1::1";

/// A packet with an option of this type, two octets of data, in a header of its own.
fn with_option(header: u8, to: &str, kind: u8) -> Vec<u8> {
    let options = [UDP, 0, 1, 0, kind, 2, 7, 7];
    craft::ip(header, HERE6, to, &[&options[..], &udp()].concat())
}

/// The sender of these packets is told of each, with the octet of the option.
fn told(rig: &mut Rig, frames: &[Vec<u8>]) {
    let told = rig.dropped("lan", frames, &[]);
    assert_eq!(told.len(), frames.len());
    for ((port, frame), sent) in told.iter().zip(frames) {
        let pointer = [0, 0, 0, 44];
        assert_eq!((*port, &frame[54..56], &frame[58..62]), ("lan", &[4, 2][..], &pointer[..]));
        // From an address of the node, with the packet as it came.
        assert_eq!((&frame[22..38], &frame[38..54]), (&own()[..], &sent[22..38]));
        assert_eq!(frame[62..], sent[14..]);
    }
}

fn own() -> [u8; 16] {
    NODE6.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

#[test]
fn an_unknown_option_on_the_way_is_skipped_discarded_or_told_as_its_type_says() {
    each(router, |rig| {
        let skipped = with_option(0, OUT6, 0x1e);
        rig.passes("lan", &at_lan(&skipped), "out", &hops_later(&skipped, 1));
        rig.refused("lan", &[at_lan(&with_option(0, OUT6, 0x5e))], DropReason::IpOption);
        told(rig, &[0x9e, 0xde].map(|kind| at_lan(&with_option(0, OUT6, kind))));
        // Options for the destination are the destination's concern.
        let theirs = with_option(DESTINATION, OUT6, 0x9e);
        rig.passes("lan", &at_lan(&theirs), "out", &hops_later(&theirs, 1));
        routes(rig);
    });
}

#[test]
fn an_unknown_option_for_the_node_is_skipped_discarded_or_told_as_its_type_says() {
    each(router, |rig| {
        for header in [0, DESTINATION] {
            let to_us = |kind| at_lan(&with_option(header, NODE6, kind));
            rig.refused("lan", &[to_us(0x5e)], DropReason::IpOption);
            told(rig, &[0x9e, 0xde].map(to_us));
            // The datagram behind one that is skipped arrives: its port has no listener.
            let unheard = rig.dropped("lan", &[to_us(0x1e)], &[]);
            assert_eq!((unheard.len(), &unheard[0].1[54..56]), (1, &[1, 4][..]));
        }
        routes(rig);
    });
}

#[test]
fn an_unknown_option_to_a_group_is_told_where_its_type_asks_for_that() {
    each(router, |rig| {
        let to = |group: &str, kind| {
            let mac = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
            craft::frame(mac, HOST, &with_option(DESTINATION, group, kind))
        };
        rig.refused("lan", &[to("ff02::1", 0xde), to("ff02::1", 0x5e)], DropReason::IpOption);
        told(rig, &[to("ff02::1", 0x9e)]);
        // Of a group that the node is not in nothing is read.
        rig.refused("lan", &[to("ff02::5", 0x9e)], DropReason::NotRouted);
        routes(rig);
    });
}

#[test]
fn options_longer_than_their_header_are_malformed() {
    each(router, |rig| {
        let longer = |to| with(&with_option(0, to, 0x1e), |p| p[45] = 3);
        let frames = [longer(OUT6), longer(NODE6)].map(|p| at_lan(&p));
        rig.refused("lan", &frames, DropReason::Malformed);
        assert_eq!(frames[0][..6], mac("n1", "lan").0);
        routes(rig);
    });
}
