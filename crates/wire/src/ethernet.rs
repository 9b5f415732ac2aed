//! Ethernet frames without their FCS (IEEE 802.3 clause 3).
//!
//! ```text
//!  0             6            12     14
//! +-------------+-------------+------+---------+
//! | destination | source      | type | payload |
//! +-------------+-------------+------+---------+
//! ```
//! A type up to 1500 is the length of an LLC payload; the rest is padding.

use crate::Malformed;
use ferrule_base::MacAddr;
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Type of a frame's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// MPLS, downstream-assigned label.
    pub const MPLS: Self = Self(0x8847);
    /// MPLS, upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: Self = Self(0x8848);
    /// EAPOL, which carries MKA.
    pub const EAPOL: Self = Self(0x888e);
    /// A service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// LLDP.
    pub const LLDP: Self = Self(0x88cc);
    /// A MACsec SecTAG.
    pub const MACSEC: Self = Self(0x88e5);

    /// True if the field is the length of an LLC payload.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 <= 1500
    }

    /// True if a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::IPV4 => "IPv4",
            Self::ARP => "ARP",
            Self::VLAN => "802.1Q",
            Self::IPV6 => "IPv6",
            Self::MPLS => "MPLS",
            Self::MPLS_UPSTREAM => "MPLS upstream",
            Self::EAPOL => "EAPOL",
            Self::SERVICE_VLAN => "802.1ad",
            Self::LLDP => "LLDP",
            Self::MACSEC => "MACsec",
            t if t.is_length() => return write!(f, "LLC length {}", t.0),
            Self(t) => return write!(f, "type {t:#06x}"),
        };
        f.write_str(name)
    }
}

/// Octets behind the header at least; shorter payload is padded (802.3 clause 4A.4.2).
pub const PAYLOAD_MIN: usize = 46;

/// The view of a frame's header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// EtherType.
    pub ethertype: U16,
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 14;

    /// Type of the following header.
    #[inline]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Type of the payload.
    pub ethertype: EtherType,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a header. Types between 1501 and 1535 have no meaning.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let ethertype = h.ethertype();
        let payload = if ethertype.is_length() {
            payload.get(..usize::from(ethertype.0)).ok_or(Malformed::Length)?
        } else if ethertype.0 < 0x600 {
            return Err(Malformed::Length);
        } else {
            payload
        };
        Ok((Self { dst: MacAddr(h.dst), src: MacAddr(h.src), ethertype }, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header { dst: self.dst.0, src: self.src.0, ethertype: self.ethertype.0.into() };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}, {}", self.src, self.dst, self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "020000000002 020000000001 0800 4500";
    laws!(EXAMPLE);

    #[test]
    fn ethernet_header_means_what_an_independent_reader_says() {
        let bytes = hex(EXAMPLE);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        let (other, rest) = etherparse::Ethernet2Header::from_slice(&bytes).unwrap();
        assert_eq!((repr.dst.0, repr.src.0), (other.destination, other.source));
        assert_eq!(repr.ethertype.0, other.ether_type.0);
        assert_eq!(payload, rest);
        assert_eq!(repr.to_string(), "02:00:00:00:00:01 > 02:00:00:00:00:02, IPv4");
    }

    #[test]
    fn llc_length_cuts_the_padding() {
        let mut bytes = hex("0180c2000000 020000000001 0003 424203 0000000000");
        assert_eq!(Repr::parse(&bytes).unwrap().1, [0x42, 0x42, 3]);
        bytes[13] = 9;
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Length);
        bytes[12..14].copy_from_slice(&[0x05, 0xff]);
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Length);
    }
}
