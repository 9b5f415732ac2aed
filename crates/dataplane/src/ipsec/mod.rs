//! IPsec: ESP (RFC 4303) in tunnel and transport mode, in UDP (RFC 3948) where
//! addresses are translated on the way, and its policy (RFC 4301), with every suite
//! of [`ferrule_crypto::Suite`], extended sequence numbers, and ECN through the tunnel
//! (RFC 6040).
//!
//! ```text
//!         ┌──────── Policy ─────────┐
//!   IP ──▶│ Spd: the first entry    │──▶ Bypass ─────────────────────▶ Output
//!         │ that matches, or DISCARD│──▶ Protect ─▶ EspOut: seal ────▶ Output
//!         └─────────────────────────┘
//!
//!   IP, for us, protocol 50 ─▶ EspIn: SPI ─▶ replay? ─▶ open ─▶ IP
//!   IP, in clear ─▶ Spd::inbound: BYPASS, or it ends here
//!
//!   ┌────────────┬─────────┬────┬─────────────┬───────────────────┬─────┐
//!   │ outer IP   │ SPI seq │ IV │ inner IP …  │ 1 2 3 len next hdr│ ICV │
//!   └────────────┴─────────┴────┴─────────────┴───────────────────┴─────┘
//!                │◀─ AD ──▶│    │◀─────── encrypted ─────────────▶│   AEAD
//!                │◀─ AD ──▶│◀─── text; the engine writes the IV ──▶│   CBC
//!                │◀──── AD ────▶│◀─────── encrypted ─────────────▶│   AES-CTR
//!                │◀─────────────────── AD ────────────────────────▶│   NULL, GMAC
//! ```
//!
//! * [`config`] what a person configures of an SA.
//! * [`spd`] policies, selectors, which worker has which SA; [`spd::stage`] the stage at
//!   the boundary.
//! * `sealer`, `opener`: the outbound and the inbound SAs of a worker, of ESP or AH: how
//!   they come and go, their numbers and windows, jobs for an engine, and timers (`clock`).
//! * [`egress`], [`ingress`] ESP's part of both, in numbered steps. [`ah`] AH's (RFC 4302).
//! * [`state`] one SA. [`replay`] its window. `outer`: the template of what is put around
//!   packets. `wrapping`, `unwrapping`: what is more than a plain tunnel.
//! * [`lifetime`] how long an SA lives, by packets, octets and time.
//! * [`path`] what SAs learn of their path's MTU.
//!
//! Drops: `policy-discard`, `esp-required`, `esp-no-sa`,
//! `esp-sequence-exhausted`, `esp-unknown-spi`, `esp-replay`, `esp-bad-icv`,
//! `esp-bad-trailer`, `esp-selector-mismatch`, `esp-ecn`, `esp-dummy`,
//! `esp-encapsulation`, `esp-not-nested`, `sa-expired`, `icmp-forged`, `icmp-rate-limited`,
//! `engine-full`, `engine-failed`, `no-room`, `malformed`,
//! `fragment-not-supported`.

pub mod ah;
mod clock;
pub mod config;
pub mod egress;
pub mod ingress;
pub mod lifetime;
mod opener;
mod outer;
mod overhead;
pub mod path;
pub mod replay;
mod sealer;
pub mod spd;
pub mod state;
mod unwrapping;
mod wrapping;

#[cfg(test)]
mod tests;

pub use crate::classify::hits::{Hit, HitMap, Hits, UNCOUNTED};
pub use crate::classify::selector::{Addresses, Field, Selector, SelectorError};
pub use crate::protection::authentic::{Authentic, Candidate};
pub use crate::protection::table::{SaError, SaId};
pub use ah::{AhIn, AhOut};
pub use config::{
    Df, EcnOut, Encap, Endpoints, Fragment, Hops, INSTANCE_MAX, INSTANCE_NUMBERS, InboundConfig,
    Mode, OutboundConfig, Outside, SaProtocol, Tfc,
};
pub use egress::EspOut;
pub use ingress::EspIn;
pub use lifetime::{Account, Allowance, Expired, Expiry, LifeCause, LifeView, Lifetime, Lifetimes};
pub use opener::{HeardElsewhere, Opener};
pub use overhead::Overhead;
pub use path::{PathErrors, is_path_error};
pub use replay::Window;
pub use sealer::{Sealer, Want};
pub use spd::directory::{InboundPlace, OutboundPlace, SaDirectory};
pub use spd::stage::Policy;
pub use spd::{Action, Decision, PolicyEntry, Spd};
pub use state::{InboundSa, OutboundSa, SaStats, SaView};
pub use unwrapping::{UdpPorts, esp_in_udp, is_keying};
