//! Echo, and the errors: those that are sent, their contents, those that are not.

use super::rig::*;
use crate::graph::{FLAG_GROUP, FLAG_LOCAL, Next};
use crate::route::error::{ERROR_V4_MAX, ERROR_V6_MAX, ERRORS_BURST};
use crate::route::local::ECHO_BURST;
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, Protocol, icmpext, icmpv4, icmpv6, ipv4, ipv6, mpls};
use std::net::{IpAddr, Ipv6Addr};

fn echo_v4(data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 8];
    icmpv4::Repr::EchoRequest { ident: 7, seq: 9 }.emit(&mut message);
    message.extend(data);
    icmpv4::fill_checksum(&mut message);
    message
}

fn echo_v6(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 8];
    icmpv6::Repr::EchoRequest { ident: 7, seq: 9 }.emit(&mut message);
    message.extend(data);
    let ends = ferrule_wire::Ends::V6(src.parse().unwrap(), dst.parse().unwrap());
    icmpv6::fill_checksum(&ends, &mut message);
    v6(src, dst, Protocol::ICMPV6, &message)
}

/// A whole ICMPv4 packet, checked.
fn read_v4(packet: &[u8]) -> (ipv4::Repr, icmpv4::Repr, Vec<u8>) {
    let (header, message) = ipv4::Repr::parse(packet).unwrap();
    assert_eq!(header.protocol, Protocol::ICMP);
    let (icmp, quoted) = icmpv4::Repr::parse(message).unwrap();
    (header, icmp, quoted.to_vec())
}

/// A whole ICMPv6 packet, checked.
fn read_v6(packet: &[u8]) -> (ipv6::Repr, icmpv6::Repr, Vec<u8>) {
    let (header, message) = ipv6::Repr::parse(packet).unwrap();
    assert_eq!(header.next, Protocol::ICMPV6);
    assert!(icmpv6::checksum_ok(&header.ends(), message));
    let (icmp, quoted) = icmpv6::Repr::parse(message).unwrap();
    (header, icmp, quoted.to_vec())
}

#[test]
fn echo_request_v4_is_answered() {
    let mut rig = Rig::new();
    let request = v4("10.0.0.2", "10.1.0.1", Protocol::ICMP, &echo_v4(b"data of the request"));
    let (next, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &request)));
    assert_eq!(
        (next, out.meta().port.0, out.data()[..6].to_vec()),
        (Next::Transmit, 0, HOST.0.to_vec())
    );
    let (header, icmp, data) = read_v4(&out.data()[14..]);
    assert_eq!(
        (header.src, header.dst),
        ("10.1.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    );
    assert_eq!(header.ttl, 64);
    assert_eq!(icmp, icmpv4::Repr::EchoReply { ident: 7, seq: 9 });
    assert_eq!(data, b"data of the request");
}

#[test]
fn echo_reply_v4_does_not_repeat_the_options_of_the_request() {
    let mut rig = Rig::new();
    let mut request = vec![0x83, 4, 4, 0];
    request.extend(echo_v4(b"x"));
    let mut request = v4("10.0.0.2", "10.0.0.1", Protocol::ICMP, &request);
    request[0] = 0x46;
    ipv4::fill_checksum(&mut request);
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &request)));
    let (header, icmp, _) = read_v4(&out.data()[14..]);
    assert_eq!((header.len(), icmp), (20, icmpv4::Repr::EchoReply { ident: 7, seq: 9 }));
}

#[test]
fn echo_request_v6_is_answered_link_local_too() {
    let mut rig = Rig::new();
    rig.tables.neighbours.set(0, ip("fe80::2"), HOST);
    for (src, dst) in [("2001:db8::2", "2001:db8::1"), ("fe80::2", "fe80::1")] {
        let request = echo_v6(src, dst, b"data");
        let (next, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &request)));
        assert_eq!((next, out.meta().port.0), (Next::Transmit, 0));
        let (header, icmp, data) = read_v6(&out.data()[14..]);
        assert_eq!((header.src, header.dst), (dst.parse().unwrap(), src.parse().unwrap()));
        assert_eq!(icmp, icmpv6::Repr::EchoReply { ident: 7, seq: 9 });
        assert_eq!(data, b"data");
    }
}

