//! Laws of a card's own stages: for any frames nothing panics, nothing is lost, and no
//! frame that the policy does not permit leaves an interface with one.

use super::down::down;
use super::links::{LINKS_MAX, Links};
use super::up::up;
use ferrule_base::{DropReason, MacAddr, PortId, Rng, VrfId};
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::tables::{Attach, Iface, IfaceKind, PortEntry, RoutedIface, Tag};
use ferrule_dataplane::{Tables, ipsec, route};
use ferrule_pipeline::{Packet, Pool, PoolCache};
use std::net::IpAddr;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A port with a policy for untagged frames, and VLAN 7 without one.
fn tables() -> Tables {
    let routed = |policy| {
        IfaceKind::Routed(RoutedIface {
            vrf: VrfId::GLOBAL,
            mac: MAC,
            mtu: 1400,
            v4: Vec::new(),
            v6: vec![("fe80::1".parse().unwrap(), 64)],
            mpls: false,
            policy,
            sources: None,
            clamp: None,
            has_card: false,
        })
    };
    let iface = |name: &str, tag, policy| Iface::new(name, PortId(0), tag, routed(policy));
    let adjacency = route::Adjacency::on_link;
    let net = |text: &str, len| (text.parse::<IpAddr>().unwrap(), len);
    let entry = |local: (IpAddr, u8), remote: (IpAddr, u8), action| {
        ipsec::PolicyEntry::new(ipsec::Selector::between(local, remote), action)
    };
    let policy = [
        entry(net("10.1.0.0", 16), net("10.2.0.0", 16), ipsec::Action::Protect(3)),
        entry(net("10.1.0.0", 16), net("10.3.0.0", 16), ipsec::Action::Bypass),
    ];
    let place = ipsec::InboundPlace { spi: 0x1001, worker: 0, index: 5 };
    Tables {
        workers: 1,
        ports: vec![PortEntry {
            name: "wan".into(),
            mac: MAC,
            frame_max: 1522,
            owner: 0,
            everywhere: false,
            secy: None,
            attach: Attach {
                untagged: Some(0),
                tagged: vec![(Attach::key(0x8100, 7), 1)],
                double: Vec::new(),
                rest: None,
            },
        }],
        ifaces: vec![iface("wan", Tag::None, Some(0)), iface("wan.7", Tag::Tag(0x8100, 7), None)],
        adjacencies: vec![adjacency(0), adjacency(1)],
        policies: vec![ipsec::Spd::new(&policy).unwrap().into()],
        vrfs: vec![route::Vrf::new("", [((net("192.0.2.1", 32)), route::Route::Local)]).into()],
        sas: ipsec::SaDirectory::new(&[None, None, None, Some(0)], &[place]).unwrap().into(),
        ..Tables::default()
    }
}

struct Rig {
    tables: Tables,
    cache: PoolCache,
    hits: ipsec::Hits,
    links: Links,
}

impl Rig {
    fn new() -> Self {
        let cache = Pool::heap(256, 2048).cache();
        Self { tables: tables(), cache, hits: ipsec::Hits::default(), links: Links::default() }
    }

    /// A frame on its way down or up: where it went (nothing: to the node), with the
    /// packet.
    fn push(&mut self, frame: &[u8], is_down: bool) -> Result<(Option<Next>, Packet), DropReason> {
        let mut packet = self.cache.packet_from(frame).expect("a buffer");
        self.tables.compile();
        let way = match is_down {
            true => down(&self.tables, &mut self.links, &mut packet).map(Some),
            false => up(&self.tables, &mut self.hits, &mut self.links, &mut packet),
        };
        match way {
            Ok(next) => Ok((next, packet)),
            Err(reason) => {
                self.links.release(&mut packet);
                self.cache.recycle(packet);
                Err(reason)
            }
        }
    }

    /// Link headers that wait.
    fn held(&self) -> usize {
        self.links.places.len() - self.links.free.len()
    }

