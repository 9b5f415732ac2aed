//! Randomness of the machine.

use ferrule_control::Entropy;
use ferrule_crypto::random;

/// Octets of the operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfMachine;

impl Entropy for OfMachine {
    fn fill(&mut self, out: &mut [u8]) -> bool {
        random::fill(out).is_ok()
    }

    fn fork(&mut self) -> Box<dyn Entropy> {
        Box::new(Self)
    }
}
