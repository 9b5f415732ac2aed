//! The kernels against other implementations, against guard pages, and against
//! the clock.
