//! A node alive: threads, the system's clock, ports, management, counters.
#![forbid(unsafe_code)]

pub mod state;
