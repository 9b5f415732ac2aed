//! Looking at packets without a branch in the stages: a worker's turn is
//! compiled twice, once with [`Silent`], which is nothing, and once with
//! [`Recorder`], which copies what it sees into a bounded ring.

use ferrule_base::{DropReason, Instant, PortId};
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::{Batch, Packet};
use rtrb::{Consumer, Producer, RingBuffer};

/// Records that wait to be read at most; more are counted as lost.
pub const RECORDS_MAX: usize = 8192;

/// Sees packets where they come in, at each stage, and where they are dropped.
pub(crate) trait Probe {
    fn received(&mut self, now: Instant, worker: u8, packet: &Packet);
    fn visit(&mut self, now: Instant, worker: u8, next: Next, batch: &Batch);
    fn dropped(&mut self, now: Instant, worker: u8, reason: DropReason, packet: &Packet);
}

/// Sees nothing and costs nothing.
pub(crate) struct Silent;

impl Probe for Silent {
    fn received(&mut self, _: Instant, _: u8, _: &Packet) {}
    fn visit(&mut self, _: Instant, _: u8, _: Next, _: &Batch) {}
    fn dropped(&mut self, _: Instant, _: u8, _: DropReason, _: &Packet) {}
}

/// Where a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Received on the record's port.
    Received,
    /// In front of a stage.
    At(Next),
    /// Dropped.
    Dropped(DropReason),
}

/// One packet at one point.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub time: Instant,
    /// By which worker.
    pub worker: u8,
    /// Where.
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

/// What to record.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Every stage (a trace), or only what the ports receive and transmit (a capture).
    pub stages: bool,
    /// Only this port; a trace follows frames received there.
    pub port: Option<PortId>,
    /// Packets (trace) or frames (capture) to record; then it stops.
    pub count: u64,
    /// Octets of each to keep.
    pub snap: usize,
}

/// Copies what the filter wants into a ring.
pub struct Recorder {
    filter: Filter,
    ring: Producer<Record>,
    lost: u64,
}

impl Recorder {
    /// A recorder and the end to read from.
    pub fn new(filter: Filter) -> (Box<Self>, Consumer<Record>) {
        let (ring, records) = RingBuffer::new(RECORDS_MAX);
        (Box::new(Self { filter, ring, lost: 0 }), records)
    }

    /// Records for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn record(&mut self, time: Instant, worker: u8, point: Point, packet: &Packet) {
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
        if self.ring.push(record).is_err() {
            self.lost += 1;
        }
    }

    fn wants_port(&self, packet: &Packet) -> bool {
        self.filter.port.is_none_or(|p| p == packet.meta().port)
    }
}

impl Probe for Recorder {
    fn received(&mut self, now: Instant, worker: u8, packet: &Packet) {
        if self.filter.count > 0 && self.wants_port(packet) {
            self.filter.count -= 1;
            self.record(now, worker, Point::Received, packet);
        }
    }

    fn visit(&mut self, now: Instant, worker: u8, next: Next, batch: &Batch) {
        for packet in batch {
            if self.filter.stages {
                self.record(now, worker, Point::At(next), packet);
            } else if next == Next::Transmit && self.filter.count > 0 && self.wants_port(packet) {
                self.filter.count -= 1;
                self.record(now, worker, Point::At(next), packet);
            }
        }
    }

    fn dropped(&mut self, now: Instant, worker: u8, reason: DropReason, packet: &Packet) {
        if self.filter.stages {
            self.record(now, worker, Point::Dropped(reason), packet);
        }
    }
}
