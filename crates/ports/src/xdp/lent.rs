//! The chunks that the kernel holds, and their purpose.
//!
//! The kernel's descriptors are checked against that, so that no chunk comes back twice,
//! and no frame reaches beyond its chunk or into its head room.

use ferrule_pipeline::{HEAD_ROOM, Packet, Pool, PoolCache};

/// An Ethernet header.
pub(super) const FRAME_MIN: usize = 14;

/// Purpose for which the kernel holds a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    Fill,
    Send,
}

/// Chunks of a pool that one socket's rings have. Addresses are offsets into the pool's
/// region.
pub struct Lent {
    pool: Pool,
    held: Vec<Held>,
    filling: usize,
    sending: usize,
}

impl Lent {
    /// No chunk is lent.
    pub fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), held: vec![Held::No; pool.chunks()], filling: 0, sending: 0 }
    }

    /// Chunks that are there to be received into.
    pub fn filling(&self) -> usize {
        self.filling
    }

    /// Chunks that are to be sent.
    pub fn sending(&self) -> usize {
        self.sending
    }

    /// Lends a chunk to be received into: its address. A packet of another pool is dropped.
    pub fn fill(&mut self, packet: Packet) -> Option<u64> {
        let index = self.lend(packet, Held::Fill)?;
        self.filling += 1;
        Some(u64::from(index) * self.pool.chunk_size() as u64)
    }

    /// Lends a frame to be sent: its address. A packet of another pool is dropped.
    pub fn send(&mut self, packet: Packet) -> Option<u64> {
        let address = packet.region_offset() as u64;
        self.lend(packet, Held::Send)?;
        self.sending += 1;
        Some(address)
    }

    fn lend(&mut self, packet: Packet, to: Held) -> Option<u32> {
        if !self.pool.owns(&packet) {
            return None;
        }
        let index = packet.into_chunk();
        self.held[index as usize] = to;
        Some(index)
    }

    /// The frame of a descriptor off the receive ring; nothing if it does not fit the chunk
    /// that was lent. The chunk is taken back in any case.
    pub fn received(&mut self, address: u64, len: u32, options: u32) -> Option<Packet> {
        let (index, head) = self.place(address);
        let len = len as usize;
        if !self.take(index, Held::Fill) {
            return None;
        }
        let fits = head >= HEAD_ROOM
            && head + len <= self.pool.chunk_size()
            && len >= FRAME_MIN
            && options == 0;
        let (head, len) = if fits { (head, len) } else { (HEAD_ROOM, 0) };
        // SAFETY: we gave it away for receiving, and the kernel gave it back.
        let packet = unsafe { self.pool.from_chunk(index, head, len) };
        fits.then_some(packet)
    }

    /// The chunk behind an address off the completion ring; nothing if it was not lent to
    /// be sent.
    pub fn sent(&mut self, address: u64) -> Option<Packet> {
        let (index, _) = self.place(address);
        // SAFETY: we gave it away for sending, and the kernel is done.
        self.take(index, Held::Send).then(|| unsafe { self.pool.from_chunk(index, HEAD_ROOM, 0) })
    }

    /// Takes all back from a socket that is closed: in no map any more, with no receiver
    /// that had found it there.
    pub fn take_all(&mut self, cache: &mut PoolCache) {
        for index in 0..self.held.len() as u32 {
            if self.take(index, Held::Fill) || self.take(index, Held::Send) {
                // SAFETY: we gave it away. Receivers are done, as the caller says (even if
                // a copy of the descriptor is still open somewhere), and in copy mode
                // nothing reads a frame after the call that sent it.
                cache.recycle(unsafe { self.pool.from_chunk(index, HEAD_ROOM, 0) });
            }
        }
    }

    /// Number of the chunk that an address lies in, and the offset in it.
    fn place(&self, address: u64) -> (u32, usize) {
        let chunk = self.pool.chunk_size() as u64;
        ((address / chunk).min(u64::from(u32::MAX)) as u32, (address % chunk) as usize)
    }

    /// Takes a chunk out of the kernel's hands, if it has it for that.
    fn take(&mut self, index: u32, from: Held) -> bool {
        let Some(held) = self.held.get_mut(index as usize).filter(|h| **h == from) else {
            return false;
        };
        *held = Held::No;
        match from {
            Held::Fill => self.filling -= 1,
            _ => self.sending -= 1,
        }
        true
    }
}
