//! IPv4 and IPv6 forwarding (RFC 1812, RFC 8200).
pub mod config;
pub mod fib;
pub mod neighbours;
#[cfg(test)]
mod tests;

pub use config::{Adjacency, Labels, Route, TtlModel, Vrf};
pub use neighbours::Neighbours;
