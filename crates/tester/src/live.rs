//! Trials over real ports, or any that are ports: a loop, a clock that is passed
//! in, no thread.
//!
//! ```text
//!        ┌───────────────── side: one thread ─────────────────┐
//!        │  clock ─▶ leg.emit ─▶ port.transmit                │
//!        │           leg.handle ◀─ clock ◀─ port.receive      │  for each port
//!        └────────────────────────────────────────────────────┘
//! ```
//!
//! One side with all ports, or one for each port in a thread of its own: what the
//! sides tell each other is in [`Tally`]. The arrival time of a frame is read
//! once for each batch, when the port has handed it over.

use crate::leg::Leg;
use crate::trial::{LINGER, PortResult};
use ferrule_base::{Duration, Instant};
use ferrule_pipeline::{Batch, PoolCache, Port};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Turns between two looks at what the other sides did.
const TURNS: u32 = 64;
/// How long a trial that is stopped waits for frames that are under way.
const SETTLE: Duration = Duration::from_millis(200);
/// Batches that are thrown away at most before a trial.
const FLUSH_MAX: usize = 4096;

/// A port and the frames that it has not taken yet.
struct Lane {
    port: Box<dyn Port>,
    outgoing: Batch,
}

/// Ports that are driven by one thread.
pub struct Side {
    lanes: Vec<Lane>,
    cache: PoolCache,
    incoming: Batch,
}

/// Counters that the sides of a trial share.
#[derive(Default)]
pub struct Tally {
    offered: AtomicU64,
    accounted: AtomicU64,
    /// Sides that still send.
    sending: AtomicUsize,
    stop: AtomicBool,
}

impl Tally {
    /// For so many sides.
    pub fn new(sides: usize) -> Self {
        Self { sending: AtomicUsize::new(sides), ..Self::default() }
    }

    /// Frames sent, and frames of which it is known what became of them.
    pub fn progress(&self) -> (u64, u64) {
        (self.offered.load(Ordering::Relaxed), self.accounted.load(Ordering::Relaxed))
    }

    /// Ends the trial.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True if the trial was ended from outside.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_settled(&self) -> bool {
        // The number sent is read last: it may only be too large.
        let done = self.sending.load(Ordering::Acquire) == 0;
        let accounted = self.accounted.load(Ordering::Acquire);
        done && accounted >= self.offered.load(Ordering::Acquire)
    }
}

/// A side's part of the tally as it was last told.
#[derive(Default)]
struct Told {
    offered: u64,
    accounted: u64,
    sent: bool,
}

