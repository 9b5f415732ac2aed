//! Control protocols: the cores that process messages.
//!
//! Each protocol has a folder with the same files in the same roles, and a type that is a
//! [`Core`]: it has no clock, no socket and no thread, and knows nothing of the data path. The
//! node drives all of them by that one contract (see [`core`](self::core)).
#![forbid(unsafe_code)]

pub mod core;
pub mod entropy;
pub mod mka;
pub mod neighbour;
#[cfg(test)]
mod tests;

pub use self::core::{Core, Refused, Token};
pub use entropy::Entropy;
