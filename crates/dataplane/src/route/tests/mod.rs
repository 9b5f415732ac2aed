mod batches;
mod forwarding;
mod icmp;
mod laws;
mod model;
mod paths;
pub(crate) mod rig;
