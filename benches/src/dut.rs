//! The device under test: a whole node between two ports in memory.
//!
//! ```text
//!   frames ──write──▶ buffers ─▶ port ─▶ worker ─▶ port ─▶ buffers, to be used again
//!          not counted        └──────── counted ───────┘
//! ```
//!
//! Before each lap every frame is written anew, in whole, into the buffers that have
//! waited longest, as a card's ring would have it; which lie in random order. Only the
//! worker is counted: the control part has a thread of its own in the daemon, and is
//! turned between laps here.

use crate::traffic::Frames;
use crate::{NODE, PEER};
use ferrule_base::{Duration, Instant, MacAddr, Rng, Secret, Work};
use ferrule_crypto::Software;
use ferrule_crypto::backend::Backend;
use ferrule_lab::profile::Sizes;
use ferrule_node::config::named_key;
use ferrule_node::probe::Times;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build};
use ferrule_pipeline::{BATCH, Batch, Packet, Pool, PoolCache, Port, PortStats};
use ferrule_ports::tsc::tsc;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Packets under way, unless a row says otherwise: two batches.
pub const UNDER_WAY: usize = 2 * BATCH;

/// Buffers beside those of the frames in turn: for packets that the node makes, and for caches.
const SPARE: usize = 2048;

/// Features of a node's ports.
#[derive(Default)]
struct Wire {
    /// To be received, the next one last.
    ready: Vec<Batch>,
    /// Transmitted by the port in question.
    sent: Vec<Packet>,
}

/// A port in memory: it receives what is ready, or keeps what it transmits.
struct End {
    wire: Arc<Mutex<Wire>>,
    receives: bool,
}

impl Port for End {
    // One lock for each batch: half a clock for a packet.
    fn receive(&mut self, _now: Instant, _cache: &mut PoolCache, batch: &mut Batch) {
        if self.receives
            && let Some(ready) = self.wire.lock().expect("nobody panicked").ready.pop()
        {
            debug_assert!(batch.is_empty(), "the node receives into an empty batch");
            *batch = ready;
        }
    }

    fn transmit(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        if self.receives {
            return batch.drain(..).for_each(|packet| cache.recycle(packet));
        }
        self.wire.lock().expect("nobody panicked").sent.extend(batch.drain(..));
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}

/// Settings of a node beside its configuration.
pub struct Setting<'a> {
    /// Crypto back end.
    pub backend: Backend,
    /// The port that receives and the one whose frames count.
    pub ports: [&'a str; 2],
    /// Next hops: all of them have one MAC address.
    pub hops: &'a [&'a str],
    /// Stations known behind each member of the first bridge.
    pub stations: &'a [(MacAddr, usize)],
    /// Packets under way.
    pub under_way: usize,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        let (backend, ports, under_way) = (Backend::best(), ["a", "b"], UNDER_WAY);
        Self { backend, ports, hops: &[], stations: &[], under_way }
    }
}

/// A node of one worker between two ports.
pub struct Dut {
    control: Control,
    runner: Runner,
}

/// A worker with its queue of each port, and the buffers for them.
pub(crate) struct Runner {
    worker: Worker<Software>,
    wire: Arc<Mutex<Wire>>,
    cache: PoolCache,
    /// Buffers that wait for frames.
    idle: VecDeque<Packet>,
    under_way: usize,
    now: Instant,
}

/// A key of `[PREFIX:N]` with any N, each N another.
fn key(path: &str) -> Result<Secret, String> {
    let Some(n) = path.strip_prefix("gcm:").and_then(|n| n.parse().ok()) else {
        return named_key(path);
    };
    let mut rng = Rng::new(n);
    let mut hex = |octets| (0..octets).map(|_| format!("{:02x}", rng.below(256))).collect();
    let (cipher, salt): (String, String) = (hex(16), hex(4));
    Ok(Secret::new(format!("cipher {cipher}\nsalt {salt}").into_bytes()))
}

