//! ICMP for IPv6 (RFC 4443) and neighbour discovery (RFC 4861).
//!
//! The checksum covers a pseudo header, so `parse` cannot check it: call
//! [`checksum_ok`] with both addresses first. Neighbour discovery stands in
//! [`crate::ndp`] and is one variant here.

use crate::checksum::Ends;
use crate::ip::Protocol;
use crate::{Malformed, ndp};
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Codes of destination unreachable that are sent here.
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by policy.
    pub const PROHIBITED: u8 = 1;
    /// The neighbour does not answer.
    pub const ADDRESS: u8 = 3;
    /// No listener on the port.
    pub const PORT: u8 = 4;
}

/// The view of a header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Type of message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum over pseudo header and message.
    pub checksum: U16,
    /// Four octets whose meaning is the type's.
    pub rest: [u8; 4],
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 8;
}

/// A message's header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// The packet in the payload did not arrive.
    Unreachable {
        /// Cause, see [`unreachable`].
        code: u8,
        /// Words of eight octets that the packet takes, if extensions follow it (RFC 4884
        /// section 4.4); else 0.
        quoted: u8,
    },
    /// The packet in the payload was too big.
    TooBig {
        /// MTU of the link that it is too long for.
        mtu: u32,
    },
    /// The hop limit (code 0) or the time for reassembly (code 1) ran out.
    TimeExceeded {
        /// 0 for the hop limit, 1 for reassembly.
        code: u8,
        /// As with `Unreachable`.
        quoted: u8,
    },
    /// Something in the packet's headers is wrong or unknown.
    ParameterProblem {
        /// 0 wrong field, 1 unknown next header, 2 unknown option.
        code: u8,
        /// Offset of the wrong octet.
        pointer: u32,
    },
    /// Are you there?
    EchoRequest {
        /// The asking process.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
    },
    /// Yes.
    EchoReply {
        /// The asking process.
        ident: u16,
        /// Sequence number of the request that is answered.
        seq: u16,
    },
    /// Neighbour discovery.
    Ndp(ndp::Repr),
    /// Any other message.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four octets after the checksum.
        rest: [u8; 4],
    },
}

impl Repr {
    /// Reads a message whose checksum is right.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let [a, b, c, d] = h.rest;
        let word = u32::from_be_bytes(h.rest);
        let (ident, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let repr = match (h.kind, h.code) {
            (1, code) if word << 8 == 0 => Self::Unreachable { code, quoted: a },
            (2, 0) => Self::TooBig { mtu: word },
            (3, code) if word << 8 == 0 => Self::TimeExceeded { code, quoted: a },
            (4, code) => Self::ParameterProblem { code, pointer: word },
            (128, 0) => Self::EchoRequest { ident, seq },
            (129, 0) => Self::EchoReply { ident, seq },
            (ndp::FIRST..=ndp::LAST, _) => {
                let (message, payload) = ndp::Repr::parse(bytes)?;
                return Ok((Self::Ndp(message), payload));
            }
            (kind, code) => Self::Other { kind, code, rest: h.rest },
        };
        Ok((repr, payload))
    }

    /// Octets that `emit` writes.
    #[allow(clippy::len_without_is_empty)] // a header is never empty
    pub fn len(&self) -> usize {
        match self {
            Self::Ndp(message) => message.len(),
            _ => Header::LEN,
        }
    }

    /// True for messages that RFC 4443 section 2.4 (e) forbids to answer with an error.
    pub const fn is_error(&self) -> bool {
        match self {
            Self::EchoRequest { .. } | Self::EchoReply { .. } => false,
            Self::Ndp(ndp) => matches!(ndp, ndp::Repr::Redirect { .. }),
            Self::Other { kind, .. } => *kind < 128,
            _ => true,
        }
    }

