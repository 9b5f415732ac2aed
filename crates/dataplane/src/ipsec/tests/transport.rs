//! Transport mode, ESP in UDP, padding and dummies, nesting: what is more than a
//! plain tunnel.

use super::*;
use crate::graph::{FLAG_ENCAP, FLAG_EXEMPT, FLAG_LOCAL, FLAG_OPENED};
use ferrule_crypto::Aes;
use ferrule_wire::checksum::Ends;
use ferrule_wire::ip::Options;
use ferrule_wire::{FromBytes, udp};
use proptest::prelude::*;

const GCM: Suite = Suite::AesGcm(Aes::Aes128);
const PORTS: Encap = Encap { local: 4500, remote: 4501, keepalive: None };

/// Both ends of an SA in transport mode between the hosts of [`outbound`].
fn ends_of(version: u8, suite: Suite, esn: bool) -> (OutboundConfig, InboundConfig) {
    let mode = Mode::Transport;
    let out = OutboundConfig { mode, ..outbound(suite, version, esn) };
    let host = |end: IpAddr| (end, if version == 4 { 32 } else { 128 });
    let selectors = vec![Selector::between(host(out.destination), host(out.source))];
    let inn = InboundConfig { mode, selectors, ..inbound(suite, version, esn) };
    (out, inn)
}

fn in_udp((out, inn): (OutboundConfig, InboundConfig)) -> (OutboundConfig, InboundConfig) {
    let theirs = Encap { local: PORTS.remote, remote: PORTS.local, keepalive: None };
    (OutboundConfig { encap: Some(PORTS), ..out }, InboundConfig { encap: Some(theirs), ..inn })
}

/// A gateway with both ends at index 0.
fn gateway<E: Make>((out, inn): (OutboundConfig, InboundConfig)) -> Gateway<E> {
    let mut g = Gateway::new(1);
    let max = if out.esn { u64::MAX - 1 } else { u32::MAX.into() };
    let udp = inn.encap.map(|encap| encap.local);
    g.tables.udp_ports = udp.into_iter().collect();
    g.out.install_at(&mut g.engine, 0, &out, Sequence::unlimited(1, max)).unwrap();
    g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
    g
}

/// A packet between the hosts: IPv4 with so many words of options (no operation),
/// IPv6 with as many hop-by-hop and destination headers of 8 octets.
fn packet(version: u8, extra: usize, next: Protocol, payload: &[u8]) -> Vec<u8> {
    let (out, _) = ends_of(version, GCM, false);
    let mut octets = match (out.source, out.destination) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut repr = ipv4::Repr::new(next, src, dst, payload.len() as u16);
            repr.options = Options::new(&vec![1; 4 * extra]).unwrap();
            (repr.ident, repr.ttl) = (77, 9);
            let mut octets = vec![0; repr.len()];
            repr.emit(&mut octets);
            octets
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let chain = [Protocol::HOP_BY_HOP, Protocol::DESTINATION, Protocol::DESTINATION];
            let kinds: Vec<_> = chain.into_iter().take(extra).chain([next]).collect();
            let len = payload.len() + 8 * extra;
            let repr = ipv6::Repr::new(kinds[0], src, dst, len as u16);
            let mut octets = vec![0; 40];
            repr.emit(&mut octets);
            for next in &kinds[1..] {
                octets.extend([next.0, 0, 1, 4, 0, 0, 0, 0]);
            }
            octets
        }
        _ => unreachable!(),
    };
    octets.extend(payload);
    octets
}

/// A UDP datagram of so many octets between the hosts, its checksum right.
fn datagram(version: u8, len: usize) -> Vec<u8> {
    let mut datagram: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    udp::Repr { src: 7, dst: 9, payload_len: (len - 8) as u16 }.emit(&mut datagram);
    let (out, _) = ends_of(version, GCM, false);
    let ends = match (out.source, out.destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Ends::V4(a, b),
        (IpAddr::V6(a), IpAddr::V6(b)) => Ends::V6(a, b),
        _ => unreachable!(),
    };
    udp::fill_checksum(&ends, &mut datagram);
    datagram
}

