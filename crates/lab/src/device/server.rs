//! Parts around a worker: its input queue, its server, and its output.

use crate::link::{PICOS, nanos_up, picos};
use crate::profile::{Bus, Cap, CardCost, Profile};
use ferrule_base::Instant;
use ferrule_pipeline::Packet;
use ferrule_wire::flow::flow_hash;
use std::collections::VecDeque;

/// A frame that waits for the server.
pub(crate) struct Waiting {
    /// When it is in memory.
    pub ready_ps: u64,
    pub port: u16,
    pub packet: Packet,
}

/// A frame that leaves the device at its time.
pub(crate) struct Leaving {
    pub at_ps: u64,
    pub lane: u32,
    pub packet: Packet,
}

/// The server of one worker.
#[derive(Default)]
pub(crate) struct Server {
    pub queue: VecDeque<Waiting>,
    pub leaving: VecDeque<Leaving>,
    pub free_ps: u64,
    /// Time before which an idle server does not notice frames.
    pub wakes_ps: u64,
    /// From when the worker has something to do without a frame: a command, a
    /// hand-off, a job that came back.
    pub called_ps: Option<u64>,
    /// When the event that serves it next is due.
    pub planned: Option<Instant>,
    pub departs: Option<Instant>,
}

impl Server {
    /// When it can do something next; nothing if there is nothing to do.
    #[inline]
    pub fn ready_ps(&self) -> Option<u64> {
        let frame = self.queue.front().map(|w| w.ready_ps.max(self.wakes_ps));
        let next = match (frame, self.called_ps) {
            (Some(frame), Some(call)) => frame.min(call),
            (at, None) | (None, at) => at?,
        };
        Some(next.max(self.free_ps))
    }

    /// Queues a frame by the time at which it is in memory: one that came through a
    /// card may be later than one that came behind it by another port.
    pub fn wait(&mut self, frame: Waiting) {
        let before = self.queue.iter().rposition(|w| w.ready_ps <= frame.ready_ps);
        self.queue.insert(before.map_or(0, |at| at + 1), frame);
    }

    /// Queues a frame that leaves by its time.
    pub fn leave(&mut self, frame: Leaving) {
        let before = self.leaving.iter().rposition(|l| l.at_ps <= frame.at_ps);
        self.leaving.insert(before.map_or(0, |at| at + 1), frame);
    }

    /// Gives it something to do at `at_ps`.
    pub fn call(&mut self, at_ps: u64) {
        self.called_ps = Some(self.called_ps.map_or(at_ps, |have| have.min(at_ps)));
    }

    /// True if a frame that arrives now is taken at once.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.queue.is_empty() && has_come(self.free_ps, now)
    }
}

/// The state of a [`Cap`].
pub(crate) struct Bucket {
    /// Frames that may still pass, by queue.
    frames: Vec<f64>,
    bits: f64,
    filled: Instant,
}

impl Bucket {
    pub fn new(cap: &Cap) -> Self {
        let frames = vec![cap.burst_frames; cap.queues.max(1)];
        Self { frames, bits: cap.burst_octets * 8.0, filled: Instant::ZERO }
    }

    /// True if the queue of a frame's flow lets it pass; then its tokens are taken.
    pub fn take(&mut self, cap: &Cap, now: Instant, frame: &[u8]) -> bool {
        let seconds = now.since(self.filled).as_nanos() as f64 / 1e9;
        self.filled = now;
        let bits = frame.len() as f64 * 8.0;
        let fill = |have: f64, rate: f64, burst: f64| {
            if rate > 0.0 { (have + rate * seconds).min(burst) } else { f64::INFINITY }
        };
        let queues = self.frames.len();
        for frames in &mut self.frames {
            *frames = fill(*frames, cap.frames_per_second / queues as f64, cap.burst_frames);
        }
        self.bits = fill(self.bits, cap.bits_per_second, cap.burst_octets * 8.0);
        let queue = if queues == 1 { 0 } else { flow_hash(frame) as usize % queues };
        // The rounding error of a sum of tenths must not cost a frame.
        const SLACK: f64 = 1e-6;
        let passes = self.frames[queue] >= 1.0 - SLACK && self.bits >= bits - SLACK;
        if passes {
            self.frames[queue] -= 1.0;
            self.bits -= bits;
        }
        passes
    }
}

