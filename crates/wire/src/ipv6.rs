//! IPv6 headers (RFC 8200 section 3). Extension headers stand in [`crate::ipv6ext`].
//!
//! ```text
//!  0    4          10  12                  32
//! +----+----------+---+---------------------+
//! | 6  |   DSCP   |ECN|     flow label      |
//! +----+----------+---+--+---------+--------+
//! |    payload length    |  next   |  hops  |
//! +----------------------+---------+--------+
//! |  source (16), destination (16)          |
//! +-----------------------------------------+
//! ```

use crate::checksum::Ends;
use crate::ip::Protocol;
use crate::{Dscp, Ecn, FlowLabel, Malformed};
use std::fmt;
use std::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The view of a header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Version 6, traffic class, flow label.
    pub version_class_flow: U32,
    /// Octets after the header.
    pub payload_len: U16,
    /// Protocol number of the payload or of the first extension header.
    pub next: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 40;

    /// DSCP and ECN in one octet.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Differentiated services code point.
    #[inline]
    pub const fn dscp(&self) -> Dscp {
        Dscp::masked(self.traffic_class() >> 2)
    }

    /// Congestion notification.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Flow label.
    #[inline]
    pub const fn flow_label(&self) -> FlowLabel {
        FlowLabel::masked(self.version_class_flow.get())
    }

    /// Protocol of the payload or of the first extension header.
    #[inline]
    pub const fn next(&self) -> Protocol {
        Protocol(self.next)
    }

    /// Source and destination.
    #[inline]
    pub fn ends(&self) -> Ends {
        Ends::V6(self.src.into(), self.dst.into())
    }

    /// One hop less; false, and nothing changed, where the packet must not
    /// travel on.
    #[inline]
    pub const fn decrement_hop_limit(&mut self) -> bool {
        if self.hop_limit <= 1 {
            return false;
        }
        self.hop_limit -= 1;
        true
    }

    /// Sets the DSCP.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        let word = self.version_class_flow.get();
        self.version_class_flow = (word & !(0x3f << 22) | u32::from(dscp.get()) << 22).into();
    }

    /// Sets the ECN.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let word = self.version_class_flow.get();
        self.version_class_flow = (word & !(3 << 20) | u32::from(ecn.bits()) << 20).into();
    }
}

/// Checks version and length; gives the view and the octets of the packet.
/// A payload length of zero means just that: jumbograms are not carried.
#[inline]
pub fn validate(bytes: &[u8]) -> Result<(&Header, usize), Malformed> {
    let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
    if h.version_class_flow.get() >> 28 != 6 {
        return Err(Malformed::Version);
    }
    let len = usize::from(h.payload_len.get());
    // A jumbogram says its length in a hop-by-hop option (RFC 2675): here it has none.
    if len > payload.len() || len == 0 && h.next() == Protocol::HOP_BY_HOP {
        return Err(Malformed::Truncated);
    }
    Ok((h, Header::LEN + len))
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Octets of the payload, extension headers included.
    pub payload_len: u16,
    /// Protocol of the payload or of the first extension header.
    pub next: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// A header with a hop limit of 64 and all else zero.
    pub const fn new(next: Protocol, src: Ipv6Addr, dst: Ipv6Addr, payload_len: u16) -> Self {
        Self {
            dscp: Dscp::masked(0),
            ecn: Ecn::NotEct,
            flow_label: FlowLabel::masked(0),
            payload_len,
            next,
            hop_limit: 64,
            src,
            dst,
        }
    }

    /// Reads a header; the payload ends where the payload length says.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, total) = validate(bytes)?;
        let repr = Self {
            dscp: h.dscp(),
            ecn: h.ecn(),
            flow_label: h.flow_label(),
            payload_len: h.payload_len.get(),
            next: h.next(),
            hop_limit: h.hop_limit,
            src: h.src.into(),
            dst: h.dst.into(),
        };
        Ok((repr, bytes.get(Header::LEN..total).ok_or(Malformed::Truncated)?))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Source and destination.
    pub const fn ends(&self) -> Ends {
        Ends::V6(self.src, self.dst)
    }

    /// Writes the header to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let class = u32::from(self.dscp.get() << 2 | self.ecn.bits());
        let h = Header {
            version_class_flow: (6 << 28 | class << 20 | self.flow_label.get()).into(),
            payload_len: self.payload_len.into(),
            next: self.next.0,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 {} > {} {} hlim {}", self.src, self.dst, self.next, self.hop_limit)?;
        if self.dscp.get() != 0 || self.ecn != Ecn::NotEct {
            write!(f, " class {:#04x}", self.dscp.get() << 2 | self.ecn.bits())?;
        }
        if self.flow_label.get() != 0 {
            write!(f, " flow {:#07x}", self.flow_label.get())?;
        }
        write!(f, " length {}", Header::LEN + usize::from(self.payload_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    /// A customer's packet as a router handed it on.
    const EXAMPLE: &str = "6002635b 0010113e 20010db8000100000000000000000009
                           20010db8000200000000000000000009 000700080010711456000000 82a55a7e";
    laws!(EXAMPLE);

    #[test]
    fn ipv6_header_means_what_an_independent_reader_says() {
        let mut bytes = hex(EXAMPLE);
        bytes.extend([0xee; 10]);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        let (other, _) = etherparse::Ipv6Header::from_slice(&bytes).unwrap();
        assert_eq!(repr.src.octets(), other.source);
        assert_eq!(repr.dst.octets(), other.destination);
        assert_eq!((repr.hop_limit, repr.next.0), (other.hop_limit, other.next_header.0));
        assert_eq!(repr.flow_label.get(), other.flow_label.value());
        assert_eq!(payload.len(), 16, "the payload ends at its length");
        assert_eq!(
            repr.to_string(),
            "IPv6 2001:db8:1::9 > 2001:db8:2::9 UDP hlim 62 flow 0x2635b length 56"
        );
    }

    #[test]
    fn ipv6_rules_are_told_apart() {
        let mut bytes = hex(EXAMPLE);
        bytes[0] = 0x45;
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Version);
        let bytes = hex(EXAMPLE);
        assert_eq!(Repr::parse(&bytes[..55]).unwrap_err(), Malformed::Truncated);
    }

    #[test]
    fn class_and_hop_limit_change_in_place_alone() {
        let mut bytes = hex(EXAMPLE);
        let (h, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        h.set_dscp(Dscp::MAX);
        h.set_ecn(Ecn::Ce);
        assert!(h.decrement_hop_limit());
        let (mut repr, _) = Repr::parse(&bytes).unwrap();
        assert_eq!((repr.dscp, repr.ecn, repr.hop_limit), (Dscp::MAX, Ecn::Ce, 61));
        (repr.dscp, repr.ecn, repr.hop_limit) = (Dscp::masked(0), Ecn::NotEct, 62);
        assert_eq!(repr, Repr::parse(&hex(EXAMPLE)).unwrap().0);
        let (h, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        h.hop_limit = 1;
        assert!(!h.decrement_hop_limit());
    }
}
