//! Nodes between memory and memory: what a worker takes for frames that are there already.
//!
//! ```text
//!   frames ─▶ [ feeders, not timed ] ─▶ [ node that is timed ] ─▶ taken back
//! ```
//!
//! Feeders seal what the node opens, or put labels on it, so that every frame is fresh. Each
//! node takes frames at its first port. The clock is the caller's: this crate has none.

use crate::profile::{BATCH_MAX, Sizes, Spent};
use ferrule_base::{Duration, Flow, Instant, MacAddr, Rng, Work};
use ferrule_crypto::Software;
use ferrule_dataplane::Tables;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build, made_mac};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache, Port, PortStats};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Batches that wait at the port together, as they do where there is much to do.
const AT_ONCE: usize = 2;
/// Frames that are carried at once.
pub const FRAMES: usize = AT_ONCE * BATCH_MAX;

/// Times that so many are carried in a round and not timed, so that caches hold what this
/// path needs, and times that they are. With a large table more are not timed: as many as
/// bring [`VISITS`] packets to each of its entries.
const WARM: usize = 8;
const TIMED: usize = 8;
const VISITS: usize = 2;

/// Buffers of a path: what is under way, three times what is flooded, and caches.
const BUFFERS: usize = 32 * BATCH_MAX;

/// A port in memory. Batches go in and out as they are, so that what is timed is the data
/// path; one lock for each.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Frames>>);

/// Frames on either side of a port in memory.
#[derive(Default)]
struct Frames {
    /// To be received by the node, the next ones last.
    ready: Vec<Batch>,
    /// Sent by the node.
    sent: Vec<Packet>,
}

impl Memory {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames for the node to receive.
    fn load(&self, packets: Vec<Packet>) {
        let mut packets = packets.into_iter().peekable();
        let ready = &mut self.frames().ready;
        while packets.peek().is_some() {
            ready.push(packets.by_ref().take(BATCH_MAX).collect());
        }
        ready.reverse();
    }

    /// Frames that the node sent.
    fn take(&self) -> Vec<Packet> {
        std::mem::take(&mut self.frames().sent)
    }
}

impl Port for Memory {
    fn receive(&mut self, _: Instant, _: &mut PoolCache, batch: &mut Batch) {
        if let Some(ready) = self.frames().ready.pop() {
            *batch = ready;
        }
    }

    fn transmit(&mut self, _: Instant, _: &mut PoolCache, batch: &mut Batch) {
        self.frames().sent.extend(batch.drain(..));
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}

/// A node with its ports in our hands.
pub(crate) struct Stand {
    pub control: Control,
    worker: Worker<Software>,
    ports: Vec<Memory>,
}

/// A path through nodes, with frames.
pub struct Path {
    frames: Vec<Vec<u8>>,
    next: usize,
    warm: usize,
    feeders: Vec<Stand>,
    node: Stand,
    cache: PoolCache,
    now: Instant,
    spent: Spent,
    sent: usize,
}

impl Path {
    /// Through these nodes, the last one timed, all of which know these neighbours on every
    /// interface. The frames come in turn, again and again.
    ///
    /// # Panics
    ///
    /// If a configuration needs what memory does not have: the caller wrote it.
    pub fn new(nodes: Vec<Config>, neighbours: &[(IpAddr, MacAddr)], frames: Vec<Vec<u8>>) -> Self {
        let known = |tables: &Tables| {
            for iface in 0..tables.ifaces.len() as u16 {
                for &(ip, mac) in neighbours {
                    tables.neighbours.set(iface, ip, mac);
                }
            }
        };
        Self::prepared(nodes, &known, frames)
    }

    /// Path with tables of every node that `prepare` fills.
    pub(crate) fn prepared(
        nodes: Vec<Config>,
        prepare: &dyn Fn(&Tables),
        frames: Vec<Vec<u8>>,
    ) -> Self {
        let pool = Pool::heap(BUFFERS, 2048);
        let stand = |config| Stand::new(config, prepare, &pool);
        let mut feeders: Vec<_> = nodes.into_iter().map(stand).collect();
        let node = feeders.pop().expect("the last one is timed");
        // Of a list no more entries than there are frames for.
        let Sizes { sas, routes, entries } = node.sizes();
        let entries = sas.max(routes).max(entries.min(frames.len()));
        let mut path = Self {
            frames,
            next: 0,
            warm: (VISITS * entries).div_ceil(FRAMES).max(WARM),
            feeders,
            node,
            cache: pool.cache(),
            now: Instant::from_millis(1),
            spent: Spent::default(),
            sent: 0,
        };
        // Addresses are learned on the way.
        path.round(&mut || 0);
        path
    }

