//! Around IPsec: packets that arrive in clear where protection is due, packets that leave
//! without a policy (RFC 4301 sections 5.1 and 5.2), and IP headers that lie.

use crate::craft::{self, ESP, IPIP, TCP, UDP, v4_with, with};
use crate::esp::good;
use crate::net::mac;
use crate::rig::{
    FAR4, FAR6, HOST, HOST4, HOST6, NODE4, PEER4, Rig, T4, at_lan, at_wan, each, hops_later,
    inner4, inner6, outer4, outer6, sealer, site,
};
use ferrule_base::{DropReason, MacAddr};

/// In clear refused, inside the tunnel not.
fn only_sealed_passes(rig: &mut Rig) {
    for (good, _, inner) in good(9) {
        rig.passes("wan", &at_wan(&good), "lan", &inner);
    }
    rig.honest_traffic_passes();
}

#[test]
fn what_the_policy_protects_is_refused_in_clear() {
    each(site(""), |rig| {
        let tcp = craft::ip(TCP, FAR4, HOST4, &[0; 20]);
        let frames = [inner4(1), inner6(2), tcp].map(|packet| at_wan(&packet));
        rig.refused("wan", &frames, DropReason::EspRequired);
        only_sealed_passes(rig);
    });
}

#[test]
fn what_the_policy_does_not_name_is_refused_in_clear() {
    each(site(""), |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let four = [("8.8.8.8", HOST4), (PEER4, HOST4), (FAR4, "10.1.7.9")];
        let four = four.map(|(from, to)| at_wan(&craft::ip(UDP, from, to, &udp)));
        rig.refused("wan", &four, DropReason::PolicyDiscard);
        let six = at_wan(&craft::ip(UDP, "2001:db8:77::9", HOST6, &udp));
        rig.refused("wan", &[six], DropReason::PolicyDiscard);
        only_sealed_passes(rig);
    });
}

#[test]
fn packets_in_clear_to_the_nodes_own_addresses_are_refused_at_the_boundary() {
    each(site(""), |rig| {
        let echo = [8, 0, 0, 0, 0, 7, 0, 1];
        let own = [NODE4, "10.1.0.1"];
        let pings = own.map(|to| at_wan(&craft::icmp4("198.51.100.7", to, &echo)));
        rig.refused("wan", &pings, DropReason::PolicyDiscard);
        let ike = craft::ip(UDP, PEER4, NODE4, &craft::udp(500, 500, &[0; 60]));
        let ssh = craft::ip(TCP, PEER4, NODE4, &[0; 20]);
        rig.refused("wan", &[at_wan(&ike), at_wan(&ssh)], DropReason::PolicyDiscard);
        // A host beyond the tunnel may ask the node; in clear no host may in its name.
        let ping = craft::icmp4(FAR4, "10.1.0.1", &echo);
        rig.refused("wan", &[at_wan(&ping)], DropReason::EspRequired);
        only_sealed_passes(rig);
    });
}

#[test]
fn a_source_of_our_own_lan_from_outside_is_refused() {
    each(site(""), |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let from = |from| at_wan(&craft::ip(UDP, from, HOST4, &udp));
        rig.refused("wan", &["10.1.0.5", HOST4].map(from), DropReason::PolicyDiscard);
        rig.refused("wan", &["10.1.0.1", "10.1.0.255"].map(from), DropReason::BadSource);
        let six = at_wan(&craft::ip(UDP, "2001:db8:1::5", HOST6, &udp));
        rig.refused("wan", &[six], DropReason::PolicyDiscard);
        only_sealed_passes(rig);
    });
}

#[test]
fn ip_in_ip_is_no_tunnel_of_ours() {
    each(site(""), |rig| {
        let inside = outer4(IPIP, &inner4(1));
        rig.refused("wan", &[at_wan(&inside)], DropReason::PolicyDiscard);
        only_sealed_passes(rig);
    });
}

