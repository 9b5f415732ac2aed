//! A card's graph: the stages of the node, in a line.

use super::CardCommand;
use super::down::Down;
use super::links::{Links, NO_LINK};
use super::report::CardReport;
use super::up::Up;
use crate::message::{Event, SaReport};
use ferrule_base::{DropReason, Flow, Instant, Ledger, PortId, Work};
use ferrule_crypto::{Engine, Jobs};
use ferrule_dataplane::graph::{Ctx, Next, Outputs, Stage, Tally};
use ferrule_dataplane::ipsec::SaProtocol;
use ferrule_dataplane::{Tables, ipsec, link, macsec};
use ferrule_pipeline::{BATCH, Batch, Meta, Packet, PoolCache, Port};
use rtrb::{Consumer, Producer};
use std::collections::VecDeque;
use std::sync::Arc;

/// The engine of a card. (It is chosen when the node is built; a call goes for a
/// whole batch.)
pub type CardEngine = Box<dyn Engine<Packet> + Send>;

/// Stages that a packet passes in a card at most.
const STAGES_MAX: usize = 32;

/// How soon a card that has frames for a full wire looks again.
const RETRY: ferrule_base::Duration = ferrule_base::Duration::from_micros(100);

#[derive(Default)]
pub(super) struct Stages {
    pub(super) secy_in: macsec::SecyIn,
    pub(super) secy_out: macsec::SecyOut,
    pub(super) up: Up,
    pub(super) down: Down,
    pub(super) policy: ipsec::Policy,
    pub(super) esp_in: ipsec::EspIn,
    pub(super) esp_out: ipsec::EspOut,
    pub(super) emit: link::Emit,
}