/// The meta data with which a packet comes from routing.
fn routed(octets: &[u8]) -> Meta {
    let (offset, protocol) = if octets[0] >> 4 == 4 {
        (usize::from(octets[0] & 15) * 4, Protocol(octets[9]))
    } else {
        let upper = ferrule_wire::ipv6ext::walk(Protocol(octets[6]), &octets[40..]).unwrap();
        (40 + upper.offset, upper.protocol)
    };
    let udp_ports = [4500, 4501].into_iter().collect();
    let tables = Tables { udp_ports, ..Tables::default() };
    match protocol {
        Protocol::UDP => {
            let at = esp_in_udp(&tables, octets, offset).ok().flatten().expect("ESP in UDP");
            Meta { offset: at as u16, flags: FLAG_ENCAP, ..Meta::default() }
        }
        _ => Meta { offset: offset as u16, ..Meta::default() },
    }
}

impl<E: Make> Gateway<E> {
    fn arrive(&mut self, octets: &[u8], meta: Meta) -> End {
        let mut batch = self.batch([octets], meta);
        self.inn.push(ctx!(self), &mut self.engine, &mut batch);
        self.settle();
        self.only()
    }

    fn tick(&mut self, now: Instant) -> Vec<End> {
        self.now = now;
        self.out.tick(ctx!(self), &mut self.engine);
        self.settle();
        self.ends()
    }
}

fn esp_transport_seal_then_open_gives_the_packet_back<E: Make>() {
    for suite in Suite::ALL {
        for (version, esn) in [(4, true), (4, false), (6, true), (6, false)] {
            for encap in [false, true] {
                let sa = ends_of(version, suite, esn);
                let mut g = gateway::<E>(if encap { in_udp(sa) } else { sa });
                for (extra, len) in [(0, 8), (0, 9), (1, 64), (2, 100), (3, 1001), (0, 1300)] {
                    let plain = packet(version, extra, Protocol::UDP, &datagram(version, len));
                    let sealed = g.sealed(&plain);
                    let meta = g.metas[0];
                    assert_eq!((meta.adjacency, meta.flags), (7, FLAG_LOCAL | FLAG_EXEMPT));
                    let carried = if encap { Protocol::UDP } else { Protocol::ESP };
                    if version == 4 {
                        let (repr, _) = ipv4::Repr::parse(&sealed).unwrap();
                        assert_eq!((repr.protocol, repr.ttl, repr.ident), (carried, 9, 77));
                        assert_eq!(sealed[20..20 + 4 * extra], vec![1; 4 * extra]);
                    } else {
                        let (repr, rest) = ipv6::Repr::parse(&sealed).unwrap();
                        let upper = ferrule_wire::ipv6ext::walk(repr.next, rest).unwrap();
                        assert_eq!((upper.protocol, upper.offset), (carried, 8 * extra));
                    }
                    let end = g.arrive(&sealed, routed(&sealed));
                    assert_eq!(end, End::Sent(Next::Ip, plain), "{suite} {version} {extra} {len}");
                    assert_eq!(g.metas[0].flags, FLAG_OPENED);
                    let again = g.arrive(&sealed, routed(&sealed));
                    assert_eq!(again, End::Dropped(DropReason::EspReplay));
                }
                let stats = g.inn.show().next().unwrap().stats;
                assert_eq!((stats.packets, stats.replays, stats.moved), (6, 6, 0));
                assert_eq!(g.out.show().next().unwrap().stats.octets, stats.octets);
            }
        }
    }
}

fn esp_transport_carries_every_protocol_and_an_empty_payload<E: Make>() {
    for version in [4, 6] {
        let mut g = gateway::<E>(ends_of(version, GCM, true));
        for (protocol, payload) in [(Protocol::TCP, 40), (Protocol::IPV4, 20), (Protocol(253), 0)] {
            let plain = packet(version, 0, protocol, &vec![0x45; payload]);
            let sealed = g.sealed(&plain);
            assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, plain));
        }
    }
}

