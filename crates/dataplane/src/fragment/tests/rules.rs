//! One rule of reassembly after the other.

use super::{Made, dropped_for, text, whole};
use crate::fragment::{DATAGRAMS_MAX, PER_SOURCE_MAX, REASSEMBLY_TIME};
use crate::graph::{FLAG_LOCAL, FLAG_ONWARDS, FLAG_OPENED, FLAG_WHOLE, Next};
use crate::route::tests::rig::{Fate, Rig, dropped, sent};
use ferrule_base::{DropReason, Duration};
use ferrule_pipeline::Pool;
use ferrule_wire::{Protocol, ipv4};

const BOTH: [u8; 2] = [4, 6];

/// A datagram of 100 octets in pieces of 40, 40 and 20.
fn three(version: u8, ident: u32) -> [Made; 3] {
    let all = text(100, ident as u8);
    [(0, 40), (40, 80), (80, 100)].map(|(a, b)| Made::new(version, ident, a, b < 100, &all[a..b]))
}

#[test]
fn fragments_in_any_order_make_the_datagram() {
    for version in BOTH {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut rig = Rig::new();
            let made = three(version, 5);
            assert!(made[order[0]].push(&mut rig).is_empty());
            assert!(made[order[1]].push(&mut rig).is_empty());
            assert_eq!(rig.reassemble.held(), 2);
            assert_eq!(whole(made[order[2]].push(&mut rig), version), text(100, 5));
            assert_eq!((rig.reassemble.held(), rig.tally.consumed), (0, 2));
        }
    }
}

#[test]
fn fragments_of_an_echo_request_are_answered_whole() {
    let mut rig = Rig::new();
    let mut echo = vec![8, 0, 0, 0, 1, 2, 3, 4];
    echo.extend(text(3000, 1));
    ferrule_wire::icmpv4::fill_checksum(&mut echo);
    let mut fates = Vec::new();
    for (a, b) in [(0, 1480), (1480, 2960), (2960, 3008)] {
        let piece = Made::new(4, 9, a, b < 3008, &echo[a..b]).of(Protocol::ICMP);
        let dst = crate::route::tests::rig::own(0);
        let frame = crate::route::tests::rig::frame(
            dst,
            crate::route::tests::rig::HOST,
            ferrule_wire::EtherType::IPV4,
            &piece.octets(),
        );
        fates.extend(rig.frame(0, &frame));
    }
    assert_eq!(fates.len(), 3, "the answer leaves in fragments: {fates:?}");
}

#[test]
fn overlapping_fragments_end_the_datagram_and_what_comes_of_it_later() {
    for version in BOTH {
        let mut rig = Rig::new();
        let made = three(version, 5);
        assert!(made[0].push(&mut rig).is_empty() && made[2].push(&mut rig).is_empty());
        let overlap = Made::new(version, 5, 32, true, &[0; 16]);
        let fates = overlap.push(&mut rig);
        assert_eq!(dropped_for(&fates), DropReason::FragmentOverlap);
        assert_eq!((fates.len(), rig.tally.drops.get(DropReason::FragmentOverlap)), (2, 1));
        // RFC 5722: not even those that have not come yet.
        for piece in made {
            assert_eq!(dropped(piece.push(&mut rig)), DropReason::FragmentOverlap);
        }
        assert_eq!(rig.reassemble.held(), 0);
        let other = three(version, 6);
        assert!(other[0].push(&mut rig).is_empty(), "another datagram is another matter");
    }
}

#[test]
fn fragments_that_contradict_the_end_are_overlaps() {
    for version in BOTH {
        let last = |offset, len| Made::new(version, 5, offset, false, &text(200, 5)[..len]);
        let more = |offset, len| Made::new(version, 5, offset, true, &text(200, 5)[..len]);
        let pairs = [
            (last(80, 20), last(80, 24)),
            (last(80, 20), more(96, 8)),
            (last(80, 20), more(200, 8)),
            (more(120, 8), last(80, 20)),
            (last(80, 20), more(72, 32)),
        ];
        for (one, other) in pairs {
            let mut rig = Rig::new();
            assert!(one.push(&mut rig).is_empty());
            let fates = other.push(&mut rig);
            assert_eq!(dropped_for(&fates), DropReason::FragmentOverlap, "{one:?} {other:?}");
        }
    }
}

