//! Nodes that are fed arbitrary frames on all their ports, between turns of
//! their workers, their control part and time.
//!
//! ```text
//!   input ─▶ which node ─▶ operations: a frame that is altered, a frame sealed
//!                          with the right key around altered octets, raw
//!                          octets, time, turns, a reload
//!         ─▶ everything settles ─▶ packets balance, none is held, and every
//!                                  buffer is back in the pool
//! ```
//! Altered frames alone would end at the first check of an ICV; the sealed ones
//! carry nonsense past it.

mod configs;
mod frames;
mod run;
mod sealed;

pub use configs::{CONFIGS, builds};
pub use run::{node, seeds};
