//! Stages remember what they found for the packet before: a batch is served as
//! its packets would be one by one.

use super::rig::*;
use crate::graph::{FLAG_EXEMPT, FLAG_LOCAL, Next};
use ferrule_base::MacAddr;
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{EtherType, Protocol};
use proptest::prelude::*;

/// A packet, and what stages know of it.
#[derive(Clone, Debug)]
struct Given {
    octets: Vec<u8>,
    place: u16,
    target: u32,
    flags: u8,
}

fn given(framed: bool) -> impl Strategy<Value = Given> {
    let destinations = vec![
        "10.0.0.2",
        "10.0.0.1",
        "10.9.0.7",
        "10.9.9.7",
        "10.9.7.7",
        "10.77.0.1",
        "224.0.0.1",
        "2001:db8::2",
        "2001:db8:9::7",
        "2001:db8::1",
        "2001:db8:77::1",
    ];
    let destination = prop::sample::select(destinations);
    let protocol = prop::sample::select(vec![Protocol::UDP, Protocol::ESP, Protocol::ICMPV6]);
    let flags = prop::sample::select(vec![0, 0, 0, FLAG_LOCAL, FLAG_EXEMPT]);
    let len = prop_oneof![3 => 0usize..100, 1 => 1400usize..1600];
    let shape = (destination, protocol, len, 0u8..5);
    (shape, 0u16..2, 0u32..4, flags).prop_map(
        move |((dst, protocol, len, group), place, target, flags)| {
            let (kind, octets) = if dst.contains(':') {
                (EtherType::IPV6, v6("2001:db8:5::9", dst, protocol, &vec![135; len]))
            } else {
                (EtherType::IPV4, v4("10.3.0.9", dst, protocol, &vec![135; len]))
            };
            let mac = if group == 0 { MacAddr::BROADCAST } else { own(place as u8) };
            let octets = if framed { frame(mac, HOST, kind, &octets) } else { octets };
            Given { octets, place, target, flags }
        },
    )
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    // One stage at a time. (What follows through several, whole nodes are asked about.)
    rig.out.watch(true);
    rig.routed(0).policy = Some(0);
    let labels = [16, 17].into_iter().collect();
    let (ttl, slot) = (Default::default(), rig.tables.adjacencies[1].neighbour);
    rig.tables.adjacencies.push(crate::route::Adjacency { iface: 2, neighbour: slot, labels, ttl });
    rig
}

fn packet(rig: &mut Rig, given: &Given, framed: bool) -> Packet {
    let mut packet = if framed { rig.packet(&given.octets) } else { rig.ip_packet(&given.octets) };
    let meta = packet.meta_mut();
    (meta.port.0, meta.target) = (given.place, given.target);
    if !framed {
        (meta.iface, meta.flags) = (given.place, given.flags);
    }
    packet
}

fn tell(fate: Fate) -> String {
    match &fate {
        Fate::Sent(_, packet) => format!("{:?} {fate:?}", packet.meta()),
        _ => format!("{fate:?}"),
    }
}

