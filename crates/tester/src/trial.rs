//! One trial (RFC 2544 section 23): streams for a time, and the frames that arrived.
//!
//! ```text
//!   start ──▶ warm-up ──▶ measuring ──▶ drain ──▶ over
//!             sent, not   sent and      late
//!             counted     counted       arrivals
//! ```
//!
//! A trial is a value without clock, thread or port. Its driver calls `emit` and `handle` with the
//! time of day of its choice, and `poll_timeout` says when to call again. Frames carry the time at
//! which they should have left;
//! a driver that is late sends late, and the result says so. What could not be
//! sent within [`Timing::grace`] after the end counts as not sent: never as
//! offered, never as lost.

use crate::delay::{Latency, Lateness};
use crate::leg::{Leg, Phases};
use crate::responder::Responder;
use crate::sink::{Expected, Interval, Intervals, Received, Sink, Strays};
use crate::stream::{Fault, Plan};
use ferrule_base::{Duration, Instant};
use ferrule_pipeline::{Batch, Packet, PoolCache};
use serde::{Deserialize, Serialize};

/// Lengths of the phases of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Sent and not counted.
    pub warm_up: Duration,
    /// Measured.
    pub duration: Duration,
    /// Waited for late frames (RFC 2544 section 23 d), at most: once every frame
    /// is accounted for, only [`LINGER`], for duplicates.
    pub drain: Duration,
    /// Lateness with which frames may be sent after the end, before they are given up.
    pub grace: Duration,
    /// Length of the parts into which results are divided; nothing: not divided.
    pub interval: Option<Duration>,
}

/// Waited for duplicates after the last frame.
pub const LINGER: Duration = Duration::from_millis(5);

impl Timing {
    /// A second of warm-up at most, two for late frames, 10 ms of grace.
    pub fn new(duration: Duration) -> Self {
        Self {
            warm_up: (duration / 10).min(Duration::from_secs(1)),
            duration,
            drain: Duration::from_secs(2),
            grace: Duration::from_millis(10).min(duration / 100),
            interval: None,
        }
    }

    /// From start to the last frame that is sent.
    pub fn sending(&self) -> Duration {
        self.warm_up + self.duration
    }

    /// From start to end, at most.
    pub fn total(&self) -> Duration {
        self.warm_up + self.duration + self.grace + self.drain
    }
}

/// Parameters of a trial.
#[derive(Clone, Debug)]
pub struct TrialSpec {
    /// Streams.
    pub plan: Plan,
    /// Phases.
    pub timing: Timing,
}

/// A trial of one or more ports.
pub struct Trial {
    legs: Vec<Leg>,
    plan: Plan,
    timing: Timing,
}

impl Trial {
    /// A trial over `ports` ports. `epoch` tells its frames from those of the
    /// trials before it. `answers`, one for each port that has any, answer for
    /// the addresses behind it.
    pub fn new(
        spec: &TrialSpec,
        ports: usize,
        epoch: u16,
        mut answers: Vec<Responder>,
    ) -> Result<Self, Fault> {
        let TrialSpec { plan, timing } = spec;
        if let Some(stream) = plan.streams.iter().find(|s| s.tx.max(s.rx) >= ports) {
            let what = format!("it needs port {}, and there are {ports}", stream.tx.max(stream.rx));
            return Err(Fault { stream: stream.name.clone(), what });
        }
        answers.resize_with(ports, Responder::default);
        let mut sources: Vec<Vec<_>> = (0..ports).map(|_| Vec::new()).collect();
        for (i, (source, stream)) in plan.sources(epoch)?.into_iter().zip(&plan.streams).enumerate()
        {
            sources[stream.tx].push((i, source));
        }
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let parts = || Intervals::new(nanos(timing.duration), timing.interval.map_or(0, nanos));
        let leg = |(port, (sources, responder)): (usize, (Vec<_>, Responder))| {
            let expected = plan
                .streams
                .iter()
                .map(|s| Expected { here: s.rx == port, labels: s.expect.as_deref() });
            Leg::new(sources, Sink::new(epoch, expected, parts()), parts(), responder)
        };
        let legs = sources.into_iter().zip(answers).enumerate().map(leg).collect();
        Ok(Self { legs, plan: plan.clone(), timing: *timing })
    }

