//! Ports on the operating system's interfaces: the only system calls of the
//! data path.
#![warn(missing_docs)]

mod checksum;
pub mod error;
pub mod link;
pub mod region;
mod sys;
pub mod xdp;

pub use error::{OpenError, OpenFault};
pub use link::Link;
