//! Engines that are not in the worker's own loop, and the one that holds them all.
//!
//! ```text
//!   worker ─▶ Placed ─┬─▶ Software                        in place
//!                     ├─▶ look-aside: a queue pair ─▶ a thread, a card, a model
//!                     └─▶ token: key stream made ahead
//! ```
//!
//! The placement of the work with a key is given when the key is installed
//! ([`ferrule_crypto::Place`]); stages and jobs know nothing of it.
#![deny(unsafe_code)]

pub mod latency;
pub mod look_aside;
pub mod placed;
#[allow(unsafe_code)]
pub mod token;

pub use look_aside::LookAside;
pub use placed::Placed;
