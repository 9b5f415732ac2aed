//! Faulty packets, and SAs that are installed and retired.

use super::*;
use crate::graph::FLAG_ONWARDS;
use crate::ipsec::tests::on_both_engines;

fn stats(g: &Gateway<Software>) -> SaStats {
    g.inn.show().next().unwrap().stats
}

fn ah_with_a_wrong_key_is_refused_and_moves_no_window<E: Make>() {
    for kind in KINDS {
        let inn = InboundConfig {
            keys: ferrule_crypto::KeySpec::new(
                SHA1,
                Secret::new(Vec::new()),
                Secret::new(vec![7; 20]),
            ),
            ..inbound(SHA1, kind, false)
        };
        let mut g = Gateway::<E>::of(1, &outbound(SHA1, kind, false), &inn, 1);
        let version = if kind.head() == 20 { 4 } else { 6 };
        for n in 1..=17 {
            let sealed = g.sealed(&inner(version, 70, 0));
            // As it came: what drops shows is the packet, not what the engine was given.
            g.push_in([&sealed[..]]);
            g.settle();
            let (packet, reason) = g.outputs.dropped().pop().unwrap();
            assert_eq!((packet.data(), reason), (&sealed[..], DropReason::AhBadIcv));
            let view = g.inn.show().next().unwrap();
            assert_eq!((view.stats.bad_icv, view.number), (n, 0));
        }
    }
}

on_both_engines! {
    ah_with_a_wrong_key_is_refused_and_moves_no_window;
}

#[test]
fn ah_that_is_not_as_long_as_its_sa_says_is_refused() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    let sealed = g.sealed(&inner(4, 70, 0));
    for length in [0, 1, 3, 5, 255] {
        let mut wrong = sealed.clone();
        wrong[21] = length;
        assert_eq!(g.open(&wrong), End::Dropped(DropReason::AhBadHeader), "{length}");
    }
    assert_eq!((stats(&g).refused, g.edge()), (5, 0));
    for cut in 1..sealed.len() {
        let mut short = sealed[..sealed.len() - cut].to_vec();
        let end = g.open(&short);
        assert!(matches!(end, End::Dropped(DropReason::Malformed)), "{cut}: {end:?}");
        // And where the outer length agrees.
        if short.len() >= 32 {
            let total = short.len() as u16;
            short[2..4].copy_from_slice(&total.to_be_bytes());
            let end = g.open(&short);
            let reasons = [DropReason::AhBadHeader, DropReason::AhBadIcv];
            assert!(reasons.iter().any(|&r| end == End::Dropped(r)), "{cut}: {end:?}");
        }
    }
}

#[test]
fn ah_carries_in_a_tunnel_ip_packets_alone() {
    let (out, inn) =
        (outbound(SHA1, Kind::Transport(4), false), inbound(SHA1, Kind::Tunnel(4), false));
    let inn = InboundConfig { source: Some(out.source), destination: out.destination, ..inn };
    let mut g = Gateway::<Software>::of(1, &out, &inn, 1);
    let sealed = g.sealed(&inner(4, 70, 0));
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhBadHeader), "UDP is none");
    assert_eq!(g.edge(), 1, "but the packet was authentic");
}

#[test]
fn ah_lets_nothing_out_that_is_not_of_its_selectors() {
    for kind in KINDS {
        let other = vec![between("10.9.0.0/16", "10.1.0.0/16")];
        let inn = InboundConfig { selectors: other, ..inbound(SHA1, kind, false) };
        let mut g = Gateway::<Software>::of(1, &outbound(SHA1, kind, false), &inn, 1);
        let sealed = g.sealed(&inner(if kind.head() == 20 { 4 } else { 6 }, 70, 0));
        assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhSelectorMismatch));
        assert_eq!(stats(&g).refused, 1);
    }
}

#[test]
fn ah_of_an_unknown_spi_or_from_elsewhere_is_refused() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    let sealed = g.sealed(&inner(4, 70, 0));
    let mut other = sealed.clone();
    other[24] ^= 1;
    assert_eq!(g.open(&other), End::Dropped(DropReason::AhUnknownSpi));
    let mut other = sealed.clone();
    other[15] ^= 1;
    ipv4::fill_checksum(&mut other);
    assert_eq!(g.open(&other), End::Dropped(DropReason::AhUnknownSpi));
    // Of ESP's SA under this SPI there is none here.
    g.inn.retire(&mut g.engine, 0);
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhUnknownSpi));
}

