//! The laboratory: whole networks in virtual time, deterministic by seed.
//!
//! ```text
//!   station ── link ── [ queue │ device: a node, served under a profile ] ── link ── station
//!      │                                     │                                        │
//!      └───────────── agenda: (time, order, event), one for the whole network ────────┘
//! ```
//!
//! The nodes are those that the daemon drives; here an event queue calls them
//! with its own time. A [`Profile`] prices the work that they report, so that
//! one and the same data path can stand for a slow gateway or an ideal one.
//! Everything random comes from streams of the seed, one for each purpose:
//! another link does not change the dice of those that are there.
//!
//! Begin with [`Network`].
#![forbid(unsafe_code)]

mod agenda;
pub mod calibrate;
mod capture;
mod change;
pub mod check;
mod device;
mod follow;
pub mod host;
mod impair;
mod ledger;
mod link;
mod look;
pub mod memory;
mod network;
mod observe;
pub mod placing;
pub mod profile;
pub mod random;
mod run;
mod station;
pub mod tester;
pub mod topology;
pub mod wires;
mod world;

pub use change::Change;
pub use device::{Device, DeviceReport, DeviceStats};
pub use follow::{JOURNEYS_MAX, Journey, Parts, Passage, Spot};
pub use impair::{HoldBack, Impairments};
pub use ledger::{NetworkLedger, Unbalanced};
pub use link::{Direction, Framing, LaneStats, LinkSpec, LinkStats};
pub use look::LaneNow;
pub use network::{DeviceId, End, LabEngine, LabError, LinkId, Network, StationId, TapId};
pub use observe::{Loss, Observer, Place, Sighting};
pub use profile::Profile;
pub use station::{Io, Station};