    /// The first frame is due at `at`.
    pub fn start(&mut self, at: Instant) {
        let begin = at.as_nanos();
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let measure = begin + nanos(self.timing.warm_up);
        let end = measure + nanos(self.timing.duration);
        let give_up = end + nanos(self.timing.grace);
        let over = give_up + nanos(self.timing.drain);
        let phases = Phases { begin, measure, end, give_up, over };
        self.legs.iter_mut().for_each(|leg| leg.start(phases));
    }

    /// Its legs, one for each port, to be driven apart and given to
    /// [`Trial::finish`] in the same order.
    pub fn take_legs(&mut self) -> Vec<Leg> {
        std::mem::take(&mut self.legs)
    }

    /// See [`Leg::emit`].
    pub fn emit(&mut self, now: Instant, port: usize, cache: &mut PoolCache, batch: &mut Batch) {
        if let Some(leg) = self.legs.get_mut(port) {
            leg.emit(now, cache, batch);
        }
    }

    /// See [`Leg::handle`].
    pub fn handle(&mut self, now: Instant, port: usize, packet: &Packet) {
        if let Some(leg) = self.legs.get_mut(port) {
            leg.handle(now, packet.data());
        }
    }

    /// When to call `emit` again; nothing once the trial is over.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.legs.iter().filter_map(|leg| leg.poll_timeout(now)).min()
    }

    /// True once everything is sent and accounted for.
    pub fn is_settled(&self) -> bool {
        settled(&self.legs)
    }

    /// Sends nothing more: the trial was stopped from outside.
    pub fn end(&mut self) {
        self.legs.iter_mut().for_each(Leg::end);
    }

    /// The results of a trial that was driven whole.
    pub fn finish(mut self) -> TrialResult {
        let legs = self.take_legs();
        self.finish_legs(legs)
    }

    /// The results of a trial whose legs were driven apart.
    pub fn finish_legs(self, mut legs: Vec<Leg>) -> TrialResult {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut strays = Strays::default();
        for leg in &mut legs {
            for parts in leg.parts() {
                intervals.resize(intervals.len().max(parts.len()), Interval::default());
                intervals.iter_mut().zip(parts).for_each(|(a, b)| a.merge(b));
            }
            strays.merge(leg.sink().strays());
        }
        let mut streams = Vec::with_capacity(self.plan.streams.len());
        for (i, stream) in self.plan.streams.iter().enumerate() {
            let sent = legs.iter().flat_map(|l| l.sent()).find(|s| s.stream == i);
            let received = legs.get_mut(stream.rx).and_then(|l| l.sink().take(i));
            let elsewhere = legs.iter_mut().map(|l| l.sink().misdelivered(i)).sum();
            let received = received.unwrap_or_default();
            let offered = sent.map_or(0, |s| s.offered);
            let behind = offered.checked_sub(1).filter(|last| *last >= received.next);
            let last = behind.or(received.last_missing);
            let due = last.and_then(|number| stream.due(number, self.plan.line));
            streams.push(StreamResult {
                name: stream.name.clone(),
                offered,
                unsent: sent.map_or(0, |s| s.unsent),
                lateness: sent.map(|s| s.lateness).unwrap_or_default(),
                elsewhere,
                last_lost: due.map(Duration::from_nanos),
                received,
            });
        }
        let ports = vec![PortResult::default(); legs.len()];
        TrialResult { duration: self.timing.duration, streams, ports, intervals, strays, cut: 0 }
    }
}

/// True once everything is sent and accounted for.
pub fn settled(legs: &[Leg]) -> bool {
    let sent = legs.iter().all(Leg::has_sent);
    sent && legs.iter().map(Leg::accounted).sum::<u64>()
        >= legs.iter().map(Leg::offered).sum::<u64>()
}