#[test]
fn ah_in_transport_mode_is_for_the_ends_of_its_sa_and_whole_datagrams() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Transport(4), false);
    let mut other = inner(4, 70, 0);
    other[19] ^= 1;
    ipv4::fill_checksum(&mut other);
    assert_eq!(g.seal(&other), End::Dropped(DropReason::AhSelectorMismatch));
    let mut fragment = inner(4, 70, 0);
    fragment[6] = 0x20;
    ipv4::fill_checksum(&mut fragment);
    // The policy sees the whole datagram before AH is in it.
    assert_eq!(g.seal(&fragment), End::Sent(Next::Reassemble, fragment));
    assert_eq!(g.metas[0].flags & FLAG_ONWARDS, FLAG_ONWARDS);
    let mut sealed = g.sealed(&inner(4, 70, 0));
    sealed[6] = 0x20;
    ipv4::fill_checksum(&mut sealed);
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::FragmentNotSupported));
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Transport(6), false);
    let fragment = with_extensions(Protocol::FRAGMENT, "1100000100000001", 70);
    assert_eq!(g.seal(&fragment), End::Sent(Next::Reassemble, fragment));
}

#[test]
fn ah_takes_off_the_fragment_header_of_a_whole_datagram() {
    let kind = Kind::Transport(6);
    // RFC 6946: offset zero, none follows; here with an identification.
    let atomic = with_extensions(Protocol::FRAGMENT, "1100000012345678", 70);
    let plain = with_extensions(Protocol::UDP, "", 70);
    let mut g = Gateway::<Software>::pair(1, SHA1, kind, false);
    let sealed = g.sealed(&atomic);
    let mut other = Gateway::<Software>::pair(1, SHA1, kind, false);
    assert_eq!(sealed, other.sealed(&plain), "AH never sees it");
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain.clone()));
    // One that somebody on the way put in: between the IPv6 header and AH.
    let mut arrives = |more: u8| {
        let mut octets = other.sealed(&plain);
        let ah = octets.split_off(40);
        octets.extend([51, 0, 0, more, 0x12, 0x34, 0x56, 0x78]);
        octets.extend(ah);
        octets[6] = 44;
        let len = (octets.len() - 40) as u16;
        octets[4..6].copy_from_slice(&len.to_be_bytes());
        let mut batch = g.batch([(&octets[..], Meta { offset: 48, ..Meta::default() })]);
        g.inn.push(ctx!(g), &mut g.engine, &mut batch);
        g.settle();
        g.only()
    };
    assert_eq!(arrives(0), End::Sent(Next::Ip, plain.clone()));
    // A first fragment is none.
    assert_eq!(arrives(1), End::Dropped(DropReason::FragmentNotSupported));
}

#[test]
fn ah_carries_congestion_inside_and_drops_what_cannot_say_so() {
    let class = |packet: &[u8]| packet[1] & 3;
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    // The mark is not under the ICV.
    let mut sealed = g.sealed(&inner(4, 70, 2));
    assert_eq!(class(&sealed), 2, "as inside");
    sealed[1] |= 3;
    let End::Sent(Next::Ip, opened) = g.open(&sealed) else { panic!("it passes") };
    assert_eq!(class(&opened), 3);
    let mut sealed = g.sealed(&inner(4, 70, 0));
    sealed[1] |= 3;
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhEcn));
}

#[test]
fn ah_outer_header_is_as_configured() {
    let outside = |outside| OutboundConfig { outside, ..outbound(SHA1, Kind::Tunnel(4), false) };
    let sealed = |config: &OutboundConfig, packet: &[u8]| {
        let inn = inbound(SHA1, Kind::Tunnel(4), false);
        let mut g = Gateway::<Software>::of(1, config, &inn, 1);
        let sealed = g.sealed(packet);
        assert!(matches!(g.open(&sealed), End::Sent(Next::Ip, _)));
        (sealed[1], sealed[6] & 0x40, sealed[8])
    };
    let packet = inner(4, 70, 0xb9);
    assert_eq!(sealed(&outside(Outside::default()), &packet), (0xb9, 0, 64));
    let set = Outside {
        df: Df::Set,
        dscp: ferrule_wire::Dscp::new(10),
        ecn: EcnOut::Compatibility,
        hops: Hops::Copy,
    };
    assert_eq!(sealed(&outside(set), &packet), (10 << 2, 0x40, packet[8]));
    let fixed = Outside { hops: Hops::Fixed(9), ..Outside::default() };
    assert_eq!(sealed(&outside(fixed), &packet).2, 9);
}

#[test]
fn ah_tells_the_sender_of_what_is_too_big() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Transport(6), false);
    let end = g.seal(&inner(6, usize::from(MTU) + 1, 0));
    assert!(matches!(end, End::Sent(Next::IcmpError, _)), "{end:?}");
    assert_eq!(g.metas[0].limit, MTU);
    // What may be fragmented is authenticated whole.
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    let plain = inner(4, usize::from(MTU) + 1, 0);
    let sealed = g.sealed(&plain);
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain));
}

#[test]
fn ah_for_another_worker_goes_there() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    let sealed = g.sealed(&inner(4, 70, 0));
    let place = InboundPlace { spi: SPI, worker: 3, index: 0 };
    g.tables.sas = SaDirectory::new(&[], &[place]).unwrap().into();
    assert_eq!(g.open(&sealed), End::Handed(3, Next::AhIn));
}

