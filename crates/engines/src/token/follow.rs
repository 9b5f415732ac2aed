//! Estimate of packet lengths, which decides how much key stream is made ahead for each
//! packet.

/// Blocks of a packet that are made ahead at most: 1500 octets and some.
pub const BLOCKS_MAX: u16 = 96;

/// A quartile of the packets' lengths, which follows the traffic: each longer
/// packet takes it up by some steps, each shorter one down by some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follow {
    /// The quartile, in sixteenths of a block.
    depth: u32,
    up: u32,
    down: u32,
}

impl Follow {
    /// Initial depth, that of a short packet: 96 octets.
    const FIRST: u32 = 6 * 16;

    /// Three quarters of the packets have no more blocks.
    pub const fn most() -> Self {
        Self { depth: Self::FIRST, up: 3, down: 1 }
    }

    /// Three quarters of the packets have no fewer.
    pub const fn least() -> Self {
        Self { depth: Self::FIRST, up: 1, down: 3 }
    }

    /// Blocks, without E(J0).
    pub const fn depth(&self) -> u16 {
        let blocks = self.depth.div_ceil(16);
        if blocks > BLOCKS_MAX as u32 { BLOCKS_MAX } else { blocks as u16 }
    }

    /// A packet had so many.
    pub fn see(&mut self, blocks: usize) {
        let blocks = blocks.min(BLOCKS_MAX.into()) as u16;
        let (step, aim) = (4 + self.depth / 16, u32::from(blocks) * 16);
        match blocks.cmp(&self.depth()) {
            std::cmp::Ordering::Greater => self.depth = (self.depth + self.up * step).min(aim),
            std::cmp::Ordering::Less => {
                self.depth = self.depth.saturating_sub(self.down * step).max(aim);
            }
            std::cmp::Ordering::Equal => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_the_packets_lengths_are_followed() {
        let (mut most, mut least) = (Follow::most(), Follow::least());
        // Lengths of 1 to 80 blocks, each as often.
        for i in 0..4000 {
            let blocks = 1 + i * 37 % 80;
            most.see(blocks);
            least.see(blocks);
        }
        assert!((40..=75).contains(&most.depth()), "{most:?}");
        assert!((5..=35).contains(&least.depth()), "{least:?}");
        for _ in 0..100 {
            most.see(88);
            least.see(88);
        }
        assert_eq!((most.depth(), least.depth()), (88, 88), "all alike");
        most.see(4000);
        assert!(most.depth() <= BLOCKS_MAX);
    }
}
