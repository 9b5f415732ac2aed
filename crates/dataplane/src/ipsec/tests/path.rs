//! Path MTUs: what is learned and forgotten, who is believed, and what becomes of
//! packets that are too long.

use super::*;
use crate::graph::{FLAG_CUT, FLAG_EXEMPT, FLAG_LOCAL, FLAG_ONWARDS, FLAG_WHOLE};
use crate::ipsec::path::{PATH_AGE, PATH4_MIN, PATH6_MIN, RECENT, is_recent, quoted};
use ferrule_crypto::Aes;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{icmpv4, icmpv6};

const GCM: Suite = Suite::AesGcm(Aes::Aes128);

type Plain = Gateway<Software>;

fn gateway(version: u8, change: impl FnOnce(&mut OutboundConfig)) -> Plain {
    let mut g = Gateway::new(1);
    let mut out = outbound(GCM, version, true);
    change(&mut out);
    g.tables.sas.add_path(SPI, out.destination, OutboundPlace::default());
    g.out.install_at(&mut g.engine, 0, &out, Sequence::unlimited(1, u64::MAX - 1)).unwrap();
    g.now = Instant::from_secs(1);
    // With room for packets longer than links carry.
    g.cache = Pool::heap(256, 8192).cache();
    g
}

/// A packet of site 1 that must not be cut.
fn whole(version: u8, len: usize) -> Vec<u8> {
    let mut octets = inner(version, len, 0);
    if version == 4 {
        octets[6] = 0x40;
    }
    octets
}

/// A router's error about a sealed packet, to who sent that.
fn error(sealed: &[u8], mtu: u32) -> Vec<u8> {
    let router = ip(if sealed[0] >> 4 == 4 { "203.0.113.9" } else { "2001:db8:ff::9" });
    if let IpAddr::V4(router) = router {
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend((mtu as u16).to_be_bytes());
        message.extend(&sealed[..28]);
        icmpv4::fill_checksum(&mut message);
        let to: [u8; 4] = sealed[12..16].try_into().unwrap();
        let repr = ipv4::Repr::new(Protocol::ICMP, router, to.into(), message.len() as u16);
        let mut octets = vec![0; repr.len()];
        repr.emit(&mut octets);
        octets.extend(message);
        return octets;
    }
    let IpAddr::V6(router) = router else { unreachable!() };
    let mut message = vec![2, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&sealed[..sealed.len().min(1200)]);
    let to: [u8; 16] = sealed[8..24].try_into().unwrap();
    icmpv6::fill_checksum(&Ends::V6(router, to.into()), &mut message);
    let repr = ipv6::Repr::new(Protocol::ICMPV6, router, to.into(), message.len() as u16);
    let mut octets = vec![0; repr.len()];
    repr.emit(&mut octets);
    octets.extend(message);
    octets
}

impl Plain {
    /// Why an error is not believed; nothing: it is consumed.
    fn hear(&mut self, octets: &[u8]) -> Option<DropReason> {
        let v4 = octets[0] >> 4 == 4;
        let (offset, ethertype) = if v4 { (20, 0x0800) } else { (40, 0x86dd) };
        let mut batch = self.batch([octets], Meta { offset, ethertype, ..Meta::default() });
        let mut ah = AhOut::default();
        PathErrors::default().push(ctx!(self), &mut self.out, &mut ah, &mut batch);
        match &self.ends()[..] {
            [] => None,
            [End::Dropped(reason)] => Some(*reason),
            ends => panic!("{ends:?}"),
        }
    }

    /// The adjacency of what was sent first, and the path that it is to be cut for.
    fn cut_for(&self) -> (u32, Option<u16>) {
        let meta = self.metas[0];
        (meta.adjacency, (meta.flags & FLAG_CUT != 0).then_some(meta.limit))
    }

    /// The largest clear packet, as `show sa` has it.
    fn mtu(&self) -> u16 {
        self.out.show().next().unwrap().mtu.unwrap()
    }

    fn age(&mut self) {
        self.out.tick(ctx!(self), &mut self.engine);
        assert!(self.ends().is_empty());
    }
}

