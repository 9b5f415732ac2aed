//! A leg of a trial: what one port sends and what it receives.
//!
//! ```text
//!              ┌─────────── leg ───────────┐
//!   schedule ─▶│ generator ─▶ emit ─▶ batch │─▶ port
//!              │ sink ◀────── handle        │◀─ port
//!              └────────────────────────────┘
//! ```
//!
//! Legs share nothing, so each may live in a thread of its own.

use crate::delay::Lateness;
use crate::responder::Responder;
use crate::signature::{self, Found};
use crate::sink::{Interval, Intervals, Sink};
use crate::stream::Source;
use ferrule_base::Instant;
use ferrule_pipeline::{Batch, Packet, PoolCache};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Frames that leave at once at most when a tester is late: more would fill queues that
/// the load itself does not.
const BURST: usize = 64;

/// Times of the phases of a trial, in nanoseconds; fixed when it starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    /// Warming up begins.
    pub begin: u64,
    /// Measuring begins.
    pub measure: u64,
    /// Frames due from here on are not sent.
    pub end: u64,
    /// Frames still due at this time are given up.
    pub give_up: u64,
    /// Nothing is waited for any longer.
    pub over: u64,
}

/// A stream that this leg sends.
struct Sending {
    stream: usize,
    source: Source,
    unsent: u64,
    returned: u64,
    lateness: Lateness,
}

/// One port's part of a trial.
pub struct Leg {
    sending: Vec<Sending>,
    /// When the next frame of each stream that is not done is due.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    phases: Phases,
    sink: Sink,
    intervals: Intervals,
    responder: Responder,
}

/// Frames of a stream that a leg sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub stream: usize,
    pub offered: u64,
    pub unsent: u64,
    pub lateness: Lateness,
}

impl Leg {
    pub(crate) fn new(
        sources: Vec<(usize, Source)>,
        sink: Sink,
        intervals: Intervals,
        responder: Responder,
    ) -> Self {
        let sending: Vec<_> = sources
            .into_iter()
            .map(|(stream, source)| {
                let lateness = Lateness::default();
                Sending { stream, source, unsent: 0, returned: 0, lateness }
            })
            .collect();
        let due = BinaryHeap::with_capacity(sending.len());
        Self { sending, due, phases: Phases::default(), sink, intervals, responder }
    }

    pub(crate) fn start(&mut self, phases: Phases) {
        self.phases = phases;
        self.intervals.start(phases.measure);
        self.sink.intervals.start(phases.measure);
        self.due.clear();
        for (index, sending) in self.sending.iter_mut().enumerate() {
            // The last frame that warms up keeps its distance from the first that
            // is measured: no two are ever closer than the schedule has them.
            let warm = phases.measure.checked_sub(sending.source.schedule.gap());
            let warms_up = sending.source.warms_up();
            if let Some(warm) = warm.filter(|&warm| warms_up && phases.begin <= warm) {
                sending.source.start(phases.begin, warm + 1, false);
            } else {
                sending.source.start(phases.measure, phases.end, true);
            }
            if let Some(next) = Self::next(sending, &phases) {
                self.due.push(Reverse((next, index)));
            }
        }
    }

    /// When a stream's next frame is due, going on to the measurement when it
    /// has warmed up.
    #[inline]
    fn next(sending: &mut Sending, phases: &Phases) -> Option<u64> {
        match sending.source.schedule.next() {
            None if !sending.source.measures() => {
                sending.source.start(phases.measure, phases.end, true);
                sending.source.schedule.next()
            }
            next => next,
        }
    }

    /// Puts frames that are due into `batch`, the earliest first, as many as may leave
    /// at once.
    #[inline]
    pub fn emit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.responder.poll(cache, batch);
        let now = now.as_nanos();
        if now >= self.phases.give_up && !self.due.is_empty() {
            self.give_up();
        }
        while let Some(mut first) = self.due.peek_mut() {
            let Reverse((intended, index)) = *first;
            if intended > now || batch.len() >= BURST {
                break;
            }
            let Some(sending) = self.sending.get_mut(index) else { break };
            if intended < self.phases.measure && now >= self.phases.measure {
                // Late while warming up: what is measured begins in time.
                sending.source.abandon();
            } else {
                let Some(packet) = sending.source.frame(intended, cache) else { break };
                batch.push(packet);
                if sending.source.measures() {
                    sending.lateness.record(now - intended);
                    if let Some(part) = self.intervals.at(intended) {
                        part.offered += 1;
                    }
                }
            }
            match Self::next(sending, &self.phases) {
                Some(next) => first.0.0 = next,
                None => drop(std::collections::binary_heap::PeekMut::pop(first)),
            }
        }
    }

    #[cold]
    fn give_up(&mut self) {
        self.due.clear();
        for sending in &mut self.sending {
            sending.unsent += sending.source.abandon();
        }
    }

    /// Sends nothing more; what is still due is neither sent nor given up.
    pub fn end(&mut self) {
        self.due.clear();
    }

    /// A frame that `emit` gave out and that the port did not take in time.
    pub fn take_back(&mut self, packet: &Packet) {
        let Found::Good(found) = signature::find(packet.data()) else { return };
        let stream = self.sending.iter_mut().find(|s| s.stream == found.tag.stream());
        if let Some(sending) = stream.filter(|_| !found.tag.warms_up()) {
            sending.returned += 1;
        }
    }

    /// A frame arrived.
    #[inline]
    pub fn handle(&mut self, now: Instant, frame: &[u8]) {
        if !self.sink.handle(now, frame) {
            self.responder.handle(frame);
        }
    }

    /// When it wants to be called at the latest; nothing once it is over.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        if self.responder.is_waiting() {
            return Some(now);
        }
        let due = self.due.peek().map(|d| d.0.0);
        let at = due.unwrap_or(self.phases.over);
        (due.is_some() || now.as_nanos() < self.phases.over).then(|| Instant::from_nanos(at))
    }

    /// True once everything is sent.
    pub fn has_sent(&self) -> bool {
        self.due.is_empty()
    }

    /// Frames of the measurement that were sent so far.
    pub fn offered(&self) -> u64 {
        let count = |s: &Sending| if s.source.measures() { s.source.sequence() } else { 0 };
        self.sending.iter().map(|s| count(s) - s.returned).sum()
    }

    /// Frames of which it is known what became of them.
    pub fn accounted(&self) -> u64 {
        self.sink.accounted()
    }

    /// When nothing is waited for any longer.
    pub const fn over(&self) -> Instant {
        Instant::from_nanos(self.phases.over)
    }

    pub(crate) fn sent(&self) -> impl Iterator<Item = Sent> {
        self.sending.iter().map(|s| Sent {
            stream: s.stream,
            offered: if s.source.measures() { s.source.sequence() - s.returned } else { 0 },
            unsent: s.unsent + s.returned,
            lateness: s.lateness,
        })
    }

    pub(crate) const fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Frames sent and frames arrived, by part of the duration.
    pub(crate) const fn parts(&self) -> [&Vec<Interval>; 2] {
        [&self.intervals.parts, &self.sink.intervals.parts]
    }
}