fn esp_nested_is_sealed_twice_and_opened_in_that_order_alone<E: Make>() {
    // A tunnel inside transport mode between the same gateways.
    let (mut outer, mut from_outer) = ends_of(4, GCM, true);
    let inner_out = OutboundConfig { then: Some(1), ..outbound(GCM, 4, false) };
    let inner_in = InboundConfig { inside: Some(1), ..inbound(GCM, 4, false) };
    from_outer.slot = 1;
    (outer.spi, from_outer.spi) = (SPI + 1, SPI + 1);
    let mut g = gateway::<E>((inner_out, inner_in));
    let places = [0, 1].map(|index| InboundPlace { spi: SPI + index, worker: 0, index });
    g.tables.sas = SaDirectory::new(&[Some(0), Some(0)], &places).unwrap().into();
    g.out.install_at(&mut g.engine, 1, &outer, Sequence::unlimited(1, u64::MAX - 1)).unwrap();
    g.inn.install_at(&mut g.engine, 1, &from_outer, 0).unwrap();
    let plain = inner(4, 100, 0);
    let End::Sent(Next::EspOut, once) = g.seal(&plain) else { panic!("on to the next SA") };
    assert_eq!(g.metas[0].sa, 1);
    g.push_out(1, [&once[..]]);
    g.settle();
    let End::Sent(Next::Output, twice) = g.only() else { panic!("sealed twice") };
    assert!(twice.len() > once.len());
    // Without what should be around it, it is refused, and no window moves.
    let end = g.arrive(&once, routed(&once));
    assert_eq!(end, End::Dropped(DropReason::EspNotNested));
    assert_eq!(g.edge(), 0);
    assert_eq!(g.arrive(&twice, routed(&twice)), End::Sent(Next::Ip, once.clone()));
    let meta = Meta { offset: 20, ..g.metas[0] };
    let wrong = Meta { opened: 2, ..meta };
    assert_eq!(g.arrive(&once, wrong), End::Dropped(DropReason::EspNotNested));
    assert_eq!(g.arrive(&once, meta), End::Sent(Next::Ip, plain));
}

fn esp_tfc_padding_hides_the_length<E: Make>() {
    let multiple = |of| OutboundConfig { tfc: Tfc::Multiple(of), ..outbound(GCM, 4, true) };
    for (tfc, expected) in [
        (multiple(256), vec![256, 256, 256, 512, 1400]),
        (OutboundConfig { tfc: Tfc::Whole, ..outbound(GCM, 4, true) }, vec![1400; 5]),
    ] {
        let mut g = gateway::<E>((tfc, inbound(GCM, 4, true)));
        for (len, text) in [40, 255, 256, 257, 1399].into_iter().zip(expected) {
            let plain = inner(4, len, 0);
            let sealed = g.sealed(&plain);
            let padded = (text + 2usize).next_multiple_of(4);
            assert_eq!(sealed.len(), 20 + 8 + 8 + padded + 16, "{len}");
            assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain));
        }
    }
    // In transport mode behind what says how long it is, and nothing else.
    for version in [4, 6] {
        let (out, inn) = ends_of(version, GCM, true);
        let mut g = gateway::<E>((OutboundConfig { tfc: Tfc::Whole, ..out }, inn));
        let mut lens = Vec::new();
        for len in [8, 9, 500, 1200] {
            let plain = packet(version, 1, Protocol::UDP, &datagram(version, len));
            let sealed = g.sealed(&plain);
            lens.push(sealed.len());
            let End::Sent(Next::Ip, opened) = g.arrive(&sealed, routed(&sealed)) else { panic!() };
            let head = plain.len() - len;
            assert_eq!(opened[head..][..len], plain[head..], "the datagram");
            assert!(opened[head + len..].iter().all(|&octet| octet == 0), "and zeros");
        }
        lens.dedup();
        assert_eq!(lens.len(), 1, "one length for all: {lens:?}");
        let tcp = packet(version, 0, Protocol::TCP, &[0; 100]);
        let sealed = g.sealed(&tcp);
        assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, tcp));
        assert_ne!(Some(&sealed.len()), lens.first());
    }
}

