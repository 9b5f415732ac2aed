//! How SAs come and go, what they refuse, and the outer header they write.

use super::*;
use ferrule_crypto::{Aes, Mac};

const GCM: Suite = Suite::AesGcm(Aes::Aes128);

fn sa_replaced_under_traffic_loses_no_packet<E: Make>() {
    let mut g = Gateway::<E>::new(7);
    let old = InboundPlace { spi: SPI, worker: 0, index: 0 };
    let new = InboundPlace { spi: SPI + 1, worker: 0, index: 1 };
    g.tables.sas = SaDirectory::new(&[Some(0), Some(0)], &[old, new]).unwrap().into();
    let numbers = || Sequence::unlimited(1, 1000);
    let (out, inn) = (outbound(GCM, 4, false), inbound(GCM, 4, false));
    g.out.install_at(&mut g.engine, 0, &out, numbers()).unwrap();
    g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
    let packet = inner(4, 60, 0);
    let thirty = || std::iter::repeat_n(&packet[..], 30);
    g.push_out(0, thirty());
    // Make, switch, break: while packets of the old SA are under way.
    let (mut out, mut inn) = (out, inn);
    (out.spi, inn.spi) = (SPI + 1, SPI + 1);
    (out.keys.key, inn.keys.key) = (Secret::new(vec![9; 16]), Secret::new(vec![9; 16]));
    g.inn.install_at(&mut g.engine, 1, &inn, 0).unwrap();
    g.out.install_at(&mut g.engine, 1, &out, numbers()).unwrap();
    g.push_out(1, thirty());
    assert!(g.out.retire(&mut g.engine, 0));
    g.settle();
    let sealed: Vec<_> = g.ends().into_iter().map(sent).collect();
    assert_eq!(sealed.len(), 60);
    g.push_in(sealed.iter().map(Vec::as_slice));
    assert!(g.inn.retire(&mut g.engine, 0));
    g.settle();
    assert_eq!(g.ends(), vec![End::Sent(Next::Ip, packet.clone()); 60]);
    // The old SA is gone for good.
    assert_eq!(g.seal(&packet), End::Dropped(DropReason::EspNoSa));
    assert_eq!(g.open(&sealed[0]), End::Dropped(DropReason::EspUnknownSpi));
    assert!(!g.out.retire(&mut g.engine, 0) && !g.inn.retire(&mut g.engine, 0));
}

fn sent(end: End) -> Vec<u8> {
    match end {
        End::Sent(_, octets) => octets,
        other => panic!("{other:?}"),
    }
}

fn sa_index_used_again_is_not_hit_by_jobs_of_the_sa_before<E: Make>() {
    let mut g = Gateway::<E>::pair(9, GCM, 4, false);
    let (packet, other) = (inner(4, 60, 0), inner(4, 90, 0));
    let sealed: Vec<_> = (0..40).map(|_| g.sealed(&packet)).collect();
    for round in 0..5 {
        // Jobs of the old SA are under way; its index gets a successor with the
        // same SPI and key, and a window that refuses everything so far.
        g.push_in(sealed[round * 8..][..8].iter().map(Vec::as_slice));
        g.push_out(0, std::iter::repeat_n(&other[..], 8));
        assert!(g.inn.retire(&mut g.engine, 0) && g.out.retire(&mut g.engine, 0));
        let inn = g.inn.install_at(&mut g.engine, 0, &inbound(GCM, 4, false), 10).unwrap();
        let numbers = Sequence::unlimited(1000, 2000);
        let out = g.out.install_at(&mut g.engine, 0, &outbound(GCM, 4, false), numbers).unwrap();
        assert_eq!([inn.generation, out.generation], [round as u32 + 1; 2]);
        g.settle();
        let ends = g.ends();
        let count =
            |next| ends.iter().filter(|e| matches!(e, End::Sent(n, _) if *n == next)).count();
        assert_eq!((count(Next::Output), ends.len()), (8, 16));
        assert_eq!(g.edge(), 10, "the successor's window did not move");
        assert_eq!(g.inn.show().next().unwrap().stats, SaStats::default());
        assert_eq!(g.out.show().next().unwrap().number, 1000, "nor its numbers");
    }
}

