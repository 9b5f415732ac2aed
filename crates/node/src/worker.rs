//! A worker: one graph, its ports, its security associations, its counters.
//!
//! ```text
//!   ports ─▶ receive ─▶ ┌───────── queues, in the order of `Next` ─────────┐ ─▶ ports
//!   other workers ────▶ │ secy-in attach bridge … output emit secy-out     │ ─▶ other workers
//!   control ──────────▶ └──────────────────────────────────────────────────┘ ─▶ control
//! ```
//!
//! A worker has no thread and no clock: a driver calls [`Worker::turn`] with the
//! time, over and over. The daemon does so from a pinned thread, the laboratory
//! from its event queue, a benchmark from its loop.

use crate::associations::Associations;
use crate::associations::{EdgeWalk, SaReports};
use crate::card::{Card, Fitted};
use crate::events::EventQueue;
use crate::message::{Command, Event, Ordered, WorkerReport};
use crate::probe::{Lap, Probe, Recorder, Silent, Stopwatch};
use crate::punt::{Class, Punts};
use crate::runner::{Graph, settle};
use ferrule_base::{DropReason, Drops, Flow, Instant, Ledger, PortId, Work};
use ferrule_crypto::{Engine, EngineReport, Jobs, Software};
use ferrule_dataplane::graph::{Ctx, Next, Outputs, Stage, Tally};
use ferrule_dataplane::{Tables, acl, bridge, fragment, ipsec, link, mpls, mss, route};
use ferrule_pipeline::{BATCH, Batch, Packet, PoolCache, Port, PortStats};
use ferrule_wire::flow::flow_hash;
use rtrb::{Consumer, Producer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

mod handover;
mod obey;

use handover::Handover;
pub(crate) use handover::{Peer, lane};

/// Frames that wait for one port at most.
pub const TX_QUEUE_MAX: usize = 1024;
/// Frames of the control part beside them.
const FIRST_MAX: usize = 64;

/// The stages of one graph.
#[derive(Default)]
pub(crate) struct Stages {
    pub sas: Associations,
    pub attach: link::Attach,
    pub bridge: bridge::Forward,
    pub pw_out: mpls::PwOut,
    pub pw_in: mpls::PwIn,
    pub mpls: mpls::Switch,
    pub frame_acl_in: acl::FrameAclIn,
    pub frame_acl_out: acl::FrameAclOut,
    pub sources: route::Sources,
    pub acl_in: acl::AclIn,
    pub ip: route::Ip,
    pub reassemble: fragment::Reassemble,
    pub local: route::Local,
    pub path: ipsec::PathErrors,
    pub acl_out: acl::AclOut,
    pub clamp: mss::Clamp,
    pub icmp_error: route::IcmpError,
    pub policy: ipsec::Policy,
    pub output: link::Output,
    pub emit: link::Emit,
}

struct AttachedPort {
    id: PortId,
    port: Fitted,
    backlog: VecDeque<Packet>,
}

/// One worker of a node.
pub struct Worker<E: Engine<Packet> = Software> {
    id: u8,
    tables: Arc<Tables>,
    cache: PoolCache,
    engine: E,
    stages: Stages,
    out: Outputs,
    /// The batch under way, and nothing while it is.
    batch: Option<Box<Batch>>,
    /// An empty one, for frames that stay when others are handed over.
    spare: Option<Box<Batch>>,
    tally: Tally,
    ledger: Ledger,
    ports: Vec<AttachedPort>,
    /// Cards whose ports are not there yet.
    #[expect(clippy::vec_box, reason = "it goes on to its port as it is")]
    cards: Vec<Box<Card>>,
    peers: Vec<Option<Peer>>,
    /// Packets from other workers that are to go on.
    arrived: Vec<Packet>,
    /// Packets for which no lane had room.
    crowded: Vec<Packet>,
    handed_out: u64,
    handed_in: u64,
    punts: Punts,
    commands: Consumer<Command>,
    /// Changes under way: the effects of later commands come after them.
    changes: VecDeque<Ordered>,
    handover: Handover,
    /// Events for the control part.
    events: EventQueue,
    /// Answers to the control protocols.
    answers: EventQueue,
    /// Packets given to the control protocols.
    punted: u64,
    /// A walk that tells where windows stand.
    edges: Option<EdgeWalk>,
    /// Requests for reports, and the SA reports collected so far for the first of them.
    asking: VecDeque<Sender<Box<WorkerReport>>>,
    told: SaReports,
    recorder: Option<Box<Recorder>>,
    stopwatch: Option<Box<Stopwatch>>,
}

/// Parts that the node gives a new worker.
pub(crate) struct Parts<E> {
    pub id: u8,
    pub tables: Arc<Tables>,
    pub cache: PoolCache,
    pub engine: E,
    /// Number of its current tables, for the others.
    pub has: Arc<AtomicU64>,
    pub peers: Vec<Option<Peer>>,
    pub punts: Punts,
    pub commands: Consumer<Command>,
    /// To the control part.
    pub events: Producer<Event>,
    /// To the control protocols.
    pub answers: Producer<Event>,
}

impl<E: Engine<Packet>> Worker<E> {
    pub(crate) fn new(parts: Parts<E>) -> Self {
        let mut tally = Tally::default();
        tally.hits.fit(&parts.tables.hits);
        tally.list_hits.fit(&parts.tables.list_hits);
        Self {
            id: parts.id,
            tables: parts.tables,
            cache: parts.cache,
            engine: parts.engine,
            stages: Stages::default(),
            out: Outputs::new(),
            batch: Some(Box::default()),
            spare: Some(Box::default()),
            tally,
            ledger: Ledger::default(),
            ports: Vec::new(),
            cards: Vec::new(),
            peers: parts.peers,
            arrived: Vec::new(),
            crowded: Vec::new(),
            handed_out: 0,
            handed_in: 0,
            punts: parts.punts,
            commands: parts.commands,
            changes: VecDeque::new(),
            handover: Handover::new(parts.has),
            events: EventQueue::new(parts.events),
            answers: EventQueue::new(parts.answers),
            punted: 0,
            edges: None,
            asking: VecDeque::new(),
            told: SaReports::default(),
            recorder: None,
            stopwatch: None,
        }
    }

    /// This worker's number.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Gives the worker a port to receive and transmit on. From an earlier port of this
    /// number it takes the card, the frames that wait and the counters; a card that waits
    /// for the number is fitted.
    pub fn attach_port(&mut self, id: PortId, port: Box<dyn Port>) {
        let old = self.ports.extract_if(.., |p| p.id == id).next();
        let (card, before, backlog) = match old {
            Some(mut old) => (old.port.take_card(), old.port.stats(), old.backlog),
            None => (None, PortStats::default(), VecDeque::with_capacity(TX_QUEUE_MAX + FIRST_MAX)),
        };
        let card = card.or_else(|| {
            let at = self.cards.iter().position(|card| card.port() == id)?;
            Some(self.cards.swap_remove(at))
        });
        self.ports.push(AttachedPort { id, port: Fitted::new(port, card, before), backlog });
    }

    /// Frames that came to this worker through cards, as it saw them.
    pub fn from_cards(&self) -> Flow {
        let mut flow = Flow::default();
        for card in self.ports.iter().filter_map(|p| p.port.card()) {
            flow.merge(card.crossed().to_node);
        }
        flow
    }

    /// The cards in its ports, and those whose ports are not there yet.
    pub fn all_cards(&self) -> impl Iterator<Item = &Card> {
        let fitted = self.ports.iter().filter_map(|p| p.port.card());
        fitted.chain(self.cards.iter().map(|card| &**card))
    }

    fn fit_card(&mut self, card: Box<Card>) {
        match self.ports.iter_mut().find(|p| p.id == card.port()) {
            Some(attached) => attached.port.fit(card),
            None => self.cards.push(card),
        }
    }

    /// The card in a port.
    pub fn card(&self, id: PortId) -> Option<&Card> {
        self.ports.iter().find(|p| p.id == id)?.port.card()
    }

    /// Packets given to other workers and to the control protocols so far: when it
    /// grows, they have something to do.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Answers to the control part and other events so far that no packet caused: when it grows,
    /// the control part has something to do although nothing moved.
    pub fn said(&self) -> u64 {
        self.events.sent() + self.all_cards().map(Card::said).sum::<u64>()
    }

    /// Packets and answers given to the control protocols so far: when it grows, they have
    /// something to do.
    pub fn told_protocols(&self) -> u64 {
        self.punted + self.answers.sent()
    }

    /// Packets taken from them so far.
    pub fn handed_in(&self) -> u64 {
        self.handed_in
    }

    /// Packets that an engine has.
    pub fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    /// Work done so far.
    #[inline]
    pub fn work(&self) -> &Work {
        &self.tally.work
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> &Drops {
        &self.tally.drops
    }

    /// File descriptors that become readable when there is something to do.
    pub fn wait_fds(&self) -> impl Iterator<Item = i32> + '_ {
        self.ports.iter().filter_map(|p| p.port.wait_fd())
    }

    /// Does everything that can be done now: commands, received frames, the
    /// graph, transmission. Returns how many packets moved; with none, the
    /// driver may sleep until [`poll_timeout`](Self::poll_timeout).
    pub fn turn(&mut self, now: Instant) -> usize {
        let more = usize::from(self.obey(now));
        match self.recorder.take() {
            None if self.stopwatch.is_some() => more + self.timed_turn(now),
            None => more + self.turn_with(now, &mut Silent),
            Some(mut recorder) => {
                let moved = self.turn_with(now, &mut *recorder);
                // A command during the turn may have put another in its place.
                self.recorder.get_or_insert(recorder);
                more + moved
            }
        }
    }

    #[cold]
    fn timed_turn(&mut self, now: Instant) -> usize {
        let Some(mut stopwatch) = self.stopwatch.take() else { return 0 };
        stopwatch.begin();
        let moved = self.turn_with(now, &mut *stopwatch);
        stopwatch.end(moved);
        self.stopwatch = Some(stopwatch);
        moved
    }

    /// Measures the worker's time by stage from now on, by this clock of nanoseconds,
    /// except while packets are recorded.
    pub fn keep_time(&mut self, clock: fn() -> u64) {
        self.stopwatch = Some(Box::new(Stopwatch::new(clock)));
    }

    /// Time at which [`turn`](Self::turn) has to be called next, even if no frame arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ports = self.ports.iter().filter_map(|p| p.port.poll_timeout());
        let stages = [
            self.stages.reassemble.poll_timeout(),
            self.stages.sas.esp_out.poll_timeout(),
            self.stages.sas.ah_out.poll_timeout(),
        ];
        let own = stages.into_iter().chain([self.handover.poll_timeout()]).flatten();
        ports.chain(self.engine.poll_timeout()).chain(own).min()
    }

    fn turn_with<P: Probe>(&mut self, now: Instant, probe: &mut P) -> usize {
        let late = !self.engine.is_immediate();
        let mut batch = self.batch.take().unwrap_or_default();
        let mut turn = Turn { worker: self, now, probe };
        let mut moved = turn.receive(&mut batch);
        moved += turn.resume_handoffs(&mut batch);
        moved += turn.collect(now);
        turn.worker.expire(now);
        moved += turn.worker.tick(now);
        // Packets dropped by jobs that came back, or by commands: no stage need have
        // anything to do afterwards.
        turn.settle();
        moved += turn.run(&mut batch);
        self.batch = Some(batch);
        if late || !self.engine.is_immediate() {
            self.tally.work.merge(&self.engine.take_work());
        }
        self.stages.sas.report(&mut self.events.ring);
        moved += self.leave(now);
        let sent = self.transmit(now);
        probe.lap(Lap::Ports);
        moved + sent
    }
}

