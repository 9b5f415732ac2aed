//! Well-sealed ESP of a peer that was taken over: padding, next headers and inner packets
//! that break a rule (RFC 4303 section 3.4.4, RFC 4301 section 5.2).

use crate::craft::{self, ESP, ICMP, IPIP, IPV6, NONE, TCP, UDP, padded, v4_with, with};
use crate::rig::{
    FAR4, FAR6, HOST4, HOST6, NODE4, PEER4, Rig, T4, T6, at_wan, each, gateway, hops_later, inner4,
    inner6, nets, outer4, outer6, pair, protect, sealer, site,
};
use ferrule_base::DropReason;

/// ESP around this text, trailer included, over IPv4 and over IPv6.
fn text4(number: u64, text: &[u8]) -> Vec<u8> {
    at_wan(&outer4(ESP, &sealer(T4).seal(number, text)))
}

fn text6(number: u64, text: &[u8]) -> Vec<u8> {
    at_wan(&outer6(ESP, &sealer(T6).seal(number, text)))
}

/// Text that is refused, where the good inner packet passes: the window moves, for it
/// is authentic, and nothing else.
fn sealed_is_refused(rig: &mut Rig, reason: DropReason, four: &[Vec<u8>], six: &[Vec<u8>]) {
    for (number, text) in (9..).zip(four) {
        rig.refused_as_authentic("wan", &[text4(number, text)], reason);
    }
    for (number, text) in (9..).zip(six) {
        rig.refused_as_authentic("wan", &[text6(number, text)], reason);
    }
    let four = text4(40, &padded(&inner4(1), IPIP));
    rig.passes("wan", &four, "lan", &hops_later(&inner4(1), 1));
    let six = text6(40, &padded(&inner6(1), IPV6));
    rig.passes("wan", &six, "lan", &hops_later(&inner6(1), 1));
    rig.honest_traffic_passes();
}

/// An inner packet of each version that is refused.
fn inner_is_refused(rig: &mut Rig, reason: DropReason, four: &[Vec<u8>], six: &[Vec<u8>]) {
    let four: Vec<_> = four.iter().map(|inner| padded(inner, IPIP)).collect();
    let six: Vec<_> = six.iter().map(|inner| padded(inner, IPV6)).collect();
    sealed_is_refused(rig, reason, &four, &six);
}

#[test]
fn padding_that_does_not_count_is_a_bad_trailer() {
    each(site(""), |rig| {
        let zeros = |inner: &[u8], next| [inner, &[0, 0, 0, 0, 0, 0, 6, next]].concat();
        let last = |inner: &[u8], next| [inner, &[1, 2, 3, 4, 5, 7, 6, next]].concat();
        let four = [zeros(&inner4(1), IPIP), last(&inner4(1), IPIP)];
        let six = [zeros(&inner6(1), IPV6), last(&inner6(1), IPV6)];
        sealed_is_refused(rig, DropReason::EspBadTrailer, &four, &six);
    });
}

#[test]
fn a_pad_length_beyond_the_payload_is_a_bad_trailer() {
    each(site(""), |rig| {
        let long = |inner: &[u8], next| [inner, &[1, 2, 3, 4, 5, 6, 255, next]].concat();
        let alone = |next| vec![1, 2, 3, next];
        let four = [long(&inner4(1), IPIP), alone(IPIP)];
        let six = [long(&inner6(1), IPV6), alone(IPV6)];
        sealed_is_refused(rig, DropReason::EspBadTrailer, &four, &six);
    });
}

#[test]
fn an_upper_layer_where_a_tunnel_carries_packets_is_a_bad_trailer() {
    // Contents that a transport SA would carry.
    each(site(""), |rig| {
        let texts = [UDP, TCP, ICMP, ESP, 0, 255].map(|next| padded(&inner4(1), next));
        sealed_is_refused(rig, DropReason::EspBadTrailer, &texts, &texts);
    });
}