/// Result of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamResult {
    /// Its name.
    pub name: String,
    /// Frames that were sent.
    pub offered: u64,
    /// Frames that should have been sent, and were not in time.
    pub unsent: u64,
    /// Lateness of frames.
    pub lateness: Lateness,
    /// Frames that arrived at another port than they should.
    pub elsewhere: u64,
    /// When the last frame that did not arrive should have left, after the
    /// measurement began; nothing if all arrived, or the stream has bursts.
    pub last_lost: Option<Duration>,
    /// Frames that arrived at the right port.
    pub received: Received,
}

impl StreamResult {
    /// Frames that were sent and did not arrive where they should, in any state.
    pub const fn lost(&self) -> u64 {
        self.offered.saturating_sub(self.received.frames + self.received.corrupted)
    }
}

/// Frames that a port failed to send or receive during a trial; the driver of the ports fills this
/// in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortResult {
    /// Frames that it was given and refused.
    pub tx_failed: u64,
    /// Frames that it had no room for.
    pub rx_missed: u64,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialResult {
    /// How long it measured.
    pub duration: Duration,
    /// By stream, in the plan's order.
    pub streams: Vec<StreamResult>,
    /// By port.
    pub ports: Vec<PortResult>,
    /// By part of the duration.
    pub intervals: Vec<Interval>,
    /// Frames that are of no stream.
    pub strays: Strays,
    /// Fragments that were seen on all links, where a bench can look there.
    pub cut: u64,
}

impl TrialResult {
    /// The result of a trial that was stopped after so long a time of its measurement.
    #[must_use]
    pub fn until(mut self, duration: Duration) -> Self {
        let share = duration.as_secs_f64() / self.duration.as_secs_f64().max(1e-9);
        let parts = (self.intervals.len() as f64 * share.min(1.0)).ceil() as usize;
        self.intervals.truncate(parts.max(1));
        self.duration = duration.min(self.duration);
        self
    }

    /// Fragments of IP packets that were seen: the device, or what stands before it, cuts
    /// what it cannot pass on whole.
    pub const fn fragments(&self) -> u64 {
        if self.cut > self.strays.fragments { self.cut } else { self.strays.fragments }
    }

    /// Frames that were sent.
    pub fn offered(&self) -> u64 {
        self.streams.iter().map(|s| s.offered).sum()
    }

    /// Frames that should have been sent.
    pub fn intended(&self) -> u64 {
        self.streams.iter().map(|s| s.offered + s.unsent).sum()
    }

    /// Frames that should have been sent and were not, or were refused by a
    /// port. The tester's fault, not the device's.
    pub fn unsent(&self) -> u64 {
        let refused: u64 = self.ports.iter().map(|p| p.tx_failed).sum();
        self.streams.iter().map(|s| s.unsent).sum::<u64>() + refused
    }

    /// Frames that arrived where they should, each counted once.
    pub fn received(&self) -> u64 {
        self.streams.iter().map(|s| s.received.frames).sum()
    }

    /// Frames that were sent and did not arrive. Those that a port refused were
    /// not sent.
    pub fn lost(&self) -> u64 {
        let refused: u64 = self.ports.iter().map(|p| p.tx_failed).sum();
        let lost: u64 = self.streams.iter().map(StreamResult::lost).sum();
        lost.saturating_sub(refused)
    }

    /// Lost out of offered; nothing if no frame was sent.
    pub fn loss_ratio(&self) -> Option<f64> {
        let offered = self.offered();
        (offered > 0).then(|| self.lost() as f64 / offered as f64)
    }

    /// True if the whole load was offered.
    pub fn was_offered(&self) -> bool {
        self.unsent() == 0
    }

    /// The latency of all streams.
    pub fn latency(&self) -> Latency {
        let mut all = Latency::new(true);
        self.streams.iter().for_each(|s| all.merge(&s.received.latency));
        all
    }

    /// Lateness of the frames of all streams.
    pub fn lateness(&self) -> Lateness {
        let mut all = Lateness::default();
        self.streams.iter().for_each(|s| all.merge(&s.lateness));
        all
    }
}
