//! A card: its graph between the wire and the node.

use super::CardCommand;
use super::links::{Links, NO_LINK};
use super::report::CardReport;
use super::wiring::{Place, Stages, Turn};
use crate::events::EventQueue;
use crate::message::Event;
use crate::runner::Graph;
use ferrule_base::{Flow, Instant, Ledger, PortId, Work};
use ferrule_crypto::Engine;
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::{Outputs, Tally};
use ferrule_pipeline::{BATCH, Batch, Meta, Packet, PoolCache, Port};
use rtrb::{Consumer, Producer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The engine of a card. (It is chosen when the node is built; a call goes for a
/// whole batch.)
pub type CardEngine = Box<dyn Engine<Packet> + Send>;

/// Time after which a card that has frames for a full wire tries again.
const RETRY: ferrule_base::Duration = ferrule_base::Duration::from_micros(100);

/// State of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum State {
    /// The card has tables and works.
    Up,
    /// The card waits for tables.
    Empty,
    /// The card failed.
    Halted,
}

/// Frames across a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// Taken from the wire.
    pub from_wire: Flow,
    /// Given to the node.
    pub to_node: Flow,
    /// Taken from the node.
    pub from_node: Flow,
    /// Given to the wire.
    pub to_wire: Flow,
}

/// A card: everything but the port that it is fitted to.
pub struct Card {
    pub(super) port: PortId,
    pub(super) state: State,
    pub(super) tables: Arc<Tables>,
    pub(super) engine: CardEngine,
    pub(super) stages: Stages,
    pub(super) links: Links,
    pub(super) out: Outputs,
    pub(super) batch: Option<Box<Batch>>,
    pub(super) tally: Tally,
    pub(super) crossed: Crossed,
    pub(super) resets: u64,
    pub(super) to_wire: VecDeque<Packet>,
    pub(super) to_node: VecDeque<Packet>,
    /// Time at which frames for a full wire are tried again.
    pub(super) retry: Option<Instant>,
    pub(super) commands: Consumer<CardCommand>,
    pub(super) events: EventQueue,
    /// Slots for which SAs were asked, and when.
    pub(super) asked: BTreeMap<u32, Instant>,
}

impl Card {
    pub(crate) fn new(
        port: PortId,
        engine: CardEngine,
        commands: Consumer<CardCommand>,
        events: Producer<Event>,
    ) -> Self {
        Self {
            port,
            state: State::Empty,
            tables: Arc::default(),
            engine,
            stages: Stages::default(),
            links: Links::default(),
            out: Outputs::new(),
            batch: Some(Box::default()),
            tally: Tally::default(),
            crossed: Crossed::default(),
            resets: 0,
            to_wire: VecDeque::with_capacity(2 * BATCH),
            to_node: VecDeque::with_capacity(2 * BATCH),
            retry: None,
            commands,
            events: EventQueue::new(events),
            asked: BTreeMap::new(),
        }
    }

    /// The port that it is for.
    pub const fn port(&self) -> PortId {
        self.port
    }

    /// Answers and other events so far that no packet caused: when it grows, the control part
    /// has something to do although nothing moved.
    pub(crate) const fn said(&self) -> u64 {
        self.events.sent()
    }

    /// Work that it did, none of which was its worker's.
    pub const fn work(&self) -> &Work {
        &self.tally.work
    }

    /// Frames that crossed it.
    pub const fn crossed(&self) -> &Crossed {
        &self.crossed
    }

    /// Frames from the port, through the card, into `batch`.
    pub(super) fn receive(
        &mut self,
        port: &mut dyn Port,
        now: Instant,
        cache: &mut PoolCache,
        batch: &mut Batch,
    ) {
        self.obey(cache);
        let mut fresh = self.batch.take().unwrap_or_default();
        let mut turn = Turn { card: self, now, cache };
        turn.collect(now);
        turn.run(&mut fresh);
        self.flush(port, now, cache);
        if self.to_node.is_empty() {
            port.receive(now, cache, &mut fresh);
            let entry = self.tables.ports.get(usize::from(self.port.0));
            let secured = entry.is_some_and(|entry| entry.secy.is_some());
            let place = if secured { Place::SecyIn } else { Place::Up };
            self.enter(now, cache, place, &mut fresh);
        }
        self.batch = Some(fresh);
        while !batch.is_full()
            && let Some(packet) = self.to_node.pop_front()
        {
            self.crossed.to_node.add(packet.len());
            batch.push(packet);
        }
    }

