//! The policy: order, first match, fragments, and both directions.

use super::*;
use crate::graph::FLAG_EXEMPT;
use crate::route::{Adjacency, Labels, TtlModel};
use crate::tables::{Iface, IfaceKind, RoutedIface, Tag};
use ferrule_base::{MacAddr, PortId};
use proptest::prelude::*;
use std::sync::Arc;

fn entry(selector: Selector, action: Action) -> PolicyEntry {
    PolicyEntry::new(selector, action)
}

/// SSH from site 1 stays in clear, its telnet is dropped, the rest is sealed.
fn policy() -> Spd {
    let site = || between("10.1.0.0/16", "10.2.0.0/16");
    let tcp = |port| Selector { remote_ports: Field::is(port), ..site().of(Protocol::TCP) };
    Spd::new(&[
        entry(tcp(22), Action::Bypass),
        entry(tcp(23), Action::Discard),
        entry(site(), Action::Protect(0)),
        entry(between("10.1.0.0/16", "10.3.0.0/16"), Action::Protect(1)),
        entry(between("10.1.0.0/16", "10.4.0.0/16"), Action::Protect(2)),
        entry(between("2001:db8:1::/48", "2001:db8:2::/48"), Action::Protect(0)),
        entry(between("2001:db8:1::/48", "::/0"), Action::Bypass),
    ])
    .unwrap()
}

fn outbound(spd: &Spd, packet: &[u8]) -> Result<Action, DropReason> {
    spd.outbound(packet).map(|decision| decision.action)
}

fn inbound(spd: &Spd, packet: &[u8]) -> Result<(), DropReason> {
    spd.inbound(packet)?.enter(&mut Hits::default(), packet.len())
}