fn esp_dummies_come_at_their_rate_and_end_at_the_other_end<E: Make>() {
    for (version, mode) in
        [(4, Mode::Tunnel), (6, Mode::Tunnel), (4, Mode::Transport), (6, Mode::Transport)]
    {
        let (out, inn) = match mode {
            Mode::Tunnel => (outbound(GCM, version, true), inbound(GCM, version, true)),
            Mode::Transport => ends_of(version, GCM, true),
        };
        let mut g = gateway::<E>((OutboundConfig { dummies: 10, ..out }, inn));
        let mut now = Instant::ZERO + Duration::from_secs(5);
        assert_eq!(g.tick(now), [], "the clock starts");
        let (start, mut lens, mut seen) = (now, std::collections::BTreeSet::new(), 0);
        while let Some(due) =
            g.out.poll_timeout().filter(|&due| due <= start + Duration::from_secs(2))
        {
            assert!(due > now);
            now = due;
            for end in g.tick(now) {
                let End::Sent(Next::Output, sealed) = end else { panic!("{end:?}") };
                lens.insert(sealed.len());
                seen += 1;
                let end = g.arrive(&sealed, routed(&sealed));
                assert_eq!(end, End::Dropped(DropReason::EspDummy));
            }
        }
        assert_eq!(seen, 20, "in two seconds");
        assert!(lens.len() > 12, "of many lengths: {lens:?}");
        assert!(lens.iter().all(|&len| len <= usize::from(MTU) + 80));
        assert_eq!(g.tally.made, 20);
        // A clock that stood still makes up for nothing.
        let ends = g.tick(now + Duration::from_secs(3600));
        assert!(ends.len() <= 2, "{}", ends.len());
        assert!(g.out.retire(&mut g.engine, 0));
        assert_eq!(g.tick(now + Duration::from_secs(7200)), [], "and none for an SA that is gone");
        assert_eq!(g.out.poll_timeout(), None);
    }
}

on_both_engines! {
    esp_transport_seal_then_open_gives_the_packet_back;
    esp_transport_carries_every_protocol_and_an_empty_payload;
    esp_nested_is_sealed_twice_and_opened_in_that_order_alone;
    esp_tfc_padding_hides_the_length;
    esp_dummies_come_at_their_rate_and_end_at_the_other_end;
}

#[test]
fn esp_transport_takes_whole_datagrams_between_its_ends_alone() {
    let mut g = gateway::<Software>(ends_of(4, GCM, true));
    let plain = packet(4, 0, Protocol::UDP, &datagram(4, 64));
    let mut fragment = plain.clone();
    fragment[6] = 0x20;
    let mut elsewhere = plain.clone();
    elsewhere[19] ^= 4;
    assert!(matches!(g.seal(&fragment), End::Sent(Next::Reassemble, _)));
    assert_eq!(g.seal(&elsewhere), End::Dropped(DropReason::EspSelectorMismatch));
    assert_eq!(g.out.show().next().unwrap().number, 1, "and no number is used");
    assert!(matches!(g.seal(&plain), End::Sent(Next::Output, _)));
    let mut g = gateway::<Software>(ends_of(6, GCM, true));
    let plain = packet(6, 0, Protocol::FRAGMENT, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4]);
    assert!(matches!(g.seal(&plain), End::Sent(Next::Reassemble, _)));
}

#[test]
fn esp_transport_checks_what_came_out_against_its_selectors() {
    for version in [4, 6] {
        let (out, mut inn) = ends_of(version, GCM, true);
        inn.selectors[0].protocol = Field::is(Protocol::UDP.0);
        let mut g = gateway::<Software>((out, inn));
        let plain = packet(version, 1, Protocol::UDP, &datagram(version, 64));
        let sealed = g.sealed(&plain);
        assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, plain));
        let sealed = g.sealed(&packet(version, 1, Protocol::TCP, &[0; 64]));
        let end = g.arrive(&sealed, routed(&sealed));
        assert_eq!(end, End::Dropped(DropReason::EspSelectorMismatch));
        assert_eq!(g.inn.show().next().unwrap().stats.refused, 1);
    }
}

