//! The queue pair with real threads at its far end: what they make, how much
//! they take, how they die and hang, and what the host does about it.

mod failure;
mod rig;
mod work;
