//! Policies and security associations, as a configuration or a keying protocol
//! gives them.

use super::traffic::{Direction, Rules};
use ferrule_base::{DropReason, Secret, VrfId};
use ferrule_crypto::KeySpec;
use ferrule_wire::Dscp;
use std::fmt;
use std::net::IpAddr;

/// Traffic that a policy or an SA is for (RFC 4301 section 4.4.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Addresses on this side, with prefix length.
    pub local: (IpAddr, u8),
    /// Addresses on the other side, of the same family.
    pub remote: (IpAddr, u8),
    /// IP protocol; nothing: any.
    pub protocol: Option<u8>,
    /// Ports on this side, first and last; nothing: any, or none at all.
    pub local_ports: Option<(u16, u16)>,
    /// Ports on the other side.
    pub remote_ports: Option<(u16, u16)>,
}

/// What is wrong with a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// Local and remote are IPv4 and IPv6.
    Families,
    /// A prefix is longer than an address.
    PrefixLength,
    /// The last port lies before the first.
    Ports,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Families => "local and remote must both be IPv4 or both IPv6",
            Self::PrefixLength => "the prefix is longer than the address",
            Self::Ports => "the last port lies before the first",
        })
    }
}

impl std::error::Error for SelectorError {}

impl Selector {
    /// Any protocol and port between two prefixes.
    pub const fn between(local: (IpAddr, u8), remote: (IpAddr, u8)) -> Self {
        Self { local, remote, protocol: None, local_ports: None, remote_ports: None }
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), SelectorError> {
        if self.local.0.is_ipv4() != self.remote.0.is_ipv4() {
            return Err(SelectorError::Families);
        }
        let bits = if self.local.0.is_ipv4() { 32 } else { 128 };
        if self.local.1 > bits || self.remote.1 > bits {
            return Err(SelectorError::PrefixLength);
        }
        let wrong = |ports: Option<(u16, u16)>| ports.is_some_and(|(first, last)| first > last);
        if wrong(self.local_ports) || wrong(self.remote_ports) {
            return Err(SelectorError::Ports);
        }
        Ok(())
    }
}

/// What a policy does with its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sealed by this outbound SA; in clear it is refused.
    Protect(u32),
    /// Passes in clear.
    Bypass,
    /// Is dropped.
    Discard,
}

/// One entry of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEntry {
    /// Whose traffic.
    pub selector: Selector,
    /// What becomes of it.
    pub action: Action,
}

/// An ordered security policy database (RFC 4301 section 4.4.1): the first
/// entry that matches decides. What no entry matches is discarded.
#[derive(Default)]
pub struct Spd(Rules<Action>);

impl Spd {
    /// Compiles a policy; an error names the place of the wrong entry.
    pub fn new(entries: &[PolicyEntry]) -> Result<Self, (usize, SelectorError)> {
        Rules::new(entries.iter().map(|e| (&e.selector, e.action))).map(Self)
    }

    /// What to do with an IP packet that leaves by the boundary.
    #[inline]
    pub fn outbound(&self, packet: &[u8]) -> Result<Action, DropReason> {
        self.action(packet, Direction::Outbound)
    }

    /// Whether an IP packet may enter in clear by the boundary. (ESP packets
    /// for the node itself are not asked about here: they go to their SA.)
    #[inline]
    pub fn inbound(&self, packet: &[u8]) -> Result<(), DropReason> {
        match self.action(packet, Direction::Inbound)? {
            Action::Bypass => Ok(()),
            Action::Protect(_) => Err(DropReason::EspRequired),
            Action::Discard => Err(DropReason::PolicyDiscard),
        }
    }

    #[inline]
    fn action(&self, packet: &[u8], direction: Direction) -> Result<Action, DropReason> {
        let found = self.0.find(packet, direction)?;
        let action = found.then.unwrap_or(Action::Discard);
        // A fragment without ports that may belong to an earlier entry must not
        // slip past that entry in clear (RFC 4301 section 7.4).
        match (action, found.perhaps) {
            (Action::Bypass, Some(Action::Protect(_) | Action::Discard)) => Ok(Action::Discard),
            _ => Ok(action),
        }
    }
}

/// The DF bit of an outer IPv4 header (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Df {
    /// As inside; set for IPv6, which no router fragments.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set.
    Clear,
}

/// An outbound ESP SA in tunnel mode.
#[derive(Clone, Debug)]
pub struct OutboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// Outer source: this gateway.
    pub source: IpAddr,
    /// Outer destination: the other gateway.
    pub destination: IpAddr,
    /// The suite and its keys.
    pub keys: KeySpec,
    /// The salt (RFC 4106 section 4), `suite.esp_salt_len()` octets.
    pub salt: Secret,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The adjacency by which sealed packets leave.
    pub adjacency: u32,
    /// Largest inner packet that fits the path.
    pub mtu: u16,
    /// The outer DF bit.
    pub df: Df,
    /// The outer DSCP; nothing: as inside.
    pub dscp: Option<Dscp>,
}

/// An inbound ESP SA in tunnel mode.
#[derive(Clone, Debug)]
pub struct InboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// The other gateway; nothing: any.
    pub source: Option<IpAddr>,
    /// This gateway.
    pub destination: IpAddr,
    /// The suite and its keys.
    pub keys: KeySpec,
    /// The salt.
    pub salt: Secret,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Packets of the replay window; 0: replay is not checked.
    pub window: u32,
    /// What may come out of it (RFC 4301 section 5.2).
    pub selectors: Vec<Selector>,
    /// The table in which inner packets go on.
    pub vrf: VrfId,
}
