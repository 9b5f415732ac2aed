//! Prefetch hints to the processor: memory that is read soon is fetched while others are
//! worked on. They change nothing, and other machines than x86-64 get none.

use super::Packet;

/// Entries of a table that stay in the second-level cache with the data that they lead to:
/// of a smaller table none is asked for ahead, which would cost more than it gains.
pub const NEAR_MAX: usize = 2048;

/// Packets between asking for the octets of one and reading them, in a loop over a batch: so
/// many that the second-level cache has time to answer, so few that they are still there.
pub const AHEAD: usize = 4;

impl Packet {
    /// Asks for the cache line in which the octets begin. A hint: it changes nothing, and
    /// waits for nothing but the packet's own line, from which it learns where they are.
    /// (The line in front of it, for new headers, is only written: stores do not wait.)
    #[inline(always)]
    pub fn prefetch(&self) {
        let h = self.header();
        let front = h.chunk.wrapping_add(h.extent.head());
        prefetch_line(front);
    }

    /// Asks for the cache line of the metadata, without reading it. A hint.
    #[inline(always)]
    pub fn prefetch_meta(&self) {
        prefetch_line(self.0.as_ptr());
    }
}

/// Asks for the cache line in which this begins: for an entry of a table that is read
/// soon. A hint; nothing is read.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    prefetch_line(at);
}

/// Asks for the cache line `octets` behind the beginning of this. A hint.
#[inline(always)]
pub fn prefetch_at<T>(at: &T, octets: usize) {
    prefetch_line(std::ptr::from_ref(at).cast::<u8>().wrapping_add(octets));
}

/// Asks for the cache line in which entry `index` of the slice begins. A hint: nothing is
/// read, and an index out of bounds does no harm.
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], index: usize) {
    prefetch_line(slice.as_ptr().wrapping_add(index));
}

/// The hint itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(at: *const impl Sized) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 has the instruction, which reads nothing and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// The hint is not given here.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line(_: *const impl Sized) {}
