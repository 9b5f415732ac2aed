//! Plain IP: packets that a router must not forward, answer or believe (RFC 1812, RFC 1122,
//! RFC 8200, RFC 5095).

use crate::craft::{self, TCP, UDP, v4_with, with};
use crate::net::Net;
use crate::rig::{HOST, Rig, at_lan, each, hops_later};
use ferrule_base::{DropReason, MacAddr};

pub const ROUTER: &str = r#"
    [node]
    name = "n1"
    lab = true
    [[port]]
    name = "lan"
    driver = "wire"
    [[port]]
    name = "out"
    driver = "wire"
    [[interface]]
    port = "lan"
    address = ["10.1.0.1/24", "2001:db8:1::1/64"]
    [[interface]]
    port = "out"
    address = ["10.2.0.1/24", "2001:db8:2::1/64"]
    [[route]]
    prefix = "10.66.0.0/16"
    discard = true
    [[route]]
    prefix = "2001:db8:66::/48"
    discard = true
"#;

pub const HERE4: &str = "10.1.0.9";
pub const HERE6: &str = "2001:db8:1::9";
pub const OUT4: &str = "10.2.0.9";
pub const OUT6: &str = "2001:db8:2::9";
pub const NODE4: &str = "10.1.0.1";
const NODE6: &str = "2001:db8:1::1";

pub fn router(net: Net) -> Rig {
    let mut rig = Rig::alone(net, ROUTER, &["lan", "out"]);
    rig.know(0, &[(HERE4, HOST), (HERE6, HOST), (OUT4, HOST), (OUT6, HOST)]);
    rig
}

pub fn udp() -> Vec<u8> {
    craft::udp(7, 9, &[1; 60])
}

/// Good packets are still routed.
pub fn routes(rig: &mut Rig) {
    for (from, to) in [(HERE4, OUT4), (HERE6, OUT6)] {
        let packet = craft::ip(UDP, from, to, &udp());
        rig.passes("lan", &at_lan(&packet), "out", &hops_later(&packet, 1));
    }
}

#[test]
fn a_martian_source_is_not_forwarded() {
    each(router, |rig| {
        let four = ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.9", "240.0.0.1", "255.255.255.255"];
        let six = ["::", "::1", "ff02::9", "ff0e::1", "::ffff:10.1.0.9"];
        let four = four.map(|from| at_lan(&craft::ip(UDP, from, OUT4, &udp())));
        let six = six.map(|from| at_lan(&craft::ip(UDP, from, OUT6, &udp())));
        rig.refused("lan", &[&four[..], &six].concat(), DropReason::BadSource);
        routes(rig);
    });
}

#[test]
fn loopback_and_other_addresses_of_no_link_are_not_forwarded() {
    // A default route would lead there.
    let with_default = |net| {
        let more = "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"10.2.0.9\"\n\
                    [[route]]\nprefix = \"::/0\"\nvia = \"2001:db8:2::9\"\n";
        let mut rig = Rig::alone(net, &format!("{ROUTER}{more}"), &["lan", "out"]);
        rig.know(0, &[(HERE4, HOST), (HERE6, HOST), (OUT4, HOST), (OUT6, HOST)]);
        rig
    };
    each(with_default, |rig| {
        let four = ["127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3"];
        let six = ["::", "::1", "::ffff:10.2.0.9", "::ffff:127.0.0.1"];
        let four = four.map(|to| at_lan(&craft::ip(UDP, HERE4, to, &udp())));
        let six = six.map(|to| at_lan(&craft::ip(UDP, HERE6, to, &udp())));
        rig.refused("lan", &[&four[..], &six].concat(), DropReason::NotRouted);
        for (from, to) in [(HERE4, "8.8.8.8"), (HERE6, "2001:db8:77::1")] {
            let packet = craft::ip(UDP, from, to, &udp());
            rig.passes("lan", &at_lan(&packet), "out", &hops_later(&packet, 1));
        }
        routes(rig);
    });
}

#[test]
fn our_own_addresses_and_broadcasts_are_not_forwarded_as_sources() {
    each(router, |rig| {
        let own = [NODE4, "10.2.0.1", "10.1.0.255", "10.2.0.255", "10.1.0.0"];
        let four = own.map(|from| at_lan(&craft::ip(UDP, from, OUT4, &udp())));
        let six = [NODE6, "2001:db8:2::1"].map(|from| at_lan(&craft::ip(UDP, from, OUT6, &udp())));
        rig.refused("lan", &[&four[..], &six].concat(), DropReason::BadSource);
        // Nor do they ask the node anything.
        let echo = [8, 0, 0, 0, 0, 7, 0, 1];
        let all = ["10.1.0.255", "10.2.0.0"].map(|from| at_lan(&craft::icmp4(from, NODE4, &echo)));
        rig.refused("lan", &all, DropReason::BadSource);
        routes(rig);
    });
}

