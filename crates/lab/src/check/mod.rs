//! check
pub mod case;
pub mod clear;
pub mod finding;
mod frames;
pub mod nonce;
pub mod oracle;
pub mod shrink;
pub mod window;
