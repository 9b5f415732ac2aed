//! Closed forms of the studies' models: the same code in reports and, as wasm32, in their pages,
//! where a reader moves the parameters.
//!
//! Each is held against the laboratory by a test of its study. They use no other crate, so that
//! what a page carries is small.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod draining;
pub mod limits;
pub mod polling;
pub mod serving;
