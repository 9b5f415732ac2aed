//! ICMP for IPv4 (RFC 792, RFC 1191): 8 octets, then the echoed data or the
//! packet in question.

use crate::Malformed;
use crate::checksum::checksum;
use std::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Codes of destination unreachable that are sent here.
pub mod unreachable {
    /// No route.
    pub const NET: u8 = 0;
    /// The neighbour does not answer.
    pub const HOST: u8 = 1;
    /// The host does not know the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No listener on the port.
    pub const PORT: u8 = 3;
    /// Too big, and not to be fragmented; carries the next hop's MTU.
    pub const TOO_BIG: u8 = 4;
    /// Forbidden by policy.
    pub const PROHIBITED: u8 = 13;
}

/// The view of a header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Type of message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum over the whole message.
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
    /// The packet in the payload did not arrive.
    Unreachable {
        /// Cause, see [`unreachable`].
        code: u8,
        /// With code 4, the MTU that it was too big for (RFC 1191 section 4).
        mtu: u16,
        /// Words of four octets that the packet takes, if extensions follow it (RFC 4884
        /// section 4.1); else 0.
        quoted: u8,
    },
    /// Use another gateway.
    Redirect {
        /// Kind of destination: a network or a host, for one class or any.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
    },
    /// The TTL (code 0) or the time for reassembly (code 1) ran out.
    TimeExceeded {
        /// 0 for the TTL, 1 for reassembly.
        code: u8,
        /// As with `Unreachable`.
        quoted: u8,
    },
    /// A field of the header in the payload is wrong.
    ParameterProblem {
        /// Offset of the wrong octet.
        pointer: u8,
    },
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

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a whole message, checksum included.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if !checksum_ok(bytes) {
            return Err(Malformed::Checksum);
        }
        Ok((Self::of(h), payload))
    }

    /// Reads the header of a message that may be cut short, as the packet
    /// inside an error is; the checksum cannot be checked then.
    pub fn parse_quoted(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        Ok((Self::of(h), payload))
    }

    fn of(h: &Header) -> Self {
        let [a, b, c, d] = h.rest;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match (h.kind, h.code, high) {
            (0, 0, _) => Self::EchoReply { ident: high, seq: low },
            (8, 0, _) => Self::EchoRequest { ident: high, seq: low },
            (3, code, 0..=0xff) if code == unreachable::TOO_BIG || low == 0 => {
                Self::Unreachable { code, mtu: low, quoted: b }
            }
            (5, code, _) => Self::Redirect { code, gateway: h.rest.into() },
            (11, code, 0..=0xff) if low == 0 => Self::TimeExceeded { code, quoted: b },
            (12, 0, _) if b == 0 && low == 0 => Self::ParameterProblem { pointer: a },
            (kind, code, _) => Self::Other { kind, code, rest: h.rest },
        }
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// True for errors, which RFC 1122 section 3.2.2 forbids to answer with an error.
    pub const fn is_error(&self) -> bool {
        match self {
            Self::EchoRequest { .. } | Self::EchoReply { .. } => false,
            Self::Other { kind, .. } => matches!(kind, 3 | 4 | 5 | 11 | 12),
            _ => true,
        }
    }

    /// Writes the header, checksum zero, to the front of `buf`, which must hold
    /// `len()` octets; then put the payload in place and call [`fill_checksum`].
    pub fn emit(&self, buf: &mut [u8]) {
        let pair = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Self::EchoReply { ident, seq } => (0, 0, pair(ident, seq)),
            Self::EchoRequest { ident, seq } => (8, 0, pair(ident, seq)),
            Self::Unreachable { code, mtu, quoted } => (3, code, pair(quoted.into(), mtu)),
            Self::Redirect { code, gateway } => (5, code, gateway.octets()),
            Self::TimeExceeded { code, quoted } => (11, code, [0, quoted, 0, 0]),
            Self::ParameterProblem { pointer } => (12, 0, [pointer, 0, 0, 0]),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        let h = Header { kind, code, checksum: 0.into(), rest };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

/// True if the checksum of a whole message is right.
#[inline]
pub fn checksum_ok(message: &[u8]) -> bool {
    message.len() >= Header::LEN && checksum(message) == 0
}

/// Writes the checksum of a whole message, which must hold a header.
#[inline]
pub fn fill_checksum(message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EchoRequest { ident, seq } => {
                write!(f, "ICMP echo request id {ident} seq {seq}")
            }
            Self::EchoReply { ident, seq } => write!(f, "ICMP echo reply id {ident} seq {seq}"),
            Self::Unreachable { code: unreachable::TOO_BIG, mtu, .. } => {
                write!(f, "ICMP too big, mtu {mtu}")
            }
            Self::Unreachable { code, .. } => write!(f, "ICMP unreachable code {code}"),
            Self::Redirect { gateway, .. } => write!(f, "ICMP redirect to {gateway}"),
            Self::TimeExceeded { code, .. } => write!(f, "ICMP time exceeded code {code}"),
            Self::ParameterProblem { pointer } => {
                write!(f, "ICMP parameter problem at octet {pointer}")
            }
            Self::Other { kind, code, .. } => write!(f, "ICMP type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "0800 2168 1234 0001 6162 63";
    fn repair(message: &mut [u8]) {
        if message.len() >= Header::LEN {
            fill_checksum(message);
        }
    }
    laws!(EXAMPLE, repair = repair, blank = |b| b[2..4].fill(0));

    mod too_big {
        use super::*;
        const EXAMPLE: &str = "0304 f725 0000 05d6 00";
        laws!(EXAMPLE, repair = repair, blank = |b| b[2..4].fill(0));
    }

    /// With a label stack behind the packet (RFC 4950).
    mod too_big_extended {
        use super::*;
        const EXAMPLE: &str = "0304 ef05 0020 05d6 08";
        laws!(EXAMPLE, repair = repair, blank = |b| b[2..4].fill(0));

        #[test]
        fn mtu_and_extension_are_told_together() {
            let mut bytes = hex(EXAMPLE);
            fill_checksum(&mut bytes);
            let (repr, _) = Repr::parse(&bytes).unwrap();
            assert_eq!(repr, Repr::Unreachable { code: 4, mtu: 1494, quoted: 32 });
        }
    }

    #[test]
    fn icmp_messages_have_names() {
        let read = |text: &str| {
            let mut bytes = hex(text);
            fill_checksum(&mut bytes);
            Repr::parse(&bytes).unwrap().0.to_string()
        };
        assert_eq!(read("0800000012340001"), "ICMP echo request id 4660 seq 1");
        assert_eq!(read("0000000012340001"), "ICMP echo reply id 4660 seq 1");
        assert_eq!(read("03040000000005d6"), "ICMP too big, mtu 1494");
        assert_eq!(read("0301000000000000"), "ICMP unreachable code 1");
        assert_eq!(read("0b00000000000000"), "ICMP time exceeded code 0");
        assert_eq!(read("0501000a0a000001"), "ICMP redirect to 10.0.0.1");
        assert_eq!(read("0c00000014000000"), "ICMP parameter problem at octet 20");
        assert_eq!(read("0d00000014000000"), "ICMP type 13 code 0");
    }

    #[test]
    fn icmp_checksum_is_checked_and_told() {
        let mut bytes = hex(EXAMPLE);
        assert!(Repr::parse(&bytes).is_ok());
        bytes[10] ^= 1;
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Checksum);
        assert!(Repr::parse_quoted(&bytes).is_ok());
    }

    #[test]
    fn errors_are_not_answered_with_errors() {
        assert!(Repr::TimeExceeded { code: 0, quoted: 0 }.is_error());
        assert!(Repr::Other { kind: 4, code: 0, rest: [0; 4] }.is_error());
        assert!(!Repr::EchoRequest { ident: 0, seq: 0 }.is_error());
    }
}
