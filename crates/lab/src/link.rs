//! A link: two lanes, one for each direction.
//!
//! ```text
//!   put ─▶ [ queue, drop-tail ] ─▶ serialise ─▶ loss, corruption ─▶ propagate ─▶ arrive
//!                                                duplication, order
//! ```
//!
//! A frame occupies the line for preamble, octets (at least the smallest
//! frame's), FCS and gap; it has arrived when the last octet of its FCS has.
//! When it will leave and arrive is computed as it is put, so a frame and hop
//! cost one event. Times inside are picoseconds: at 10 Gbit/s an octet takes
//! 800 of them, and nothing drifts.

use crate::agenda::{Agenda, Event};
use crate::follow::chunk_of;
use crate::impair::{Dice, Fate, HoldBack, Impairments};
use crate::observe::{Loss, Place};
use ferrule_base::{Duration, Flow, Instant};
use ferrule_pipeline::{HEAD_ROOM, Meta, Packet, PoolCache};
use std::collections::VecDeque;

/// A frame that nothing passes is let go after this long.
const HOLD_MAX: Duration = Duration::from_millis(100);

/// Frames that one lane holds back at most.
const HELD_MAX: usize = 256;

/// Head and tail room that a frame on a link has at least: with less it is
/// copied to the middle of another chunk.
const ROOM_MIN: usize = 128;

/// Picoseconds of a nanosecond.
pub(crate) const PICOS: u64 = 1000;

/// The first nanosecond not before `picos`.
#[inline]
pub(crate) const fn nanos_up(picos: u64) -> Instant {
    Instant::from_nanos(picos.div_ceil(PICOS))
}

/// A time in picoseconds; later than half a year stays there.
#[inline]
pub(crate) const fn picos(time: Instant) -> u64 {
    time.as_nanos().saturating_mul(PICOS)
}

/// A length of time in picoseconds.
pub(crate) fn picos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(PICOS)
}

/// Direction of a frame on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Reverse,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// The other way.
    pub const fn back(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
}

/// Overhead of a frame on the line (IEEE 802.3 clauses 3 and 4), in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Preamble and start of frame, in front.
    pub preamble: usize,
    /// Frame check sequence, behind.
    pub fcs: usize,
    /// The gap to the next frame.
    pub gap: usize,
    /// Octets of the smallest frame, without FCS; a shorter one takes as long.
    pub minimum: usize,
}

impl Framing {
    /// A line that carries the octets and nothing else.
    pub const NONE: Self = Self { preamble: 0, fcs: 0, gap: 0, minimum: 0 };
    /// Ethernet.
    pub const ETHERNET: Self = Self { preamble: 8, fcs: 4, gap: 12, minimum: 60 };

    /// Octets until a frame of `len` has arrived.
    pub const fn frame(&self, len: usize) -> usize {
        let len = if len < self.minimum { self.minimum } else { len };
        self.preamble + len + self.fcs
    }

    /// Octets until the next frame may begin.
    pub const fn slot(&self, len: usize) -> usize {
        self.frame(len) + self.gap
    }
}

/// A link to be made.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its name, from which its dice are derived; empty: made from its ends.
    pub name: String,
    /// Bits per second; nothing: infinitely fast.
    pub rate: Option<u64>,
    /// Propagation delay.
    pub delay: Duration,
    /// Frames that wait for each direction at most; the next one is lost.
    pub queue: usize,
    /// Overhead of each frame on the line.
    pub framing: Framing,
    /// Both directions share one medium, as on a coaxial cable or behind a hub: one frame
    /// at a time. Who comes first goes first; nobody collides.
    pub shared: bool,
    /// Impairments of frames.
    pub impairments: Impairments,
    /// Impairments of frames from the second end to the first, if they differ.
    pub back: Option<Impairments>,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            rate: None,
            delay: Duration::ZERO,
            queue: 1000,
            framing: Framing::ETHERNET,
            shared: false,
            impairments: Impairments::default(),
            back: None,
        }
    }
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Frames put on it.
    pub offered: Flow,
    /// Frames that arrived.
    pub delivered: Flow,
    /// Frames lost by impairment.
    pub lost: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Frames with a bit turned over.
    pub corrupted: u64,
    /// Frames held back.
    pub held_back: u64,
    /// Frames for which the queue had no room.
    pub queue_full: u64,
    /// Frames lost because the link was or went down.
    pub down: u64,
    /// Frames that waited at once, at most.
    pub queue_max: u64,
    /// Picoseconds for which frames had the line: preamble, octets, FCS and gap.
    pub busy_ps: u64,
    /// End of the last of these times, in picoseconds from the start.
    pub ended_ps: u64,
}

impl LaneStats {
    /// Frames that are under way, from the other counts.
    pub const fn in_flight(&self) -> u64 {
        let ended = self.delivered.packets + self.lost + self.queue_full + self.down;
        (self.offered.packets + self.duplicated).saturating_sub(ended)
    }