#[test]
fn echo_requests_are_rate_limited() {
    let mut rig = Rig::new();
    let request = v4("10.0.0.2", "10.0.0.1", Protocol::ICMP, &echo_v4(b""));
    let bytes = frame(own(0), HOST, EtherType::IPV4, &request);
    for _ in 0..ECHO_BURST {
        sent(rig.frame(0, &bytes));
    }
    assert_eq!(dropped(rig.frame(0, &bytes)), DropReason::IcmpRateLimited);
}

#[test]
fn broken_echo_and_answers_to_us_end_here() {
    let mut rig = Rig::new();
    let mut message = echo_v4(b"data");
    message[9] ^= 1;
    let packet = v4("10.0.0.2", "10.0.0.1", Protocol::ICMP, &message);
    let bytes = frame(own(0), HOST, EtherType::IPV4, &packet);
    assert_eq!(dropped(rig.frame(0, &bytes)), DropReason::BadChecksum);
    let mut packet = echo_v6("2001:db8::2", "2001:db8::1", b"data");
    packet[49] ^= 1;
    let bytes = frame(own(0), HOST, EtherType::IPV6, &packet);
    assert_eq!(dropped(rig.frame(0, &bytes)), DropReason::BadChecksum);
    let mut reply = [0, 0, 0, 0, 0, 7, 0, 9];
    icmpv4::fill_checksum(&mut reply);
    let packet = v4("10.0.0.2", "10.0.0.1", Protocol::ICMP, &reply);
    assert!(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)).is_empty());
    assert_eq!(rig.tally.consumed, 1);
}

#[test]
fn time_exceeded_quotes_the_packet_as_it_came() {
    let mut rig = Rig::new();
    let mut packet = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[5; 1000]);
    packet[8] = 1;
    ipv4::fill_checksum(&mut packet);
    let (next, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)));
    assert_eq!(next, Next::Transmit);
    let (header, icmp, quoted) = read_v4(&out.data()[14..]);
    assert_eq!(
        (header.src, header.dst),
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    );
    assert_eq!(icmp, icmpv4::Repr::TimeExceeded { code: 0, quoted: 0 });
    assert_eq!(out.len() - 14, ERROR_V4_MAX);
    assert_eq!(quoted, packet[..quoted.len()]);
    assert_eq!(header.dscp.get(), 48);

    let mut packet = v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, &[5; 1300]);
    packet[7] = 0;
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    let (header, icmp, quoted) = read_v6(&out.data()[14..]);
    assert_eq!(header.src, "2001:db8::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(
        (icmp, out.len() - 14),
        (icmpv6::Repr::TimeExceeded { code: 0, quoted: 0 }, ERROR_V6_MAX)
    );
    assert_eq!(quoted, packet[..quoted.len()]);
}

#[test]
fn no_route_is_told_to_the_sender() {
    let mut rig = Rig::new();
    let packet = v4("10.0.0.2", "10.99.0.7", Protocol::UDP, b"");
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)));
    let (_, icmp, _) = read_v4(&out.data()[14..]);
    assert_eq!(
        icmp,
        icmpv4::Repr::Unreachable { code: icmpv4::unreachable::NET, mtu: 0, quoted: 0 }
    );
    let packet = v6("2001:db8::2", "2001:db8:99::7", Protocol::UDP, b"");
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    assert_eq!(read_v6(&out.data()[14..]).1, icmpv6::Repr::Unreachable { code: 0, quoted: 0 });
}

#[test]
fn too_big_tells_the_mtu_that_fits() {
    let mut rig = Rig::new();
    rig.routed(1).mtu = 1400;
    rig.tables.adjacencies[1].labels = [16, 17].into_iter().collect();
    let mut packet = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[5; 1373]);
    packet[6] = 0x40;
    ipv4::fill_checksum(&mut packet);
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)));
    let (_, icmp, _) = read_v4(&out.data()[14..]);
    assert_eq!(
        icmp,
        icmpv4::Repr::Unreachable { code: icmpv4::unreachable::TOO_BIG, mtu: 1392, quoted: 0 }
    );
    let packet = v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, &[5; 1353]);
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    assert_eq!(read_v6(&out.data()[14..]).1, icmpv6::Repr::TooBig { mtu: 1392 });
}

