//! Hints to the processor: what is read soon, so that it is on its way while others
//! are worked on. They change nothing, and other machines than x86-64 get none.

use super::Packet;

/// Entries of a table that stay in the second-level cache with what they lead to: of a
/// smaller table none is asked for ahead, which would cost more than it gains.
pub const NEAR_MAX: usize = 2048;

/// Packets between asking for the octets of one and reading them, in a loop over a batch: so
/// many that the second-level cache has time to answer, so few that they are still there.
pub const AHEAD: usize = 4;

/// Octets of a cache line.
const LINE: usize = 64;

impl Packet {
    /// Asks for the cache line in which the octets begin. A hint: it changes nothing, and
    /// waits for nothing but the packet's own line, from which it learns where they are.
    /// (The line in front of it, for new headers, is only written: stores do not wait.)
    #[inline(always)]
    pub fn prefetch(&self) {
        let h = self.header();
        let front = h.chunk.wrapping_add(h.extent.head());
        prefetch_line::<0>(front);
    }

    /// Asks for the cache line of what the stages know of it, without reading it. A hint.
    #[inline(always)]
    pub fn prefetch_meta(&self) {
        prefetch_line::<0>(self.0.as_ptr());
    }

    /// Asks for all cache lines of the octets from the one at `from`, into the second
    /// level: for a text that a cipher reads soon. A hint.
    #[inline(always)]
    pub fn prefetch_text(&self, from: usize) {
        let h = self.header();
        // Chunks begin with a line; from the start of one on none is left out.
        let (head, end) = (h.extent.head(), h.extent.head() + h.extent.len());
        for at in (head.saturating_add(from) / LINE * LINE..end).step_by(LINE) {
            prefetch_line::<1>(h.chunk.wrapping_add(at));
        }
    }
}

/// Asks for the cache line in which this begins: for an entry of a table that is read
/// soon. A hint; nothing is read.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    prefetch_line::<0>(at);
}

/// Asks for the cache line `octets` behind the beginning of this. A hint.
#[inline(always)]
pub fn prefetch_at<T>(at: &T, octets: usize) {
    prefetch_line::<0>(std::ptr::from_ref(at).cast::<u8>().wrapping_add(octets));
}

/// Asks for the cache line in which entry `index` of the slice begins. A hint: nothing is
/// read, and an index out of bounds does no harm.
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], index: usize) {
    prefetch_line::<0>(slice.as_ptr().wrapping_add(index));
}

/// The hint itself: into the first level (`LEVEL` 0) or the second.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line<const LEVEL: u8>(at: *const impl Sized) {
    use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
    // SAFETY: every x86-64 has the instruction, which reads nothing and faults at no address.
    unsafe {
        match LEVEL {
            0 => _mm_prefetch::<_MM_HINT_T0>(at.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(at.cast()),
        }
    }
}

/// The hint is not given here.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line<const LEVEL: u8>(_: *const impl Sized) {}
