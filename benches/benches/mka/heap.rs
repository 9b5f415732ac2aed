//! The process's heap, counted. Blocks count as the C library takes them.
//!
//! One thread uses it: a counter is read and written apart, which costs a message little.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static OCTETS: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator.
pub struct Counted;

/// Octets that are in use.
pub fn octets() -> usize {
    OCTETS.load(Relaxed)
}

/// Blocks that are in use.
pub fn blocks() -> usize {
    BLOCKS.load(Relaxed)
}

/// Blocks that were taken since the start.
pub fn taken() -> usize {
    TAKEN.load(Relaxed)
}

/// The most octets that were in use since this was called last.
pub fn take_peak() -> usize {
    let peak = PEAK.load(Relaxed);
    PEAK.store(octets(), Relaxed);
    peak
}

/// Octets of a block with the word before it, in multiples of 16.
fn whole(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

fn grow(octets: usize) {
    let all = OCTETS.load(Relaxed) + octets;
    OCTETS.store(all, Relaxed);
    PEAK.store(PEAK.load(Relaxed).max(all), Relaxed);
    BLOCKS.store(BLOCKS.load(Relaxed) + 1, Relaxed);
    TAKEN.store(TAKEN.load(Relaxed) + 1, Relaxed);
}

fn shrink(octets: usize) {
    OCTETS.store(OCTETS.load(Relaxed).wrapping_sub(octets), Relaxed);
    BLOCKS.store(BLOCKS.load(Relaxed).wrapping_sub(1), Relaxed);
}

// SAFETY: the system's allocator does all of it; counters touch no block.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(whole(layout));
        // SAFETY: the caller keeps the promises that this function asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(whole(layout));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(whole(layout));
        // SAFETY: the block came from the system's allocator, by this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