#[test]
fn traffic_that_nobody_here_listens_to_is_told_so() {
    let mut rig = Rig::new();
    for (protocol, code) in [
        (Protocol::UDP, icmpv4::unreachable::PORT),
        (Protocol::TCP, icmpv4::unreachable::PORT),
        (Protocol::GRE, icmpv4::unreachable::PROTOCOL),
    ] {
        let packet = v4("10.0.0.2", "10.0.0.1", protocol, &[0; 8]);
        let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)));
        let (_, icmp, _) = read_v4(&out.data()[14..]);
        assert_eq!(icmp, icmpv4::Repr::Unreachable { code, mtu: 0, quoted: 0 });
    }
    let packet = v6("2001:db8::2", "2001:db8::1", Protocol::UDP, &[0; 8]);
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    assert_eq!(read_v6(&out.data()[14..]).1, icmpv6::Repr::Unreachable { code: 4, quoted: 0 });
    let packet = v6("2001:db8::2", "2001:db8::1", Protocol::GRE, &[0; 8]);
    let (_, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    let problem = icmpv6::Repr::ParameterProblem { code: 1, pointer: 6 };
    assert_eq!(read_v6(&out.data()[14..]).1, problem);
}

fn offending(rig: &mut Rig, bytes: &[u8], kind: u16) -> Packet {
    let mut packet = rig.ip_packet(bytes);
    packet.meta_mut().icmp = kind;
    packet
}

#[test]
fn errors_v4_are_not_sent_about_what_the_standard_excludes() {
    let mut rig = Rig::new();
    let udp = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b"");
    let mut later = udp.clone();
    later[7] = 1;
    ipv4::fill_checksum(&mut later);
    let error = |kind: u8| v4("10.0.0.2", "10.9.0.7", Protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    let cases = [
        (later, 0),
        (error(3), 0),
        (error(11), 0),
        (error(5), 0),
        (error(99), 0),
        (v4("10.0.0.2", "10.9.0.7", Protocol::ICMP, b""), 0),
        (v4("10.0.0.2", "224.0.0.5", Protocol::UDP, b""), 0),
        (v4("0.0.0.0", "10.9.0.7", Protocol::UDP, b""), 0),
        (v4("255.255.255.255", "10.9.0.7", Protocol::UDP, b""), 0),
        (v4("10.1.0.1", "10.9.0.7", Protocol::ESP, b"sealed here"), 0),
        (udp.clone(), FLAG_GROUP),
        (udp.clone(), FLAG_LOCAL),
    ];
    for (n, (bytes, flags)) in cases.iter().enumerate() {
        for (kind, reason) in [
            (11 << 8, DropReason::TtlExpired),
            (3 << 8 | 4, DropReason::TooBig),
            (3 << 8, DropReason::NoRoute),
        ] {
            let mut packet = offending(&mut rig, bytes, kind);
            packet.meta_mut().flags = *flags;
            assert_eq!(dropped(rig.run_error(packet)), reason, "case {n}");
        }
    }
    let first = offending(&mut rig, &udp, 11 << 8);
    assert_eq!(sent(rig.run_error(first)).0, Next::Ip);
    let echo = v4("10.0.0.2", "10.9.0.7", Protocol::ICMP, &echo_v4(b""));
    let echo = offending(&mut rig, &echo, 11 << 8);
    assert_eq!(sent(rig.run_error(echo)).0, Next::Ip);
}

