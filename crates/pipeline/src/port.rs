//! The port: where frames enter and leave a node.

use crate::batch::Batch;
use crate::buffer::PoolCache;
use ferrule_base::{Flow, Instant};

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames handed to the node.
    pub rx: Flow,
    /// Frames given to the wire.
    pub tx: Flow,
    /// Frames the wire had and the port could not take: no buffer, ring full,
    /// larger than a chunk.
    pub rx_missed: u64,
    /// Missed frames by cause, as far as the port knows it.
    pub missed: Missed,
    /// Frames that were taken from the node and the wire refused.
    pub tx_failed: u64,
    /// Frames that came with a description which contradicts them, dropped.
    pub rx_refused: u64,
    /// Super-frames that were cut into frames on the way in.
    pub cut: Supers,
    /// Super-frames that frames were joined into on the way out.
    pub joined: Supers,
}

/// Missed frames by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Longer than a buffer: super-frames, or an MTU above the port's.
    pub too_long: u64,
    /// No buffer was free for the wire to fill.
    pub no_buffer: u64,
    /// The ring to the node was full: its worker did not take them in time.
    pub ring_full: u64,
    /// The wire's description of them was not one of a buffer of ours.
    pub invalid: u64,
}

impl Missed {
    /// Adds the counts of another queue.
    pub fn merge(&mut self, other: &Self) {
        self.too_long += other.too_long;
        self.no_buffer += other.no_buffer;
        self.ring_full += other.ring_full;
        self.invalid += other.invalid;
    }
}

/// Super-frames, which hold the segments of one flow behind one header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supers {
    /// Number of super-frames.
    pub frames: u64,
    /// Segments in them.
    pub segments: u64,
}

impl PortStats {
    /// A frame was missed that is longer than a buffer.
    pub fn miss_too_long(&mut self) {
        self.rx_missed += 1;
        self.missed.too_long += 1;
    }

    /// A frame was missed for want of a buffer.
    pub fn miss_no_buffer(&mut self) {
        self.rx_missed += 1;
        self.missed.no_buffer += 1;
    }

    /// Adds the counts of another queue of the same port.
    pub fn merge(&mut self, other: &Self) {
        self.rx.merge(other.rx);
        self.tx.merge(other.tx);
        self.rx_missed += other.rx_missed;
        self.missed.merge(&other.missed);
        self.tx_failed += other.tx_failed;
        self.rx_refused += other.rx_refused;
        for (sum, more) in [(&mut self.cut, other.cut), (&mut self.joined, other.joined)] {
            sum.frames += more.frames;
            sum.segments += more.segments;
        }
    }
}

/// A place where frames enter and leave.
///
/// Frames are Ethernet without FCS, MTU-sized, with finished checksums: a port that gets
/// others (segments to be cut, checksums to be filled in) finishes them first, and never
/// hands over unfinished ones.
///
/// A port belongs to one worker. It neither blocks nor sleeps; the daemon sleeps on
/// `wait_fd`.
pub trait Port: Send {
    /// Fills `batch` up with received frames.
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch);

    /// Takes frames from the front of `batch` as far as the wire has room; the others stay
    /// in `batch`, in order. Returns spent buffers to `cache`.
    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch);

    /// Counters since the start.
    fn stats(&self) -> PortStats;

    /// Time of the next poll even if nothing is readable by then.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// A file descriptor that becomes readable when frames arrive, for ports
    /// that have one.
    fn wait_fd(&self) -> Option<i32> {
        None
    }

    /// True if frames can pass now.
    fn is_up(&self) -> bool {
        true
    }
}