    /// Frames of the node, through the card, to the port. While the port has no room for
    /// frames sealed before, none is taken.
    pub(super) fn transmit(
        &mut self,
        port: &mut dyn Port,
        now: Instant,
        cache: &mut PoolCache,
        batch: &mut Batch,
    ) {
        self.obey(cache);
        self.flush(port, now, cache);
        if !self.to_wire.is_empty() || batch.is_empty() {
            return;
        }
        let mut fresh = self.batch.take().unwrap_or_default();
        fresh.extend(batch.drain(..));
        self.enter(now, cache, Place::Down, &mut fresh);
        self.batch = Some(fresh);
        self.flush(port, now, cache);
    }

    /// Counts frames that come in, and takes them through the graph. Metadata that others
    /// wrote is not trusted.
    fn enter(&mut self, now: Instant, cache: &mut PoolCache, at: Place, batch: &mut Box<Batch>) {
        let Crossed { from_wire, from_node, .. } = &mut self.crossed;
        let flow = if matches!(at, Place::Down) { from_node } else { from_wire };
        for packet in batch.iter_mut() {
            flow.add(packet.len());
            *packet.meta_mut() = Meta { port: self.port, link: NO_LINK, ..Meta::default() };
        }
        let mut turn = Turn { card: self, now, cache };
        turn.carry(at, batch);
        turn.run(batch);
    }

    /// Gives the port sealed frames, as far as it has room.
    fn flush(&mut self, port: &mut dyn Port, now: Instant, cache: &mut PoolCache) {
        let mut batch = Batch::new();
        while !self.to_wire.is_empty() {
            let count = self.to_wire.len().min(batch.capacity());
            batch.extend(self.to_wire.drain(..count));
            let octets: u64 = batch.iter().map(|p| p.len() as u64).sum();
            port.transmit(now, cache, &mut batch);
            let left: u64 = batch.iter().map(|p| p.len() as u64).sum();
            let sent = Flow { packets: (count - batch.len()) as u64, octets: octets - left };
            self.crossed.to_wire.merge(sent);
            if batch.is_empty() {
                continue;
            }
            while let Some(packet) = batch.pop() {
                self.to_wire.push_front(packet);
            }
            self.retry = Some(now + RETRY);
            return;
        }
        self.retry = None;
    }

    /// Time at which the card has work without a frame.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout().into_iter().chain(self.retry).min()
    }

    /// State in a word: `up`, `empty` or `halted`.
    pub fn state_name(&self) -> &'static str {
        self.state.into()
    }

    /// State, counters and associations.
    pub fn report(&self) -> CardReport {
        CardReport {
            port: self.port,
            state: self.state_name(),
            resets: self.resets,
            drops: self.tally.drops.clone(),
            work: self.tally.work,
            crossed: self.crossed,
            held: self.held() as u64,
            esp_out: self.stages.sas.outbound().collect(),
            esp_in: self.stages.sas.inbound().collect(),
            hits: self.tally.hits.all(),
            secy_out: self.stages.sas.secy_out.report(),
            secy_in: self.stages.sas.secy_in.report(),
        }
    }

    fn held(&self) -> usize {
        self.out.held() + self.to_wire.len() + self.to_node.len() + self.stages.sas.held()
    }

    /// Its own ledger: both sides together.
    pub fn ledger(&self) -> Ledger {
        Ledger {
            received: self.crossed.from_wire.packets + self.crossed.from_node.packets,
            made: self.tally.made,
            sent: self.crossed.to_wire.packets + self.crossed.to_node.packets,
            consumed: self.tally.consumed,
            dropped: self.tally.drops.total(),
            held: self.held() as u64,
        }
    }

    /// Frames dropped so far, by reason.
    pub const fn drops(&self) -> &ferrule_base::Drops {
        &self.tally.drops
    }
}
