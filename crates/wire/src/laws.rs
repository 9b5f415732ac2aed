//! The tests that every format has, generated from one example.
//!
//! The laws: the example reads and writes back to the same octets; no cut of
//! it is taken for the whole; octets changed at will, and random octets,
//! never panic, and what they parse to survives another round.

use crate::Malformed;
use std::fmt::{Debug, Display};

/// Reads hexadecimal digits; white space is ignored.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    assert!(digits.len().is_multiple_of(2));
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

type Parse<R> = for<'a> fn(&'a [u8]) -> Result<(R, &'a [u8]), Malformed>;

/// A format's own functions, for the laws.
pub struct Shape<R> {
    pub parse: Parse<R>,
    pub len: fn(&R) -> usize,
    pub emit: fn(&R, &mut [u8]),
    /// Makes checksums good again after octets were changed.
    pub repair: fn(&mut [u8]),
    /// Clears fields that a `Repr` does not hold: checksums over the payload.
    pub blank: fn(&mut [u8]),
}

impl<R: PartialEq + Debug + Display> Shape<R> {
    fn emitted(&self, repr: &R) -> Vec<u8> {
        let mut out = vec![0xa5; (self.len)(repr)];
        (self.emit)(repr, &mut out);
        out
    }

    /// The example reads and writes back to the same octets.
    pub fn example_round_trips(&self, example: &[u8]) {
        let (repr, _) = (self.parse)(example).expect("the example is valid");
        let mut expected = example[..(self.len)(&repr)].to_vec();
        (self.blank)(&mut expected);
        let mut written = self.emitted(&repr);
        (self.blank)(&mut written);
        assert_eq!(written, expected, "{repr}");
    }

    /// No prefix panics, and none is taken for more than it is. (Neighbour
    /// discovery cut between two options is a shorter message.)
    pub fn truncations_are_refused(&self, example: &[u8]) {
        let (repr, _) = (self.parse)(example).unwrap();
        for n in 0..example.len() {
            let result = (self.parse)(&example[..n]);
            let within = result.map_or(true, |(short, _)| (self.len)(&short) <= n);
            assert!(within, "{n} octets were enough for {repr}");
        }
    }

    /// Octets that parse mean the same after they were written.
    pub fn survives(&self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        (self.repair)(&mut bytes);
        let Ok((repr, payload)) = (self.parse)(&bytes) else { return };
        assert!(payload.len() <= bytes.len());
        assert!(!repr.to_string().contains('\n'));
        let mut again = self.emitted(&repr);
        again.extend_from_slice(payload);
        (self.repair)(&mut again);
        let (reread, rest) = (self.parse)(&again).expect("what was written is valid");
        assert_eq!((reread, rest), (repr, payload));
    }
}

macro_rules! laws {
    ($example:expr) => {
        laws!($example, repair = |_| {}, blank = |_| {});
    };
    ($example:expr, repair = $repair:expr, blank = $blank:expr) => {
        mod laws {
            use super::*;

            fn shape() -> $crate::laws::Shape<Repr> {
                $crate::laws::Shape {
                    parse: Repr::parse,
                    len: Repr::len,
                    emit: Repr::emit,
                    repair: $repair,
                    blank: $blank,
                }
            }

            #[test]
            fn example_reads_and_writes_back() {
                shape().example_round_trips(&$crate::laws::hex($example));
            }

            #[test]
            fn every_truncation_is_refused() {
                shape().truncations_are_refused(&$crate::laws::hex($example));
            }

            proptest::proptest! {
                #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

                #[test]
                fn random_octets_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
                    let _ = Repr::parse(&bytes).map(|(r, _)| r.to_string());
                    shape().survives(&bytes);
                }

                #[test]
                fn altered_examples_mean_the_same_after_a_round_trip(
                    changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 0..6),
                ) {
                    let mut bytes = $crate::laws::hex($example);
                    for (at, value) in changes {
                        let at = at.index(bytes.len());
                        bytes[at] = value;
                    }
                    let _ = Repr::parse(&bytes);
                    shape().survives(&bytes);
                }
            }
        }
    };
}
