//! The words that every other crate speaks: time, identifiers, secrets,
//! seeded randomness, drop reasons, answers, counters, the word that was meant. Words, not work.
#![forbid(unsafe_code)]

pub mod addr;
pub mod answers;
pub mod chunks;
pub mod count;
pub mod drops;
pub mod rng;
pub mod secret;
pub mod spelling;
pub mod time;

pub use addr::{MacAddr, PortId, VrfId};
pub use answers::{Answer, Answers};
pub use chunks::Chunks;
pub use count::{Flow, Ledger, STAGES_MAX, Work};
pub use drops::{DropReason, Drops};
pub use rng::Rng;
pub use secret::Secret;
pub use spelling::nearest;
pub use time::{Duration, Instant};
