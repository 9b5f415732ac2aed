//! ICMP errors about sealed packets, from an attacker who wants them small, or gone (RFC
//! 4301 section 8.2, RFC 1191, RFC 8201).

use crate::craft::{self, with};
use crate::net::mac;
use crate::rig::{FAR4, FAR6, HOST, HOST4, HOST6, NODE4, NODE6, PEER4, Rig, at_wan, each, site};
use ferrule_base::DropReason;

/// A router that is not known to the node.
const ROUTER4: &str = "198.51.100.7";
const ROUTER6: &str = "2001:db8:77::7";

/// Sealed packets of so much data: the last one of each version.
fn sealed(rig: &mut Rig, len: usize) -> [Vec<u8>; 2] {
    [(HOST4, FAR4), (HOST6, FAR6)].map(|(from, to)| {
        let packet = craft::ip(craft::UDP, from, to, &craft::udp(9, 7, &vec![4; len]));
        for _ in 0..3 {
            rig.send("lan", &[craft::frame(mac("n1", "lan"), HOST, &packet)]);
        }
        let heard = rig.heard();
        let [.., ("wan", last)] = &heard[..] else { panic!("{heard:02x?}") };
        last[14..].to_vec()
    })
}

/// A message that these octets were too big.
fn too_big4(quoted: &[u8], mtu: u16) -> Vec<u8> {
    let quoted = &quoted[..quoted.len().min(28)];
    let mtu = mtu.to_be_bytes();
    let message = [&[3, 4, 0, 0, 0, 0, mtu[0], mtu[1]], quoted].concat();
    craft::icmp4(ROUTER4, NODE4, &message)
}

