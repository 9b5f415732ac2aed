//! Tools shared by the tests of the kernels.

pub mod guard;
pub mod timing;
