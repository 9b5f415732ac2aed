//! AH over paths that are narrower than the link, as for ESP: it learns path MTUs, forgets
//! them, fragments, and clamps the MSS of TCP.

use super::*;
use crate::graph::{FLAG_CUT, FLAG_WHOLE};
use crate::ipsec::path::PATH_AGE;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{icmpv4, icmpv6, ipv6};

type Plain = Gateway<Software>;

fn gateway(kind: Kind, change: impl FnOnce(&mut OutboundConfig)) -> Plain {
    let mut out = outbound(SHA1, kind, true);
    change(&mut out);
    let mut g = Plain::of(1, &out, &inbound(SHA1, kind, true), 1);
    let place = OutboundPlace { protocol: SaProtocol::Ah, ..OutboundPlace::default() };
    g.tables.sas.add_path(SPI, out.destination, place);
    g.now = Instant::from_secs(1);
    g.cache = Pool::heap(64, 8192).cache();
    g
}

/// A packet of site 1 that must not be cut.
fn whole(version: u8, len: usize) -> Vec<u8> {
    let mut octets = inner(version, len, 0);
    if version == 4 {
        octets[6] = 0x40;
        ipv4::fill_checksum(&mut octets);
    }
    octets
}

/// A router's error about a packet with AH, to who sent that.
fn error(sealed: &[u8], mtu: u32) -> Vec<u8> {
    let v4 = sealed[0] >> 4 == 4;
    let kind = if v4 { [3, 4] } else { [2, 0] };
    let mut octets = [&kind[..], &[0, 0], &mtu.to_be_bytes(), &sealed[..sealed.len().min(80)]];
    let quote = octets[3].to_vec();
    octets[3] = &quote;
    let mut message = octets.concat();
    if v4 {
        icmpv4::fill_checksum(&mut message);
        let to: [u8; 4] = sealed[12..16].try_into().unwrap();
        let from = [203, 0, 113, 9].into();
        let repr = ipv4::Repr::new(Protocol::ICMP, from, to.into(), message.len() as u16);
        let mut octets = vec![0; repr.len()];
        repr.emit(&mut octets);
        return [octets, message].concat();
    }
    let to: [u8; 16] = sealed[8..24].try_into().unwrap();
    let from = "2001:db8:ff::9".parse().unwrap();
    icmpv6::fill_checksum(&Ends::V6(from, to.into()), &mut message);
    let repr = ipv6::Repr::new(Protocol::ICMPV6, from, to.into(), message.len() as u16);
    let mut octets = vec![0; repr.len()];
    repr.emit(&mut octets);
    [octets, message].concat()
}

impl Plain {
    /// Why an error is not believed; nothing: it is consumed.
    fn hear(&mut self, octets: &[u8]) -> Option<DropReason> {
        let v4 = octets[0] >> 4 == 4;
        let (offset, ethertype) = if v4 { (20, 0x0800) } else { (40, 0x86dd) };
        let meta = Meta { offset, ethertype, ..Meta::default() };
        let mut batch = self.batch([(octets, meta)]);
        let mut esp = EspOut::default();
        PathErrors::default().push(ctx!(self), &mut esp, &mut self.out, &mut batch);
        match &self.ends()[..] {
            [] => None,
            [End::Dropped(reason)] => Some(*reason),
            ends => panic!("{ends:?}"),
        }
    }

    fn age(&mut self, now: Instant) {
        self.now = now;
        self.out.tick(ctx!(self), &mut self.engine);
        assert_eq!(self.ends(), []);
    }

    /// The adjacency of what was sent first, and the path that it is to be cut for.
    fn cut_for(&self) -> (u32, Option<u16>) {
        let meta = self.metas[0];
        (meta.adjacency, (meta.flags & FLAG_CUT != 0).then_some(meta.limit))
    }

    fn mtu(&self) -> u16 {
        self.out.show().next().unwrap().mtu.unwrap()
    }
}

const fn version(kind: Kind) -> u8 {
    match kind {
        Kind::Tunnel(_) => 4,
        Kind::Transport(version) => version,
    }
}

#[test]
fn ah_learns_the_path_mtu_from_a_quote_of_a_packet_sent_lately() {
    for kind in KINDS {
        let mut g = gateway(kind, |_| ());
        let sealed = g.sealed(&whole(version(kind), MTU.into()));
        assert_eq!((g.hear(&error(&sealed, 1300)), g.tally.consumed), (None, 1), "{kind:?}");
        let fits = usize::from(g.mtu());
        assert!(fits < 1300);
        if version(kind) == 4 {
            assert_eq!(g.sealed(&whole(4, fits)).len(), 1300, "{kind:?}: to the octet");
        }
        let most = if version(kind) == 6 { fits.max(1280) } else { fits };
        let end = g.seal(&whole(version(kind), most + 1));
        assert!(matches!(end, End::Sent(Next::IcmpError, _)), "{kind:?}");
        assert_eq!(g.metas[0].limit, most as u16);
        // What is made of what AH cannot know.
        let mut forged = sealed.clone();
        let number = if matches!(kind, Kind::Tunnel(6) | Kind::Transport(6)) { 48 } else { 28 };
        forged[number] ^= 0x40;
        assert_eq!(g.hear(&error(&forged, 1290)), Some(DropReason::IcmpForged));
        forged = sealed;
        forged[number - 1] ^= 1;
        assert_eq!(g.hear(&error(&forged, 1290)), Some(DropReason::IcmpForged), "another SPI");
        assert_eq!(usize::from(g.mtu()), fits);
    }
    let mut g = gateway(KINDS[0], |out| out.learns = false);
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!((g.hear(&error(&sealed, 1000)), g.mtu()), (None, MTU), "told to believe nobody");
}