/// A turn of a worker's graph, and who watches it.
struct Turn<'a, E: Engine<Packet>, P> {
    worker: &'a mut Worker<E>,
    now: Instant,
    probe: &'a mut P,
}

impl<E: Engine<Packet>, P: Probe> Turn<'_, E, P> {
    /// Frames from the ports into the graph. A batch goes straight to its first
    /// stage; a port with a SecY is opened first.
    fn receive(&mut self, batch: &mut Box<Batch>) -> usize {
        let mut received = 0;
        for at in 0..self.worker.ports.len() {
            let worker = &mut *self.worker;
            let attached = &mut worker.ports[at];
            attached.port.receive(self.now, &mut worker.cache, batch);
            self.probe.lap(Lap::Ports);
            if batch.is_empty() {
                continue;
            }
            received += batch.len();
            let id = attached.id;
            let entry = worker.tables.ports.get(id.0 as usize);
            // Each worker's queue has flows of its own: the driver spread them.
            let hash = u32::from(entry.is_some_and(|port| port.everywhere));
            batch.iter().for_each(Packet::prefetch_meta);
            for packet in batch.iter_mut() {
                packet.prefetch();
                let meta = packet.meta_mut();
                (meta.port, meta.hash) = (id, hash);
                self.probe.received(self.now, worker.id, packet);
            }
            let secured = entry.is_some_and(|p| p.secy.is_some());
            let next = if secured { Next::SecyIn } else { Next::Attach };
            self.carry(next, batch);
        }
        self.worker.ledger.received += received as u64;
        received
    }

    /// Packets from other workers into the graph, in batches that go straight to the stage
    /// of the first one; those that go on elsewhere wait there.
    fn resume_handoffs(&mut self, batch: &mut Box<Batch>) -> usize {
        let taken = self.worker.take_handoffs();
        if taken == 0 {
            return 0;
        }
        let mut arrived = std::mem::take(&mut self.worker.arrived);
        let mut packets = arrived.drain(..);
        while packets.len() > 0 {
            let mut first = None;
            for packet in packets.by_ref().take(BATCH) {
                packet.prefetch();
                let next = Next::of(&packet);
                debug_assert!(next.is_some(), "its stage was set when it was handed over");
                let next = next.unwrap_or(Next::Attach);
                match *first.get_or_insert(next) == next {
                    true => batch.push(packet),
                    false => self.worker.out.queue(next).push(packet),
                }
            }
            if let Some(next) = first {
                self.carry(next, batch);
            }
        }
        drop(packets);
        self.worker.arrived = arrived;
        taken
    }

    /// Counts dropped packets, and hands over packets that belong to others.
    fn settle(&mut self) {
        if self.worker.out.handed_off() > 0 {
            self.worker.hand_off();
        }
        let (now, id) = (self.now, self.worker.id);
        let (mut ctx, ..) = self.worker.split(now);
        settle(&mut ctx, |packet, reason| self.probe.dropped(now, id, reason, packet));
    }
}