#[test]
fn esp_transport_packet_too_big_is_told_what_fits_with_its_options() {
    for suite in Suite::ALL {
        for version in [4, 6] {
            let mut g = gateway::<Software>(ends_of(version, suite, true));
            let head = if version == 4 { 20 } else { 40 };
            let plain = packet(version, 0, Protocol::UDP, &vec![0; usize::from(MTU) - head]);
            let longest = g.sealed(&plain).len();
            for extra in 0..=3 {
                let step = if version == 4 { 4 } else { 8 };
                let mut payload = usize::from(MTU) - head - extra * step + 1;
                let mut of = |payload: usize| {
                    let mut octets = packet(version, extra, Protocol::UDP, &vec![0; payload]);
                    if version == 4 {
                        octets[6] |= 0x40;
                    }
                    (octets.len(), g.seal(&octets), g.metas[0])
                };
                let (len, end, meta) = of(payload);
                assert!(matches!(end, End::Sent(Next::IcmpError, _)), "{suite} {version} {extra}");
                let mtu = usize::from(meta.limit);
                assert!(mtu < len && mtu + suite.esp_align() >= usize::from(MTU), "{mtu} of {len}");
                // What is told is what fits.
                payload -= len - mtu;
                let (_, end, _) = of(payload);
                let End::Sent(Next::Output, sealed) = end else { panic!("{mtu}: {end:?}") };
                assert!(sealed.len() <= longest, "{} > {longest}", sealed.len());
            }
        }
    }
}

#[test]
fn esp_in_udp_has_the_ports_and_over_ipv6_alone_a_checksum() {
    for version in [4, 6] {
        for tunnel in [true, false] {
            let sa = match tunnel {
                true => (outbound(GCM, version, true), inbound(GCM, version, true)),
                false => ends_of(version, GCM, true),
            };
            let mut g = gateway::<Software>(in_udp(sa));
            let plain = match tunnel {
                true => inner(4, 101, 0xb8),
                false => packet(version, 0, Protocol::UDP, &datagram(version, 81)),
            };
            let sealed = g.sealed(&plain);
            let head = if version == 4 { 20 } else { 40 };
            let (header, payload) = udp::Repr::parse(&sealed[head..]).unwrap();
            assert_eq!((header.src, header.dst), (4500, 4501));
            assert_eq!(payload.len() + 8 + head, sealed.len());
            let sum = &sealed[head + 6..head + 8];
            if version == 4 {
                assert_eq!(sum, [0, 0]);
            } else {
                let (h, _) = ipv6::Header::ref_from_prefix(&sealed).unwrap();
                assert!(udp::checksum_ok(&h.ends(), &sealed[head..]) && sum != [0, 0]);
            }
            assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, plain));
        }
    }
}

#[test]
fn esp_in_udp_from_another_port_passes_and_is_counted() {
    let mut g = gateway::<Software>(in_udp(ends_of(4, GCM, true)));
    let plain = packet(4, 0, Protocol::UDP, &datagram(4, 64));
    let mut sealed = g.sealed(&plain);
    sealed[20] ^= 0x40;
    let mut forged = sealed.clone();
    *forged.last_mut().unwrap() ^= 1;
    let meta = routed(&sealed);
    assert_eq!(g.arrive(&forged, meta), End::Dropped(DropReason::EspBadIcv));
    assert_eq!(g.inn.show().next().unwrap().stats.moved, 0, "a forged one tells nothing");
    assert_eq!(g.arrive(&sealed, meta), End::Sent(Next::Ip, plain));
    assert_eq!(g.inn.show().next().unwrap().stats.moved, 1);
}

#[test]
fn esp_comes_in_udp_or_not_as_its_sa_says() {
    let mut inside = gateway::<Software>(in_udp(ends_of(4, GCM, true)));
    let mut bare = gateway::<Software>(ends_of(4, GCM, true));
    let plain = packet(4, 0, Protocol::UDP, &datagram(4, 64));
    let (in_udp, without) = (inside.sealed(&plain), bare.sealed(&plain));
    let wrong = End::Dropped(DropReason::EspEncapsulation);
    assert_eq!(bare.arrive(&in_udp, routed(&in_udp)), wrong);
    assert_eq!(inside.arrive(&without, routed(&without)), wrong);
    assert_eq!((inside.edge(), bare.edge()), (0, 0));
}

