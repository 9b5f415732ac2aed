//! A small network in one thread: nodes joined by virtual wires, hosts that are
//! the bare ends of wires. Time goes on by a fixed step per round.
#![allow(dead_code)]

use ferrule_base::{DropReason, Drops, Duration, Instant, Ledger, MacAddr, Rng, Secret};
use ferrule_crypto::{Aes, Engine, KeySpec, Late, Software, Suite};
use ferrule_node::card::{CardEngine, CardReport};
use ferrule_node::config::{KeySource, Lifetimes, TokenConfig, named_key};
use ferrule_node::message::WorkerReport;
use ferrule_node::{
    AgreedSa, BuildError, Config, Control, Counter, CounterStore, Environment, StoreError,
    Volatile, Worker, build_with_cards, made_mac,
};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache, Port, pair};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Time that one round takes.
pub const STEP: Duration = Duration::from_micros(50);

/// One node under test.
pub struct Member {
    pub control: Control,
    pub workers: Vec<Worker<Box<dyn Engine<Packet>>>>,
    pub pool: Pool,
}

/// A network.
pub struct Net {
    pub members: Vec<Member>,
    pub now: Instant,
    make: Make,
    /// Cards bring their work back late.
    late: bool,
    /// Engines do their work in threads of their own, in real time.
    real: bool,
    host_pool: Pool,
}

/// Makes the engine of each worker.
type Make = Box<dyn Fn(&Config, &Pool, usize) -> Box<dyn Engine<Packet>>>;

/// The end of a wire, held by the test.
pub struct Host {
    port: Box<dyn Port>,
    cache: PoolCache,
    now: Instant,
}

impl Host {
    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.cache.packet_from(frame).expect("the host has buffers"));
        self.port.transmit(self.now, &mut self.cache, &mut batch);
        assert!(batch.is_empty(), "the wire is full");
    }

    /// Every frame that arrived.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let mut batch = Batch::new();
            self.port.receive(self.now, &mut self.cache, &mut batch);
            if batch.is_empty() {
                return frames;
            }
            frames.extend(batch.drain(..).map(|p| p.data().to_vec()));
        }
    }
}

/// Key files by name, and a token that has every key.
struct Named;

impl KeySource for Named {
    fn read(&mut self, path: &str) -> Result<Secret, String> {
        named_key(path)
    }

    fn token(&mut self, _: &TokenConfig, label: &str, len: usize) -> Result<Secret, String> {
        Ok(Secret::new(label.bytes().cycle().take(len).collect()))
    }
}

/// A configuration that must be right.
pub fn config(text: &str) -> Config {
    match Config::parse("test.toml", text, &mut Named) {
        Ok(config) => config,
        Err(e) => panic!("{e}"),
    }
}

impl Net {
    /// A network of nodes that finish crypto at once.
    pub fn new() -> Self {
        Self::with_engines(false, |_, _, _| Box::new(Software::default()))
    }

    /// A network of nodes with these engines; `real` if they take real time.
    pub fn with_engines(
        real: bool,
        make: impl Fn(&Config, &Pool, usize) -> Box<dyn Engine<Packet>> + 'static,
    ) -> Self {
        Self {
            members: Vec::new(),
            now: Instant::from_millis(1),
            make: Box::new(make),
            late: false,
            real,
            host_pool: Pool::heap(4096, 2048),
        }
    }

    /// A network of nodes whose crypto comes back late and out of order.
    pub fn late() -> Self {
        let engines = Self::with_engines(false, |_, _, id| {
            let delay = Duration::from_millis(2);
            Box::new(Late::new(Software::default(), id as u64 + 1, delay, 512))
        });
        Self { late: true, ..engines }
    }

    /// Adds a node; its number.
    pub fn node(&mut self, text: &str) -> usize {
        self.node_on(text, Box::new(Volatile::default()))
    }