#[test]
fn ah_forgets_the_path_mtu_with_age() {
    let mut g = gateway(Kind::Transport(4), |_| ());
    assert_eq!(g.out.poll_timeout(), None);
    let sealed = g.sealed(&whole(4, MTU.into()));
    assert_eq!(g.hear(&error(&sealed, 1000)), None);
    let (narrow, told) = (g.mtu(), g.now);
    assert!(narrow < 1000 && g.out.poll_timeout() == Some(told + PATH_AGE));
    g.now = told + PATH_AGE / 2;
    let sealed = g.sealed(&whole(4, narrow.into()));
    assert_eq!(g.hear(&error(&sealed, 800)), None);
    let again = g.now;
    g.age(told + PATH_AGE);
    assert!(g.mtu() < narrow && g.out.poll_timeout() == Some(again + PATH_AGE));
    g.age(again + PATH_AGE);
    assert_eq!((g.mtu(), g.out.poll_timeout()), (MTU, None));
}

#[test]
fn ah_cuts_before_or_afterwards_what_is_too_long_and_may_be_cut() {
    let long = inner(4, 3000, 0);
    let mut g = gateway(Kind::Tunnel(4), |out| out.fragment = Fragment::Before);
    g.push_out([&long[..]]);
    let pieces: Vec<Vec<u8>> = g
        .ends()
        .into_iter()
        .map(|end| match end {
            End::Sent(Next::AhOut, octets) => octets,
            end => panic!("{end:?}"),
        })
        .collect();
    assert_eq!(pieces.len(), 3);
    for piece in &pieces {
        assert!(piece.len() <= MTU.into() && ipv4::is_fragment(piece));
        let sealed = g.sealed(piece);
        assert!(!ipv4::is_fragment(&sealed));
    }
    for kind in KINDS {
        let mut g = gateway(kind, |_| ());
        let sealed = g.sealed(&whole(version(kind), MTU.into()));
        assert_eq!(g.cut_for(), (7, None), "what fits is not cut");
        assert_eq!(g.hear(&error(&sealed, 1300)), None);
        // Made here, or come in fragments: cut whatever it says.
        let packet = whole(version(kind), 1390);
        let mut batch = g.batch([(&packet[..], Meta { flags: FLAG_WHOLE, ..Meta::default() })]);
        g.out.push(ctx!(g), &mut g.engine, &mut batch);
        let End::Sent(Next::Output, sealed) = g.only() else { panic!("{kind:?}") };
        assert_eq!(g.cut_for(), (7, Some(1300)), "{kind:?}");
        if sealed[0] >> 4 == 4 {
            assert_eq!(sealed[6] & 0x40, 0, "{kind:?}: without DF");
        }
        let End::Sent(Next::Ip, opened) = g.open(&sealed) else { panic!("{kind:?}") };
        assert_eq!(opened[20..], packet[20..], "{kind:?}");
    }
}

#[test]
fn ah_holds_tcp_to_what_fits() {
    for kind in KINDS {
        let (version, head) = if version(kind) == 4 { (4, 20) } else { (6, 40) };
        let mut syn = inner(version, head + 24, 0);
        syn[if version == 4 { 9 } else { 6 }] = 6;
        syn[head + 12..head + 14].copy_from_slice(&[0x60, 0x02]);
        syn[head + 20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        if version == 4 {
            ipv4::fill_checksum(&mut syn);
        }
        let through = |out: OutboundConfig, inn: InboundConfig| {
            let mut g = Plain::of(1, &out, &inn, 1);
            let sealed = g.sealed(&syn);
            let End::Sent(Next::Ip, opened) = g.open(&sealed) else { panic!("{kind:?}") };
            usize::from(u16::from_be_bytes([opened[head + 22], opened[head + 23]]))
        };
        let out = || outbound(SHA1, kind, true);
        let inn = || inbound(SHA1, kind, true);
        assert_eq!(through(out(), inn()), 1460, "not asked to");
        let clamping = OutboundConfig { clamp: true, ..out() };
        assert_eq!(through(clamping, inn()), usize::from(MTU) - head - 20, "what goes out");
        let clamping = InboundConfig { clamp: Some(900), ..inn() };
        assert_eq!(through(out(), clamping), 900 - head - 20, "what comes in");
    }
}
