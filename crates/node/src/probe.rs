//! Observation of packets without a branch in the stages: a worker's turn is compiled three
//! times, once with `Silent`, which does nothing, once with [`Recorder`], which copies
//! packets into a bounded ring, and once with [`Stopwatch`], which adds up the time of each
//! stage.

use ferrule_base::{DropReason, Instant, PortId};
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::{Batch, Packet};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records that wait to be read at most; more are counted as lost.
pub const RECORDS_MAX: usize = 8192;

/// Sees packets where they come in, at each stage, and where they are dropped.
pub(crate) trait Probe {
    fn received(&mut self, _: Instant, _worker: u8, _: &Packet) {}
    fn visit(&mut self, _: Instant, _worker: u8, _: Next, _: &Batch) {}
    fn dropped(&mut self, _: Instant, _worker: u8, _: DropReason, _: &Packet) {}
    /// Ascribes the work since the last lap, or since the turn began, to this lap.
    fn lap(&mut self, _: Lap) {}
}

/// Share of a worker's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// Receiving and transmitting on ports.
    Ports,
    /// One stage, the engine that it waits for included.
    Stage(Next),
}

/// Sees nothing and costs nothing.
pub(crate) struct Silent;

impl Probe for Silent {}

/// Point of the data path at which a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Received on the record's port.
    Received,
    /// In front of a stage.
    At(Next),
    /// Dropped.
    Dropped(DropReason),
}

/// A packet at one point of the data path.
#[derive(Clone, Debug)]
pub struct Record {
    /// Time of the record.
    pub time: Instant,
    /// Number of the worker.
    pub worker: u8,
    /// Point of the data path.
    pub point: Point,
    /// The packet's port there.
    pub port: PortId,
    /// A number that stays with the packet as long as its flow and buffer do:
    /// records of one packet share it within a turn.
    pub id: u64,
    /// Its octets, as many as were asked for.
    pub data: Box<[u8]>,
    /// Its length.
    pub len: usize,
}

/// Selection of packets to record.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Every stage (a trace), or only the frames that the ports receive and transmit (a
    /// capture).
    pub stages: bool,
    /// The only port to record; a trace follows frames received there.
    pub port: Option<PortId>,
    /// Packets (trace) or frames (capture) to record; then it stops.
    pub count: u64,
    /// Octets of each to keep.
    pub snap: usize,
}

/// Copies the packets that the filter selects into a ring.
pub struct Recorder {
    filter: Filter,
    ring: Producer<Record>,
    lost: Arc<AtomicU64>,
}

/// The other end of a recorder's ring.
pub struct Records {
    ring: Consumer<Record>,
    lost: Arc<AtomicU64>,
}

impl Records {
    /// The next record.
    pub fn pop(&mut self) -> Option<Record> {
        self.ring.pop().ok()
    }

    /// Records for which there was no room, so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Recorder {
    /// A recorder and the end to read from.
    pub fn new(filter: Filter) -> (Box<Self>, Records) {
        let (producer, consumer) = RingBuffer::new(RECORDS_MAX);
        let lost = Arc::<AtomicU64>::default();
        let records = Records { ring: consumer, lost: lost.clone() };
        (Box::new(Self { filter, ring: producer, lost }), records)
    }

    /// Records a packet; false if there was no room for it.
    fn record(&mut self, time: Instant, worker: u8, point: Point, packet: &Packet) -> bool {
        if self.ring.is_full() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let data = packet.data();
        let record = Record {
            time,
            worker,
            point,
            port: packet.meta().port,
            id: packet.region_offset() as u64 / packet.chunk_size() as u64,
            data: data[..data.len().min(self.filter.snap)].into(),
            len: data.len(),
        };
        self.ring.push(record).is_ok()
    }

    /// Records one of those that are counted, and counts it if it was kept.
    fn count(&mut self, time: Instant, worker: u8, point: Point, packet: &Packet) {
        if self.filter.count > 0 && self.wants_port(packet) {
            let kept = self.record(time, worker, point, packet);
            self.filter.count -= u64::from(kept);
        }
    }

    fn wants_port(&self, packet: &Packet) -> bool {
        self.filter.port.is_none_or(|p| p == packet.meta().port)
    }
}

impl Probe for Recorder {
    fn received(&mut self, now: Instant, worker: u8, packet: &Packet) {
        self.count(now, worker, Point::Received, packet);
    }

    fn visit(&mut self, now: Instant, worker: u8, next: Next, batch: &Batch) {
        for packet in batch {
            if self.filter.stages {
                self.record(now, worker, Point::At(next), packet);
            } else if matches!(next, Next::Transmit | Next::TransmitFirst) {
                self.count(now, worker, Point::At(next), packet);
            }
        }
    }

