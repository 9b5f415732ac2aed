//! From packets to frames.

use crate::graph::{FLAG_LOCAL, Next};
use crate::route::TtlModel;
use crate::route::tests::rig::*;
use ferrule_base::DropReason;
use ferrule_wire::{EtherType, Protocol, ethernet, ipv4, mpls, vlan};

#[test]
fn connected_destination_is_its_own_neighbour() {
    let mut rig = Rig::new();
    let to_host = v4("10.9.0.7", "10.0.0.2", Protocol::UDP, b"x");
    let packet = rig.ip_packet(&to_host);
    let (next, out) = sent(rig.run_output(packet));
    assert_eq!((next, out.meta().port.0), (Next::Transmit, 0));
    let (link, payload) = ethernet::Repr::parse(out.data()).unwrap();
    assert_eq!((link.dst, link.src, payload), (HOST, own(0), &to_host[..]));
    let packet = rig.ip_packet(&v6("2001:db8:9::7", "2001:db8::2", Protocol::UDP, b"x"));
    let (_, out) = sent(rig.run_output(packet));
    assert_eq!(ethernet::Repr::parse(out.data()).unwrap().0.dst, HOST);
}

#[test]
fn unknown_neighbour_sends_the_packet_to_the_control_part_unchanged() {
    let mut rig = Rig::new();
    rig.tables.adjacencies[1].labels.push(16);
    rig.tables.neighbours.remove(1, ip("10.1.0.2"));
    let bytes = v4("10.9.0.7", "10.0.0.3", Protocol::UDP, b"x");
    for adjacency in [0, 1] {
        let mut packet = rig.ip_packet(&bytes);
        packet.meta_mut().adjacency = adjacency;
        let (next, packet) = sent(rig.run_output(packet));
        assert_eq!(
            (next, packet.data(), packet.meta().adjacency),
            (Next::Resolve, &bytes[..], adjacency)
        );
    }
    let mut stack = rig.packet(&[0, 1, 1, 64]);
    stack.meta_mut().ethertype = EtherType::MPLS.0;
    assert_eq!(dropped(rig.run_output(stack)), DropReason::NoNeighbour);
}

#[test]
fn groups_have_link_addresses_of_their_own() {
    let mut rig = Rig::new();
    for (packet, mac) in [
        (v4("10.0.0.1", "239.129.2.3", Protocol::UDP, b""), "01:00:5e:01:02:03"),
        (v6("fe80::1", "ff02::1:ff00:2", Protocol::UDP, b""), "33:33:ff:00:00:02"),
    ] {
        let packet = rig.ip_packet(&packet);
        let (_, out) = sent(rig.run_output(packet));
        assert_eq!(ethernet::Repr::parse(out.data()).unwrap().0.dst.to_string(), mac);
    }
}

#[test]
fn labels_are_pushed_innermost_first_with_the_ttl_of_their_model() {
    let mut rig = Rig::new();
    for (model, ttl) in [(TtlModel::Uniform, 64), (TtlModel::Pipe, 255)] {
        let adjacency = &mut rig.tables.adjacencies[1];
        (adjacency.ttl, adjacency.labels) = (model, [100, 200].into_iter().collect());
        for packet in [
            v4("10.0.0.2", "10.9.0.7", Protocol::UDP, b"x"),
            v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, b"x"),
        ] {
            let mut out = rig.ip_packet(&packet);
            out.meta_mut().adjacency = 1;
            let (_, out) = sent(rig.run_output(out));
            let (link, rest) = ethernet::Repr::parse(out.data()).unwrap();
            assert_eq!(link.ethertype, EtherType::MPLS);
            assert_eq!(rest[..4], mpls::encode(200, 0, false, ttl));
            assert_eq!(rest[4..8], mpls::encode(100, 0, true, ttl));
            assert_eq!(rest[8..], packet);
        }
    }
    // Onto a stack that is there: its bottom stays the bottom.
    let mut out = rig.packet(&mpls::encode(50, 0, true, 9));
    out.meta_mut().ethertype = EtherType::MPLS.0;
    out.meta_mut().adjacency = 1;
    rig.tables.adjacencies[1].ttl = TtlModel::Uniform;
    let (_, out) = sent(rig.run_output(out));
    let rest = &out.data()[14..];
    assert_eq!(rest[..4], mpls::encode(200, 0, false, 9));
    assert_eq!(rest[4..8], mpls::encode(100, 0, false, 9));
    assert_eq!(rest[8..], mpls::encode(50, 0, true, 9));
}

