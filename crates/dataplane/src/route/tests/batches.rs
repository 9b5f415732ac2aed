//! A batch is served as its packets would be one by one, and what goes to one stage keeps
//! its order.

use super::rig::*;
use crate::graph::{
    Aside, FLAG_CUT, FLAG_EXEMPT, FLAG_GROUP, FLAG_LOCAL, FLAG_OPENED, FLAG_WHOLE, Next,
};
use crate::ipsec::{Action, PolicyEntry, Selector, Spd};
use crate::route::{Adjacency, Route, Vrf};
use ferrule_base::{DropReason, MacAddr, PortId, VrfId};
use ferrule_pipeline::{BATCH, Batch, Meta, Packet};
use ferrule_wire::{EtherType, Protocol, ipv4};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A packet, and what stages know of it.
#[derive(Clone, Debug)]
struct Given {
    octets: Vec<u8>,
    meta: Meta,
}

/// An IP packet that one thing or another may be wrong with.
fn ip_octets() -> impl Strategy<Value = (EtherType, Vec<u8>)> {
    let destinations = vec![
        "10.0.0.2",
        "10.0.0.1",
        "10.9.0.7",
        "10.9.9.7",
        "10.9.7.7",
        "10.8.0.7",
        "10.5.0.7",
        "10.77.0.1",
        "224.0.0.1",
        "169.254.0.7",
        "2001:db8::2",
        "2001:db8:9::7",
        "2001:db8::1",
        "2001:db8:77::1",
    ];
    let destination = prop::sample::select(destinations);
    let protocols = vec![Protocol::UDP, Protocol::TCP, Protocol::ESP, Protocol::ICMPV6];
    let protocol = prop::sample::select(protocols);
    let len = prop_oneof![3 => 0usize..100, 1 => 1400usize..1600];
    let hops = prop_oneof![6 => Just(64u8), 1 => 0u8..3];
    let wrong = prop_oneof![5 => Just(None), 1 => (0usize..60, any::<u8>()).prop_map(Some)];
    (destination, protocol, len, hops, wrong).prop_map(|(dst, protocol, len, hops, wrong)| {
        let (kind, mut octets) = if dst.contains(':') {
            let mut octets = v6("2001:db8:5::9", dst, protocol, &vec![135; len]);
            octets[7] = hops;
            (EtherType::IPV6, octets)
        } else {
            let mut octets = v4("10.3.0.9", dst, protocol, &vec![135; len]);
            octets[8] = hops;
            ipv4::fill_checksum(&mut octets);
            (EtherType::IPV4, octets)
        };
        if let Some((at, value)) = wrong
            && let Some(octet) = octets.get_mut(at)
        {
            *octet = value;
        }
        (kind, octets)
    })
}

fn given(framed: bool) -> impl Strategy<Value = Given> {
    let flags = vec![
        0,
        0,
        0,
        FLAG_LOCAL,
        FLAG_EXEMPT,
        FLAG_OPENED,
        FLAG_GROUP,
        FLAG_WHOLE,
        FLAG_LOCAL | FLAG_CUT,
    ];
    let turns = prop_oneof![8 => Just(0u8), 1 => 6u8..10];
    let meta = (0u16..3, 0u32..5, prop::sample::select(flags), 500u16..1600, turns, 0u16..3);
    let link = (0u8..6, prop_oneof![4 => Just(None), 1 => Just(Some(100u16)), 1 => Just(Some(7))]);
    (ip_octets(), meta, link).prop_map(
        move |((kind, octets), (iface, adjacency, flags, limit, turns, vrf), (to, tag))| {
            let meta = Meta { port: PortId(iface), ..Meta::default() };
            if !framed {
                let (ethertype, vrf) = (kind.0, VrfId(vrf));
                let meta = Meta { iface, adjacency, flags, limit, turns, vrf, ethertype, ..meta };
                return Given { octets, meta };
            }
            let mac = match to {
                0 => MacAddr::BROADCAST,
                1 => HOST,
                _ => own(iface as u8),
            };
            let mut octets = frame(mac, HOST, kind, &octets);
            if let Some(vid) = tag {
                let [high, low] = vid.to_be_bytes();
                octets.splice(12..12, [0x81, 0, high, low]);
            }
            Given { octets, meta }
        },
    )
}

