//! Elements shared by both versions of IP: protocol numbers and header options.

use std::fmt;

/// An IP protocol number or IPv6 next header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// IPv4 in IP.
    pub const IPV4: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 in IP.
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// GRE.
    pub const GRE: Self = Self(47);
    /// Encapsulating security payload.
    pub const ESP: Self = Self(50);
    /// Authentication header.
    pub const AH: Self = Self(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// No next header; in ESP a dummy packet.
    pub const NONE: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION: Self = Self(60);
    /// MPLS in IP (RFC 4023).
    pub const MPLS: Self = Self(137);
    /// An Ethernet frame (RFC 8986).
    pub const ETHERNET: Self = Self(143);

    /// True if the first four octets of the header are two ports.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self(33) | Self(132) | Self(136))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::HOP_BY_HOP => "HOPOPT",
            Self::ICMP => "ICMP",
            Self::IPV4 => "IPv4",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::IPV6 => "IPv6",
            Self::ROUTING => "Routing",
            Self::FRAGMENT => "Fragment",
            Self::GRE => "GRE",
            Self::ESP => "ESP",
            Self::AH => "AH",
            Self::ICMPV6 => "ICMPv6",
            Self::NONE => "no next header",
            Self::DESTINATION => "DestOpts",
            Self::MPLS => "MPLS",
            Self::ETHERNET => "Ethernet",
            Self(n) => return write!(f, "protocol {n}"),
        };
        f.write_str(name)
    }
}

/// Up to 40 octets of IPv4 or TCP options, a multiple of four.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    len: u8,
    octets: [u8; 40],
}

impl Options {
    /// No options.
    pub const NONE: Self = Self { len: 0, octets: [0; 40] };

    /// Keeps a copy; nothing if too long or not a multiple of four octets.
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut this = Self::NONE;
        if !octets.len().is_multiple_of(4) {
            return None;
        }
        this.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        this.len = octets.len() as u8;
        Some(this)
    }

    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}
