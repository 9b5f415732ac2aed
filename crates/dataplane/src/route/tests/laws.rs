//! Fragments put together again are the packet.

use super::rig::*;
use crate::fragment::{self, Rest};
use crate::graph::{FLAG_EXEMPT, FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, Next};
use crate::ipsec::{Action, PolicyEntry, Selector, Spd};
use ferrule_base::{DropReason, VrfId};
use ferrule_pipeline::Meta;
use ferrule_wire::ip::Options;
use ferrule_wire::{EtherType, Protocol, ipv4};
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

/// Fate of a packet in front of `Ip`, but for its header and where that ends.
fn routed(octets: &[u8], meta: &Meta) -> String {
    let mut rig = Rig::new();
    let prefix = |text: &str| (ip(text), 8);
    let pass = Selector::between(prefix("10.0.0.0"), prefix("10.0.0.0"));
    let pass = PolicyEntry::new(pass.of(Protocol::UDP), Action::Bypass);
    rig.tables.policies.push(Spd::new(&[pass]).unwrap().into());
    rig.routed(0).policy = Some(0);
    rig.routed(1).clamp = Some(1400);
    let mut packet = rig.packet(octets);
    *packet.meta_mut() = *meta;
    match &rig.run_ip(packet)[..] {
        [Fate::Sent(next, packet)] => {
            let (meta, data) = (Meta { offset: 0, ..*packet.meta() }, packet.data());
            assert!(ipv4::validate(data).is_ok(), "the checksum goes with the hops");
            format!(
                "{} {meta:?} {} {:?}",
                next.name(),
                data[8],
                &data[usize::from(data[0] & 15) * 4..]
            )
        }
        fates => format!("{fates:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..Default::default() })]

    /// Packets without options have a way of their own through the stage.
    #[test]
    fn packet_without_options_ends_as_one_with_options_that_say_nothing(
        src in prop::sample::select(vec![
            "10.3.0.9", "10.3.0.9", "10.3.0.9", "10.0.0.1", "127.0.0.1", "0.0.0.1", "169.254.1.1",
            "224.0.0.5", "255.255.255.255",
        ]),
        dst in prop::sample::select(vec![
            "10.0.0.2", "10.0.0.1", "10.9.0.7", "10.9.9.7", "10.77.0.1", "224.0.0.1", "169.254.0.7",
            "240.0.0.1", "255.255.255.255",
        ]),
        protocol in prop::sample::select(vec![Protocol::UDP, Protocol::ESP, Protocol::AH, Protocol::ICMP]),
        (ttl, turns) in (prop_oneof![4 => Just(64u8), 1 => 0u8..3], prop_oneof![6 => Just(0u8), 1 => 6u8..10]),
        (iface, vrf) in (0u16..4, prop_oneof![4 => Just(0u16), 1 => 0u16..3]),
        flags in prop::sample::select(vec![
            0, 0, 0, FLAG_LOCAL, FLAG_EXEMPT, FLAG_OPENED, FLAG_GROUP, FLAG_LOCAL | FLAG_EXEMPT,
        ]),
        fragment in prop_oneof![6 => Just(0u16), 1 => Just(0x2000), 1 => Just(9), 1 => Just(0x4000)],
        (padding, wrong) in (0usize..3, prop_oneof![6 => Just(0u8), 1 => 1u8..]),
    ) {
        let mut plain = v4(src, dst, protocol, &[1; 40]);
        plain[8] = ttl;
        plain[6..8].copy_from_slice(&fragment.to_be_bytes());
        let mut more = [&plain[..20], &[1; 4], &plain[20..]].concat();
        more[0] += 1;
        more[3] += 4;
        for octets in [&mut plain, &mut more] {
            ipv4::fill_checksum(octets);
            octets[11] ^= wrong;
            octets.resize(octets.len() + padding, 0);
        }
        let ethertype = EtherType::IPV4.0;
        let meta = Meta { iface, vrf: VrfId(vrf), flags, turns, ethertype, ..Meta::default() };
        prop_assert_eq!(routed(&plain, &meta), routed(&more, &meta));
    }
}
