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
//! IPv4 options are forwarded, record route and timestamp with this hop; each IPv6 option itself
//! gives the treatment of a packet whose reader does not know it. Groups, broadcasts, loopback and
//! link-local addresses are not forwarded. A clear packet from an interface with a policy passes
//! that policy first, unless it is ESP for this node.
//!
//! Dropped here: `malformed`, `bad-checksum`, `bad-source`, `no-route`,
//! `route-discard`, `not-routed`, `ttl-expired`, `too-big`, `policy-discard`,
//! `icmp-rate-limited`, `unknown-protocol`, `ip-option`, `address-withheld`. Fragments for this node go to
//! [`fragment`](crate::fragment) first, and the policy is asked about the whole.

pub(crate) mod address;
pub mod config;
pub mod error;
pub mod fib;
pub mod ip;
pub mod limit;
pub mod local;
pub mod neighbours;
mod options;
mod sources;
mod speaker;
#[cfg(test)]
pub(crate) mod tests;
pub mod withheld;

pub use address::broadcasts;
pub use config::{Adjacency, Labels, Route, TtlModel, Vrf};
pub use error::{IcmpError, unanswered};
pub use ip::Ip;
pub(crate) use ip::{TIME_EXCEEDED_V4, TIME_EXCEEDED_V6, TOO_BIG_V4, TOO_BIG_V6};
pub use local::Local;
pub use neighbours::Neighbours;
pub use sources::{SourceCheck, Sources};
pub use withheld::Withheld;
