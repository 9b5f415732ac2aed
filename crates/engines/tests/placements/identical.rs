//! The same traffic, sealed and opened in different places: the same octets on
//! the wire and at the other host.

use crate::pair::{MARK, Pair, WAYS, Way};
use crate::places::{MODEL, PLACES, Place};
use ferrule_base::{DropReason, Rng};
use std::collections::HashSet;

/// Frames on the wire, and payloads that arrived by number.
type Crossed = (Vec<Vec<u8>>, Vec<(u32, Vec<u8>)>);

#[test]
fn the_same_traffic_gives_identical_bytes_through_every_placement() {
    let mut tried = HashSet::new();
    for way in WAYS {
        let mut expected: Option<Crossed> = None;
        for place in PLACES.iter().filter(|place| (place.suits)(way)) {
            tried.insert((place.word, matches!(way, Way::Esp(..))));
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
            assert_sealed_there(&mut pair, place);
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
    let words = ["software", "look-aside", "inline", "token"];
    let all = words.into_iter().flat_map(|word| [(word, true), (word, false)]);
    assert_eq!(tried, all.collect(), "each placement, with ESP and with MACsec");
}

/// The work was done where it was to be done. (A token's key is nowhere else: a node
/// without it does not start.)
fn assert_sealed_there(pair: &mut Pair, place: &Place) {
    let reports = pair.net.reports(0);
    let report = reports.first().expect("one worker");
    let by_card: u64 = report.cards.iter().map(|card| card.work.sealed.packets).sum();
    assert_eq!(by_card > 0, place.word == "inline", "{}", place.name);
    let look_aside = report.engines.iter().filter(|e| e.place == "look-aside");
    let keys: usize = look_aside.map(|e| e.keys).sum();
    assert_eq!(keys > 0, place.word == "look-aside", "{}", place.name);
}

#[test]
fn order_is_kept_with_a_full_queue() {
    for (on_full, software) in [("drop", false), ("software", true)] {
        for way in WAYS {
            let tables = format!(
                "[look-aside]\ndepth = 64\nbatch = 8\ndeadline-ms = 60000\non-full = \"{on_full}\"\n"
            );
            // A model that is slower than the traffic: its queue is full all the time.
            let place = Place { tables: tables.leak(), ..MODEL };
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
