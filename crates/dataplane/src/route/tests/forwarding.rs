//! Forwarding from frame to frame.

use super::rig::*;
use crate::graph::{FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, Next};
use ferrule_base::{DropReason, MacAddr};
use ferrule_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

#[test]
fn ipv4_packet_is_forwarded_to_the_next_hop() {
    let mut rig = Rig::new();
    let mut packet = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b"hello");
    packet.extend([0xee; 20]); // Ethernet padding
    let (next, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV4, &packet)));
    assert_eq!((next, out.meta().port.0), (Next::Transmit, 1));
    let (link, rest) = ethernet::Repr::parse(out.data()).unwrap();
    assert_eq!((link.dst, link.src, link.ethertype), (ROUTER, own(1), EtherType::IPV4));
    assert_eq!(rest.len(), 25, "padding is taken off");
    let (header, payload) = ipv4::Repr::parse(rest).unwrap();
    assert_eq!((header.ttl, payload), (63, &b"hello"[..]));
    assert_eq!(rig.tally.work.lookups, 1);
}

#[test]
fn ipv6_packet_is_forwarded_to_the_next_hop() {
    let mut rig = Rig::new();
    let packet = v6("2001:db8::2", "2001:db8:9::7", Protocol::TCP, b"hello");
    let (next, out) = sent(rig.frame(0, &frame(own(0), HOST, EtherType::IPV6, &packet)));
    assert_eq!(next, Next::Transmit);
    let (link, rest) = ethernet::Repr::parse(out.data()).unwrap();
    assert_eq!((link.dst, link.ethertype), (ROUTER, EtherType::IPV6));
    assert_eq!(ipv6::Repr::parse(rest).unwrap().0.hop_limit, 63);
}

#[test]
fn ip_options_and_extension_headers_are_forwarded_untouched() {
    let mut rig = Rig::new();
    // Router alert in IPv4, an unknown hop-by-hop option that may be skipped in IPv6.
    let mut packet = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[0x94, 4, 0, 0, 1, 2, 3, 4]);
    packet[0] = 0x46;
    ipv4::fill_checksum(&mut packet);
    let packet = rig.ip_packet(&packet);
    let (next, out) = sent(rig.run_ip(packet));
    assert_eq!((next, &out.data()[20..24]), (Next::Output, &[0x94, 4, 0, 0][..]));
    assert!(ipv4::validate(out.data()).is_ok());
    let chain = [17, 0, 0x3e, 4, 0, 0, 0, 0];
    let packet = rig.ip_packet(&v6("2001:db8::2", "2001:db8:9::7", Protocol(0), &chain));
    let (next, out) = sent(rig.run_ip(packet));
    assert_eq!((next, &out.data()[40..]), (Next::Output, &chain[..]));
}

#[test]
fn broken_ip_headers_are_dropped_by_reason() {
    let mut rig = Rig::new();
    let good = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b"12345678");
    for (at, value, reason) in [
        (0, 0x65, DropReason::Malformed),
        (0, 0x44, DropReason::Malformed),
        (0, 0x48, DropReason::Malformed),
        (3, 200, DropReason::Malformed),
        (3, 19, DropReason::Malformed),
        (10, 0, DropReason::BadChecksum),
        (19, 9, DropReason::BadChecksum),
    ] {
        let mut packet = good.clone();
        packet[at] = value;
        let packet = rig.packet(&packet);
        let mut packet = packet;
        packet.meta_mut().ethertype = EtherType::IPV4.0;
        assert_eq!(dropped(rig.run_ip(packet)), reason, "{at} {value}");
    }
    let packet = rig.ip_packet(&v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, b"")[..39]);
    assert_eq!(dropped(rig.run_ip(packet)), DropReason::Malformed);
}

#[test]
fn sources_that_no_sender_may_have_are_dropped() {
    let mut rig = Rig::new();
    for src in ["127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "0.0.0.0"] {
        let packet = rig.ip_packet(&v4(src, "10.9.0.7", Protocol::UDP, b""));
        assert_eq!(dropped(rig.run_ip(packet)), DropReason::BadSource, "{src}");
    }
    for src in ["::", "::1", "ff02::1", "::ffff:10.0.0.1"] {
        let packet = rig.ip_packet(&v6(src, "2001:db8:9::7", Protocol::UDP, b""));
        assert_eq!(dropped(rig.run_ip(packet)), DropReason::BadSource, "{src}");
    }
}

#[test]
fn groups_and_link_local_addresses_are_not_forwarded() {
    let mut rig = Rig::new();
    for (src, dst) in [
        ("10.0.0.2", "224.0.0.5"),
        ("10.0.0.2", "255.255.255.255"),
        ("10.0.0.2", "169.254.1.1"),
        ("169.254.1.1", "10.9.0.1"),
    ] {
        let packet = rig.ip_packet(&v4(src, dst, Protocol::UDP, b""));
        assert_eq!(dropped(rig.run_ip(packet)), DropReason::NotRouted, "{dst}");
    }
    for (src, dst) in
        [("2001:db8::2", "ff0e::1"), ("2001:db8::2", "fe80::9"), ("fe80::9", "2001:db8:9::1")]
    {
        let packet = rig.ip_packet(&v6(src, dst, Protocol::UDP, b""));
        assert_eq!(dropped(rig.run_ip(packet)), DropReason::NotRouted, "{dst}");
    }
}

