//! The dashboard: one page over a running node or a running laboratory.
//!
//! ```text
//!   browser ─▶ connection thread ── guard ── ask ─▶ ┐   bounded queue
//!           ◀─ JSON, page ◀───────────── answer ◀── ┤
//!                                                   ▼
//!              the driver's own thread: Dashboard::turn(&mut source)
//!                                        │
//!                 a live node or a lab:  Source { state, command }
//! ```
//!
//! The driver of packets answers between two turns of its own, so nothing here reaches into a node
//! from another thread. The state is one value, [`State`], the same for both; each request is a
//! [`Command`].
//!
//! The server, which a node's metrics use too, is small on purpose and speaks the
//! part of HTTP/1.1 that they need. Everything about it has a bound: connections, octets of a request,
//! seconds that one may take, questions that wait. State and commands need the
//! key that the driver's terminal shows; the page itself is no secret.
#![forbid(unsafe_code)]

mod assets;
mod command;
mod dashboard;
mod guard;
pub mod histogram;
pub mod http;
mod server;
pub mod state;

pub use command::{Command, Pace, Refusal, Step};
pub use dashboard::Dashboard;
pub use guard::Key;
pub use server::Server;
pub use state::State;

/// Source of the state that the dashboard shows: a live node, or a laboratory.
pub trait Source {
    /// Everything that there is to see now.
    fn state(&mut self) -> State;

    /// Does what the page asks for, or says why not.
    fn command(&mut self, command: Command) -> Result<(), Refusal>;
}
