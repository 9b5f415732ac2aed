//! Properties that hold for every suite, family, length and engine.

use super::*;
use ferrule_crypto::{Aes, Job, Mac, Op, Verdict};
use proptest::prelude::*;
use std::collections::HashSet;

/// Suite, family of the tunnel, extended numbers: every combination by number.
const KINDS: usize = Suite::ALL.len() * 4;

fn kind(n: usize) -> (Suite, u8, bool) {
    (Suite::ALL[n / 4], if n & 1 == 0 { 4 } else { 6 }, n & 2 != 0)
}

fn pair<E: Make>(n: usize, seed: u64) -> Gateway<E> {
    let (suite, tunnel, esn) = kind(n);
    Gateway::pair(seed, suite, tunnel, esn)
}

/// An ESP packet around octets that no honest sender would put there.
fn forged(suite: Suite, number: u32, opened: &[u8]) -> Vec<u8> {
    let (mut g, mut octets) = (Gateway::<Software>::new(0), vec![0; 20]);
    let sa = OutboundSa::new(&outbound(suite, 4, false), Sequence::unlimited(1, 9)).unwrap();
    let (iv, icv) = (suite.esp_iv_len(), suite.icv_len());
    let len = 8 + iv + opened.len() + icv;
    let (src, dst) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    ipv4::Repr::new(Protocol::ESP, src, dst, len as u16).emit(&mut octets);
    octets.extend(SPI.to_be_bytes());
    octets.extend(number.to_be_bytes());
    octets.resize(28 + iv, 0);
    octets.extend(opened);
    octets.resize(20 + len, 0);
    let (header, text) = sa.shape.spans(20, iv + opened.len());
    let ad = sa.shape.ad(header, SPI, number.into());
    let (nonce, op, verdict) = (state::nonce(sa.base.salt, [0; 8]), Op::Seal, Verdict::Pending);
    let key = Engine::<Packet>::install(&mut g.engine, &keys(suite)).unwrap();
    let mut job = Job { buf: octets, key, ticket: 0, number: 0, nonce, op, verdict, ad, text };
    g.engine.run(std::slice::from_mut(&mut job));
    assert_eq!(job.verdict, Verdict::Done);
    job.buf
}

fn esp_seal_then_open_gives_the_packet_back<E: Make>() {
    for n in 0..KINDS {
        let mut g = pair::<E>(n, n as u64);
        for (round, version) in [4, 6, 4, 6, 4, 6].into_iter().enumerate() {
            for len in [48, 49, 63, 64, 300, 1399, 1400] {
                let plain = inner(version, len + round % 2, 0xb8);
                if plain.len() > MTU.into() {
                    continue;
                }
                let sealed = g.sealed(&plain);
                assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain.clone()), "{:?}", kind(n));
                let meta = g.metas[0];
                assert_eq!((meta.vrf, meta.icmp), (VrfId(3), 0));
                assert_eq!(meta.ethertype, if version == 4 { 0x0800 } else { 0x86dd });
                assert_eq!(g.open(&sealed), End::Dropped(DropReason::EspReplay));
            }
        }
        let (out, inn) = (g.out.show().next().unwrap().stats, g.inn.show().next().unwrap().stats);
        assert_eq!((out.packets, out.octets), (inn.packets, inn.octets));
        assert_eq!(inn.replays, inn.packets);
        assert_eq!(g.tally.work.sealed.packets, out.packets);
    }
}

fn esp_any_flipped_bit_is_refused_and_moves_no_window<E: Make>() {
    for n in 0..KINDS {
        let mut g = pair::<E>(n, 3);
        let ahead = g.sealed(&inner(4, 40, 0));
        g.open(&ahead);
        let sealed = g.sealed(&inner(4, 60, 0));
        let outer = if kind(n).1 == 4 { 20 } else { 40 };
        for bit in outer * 8..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (end, edge) = (g.open(&flipped), g.edge());
            let reasons = [DropReason::EspBadIcv, DropReason::EspReplay, DropReason::EspUnknownSpi];
            assert!(reasons.iter().any(|&r| end == End::Dropped(r)), "bit {bit}: {end:?}");
            assert_eq!(edge, 1, "bit {bit}");
        }
        assert_eq!(g.open(&sealed), End::Sent(Next::Ip, inner(4, 60, 0)), "and the real one opens");
    }
}