#[test]
fn discard_route_drops_without_a_word_and_longest_prefix_wins() {
    let mut rig = Rig::new();
    let packet = rig.ip_packet(&v4("10.0.0.2", "10.9.9.7", Protocol::UDP, b""));
    assert_eq!(dropped(rig.run_ip(packet)), DropReason::RouteDiscard);
    let packet = rig.ip_packet(&v4("10.0.0.2", "10.9.8.7", Protocol::UDP, b""));
    assert_eq!(sent(rig.run_ip(packet)).0, Next::Output);
}

#[test]
fn boundary_policy_passes_esp_for_us_and_asks_for_all_else() {
    let mut rig = Rig::new();
    rig.routed(0).policy = Some(7); // not there: nothing may pass in clear
    let esp = rig.ip_packet(&v4("10.0.0.2", "10.1.0.1", Protocol::ESP, &[0; 32]));
    let (next, esp) = sent(rig.run_ip(esp));
    assert_eq!((next, esp.meta().offset), (Next::EspIn, 20));
    let esp = rig.ip_packet(&v6("2001:db8::2", "2001:db8::1", Protocol::ESP, &[0; 32]));
    let (next, esp) = sent(rig.run_ip(esp));
    assert_eq!((next, esp.meta().offset), (Next::EspIn, 40));
    for dst in ["10.9.0.7", "10.1.0.1", "10.99.0.1"] {
        let clear = rig.ip_packet(&v4("10.0.0.2", dst, Protocol::UDP, b""));
        assert_eq!(dropped(rig.run_ip(clear)), DropReason::PolicyDiscard);
    }
    // ESP that is not for us is clear traffic like any other.
    let transit = rig.ip_packet(&v4("10.0.0.2", "10.9.0.7", Protocol::ESP, &[0; 32]));
    assert_eq!(dropped(rig.run_ip(transit)), DropReason::PolicyDiscard);
    for flags in [FLAG_OPENED, FLAG_LOCAL] {
        let mut opened = rig.ip_packet(&v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b""));
        opened.meta_mut().flags = flags;
        assert_eq!(sent(rig.run_ip(opened)).0, Next::Output);
    }
    // From the other side, out by the interface with the policy.
    let mut red = rig.ip_packet(&v4("10.1.0.9", "10.0.0.2", Protocol::UDP, b""));
    red.meta_mut().iface = 1;
    let (next, red) = sent(rig.run_ip(red));
    assert_eq!((next, red.meta().adjacency), (Next::Policy, 0));
    let mut sealed = rig.ip_packet(&v4("10.1.0.1", "10.0.0.2", Protocol::ESP, &[0; 32]));
    sealed.meta_mut().iface = 1;
    sealed.meta_mut().flags = crate::graph::FLAG_LOCAL | crate::graph::FLAG_EXEMPT;
    assert_eq!(sent(rig.run_ip(sealed)).0, Next::Output);
}

#[test]
fn fragments_for_this_node_are_put_together_before_the_policy_is_asked() {
    let mut rig = Rig::new();
    rig.routed(0).policy = Some(9);
    for protocol in [Protocol::ESP, Protocol::UDP] {
        let mut packet = v4("10.0.0.2", "10.0.0.1", protocol, &[0; 32]);
        packet[6] = 0x20;
        ipv4::fill_checksum(&mut packet);
        let packet = rig.ip_packet(&packet);
        assert_eq!(sent(rig.run_ip(packet)).0, Next::Reassemble);
        let packet = rig.ip_packet(&v4("10.0.0.2", "10.9.0.1", protocol, &[0; 32]));
        assert_eq!(dropped(rig.run_ip(packet)), DropReason::PolicyDiscard);
    }
    let fragment = [50, 0, 0, 1, 0, 0, 0, 9, 0, 0];
    let packet = v6("2001:db8::2", "2001:db8::1", Protocol::FRAGMENT, &fragment);
    let packet = rig.ip_packet(&packet);
    assert_eq!(sent(rig.run_ip(packet)).0, Next::Reassemble);
}

#[test]
fn group_frames_are_marked_so_that_no_error_answers_them() {
    let mut rig = Rig::new();
    let packet = v4("10.0.0.2", "10.77.0.1", Protocol::UDP, b"");
    let bytes = frame(MacAddr::BROADCAST, HOST, EtherType::IPV4, &packet);
    let attached = rig.packet(&bytes);
    assert_eq!(sent(rig.run_attach(attached)).1.meta().flags, FLAG_GROUP);
    assert_eq!(dropped(rig.frame(0, &bytes)), DropReason::NoRoute);
}