    /// Next place of a frame.
    fn whither(&mut self, frame: &[u8], down: bool) -> Result<Option<Next>, DropReason> {
        let (next, mut packet) = self.push(frame, down)?;
        self.links.release(&mut packet);
        self.cache.recycle(packet);
        assert_eq!(self.held(), 0);
        Ok(next)
    }
}

fn frame(to: MacAddr, tag: &[u8], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &PEER.0, tag, &kind.to_be_bytes(), payload].concat()
}

fn ip4(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = 20 + payload.len() as u16;
    let mut p = [&[0x45, 0][..], &len.to_be_bytes(), &[0, 1, 0, 0, 64, protocol, 0, 0]].concat();
    p.extend(from);
    p.extend(to);
    let sum = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend(payload);
    p
}

#[test]
fn inline_stages_send_each_frame_where_the_module_says() {
    let mut rig = Rig::new();
    let esp = [&0x1001_u32.to_be_bytes()[..], &[0; 60]].concat();
    let to_us = ip4([192, 0, 2, 2], [192, 0, 2, 1], 50, &esp);
    let others = ip4([192, 0, 2, 2], [192, 0, 2, 9], 50, &esp);
    let stranger = ip4([192, 0, 2, 2], [192, 0, 2, 1], 50, &[7; 64]);
    let mut fragment = ip4([192, 0, 2, 2], [192, 0, 2, 1], 50, &esp);
    fragment[6] = 0x20;
    let sum = u16::from_be_bytes([fragment[10], fragment[11]]) - 0x2000;
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    let bypass = ip4([10, 3, 0, 1], [10, 1, 0, 1], 17, &[0; 8]);
    let protect = ip4([10, 2, 0, 1], [10, 1, 0, 1], 17, &[0; 8]);
    let tag = [0x81, 0, 0x20, 7];
    let priority = [0x81, 0, 0x20, 0];
    for (to, tag, kind, payload, down, want) in [
        (MAC, &[][..], 0x0806, &[0; 28][..], false, Ok(None)),
        (PEER, &[], 0x0806, &[0; 28], true, Ok(Some(Next::Emit))),
        (MAC, &[], 0x0800, &to_us, false, Ok(Some(Next::EspIn))),
        (MAC, &priority, 0x0800, &to_us, false, Ok(Some(Next::EspIn))),
        (MAC, &tag, 0x0800, &to_us, false, Ok(None)),
        (PEER, &tag, 0x0800, &protect, true, Ok(Some(Next::Emit))),
        (PEER, &[], 0x0800, &to_us, false, Err(DropReason::NotForUs)),
        (MAC, &[], 0x0800, &others, false, Err(DropReason::PolicyDiscard)),
        (MAC, &[], 0x0800, &stranger, false, Err(DropReason::EspUnknownSpi)),
        (MAC, &[], 0x0800, &fragment, false, Err(DropReason::FragmentNotSupported)),
        (MAC, &[], 0x0800, &bypass, false, Ok(None)),
        (MAC, &[], 0x0800, &protect, false, Err(DropReason::EspRequired)),
        (MAC, &[], 0x8847, &protect, false, Err(DropReason::UnknownProtocol)),
        (PEER, &[], 0x8847, &protect, true, Err(DropReason::PolicyDiscard)),
        (PEER, &[], 0x88b5, &protect, true, Err(DropReason::PolicyDiscard)),
        (PEER, &[], 0x0800, &protect, true, Ok(Some(Next::Policy))),
    ] {
        let frame = frame(to, tag, kind, payload);
        assert_eq!(rig.whither(&frame, down), want, "{kind:04x} {tag:?} down {down}");
    }
}

