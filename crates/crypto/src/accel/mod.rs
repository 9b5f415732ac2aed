//! The crate's only unsafe code, without the checks that a safe interface makes for each
//! packet, behind functions that are safe.

#[cfg(not(target_arch = "wasm32"))]
pub mod aws;
#[cfg(target_arch = "x86_64")]
pub mod cbc;
#[cfg(target_arch = "x86_64")]
pub mod gcm;
#[cfg(target_arch = "x86_64")]
pub mod order;
mod prefetch;
#[cfg(all(test, unix, target_arch = "x86_64"))]
mod tests;

pub use prefetch::prefetch;
