//! IPv4 and IPv6 forwarding (RFC 1812, RFC 8200).
//!
//! ```text
//!                       ┌─▶ Policy ─▶ …
//!  Ip ─▶ longest prefix ┼─▶ Output               onwards, one hop less
//!   ▲        match      ├─▶ Local, EspIn         an address of this node
//!   │                   └─▶ IcmpError            no route, no hops left
//!   └── replies and errors made here ◀── Local, IcmpError
//! ```
//!
//! Options and extension headers are forwarded untouched; groups, broadcasts and
//! link-local addresses are not forwarded. A clear packet from an interface with
//! a policy passes that policy first, unless it is ESP for this node.
//!
//! Dropped here: `malformed`, `bad-checksum`, `bad-source`, `no-route`,
//! `route-discard`, `not-routed`, `ttl-expired`, `too-big`, `policy-discard`,
//! `icmp-rate-limited`, `unknown-protocol`. Fragments for this node go to
//! [`fragment`](crate::fragment) first, and the policy is asked about the whole.

pub mod config;
pub mod error;
pub mod fib;
pub mod ip;
pub mod limit;
pub mod local;
pub mod neighbours;
#[cfg(test)]
pub(crate) mod tests;

pub use config::{Adjacency, Labels, Route, TtlModel, Vrf};
pub use error::IcmpError;
pub use ip::Ip;
pub use local::Local;
pub use neighbours::Neighbours;
