//! Crypto in the port itself: the stages that a card has beside those of the node.
//!
//! A card stands between a port and the node above it. The node never sees IPsec or
//! MACsec: it sends and receives clear frames, and the card makes and strips the
//! whole ESP packet (RFC 4303, tunnel mode) or SecTAG (IEEE 802.1AE). What seals,
//! opens, numbers and judges is the node's own stages, with tables of the card's own.
//!
//! ```text
//!   node ─▶ Down ─▶ policy ─▶ ESP out ─▶ front ─▶ emit ─▶ SecY out ─▶ wire
//!             └── ARP, ND, no policy here ─────────▲
//!   wire ─▶ SecY in ─▶ Up ─▶ ESP in ─▶ front ─▶ node
//!                       └── clear, as far as the policy lets it in ─▶ node
//! ```
//!
//! * **The link header stays.** The node has resolved the next hop of the inner
//!   packet; the outer packet goes to that same link address. [`Links`] keeps the
//!   header meanwhile. So the node's route to what lies behind a tunnel must name
//!   the next hop by which the other gateway is reached; a card has no routes.
//! * **It fails closed.** At an interface with a policy, only IP (as the policy
//!   says), ARP and neighbour discovery pass; a frame that the node marked as exempt
//!   is asked about like any other, for a card trusts nobody above it.
//!
//! | place | here means |
//! |---|---|
//! | `Attach` | whole clear frame from the wire, for [`Up`] |
//! | `Policy`, `EspOut`, `EspIn`, `Emit`, `SecyIn`, `SecyOut`, `Transmit` | as in the node |
//! | `Output` | sealed, or to be let through: its link header comes back, then `Emit` |
//! | `Ip` | opened: its link header comes back, then `Local` |
//! | `Local` | whole clear frame for the node |
//!
//! Drop reasons: `Malformed`, `NotForUs`, `UnknownProtocol`, `PolicyDiscard`,
//! `EspRequired`, `EspUnknownSpi`, `FragmentNotSupported`, `NoRoom`, `EngineFull`,
//! and those of the stages. Too long for the wire is `TooBig`: a card has nobody to
//! tell, so the node above is told the smaller MTU at once.

mod down;
mod frame;
mod links;
#[cfg(test)]
mod tests;
mod up;

pub use down::Down;
pub use links::{LINKS_MAX, Links, NO_LINK};
pub use up::Up;
