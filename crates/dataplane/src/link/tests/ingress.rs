//! From frames to interfaces.

use crate::graph::Next;
use crate::link::tag;
use crate::mpls::{Pseudowire, PwMode};
use crate::route::tests::rig::*;
use crate::tables::{Attach, Iface, IfaceKind, Tag};
use ferrule_base::{DropReason, MacAddr, PortId};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, Protocol, icmpv6, ipv6, ndp};

const PORT: u16 = 0;

/// A frame with tags: (type, control information), the outer one first.
fn with_tags(tags: &[(u16, u16)], ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut kind = ethertype.0;
    for &(tpid, tci) in tags.iter().rev() {
        let mut tag = tci.to_be_bytes().to_vec();
        tag.extend(kind.to_be_bytes());
        tag.extend(out);
        (out, kind) = (tag, tpid);
    }
    out.extend(payload);
    frame(own(0), HOST, EtherType(kind), &out)
}

fn tags_of(packet: &Packet) -> Vec<(u16, u16)> {
    let mut rest = packet.data().to_vec();
    let mut tags = Vec::new();
    while let Some(found) = tag::outer(&rest) {
        tags.push(found);
        rest.drain(12..16);
    }
    tags
}

/// Port 0 attached to one interface of this kind.
fn attached(attach: Attach, tag: Tag, kind: IfaceKind) -> Rig {
    let mut rig = Rig::new();
    rig.tables.ports[0].attach = attach;
    rig.tables.ifaces[0] = Iface::new("ac", PortId(PORT), tag, kind);
    rig
}

fn untagged() -> Attach {
    Attach { untagged: Some(0), ..Attach::default() }
}

fn vlan(tpid: u16, vid: u16) -> Attach {
    Attach { tagged: vec![(Attach::key(tpid, vid), 0)], ..Attach::default() }
}

fn rest() -> Attach {
    Attach { rest: Some(0), ..Attach::default() }
}

fn attach(rig: &mut Rig, bytes: &[u8]) -> Vec<Fate> {
    let packet = rig.packet(bytes);
    rig.run_attach(packet)
}

const DOT1Q: u16 = EtherType::VLAN.0;
const DOT1AD: u16 = EtherType::SERVICE_VLAN.0;

#[test]
fn routed_interface_takes_its_own_address_and_groups() {
    let mut rig = Rig::new();
    let packet = v4("10.0.0.2", "10.0.0.1", Protocol::UDP, b"");
    let bytes = frame(own(0), HOST, EtherType::IPV4, &packet);
    let (next, out) = sent(attach(&mut rig, &bytes));
    assert_eq!((next, out.data(), out.meta().ethertype), (Next::Ip, &packet[..], 0x0800));
    let other = frame(MacAddr([2, 0, 0, 0, 0, 99]), HOST, EtherType::IPV4, &packet);
    assert_eq!(dropped(attach(&mut rig, &other)), DropReason::NotForUs);
    for (ethertype, reason) in [
        (EtherType(0x88b5), DropReason::UnknownProtocol),
        (EtherType::MPLS, DropReason::UnknownProtocol),
        (EtherType(60), DropReason::UnknownProtocol),
    ] {
        let bytes = frame(own(0), HOST, ethertype, &packet);
        assert_eq!(dropped(attach(&mut rig, &bytes)), reason);
    }
    for len in 0..14 {
        assert_eq!(dropped(attach(&mut rig, &bytes[..len])), DropReason::Malformed);
    }
}

#[test]
fn vlan_subinterface_is_found_by_tag_type_and_id() {
    let mut rig = Rig::new();
    let packet = v4("172.16.0.2", "172.16.0.1", Protocol::UDP, b"");
    let mut bytes = with_tags(&[(DOT1Q, 0xa064)], EtherType::IPV4, &packet);
    bytes[..6].copy_from_slice(&own(1).0);
    let mut at_port = |bytes: &[u8]| {
        let mut packet = rig.packet(bytes);
        packet.meta_mut().port = PortId(1);
        rig.run_attach(packet)
    };
    let (next, out) = sent(at_port(&bytes));
    assert_eq!((next, out.data()), (Next::Ip, &packet[..]));
    assert_eq!((out.meta().iface, out.meta().vrf.0), (2, 1));
    bytes[15] = 0x65;
    assert_eq!(dropped(at_port(&bytes)), DropReason::UnknownVlan);
    bytes[12..16].copy_from_slice(&[0x88, 0xa8, 0, 100]);
    assert_eq!(dropped(at_port(&bytes)), DropReason::UnknownVlan);
    assert_eq!(dropped(at_port(&bytes[..17])), DropReason::Malformed);
    // A tag of VLAN 0 carries a priority alone.
    bytes[12..16].copy_from_slice(&[0x81, 0, 0xe0, 0]);
    let (next, out) = sent(at_port(&bytes));
    assert_eq!((next, out.data(), out.meta().iface), (Next::Ip, &packet[..], 1));
}

