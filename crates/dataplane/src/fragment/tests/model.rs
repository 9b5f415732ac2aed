//! Reassembly beside a model that keeps octets in a map.

use super::{Made, payload};
use crate::graph::Next;
use crate::route::tests::rig::{Fate, Rig};
use ferrule_base::DropReason;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::{BTreeMap, HashMap};

/// The model's answer to a fragment.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Held,
    Whole(Vec<u8>),
    Dropped(DropReason),
}

/// One datagram, octet by octet.
#[derive(Default)]
struct Datagram {
    octets: BTreeMap<usize, u8>,
    total: Option<usize>,
    refused: Option<DropReason>,
    fragments: usize,
}

/// RFC 8200 section 4.5 with RFC 5722, for both versions, in its own words.
struct Model {
    datagrams: HashMap<(u8, u32), Datagram>,
    room: usize,
    held: usize,
}

impl Model {
    fn push(&mut self, made: &Made) -> Verdict {
        let end = made.offset + made.data.len();
        let datagram = self.datagrams.entry((made.version, made.ident)).or_default();
        if let Some(reason) = datagram.refused {
            return Verdict::Dropped(reason);
        }
        let refuse = |datagram: &mut Datagram, held: &mut usize, reason| {
            *held -= datagram.fragments;
            datagram.refused = Some(reason);
            datagram.fragments = 0;
            Verdict::Dropped(reason)
        };
        let beyond = datagram.octets.keys().next_back().is_some_and(|&last| last >= end);
        let contradicts = match (datagram.total, made.more) {
            (Some(total), true) => end >= total,
            (Some(total), false) => end != total,
            (None, true) => false,
            (None, false) => beyond,
        };
        if contradicts {
            return refuse(datagram, &mut self.held, DropReason::FragmentOverlap);
        }
        let places = (made.offset..end).zip(&made.data);
        let there = places.clone().filter(|(at, _)| datagram.octets.contains_key(at)).count();
        if there == made.data.len()
            && places.clone().all(|(at, octet)| datagram.octets[&at] == *octet)
        {
            return Verdict::Dropped(DropReason::FragmentDuplicate);
        }
        if there > 0 {
            return refuse(datagram, &mut self.held, DropReason::FragmentOverlap);
        }
        if end > self.room {
            return refuse(datagram, &mut self.held, DropReason::ReassemblyTooBig);
        }
        datagram.octets.extend(places.map(|(at, octet)| (at, *octet)));
        datagram.fragments += 1;
        self.held += 1;
        if !made.more {
            datagram.total = Some(end);
        }
        if datagram.total == Some(datagram.octets.len()) {
            self.held -= datagram.fragments;
            let octets = datagram.octets.values().copied().collect();
            self.datagrams.remove(&(made.version, made.ident));
            return Verdict::Whole(octets);
        }
        Verdict::Held
    }
}

/// A datagram cut at these places, in units, and other pieces thrown in.
#[derive(Clone, Debug)]
struct Case {
    len: usize,
    cuts: Vec<usize>,
    wrong: Vec<(usize, usize, bool, u8)>,
}

fn case() -> impl Strategy<Value = Case> {
    let wrong = (0usize..500, 1usize..40, any::<bool>(), 0u8..3);
    (9usize..4200, vec(1usize..500, 1..12), vec(wrong, 0..3)).prop_map(|(len, cuts, wrong)| Case {
        len,
        cuts,
        wrong,
    })
}

