//! Following frames: where the time went from one station to another.
//!
//! ```text
//!   station ─▶ [ queue │ line │ cable ] ─▶ [ queue │ look-up │ crypto │ latency ] ─▶ … ─▶ station
//!                     a link                             a device
//! ```
//!
//! Each part is noted as it happens: nothing is calculated from a profile beside the run. The
//! parts of a journey are its delay, to the picosecond.
//!
//! Octets change on the way, so a frame is known by the chunk of memory in which it lies. A
//! node that is done with it in the turn that took it in sends it on in the same chunk. What
//! a node holds, copies, hands to another worker, or gives to an engine that is done later is
//! followed no further, and neither is what is lost.

use crate::link::{Carried, Direction, picos};
use crate::network::{DeviceId, LinkId, Network};
use crate::observe::Place;
use crate::world::of_lane;
use ferrule_base::Instant;
use ferrule_pipeline::Packet;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Journeys that are kept until they are taken, at most; later ones are left out.
pub const JOURNEYS_MAX: usize = 1 << 16;

/// Parts of a delay, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From the first bit on a line to the last.
    pub line_ps: u64,
    /// Propagation, jitter and order, and the rest of the nanosecond of arrival.
    pub cable_ps: u64,
    /// Waiting: for a line, a bus or a card, for a server to look or to be free, and for the
    /// others of a batch.
    pub queue_ps: u64,
    /// Work on the frame that is no crypto.
    pub lookup_ps: u64,
    /// Sealing and opening, and finding the SA among many.
    pub crypto_ps: u64,
    /// Delay that occupies no server: the pipeline, a bus, a card.
    pub latency_ps: u64,
}

impl Parts {
    /// Sum of all parts.
    pub const fn total_ps(&self) -> u64 {
        self.line_ps
            + self.cable_ps
            + self.queue_ps
            + self.lookup_ps
            + self.crypto_ps
            + self.latency_ps
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        self.line_ps += other.line_ps;
        self.cable_ps += other.cable_ps;
        self.queue_ps += other.queue_ps;
        self.lookup_ps += other.lookup_ps;
        self.crypto_ps += other.crypto_ps;
        self.latency_ps += other.latency_ps;
    }
}

/// A place on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spot {
    /// One direction of a link, with the queue in front of it.
    Link(LinkId, Direction),
    /// A device.
    Device(DeviceId),
}

/// A place that a frame went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The place.
    pub at: Spot,
    /// Time spent there.
    pub parts: Parts,
}

/// Way of a frame from the station that sent it to the station that received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Its number among those that were followed, in the order of sending, from 0.
    pub number: u64,
    /// The time of sending.
    pub begun: Instant,
    /// The time of receipt.
    pub ended: Instant,
    /// Places in order: links and devices in turn.
    pub passages: Vec<Passage>,
}

impl Journey {
    /// The parts of all places together: its delay.
    pub fn parts(&self) -> Parts {
        let mut all = Parts::default();
        self.passages.iter().for_each(|passage| all += passage.parts);
        all
    }
}

/// A turn of a device as a frame that it took sees it.
#[derive(Clone, Copy)]
pub(crate) struct Stay {
    pub device: DeviceId,
    /// The number of the turn.
    pub turn: u64,
    /// The end of the work on all frames.
    pub done_ps: u64,
    /// Work on this one frame.
    pub lookup_ps: u64,
    pub crypto_ps: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a line, at its sender.
    Ready,
    /// On a lane.
    Riding(u32),
    /// In a device's queue.
    Waiting(DeviceId),
    /// In a node, since this turn.
    Taken(DeviceId, u64),
}

/// A frame under way.
pub(crate) struct Way {
    journey: Journey,
    state: State,
    /// The end of the last part that was noted.
    since_ps: u64,
}

impl Way {
    fn here(&mut self) -> Option<&mut Parts> {
        self.journey.passages.last_mut().map(|passage| &mut passage.parts)
    }

    fn enter(&mut self, at: Spot) -> Option<&mut Parts> {
        self.journey.passages.push(Passage { at, parts: Parts::default() });
        self.here()
    }
}

/// Picks frames by their octets.
type Wanted = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// Frames that are followed.
pub(crate) struct Follower {
    wanted: Wanted,
    /// By the number of their chunk.
    under_way: BTreeMap<usize, Way>,
    ended: Vec<Journey>,
    begun: u64,
}

/// The number of the chunk in which a packet lies.
#[inline]
pub(crate) fn chunk_of(packet: &Packet) -> usize {
    packet.region_offset() / packet.chunk_size().max(1)
}

impl Follower {
    /// A station sends a frame.
    pub fn begin(&mut self, packet: &Packet, now: Instant) {
        let chunk = chunk_of(packet);
        self.under_way.remove(&chunk);
        if (self.wanted)(packet.data()) {
            let (number, passages) = (self.begun, Vec::new());
            let journey = Journey { number, begun: now, ended: now, passages };
            let way = Way { journey, state: State::Ready, since_ps: picos(now) };
            self.under_way.insert(chunk, way);
            self.begun += 1;
        }
    }

