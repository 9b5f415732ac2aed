//! Paths of equal cost: each flow keeps one, all together use all, and what does not answer
//! is passed over.

use super::rig::*;
use crate::graph::{FLAG_LOCAL, Next};
use crate::route::{Adjacency, Route, Vrf};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, Protocol, flow, mpls};
use std::collections::BTreeMap;

/// The number of the adjacency that stands for three paths, which have the next ones.
const GROUP: u32 = 2;
const PATHS: [u32; 3] = [3, 4, 5];

/// Routers .2, .3 and .4 on port 1 have the ways to everything.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let hops = ["10.1.0.2", "10.1.0.3", "10.1.0.4"].map(|hop| {
        rig.tables.neighbours.set(1, ip(hop), ROUTER);
        adjacency(1, rig.tables.neighbours.reserve(1, ip(hop)))
    });
    let group = Adjacency { paths: PATHS.into(), ..hops[0].clone() };
    rig.tables.adjacencies.extend([group].into_iter().chain(hops));
    let everything = ["0.0.0.0", "::"].map(|net| ((ip(net), 0), Route::Via(GROUP)));
    rig.tables.vrfs[0] = Vrf::new("global", everything).into();
    rig
}

/// A packet with ports.
fn udp(rig: &mut Rig, six: bool, port: u16) -> Packet {
    let payload = [&port.to_be_bytes()[..], &[0, 9, 0, 20, 0, 0], &[7; 12]].concat();
    let octets = match six {
        false => v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &payload),
        true => v6("2001:db8::2", "2001:db8:9::7", Protocol::UDP, &payload),
    };
    rig.ip_packet(&octets)
}

#[test]
fn ecmp_flows_keep_their_path_and_use_all_of_them_evenly() {
    for six in [false, true] {
        let mut rig = rig();
        let mut used = BTreeMap::new();
        for port in 0..3000 {
            let packet = udp(&mut rig, six, port);
            let (next, first) = sent(rig.run_ip(packet));
            assert_eq!(next, Next::Output);
            *used.entry(first.meta().adjacency).or_insert(0) += 1;
            // One of the same flow that goes the slow way, as made here.
            let mut packet = udp(&mut rig, six, port);
            packet.meta_mut().flags = FLAG_LOCAL;
            let (_, second) = sent(rig.run_ip(packet));
            assert_eq!(second.meta().adjacency, first.meta().adjacency);
        }
        assert_eq!(Vec::from_iter(used.keys().copied()), PATHS);
        assert!(used.values().all(|count| (900..1100).contains(count)), "{used:?}");
    }
}

#[test]
fn ecmp_path_that_does_not_answer_is_passed_over_and_other_flows_stay() {
    let mut rig = rig();
    let path = |rig: &mut Rig, port| {
        let packet = udp(rig, false, port);
        sent(rig.run_ip(packet)).1.meta().adjacency
    };
    let before: Vec<u32> = (0..300).map(|port| path(&mut rig, port)).collect();
    rig.tables.neighbours.remove(1, ip("10.1.0.3"));
    for (port, &before) in (0..).zip(&before) {
        let now = path(&mut rig, port);
        assert_ne!(now, PATHS[1]);
        assert!(before == PATHS[1] || now == before);
    }
    // No neighbour answers: the flow takes its own path, whose neighbour is looked for.
    ["10.1.0.2", "10.1.0.4"].iter().for_each(|hop| rig.tables.neighbours.remove(1, ip(hop)));
    assert!((0..).zip(before).all(|(port, before)| path(&mut rig, port) == before));
}

#[test]
fn entropy_label_is_the_flows_and_stands_below_the_outermost_without_a_hop() {
    let mut rig = rig();
    let adjacency = &mut rig.tables.adjacencies[1];
    (adjacency.entropy, adjacency.labels) = (true, [200, 100].into_iter().collect());
    let mut labels = BTreeMap::new();
    for port in 0..200 {
        let mut packet = udp(&mut rig, false, port % 100);
        packet.meta_mut().adjacency = 1;
        let (_, out) = sent(rig.run_output(packet));
        let (stack, behind) = mpls::Stack::parse(&out.data()[14..]).unwrap();
        let entries: Vec<_> =
            stack.entries().iter().map(|e| (e.label.get(), e.bottom, e.ttl)).collect();
        let [(100, false, 64), (7, false, 64), (entropy, false, 0), (200, true, 64)] = entries[..]
        else {
            panic!("{entries:?}")
        };
        assert!(entropy >= 16);
        assert_eq!(behind[0], 0x45);
        assert_eq!(*labels.entry(port % 100).or_insert(entropy), entropy);
    }
    let different: std::collections::BTreeSet<_> = labels.values().collect();
    assert!(different.len() > 95, "{different:?}");
}

#[test]
fn entropy_label_below_the_only_label_is_the_bottom_and_leaves_less_room() {
    let mut rig = rig();
    let adjacency = &mut rig.tables.adjacencies[1];
    (adjacency.entropy, adjacency.labels) = (true, [100].into_iter().collect());
    for (len, fits) in [(1488, true), (1489, false)] {
        let mut octets = v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &vec![7; len - 20]);
        octets[6] |= 0x40;
        ferrule_wire::ipv4::fill_checksum(&mut octets);
        let mut packet = rig.ip_packet(&octets);
        packet.meta_mut().adjacency = 1;
        let (next, out) = sent(rig.run_output(packet));
        assert_eq!(next == Next::Transmit, fits);
        if fits {
            let (stack, _) = mpls::Stack::parse(&out.data()[14..]).unwrap();
            assert_eq!(stack.entries().len(), 3);
            assert_eq!(out.len(), 14 + 1500);
        } else {
            assert_eq!(out.meta().limit, 1488);
        }
    }
}

/// A transit router that hashes the entropy label alone follows the hash of the ingress:
/// the path of a packet with an entropy label does not depend on the octets below the
/// label.
#[test]
fn entropy_label_decides_for_those_who_share_by_it() {
    let mut rig = rig();
    let adjacency = &mut rig.tables.adjacencies[1];
    (adjacency.entropy, adjacency.labels) = (true, [200, 100].into_iter().collect());
    let mut packet = udp(&mut rig, false, 5);
    packet.meta_mut().adjacency = 1;
    let (_, out) = sent(rig.run_output(packet));
    let mut stack = out.data()[14..].to_vec();
    let path = flow::path_hash(9, EtherType::MPLS, &stack);
    stack.truncate(12);
    assert_eq!(flow::path_hash(9, EtherType::MPLS, &stack), path);
}
