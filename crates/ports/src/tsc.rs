//! The processor's time stamp counter, for benchmarks: the cost of a path in clocks can be
//! compared across machines, unlike packets per second.

/// The counter now; 0 on machines that have none.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}