impl<E: Engine<Packet>, P: Probe> Graph for Turn<'_, E, P> {
    type Place = Next;
    type Engine = E;

    fn parts(&mut self) -> (&mut Outputs, &mut E) {
        (&mut self.worker.out, &mut self.worker.engine)
    }

    fn visit(&mut self, place: Next, batch: &mut Box<Batch>) {
        self.probe.visit(self.now, self.worker.id, place, batch);
        self.worker.tally.work.staged[place.number()] += batch.len() as u64;
        self.worker.dispatch(self.now, place, batch);
        self.settle();
        self.probe.lap(Lap::Stage(place));
    }

    fn finish(&mut self, done: &mut Jobs<Packet>) {
        let (mut ctx, stages, _) = self.worker.split(self.now);
        stages.sas.finish(&mut ctx, done);
    }
}

impl<E: Engine<Packet>> Worker<E> {
    /// Gives up datagrams that waited too long.
    #[inline]
    fn expire(&mut self, now: Instant) {
        if self.stages.reassemble.poll_timeout().is_some_and(|due| due <= now) {
            let (mut ctx, stages, _) = self.split(now);
            stages.reassemble.expire(&mut ctx);
        }
    }

    /// Timed work of outbound SAs: keepalives, dummies, forgetting.
    fn tick(&mut self, now: Instant) -> usize {
        let due = |at: Option<Instant>| at.is_some_and(|due| due <= now);
        let esp = due(self.stages.sas.esp_out.poll_timeout());
        let ah = due(self.stages.sas.ah_out.poll_timeout());
        if !esp && !ah {
            return 0;
        }
        let (mut ctx, stages, engine) = self.split(now);
        if esp {
            stages.sas.esp_out.tick(&mut ctx, engine);
        }
        if ah {
            stages.sas.ah_out.tick(&mut ctx, engine);
        }
        1
    }