#[test]
fn a_next_header_of_the_other_ip_version_is_a_bad_trailer() {
    each(site(""), |rig| {
        let (four, six) = (padded(&inner4(1), IPV6), padded(&inner6(1), IPIP));
        sealed_is_refused(rig, DropReason::EspBadTrailer, &[four], &[six]);
    });
}

#[test]
fn no_inner_packet_at_all_is_a_bad_trailer() {
    each(site(""), |rig| {
        let (four, six) = (padded(&[], IPIP), padded(&[], IPV6));
        sealed_is_refused(rig, DropReason::EspBadTrailer, &[four], &[six]);
    });
}

#[test]
fn a_flood_of_dummies_is_dropped_and_counted_as_such() {
    each(site(""), |rig| {
        let dummies: Vec<_> = (9..39).map(|n| text4(n, &padded(&[7; 300], NONE))).collect();
        rig.refused_as_authentic("wan", &dummies, DropReason::EspDummy);
        sealed_is_refused(rig, DropReason::EspDummy, &[], &[padded(&[], NONE)]);
    });
}

#[test]
fn an_inner_packet_longer_than_its_payload_is_a_bad_trailer() {
    each(site(""), |rig| {
        let four = v4_with(&inner4(1), |p| p[2..4].copy_from_slice(&1000_u16.to_be_bytes()));
        let six = with(&inner6(1), |p| p[4..6].copy_from_slice(&1000_u16.to_be_bytes()));
        inner_is_refused(rig, DropReason::EspBadTrailer, &[four], &[six]);
    });
}

#[test]
fn an_inner_header_length_that_lies_is_a_bad_trailer() {
    each(site(""), |rig| {
        let short = with(&inner4(1), |p| p[0] = 0x44);
        let beyond = v4_with(&inner4(1), |p| p[2..4].copy_from_slice(&19_u16.to_be_bytes()));
        inner_is_refused(rig, DropReason::EspBadTrailer, &[short, beyond], &[]);
    });
}

#[test]
fn an_inner_source_outside_the_selectors_is_a_mismatch() {
    each(site(""), |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let four = ["10.3.0.9", "10.1.0.9", "192.0.2.2", "8.8.8.8"];
        let four = four.map(|from| craft::ip(UDP, from, HOST4, &udp));
        let six = ["2001:db8:3::9", "2001:db8:1::9", "2001:db8::2"];
        let six = six.map(|from| craft::ip(UDP, from, HOST6, &udp));
        inner_is_refused(rig, DropReason::EspSelectorMismatch, &four, &six);
    });
}

#[test]
fn an_inner_destination_outside_the_selectors_is_a_mismatch() {
    each(site(""), |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let four = ["10.2.0.9", "192.0.2.2", "192.0.2.1", "255.255.255.255", "224.0.0.1"];
        let four = four.map(|to| craft::ip(UDP, FAR4, to, &udp));
        let six = ["2001:db8:2::8", "2001:db8::1", "ff02::1", "fe80::1"];
        let six = six.map(|to| craft::ip(UDP, FAR6, to, &udp));
        inner_is_refused(rig, DropReason::EspSelectorMismatch, &four, &six);
    });
}

#[test]
fn an_inner_packet_that_another_sa_carries_is_a_mismatch() {
    // The IPv6 of one tunnel in the other one.
    each(site(""), |rig| {
        let (four, six) = (padded(&inner6(1), IPV6), padded(&inner4(1), IPIP));
        sealed_is_refused(rig, DropReason::EspSelectorMismatch, &[four], &[six]);
    });
}

