//! Packets from worker to worker, and how workers come to new tables together.
//!
//! ```text
//!   A: new tables in force ─▶ `has` = 7 ─▶ packets made by them ─▶ ring
//!   B: ring is read ─▶ A has 7, we have 6, and hold 7 ready ─▶ 7 is in force here, too
//!                 ─▶ only now do the packets go on
//! ```
//!
//! So no packet that new tables made is read by old ones. The reverse is the concern of the
//! tables: an entry that is gone keeps its place in them for as long as something may be
//! under way to it.

use super::Worker;
use crate::message::{Event, Ordered};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_control::Refused;
use ferrule_crypto::Engine;
use ferrule_dataplane::Tables;
use ferrule_pipeline::Packet;
use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time for which packets under way delay the removal of an association: a worker
/// that has more to do than it can, an engine that hangs.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Time after which a worker that waits for others looks again.
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// Packets under way in a lane at most: a worker that is behind must not hold all there are.
const LANE: usize = 1024;

/// A lane between two workers, of packets that know the stage at which they go on.
pub(crate) fn lane() -> (Producer<Packet>, Consumer<Packet>) {
    RingBuffer::new(LANE)
}

/// Lanes to and from one other worker.
pub(crate) struct Peer {
    to: Producer<Packet>,
    from: Consumer<Packet>,
    /// Number of its current tables.
    has: Arc<AtomicU64>,
    /// No packet that it sent by tables before these is under way any more.
    heard: u64,
}

impl Peer {
    pub fn new(to: Producer<Packet>, from: Consumer<Packet>, has: Arc<AtomicU64>) -> Self {
        Self { to, from, has, heard: 0 }
    }

    /// Sends as many of these packets as there is room for; the others stay.
    fn send(&mut self, packets: &mut Vec<Packet>) -> usize {
        let room = match self.to.write_chunk_uninit(packets.len()) {
            Ok(room) => room,
            Err(ChunkError::TooFewSlots(few)) => match self.to.write_chunk_uninit(few) {
                Ok(room) => room,
                Err(_) => return 0,
            },
        };
        let count = room.len();
        room.fill_from_iter(packets.drain(..count))
    }

    /// Takes all packets that are there. Their metadata is in the cache of another core: it is
    /// asked for all at once.
    fn take(&mut self, arrived: &mut Vec<Packet>) {
        let Ok(chunk) = self.from.read_chunk(self.from.slots()) else { return };
        let (first, second) = chunk.as_slices();
        first.iter().chain(second).for_each(Packet::prefetch_meta);
        arrived.extend(chunk);
    }
}

/// A change of tables, and of the associations that go with them.
pub(super) struct Handover {
    /// Tables that are held ready.
    pub ready: Option<Arc<Tables>>,
    /// Number of changes of tables here, for the others to see.
    has: Arc<AtomicU64>,
    number: u64,
    /// Associations to be removed as soon as nothing is under way to them.
    pub leaving: VecDeque<Ordered>,
    /// Answers about associations that are gone, but for packets that an engine still has
    /// of them.
    gone: Vec<Event>,
    /// The steps to be said once they are done.
    pub saying: Vec<u64>,
    /// Start of the wait for packets under way, and time of the next look.
    waits: Option<(Instant, Instant)>,
}

impl Handover {
    pub fn new(has: Arc<AtomicU64>) -> Self {
        let (ready, leaving, gone, saying) = (None, VecDeque::new(), Vec::new(), Vec::new());
        Self { ready, has, number: 0, leaving, gone, saying, waits: None }
    }

    /// True if nothing is to go or to be said.
    fn is_idle(&self) -> bool {
        self.saying.is_empty() && self.leaving.is_empty() && self.gone.is_empty()
    }

    /// Time of the next look at work that waits to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waits.map(|(_, again)| again)
    }

    /// Not done: true if it is worth waiting for.
    fn wait(&mut self, now: Instant) -> bool {
        let (since, again) = self.waits.get_or_insert((now, now));
        *again = now + LOOK_AGAIN;
        now.since(*since) < LEAVE_MAX
    }
}

impl<E: Engine<Packet>> Worker<E> {
    /// The tables that are held ready are in force. The others see it before they see
    /// any packet that these make.
    pub(super) fn switch(&mut self) {
        let Some(tables) = self.handover.ready.take() else { return };
        self.tally.hits.fit(&tables.hits);
        self.tally.list_hits.fit(&tables.list_hits);
        // Their entries have other numbers now.
        self.tally.audit.take_logged();
        self.tables = tables;
        self.handover.number += 1;
        self.handover.has.store(self.handover.number, Ordering::Release);
    }

    /// Takes packets from other workers, to go on in this turn. Returns how many there are.
    pub(super) fn take_handoffs(&mut self) -> usize {
        let mut newest = 0;
        for peer in self.peers.iter_mut().flatten() {
            let before = peer.has.load(Ordering::Acquire);
            peer.take(&mut self.arrived);
            // Every packet that it sent before it had these is taken.
            peer.heard = before;
            newest = peer.has.load(Ordering::Acquire).max(newest);
        }
        if newest > self.handover.number {
            self.switch();
        }
        self.handed_in += self.arrived.len() as u64;
        self.arrived.len()
    }

    /// Packets to other workers, each worker's in one go; those for which its lane has no
    /// room are dropped.
    pub(super) fn hand_off(&mut self) {
        let queues = self.out.take_handoffs();
        for (worker, queue) in queues.iter_mut().enumerate().filter(|(_, q)| !q.is_empty()) {
            if let Some(peer) = self.peers.get_mut(worker).and_then(Option::as_mut) {
                self.handed_out += peer.send(queue) as u64;
            }
            self.crowded.append(queue);
        }
        for packet in self.crowded.drain(..) {
            self.out.drop(packet, DropReason::HandoffFull);
        }
    }

    /// At the end of a turn: removes the associations that are to go, and reports steps
    /// that are done. Returns whether there was something to report.
    pub(super) fn leave(&mut self, now: Instant) -> usize {
        if self.handover.is_idle() || (!self.is_clear() && self.handover.wait(now)) {
            return 0;
        }
        while let Some(Ordered { token, change }) = self.handover.leaving.pop_front() {
            let done = self.try_change(change).map_err(Refused);
            self.handover.gone.push(Event::Done(token, done));
        }
        if self.stages.sas.is_lingering() && self.handover.wait(now) {
            return 0;
        }
        self.handover.waits = None;
        let steps = std::mem::take(&mut self.handover.saying).into_iter().map(Event::Reached);
        let all: Vec<Event> = self.handover.gone.drain(..).chain(steps).collect();
        let said = all.len();
        all.into_iter().for_each(|event| self.events.send(event));
        said
    }

    /// True if nothing is under way in the graph, nor from others that had other tables.
    fn is_clear(&self) -> bool {
        let ours = self.handover.number;
        let heard = self.peers.iter().flatten().all(|peer| peer.heard >= ours);
        heard && self.changes.is_empty() && self.out.held() == 0
    }
}
