//! Laws that hold for any octets.

use super::pseudowire::{DOT1Q, ethernet, tables};
use super::{Rig, ends_as_each_alone};
use crate::graph::Next;
use crate::mpls::{Ilm, IlmAction, Lfib, Pseudowire, PwIn, PwMode, PwOut, Switch};
use crate::route::TtlModel;
use crate::route::tests::rig::sent;
use crate::tables::{Tables, Tag};
use ferrule_base::VrfId;
use ferrule_pipeline::Meta;
use ferrule_wire::mpls;
use proptest::collection::vec;
use proptest::prelude::*;

fn action() -> impl Strategy<Value = IlmAction> {
    prop_oneof![
        vec(0u32..30, 0..=4).prop_map(|l| IlmAction::Forward(l.into_iter().collect(), 1)),
        vec((vec(0u32..30, 0..=4), 0u32..3), 0..4).prop_map(|paths| {
            let path = |(labels, way): (Vec<u32>, u32)| (labels.into_iter().collect(), way);
            IlmAction::Balance(paths.into_iter().map(path).collect())
        }),
        (0u16..3).prop_map(|vrf| IlmAction::Ip(VrfId(vrf))),
        any::<u16>().prop_map(IlmAction::Pw),
    ]
}

fn entries() -> impl Strategy<Value = Vec<(u32, Ilm)>> {
    let model = prop_oneof![Just(TtlModel::Uniform), Just(TtlModel::Pipe)];
    vec((0u32..24, (action(), model).prop_map(|(action, ttl)| Ilm { action, ttl })), 0..12)
}

fn pseudowire() -> impl Strategy<Value = Pseudowire> {
    let mode = prop_oneof![Just(PwMode::Raw), any::<u16>().prop_map(PwMode::Tagged)];
    (mode, any::<[bool; 2]>(), any::<u8>()).prop_map(|(mode, [control_word, sequencing], ttl)| {
        Pseudowire {
            name: "law".into(),
            iface: 0,
            label_out: 16,
            adjacency: 0,
            control_word,
            sequencing,
            mode,
            ttl,
            spreads: false,
        }
    })
}

fn tag() -> impl Strategy<Value = Tag> {
    let vid = || 0u16..4095;
    prop_oneof![
        Just(Tag::None),
        vid().prop_map(|vid| Tag::Tag(DOT1Q, vid)),
        (vid(), vid()).prop_map(|(outer, inner)| Tag::Double([(0x88a8, outer), (DOT1Q, inner)])),
    ]
}

