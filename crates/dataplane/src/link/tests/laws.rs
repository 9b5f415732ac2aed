//! Nothing received panics, and no packet is lost from the count.

use crate::graph::Next;
use crate::link::tag;
use crate::mpls::{Pseudowire, PwMode};
use crate::route::tests::rig::*;
use crate::tables::{Attach, Iface, IfaceKind, Tag};
use ferrule_base::PortId;
use ferrule_wire::EtherType;
use proptest::prelude::*;

/// Octets that often look like frames for us.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let kinds = [0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x0806];
    let body = prop::collection::vec(any::<u8>(), 0..200);
    let framed = (0u8..2, prop::sample::select(kinds.to_vec()), body.clone(), 0u8..6);
    prop_oneof![
        body,
        framed.prop_map(|(port, kind, mut body, shape)| {
            match (body.first_mut(), shape) {
                (Some(first), 0..3) => *first = 0x45,
                (Some(first), 3) => *first = 0x60,
                _ => {}
            }
            frame(own(port), HOST, EtherType(kind), &body)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_octets_go_through_every_stage_of_routing_without_panic(
        bytes in octets(), port in 0u16..3, adjacency in 0u32..4, icmp: u16, limit: u16, offset in 0u16..300,
        ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8847, 7]), flags: u8,
    ) {
        let mut rig = Rig::new();
        rig.frame(port, &bytes);
        let stages = [
            Rig::run_attach, Rig::run_ip, Rig::run_local, Rig::run_error, Rig::run_output, Rig::run_emit,
        ];
        for stage in stages {
            let made = rig.tally.made;
            let mut packet = rig.packet(&bytes);
            let meta = packet.meta_mut();
            (meta.port.0, meta.adjacency) = (port, adjacency);
            (meta.icmp, meta.limit) = (icmp, limit);
            (meta.offset, meta.ethertype, meta.flags) = (offset, ethertype, flags);
            (meta.iface, meta.vrf.0) = (port, port);
            let consumed = rig.tally.consumed;
            let fates = stage(&mut rig, packet).len() as u64;
            let consumed = rig.tally.consumed - consumed;
            prop_assert_eq!(1 + rig.tally.made - made, fates + consumed);
        }
    }

    #[test]
    fn any_octets_attach_to_bridges_and_pseudowires_without_panic(
        bytes in octets(), own_tag: bool, access: bool, tagged_mode: bool, crossed: bool, class: u16,
    ) {
        let mut rig = Rig::new();
        let kind = if crossed {
            IfaceKind::Crossed(0)
        } else {
            IfaceKind::Bridged { bridge: 0, access_vlan: access.then_some(7) }
        };
        let tag = if own_tag { Tag::Tag(0x8100, 5) } else { Tag::None };
        rig.tables.ports[0].attach = Attach { rest: Some(0), ..Attach::default() };
        rig.tables.ifaces[0] = Iface::new("ac", PortId(0), tag, kind);
        rig.tables.pws.push(Pseudowire {
            name: "pw".into(),
            iface: 0,
            label_out: 16,
            adjacency: 0,
            control_word: true,
            sequencing: false,
            mode: if tagged_mode { PwMode::Tagged(7) } else { PwMode::Raw },
            ttl: 255,
            spreads: false,
        });
        let packet = rig.packet(&bytes);
        for fate in rig.run_attach(packet) {
            if let Fate::Sent(next, mut packet) = fate {
                prop_assert!(matches!(next, Next::Bridge | Next::PwOut));
                let _ = tag::tag_out(&rig.tables.ifaces[0], class, &mut packet);
            }
        }
    }

    #[test]
    fn tag_that_is_pushed_comes_off_again(
        bytes in prop::collection::vec(any::<u8>(), 14..60), tci: u16, vid in 0u16..0xfff,
    ) {
        let mut rig = Rig::new();
        let mut packet = rig.packet(&bytes);
        tag::push(&mut packet, 0x8100, tci).unwrap();
        prop_assert_eq!(tag::outer(packet.data()), Some((0x8100, tci)));
        prop_assert!(tag::set_vid(&mut packet, vid));
        prop_assert_eq!(tag::pop(&mut packet), Some(tci & 0xf000 | vid));
        prop_assert_eq!(packet.data(), &bytes[..]);
    }

    /// Frames without a tag have a way of their own through the stage.
    #[test]
    fn frame_without_a_tag_ends_as_one_whose_tag_has_a_priority_alone(
        to in 0u8..4, kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8847, 0x88b5]),
        first in prop::sample::select(vec![0x45u8, 0x60, 0]), next in prop::sample::select(vec![17u8, 58]),
        message in 128u8..140, len in 48usize..80, port in 0u16..3,
    ) {
        let mut payload = vec![0; len];
        (payload[0], payload[6], payload[40]) = (first, next, message);
        payload[24] = 0xff;
        let dst = match to {
            0 => ferrule_base::MacAddr::BROADCAST,
            1 => HOST,
            _ => own(to - 2),
        };
        let plain = frame(dst, HOST, EtherType(kind), &payload);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0xa0, 0]);
        let ends = [plain, tagged].map(|octets| {
            let mut rig = Rig::new();
            let mut packet = rig.packet(&octets);
            packet.meta_mut().port.0 = port;
            match &rig.run_attach(packet)[..] {
                // The control part gets frames as they came.
                [Fate::Sent(Next::Control, packet)] => format!("control {:?}", packet.meta()),
                [Fate::Sent(next, packet)] => format!("{next:?} {packet:?} {:?}", packet.data()),
                fates => format!("{fates:?}"),
            }
        });
        prop_assert_eq!(&ends[0], &ends[1]);
    }
}