#[test]
fn path_mtu_is_learned_from_a_quote_of_a_packet_sent_lately() {
    for (version, path) in [(4, 1300), (6, 1300), (4, 600), (6, 1280), (4, 1333)] {
        let mut g = gateway(version, |_| ());
        let sealed = g.sealed(&whole(version, MTU.into()));
        assert_eq!(g.hear(&error(&sealed, path)), None);
        assert_eq!(g.tally.consumed, 1);
        let fits = usize::from(g.mtu());
        // The largest that fits, and none that is larger.
        let least = if version == 4 { fits } else { fits.max(1280) };
        if fits == least {
            assert!(g.sealed(&whole(version, fits)).len() <= path as usize);
        }
        let one_more = whole(version, least + 1);
        let End::Sent(Next::IcmpError, refused) = g.seal(&one_more) else { panic!() };
        assert_eq!((&refused, g.metas[0].limit), (&one_more, least as u16));
        let mut wide = gateway(version, |_| ());
        assert!(wide.sealed(&whole(version, fits + 1)).len() > path as usize, "{version} {path}");
    }
}

#[test]
fn path_mtu_is_forgotten_with_age() {
    let mut g = gateway(4, |_| ());
    assert_eq!(g.out.poll_timeout(), None);
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!(g.hear(&error(&sealed, 1000)), None);
    let narrow = g.mtu();
    assert!(narrow < 1000 && g.out.poll_timeout() == Some(g.now + PATH_AGE));
    // Told again half way, of a narrower one: it counts from then.
    g.now += PATH_AGE / 2;
    let sealed = g.sealed(&whole(4, narrow.into()));
    assert_eq!(g.hear(&error(&sealed, 800)), None);
    let (narrower, told) = (g.mtu(), g.now);
    assert!(narrower < narrow);
    g.now = told + PATH_AGE / 2;
    g.age();
    assert_eq!((g.mtu(), g.out.poll_timeout()), (narrower, Some(told + PATH_AGE)));
    g.now = told + PATH_AGE;
    g.age();
    assert_eq!((g.mtu(), g.out.poll_timeout()), (MTU, None));
    g.sealed(&whole(4, MTU.into()));
}

#[test]
fn forged_quotes_are_counted_and_change_nothing() {
    for version in [4, 6] {
        let mut g = gateway(version, |_| ());
        let sealed = g.sealed(&whole(version, MTU.into()));
        let (src, dst, spi, seq) = if version == 4 { (15, 19, 23, 27) } else { (23, 39, 43, 47) };
        for (at, what) in [(dst, "destination"), (spi, "SPI"), (seq, "number"), (seq - 3, "number")]
        {
            let mut forged = sealed.clone();
            forged[at] ^= 0x10;
            assert_eq!(g.hear(&error(&forged, 1290)), Some(DropReason::IcmpForged), "{what}");
        }
        // Quoted as if from elsewhere; the message itself comes to us.
        let mut forged = error(&sealed, 1290);
        let quote = if version == 4 { 28 } else { 48 };
        forged[quote + src] ^= 1;
        if version == 4 {
            icmpv4::fill_checksum(&mut forged[20..]);
        } else {
            let ends = ipv6::Repr::parse(&forged).unwrap().0.ends();
            icmpv6::fill_checksum(&ends, &mut forged[40..]);
        }
        assert_eq!(g.hear(&forged), Some(DropReason::IcmpForged), "source");
        // What it calls too big would have fitted.
        let len = sealed.len() as u32;
        for mtu in [len, len + 1] {
            assert_eq!(g.hear(&error(&sealed, mtu)), Some(DropReason::IcmpForged), "length");
        }
        let mut altered = error(&sealed, 1290);
        *altered.last_mut().unwrap() ^= 1;
        assert!(g.hear(&altered).is_some(), "checksum");
        assert_eq!((g.mtu(), g.out.poll_timeout()), (MTU, None));
        assert_eq!(g.hear(&error(&sealed, 1290)), None, "and the true one is believed");
        assert!(g.mtu() < MTU);
    }
}

#[test]
fn error_may_be_about_one_of_the_last_packets_alone() {
    assert!(is_recent(1, 2) && !is_recent(2, 2) && !is_recent(3, 2) && !is_recent(0, 2));
    let next = 1 << 33;
    assert!(is_recent(0xffff_ffff, next), "across the change of the upper half");
    assert!(is_recent((next - u64::from(RECENT)) as u32, next));
    assert!(!is_recent((next - u64::from(RECENT) - 1) as u32, next));
}

