//! The contract of all cores: how a protocol and the node that runs it speak to each other.
//!
//! ```text
//!             node                                  core
//!
//!   frame, datagram ── handle_message ─────▶ ┌──────────────┐
//!   configuration ──── handle_command ─────▶ │ no clock,    │ ── poll_transmit ─▶ messages
//!   what it saw ────── handle_event ───────▶ │ no socket,   │ ── poll_order ────▶ the data path
//!   order's outcome ── handle_answer ──────▶ │ no thread,   │ ── poll_news ─────▶ people
//!   time ───────────── handle_timeout ─────▶ │ no data path │ ── poll_timeout ──▶ when to call
//!                                            └──────────────┘
//! ```
//!
//! A core's request to the data path is an [order](Core::Order), which the node translates: the
//! core never sees a table, a ring or a worker. An order that was polled is answered exactly
//! once, at once or as late as the data path likes: done, or [`Refused`] in words. A refused
//! order has no effect; it is news for the operator, and not repeated before some time has
//! passed.

use ferrule_base::Instant;

/// Number of an order of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The data path did not carry an order out; why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A protocol, without anything around it.
///
/// Each call brings the time, which never goes back. After calls that change a core all polls are
/// drained, in any order and as far as the node likes: the rest waits.
pub trait Core {
    /// Origin or destination of a message, where one core has several: an interface, for
    /// example.
    type Source;
    /// Configuration of the core from now on.
    type Command;
    /// Notice of the node: a count, a packet that waits.
    type Event;
    /// Work for the data path.
    type Order;
    /// News for operators and for packets that wait. They have no answer.
    type News;
    /// The rule that a dropped message broke.
    type Fault;

    /// A message came. On a fault it is dropped, and its sender taught nothing.
    fn handle_message(
        &mut self,
        now: Instant,
        from: Self::Source,
        message: &[u8],
    ) -> Result<(), Self::Fault>;

    /// The configuration changed.
    fn handle_command(&mut self, now: Instant, command: Self::Command);

    /// The node saw something.
    fn handle_event(&mut self, now: Instant, event: Self::Event);

    /// The outcome of an order. A token that waits for none (never given, or answered before) has
    /// no effect.
    fn handle_answer(&mut self, now: Instant, token: Token, answer: Result<(), Refused>);

    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    fn handle_timeout(&mut self, now: Instant);

    /// The next message to be sent.
    fn poll_transmit(&mut self) -> Option<(Self::Source, Vec<u8>)>;

    /// The next order, to be answered by [`handle_answer`](Self::handle_answer) once. Orders
    /// take effect in the order in which they are polled; answers may come in any.
    fn poll_order(&mut self) -> Option<(Token, Self::Order)>;

    /// The next news.
    fn poll_news(&mut self) -> Option<Self::News>;

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due, as things stand.
    fn poll_timeout(&self) -> Option<Instant>;
}