/// Time at which a transfer that is ready at `at_ps` has crossed the bus, which does one after the
/// other.
pub(crate) fn ship(bus: &Bus, free_ps: &mut u64, at_ps: u64, octets: usize) -> u64 {
    let octets_ps = match bus.bits_per_second {
        rate if rate > 0.0 => octets as f64 * 8e12 / rate,
        _ => 0.0,
    };
    let take = (bus.latency_ns * PICOS as f64 + octets_ps).round() as u64;
    *free_ps = at_ps.max(*free_ps) + take;
    *free_ps
}

/// The server of one direction of a card.
#[derive(Default)]
pub(crate) struct CardServer {
    free_ps: u64,
}

impl CardServer {
    /// Time for which a frame occupies the card.
    fn work_ps(card: &CardCost, octets: usize) -> u64 {
        let octets_ps = match card.bits_per_second {
            rate if rate > 0.0 => octets as f64 * 8e12 / rate,
            _ => 0.0,
        };
        (card.packet_ns * PICOS as f64 + octets_ps).round() as u64
    }

    /// True if the work waiting at `at_ps` leaves room for a frame.
    pub fn has_room(&self, card: &CardCost, at_ps: u64, octets: usize) -> bool {
        if card.bits_per_second <= 0.0 {
            return true;
        }
        let waiting = self.free_ps.saturating_sub(at_ps) as f64 * card.bits_per_second / 8e12;
        // An idle card takes any frame.
        waiting < 1.0 || waiting + octets as f64 <= card.buffer_octets
    }

    /// Time for which a frame that comes at `at_ps` waits for those before it.
    pub fn wait_ps(&self, at_ps: u64) -> u64 {
        self.free_ps.saturating_sub(at_ps)
    }

    /// Time at which a frame that comes at `at_ps` has crossed the card. Adds its work to
    /// `busy_ps`.
    pub fn cross(&mut self, card: &CardCost, at_ps: u64, octets: usize, busy_ps: &mut u64) -> u64 {
        let work = Self::work_ps(card, octets);
        *busy_ps += work;
        self.free_ps = at_ps.max(self.free_ps) + work;
        self.free_ps + (card.latency_ns * PICOS as f64).round() as u64
    }
}

/// Costs of a profile that are looked up for each frame, in picoseconds.
pub(crate) struct Costs {
    pub pipeline_ps: u64,
    pub timer_ps: u64,
    pub poll_ps: u64,
    pub stagger_ps: u64,
    pub batch: usize,
    pub bus: Option<Bus>,
    pub card: Option<CardCost>,
    /// Work takes no time.
    pub free: bool,
}

impl Costs {
    pub fn of(profile: &Profile) -> Self {
        let ps = crate::link::picos_of;
        Self {
            pipeline_ps: ps(profile.pipeline),
            timer_ps: ps(profile.timer),
            poll_ps: ps(profile.poll),
            stagger_ps: ps(profile.stagger),
            batch: profile.batch.clamp(1, crate::profile::BATCH_MAX),
            free: profile.is_free(),
            bus: (!profile.bus.is_none()).then_some(profile.bus),
            card: (!profile.card.is_free()).then_some(profile.card),
        }
    }

    /// The first look at the ports that is not before `at_ps`.
    pub fn look_ps(&self, at_ps: u64) -> u64 {
        at_ps.div_ceil(self.poll_ps).saturating_mul(self.poll_ps)
    }
}

/// True once a time in picoseconds has come.
#[inline]
pub(crate) const fn has_come(at_ps: u64, now: Instant) -> bool {
    nanos_up(at_ps).as_nanos() <= now.as_nanos() || at_ps <= picos(now)
}