fn too_big6(quoted: &[u8], mtu: u32) -> Vec<u8> {
    let quoted = &quoted[..quoted.len().min(200)];
    let message = [&[2, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
    craft::icmp6(ROUTER6, NODE6, &message)
}

/// Path MTU that the node assumes for its tunnels: IPv4, IPv6.
fn believed(rig: &mut Rig) -> [u16; 2] {
    let report = rig.net.reports(0).remove(0);
    ["t4", "t6"].map(|name| {
        let sa = report.esp_out.iter().find(|sa| sa.name == name).expect("the SA");
        sa.mtu.expect("an MTU")
    })
}

/// Both quotes with this change are refused, and without it they are believed.
fn forged(reason: DropReason, change: impl Fn(&mut Vec<u8>, usize)) {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        let before = believed(rig);
        let bad = too_big4(&with(&four, |quoted| change(quoted, 20)), 1300);
        rig.refused("wan", &[at_wan(&bad)], reason);
        let bad = too_big6(&with(&six, |quoted| change(quoted, 40)), 1300);
        rig.refused("wan", &[at_wan(&bad)], reason);
        assert_eq!(believed(rig), before);
        rig.send("wan", &[at_wan(&too_big4(&four, 1300)), at_wan(&too_big6(&six, 1300))]);
        let after = believed(rig);
        assert!(after[0] < before[0] && after[1] < before[1], "{before:?} {after:?}");
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_error_about_an_spi_that_we_do_not_send_with_is_forged() {
    forged(DropReason::IcmpForged, |quoted, at| quoted[at + 3] ^= 0x40);
}

#[test]
fn an_error_about_a_number_that_was_never_sent_is_forged() {
    forged(DropReason::IcmpForged, |quoted, at| quoted[at + 7] += 1);
    forged(DropReason::IcmpForged, |quoted, at| quoted[at + 4..at + 8].fill(0));
    forged(DropReason::IcmpForged, |quoted, at| quoted[at + 4] = 0xff);
}

#[test]
fn an_error_about_a_packet_to_somebody_else_is_forged() {
    forged(DropReason::IcmpForged, |quoted, at| quoted[at - 1] ^= 0x40);
}

#[test]
fn an_error_about_a_packet_that_is_not_from_us_is_forged() {
    // The last octet of the source.
    forged(DropReason::IcmpForged, |quoted, at| {
        quoted[if at == 20 { 15 } else { 23 }] ^= 0x40;
    });
}

#[test]
fn an_error_that_calls_too_big_what_would_have_fitted_is_forged() {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        let before = believed(rig);
        for mtu in [four.len() as u16, 1500, u16::MAX] {
            rig.refused("wan", &[at_wan(&too_big4(&four, mtu))], DropReason::IcmpForged);
        }
        for mtu in [six.len() as u32, 1500, u32::MAX] {
            rig.refused("wan", &[at_wan(&too_big6(&six, mtu))], DropReason::IcmpForged);
        }
        assert_eq!(believed(rig), before);
        let (four, six) = (too_big4(&four, four.len() as u16 - 1), too_big6(&six, 1299));
        rig.send("wan", &[at_wan(&four), at_wan(&six)]);
        let after = believed(rig);
        assert!(after[0] < before[0] && after[1] < before[1], "{before:?} {after:?}");
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_error_with_a_tiny_mtu_is_believed_down_to_552_and_1280_only() {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        // Exactly the smallest that is believed, then less and less of it.
        rig.send("wan", &[at_wan(&too_big4(&four, 552)), at_wan(&too_big6(&six, 1280))]);
        let least = believed(rig);
        // An outer header, SPI and number, IV, trailer, ICV.
        assert_eq!(least, [552 - 20 - 16 - 16 - 2, 1280 - 40 - 16 - 16 - 2]);
        for mtu in [551, 68, 1] {
            let frames = [at_wan(&too_big4(&four, mtu)), at_wan(&too_big6(&six, mtu.into()))];
            assert_eq!(rig.dropped("wan", &frames, &[(DropReason::IcmpForged, 1)]), []);
        }
        assert_eq!(believed(rig), least);
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_error_whose_checksum_is_wrong_is_not_read() {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        let before = believed(rig);
        let (four, six) = (too_big4(&four, 1300), too_big6(&six, 1300));
        let (bad4, bad6) = (with(&four, |p| p[22] ^= 1), with(&six, |p| p[42] ^= 1));
        rig.refused("wan", &[at_wan(&bad4), at_wan(&bad6)], DropReason::BadChecksum);
        assert_eq!(believed(rig), before);
        rig.send("wan", &[at_wan(&four), at_wan(&six)]);
        assert!(believed(rig)[0] < before[0] && believed(rig)[1] < before[1]);
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_error_that_quotes_too_little_is_refused_at_the_boundary() {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        let (cut4, cut6) = (too_big4(&four[..27], 1300), too_big6(&six[..47], 1300));
        rig.refused("wan", &[at_wan(&cut4), at_wan(&cut6)], DropReason::PolicyDiscard);
        let before = believed(rig);
        let (four, six) = (too_big4(&four, 1300), too_big6(&six, 1300));
        rig.send("wan", &[at_wan(&four), at_wan(&six)]);
        assert!(believed(rig)[0] < before[0] && believed(rig)[1] < before[1]);
        rig.honest_traffic_passes();
    });
}

#[test]
fn errors_that_say_the_peer_is_gone_are_refused_at_the_boundary() {
    each(site(""), |rig| {
        let [four, six] = sealed(rig, 1300);
        let before = believed(rig);
        let errors = [(3, 0), (3, 1), (3, 2), (3, 3), (3, 13), (4, 0), (11, 0), (12, 0)];
        for (kind, code) in errors {
            let bad = craft::icmp4(
                ROUTER4,
                NODE4,
                &[&[kind, code, 0, 0, 0, 0, 0, 0], &four[..28]].concat(),
            );
            rig.refused("wan", &[at_wan(&bad)], DropReason::PolicyDiscard);
        }
        for (kind, code) in [(1, 0), (1, 3), (3, 0), (4, 1)] {
            let bad = craft::icmp6(
                ROUTER6,
                NODE6,
                &[&[kind, code, 0, 0, 0, 0, 0, 0], &six[..200]].concat(),
            );
            rig.refused("wan", &[at_wan(&bad)], DropReason::PolicyDiscard);
        }
        assert_eq!(believed(rig), before);
        rig.honest_traffic_passes();
    });
}

#[test]
fn redirects_move_no_route() {
    each(site(""), |rig| {
        let [four, _] = sealed(rig, 1300);
        let redirect = [&[5, 1, 0, 0, 192, 0, 2, 66], &four[..28]].concat();
        let bad = craft::icmp4(PEER4, NODE4, &redirect);
        rig.refused("wan", &[at_wan(&bad)], DropReason::PolicyDiscard);
        // From a neighbour, with all that RFC 4861 section 8.1 asks for.
        let octets = |ip: &str| ip.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let message =
            [&[137, 0, 0, 0, 0, 0, 0, 0][..], &octets("fe80::66"), &octets(FAR6)].concat();
        let bad = with(&craft::icmp6("fe80::2", NODE6, &message), |p| p[7] = 255);
        rig.refused("wan", &[at_wan(&bad)], DropReason::RouterMessage);
        rig.honest_traffic_passes();
    });
}

#[test]
fn a_true_path_error_among_a_flood_of_forged_errors_is_heard() {
    each(site(""), |rig| {
        let [four, _] = sealed(rig, 1300);
        let bad = at_wan(&too_big4(&with(&four, |quoted| quoted[23] ^= 0x40), 1300));
        let before = believed(rig);
        let flood = vec![bad; 1000];
        let out = rig.dropped("wan", &flood, &[(DropReason::IcmpForged, 1000)]);
        assert_eq!(out, []);
        assert_eq!(believed(rig), before);
        rig.send("wan", &[at_wan(&too_big4(&four, 1300))]);
        assert!(believed(rig)[0] < before[0], "no forgery spends what the true one needs");
        rig.honest_traffic_passes();
    });
}