#[test]
fn vlan_subinterface_writes_its_tag() {
    let mut rig = Rig::new();
    rig.tables.adjacencies.push(adjacency(2, None));
    rig.tables.neighbours.set(2, ip("172.16.0.2"), ROUTER);
    let packet = v4("10.0.0.2", "172.16.0.2", Protocol::UDP, b"x");
    let mut out = rig.ip_packet(&packet);
    out.meta_mut().adjacency = 2;
    let (_, out) = sent(rig.run_output(out));
    let (link, rest) = ethernet::Repr::parse(out.data()).unwrap();
    let (tag, rest) = vlan::Repr::parse(rest).unwrap();
    assert_eq!((link.dst, link.ethertype, tag.vid.get()), (ROUTER, EtherType::VLAN, 100));
    assert_eq!((tag.ethertype, rest, out.meta().port.0), (EtherType::IPV4, &packet[..], 1));
}

#[test]
fn too_long_packets_are_cut_or_their_sender_is_told() {
    let mut rig = Rig::new();
    let mut packet = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[7; 1481]);
    let mut out = rig.ip_packet(&packet);
    out.meta_mut().adjacency = 1;
    assert_eq!(rig.run_output(out).len(), 2, "cut in two");
    assert_eq!(rig.tally.made, 1);
    packet[6] = 0x40;
    ipv4::fill_checksum(&mut packet);
    let labels = [(0, 1500u16), (2, 1492)];
    for (count, mtu) in labels {
        rig.tables.adjacencies[1].labels = (16..16 + count).collect();
        let mut out = rig.ip_packet(&packet);
        out.meta_mut().adjacency = 1;
        let (next, out) = sent(rig.run_output(out));
        assert_eq!((next, out.meta().icmp, out.meta().limit), (Next::IcmpError, 0x304, mtu));
        assert_eq!(out.data(), packet);
        let mut out = rig.ip_packet(&v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, &[7; 1461]));
        out.meta_mut().adjacency = 1;
        let (next, out) = sent(rig.run_output(out));
        assert_eq!((next, out.meta().icmp, out.meta().limit), (Next::IcmpError, 0x200, mtu));
    }
    let mut out = rig.ip_packet(&packet);
    out.meta_mut().adjacency = 1;
    out.meta_mut().flags = FLAG_LOCAL;
    assert_eq!(dropped(rig.run_output(out)), DropReason::TooBig);
    let mut stack = rig.packet(&[0; 1501]);
    stack.meta_mut().ethertype = EtherType::MPLS.0;
    stack.meta_mut().adjacency = 1;
    assert_eq!(dropped(rig.run_output(stack)), DropReason::TooBig);
}

#[test]
fn emit_hands_over_to_the_owner_checks_length_and_finds_the_secy() {
    let mut rig = Rig::new();
    let bytes = frame(HOST, own(0), EtherType::IPV4, &[0; 1504]);
    let packet = rig.packet(&bytes);
    assert_eq!(sent(rig.run_emit(packet)).0, Next::Transmit);
    let packet = rig.packet(&frame(HOST, own(0), EtherType::IPV4, &[0; 1505]));
    assert_eq!(dropped(rig.run_emit(packet)), DropReason::TooBig);
    rig.tables.ports[0].secy = Some(0);
    let packet = rig.packet(&bytes);
    assert_eq!(sent(rig.run_emit(packet)).0, Next::SecyOut);
    rig.tables.ports[0].owner = 3;
    let packet = rig.packet(&bytes);
    assert!(matches!(rig.run_emit(packet)[..], [Fate::Handed(3, Next::Emit)]));
    let mut packet = rig.packet(&bytes);
    packet.meta_mut().port.0 = 9;
    assert_eq!(dropped(rig.run_emit(packet)), DropReason::PortDown);
}
