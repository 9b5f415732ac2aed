//! What the tests of the kernels share.

pub mod guard;
pub mod timing;
