//! The data path: the stages that process batches of packets.
//!
//! ```text
//!             ┌─▶ bridge ─────────────────────────────────────────────┐
//! port ─▶ SecY in ─▶ attach ─▶ PW out ────────┐                       ├─▶ emit ─▶ SecY out ─▶ port
//!             ├─▶ list ─▶ IP ─▶ list ─▶ policy ─▶ ESP out ─▶ output ──┘
//!             │            ▲ └─▶ local, ESP in, ICMP error, reassemble
//!             └─▶ MPLS ─▶ PW in, IP, output
//! ```
//!
//! Every stage takes a batch, and sends each packet to a named next stage
//! ([`graph::Next`]) or drops it with a reason. [`graph`] has the contract,
//! [`tables`] the snapshot of configuration that all stages read. Each protocol
//! has a folder with the same files in the same roles.
#![forbid(unsafe_code)]

pub mod acl;
pub mod audit;
pub mod bridge;
pub mod classify;
pub mod fragment;
pub mod graph;
pub mod ipsec;
pub mod link;
pub mod macsec;
pub mod mpls;
pub mod mss;
pub mod protection;
pub mod route;
pub mod tables;

pub use graph::{Ctx, Next, Outputs, Stage, Tally};
pub use protection::sequence::{self, Lease, Sequence};
pub use tables::Tables;