    /// Adds a node that keeps its counters there.
    pub fn node_on(&mut self, text: &str, store: Box<dyn CounterStore>) -> usize {
        let config = config(text);
        let pool = Pool::heap(config.buffers, config.buffer_size);
        let macs = config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name)));
        let environment = Environment {
            macs: macs.collect(),
            pool: pool.clone(),
            store,
            now: self.now,
            secret: [0; 2],
            entropy: Box::new(Rng::new(self.members.len() as u64 + 1)),
        };
        let late = self.late;
        let (of, memory) = (config.clone(), pool.clone());
        let engine = |id: usize| (self.make)(&of, &memory, id);
        let card = move |_| -> CardEngine {
            if late {
                let delay = Duration::from_millis(2);
                Box::new(Late::new(Software::default(), 77, delay, 512))
            } else {
                Box::new(Software::default())
            }
        };
        let built = build_with_cards(config, environment, engine, card);
        let (control, workers) = built.expect("the node builds");
        self.members.push(Member { control, workers, pool });
        self.members.len() - 1
    }

    fn attach(&mut self, node: usize, port: &str, wire: Box<dyn Port>) {
        let control = &mut self.members[node].control;
        let ports = &control.config().ports;
        let index = ports.iter().position(|p| p.name == port).expect("the port exists");
        control.attach_port(index, wire).expect("the worker takes it");
    }

    /// Joins two ports.
    pub fn join(&mut self, a: (usize, &str), b: (usize, &str)) {
        let (pa, pb) = (self.members[a.0].pool.clone(), self.members[b.0].pool.clone());
        let (ea, eb) = pair(4096, &pa, &pb);
        self.attach(a.0, a.1, Box::new(ea));
        self.attach(b.0, b.1, Box::new(eb));
    }

    /// The other end of a port's wire.
    pub fn host(&mut self, node: usize, port: &str) -> Host {
        self.narrow_host(node, port, 4096)
    }

    /// The other end of a wire that holds so many frames each way.
    pub fn narrow_host(&mut self, node: usize, port: &str, depth: usize) -> Host {
        let pool = self.members[node].pool.clone();
        let (mine, theirs) = pair(depth, &self.host_pool, &pool);
        self.attach(node, port, Box::new(theirs));
        Host { port: Box::new(mine), cache: self.host_pool.cache(), now: self.now }
    }

    /// Lets everything happen until nothing moves any more.
    pub fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..100_000 {
            self.now += STEP;
            let mut moved = 0;
            for member in &mut self.members {
                for worker in &mut member.workers {
                    moved += worker.turn(self.now);
                }
                moved += member.control.turn(self.now);
            }
            let workers = self.members.iter().flat_map(|member| &member.workers);
            if workers.map(Worker::in_flight).sum::<usize>() > 0 {
                idle = 0;
                if self.real {
                    std::thread::sleep(Duration::from_micros(20));
                }
                continue;
            }
            idle = if moved == 0 { idle + 1 } else { 0 };
            // Longer than a late engine takes.
            if idle > 60 {
                return;
            }
        }
        panic!("the network does not come to rest");
    }

    /// Lets time go by.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(1);
            for member in &mut self.members {
                for worker in &mut member.workers {
                    worker.turn(self.now);
                }
                member.control.turn(self.now);
            }
        }
        self.settle();
    }

    /// Reports of every worker of a node.
    #[allow(clippy::vec_box)] // as they are received
    pub fn reports(&mut self, node: usize) -> Vec<Box<WorkerReport>> {
        let receiver = self.members[node].control.request_reports();
        let now = self.now;
        let mut reports: Vec<Box<WorkerReport>> = Vec::new();
        while reports.len() < self.members[node].workers.len() {
            self.members[node].workers.iter_mut().for_each(|worker| _ = worker.turn(now));
            reports.extend(receiver.try_iter());
        }
        reports.sort_by_key(|report| report.worker);
        reports
    }

    /// Report of the only card of a node.
    pub fn card(&mut self, node: usize) -> CardReport {
        let mut reports = self.reports(node);
        reports.remove(0).cards.remove(0)
    }

    /// Number of packets that the card of a node dropped for one reason.
    pub fn refused(&mut self, node: usize, reason: DropReason) -> u64 {
        self.card(node).drops.get(reason)
    }

    /// Puts another configuration in force.
    pub fn apply(&mut self, node: usize, text: &str) {
        self.try_apply(node, text).expect("it applies");
    }

    /// The same, where it may be refused.
    pub fn try_apply(&mut self, node: usize, text: &str) -> Result<(), BuildError> {
        let config = config(text);
        let ports = config.ports.iter();
        let macs = ports.map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name)));
        let macs: Vec<MacAddr> = macs.collect();
        let now = self.now;
        self.members[node].control.apply(now, config, &macs).map(|_| ())
    }

    /// Drops of a node.
    pub fn drops(&mut self, node: usize) -> Drops {
        let mut drops = self.members[node].control.drops().clone();
        for report in self.reports(node) {
            drops.merge(&report.drops);
        }
        drops
    }

    /// Drops of a node for one reason.
    pub fn dropped(&mut self, node: usize, reason: DropReason) -> u64 {
        self.drops(node).get(reason)
    }

    /// A node's ledger.
    pub fn ledger(&mut self, node: usize) -> Ledger {
        let reports = self.reports(node);
        self.members[node].control.ledger(&reports)
    }

    /// Every node's packets are accounted for, and none waits.
    pub fn assert_conserved(&mut self) {
        for node in 0..self.members.len() {
            let failures = self.members[node].control.take_failures();
            assert!(failures.is_empty(), "{failures:?}");
            let ledger = self.ledger(node);
            assert!(ledger.balances(), "node {node}: {ledger:?}");
        }
    }
}

