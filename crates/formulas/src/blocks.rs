//! Hash and cipher of a transfer: each packet goes through them in blocks.

/// Work of a hash or cipher on a packet.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Time of a block, in nanoseconds.
    pub block_ns: f64,
    /// Octets of a block.
    pub octets: f64,
    /// Octets of headers and trailer that are hashed or encrypted with the data.
    pub beside: f64,
    /// Multiple of octets to which the text is padded.
    pub multiple: f64,
    /// Blocks that a packet of any size takes beside those of its octets.
    pub fixed: f64,
}

impl Blocks {
    /// Time of a packet with so many octets of data, in nanoseconds.
    fn packet_ns(&self, data: f64) -> f64 {
        let through = ((self.beside + data) / self.multiple).ceil() * self.multiple;
        self.block_ns * (self.fixed + through / self.octets)
    }
}

/// Time for so many octets of data in full segments and what is left, in microseconds.
pub fn transfer_us(blocks: &Blocks, octets: f64, segment: f64) -> f64 {
    let full = (octets / segment).floor();
    let rest = octets - full * segment;
    let rest = if rest > 0.0 { blocks.packet_ns(rest) } else { 0.0 };
    (full * blocks.packet_ns(segment) + rest) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_takes_its_blocks_and_fixed_ones_and_a_transfer_its_packets() {
        let des = Blocks { block_ns: 1000.0, octets: 8.0, beside: 22.0, multiple: 8.0, fixed: 0.0 };
        assert_eq!(transfer_us(&des, 0.0, 1460.0), 0.0);
        // 23 octets are three blocks, 24 are, and 25 are four.
        assert_eq!([1.0, 2.0, 3.0].map(|data| transfer_us(&des, data, 1460.0)), [3.0, 3.0, 4.0]);
        let md5 = Blocks { octets: 64.0, beside: 64.0, multiple: 1.0, fixed: 3.5, ..des };
        assert_eq!(transfer_us(&md5, 64.0, 1460.0), 5.5);
        let full = transfer_us(&md5, 1460.0, 1460.0);
        assert_eq!(transfer_us(&md5, 2.0 * 1460.0 + 64.0, 1460.0), 2.0 * full + 5.5);
    }
}