#[test]
fn fragment_that_came_twice_is_passed_over() {
    for version in BOTH {
        let mut rig = Rig::new();
        let made = three(version, 5);
        assert!(made[0].push(&mut rig).is_empty() && made[2].push(&mut rig).is_empty());
        for copy in [&made[0], &made[2]] {
            assert_eq!(dropped(copy.push(&mut rig)), DropReason::FragmentDuplicate);
        }
        assert_eq!(whole(made[1].push(&mut rig), version), text(100, 5));
        // The same place with other octets is no copy.
        let mut rig = Rig::new();
        assert!(made[0].push(&mut rig).is_empty());
        let mut altered = made[0].clone();
        altered.data[39] ^= 1;
        assert_eq!(dropped_for(&altered.push(&mut rig)), DropReason::FragmentOverlap);
    }
}

#[test]
fn tiny_first_fragments_are_refused() {
    let mut rig = Rig::new();
    let tcp = |offset, len| Made::new(4, 5, offset, true, &text(len, 5)).of(Protocol::TCP);
    assert_eq!(dropped(tcp(0, 8).push(&mut rig)), DropReason::FragmentTiny);
    assert_eq!(dropped(tcp(8, 32).push(&mut rig)), DropReason::FragmentTiny);
    assert!(tcp(0, 16).push(&mut rig).is_empty() && tcp(16, 8).push(&mut rig).is_empty());
    // RFC 7112: the whole header chain is in the first fragment.
    let chain = [17, 0, 1, 4, 0, 0, 0, 0];
    for (protocol, data, good) in [
        (Protocol::TCP, &text(8, 5)[..], false),
        (Protocol::TCP, &text(16, 5)[..], true),
        (Protocol::DESTINATION, &chain[..], false),
        (Protocol::DESTINATION, &[chain, chain].concat()[..], true),
        (Protocol::DESTINATION, &[60; 16][..], false),
    ] {
        let mut rig = Rig::new();
        let fates = Made::new(6, 5, 0, true, data).of(protocol).push(&mut rig);
        match good {
            true => assert!(fates.is_empty(), "{protocol} {fates:?}"),
            false => assert_eq!(dropped(fates), DropReason::FragmentTiny),
        }
    }
}

#[test]
fn fragments_whose_length_cannot_be_are_refused() {
    let mut rig = Rig::new();
    let bad = [
        Made::new(4, 5, 8, true, &[0; 7]),
        Made::new(4, 5, 8, false, &[]),
        Made::new(6, 5, 8, false, &[]),
        // Ping of death: beyond the longest datagram.
        Made::new(4, 5, 65_528, false, &[0; 100]),
    ];
    for made in bad {
        assert_eq!(dropped(made.push(&mut rig)), DropReason::Malformed, "{made:?}");
    }
    // RFC 8200 section 4.5: parameter problem, at the field that is wrong.
    for (made, pointer) in
        [(Made::new(6, 5, 8, true, &[0; 7]), 4), (Made::new(6, 5, 65_528, false, &[0; 100]), 42)]
    {
        let (next, packet) = sent(made.push(&mut rig));
        assert_eq!((next, packet.meta().icmp), (Next::IcmpError, 4 << 8));
        assert_eq!(packet.meta().offset, pointer);
    }
    assert_eq!(rig.reassemble.held(), 0);
}

#[test]
fn datagram_that_does_not_fit_a_buffer_is_dropped_with_all_its_fragments() {
    for version in BOTH {
        let mut rig = Rig::new();
        let all = text(6000, 5);
        let piece = |a: usize, b: usize| Made::new(version, 5, a, b < 6000, &all[a..b]);
        assert!(piece(0, 1480).push(&mut rig).is_empty());
        let fates = piece(2960, 4440).push(&mut rig);
        assert_eq!(dropped_for(&fates), DropReason::ReassemblyTooBig);
        assert_eq!(dropped(piece(1480, 2960).push(&mut rig)), DropReason::ReassemblyTooBig);
        assert_eq!(rig.reassemble.held(), 0);
        // A datagram that begins with a piece that does not fit.
        let far = Made::new(version, 6, 5920, false, &all[5920..]);
        assert_eq!(dropped(far.push(&mut rig)), DropReason::ReassemblyTooBig);
        // The longest datagram that fits: all of the buffer but head and tail room.
        let room = 4096 - 256 + 64 - super::super::TAIL_ROOM;
        let just = text(room, 7);
        let piece = |a: usize, b: usize| Made::new(version, 7, a, b < room, &just[a..b]);
        assert!(piece(0, 1480).push(&mut rig).is_empty());
        assert!(piece(1480, 2960).push(&mut rig).is_empty());
        assert_eq!(whole(piece(2960, room).push(&mut rig), version), just);
    }
}