/// The same packets through the same stage, in one batch and one by one.
fn same(
    given: &[Given],
    framed: bool,
    alone: fn(&mut Rig, Packet) -> Vec<Fate>,
    together: fn(&mut Rig, Box<Batch>) -> Vec<Fate>,
) {
    let mut one = rig();
    let mut expected = Vec::new();
    for given in given {
        let packet = packet(&mut one, given, framed);
        expected.extend(alone(&mut one, packet).into_iter().map(tell));
    }
    let mut all = rig();
    let mut batch = Box::new(Batch::new());
    batch.extend(given.iter().map(|given| packet(&mut all, given, framed)));
    let mut got: Vec<_> = together(&mut all, batch).into_iter().map(tell).collect();
    // Next stages have queues of their own.
    expected.sort();
    got.sort();
    assert_eq!(got, expected);
    assert_eq!(all.tally.made, one.tally.made);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn batch_of_frames_is_attached_as_each_alone(
        given in prop::collection::vec(given(true), 0..40),
    ) {
        same(&given, true, Rig::run_attach, |rig, batch| rig.run_all(Rig::attach, batch));
    }

    #[test]
    fn batch_of_packets_is_forwarded_as_each_alone(
        given in prop::collection::vec(given(false), 0..40),
    ) {
        same(&given, false, Rig::run_ip, |rig, batch| rig.run_all(Rig::ip, batch));
    }

    #[test]
    fn batch_of_packets_is_put_out_as_each_alone(
        given in prop::collection::vec(given(false), 0..40),
    ) {
        same(&given, false, Rig::run_output, |rig, batch| rig.run_all(Rig::output, batch));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn packets_that_pass_stay_in_order_whatever_the_verdicts(
        verdicts in prop::collection::vec(
            prop_oneof![8 => Just(Ok(Next::Ip)), 1 => Just(Ok(Next::Emit)), 1 => any::<u8>().prop_map(Err)],
            0..=64,
        ),
        waiting in 0u8..3,
    ) {
        let mut rig = Rig::new();
        let mut batch = Box::new(Batch::new());
        batch.extend((0..verdicts.len()).map(|at| rig.packet(&[at as u8])));
        // Some were sent before.
        for _ in 0..waiting {
            let packet = rig.packet(&[99]);
            rig.out.send(Next::Ip, packet);
        }
        let (mut told, mut apart) = (verdicts.iter().copied(), Vec::new());
        let (_, parts) = Rig::ip(&mut rig);
        parts.ctx().pass(
            &mut batch,
            |_, _| told.next().expect("each is asked about once"),
            |ctx, packet, more| {
                apart.push((packet.data()[0], more));
                ctx.consume(packet);
            },
        );
        prop_assert!(batch.is_empty() && told.next().is_none());
        let all = (0u8..).zip(&verdicts);
        let errors: Vec<_> = all.clone().filter_map(|(at, v)| Some((at, v.err()?))).collect();
        prop_assert_eq!(apart, errors);
        for next in [Next::Ip, Next::Emit] {
            let sent: Vec<_> = rig.out.queue(next).drain(..).map(|p| p.data()[0]).collect();
            let before = if next == Next::Ip { waiting } else { 0 };
            let mut expected = vec![99; before.into()];
            expected.extend(all.clone().filter(|(_, v)| **v == Ok(next)).map(|(at, _)| at));
            prop_assert_eq!(sent, expected);
        }
    }
}

#[test]
fn no_place_is_passed_over_where_others_wait() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        if waits {
            // The run goes elsewhere; this one stays behind.
            for next in [Next::Local, Next::Ip] {
                let packet = rig.packet(&[0x45; 20]);
                rig.out.send(next, packet);
            }
            let mut run = Box::new(Batch::new());
            assert_eq!(rig.out.take_run(&mut run), Some(Next::Local));
        }
        let octets = v4("10.3.0.9", "10.9.0.7", Protocol::UDP, &[0; 8]);
        let octets = frame(own(0), HOST, EtherType::IPV4, &octets);
        let mut batch = Box::new(Batch::new());
        batch.extend((0..4).map(|_| rig.packet(&octets)));
        let (attach, parts) = Rig::attach(&mut rig);
        attach.push(&mut parts.ctx(), &mut batch);
        let behind = rig.out.queue(Next::Ip).len();
        assert_eq!(behind, if waits { 5 } else { 0 }, "they go behind the one that waits");
    }
}

#[test]
fn a_run_is_known_to_leave_by_one_port_for_as_long_as_it_is_what_was_sent_so() {
    let mut rig = Rig::new();
    let mut two = || Box::new(Batch::from_iter([rig.packet(&[0; 60]), rig.packet(&[0; 60])]));
    let (mut first, mut second, mut third) = (two(), two(), two());
    let (out, mut run) = (&mut rig.out, Box::new(Batch::new()));
    out.send_all(Next::Transmit, &mut first);
    assert!(!out.run_leaves_by_one_port(), "nobody said so");
    out.send_all_by_one_port(Next::Transmit, &mut second);
    assert!(!out.run_leaves_by_one_port(), "of the first two nobody said so");
    assert_eq!(out.take_run(&mut run), Some(Next::Transmit));

    let (mut four, mut one) = (std::mem::take(&mut run), Box::new(Batch::new()));
    one.extend(four.pop());
    out.send_all_by_one_port(Next::Transmit, &mut four);
    assert!(out.run_leaves_by_one_port());
    out.send_all(Next::Transmit, &mut one);
    assert!(!out.run_leaves_by_one_port(), "another joined them");
    assert_eq!(out.take_run(&mut run), Some(Next::Transmit));

    // A run of as many that comes after one which was taken, or which had to wait.
    run.truncate(2);
    out.send_all_by_one_port(Next::Transmit, &mut run);
    assert_eq!(out.take_run(&mut run), Some(Next::Transmit));
    out.send_all(Next::Transmit, &mut run);
    assert!(!out.run_leaves_by_one_port());
    assert_eq!(out.take_run(&mut run), Some(Next::Transmit));
    out.send_all_by_one_port(Next::Transmit, &mut run);
    assert_eq!(out.queue(Next::Transmit).len(), 2);
    out.send_all(Next::Transmit, &mut third);
    assert!(!out.run_leaves_by_one_port());
}

#[test]
fn packets_of_one_flow_stay_in_order_when_one_of_them_is_cut() {
    let mut rig = Rig::new();
    let mut batch = Box::new(Batch::new());
    for len in [10, 3000, 20] {
        let mut packet = rig.ip_packet(&v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &vec![0; len]));
        packet.meta_mut().target = 1;
        batch.push(packet);
    }
    let fates = rig.run_all(Rig::output, batch);
    let lens: Vec<_> = fates
        .iter()
        .map(|fate| match fate {
            Fate::Sent(Next::Emit | Next::Transmit, packet) => packet.len(),
            _ => panic!("{fate:?}"),
        })
        .collect();
    assert_eq!(lens, [44, 1514, 1514, 14 + 20 + 40, 54]);
}
