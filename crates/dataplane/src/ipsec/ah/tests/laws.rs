//! Properties that hold for every suite, mode, family, length and engine.

use super::*;
use crate::ipsec::tests::on_both_engines;
use ferrule_crypto::Late;
use proptest::prelude::*;

fn ah_made_then_checked_gives_the_packet_back<E: Make>() {
    for (n, suite) in SUITES.into_iter().enumerate() {
        for kind in KINDS {
            for esn in [false, true] {
                let mut g = Gateway::<E>::pair(n as u64, suite, kind, esn);
                let versions: &[u8] = match kind {
                    Kind::Tunnel(_) => &[4, 6],
                    Kind::Transport(4) => &[4],
                    Kind::Transport(_) => &[6],
                };
                for &version in versions {
                    for len in [48, 49, 50, 51, 300, 1399, 1400] {
                        let plain = inner(version, len, 0xb8);
                        let sealed = g.sealed(&plain);
                        let opened = g.open(&sealed);
                        assert_eq!(opened, End::Sent(Next::Ip, plain), "{suite} {kind:?} {esn}");
                        let meta = g.metas[0];
                        assert_eq!((meta.vrf, meta.icmp), (VrfId(3), 0));
                        assert_eq!(meta.ethertype, if version == 4 { 0x0800 } else { 0x86dd });
                        assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhReplay));
                    }
                }
                let out = g.out.show().next().unwrap().stats;
                let inn = g.inn.show().next().unwrap().stats;
                assert_eq!((out.packets, out.octets), (inn.packets, inn.octets));
                assert_eq!(inn.replays, inn.packets);
                assert_eq!(g.tally.work.sealed.packets, out.packets);
            }
        }
    }
}

fn ah_order_is_kept_within_an_sa<E: Make>() {
    let mut g = Gateway::<E>::pair(11, SHA1, Kind::Tunnel(4), false);
    let packets: Vec<_> = (0..320).map(|i| inner(4, 60 + i % 256, 0)).collect();
    for batch in packets.chunks(64) {
        g.push_out(batch.iter().map(Vec::as_slice));
    }
    g.settle();
    let sealed: Vec<_> = g.ends().into_iter().map(sent).collect();
    let number = |packet: &Vec<u8>| u32::from_be_bytes(*packet[28..].first_chunk().unwrap());
    assert!(sealed.iter().map(number).eq(1..=320));
    for batch in sealed.chunks(64) {
        g.push_in(batch.iter().map(Vec::as_slice));
    }
    g.settle();
    assert_eq!(g.ends().into_iter().map(sent).collect::<Vec<_>>(), packets);
}

fn sent(end: End) -> Vec<u8> {
    match end {
        End::Sent(_, octets) => octets,
        other => panic!("{other:?}"),
    }
}

fn ah_duplicates_under_way_together_pass_once<E: Make>() {
    for kind in KINDS {
        let mut g = Gateway::<E>::pair(2, SHA1, kind, true);
        let version = if kind.head() == 20 { 4 } else { 6 };
        let sealed = g.sealed(&inner(version, 80, 0));
        g.push_in(std::iter::repeat_n(&sealed[..], 8));
        g.settle();
        let ends = g.ends();
        let passed = ends.iter().filter(|end| matches!(end, End::Sent(Next::Ip, _))).count();
        let replays = ends.iter().filter(|&end| *end == End::Dropped(DropReason::AhReplay)).count();
        assert_eq!((passed, replays), (1, 7), "{kind:?}");
    }
}

fn ah_extended_numbers_go_on_across_the_wrap<E: Make>() {
    for kind in [Kind::Tunnel(4), Kind::Transport(6)] {
        let first = u64::from(u32::MAX) - 2;
        let (out, inn) = (outbound(SHA1, kind, true), inbound(SHA1, kind, true));
        let mut g = Gateway::<E>::of(1, &out, &inn, first);
        let version = if kind.head() == 20 { 4 } else { 6 };
        let packet = inner(version, 90, 0);
        let sealed: Vec<_> = (0..6).map(|_| g.sealed(&packet)).collect();
        // The last first: those before the wrap are behind the window's edge.
        for sealed in sealed.iter().rev() {
            assert_eq!(g.open(sealed), End::Sent(Next::Ip, packet.clone()));
        }
        assert_eq!(g.edge(), first + 5);
        // The same packet as of another epoch fails authentication and moves nothing.
        let mut far = Gateway::<E>::of(1, &out, &inn, first + (2 << 32));
        assert_eq!(far.open(&sealed[0]), End::Dropped(DropReason::AhBadIcv));
        assert_eq!(far.edge(), first + (2 << 32) - 1);
    }
}

