//! Fragments: datagrams cut into pieces, and put together again (RFC 791
//! sections 2.3 and 3.2, RFC 8200 section 4.5, RFC 5722, RFC 6946).
//!
//! ```text
//!            fragments for the node itself          whole, as it was sent
//!   Ip ───────────────────────▶ Reassemble ──────────────────────────▶ Ip
//!   Policy ─── on their way, but an SA wants whole datagrams ────────▶ Policy
//!                                   │ not all came in 60 s
//!                                   └─▶ IcmpError: time exceeded, code 1
//!
//!   │ head room │ headers of the first │ data, each piece at its place │ tail room │
//! ```
//!
//! * [`cut`](mod@cut) a packet of IPv4 or, made here, of IPv6 into pieces.
//! * `piece`: one fragment, as its headers describe it.
//! * `assembly`: one datagram: a buffer, and which parts of it are there.
//! * [`reassemble`] the stage, with all datagrams of one worker.
//!
//! **Memory.** A fragment's octets are copied to their place and its buffer goes
//! back to the pool at once, so a datagram takes one buffer however small its
//! pieces are. At most an eighth of the pool's buffers are used so, shared by all
//! workers, and [`DATAGRAMS_MAX`] by each; of one source (an IPv4 address, an IPv6
//! /64) at most [`PER_SOURCE_MAX`]. Where one too many begins, the oldest goes,
//! of that source or of all. Each fragment counts as held until its datagram
//! leaves whole (then one is sent on and the others are consumed) or is given up
//! (then each is dropped for the same reason).
//!
//! **A whole datagram has to fit one buffer**: `buffer-size` less 320 octets of room for
//! headers and ICV, so 1728 octets behind the header of a packet with the usual 2048. That
//! suffices for an inner packet of 1500 octets, sealed and then cut. A longer datagram is
//! dropped as `reassembly-too-big`, with all its other fragments; a node that is to take
//! longer ones gets a larger `buffer-size`, up to 64 KiB.
//!
//! **Overlaps** end the datagram (RFC 5722, and the same for IPv4): its later fragments are
//! dropped, too; only an exact copy of octets that are there already is passed over (RFC
//! 8200 section 4.5). A datagram is never made of fragments that came in different ways: in
//! clear and out of an SA, or out of two.
//!
//! Drops: `malformed`, `fragment-overlap`, `fragment-duplicate`, `fragment-tiny`,
//! `reassembly-timeout`, `reassembly-full`, `reassembly-too-big`, `ip-option`,
//! `no-buffer`.

mod assembly;
pub mod cut;
mod piece;
pub mod reassemble;
#[cfg(test)]
mod tests;

pub use cut::{FRAGMENTS_MAX, Rest, cut};
pub use piece::take_off_atomic;
pub use reassemble::Reassemble;

use ferrule_base::Duration;

/// Datagrams that one worker puts together at a time, at most.
pub const DATAGRAMS_MAX: usize = 256;

/// Datagrams of one source among them, at most.
pub const PER_SOURCE_MAX: usize = 64;

/// A worker may have as many in the smallest pool.
pub const DATAGRAMS_MIN: usize = 4;

/// Share of the pool's buffers that all workers together use at most: one of so many.
pub const POOL_SHARE: usize = 8;

/// Time that fragments wait for the others (RFC 8200 section 4.5, RFC 1122 section 3.3.2).
pub const REASSEMBLY_TIME: Duration = Duration::from_secs(60);

/// Octets of headers in front of a fragment's data, at most.
pub const HEADERS_MAX: usize = 128;

/// Octets left free behind a whole datagram: trailer and ICV of the SA that protects it.
pub const TAIL_ROOM: usize = 64;
