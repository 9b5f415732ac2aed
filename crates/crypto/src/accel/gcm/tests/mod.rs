//! What needs to see a kernel from close by: memory that must not be touched,
//! time that must not tell, keys that must be gone. What a kernel computes is
//! compared with other implementations in `tests/backends/gcm.rs`.

mod guard;
mod timing;
mod wipe;

use super::{Kernel, Lane};
use crate::job::Verdict;

/// The kernels of this machine.
fn kernels() -> impl Iterator<Item = Kernel> {
    [Kernel::vaes512(), Kernel::vaes256()].into_iter().flatten()
}