    /// Writes the header, checksum zero, to the front of `buf`, which must hold
    /// `len()` octets; then put the payload in place and call [`fill_checksum`].
    pub fn emit(&self, buf: &mut [u8]) {
        let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match *self {
            Self::Unreachable { code, quoted } => (1, code, [quoted, 0, 0, 0]),
            Self::TooBig { mtu } => (2, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code, quoted } => (3, code, [quoted, 0, 0, 0]),
            Self::ParameterProblem { code, pointer } => (4, code, pointer.to_be_bytes()),
            Self::EchoRequest { ident, seq } => (128, 0, pair(ident, seq)),
            Self::EchoReply { ident, seq } => (129, 0, pair(ident, seq)),
            Self::Ndp(message) => return message.emit(buf),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        let h = Header { kind, code, checksum: 0.into(), rest };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

/// True if the checksum of a whole message is right.
#[inline]
pub fn checksum_ok(ends: &Ends, message: &[u8]) -> bool {
    message.len() >= Header::LEN
        && ends.pseudo(Protocol::ICMPV6, message.len()).with(message).is_good()
}

/// Writes the checksum of a whole message, which must hold a header.
#[inline]
pub fn fill_checksum(ends: &Ends, message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = ends.pseudo(Protocol::ICMPV6, message.len()).with(message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { code, .. } => write!(f, "ICMPv6 unreachable code {code}"),
            Self::TooBig { mtu } => write!(f, "ICMPv6 too big, mtu {mtu}"),
            Self::TimeExceeded { code, .. } => write!(f, "ICMPv6 time exceeded code {code}"),
            Self::ParameterProblem { code, pointer } => {
                write!(f, "ICMPv6 parameter problem code {code} at octet {pointer}")
            }
            Self::EchoRequest { ident, seq } => {
                write!(f, "ICMPv6 echo request id {ident} seq {seq}")
            }
            Self::EchoReply { ident, seq } => write!(f, "ICMPv6 echo reply id {ident} seq {seq}"),
            Self::Ndp(message) => write!(f, "ICMPv6 {message}"),
            Self::Other { kind, code, .. } => write!(f, "ICMPv6 type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "8000 0000 1234 0001 616263";
    laws!(EXAMPLE, repair = |_| {}, blank = |b| b[2..4].fill(0));

    /// With a label stack behind the packet (RFC 4950).
    mod time_exceeded_extended {
        use super::*;
        const EXAMPLE: &str = "0300 0000 10000000 60";
        laws!(EXAMPLE, repair = |_| {}, blank = |b| b[2..4].fill(0));
    }

    mod solicitation {
        use super::*;
        const EXAMPLE: &str =
            "8700 0000 00000000 20010db8000b00000000000000000002 0101020000000001";
        laws!(EXAMPLE, repair = |_| {}, blank = |b| b[2..4].fill(0));
    }

    #[test]
    fn icmpv6_messages_have_names() {
        let read = |text: &str| Repr::parse(&hex(text)).unwrap().0.to_string();
        assert_eq!(read("0100000000000000"), "ICMPv6 unreachable code 0");
        assert_eq!(read("0200000000000500"), "ICMPv6 too big, mtu 1280");
        assert_eq!(read("0300000000000000"), "ICMPv6 time exceeded code 0");
        assert_eq!(read("0401000000000028"), "ICMPv6 parameter problem code 1 at octet 40");
        assert_eq!(read("8100000012340001"), "ICMPv6 echo reply id 4660 seq 1");
        assert_eq!(read("8f00000000000001"), "ICMPv6 type 143 code 0");
    }

    #[test]
    fn icmpv6_checksum_equals_an_independent_one() {
        let (src, dst) = ([0x20; 16], [0xfe; 16]);
        let ends = Ends::V6(src.into(), dst.into());
        let mut message = hex(EXAMPLE);
        fill_checksum(&ends, &mut message);
        assert!(checksum_ok(&ends, &message));
        let (header, payload) = etherparse::Icmpv6Header::from_slice(&message).unwrap();
        let other = header.icmp_type.calc_checksum(src, dst, payload).unwrap();
        assert_eq!(other.to_be_bytes(), message[2..4]);
        message[9] ^= 1;
        assert!(!checksum_ok(&ends, &message));
    }
}