    /// Share of the time until now for which frames had the line.
    pub fn load(&self, now: Instant) -> f64 {
        let taken = self.busy_ps.saturating_sub(self.left(now));
        if now == Instant::ZERO { 0.0 } else { taken as f64 / picos(now) as f64 }
    }

    /// Picoseconds for which frames have the line yet.
    const fn left(&self, now: Instant) -> u64 {
        self.ended_ps.saturating_sub(picos(now))
    }
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// From the first end to the second.
    pub forward: LaneStats,
    /// From the second end to the first.
    pub reverse: LaneStats,
}

impl LinkStats {
    /// One direction.
    pub const fn of(&self, direction: Direction) -> &LaneStats {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }
}

/// A frame that a lane took.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    /// Its first bit is on the line.
    pub start_ps: u64,
    /// Its last bit is.
    pub whole_ps: u64,
    /// The chunk in which it lies now.
    pub chunk: usize,
}

/// A frame that waits for others to pass.
struct Held {
    left: u32,
    until: Instant,
    corrupted: bool,
    packet: Packet,
}

/// One direction of a link.
pub(crate) struct Lane {
    pub to: Place,
    pub up: bool,
    /// Counts how often the link went down: frames remember it.
    pub cut: u16,
    pub rate: Option<u64>,
    pub delay_ps: u64,
    pub impairments: Impairments,
    pub stats: LaneStats,
    pub tap: Option<u32>,
    /// The lane of the other direction has the same medium.
    pub shared: bool,
    queue: usize,
    framing: Framing,
    dice: Dice,
    number: u64,
    /// When the line is free.
    free_ps: u64,
    /// When each frame in the queue begins to leave.
    starts: VecDeque<u64>,
    last: Instant,
    held: Vec<Held>,
}

impl Lane {
    pub fn new(
        spec: &LinkSpec,
        impairments: &Impairments,
        to: Place,
        seed: u64,
        name: &str,
    ) -> Self {
        Self {
            to,
            up: true,
            cut: 0,
            rate: spec.rate,
            delay_ps: picos_of(spec.delay),
            impairments: impairments.clone(),
            stats: LaneStats::default(),
            tap: None,
            shared: spec.shared,
            queue: spec.queue,
            framing: spec.framing,
            dice: Dice::new(seed, name),
            number: 0,
            free_ps: 0,
            starts: VecDeque::new(),
            last: Instant::ZERO,
            held: Vec::new(),
        }
    }

    /// When the line is free.
    pub const fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// The medium is in use until then.
    pub fn busy_until(&mut self, free_ps: u64) {
        self.free_ps = self.free_ps.max(free_ps);
    }

    /// Frames held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Carries a frame that its sender has ready at `at_ps`. What does not get
    /// through is returned, with the reason.
    pub fn carry(
        &mut self,
        id: u32,
        at_ps: u64,
        packet: Packet,
        cache: &mut PoolCache,
        agenda: &mut Agenda,
    ) -> Result<Carried, (Packet, Loss)> {
        if !self.up {
            self.stats.down += 1;
            return Err((packet, Loss::Down));
        }
        let Some((start_ps, whole_ps)) = self.serialise(at_ps, packet.len()) else {
            self.stats.queue_full += 1;
            return Err((packet, Loss::QueueFull));
        };
        self.number += 1;
        let fate = if self.impairments.is_none() {
            Fate::default()
        } else {
            self.dice.roll(&self.impairments, self.number)
        };
        if fate.lost {
            self.stats.lost += 1;
            return Err((packet, Loss::Lost));
        }
        let arrival_ps = whole_ps.saturating_add(self.delay_ps);
        let jitter_ps = fate.jitter_nanos.saturating_mul(PICOS);
        let arrival = nanos_up(arrival_ps.saturating_add(jitter_ps)).max(self.last);
        let chunk = self.deliver(id, arrival, packet, fate, cache, agenda);
        Ok(Carried { start_ps, whole_ps, chunk })
    }

    /// When the first octet of a frame is on the line, and the last; nothing when the
    /// queue is full.
    #[inline]
    fn serialise(&mut self, at_ps: u64, len: usize) -> Option<(u64, u64)> {
        let Some(rate) = self.rate else { return Some((at_ps, at_ps)) };
        while self.starts.front().is_some_and(|&start| start <= at_ps) {
            self.starts.pop_front();
        }
        let start = self.free_ps.max(at_ps);
        if start > at_ps {
            if self.starts.len() >= self.queue {
                return None;
            }
            self.starts.push_back(start);
            self.stats.queue_max = self.stats.queue_max.max(self.starts.len() as u64);
        }
        let octets = |n: usize| octet_picos(n, rate);
        let slot = octets(self.framing.slot(len));
        self.free_ps = start.saturating_add(slot);
        self.stats.busy_ps += slot;
        self.stats.ended_ps = self.stats.ended_ps.max(self.free_ps);
        Some((start, start.saturating_add(octets(self.framing.frame(len)))))
    }

