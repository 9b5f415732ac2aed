//! The four rings that an AF_XDP socket shares with the kernel.
//!
//! ```text
//!   fill        we  ─▶ kernel   chunks to receive into
//!   receive     kernel ─▶ we    frames that came
//!   transmit    we  ─▶ kernel   frames to send
//!   completion  kernel ─▶ we    chunks that were sent
//! ```
//!
//! Each ring has one producer and one consumer, who own one counter each.
//! Counters run freely through 32 bits; the size is a power of two. The owner
//! of a counter stores it with *release* after its entries are written or read;
//! the other side loads it with *acquire* before it touches them.

use crate::sys::Map;
use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One end of a ring with entries of type `T`. The calls that are right depend on the end;
/// [`Producer`] and [`Consumer`] offer those of theirs.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    _map: Map,
}

// SAFETY: the pointers lead into `_map`, which moves with them; the counters are atomics,
// and they settle which side may touch an entry.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(fd: RawFd, size: u32, offset: i64, at: &libc::xdp_ring_offset) -> io::Result<Self> {
        let len = at.desc as usize + size as usize * size_of::<T>();
        let map = Map::of(fd, len, offset)?;
        let ends = [at.producer, at.consumer, at.flags].map(|o| o as usize + 4);
        if !size.is_power_of_two() || ends.iter().any(|&end| end > len || !end.is_multiple_of(4)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let base = map.base();
        // SAFETY: all four lie within the mapping, as was just checked, and the
        // kernel keeps its rings on cache lines.
        let (producer, consumer, flags, entries) = unsafe {
            (
                base.add(at.producer as usize).cast(),
                base.add(at.consumer as usize).cast(),
                base.add(at.flags as usize).cast(),
                base.add(at.desc as usize).cast(),
            )
        };
        Ok(Self { producer, consumer, flags, entries, size, _map: map })
    }

    fn counter(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: points into the mapping, which lives as long as `self`.
        unsafe { which.as_ref() }
    }

    fn entry(&self, counter: u32) -> NonNull<T> {
        // SAFETY: masked to the ring's size, so within the mapping.
        unsafe { self.entries.add((counter & (self.size - 1)) as usize) }
    }

    fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our end of a ring that the kernel reads.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Next entry to write; those before `published` are the kernel's to read.
    next: u32,
    published: u32,
}

impl<T: Copy> Producer<T> {
    pub(crate) fn map(
        fd: RawFd,
        size: u32,
        offset: i64,
        at: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let ring = Ring::map(fd, size, offset, at)?;
        let next = ring.counter(ring.producer).load(Ordering::Relaxed);
        Ok(Self { ring, next, published: next })
    }

    /// Entries that the kernel has not read yet.
    #[inline]
    pub(crate) fn in_ring(&self) -> u32 {
        let consumed = self.ring.counter(self.ring.consumer).load(Ordering::Acquire);
        self.next.wrapping_sub(consumed).min(self.ring.size)
    }

    /// Entries that can be written now.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.ring.size - self.in_ring()
    }

    /// Writes one entry. The caller has asked for [`Self::room`].
    #[inline]
    pub(crate) fn write(&mut self, entry: T) {
        // SAFETY: entries from `published` on are ours until they are published
        // (the caller keeps within the room).
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Lets the kernel see the entries that were written. Their number.
    #[inline]
    pub(crate) fn publish(&mut self) -> u32 {
        let count = self.next.wrapping_sub(self.published);
        if count != 0 {
            self.ring.counter(self.ring.producer).store(self.next, Ordering::Release);
            self.published = self.next;
        }
        count
    }

    /// True if the kernel wants a system call before it looks at the ring.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// Our end of a ring that the kernel writes.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn map(
        fd: RawFd,
        size: u32,
        offset: i64,
        at: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let ring = Ring::map(fd, size, offset, at)?;
        let next = ring.counter(ring.consumer).load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Entries that can be read now.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        let produced = self.ring.counter(self.ring.producer).load(Ordering::Acquire);
        produced.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Reads one entry. The caller has asked for [`Self::available`].
    #[inline]
    pub(crate) fn read(&mut self) -> T {
        // SAFETY: entries up to the producer's counter are written (it was
        // loaded with acquire); any bits are a valid number or descriptor.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Gives the entries that were read back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.ring.counter(self.ring.consumer).store(self.next, Ordering::Release);
    }
}