fn esp_every_number_is_used_once<E: Make>() {
    let mut g = pair::<E>(0, 5);
    let packet = inner(4, 60, 0);
    let mut seen = HashSet::new();
    for size in [1, 64, 7, 64, 33] {
        g.push_out(0, std::iter::repeat_n(&packet[..], size));
        g.settle();
        for end in g.ends() {
            let End::Sent(Next::Output, sealed) = end else { panic!("{end:?}") };
            assert!(seen.insert(sealed[24..36].to_vec()), "number and IV");
        }
    }
    assert_eq!(seen.len(), 169);
}

fn esp_order_is_kept_within_an_sa<E: Make>() {
    let mut g = pair::<E>(0, 11);
    let packets: Vec<_> = (0..320).map(|i| inner(4, 60 + i % 256, 0)).collect();
    for batch in packets.chunks(64) {
        g.push_out(0, batch.iter().map(Vec::as_slice));
    }
    g.settle();
    let sealed: Vec<_> = g.ends().into_iter().map(sent).collect();
    let number = |packet: &Vec<u8>| u32::from_be_bytes(*packet[24..].first_chunk().unwrap());
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

fn esp_duplicates_under_way_together_pass_once<E: Make>() {
    for n in [0, 2, KINDS - 1] {
        let mut g = pair::<E>(n, 13);
        let plain = inner(4, 60, 0);
        let sealed = g.sealed(&plain);
        g.push_in(std::iter::repeat_n(&sealed[..], 20));
        g.push_in(std::iter::repeat_n(&sealed[..], 20));
        g.settle();
        let ends = g.ends();
        assert_eq!(ends[0], End::Sent(Next::Ip, plain));
        assert_eq!(ends[1..], vec![End::Dropped(DropReason::EspReplay); 39]);
    }
}

fn esp_extended_numbers_pass_two_to_the_32_in_any_order<E: Make>() {
    let start = (1u64 << 32) - 20;
    let mut rng = ferrule_base::Rng::new(19);
    for suite in Suite::ALL {
        let mut g = Gateway::<E>::new(23);
        let (out, inn) = (outbound(suite, 4, true), inbound(suite, 4, true));
        let numbers = Sequence::unlimited(start, u64::MAX - 1);
        g.out.install_at(&mut g.engine, 0, &out, numbers).unwrap();
        g.inn.install_at(&mut g.engine, 0, &inn, start - 1).unwrap();
        let packet = inner(4, 60, 0);
        let mut sealed: Vec<_> = (0..40).map(|_| g.sealed(&packet)).collect();
        for i in (1..sealed.len()).rev() {
            sealed.swap(i, rng.below(i as u64 + 1) as usize);
        }
        g.push_in(sealed.iter().map(Vec::as_slice));
        g.settle();
        assert_eq!(g.ends(), vec![End::Sent(Next::Ip, packet.clone()); 40], "{suite}");
        assert_eq!(g.edge(), start + 39);
        g.push_in(sealed.iter().map(Vec::as_slice));
        g.settle();
        assert_eq!(g.ends(), vec![End::Dropped(DropReason::EspReplay); 40], "{suite}");
    }
}

fn esp_what_was_opened_is_checked_before_it_goes_on<E: Make>() {
    let with = |packet: Vec<u8>, trailer: &str| [packet, hex(trailer)].concat();
    let mut elsewhere = inner(4, 58, 0);
    elsewhere[13] = 9;
    let mut longer = inner(4, 58, 0);
    longer[3] = 200;
    let mut short = inner(4, 58, 0);
    short[0] = 0x44;
    let bad = DropReason::EspBadTrailer;
    let cases = [
        (with(inner(4, 56, 0), "01010204"), bad),
        (with(inner(4, 58, 0), "ff04"), bad),
        (with(inner(4, 58, 0), "0011"), bad),
        (with(inner(4, 58, 0), "0029"), bad),
        (with(inner(6, 58, 0), "0004"), bad),
        (with(longer, "0004"), bad),
        (with(short, "0004"), bad),
        (hex("0004 0004"), bad),
        (hex("0000 003b"), DropReason::EspDummy),
        (with(inner(4, 58, 0), "003b"), DropReason::EspDummy),
        (with(elsewhere, "0004"), DropReason::EspSelectorMismatch),
    ];
    let null = Suite::Null(Mac::HmacSha256_128);
    for suite in [Suite::ALL[0], Suite::ChaCha20Poly1305, null, Suite::AesGmac(Aes::Aes128)] {
        for (number, (opened, reason)) in (1..).zip(&cases) {
            let mut g = Gateway::<E>::pair(1, suite, 4, false);
            let end = g.open(&forged(suite, number, opened));
            assert_eq!(end, End::Dropped(*reason), "{}", Secret::new(opened.clone()).len());
            assert_eq!(g.edge(), u64::from(number), "authentic all the same");
            assert_eq!(g.inn.show().next().unwrap().stats.refused, 1);
        }
    }
}

fn esp_padding_that_hides_the_length_is_cut_off<E: Make>() {
    let plain = inner(4, 61, 0);
    let hidden = [plain.clone(), vec![0; 200], hex("0102030304")].concat();
    let mut g = Gateway::<E>::pair(1, Suite::ALL[0], 4, false);
    let sealed = forged(Suite::ALL[0], 1, &hidden[..]);
    assert_eq!(hidden.len() % 4, 2, "not a whole number of words");
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::Malformed));
    let hidden = [plain.clone(), vec![0; 198], hex("0102030304")].concat();
    assert_eq!(g.open(&forged(Suite::ALL[0], 1, &hidden)), End::Sent(Next::Ip, plain));
}