#[test]
fn errors_v6_are_not_sent_about_what_the_standard_excludes() {
    let mut rig = Rig::new();
    let dst = "2001:db8:9::7";
    let icmp = |kind: u8| v6("2001:db8::2", dst, Protocol::ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    let cases = [
        (icmp(1), 0),
        (icmp(127), 0),
        (icmp(137), 0),
        (v6("2001:db8::2", dst, Protocol::ICMPV6, b""), 0),
        (v6("2001:db8::2", "ff0e::1", Protocol::UDP, b""), 0),
        (v6("::", dst, Protocol::UDP, b""), 0),
        (v6("2001:db8::1", dst, Protocol::ESP, b"sealed here"), 0),
        (v6("2001:db8::2", dst, Protocol::UDP, b""), FLAG_GROUP),
        (v6("2001:db8::2", dst, Protocol::UDP, b""), FLAG_LOCAL),
    ];
    for (n, (bytes, flags)) in cases.iter().enumerate() {
        for (kind, reason) in [
            (3 << 8, DropReason::TtlExpired),
            (2 << 8, DropReason::TooBig),
            (1 << 8, DropReason::NoRoute),
        ] {
            let mut packet = offending(&mut rig, bytes, kind);
            packet.meta_mut().flags = *flags;
            assert_eq!(dropped(rig.run_error(packet)), reason, "case {n}");
        }
    }
    let echo = offending(&mut rig, &icmp(128), 3 << 8);
    assert_eq!(sent(rig.run_error(echo)).0, Next::Ip);
}

#[test]
fn errors_are_rate_limited() {
    let mut rig = Rig::new();
    let udp = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b"");
    for _ in 0..ERRORS_BURST {
        let packet = offending(&mut rig, &udp, 11 << 8);
        assert_eq!(sent(rig.run_error(packet)).0, Next::Ip);
    }
    let packet = offending(&mut rig, &udp, 11 << 8);
    assert_eq!(dropped(rig.run_error(packet)), DropReason::IcmpRateLimited);
    rig.now += std::time::Duration::from_millis(1);
    let packet = offending(&mut rig, &udp, 11 << 8);
    assert_eq!(sent(rig.run_error(packet)).0, Next::Ip);
}

#[test]
fn error_about_a_packet_of_a_vpn_comes_from_an_address_of_that_vpn() {
    let mut rig = Rig::new();
    // The packet came by a label on interface 1, in table 1.
    let mut packet =
        offending(&mut rig, &v4("172.16.9.9", "172.16.0.7", Protocol::UDP, b""), 11 << 8);
    (packet.meta_mut().iface, packet.meta_mut().vrf.0) = (1, 1);
    let (next, out) = sent(rig.run_error(packet));
    assert_eq!((next, out.meta().vrf.0, out.meta().flags), (Next::Ip, 1, FLAG_LOCAL));
    assert_eq!(IpAddr::V4(read_v4(out.data()).0.src), ip("172.16.0.1"));
}

/// Packets that the error stage makes of one with labels that came by interface 2.
fn within_path(rig: &mut Rig, stack: &[u8], payload: &[u8], kind: u16, limit: u16) -> Vec<Fate> {
    let mut packet = rig.packet(&[stack, payload].concat());
    let meta = packet.meta_mut();
    (meta.ethertype, meta.iface) = (EtherType::MPLS.0, 1);
    (meta.icmp, meta.limit) = (kind, limit);
    rig.run(Rig::error, packet)
}

