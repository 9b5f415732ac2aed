//! A port, with a card in it or without.

use super::graph::Card;
use ferrule_base::Instant;
use ferrule_dataplane::Tally;
use ferrule_pipeline::{Batch, PoolCache, Port, PortStats};

/// A port of any kind with its card, if it has one. Frames cross the card in both
/// directions; counters are those of the wire.
pub struct Fitted {
    port: Box<dyn Port>,
    card: Option<Box<Card>>,
    /// Counted by ports of the same number that were here before.
    before: PortStats,
}

impl Fitted {
    /// A port, the card that is fitted to it, and counts to be added to its counters.
    pub fn new(port: Box<dyn Port>, card: Option<Box<Card>>, before: PortStats) -> Self {
        Self { port, card, before }
    }

    /// The card.
    pub fn card(&self) -> Option<&Card> {
        self.card.as_deref()
    }

    /// Counters of the card.
    pub(crate) fn tally_mut(&mut self) -> Option<&mut Tally> {
        self.card.as_mut().map(|card| &mut card.tally)
    }

    /// Fits a card.
    pub(crate) fn fit(&mut self, card: Box<Card>) {
        self.card = Some(card);
    }

    /// Takes the card out as it is, for another port of the same number.
    pub(crate) fn take_card(&mut self) -> Option<Box<Card>> {
        self.card.take()
    }

    /// Takes the card out for good; its packets are dropped.
    pub(crate) fn remove_card(&mut self, cache: &mut PoolCache) -> Option<Box<Card>> {
        let mut card = self.card.take()?;
        card.remove(cache);
        Some(card)
    }
}

impl Port for Fitted {
    #[inline]
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        match &mut self.card {
            None => self.port.receive(now, cache, batch),
            Some(card) => card.receive(&mut *self.port, now, cache, batch),
        }
    }

    #[inline]
    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        match &mut self.card {
            None => self.port.transmit(now, cache, batch),
            Some(card) => card.transmit(&mut *self.port, now, cache, batch),
        }
    }

    fn stats(&self) -> PortStats {
        let mut stats = self.port.stats();
        stats.merge(&self.before);
        stats
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let card = self.card.as_ref().and_then(|card| card.poll_timeout());
        self.port.poll_timeout().into_iter().chain(card).min()
    }

    fn wait_fd(&self) -> Option<i32> {
        self.port.wait_fd()
    }

    fn is_up(&self) -> bool {
        self.port.is_up()
    }
}
