//! AH, the authentication header (RFC 4302), in tunnel and transport mode, over IPv4
//! with options and IPv6 with extension headers, with extended sequence numbers.
//!
//! ```text
//!   Policy ─▶ AhOut: number, AH, ICV ─▶ Output, or the SA around it
//!   IP, for us, protocol 51 ─▶ AhIn: SPI ─▶ replay? ─▶ ICV ─▶ IP, without AH
//!
//!   ┌────────────────────┬──────────────────────────┬────────────────┬─────────┐
//!   │ IP header, options │ next len 0 SPI seq │ ICV │ inner IP, or   │ seq 63… │
//!   │ extension headers  │                    │ = 0 │ what was there │ of ESN  │
//!   └────────────────────┴──────────────────────────┴────────────────┴─────────┘
//!   │◀─ what does not change on the way ─▶│◀── all under the ICV ──▶│ not sent │
//! ```
//! * `state`: one SA. `cover`: how a packet is laid out for the engine.
//! * `egress`, `ingress`: the two stages.
//!
//! SAs, windows, selectors and tickets are those of ESP.
//!
//! Drops: `ah-no-sa`, `ah-sequence-exhausted`, `ah-unknown-spi`, `ah-replay`,
//! `ah-bad-icv`, `ah-bad-header`, `ah-selector-mismatch`, `ah-ecn`, `ip-option`,
//! `engine-full`, `engine-failed`, `no-room`, `malformed`, `fragment-not-supported`.

mod cover;
mod egress;
mod ingress;
pub(super) mod state;

#[cfg(test)]
mod tests;

pub use egress::AhOut;
pub use ingress::AhIn;
pub use state::{AhInSa, AhOutSa};
