//! What happens to a message: the control plane's cores.
//!
//! ```text
//!   handle_message, handle_timeout, handle_command
//!        │
//!        ▼                      no clock, no socket, no thread inside
//!      core ──▶ poll_transmit, poll_timeout, poll_event
//! ```
//!
//! Each protocol has a folder with the same files in the same roles. A core
//! knows nothing of the data path: the node carries its events over. After each
//! call that changes a core, drain every poll.
#![forbid(unsafe_code)]

pub mod entropy;
pub mod mka;
pub mod neighbour;
pub mod order;

pub use entropy::Entropy;
pub use order::{Refused, Token};
