//! The replay window and XPN recovery against simple models.

use super::super::Replay;
use super::super::replay::{BITMAP_MAX, Window};
use super::super::state::recover;
use crate::protection::authentic::Candidate;
use crate::protection::authentic::tests::authentic;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The standard's two numbers, as clause 10.6 has them.
struct Lowest {
    next: u64,
    lowest: u64,
    window: u64,
}

impl Lowest {
    fn receive(&mut self, pn: u64) -> bool {
        if pn < self.lowest {
            return false;
        }
        if pn >= self.next {
            self.next = pn + 1;
            self.lowest = self.lowest.max(self.next.saturating_sub(self.window));
        }
        true
    }
}

/// Verdict of the window on an authentic frame, whether it was asked before or not.
fn commit(window: &mut Window, pn: u64) -> bool {
    window.commit(Candidate::new(pn), authentic())
}

/// Moves around the newest number: small steps, steps of a word, big leaps.
fn steps() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        8 => -70i64..70,
        2 => -5000i64..300,
        1 => 0i64..100_000,
        1 => Just(0),
    ];
    prop::collection::vec(step, 1..400)
}

fn window() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), 0u32..200, 0..=BITMAP_MAX, Just(BITMAP_MAX)]
}

proptest! {
    #[test]
    fn macsec_replay_window_of_the_standard_is_its_model(
        first in prop_oneof![Just(1u64), 1u64..1 << 40], width in prop_oneof![window(), any::<u32>()],
        steps in steps(),
    ) {
        let mut window = Window::new(Replay::Standard, width, first);
        let mut model = Lowest { next: first, lowest: first, window: width.into() };
        for step in steps {
            let pn = model.next.saturating_add_signed(step).max(1);
            let before = (window.next(), window.lowest());
            let asked = window.check(pn);
            prop_assert_eq!((window.next(), window.lowest()), before, "asking changes nothing");
            let accepted = commit(&mut window, pn);
            prop_assert_eq!(asked.map(|c| c.number()), accepted.then_some(pn));
            prop_assert_eq!(accepted, model.receive(pn));
            prop_assert_eq!((window.next(), window.lowest()), (model.next, model.lowest));
        }
    }

    #[test]
    fn macsec_replay_window_that_changes_passes_no_number_that_was_late_or_seen(
        first in prop_oneof![Just(1u64), 1u64..1 << 40],
        parts in proptest::collection::vec((any::<bool>(), window(), steps()), 2..5),
    ) {
        let rule = |strict| if strict { Replay::Strict } else { Replay::Standard };
        let mut window = Window::new(rule(parts[0].0), parts[0].1, first);
        let mut seen = BTreeSet::new();
        for (strict, width, steps) in parts {
            let (next, lowest) = (window.next(), window.lowest());
            window.change(rule(strict), width);
            prop_assert_eq!(window.next(), next);
            prop_assert!(window.lowest() >= lowest && window.edge() >= lowest);
            for step in steps {
                let pn = window.next().saturating_add_signed(step).max(1);
                let passes = commit(&mut window, pn);
                prop_assert!(!passes || pn >= lowest, "{} is late since {}", pn, lowest);
                prop_assert!(!(passes && strict && seen.contains(&pn)), "{} came twice", pn);
                prop_assert!(passes || pn < window.next(), "what is new passes");
                if passes {
                    seen.insert(pn);
                }
            }
        }
    }

    #[test]
    fn macsec_replay_bitmap_passes_each_number_once_and_none_that_is_late(
        first in prop_oneof![Just(1u64), 1u64..1 << 40], width in window(), steps in steps(),
    ) {
        let mut window = Window::new(Replay::Strict, width, first);
        let mut model = Lowest { next: first, lowest: first, window: width.into() };
        let mut seen = BTreeSet::new();
        for step in steps {
            let pn = model.next.saturating_add_signed(step).max(1);
            let fresh = !seen.contains(&pn) && model.receive(pn);
            prop_assert_eq!(window.check(pn).is_some(), fresh, "{} at {}", pn, model.next);
            prop_assert_eq!(commit(&mut window, pn), fresh);
            if fresh {
                seen.insert(pn);
            }
            prop_assert_eq!((window.next(), window.lowest()), (model.next, model.lowest));
        }
    }

    #[test]
    fn macsec_xpn_recovers_the_closest_number(next in 1u64..u64::MAX - 1, distance in any::<i32>()) {
        if let Some(pn) = next.checked_add_signed(distance.into()).filter(|&n| n != 0 && n != u64::MAX) {
            prop_assert_eq!(recover(next, pn as u32), Some(pn));
        }
    }
}

#[test]
fn macsec_xpn_recovery_at_the_ends() {
    assert_eq!(recover(1, 0), None, "number 0 does not exist");
    assert_eq!(recover(1, 1), Some(1));
    assert_eq!(recover(1, 0xf000_0000), Some(0xf000_0000), "nothing is below zero");
    assert_eq!(recover(u64::MAX - 1, u32::MAX), None, "nor is the last one used");
    assert_eq!(recover(u64::MAX - 1, 5), Some(5), "nor is there one beyond it");
}

#[test]
fn macsec_replay_off_passes_everything_and_still_counts_what_is_late() {
    let mut window = Window::new(Replay::Off, 2, 1);
    assert!([10, 10, 1].into_iter().all(|pn| commit(&mut window, pn)));
    assert_eq!((window.next(), window.lowest()), (11, 9));
    assert!(window.is_late(8) && !window.is_late(9));
}