    /// Enters its arrival; in which chunk it lies.
    fn deliver(
        &mut self,
        id: u32,
        arrival: Instant,
        mut packet: Packet,
        fate: Fate,
        cache: &mut PoolCache,
        agenda: &mut Agenda,
    ) -> usize {
        settle_in_chunk(&mut packet, cache);
        let chunk = chunk_of(&packet);
        if let Some(dice) = fate.corrupt.filter(|_| !packet.is_empty()) {
            let bit = dice % (8 * packet.len() as u64);
            packet.data_mut()[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.stats.corrupted += 1;
        }
        let (cut, corrupted) = (self.cut, fate.corrupt.is_some());
        let copy = if fate.twice { cache.copy_of(&packet) } else { None };
        if fate.held_back && self.held.len() < HELD_MAX {
            self.stats.held_back += 1;
            self.hold_back(id, arrival, corrupted, packet, agenda);
        } else {
            self.last = arrival;
            agenda.enter(arrival, Event::Arrive { lane: id, cut, corrupted, packet });
            if !self.held.is_empty() {
                self.pass(id, arrival, agenda);
            }
        }
        if let Some(packet) = copy {
            self.stats.duplicated += 1;
            agenda.enter(arrival, Event::Arrive { lane: id, cut, corrupted, packet });
        }
        chunk
    }

    fn hold_back(
        &mut self,
        lane: u32,
        arrival: Instant,
        corrupted: bool,
        packet: Packet,
        agenda: &mut Agenda,
    ) {
        match self.impairments.reorder_by {
            HoldBack::Time(by) => {
                let event = Event::Arrive { lane, cut: self.cut, corrupted, packet };
                agenda.enter(arrival + by, event);
            }
            HoldBack::Frames(left) => {
                let until = arrival + HOLD_MAX;
                self.held.push(Held { left: left.max(1), until, corrupted, packet });
                agenda.enter(until, Event::Release { lane });
            }
        }
    }

    /// A frame passed those that are held back; who was passed often enough
    /// arrives behind it.
    fn pass(&mut self, lane: u32, arrival: Instant, agenda: &mut Agenda) {
        let cut = self.cut;
        for held in &mut self.held {
            held.left -= 1;
        }
        for held in self.held.extract_if(.., |h| h.left == 0) {
            let Held { corrupted, packet, .. } = held;
            agenda.enter(arrival, Event::Arrive { lane, cut, corrupted, packet });
        }
    }

    /// Lets go of frames that were held back for [`HOLD_MAX`].
    pub fn release(&mut self, lane: u32, now: Instant, agenda: &mut Agenda) {
        let cut = self.cut;
        for held in self.held.extract_if(.., |h| h.until <= now) {
            let Held { corrupted, packet, .. } = held;
            agenda.enter(now, Event::Arrive { lane, cut, corrupted, packet });
        }
    }

    /// Goes down: what is under way is lost when it would arrive. What was held
    /// back is lost now, and returned.
    pub fn go_down(&mut self, now: Instant) -> Vec<Packet> {
        self.up = false;
        // The line is not taken any more for what would have left from now on.
        let left = self.stats.left(now);
        self.stats.busy_ps = self.stats.busy_ps.saturating_sub(left);
        self.stats.ended_ps -= left;
        self.cut = self.cut.wrapping_add(1);
        self.stats.down += self.held.len() as u64;
        self.starts.clear();
        self.free_ps = 0;
        self.held.drain(..).map(|h| h.packet).collect()
    }
}

/// Picoseconds that this many octets take at a rate.
#[inline]
pub(crate) fn octet_picos(octets: usize, rate: u64) -> u64 {
    const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
    let bits = octets as u64 * 8;
    // Up to 2 MB fits into 64 bits.
    match bits.checked_mul(1_000_000_000_000) {
        Some(product) => product / rate.max(1),
        None => (u128::from(bits) * PICOS_PER_SECOND / u128::from(rate.max(1))) as u64,
    }
}

/// On a wire a frame is octets and nothing else: what the sender knew of it
/// stays there, and a frame that wandered to the front or the end of its chunk
/// is moved to a fresh one.
#[inline]
fn settle_in_chunk(packet: &mut Packet, cache: &mut PoolCache) {
    let (head, tail) = (packet.head_room(), packet.tail_room());
    if (head < ROOM_MIN || tail < ROOM_MIN && head > HEAD_ROOM)
        && let Some(fresh) = cache.packet_from(packet.data())
    {
        cache.recycle(std::mem::replace(packet, fresh));
    }
    *packet.meta_mut() = Meta::default();
}
