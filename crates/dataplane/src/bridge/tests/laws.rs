//! Laws that hold for any octets.

use super::{frame, host, rig};
use crate::Next;
use crate::mpls::tests::ends_as_each_alone;
use crate::route::tests::rig::Fate;
use ferrule_base::MacAddr;
use ferrule_pipeline::Meta;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn bridge_takes_any_octets_and_sends_none_back(
        iface in 0u16..8,
        octets in vec(any::<u8>(), 0..80),
        addresses in proptest::option::of((0u8..4, 0u8..4)),
        tci in proptest::option::of(any::<u16>()),
    ) {
        let mut rig = rig();
        for number in 0..4 {
            rig.tables.bridges[0].table.learn(0, host(number), number.into(), rig.now);
        }
        let mut octets = octets;
        if let (Some((dst, src)), Some(front)) = (addresses, octets.get_mut(..12)) {
            front[..6].copy_from_slice(&host(dst).0);
            front[6..].copy_from_slice(&host(src).0);
        }
        if let (Some(tci), Some(tag)) = (tci, octets.get_mut(12..16)) {
            tag[..2].copy_from_slice(&[0x81, 0]);
            tag[2..].copy_from_slice(&tci.to_be_bytes());
        }
        let free = rig.cache.pool().chunks();
        let fates = rig.fates(iface, &octets);
        for fate in &fates {
            match fate {
                Fate::Sent(Next::Emit, packet) => prop_assert!(packet.meta().port.0 != iface),
                Fate::Dropped(_) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        // Every copy is a packet that comes back.
        drop(fates);
        let pool = rig.cache.pool().clone();
        drop(rig);
        prop_assert_eq!(pool.free(), free);
    }

    #[test]
    fn bridge_batch_ends_as_each_frame_alone(
        frames in vec((0u16..7, 0u8..5, 0u8..5, prop_oneof![Just(0u16), Just(10), Just(0x600a), any::<u16>()]), 0..12),
    ) {
        let given = frames.into_iter().map(|(iface, dst, src, tci)| {
            let dst = if dst == 4 { MacAddr::BROADCAST } else { host(dst) };
            (frame(dst, host(src), tci), Meta { iface, ..Meta::default() })
        });
        ends_as_each_alone(rig, &given.collect::<Vec<_>>());
    }
}
