//! The queue pair with real threads at its far end: what they make, how much
//! they take, how they die and hang, and what the host does about it.

mod failure;
mod rig;
#[cfg(target_os = "linux")]
mod shared_core;
mod work;
