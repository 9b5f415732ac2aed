//! Push, swap, pop, penultimate-hop popping, explicit null, TTL models.

use super::Rig;
use crate::graph::Next;
use crate::mpls::config::Operation;
use crate::mpls::switch::POPS_MAX;
use crate::mpls::{Ilm, IlmAction, Lfib, Switch};
use crate::route::TtlModel::{self, Pipe, Uniform};
use crate::route::tests::rig::{Rig as RouteRig, adjacency, dropped, sent, v4, v6};
use crate::route::{TIME_EXCEEDED_V4, TIME_EXCEEDED_V6, TOO_BIG_V4, TOO_BIG_V6};
use crate::tables::Tables;
use ferrule_base::{DropReason, VrfId};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, Protocol, ipv4, mpls};
use std::collections::BTreeSet;

fn forward(labels: &[u32], adjacency: u32) -> IlmAction {
    IlmAction::Forward(labels.iter().copied().collect(), adjacency)
}

/// One label, 100, and two that end here: 900 for our own address, 901 for a
/// VPN; 902 is a pseudowire.
fn rig(action: IlmAction, ttl: TtlModel) -> Rig<Switch> {
    let lfib = Lfib::new([
        (100, Ilm { action, ttl }),
        (900, Ilm { action: IlmAction::Ip(VrfId::GLOBAL), ttl }),
        (901, Ilm { action: IlmAction::Ip(VrfId(3)), ttl }),
        (902, Ilm { action: IlmAction::Pw(7), ttl }),
    ]);
    Rig::new(Tables { lfib, ..Tables::default() })
}

/// Label, class, bottom, TTL: the top first.
type Stack<'a> = &'a [(u32, u8, bool, u8)];

fn octets(stack: Stack<'_>, payload: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = stack
        .iter()
        .flat_map(|&(l, class, bottom, ttl)| mpls::encode(l, class, bottom, ttl))
        .collect();
    out.extend(payload);
    out
}

fn ip_v4(ttl: u8) -> Vec<u8> {
    let mut packet = v4("10.0.0.1", "10.0.0.2", Protocol::UDP, &[1; 20]);
    ferrule_wire::FromBytes::mut_from_prefix(&mut packet)
        .map(|(h, _): (&mut ipv4::Header, _)| h.set_ttl(ttl))
        .unwrap();
    packet
}

fn ip_v6(ttl: u8) -> Vec<u8> {
    let mut packet = v6("2001:db8::1", "2001:db8::2", Protocol::UDP, &[1; 20]);
    packet[7] = ttl;
    packet
}

impl Rig<Switch> {
    #[track_caller]
    fn goes(&mut self, stack: Stack<'_>, payload: &[u8]) -> (Next, Packet) {
        let packet = self.packet(&octets(stack, payload));
        sent(self.run(packet))
    }

    #[track_caller]
    fn ends(&mut self, stack: Stack<'_>, payload: &[u8]) -> DropReason {
        let packet = self.packet(&octets(stack, payload));
        dropped(self.run(packet))
    }
}

#[test]
fn mpls_swap_keeps_class_bottom_and_what_lies_below_and_takes_one_hop() {
    for ttl in [Uniform, Pipe] {
        let mut rig = rig(forward(&[200], 5), ttl);
        let below = octets(&[(300, 1, true, 9)], &ip_v4(64));
        let (next, packet) = rig.goes(&[(100, 6, false, 40)], &below);
        assert_eq!(next, Next::Output);
        assert_eq!(packet.data(), octets(&[(200, 6, false, 39)], &below));
        assert_eq!((packet.meta().adjacency, packet.meta().ethertype), (5, EtherType::MPLS.0));
        let (_, packet) = rig.goes(&[(100, 0, true, 2)], &[0xaa]);
        assert_eq!(packet.data(), octets(&[(200, 0, true, 1)], &[0xaa]));
    }
}

#[test]
fn mpls_push_above_a_swap_follows_the_ttl_model() {
    for (ttl, outer) in [(Uniform, 39), (Pipe, 255)] {
        let mut rig = rig(forward(&[200, 201, 202], 5), ttl);
        let (_, packet) = rig.goes(&[(100, 3, true, 40)], &[1, 2]);
        let want = [(202, 3, false, outer), (201, 3, false, outer), (200, 3, true, 39)];
        assert_eq!(packet.data(), octets(&want, &[1, 2]));
    }
}

