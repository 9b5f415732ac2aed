//! What a SecY and its associations are configured with.

use ferrule_base::{PortId, Secret};
use ferrule_crypto::Suite;

/// A SecY on a port.
pub struct SecyConfig {
    /// The port.
    pub port: PortId,
    /// Our SCI: system identifier and port number.
    pub sci: u64,
    /// The cipher suite.
    pub suite: Suite,
    /// 64-bit packet numbers (the XPN suites).
    pub xpn: bool,
}

/// A transmit association.
pub struct TxSaConfig {
    /// Association number, 0 to 3.
    pub an: u8,
    /// The SAK.
    pub key: Secret,
}

/// A receive association.
pub struct RxSaConfig {
    /// The peer's SCI.
    pub sci: u64,
    /// Association number, 0 to 3.
    pub an: u8,
    /// The SAK.
    pub key: Secret,
}