on_both_engines! {
    esp_seal_then_open_gives_the_packet_back;
    esp_any_flipped_bit_is_refused_and_moves_no_window;
    esp_every_number_is_used_once;
    esp_order_is_kept_within_an_sa;
    esp_duplicates_under_way_together_pass_once;
    esp_extended_numbers_pass_two_to_the_32_in_any_order;
    esp_what_was_opened_is_checked_before_it_goes_on;
    esp_padding_that_hides_the_length_is_cut_off;
}

/// Octets that look like something often enough to come far.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        Just(hex("4500003c000000004032b67ac0000201c000020200001234000000010000000000000001")),
        Just(hex("6000000000283240")),
        Just(inner(4, 60, 3)),
        Just(inner(6, 60, 3)),
        Just(vec![]),
    ];
    let flips = proptest::collection::vec((0usize..64, any::<u8>()), 0..6);
    (head, proptest::collection::vec(any::<u8>(), 0..120), flips).prop_map(|(head, tail, flips)| {
        let mut octets = [head, tail].concat();
        for (at, value) in flips {
            if let Some(octet) = octets.get_mut(at) {
                *octet = value;
            }
        }
        octets
    })
}

/// A packet for one of two SAs, as long as others, and of few classes.
fn like_others() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let len = prop_oneof![4 => Just(100usize), 1 => Just(101), 1 => Just(1500), 1 => 48usize..1400];
    let class = prop_oneof![6 => Just(0u8), 1 => Just(0xb8), 1 => any::<u8>()];
    let shape = (prop_oneof![4 => Just(4u8), 1 => Just(6)], len, class);
    let rest = (any::<bool>(), 0u8..8, any::<u16>());
    (prop_oneof![6 => Just(0u32), 1 => Just(1), 1 => Just(2)], shape, rest).prop_map(
        |(sa, (version, len, class), (whole, padding, ident))| {
            let mut packet = inner(version, len, class);
            if version == 4 {
                packet[4..6].copy_from_slice(&ident.to_be_bytes());
                packet[6] = u8::from(whole) << 6;
                ipv4::fill_checksum(&mut packet);
            }
            // Behind an Ethernet frame's last octet, now and then.
            packet.resize(len + usize::from(padding == 0), 0);
            (sa, packet)
        },
    )
}

/// SAs 0 and 1.
fn two_sas(n: usize) -> Gateway<Software> {
    let (mut g, (suite, tunnel, esn)) = (pair::<Software>(n, 1), kind(n));
    let max = if esn { u64::MAX - 1 } else { u32::MAX.into() };
    let sa = OutboundConfig { spi: SPI + 1, ..outbound(suite, tunnel, esn) };
    g.out.install_at(&mut g.engine, 1, &sa, Sequence::unlimited(70, max)).unwrap();
    let sa = InboundConfig { spi: SPI + 1, ..inbound(suite, tunnel, esn) };
    g.inn.install_at(&mut g.engine, 1, &sa, 0).unwrap();
    let places = [0, 1].map(|index| InboundPlace { spi: SPI + index, worker: 0, index });
    g.tables.sas = SaDirectory::new(&[Some(0), Some(0)], &places).unwrap().into();
    g
}

/// Counters of the SAs and the worker.
fn counted(g: &Gateway<Software>) -> String {
    let out: Vec<_> = g.out.show().map(|sa| (sa.number, sa.stats)).collect();
    let inn: Vec<_> = g.inn.show().map(|sa| (sa.number, sa.stats)).collect();
    format!("{out:?} {inn:?} {:?} {:?}", g.tally.work.lookups, g.tally.consumed)
}

