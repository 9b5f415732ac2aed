//! Transport mode, ESP in UDP and an SA around another: packets in the other mode, by the
//! other way, or without their outer SA (RFC 4301, RFC 3948).

use crate::craft::{self, ESP, IPIP, TCP, UDP, padded, v4_with, with};
use crate::net::Net;
use crate::rig::{
    FAR4, FAR6, HOST4, HOST6, NODE4, NODE6, PEER4, PEER6, Rig, T4, T6, at_wan, each, gateway,
    hops_later, inner4, inner6, nets, outer4, outer6, pair, protect, sealer, site, tunnels,
};
use ferrule_base::DropReason;
use ferrule_wire::{Ends, udp};
use std::net::IpAddr;

/// Hosts in transport mode, for UDP alone.
fn hosts(net: Net) -> Rig {
    let more = "suite = \"aes-gcm-128\"\nesn = false";
    let text = |own| {
        gateway(
            own,
            &(pair(own, "transport", "h4", [HOST4, FAR4], T4, more)
                + &pair(own, "transport", "h6", [HOST6, FAR6], T6, more)
                + &protect("transport", "h4", "protocol = \"udp\"")
                + &protect("transport", "h6", "protocol = \"udp\"")),
        )
    };
    Rig::two(net, [1, 2].map(text))
}

/// A sealed packet from host to host.
fn host4(number: u64, next: u8, payload: &[u8]) -> Vec<u8> {
    at_wan(&craft::ip(ESP, FAR4, HOST4, &sealer(T4).esp(number, payload, next)))
}

fn host6(number: u64, next: u8, payload: &[u8]) -> Vec<u8> {
    at_wan(&craft::ip(ESP, FAR6, HOST6, &sealer(T6).esp(number, payload, next)))
}

/// A host's good packets, sealed with this number, and the packets that come out.
fn good(number: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    let udp = craft::udp(7, 9, &[1; 60]);
    let whole = |from, to| hops_later(&craft::ip(UDP, from, to, &udp), 1);
    let udp6 = with(&craft::ip(UDP, FAR6, HOST6, &udp), |_| ());
    [
        (host4(number, UDP, &udp), whole(FAR4, HOST4)),
        (host6(number, UDP, &udp6[40..]), whole(FAR6, HOST6)),
    ]
}

fn good_passes(rig: &mut Rig) {
    for (frame, inner) in good(40) {
        rig.passes("wan", &frame, "lan", &inner);
    }
    rig.honest_traffic_passes();
}

#[test]
fn a_packet_of_tunnel_mode_in_a_transport_sa_is_a_mismatch() {
    each(hosts, |rig| {
        let (four, six) = (host4(9, IPIP, &inner4(1)), host6(9, craft::IPV6, &inner6(1)));
        rig.refused_as_authentic("wan", &[four, six], DropReason::EspSelectorMismatch);
        good_passes(rig);
    });
}

#[test]
fn another_protocol_than_a_transport_sa_carries_is_a_mismatch() {
    each(hosts, |rig| {
        let frames = [TCP, craft::ICMP, ESP, craft::AH, 255].into_iter().enumerate();
        let frames: Vec<_> = frames.map(|(n, p)| host4(9 + n as u64, p, &[7; 40])).collect();
        rig.refused_as_authentic("wan", &frames, DropReason::EspSelectorMismatch);
        good_passes(rig);
    });
}

#[test]
fn hosts_that_are_guarded_get_nothing_in_clear() {
    each(hosts, |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let (four, six) = (craft::ip(UDP, FAR4, HOST4, &udp), craft::ip(UDP, FAR6, HOST6, &udp));
        rig.refused("wan", &[at_wan(&four), at_wan(&six)], DropReason::EspRequired);
        let tcp = craft::ip(TCP, FAR4, HOST4, &[0; 20]);
        rig.refused("wan", &[at_wan(&tcp)], DropReason::PolicyDiscard);
        good_passes(rig);
    });
}

#[test]
fn esp_for_a_guarded_host_without_an_sa_does_not_reach_the_host() {
    each(hosts, |rig| {
        let esp = craft::Sealer { spi: 0x7777, ..sealer(T4) }.esp(9, &[1; 60], UDP);
        let bad = at_wan(&craft::ip(ESP, FAR4, HOST4, &esp));
        rig.refused("wan", &[bad], DropReason::EspUnknownSpi);
        good_passes(rig);
    });
}

#[test]
fn a_bad_trailer_in_transport_mode_is_refused() {
    each(hosts, |rig| {
        let text = with(&padded(&craft::udp(7, 9, &[1; 60]), UDP), |t| {
            let at = t.len() - 2;
            t[at] = 250;
        });
        let bad = at_wan(&craft::ip(ESP, FAR4, HOST4, &sealer(T4).seal(9, &text)));
        rig.refused_as_authentic("wan", &[bad], DropReason::EspBadTrailer);
        good_passes(rig);
    });
}

