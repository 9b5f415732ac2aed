//! Fragments put together again are the packet.

use super::rig::*;
use crate::fragment::{self, Rest};
use crate::graph::{FLAG_LOCAL, Next};
use ferrule_base::DropReason;
use ferrule_wire::ip::Options;
use ferrule_wire::{Protocol, ipv4};
use proptest::prelude::*;

/// Options: some copied into every fragment (the high bit), some not.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        Just(vec![1]),
        Just(vec![0x94, 4, 0, 0]),
        Just(vec![0x07, 7, 4, 0, 0, 0, 0]),
        Just(vec![0x83, 7, 4, 10, 0, 0, 1]),
    ];
    prop::collection::vec(one, 0..5).prop_map(|list| {
        let mut out: Vec<u8> = list.concat();
        out.resize(out.len().next_multiple_of(4), 0);
        out
    })
}

/// Reassembly (RFC 791 section 3.2) of fragments in any order.
fn reassemble(fragments: &[Vec<u8>]) -> (Vec<u8>, bool) {
    let mut pieces: Vec<_> = fragments
        .iter()
        .map(|f| {
            let (header, payload) = ipv4::Repr::parse(f).unwrap();
            (usize::from(header.fragment_offset) * 8, header.more_fragments, payload.to_vec())
        })
        .collect();
    pieces.sort();
    let start = pieces[0].0;
    let mut out = Vec::new();
    let last = pieces.len() - 1;
    let mut open = false;
    for (n, (at, more, payload)) in pieces.into_iter().enumerate() {
        assert_eq!(at - start, out.len(), "no hole, no overlap");
        assert!(more || n == last);
        assert!(!more || payload.len() % 8 == 0);
        out.extend(payload);
        open = more;
    }
    (out, open)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn fragments_reassemble_to_the_packet(
        payload in prop::collection::vec(any::<u8>(), 0..3000),
        options in options(),
        mtu in 68usize..2000,
        offset in 0u16..7000,
        more: bool,
        ident: u16,
    ) {
        let mut rig = Rig::new();
        let payload = if more { &payload[..payload.len() & !7] } else { &payload[..] };
        let mut header = ipv4::Repr::new(
            Protocol::UDP, "10.0.0.2".parse().unwrap(), "10.9.0.7".parse().unwrap(), payload.len() as u16,
        );
        header.options = Options::new(&options).unwrap_or_default();
        (header.ident, header.fragment_offset, header.more_fragments) = (ident, offset, more);
        let mut bytes = vec![0; header.len()];
        header.emit(&mut bytes);
        bytes.extend(payload);
        rig.routed(1).mtu = mtu as u16;
        let mut packet = rig.ip_packet(&bytes);
        packet.meta_mut().adjacency = 1;
        let fates = rig.put_out(packet);
        let fits = bytes.len() <= mtu;
        if let [Fate::Dropped(reason)] = fates[..] {
            prop_assert!(!fits && reason == DropReason::TooBig);
            prop_assert!(payload.len().div_ceil((mtu - header.len()) & !7) > fragment::FRAGMENTS_MAX);
            return Ok(());
        }
        prop_assert_eq!(rig.tally.made as usize, fates.len() - 1);
        let mut fragments = Vec::new();
        for fate in fates {
            let Fate::Sent(Next::Emit | Next::Transmit, packet) = fate else { panic!("{fate:?}") };
            prop_assert!(packet.len() <= 14 + mtu);
            let bytes = packet.data()[14..].to_vec();
            let (piece, _) = ipv4::Repr::parse(&bytes).unwrap();
            prop_assert_eq!((piece.ident, piece.src, piece.dst), (ident, header.src, header.dst));
            if piece.fragment_offset == offset {
                prop_assert_eq!(piece.options, header.options);
            } else {
                let text = format!("{:?}", piece.options);
                prop_assert!(!text.contains("07, 07"), "record route is in the first one alone");
            }
            fragments.push(bytes);
        }
        prop_assert_eq!(reassemble(&fragments), (payload.to_vec(), more));
    }
}

#[test]
fn packet_sealed_here_without_df_is_fragmented() {
    let mut rig = Rig::new();
    let mut packet = rig.ip_packet(&v4("10.0.0.1", "10.9.0.7", Protocol::ESP, &[7; 3000]));
    packet.meta_mut().adjacency = 1;
    packet.meta_mut().flags = FLAG_LOCAL;
    assert_eq!(rig.run_output(packet).len(), 3);
}

#[test]
fn fragmentation_without_free_buffers_leaves_the_packet_whole() {
    let mut rig = Rig::new();
    let bytes = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[7; 3000]);
    let mut packet = rig.ip_packet(&bytes);
    let mut taken = Vec::new();
    taken.extend(std::iter::from_fn(|| rig.cache.packet()));
    taken.pop();
    let fit = taken.len();
    let mut rest = Rest::new();
    let (tables, now) = (&rig.tables, rig.now);
    let (cache, tally, out) = (&mut rig.cache, &mut rig.tally, &mut rig.out);
    let mut ctx = Parts { tables, now, cache, tally, out }.ctx();
    let cut = fragment::cut(&mut ctx, &mut packet, 576, &mut rest);
    assert_eq!(cut, Err(DropReason::NoBuffer));
    assert_eq!((packet.data(), rest.len()), (&bytes[..], 0));
    assert!(rig.cache.packet().is_some(), "what was taken is given back");
    assert!(fit > 0 && rig.tally.made == 0);
}

#[test]
fn packet_that_is_too_long_by_what_stands_behind_it_is_not_cut() {
    let mut rig = Rig::new();
    let octets = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[7; 80]);
    let mut packet = rig.ip_packet(&[&octets[..], &[9; 1600]].concat());
    packet.meta_mut().adjacency = 1;
    let (next, packet) = sent(rig.put_out(packet));
    assert_eq!((next, &packet.data()[14..]), (Next::Transmit, &octets[..]));
}

#[test]
fn fragment_beyond_any_datagram_is_malformed() {
    let mut rig = Rig::new();
    let mut bytes = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &[7; 1600]);
    bytes[6..8].copy_from_slice(&8180u16.to_be_bytes());
    ipv4::fill_checksum(&mut bytes);
    let mut packet = rig.ip_packet(&bytes);
    packet.meta_mut().adjacency = 1;
    assert_eq!(dropped(rig.run_output(packet)), DropReason::Malformed);
}