/// A tunnel for UDP to port 53 alone, and another for what else there is.
fn by_port(own: u8) -> String {
    let more = "suite = \"aes-gcm-128\"\nesn = false";
    // Ports of this side and of the other.
    let ports = if own == 1 { "local-ports = 53" } else { "remote-ports = 53" };
    let dns = format!("{}\nprotocol = \"udp\"\n{ports}", nets(own, false));
    pair(own, "tunnel", "dns", [NODE4, PEER4], 0x1000, more)
        + &pair(own, "tunnel", "rest", [NODE4, PEER4], 0x1020, more)
        + &protect("tunnel", "dns", &dns)
        + &protect("tunnel", "rest", &nets(own, false))
}

#[test]
fn an_inner_packet_to_a_port_outside_the_selectors_is_a_mismatch() {
    let site = |net| Rig::two(net, [1, 2].map(|own| gateway(own, &by_port(own))));
    each(site, |rig| {
        let packet = |to: u16| craft::ip(UDP, FAR4, HOST4, &craft::udp(7, to, &[1; 60]));
        let tcp = v4_with(&packet(53), |p| p[9] = TCP);
        let frame = |n, inner: &[u8]| text4(n, &padded(inner, IPIP));
        let reason = DropReason::EspSelectorMismatch;
        for (n, bad) in [(9, packet(22)), (10, packet(0)), (11, tcp)] {
            rig.refused_as_authentic("wan", &[frame(n, &bad)], reason);
        }
        rig.passes("wan", &frame(12, &packet(53)), "lan", &hops_later(&packet(53), 1));
        // The other SA takes the rest.
        let rest = outer4(ESP, &sealer(0x1020).esp(10, &packet(22), IPIP));
        rig.passes("wan", &at_wan(&rest), "lan", &hops_later(&packet(22), 1));
    });
}

#[test]
fn an_inner_fragment_that_hides_its_ports_is_a_mismatch() {
    let site = |net| Rig::two(net, [1, 2].map(|own| gateway(own, &by_port(own))));
    each(site, |rig| {
        let whole = craft::ip(UDP, FAR4, HOST4, &craft::udp(7, 53, &[1; 60]));
        let later = v4_with(&whole, |p| p[7] = 10);
        let frame = |n, inner: &[u8]| text4(n, &padded(inner, IPIP));
        let reason = DropReason::EspSelectorMismatch;
        rig.refused_as_authentic("wan", &[frame(9, &later)], reason);
        rig.passes("wan", &frame(10, &whole), "lan", &hops_later(&whole, 1));
    });
}

#[test]
fn an_inner_source_that_nobody_may_have_is_a_bad_source_even_where_selectors_allow_all() {
    let all = |own: u8| {
        let any = "local = \"0.0.0.0/0\"\nremote = \"0.0.0.0/0\"";
        let any6 = "local = \"::/0\"\nremote = \"::/0\"";
        let more = "suite = \"aes-gcm-128\"\nesn = false";
        gateway(
            own,
            &(pair(own, "tunnel", "t4", [NODE4, PEER4], T4, more)
                + &protect("tunnel", "t4", any)
                + &pair(own, "tunnel", "t6", [crate::rig::NODE6, crate::rig::PEER6], T6, more)
                + &protect("tunnel", "t6", any6)),
        )
    };
    each(
        |net| Rig::two(net, [1, 2].map(all)),
        |rig| {
            let udp = craft::udp(7, 9, &[1; 60]);
            let four = ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"];
            for (n, from) in (9..).zip(four) {
                let frame = text4(n, &padded(&craft::ip(UDP, from, HOST4, &udp), IPIP));
                rig.refused_as_taken("wan", &[frame], DropReason::BadSource);
            }
            for (n, from) in (9..).zip(["::", "::1", "ff02::1", "::ffff:10.2.0.9"]) {
                let frame = text6(n, &padded(&craft::ip(UDP, from, HOST6, &udp), IPV6));
                rig.refused_as_taken("wan", &[frame], DropReason::BadSource);
            }
            let four = text4(40, &padded(&inner4(1), IPIP));
            rig.passes("wan", &four, "lan", &hops_later(&inner4(1), 1));
            let six = text6(40, &padded(&inner6(1), IPV6));
            rig.passes("wan", &six, "lan", &hops_later(&inner6(1), 1));
        },
    );
}

