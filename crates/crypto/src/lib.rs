//! Ciphers behind one batch interface.
//!
//! ```text
//!   prepare ──▶ [ Job, Job, Job, … ] ──▶ Engine ──▶ [ Job, … ] ──▶ finish
//!   (stage)       owned, up to 128      submit/      with a        (stage)
//!                                       collect      Verdict
//! ```
//!
//! A [`Job`] owns its buffer and names its key by [`KeyId`], so it can outlive
//! the call that submitted it. An [`Engine`] may complete jobs at once (the
//! [`Software`] engine, in place and without a queue) or later and out of order
//! ([`Late`], and everything behind a bus). Stages are written once for both.
//!
//! Under the software engine a *backend* works through a slice of jobs, many
//! packets of possibly many keys at once. It is chosen when the engine is made;
//! see [`backend`].
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod accel;
pub mod backend;
pub mod cmac;
pub mod engine;
pub mod fingerprint;
pub mod job;
pub mod key;
pub mod late;
pub mod random;
pub mod suite;
pub mod table;

pub use backend::Backend;
pub use cmac::AesCmac;
pub use engine::{Engine, EngineReport, Jobs, Latency, RingReport, Software};
pub use fingerprint::fingerprint;
pub use job::{Ad, Job, Op, Span, Verdict};
pub use key::{Coming, KeyId, KeySpec, Place, TokenKey};
pub use late::Late;
pub use suite::{Aes, Mac, Suite};