    fn dropped(&mut self, now: Instant, worker: u8, reason: DropReason, packet: &Packet) {
        if self.filter.stages {
            self.record(now, worker, Point::Dropped(reason), packet);
        }
    }
}

/// Time by place, in nanoseconds, of turns in which something moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The ports.
    pub ports: u64,
    /// Each stage, in the order of [`Next::ALL`].
    pub stages: [u64; Next::ALL.len()],
    /// Turns in which nothing moved: looking for packets.
    pub idle: u64,
}

/// Adds up a worker's time by its use. The clock is the caller's: a count of nanoseconds
/// that never goes back.
pub struct Stopwatch {
    clock: fn() -> u64,
    last: u64,
    begun: u64,
    /// Times of all turns, and of the one under way.
    times: Times,
    turn: Times,
}

impl Stopwatch {
    /// A stopwatch that has not run yet.
    pub fn new(clock: fn() -> u64) -> Self {
        let (times, turn) = (Times::default(), Times::default());
        Self { clock, last: 0, begun: 0, times, turn }
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.begun = (self.clock)();
        self.last = self.begun;
        self.turn = Times::default();
    }

    /// Ends a turn in which so many packets moved.
    pub(crate) fn end(&mut self, moved: usize) {
        if moved == 0 {
            self.times.idle += (self.clock)().saturating_sub(self.begun);
            return;
        }
        self.times.ports += self.turn.ports;
        for (sum, time) in self.times.stages.iter_mut().zip(self.turn.stages) {
            *sum += time;
        }
    }

    /// The times measured so far.
    pub const fn times(&self) -> &Times {
        &self.times
    }
}

impl Probe for Stopwatch {
    fn lap(&mut self, lap: Lap) {
        let now = (self.clock)();
        let time = now.saturating_sub(self.last);
        self.last = now;
        match lap {
            Lap::Ports => self.turn.ports += time,
            Lap::Stage(next) => self.turn.stages[next as usize] += time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopwatch_gives_each_stage_its_time_and_looking_for_packets_to_none() {
        use std::sync::atomic::AtomicU64;
        static CLOCK: AtomicU64 = AtomicU64::new(0);
        // Each look at the clock is a microsecond later.
        let mut watch = Stopwatch::new(|| CLOCK.fetch_add(1000, Ordering::Relaxed));
        watch.begin();
        watch.lap(Lap::Ports);
        watch.end(0);
        assert_eq!(*watch.times(), Times { idle: 2000, ..Times::default() });
        watch.begin();
        for lap in [Lap::Ports, Lap::Stage(Next::Policy), Lap::Stage(Next::Policy), Lap::Ports] {
            watch.lap(lap);
        }
        watch.end(1);
        let times = *watch.times();
        assert_eq!((times.ports, times.idle), (2000, 2000));
        for (next, time) in Next::ALL.into_iter().zip(times.stages) {
            assert_eq!(time, if next == Next::Policy { 2000 } else { 0 }, "{}", next.name());
        }
    }
    use ferrule_pipeline::Pool;

    /// A packet more than once round the ring, by a filter that wants `count`.
    fn recorded(stages: bool, count: u64) -> (Box<Recorder>, Records) {
        let (mut recorder, records) = Recorder::new(Filter { stages, port: None, count, snap: 4 });
        let packet = Pool::heap(64, 2048).cache().packet_from(&[7; 60]).expect("a buffer");
        for _ in 0..RECORDS_MAX + 100 {
            recorder.received(Instant::ZERO, 0, &packet);
        }
        if stages {
            recorder.dropped(Instant::ZERO, 0, DropReason::NoRoute, &packet);
        }
        (recorder, records)
    }

    #[test]
    fn recorder_without_room_counts_what_is_lost() {
        let (_, mut records) = recorded(false, u64::MAX);
        assert_eq!(records.lost(), 100);
        let first = records.pop().expect("a record");
        assert_eq!((&first.data[..], first.len), (&[7; 4][..], 60));
        let (_, records) = recorded(true, 1);
        assert_eq!(records.lost(), 0, "one packet, and where it was dropped");
        let (_, records) = recorded(true, u64::MAX);
        assert_eq!(records.lost(), 101);
    }

    #[test]
    fn recorder_goes_on_until_as_many_as_were_asked_for_are_kept() {
        let wanted = RECORDS_MAX as u64 + 3;
        let (mut recorder, mut records) = recorded(false, wanted);
        assert_eq!(std::iter::from_fn(|| records.pop()).count(), RECORDS_MAX);
        let packet = Pool::heap(64, 2048).cache().packet_from(&[7; 60]).expect("a buffer");
        for _ in 0..10 {
            recorder.received(Instant::ZERO, 0, &packet);
        }
        assert_eq!(std::iter::from_fn(|| records.pop()).count(), 3);
    }
}
