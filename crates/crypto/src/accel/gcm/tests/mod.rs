//! Tests that look at a kernel from close by: memory that must not be touched, timing that
//! must not depend on secrets, keys that must be wiped. Results are compared with other
//! implementations in `tests/backends/gcm.rs`.

mod guard;
mod products;
mod timing;
mod wipe;

use super::{Kernel, Lane, Multiplier, Width};
use crate::job::Verdict;

/// The kernels of this machine, and of one that multiplies otherwise.
fn kernels() -> impl Iterator<Item = Kernel> {
    let wide = |m| Kernel::vaes512().map(|_| Kernel(Width::Vaes512(m)));
    [wide(Multiplier::Fast), wide(Multiplier::Slow), Kernel::vaes256()].into_iter().flatten()
}
