//! AH, the authentication header (RFC 4302 section 2).
//!
//! ```text
//! +------+--------+----------+-----+-----+-----+---------+
//! | next | length | reserved | SPI | seq | ICV | padding |
//! +------+--------+----------+-----+-----+-----+---------+
//!    1       1         2        4     4     n      m
//! ```
//! The length counts words of four octets and leaves out two of them. The whole
//! header is a multiple of four octets over IPv4 and of eight over IPv6. The SA
//! knows the length of the ICV, so the format here ends in front of it.
//! [`crate::foretell`] tells which fields of the preceding headers the ICV covers.

use crate::Malformed;
use crate::ip::Protocol;
use std::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The view of a header, as far as the ICV.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Protocol number of the following header.
    pub next: u8,
    /// Octets of the whole header in words of four, less two.
    pub length: u8,
    /// Zero; under the ICV like all of the header.
    pub reserved: U16,
    /// Security parameters index.
    pub spi: U32,
    /// Sequence number, of an extended one the low half.
    pub seq: U32,
}

impl Header {
    /// Octets in front of the ICV.
    pub const LEN: usize = 12;

    /// Octets of the whole header, ICV and padding included.
    #[inline]
    pub const fn total_len(&self) -> usize {
        (self.length as usize + 2) * 4
    }
}

/// Octets of a whole header with an ICV of `icv` octets, padded to `align`: 4 over
/// IPv4, 8 over IPv6, and 8 over both with senders that make no difference.
#[inline]
pub const fn padded_len(icv: usize, align: usize) -> usize {
    (Header::LEN + icv).next_multiple_of(align)
}

/// An authentication header up to its ICV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Protocol of the following header.
    pub next: Protocol,
    /// Octets of ICV and padding, a multiple of four up to 1016.
    pub icv_len: u16,
    /// Security parameters index; zero is never on the wire (RFC 4302 section 2.4).
    pub spi: u32,
    /// Sequence number, of an extended one the low half.
    pub seq: u32,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a header, all of which must be there; ICV and padding are the first octets of
    /// the rest.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, rest) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let icv_len = h.total_len().checked_sub(Header::LEN).ok_or(Malformed::Length)?;
        if icv_len > rest.len() {
            return Err(Malformed::Truncated);
        }
        if h.spi.get() == 0 {
            return Err(Malformed::Reserved);
        }
        let (next, icv_len) = (Protocol(h.next), icv_len as u16);
        Ok((Self { next, icv_len, spi: h.spi.get(), seq: h.seq.get() }, rest))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header up to its ICV to the front of `buf`, which must hold
    /// `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header {
            next: self.next.0,
            length: ((Header::LEN + usize::from(self.icv_len)) / 4).saturating_sub(2) as u8,
            reserved: 0.into(),
            spi: self.spi.into(),
            seq: self.seq.into(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { next, icv_len, spi, seq } = self;
        write!(f, "AH spi {spi:#010x} seq {seq} icv {icv_len}, {next}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "11040000 28077135 00000001 0102030405060708090a0b0c";
    laws!(EXAMPLE);

    #[test]
    fn ah_header_of_a_captured_packet() {
        let bytes = hex(EXAMPLE);
        let (repr, rest) = Repr::parse(&bytes).unwrap();
        assert_eq!(repr.to_string(), "AH spi 0x28077135 seq 1 icv 12, UDP");
        assert_eq!(rest.len(), 12);
    }

    #[test]
    fn ah_rules_are_told_apart() {
        let refused = |at: usize, value: u8| {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = value;
            Repr::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(1, 0), Malformed::Length);
        assert_eq!(refused(1, 5), Malformed::Truncated);
        let mut bytes = hex(EXAMPLE);
        bytes[4..8].fill(0);
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Reserved);
    }

    /// RFC 4302 section 2.2: with an ICV of 96 bits the length is 4, over IPv4 and
    /// IPv6 alike.
    #[test]
    fn ah_is_padded_to_words_over_ipv4_and_to_pairs_of_them_over_ipv6() {
        let lens = |icv| (padded_len(icv, 4), padded_len(icv, 8));
        assert_eq!(lens(12), (24, 24));
        assert_eq!(lens(16), (28, 32));
        assert_eq!(lens(24), (36, 40));
        assert_eq!(lens(32), (44, 48));
    }
}
