//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and the
//! pseudo headers of UDP, TCP and ICMPv6 (RFC 9293 section 3.1, RFC 8200
//! section 8.1).

use crate::ip::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A running one's complement sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds octets. All pieces but the last must have an even length.
    #[inline]
    #[must_use]
    pub fn with(self, octets: &[u8]) -> Self {
        // 2^16 is 1 in this arithmetic, so words of 32 bits add as well as
        // words of 16, and 64 bits hold the carries of any packet.
        let (words, tail) = octets.as_chunks::<8>();
        let mut sum = self.0;
        for word in words {
            let word = u64::from_be_bytes(*word);
            sum += (word >> 32) + (word & 0xffff_ffff);
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        let last = u64::from_be_bytes(last);
        sum += (last >> 32) + (last & 0xffff_ffff);
        // One fold each time keeps any number of pieces from overflowing.
        Self((sum >> 32) + (sum & 0xffff_ffff))
    }

    /// Adds a number of 32 bits.
    #[inline]
    #[must_use]
    pub const fn with_u32(self, value: u32) -> Self {
        Self(self.0 + value as u64)
    }

    /// The checksum: the complement of the sum, folded to 16 bits.
    #[inline]
    pub const fn finish(self) -> u16 {
        // Below 2^33, then 2^18, 2^16 + 3, 2^16: no branch.
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        !((sum >> 16) + (sum & 0xffff)) as u16
    }

    /// True if the checksum is right; the sum must include the checksum field.
    #[inline]
    pub const fn is_good(self) -> bool {
        // Folded it is 0xffff: a multiple of that, and not nothing.
        self.0 != 0 && self.0.is_multiple_of(0xffff)
    }
}

/// The checksum of some octets.
#[inline]
pub fn checksum(octets: &[u8]) -> u16 {
    Sum::new().with(octets).finish()
}

/// The checksum after one 16-bit word changed (RFC 1624, equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = !checksum as u32 + !old as u32 + new as u32;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

/// The addresses at both ends of a packet, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ends {
    /// Source and destination of IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source and destination of IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

impl Ends {
    /// Source address.
    pub const fn src(&self) -> IpAddr {
        match *self {
            Self::V4(a, _) => IpAddr::V4(a),
            Self::V6(a, _) => IpAddr::V6(a),
        }
    }

    /// Destination address.
    pub const fn dst(&self) -> IpAddr {
        match *self {
            Self::V4(_, a) => IpAddr::V4(a),
            Self::V6(_, a) => IpAddr::V6(a),
        }
    }

    /// The sum over the pseudo header for `len` octets of `protocol`.
    #[inline]
    pub fn pseudo(&self, protocol: Protocol, len: usize) -> Sum {
        let sum = match self {
            Self::V4(a, b) => Sum::new().with(&a.octets()).with(&b.octets()),
            Self::V6(a, b) => Sum::new().with(&a.octets()).with(&b.octets()),
        };
        sum.with_u32(len as u32).with_u32(u32::from(protocol.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn checksum_of_the_example_in_rfc_1071() {
        // Section 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&octets), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn incremental_update_of_the_example_in_rfc_1624() {
        // Section 4: HC = dd2f, m = 5555, m' = 3285 gives 0000.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// The sum as RFC 1071 writes it: one word at a time.
    fn plain(octets: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in octets.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn checksum_in_wide_words_equals_the_plain_one(
            a in proptest::collection::vec(any::<u8>(), 0..100),
            b in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let a = &a[..a.len() & !1];
            let whole: Vec<u8> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(checksum(&whole), plain(&whole));
            let sum = Sum::new().with(a).with(&b);
            prop_assert_eq!(sum.finish(), plain(&whole));
            prop_assert!(!sum.is_good() || sum.finish() == 0);
            let good = sum.with_u32(sum.finish().into());
            prop_assert!(good.is_good() && !good.with_u32(1).is_good());
        }

        #[test]
        fn incremental_update_equals_the_sum_anew(
            mut octets in proptest::collection::vec(any::<u8>(), 2..40), new: [u8; 2],
        ) {
            octets.push(1); // a header is never all zeros
            let before = checksum(&octets);
            let old = [octets[0], octets[1]];
            octets[..2].copy_from_slice(&new);
            let after = update(before, u16::from_be_bytes(old), u16::from_be_bytes(new));
            prop_assert_eq!(after, checksum(&octets));
        }
    }
}