#[test]
fn reassembly_under_attack_takes_a_bounded_number_of_buffers() {
    for version in BOTH {
        let mut rig = Rig::new();
        let source = |n: u32| match version {
            4 => format!("10.{}.{}.9", 2 + (n >> 8), n & 0xff),
            _ => format!("2001:db8:{n:x}::9"),
        };
        let before = rig.cache.pool().free();
        for n in 0..5000 {
            let made = Made::new(version, n, 0, true, &[0; 64]).from(&source(n));
            made.push(&mut rig);
        }
        // An eighth of 1024 buffers.
        let limit = rig.cache.pool().chunks() / crate::fragment::POOL_SHARE;
        assert!(limit < DATAGRAMS_MAX);
        assert_eq!(rig.reassemble.held(), limit);
        let mut free = 0;
        let taken: Vec<_> =
            std::iter::from_fn(|| rig.cache.packet()).inspect(|_| free += 1).collect();
        drop(taken);
        assert_eq!(rig.cache.pool().chunks() - free, limit, "{before} were free");
        // The newest are those that stay, and can still be finished.
        let last = Made::new(version, 4999, 64, false, &[0; 8]).from(&source(4999));
        assert_eq!(whole(last.push(&mut rig), version).len(), 72);
    }
}

#[test]
fn one_source_cannot_push_others_out_of_reassembly() {
    for version in BOTH {
        let mut rig = Rig::new();
        // So many buffers that the limit of all is twice that of one source.
        rig.cache = Pool::heap(PER_SOURCE_MAX * 16, 2048).cache();
        let honest = three(version, 1);
        assert!(honest[0].push(&mut rig).is_empty() && honest[1].push(&mut rig).is_empty());
        let mut full = 0;
        for n in 0..1000 {
            // Addresses of one /64 are one source.
            let src = match version {
                4 => "10.66.6.6".to_owned(),
                _ => format!("2001:db8:666::{n:x}"),
            };
            let fates = Made::new(version, n, 0, true, &[0; 64]).from(&src).push(&mut rig);
            full += fates.len();
            assert!(fates.iter().all(|f| matches!(f, Fate::Dropped(DropReason::ReassemblyFull))));
        }
        assert_eq!(full, 1000 - PER_SOURCE_MAX);
        assert_eq!(rig.reassemble.held(), PER_SOURCE_MAX + 2);
        assert_eq!(whole(honest[2].push(&mut rig), version), text(100, 1));
    }
}

#[test]
fn tiny_pieces_in_great_number_take_one_buffer() {
    let mut rig = Rig::new();
    let free = |rig: &mut Rig| {
        let all: Vec<_> = std::iter::from_fn(|| rig.cache.packet()).collect();
        all.len()
    };
    let before = free(&mut rig);
    for n in (1..470).rev() {
        assert!(Made::new(4, 5, n * 8, n < 469, &[n as u8; 8]).push(&mut rig).is_empty());
    }
    assert_eq!((rig.reassemble.held(), before - free(&mut rig)), (469, 1));
    assert_eq!(whole(Made::new(4, 5, 0, true, &[0; 8]).push(&mut rig), 4).len(), 3760);
}

#[test]
fn reassembly_timeout_tells_the_sender_if_the_first_fragment_came() {
    for version in BOTH {
        let mut rig = Rig::new();
        let made = three(version, 5);
        assert_eq!(rig.reassemble.poll_timeout(), None);
        assert!(made[0].push(&mut rig).is_empty() && made[2].push(&mut rig).is_empty());
        rig.now += Duration::from_secs(1);
        let later = three(version, 6);
        assert!(later[1].push(&mut rig).is_empty());
        let due = rig.reassemble.poll_timeout().unwrap();
        assert_eq!(due, rig.now + (REASSEMBLY_TIME - Duration::from_secs(1)));
        assert!(rig.expire().is_empty(), "not yet");
        rig.now = due;
        let (next, packet) = sent(rig.expire());
        let kind = if version == 4 { 11 << 8 | 1 } else { 3 << 8 | 1 };
        assert_eq!((next, packet.meta().icmp), (Next::IcmpError, kind));
        assert_eq!(packet.data(), made[0].octets(), "the first fragment as it came");
        assert_eq!(rig.tally.drops.get(DropReason::ReassemblyTimeout), 2);
        assert_eq!((rig.tally.made, rig.reassemble.held()), (1, 1));
        let (next, message) = sent(rig.run_error(packet));
        assert_eq!(next, Next::Ip);
        let at = if version == 4 { 20 } else { 40 };
        assert_eq!(message.data()[at..at + 2], if version == 4 { [11, 1] } else { [3, 1] });
        // Of the other datagram only a later fragment came: no error is sent.
        rig.now += Duration::from_secs(2);
        assert_eq!(dropped(rig.expire()), DropReason::ReassemblyTimeout);
        assert_eq!((rig.reassemble.held(), rig.reassemble.poll_timeout()), (0, None));
        // A late one begins anew.
        assert!(made[1].push(&mut rig).is_empty());
    }
}