#[test]
fn mpls_frames_pass_where_labels_are_accepted() {
    let mut rig = Rig::new();
    let stack = [0, 1, 0x01, 64, 0x45];
    let mut bytes = with_tags(&[(DOT1Q, 100)], EtherType::MPLS, &stack);
    bytes[..6].copy_from_slice(&own(1).0);
    let mut packet = rig.packet(&bytes);
    packet.meta_mut().port = PortId(1);
    let (next, out) = sent(rig.run_attach(packet));
    assert_eq!((next, out.data(), out.meta().ethertype), (Next::Mpls, &stack[..], 0x8847));
}

#[test]
fn arp_and_neighbour_discovery_reach_the_control_part_whole() {
    let mut rig = Rig::new();
    let arp = frame(MacAddr::BROADCAST, HOST, EtherType::ARP, &[0; 46]);
    let (next, out) = sent(attach(&mut rig, &arp));
    assert_eq!((next, out.data(), out.meta().iface), (Next::Control, &arp[..], 0));
    let message = ndp::Repr::NeighbourSolicitation {
        target: "2001:db8::1".parse().unwrap(),
        source_link: Some(HOST),
    };
    let mut body = vec![0; message.len()];
    message.emit(&mut body);
    for (dst, next) in [
        ("ff02::1:ff00:1", Next::Control),
        ("2001:db8::1", Next::Control),
        ("fe80::1", Next::Control),
        ("2001:db8:9::1", Next::Ip),
    ] {
        let packet = v6("2001:db8::2", dst, Protocol::ICMPV6, &body);
        let bytes = frame(own(0), HOST, EtherType::IPV6, &packet);
        assert_eq!(sent(attach(&mut rig, &bytes)).0, next, "{dst}");
    }
    // Echo to us is no neighbour discovery.
    let mut echo = [128, 0, 0, 0, 0, 0, 0, 1];
    let packet = v6("2001:db8::2", "2001:db8::1", Protocol::ICMPV6, &[]);
    icmpv6::fill_checksum(&ipv6::Repr::parse(&packet).unwrap().0.ends(), &mut echo);
    let packet = v6("2001:db8::2", "2001:db8::1", Protocol::ICMPV6, &echo);
    let bytes = frame(own(0), HOST, EtherType::IPV6, &packet);
    assert_eq!(sent(attach(&mut rig, &bytes)).0, Next::Ip);
}

#[test]
fn bridged_interfaces_take_their_tag_off_and_put_the_access_vlan_on() {
    let bridged = |access_vlan| IfaceKind::Bridged { bridge: 0, access_vlan };
    let own_tag = Tag::Tag(DOT1AD, 200);
    // Attachment, own tag, access VLAN, tags that come, tags in the bridge.
    type Case = (Attach, Tag, Option<u16>, &'static [(u16, u16)], &'static [(u16, u16)]);
    let cases: [Case; 8] = [
        (untagged(), Tag::None, None, &[], &[]),
        (untagged(), Tag::None, Some(7), &[], &[(DOT1Q, 7)]),
        (untagged(), Tag::None, Some(7), &[(DOT1Q, 0xa000)], &[(DOT1Q, 0xa007)]),
        (rest(), Tag::None, None, &[(DOT1Q, 9)], &[(DOT1Q, 9)]),
        (rest(), Tag::None, None, &[], &[]),
        (vlan(DOT1AD, 200), own_tag, None, &[(DOT1AD, 200), (DOT1Q, 9)], &[(DOT1Q, 9)]),
        (vlan(DOT1AD, 200), own_tag, None, &[(DOT1AD, 200)], &[]),
        (vlan(DOT1AD, 200), own_tag, Some(7), &[(DOT1AD, 200)], &[(DOT1Q, 7)]),
    ];
    for (n, (attachment, tag, access_vlan, came, inside)) in cases.into_iter().enumerate() {
        let mut rig = attached(attachment, tag, bridged(access_vlan));
        let bytes = with_tags(came, EtherType::IPV4, b"payload");
        let (next, mut out) = sent(attach(&mut rig, &bytes));
        assert_eq!((next, tags_of(&out)), (Next::Bridge, inside.to_vec()), "case {n}");
        assert_eq!(out.data()[..12], bytes[..12], "case {n}");
        assert!(out.data().ends_with(b"\x08\x00payload"), "case {n}");
        // And out again: as it came, but for priorities.
        tag::tag_out(&rig.tables.ifaces[0], 0, &mut out).unwrap();
        let came: Vec<_> = came.iter().filter(|t| t.1 & 0xfff != 0).copied().collect();
        assert_eq!(tags_of(&out), came, "case {n}");
    }
    let mut rig = attached(rest(), Tag::None, bridged(Some(7)));
    let bytes = with_tags(&[(DOT1Q, 9)], EtherType::IPV4, b"payload");
    assert_eq!(dropped(attach(&mut rig, &bytes)), DropReason::UnknownVlan);
}