/// True for frames that the node sent for itself: ARP, ICMPv6, and this behind hop-by-hop
/// options (reports of groups).
fn is_own(frame: &[u8]) -> bool {
    match frame.get(12..21) {
        Some([0x08, 0x06, ..]) => true,
        Some([0x86, 0xdd, .., 0]) => frame.get(54) == Some(&58),
        Some([0x86, 0xdd, .., next]) => *next == 58,
        _ => false,
    }
}

/// Builds a node, and gives each worker its queue of each port.
pub(crate) fn assemble(config: &str, setting: &Setting<'_>) -> (Control, Vec<Runner>) {
    let config = match Config::parse("bench.toml", config, &mut key) {
        Ok(config) => config,
        Err(e) => panic!("{e}"),
    };
    let count = config.cores.len();
    let pool = Pool::heap((setting.under_way + SPARE) * count, 2048);
    let environment = Environment {
        secret: [0; 2],
        entropy: Box::new(Rng::new(1)),
        macs: vec![NODE; config.ports.len()],
        pool: pool.clone(),
        store: Box::new(Volatile::default()),
        now: Instant::ZERO,
    };
    let engine = |_| Software::new(setting.backend);
    let (mut control, workers) = build(config.clone(), environment, engine).expect("builds");
    let runners: Vec<Runner> = workers
        .into_iter()
        .map(|worker| Runner::new(worker, pool.cache(), setting.under_way))
        .collect();
    for (name, receives) in setting.ports.into_iter().zip([true, false]) {
        let index = config.ports.iter().position(|p| p.name == name).expect("a port");
        let port = &config.ports[index];
        let queues = control.queues(port);
        for queue in 0..queues {
            let worker = if queues > 1 { queue } else { port.worker };
            let wire = runners[worker].wire.clone();
            control.attach_queue(index, queue, Box::new(End { wire, receives })).expect("attaches");
        }
    }
    let tables = control.tables().clone();
    for iface in 0..tables.ifaces.len() as u16 {
        for hop in setting.hops {
            let hop: IpAddr = hop.parse().expect("an address");
            tables.neighbours.set(iface, hop, PEER);
        }
    }
    for &(station, member) in setting.stations {
        let bridge = tables.bridges.first().expect("a bridge");
        bridge.table.learn(0, station, bridge.members[member], Instant::ZERO);
    }
    (control, runners)
}

impl Runner {
    fn new(worker: Worker<Software>, mut cache: PoolCache, under_way: usize) -> Self {
        let mut idle: Vec<Packet> =
            (0..under_way).map(|_| cache.packet().expect("room in the pool")).collect();
        let mut rng = Rng::new(1);
        for n in (1..idle.len()).rev() {
            idle.swap(n, rng.below(n as u64 + 1) as usize);
        }
        let (wire, idle, now) = (Arc::default(), idle.into(), Instant::ZERO);
        Self { worker, wire, cache, idle, under_way, now }
    }

    /// Writes the next frames into buffers, from `first` on; `most` of them at most.
    pub fn load(&mut self, frames: &Frames, first: usize, most: usize) -> usize {
        let count = self.under_way.min(most);
        let mut wire = self.wire.lock().expect("nobody panicked");
        self.idle.extend(wire.sent.drain(..));
        self.idle.truncate(self.under_way);
        while self.idle.len() < self.under_way {
            self.idle.push_back(self.cache.packet().expect("the pool has enough"));
        }
        let numbers: Vec<usize> = (first..first + count).collect();
        wire.ready.extend(numbers.chunks(BATCH).map(|numbers| -> Batch {
            let buffers = self.idle.drain(..numbers.len());
            let filled = buffers.zip(numbers).map(|(mut packet, &number)| {
                let frame = frames.at(number);
                packet.renew(frame.len());
                packet.data_mut().copy_from_slice(frame);
                packet
            });
            filled.collect()
        }));
        wire.ready.reverse();
        count
    }