#[test]
fn ah_sent_on_to_the_sa_around_it_and_taken_only_out_of_that() {
    let config = OutboundConfig { then: Some(5), ..outbound(SHA1, Kind::Tunnel(4), false) };
    let inn = InboundConfig { inside: Some(9), ..inbound(SHA1, Kind::Tunnel(4), false) };
    let mut g = Gateway::<Software>::of(1, &config, &inn, 1);
    let place = InboundPlace { spi: SPI, worker: 0, index: 0 };
    let outbound = [Some(0), None, None, None, None, Some(0)];
    g.tables.sas = SaDirectory::new(&outbound, &[place]).unwrap().into();
    let plain = inner(4, 70, 0);
    let End::Sent(Next::EspOut, sealed) = g.seal(&plain) else { panic!("to SA 5") };
    assert_eq!(g.metas[0].sa, 5);
    assert_eq!(g.open(&sealed), End::Dropped(DropReason::AhNotNested));
    let mut opened = |opened| {
        let flags = crate::graph::FLAG_OPENED;
        let meta = Meta { offset: 20, opened, flags, ..Meta::default() };
        let mut batch = g.batch([(&sealed[..], meta)]);
        g.inn.push(ctx!(g), &mut g.engine, &mut batch);
        g.only()
    };
    assert_eq!(opened(8), End::Dropped(DropReason::AhNotNested));
    assert_eq!(opened(9), End::Sent(Next::Ip, plain));
}

#[test]
fn ah_needs_room_and_an_sa() {
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Tunnel(4), false);
    let mut packet = g.cache.packet_from(&inner(4, 1500, 0)).unwrap();
    packet.append(packet.tail_room()).unwrap();
    let mut batch = Box::new(Batch::from_iter([packet]));
    g.out.push(ctx!(g), &mut g.engine, &mut batch);
    // Ethernet's padding, if it was that, goes first.
    assert!(matches!(g.only(), End::Sent(Next::Output, _)));
    let mut packet = g.cache.packet_from(&inner(4, 700, 0)).unwrap();
    let front = packet.head_room() - 30;
    let octets = packet.data().to_vec();
    packet.prepend(front).unwrap();
    let len = octets.len();
    packet.data_mut()[..len].copy_from_slice(&octets);
    let mut batch = Box::new(Batch::from_iter([packet]));
    g.out.push(ctx!(g), &mut g.engine, &mut batch);
    assert_eq!(g.only(), End::Dropped(DropReason::NoRoom));
    g.out.retire(&mut g.engine, 0);
    assert_eq!(g.seal(&inner(4, 70, 0)), End::Dropped(DropReason::AhNoSa));
}

#[test]
fn ah_reserves_numbers_and_stops_at_the_last_reserved_one() {
    let mut g = Gateway::<Software>::new(1);
    let config = outbound(SHA1, Kind::Tunnel(4), false);
    let numbers = Sequence::new(1, 256, 1000).in_steps_of(256);
    let id = g.out.install_at(&mut g.engine, 0, &config, numbers).unwrap();
    for _ in 0..256 {
        g.sealed(&inner(4, 70, 0));
    }
    let wants: Vec<_> = g.out.wants().collect();
    assert_eq!((wants.len(), wants[0].id), (1, id));
    assert_eq!(g.seal(&inner(4, 70, 0)), End::Dropped(DropReason::AhSequenceExhausted));
    // An SA of ESP at the same place, whose id differs, has nothing to do with it.
    let esp = SaId { generation: 0, ..id };
    g.out.extend(esp, 1000);
    assert_eq!(g.seal(&inner(4, 70, 0)), End::Dropped(DropReason::AhSequenceExhausted));
    g.out.extend(id, wants[0].limit);
    g.sealed(&inner(4, 70, 0));
}

#[test]
fn ah_sas_are_checked_before_they_are_installed() {
    let mut g = Gateway::<Software>::new(1);
    let mut refused = |config: OutboundConfig| {
        let numbers = Sequence::unlimited(1, 9);
        g.out.install_at(&mut g.engine, 0, &config, numbers).unwrap_err()
    };
    let good = || outbound(SHA1, Kind::Tunnel(4), false);
    assert_eq!(refused(OutboundConfig { spi: 255, ..good() }), SaError::Spi(255));
    assert_eq!(refused(OutboundConfig { source: ip("::1"), ..good() }), SaError::Families);
    let gcm = Suite::AesGcm(Aes::Aes128);
    let salt = Secret::new(vec![1; 4]);
    let hides = OutboundConfig { keys: keys(gcm), salt, ..good() };
    assert_eq!(refused(hides), SaError::NoIntegrityAlone(gcm));
    let salt = Secret::new(vec![1; 4]);
    assert_eq!(refused(OutboundConfig { salt, ..good() }), SaError::Salt(0, 4));
}