#[test]
fn fragments_in_clear_are_put_together_and_then_refused() {
    each(site(""), |rig| {
        let whole = craft::ip(UDP, "198.51.100.7", NODE4, &craft::udp(7, 9, &[1; 72]));
        let [one, two] = craft::halves(&whole, 40);
        // One datagram of two pieces: one of them is taken up in it.
        rig.refused_whole("wan", &[at_wan(&one), at_wan(&two)], DropReason::PolicyDiscard);
        only_sealed_passes(rig);
    });
}

#[test]
fn what_has_no_policy_does_not_leave_the_node() {
    each(site(""), |rig| {
        let udp = craft::udp(7, 9, &[1; 60]);
        let ways = [("10.9.0.9", FAR4), (HOST4, PEER4), ("8.8.8.8", FAR4)];
        let four = ways.map(|(from, to)| at_lan(&craft::ip(UDP, from, to, &udp)));
        rig.refused("lan", &four, DropReason::PolicyDiscard);
        let six = at_lan(&craft::ip(UDP, "2001:db8:9::9", FAR6, &udp));
        rig.refused("lan", &[six], DropReason::PolicyDiscard);
        only_sealed_passes(rig);
    });
}

#[test]
fn a_frame_for_everybody_carries_no_packet_for_a_host_behind_us() {
    // RFC 1812 section 5.3.4: a broadcast of the link would otherwise be sent on.
    each(site(""), |rig| {
        // Nor may a packet inside ESP, though ESP itself is for the node.
        for (good, _, _) in good(8) {
            let to_all = craft::frame(MacAddr::BROADCAST, mac("n2", "wan"), &good);
            rig.refused_as_taken("wan", &[to_all], DropReason::NotRouted);
        }
        let udp = craft::udp(9, 7, &[1; 60]);
        for to in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 9])] {
            let four = craft::frame(to, HOST, &craft::ip(UDP, HOST4, FAR4, &udp));
            let six = craft::frame(to, HOST, &craft::ip(UDP, HOST6, FAR6, &udp));
            rig.refused("lan", &[four, six], DropReason::NotRouted);
        }
        only_sealed_passes(rig);
    });
}

