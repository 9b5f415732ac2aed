//! Keys that never leave their token, and key stream made ahead of time.
//!
//! A token is slow: milliseconds for an exchange, whatever it brings. A counter mode turns
//! that into a matter of storage, because its key stream does not depend on the packets. It
//! is made while no packet waits for it, kept in locked memory, and is there when a packet
//! comes.
//!
//! ```text
//!   packets ─▶ TokenEngine ─▶ key stream of this number? ─▶ XOR, ICV ─▶ packets
//!                 │   ▲
//!    what is next │   │ key stream
//!                 ▼   │
//!               Line: virtual time, or a thread ─▶ Provider ─▶ PKCS#11 module
//! ```
//!
//! * [`provider`] operations of a token. [`SoftToken`] is one in software.
//! * [`profile`] costs of its exchanges; [`line`] the way to it, in virtual time.
//! * [`ring`] key stream by counter, the study's. [`ahead`] by packet and block,
//!   for AES-GCM, whose counter begins anew in every packet.
//! * [`engine`] the engine: an [`Engine`](ferrule_crypto::Engine) like any other.
//!
//! Modes: *standard* is AES-GCM that no peer can tell from any other, for MACsec and ESP
//! (RFC 4106, RFC 8750); *study* is AES-CTR with a keyed hash as a study had it, for the
//! laboratory alone. In both a packet is delivered only after its ICV was found right, and
//! only an authentic packet moves the window of key stream made ahead.
//!
//! # In virtual time
//!
//! ```
//! use ferrule_engines::token::{Settings, SoftToken, TokenEngine, TokenProfile, Virtual};
//! # use ferrule_base::Secret;
//! let profile = TokenProfile::shipped("microsd").unwrap();
//! let exchange = profile.blocks_max();
//! let token = SoftToken::new(|_label, aes| Some(Secret::new(vec![7; aes.key_len()])));
//! let settings = Settings { blocks: 4096, locked: false, keep: None, ..Settings::default() };
//! let line = Box::new(Virtual::new(token, profile));
//! let engine = TokenEngine::<Vec<u8>>::new(line, exchange, settings).unwrap();
//! assert_eq!(engine.stats().exchanges, 0);
//! ```
//!
//! The caller drives it by `submit` and `collect` with the time, and again when
//! `poll_timeout` is due. The [`ring`] can also be used by itself.

pub mod ahead;
pub mod engine;
mod exchange;
mod follow;
mod gcm;
pub mod line;
pub mod live;
mod nonces;
mod pages;
mod parts;
pub mod pkcs11;
pub mod profile;
pub mod provider;
pub mod provision;
pub mod ring;
mod sa;
pub mod settings;
mod study;
pub mod vault;
mod wait;
pub mod wrap;

#[cfg(test)]
mod tests;

pub use engine::{TokenEngine, TokenStats};
pub use line::{Ask, Exchange, Line, Virtual};
pub use live::{Live, Shared};
pub use pkcs11::{Login, Pkcs11Token};
pub use profile::TokenProfile;
pub use provider::{Provider, SoftToken, TokenError};
pub use ring::Ring;
pub use settings::Settings;
pub use vault::{Block, Vault};
