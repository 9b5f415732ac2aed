//! Ethernet over MPLS: raw and tagged mode, control word, sequence numbers.

use super::Rig;
use crate::graph::Next;
use crate::mpls::state::accept;
use crate::mpls::{Pseudowire, PwIn, PwMode, PwOut};
use crate::route::tests::rig::{Fate, dropped, frame, sent};
use crate::tables::{Iface, IfaceKind, Tables, Tag};
use ferrule_base::{DropReason, MacAddr, PortId};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, mpls};

pub(super) const DOT1Q: u16 = 0x8100;
const QINQ: u16 = 0x88a8;

fn pw(mode: PwMode) -> Pseudowire {
    Pseudowire {
        name: "test".into(),
        iface: 0,
        label_out: 5000,
        adjacency: 9,
        control_word: true,
        sequencing: false,
        mode,
        ttl: 77,
        spreads: false,
    }
}

pub(super) fn tables(tag: Tag, pws: Vec<Pseudowire>) -> Tables {
    let iface = Iface::new("ac", PortId(4), tag, IfaceKind::Crossed(0));
    Tables { ifaces: vec![iface], pws, workers: 1, ..Tables::default() }
}

/// An untagged frame, or one with a tag in front of its payload.
pub(super) fn ethernet(tags: &[(u16, u16)], payload: &[u8]) -> Vec<u8> {
    let mut inside = Vec::new();
    let mut ethertype = EtherType::IPV4.0;
    for &(tpid, tci) in tags.iter().rev() {
        let mut tag = tci.to_be_bytes().to_vec();
        tag.extend(ethertype.to_be_bytes());
        inside.splice(0..0, tag);
        ethertype = tpid;
    }
    inside.extend(payload);
    let [dst, src] = [2, 3].map(|n| MacAddr([0x42, 0, 0, 0, 0, n]));
    frame(dst, src, EtherType(ethertype), &inside)
}

#[track_caller]
fn out(rig: &mut Rig<PwOut>, octets: &[u8]) -> Packet {
    let packet = rig.packet(octets);
    let (next, packet) = sent(rig.run(packet));
    assert_eq!((next, packet.meta().adjacency), (Next::Output, 9));
    assert_eq!(packet.meta().ethertype, EtherType::MPLS.0);
    packet
}

#[track_caller]
fn back(rig: &mut Rig<PwIn>, octets: &[u8]) -> Packet {
    let packet = rig.packet(octets);
    let (next, packet) = sent(rig.run(packet));
    assert_eq!((next, packet.meta().port), (Next::Emit, PortId(4)));
    packet
}

fn refused(rig: &mut Rig<PwIn>, octets: &[u8]) -> DropReason {
    let packet = rig.packet(octets);
    dropped(rig.run(packet))
}

#[test]
fn vpws_raw_mode_carries_the_frame_behind_label_and_control_word() {
    for control_word in [true, false] {
        let config = || vec![Pseudowire { control_word, ..pw(PwMode::Raw) }];
        let mut send: Rig<PwOut> = Rig::new(tables(Tag::None, config()));
        let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, config()));
        for octets in [ethernet(&[], &[1; 46]), ethernet(&[(DOT1Q, 0x2005)], &[2; 900])] {
            let packet = out(&mut send, &octets);
            let mut want = mpls::encode(5000, 0, true, 77).to_vec();
            want.extend(if control_word { &[0; 4][..] } else { &[] });
            want.extend(&octets);
            assert_eq!(packet.data(), want);
            assert_eq!(back(&mut receive, &want[4..]).data(), octets);
        }
    }
}

/// RFC 4448 section 4.6: the rest of the first half is reserved, for short
/// frames too, and is not looked at.
#[test]
fn vpws_control_word_of_a_short_frame_has_no_length() {
    let mut send: Rig<PwOut> = Rig::new(tables(Tag::None, vec![pw(PwMode::Raw)]));
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, vec![pw(PwMode::Raw)]));
    let octets = ethernet(&[], &[1; 20]);
    assert_eq!(out(&mut send, &octets).data()[4..8], [0; 4]);
    let mut with = vec![0x0f, 0xd0, 0, 0];
    with.extend(&octets);
    assert_eq!(back(&mut receive, &with).data(), octets);
}