fn esp_numbers_end_where_the_reserved_range_ends<E: Make>() {
    let mut g = Gateway::<E>::new(1);
    let config = outbound(GCM, 4, true);
    let numbers = Sequence::new(1, 3, u64::MAX - 1);
    let id = g.out.install_at(&mut g.engine, 0, &config, numbers).unwrap();
    let wants: Vec<_> = g.out.wants().collect();
    assert_eq!(wants.len(), 1, "a short range asks at once");
    let packet = inner(4, 60, 0);
    for _ in 0..3 {
        g.sealed(&packet);
    }
    assert_eq!(g.seal(&packet), End::Dropped(DropReason::EspSequenceExhausted));
    let stranger = SaId { generation: id.generation + 1, ..id };
    g.out.extend(stranger, wants[0].limit);
    assert_eq!(g.seal(&packet), End::Dropped(DropReason::EspSequenceExhausted));
    g.out.extend(wants[0].id, wants[0].limit);
    g.sealed(&packet);
    let stats = g.out.show().next().unwrap();
    assert_eq!((stats.number, stats.stats.packets, stats.stats.failed), (5, 4, 2));
    assert_eq!(g.out.wants().count(), 0);
}

fn esp_sa_asks_for_numbers_well_before_they_end<E: Make>() {
    let mut g = Gateway::<E>::new(1);
    let reserve = crate::sequence::RESERVE;
    let numbers = Sequence::new(1, reserve / 2 + 200, u32::MAX.into());
    g.out.install_at(&mut g.engine, 0, &outbound(GCM, 4, false), numbers).unwrap();
    assert_eq!(g.out.wants().count(), 0);
    let packet = inner(4, 60, 0);
    for _ in 0..8 {
        g.push_out(0, std::iter::repeat_n(&packet[..], 40));
        g.settle();
        g.ends();
    }
    let wants: Vec<_> = g.out.wants().collect();
    assert_eq!(wants.len(), 1);
    assert!(wants[0].limit > reserve);
}

fn esp_too_big_is_answered_with_the_mtu_of_the_tunnel<E: Make>() {
    let mut g = Gateway::<E>::pair(1, GCM, 4, false);
    let v6 = inner(6, 1401, 0);
    assert_eq!(g.seal(&v6), End::Sent(Next::IcmpError, v6.clone()));
    assert_eq!((g.metas[0].icmp, g.metas[0].limit), (0x0200, 1400));
    let mut v4 = inner(4, 1401, 0);
    v4[6] = 0x40;
    assert_eq!(g.seal(&v4), End::Sent(Next::IcmpError, v4.clone()));
    assert_eq!((g.metas[0].icmp, g.metas[0].limit), (0x0304, 1400));
    v4[6] = 0;
    let sealed = g.sealed(&v4);
    assert_eq!(sealed[6] & 0x40, 0, "fragmented outside");
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, v4));
    assert_eq!(g.out.show().next().unwrap().stats.packets, 1, "no number was used for errors");
}

on_both_engines! {
    sa_replaced_under_traffic_loses_no_packet;
    sa_index_used_again_is_not_hit_by_jobs_of_the_sa_before;
    esp_numbers_end_where_the_reserved_range_ends;
    esp_sa_asks_for_numbers_well_before_they_end;
    esp_too_big_is_answered_with_the_mtu_of_the_tunnel;
}