proptest! {
    /// Low labels, so that many of them are in the table.
    #[test]
    fn mpls_switch_takes_any_octets(
        entries in entries(),
        stack in vec((0u32..24, 0u8..8, any::<bool>(), any::<u8>()), 0..12),
        payload in vec(any::<u8>(), 0..80),
    ) {
        let mut rig: Rig<Switch> =
            Rig::new(Tables { lfib: Lfib::new(entries), ..Tables::default() });
        let mut octets: Vec<u8> =
            stack.iter().flat_map(|&(l, c, b, t)| mpls::encode(l, c, b, t)).collect();
        octets.extend(payload);
        let packet = rig.packet(&octets);
        prop_assert_eq!(rig.run(packet).len(), 1);
    }

    #[test]
    fn mpls_batch_ends_as_each_packet_alone(
        entries in entries(),
        packets in vec((vec((0u32..24, 0u8..8, any::<bool>(), any::<u8>()), 0..4), any::<bool>()), 0..40),
    ) {
        let given: Vec<_> = packets
            .into_iter()
            .map(|(stack, v6)| {
                let labels = stack.iter().flat_map(|&(l, c, b, t)| mpls::encode(l, c, b, t));
                let ip = if v6 { &[0x60; 48] } else { &[0x45; 48] };
                (labels.chain(*ip).collect(), Meta::default())
            })
            .collect();
        let rig = || -> Rig<Switch> {
            Rig::new(Tables { lfib: Lfib::new(entries.clone()), ..Tables::default() })
        };
        ends_as_each_alone(rig, &given);
    }

    #[test]
    fn vpws_batch_ends_as_each_frame_alone(
        first in pseudowire(), second in pseudowire(), tag in tag(), workers in 1u8..3,
        frames in vec((0u16..3, 0u16..4, vec(any::<u8>(), 0..60)), 0..40),
    ) {
        let tables = || Tables { workers, ..tables(tag, vec![first.clone(), second.clone()]) };
        let meta = |pw| Meta { pw, ..Meta::default() };
        let frame = |payload: &[u8]| ethernet(&[], payload);
        let out: Vec<_> = frames.iter().map(|(pw, _, p)| (frame(p), meta(*pw))).collect();
        ends_as_each_alone(|| -> Rig<PwOut> { Rig::new(tables()) }, &out);
        let word = |number: u16| [[0; 2], number.to_be_bytes()].concat();
        let inn = frames.iter().map(|(pw, number, p)| {
            ([word(*number), frame(p)].concat(), meta(*pw))
        });
        ends_as_each_alone(|| -> Rig<PwIn> { Rig::new(tables()) }, &inn.collect::<Vec<_>>());
    }

    #[test]
    fn vpws_stages_take_any_octets(
        pw in pseudowire(),
        tag in tag(),
        number in 0u16..2,
        octets in vec(any::<u8>(), 0..80),
    ) {
        let mut send: Rig<PwOut> = Rig::new(tables(tag, vec![pw.clone()]));
        let mut receive: Rig<PwIn> = Rig::new(tables(tag, vec![pw]));
        let (mut a, mut b) = (send.packet(&octets), receive.packet(&octets));
        (a.meta_mut().pw, b.meta_mut().pw) = (number, number);
        prop_assert_eq!(send.run(a).len(), 1);
        prop_assert_eq!(receive.run(b).len(), 1);
    }

    /// The frame as `Attach` sends it: without the interface's tag in raw mode,
    /// with it (or an empty one) in tagged mode.
    #[test]
    fn vpws_is_a_wire_in_every_mode_and_length(
        pw in pseudowire(),
        tag in tag(),
        priority in 0u16..8,
        inner in proptest::option::of(any::<u16>()),
        payload in vec(any::<u8>(), 0..1500),
    ) {
        let inner: Vec<_> = inner.map(|tci| (DOT1Q, tci)).into_iter().collect();
        let own: Vec<_> = match tag {
            Tag::Tag(tpid, vid) => vec![(tpid, vid)],
            Tag::Double(tags) => tags.into(),
            Tag::None => vec![],
        };
        // Nothing carries the priority of a tag that stays behind.
        let priority = if pw.mode == PwMode::Raw { 0 } else { priority << 13 };
        let own: Vec<_> = own.into_iter().map(|(tpid, vid)| (tpid, priority | vid)).collect();
        let on_the_wire: Vec<_> = own.iter().copied().chain(inner.clone()).collect();
        let attached: Vec<_> = match pw.mode {
            PwMode::Raw => inner,
            // The inner one of two.
            PwMode::Tagged(_) => {
                own.last().copied().or(Some((DOT1Q, 0))).into_iter().chain(inner).collect()
            }
        };
        let mut send: Rig<PwOut> = Rig::new(tables(tag, vec![pw.clone()]));
        let mut receive: Rig<PwIn> = Rig::new(tables(tag, vec![pw]));
        for _ in 0..3 {
            let packet = send.packet(&ethernet(&attached, &payload));
            let (next, packet) = sent(send.run(packet));
            prop_assert_eq!(next, Next::Output);
            let packet = receive.packet(&packet.data()[4..]);
            let (next, packet) = sent(receive.run(packet));
            prop_assert_eq!(next, Next::Emit);
            prop_assert_eq!(packet.data(), ethernet(&on_the_wire, &payload));
        }
    }
}