#[test]
fn vpws_raw_mode_puts_the_interfaces_tag_on_again() {
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::Tag(QINQ, 30), vec![pw(PwMode::Raw)]));
    let mut octets = vec![0; 4];
    octets.extend(ethernet(&[(DOT1Q, 5)], &[1; 46]));
    let packet = back(&mut receive, &octets);
    assert_eq!(packet.data(), ethernet(&[(QINQ, 30), (DOT1Q, 5)], &[1; 46]));
}

#[test]
fn vpws_tagged_mode_rewrites_the_service_tag_and_keeps_its_priority() {
    let config = || vec![pw(PwMode::Tagged(300))];
    let mut send: Rig<PwOut> = Rig::new(tables(Tag::Tag(DOT1Q, 20), config()));
    let packet = out(&mut send, &ethernet(&[(DOT1Q, 0xa014), (DOT1Q, 7)], &[1; 46]));
    let wire = ethernet(&[(DOT1Q, 0xa12c), (DOT1Q, 7)], &[1; 46]);
    assert_eq!(packet.data()[8..], wire);
    // The other end: another VLAN, or none at all.
    for (tag, tags) in
        [(Tag::Tag(QINQ, 40), &[(QINQ, 0xa028), (DOT1Q, 7)][..]), (Tag::None, &[(DOT1Q, 7)])]
    {
        let mut receive: Rig<PwIn> = Rig::new(tables(tag, config()));
        let packet = back(&mut receive, &packet.data()[4..]);
        assert_eq!(packet.data(), ethernet(tags, &[1; 46]));
    }
}

#[test]
fn vpws_tagged_mode_without_a_tag_is_a_drop() {
    let config = || vec![pw(PwMode::Tagged(300))];
    let octets = ethernet(&[], &[1; 46]);
    let mut send: Rig<PwOut> = Rig::new(tables(Tag::None, config()));
    let packet = send.packet(&octets);
    assert_eq!(dropped(send.run(packet)), DropReason::PwTag);
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, config()));
    assert_eq!(refused(&mut receive, &[&[0; 4], &octets[..]].concat()), DropReason::PwTag);
}

#[test]
fn vpws_control_word_begins_with_a_zero_nibble() {
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, vec![pw(PwMode::Raw)]));
    for nibble in 1..16u8 {
        let octets = [&[nibble << 4, 0, 0, 0], &ethernet(&[], &[1; 46])[..]].concat();
        assert_eq!(refused(&mut receive, &octets), DropReason::ControlWord);
    }
    for short in 0..18 {
        assert_eq!(refused(&mut receive, &[0; 18][..short]), DropReason::Malformed);
    }
    assert_eq!(back(&mut receive, &[0; 18]).data(), [0; 14]);
}

#[test]
fn vpws_sequence_numbers_skip_zero_when_they_wrap() {
    let config = || vec![Pseudowire { sequencing: true, ..pw(PwMode::Raw) }];
    let mut send: Rig<PwOut> = Rig::new(tables(Tag::None, config()));
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, config()));
    let octets = ethernet(&[], &[1; 46]);
    for i in 0..70_000u32 {
        let packet = out(&mut send, &octets);
        let number = u16::from_be_bytes([packet.data()[6], packet.data()[7]]);
        assert_eq!(u32::from(number), 1 + i % 65_535);
        back(&mut receive, &packet.data()[4..]);
    }
}