impl Told {
    fn tell(&mut self, legs: &[Leg], tally: &Tally) {
        let offered = legs.iter().map(Leg::offered).sum::<u64>();
        let accounted = legs.iter().map(Leg::accounted).sum::<u64>();
        // Frames that were taken back are not offered any more.
        tally.offered.fetch_add(offered.wrapping_sub(self.offered), Ordering::Release);
        tally.accounted.fetch_add(accounted.wrapping_sub(self.accounted), Ordering::Release);
        (self.offered, self.accounted) = (offered, accounted);
        if !self.sent && legs.iter().all(Leg::has_sent) {
            self.sent = true;
            tally.sending.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Side {
    /// Side of these ports, whose frames come from `cache`.
    pub fn new(ports: Vec<Box<dyn Port>>, cache: PoolCache) -> Self {
        let lane = |port| Lane { port, outgoing: Batch::new() };
        Self { lanes: ports.into_iter().map(lane).collect(), cache, incoming: Batch::new() }
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.lanes.len()
    }

    /// True if frames can pass on all ports.
    pub fn is_up(&self) -> bool {
        self.lanes.iter().all(|lane| lane.port.is_up())
    }

    /// Throws away what has arrived so far.
    pub fn flush(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            for _ in 0..FLUSH_MAX {
                lane.port.receive(now, &mut self.cache, &mut self.incoming);
                if self.incoming.is_empty() {
                    break;
                }
                self.incoming.drain(..).for_each(|packet| self.cache.recycle(packet));
            }
        }
    }

    /// Sends one frame, such as a question for an address.
    pub fn send(&mut self, now: Instant, port: usize, frame: &[u8]) {
        let Some(lane) = self.lanes.get_mut(port) else { return };
        let mut batch = Batch::new();
        batch.extend(self.cache.packet_from(frame));
        lane.port.transmit(now, &mut self.cache, &mut batch);
    }

    /// Looks at what arrives at a port.
    pub fn look(&mut self, now: Instant, port: usize, mut each: impl FnMut(&[u8])) {
        let Some(lane) = self.lanes.get_mut(port) else { return };
        lane.port.receive(now, &mut self.cache, &mut self.incoming);
        for packet in self.incoming.drain(..) {
            each(packet.data());
            self.cache.recycle(packet);
        }
    }

    /// Every port once: what is due leaves, what arrived is taken. Whether there
    /// was anything.
    #[inline]
    fn turn(&mut self, clock: &mut impl FnMut() -> Instant, legs: &mut [Leg]) -> bool {
        let mut busy = false;
        for (lane, leg) in self.lanes.iter_mut().zip(legs) {
            let now = clock();
            leg.emit(now, &mut self.cache, &mut lane.outgoing);
            if !lane.outgoing.is_empty() {
                lane.port.transmit(now, &mut self.cache, &mut lane.outgoing);
                busy = true;
            }
            lane.port.receive(now, &mut self.cache, &mut self.incoming);
            if self.incoming.is_empty() {
                continue;
            }
            busy = true;
            let now = clock();
            for packet in self.incoming.drain(..) {
                leg.handle(now, packet.data());
                self.cache.recycle(packet);
            }
        }
        busy
    }

    /// Drives the legs of its ports until the trial is over: all frames are
    /// accounted for, or nothing is waited for any longer. `idle` is called when
    /// there was nothing to do.
    pub fn drive(
        &mut self,
        legs: &mut [Leg],
        tally: &Tally,
        mut clock: impl FnMut() -> Instant,
        mut idle: impl FnMut(),
    ) {
        let mut over = legs.iter().map(Leg::over).max().unwrap_or(Instant::ZERO);
        let (mut told, mut turns, mut settled) = (Told::default(), 0u32, None);
        let mut stopping = false;
        loop {
            let busy = self.turn(&mut clock, legs);
            turns = turns.wrapping_add(1);
            if busy && !turns.is_multiple_of(TURNS) {
                continue;
            }
            told.tell(legs, tally);
            let now = clock();
            if tally.is_stopped() && !stopping {
                // Frames under way still count.
                stopping = true;
                legs.iter_mut().for_each(Leg::end);
                over = over.min(now + SETTLE);
            }
            if now >= over {
                break;
            }
            settled = settled.or_else(|| tally.is_settled().then_some(now));
            if settled.is_some_and(|at| now.since(at) >= LINGER) {
                break;
            }
            if !busy {
                idle();
            }
        }
        for (lane, leg) in self.lanes.iter_mut().zip(legs) {
            for packet in lane.outgoing.drain(..) {
                leg.take_back(&packet);
                self.cache.recycle(packet);
            }
        }
    }

    /// Frames that each port failed to send or to receive so far.
    pub fn counts(&self) -> Vec<PortResult> {
        let count = |lane: &Lane| {
            let stats = lane.port.stats();
            PortResult { tx_failed: stats.tx_failed, rx_missed: stats.rx_missed }
        };
        self.lanes.iter().map(count).collect()
    }
}

/// Time between the start of a trial and its first frame.
pub const LEAD: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layers, Plan, Rate, Stream, Timing, Trial, TrialSpec};
    use ferrule_base::MacAddr;
    use ferrule_pipeline::{Pool, pair};

    fn spec(frames: u64) -> TrialSpec {
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let stream = Stream::new("a", Layers::new(a, b), 64, Rate::frames(frames));
        let plan = Plan { streams: vec![stream.clone(), stream.reversed()], line: None };
        let timing = Timing::new(Duration::from_millis(20));
        TrialSpec { plan, timing }
    }

