//! The containers that packets travel in, and the ports they pass: buffers, batches, ports.
//!
//! ```text
//!            ┌────────────── pool: one region of memory ──────────────┐
//!            │ chunk │ chunk │ chunk │ …   2 KiB, 4 KiB or larger     │
//!            └───────┴───────┴───────┴────────────────────────────────┘
//!  one chunk: │ head room 256 │ frame ……… │ tail room │     its Meta: beside
//! ```
//!
//! A [`Packet`] owns one chunk: there is no second handle to it, so its bytes are changed
//! in place without synchronization. A [`Batch`] is up to 128 of them. A [`Port`] receives
//! batches from a wire and transmits them to it.
#![deny(unsafe_code)]

pub mod batch;
#[allow(unsafe_code)]
pub mod buffer;
pub mod pair;
pub mod port;

pub use batch::{BATCH, Batch};
pub use buffer::{
    AHEAD, HEAD_ROOM, Meta, NEAR_MAX, Packet, Pool, PoolCache, Region, prefetch, prefetch_at,
    prefetch_slice,
};
pub use pair::pair;
pub use port::{Missed, Port, PortStats, Supers};