    fn split(&mut self, now: Instant) -> (Ctx<'_>, &mut Stages, &mut E) {
        let ctx = Ctx {
            now,
            worker: self.id,
            tables: &self.tables,
            cache: &mut self.cache,
            tally: &mut self.tally,
            out: &mut self.out,
        };
        (ctx, &mut self.stages, &mut self.engine)
    }

    /// The wiring list: the stage at each place. (They are not compiled into it: in one
    /// function there are too few registers for all.)
    fn dispatch(&mut self, now: Instant, next: Next, batch: &mut Box<Batch>) {
        if next == Next::Attach && self.tables.workers > 1 {
            self.share(batch);
        }
        let (mut ctx, stages, engine) = self.split(now);
        match next {
            Next::SecyIn => stages.sas.secy_in.push(&mut ctx, engine, batch),
            Next::Attach => stages.attach.push(&mut ctx, batch),
            Next::Bridge => stages.bridge.push(&mut ctx, batch),
            Next::PwOut => stages.pw_out.push(&mut ctx, batch),
            Next::Mpls => stages.mpls.push(&mut ctx, batch),
            Next::PwIn => stages.pw_in.push(&mut ctx, batch),
            Next::FrameAclIn => stages.frame_acl_in.push(&mut ctx, batch),
            Next::FrameAclOut => stages.frame_acl_out.push(&mut ctx, batch),
            Next::SourceCheck => stages.sources.push(&mut ctx, batch),
            Next::AclIn => stages.acl_in.push(&mut ctx, batch),
            Next::Ip => stages.ip.push(&mut ctx, batch),
            Next::Reassemble => stages.reassemble.push(&mut ctx, batch),
            Next::Local => stages.local.push(&mut ctx, batch),
            Next::EspIn => stages.sas.esp_in.push(&mut ctx, engine, batch),
            Next::PathError => {
                stages.path.push(&mut ctx, &mut stages.sas.esp_out, &mut stages.sas.ah_out, batch);
            }
            Next::AclOut => stages.acl_out.push(&mut ctx, batch),
            Next::Clamp => stages.clamp.push(&mut ctx, batch),
            Next::Policy => stages.policy.push(&mut ctx, batch),
            Next::EspOut => stages.sas.esp_out.push(&mut ctx, engine, batch),
            Next::AhIn => stages.sas.ah_in.push(&mut ctx, engine, batch),
            Next::AhOut => stages.sas.ah_out.push(&mut ctx, engine, batch),
            Next::IcmpError => stages.icmp_error.push(&mut ctx, batch),
            Next::Output => stages.output.push(&mut ctx, batch),
            Next::Emit => stages.emit.push(&mut ctx, batch),
            Next::SecyOut => stages.sas.secy_out.push(&mut ctx, engine, batch),
            Next::Transmit => self.transmit_batch(now, batch),
            Next::TransmitFirst => self.transmit_first(now, batch),
            Next::Control => self.punt(now, batch, Class::Discovery),
            Next::Eapol => self.punt(now, batch, Class::Eapol),
            Next::Resolve => self.punt(now, batch, Class::Waiting),
            Next::Acquire => self.punt(now, batch, Class::Acquire),
            Next::Keying => self.punt(now, batch, Class::Keying),
        }
    }

