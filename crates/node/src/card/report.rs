//! State and counters of a card, for reports.

use super::graph::Crossed;
use crate::message::SaReport;
use ferrule_base::{Drops, PortId, Work};
use ferrule_dataplane::{ipsec, macsec};

/// Everything that one card counted.
#[derive(Clone, Debug)]
pub struct CardReport {
    /// Its port.
    pub port: PortId,
    /// `up`, `empty` or `halted`.
    pub state: &'static str,
    /// Times that it was reset.
    pub resets: u64,
    /// Dropped by the card, by reason.
    pub drops: Drops,
    /// Work done.
    pub work: Work,
    /// Frames that crossed it.
    pub crossed: Crossed,
    /// Frames inside.
    pub held: u64,
    /// Its outbound ESP SAs.
    pub esp_out: Vec<SaReport>,
    /// Its inbound ESP SAs.
    pub esp_in: Vec<SaReport>,
    /// Matches of policy entries.
    pub hits: Vec<ipsec::Hit>,
    /// Transmit side of its SecY.
    pub secy_out: Vec<(u16, macsec::TxReport)>,
    /// Receive side of its SecY.
    pub secy_in: Vec<(u16, macsec::RxReport)>,
}
