mod forwarding;
mod model;
pub(crate) mod rig;
