//! The card: crypto in a port (`placement = "inline"`).
//!
//! A card is fitted between a port, whichever it is, and its worker. It has tables,
//! security associations, an engine and counters of its own, and a control channel.
//! The node above sends and receives clear frames; it is told the MTU that is left.
//!
//! ```text
//!                    worker: one graph
//!                       ▲ │ clear frames
//!             ┌─────────┴─▼──────────┐   commands: tables, SAs, reset, halt
//!   `Fitted`  │   `Card`: a graph    │ ◀──────────────────────────────── control
//!             │   of the same stages │ ──────────────────────────────▶   part
//!             └─────────▲─┬──────────┘   events: ranges wanted, edges, empty
//!                       │ ▼ ESP, SecTAGs
//!                     the port
//! ```
//!
//! **The link header stays.** The node above never sees IPsec or MACsec: the card makes and
//! strips the whole ESP packet (RFC 4303, tunnel mode) or SecTAG (IEEE 802.1AE). The outer
//! packet goes to the link address that the node resolved for the inner one; `Links` keeps
//! the header meanwhile. So the node's route to the networks behind a tunnel must name the
//! next hop by which the other gateway is reached; a card has no routes.
//!
//! **It fails closed.** At an interface with a policy, only IP (as the policy says), ARP
//! and neighbour discovery pass; a frame that the node marked as exempt is checked like any
//! other, since a card does not trust the node. A packet too long for the wire is dropped
//! as `TooBig`: a card sends no ICMP errors, so the node is told the smaller MTU at once.
//!
//! **Reset.** A card that is reset, or that fails, forgets tables and keys. Until it
//! has tables again it drops every frame (`card-down`): it cannot know which of them
//! need protection. It then says that it is empty, and the control part installs all
//! of it again, each outbound SA behind the last number that was reserved for it. So
//! no nonce comes twice, as after a crash of the whole process. SAs that a keying program
//! gave are gone: nobody else has their keys, and the program is told. A card that does not
//! answer for a few seconds is reset.
//!
//! **Backpressure.** The card seals every packet that it takes. Those that the port has no
//! room for wait here, and meanwhile the card takes none: so it holds no more than a batch
//! beside those in its engine.
//!
//! A worker's thread does a card's work on a live node, for there is no hardware; its
//! work is counted apart. The laboratory prices it apart, too.

mod down;
mod fitted;
mod frame;
mod graph;
mod links;
mod obey;
mod report;
mod tables;
#[cfg(test)]
mod tests;
mod up;
mod wiring;

pub use fitted::Fitted;
pub use graph::{Card, CardEngine};
pub use report::CardReport;

use crate::message::Change;
use ferrule_control::Token;
use ferrule_dataplane::Tables;
use std::sync::Arc;

pub(crate) use tables::compile;

/// Command of the control part to a card.
pub(crate) enum CardCommand {
    /// Install, change or retire an association.
    Change(Change),
    /// The same, and answer.
    Order(Token, Change),
    /// Use these tables from now on: with the first ones the card is up.
    Tables(Arc<Tables>),
    /// Forget everything and start again.
    Reset,
    /// Forget commands so far: all of them come again behind this.
    Fill,
    /// Stop as a card does that failed: it answers to nothing but a reset.
    Halt,
    /// Say where the replay windows stand, and so that the card is alive.
    Edges,
}