#[test]
fn nat_checksums_of_transport_mode_are_made_good_and_right_ones_stay() {
    for (version, protocol) in
        [(4, Protocol::UDP), (6, Protocol::UDP), (4, Protocol::TCP), (6, Protocol::TCP)]
    {
        let (out, inn) = ends_of(version, GCM, true);
        let any = if version == 4 { "0.0.0.0/0" } else { "::/0" };
        let selectors = vec![between(any, any)];
        let inn = InboundConfig { source: None, selectors, ..inn };
        let mut g = gateway::<Software>(in_udp((out, inn)));
        // TCP's checksum is at 16; what stands there in UDP is data.
        let mut payload = datagram(version, 90);
        let at = if protocol == Protocol::TCP { 16 } else { 6 };
        let mut plain = packet(version, 1, protocol, &payload);
        let head = plain.len() - payload.len();
        let ends = |octets: &[u8]| match version {
            4 => ipv4::Header::ref_from_prefix(octets).unwrap().0.ends(),
            _ => ipv6::Header::ref_from_prefix(octets).unwrap().0.ends(),
        };
        let good = |octets: &[u8]| {
            let (ends, segment) = (ends(octets), &octets[head..]);
            ends.pseudo(protocol, segment.len()).with(segment).is_good()
        };
        payload[at..at + 2].fill(0);
        let sum = ends(&plain).pseudo(protocol, payload.len()).with(&payload).finish();
        payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        plain.truncate(head);
        plain.extend(&payload);
        assert!(good(&plain));
        let sealed = g.sealed(&plain);
        // The way there changes the source, and the checksums around with it.
        let mut translated = sealed.clone();
        let src = if version == 4 { 15 } else { 23 };
        translated[src] ^= 0x55;
        if version == 4 {
            let len = usize::from(translated[0] & 15) * 4;
            ipv4::fill_checksum(&mut translated[..len]);
        } else {
            let at = usize::from(routed(&sealed).offset) - udp::Header::LEN;
            let ends = ends(&translated);
            udp::fill_checksum(&ends, &mut translated[at..]);
        }
        let End::Sent(Next::Ip, opened) = g.arrive(&translated, routed(&translated)) else {
            panic!("{version} {protocol}")
        };
        assert!(good(&opened), "{version} {protocol}");
        assert_eq!(opened[src], plain[src] ^ 0x55);
        assert_eq!(opened[head + at + 2..], plain[head + at + 2..]);
        // And one that needs none: the same octets.
        let sealed = g.sealed(&plain);
        assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, plain));
    }
}

#[test]
fn nat_leaves_a_datagram_without_checksum_without_one() {
    let (out, inn) = in_udp(ends_of(4, GCM, true));
    let mut g = gateway::<Software>((
        out,
        InboundConfig { source: None, selectors: vec![between("0.0.0.0/0", "0.0.0.0/0")], ..inn },
    ));
    let mut payload = datagram(4, 50);
    payload[6..8].fill(0);
    let plain = packet(4, 0, Protocol::UDP, &payload);
    let mut sealed = g.sealed(&plain);
    sealed[15] ^= 9;
    ipv4::fill_checksum(&mut sealed[..20]);
    let End::Sent(Next::Ip, opened) = g.arrive(&sealed, routed(&sealed)) else { panic!() };
    assert_eq!(opened[20..], plain[20..]);
}

