//! Ethernet: from a port to an interface, and from an adjacency to a port
//! (IEEE 802.3 clause 3, 802.1Q clauses 6.9 and 9, RFC 894, RFC 2464).
//!
//! ```text
//!  port ─▶ Attach ─┬─▶ Ip, Mpls     routed: link header off
//!                  ├─▶ Control      ARP and neighbour discovery, whole
//!                  ├─▶ Bridge       own tag off, access VLAN's tag on
//!                  └─▶ PwOut        own tag off or kept, as the mode wants
//!
//!  adjacency ─▶ Output ─▶ Emit ─┬─▶ Transmit, SecyOut
//!                  │            └─▶ Emit of the port's own worker
//!                  └─▶ Control      the neighbour's address is not known yet
//! ```
//!
//! Dropped here: `malformed`, `not-for-us`, `not-attached`, `unknown-vlan`,
//! `unknown-protocol`, `too-big`, `no-neighbour`, `no-room`, `port-down`.

pub mod egress;
mod exit;
pub mod ingress;
mod paths;
pub mod tag;
#[cfg(test)]
mod tests;

pub use egress::{Emit, Output};
pub(crate) use exit::{Arrival, Entry, Exit, Gate};
pub use ingress::Attach;
pub use paths::{NextHopGroups, PATHS_MAX};
pub(crate) use paths::{PathMember, pick};
pub use tag::tag_out;
