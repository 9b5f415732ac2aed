//! The queue pair with real threads at its far end: their results, capacity and failures,
//! and the host's reaction.

mod failure;
mod rig;
#[cfg(target_os = "linux")]
mod shared_core;
mod work;
