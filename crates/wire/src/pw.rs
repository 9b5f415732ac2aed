//! The pseudowire control word over MPLS (RFC 4385 section 3, RFC 4448
//! section 4.6 for Ethernet).
//!
//! ```text
//!  0      4       8   10       16               32
//! +------+-------+---+--------+----------------+
//! | 0000 | flags |FRG| length |    sequence    |
//! +------+-------+---+--------+----------------+
//! ```
//! A length that is not zero says that control word and payload are that many
//! octets, for the link padded them to 64. A first nibble of 1 is the
//! associated channel (RFC 5586). The zero nibble also keeps routers that look
//! below the label stack from taking the payload for IP.

use crate::Malformed;
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The view of a control word.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Nibble, flags, fragment bits, length.
    pub control: U16,
    /// Sequence number; 0 for none.
    pub sequence: U16,
}

impl Header {
    /// Octets of a control word.
    pub const LEN: usize = 4;
}

/// True if an associated channel header stands in the place of a control word.
#[inline]
pub fn is_associated_channel(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|b| b >> 4 == 1)
}

/// The sequence number after `sequence`: zero is skipped (RFC 4385 section 4.1).
#[inline]
pub const fn next_sequence(sequence: u16) -> u16 {
    match sequence.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// A control word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Four flags of the payload's; zero for Ethernet.
    pub flags: u8,
    /// Two fragmentation bits (RFC 4623); zero for Ethernet.
    pub fragment: u8,
    /// Octets of control word and payload if below 64, else zero.
    pub length: u8,
    /// Sequence number; 0 for none.
    pub sequence: u16,
}

#[allow(clippy::len_without_is_empty)] // a control word is never empty
impl Repr {
    /// Reads a control word; the payload ends where its length says.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, mut payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let control = h.control.get();
        if control >> 12 != 0 {
            return Err(Malformed::ControlWord);
        }
        let length = (control & 0x3f) as u8;
        if length != 0 {
            let octets = usize::from(length).checked_sub(Header::LEN).ok_or(Malformed::Length)?;
            payload = payload.get(..octets).ok_or(Malformed::Truncated)?;
        }
        let repr = Self {
            flags: (control >> 8) as u8,
            fragment: (control >> 6) as u8 & 3,
            length,
            sequence: h.sequence.get(),
        };
        Ok((repr, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// The control word of an Ethernet frame of `octets` octets (RFC 4448
    /// section 4.6).
    #[inline]
    pub const fn ethernet(octets: usize, sequence: u16) -> Self {
        let length = octets + Header::LEN;
        let length = if length < 64 { length as u8 } else { 0 };
        Self { flags: 0, fragment: 0, length, sequence }
    }

    /// Writes the control word to the front of `buf`, which must hold `len()`
    /// octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let control = u16::from(self.flags & 15) << 8
            | u16::from(self.fragment & 3) << 6
            | u16::from(self.length & 0x3f);
        let h = Header { control: control.into(), sequence: self.sequence.into() };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PW cw seq {}", self.sequence)?;
        if self.length != 0 {
            write!(f, " length {}", self.length)?;
        }
        if self.flags != 0 || self.fragment != 0 {
            write!(f, " flags {:x} frg {}", self.flags, self.fragment)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "0005 0007 aa";
    laws!(EXAMPLE);

    #[test]
    fn control_word_length_cuts_the_padding() {
        let bytes = hex("0006 0000 aabb 00000000");
        assert_eq!(Repr::parse(&bytes).unwrap().1, [0xaa, 0xbb]);
        assert_eq!(Repr::parse(&hex("0003 0000 aabb")).unwrap_err(), Malformed::Length);
        assert_eq!(Repr::parse(&hex("0007 0000 aabb")).unwrap_err(), Malformed::Truncated);
        assert_eq!(Repr::ethernet(59, 0).length, 63);
        assert_eq!(Repr::ethernet(60, 0).length, 0);
    }

    #[test]
    fn control_word_begins_with_a_zero_nibble() {
        for nibble in 1..16u8 {
            let bytes = [nibble << 4, 0, 0, 0];
            assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::ControlWord);
            assert_eq!(is_associated_channel(&bytes), nibble == 1);
        }
    }

    #[test]
    fn control_word_sequence_skips_zero() {
        assert_eq!(next_sequence(0), 1);
        assert_eq!(next_sequence(0xffff), 1);
        assert_eq!(next_sequence(7), 8);
    }
}