#[test]
fn path_mtu_is_believed_down_to_a_bound() {
    let mut g = gateway(4, |_| ());
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!(g.hear(&error(&sealed, 68)), None);
    let fits = usize::from(g.mtu());
    let len = gateway(4, |_| ()).sealed(&inner(4, fits, 0)).len();
    assert!(len <= PATH4_MIN && len > PATH4_MIN - 4, "{len}");
    // Of IPv6 what is below the bound is not believed at all.
    for said in [0, 68, PATH6_MIN as u32 - 1] {
        let mut g = gateway(6, |_| ());
        let sealed = g.sealed(&whole(6, MTU.into()));
        assert_eq!(g.hear(&error(&sealed, said)), Some(DropReason::IcmpForged), "{said}");
        assert_eq!((g.mtu(), g.out.poll_timeout()), (MTU, None));
    }
    // A router that says nothing: the next plateau (RFC 1191 section 7.1).
    let mut g = gateway(4, |_| ());
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!(g.hear(&error(&sealed, 0)), None);
    let fits = usize::from(g.mtu());
    let mut other = gateway(4, |_| ());
    assert!(other.sealed(&inner(4, fits, 0)).len() <= 1006);
}

#[test]
fn sa_that_is_told_to_learn_nothing_believes_nobody() {
    let mut g = gateway(4, |out| out.learns = false);
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!(g.hear(&error(&sealed, 1000)), None);
    assert_eq!((g.mtu(), g.out.poll_timeout()), (MTU, None));
}

#[test]
fn errors_about_packets_without_an_sa_are_counted() {
    let mut g = gateway(4, |_| ());
    let sealed = g.sealed(&whole(4, MTU.into()));
    g.tables.sas = Default::default();
    assert_eq!(g.hear(&error(&sealed, 1000)), Some(DropReason::IcmpForged));
}

#[test]
fn fragmentation_before_sealing_seals_each_piece() {
    let mut g = gateway(4, |out| out.fragment = Fragment::Before);
    let long = inner(4, 3000, 0);
    g.push_out(0, [&long[..]]);
    let pieces: Vec<Vec<u8>> = g
        .ends()
        .into_iter()
        .map(|end| match end {
            End::Sent(Next::EspOut, octets) => octets,
            end => panic!("{end:?}"),
        })
        .collect();
    assert_eq!(pieces.len(), 3);
    for piece in &pieces {
        assert!(piece.len() <= MTU.into() && ipv4::is_fragment(piece));
        let sealed = g.sealed(piece);
        assert!(!ipv4::is_fragment(&sealed));
    }
    // Of IPv6, and with DF, the sender is told.
    for octets in [whole(4, 3000), inner(6, 3000, 0)] {
        assert!(matches!(g.seal(&octets), End::Sent(Next::IcmpError, _)));
    }
}

#[test]
fn fragmentation_after_sealing_cuts_the_outer_packet_for_its_path() {
    for version in [4, 6] {
        let mut g = gateway(version, |_| ());
        let End::Sent(Next::Output, sealed) = g.seal(&inner(4, 3000, 0)) else { panic!() };
        assert!(sealed.len() > 3000 && g.cut_for() == (7, None), "the link's MTU is all there is");
        let sealed = g.sealed(&whole(4, MTU.into()));
        assert_eq!(g.hear(&error(&sealed, 1300)), None);
        let End::Sent(Next::Output, sealed) = g.seal(&inner(4, 1350, 0)) else { panic!() };
        assert_eq!(g.cut_for(), (7, Some(1300)));
        assert!(sealed.len() > 1300 && (version == 6 || sealed[6] & 0x40 == 0), "without DF");
        // What fits is not cut.
        g.seal(&inner(4, 1200, 0));
        assert_eq!(g.cut_for(), (7, None));
        // IPv6 of up to 1280 octets passes every path (RFC 8200 section 5).
        let End::Sent(Next::Output, _) = g.seal(&inner(6, 1280, 0)) else { panic!() };
        assert_eq!(g.cut_for(), (7, Some(1300)));
    }
}

