//! EAPOL (802.1X-2020 clause 11), after its EtherType 0x888e.
//!
//! ```text
//!  0         8      16               32
//! +---------+------+----------------+------
//! | version | type | body length    | body
//! +---------+------+----------------+------
//! ```

use crate::{Malformed, ethernet};
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Destination of MKA: the nearest non-TPMR bridge group address (clause 11.1.1, table 11-1). A
/// bridge does not forward it.
pub const PAE_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 3];

/// The view of the header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Protocol version.
    pub version: u8,
    /// Packet type.
    pub kind: u8,
    /// Octets of the body.
    pub length: U16,
}

impl Header {
    /// Octets of the header, after its EtherType.
    pub const LEN: usize = 4;
}

/// Octets before the body of a frame without VLAN tags.
pub const BODY_AT: usize = ethernet::Header::LEN + Header::LEN;

/// Packet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

impl Kind {
    /// EAP.
    pub const EAP: Self = Self(0);
    /// A supplicant asks for authentication.
    pub const START: Self = Self(1);
    /// MKPDU.
    pub const MKA: Self = Self(5);
}

/// The meaning of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Protocol version; 3 or later has MKA. A later one is read as the newest that is known.
    pub version: u8,
    /// Packet type.
    pub kind: Kind,
    /// Octets of the body.
    pub length: u16,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Version of 802.1X-2010 and later.
    pub const VERSION: u8 = 3;

    /// Reads the header; octets behind the body are cut off.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, rest) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let body = rest.get(..h.length.get().into()).ok_or(Malformed::Truncated)?;
        Ok((Self { version: h.version, kind: Kind(h.kind), length: h.length.get() }, body))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header { version: self.version, kind: self.kind.0, length: self.length.into() };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::EAP => f.write_str("EAPOL EAP"),
            Kind::START => f.write_str("EAPOL start"),
            Kind::MKA => f.write_str("EAPOL MKA"),
            Kind(other) => write!(f, "EAPOL type {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "03 05 0002 aabb";
    laws!(EXAMPLE);

    #[test]
    fn eapol_length_cuts_what_the_link_padded() {
        let bytes = hex("03 05 0001 aa 000000");
        let (repr, body) = Repr::parse(&bytes).unwrap();
        assert_eq!((repr.kind, body), (Kind::MKA, &[0xaa][..]));
        assert_eq!(Repr::parse(&hex("03 05 0003 aabb")).unwrap_err(), Malformed::Truncated);
    }
}