fn ah_numbers_end_without_extended_ones<E: Make>() {
    let (out, inn) =
        (outbound(SHA1, Kind::Tunnel(4), false), inbound(SHA1, Kind::Tunnel(4), false));
    let mut g = Gateway::<E>::of(1, &out, &inn, u32::MAX.into());
    let packet = inner(4, 90, 0);
    let last = g.sealed(&packet);
    assert_eq!(g.seal(&packet), End::Dropped(DropReason::AhSequenceExhausted));
    assert_eq!(g.open(&last), End::Sent(Next::Ip, packet));
}

on_both_engines! {
    ah_made_then_checked_gives_the_packet_back;
    ah_order_is_kept_within_an_sa;
    ah_duplicates_under_way_together_pass_once;
    ah_extended_numbers_go_on_across_the_wrap;
    ah_numbers_end_without_extended_ones;
}

/// Nothing that arrives panics, is lost, or passes.
fn hostile<E: Make>(octets: &[u8], offset: u16, kind: Kind) {
    let mut g = Gateway::<E>::pair(1, SHA1, kind, true);
    let mut batch = g.batch([(octets, Meta { offset, ..Meta::default() })]);
    g.inn.push(ctx!(g), &mut g.engine, &mut batch);
    g.settle();
    assert!(matches!(g.only(), End::Dropped(_)));
    g.push_out([octets]);
    g.settle();
    g.only();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn ah_any_octets_are_refused_and_none_lost(
        octets in proptest::collection::vec(any::<u8>(), 0..200), offset in 0u16..220, kind in 0usize..4,
    ) {
        hostile::<Software>(&octets, offset, KINDS[kind]);
        hostile::<Late<Packet>>(&octets, offset, KINDS[kind]);
    }

    /// Made and checked, but that what comes twice in one batch is checked twice.
    #[test]
    fn ah_batch_ends_as_each_packet_alone(
        n in 0..SUITES.len(), kind in 0usize..4, esn: bool,
        packets in proptest::collection::vec((48usize..1450, any::<u8>(), 0u8..4, 0u8..12, 0usize..64), 1..=64),
    ) {
        let gateway = || Gateway::<Software>::pair(1, SUITES[n], KINDS[kind], esn);
        let (mut alone, mut together) = (gateway(), gateway());
        let (mut expected, mut got) = (Told::new(), Told::new());
        let home = if matches!(KINDS[kind], Kind::Transport(6)) { 6 } else { 4 };
        let mut plain = Vec::new();
        for &(len, class, other, ..) in &packets {
            let mut octets = inner(if other == 0 { 10 - home } else { home }, len, class);
            if class == 7 && octets[0] >> 4 == 4 {
                octets[6] = 0x40;
                ipv4::fill_checksum(&mut octets);
            }
            plain.push(octets);
        }
        for octets in &plain {
            alone.push_out([&octets[..]]);
            tell(alone.ends(), &alone.metas, &mut expected);
        }
        together.push_out(plain.iter().map(Vec::as_slice));
        let ends = together.ends();
        let mut sealed: Vec<Vec<u8>> = Vec::new();
        for (end, &(_, _, _, what, at)) in ends.iter().zip(&packets) {
            let again = sealed.get(at % sealed.len().max(1)).cloned();
            match (end, what) {
                (End::Sent(Next::Output, octets), 1) => {
                    let mut octets = octets.clone();
                    octets.last_mut().into_iter().for_each(|octet| *octet ^= 1);
                    sealed.push(octets);
                }
                (End::Sent(Next::Output, octets), 2..) => sealed.push(octets.clone()),
                _ => sealed.extend(again),
            }
        }
        tell(ends, &together.metas, &mut got);
        for octets in &sealed {
            alone.push_in([&octets[..]]);
            tell(alone.ends(), &alone.metas, &mut expected);
        }
        together.push_in(sealed.iter().map(Vec::as_slice));
        tell(together.ends(), &together.metas, &mut got);
        prop_assert_eq!(got, expected);
        let counted = |g: &Gateway<Software>| {
            let sas: Vec<_> = g.out.show().chain(g.inn.show()).map(|s| (s.number, s.stats)).collect();
            (sas, g.tally.work.sealed, g.tally.work.lookups, g.tally.made)
        };
        prop_assert_eq!(counted(&together), counted(&alone));
    }

    #[test]
    fn ah_altered_packets_are_refused_and_none_lost(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6),
        cut in 0usize..90, kind in 0usize..4,
    ) {
        let kind = KINDS[kind];
        let version = if kind.head() == 20 { 4 } else { 6 };
        let mut g = Gateway::<Software>::pair(1, SHA1, kind, true);
        let mut sealed = g.sealed(&inner(version, 90, 0));
        for (at, change) in changes {
            // Not what may change on the way.
            let at = 12 + at.index(sealed.len() - 12);
            sealed[at] ^= change;
        }
        sealed[kind.head() + 4] ^= 1;
        sealed.truncate(sealed.len() - cut);
        let offset = kind.head() as u16;
        hostile::<Software>(&sealed, offset, kind);
    }
}
