//! MPLS (RFC 3031, 3032, 3443) and Ethernet pseudowires (RFC 4448).
pub mod config;
pub use config::{Ilm, IlmAction, Lfib, Pseudowire, PwMode};