#[test]
fn inline_lets_neighbour_and_listener_discovery_pass_and_nothing_that_only_looks_like_it() {
    let mut rig = Rig::new();
    let nd = |hop_limit: u8, kind: u8, dst: &str| {
        let mut p = vec![0x60, 0, 0, 0, 0, 8, 58, hop_limit];
        p.extend("fe80::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        p.extend(dst.parse::<std::net::Ipv6Addr>().unwrap().octets());
        p.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        frame(MAC, &[], 0x86dd, &p)
    };
    for (dst, passes) in [("ff02::1", true), ("fe80::1", true), ("2001:db8::9", false)] {
        let got = rig.whither(&nd(255, 135, dst), false);
        assert_eq!(got == Ok(None), passes, "{dst}: {got:?}");
    }
    assert!(rig.whither(&nd(254, 135, "ff02::1"), false).is_err(), "it was forwarded");
    assert!(rig.whither(&nd(255, 128, "ff02::1"), false).is_err(), "an echo is none");
    assert_eq!(rig.whither(&nd(255, 136, "2001:db8::9"), true), Ok(Some(Next::Emit)));
    assert_eq!(rig.whither(&nd(64, 136, "2001:db8::9"), true), Ok(Some(Next::Policy)));
    // Listener discovery: a router alert, one hop, a group of the link.
    let mld = |hop_limit: u8, kind: u8, dst: &str| {
        let mut p = nd(hop_limit, kind, dst);
        p.splice(54..54, ferrule_wire::mld::ROUTER_ALERT);
        (p[18], p[19], p[20]) = (0, 16, 0);
        p
    };
    for down in [true, false] {
        let passed = rig.whither(&mld(1, 143, "ff02::16"), down);
        assert_eq!(passed, Ok(down.then_some(Next::Emit)));
        for other in [(64, 143, "ff02::16"), (1, 128, "ff02::16"), (1, 143, "2001:db8::9")] {
            let passed = rig.whither(&mld(other.0, other.1, other.2), down);
            assert!(!matches!(passed, Ok(None | Some(Next::Emit))), "{other:?} {passed:?}");
        }
    }
}

#[test]
fn inline_stages_take_any_octets_and_lose_no_packet_and_no_link_header() {
    let (mut rig, mut rng) = (Rig::new(), Rng::new(11));
    let esp = [&0x1001_u32.to_be_bytes()[..], &[0; 60]].concat();
    let seeds = [
        frame(MAC, &[], 0x0800, &ip4([192, 0, 2, 2], [192, 0, 2, 1], 50, &esp)),
        frame(
            MAC,
            &[0x81, 0, 0, 0],
            0x86dd,
            &[&[0x60, 0, 0, 0, 0, 8, 50, 9][..], &[1; 60]].concat(),
        ),
        frame(MAC, &[], 0x0800, &ip4([10, 2, 0, 1], [10, 1, 0, 1], 17, &[0; 40])),
    ];
    for round in 0..20_000 {
        let mut octets = seeds[round % seeds.len()].clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(octets.len() as u64) as usize;
            octets[at] = rng.below(256) as u8;
        }
        octets.truncate(rng.below(octets.len() as u64 + 1) as usize);
        let down = rng.below(2) == 0;
        if let Ok((next, mut packet)) = rig.push(&octets, down) {
            let before = packet.len();
            if matches!(next, Some(Next::EspIn | Next::Policy)) {
                packet.meta_mut().ethertype = 0x86dd;
                rig.links.restore(&mut packet).unwrap();
                let link = packet.len() - before;
                assert_eq!(packet.data()[..link - 2], octets[..link - 2], "the link header");
                assert_eq!(packet.data()[link - 2..link], [0x86, 0xdd], "of what it is now");
            }
            rig.cache.recycle(packet);
        }
        assert_eq!(rig.held(), 0);
    }
}

#[test]
fn inline_link_headers_are_bounded() {
    let mut rig = Rig::new();
    let octets = frame(MAC, &[], 0x0800, &[0x45; 60]);
    let mut packet = rig.cache.packet_from(&octets).unwrap();
    for _ in 0..LINKS_MAX {
        rig.links.save(&mut packet, 14).unwrap();
        packet.prepend(14).unwrap();
    }
    assert_eq!(rig.links.save(&mut packet, 14), Err(DropReason::EngineFull));
    assert_eq!(rig.held(), LINKS_MAX);
}