    #[test]
    fn one_side_drives_both_ends_of_a_wire() {
        let pool = Pool::heap(2048, 2048);
        let (a, b) = pair(1024, &pool, &pool);
        let mut side = Side::new(vec![Box::new(a), Box::new(b)], pool.cache());
        let mut now = Instant::ZERO;
        // A turn takes two or three looks at the clock: 600 ns or so.
        let mut clock = || {
            now += Duration::from_nanos(200);
            now
        };
        let mut trial = Trial::new(&spec(100_000), 2, 1, Vec::new()).unwrap();
        trial.start(clock() + LEAD);
        let (mut legs, tally) = (trial.take_legs(), Tally::new(1));
        side.drive(&mut legs, &tally, &mut clock, || {});
        let result = trial.finish_legs(legs);
        assert_eq!((result.offered(), result.received(), result.unsent()), (4000, 4000, 0));
        assert_eq!(tally.progress(), (4000, 4000));
        assert!(result.latency().max().unwrap() < 3000, "{:?}", result.latency().max());
        assert!(clock() < Instant::from_millis(40), "it ends when all is accounted for");
    }

    #[test]
    fn two_sides_in_two_threads_agree_on_the_end() {
        let pool = Pool::heap(4096, 2048);
        let (a, b) = pair(1024, &pool, &pool);
        let mut sides: Vec<Side> = vec![
            Side::new(vec![Box::new(a)], pool.cache()),
            Side::new(vec![Box::new(b)], pool.cache()),
        ];
        let start = std::time::Instant::now();
        let clock = move || Instant::from_nanos(start.elapsed().as_nanos() as u64);
        let mut spec = spec(10_000);
        spec.timing.grace = Duration::from_millis(500);
        let mut trial = Trial::new(&spec, 2, 1, Vec::new()).unwrap();
        trial.start(clock() + LEAD);
        let (mut legs, tally) = (trial.take_legs(), Tally::new(2));
        std::thread::scope(|scope| {
            for (side, legs) in sides.iter_mut().zip(legs.chunks_mut(1)) {
                let tally = &tally;
                scope.spawn(move || side.drive(legs, tally, clock, std::thread::yield_now));
            }
        });
        let result = trial.finish_legs(legs);
        assert_eq!((result.offered(), result.received()), (400, 400));
    }

    #[test]
    fn a_trial_that_is_stopped_accounts_for_what_it_sent() {
        let pool = Pool::heap(2048, 2048);
        let (a, b) = pair(1024, &pool, &pool);
        let mut side = Side::new(vec![Box::new(a), Box::new(b)], pool.cache());
        let tally = Tally::new(1);
        let mut now = Instant::ZERO;
        let clock = || {
            now += Duration::from_nanos(200);
            if now >= Instant::from_millis(10) {
                tally.stop();
            }
            now
        };
        let mut trial = Trial::new(&spec(100_000), 2, 1, Vec::new()).unwrap();
        trial.start(Instant::ZERO + LEAD);
        let mut legs = trial.take_legs();
        side.drive(&mut legs, &tally, clock, || {});
        // Ten milliseconds, less what led in and warmed up, of 100 frames each and way.
        let result = trial.finish_legs(legs);
        assert!((1200..1500).contains(&result.offered()), "{}", result.offered());
        assert_eq!((result.received(), result.unsent()), (result.offered(), 0));
    }

    #[test]
    fn frames_that_a_port_never_takes_are_taken_back() {
        let pool = Pool::heap(256, 2048);
        // No frame is read at the other end: 16 frames fit.
        let (a, _b) = pair(16, &pool, &pool);
        let mut spec = spec(10_000);
        spec.plan.streams.truncate(1);
        spec.plan.streams[0].rx = 0;
        (spec.timing.warm_up, spec.timing.drain) = (Duration::ZERO, Duration::from_millis(1));
        let mut side = Side::new(vec![Box::new(a)], pool.cache());
        let mut now = Instant::ZERO;
        let mut clock = || {
            now += Duration::from_micros(1);
            now
        };
        let mut trial = Trial::new(&spec, 1, 1, Vec::new()).unwrap();
        trial.start(clock());
        let mut legs = trial.take_legs();
        side.drive(&mut legs, &Tally::new(1), &mut clock, || {});
        let result = trial.finish_legs(legs);
        assert_eq!((result.offered(), result.unsent(), result.lost()), (16, 184, 16));
    }
}
