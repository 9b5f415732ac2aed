//! IPsec tunnel-mode gateway: ESP (RFC 4303) and its policy (RFC 4301).
pub mod config;
pub use config::{InboundConfig, OutboundConfig, SaDirectory, Selector, Spd};