#[test]
fn routed_interface_of_an_access_port_takes_its_vlan_tagged_and_untagged() {
    // As the node compiles `vlan = 7, untagged = true`: no tag of its own, found by both.
    let mut rig = Rig::new();
    rig.tables.ports[0].attach.tagged = vec![(crate::tables::Attach::key(DOT1Q, 7), 0)];
    let packet = v4("10.0.0.2", "10.0.0.1", Protocol::UDP, b"");
    for tags in [&[][..], &[(DOT1Q, 7)], &[(DOT1Q, 0xe007)]] {
        let mut bytes = with_tags(tags, EtherType::IPV4, &packet);
        bytes[..6].copy_from_slice(&own(0).0);
        let (next, out) = sent(attach(&mut rig, &bytes));
        assert_eq!((next, out.data(), out.meta().iface), (Next::Ip, &packet[..], 0));
    }
    let mut bytes = with_tags(&[(DOT1Q, 8)], EtherType::IPV4, &packet);
    bytes[..6].copy_from_slice(&own(0).0);
    assert_eq!(dropped(attach(&mut rig, &bytes)), DropReason::UnknownVlan);
}

#[test]
fn access_interface_gives_out_its_own_vlan_alone() {
    let kind = IfaceKind::Bridged { bridge: 0, access_vlan: Some(7) };
    let mut rig = attached(untagged(), Tag::None, kind);
    for tags in [&[][..], &[(DOT1Q, 8)], &[(DOT1AD, 7)]] {
        let mut packet = rig.packet(&with_tags(tags, EtherType::IPV4, b""));
        let out = tag::tag_out(&rig.tables.ifaces[0], 0, &mut packet);
        assert_eq!(out, Err(DropReason::UnknownVlan));
    }
}

#[test]
fn pseudowire_gets_the_tag_that_its_mode_wants() {
    let own_tag = Tag::Tag(DOT1Q, 100);
    type Case = (PwMode, Attach, Tag, &'static [(u16, u16)], &'static [(u16, u16)]);
    let cases: [Case; 7] = [
        (PwMode::Raw, untagged(), Tag::None, &[], &[]),
        (PwMode::Raw, rest(), Tag::None, &[(DOT1Q, 5)], &[(DOT1Q, 5)]),
        (PwMode::Raw, vlan(DOT1Q, 100), own_tag, &[(DOT1Q, 0xa064), (DOT1Q, 5)], &[(DOT1Q, 5)]),
        (PwMode::Tagged(7), untagged(), Tag::None, &[], &[(DOT1Q, 0)]),
        (PwMode::Tagged(7), rest(), Tag::None, &[(DOT1Q, 5)], &[(DOT1Q, 0), (DOT1Q, 5)]),
        (PwMode::Tagged(7), vlan(DOT1Q, 100), own_tag, &[(DOT1Q, 0xa064)], &[(DOT1Q, 0xa064)]),
        (
            PwMode::Tagged(7),
            vlan(DOT1Q, 100),
            own_tag,
            &[(DOT1Q, 100), (DOT1Q, 5)],
            &[(DOT1Q, 100), (DOT1Q, 5)],
        ),
    ];
    for (n, (mode, attachment, tag, came, carried)) in cases.into_iter().enumerate() {
        let mut rig = attached(attachment, tag, IfaceKind::Crossed(0));
        rig.tables.pws.push(Pseudowire {
            name: "pw".into(),
            iface: 0,
            label_out: 16,
            adjacency: 0,
            control_word: true,
            sequencing: false,
            mode,
            ttl: 255,
            spreads: false,
        });
        let (next, out) = sent(attach(&mut rig, &with_tags(came, EtherType::IPV4, b"payload")));
        assert_eq!((next, out.meta().pw), (Next::PwOut, 0), "case {n}");
        assert_eq!(tags_of(&out), carried, "case {n}");
    }
}

#[test]
fn frames_of_nobody_are_dropped() {
    let mut rig = Rig::new();
    rig.tables.ports[0].attach = Attach::default();
    let bytes = frame(own(0), HOST, EtherType::IPV4, b"");
    assert_eq!(dropped(attach(&mut rig, &bytes)), DropReason::NotAttached);
    let mut packet = rig.packet(&bytes);
    packet.meta_mut().port = PortId(77);
    assert_eq!(dropped(rig.run_attach(packet)), DropReason::PortDown);
    // A tag that is not taken off has no place on a routed interface.
    let kind = IfaceKind::Routed(routed(0, 0, "10.0.0.1", &[]));
    let mut rig = attached(rest(), Tag::None, kind);
    let bytes = with_tags(&[(DOT1Q, 5)], EtherType::IPV4, b"");
    assert_eq!(dropped(attach(&mut rig, &bytes)), DropReason::UnknownVlan);
}