#[test]
fn mpls_push_without_head_room_is_a_drop() {
    let mut rig = rig(forward(&[200, 201], 5), Uniform);
    let mut packet = rig.packet(&octets(&[(100, 3, true, 40)], &[1, 2]));
    let room = packet.head_room();
    packet.prepend(room).unwrap();
    packet.data_mut()[..4].copy_from_slice(&mpls::encode(100, 0, true, 9));
    assert_eq!(dropped(rig.run(packet)), DropReason::NoRoom);
}

#[test]
fn mpls_php_uniform_carries_the_lower_ttl_into_the_next_label() {
    for (ttl, outer, inner, want) in
        [(Uniform, 40, 64, 39), (Uniform, 40, 20, 20), (Pipe, 40, 64, 64), (Pipe, 2, 1, 1)]
    {
        let mut rig = rig(forward(&[], 5), ttl);
        let (next, packet) = rig.goes(&[(100, 6, false, outer), (300, 2, true, inner)], &ip_v4(9));
        assert_eq!((next, packet.meta().ethertype), (Next::Output, EtherType::MPLS.0));
        assert_eq!(packet.data(), octets(&[(300, 2, true, want)], &ip_v4(9)));
    }
}

#[test]
fn mpls_php_at_the_bottom_uncovers_ip_of_either_version() {
    for (ttl, label, inner, want) in
        [(Uniform, 40, 64, 39), (Uniform, 40, 20, 20), (Pipe, 40, 64, 64)]
    {
        let mut rig = rig(forward(&[], 5), ttl);
        let (next, packet) = rig.goes(&[(100, 0, true, label)], &ip_v4(inner));
        assert_eq!((next, packet.meta().ethertype), (Next::Output, EtherType::IPV4.0));
        assert_eq!(packet.data(), ip_v4(want), "checksum included");
        let (_, packet) = rig.goes(&[(100, 0, true, label)], &ip_v6(inner));
        assert_eq!((packet.data(), packet.meta().ethertype), (&ip_v6(want)[..], EtherType::IPV6.0));
        assert_eq!(packet.meta().adjacency, 5);
        assert_eq!(rig.ends(&[(100, 0, true, 9)], &[0x50; 40]), DropReason::UnknownProtocol);
        assert_eq!(rig.ends(&[(100, 0, true, 9)], &[0x45; 19]), DropReason::Malformed);
        assert_eq!(rig.ends(&[(100, 0, true, 9)], &[]), DropReason::Malformed);
        assert_eq!(rig.ends(&[(100, 0, false, 9)], &[0; 3]), DropReason::Malformed);
    }
}

#[test]
fn mpls_pop_at_the_egress_leaves_the_hop_to_the_ip_stage() {
    for (ttl, label, inner, want) in
        [(Uniform, 40, 64, 40), (Uniform, 40, 20, 20), (Uniform, 1, 64, 1), (Pipe, 40, 64, 64)]
    {
        let mut rig = rig(forward(&[], 5), ttl);
        for (payload, want, ethertype) in [
            (ip_v4(inner), ip_v4(want), EtherType::IPV4),
            (ip_v6(inner), ip_v6(want), EtherType::IPV6),
        ] {
            let (next, packet) = rig.goes(&[(901, 0, true, label)], &payload);
            assert_eq!((next, packet.meta().vrf), (Next::Ip, VrfId(3)));
            assert_eq!((packet.data(), packet.meta().ethertype), (&want[..], ethertype.0));
        }
    }
}

