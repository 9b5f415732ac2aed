//! The models of a receiver against the words of the standards, said over the
//! whole history, and against the windows of the data plane.

use super::*;
use ferrule_dataplane::{ipsec, macsec};
use proptest::prelude::*;

/// Numbers as they arrive: mostly forward, often near what was there, seldom far.
fn arrivals() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![
        6 => 0_i64..4,
        4 => -40_i64..40,
        1 => -300_i64..300,
        1 => Just(5000_i64),
    ];
    (0_u64..400, prop::collection::vec(step, 1..200)).prop_map(|(start, steps)| {
        let mut at = start as i64;
        let walk = steps.into_iter().map(|step| {
            at = (at + step).max(0);
            at as u64
        });
        walk.collect()
    })
}

/// True if `number` may pass after the numbers `accepted`.
fn esp_rule(accepted: &[u64], floor: u64, window: u64, number: u64) -> bool {
    let highest = accepted.iter().copied().chain([floor]).max().unwrap_or(0);
    let inside = number > highest || highest - number < window;
    number != 0 && number > floor && inside && !accepted.contains(&number)
}

proptest! {
    /// RFC 4303 section 3.4.3, said over the whole history.
    #[test]
    fn esp_model_is_the_rule_of_rfc_4303(
        window in 1_u64..130, floor in 0_u64..200, numbers in arrivals(),
    ) {
        let mut model = EspReceiver::new(window, floor);
        let mut accepted = Vec::new();
        for number in numbers {
            let passes = esp_rule(&accepted, floor, window, number);
            prop_assert_eq!(model.receive(number) == Fate::Accepted, passes, "{}", number);
            if passes {
                accepted.push(number);
            }
            prop_assert!(model.accepted.len() as u64 <= window, "the set is bounded");
        }
    }

    /// Clause 10.6, said over the whole history: the lowest acceptable number is
    /// the highest value that the rule ever gave.
    #[test]
    fn macsec_model_is_the_rule_of_clause_10_6(
        window in 0_u64..130, lowest in 1_u64..200, strict: bool, numbers in arrivals(),
    ) {
        let rule = if strict { SecyRule::Strict } else { SecyRule::Standard };
        let mut model = SecyReceiver::new(rule, window, lowest);
        let mut accepted: Vec<u64> = Vec::new();
        for number in numbers.into_iter().filter(|&n| n != 0) {
            let bound = accepted.iter().map(|n| (n + 1).saturating_sub(window)).max();
            let late = number < bound.unwrap_or(0).max(lowest);
            let again = strict && accepted.contains(&number);
            let fate = model.receive(number);
            prop_assert_eq!(fate == Fate::Late, late);
            prop_assert_eq!(fate == Fate::Accepted, !late && !again, "{}", number);
            if fate == Fate::Accepted {
                accepted.push(number);
            }
            prop_assert!(model.accepted.len() as u64 <= window + 1);
        }
    }

    /// Comparison with the data plane's window, number for number. (That window moves only with a
    /// proof that a packet is authentic, so a fresh one is built before each step from the numbers
    /// that passed.)
    #[test]
    fn esp_model_and_the_window_of_the_data_plane_agree(
        window in 1_u32..130, floor in 0_u64..200, numbers in arrivals(),
    ) {
        let mut model = EspReceiver::new(window.into(), floor);
        let mut theirs = ipsec::Window::new(window, floor);
        for number in numbers {
            let candidate = theirs.check(number);
            prop_assert_eq!(candidate.is_some(), model.receive(number) == Fate::Accepted);
            if let Some(candidate) = candidate {
                prop_assert!(theirs.commit(candidate, authentic()));
            }
        }
    }

    /// Comparison with the data plane's window of MACsec.
    #[test]
    fn macsec_model_and_the_window_of_the_data_plane_agree(
        window in 0_u32..130, lowest in 1_u64..200, which in 0_usize..3, numbers in arrivals(),
    ) {
        use macsec::Replay;
        let (rule, mode) = [
            (SecyRule::Off, Replay::Off),
            (SecyRule::Standard, Replay::Standard),
            (SecyRule::Strict, Replay::Strict),
        ][which];
        let mut model = SecyReceiver::new(rule, window.into(), lowest);
        let mut theirs = macsec::replay::Window::new(mode, window, lowest);
        for number in numbers.into_iter().filter(|&n| n != 0) {
            let candidate = theirs.check(number);
            prop_assert_eq!(candidate.is_some(), model.receive(number) == Fate::Accepted);
            if let Some(candidate) = candidate {
                prop_assert!(theirs.commit(candidate, authentic()));
            }
        }
    }

    /// A model with another window is another model: histories tell them apart.
    #[test]
    fn a_window_off_by_one_is_told_apart(window in 1_u64..130) {
        let history = |window| {
            let mut model = EspReceiver::new(window, 0);
            let top = 1000;
            model.receive(top);
            (0..200).filter(|back| model.receive(top - back) == Fate::Accepted).count()
        };
        prop_assert_eq!(history(window) + 1, history(window + 1));
    }
}

/// A proof, by way of a job that an engine opened.
fn authentic() -> ipsec::Authentic {
    use ferrule_crypto::{Ad, Job, KeyId, Op, Span, Verdict};
    let job = Job {
        buf: (),
        key: KeyId::default(),
        ticket: 0,
        number: 0,
        nonce: [0; 12],
        op: Op::Open,
        verdict: Verdict::Done,
        ad: Ad::Span(Span::default()),
        text: Span::default(),
    };
    ipsec::Authentic::proof(&job).expect("it is done")
}