/// Whether a card works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has tables.
    Up,
    /// It waits for tables.
    Empty,
    /// It failed.
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
    /// When frames for a full wire are tried again.
    pub(super) retry: Option<Instant>,
    pub(super) commands: Consumer<CardCommand>,
    pub(super) events: Producer<Event>,
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
            events,
        }
    }

    /// The port that it is for.
    pub const fn port(&self) -> PortId {
        self.port
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
        self.collect(now, cache);
        self.flush(port, now, cache);
        if self.to_node.is_empty() {
            let mut fresh = self.batch.take().unwrap_or_default();
            port.receive(now, cache, &mut fresh);
            self.enter(&mut fresh, true);
            let secured = self.entry_has_secy();
            let next = if secured { Next::SecyIn } else { Next::Attach };
            self.run(now, cache, next, &mut fresh);
            self.batch = Some(fresh);
        }
        while !batch.is_full()
            && let Some(packet) = self.to_node.pop_front()
        {
            self.crossed.to_node.add(packet.len());
            batch.push(packet);
        }
    }

    /// Frames of the node, through the card, to the port. While the port has no
    /// room for what was sealed before, nothing is taken.
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
        self.enter(&mut fresh, false);
        // `Control` is the place of nothing in a card: here, what the node sends.
        self.run(now, cache, Next::Control, &mut fresh);
        self.batch = Some(fresh);
        self.flush(port, now, cache);
    }

    /// Counts what comes in. Nothing that others noted about it is believed.
    fn enter(&mut self, batch: &mut Batch, from_wire: bool) {
        let crossed = &mut self.crossed;
        let flow = if from_wire { &mut crossed.from_wire } else { &mut crossed.from_node };
        for packet in batch.iter_mut() {
            flow.add(packet.len());
            *packet.meta_mut() = Meta { port: self.port, link: NO_LINK, ..Meta::default() };
        }
    }

    fn entry_has_secy(&self) -> bool {
        let entry = self.tables.ports.get(usize::from(self.port.0));
        entry.is_some_and(|entry| entry.secy.is_some())
    }

    /// Takes a batch from its first stage to the end.
    fn run(&mut self, now: Instant, cache: &mut PoolCache, next: Next, batch: &mut Box<Batch>) {
        if self.state != State::Up {
            return self.refuse(cache, batch);
        }
        let mut next = next;
        loop {
            self.carry(now, cache, next, batch);
            let waiting = |&next: &Next| !self.out.queue(next).is_empty();
            let Some(on) = Next::ALL.into_iter().find(waiting) else { return };
            next = on;
            let queue = self.out.queue(next);
            let count = queue.len().min(batch.capacity());
            batch.extend(queue.drain(..count));
        }
    }

    /// On through the stages as long as most of the batch goes the same way. (The
    /// places of a card form no circle, so this ends.)
    fn carry(&mut self, now: Instant, cache: &mut PoolCache, next: Next, batch: &mut Box<Batch>) {
        let mut next = next;
        for _ in 0..STAGES_MAX {
            self.dispatch(now, cache, next, batch);
            self.settle(cache);
            match self.out.take_run(batch) {
                Some(on) => next = on,
                None => return,
            }
        }
        self.out.queue(next).extend(batch.drain(..));
    }

    /// The wiring list.
    fn dispatch(
        &mut self,
        now: Instant,
        cache: &mut PoolCache,
        next: Next,
        batch: &mut Box<Batch>,
    ) {
        if batch.is_empty() {
            return;
        }
        let tables = &*self.tables;
        let (tally, out) = (&mut self.tally, &mut self.out);
        let mut ctx = Ctx { now, worker: 0, tables, cache, tally, out };
        let (stages, engine, links) = (&mut self.stages, &mut self.engine, &mut self.links);
        match next {
            Next::SecyIn => stages.secy_in.push(&mut ctx, engine, batch),
            Next::Attach => stages.up.push(&mut ctx, links, batch),
            Next::EspIn => stages.esp_in.push(&mut ctx, engine, batch),
            Next::Ip => front(&mut ctx, links, batch, Next::Local),
            Next::Local => self.to_node.extend(batch.drain(..)),
            Next::Control => stages.down.push(&mut ctx, links, batch),
            Next::Policy => stages.policy.push(&mut ctx, batch),
            Next::EspOut => stages.esp_out.push(&mut ctx, engine, batch),
            Next::Output => front(&mut ctx, links, batch, Next::Emit),
            Next::Emit => stages.emit.push(&mut ctx, batch),
            Next::SecyOut => stages.secy_out.push(&mut ctx, engine, batch),
            Next::Transmit => self.to_wire.extend(batch.drain(..)),
            // A card answers nobody: the node was told the MTU.
            Next::IcmpError => drop_all(&mut ctx, batch, DropReason::TooBig),
            // AH is not made in cards, which the configuration sees to.
            Next::AhIn | Next::AhOut => {
                drop_all(&mut ctx, batch, DropReason::UnknownProtocol);
            }
            Next::Bridge | Next::PwOut | Next::Mpls | Next::PwIn => {
                drop_all(&mut ctx, batch, DropReason::UnknownProtocol);
            }
            // The node's business, in clear.
            Next::Reassemble | Next::PathError | Next::Clamp => {
                drop_all(&mut ctx, batch, DropReason::FragmentNotSupported);
            }
        }
    }

    /// Counts what was dropped, and gives up its link headers.
    fn settle(&mut self, cache: &mut PoolCache) {
        for (worker, _, packet) in self.out.handoffs().drain(..) {
            debug_assert_eq!(worker, 0, "a card has one worker");
            cache.recycle(packet);
        }
        for (mut packet, reason) in self.out.dropped().drain(..) {
            self.tally.drops.count(reason);
            self.links.release(&mut packet);
            cache.recycle(packet);
        }
    }

    /// Without tables nothing passes.
    #[cold]
    fn refuse(&mut self, cache: &mut PoolCache, batch: &mut Batch) {
        for mut packet in batch.drain(..) {
            self.tally.drops.count(DropReason::CardDown);
            self.links.release(&mut packet);
            cache.recycle(packet);
        }
    }

    /// Jobs that the engine finished later.
    fn collect(&mut self, now: Instant, cache: &mut PoolCache) {
        if self.engine.is_immediate() {
            return;
        }
        loop {
            let mut done = Jobs::new();
            self.engine.collect(now, &mut done);
            if done.is_empty() {
                return;
            }
            let (tables, tally, out) = (&*self.tables, &mut self.tally, &mut self.out);
            let mut ctx = Ctx { now, worker: 0, tables, cache, tally, out };
            self.stages.secy_in.finish(&mut ctx, &mut done);
            self.stages.esp_in.finish(&mut ctx, &mut done);
            self.stages.esp_out.finish(&mut ctx, &mut done);
            self.stages.secy_out.finish(&mut ctx, &mut done);
            debug_assert!(done.is_empty(), "every job belongs to a stage");
            self.settle(cache);
            let mut batch = self.batch.take().unwrap_or_default();
            // What came back while the card is down is dropped like all else.
            while let Some(next) = self.out.take_run(&mut batch).or_else(|| self.first_queue()) {
                if batch.is_empty() {
                    let queue = self.out.queue(next);
                    let count = queue.len().min(batch.capacity());
                    batch.extend(queue.drain(..count));
                }
                self.run(now, cache, next, &mut batch);
            }
            self.batch = Some(batch);
        }
    }

    fn first_queue(&mut self) -> Option<Next> {
        Next::ALL.into_iter().find(|&next| !self.out.queue(next).is_empty())
    }

    /// Gives the port what is sealed, as far as it has room.
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

    /// When the card has something to do without a frame.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout().into_iter().chain(self.retry).min()
    }

    /// What it counted.
    pub fn report(&self) -> CardReport {
        let report = |v: ipsec::SaView<'_>| SaReport::of(SaProtocol::Esp, &v);
        CardReport {
            port: self.port,
            state: match self.state {
                State::Up => "up",
                State::Empty => "empty",
                State::Halted => "halted",
            },
            resets: self.resets,
            drops: self.tally.drops.clone(),
            work: self.tally.work,
            crossed: self.crossed,
            held: self.held() as u64,
            esp_out: self.stages.esp_out.show().map(report).collect(),
            esp_in: self.stages.esp_in.show().map(report).collect(),
            hits: self.tally.hits.all().to_vec(),
            secy_out: self.stages.secy_out.report(),
            secy_in: self.stages.secy_in.report(),
        }
    }

    fn held(&self) -> usize {
        self.out.held()
            + self.to_wire.len()
            + self.to_node.len()
            + self.stages.esp_in.held()
            + self.stages.esp_out.held()
            + self.stages.secy_in.held()
            + self.stages.secy_out.held()
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

/// Puts link headers back.
fn front(ctx: &mut Ctx<'_>, links: &mut Links, batch: &mut Batch, next: Next) {
    for mut packet in batch.drain(..) {
        match links.restore(&mut packet) {
            Ok(()) => ctx.out.send(next, packet),
            Err(reason) => ctx.out.drop(packet, reason),
        }
    }
}

fn drop_all(ctx: &mut Ctx<'_>, batch: &mut Batch, reason: DropReason) {
    batch.drain(..).for_each(|packet| ctx.out.drop(packet, reason));
}