#[test]
fn nat_keepalives_are_sent_after_silence_and_end_where_they_arrive() {
    for version in [4, 6] {
        let keepalive = Some(Duration::from_secs(20));
        let (mut out, inn) = in_udp(ends_of(version, GCM, true));
        out.encap = Some(Encap { keepalive, ..PORTS });
        let mut g = gateway::<Software>((out, inn));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(g.tick(at(100)), [], "the clock starts");
        assert_eq!(g.out.poll_timeout(), Some(at(120)));
        // A packet at 110: silence until 130.
        g.now = at(110);
        g.sealed(&packet(version, 0, Protocol::UDP, &datagram(version, 64)));
        assert_eq!(g.tick(at(120)), []);
        assert_eq!(g.out.poll_timeout(), Some(at(130)));
        // What is refused is silence all the same: no binding lives on by it.
        g.now = at(125);
        let mut long = packet(version, 0, Protocol::UDP, &datagram(version, 1500));
        if version == 4 {
            long[6] = 0x40;
        }
        assert!(matches!(g.seal(&long), End::Sent(Next::IcmpError, _)));
        let ends = g.tick(at(130));
        let [End::Sent(Next::Output, sent)] = &ends[..] else { panic!("{ends:?}") };
        assert_eq!((g.metas[0].adjacency, g.metas[0].flags), (7, FLAG_LOCAL | FLAG_EXEMPT));
        let head = if version == 4 { 20 } else { 40 };
        let (header, payload) = udp::Repr::parse(&sent[head..]).unwrap();
        assert_eq!((header.src, header.dst, payload), (4500, 4501, &[0xff][..]));
        if version == 6 {
            let (h, _) = ipv6::Header::ref_from_prefix(sent).unwrap();
            assert!(udp::checksum_ok(&h.ends(), &sent[head..]));
        }
        assert_eq!(g.out.poll_timeout(), Some(at(150)), "and the next");
        assert_eq!(g.out.show().next().unwrap().number, 2, "it costs no number");
        // At the other end it is neither dropped nor passed on.
        let meta = routed(sent);
        let mut batch = g.batch([&sent[..]], meta);
        g.inn.push(ctx!(g), &mut g.engine, &mut batch);
        assert_eq!((g.ends(), g.tally.consumed), (vec![], 1));
        let short = End::Dropped(DropReason::Malformed);
        let mut other = sent.clone();
        *other.last_mut().unwrap() = 0xfe;
        assert_eq!(g.arrive(&other, meta), short, "one octet, but another");
    }
}

#[test]
fn udp_on_the_port_of_esp_is_told_by_its_marker() {
    let tables = Tables { udp_ports: [4500].into_iter().collect(), ..Tables::default() };
    let of = |port: u16, payload: &[u8]| {
        let mut octets = vec![0; 28];
        octets[0] = 0x45;
        udp::Repr { src: 9, dst: port, payload_len: payload.len() as u16 }.emit(&mut octets[20..]);
        octets.extend(payload);
        esp_in_udp(&tables, &octets, 20)
    };
    assert_eq!(of(4500, &[0, 0, 0x12, 0x34, 0, 0, 0, 1]), Ok(Some(28)));
    assert_eq!(of(4500, &[0xff]), Ok(Some(28)), "a keepalive");
    assert_eq!(of(4500, &[0, 0, 0, 0, 1, 2, 3, 4]), Ok(None), "IKE");
    assert_eq!(of(500, &[0, 0, 0x12, 0x34, 0, 0, 0, 1]), Ok(None));
    assert_eq!(esp_in_udp(&tables, &[0; 24], 20), Ok(None));
    assert_eq!(esp_in_udp(&tables, &[0; 24], 30), Ok(None));
}

#[test]
fn tunnel_options_for_dscp_ecn_df_and_ttl_make_the_outer_header() {
    for version in [4, 6] {
        let make = |outside: Outside, class: u8, whole: bool| {
            let out = OutboundConfig { outside, ..outbound(GCM, version, true) };
            let mut g = gateway::<Software>((out, inbound(GCM, version, true)));
            let mut plain = inner(4, 100, class);
            (plain[6], plain[8]) = (if whole { 0x40 } else { 0 }, 33);
            ipv4::fill_checksum(&mut plain[..20]);
            let sealed = g.sealed(&plain);
            assert_eq!(g.arrive(&sealed, routed(&sealed)), End::Sent(Next::Ip, plain));
            match version {
                4 => (sealed[1], sealed[6] & 0x40 != 0, sealed[8]),
                _ => (sealed[0] << 4 | sealed[1] >> 4, false, sealed[7]),
            }
        };
        let with_df = version == 4;
        let usual = Outside::default();
        assert_eq!(make(usual, 0xb9, true), (0xb9, with_df, 64));
        let copied = Outside { hops: Hops::Copy, ..usual };
        assert_eq!(make(copied, 0xb9, false), (0xb9, false, 33));
        let fixed = Outside { hops: Hops::Fixed(7), df: Df::Set, ..usual };
        assert_eq!(make(fixed, 0, false), (0, with_df, 7));
        let plain = Outside { ecn: EcnOut::Compatibility, df: Df::Clear, ..usual };
        assert_eq!(make(plain, 0xba, true), (0xb8, false, 64));
        let dscp = ferrule_wire::Dscp::new(10);
        let own = Outside { dscp, ecn: EcnOut::Compatibility, hops: Hops::Copy, ..usual };
        assert_eq!(make(own, 0xba, true), (10 << 2, with_df, 33));
        assert_eq!(make(Outside { dscp, ..usual }, 0xba, true), (10 << 2 | 2, with_df, 64));
    }
}

