//! AH under attack (RFC 4302): an attacker without a key changes a real peer's packets, one
//! with a key puts forbidden packets inside.

use crate::craft::{self, AH, ESP, UDP, padded, v4_with, with};
use crate::net::Net;
use crate::rig::{
    FAR4, FAR6, HOST4, HOST6, NODE4, NODE6, PEER4, PEER6, Rig, T4, T6, at_wan, each, gateway,
    hops_later, inner4, nets, outer4, pair, protect, sealer, tunnels,
};
use ferrule_base::DropReason;
use hmac::{Hmac, KeyInit, Mac};

/// Both tunnels with AH.
fn site(net: Net) -> Rig {
    let suite = "protocol = \"ah\"\nsuite = \"hmac-sha256-128\"";
    let tunnels = |own| tunnels(own, "").replace("suite = \"aes-gcm-128\"", suite);
    Rig::two(net, [1, 2].map(|own| gateway(own, &tunnels(own).replace("gcm:", "sha256:"))))
}

/// Good frames of the peer, IPv4 and IPv6: the frame, the offset of AH in it, the packet
/// that comes out.
fn good(rig: &mut Rig) -> [(Vec<u8>, usize, Vec<u8>); 2] {
    let udp = craft::udp(7, 9, &[3; 60]);
    [(FAR4, HOST4, 34), (FAR6, HOST6, 54)].map(|(from, to, at)| {
        let packet = craft::ip(UDP, from, to, &udp);
        (rig.peer_sends(&packet), at, hops_later(&packet, 2))
    })
}