    /// The frame in a chunk ends.
    pub fn forget(&mut self, packet: &Packet) {
        self.under_way.remove(&chunk_of(packet));
    }

    /// Takes a frame that is put on a lane, if it is one that is followed.
    pub fn depart(&mut self, packet: &Packet) -> Option<Way> {
        self.under_way.remove(&chunk_of(packet)).filter(|way| way.state == State::Ready)
    }

    /// Notes a frame on its lane, maybe in another chunk.
    pub fn ride(&mut self, mut way: Way, lane: u32, carried: Carried) {
        let (link, direction) = of_lane(lane);
        let since_ps = way.since_ps;
        if let Some(parts) = way.enter(Spot::Link(link, direction)) {
            parts.queue_ps = carried.start_ps.saturating_sub(since_ps);
            parts.line_ps = carried.whole_ps.saturating_sub(carried.start_ps);
        }
        (way.state, way.since_ps) = (State::Riding(lane), carried.whole_ps);
        self.under_way.insert(carried.chunk, way);
    }

    /// A frame comes out of a lane.
    pub fn arrive(&mut self, packet: &Packet, lane: u32, to: Place, now: Instant) {
        let chunk = chunk_of(packet);
        let way = self.under_way.remove(&chunk).filter(|way| way.state == State::Riding(lane));
        let Some(mut way) = way else { return };
        let since_ps = way.since_ps;
        if let Some(parts) = way.here() {
            parts.cable_ps = picos(now).saturating_sub(since_ps);
        }
        way.since_ps = picos(now);
        match to {
            Place::Device(id, _) => {
                way.enter(Spot::Device(id));
                way.state = State::Waiting(id);
                self.under_way.insert(chunk, way);
            }
            Place::Station(..) if self.ended.len() < JOURNEYS_MAX => {
                way.journey.ended = now;
                self.ended.push(way.journey);
            }
            Place::Station(..) => {}
        }
    }

    /// A frame is in a device's memory at `ready_ps`, and waited so long for bus and card.
    pub fn wait(&mut self, packet: &Packet, waited_ps: u64, ready_ps: u64) {
        let Some(way) = self.under_way.get_mut(&chunk_of(packet)) else { return };
        let took_ps = ready_ps.saturating_sub(way.since_ps);
        if let Some(parts) = way.here() {
            parts.queue_ps += waited_ps;
            parts.latency_ps += took_ps.saturating_sub(waited_ps);
        }
        way.since_ps = ready_ps;
    }

    /// A device's server takes a frame.
    pub fn take(&mut self, packet: &Packet, device: DeviceId, turn: u64) {
        if let Some(way) = self.under_way.get_mut(&chunk_of(packet)) {
            way.state = State::Taken(device, turn);
        }
    }

    /// A node sends a frame: it leaves at `at_ps`, and waited so long for bus and card.
    pub fn leave(&mut self, packet: &Packet, stay: &Stay, waited_ps: u64, at_ps: u64) {
        let chunk = chunk_of(packet);
        let taken = State::Taken(stay.device, stay.turn);
        let Some(way) = self.under_way.get_mut(&chunk).filter(|way| way.state == taken) else {
            self.under_way.remove(&chunk);
            return;
        };
        let since_ps = way.since_ps;
        if let Some(parts) = way.here() {
            let inside_ps = stay.done_ps.saturating_sub(since_ps);
            let crypto_ps = stay.crypto_ps.min(inside_ps);
            let lookup_ps = stay.lookup_ps.min(inside_ps - crypto_ps);
            parts.crypto_ps += crypto_ps;
            parts.lookup_ps += lookup_ps;
            parts.queue_ps += inside_ps - crypto_ps - lookup_ps + waited_ps;
            parts.latency_ps += at_ps.saturating_sub(stay.done_ps).saturating_sub(waited_ps);
            // Behind a bus one may be taken within the nanosecond in which it comes.
            let early_ps = since_ps.saturating_sub(stay.done_ps);
            parts.latency_ps = parts.latency_ps.saturating_sub(early_ps);
        }
        (way.state, way.since_ps) = (State::Ready, at_ps);
    }
}

impl Network {
    /// Follows the frames that stations send from now on and that are `wanted`.
    pub fn follow(&mut self, wanted: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.world.follower = Some(Box::new(Follower {
            wanted: Box::new(wanted),
            under_way: BTreeMap::new(),
            ended: Vec::new(),
            begun: 0,
        }));
    }

    /// Frames that were followed so far, with those that did not arrive.
    pub fn followed(&self) -> u64 {
        self.world.follower.as_ref().map_or(0, |follower| follower.begun)
    }

    /// Journeys that ended since this was asked last, in the order of arrival.
    pub fn take_journeys(&mut self) -> Vec<Journey> {
        let follower = self.world.follower.as_mut();
        follower.map(|follower| std::mem::take(&mut follower.ended)).unwrap_or_default()
    }
}
