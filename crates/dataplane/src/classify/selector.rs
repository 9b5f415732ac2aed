//! Selectors of traffic as an operator or a keying protocol gives them (RFC 4301 section
//! 4.4.1.1), for policies and access lists.

use ferrule_wire::Protocol;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses from a first to a last one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// The lowest.
    pub first: IpAddr,
    /// The highest, of the same family.
    pub last: IpAddr,
}

impl Addresses {
    /// Every IPv4 address.
    pub const V4: Self =
        Self { first: IpAddr::V4(Ipv4Addr::UNSPECIFIED), last: IpAddr::V4(Ipv4Addr::BROADCAST) };

    /// Every IPv6 address.
    pub const V6: Self = Self {
        first: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        last: IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
    };

    /// True if they are IPv4.
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// True if every address of `other` is among them.
    pub fn cover(&self, other: &Self) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }

    /// True if an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4() && self.first <= address && address <= self.last
    }

    /// The prefix length, if they are just one network.
    pub fn prefix_len(&self) -> Option<u8> {
        let (first, last, bits) = match (self.first, self.last) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return None,
        };
        let host: u128 = first ^ last;
        let len = bits - (128 - host.leading_zeros());
        let network = host & host.wrapping_add(1) == 0 && first & host == 0;
        network.then_some(len as u8)
    }
}

/// A network. A length beyond that of the address stands for the address itself.
impl From<(IpAddr, u8)> for Addresses {
    fn from((address, len): (IpAddr, u8)) -> Self {
        match address {
            IpAddr::V4(a) => {
                let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
                let first = a.to_bits() & !host;
                let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(first | host));
                Self { first: first.into(), last: last.into() }
            }
            IpAddr::V6(a) => {
                let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
                let first = a.to_bits() & !host;
                let (first, last) = (Ipv6Addr::from(first), Ipv6Addr::from(first | host));
                Self { first: first.into(), last: last.into() }
            }
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_len() {
            Some(0) => f.write_str(if self.is_ipv4() { "any IPv4" } else { "any IPv6" }),
            _ if self.first == self.last => self.first.fmt(f),
            Some(len) => write!(f, "{}/{len}", self.first),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Condition on a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Field<T> {
    /// Any value, and also that there is none to be seen.
    #[default]
    Any,
    /// A value from the first to the last. A field that cannot be seen has none of them.
    Range(T, T),
    /// No value can be seen: the packet is a later fragment, its protocol has no such
    /// field, or the field is encrypted.
    Opaque,
}

impl<T: Copy> Field<T> {
    /// One value.
    pub const fn is(value: T) -> Self {
        Self::Range(value, value)
    }
}

impl<T: PartialOrd> Field<T> {
    /// True if every value that `other` accepts is accepted.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (Self::Opaque, Self::Opaque) => true,
            (Self::Range(first, last), Self::Range(low, high)) => first <= low && high <= last,
            _ => false,
        }
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Range(first, last) if first == last => first.fmt(f),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
            Self::Opaque => f.write_str("opaque"),
        }
    }
}

/// Traffic that a policy or an SA is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Addresses on this side.
    pub local: Addresses,
    /// Addresses on the other side, of the same family.
    pub remote: Addresses,
    /// The protocol behind IPv4 options and IPv6 extension headers.
    pub protocol: Field<u8>,
    /// Ports on this side. Values need a protocol that has ports.
    pub local_ports: Field<u16>,
    /// Ports on the other side.
    pub remote_ports: Field<u16>,
    /// Type and code of an ICMP message, `type << 8 | code`, or the type of a
    /// mobility header, `type << 8`. Values need such a protocol.
    pub message: Field<u16>,
}

/// IPv6 mobility header (RFC 6275).
pub const MOBILITY: Protocol = Protocol(135);

/// Error in a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Local and remote are IPv4 and IPv6.
    #[error("local and remote must both be IPv4 or both IPv6")]
    Families,
    /// The last address lies before the first.
    #[error("the last address lies before the first")]
    Addresses,
    /// The last value lies before the first.
    #[error("the last value lies before the first")]
    Order,
    /// Ports of a protocol that has none, or of any protocol.
    #[error("ports need a protocol that has them: TCP, UDP, SCTP, DCCP, UDP-Lite")]
    Ports,
    /// A message type of a protocol that has none, or of any protocol.
    #[error("a message type needs protocol ICMP, ICMPv6 or mobility")]
    Message,
    /// The protocol of an IPv4 packet can always be seen.
    #[error("the protocol of IPv4 packets is never opaque")]
    OpaqueProtocol,
    /// More combinations than one policy may have.
    #[error("too many combinations of addresses, ports and types")]
    TooMany,
}

impl Selector {
    /// Any protocol and port between two networks.
    pub fn between(local: impl Into<Addresses>, remote: impl Into<Addresses>) -> Self {
        Self {
            local: local.into(),
            remote: remote.into(),
            protocol: Field::Any,
            local_ports: Field::Any,
            remote_ports: Field::Any,
            message: Field::Any,
        }
    }

    /// The same for one protocol.
    pub fn of(self, protocol: Protocol) -> Self {
        Self { protocol: Field::is(protocol.0), ..self }
    }

    /// True if every packet that `other` matches is matched here, too.
    pub fn covers(&self, other: &Self) -> bool {
        self.local.cover(&other.local)
            && self.remote.cover(&other.remote)
            && self.protocol.covers(&other.protocol)
            && self.local_ports.covers(&other.local_ports)
            && self.remote_ports.covers(&other.remote_ports)
            && self.message.covers(&other.message)
    }

    /// Checks that address families, ranges and protocol fit together.
    pub fn check(&self) -> Result<(), SelectorError> {
        let families = [self.local.first, self.local.last, self.remote.first, self.remote.last];
        if families.iter().any(|a| a.is_ipv4() != families[0].is_ipv4()) {
            return Err(SelectorError::Families);
        }
        if self.local.first > self.local.last || self.remote.first > self.remote.last {
            return Err(SelectorError::Addresses);
        }
        if self.protocol == Field::Opaque && self.local.is_ipv4() {
            return Err(SelectorError::OpaqueProtocol);
        }
        let fields = [self.local_ports, self.remote_ports, self.message];
        if fields.iter().any(|f| matches!(f, Field::Range(first, last) if first > last))
            || matches!(self.protocol, Field::Range(first, last) if first > last)
        {
            return Err(SelectorError::Order);
        }
        let is_range = |field: &Field<u16>| matches!(field, Field::Range(..));
        let all = |has: fn(Protocol) -> bool| match self.protocol {
            Field::Range(first, last) => (first..=last).all(|p| has(Protocol(p))),
            Field::Any | Field::Opaque => false,
        };
        if fields[..2].iter().any(is_range) && !all(Protocol::has_ports) {
            return Err(SelectorError::Ports);
        }
        let has_type = |p| matches!(p, Protocol::ICMP | Protocol::ICMPV6 | MOBILITY);
        if is_range(&self.message) && !all(has_type) {
            return Err(SelectorError::Message);
        }
        Ok(())
    }
}
