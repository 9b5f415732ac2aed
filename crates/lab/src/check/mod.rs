//! Invariants of every run, and the search for a run that breaks one.
//!
//! ```text
//!   seed ─▶ Case::draw ─▶ run: Subject + Case ─▶ findings? ─▶ shrink ─▶ recording
//!                          │
//!                          ├─ nonce   every sealed packet of every node
//!                          ├─ watch   frames on links: clear text; the replay oracle
//!                          └─ end     conservation, ledgers, flows, rest
//! ```
//!
//! A [`Subject`](subject::Subject) is a network that can be built again and
//! again; a [`Case`](case::Case) is what a seed drew for it: impairments of
//! links, crashes, late engines, several workers, packets sealed and opened by an
//! engine beside a node, by a card in its port, with keys on a token, and what
//! becomes of them when that fails. [`run`](run::run) judges one case,
//! [`campaign`](campaign) many.

pub mod campaign;
pub mod case;
pub mod clear;
pub mod finding;
mod frames;
pub mod nonce;
pub mod oracle;
mod places;
pub mod recording;
mod rekey;
pub mod rig;
mod run;
pub mod shrink;
mod store;
pub mod subject;
pub mod watch;
pub mod window;
pub mod words;

pub use campaign::{Failure, Score};
pub use case::{Case, Shape};
pub use finding::{Finding, Findings, Invariant};
pub use places::Befell;
pub use recording::{Recording, Source};
pub use rig::Rig;
pub use run::{Outcome, run};
pub use subject::{Built, FlowSeen, NodePlan, Subject};
pub use words::Names;