/// Ingress with TTL 64, a label for each LSP hop, egress: the TTL that the
/// packet leaves with (RFC 3443 section 3; n hops on the path, of which the
/// pipe model counts two).
#[test]
fn mpls_ttl_models_end_to_end_with_and_without_php() {
    for (ttl, php, want) in
        [(Uniform, false, 60), (Uniform, true, 60), (Pipe, false, 62), (Pipe, true, 62)]
    {
        // The ingress took a hop and pushed; two swaps; the last hop but one.
        let start = if ttl == Uniform { 63 } else { 255 };
        let mut swap = rig(forward(&[100], 5), ttl);
        let mut last = rig(if php { forward(&[], 5) } else { forward(&[901], 5) }, ttl);
        let (_, packet) = swap.goes(&[(100, 0, true, start)], &ip_v4(63));
        let (_, packet) = last.goes(&[], packet.data());
        let at_egress = if php {
            // The Ip stage of the egress takes the last hop.
            packet.data().to_vec()
        } else {
            let (next, packet) = swap.goes(&[], packet.data());
            assert_eq!(next, Next::Ip);
            packet.data().to_vec()
        };
        assert_eq!(at_egress, ip_v4(want + 1), "{ttl:?} {php}");
    }
}

#[test]
fn mpls_ttl_of_one_goes_no_further() {
    for ttl in [0, 1] {
        for action in [forward(&[200], 5), forward(&[], 5)] {
            let mut rig = rig(action, Uniform);
            let no_ip = [0; 60];
            assert_eq!(rig.ends(&[(100, 0, true, ttl)], &no_ip), DropReason::TtlExpired);
            assert_eq!(rig.ends(&[(902, 0, true, ttl)], &[0; 60]), DropReason::TtlExpired);
        }
        // In the pipe model no error may be sent; in the uniform one the IP stage sends it.
        let mut pipe = rig(forward(&[], 5), Pipe);
        assert_eq!(pipe.ends(&[(901, 0, true, ttl)], &ip_v4(64)), DropReason::TtlExpired);
        let stack = [(900, 0, false, ttl), (901, 0, true, 64)];
        assert_eq!(pipe.ends(&stack, &ip_v4(64)), DropReason::TtlExpired);
        let mut uniform = rig(forward(&[], 5), Uniform);
        let (next, packet) = uniform.goes(&[(901, 0, true, ttl)], &ip_v4(64));
        assert_eq!((next, packet.data()), (Next::Ip, &ip_v4(ttl)[..]));
    }
}

/// RFC 3032 section 2.4.2, RFC 4950: the message tells the labels as they came.
#[test]
fn mpls_expiry_within_a_path_is_told_with_all_labels_as_they_came() {
    let pushed = [(100, 5, false, 1), (300, 0, true, 9)];
    let alert = [(1, 3, false, 9), (100, 5, false, 1), (300, 0, true, 9)];
    let inner = [(900, 0, false, 9), (100, 0, true, 1)];
    // At the end of one path, with a label of the next below.
    let last = [(900, 0, false, 1), (901, 0, true, 64)];
    for stack in [&pushed[..], &alert, &inner, &last] {
        let cases = [(ip_v4(64), TIME_EXCEEDED_V4), (ip_v6(64), TIME_EXCEEDED_V6)];
        for (payload, kind) in cases {
            let mut rig = rig(forward(&[200], 0), Uniform);
            let (next, packet) = rig.goes(stack, &payload);
            assert_eq!((next, packet.meta().icmp), (Next::IcmpError, kind));
            assert_eq!(packet.data(), octets(stack, &payload));
        }
    }
}

/// A frame of a pseudowire without control word, whose destination begins with a 4 or a 6.
#[test]
fn mpls_expiry_of_a_frame_that_begins_like_ip_is_not_told() {
    for first in [0x45, 0x60] {
        let mut rig = rig(forward(&[200], 0), Uniform);
        let mut frame = [0x11; 120];
        frame[0] = first;
        assert_eq!(rig.ends(&[(100, 0, true, 1)], &frame), DropReason::TtlExpired);
    }
}

