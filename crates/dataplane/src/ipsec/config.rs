//! Security associations, as a configuration or a keying protocol gives them.

use super::spd::selector::Selector;
use ferrule_base::{Secret, VrfId};
use ferrule_crypto::KeySpec;
use ferrule_wire::Dscp;
use std::net::IpAddr;

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
