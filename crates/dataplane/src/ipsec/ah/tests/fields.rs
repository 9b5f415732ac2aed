//! Fields under the ICV (RFC 4302 section 3.3.3, appendix A), found out by changing each bit
//! of a packet that was sent.

use super::*;

/// The bits of a sent packet that may arrive otherwise, by octet.
type May = dyn Fn(usize) -> u8;

/// IPv4: class, flags and offset, TTL, checksum; no fragment, for that is another
/// matter.
fn may_v4(at: usize) -> u8 {
    match at {
        1 | 8 | 10 | 11 => 0xff,
        6 => 0xc0,
        _ => 0,
    }
}

/// IPv6: class and flow label; hop limit.
fn may_v6(at: usize) -> u8 {
    match at {
        0 => 0x0f,
        1..=3 | 7 => 0xff,
        _ => 0,
    }
}

/// Changes each bit of `sent` in turn: it still arrives as `plain`, up to what may
/// change, or it is refused.
fn each_bit(g: &mut Gateway<Software>, plain: &[u8], may: &May, except: &[usize]) {
    let window = 4096;
    let sent = g.sealed(plain);
    let at = ah_at(&sent) as u16;
    let mut passed = 0;
    for bit in 0..sent.len() * 8 {
        let (octet, mask) = (bit / 8, 1 << (bit % 8));
        if except.contains(&octet) {
            continue;
        }
        let mut changed = sent.clone();
        changed[octet] ^= mask;
        let edge = g.edge();
        let mut batch = g.batch([(&changed[..], Meta { offset: at, ..Meta::default() })]);
        g.inn.push(ctx!(g), &mut g.engine, &mut batch);
        let end = g.only();
        if may(octet) & mask != 0 {
            assert!(matches!(end, End::Sent(Next::Ip, _)), "octet {octet}: {end:?}");
            passed += 1;
            // The number is used up: a new window, as if it had not been seen.
            let sa = InboundConfig { window, ..g.inbound() };
            g.inn.retire(&mut g.engine, 0);
            g.inn.install_at(&mut g.engine, 0, &sa, 0).unwrap();
        } else {
            assert!(matches!(end, End::Dropped(_)), "octet {octet}: {end:?}");
            assert_eq!(g.edge(), edge, "octet {octet}");
        }
    }
    assert!(passed > 0, "some fields may change");
    let opened = g.open(&sent);
    assert!(matches!(opened, End::Sent(Next::Ip, _)), "and unchanged it passes: {opened:?}");
}

impl Gateway<Software> {
    /// The configuration of the inbound SA that tests of this file have.
    fn inbound(&self) -> InboundConfig {
        let name = &self.inn.show().next().unwrap().name;
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == **name);
        InboundConfig { name: (*name).into(), ..inbound(SHA1, kind.unwrap(), false) }
    }

    fn named(kind: Kind) -> Self {
        let inn = InboundConfig { name: format!("{kind:?}").into(), ..inbound(SHA1, kind, false) };
        Self::of(1, &outbound(SHA1, kind, false), &inn, 1)
    }
}

#[test]
fn ah_covers_every_bit_but_those_that_routers_change_in_tunnel_mode() {
    // What marks congestion or names no ECN of the inner packet is looked at apart.
    each_bit(&mut Gateway::named(Kind::Tunnel(4)), &inner(4, 60, 2), &may_v4, &[1, 6, 7]);
    each_bit(&mut Gateway::named(Kind::Tunnel(6)), &inner(6, 60, 2), &may_v6, &[1]);
}

#[test]
fn ah_covers_every_bit_but_those_that_routers_change_in_transport_mode() {
    each_bit(&mut Gateway::named(Kind::Transport(4)), &inner(4, 60, 0), &may_v4, &[6, 7]);
    each_bit(&mut Gateway::named(Kind::Transport(6)), &inner(6, 60, 0), &may_v6, &[]);
}

#[test]
fn ah_covers_ipv4_options_that_no_router_changes() {
    // Router alert, then a timestamp with room, then the end of options.
    let plain = with_options("94040000 440c0500 00000000 00000000 00000000", 60);
    let may = |at: usize| match at {
        // The timestamp as a whole; its type and length are what finds its end.
        26..=35 => 0xff,
        _ => may_v4(at),
    };
    // A header length or option that does not end where it did is refused or, where
    // only zeros follow, means the same.
    each_bit(&mut Gateway::named(Kind::Transport(4)), &plain, &may, &[6, 7, 24, 25]);
}

#[test]
fn ah_covers_ipv6_options_whose_type_says_that_they_stay() {
    // Hop-by-hop: an option that changes and one that does not; destination options.
    let chain = "3c01 3e02aabb 0502ccdd 0104 00000000 1100 1e02eeff 01 00";
    let plain = with_extensions(Protocol::HOP_BY_HOP, chain, 60);
    let may = |at: usize| if matches!(at, 44 | 45) { 0xff } else { may_v6(at) };
    each_bit(&mut Gateway::named(Kind::Transport(6)), &plain, &may, &[]);
}