/// Stable storage that outlives the nodes which use it.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Volatile>>);

impl CounterStore for Kept {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        self.0.lock().unwrap().open(name, record)
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().reserve(record, limit)
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        self.0.lock().unwrap().instances()
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().keep_edge(record, edge)
    }
}

/// An SA of a tunnel of AES-GCM-128, with a key that follows from its SPI.
pub fn agreed(tunnel: &str, spi: u32) -> AgreedSa {
    let (key, nothing) = (Secret::new(spi.to_be_bytes().repeat(4)), Secret::new(Vec::new()));
    AgreedSa {
        tunnel: tunnel.into(),
        spi,
        keys: KeySpec::new(Suite::AesGcm(Aes::Aes128), key, nothing),
        salt: Secret::new(spi.to_be_bytes().to_vec()),
        worker: 0,
        lifetimes: Lifetimes::default(),
    }
}

/// The address of a node's port.
pub fn mac(node: &str, port: &str) -> MacAddr {
    made_mac(node, port)
}

/// An Ethernet frame.
pub fn ethernet(to: MacAddr, from: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0[..], &ethertype.to_be_bytes(), payload].concat()
}

/// An IPv4 UDP packet of `len` octets in all (28 at least).
pub fn udp4(from: [u8; 4], to: [u8; 4], ports: (u16, u16), len: usize, fill: u8) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    p.extend(from);
    p.extend(to);
    let sum = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(ports.0.to_be_bytes());
    p.extend(ports.1.to_be_bytes());
    p.extend((len as u16 - 20).to_be_bytes());
    p.extend([0, 0]);
    p.resize(len, fill);
    p
}

/// An IPv6 UDP packet of `len` octets in all (48 at least).
pub fn udp6(from: &str, to: &str, ports: (u16, u16), len: usize, fill: u8) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    p[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
    for address in [from, to] {
        p.extend(address.parse::<std::net::Ipv6Addr>().expect("an address").octets());
    }
    p.extend(ports.0.to_be_bytes());
    p.extend(ports.1.to_be_bytes());
    p.extend((len as u16 - 40).to_be_bytes());
    p.extend([0xff, 0xff]);
    p.resize(len, fill);
    p
}
