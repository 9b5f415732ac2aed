//! UDP headers (RFC 768).

use crate::Malformed;
use crate::checksum::Ends;
use crate::ip::Protocol;
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Port of ESP and IKE in UDP (RFC 3948).
pub const PORT_ESP: u16 = 4500;
/// MPLS in UDP (RFC 7510).
pub const PORT_MPLS: u16 = 6635;

/// The view of a header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub src: U16,
    /// Destination port.
    pub dst: U16,
    /// Octets of header and payload.
    pub len: U16,
    /// Checksum, or zero for none (IPv4 only).
    pub checksum: U16,
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 8;
}

/// A UDP header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Octets of the payload, at most 65527.
    pub payload_len: u16,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a header; the payload ends where the length says.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let payload_len = h.len.get().checked_sub(Header::LEN as u16).ok_or(Malformed::Length)?;
        let payload = payload.get(..usize::from(payload_len)).ok_or(Malformed::Truncated)?;
        Ok((Self { src: h.src.get(), dst: h.dst.get(), payload_len }, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header, checksum zero, to the front of `buf`, which must hold
    /// `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header {
            src: self.src.into(),
            dst: self.dst.into(),
            len: self.payload_len.saturating_add(Header::LEN as u16).into(),
            checksum: 0.into(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

/// True if the checksum of a datagram, cut at its length, is right. Over IPv4 it may be
/// absent; over IPv6 not (RFC 8200 section 8.1).
#[inline]
pub fn checksum_ok(ends: &Ends, datagram: &[u8]) -> bool {
    match datagram.get(6..8) {
        None => false,
        Some([0, 0]) => matches!(ends, Ends::V4(..)),
        Some(_) => ends.pseudo(Protocol::UDP, datagram.len()).with(datagram).is_good(),
    }
}

/// Writes the checksum of a whole datagram, which must hold a header.
#[inline]
pub fn fill_checksum(ends: &Ends, datagram: &mut [u8]) {
    datagram[6..8].fill(0);
    let sum = ends.pseudo(Protocol::UDP, datagram.len()).with(datagram).finish();
    // Zero would mean that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} > {} length {}", self.src, self.dst, self.payload_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use std::net::Ipv4Addr;

    const EXAMPLE: &str = "00070008 0010b986 56000000 81a55a7e";
    const ENDS: Ends = Ends::V4(Ipv4Addr::new(10, 1, 0, 9), Ipv4Addr::new(10, 2, 0, 9));
    laws!(EXAMPLE, repair = |_| {}, blank = |b| b[6..8].fill(0));

    #[test]
    fn udp_header_means_what_an_independent_reader_says() {
        let mut bytes = hex(EXAMPLE);
        bytes.extend([0xee; 4]);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        let (other, _) = etherparse::UdpHeader::from_slice(&bytes).unwrap();
        assert_eq!((repr.src, repr.dst), (other.source_port, other.destination_port));
        assert_eq!(usize::from(other.length), payload.len() + Header::LEN);
        assert_eq!(repr.to_string(), "UDP 7 > 8 length 8");
        bytes[5] = 7;
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Length);
    }

    #[test]
    fn udp_checksum_of_a_captured_packet_is_made_and_checked() {
        let captured = hex(EXAMPLE);
        assert!(checksum_ok(&ENDS, &captured));
        let mut ours = captured.clone();
        fill_checksum(&ENDS, &mut ours);
        assert_eq!(ours, captured);
        ours[9] ^= 1;
        assert!(!checksum_ok(&ENDS, &ours));
        ours[6..8].fill(0);
        assert!(checksum_ok(&ENDS, &ours), "none over IPv4");
        let v6 = Ends::V6([0; 16].into(), [1; 16].into());
        assert!(!checksum_ok(&v6, &ours), "but not over IPv6");
        assert!(!checksum_ok(&ENDS, &[0; 5]));
    }
}
