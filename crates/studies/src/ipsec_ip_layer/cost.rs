//! Section 4.3's operation counts, as printed and in one unit, and what they are for a
//! packet.
//!
//! ```text
//!   AH, transport   [ IP 20 │ AH 24 │ TCP 20 │ data n ]       HMAC-MD5 over all of it
//!   ESP, transport  IP 20, ESP 8, IV 8 [ TCP 20 │ data n │ padding, 2 ]    DES-CBC
//! ```
//!
//! An HMAC (RFC 2104) compresses a block for each padded key and one for the inner
//! digest beside the message's own: three blocks that a packet of any size pays for.
//! DES goes eight octets at a time and has next to no fixed cost. So hash and cipher
//! cross within one packet.

use super::published::CostModel;

/// Octets of a block of MD5, and of DES.
const MD5_BLOCK: usize = 64;
const DES_BLOCK: usize = 8;
/// MD5 appends a bit and a length of 64 bits (RFC 1321 section 3.1, 3.2).
const MD5_PADDING: usize = 9;
/// Compressions of an HMAC beside the message's: two keys, and the inner digest.
const HMAC_FIXED: usize = 3;
/// Headers of IPv4, TCP, AH with an ICV of 96 bits, ESP with DES's IV.
const IP: usize = 20;
const TCP: usize = 20;
const AH: usize = 24;
const ESP: usize = 16;
/// ESP's padding length and next header.
const TRAILER: usize = 2;
/// Octets of an Ethernet packet, and of data in a full segment.
pub const MTU: usize = 1500;
/// Data of a full segment.
pub const SEGMENT: usize = MTU - IP - TCP;

/// Operations: table look-ups and XORs of 32 bits, each counted once.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// Cost of a block of MD5: 64 octets.
    pub md5_block: f64,
    /// Cost of a block of DES: 8 octets.
    pub des_block: f64,
}

impl Operations {
    /// The printed counts in one unit.
    pub fn of(model: &CostModel) -> Self {
        Self {
            md5_block: model.md5_lookups_per_512_bits + model.md5_xors_per_512_bits,
            des_block: model.des_lookups_per_64_bits + model.des_xors_per_64_bits,
        }
    }

    /// DES over MD5, for each bit.
    pub fn ratio(&self) -> f64 {
        let per_octet = |block: f64, octets: usize| block / octets as f64;
        per_octet(self.des_block, DES_BLOCK) / per_octet(self.md5_block, MD5_BLOCK)
    }

    /// A packet of so many octets of data, authenticated by AH with HMAC-MD5.
    pub fn ah(&self, data: usize) -> f64 {
        let message = IP + AH + TCP + data + MD5_PADDING;
        (HMAC_FIXED + message.div_ceil(MD5_BLOCK)) as f64 * self.md5_block
    }

    /// A packet of so many octets of data, encrypted by ESP with DES.
    pub fn esp(&self, data: usize) -> f64 {
        (TCP + data + TRAILER).div_ceil(DES_BLOCK) as f64 * self.des_block
    }

    /// The data from which on the cipher costs more than the hash.
    pub fn crossover(&self) -> Option<usize> {
        let ahead = |data: &usize| self.esp(*data) > self.ah(*data);
        (1..=SEGMENT).rev().take_while(ahead).last()
    }

    /// A transfer in full segments, and what is left.
    pub fn transfer(&self, octets: usize, of: fn(&Self, usize) -> f64) -> f64 {
        let (full, rest) = (octets / SEGMENT, octets % SEGMENT);
        let rest = if rest > 0 { of(self, rest) } else { 0.0 };
        full as f64 * of(self, SEGMENT) + rest
    }
}

/// Octets of the packet that AH makes of a segment.
pub const fn ah_octets(data: usize) -> usize {
    IP + AH + TCP + data
}

/// Octets of the packet that ESP with DES makes of a segment.
pub const fn esp_octets(data: usize) -> usize {
    IP + ESP + (TCP + data + TRAILER).next_multiple_of(DES_BLOCK)
}

/// Frames that a packet takes on Ethernet: fragments hold whole eights of octets (RFC
/// 791 section 3.2).
pub fn frames(octets: usize) -> usize {
    let room = (MTU - IP) / 8 * 8;
    if octets <= MTU { 1 } else { (octets - IP).div_ceil(room) }
}

#[cfg(test)]
mod tests {
    use super::super::published::Study;
    use super::*;

    fn operations() -> Operations {
        Operations::of(&Study::read().cost_model)
    }

    #[test]
    fn des_costs_3_48_times_md5_if_a_look_up_costs_what_an_xor_does() {
        assert!((operations().ratio() - Study::read().cost_model.des_over_md5).abs() < 0.005);
    }

    #[test]
    fn hash_and_cipher_cross_within_one_packet() {
        let counts = operations();
        let at = counts.crossover().expect("in a packet");
        assert!((40..200).contains(&at), "{at}");
        assert!(counts.ah(1) > counts.esp(1) && counts.ah(SEGMENT) < counts.esp(SEGMENT));
        // From full segment to full segment nothing changes.
        let ratio = |octets| {
            counts.transfer(octets, Operations::esp) / counts.transfer(octets, Operations::ah)
        };
        assert_eq!(ratio(SEGMENT), ratio(40 * SEGMENT));
    }

    #[test]
    fn a_full_segment_becomes_two_frames() {
        assert_eq!((ah_octets(SEGMENT), frames(ah_octets(SEGMENT))), (1524, 2));
        assert_eq!((esp_octets(SEGMENT), frames(esp_octets(SEGMENT))), (1524, 2));
        assert_eq!(frames(1500), 1);
    }
}