#[test]
fn esp_what_a_full_engine_refuses_is_dropped_and_the_rest_keeps_its_order() {
    let mut g = Gateway::<Late<Packet>>::new(1);
    g.engine = Late::new(Software::default(), 3, Duration::from_micros(50), 4);
    let (out, inn) = (outbound(GCM, 4, false), inbound(GCM, 4, false));
    g.out.install_at(&mut g.engine, 0, &out, Sequence::unlimited(1, 99)).unwrap();
    g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
    let packets: Vec<_> = (60..80).map(|len| inner(4, len, 0)).collect();
    g.push_out(0, packets.iter().map(Vec::as_slice));
    assert_eq!(g.out.held(), 20, "the refused ones wait for their turn too");
    g.settle();
    let ends = g.ends();
    assert_eq!(ends[4..], vec![End::Dropped(DropReason::EngineFull); 16]);
    assert_eq!((g.out.held(), g.out.show().next().unwrap().stats.failed), (0, 16));
    let sealed: Vec<_> = ends.into_iter().take(4).map(sent).collect();
    g.push_in(sealed.iter().chain(&sealed).map(Vec::as_slice));
    g.settle();
    let ends = g.ends();
    let opened: Vec<_> = ends.iter().take(4).cloned().map(sent).collect();
    assert_eq!(opened, packets[..4]);
    assert_eq!(ends[4..], vec![End::Dropped(DropReason::EngineFull); 4]);
}

#[test]
fn esp_ipv6_never_hears_of_less_than_1280() {
    let mut g = Gateway::<Software>::new(1);
    let config = OutboundConfig { mtu: 1000, ..outbound(GCM, 4, false) };
    g.out.install_at(&mut g.engine, 0, &config, Sequence::unlimited(1, 9)).unwrap();
    let sealed = g.sealed(&inner(6, 1280, 0));
    assert_eq!(sealed[6] & 0x40, 0, "longer than the path: fragmented outside");
    g.seal(&inner(6, 1281, 0));
    assert_eq!(g.metas[0].limit, 1280);
}

#[test]
fn esp_outer_header_takes_class_and_df_from_inside_or_from_the_sa() {
    let whole = |mut packet: Vec<u8>| {
        packet[6] |= 0x40;
        packet
    };
    let class = |p: &[u8]| if p[0] >> 4 == 4 { p[1] } else { p[0] << 4 | p[1] >> 4 };
    let dscp = ferrule_wire::Dscp::new(46);
    let cases = [
        (Df::Copy, None, inner(4, 60, 0x2b), 0x2b, false),
        (Df::Copy, None, whole(inner(4, 60, 0)), 0, true),
        (Df::Copy, None, inner(6, 60, 0x2b), 0x2b, true),
        (Df::Set, dscp, inner(4, 60, 0x2b), 0xbb, true),
        (Df::Clear, dscp, whole(inner(4, 60, 0x28)), 0xb8, false),
        (Df::Clear, dscp, inner(6, 60, 0x01), 0xb9, false),
    ];
    for tunnel in [4, 6] {
        for (df, dscp, packet, tos, set) in &cases {
            let mut g = Gateway::<Software>::new(1);
            let outside = Outside { df: *df, dscp: *dscp, ..Outside::default() };
            let config = OutboundConfig { outside, ..outbound(GCM, tunnel, false) };
            g.out.install_at(&mut g.engine, 0, &config, Sequence::unlimited(1, 9)).unwrap();
            let sealed = g.sealed(packet);
            assert_eq!(class(&sealed), *tos);
            if tunnel == 4 {
                let (outer, rest) = ipv4::Repr::parse(&sealed).unwrap();
                assert_eq!(
                    (outer.dont_fragment, outer.ttl, rest.len() + 20),
                    (*set, 64, sealed.len())
                );
            } else {
                let (outer, rest) = ipv6::Repr::parse(&sealed).unwrap();
                assert_eq!(
                    (outer.next, outer.hop_limit, rest.len() + 40),
                    (Protocol::ESP, 64, sealed.len())
                );
            }
            let meta = g.metas[0];
            assert_eq!(meta.ethertype, if tunnel == 4 { 0x0800 } else { 0x86dd });
            assert_eq!(
                (meta.adjacency, meta.flags),
                (7, crate::graph::FLAG_LOCAL | crate::graph::FLAG_EXEMPT)
            );
        }
    }
}