/// Interface 0 has a policy, 1 limits TCP's segments; some packets go where a host is
/// guarded, some by an adjacency with labels, and some by one of several paths.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let prefix = |text: &str| (ip(text), 8);
    let pass = Selector::between(prefix("10.0.0.0"), prefix("10.0.0.0"));
    let pass = PolicyEntry::new(pass.of(Protocol::UDP), Action::Bypass);
    rig.tables.policies.push(Spd::new(&[pass]).unwrap().into());
    rig.routed(0).policy = Some(0);
    rig.routed(1).clamp = Some(1400);
    let guarded = ((ip("10.8.0.0"), 16), Route::Guarded(1));
    let more = ((ip("10.9.0.0"), 16), Route::Via(2));
    let several = ((ip("10.5.0.0"), 16), Route::Via(4));
    rig.tables.vrfs[1] = Vrf::new("red", [guarded, more, several]).into();
    let labels = [16, 17].into_iter().collect();
    let (ttl, slot) = (Default::default(), rig.tables.adjacencies[1].neighbour);
    rig.tables.adjacencies.push(Adjacency {
        neighbour: slot,
        labels,
        ttl,
        ..Adjacency::on_link(2)
    });
    rig.tables.adjacencies.push(adjacency(2, None));
    rig.tables.adjacencies.push(Adjacency { paths: [1, 2, 3].into(), ..adjacency(1, slot) });
    rig
}

fn packet(rig: &mut Rig, given: &Given) -> Packet {
    let mut packet = rig.packet(&given.octets);
    *packet.meta_mut() = given.meta;
    packet
}

/// The same packets through the same stage, in one batch and one by one.
fn same(
    given: &[Given],
    alone: fn(&mut Rig, Packet) -> Vec<Fate>,
    together: fn(&mut Rig, Box<Batch>) -> Vec<Fate>,
) {
    let (mut one, mut expected) = (rig(), Told::new());
    for given in given {
        let packet = packet(&mut one, given);
        tell(alone(&mut one, packet), &mut expected);
    }
    let (mut all, mut got) = (rig(), Told::new());
    let mut batch = Box::new(Batch::new());
    batch.extend(given.iter().map(|given| packet(&mut all, given)));
    tell(together(&mut all, batch), &mut got);
    assert_eq!(got, expected);
    assert_eq!((all.tally.made, all.tally.work), (one.tally.made, one.tally.work));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn batch_of_frames_is_attached_as_each_alone(
        given in prop::collection::vec(given(true), 0..40),
    ) {
        same(&given, Rig::run_attach, |rig, batch| rig.run_all(Rig::attach, batch));
    }

    #[test]
    fn batch_of_packets_is_forwarded_as_each_alone(
        given in prop::collection::vec(given(false), 0..40),
    ) {
        same(&given, Rig::run_ip, |rig, batch| rig.run_all(Rig::ip, batch));
    }

    #[test]
    fn batch_of_packets_is_put_out_as_each_alone(
        given in prop::collection::vec(given(false), 0..40),
    ) {
        same(&given, Rig::run_output, |rig, batch| rig.run_all(Rig::output, batch));
    }
}

fn verdict() -> impl Strategy<Value = Result<Next, Aside>> {
    let reason = prop::sample::select(vec![DropReason::NoRoute, DropReason::Malformed]);
    prop_oneof![
        16 => Just(Ok(Next::Ip)),
        2 => Just(Ok(Next::Emit)),
        1 => reason.prop_map(|reason| Err(Aside::Drop(reason))),
        1 => Just(Err(Aside::To(Next::Ip))),
        1 => (0u8..3).prop_map(|worker| Err(Aside::HandOff(worker, Next::EspOut))),
        1 => Just(Err(Aside::Consume)),
    ]
}

/// Something that is done to [`Outputs`](crate::Outputs).
#[derive(Clone, Debug)]
enum Step {
    Send(Next),
    SendAll(Next, usize),
    TakeRun,
    Drain(Next),
}

