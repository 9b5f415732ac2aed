//! The port: where frames enter and leave a node.

use crate::batch::Batch;
use crate::buffer::PoolCache;
use ferrule_base::{Flow, Instant};

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames handed to the node.
    pub rx: Flow,
    /// Frames given to the wire.
    pub tx: Flow,
    /// Frames the wire had and the port could not take: no buffer, ring full,
    /// larger than a chunk.
    pub rx_missed: u64,
    /// Frames that were taken from the node and the wire refused.
    pub tx_failed: u64,
}

/// A place where frames enter and leave.
///
/// Frames are Ethernet without FCS, MTU-sized, with finished checksums: a port
/// that gets other things (segments to be cut, checksums to be filled in)
/// finishes them first, and never hands over what it cannot finish.
///
/// A port belongs to one worker. It neither blocks nor sleeps; `wait_fd` is
/// what the daemon sleeps on.
pub trait Port: Send {
    /// Fills `batch` up with received frames.
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch);

    /// Takes frames from the front of `batch` as far as the wire has room; what
    /// is left stays in `batch`, in order. Returns spent buffers to `cache`.
    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch);

    /// What was counted since the start.
    fn stats(&self) -> PortStats;

    /// When the port wants to be looked at without having anything readable.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// A file descriptor that becomes readable when frames arrive, for ports
    /// that have one.
    fn wait_fd(&self) -> Option<i32> {
        None
    }

    /// Whether frames can pass now.
    fn is_up(&self) -> bool {
        true
    }
}