#[test]
fn esp_out_that_waits_for_its_outer_sa_ends_where_there_is_none() {
    let out = OutboundConfig { then: Some(5), ..outbound(GCM, 4, true) };
    let mut g = gateway::<Software>((out, inbound(GCM, 4, true)));
    assert_eq!(g.seal(&inner(4, 60, 0)), End::Dropped(DropReason::EspNoSa));
    g.tables.sas = SaDirectory::new(&[None, None, None, None, None, Some(3)], &[]).unwrap().into();
    assert_eq!(g.seal(&inner(4, 60, 0)), End::Handed(3, Next::EspOut));
}

/// Octets that look like a packet for the SA often enough to come far.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let head = (prop_oneof![Just(4u8), Just(6)], 0usize..4, any::<bool>(), 8usize..80);
    let whole = head.prop_map(|(version, extra, sealed, len)| {
        let plain = packet(version, extra, Protocol::UDP, &datagram(version, len));
        if !sealed {
            return plain;
        }
        gateway::<Software>(in_udp(ends_of(version, GCM, true))).sealed(&plain)
    });
    let flips = proptest::collection::vec((0usize..90, any::<u8>()), 0..5);
    (whole, flips, 0usize..120).prop_map(|(mut octets, flips, cut)| {
        for (at, value) in flips {
            if let Some(octet) = octets.get_mut(at) {
                *octet = value;
            }
        }
        let len = octets.len();
        octets.truncate(if cut < 30 { len.saturating_sub(cut) } else { len });
        octets
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    #[test]
    fn esp_transport_stages_take_any_octets(
        version in prop_oneof![Just(4u8), Just(6)], encap: bool, offset in 0u16..150, flags in 0u8..64,
        octets in proptest::collection::vec(octets(), 1..6),
    ) {
        let sa = ends_of(version, GCM, true);
        let mut g = gateway::<Software>(if encap { in_udp(sa) } else { sa });
        let (mut ended, before) = (0, octets.len());
        for octets in &octets {
            g.push_out(0, [&octets[..]]);
            let mut batch = g.batch([&octets[..]], Meta { offset, flags, ..Meta::default() });
            g.inn.push(ctx!(g), &mut g.engine, &mut batch);
            g.settle();
            ended += g.ends().len() + std::mem::take(&mut g.tally.consumed) as usize;
        }
        prop_assert_eq!(ended, 2 * before, "each packet ends somewhere");
    }

    #[test]
    fn esp_transport_carries_every_packet_that_fits(
        n in 0..Suite::ALL.len(), version in prop_oneof![Just(4u8), Just(6)], esn: bool, encap: bool,
        extra in 0usize..4, len in 8usize..1300, whole: bool,
    ) {
        let (mut out, inn) = ends_of(version, Suite::ALL[n], esn);
        out.tfc = if whole { Tfc::Multiple(64) } else { Tfc::Off };
        let mut g = gateway::<Software>(if encap { in_udp((out, inn)) } else { (out, inn) });
        let plain = packet(version, extra, Protocol::UDP, &datagram(version, len));
        let sealed = g.sealed(&plain);
        let End::Sent(Next::Ip, opened) = g.arrive(&sealed, routed(&sealed)) else { panic!() };
        let head = plain.len() - len;
        prop_assert_eq!(&opened[head..][..len], &plain[head..]);
        prop_assert!(opened.len() >= plain.len() && (whole || opened == plain));
    }
}