#[test]
fn an_inner_ipv4_checksum_that_is_wrong_is_found_behind_the_tunnel() {
    each(site(""), |rig| {
        let bad = with(&inner4(1), |p| p[10] ^= 1);
        let frame = text4(9, &padded(&bad, IPIP));
        rig.refused_as_taken("wan", &[frame], DropReason::BadChecksum);
        let good = text4(10, &padded(&inner4(1), IPIP));
        rig.passes("wan", &good, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_inside_a_tunnel_where_none_was_agreed_is_a_mismatch() {
    each(site(""), |rig| {
        let once = outer4(ESP, &sealer(T4).tunnel(9, &inner4(1)));
        let twice = text4(10, &padded(&once, IPIP));
        let reason = DropReason::EspSelectorMismatch;
        rig.refused_as_authentic("wan", &[twice], reason);
        rig.passes("wan", &at_wan(&once), "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn congestion_marked_outside_of_a_packet_that_cannot_say_so_is_dropped() {
    // RFC 6040: on the way, CE was put on a packet whose sender does not do ECN.
    each(site(""), |rig| {
        let good = outer4(ESP, &sealer(T4).tunnel(9, &inner4(1)));
        let good6 = outer6(ESP, &sealer(T6).tunnel(9, &inner6(1)));
        let marked = v4_with(&good, |p| p[1] |= 3);
        let marked6 = with(&good6, |p| p[1] |= 0x30);
        rig.refused_as_authentic("wan", &[at_wan(&marked)], DropReason::EspEcn);
        rig.refused_as_authentic("wan", &[at_wan(&marked6)], DropReason::EspEcn);
        let next = text4(10, &padded(&inner4(1), IPIP));
        rig.passes("wan", &next, "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_error_from_inside_about_a_packet_that_another_sa_carries_is_forged() {
    // RFC 4301 section 6.2: the error's own addresses fit, what it quotes does not.
    each(site(""), |rig| {
        let error = |quoted: &[u8]| {
            let quoted = &quoted[..quoted.len().min(60)];
            craft::icmp4(FAR4, HOST4, &[&[3, 1, 0, 0, 0, 0, 0, 0], quoted].concat())
        };
        let udp = craft::udp(9, 7, &[1; 60]);
        let ours = craft::ip(UDP, HOST4, FAR4, &udp);
        let another = craft::ip(UDP, HOST4, "10.3.0.9", &udp);
        let backwards = craft::ip(UDP, FAR4, HOST4, &udp);
        for (n, bad) in [(9, error(&another)), (10, error(&backwards)), (11, error(&[]))] {
            let frame = text4(n, &padded(&bad, IPIP));
            rig.refused_as_authentic("wan", &[frame], DropReason::IcmpForged);
        }
        let good = error(&ours);
        let frame = text4(12, &padded(&good, IPIP));
        rig.passes("wan", &frame, "lan", &hops_later(&good, 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn neighbour_discovery_through_a_tunnel_comes_from_afar() {
    // Selectors allow all of the node's LAN; its neighbours are not learned through a
    // tunnel.
    each(site(""), |rig| {
        let node = "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let advert = |kind: u8| {
            [&[kind, 0, 0, 0, 0xe0, 0, 0, 0][..], &node, &[2, 1, 2, 0, 6, 6, 6, 6]].concat()
        };
        for (n, kind) in (9..).zip([134, 135, 136, 137]) {
            let mut inner = craft::icmp6(FAR6, "2001:db8:1::1", &advert(kind));
            inner[7] = 255;
            let frame = text6(n, &padded(&inner, IPV6));
            rig.refused_as_taken("wan", &[frame], DropReason::NeighbourFromAfar);
        }
        let six = text6(40, &padded(&inner6(1), IPV6));
        rig.passes("wan", &six, "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}
