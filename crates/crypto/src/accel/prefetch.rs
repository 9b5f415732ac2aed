//! Asking the processor for memory ahead of time.

use std::ops::Range;

/// Octets of a line of the cache.
const LINE: usize = 64;

/// Asks for the lines in which these octets of a value stand. A hint: nothing is read.
#[inline]
pub fn prefetch<T>(value: &T, octets: Range<usize>) {
    let first = (&raw const *value).cast::<i8>();
    let (mut at, end) = (first.wrapping_add(octets.start), first.wrapping_add(octets.end));
    at = at.wrapping_sub(at.addr() % LINE);
    while at < end {
        line(at);
        at = at.wrapping_add(LINE);
    }
}

/// Asks for the line in which an octet stands, wherever that is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn line(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 has it, and no address makes it fault.
    unsafe { _mm_prefetch(at, _MM_HINT_T0) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn line(_at: *const i8) {}