impl Case {
    fn made(&self, version: u8, ident: u32) -> Vec<Made> {
        let all = super::text(self.len, ident as u8);
        let mut cuts: Vec<usize> = self.cuts.iter().map(|c| c * 8).collect();
        cuts.extend([0, self.len]);
        cuts.retain(|&c| c <= self.len);
        cuts.sort_unstable();
        cuts.dedup();
        let piece = |a: usize, b: usize| Made::new(version, ident, a, b < self.len, &all[a..b]);
        let mut made: Vec<Made> = cuts.windows(2).map(|w| piece(w[0], w[1])).collect();
        for &(unit, units, more, flip) in &self.wrong {
            let (a, b) = (unit * 8, (unit + units) * 8);
            let mut data = super::text(b, ident as u8)[a..].to_vec();
            data[0] ^= flip;
            made.push(Made::new(version, ident, a, more, &data));
        }
        // A first fragment has its headers, and each fits a buffer of the rig.
        made.retain(|m| (1..3500).contains(&m.data.len()) && (m.offset > 0 || m.data.len() >= 8));
        made
    }
}

/// Pieces of some datagrams, and copies of them, in an order: after each the stage and the
/// model say the same.
fn agree(cases: &[(bool, Case)], order: &[u32], again: &[prop::sample::Index]) {
    let mut rig = Rig::new();
    // A buffer less head room, tail room and the first fragment's headers, which
    // lie in front: the data has the rest.
    let room = rig.cache.packet().unwrap().tail_room() - crate::fragment::TAIL_ROOM;
    let mut model = Model { datagrams: HashMap::new(), room, held: 0 };
    let mut made: Vec<Made> = Vec::new();
    for (ident, (v6, case)) in cases.iter().enumerate() {
        made.extend(case.made(if *v6 { 6 } else { 4 }, 7 + ident as u32));
    }
    // There may be no piece that fits a buffer of the rig, and so nothing to copy.
    for index in again.iter().filter(|_| !made.is_empty()).collect::<Vec<_>>() {
        let copy = made[index.index(made.len())].clone();
        made.push(copy);
    }
    let rotated = |(i, m): (usize, Made)| (order[i % order.len()].rotate_left(i as u32), m);
    let mut keyed: Vec<(u32, Made)> = made.into_iter().enumerate().map(rotated).collect();
    keyed.sort_by_key(|(key, _)| *key);
    let (mut pushed, mut sent, mut dropped) = (0, 0, 0);
    for (_, made) in &keyed {
        let expected = model.push(made);
        let mut fates = made.push(&mut rig);
        pushed += 1;
        dropped += fates.iter().filter(|f| matches!(f, Fate::Dropped(_))).count();
        let whole = fates.iter().position(|f| matches!(f, Fate::Sent(..)));
        let have = match whole.map(|at| fates.swap_remove(at)) {
            Some(Fate::Sent(Next::Ip, packet)) => {
                sent += 1;
                Verdict::Whole(payload(packet.data(), made.version))
            }
            Some(fate) => panic!("{fate:?}"),
            None => match fates.first() {
                Some(Fate::Dropped(reason)) => Verdict::Dropped(*reason),
                _ => Verdict::Held,
            },
        };
        assert_eq!(have, expected);
        assert_eq!(rig.reassemble.held(), model.held);
        let ended = sent
            + dropped
            + rig.tally.drops.total() as usize
            + rig.tally.consumed as usize
            + rig.reassemble.held();
        assert_eq!(pushed, ended, "packets are conserved");
    }
}

/// A datagram that one cut beyond its end leaves in one piece, too long for a buffer.
#[test]
fn reassembly_of_no_piece_at_all_has_nothing_to_copy() {
    let case = Case { len: 3600, cuts: vec![499], wrong: Vec::new() };
    assert!(case.made(4, 7).is_empty());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let again = any::<prop::sample::Index>().new_tree(&mut runner).unwrap().current();
    agree(&[(false, case)], &[0; 64], &[again]);
}

proptest! {
    // As many cases as PROPTEST_CASES says.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn reassembly_agrees_with_a_simple_model(
        cases in vec((any::<bool>(), case()), 1..4),
        order in vec(any::<u32>(), 64),
        again in vec(any::<prop::sample::Index>(), 0..4),
    ) {
        agree(&cases, &order, &again);
    }
}