fn any_octets<E: Make>(n: usize, octets: &[Vec<u8>], offset: u16) {
    let mut g = pair::<E>(n, 17);
    g.tables.policies.push(Spd::default().into());
    let slices = || octets.iter().map(Vec::as_slice);
    g.push_out(0, slices());
    g.push_in(slices());
    g.push_in_at(offset, slices());
    g.settle();
    assert_eq!(g.ends().len(), 3 * octets.len(), "each packet ends somewhere");
    assert_eq!(g.push_policy(slices()).len(), octets.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 150, ..Default::default() })]

    #[test]
    fn esp_stages_take_any_octets(
        n in 0..KINDS, octets in proptest::collection::vec(octets(), 1..16), offset in 0u16..200,
    ) {
        any_octets::<Software>(n, &octets, offset);
        any_octets::<Late<Packet>>(n, &octets, offset);
    }

    #[test]
    fn esp_batch_is_sealed_as_each_packet_alone(
        n in 0..KINDS, packets in proptest::collection::vec(like_others(), 1..=64),
    ) {
        let (mut together, mut alone) = (two_sas(n), two_sas(n));
        let (mut got, mut expected) = (Told::new(), Told::new());
        let mut batch = Box::new(Batch::new());
        for (sa, octets) in &packets {
            let meta = Meta { sa: *sa, ..Meta::default() };
            batch.push(together.packet(octets, meta));
            let mut single = alone.batch([&octets[..]], meta);
            alone.out.push(ctx!(alone), &mut alone.engine, &mut single);
            tell(alone.ends(), &alone.metas, &mut expected);
        }
        together.out.push(ctx!(together), &mut together.engine, &mut batch);
        tell(together.ends(), &together.metas, &mut got);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(counted(&together), counted(&alone));
        prop_assert_eq!(together.tally.work.sealed, alone.tally.work.sealed);
    }

    /// But that what comes twice in one batch is opened twice.
    #[test]
    fn esp_batch_is_opened_as_each_packet_alone(
        n in 0..KINDS,
        packets in proptest::collection::vec((like_others(), 0u8..12, any::<u16>()), 1..=64),
    ) {
        let mut sender = two_sas(n);
        let mut sealed: Vec<Vec<u8>> = Vec::new();
        for ((sa, octets), what, at) in packets {
            sender.push_out(sa, [&octets[..]]);
            let again = sealed.get(usize::from(at) % sealed.len().max(1)).cloned();
            match (sender.ends().pop(), what) {
                // Nothing comes of it, or what came before comes again.
                (Some(End::Sent(Next::Output, mut octets)), 1) => {
                    octets.last_mut().into_iter().for_each(|octet| *octet ^= 1);
                    sealed.push(octets);
                }
                (Some(End::Sent(Next::Output, mut octets)), 2) => {
                    octets.truncate(usize::from(at) % octets.len());
                    sealed.push(octets);
                }
                (Some(End::Sent(Next::Output, octets)), 3..) => sealed.push(octets),
                _ => sealed.extend(again),
            }
        }
        let (mut together, mut alone) = (two_sas(n), two_sas(n));
        let (mut got, mut expected) = (Told::new(), Told::new());
        for octets in &sealed {
            alone.push_in([&octets[..]]);
            tell(alone.ends(), &alone.metas, &mut expected);
        }
        together.push_in(sealed.iter().map(Vec::as_slice));
        tell(together.ends(), &together.metas, &mut got);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(counted(&together), counted(&alone));
    }

    #[test]
    fn esp_takes_any_octets_that_were_sealed(
        mut opened in proptest::collection::vec(any::<u8>(), 2..100), next in prop_oneof![Just(4u8), Just(41), any::<u8>()],
    ) {
        opened.truncate(opened.len() & !3);
        opened.extend([0, 0, 0, next]);
        let mut g = Gateway::<Software>::pair(1, Suite::ALL[0], 4, false);
        g.open(&forged(Suite::ALL[0], 1, &opened));
        prop_assert_eq!(g.edge(), 1);
    }

    #[test]
    fn esp_carries_every_inner_packet_that_fits(
        n in 0..KINDS, version in prop_oneof![Just(4u8), Just(6)], len in 40usize..=1400, class: u8,
    ) {
        let mut g = pair::<Software>(n, 1);
        let plain = inner(version, len, class);
        let sealed = g.sealed(&plain);
        prop_assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain));
    }
}