/// RFC 3032 section 2.3.2 and RFC 4950: the message goes on to the end of the path, whose
/// labels it bears and tells. Senders are of whatever network: here one has our address.
#[test]
fn icmp_error_within_a_path_tells_the_labels_and_follows_them() {
    let stack = [mpls::encode(16, 3, false, 1), mpls::encode(17, 0, true, 9)].concat();
    let fresh = [mpls::encode(16, 3, false, 255), mpls::encode(17, 0, true, 255)].concat();
    for (data, quoted) in [(8, 128), (108, 128), (109, 132), (1000, 504)] {
        let mut rig = Rig::new();
        let packet = v4("10.0.0.1", "10.9.0.2", Protocol::UDP, &vec![3; data]);
        let (next, out) = sent(within_path(&mut rig, &stack, &packet, 11 << 8, 0));
        assert_eq!((next, out.meta().ethertype), (Next::Mpls, EtherType::MPLS.0));
        assert_eq!((out.meta().flags, &out.data()[..8]), (FLAG_LOCAL, &fresh[..]));
        let (header, icmp, behind) = read_v4(&out.data()[8..]);
        assert_eq!(
            (header.src, header.dst),
            ("10.1.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap())
        );
        assert_eq!(icmp, icmpv4::Repr::TimeExceeded { code: 0, quoted: (quoted / 4) as u8 });
        assert!(out.len() - 8 <= ERROR_V4_MAX);
        let (inside, extension) = behind.split_at(quoted);
        let part = packet.len().min(quoted);
        assert_eq!(inside[..part], packet[..part]);
        assert!(inside[part..].iter().all(|&octet| octet == 0));
        let told = icmpext::label_stack(extension).unwrap();
        let told: Vec<u8> = told.entries().iter().flat_map(mpls::Repr::encoded).collect();
        assert_eq!(told, stack);
    }
}

#[test]
fn icmpv6_error_within_a_path_tells_the_labels_unless_it_tells_an_mtu() {
    let stack = mpls::encode(16, 3, true, 1);
    let packet = v6("2001:db8:7::1", "2001:db8:9::1", Protocol::UDP, &[3; 1300]);
    let mut rig = Rig::new();
    let (next, out) = sent(within_path(&mut rig, &stack, &packet, 3 << 8, 0));
    let (header, icmp, behind) = read_v6(&out.data()[4..]);
    assert_eq!((next, header.src), (Next::Mpls, "2001:db8:1::1".parse().unwrap()));
    assert!(out.len() - 4 <= ERROR_V6_MAX);
    let icmpv6::Repr::TimeExceeded { code: 0, quoted } = icmp else { panic!("{icmp}") };
    let (inside, extension) = behind.split_at(usize::from(quoted) * 8);
    assert_eq!(inside, &packet[..inside.len()]);
    assert_eq!(icmpext::label_stack(extension).unwrap().entries()[0].label.get(), 16);

    let (_, out) = sent(within_path(&mut rig, &stack, &packet, 2 << 8, 1288));
    let (_, icmp, behind) = read_v6(&out.data()[4..]);
    assert_eq!(icmp, icmpv6::Repr::TooBig { mtu: 1288 });
    assert_eq!(behind, &packet[..behind.len()]);
}

/// RFC 6790 section 4.2.
#[test]
fn icmp_error_within_a_path_leaves_an_entropy_label_without_a_hop() {
    let entries = |ttls: [u8; 4]| {
        let labels = [16, 7, 77_777, 17];
        let entry = |at: usize| mpls::encode(labels[at], 0, at == 3, ttls[at]);
        (0..4).flat_map(entry).collect::<Vec<u8>>()
    };
    let packet = v4("10.7.0.1", "10.9.0.2", Protocol::UDP, &[3; 60]);
    let mut rig = Rig::new();
    let stack = entries([1, 1, 0, 9]);
    let (_, out) = sent(within_path(&mut rig, &stack, &packet, 11 << 8, 0));
    assert_eq!(out.data()[..16], entries([255, 255, 0, 255]));
}

/// RFC 1812 section 4.3.2.7: the same rules as for packets without labels.
#[test]
fn icmp_error_within_a_path_answers_no_error_and_nothing_made_here() {
    let stack = mpls::encode(16, 0, true, 1);
    let mut rig = Rig::new();
    let mut message = vec![0; 8];
    icmpv4::Repr::TimeExceeded { code: 0, quoted: 0 }.emit(&mut message);
    let error = v4("10.7.0.1", "10.9.0.2", Protocol::ICMP, &message);
    assert_eq!(dropped(within_path(&mut rig, &stack, &error, 11 << 8, 0)), DropReason::TtlExpired);
    // No address of this family: an answer is impossible.
    rig.routed(1).v6.clear();
    rig.routed(0).v6.clear();
    let packet = v6("2001:db8:7::1", "2001:db8:9::1", Protocol::UDP, &[3; 13]);
    assert_eq!(dropped(within_path(&mut rig, &stack, &packet, 3 << 8, 0)), DropReason::TtlExpired);
}
