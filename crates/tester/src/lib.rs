//! The instrument: traffic that is sent on time, what became of every frame of
//! it, and searches that turn trials into answers.
//!
//! ```text
//!   plan ─▶ trial ─▶ bench ─▶ result ─▶ search ─▶ answer
//!   streams  legs     live: ports and a clock
//!                     lab:  virtual wires and virtual time
//! ```
//!
//! | what | where | standard |
//! | --- | --- | --- |
//! | streams, schedules, signatures | [`stream`], [`schedule`], [`signature`] | RFC 2544 section 9 and appendix C |
//! | order, loss, latency, jitter | [`order`], [`sink`], [`delay`] | RFC 4737, 3393, 3550, 5481 |
//! | one trial | [`trial`] | RFC 2544 section 23 |
//! | searches | [`search`] | RFC 2544, 2889, 5695, 9004, 9971 |
//! | results in files | [`record`] | |
//! | configurations of any size | [`Large`] | |
//!
//! Nothing here has a clock, a thread or a port of its own.
#![forbid(unsafe_code)]

pub mod bench;
pub mod delay;
mod large;
pub mod layers;
pub mod leg;
pub mod live;
pub mod order;
pub mod plan;
pub mod rate;
pub mod record;
pub mod responder;
pub mod schedule;
pub mod search;
pub mod signature;
pub mod sink;
pub mod sizes;
pub mod statistics;
pub mod stream;
pub mod trial;
pub mod vary;

pub use bench::{About, Bench, BenchError};
pub use large::Large;
pub use layers::{Datagram, Field, LabelEntry, Layers, VlanTag};
pub use leg::Leg;
pub use live::{Side, Tally};
pub use rate::Rate;
pub use schedule::Burst;
pub use sizes::Sizes;
pub use statistics::Summary;
pub use stream::{Fault, Filler, Plan, Stream};
pub use trial::{StreamResult, Timing, Trial, TrialResult, TrialSpec};
pub use vary::{Change, Vary};