/// RFC 3032 section 3.4, over a link of 1500 octets.
#[test]
fn mpls_stack_too_long_for_the_link_is_cut_or_told() {
    let router = RouteRig::new().tables;
    let mut rig = rig(forward(&[200, 201], 1), Uniform);
    let lfib = std::mem::take(&mut rig.tables.lfib);
    rig.tables = Tables { lfib, ..router };
    let payload = |fragment: u16| {
        let mut packet = v4("10.0.0.1", "10.0.0.2", Protocol::UDP, &[7; 1473]);
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        ipv4::fill_checksum(&mut packet);
        packet
    };
    // 1493 octets of IP and three labels, of which two replace one.
    let stack = [(100, 5, false, 64), (300, 0, true, 9)];
    let (next, packet) = rig.goes(&stack, &payload(0x4000));
    assert_eq!(
        (next, packet.meta().icmp, packet.meta().limit),
        (Next::IcmpError, TOO_BIG_V4, 1488)
    );
    assert_eq!(packet.data(), octets(&stack, &payload(0x4000)));

    let packet = rig.packet(&octets(&stack, &payload(0)));
    let pieces = rig.run(packet);
    assert_eq!(pieces.len(), 2);
    let mut whole = 0;
    for piece in pieces {
        let (next, piece) = sent(vec![piece]);
        assert_eq!((next, &piece.data()[..8]), (Next::Mpls, &octets(&stack, &[])[..]));
        let (header, part) = ipv4::Repr::parse(&piece.data()[8..]).unwrap();
        whole += part.len();
        assert!(header.len() + part.len() <= 1488);
    }
    assert_eq!(whole, 1473);

    let v6 = v6("2001:db8::1", "2001:db8::2", Protocol::UDP, &[1; 1453]);
    let (next, packet) = rig.goes(&stack, &v6);
    assert_eq!(
        (next, packet.meta().icmp, packet.meta().limit),
        (Next::IcmpError, TOO_BIG_V6, 1488)
    );
    let mut fits = payload(0x4000)[..1488].to_vec();
    fits[2..4].copy_from_slice(&1488_u16.to_be_bytes());
    ipv4::fill_checksum(&mut fits);
    assert_eq!(rig.goes(&stack, &fits).0, Next::Output);
}

/// RFC 6790 sections 4.1 and 4.3.
#[test]
fn mpls_entropy_label_ends_with_its_path() {
    for below in [900, 901, 902] {
        let mut rig = rig(forward(&[200], 5), Uniform);
        // As the last hop but one left it, and below a label of our own.
        let bare = [(7, 0, false, 60), (77_777, 0, false, 0), (below, 0, true, 50)];
        let covered = [&[(900, 0, false, 61)][..], &bare].concat();
        let plain = rig.goes(&[(below, 0, true, 50)], &ip_v4(64));
        for stack in [&bare[..], &covered] {
            let (next, packet) = rig.goes(stack, &ip_v4(64));
            assert_eq!((next, packet.data()), (plain.0, plain.1.data()));
        }
    }
    // Nothing below it but IP: the tunnel's own.
    let mut rig = rig(forward(&[200], 5), Uniform);
    for label in [16, 2] {
        let (next, packet) = rig.goes(&[(7, 0, false, 60), (label, 0, true, 0)], &ip_v4(64));
        assert_eq!((next, packet.data()), (Next::Ip, &ip_v4(60)[..]));
    }
    // An indicator without its label, and without end.
    assert_eq!(rig.ends(&[(7, 0, true, 60)], &ip_v4(64)), DropReason::ReservedLabel);
    assert_eq!(rig.ends(&[(7, 0, false, 60)], &[]), DropReason::Malformed);
    let endless = [(7, 0, false, 60), (16, 0, false, 0)].repeat(POPS_MAX + 1);
    assert_eq!(rig.ends(&endless, &ip_v4(64)), DropReason::LabelStack);
}

