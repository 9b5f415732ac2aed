//! Randomness for keys that `ferrule init` makes. Nothing on the data path and
//! nothing in a node reads it; simulations have their own, seeded one.

use std::fmt;

/// The machine gave no randomness. No key may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system gives no random numbers")
    }
}

impl std::error::Error for Unavailable {}

/// Fills `out` from the system's generator.
#[cfg(not(target_arch = "wasm32"))]
pub fn fill(out: &mut [u8]) -> Result<(), Unavailable> {
    aws_lc_rs::rand::fill(out).map_err(|_| Unavailable)
}

/// Fills `out` from the system's generator; a browser's is not reached.
#[cfg(target_arch = "wasm32")]
pub fn fill(_out: &mut [u8]) -> Result<(), Unavailable> {
    Err(Unavailable)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #[test]
    fn random_keys_differ_and_are_filled_to_the_end() {
        let (mut a, mut b) = ([0; 4096], [0; 4096]);
        super::fill(&mut a).unwrap();
        super::fill(&mut b).unwrap();
        assert_ne!(a, b);
        assert!(a.chunks(64).all(|chunk| chunk != [0; 64]));
    }
}
