//! IPv4 and IPv6 forwarding (RFC 1812, RFC 8200).
pub mod config;
pub use config::{Adjacency, Labels, Neighbours, Route, TtlModel, Vrf};