#[test]
fn transport_mode_seals_whole_datagrams_and_cuts_afterwards() {
    for version in [4, 6] {
        let mut g = gateway(version, |out| out.mode = Mode::Transport);
        let out = outbound(GCM, version, true);
        let ends = |octets: &mut Vec<u8>| match (out.source, out.destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                octets[12..16].copy_from_slice(&a.octets());
                octets[16..20].copy_from_slice(&b.octets());
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                octets[8..24].copy_from_slice(&a.octets());
                octets[24..40].copy_from_slice(&b.octets());
            }
            _ => unreachable!(),
        };
        let mut fragment = inner(version, 600, 0);
        ends(&mut fragment);
        if version == 4 {
            fragment[6] = 0x20;
        } else {
            fragment[6] = 44;
            fragment[40..48].copy_from_slice(&[17, 0, 0, 1, 0, 0, 0, 9]);
        }
        // Back to the policy that sent it here, not to the way of the SA's own packets.
        let meta = Meta { adjacency: 5, ..Meta::default() };
        let mut batch = g.batch([&fragment[..]], meta);
        g.out.push(ctx!(g), &mut g.engine, &mut batch);
        assert_eq!(g.ends(), [End::Sent(Next::Reassemble, fragment.clone())]);
        assert_eq!((g.metas[0].flags, g.metas[0].adjacency), (FLAG_ONWARDS, 5));
        // What no policy sent here has no way back.
        let flags = FLAG_LOCAL | FLAG_EXEMPT;
        let mut batch = g.batch([&fragment[..]], Meta { flags, ..Meta::default() });
        g.out.push(ctx!(g), &mut g.engine, &mut batch);
        assert_eq!(g.ends(), [End::Dropped(DropReason::FragmentNotSupported)]);
        // Put together, it is sealed whole, however long.
        let mut long = whole(version, 1700);
        ends(&mut long);
        if version == 4 {
            ipv4::fill_checksum(&mut long);
        }
        let meta = Meta { flags: FLAG_WHOLE, ..Meta::default() };
        let mut batch = g.batch([&long[..]], meta);
        g.out.push(ctx!(g), &mut g.engine, &mut batch);
        let ends = g.ends();
        let [End::Sent(Next::Output, sealed)] = &ends[..] else { panic!("{ends:?}") };
        assert!(sealed.len() > 1700);
        // A sender that cut it and said that it must not be cut meant the pieces.
        assert!(version == 6 || sealed[6] & 0x40 == 0 && ipv4::validate(sealed).is_ok());
    }
}

#[test]
fn true_path_error_among_a_flood_of_forged_ones_is_heard() {
    for version in [4, 6] {
        let mut g = gateway(version, |_| ());
        let sealed = g.sealed(&whole(version, MTU.into()));
        let (mut errors, mut ah) = (PathErrors::default(), AhOut::default());
        let mut forged = sealed.clone();
        let spi = if version == 4 { 20 } else { 40 };
        let (offset, ethertype) = if version == 4 { (20, 0x0800) } else { (40, 0x86dd) };
        let meta = Meta { offset, ethertype, ..Meta::default() };
        // All at one instant: unknown SPIs, numbers never sent, sums that are wrong.
        for round in 0..3000u32 {
            let at = if round % 2 == 0 { spi } else { spi + 4 };
            forged[at..at + 4].copy_from_slice(&(0x0100_0000 + round).to_be_bytes());
            let mut octets = error(&forged, 1290);
            octets[usize::from(offset) + 3] ^= u8::from(round % 3 == 0);
            let mut batch = g.batch([&octets[..]], meta);
            errors.push(ctx!(g), &mut g.out, &mut ah, &mut batch);
            let ends = g.ends();
            assert!(matches!(ends[..], [End::Dropped(_)]), "{ends:?}");
            assert_ne!(ends, [End::Dropped(DropReason::IcmpRateLimited)]);
            g.cache = Pool::heap(16, 8192).cache();
        }
        assert_eq!(g.mtu(), MTU);
        let mut batch = g.batch([&error(&sealed, 1290)[..]], meta);
        errors.push(ctx!(g), &mut g.out, &mut ah, &mut batch);
        assert_eq!(g.ends(), []);
        assert!(g.mtu() < 1290);
    }
}

#[test]
fn path_errors_name_the_protocol_of_the_sa() {
    let mut g = gateway(4, |_| ());
    let sealed = g.sealed(&whole(4, MTU.into()));
    // The same SPI, as if AH had it: next header, length and reserved in front.
    let mut as_ah = sealed.clone();
    as_ah[9] = 51;
    let (spi, number) = (sealed[20..24].to_vec(), sealed[24..28].to_vec());
    as_ah[20..32].copy_from_slice(&[&[4, 4, 0, 0], &spi[..], &number[..]].concat());
    let mut message = error(&as_ah, 1290);
    message.extend(&as_ah[28..32]);
    let total = message.len() as u16;
    message[2..4].copy_from_slice(&total.to_be_bytes());
    ipv4::fill_checksum(&mut message);
    icmpv4::fill_checksum(&mut message[20..]);
    assert_eq!(g.hear(&message), Some(DropReason::IcmpForged));
    assert_eq!(g.mtu(), MTU);
}

