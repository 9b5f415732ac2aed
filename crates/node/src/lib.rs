//! A node: from a configuration to a control part and workers.
#![forbid(unsafe_code)]

pub mod config;
pub mod overhead;