fn tcp(port: u16, fragment: u16) -> Vec<u8> {
    let mut packet = inner(4, 60, 0);
    packet[9] = 6;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[20..22].copy_from_slice(&1025u16.to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet
}

/// The same packet as its answer: both ends changed.
fn answer(mut packet: Vec<u8>) -> Vec<u8> {
    for at in [12, 20] {
        let half = if at == 12 { 4 } else { 2 };
        let (a, b) = packet[at..at + 2 * half].split_at_mut(half);
        a.swap_with_slice(b);
    }
    packet
}

#[test]
fn spd_first_match_decides_and_no_match_is_discard() {
    let spd = policy();
    assert_eq!(outbound(&spd, &tcp(22, 0)), Ok(Action::Bypass));
    assert_eq!(outbound(&spd, &tcp(23, 0)), Ok(Action::Discard));
    assert_eq!(outbound(&spd, &tcp(24, 0)), Ok(Action::Protect(0)));
    assert_eq!(outbound(&spd, &inner(4, 60, 0)), Ok(Action::Protect(0)), "UDP");
    assert_eq!(outbound(&spd, &inner(6, 60, 0)), Ok(Action::Protect(0)));
    let mut elsewhere = inner(6, 60, 0);
    elsewhere[29] = 9;
    assert_eq!(outbound(&spd, &elsewhere), Ok(Action::Bypass));
    elsewhere[13] = 9;
    assert_eq!(outbound(&spd, &elsewhere), Ok(Action::Discard));
    assert_eq!(outbound(&Spd::default(), &inner(4, 60, 0)), Ok(Action::Discard), "empty");
    for bad in [&[][..], &[0x45; 19], &[0x60; 39], &[0x50; 60]] {
        assert_eq!(outbound(&spd, bad), Err(DropReason::Malformed));
    }
}

#[test]
fn spd_inbound_lets_only_bypass_pass_in_clear() {
    let spd = policy();
    assert_eq!(inbound(&spd, &answer(tcp(22, 0))), Ok(()));
    assert_eq!(inbound(&spd, &answer(tcp(23, 0))), Err(DropReason::PolicyDiscard));
    assert_eq!(inbound(&spd, &answer(tcp(24, 0))), Err(DropReason::EspRequired));
    assert_eq!(inbound(&spd, &tcp(22, 0)), Err(DropReason::PolicyDiscard), "wrong way round");
}

#[test]
fn spd_later_fragments_have_no_ports_and_slip_past_no_entry() {
    let site = || between("10.1.0.0/16", "10.2.0.0/16");
    let port = |action| {
        let selector = Selector { remote_ports: Field::is(22), ..site().of(Protocol::TCP) };
        entry(selector, action)
    };
    let later = tcp(22, 100);
    let spd = |first, rest| Spd::new(&[port(first), entry(site(), rest)]).unwrap();
    let cases = [
        (Action::Bypass, Action::Protect(1), Action::Protect(1)),
        (Action::Protect(1), Action::Bypass, Action::Discard),
        (Action::Discard, Action::Bypass, Action::Discard),
        (Action::Bypass, Action::Bypass, Action::Bypass),
        (Action::Discard, Action::Protect(1), Action::Protect(1)),
    ];
    for (first, rest, expected) in cases {
        assert_eq!(outbound(&spd(first, rest), &later), Ok(expected), "{first:?}, {rest:?}");
    }
    let mut udp = later;
    udp[9] = 17;
    let clear = spd(Action::Protect(1), Action::Bypass);
    assert_eq!(outbound(&clear, &udp), Ok(Action::Bypass), "another protocol is not meant");
    assert_eq!(outbound(&clear, &tcp(22, 0x2000)), Ok(Action::Protect(1)), "the first has ports");
}

/// A later fragment, 9 units into its datagram, that says it is of this protocol.
fn later_v6(next: u8) -> Vec<u8> {
    let mut fragment = inner(6, 56, 0);
    fragment[6] = 44;
    fragment[40..48].copy_from_slice(&[next, 0, 0, 72, 0, 0, 0, 1]);
    fragment
}

#[test]
fn spd_later_fragment_of_ipv6_is_of_no_protocol_that_it_names() {
    let site = || between("2001:db8:1::/48", "2001:db8:2::/48");
    let udp = || site().of(Protocol::UDP);
    let port = || Selector { remote_ports: Field::is(9), ..udp() };
    let opaque = || Selector { protocol: Field::Opaque, ..site() };
    let unseen_ports = || Selector { remote_ports: Field::Opaque, ..udp() };
    let (bypass, discard) = (Action::Bypass, Action::Discard);
    let protect = Action::Protect(1);
    // Entries in order, and what becomes of a fragment that says it is UDP.
    let cases: [(&[(Selector, Action)], Action); 11] = [
        (&[(udp(), bypass)], discard),
        (&[(port(), bypass)], discard),
        (&[(udp(), protect)], discard),
        (&[(unseen_ports(), protect)], discard),
        (&[(site(), protect)], protect),
        (&[(opaque(), protect)], protect),
        (&[(udp(), bypass), (site(), protect)], protect),
        // Nobody knows whether the first entry means it: not in clear.
        (&[(udp(), protect), (site(), bypass)], discard),
        (&[(udp(), discard), (site(), bypass)], discard),
        // Unless a person says what becomes of what cannot be seen.
        (&[(opaque(), bypass), (udp(), discard), (site(), bypass)], bypass),
        (&[(udp(), discard), (opaque(), protect), (site(), bypass)], protect),
    ];
    for (number, (entries, expected)) in cases.into_iter().enumerate() {
        let entries: Vec<_> = entries.iter().map(|(s, a)| entry(s.clone(), *a)).collect();
        let spd = Spd::new(&entries).unwrap();
        for next in [17, 6, 60] {
            assert_eq!(outbound(&spd, &later_v6(next)), Ok(expected), "{number} {next}");
        }
        // The first fragment shows all.
        let mut first = later_v6(17);
        first[42..44].copy_from_slice(&[0, 1]);
        first[48..52].copy_from_slice(&[0, 7, 0, 9]);
        let shown = entries.iter().find(|e| e.selector != opaque() && e.selector != unseen_ports());
        let shown = shown.map_or(discard, |e| e.action);
        assert_eq!(outbound(&spd, &first), Ok(shown), "{number}");
    }
}

#[test]
fn spd_later_fragment_of_ipv6_comes_out_of_an_sa_for_whole_networks_or_opaque() {
    let site = between("2001:db8:2::/48", "2001:db8:1::/48");
    let admits = |selectors: Vec<Selector>| {
        let mut g: Gateway<Software> = Gateway::new(1);
        let suite = Suite::AesGcm(ferrule_crypto::Aes::Aes128);
        let inn = InboundConfig { selectors, ..super::inbound(suite, 6, true) };
        let (out, numbers) = (super::outbound(suite, 6, true), Sequence::unlimited(1, 99));
        g.out.install_at(&mut g.engine, 0, &out, numbers).unwrap();
        g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
        let sealed = g.sealed(&later_v6(17));
        g.open(&sealed)
    };
    let refused = End::Dropped(DropReason::EspSelectorMismatch);
    assert_eq!(admits(vec![site.clone().of(Protocol::UDP)]), refused);
    let opaque = Selector { protocol: Field::Opaque, ..site.clone() };
    for good in [vec![site.clone()], vec![site.of(Protocol::UDP), opaque]] {
        assert!(matches!(admits(good), End::Sent(Next::Ip, _)));
    }
}

#[test]
fn spd_reads_ports_behind_extension_headers() {
    let site = between("2001:db8:1::/48", "::/0");
    let selector = Selector { local_ports: Field::is(7), ..site.of(Protocol::UDP) };
    let spd = Spd::new(&[entry(selector, Action::Bypass)]).unwrap();
    let mut packet = inner(6, 40, 0);
    (packet[5], packet[6]) = (16, 60);
    packet.extend(hex("1100010400000000 0007000800080000"));
    assert_eq!(outbound(&spd, &packet), Ok(Action::Bypass));
    packet[49] = 8;
    assert_eq!(outbound(&spd, &packet), Ok(Action::Discard));
    packet[40] = 60;
    assert_eq!(outbound(&spd, &packet), Err(DropReason::Malformed), "a chain without end");
    // A later fragment whose upper layer is named in the first one alone.
    let mut fragment = inner(6, 40, 0);
    (fragment[5], fragment[6]) = (16, 44);
    fragment.extend(hex("3c00000900000001 ffffffffffffffff"));
    assert_eq!(outbound(&spd, &fragment), Ok(Action::Discard), "nobody knows whether it is UDP");
    let opaque = Selector { protocol: Field::Opaque, ..between("2001:db8:1::/48", "::/0") };
    let spd = Spd::new(&[entry(opaque, Action::Bypass)]).unwrap();
    assert_eq!(outbound(&spd, &fragment), Ok(Action::Bypass));
}

#[test]
fn spd_refuses_selectors_without_sense() {
    let wrong = |s: Selector| Spd::new(&[entry(s, Action::Bypass)]).err().map(|(_, e)| e);
    let any = || between("::/0", "::/0");
    let tcp = || any().of(Protocol::TCP);
    let families = between("10.0.0.0/8", "::/0");
    assert_eq!(wrong(families), Some(SelectorError::Families));
    let order = Addresses { first: ip("::2"), last: ip("::1") };
    assert_eq!(wrong(Selector { local: order, ..any() }), Some(SelectorError::Addresses));
    let ports = Field::Range(9, 8);
    assert_eq!(wrong(Selector { local_ports: ports, ..tcp() }), Some(SelectorError::Order));
    let ports = Field::is(8);
    assert_eq!(wrong(Selector { local_ports: ports, ..any() }), Some(SelectorError::Ports));
    assert_eq!(wrong(Selector { message: ports, ..tcp() }), Some(SelectorError::Message));
    let v4 = Selector { protocol: Field::Opaque, ..between("10.0.0.0/8", "0.0.0.0/0") };
    assert_eq!(wrong(v4), Some(SelectorError::OpaqueProtocol));
    assert_eq!(wrong(between("::/0", "::/128")), None);
}

fn boundary(policy: Option<u16>) -> Gateway<Software> {
    let mut g = Gateway::new(1);
    let routed = RoutedIface {
        vrf: VrfId::GLOBAL,
        mac: MacAddr::ZERO,
        mtu: 1500,
        v4: vec![],
        v6: vec![],
        mpls: false,
        policy,
        sources: None,
        clamp: None,
        has_card: false,
    };
    let kind = IfaceKind::Routed(routed);
    g.tables.ifaces = vec![Iface::new("wan", PortId(0), Tag::None, kind)];
    let (labels, ttl) = (Labels::new(), TtlModel::Uniform);
    g.tables.adjacencies = vec![Adjacency { labels, ttl, ..Adjacency::on_link(0) }];
    g.tables.policies = vec![self::policy().into()];
    g.tables.sas = SaDirectory::new(&[Some(0), Some(5)], &[]).unwrap().into();
    g
}

#[test]
fn policy_stage_protects_bypasses_discards_and_hands_off() {
    let mut g = boundary(Some(0));
    let mut to = |network: u8| {
        let mut packet = inner(4, 60, 0);
        packet[17] = network;
        g.push_policy([&packet[..]]).remove(0)
    };
    assert!(matches!(to(2), End::Sent(Next::EspOut, _)));
    assert_eq!(to(3), End::Handed(5, Next::EspOut), "the SA of another worker");
    assert_eq!(to(4), End::Dropped(DropReason::EspNoSa));
    assert_eq!(to(5), End::Dropped(DropReason::PolicyDiscard));
    assert!(matches!(g.push_policy([&tcp(22, 0)[..]])[0], End::Sent(Next::Output, _)));
    g.push_policy([&inner(4, 60, 0)[..]]);
    assert_eq!(g.metas[0].sa, 0, "the SA's index");
    assert_eq!(g.tally.work.lookups, 6);
    // With an SA of its own for the other's packets a worker hands over nothing.
    g.tables.sas.fill(1, 0, Some(OutboundPlace { index: 7, ..OutboundPlace::default() }));
    let mut packet = inner(4, 60, 0);
    packet[17] = 3;
    assert!(matches!(g.push_policy([&packet[..]])[0], End::Sent(Next::EspOut, _)));
    assert_eq!(g.metas[0].sa, 7);
}

/// Interfaces with the policy, with another, without one, with one that is not there; the
/// last adjacency has no interface.
fn boundaries() -> Gateway<Software> {
    let mut g = boundary(Some(0));
    let pass = entry(between("::/0", "::/0"), Action::Bypass);
    let pass = Spd::new(&[PolicyEntry { counter: 1, ..pass }]).unwrap();
    g.tables.policies =
        [self::policy().counting_rest(0), pass.counting_rest(2)].map(Arc::new).into();
    g.tally.hits.fit(&HitMap { generation: 1, carried: [UNCOUNTED; 3].into() });
    for (number, policy) in [(1, Some(1)), (2, None), (3, Some(9))] {
        g.tables.ifaces.append(&mut boundary(policy).tables.ifaces);
        g.tables.adjacencies.push(Adjacency { iface: number, ..g.tables.adjacencies[0].clone() });
    }
    g.tables.adjacencies.push(Adjacency { iface: 77, ..g.tables.adjacencies[0].clone() });
    g
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn policy_batch_ends_as_each_packet_alone(
        packets in proptest::collection::vec((0u32..7, 0u8..8, 0u8..6, 0u8..5), 0..=64),
    ) {
        let (mut alone, mut together) = (boundaries(), boundaries());
        let (mut expected, mut got) = (Told::new(), Told::new());
        let mut batch = Box::new(Batch::new());
        for (adjacency, network, kind, exempt) in packets {
            let mut octets = if kind < 4 { inner(4, 60, 0) } else { inner(6, 60, 0) };
            octets[17] = network;
            octets.truncate(if kind == 3 { 12 } else { 60 });
            let flags = if exempt == 0 { FLAG_EXEMPT } else { 0 };
            let meta = Meta { adjacency, flags, ..Meta::default() };
            let mut single = alone.batch([&octets[..]], meta);
            alone.policy.push(ctx!(alone), &mut single);
            tell(alone.ends(), &alone.metas, &mut expected);
            batch.push(together.packet(&octets, meta));
        }
        together.policy.push(ctx!(together), &mut batch);
        prop_assert!(batch.is_empty());
        tell(together.ends(), &together.metas, &mut got);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(together.tally.hits.all(), alone.tally.hits.all());
        prop_assert_eq!(together.tally.work, alone.tally.work);
    }
}

#[test]
fn policy_stage_is_closed_where_its_tables_have_holes() {
    let mut g = boundary(Some(9));
    let discard = [End::Dropped(DropReason::PolicyDiscard)];
    assert_eq!(g.push_policy([&tcp(22, 0)[..]]), discard, "no such policy");
    g.tables.adjacencies.clear();
    assert_eq!(g.push_policy([&tcp(22, 0)[..]]), discard, "no such adjacency");
    let mut g = boundary(None);
    assert!(matches!(g.push_policy([&tcp(23, 0)[..]])[0], End::Sent(Next::Output, _)));
}