#[test]
fn inner_icmp_errors_about_what_the_sa_does_not_carry_are_refused() {
    let quote = |src: &str, dst: &str| {
        let mut packet = inner(4, 100, 0);
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip(src), ip(dst)) else { unreachable!() };
        packet[12..16].copy_from_slice(&src.octets());
        packet[16..20].copy_from_slice(&dst.octets());
        packet[..28].to_vec()
    };
    let quote6 = |net: u8| {
        let mut packet = inner(6, 100, 0);
        // Of site 2 to site 1.
        packet[13] = 2;
        packet[29] = net;
        packet[..60].to_vec()
    };
    let v4 = |kind: u8, quote: &[u8]| {
        let message = [&[kind, 4, 0, 0, 0, 0, 5, 0], quote].concat();
        let mut octets = inner(4, 20 + message.len(), 0);
        octets[9] = 1;
        octets[20..].copy_from_slice(&message);
        octets
    };
    let v6 = |kind: u8, quote: &[u8]| {
        let message = [&[kind, 0, 0, 0, 0, 0, 5, 0], quote].concat();
        let mut octets = inner(6, 40 + message.len(), 0);
        octets[6] = 58;
        octets[40..].copy_from_slice(&message);
        octets
    };
    // The receiving end is site 2: what it sent was from there to site 1.
    let ours = quote("10.2.0.9", "10.1.0.9");
    let cases = [
        (v4(3, &ours), true),
        (v4(11, &ours), true),
        (v4(3, &quote("10.2.0.9", "10.3.0.9")), false),
        (v4(3, &quote("10.1.0.9", "10.2.0.9")), false),
        (v4(5, &quote("172.16.0.1", "10.1.0.9")), false),
        (v4(12, &ours[..10]), false),
        (v4(3, &[]), false),
        (v4(8, &quote("10.2.0.9", "10.3.0.9")), true),
        (v6(2, &quote6(1)), true),
        (v6(2, &quote6(3)), false),
        (v6(1, &[]), false),
        (v6(128, &quote6(3)), true),
    ];
    for (number, (octets, good)) in cases.into_iter().enumerate() {
        let mut g: Plain = Gateway::pair(1, GCM, 4, true);
        let sealed = g.sealed(&octets);
        let end = g.open(&sealed);
        match good {
            true => assert!(matches!(end, End::Sent(Next::Ip, _)), "{number} {end:?}"),
            false => assert_eq!(end, End::Dropped(DropReason::IcmpForged), "{number}"),
        }
    }
    assert_eq!(quoted(&inner(4, 100, 0)), None);
}

#[test]
fn tunnel_clamps_mss_in_both_directions() {
    for version in [4u8, 6] {
        let mut g: Plain = Gateway::new(1);
        let out = OutboundConfig { clamp: true, ..outbound(GCM, 4, true) };
        let inn = InboundConfig { clamp: Some(900), ..inbound(GCM, 4, true) };
        g.out.install_at(&mut g.engine, 0, &out, Sequence::unlimited(1, u64::MAX - 1)).unwrap();
        g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
        let head = if version == 4 { 20 } else { 40 };
        let mut syn = inner(version, head + 24, 0);
        syn[if version == 4 { 9 } else { 6 }] = 6;
        syn[head + 12..head + 14].copy_from_slice(&[0x60, 0x02]);
        syn[head + 20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        let mss = |octets: &[u8]| u16::from_be_bytes([octets[head + 22], octets[head + 23]]);
        let sealed = g.sealed(&syn);
        let End::Sent(Next::Ip, opened) = g.open(&sealed) else { panic!() };
        assert_eq!(mss(&opened), 900 - head as u16 - 20, "what comes in");
        // What goes out, seen by an end that does nothing.
        let mut g: Plain = Gateway::new(1);
        g.out.install_at(&mut g.engine, 0, &out, Sequence::unlimited(1, u64::MAX - 1)).unwrap();
        g.inn.install_at(&mut g.engine, 0, &inbound(GCM, 4, true), 0).unwrap();
        let sealed = g.sealed(&syn);
        let End::Sent(Next::Ip, opened) = g.open(&sealed) else { panic!() };
        assert_eq!(mss(&opened), MTU - head as u16 - 20, "what goes out");
    }
}