fn step() -> impl Strategy<Value = Step> {
    let next = || prop::sample::select(vec![Next::Ip, Next::Emit, Next::Transmit]);
    prop_oneof![
        8 => next().prop_map(Step::Send),
        3 => (next(), 1usize..=BATCH).prop_map(|(next, count)| Step::SendAll(next, count)),
        2 => Just(Step::TakeRun),
        1 => next().prop_map(Step::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn each_packet_goes_where_its_verdict_says_and_in_order(
        verdicts in prop::collection::vec(verdict(), 0..=BATCH), waiting in 0u8..3,
    ) {
        let mut rig = Rig::new();
        let mut batch = Box::new(Batch::new());
        batch.extend((0..verdicts.len()).map(|at| rig.packet(&[at as u8])));
        // Some were sent before.
        for _ in 0..waiting {
            let packet = rig.packet(&[99]);
            rig.out.send(Next::Ip, packet);
        }
        let mut told = verdicts.iter().copied();
        let (_, parts) = Rig::ip(&mut rig);
        parts.ctx().forward(&mut batch, |_, _| told.next().expect("each is asked about once"));
        prop_assert!(batch.is_empty() && told.next().is_none());
        let with = |which: &dyn Fn(Result<Next, Aside>) -> bool| -> Vec<u8> {
            (0u8..).zip(&verdicts).filter(|(_, v)| which(**v)).map(|(at, _)| at).collect()
        };
        for next in [Next::Ip, Next::Emit] {
            let sent: Vec<_> = rig.out.queue(next).drain(..).map(|p| p.data()[0]).collect();
            let before = if next == Next::Ip { waiting } else { 0 };
            let mut expected = vec![99; before.into()];
            expected.extend(with(&|v| v == Ok(next) || v == Err(Aside::To(next))));
            prop_assert_eq!(sent, expected);
        }
        let at = |packet: &Packet| verdicts[usize::from(packet.data()[0])];
        let dropped = rig.out.dropped();
        prop_assert!(dropped.iter().all(|(p, reason)| at(p) == Err(Aside::Drop(*reason))));
        let handed = rig.out.all_handoffs();
        prop_assert!(handed.iter().all(|(w, next, p)| at(p) == Err(Aside::HandOff(*w, *next))));
        let consumed = with(&|v| v == Err(Aside::Consume)).len();
        prop_assert_eq!(rig.tally.consumed as usize, consumed);
        prop_assert_eq!(handed.len(), with(&|v| matches!(v, Err(Aside::HandOff(..)))).len());
        prop_assert_eq!(rig.out.held(), with(&|v| matches!(v, Err(Aside::Drop(_)))).len());
    }

    /// A queue for each stage is the model.
    #[test]
    fn what_is_sent_to_one_stage_comes_out_in_the_order_in_which_it_was_sent(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut rig = Rig::new();
        let (mut model, mut number) = (BTreeMap::<Next, Vec<u16>>::new(), 0u16);
        let mut fresh = |rig: &mut Rig, next| {
            number += 1;
            model.entry(next).or_default().push(number);
            rig.packet(&number.to_be_bytes())
        };
        let read = |packet: Packet| u16::from_be_bytes(*packet.data().first_chunk().unwrap());
        let mut came = BTreeMap::<Next, Vec<u16>>::new();
        let mut run = Box::new(Batch::new());
        for step in steps {
            match step {
                // Not more than the pool has.
                Step::Send(_) | Step::SendAll(..) if rig.out.held() > 800 => {}
                Step::Send(next) => {
                    let packet = fresh(&mut rig, next);
                    rig.out.send(next, packet);
                }
                Step::SendAll(next, count) => {
                    let mut batch = Box::new(Batch::new());
                    batch.extend((0..count).map(|_| fresh(&mut rig, next)));
                    rig.out.send_all(next, &mut batch);
                    prop_assert!(batch.is_empty());
                }
                Step::TakeRun => {
                    if let Some(next) = rig.out.take_run(&mut run) {
                        prop_assert!(!run.is_empty());
                        came.entry(next).or_default().extend(run.drain(..).map(read));
                    }
                    prop_assert!(run.is_empty());
                }
                Step::Drain(next) => {
                    came.entry(next).or_default().extend(rig.out.queue(next).drain(..).map(read));
                }
            }
        }
        for next in Next::ALL {
            let all = rig.out.queue(next).drain(..).map(read);
            came.entry(next).or_default().extend(all);
        }
        came.retain(|_, packets| !packets.is_empty());
        prop_assert_eq!(came, model);
        prop_assert_eq!(rig.out.held(), 0);
    }
}

#[test]
fn packets_that_are_cut_come_back_in_pieces_and_in_order() {
    let mut rig = Rig::new();
    let mut batch = Box::new(Batch::new());
    for len in [10, 3000, 20] {
        let mut packet = rig.ip_packet(&v4("10.0.0.2", "10.9.0.7", Protocol::UDP, &vec![0; len]));
        packet.meta_mut().adjacency = 1;
        batch.push(packet);
    }
    let mut lens = (Vec::new(), Vec::new());
    let mut pieces = Box::new(Batch::new());
    for fate in rig.run_all(Rig::output, batch) {
        match fate {
            Fate::Sent(Next::Output, packet) => {
                lens.0.push(packet.len());
                pieces.push(packet);
            }
            Fate::Sent(Next::Transmit, packet) => lens.1.push(packet.len()),
            fate => panic!("{fate:?}"),
        }
    }
    assert_eq!(lens, (vec![1500, 1500, 60], vec![44, 54]));
    let fates = rig.run_all(Rig::output, pieces);
    let offsets = fates.iter().map(|fate| match fate {
        Fate::Sent(Next::Transmit, packet) => packet.data()[14 + 6..14 + 8].to_vec(),
        _ => panic!("{fate:?}"),
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [[0x20, 0], [0x20, 185], [0x01, 0x72]].map(Vec::from));
}
