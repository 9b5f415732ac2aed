//! A node alive: threads, the system's clock, ports, management, counters.
//!
//! ```text
//!   load ─▶ daemon ──▶ opening   ports, with privilege or by a companion
//!             │   └──▶ state     counters that survive a crash
//!             ├─▶ runtime        one thread per worker
//!             └─▶ serve          control part, api, metrics, dashboard, recording
//! ```
//!
//! Everything that a packet meets is in `ferrule-node` and below; here is what
//! needs an operating system.
#![forbid(unsafe_code)]

pub mod api;
pub mod associations;
pub mod cards;
mod clock;
pub mod credentials;
mod daemon;
mod devices;
pub mod entropy;
mod events;
mod fault;
pub mod lists;
pub mod load;
mod measure;
mod metrics;
pub mod missed;
pub mod mka;
pub mod opening;
mod placing;
pub mod policies;
mod programs;
mod protocols;
mod reading;
mod recording;
pub mod report;
mod reporting;
mod rights;
mod runtime;
mod serve;
mod settle;
pub mod state;
mod store;
mod supervisor;
pub mod token;
pub mod watch;

pub use daemon::{Daemon, check, create_state};
pub use fault::{Blame, Fault, Finding, Source};