    /// Carries batches; what [`FRAMES`] frames took the last node, in nanoseconds of the clock.
    pub fn round(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        for _ in 0..self.warm {
            self.carry(clock);
        }
        (0..TIMED).map(|_| self.carry(clock)).sum::<u64>() / TIMED as u64
    }

    fn carry(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        let frames = self.frames.iter().cycle().skip(self.next).take(FRAMES);
        let mut packets: Vec<Packet> =
            frames.map_while(|frame| self.cache.packet_from(frame)).collect();
        self.next = (self.next + FRAMES) % self.frames.len();
        self.now += Duration::from_micros(50);
        if !self.feeders.is_empty() {
            packets = self.feed(packets);
        }
        let mut taken = Flow::default();
        packets.iter().for_each(|p| taken.add(p.len()));
        let before = self.node.load(packets, self.now);
        let begin = clock();
        self.node.turn(self.now);
        let took = clock().saturating_sub(begin);
        self.spent = Spent::since(self.node.sizes(), taken, self.node.worker.work(), &before);
        let sent: Vec<_> = self.node.take().collect();
        self.sent = sent.len();
        sent.into_iter().for_each(|p| self.cache.recycle(p));
        took
    }

    /// Deals the packets out to the feeders; what comes out of them, of each in turn.
    fn feed(&mut self, packets: Vec<Packet>) -> Vec<Packet> {
        let count = self.feeders.len();
        let mut shares: Vec<Vec<Packet>> = (0..count).map(|_| Vec::new()).collect();
        packets.into_iter().enumerate().for_each(|(n, packet)| shares[n % count].push(packet));
        let mut fed: Vec<_> = Vec::new();
        for (feeder, share) in self.feeders.iter_mut().zip(shares) {
            feeder.load(share, self.now);
            feeder.turn(self.now);
            fed.push(feeder.take().collect::<Vec<_>>().into_iter());
        }
        let most = fed.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        (0..most)
            .flat_map(|_| fed.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
            .collect()
    }

    /// Work of the last node when it was last timed.
    pub const fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Frames that came out of the last node when it was timed last.
    pub const fn sent(&self) -> usize {
        self.sent
    }
}

impl Stand {
    /// Frames for its first port, and the work that was done before them.
    pub fn load(&mut self, packets: Vec<Packet>, now: Instant) -> Work {
        self.control.turn(now);
        self.ports.iter().take(1).zip([packets]).for_each(|(port, packets)| port.load(packets));
        *self.worker.work()
    }

    fn sizes(&self) -> Sizes {
        Sizes::of(self.control.config())
    }

    /// Carries them.
    pub fn turn(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            self.worker.turn(now);
        }
    }

    /// Frames that it sent.
    pub fn take(&self) -> impl Iterator<Item = Packet> + '_ {
        self.ports.iter().flat_map(Memory::take)
    }

    pub fn new(config: Config, prepare: &dyn Fn(&Tables), pool: &Pool) -> Self {
        let macs = config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name)));
        let environment = Environment {
            secret: [0; 2],
            entropy: Box::new(Rng::new(1)),
            macs: macs.collect(),
            pool: pool.clone(),
            store: Box::new(Volatile::default()),
            now: Instant::ZERO,
        };
        let count = config.ports.len();
        let built = build(config, environment, |_| Software::default());
        let (mut control, mut workers) = built.expect("nothing is missing in memory");
        let worker = workers.remove(0);
        let mut ports = Vec::new();
        for index in 0..count {
            let port = Memory::default();
            ports.push(port.clone());
            control.attach_port(index, Box::new(port)).expect("the worker is there");
        }
        prepare(control.tables());
        Self { control, worker, ports }
    }
}
