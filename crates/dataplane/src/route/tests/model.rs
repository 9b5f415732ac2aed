//! The neighbour table against a map, and read while it is written.

use crate::route::neighbours::{NEIGHBOURS_MAX, Neighbours};
use ferrule_base::{MacAddr, Rng};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug)]
enum Step {
    Reserve(u16, IpAddr),
    Set(u16, IpAddr, u64),
    Remove(u16, IpAddr),
    /// Of the neighbours with a reserved place, every second keeps it.
    ReserveOnly(usize),
}

fn key() -> impl Strategy<Value = (u16, IpAddr)> {
    let v4 = (0u8..30).prop_map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)));
    let v6 = (0u16..30).prop_map(|n| IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)));
    (0u16..3, prop_oneof![v4, v6])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => key().prop_map(|(i, a)| Step::Reserve(i, a)),
        4 => (key(), 1u64..1 << 48).prop_map(|((i, a), m)| Step::Set(i, a, m)),
        4 => key().prop_map(|(i, a)| Step::Remove(i, a)),
        1 => (0usize..2).prop_map(Step::ReserveOnly),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn neighbour_table_does_what_a_map_does(steps in prop::collection::vec(step(), 0..300)) {
        let table = Neighbours::default();
        let (mut map, mut slots) = (HashMap::new(), HashMap::new());
        for step in steps {
            match step {
                Step::Reserve(i, a) => {
                    let slot = table.reserve(i, a).unwrap();
                    prop_assert_eq!(*slots.entry((i, a)).or_insert(slot), slot);
                }
                Step::Set(i, a, m) => {
                    prop_assert!(table.set(i, a, MacAddr::from_u64(m)));
                    map.insert((i, a), MacAddr::from_u64(m));
                }
                Step::Remove(i, a) => {
                    table.remove(i, a);
                    map.remove(&(i, a));
                }
                Step::ReserveOnly(odd) => {
                    let mut kept: Vec<_> = slots.iter().map(|(&of, &slot)| (of, slot)).collect();
                    kept.sort_unstable();
                    let kept = kept.into_iter().skip(odd).step_by(2);
                    slots = kept.collect();
                    table.reserve_only(slots.values().copied());
                }
            }
            for (&(i, a), &slot) in &slots {
                prop_assert_eq!(table.mac(slot), map.get(&(i, a)).copied());
            }
            for n in 0..30 {
                let a = IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
                prop_assert_eq!(table.find(1, a), map.get(&(1, a)).copied());
            }
        }
        for (&(i, a), &mac) in &map {
            prop_assert_eq!(table.find(i, a), Some(mac));
        }
        prop_assert_eq!(slots.values().collect::<HashSet<_>>().len(), slots.len());
    }
}

#[test]
fn neighbour_table_is_bounded() {
    let table = Neighbours::default();
    let address = |n: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n));
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let kept: Vec<u32> =
        (0..2 * NEIGHBOURS_MAX as u32).filter(|&n| table.set(0, address(n), mac)).collect();
    assert!(kept.len() > NEIGHBOURS_MAX / 2 && kept.len() <= NEIGHBOURS_MAX, "{}", kept.len());
    // A full bucket that takes no new neighbour is still searched to its end.
    for &n in &kept {
        assert_eq!(table.find(0, address(n)), Some(mac));
        table.remove(0, address(n));
        assert_eq!(table.find(0, address(n)), None);
    }
    assert!(table.set(0, address(1 << 20), mac));
    assert_eq!(table.mac(u32::MAX), None);
}

/// A host beyond the router can make it look for any address; neighbours that exist still find
/// room.
#[test]
fn neighbours_that_are_only_looked_for_keep_out_nobody() {
    let table = Neighbours::default();
    let address = |n: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n));
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let all = 0..4 * NEIGHBOURS_MAX as u32;
    all.clone().for_each(|n| table.look_for(0, address(n)));
    let sought: Vec<_> = all.filter(|&n| table.may_be(0, address(n), mac).is_some()).collect();
    assert_eq!(sought.len(), NEIGHBOURS_MAX / 2, "every bucket half full");
    // Known and named neighbours in full buckets take their places.
    let there = 1 << 20..(1 << 20) + NEIGHBOURS_MAX as u32 / 2;
    for n in there.clone() {
        match n % 2 {
            0 => assert!(table.set(0, address(n), mac), "{n}"),
            _ => assert!(table.reserve(0, address(n)).is_some(), "{n}"),
        }
    }
    // Neighbours that are given up leave; known and named ones stay.
    sought.iter().copied().chain(there.clone()).for_each(|n| table.give_up(0, address(n)));
    assert!(sought.iter().all(|&n| table.may_be(0, address(n), mac).is_none()));
    let other = MacAddr([2, 0, 0, 0, 0, 2]);
    for n in there {
        // A named neighbour that is not found yet may have any link address.
        let may_be = [mac, other].map(|mac| table.may_be(0, address(n), mac).is_some());
        assert_eq!(may_be, [true, n % 2 == 1], "{n}");
    }
}

/// Every neighbour's link address is made from its number, so a reader that sees
/// parts of two neighbours notices.
#[test]
fn neighbour_table_is_read_whole_while_it_is_written() {
    let table = Neighbours::default();
    let address = |n: u64| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n as u32));
    let mac = |n: u64, round: u64| MacAddr::from_u64(0x0200_0000_0000 | n << 16 | (round % 0xffff));
    let slot = table.reserve(0, address(7)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                let (mut rng, mut seen) = (Rng::new(seed), 0u64);
                while !done.load(Ordering::Relaxed) || seen == 0 {
                    let n = rng.below(200);
                    for found in [(n, table.find(0, address(n))), (7, table.mac(slot))] {
                        if let (n, Some(found)) = found {
                            assert_eq!(found.to_u64() >> 16, 0x0200_0000 | n);
                            seen += 1;
                        }
                    }
                }
            });
        }
        let mut rng = Rng::new(9);
        for round in 0..200_000 {
            let n = rng.below(200);
            if rng.one_in(3) {
                table.remove(0, address(n));
            } else {
                table.set(0, address(n), mac(n, round));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