    /// Sends each frame to the worker of its flow, so that order within a flow is kept.
    /// This worker's own frames stay in the batch.
    fn share(&mut self, batch: &mut Box<Batch>) {
        if batch.iter().all(|packet| packet.meta().hash != 0) {
            return;
        }
        let workers = u64::from(self.tables.workers);
        let mut here = self.spare.take().unwrap_or_default();
        for mut packet in batch.drain(..) {
            if packet.meta().hash == 0 {
                let hash = flow_hash(packet.data()) | 1;
                packet.meta_mut().hash = hash;
                let owner = ((u64::from(hash) * workers) >> 32) as u8;
                if owner != self.id {
                    self.out.hand_off(owner, Next::Attach, packet);
                    continue;
                }
            }
            here.push(packet);
        }
        std::mem::swap(batch, &mut here);
        self.spare = Some(here);
    }

    /// Frames to their ports. As a rule all are for one port, which has room; the others
    /// wait in its backlog.
    fn transmit_batch(&mut self, now: Instant, batch: &mut Batch) {
        let Some(first) = batch.first().map(|p| p.meta().port) else { return };
        if batch.iter().all(|p| p.meta().port == first)
            && let Some(attached) = self.ports.iter_mut().find(|p| p.id == first)
            && attached.backlog.is_empty()
        {
            let count = batch.len();
            attached.port.transmit(now, &mut self.cache, batch);
            self.ledger.sent += (count - batch.len()) as u64;
        }
        for packet in batch.drain(..) {
            let port = packet.meta().port;
            match self.ports.iter_mut().find(|p| p.id == port) {
                Some(p) if p.backlog.len() < TX_QUEUE_MAX => p.backlog.push_back(packet),
                Some(_) => self.out.drop(packet, DropReason::TxQueueFull),
                None => self.out.drop(packet, DropReason::PortDown),
            }
        }
    }

    /// Frames of the control part, which are few, before those that wait for room: a port that
    /// has more to send than it can keeps its sessions.
    fn transmit_first(&mut self, now: Instant, batch: &mut Batch) {
        let first = batch.first().map(|p| p.meta().port);
        if batch.iter().all(|p| Some(p.meta().port) == first)
            && let Some(attached) = self.ports.iter_mut().find(|p| Some(p.id) == first)
        {
            let count = batch.len();
            attached.port.transmit(now, &mut self.cache, batch);
            self.ledger.sent += (count - batch.len()) as u64;
        }
        for packet in batch.drain(..).rev() {
            match self.ports.iter_mut().find(|p| p.id == packet.meta().port) {
                Some(p) if p.backlog.len() < TX_QUEUE_MAX + FIRST_MAX => {
                    p.backlog.push_front(packet);
                }
                Some(_) => self.out.drop(packet, DropReason::TxQueueFull),
                None => self.out.drop(packet, DropReason::PortDown),
            }
        }
    }