#[test]
fn mpls_paths_of_equal_cost_are_taken_by_flow_and_those_that_answer() {
    let mut tables = RouteRig::new().tables;
    // A second router on the link, not yet resolved.
    let silent = tables.neighbours.reserve(1, "10.1.0.3".parse().unwrap());
    tables.adjacencies.push(adjacency(1, silent));
    let paths = [([200].into_iter().collect(), 1), ([201].into_iter().collect(), 1)];
    let balance = |paths: &[(crate::route::Labels, u32)]| IlmAction::Balance(paths.into());
    let mut rig = rig(balance(&paths), Uniform);
    let lfib = std::mem::take(&mut rig.tables.lfib);
    rig.tables = Tables { lfib, ..tables };
    let label = |rig: &mut Rig<Switch>, stack: Stack<'_>, payload: &[u8]| {
        let (next, packet) = rig.goes(stack, payload);
        assert_eq!((next, packet.meta().adjacency), (Next::Output, 1));
        mpls::decode(*packet.data().first_chunk().unwrap()).0
    };
    // Flows below one label go both ways, by ports or by their entropy label.
    let (mut by_port, mut by_entropy, mut by_frame) = ([0; 2], [0; 2], [0; 2]);
    for flow in 0..200_u16 {
        let mut packet = ip_v4(64);
        packet[20..22].copy_from_slice(&flow.to_be_bytes());
        by_port[label(&mut rig, &[(100, 0, true, 9)], &packet) as usize - 200] += 1;
        let entropy = 1000 + u32::from(flow);
        let stack = [(100, 0, false, 9), (7, 0, false, 9), (entropy, 0, true, 0)];
        by_entropy[label(&mut rig, &stack, &ip_v4(64)) as usize - 200] += 1;
        // A pseudowire without control word: destination 45:…, data that differ.
        let mut frame = [0x45; 100];
        frame[20..22].copy_from_slice(&flow.to_be_bytes());
        by_frame[label(&mut rig, &[(100, 0, true, 9)], &frame) as usize - 200] += 1;
    }
    assert!(by_port.iter().chain(&by_entropy).all(|n| (70..130).contains(n)));
    assert!(by_frame.contains(&200), "one pseudowire, one path: {by_frame:?}");

    let paths = [([200].into_iter().collect(), 2), ([201].into_iter().collect(), 1)];
    rig.tables.lfib = Lfib::new([(100, Ilm { action: balance(&paths), ttl: Uniform })]);
    for flow in 0..50_u16 {
        let mut packet = ip_v4(64);
        packet[20..22].copy_from_slice(&flow.to_be_bytes());
        assert_eq!(label(&mut rig, &[(100, 0, true, 9)], &packet), 201);
    }
}

#[test]
fn mpls_labels_with_several_paths_have_their_own_wherever_they_stand() {
    let all = |labels: [u32; 2]| {
        let paths = labels.map(|label| ([label, 300].into_iter().collect(), 1));
        Ilm { action: IlmAction::Balance(paths.into()), ttl: Uniform }
    };
    let own = Ilm { action: IlmAction::Ip(VrfId::GLOBAL), ttl: Uniform };
    let lfib = Lfib::new([(100, all([200, 201])), (101, all([210, 211])), (900, own)]);
    let mut rig: Rig<Switch> = Rig::new(Tables { lfib, ..RouteRig::new().tables });
    for (label, new) in [(100, [200, 201]), (101, [210, 211])] {
        let mut used = BTreeSet::new();
        for flow in 0..40_u16 {
            let mut packet = ip_v4(64);
            packet[20..22].copy_from_slice(&flow.to_be_bytes());
            // At the top, below a label of this node's own, and below a router alert.
            let stack = [(label, 0, true, 9)];
            let below = |above| [(above, 0, false, 9), stack[0]];
            for stack in [&stack[..], &below(900), &below(1)] {
                let (next, packet) = rig.goes(stack, &packet);
                assert_eq!((next, packet.meta().adjacency), (Next::Output, 1));
                let labels = packet.data().as_chunks::<4>().0.iter();
                let labels = labels.map(|&entry| mpls::decode(entry).0);
                used.extend(labels.take(3).find(|label| (200..300).contains(label)));
            }
        }
        assert_eq!(Vec::from_iter(used), new);
    }
    // Too long for the link by what the path adds to the label that goes.
    let mut packet = v4("10.0.0.1", "10.0.0.2", Protocol::UDP, &[7; 1473]);
    packet[6] = 0x40;
    ipv4::fill_checksum(&mut packet);
    let (next, told) = rig.goes(&[(101, 0, true, 64)], &packet);
    assert_eq!((next, told.meta().icmp, told.meta().limit), (Next::IcmpError, TOO_BIG_V4, 1492));
    // Without a path there is no such label.
    let none = Ilm { action: IlmAction::Balance([].into()), ttl: Uniform };
    rig.tables.lfib = Lfib::new([(100, none), (101, all([210, 211]))]);
    assert_eq!(rig.ends(&[(100, 0, true, 9)], &ip_v4(64)), DropReason::NoLabel);
}

