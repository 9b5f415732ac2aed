//! Unpredictable octets: the machine's on live nodes, seeded ones in the laboratory.

use ferrule_base::Rng;

/// A source of random octets.
pub trait Entropy: Send {
    /// Fills all of them; false if it cannot.
    #[must_use]
    fn fill(&mut self, out: &mut [u8]) -> bool;

    /// Another source of the same kind, for another core.
    fn fork(&mut self) -> Box<dyn Entropy>;
}

/// Seeded entropy for the laboratory: the same seed gives the same octets.
impl Entropy for Rng {
    fn fill(&mut self, out: &mut [u8]) -> bool {
        Self::fill(self, out);
        true
    }

    fn fork(&mut self) -> Box<dyn Entropy> {
        Box::new(Self::new(self.next_u64()))
    }
}
