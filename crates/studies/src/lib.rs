//! Published studies done again: what was printed, what the model says, what this
//! machine measures, side by side and never mixed.
//!
//! ```text
//!   studies/NAME.toml ── published ─┐
//!   laboratory ───────── model ─────┼─▶ Report: tables, figures, a verdict on every
//!   somebody with ports ─ live ─────┘            claim, the errata shown by arithmetic
//! ```
//!
//! Each digest lists all that its paper shows ([`inventory`]), so that a report says of every
//! system, table and figure where it is, or why it is not.
//!
//! A study is a configuration of Ferrule's nodes, a topology and traffic; it has no
//! packet code. The crate is pure: who has ports measures and passes the result in.
#![forbid(unsafe_code)]

pub mod acl_mpls;
pub mod inventory;
pub mod ipsec_ip_layer;
pub mod macsec_mobility;
pub mod options;
pub mod prebuffered_ctr;
pub mod residuals;
pub mod toe_ipsec;
mod words;

use ferrule_report::{Report, Verdict};

/// True if a claim fails, in which case the exit status says so.
pub fn has_failed(report: &Report) -> bool {
    report.claims().any(|claim| claim.verdict() == Verdict::Fails)
}