/// A good ESP packet over IPv4, and one with a change to its header, checksum right.
fn header_is_refused(reason: DropReason, change: impl Fn(&mut Vec<u8>)) {
    each(site(""), |rig| {
        let good = outer4(ESP, &sealer(T4).tunnel(9, &inner4(1)));
        rig.refused("wan", &[at_wan(&with(&good, &change))], reason);
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner4(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_ipv4_total_length_beyond_the_frame_is_malformed() {
    header_is_refused(DropReason::Malformed, |packet| {
        let len = packet.len() as u16 + 1;
        *packet = v4_with(packet, |p| p[2..4].copy_from_slice(&len.to_be_bytes()));
    });
}

#[test]
fn an_ipv4_total_length_below_its_header_is_malformed() {
    header_is_refused(DropReason::Malformed, |packet| {
        *packet = v4_with(packet, |p| p[2..4].copy_from_slice(&19_u16.to_be_bytes()));
    });
}

#[test]
fn an_ipv4_header_length_that_lies_is_malformed() {
    header_is_refused(DropReason::Malformed, |packet| packet[0] = 0x44);
    // 60 octets of options in a packet of 40.
    header_is_refused(DropReason::Malformed, |packet| {
        packet.truncate(40);
        packet[0] = 0x4f;
        packet[2..4].copy_from_slice(&40_u16.to_be_bytes());
    });
}

#[test]
fn an_ip_version_that_is_not_the_ethertypes_is_malformed() {
    header_is_refused(DropReason::Malformed, |packet| packet[0] = 0x55);
    each(site(""), |rig| {
        let good = outer6(ESP, &sealer(crate::rig::T6).tunnel(9, &inner6(1)));
        let as_v4 = crate::net::ethernet(mac("n1", "wan"), mac("n2", "wan"), 0x0800, &good);
        rig.refused("wan", &[as_v4], DropReason::Malformed);
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_ipv4_checksum_that_is_wrong_ends_a_sealed_packet_too() {
    header_is_refused(DropReason::BadChecksum, |packet| packet[11] ^= 1);
}

#[test]
fn a_truncated_ip_header_is_malformed() {
    each(site(""), |rig| {
        for (good, at, inner) in good(9) {
            for len in [0, 1, 19, at - 1] {
                let ethertype = if at == 20 { 0x0800 } else { 0x86dd };
                let (to, from) = (mac("n1", "wan"), mac("n2", "wan"));
                let cut = crate::net::ethernet(to, from, ethertype, &good[..len]);
                rig.refused("wan", &[cut], DropReason::Malformed);
            }
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_ipv6_payload_length_beyond_the_frame_is_malformed() {
    each(site(""), |rig| {
        let good = outer6(ESP, &sealer(crate::rig::T6).tunnel(9, &inner6(1)));
        for more in [1, 1000, 65_000] {
            let len = (good.len() as u16 - 40).saturating_add(more).to_be_bytes();
            let bad = with(&good, |p| p[4..6].copy_from_slice(&len));
            rig.refused("wan", &[at_wan(&bad)], DropReason::Malformed);
        }
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_ipv6_payload_length_of_zero_hides_no_esp() {
    each(site(""), |rig| {
        let good = outer6(ESP, &sealer(crate::rig::T6).tunnel(9, &inner6(1)));
        let bad = with(&good, |p| p[4..6].fill(0));
        rig.refused("wan", &[at_wan(&bad)], DropReason::Malformed);
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_behind_a_hundred_extension_headers_is_given_up() {
    each(site(""), |rig| {
        let esp = sealer(crate::rig::T6).tunnel(9, &inner6(1));
        let chain = |count: usize| craft::behind_options(count, ESP, &esp);
        let packet = |count: usize| outer6(craft::DESTINATION, &chain(count));
        for count in [9, 100] {
            rig.refused("wan", &[at_wan(&packet(count))], DropReason::IpOption);
        }
        rig.passes("wan", &at_wan(&packet(8)), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn an_extension_header_longer_than_the_packet_is_malformed() {
    each(site(""), |rig| {
        let esp = sealer(crate::rig::T6).tunnel(9, &inner6(1));
        let good = outer6(craft::DESTINATION, &craft::behind_options(1, ESP, &esp));
        let bad = with(&good, |p| p[41] = 255);
        rig.refused("wan", &[at_wan(&bad)], DropReason::Malformed);
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn hop_by_hop_options_in_the_middle_of_a_chain_are_refused() {
    each(site(""), |rig| {
        let esp = sealer(crate::rig::T6).tunnel(9, &inner6(1));
        let good = outer6(craft::DESTINATION, &craft::behind_options(2, ESP, &esp));
        // The header that the first one names.
        let bad = with(&good, |p| p[40] = 0);
        rig.refused("wan", &[at_wan(&bad)], DropReason::IpOption);
        rig.passes("wan", &at_wan(&good), "lan", &hops_later(&inner6(1), 1));
        rig.honest_traffic_passes();
    });
}

#[test]
fn outer_sources_that_nobody_may_have_are_bad_sources() {
    each(site(""), |rig| {
        for (good, at, inner) in good(9) {
            let (to, froms): (_, &[&str]) = match at {
                20 => (NODE4, &["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"]),
                _ => (crate::rig::NODE6, &["::", "::1", "ff02::1", "::ffff:192.0.2.2"]),
            };
            let each = froms.iter().map(|from| at_wan(&craft::ip(ESP, from, to, &good[at..])));
            let frames: Vec<_> = each.collect();
            rig.refused("wan", &frames, DropReason::BadSource);
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}