#[test]
fn a_bad_ipv6_fragment_is_told_to_its_sender() {
    each(router, |rig| {
        let piece = |offset: u16, len: usize| {
            let [high, low] = offset.to_be_bytes();
            let header = [UDP, 0, high, low, 0, 0, 0, 9];
            at_lan(&craft::ip(
                craft::FRAGMENT,
                HERE6,
                NODE6,
                &[&header[..], &vec![1; len]].concat(),
            ))
        };
        // A length that is no multiple of eight with more to come; an end beyond 65,535.
        for (frame, pointer) in [(piece(1, 23), 4), (piece(0xfff8, 64), 42)] {
            let told = rig.dropped("lan", &[frame], &[]);
            let [("lan", told)] = &told[..] else { panic!("{told:02x?}") };
            assert_eq!((&told[54..56], &told[58..62]), (&[4, 0][..], &[0, 0, 0, pointer][..]));
        }
        routes(rig);
    });
}

#[test]
fn a_packet_from_our_own_address_is_not_answered() {
    // The land attack: we would answer ourselves.
    each(router, |rig| {
        let echo = [8, 0, 0, 0, 0, 7, 0, 1];
        let four = craft::icmp4(NODE4, NODE4, &echo);
        let other = craft::icmp4("10.2.0.1", NODE4, &echo);
        let syn = craft::ip(TCP, NODE4, NODE4, &[0; 20]);
        let six = craft::icmp6(NODE6, NODE6, &[128, 0, 0, 0, 0, 7, 0, 1]);
        let udp = craft::ip(UDP, NODE6, NODE6, &udp());
        let frames = [four, other, syn, six, udp].map(|packet| at_lan(&packet));
        rig.refused("lan", &frames, DropReason::BadSource);
        // From another host the same question is answered.
        rig.send("lan", &[at_lan(&craft::icmp4(HERE4, NODE4, &echo))]);
        let heard = rig.heard();
        assert_eq!((heard.len(), heard[0].1[34]), (1, 0));
        routes(rig);
    });
}

#[test]
fn an_echo_to_a_networks_broadcast_wakes_nobody() {
    // Smurf: the answers of all hosts go to who did not ask.
    each(router, |rig| {
        let echo = [8, 0, 0, 0, 0, 7, 0, 1];
        let victim = |to| at_lan(&craft::icmp4("10.1.0.66", to, &echo));
        let all = ["255.255.255.255", "224.0.0.1", "10.2.0.255", "10.1.0.255", "10.2.0.0"];
        rig.refused("lan", &all.map(victim), DropReason::NotRouted);
        routes(rig);
    });
}

#[test]
fn groups_and_addresses_of_one_link_are_not_forwarded() {
    each(router, |rig| {
        let four = ["224.0.0.5", "239.1.2.3", "240.0.0.1", "255.255.255.255"];
        let four = four.map(|to| at_lan(&craft::ip(UDP, HERE4, to, &udp())));
        rig.refused("lan", &four, DropReason::NotRouted);
        let six = ["ff02::5", "ff0e::5", "fe80::77"];
        let six = six.map(|to| at_lan(&craft::ip(UDP, HERE6, to, &udp())));
        rig.refused("lan", &six, DropReason::NotRouted);
        let from = at_lan(&craft::ip(UDP, "fe80::9", OUT6, &udp()));
        rig.refused("lan", &[from], DropReason::NotRouted);
        routes(rig);
    });
}

#[test]
fn what_a_route_discards_is_discarded_without_an_answer() {
    each(router, |rig| {
        let four = at_lan(&craft::ip(UDP, HERE4, "10.66.1.2", &udp()));
        let six = at_lan(&craft::ip(UDP, HERE6, "2001:db8:66::1", &udp()));
        rig.refused("lan", &[four, six], DropReason::RouteDiscard);
        routes(rig);
    });
}

#[test]
fn errors_about_errors_are_never_made() {
    each(router, |rig| {
        // Errors and redirects without a hop left, and from invalid sources.
        let quoted = craft::ip(UDP, OUT4, HERE4, &udp());
        let errors = [(3, 1), (4, 0), (5, 1), (11, 0), (12, 0)].map(|(kind, code)| {
            let message = [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..28]].concat();
            at_lan(&v4_with(&craft::icmp4(HERE4, OUT4, &message), |p| p[8] = 1))
        });
        rig.refused("lan", &errors, DropReason::TtlExpired);
        let quoted = craft::ip(UDP, OUT6, HERE6, &udp());
        let errors = [(1, 0), (2, 0), (3, 0), (4, 0)].map(|(kind, code)| {
            let message = [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
            at_lan(&with(&craft::icmp6(HERE6, OUT6, &message), |p| p[7] = 1))
        });
        rig.refused("lan", &errors, DropReason::TtlExpired);
        // A later fragment says nothing of where an error would belong.
        let later = v4_with(&craft::ip(UDP, HERE4, OUT4, &udp()), |p| (p[7], p[8]) = (9, 1));
        rig.refused("lan", &[at_lan(&later)], DropReason::TtlExpired);
        routes(rig);
    });
}