#[test]
fn vpws_sequence_check_drops_what_is_late_and_takes_what_was_lost_before() {
    let config = vec![Pseudowire { sequencing: true, ..pw(PwMode::Raw) }];
    let mut receive: Rig<PwIn> = Rig::new(tables(Tag::None, config));
    let octets =
        |number: u16| [&[0, 0], &number.to_be_bytes()[..], &ethernet(&[], &[1; 46])].concat();
    for (number, in_order) in [
        (1, true),
        (1, false),
        (5, true),
        (4, false),
        (0, true),
        (5, false),
        (6, true),
        (32_774, true),
        (8, false),
    ] {
        let packet = receive.packet(&octets(number));
        match &receive.run(packet)[..] {
            [Fate::Sent(Next::Emit, _)] if in_order => {}
            [Fate::Dropped(DropReason::PwSequence)] if !in_order => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    // Octets that are no frame do not move the window.
    assert_eq!(refused(&mut receive, &octets(40_000)[..10]), DropReason::Malformed);
    back(&mut receive, &octets(32_775));
}

#[test]
fn vpws_sequence_arithmetic_is_that_of_the_rfc() {
    let cases = [(1, 1, true), (1, 32_768, true), (1, 32_769, false), (2, 1, false)];
    let wrapped = [(65_535, 1, true), (40_000, 7232, true), (40_000, 7233, false)];
    for (mut expected, number, in_order) in cases.into_iter().chain(wrapped) {
        let before = expected;
        assert_eq!(accept(&mut expected, number), in_order, "{before} {number}");
        assert_eq!(expected, if in_order { number + 1 } else { before });
    }
    let mut expected = 65_535;
    assert!(accept(&mut expected, 65_535));
    assert_eq!(expected, 1);
}

#[test]
fn vpws_sequence_belongs_to_one_worker() {
    let config = || vec![pw(PwMode::Raw), Pseudowire { sequencing: true, ..pw(PwMode::Raw) }];
    let shared = || Tables { workers: 3, ..tables(Tag::None, config()) };
    let mut send: Rig<PwOut> = Rig::new(shared());
    let mut receive: Rig<PwIn> = Rig::new(shared());
    let octets = ethernet(&[], &[1; 46]);
    for worker in 0..3 {
        (send.worker, receive.worker) = (worker, worker);
        for (number, stays) in [(0, true), (1, worker == 1)] {
            let (mut a, mut b) =
                (send.packet(&octets), receive.packet(&[&[0; 4], &octets[..]].concat()));
            (a.meta_mut().pw, b.meta_mut().pw) = (number, number);
            let (a, b) = (send.run(a), receive.run(b));
            if stays {
                assert!(matches!(a[..], [Fate::Sent(Next::Output, _)]));
                assert!(matches!(b[..], [Fate::Sent(Next::Emit, _)]));
            } else {
                assert!(matches!(a[..], [Fate::Handed(1, Next::PwOut)]));
                assert!(matches!(b[..], [Fate::Handed(1, Next::PwIn)]));
            }
        }
    }
}

#[test]
fn vpws_sequence_begins_anew_when_the_number_goes_to_another_pseudowire() {
    let config = |label_out| vec![Pseudowire { sequencing: true, label_out, ..pw(PwMode::Raw) }];
    let mut send: Rig<PwOut> = Rig::new(tables(Tag::None, config(16)));
    let octets = ethernet(&[], &[1; 46]);
    let number = |send: &mut Rig<PwOut>| out(send, &octets).data()[7];
    assert_eq!([number(&mut send), number(&mut send)], [1, 2]);
    send.tables.pws = config(16);
    assert_eq!(number(&mut send), 3, "a new snapshot with the same pseudowire");
    send.tables.pws = config(17);
    assert_eq!(number(&mut send), 1);
}

#[test]
fn vpws_that_is_not_configured_is_a_drop() {
    let mut send: Rig<PwOut> = Rig::new(Tables::default());
    let mut receive: Rig<PwIn> = Rig::new(Tables::default());
    let octets = ethernet(&[], &[1; 46]);
    let (a, b) = (send.packet(&octets), receive.packet(&octets));
    assert_eq!(dropped(send.run(a)), DropReason::NotAttached);
    assert_eq!(dropped(receive.run(b)), DropReason::NotAttached);
}
