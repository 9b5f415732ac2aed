//! MACsec Entity, the SecY (IEEE 802.1AE-2018 clauses 9, 10, 14).
pub mod config;
pub use config::{RxSaConfig, SecyConfig, TxSaConfig};