/// Both tunnels in UDP.
fn in_udp(net: Net) -> Rig {
    site("encapsulation = \"udp\"\nkeepalive-seconds = 0")(net)
}

/// ESP in UDP from the peer.
fn udp4(from: &str, ports: (u16, u16), esp: &[u8]) -> Vec<u8> {
    at_wan(&craft::ip(UDP, from, NODE4, &craft::udp(ports.0, ports.1, esp)))
}

fn udp_passes(rig: &mut Rig) {
    let good = udp4(PEER4, (4500, 4500), &sealer(T4).tunnel(40, &inner4(1)));
    rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
    rig.honest_traffic_passes();
}

#[test]
fn esp_without_udp_for_an_sa_in_udp_is_refused() {
    each(in_udp, |rig| {
        let four = at_wan(&outer4(ESP, &sealer(T4).tunnel(9, &inner4(1))));
        let six = at_wan(&outer6(ESP, &sealer(T6).tunnel(9, &inner6(1))));
        rig.refused("wan", &[four, six], DropReason::EspEncapsulation);
        udp_passes(rig);
    });
}

#[test]
fn esp_in_udp_for_an_sa_without_is_refused() {
    let text = |own| {
        let more = "suite = \"aes-gcm-128\"\nesn = false";
        let in_udp = format!("{more}\nencapsulation = \"udp\"\nkeepalive-seconds = 0");
        let sas = pair(own, "tunnel", "t4", [NODE4, PEER4], T4, more)
            + &pair(own, "tunnel", "t6", [NODE6, PEER6], T6, &in_udp);
        let policies = protect("tunnel", "t4", &nets(own, false));
        gateway(own, &(sas + &policies + &protect("tunnel", "t6", &nets(own, true))))
    };
    each(
        |net| Rig::two(net, [1, 2].map(text)),
        |rig| {
            let bad = udp4(PEER4, (4500, 4500), &sealer(T4).tunnel(9, &inner4(1)));
            rig.refused("wan", &[bad], DropReason::EspEncapsulation);
            let good = at_wan(&outer4(ESP, &sealer(T4).tunnel(9, &inner4(1))));
            rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
            rig.honest_traffic_passes();
        },
    );
}

#[test]
fn udp_on_the_port_of_esp_with_four_zeros_is_no_esp() {
    // RFC 3948 section 2.2: these would be IKE.
    each(in_udp, |rig| {
        let bad = with(&sealer(T4).tunnel(9, &inner4(1)), |esp| esp[..4].fill(0));
        rig.refused("wan", &[udp4(PEER4, (4500, 4500), &bad)], DropReason::PolicyDiscard);
        udp_passes(rig);
    });
}

#[test]
fn esp_in_udp_on_another_port_is_no_esp() {
    each(in_udp, |rig| {
        let esp = sealer(T4).tunnel(9, &inner4(1));
        let bad = udp4(PEER4, (4500, 4501), &esp);
        rig.refused("wan", &[bad], DropReason::PolicyDiscard);
        udp_passes(rig);
    });
}

#[test]
fn udp_on_the_port_of_esp_too_short_for_it_is_malformed() {
    each(in_udp, |rig| {
        let short = [&[1][..], &[0xfe], &[1; 3], &[1; 7]].map(|d| udp4(PEER4, (4500, 4500), d));
        rig.refused("wan", &short, DropReason::Malformed);
        udp_passes(rig);
    });
}

#[test]
fn esp_in_udp_whose_length_or_checksum_is_wrong_is_not_read() {
    each(in_udp, |rig| {
        let esp = sealer(T4).tunnel(9, &inner4(1));
        let four = craft::ip(UDP, PEER4, NODE4, &craft::udp(4500, 4500, &esp));
        let lengths = [-1_i16, 1, 8].map(|by| {
            let len = u16::from_be_bytes([four[24], four[25]]).wrapping_add_signed(by);
            at_wan(&with(&four, |p| p[24..26].copy_from_slice(&len.to_be_bytes())))
        });
        rig.refused("wan", &lengths, DropReason::Malformed);
        rig.refused("wan", &[at_wan(&with(&four, |p| p[27] = 1))], DropReason::BadChecksum);
        // Over IPv6 there has to be one.
        let esp6 = sealer(T6).tunnel(9, &inner6(1));
        let six = craft::ip(UDP, PEER6, NODE6, &craft::udp(4500, 4500, &esp6));
        rig.refused("wan", &[at_wan(&six)], DropReason::BadChecksum);
        let ends = |from: &str, to: &str| match (from.parse().unwrap(), to.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Ends::V4(from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) => Ends::V6(from, to),
            _ => panic!("{from} {to}"),
        };
        let summed = with(&four, |p| udp::fill_checksum(&ends(PEER4, NODE4), &mut p[20..]));
        rig.passes("wan", &at_wan(&summed), "lan", &hops_later(&inner4(1), 1));
        let summed = with(&six, |p| udp::fill_checksum(&ends(PEER6, NODE6), &mut p[40..]));
        rig.passes("wan", &at_wan(&summed), "lan", &hops_later(&inner6(1), 1));
        udp_passes(rig);
    });
}

