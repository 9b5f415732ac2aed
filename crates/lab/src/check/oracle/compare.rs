//! Comparison of the oracle's expectation with a node's counters.

use super::sa::{Expect, Inbound, SaKey};
use ferrule_base::DropReason;
use ferrule_node::message::WorkerReport;

/// Losses between a port and the look at a packet's number.
const BEFORE_THE_WINDOW: [DropReason; 7] = [
    DropReason::NoBuffer,
    DropReason::NoRoom,
    DropReason::HandoffFull,
    DropReason::EngineFull,
    DropReason::EngineFailed,
    DropReason::KeystreamGone,
    DropReason::CardDown,
];

/// True if a node may have lost packets before the replay check.
pub(super) fn is_lossy(reports: &[WorkerReport]) -> bool {
    reports.iter().any(|r| {
        let of_cards = r.cards.iter().map(|card| &card.drops);
        let mut drops = of_cards.chain([&r.drops]);
        drops.any(|drops| BEFORE_THE_WINDOW.iter().any(|&reason| drops.get(reason) > 0))
            || r.ports.iter().any(|(_, stats, _)| stats.rx_missed > 0)
    })
}

/// Counters that a node keeps for an SA.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub accepted: u64,
    pub refused: u64,
    pub replayed: u64,
    pub bad_icv: u64,
}

impl Counted {
    /// Over all workers and the cards in their ports.
    pub fn of(sa: &Inbound, reports: &[WorkerReport]) -> Self {
        let mut sum = Self::default();
        let cards = || reports.iter().flat_map(|r| &r.cards);
        match sa.key {
            SaKey::Esp(_, spi) => {
                let sas = reports.iter().flat_map(|r| &r.esp_in);
                let sas = sas.chain(cards().flat_map(|card| &card.esp_in));
                for s in sas.filter(|s| s.spi == spi) {
                    sum.accepted += s.stats.packets;
                    sum.refused += s.stats.refused;
                    sum.replayed += s.stats.replays;
                    sum.bad_icv += s.stats.bad_icv;
                }
            }
            SaKey::Secy(sci, an) => {
                let secys = reports.iter().flat_map(|r| &r.secy_in);
                let secys = secys.chain(cards().flat_map(|card| &card.secy_in));
                let here = secys.filter(|(index, _)| usize::from(*index) == sa.port);
                for s in here.flat_map(|(_, r)| &r.sas).filter(|s| (s.sci, s.an) == (sci, an)) {
                    sum.accepted += s.stats.in_ok + s.stats.in_delayed;
                    sum.replayed += s.stats.in_late;
                    sum.bad_icv += s.stats.in_not_valid;
                }
            }
        }
        sum
    }

    /// Differences between expectation and count.
    ///
    /// 1. Exactly the accepted packets went on (some of them may have been
    ///    refused afterwards, for what is in them).
    /// 2. Exactly the rejected ones, and of the altered ones as many as found
    ///    their SA, were dropped for their number or their ICV.
    /// 3. For its number at least each rejected one; but a late packet with an
    ///    extended number is taken for one of the future, and its ICV is wrong
    ///    (RFC 4303 appendix A2.2).
    pub fn differs(self, expect: &Expect, guesses: bool) -> Option<String> {
        let Self { accepted, refused, replayed, bad_icv } = self;
        if !(accepted..=accepted + refused).contains(&expect.accepted) {
            return Some(format!(
                "{accepted} packets accepted, where the standard's window accepts {}",
                expect.accepted
            ));
        }
        let rejected = expect.duplicate + expect.late;
        let most = rejected + expect.altered;
        if !(rejected..=most).contains(&(replayed + bad_icv)) {
            return Some(format!(
                "{replayed} packets dropped as replayed and {bad_icv} for their ICV, where \
                 {rejected} were replayed or late and {} altered",
                expect.altered
            ));
        }
        let least = if guesses { expect.duplicate } else { rejected };
        if !(least..=most).contains(&replayed) {
            return Some(format!(
                "{replayed} packets dropped as replayed, where {rejected} were replayed or late"
            ));
        }
        None
    }
}