    /// Turns the worker once: packets that moved, and clocks.
    pub fn turn(&mut self) -> (usize, u64) {
        self.now += Duration::from_micros(10);
        let begin = tsc();
        let moved = self.worker.turn(self.now);
        (moved, tsc() - begin)
    }

    /// Frames that wait to be received, in batches.
    fn waiting(&self) -> usize {
        self.wire.lock().expect("nobody panicked").ready.len()
    }

    /// Frames that came out by its queue since it was loaded; `see` is shown each.
    pub fn sent(&self, mut see: impl FnMut(&[u8])) -> usize {
        let wire = self.wire.lock().expect("nobody panicked");
        let frames = wire.sent.iter().map(Packet::data);
        frames.filter(|frame| !is_own(frame)).map(&mut see).count()
    }

    /// From now on clocks are added up by stage.
    pub fn watch_stages(&mut self) {
        self.worker.keep_time(tsc);
    }

    /// Clocks by stage so far, if they are added up.
    pub fn stages(&self) -> Option<Times> {
        self.worker.report(self.now).times
    }

    /// Work of the worker so far.
    pub fn work(&self) -> Work {
        *self.worker.work()
    }

    /// Drops so far, by reason.
    pub fn drops(&self) -> String {
        format!("{:?}", self.worker.report(self.now).drops)
    }
}

impl Dut {
    /// Builds it.
    pub fn new(config: &str, setting: &Setting<'_>) -> Self {
        let (control, mut runners) = assemble(config, setting);
        Self { control, runner: runners.remove(0) }
    }

    /// Sizes of its tables.
    pub fn sizes(&self) -> Sizes {
        Sizes::of(self.control.config())
    }

    /// Carries `count` frames, from `first` on; shows what came out of the port that
    /// counts. How many did, and clocks of the worker.
    pub fn carry(
        &mut self,
        frames: &Frames,
        first: usize,
        count: usize,
        mut see: impl FnMut(&[u8]),
    ) -> (usize, u64) {
        let (mut done, mut sent, mut clocks) = (0, 0, 0);
        while done < count {
            done += self.runner.load(frames, first + done, count - done);
            clocks += self.lap();
            sent += self.runner.sent(&mut see);
        }
        (sent, clocks)
    }

    /// Turns the worker until all that was ready has gone through; clocks.
    fn lap(&mut self) -> u64 {
        let mut sum = 0;
        loop {
            let (moved, clocks) = self.runner.turn();
            sum += clocks;
            if moved == 0 || self.runner.waiting() == 0 {
                // Reserved numbers, neighbours.
                self.control.turn(self.runner.now);
                return sum;
            }
        }
    }

    /// Carries so many of these frames, from `first` on: how many came out, and the
    /// worker's nanoseconds and clocks.
    pub fn timed(&mut self, frames: &Frames, first: usize, packets: usize) -> (usize, f64, f64) {
        let (time, begin) = (std::time::Instant::now(), tsc());
        let (sent, clocks) = self.carry(frames, first, packets, |_| ());
        let clock = time.elapsed().as_nanos() as f64 / (tsc() - begin) as f64;
        assert_eq!(sent, packets, "all come out: {}", self.drops());
        (sent, clocks as f64 * clock, clocks as f64)
    }

    /// A run of frames that goes on each time where it stopped.
    pub fn carrying(mut self, frames: Frames) -> impl FnMut(usize) -> (usize, f64, f64) {
        let mut next = 0;
        move |packets| {
            next += packets;
            self.timed(&frames, next - packets, packets)
        }
    }

    /// From now on clocks are added up by stage.
    pub fn watch_stages(&mut self) {
        self.runner.watch_stages();
    }

    /// Clocks by stage so far, if they are added up.
    pub fn stages(&self) -> Option<Times> {
        self.runner.stages()
    }

    /// Work of the worker so far.
    pub fn work(&self) -> Work {
        self.runner.work()
    }

    /// Drops so far, by reason.
    pub fn drops(&self) -> String {
        self.runner.drops()
    }
}
