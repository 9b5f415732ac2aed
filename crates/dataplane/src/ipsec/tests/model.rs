//! The replay window against a model that remembers every number.

use super::*;
use crate::protection::authentic::tests::authentic;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// RFC 4303 section 3.4.3 in words: not zero, not left of the window, not seen.
struct Model {
    size: u64,
    edge: u64,
    start: u64,
    seen: BTreeSet<u64>,
}

impl Model {
    fn new(size: u32, edge: u64) -> Self {
        Self { size: size.into(), edge, start: edge, seen: BTreeSet::new() }
    }

    fn accepts(&self, number: u64) -> bool {
        if number == 0 || self.size == 0 {
            return number != 0;
        }
        let too_old = u128::from(number) + u128::from(self.size) <= u128::from(self.edge);
        number > self.start && !too_old && !self.seen.contains(&number)
    }

    fn take(&mut self, number: u64) {
        self.seen.insert(number);
        self.edge = self.edge.max(number);
    }
}

/// RFC 4303 appendix A2.2, as it is written: the high half of a number.
fn high_half(edge: u64, size: u32, low: u32) -> i128 {
    let (th, tl) = ((edge >> 32) as u32, edge as u32);
    let bottom = tl.wrapping_sub(size - 1);
    if tl >= size - 1 {
        // Case A: the window lies within one subspace.
        if low >= bottom { th.into() } else { i128::from(th) + 1 }
    } else if low >= bottom {
        // Case B: it spans two.
        i128::from(th) - 1
    } else {
        th.into()
    }
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0u32),
        Just(1),
        Just(32),
        Just(64),
        Just(65),
        Just(100),
        Just(128),
        Just(1024),
        Just(4096),
        Just(131_072)
    ]
}

fn edges() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0u64),
        1..200u64,
        (1u64 << 32) - 5000..(1 << 32) + 5000,
        (3u64 << 32) - 70..(3 << 32) + 70,
        u64::MAX - 300..u64::MAX - 200,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..Default::default() })]

    #[test]
    fn replay_window_equals_the_model(
        size in sizes(), edge in edges(),
        steps in proptest::collection::vec(prop_oneof![3 => -70i64..70, 1 => -5000i64..5000, 1 => -140_000i64..140_000], 1..300),
    ) {
        let (mut window, mut model) = (Window::new(size, edge), Model::new(size, edge));
        for step in steps {
            let number = model.edge.saturating_add_signed(step);
            let candidate = window.check(number);
            prop_assert_eq!(candidate.is_some(), model.accepts(number), "{} at {}", number, model.edge);
            if let Some(candidate) = candidate {
                let twice = window.check(number).unwrap();
                prop_assert!(window.commit(candidate, authentic()));
                prop_assert_eq!(window.commit(twice, authentic()), size == 0, "its double");
                model.take(number);
            }
            prop_assert_eq!(window.edge(), model.edge);
        }
    }

    #[test]
    fn replay_window_of_another_size_forgets_nothing_that_it_saw_or_had_left(
        edge in edges(),
        parts in proptest::collection::vec((sizes(), proptest::collection::vec(-200i64..200, 1..60)), 2..6),
    ) {
        let mut window = Window::new(parts[0].0, edge);
        let mut model = Model::new(parts[0].0, edge);
        for (size, steps) in parts {
            // What had left the window before does not come back when it grows.
            let left = model.edge.saturating_sub(model.size);
            model.start = model.start.max(left);
            model.size = size.into();
            window = window.resized(size);
            prop_assert_eq!(window.edge(), model.edge);
            for step in steps {
                let number = model.edge.saturating_add_signed(step);
                let candidate = window.check(number);
                prop_assert_eq!(candidate.is_some(), model.accepts(number), "{} at {}", number, model.edge);
                if let Some(candidate) = candidate {
                    prop_assert!(window.commit(candidate, authentic()));
                    model.take(number);
                }
            }
        }
    }

    #[test]
    fn extended_number_is_recovered_as_rfc_4303_appendix_a_says(
size in sizes(), edge in edges(), low: u32, how in 0..3, step in -5000i64..5000,
    ) {
        let size = size.max(1);
        let low = match how {
            0 => low,
            1 => edge.wrapping_add_signed(step) as u32,
            // Around the left end of the window.
            _ => edge.wrapping_sub(size.into()).wrapping_add_signed(step % 3) as u32,
        };
        let window = Window::new(size, edge);
        let high = high_half(edge, size, low);
        // Before the first subspace there is nothing: the number is in the first.
        let expected = (high.max(0) << 32) + i128::from(low);
        prop_assert_eq!(window.extend(low).map(i128::from), (expected <= u64::MAX.into()).then_some(expected));
    }

    #[test]
    fn extended_number_is_recovered_from_anywhere_near_the_edge(
        size in 1u32..4096, edge in edges(), ahead in 0u64..1 << 31, back in 0u64..4096,
    ) {
        let window = Window::new(size, edge);
        let later = edge.saturating_add(ahead);
        prop_assert_eq!(window.extend(later as u32), Some(later));
        let earlier = edge.saturating_sub(back % u64::from(size));
        prop_assert_eq!(window.extend(earlier as u32), Some(earlier));
    }
}

#[test]
fn replay_window_restored_from_its_edge_refuses_all_before_it() {
    let window = Window::new(1024, 5000);
    assert!((1..=5000).all(|number| window.check(number).is_none()));
    assert!(window.check(5001).is_some());
}

#[test]
fn replay_window_does_not_move_when_it_is_asked() {
    let window = Window::new(64, 0);
    let candidate = window.check(1000).unwrap();
    assert_eq!((candidate.number(), window.edge()), (1000, 0));
}
