//! Learning bridge (802.1Q clause 8, one filtering database per VLAN).
pub mod config;
pub use config::{Bridge, MacTable};