#[test]
fn a_stranger_cannot_move_the_other_end_of_a_tunnel_in_udp() {
    each(in_udp, |rig| {
        let esp = sealer(T4).tunnel(9, &inner4(1));
        let forged = with(&esp, |esp| *esp.last_mut().unwrap() ^= 1);
        let from = |from, port, esp: &[u8]| udp4(from, (port, 4500), esp);
        let far = "198.51.100.7";
        let strangers = [from(far, 4500, &forged), from(far, 61_000, &esp)];
        rig.refused("wan", &strangers, DropReason::EspUnknownSpi);
        rig.refused("wan", &[from(PEER4, 61_000, &forged)], DropReason::EspBadIcv);
        // The peer behind another translation is heard, and still not followed: honest
        // traffic goes where it went.
        let moved = from(PEER4, 61_000, &esp);
        rig.passes("wan", &moved, "lan", &hops_later(&inner4(1), 1));
        udp_passes(rig);
    });
}

/// A tunnel that stands in transport mode between the gateways.
fn nested(net: Net) -> Rig {
    let text = |own| {
        let more = "suite = \"aes-gcm-128\"\nesn = false";
        let inside = format!("{more}\nthen = \"around\"");
        let sas = pair(own, "transport", "around", [NODE4, PEER4], 0x1030, more)
            + &pair(own, "tunnel", "t4", [NODE4, PEER4], T4, &inside)
            + &pair(own, "tunnel", "t6", [NODE4, PEER4], T6, &inside);
        let policies = protect("tunnel", "t4", &nets(own, false));
        gateway(own, &(sas + &policies + &protect("tunnel", "t6", &nets(own, true))))
    };
    Rig::two(net, [1, 2].map(text))
}

#[test]
fn esp_that_should_stand_in_another_sa_is_not_taken_without() {
    each(nested, |rig| {
        let inside = sealer(T4).tunnel(9, &inner4(1));
        rig.refused("wan", &[at_wan(&outer4(ESP, &inside))], DropReason::EspNotNested);
        let good = at_wan(&outer4(ESP, &sealer(0x1030).esp(9, &inside, ESP)));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_in_the_wrong_sa_around_is_not_taken() {
    // Around it stands another tunnel's SA, which may not carry it.
    each(nested, |rig| {
        let inside = sealer(T4).tunnel(9, &inner4(1));
        let wrong = sealer(T6).tunnel(9, &outer4(ESP, &inside));
        let wrong = at_wan(&outer4(ESP, &sealer(0x1030).esp(9, &wrong, ESP)));
        rig.refused_as_taken("wan", &[wrong], DropReason::EspSelectorMismatch);
        let good = at_wan(&outer4(ESP, &sealer(0x1030).esp(10, &inside, ESP)));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn a_clear_packet_in_the_sa_around_is_not_for_the_node() {
    each(nested, |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let bad = at_wan(&outer4(ESP, &sealer(0x1030).esp(9, &udp, UDP)));
        rig.refused_as_authentic("wan", &[bad], DropReason::EspSelectorMismatch);
        let good = sealer(0x1030).esp(10, &sealer(T4).tunnel(9, &inner4(1)), ESP);
        rig.passes("wan", &at_wan(&outer4(ESP, &good)), "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

/// Gateways whose port 500 is for keying programs.
fn keyed(net: Net) -> Rig {
    let text = |own| {
        gateway(own, &tunnels(own, "")).replace("lab = true", "lab = true\nkeying-ports = [500]")
    };
    Rig::two(net, [1, 2].map(text))
}

/// Datagrams to the node's port of keying programs, from anybody.
fn to_programs(damage: u8) -> [Vec<u8>; 2] {
    let plain = craft::udp(500, 500, &[9; 200]);
    let four = v4_with(&craft::ip(UDP, PEER4, NODE4, &plain), |p| p[26] = damage);
    let six = craft::ip(UDP, PEER6, NODE6, &plain);
    let six = with(&six, |p| {
        p[46..48].fill(0);
        let ends = Ends::V6(PEER6.parse().unwrap(), NODE6.parse().unwrap());
        udp::fill_checksum(&ends, &mut p[40..]);
        p[46] ^= damage;
    });
    [at_wan(&four), at_wan(&six)]
}

#[test]
fn datagram_for_a_keying_program_goes_nowhere_while_none_listens() {
    each(keyed, |rig| {
        rig.refused("wan", &to_programs(0), DropReason::NoKeyingProgram);
        rig.honest_traffic_passes();
    });
}

#[test]
fn datagram_for_a_keying_program_whose_checksum_is_wrong_is_not_passed_on() {
    each(keyed, |rig| {
        rig.net.members[0].control.listen_for_datagrams(true);
        rig.refused("wan", &to_programs(1), DropReason::BadChecksum);
        assert_eq!(rig.net.members[0].control.poll_datagram(), None);
        rig.honest_traffic_passes();
    });
}
