//! A ring of key stream that traffic drains, and that a token fills once half of it is gone.

/// A ring and its token.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Blocks that it holds.
    pub blocks: f64,
    /// Blocks a second that traffic takes.
    pub used: f64,
    /// Blocks a second that the token makes.
    pub filled: f64,
    /// Blocks of an exchange with the token.
    pub exchange: f64,
}

/// Times at which filling starts and the ring is empty: with less than an exchange left.
pub fn drained_s(ring: &Ring) -> (f64, f64) {
    let half = ring.blocks / 2.0 / ring.used;
    (half, half + (ring.blocks / 2.0 - ring.exchange) / (ring.used - ring.filled))
}

/// Blocks that are left after so long; a token that is as fast as the traffic keeps it half full.
pub fn left(ring: &Ring, after_s: f64) -> f64 {
    let (starts, _) = drained_s(ring);
    let before = ring.blocks - ring.used * after_s.min(starts);
    let since = (after_s - starts).max(0.0);
    (before - (ring.used - ring.filled).max(0.0) * since).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_loses_what_is_used_and_from_its_half_on_the_difference() {
        let ring = Ring { blocks: 1_000.0, used: 100.0, filled: 60.0, exchange: 20.0 };
        assert_eq!(drained_s(&ring), (5.0, 17.0));
        let found = [0.0, 2.0, 5.0, 10.0, 17.0, 30.0].map(|after| left(&ring, after));
        assert_eq!(found, [1_000.0, 800.0, 500.0, 300.0, 20.0, 0.0]);
        // A fast token.
        assert_eq!(left(&Ring { filled: 200.0, ..ring }, 60.0), 500.0);
    }
}
