mod batches;
mod forwarding;
mod icmp;
mod laws;
mod model;
pub(crate) mod rig;