#[test]
fn fragments_that_came_by_different_ways_never_meet() {
    let made = three(4, 5);
    let mut rig = Rig::new();
    let run = |rig: &mut Rig, piece: &Made, flags, number, vrf| {
        let mut packet = rig.ip_packet(&piece.octets());
        let meta = packet.meta_mut();
        (meta.flags, meta.vrf) = (flags, ferrule_base::VrfId(vrf));
        (meta.opened, meta.adjacency) = (number, number);
        rig.run_reassemble(packet)
    };
    // In clear, by two SAs, in another table: four datagrams, none whole.
    assert!(run(&mut rig, &made[0], 0, 0, 0).is_empty());
    assert!(run(&mut rig, &made[1], FLAG_OPENED, 3, 0).is_empty());
    assert!(run(&mut rig, &made[1], FLAG_OPENED, 4, 0).is_empty());
    assert!(run(&mut rig, &made[1], 0, 0, 1).is_empty());
    assert!(run(&mut rig, &made[2], 0, 9, 0).is_empty());
    assert_eq!(rig.reassemble.held(), 5);
    let (_, packet) = sent(run(&mut rig, &made[1], FLAG_LOCAL, 0, 0));
    assert_eq!(packet.len(), 120);
}

#[test]
fn fragments_on_their_way_go_back_to_the_policy() {
    let made = three(4, 5);
    let mut rig = Rig::new();
    for (at, piece) in made.iter().enumerate() {
        let mut packet = rig.ip_packet(&piece.octets());
        (packet.meta_mut().flags, packet.meta_mut().adjacency) = (FLAG_ONWARDS, 6);
        let fates = rig.run_reassemble(packet);
        if at < 2 {
            assert!(fates.is_empty());
            continue;
        }
        let (next, packet) = sent(fates);
        assert_eq!((next, packet.meta().adjacency), (Next::Policy, 6));
        assert_eq!(packet.meta().flags, FLAG_WHOLE, "it does not go round again");
    }
}

#[test]
fn congestion_that_a_fragment_met_is_told_of_the_datagram() {
    for version in BOTH {
        for (marks, good) in [([1, 3, 1], true), ([2, 2, 2], true), ([0, 3, 0], false)] {
            let mut rig = Rig::new();
            let mut fates = Vec::new();
            for (piece, mark) in three(version, 5).iter().zip(marks) {
                let mut octets = piece.octets();
                if version == 4 {
                    octets[1] |= mark;
                    ipv4::fill_checksum(&mut octets);
                } else {
                    octets[1] |= mark << 4;
                }
                let packet = rig.ip_packet(&octets);
                fates = rig.run_reassemble(packet);
            }
            if !good {
                assert_eq!(dropped(fates), DropReason::FragmentOverlap);
                continue;
            }
            let (_, packet) = sent(fates);
            let ecn = if version == 4 { packet.data()[1] } else { packet.data()[1] >> 4 } & 3;
            assert_eq!(ecn, marks.into_iter().max().unwrap());
        }
    }
}

#[test]
fn headers_of_the_first_fragment_are_those_of_the_datagram() {
    let mut rig = Rig::new();
    let mut made = three(4, 5).map(|m| m.octets());
    // Record route in the first one alone, as routers leave it.
    made[0].splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    made[0][0] = 0x47;
    made[0][2..4].copy_from_slice(&68u16.to_be_bytes());
    made[0][8] = 33;
    ipv4::fill_checksum(&mut made[0]);
    let mut fates = Vec::new();
    for octets in [&made[2], &made[0], &made[1]] {
        let packet = rig.ip_packet(octets);
        fates = rig.run_reassemble(packet);
    }
    let (_, packet) = sent(fates);
    let (repr, payload) = ipv4::Repr::parse(packet.data()).unwrap();
    assert_eq!((repr.options.as_slice()[0], repr.ttl, payload), (7, 33, &text(100, 5)[..]));
    // In IPv6 with extension headers in front of the fragment header.
    let mut fates = Vec::new();
    for octets in three(6, 5).map(|m| m.octets()) {
        let mut octets = octets;
        octets[6] = 60;
        octets.splice(40..40, [44, 0, 1, 4, 0, 0, 0, 0]);
        let len = (octets.len() - 40) as u16;
        octets[4..6].copy_from_slice(&len.to_be_bytes());
        let packet = rig.ip_packet(&octets);
        fates = rig.run_reassemble(packet);
    }
    let (_, packet) = sent(fates);
    let data = packet.data();
    assert_eq!((data[6], data[40], data.len()), (60, Protocol::UDP.0, 148));
    assert_eq!((&data[4..6], &data[48..]), (&[0, 108][..], &text(100, 5)[..]));
}