    /// Packets of a class to the control part; those that find no room are dropped.
    fn punt(&mut self, now: Instant, batch: &mut Batch, class: Class) {
        for packet in batch.drain(..) {
            match self.punts.push(now, &self.tables, class, packet) {
                Ok(()) => (self.handed_out, self.punted) = (self.handed_out + 1, self.punted + 1),
                Err(packet) => self.out.drop(packet, class.full()),
            }
        }
    }

    /// Sends waiting packets, as far as the ports have room now.
    fn transmit(&mut self, now: Instant) -> usize {
        let mut sent = 0;
        let mut batch = Batch::new();
        for attached in &mut self.ports {
            while !attached.backlog.is_empty() {
                let count = attached.backlog.len().min(batch.capacity());
                batch.extend(attached.backlog.drain(..count));
                attached.port.transmit(now, &mut self.cache, &mut batch);
                sent += count - batch.len();
                if batch.is_empty() {
                    continue;
                }
                while let Some(packet) = batch.pop() {
                    attached.backlog.push_front(packet);
                }
                break;
            }
        }
        self.ledger.sent += sent as u64;
        sent
    }

    fn detach_port(&mut self, id: PortId) {
        for mut attached in self.ports.extract_if(.., |p| p.id == id) {
            for packet in attached.backlog.drain(..) {
                self.out.drop(packet, DropReason::PortDown);
            }
            if let Some(card) = attached.port.remove_card(&mut self.cache) {
                // Its drops are the node's from now on.
                self.tally.drops.merge(card.drops());
                self.ledger.received += card.crossed().from_wire.packets;
                self.ledger.received -= card.crossed().to_node.packets;
                self.ledger.sent += card.crossed().to_wire.packets;
                self.ledger.sent -= card.crossed().from_node.packets;
                self.tally.made += card.ledger().made;
                self.tally.consumed += card.ledger().consumed;
            }
        }
    }

    /// Reports of its engines.
    pub fn engines(&self) -> Vec<EngineReport> {
        self.engine.report()
    }

    /// Everything this worker counted.
    pub fn report(&self, now: Instant) -> WorkerReport {
        let mut sas = SaReports::default();
        while self.stages.sas.report_some(&mut sas) {}
        self.report_with(now, sas)
    }

    /// The same, with the SAs that were reported before.
    fn report_with(&self, now: Instant, sas: SaReports) -> WorkerReport {
        WorkerReport {
            worker: self.id,
            now,
            drops: self.tally.drops.clone(),
            answers: self.tally.answers.clone(),
            work: self.tally.work,
            ledger: self.ledger(),
            handed_out: self.handed_out,
            handed_in: self.handed_in,
            ports: self.ports.iter().map(|p| (p.id, p.port.stats(), p.port.is_up())).collect(),
            esp_out: sas.outbound,
            esp_in: sas.inbound,
            hits: self.tally.hits.all(),
            list_hits: self.tally.list_hits.all(),
            secy_out: self.stages.sas.secy_out.report(),
            secy_in: self.stages.sas.secy_in.report(),
            engines: self.engine.report(),
            times: self.stopwatch.as_ref().map(|watch| *watch.times()),
            cards: self.all_cards().map(Card::report).collect(),
        }
    }

    /// This worker's part of the ledger. Packets on the way between workers, or at the
    /// control part, are in no worker's part: the node adds them.
    pub fn ledger(&self) -> Ledger {
        let backlog: usize = self.ports.iter().map(|p| p.backlog.len()).sum();
        let held =
            self.out.held() + backlog + self.stages.reassemble.held() + self.stages.sas.held();
        let mut ledger = Ledger {
            made: self.tally.made,
            consumed: self.tally.consumed,
            dropped: self.tally.drops.total(),
            held: held as u64,
            ..self.ledger
        };
        for card in self.ports.iter().filter_map(|p| p.port.card()) {
            // Frames between card and node were within.
            ledger.merge(&card.ledger());
            let crossed = card.crossed();
            let within = crossed.to_node.packets + crossed.from_node.packets;
            ledger.received -= within;
            ledger.sent -= within;
        }
        ledger
    }
}
