//! ARP for IPv4 over Ethernet (RFC 826).

use crate::{EtherType, Malformed};
use ferrule_base::MacAddr;
use std::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The view of an ARP message.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// 1 for Ethernet.
    pub hardware: U16,
    /// 0x0800 for IPv4.
    pub protocol: U16,
    /// 6 for Ethernet.
    pub hardware_len: u8,
    /// 4 for IPv4.
    pub protocol_len: u8,
    /// 1 request, 2 reply.
    pub operation: U16,
    /// The sender's Ethernet address.
    pub sender_mac: [u8; 6],
    /// The sender's IPv4 address.
    pub sender_ip: [u8; 4],
    /// The target's Ethernet address.
    pub target_mac: [u8; 6],
    /// The target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Header {
    /// Octets of a message.
    pub const LEN: usize = 28;
}

/// Purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Asks for the hardware address of the target.
    Request,
    /// The sender has its address.
    Reply,
}

/// An ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's Ethernet address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// The target's Ethernet address; no meaning in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

#[allow(clippy::len_without_is_empty)] // a message is never empty
impl Repr {
    /// Reads a message; the payload is empty, for the rest is padding.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if h.hardware.get() != 1 || h.protocol.get() != EtherType::IPV4.0 {
            return Err(Malformed::Kind);
        }
        if h.hardware_len != 6 || h.protocol_len != 4 {
            return Err(Malformed::Length);
        }
        let operation = match h.operation.get() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Malformed::Kind),
        };
        let repr = Self {
            operation,
            sender_mac: MacAddr(h.sender_mac),
            sender_ip: h.sender_ip.into(),
            target_mac: MacAddr(h.target_mac),
            target_ip: h.target_ip.into(),
        };
        Ok((repr, &[]))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the message to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        let h = Header {
            hardware: 1.into(),
            protocol: EtherType::IPV4.0.into(),
            hardware_len: 6,
            protocol_len: 4,
            operation: operation.into(),
            sender_mac: self.sender_mac.0,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac.0,
            target_ip: self.target_ip.octets(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Request => {
                write!(f, "ARP who-has {} tell {}", self.target_ip, self.sender_ip)
            }
            Operation::Reply => write!(f, "ARP {} is-at {}", self.sender_ip, self.sender_mac),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str =
        "0001 0800 06 04 0001 020000000001 c6336401 000000000000 c6336402 000000000000";
    laws!(EXAMPLE);

    #[test]
    fn arp_request_reads_as_a_question() {
        let bytes = hex(EXAMPLE);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        assert_eq!(repr.to_string(), "ARP who-has 198.51.100.2 tell 198.51.100.1");
        assert!(payload.is_empty(), "padding is not payload");
        let mut other = bytes.clone();
        other[7] = 2;
        let (reply, _) = Repr::parse(&other).unwrap();
        assert_eq!(reply.to_string(), "ARP 198.51.100.1 is-at 02:00:00:00:00:01");
    }

    #[test]
    fn arp_of_other_networks_is_refused() {
        for (at, value, why) in [
            (1, 6, Malformed::Kind),
            (3, 6, Malformed::Kind),
            (4, 8, Malformed::Length),
            (5, 16, Malformed::Length),
            (7, 3, Malformed::Kind),
        ] {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = value;
            assert_eq!(Repr::parse(&bytes).unwrap_err(), why);
        }
    }
}
