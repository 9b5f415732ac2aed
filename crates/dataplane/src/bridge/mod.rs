//! Learning bridge: one filtering database per VLAN (IEEE 802.1Q clause 8).
//!
//! ```text
//!  Attach ─▶ learn (VLAN, source) ─▶ look up (VLAN, destination)
//!              │                       ├─ known ───▶ that member ──────┐
//!              ▼                       └─ unknown, group ─▶ all others ┴─▶ Emit
//!           MacTable, shared by all workers
//! ```
//!
//! A member's access lists judge frames as they are in the bridge, before the one stage and
//! behind the other.
//!
//! A frame's VLAN is that of its own 802.1Q tag once the interface's own tag is
//! off: 0 without one. Interfaces of an access VLAN take part in that VLAN
//! alone. There is no spanning tree: a topology must be free of loops.
//!
//! Dropped here: `malformed`, `not-attached`, `bad-source`, `unknown-vlan`,
//! `bridge-reserved`, `bridge-same-port`, `no-buffer`, `no-room`.

pub mod forward;
mod member;
pub mod table;
#[cfg(test)]
mod tests;

pub use forward::Forward;
pub(crate) use forward::{flood, leave_permitted};
pub(crate) use member::Member;
pub use table::{Learned, MacTable};

use std::sync::Arc;

/// A bridge: its interfaces, and a table of addresses that outlives
/// configurations and is shared by all workers.
pub struct Bridge {
    /// The name in the configuration.
    pub name: Box<str>,
    /// Its interfaces.
    pub members: Vec<u16>,
    /// Learned addresses.
    pub table: Arc<MacTable>,
}
