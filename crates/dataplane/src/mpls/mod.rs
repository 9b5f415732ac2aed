//! MPLS (RFC 3031, 3032, 3443, 4182) and Ethernet pseudowires (RFC 4385, 4448).
//!
//! ```text
//!               ┌─ swap, push ────────▶ Output            a label stack
//!  Mpls ─▶ ILM ─┼─ pop ───────────────▶ Output            label stack or IP
//!          ▲  │ ├─ pop, bottom ───────▶ Ip, in its VRF
//!          └──┘ └─ pop, bottom ───────▶ PwIn ─▶ Emit      the frame
//!    pop, and look
//!    at the next            Attach ─▶ PwOut ─▶ Output     PW label, control word
//! ```
//!
//! TTL models (RFC 3443), by each label's entry. *Uniform*: the exposed header gets the
//! label's TTL if that is lower; *pipe*: the label's TTL goes with the label. With
//! penultimate-hop popping, pipe is what the RFC calls short pipe. A packet counts one hop
//! here, whichever labels it loses.
//!
//! The traffic class of a label that is replaced is kept.
//!
//! Dropped here: `malformed`, `no-label`, `reserved-label`, `label-stack`,
//! `ttl-expired`, `unknown-protocol`, `not-attached`, `control-word`,
//! `pw-sequence`, `pw-tag`, `unknown-vlan`, `no-room`.

pub mod config;
pub mod egress;
pub mod ingress;
pub mod state;
pub mod switch;
#[cfg(test)]
pub(crate) mod tests;

pub use config::{Ilm, IlmAction, Lfib, Pseudowire, PwMode};
pub use egress::PwOut;
pub use ingress::PwIn;
pub use switch::Switch;
