//! Lists with edits against lists that are compiled anew.

use super::families::{self, FAMILIES};
use super::frames;
use super::{agrees_with, fields, list};
use crate::acl::frame::FrameEntry;
use crate::acl::{AccessList, AclEntry, EDITS_MAX, Edit, Verdict};
use crate::classify::hits::UNCOUNTED;
use crate::classify::selector::{Addresses, Selector};
use ferrule_base::Rng;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{IpAddr, Ipv4Addr};

/// A list with some entries gone and others that came.
struct Edited<E> {
    /// By the counters in the old list, and then that of packets that match no entry.
    counters: Vec<u32>,
    /// Entries that came, each with the place in the old list before which it stands.
    new: Vec<(u32, E)>,
    /// Every entry of the list after the edits.
    list: Vec<E>,
}

/// Leaves out entries of a list, and puts others before entries of it.
fn edited<E: Clone>(
    old: &[E],
    gone: &[usize],
    new: &[(usize, E)],
    count: fn(&mut E, u32),
) -> Edited<E> {
    let mut edited = Edited { counters: Vec::new(), new: Vec::new(), list: Vec::new() };
    for place in 0..=old.len() {
        for (_, entry) in new.iter().filter(|(before, _)| *before % (old.len() + 1) == place) {
            let mut entry = entry.clone();
            count(&mut entry, edited.list.len() as u32);
            edited.new.push((place as u32, entry.clone()));
            edited.list.push(entry);
        }
        let stays = place == old.len() || !gone.iter().any(|gone| gone % old.len() == place);
        edited.counters.push(if stays { edited.list.len() as u32 } else { UNCOUNTED });
        if let Some(entry) = old.get(place).filter(|_| stays) {
            let mut entry = entry.clone();
            count(&mut entry, edited.list.len() as u32);
            edited.list.push(entry);
        }
    }
    edited
}

fn count_entry(entry: &mut AclEntry, counter: u32) {
    entry.counter = counter;
}

fn count_frames(entry: &mut FrameEntry, counter: u32) {
    entry.counter = counter;
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..Default::default() })]

    #[test]
    fn acl_with_an_edit_is_the_list_compiled_anew(
        old in list(0..200), gone in vec(0_usize..200, 0..8), come in list(0..8),
        places in vec(0_usize..200, 8), packets in vec(fields(), 200),
    ) {
        let new: Vec<_> = places.into_iter().zip(come).collect();
        let now = edited(&old, &gone, &new, count_entry);
        let compiled = AccessList::new(&old, old.len() as u32).unwrap();
        let edit = Edit { counters: now.counters.into(), packets: now.new, ..Edit::default() };
        agrees_with(&compiled.edited(&edit).unwrap(), &now.list, &packets)?;
        // An edit of the edited list is one of the list as it was compiled.
        let counters = (0..=old.len() as u32).collect();
        let back = compiled.edited(&edit).unwrap().edited(&Edit { counters, ..Edit::default() });
        agrees_with(&back.unwrap(), &old, &packets)?;
    }

    #[test]
    fn acl_of_frames_with_an_edit_is_the_list_compiled_anew(
        mut old in vec(frames::entry(), 0..200), gone in vec(0_usize..200, 0..8),
        new in vec((0_usize..200, frames::entry()), 0..8), packets in vec(frames::frames(), 200),
        own in 0_usize..3,
    ) {
        old.iter_mut().zip(0..).for_each(|(entry, number)| entry.counter = number);
        let now = edited(&old, &gone, &new, count_frames);
        let compiled = AccessList::new(&[], old.len() as u32).unwrap().with_frames(&old).unwrap();
        let edit = Edit { counters: now.counters.into(), frames: now.new, ..Edit::default() };
        frames::agrees_with(&compiled.edited(&edit).unwrap(), &now.list, &packets, own)?;
    }

    #[test]
    fn acl_families_with_an_edit_are_the_lists_compiled_anew(
        family in select(&FAMILIES[..]), seed: u64, entries in 1_usize..400,
        gone in vec(0_usize..400, 0..20), places in vec(0_usize..400, 0..20),
        count in 1_usize..500,
    ) {
        let mut rng = Rng::new(seed);
        let all = families::list(family, 420, &mut rng);
        let old = &all[..entries];
        let new: Vec<_> = places.into_iter().zip(all[400..].iter().cloned()).collect();
        let now = edited(old, &gone, &new, count_entry);
        let compiled = AccessList::new(old, entries as u32).unwrap();
        let edit = Edit { counters: now.counters.into(), packets: now.new, ..Edit::default() };
        let edited = compiled.edited(&edit).unwrap();
        agrees_with(&edited, &now.list, &families::packets(&now.list, count, &mut rng))?;
        // Packets of removed entries, too.
        agrees_with(&edited, &now.list, &families::packets(old, count, &mut rng))?;
    }
}

/// Entries for addresses one beside the other, and one for all.
fn hosts(count: u32) -> Vec<AclEntry> {
    let all = families::list(FAMILIES[0], 1, &mut Rng::new(1));
    let entry = |n: u32| {
        let mut entry = AclEntry { counter: n, verdict: Verdict::Permit, ..all[0].clone() };
        entry.matches.tcp = None;
        entry.matches.dscp = None;
        let host = IpAddr::from(Ipv4Addr::from_bits(10 << 24 | n));
        entry.matches.selector = Selector::between((host, 32), Addresses::V4);
        entry
    };
    (0..count).map(entry).collect()
}

#[test]
fn acl_edits_that_would_take_long_are_refused() {
    let list = hosts(100_000);
    let compiled = AccessList::new(&list, list.len() as u32).unwrap();
    let edit = |gone: &[usize], new: usize| {
        let new: Vec<_> = (0..new).map(|n| (n, list[0].clone())).collect();
        let now = edited(&list, gone, &new, count_entry);
        Edit { counters: now.counters.into(), packets: now.new, ..Edit::default() }
    };
    assert!(compiled.edited(&edit(&[], EDITS_MAX)).is_some());
    assert!(compiled.edited(&edit(&[], EDITS_MAX + 1)).is_none(), "too many come");
    assert!(compiled.edited(&edit(&[0], 1)).is_some());
    assert!(compiled.edited(&edit(&[0, 1, 2], 0)).is_none(), "300,000 comparisons");
    assert!(compiled.edited(&edit(&[99_990, 99_991, 99_992], 0)).is_some(), "few come later");
}

#[test]
fn acl_edits_do_not_copy_a_list_that_one_entry_shadowed() {
    let mut list = hosts(2_000);
    list[3].matches.selector.local = Addresses::V4;
    let compiled = AccessList::new(&list, 2_000).unwrap();
    let gone = |place: usize| {
        let now = edited(&list, &[place], &[], count_entry);
        Edit { counters: now.counters.into(), ..Edit::default() }
    };
    assert!(compiled.edited(&gone(3)).is_none(), "1,996 stood behind it");
    assert!(compiled.edited(&gone(4)).is_some());
}
