//! Packets from worker to worker, and how workers come to new tables together.
//!
//! ```text
//!   A: new tables in force ─▶ `has` = 7 ─▶ packets made by them ─▶ ring
//!   B: ring is read ─▶ A has 7, we have 6, and hold 7 ready ─▶ 7 is in force here, too
//!                 ─▶ only now do the packets go on
//! ```
//!
//! So no packet that new tables made is read by old ones. The other way round is seen
//! to by the tables: what is gone keeps its place in them for as long as something may
//! be under way to it.

use super::Worker;
use crate::message::{Change, Event};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_crypto::Engine;
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::Packet;
use rtrb::{Consumer, Producer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// For so long something may be under way before what is to go goes all the same: a
/// worker that has more to do than it can, an engine that hangs.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// How soon a worker that waits for others looks again.
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// Rings to and from one other worker.
pub(crate) struct Peer {
    to: Producer<(Next, Packet)>,
    from: Consumer<(Next, Packet)>,
    /// Which tables it has.
    has: Arc<AtomicU64>,
    /// Nothing of what it sent by tables before these is under way any more.
    heard: u64,
}

impl Peer {
    pub fn new(
        to: Producer<(Next, Packet)>,
        from: Consumer<(Next, Packet)>,
        has: Arc<AtomicU64>,
    ) -> Self {
        Self { to, from, has, heard: 0 }
    }
}

/// A change of tables, and of what goes with them.
pub(super) struct Handover {
    /// Tables that are held ready.
    pub ready: Option<Arc<Tables>>,
    /// How often tables changed here, for the others to see.
    has: Arc<AtomicU64>,
    number: u64,
    /// What goes as soon as nothing is under way to it.
    pub leaving: VecDeque<Change>,
    /// The step to be said once it is done.
    pub saying: Option<u64>,
    /// Since when it waits to be done, and when to look again.
    waits: Option<(Instant, Instant)>,
}

impl Handover {
    pub fn new(has: Arc<AtomicU64>) -> Self {
        let (ready, leaving) = (None, VecDeque::new());
        Self { ready, has, number: 0, leaving, saying: None, waits: None }
    }

    /// When something may be done that is not done yet.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waits.map(|(_, again)| again)
    }

    /// Not done: whether it is worth waiting for.
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
        self.tables = tables;
        self.handover.number += 1;
        self.handover.has.store(self.handover.number, Ordering::Release);
    }

    /// Packets from other workers into the graph. What the stages know of them and where
    /// they begin is in the cache of another core: asked for all at once.
    pub(super) fn take_handoffs(&mut self) -> usize {
        let mut taken = 0;
        let mut newest = 0;
        for peer in self.peers.iter_mut().flatten() {
            let before = peer.has.load(Ordering::Acquire);
            let count = peer.from.slots();
            if let Ok(chunk) = peer.from.read_chunk(count) {
                let (first, rest) = chunk.as_slices();
                first.iter().chain(rest).for_each(|(_, packet)| packet.prefetch_meta());
                for (next, packet) in chunk {
                    packet.prefetch();
                    self.out.send(next, packet);
                }
                taken += count;
            }
            // All that it sent before it had these is taken.
            peer.heard = before;
            newest = peer.has.load(Ordering::Acquire).max(newest);
        }
        if newest > self.handover.number {
            self.switch();
        }
        self.handed_in += taken as u64;
        taken
    }

    /// Packets to other workers, each worker's in one go; for what its ring has no room is
    /// dropped.
    pub(super) fn hand_off(&mut self) {
        for worker in 0..self.peers.len().max(self.out.handoffs().len()) {
            let Some(queue) = self.out.handoffs().get_mut(worker).filter(|q| !q.is_empty()) else {
                continue;
            };
            let mut queue = std::mem::take(queue);
            if let Some(peer) = self.peers.get_mut(worker).and_then(Option::as_mut) {
                let count = queue.len().min(peer.to.slots());
                if let Ok(chunk) = peer.to.write_chunk_uninit(count) {
                    self.handed_out += chunk.fill_from_iter(queue.drain(..count)) as u64;
                }
            }
            for (_, packet) in queue.drain(..) {
                self.out.drop(packet, DropReason::HandoffFull);
            }
            self.out.handoffs()[worker] = queue;
        }
    }

    /// At the end of a turn: what is to go goes, and what is done is said. Returns
    /// whether there was something to say.
    pub(super) fn leave(&mut self, now: Instant) -> usize {
        let Some(step) = self.handover.saying else { return 0 };
        if !self.is_clear() && self.handover.wait(now) {
            return 0;
        }
        while let Some(change) = self.handover.leaving.pop_front() {
            self.change(change);
        }
        if self.is_lingering() && self.handover.wait(now) {
            return 0;
        }
        self.handover.waits = None;
        self.handover.saying = None;
        self.say(Event::Reached(step));
        1
    }

    /// Whether nothing is under way in the graph, nor from others that had other tables.
    fn is_clear(&self) -> bool {
        let ours = self.handover.number;
        let heard = self.peers.iter().flatten().all(|peer| peer.heard >= ours);
        heard && self.changes.is_empty() && self.out.held() == 0
    }

    /// Whether an engine has packets of SAs that are to go.
    fn is_lingering(&self) -> bool {
        let s = &self.stages;
        let inn = s.esp_in.is_lingering() || s.ah_in.is_lingering();
        inn || s.esp_out.is_lingering() || s.ah_out.is_lingering()
    }
}