#[test]
fn mpls_explicit_null_is_popped_wherever_it_stands() {
    let mut rig = rig(forward(&[200], 5), Uniform);
    let (next, packet) = rig.goes(&[(0, 0, true, 40)], &ip_v4(64));
    assert_eq!((next, packet.meta().vrf, packet.data()), (Next::Ip, VrfId(0), &ip_v4(40)[..]));
    let (next, packet) = rig.goes(&[(2, 0, true, 40)], &ip_v6(64));
    assert_eq!((next, packet.meta().vrf, packet.data()), (Next::Ip, VrfId(0), &ip_v6(40)[..]));
    // RFC 4182: not at the bottom. The lower TTL holds for what comes next.
    let (_, packet) = rig.goes(&[(0, 0, false, 40), (100, 0, true, 64)], &[]);
    assert_eq!(packet.data(), octets(&[(200, 0, true, 39)], &[]));
    assert_eq!(rig.ends(&[(0, 0, true, 40)], &ip_v6(64)), DropReason::UnknownProtocol);
    assert_eq!(rig.ends(&[(2, 0, true, 40)], &ip_v4(64)), DropReason::UnknownProtocol);
}

#[test]
fn mpls_reserved_and_unknown_labels_are_dropped() {
    let special = Ilm { action: forward(&[200], 5), ttl: Uniform };
    let lfib = Lfib::new((0..16).filter(|l| l % 2 == 1).map(|label| (label, special.clone())));
    let mut rig: Rig<Switch> = Rig::new(Tables { lfib, ..Tables::default() });
    for label in (1..16).filter(|&label| label != 2) {
        assert_eq!(rig.ends(&[(label, 0, true, 9)], &ip_v4(9)), DropReason::ReservedLabel);
    }
    for label in [16, 100, 0xf_ffff] {
        assert_eq!(rig.ends(&[(label, 0, true, 9)], &ip_v4(9)), DropReason::NoLabel);
    }
    assert_eq!(rig.tally.work.lookups, 17);
}

#[test]
fn mpls_implicit_null_is_never_sent() {
    let mut rig = rig(forward(&[3], 5), Uniform);
    let (_, packet) = rig.goes(&[(100, 0, true, 40)], &ip_v4(64));
    assert_eq!(packet.data(), ip_v4(39));
}

#[test]
fn mpls_stack_that_contradicts_the_label_is_dropped() {
    let mut rig = rig(forward(&[200], 5), Uniform);
    let more = octets(&[(100, 0, true, 9)], &ip_v4(9));
    assert_eq!(rig.ends(&[(901, 0, false, 9)], &more), DropReason::LabelStack);
    assert_eq!(rig.ends(&[(902, 0, false, 9)], &more), DropReason::LabelStack);
    let all: Vec<_> = (0..=POPS_MAX).map(|_| (900, 0, false, 64)).collect();
    assert_eq!(rig.ends(&all, &more), DropReason::LabelStack);
    assert_eq!(rig.goes(&all[2..], &more).0, Next::Output);
}

#[test]
fn mpls_pseudowire_label_may_stand_below_one_of_our_own() {
    let mut rig = rig(forward(&[200], 5), Uniform);
    let (next, packet) = rig.goes(&[(900, 0, false, 9), (902, 0, true, 2)], &[7; 60]);
    assert_eq!((next, packet.meta().pw, packet.data()), (Next::PwIn, 7, &[7; 60][..]));
}

#[test]
fn mpls_lfib_finds_its_labels_and_no_others() {
    const LAST: u32 = (1 << 20) - 1;
    let pw = |i| Ilm { action: IlmAction::Pw(i), ttl: Uniform };
    let some = (0..5000).map(|i| (16 + u32::from(i) * 7, pw(i)));
    let lfib = Lfib::new(some.chain([(LAST, pw(5000))]));
    for label in (16..60_000).chain(LAST - 200..=LAST) {
        let found = lfib.slot(lfib.place(label)).map(|slot| match slot.operation {
            Operation::Pw(i) => i.into(),
            _ => panic!("of another label"),
        });
        let want = if label == LAST { 5000 } else { (label - 16) / 7 };
        let has = label == LAST || (label - 16).is_multiple_of(7) && want < 5000;
        assert_eq!(found, has.then_some(want));
    }
    let lfib = Lfib::new([1, 2].map(|i| (16, pw(i))));
    assert!(matches!(lfib.slot(lfib.place(16)).unwrap().operation, Operation::Pw(2)));
}
