//! The same traffic, sealed and opened in different places: the same octets on
//! the wire and at the other host.

use crate::pair::{MARK, Pair, WAYS};
use crate::places::{PLACES, Place};
use ferrule_base::{DropReason, Rng};

/// Frames on the wire, and what arrived by number.
type Crossed = (Vec<Vec<u8>>, Vec<(u32, Vec<u8>)>);

#[test]
fn the_same_traffic_gives_identical_bytes_through_every_placement() {
    for way in WAYS {
        let mut expected: Option<Crossed> = None;
        for place in &PLACES {
            let mut pair = Pair::new(way, place);
            let mut rng = Rng::new(7);
            let mut number = 1;
            for _burst in 0..6 {
                for _ in 0..1 + rng.below(150) {
                    pair.send(number, 48 + rng.below(1300) as usize);
                    number += 1;
                }
                pair.settle();
            }
            let arrived = pair.arrived();
            assert_eq!(arrived.len(), number as usize - 1, "{way:?} {}", place.name);
            assert!(arrived.is_sorted_by_key(|a| a.0), "{way:?} {}: order", place.name);
            pair.net.assert_conserved();
            let clear = |f: &Vec<u8>| f.windows(MARK.len()).any(|w| w == MARK);
            assert!(!pair.wire.iter().any(clear), "{way:?} {}: in clear", place.name);
            let found = (pair.wire, arrived);
            match &expected {
                None => expected = Some(found),
                Some(expected) => {
                    assert!(found.0 == expected.0, "{way:?} {}: on the wire", place.name);
                    assert!(found.1 == expected.1, "{way:?} {}: at host b", place.name);
                }
            }
        }
    }
}

#[test]
fn order_is_kept_with_a_full_queue() {
    for (on_full, software) in [("drop", false), ("software", true)] {
        for way in WAYS {
            let tables = format!(
                "[look-aside]\ndepth = 64\nbatch = 8\ndeadline-ms = 60000\non-full = \"{on_full}\"\n"
            );
            // A model that is slower than what comes: its queue is full all the time.
            let place = Place { tables: tables.leak(), ..PLACES[PLACES.len() - 1] };
            let mut pair = Pair::new(way, &place);
            let mut number = 0;
            for _burst in 0..4 {
                for _ in 0..300 {
                    number += 1;
                    pair.send(number, 48 + (number as usize * 37) % 1300);
                }
                pair.settle();
            }
            let arrived = pair.arrived();
            assert!(arrived.is_sorted_by(|a, b| a.0 < b.0), "{way:?}: order");
            let full: u64 = (0..2).map(|node| pair.net.dropped(node, DropReason::EngineFull)).sum();
            assert_eq!(arrived.len() as u64 + full, u64::from(number), "{way:?} {on_full}");
            assert_eq!(full == 0, software, "{way:?} {on_full}: {full} dropped");
            assert!(arrived.len() >= 64, "what fits comes through");
            pair.net.assert_conserved();
        }
    }
}