/// A packet through AH in transport mode; where AH is, and what it says follows.
fn placed(plain: &[u8]) -> (usize, u8, Vec<u8>) {
    let kind = if plain[0] >> 4 == 4 { Kind::Transport(4) } else { Kind::Transport(6) };
    let mut g = Gateway::<Software>::pair(1, SHA1, kind, false);
    let sealed = g.sealed(plain);
    let at = ah_at(&sealed);
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain.to_vec()), "and it comes out as it was");
    (at, sealed[at], sealed)
}

#[test]
fn ah_stands_behind_what_is_for_the_way() {
    let udp = Protocol::UDP.0;
    assert_eq!(placed(&inner(4, 60, 0)).0, 20);
    let (at, next, sealed) = placed(&with_options("94040000", 60));
    assert_eq!((at, next, sealed[9]), (24, udp, 51));
    // Hop-by-hop, destination options.
    let chain = "3c00 0502000000 00 1100 010400000000";
    let (at, next, sealed) = placed(&with_extensions(Protocol::HOP_BY_HOP, chain, 60));
    assert_eq!((at, next, sealed[48]), (56, udp, 51));
    // A routing header at its end, then destination options: these are behind AH.
    let chain = "3c02 0000 00000000 20010db8000000000000000000000005 1100 010400000000";
    let (at, next, sealed) = placed(&with_extensions(Protocol::ROUTING, chain, 60));
    assert_eq!((at, next, sealed[40]), (64, 60, 51));
}

/// Changes a packet as the next router of its source route does (RFC 791 section 3.1).
fn routed_v4(packet: &mut [u8]) {
    let pointer = usize::from(packet[22]);
    let next: [u8; 4] = *packet[20 + pointer - 1..].first_chunk().unwrap();
    packet[20 + pointer - 1..20 + pointer + 3].copy_from_slice(&[192, 0, 2, 77]);
    packet[16..20].copy_from_slice(&next);
    packet[22] += 4;
    packet[8] -= 1;
    ipv4::fill_checksum(packet);
}

#[test]
fn ah_foretells_the_destination_of_a_source_route() {
    // By 10.2.0.8, to 10.2.0.9.
    let mut plain = with_options("8307040a02000900", 60);
    plain[16..20].copy_from_slice(&[10, 2, 0, 8]);
    ipv4::fill_checksum(&mut plain);
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Transport(4), false);
    let mut sealed = g.sealed(&plain);
    assert_eq!(sealed[16..20], [10, 2, 0, 8], "it is sent to the first hop");
    routed_v4(&mut sealed);
    routed_v4(&mut plain);
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain));
}

#[test]
fn ah_foretells_what_routing_headers_do() {
    let (via, to) = ("20010db8000200000000000000000008", "20010db8000200000000000000000009");
    let mut plain = with_extensions(Protocol::ROUTING, &format!("1102 0001 00000000 {to}"), 60);
    plain[24..40].copy_from_slice(&hex(via));
    let mut g = Gateway::<Software>::pair(1, SHA1, Kind::Transport(6), false);
    let mut sealed = g.sealed(&plain);
    assert_eq!(sealed[24..40], hex(via), "it is sent to the first hop");
    for packet in [&mut sealed, &mut plain] {
        packet[24..40].copy_from_slice(&hex(to));
        packet[48..64].copy_from_slice(&hex(via));
        packet[43] = 0;
    }
    assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain));
    // One whose effect nobody knows cannot be foretold.
    let strange = with_extensions(Protocol::ROUTING, &format!("1102 fe01 00000000 {to}"), 60);
    assert_eq!(g.seal(&strange), End::Dropped(DropReason::IpOption));
}

#[test]
fn ah_lengths_are_those_of_rfc_4302_and_of_senders_that_pad_to_eight() {
    for suite in SUITES {
        for kind in KINDS {
            for align in [4, 8] {
                let out = OutboundConfig { ah_align: align, ..outbound(suite, kind, false) };
                let mut g = Gateway::<Software>::of(1, &out, &inbound(suite, kind, false), 1);
                let v6 = kind.head() == 40;
                let plain = inner(if v6 { 6 } else { 4 }, 77, 0);
                let sealed = g.sealed(&plain);
                let icv = suite.esp_iv_len() + suite.icv_len();
                let len = ah::padded_len(icv, if v6 { 8 } else { align.into() });
                let outer = if matches!(kind, Kind::Tunnel(_)) { kind.head() } else { 0 };
                assert_eq!(sealed.len(), outer + len + plain.len(), "{suite} {kind:?} {align}");
                assert_eq!(usize::from(sealed[kind.head() + 1]), len / 4 - 2);
                assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain), "either is taken");
            }
        }
    }
}
