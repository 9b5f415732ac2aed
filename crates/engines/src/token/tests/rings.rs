//! The rings against models: a map of the blocks made and not used.

use super::super::ahead::{Ahead, Found};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn block_of(counter: u128) -> Block {
    counter.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

/// An event in the life of a ring.
#[derive(Clone, Debug)]
enum Step {
    /// The blocks that the ring wants arrive (true) or do not.
    Fill(bool),
    /// A packet of so many blocks uses key stream, so many blocks further on.
    Use(u64, u64),
    /// A packet that was passed over comes so many blocks behind.
    Late(u64, u64),
    Restart(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<bool>().prop_map(Step::Fill),
        8 => (0..40u64, 1..30u64).prop_map(|(skip, len)| Step::Use(skip, len)),
        4 => (1..200u64, 1..10u64).prop_map(|(back, len)| Step::Late(back, len)),
        1 => (0..1_000_000u64).prop_map(Step::Restart),
        1 => (1_000..1_000_000u64, 1..30u64).prop_map(|(skip, len)| Step::Use(skip, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The model of the ring by counter: a block is there only if it was made for
    /// that counter and not used; those between low and next always are.
    #[test]
    fn model_of_the_ring_by_counter(
        size in 64usize..400, exchange in 4usize..20, behind in 0usize..20,
        first in prop_oneof![Just(0u128), Just(u128::from(u64::MAX) - 100), 0..1u128 << 80],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let vault = Vault::unlocked(size).unwrap();
        let mut ring = Ring::new(vault, exchange, behind, first).unwrap();
        let mut made: BTreeMap<u128, Block> = BTreeMap::new();
        let mut used: BTreeSet<u128> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Fill(comes) => {
                    let Some(range) = ring.wants() else { continue };
                    prop_assert_eq!(range.start, ring.next());
                    prop_assert!(ring.wants().is_none(), "one question at a time");
                    if comes {
                        let stream: Vec<_> = range.clone().map(block_of).collect();
                        ring.put(range.start, &stream);
                        made.extend(range.clone().zip(stream));
                        prop_assert_eq!(ring.next(), range.end);
                    } else {
                        ring.refused();
                    }
                }
                Step::Use(skip, len) => {
                    let from = ring.low() + u128::from(skip);
                    let range = from..from + u128::from(len);
                    ring.used(range.clone());
                    used.extend(range.clone());
                    prop_assert_eq!(ring.low(), range.end);
                }
                Step::Late(back, len) => {
                    let low = ring.low();
                    let from = low.saturating_sub(back.into());
                    let range = from..(from + u128::from(len)).min(low);
                    ring.used(range.clone());
                    used.extend(range);
                    prop_assert_eq!(ring.low(), low, "a late packet moves nothing");
                }
                Step::Restart(counter) => {
                    ring.restart(counter.into());
                    made.clear();
                    used.clear();
                }
            }
            let (low, next) = (ring.low(), ring.next());
            prop_assert!(next >= low && next - low <= size as u128, "bounded look-ahead");
            for counter in low.saturating_sub(2 * size as u128)..next + 50 {
                let there = ring.block(counter);
                if let Some(block) = there {
                    prop_assert_eq!(*block, block_of(counter), "never another counter's");
                    prop_assert!(made.contains_key(&counter) && !used.contains(&counter));
                }
                let kept = low.saturating_sub(behind as u128)..next;
                if kept.contains(&counter) && made.contains_key(&counter) && !used.contains(&counter)
                    && made.len() < 10_000
                {
                    prop_assert!(there.is_some(), "{counter} of {kept:?} was given up");
                }
            }
        }
    }

    /// The same for packets: a run is there only as it was made, in order, within reach;
    /// only an authentic packet moves the window.
    #[test]
    fn model_of_the_packets_made_ahead(
        blocks in 64usize..600, reach in 1u64..80, behind in 0u64..20, first in 0u64..1000,
        steps in prop::collection::vec((0u8..5, 0u64..60, 0usize..100), 1..150),
    ) {
        let mut ahead = Ahead::new(Vault::unlocked(blocks).unwrap(), reach, behind, first);
        let mut made: BTreeMap<u64, u16> = BTreeMap::new();
        let mut low = first;
        for (what, skip, text) in steps {
            match what {
                0..=2 => while let Some(make) = ahead.make(1 + 3 * skip as usize) {
                    let of = |i| block_of(1 << 100 | u128::from(make.number) << 16 | u128::from(i));
                    let end = make.first + make.blocks;
                    let stream: Vec<_> = (make.first..end).map(of).collect();
                    let before = match made.get(&make.number) {
                        Some(&count) if make.first > 0 => Found::Here(count),
                        _ => Found::Coming,
                    };
                    prop_assert_eq!(ahead.find(make.number), before);
                    prop_assert!(ahead.is_growing(make.number));
                    prop_assert!(usize::from(make.blocks) <= 1 + 3 * skip as usize);
                    if text == 50 {
                        // The blocks do not come: the state is as it was before.
                        ahead.refused(make.number, make.first);
                        let before = match made.get(&make.number) {
                            Some(&count) if make.first > 0 => Found::Here(count),
                            _ => Found::Next,
                        };
                        prop_assert_eq!(ahead.find(make.number), before);
                        prop_assert!(!ahead.is_growing(make.number));
                        break;
                    }
                    ahead.put(make.number, make.first, &stream);
                    made.insert(make.number, end);
                    if skip % 3 == 0 { break }
                },
                3 => {
                    let number = low + skip;
                    ahead.used(number, text);
                    made.remove(&number);
                    low = number + 1;
                }
                _ => {
                    let number = low.saturating_sub(skip + 1);
                    ahead.used(number, text);
                    made.remove(&number);
                    low = low.max(number + 1);
                }
            }
            prop_assert_eq!(ahead.low(), low);
            prop_assert!(ahead.ahead() <= reach && ahead.empty() <= blocks as u64);
            prop_assert_eq!(ahead.find(low + reach + 1), Found::Far);
            let mut held = 0;
            for number in low.saturating_sub(100)..low + 100 {
                if let Found::Here(count) = ahead.find(number) {
                    held += usize::from(count);
                    prop_assert_eq!(made.get(&number), Some(&count));
                    for i in 0..count {
                        let want = block_of(1 << 100 | u128::from(number) << 16 | u128::from(i));
                        prop_assert_eq!(ahead.block(number, i), Some(&want));
                    }
                    prop_assert_eq!(ahead.block(number, count), None);
                }
            }
            let kept = ahead.raw().iter().filter(|block| **block != [0; 16]).count();
            prop_assert_eq!(kept, held, "nothing is left of what was used or given up");
        }
    }
}

/// The study's marks: making starts at half empty, sleeps when there is no room
/// for an exchange, and the ring counts as empty with an exchange left.
#[test]
fn watermarks_start_at_half_empty_and_sleep_when_full() {
    let mut ring = Ring::new(Vault::unlocked(1260).unwrap(), 126, 0, 0).unwrap();
    assert!(ring.is_empty() && !ring.is_full());
    let stream = [[1; 16]; 126];
    let mut exchanges = 0;
    while let Some(range) = ring.wants() {
        assert_eq!(range.end - range.start, 126);
        ring.put(range.start, &stream);
        exchanges += 1;
    }
    assert_eq!((exchanges, ring.empty()), (9, 126), "full when 126 blocks are empty");
    assert!(ring.is_full() && !ring.is_filling());
    ring.used(0..503);
    assert!(ring.wants().is_none(), "{} of 1260 are empty: less than half", ring.empty());
    ring.used(503..504);
    assert!(ring.wants().is_some(), "half is empty");
    ring.refused();
    ring.used(504..1009);
    assert_eq!((ring.ahead(), ring.is_empty()), (125, true), "empty, with 125 left");
}

#[test]
fn zeroizing_blocks_are_wiped_when_they_are_used() {
    let mut ring = Ring::new(Vault::unlocked(512).unwrap(), 126, 0, 0).unwrap();
    let range = ring.wants().unwrap();
    ring.put(range.start, &[[0xaa; 16]; 126]);
    assert_eq!(ring.block(7), Some(&[0xaa; 16]));
    ring.used(7..9);
    assert_eq!((ring.block(7), ring.block(8)), (None, None));
    let memory = format!("{:?}", ring.raw());
    assert_eq!(memory.matches("170, ").count() / 15, 124, "the two are zeros");
    ring.restart(0);
    assert!(ring.raw().iter().all(|block| *block == [0; 16]));
}

#[test]
fn high_halves_follow_the_low_half_that_travels() {
    let first = u128::from(u64::MAX) - 50;
    let ring = Ring::new(Vault::unlocked(512).unwrap(), 126, 0, first).unwrap();
    assert_eq!(ring.recover(u64::MAX), u128::from(u64::MAX));
    assert_eq!(ring.recover(7), (1 << 64) + 7, "the low half has wrapped");
    assert_eq!(ring.recover(u64::MAX - 60), first - 10);
}