/// Each good frame is refused with this change, which is told where AH begins, and
/// passes without.
fn altered(reason: DropReason, change: impl Fn(&mut Vec<u8>, usize)) {
    each(site, |rig| {
        for (good, at, inner) in good(rig) {
            let bad = with(&good, |frame| {
                change(frame, at);
                if at == 34 {
                    ferrule_wire::ipv4::fill_checksum(&mut frame[14..]);
                }
            });
            rig.refused("wan", &[bad], reason);
            rig.passes("wan", &good, "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

/// AH over IPv4 in the pair of the first tunnel around this, ICV and all.
fn sealed(number: u32, next: u8, payload: &[u8]) -> Vec<u8> {
    let spi = sealer(T4).spi;
    let number = number.to_be_bytes();
    let header = [&[next, 5, 0, 0], &spi.to_be_bytes()[..], &number, &[0; 16]].concat();
    let packet = outer4(AH, &[&header, payload].concat());
    let muted = with(&packet, |p| {
        (p[1], p[8]) = (0, 0);
        p[6..8].fill(0);
        p[10..12].fill(0);
    });
    let key = [sealer(T4).key + 1; 32];
    let mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&key).expect("a key");
    let icv = mac.chain_update(&muted).finalize().into_bytes();
    with(&packet, |p| p[32..48].copy_from_slice(&icv[..16]))
}

#[test]
fn ah_with_spi_zero_or_a_foreign_one_has_no_sa() {
    altered(DropReason::AhUnknownSpi, |frame, at| frame[at + 4..at + 8].fill(0));
    altered(DropReason::AhUnknownSpi, |frame, at| frame[at + 7] ^= 0x40);
}

#[test]
fn ah_from_an_address_that_is_not_the_peers_has_no_sa() {
    altered(DropReason::AhUnknownSpi, |frame, at| frame[if at == 34 { 29 } else { 37 }] = 77);
}

#[test]
fn ah_cut_within_its_header_is_malformed() {
    altered(DropReason::Malformed, |frame, at| {
        frame.truncate(at + 11);
        let len = frame.len() as u16 - if at == 34 { 14 } else { 54 };
        let field = if at == 34 { 16..18 } else { 18..20 };
        frame[field].copy_from_slice(&len.to_be_bytes());
    });
}

#[test]
fn ah_whose_length_is_not_the_sas_is_a_bad_header() {
    for len in [0, 3, 4, 255] {
        altered(DropReason::AhBadHeader, |frame, at| frame[at + 1] = len);
    }
}

#[test]
fn ah_with_reserved_bits_that_were_set_on_the_way_fails_its_icv() {
    altered(DropReason::AhBadIcv, |frame, at| frame[at + 2] = 1);
}

#[test]
fn ah_whose_next_header_was_changed_fails_its_icv() {
    altered(DropReason::AhBadIcv, |frame, at| frame[at] = UDP);
}

#[test]
fn ah_with_one_bit_of_payload_or_icv_turned_fails_it() {
    altered(DropReason::AhBadIcv, |frame, _| *frame.last_mut().unwrap() ^= 1);
    altered(DropReason::AhBadIcv, |frame, at| frame[at + 12] ^= 0x80);
}

#[test]
fn ah_with_an_immutable_field_of_the_outer_header_changed_fails_its_icv() {
    // IPv4: identification. IPv6: nothing but addresses, length and next header is
    // covered there; a destination option in the way contradicts the ICV.
    each(site, |rig| {
        let [(four, _, out4), (six, at, out6)] = good(rig);
        let bad = with(&four, |frame| {
            frame[18] ^= 1;
            ferrule_wire::ipv4::fill_checksum(&mut frame[14..]);
        });
        rig.refused("wan", &[bad], DropReason::AhBadIcv);
        let option = craft::behind_options(1, AH, &six[at..]);
        let bad = at_wan(&craft::ip(craft::DESTINATION, PEER6, NODE6, &option));
        rig.refused("wan", &[bad], DropReason::AhBadIcv);
        // Changes that routers may make do no harm: class, TTL, and the flow label.
        let changed = with(&four, |frame| {
            (frame[15], frame[22]) = (0xb8, 3);
            ferrule_wire::ipv4::fill_checksum(&mut frame[14..]);
        });
        rig.passes("wan", &changed, "lan", &out4);
        let changed = with(&six, |frame| (frame[17], frame[21]) = (9, 3));
        rig.passes("wan", &changed, "lan", &out6);
        rig.honest_traffic_passes();
    });
}

#[test]
fn ah_that_was_recorded_and_sent_again_is_a_replay() {
    each(site, |rig| {
        for (good, _, inner) in good(rig) {
            rig.passes("wan", &good, "lan", &inner);
            rig.refused("wan", &vec![good.clone(); 20], DropReason::AhReplay);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn ah_with_number_zero_is_a_replay() {
    altered(DropReason::AhReplay, |frame, at| frame[at + 8..at + 12].fill(0));
}

#[test]
fn ah_with_a_forged_number_far_ahead_does_not_move_the_window() {
    for number in [1000_u32, 1 << 31, u32::MAX] {
        altered(DropReason::AhBadIcv, |frame, at| {
            frame[at + 8..at + 12].copy_from_slice(&number.to_be_bytes());
        });
    }
}

#[test]
fn ah_of_a_tunnel_with_no_packet_inside_is_a_bad_header() {
    each(site, |rig| {
        let udp = craft::udp(7, 9, &[3; 60]);
        let bad = [(UDP, &udp[..]), (craft::IPV6, &inner4(1)[..]), (craft::IPIP, &[][..])];
        for (n, (next, payload)) in (1..).zip(bad) {
            let frame = at_wan(&sealed(n, next, payload));
            rig.refused_as_authentic("wan", &[frame], DropReason::AhBadHeader);
        }
        let good = at_wan(&sealed(9, craft::IPIP, &inner4(1)));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
    });
}

#[test]
fn ah_around_a_packet_outside_the_selectors_is_a_mismatch() {
    each(site, |rig| {
        let udp = craft::udp(7, 9, &[3; 60]);
        let ends = [("10.3.0.9", HOST4), (FAR4, NODE4), (FAR4, "10.2.0.7")];
        for (n, (from, to)) in (1..).zip(ends) {
            let inner = craft::ip(UDP, from, to, &udp);
            let frame = at_wan(&sealed(n, craft::IPIP, &inner));
            rig.refused_as_authentic("wan", &[frame], DropReason::AhSelectorMismatch);
        }
        let good = at_wan(&sealed(9, craft::IPIP, &inner4(1)));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
    });
}

#[test]
fn ah_marked_outside_of_a_packet_that_cannot_say_so_is_dropped() {
    each(site, |rig| {
        let good = sealed(1, craft::IPIP, &inner4(1));
        let marked = v4_with(&good, |p| p[1] = 3);
        rig.refused_as_authentic("wan", &[at_wan(&marked)], DropReason::AhEcn);
        let next = at_wan(&sealed(2, craft::IPIP, &inner4(1)));
        rig.passes("wan", &next, "lan", &hops_later(&inner4(1), 1));
    });
}

#[test]
fn ah_with_the_spi_of_an_sa_of_esp_has_no_sa_and_the_other_way_round() {
    each(crate::rig::site(""), |rig| {
        let frame = at_wan(&sealed(1, craft::IPIP, &inner4(1)));
        rig.refused("wan", &[frame], DropReason::AhUnknownSpi);
        let good = at_wan(&outer4(ESP, &sealer(T4).tunnel(9, &inner4(1))));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
    each(site, |rig| {
        let bad = at_wan(&outer4(ESP, &sealer(T4).tunnel(9, &inner4(1))));
        rig.refused("wan", &[bad], DropReason::EspUnknownSpi);
        let good = at_wan(&sealed(9, craft::IPIP, &inner4(1)));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

/// ESP's tunnel in AH's transport mode between the gateways, for IPv4 and IPv6.
fn nested(own: u8) -> String {
    let around = "protocol = \"ah\"\nsuite = \"hmac-sha256-128\"\nesn = false";
    let inside = "suite = \"aes-gcm-128\"\nesn = false\nthen = \"u\"";
    let u = pair(own, "transport", "u", [NODE4, PEER4], 0x1030, around);
    let tunnel = pair(own, "tunnel", "t4", [NODE4, PEER4], T4, inside)
        + &pair(own, "tunnel", "t6", [NODE4, PEER4], T6, inside);
    let policies = protect("tunnel", "t4", &nets(own, false));
    let policies = policies + &protect("tunnel", "t6", &nets(own, true));
    gateway(own, &(u.replace("gcm:", "sha256:") + &tunnel + &policies))
}

#[test]
fn esp_that_should_stand_in_ah_is_not_taken_without() {
    each(
        |net| Rig::two(net, [1, 2].map(nested)),
        |rig| {
            let bare = at_wan(&outer4(ESP, &sealer(T4).tunnel(9, &inner4(1))));
            rig.refused("wan", &[bare], DropReason::EspNotNested);
            rig.honest_traffic_passes();
        },
    );
}

#[test]
fn ah_in_esp_where_esp_in_ah_was_agreed_is_refused() {
    each(
        |net| Rig::two(net, [1, 2].map(nested)),
        |rig| {
            // In the tunnel's ESP, a packet of the peer with AH for the SA around.
            let udp = craft::ip(UDP, FAR4, HOST4, &craft::udp(7, 9, &[3; 60]));
            let right = rig.peer_sends(&udp);
            assert_eq!(right[23], AH);
            let esp = sealer(T4).seal(40, &padded(&right[14..], craft::IPIP));
            let wrong = at_wan(&outer4(ESP, &esp));
            rig.refused("wan", &[wrong], DropReason::EspNotNested);
            rig.passes("wan", &right, "lan", &hops_later(&udp, 2));
            rig.honest_traffic_passes();
        },
    );
}