#[test]
fn esp_congestion_outside_is_marked_inside_or_ends_the_packet() {
    for version in [4, 6] {
        for tunnel in [4, 6] {
            for (before, expected) in [(0, None), (1, Some(3)), (2, Some(3)), (3, Some(3))] {
                let mut g = Gateway::<Software>::pair(1, GCM, tunnel, false);
                let mut sealed = g.sealed(&inner(version, 60, 0xb8 | before));
                if tunnel == 4 {
                    sealed[1] |= 3
                } else {
                    sealed[1] |= 0x30
                }
                let end = match expected {
                    Some(after) => End::Sent(Next::Ip, inner(version, 60, 0xb8 | after)),
                    None => End::Dropped(DropReason::EspEcn),
                };
                assert_eq!(g.open(&sealed), end, "{before}");
            }
        }
    }
}

#[test]
fn esp_ecn_of_all_sixteen_pairs_is_that_of_rfc_6040_and_labels_stay() {
    // By inner and outer field: not ECT, ECT(1), ECT(0), CE (RFC 6040 section 4.2).
    const AFTER: [[Option<u8>; 4]; 4] = [
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    let packet = |version, ecn| {
        let mut packet = inner(version, 60, 0xb8 | ecn);
        if version == 6 {
            // A flow label.
            packet[1] |= 0x0a;
            packet[2..4].copy_from_slice(&[0xbc, 0xde]);
        }
        packet
    };
    for (version, tunnel) in [(4, 4), (4, 6), (6, 4), (6, 6)] {
        for (before, row) in (0..).zip(AFTER) {
            for (outer, after) in (0..).zip(row) {
                let mut g = Gateway::<Software>::pair(1, GCM, tunnel, false);
                let mut sealed = g.sealed(&packet(version, before));
                if tunnel == 4 {
                    sealed[1] = sealed[1] & !3 | outer;
                    ipv4::fill_checksum(&mut sealed);
                } else {
                    assert_eq!(
                        (sealed[1] & 15, &sealed[2..4]),
                        (0, &[0, 0][..]),
                        "no label outside"
                    );
                    sealed[1] = sealed[1] & !0x30 | outer << 4;
                }
                let expected = match after {
                    Some(after) => {
                        let mut opened = packet(version, after);
                        if version == 4 {
                            ipv4::fill_checksum(&mut opened);
                        }
                        End::Sent(Next::Ip, opened)
                    }
                    None => End::Dropped(DropReason::EspEcn),
                };
                assert_eq!(g.open(&sealed), expected, "{version} in {tunnel}: {before} {outer}");
            }
        }
    }
}

#[test]
fn esp_shorter_than_its_parts_or_of_broken_blocks_is_malformed_and_moves_no_window() {
    for suite in Suite::ALL {
        let mut g = Gateway::<Software>::pair(1, suite, 4, false);
        let sealed = g.sealed(&inner(4, 40, 0));
        let (iv, icv) = (suite.esp_iv_len(), suite.icv_len());
        for len in 20..sealed.len() {
            let mut cut = sealed[..len].to_vec();
            cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            ipv4::fill_checksum(&mut cut);
            let text = len.checked_sub(20 + 8 + iv + icv);
            let whole = text.is_some_and(|t| t >= 2 && t % suite.esp_align() == 0);
            let expected = if whole { DropReason::EspBadIcv } else { DropReason::Malformed };
            assert_eq!(g.open(&cut), End::Dropped(expected), "{suite} {len}");
            assert_eq!(g.edge(), 0, "{suite} {len}");
        }
        assert!(matches!(g.open(&sealed), End::Sent(Next::Ip, _)), "{suite}");
    }
}

#[test]
fn esp_for_another_worker_is_handed_over_unopened() {
    let mut g = Gateway::<Software>::pair(1, GCM, 4, false);
    let sealed = g.sealed(&inner(4, 60, 0));
    let place = InboundPlace { spi: SPI, worker: 2, index: 0 };
    g.tables.sas = SaDirectory::new(&[], &[place]).unwrap().into();
    assert_eq!(g.open(&sealed), End::Handed(2, Next::EspIn));
    assert_eq!(g.edge(), 0);
}

#[test]
fn esp_packets_of_other_addresses_and_fragments_do_not_reach_the_sa() {
    for tunnel in [4, 6] {
        let mut g = Gateway::<Software>::pair(1, GCM, tunnel, false);
        let sealed = g.sealed(&inner(4, 60, 0));
        for at in if tunnel == 4 { [15, 19] } else { [23, 39] } {
            let mut other = sealed.clone();
            other[at] ^= 4;
            assert_eq!(g.open(&other), End::Dropped(DropReason::EspUnknownSpi), "{at}");
        }
        if tunnel == 4 {
            let mut fragment = sealed.clone();
            fragment[6] |= 0x20;
            assert_eq!(g.open(&fragment), End::Dropped(DropReason::FragmentNotSupported));
        }
        let padded = [sealed, vec![0; 9]].concat();
        assert_eq!(g.open(&padded), End::Sent(Next::Ip, inner(4, 60, 0)), "Ethernet's padding");
    }
}

#[test]
fn esp_without_room_for_its_headers_drops() {
    let mut g = Gateway::<Software>::new(1);
    g.cache = Pool::heap(64, 320).cache();
    let config = outbound(GCM, 4, false);
    g.out.install_at(&mut g.engine, 0, &config, Sequence::unlimited(1, 9)).unwrap();
    assert_eq!(g.seal(&inner(4, 60, 0)), End::Dropped(DropReason::NoRoom));
    assert!(matches!(g.seal(&inner(4, 40, 0)), End::Sent(Next::Output, _)));
}

#[test]
fn sa_that_makes_no_sense_is_refused_with_its_reason() {
    let mut g = Gateway::<Software>::new(1);
    let (engine, numbers) = (&mut g.engine, || Sequence::unlimited(1, 9));
    let out = || outbound(GCM, 4, false);
    let mut install = |index, config: &OutboundConfig, numbers| {
        g.out.install_at(engine, index, config, numbers).unwrap_err()
    };
    let bad = OutboundConfig { spi: 255, ..out() };
    assert_eq!(install(0, &bad, numbers()), SaError::Spi(255));
    let bad = OutboundConfig { salt: Secret::new(vec![1; 8]), ..out() };
    assert_eq!(install(0, &bad, numbers()), SaError::Salt(4, 8));
    let bad = OutboundConfig { destination: ip("2001:db8::2"), ..out() };
    assert_eq!(install(0, &bad, numbers()), SaError::Families);
    let long = Sequence::unlimited(1, u64::MAX - 1);
    assert_eq!(install(0, &out(), long), SaError::Numbers);
    let mut bad = out();
    bad.keys.key = Secret::new(vec![1; 15]);
    assert!(matches!(install(0, &bad, numbers()), SaError::Key(_)));
    assert_eq!(install(u32::MAX, &out(), numbers()), SaError::Index(u32::MAX));
    g.out.install_at(&mut g.engine, 4, &out(), numbers()).unwrap();
    let again = g.out.install_at(&mut g.engine, 4, &out(), numbers());
    assert_eq!(again.unwrap_err(), SaError::Occupied(4));
    assert_eq!(g.engine.keys(), 1, "what was refused left no key behind");
    let mut bad = inbound(GCM, 4, false);
    bad.selectors.push(between("10.0.0.0/8", "::/0"));
    let error = g.inn.install_at(&mut g.engine, 0, &bad, 0).unwrap_err();
    assert_eq!(error, SaError::Selector(2, SelectorError::Families));
}

#[test]
fn sa_state_is_small() {
    let window = 1024;
    let suites = [GCM, Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128)];
    for suite in suites {
        let out = OutboundSa::new(&outbound(suite, 6, true), Sequence::unlimited(1, 9)).unwrap();
        assert!(size_of_val(&out) <= 512, "{}", size_of_val(&out));
    }
    assert!(size_of::<InboundSa>() + window / 8 + 8 <= 1024);
}