#[test]
fn a_flood_of_packets_that_need_an_answer_is_answered_at_a_bounded_rate() {
    each(router, |rig| {
        let dying = v4_with(&craft::ip(UDP, HERE4, OUT4, &udp()), |p| p[8] = 1);
        let flood = vec![at_lan(&dying); 1000];
        let out = rig.dropped("lan", &flood, &[(DropReason::IcmpRateLimited, 900)]);
        assert_eq!(out.len(), 100);
        assert!(out.iter().all(|(port, f)| *port == "lan" && f[34] == 11 && f.len() < 600));
        routes(rig);
    });
}

#[test]
fn a_frame_for_everybody_is_not_sent_on_to_another_link() {
    each(router, |rig| {
        let groups = [[0xff; 6], [1, 0, 0x5e, 2, 0, 9], [0x33, 0x33, 0xff, 0, 0, 9]];
        for to in groups.map(MacAddr) {
            let four = craft::frame(to, HOST, &craft::ip(UDP, HERE4, OUT4, &udp()));
            let six = craft::frame(to, HOST, &craft::ip(UDP, HERE6, OUT6, &udp()));
            rig.refused("lan", &[four, six], DropReason::NotRouted);
        }
        routes(rig);
    });
}

#[test]
fn a_routing_header_that_wants_us_to_send_it_on_is_refused() {
    // RFC 5095: type 0 with segments left, to the node itself.
    each(router, |rig| {
        let way = |left: u8| {
            let echo = [128, 0, 0, 0, 0, 7, 0, 1];
            let last = OUT6.parse::<std::net::Ipv6Addr>().unwrap().octets();
            let header = [&[craft::ICMPV6, 2, 0, left, 0, 0, 0, 0], &last[..]].concat();
            let inner = craft::icmp6(HERE6, NODE6, &echo);
            craft::ip(craft::ROUTING, HERE6, NODE6, &[&header, &inner[40..]].concat())
        };
        let told = rig.dropped("lan", &[at_lan(&way(1)), at_lan(&way(2))], &[]);
        assert_eq!(told.len(), 2);
        for (port, frame) in told {
            // Parameter problem, which points to the type of the routing header.
            assert_eq!(
                (port, &frame[54..56], &frame[58..62]),
                ("lan", &[4, 0][..], &[0, 0, 0, 42][..])
            );
        }
        // Without segments left it is answered as anything.
        rig.send("lan", &[at_lan(&way(0))]);
        let heard = rig.heard();
        assert_eq!((heard.len(), heard[0].1[54]), (1, 129));
        routes(rig);
    });
}

#[test]
fn a_source_route_that_wants_to_go_on_from_us_is_refused() {
    each(router, |rig| {
        let way = |kind: u8, pointer: u8| {
            let echo = craft::icmp4(HERE4, NODE4, &[8, 0, 0, 0, 0, 7, 0, 1]);
            let route = [kind, 7, pointer, 10, 2, 0, 9, 0];
            let packet = [&echo[..20], &route, &echo[20..]].concat();
            at_lan(&craft::v4(with(&packet, |p| p[0] = 0x47)))
        };
        rig.refused("lan", &[way(131, 4), way(137, 4)], DropReason::IpOption);
        // A source route that is at its end is answered.
        for kind in [131, 137] {
            rig.send("lan", &[way(kind, 8)]);
            let heard = rig.heard();
            assert_eq!((heard.len(), heard[0].1[34]), (1, 0));
        }
        routes(rig);
    });
}

#[test]
fn a_jumbogram_is_malformed() {
    // RFC 2675: payload length zero, the true one in a hop-by-hop option.
    each(router, |rig| {
        let jumbo = [UDP, 0, 0xc2, 4, 0, 1, 0, 0];
        for to in [OUT6, NODE6] {
            let packet = craft::ip(0, HERE6, to, &[&jumbo, &udp()[..]].concat());
            let bad = with(&packet, |p| p[4..6].fill(0));
            rig.refused("lan", &[at_lan(&bad)], DropReason::Malformed);
        }
        routes(rig);
    });
}
