//! Packets that move together.

use crate::buffer::Packet;
use arrayvec::ArrayVec;

/// Packets in a batch at most: enough to spread a call's cost, few enough for their
/// metadata and headers to stay in the first-level cache.
pub const BATCH: usize = 128;

/// Up to [`BATCH`] packets.
pub type Batch = ArrayVec<Packet, BATCH>;
