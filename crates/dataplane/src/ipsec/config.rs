//! Policies and security associations.

use ferrule_base::{DropReason, Secret, VrfId};
use ferrule_crypto::{KeySpec, Suite};
use std::net::IpAddr;

/// Traffic that a policy or an SA is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Addresses on this side, with prefix length.
    pub local: (IpAddr, u8),
    /// Addresses on the other side.
    pub remote: (IpAddr, u8),
    /// IP protocol; nothing: any.
    pub protocol: Option<u8>,
}

/// An ordered security policy database. What no entry matches is discarded.
#[derive(Default)]
pub struct Spd {}

impl Spd {
    /// Whether a clear packet, IP header first, may come in.
    pub fn inbound(&self, _packet: &[u8]) -> Result<(), DropReason> {
        Err(DropReason::PolicyDiscard)
    }
}

/// Which worker has which SA.
#[derive(Default)]
pub struct SaDirectory {}

/// An outbound ESP SA in tunnel mode.
pub struct OutboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// Outer source: this gateway.
    pub source: IpAddr,
    /// Outer destination: the other gateway.
    pub destination: IpAddr,
    /// The cipher suite.
    pub suite: Suite,
    /// Its keys.
    pub keys: KeySpec,
    /// The salt (RFC 4106 section 4), `suite.esp_salt_len()` octets.
    pub salt: Secret,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The adjacency by which sealed packets leave.
    pub adjacency: u32,
    /// Largest inner packet that fits the path.
    pub mtu: u16,
}

/// An inbound ESP SA in tunnel mode.
pub struct InboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// The other gateway; nothing: any.
    pub source: Option<IpAddr>,
    /// This gateway.
    pub destination: IpAddr,
    /// The cipher suite.
    pub suite: Suite,
    /// Its keys.
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
