//! A device: a node behind a profile.
//!
//! A frame that arrives waits in the queue of its port's worker. When the
//! worker's server is free it takes the next frame (or as many as the profile
//! says), gives it to the node and lets the worker turn. What the worker did is
//! priced; the server is busy until then, and what the worker sent leaves the
//! device afterwards. Under the ideal profile all of that happens at once.
//!
//! Of several workers, or the control part, that have work at the same time, the seed draws the one
//! that turns next.

mod life;
mod serve;
mod server;

use crate::network::{DeviceId, LabEngine};
use crate::profile::Profile;
use crate::random::stream;
use ferrule_base::{Drops, Duration, Flow, Instant, Ledger, Rng, Work};
use ferrule_crypto::EngineReport;
use ferrule_node::{Config, Control, CounterStore, Worker};
use ferrule_pipeline::pair::PairPort;
use life::Kept;
use server::{Bucket, CardServer, Costs, Server};
use std::collections::VecDeque;

/// Workers of one device at most.
pub(crate) const WORKERS_MAX: usize = 64;

/// Sentences about failures that are kept at most.
const FAILURES_MAX: usize = 64;

/// Counters of a device in front of and behind its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Frames that arrived.
    pub arrived: Flow,
    /// Frames given to links.
    pub sent: Flow,
    /// Frames for which the input queue, or a card's buffer, had no room.
    pub input_full: u64,
    /// Frames beyond the profile's cap.
    pub capped: u64,
    /// Frames that were lost because the device was down, or in it when it ended.
    pub crashed: u64,
    /// Frames on a port that the node does not have any more.
    pub unattached: u64,
    /// Times that the device was started again.
    pub restarts: u64,
    /// Frames that waited at once for one server, at most.
    pub queue_max: u64,
    /// Turns of its workers.
    pub turns: u64,
    /// Time for which its servers were busy, in picoseconds.
    pub busy_ps: u64,
    /// Time for which the cards in its ports were busy, both directions together, in picoseconds.
    pub card_busy_ps: u64,
    /// For how long its control part was.
    pub control_busy_ps: u64,
}

/// Everything that a device counted.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Around the node.
    pub stats: DeviceStats,
    /// Work that its node did, in all its lives.
    pub work: Work,
    /// Drops of its node and of the cards in its ports, in all their lives.
    pub drops: Drops,
    /// The node's ledger, over all its lives: what a crash took counts as held
    /// no more, and stands in [`DeviceStats::crashed`].
    pub ledger: Ledger,
    /// Errors of the node, in sentences.
    pub failures: Vec<String>,
    /// The workers' engines, one worker after the other.
    pub engines: Vec<EngineReport>,
}

/// Sums over the lives of a node that have ended.
#[derive(Default)]
struct Past {
    work: Work,
    drops: Drops,
    ledger: Ledger,
    /// Packets that a crash took out of it.
    crashed: u64,
}

struct Node {
    control: Control,
    workers: Vec<Worker<LabEngine>>,
}

struct Wire {
    name: String,
    worker: usize,
    /// The lane that its frames leave by.
    lane: Option<u32>,
    port: Option<PairPort>,
    /// True if the port has a card.
    card: bool,
    /// The card's servers, from the line and towards it.
    card_in: CardServer,
    card_out: CardServer,
}

/// A device.
pub struct Device {
    id: DeviceId,
    name: String,
    config: Config,
    profile: Profile,
    costs: Costs,
    store: Kept,
    node: Option<Node>,
    wires: Vec<Wire>,
    servers: Vec<Server>,
    bucket: Option<Bucket>,
    bus_free_ps: u64,
    service: Rng,
    order: Rng,
    /// Configurations that wait for the change before them.
    changes: VecDeque<Config>,
    control_due: Instant,
    /// When the control part is done with its last turn, by the clock of the device.
    control_free: Instant,
    timer: Option<Instant>,
    /// Time by which its clock is ahead.
    ahead: Duration,
    life: u16,
    stats: DeviceStats,
    past: Past,
    failures: Vec<String>,
}

/// Makes the engine of a worker.
pub(crate) type Engines = Box<dyn FnMut(DeviceId, usize, &Config, &Profile) -> LabEngine + Send>;

impl Device {
    pub(crate) fn new(
        id: DeviceId,
        name: &str,
        config: Config,
        profile: Profile,
        store: Box<dyn CounterStore>,
        seed: u64,
    ) -> Self {
        let wire = |p: &ferrule_node::config::PortConfig| Wire {
            name: p.name.clone(),
            worker: p.worker,
            lane: None,
            port: None,
            card: false,
            card_in: CardServer::default(),
            card_out: CardServer::default(),
        };
        Self {
            id,
            name: name.into(),
            wires: config.ports.iter().map(wire).collect(),
            servers: config.cores.iter().map(|_| Server::default()).collect(),
            bucket: (!profile.cap.is_none()).then(|| Bucket::new(&profile.cap)),
            costs: Costs::of(&profile),
            config,
            profile,
            store: Kept::new(store),
            node: None,
            bus_free_ps: 0,
            service: stream(seed, name, "service"),
            order: stream(seed, name, "order"),
            changes: VecDeque::new(),
            control_due: Instant::ZERO,
            control_free: Instant::ZERO,
            timer: None,
            ahead: Duration::ZERO,
            life: 0,
            stats: DeviceStats::default(),
            past: Past::default(),
            failures: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The node's control part; nothing while the device is down.
    pub fn control(&self) -> Option<&Control> {
        self.node.as_ref().map(|n| &n.control)
    }

    /// The node's control part, to change something: the next run carries on
    /// from there.
    pub fn control_mut(&mut self) -> Option<&mut Control> {
        self.node.as_mut().map(|n| &mut n.control)
    }

    /// The node's workers.
    pub fn workers(&self) -> &[Worker<LabEngine>] {
        self.node.as_ref().map_or(&[], |n| &n.workers)
    }

    /// Counters around the node.
    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// Frames that wait for a server, or leave later.
    pub fn waiting(&self) -> usize {
        self.servers.iter().map(|s| s.queue.len() + s.leaving.len()).sum()
    }

    /// Everything it counted.
    pub fn report(&self) -> DeviceReport {
        let (mut work, mut drops) = (self.past.work, self.past.drops.clone());
        if let Some(node) = &self.node {
            drops.merge(&node.control.drops());
            for worker in &node.workers {
                work.merge(worker.work());
                drops.merge(worker.drops());
                worker.all_cards().for_each(|card| drops.merge(card.drops()));
            }
        }
        let workers = self.node.iter().flat_map(|node| &node.workers);
        let engines = workers.flat_map(|worker| worker.engines()).collect();
        let failures = self.failures.clone();
        DeviceReport { stats: self.stats, work, drops, ledger: self.ledger(), failures, engines }
    }

    /// The node's ledger, over all its lives.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.past.ledger;
        if let Some(node) = &self.node {
            ledger.merge(&node.ledger());
        }
        ledger
    }

    /// Packets that crashes took out of the node.
    pub(crate) fn crashed_inside(&self) -> u64 {
        self.past.crashed
    }

    /// The place of a port in the configuration.
    pub(crate) fn port(&self, name: &str) -> Option<usize> {
        self.wires.iter().position(|w| w.name == name)
    }

    pub(crate) fn port_names(&self) -> Vec<&str> {
        self.wires.iter().map(|w| &*w.name).collect()
    }

    pub(crate) fn is_linked(&self, port: usize) -> bool {
        self.wires.get(port).is_some_and(|w| w.lane.is_some())
    }

    /// The device's own time.
    fn clock(&self, now: Instant) -> Instant {
        now + self.ahead
    }

    fn fail(&mut self, what: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(what);
        }
    }

    fn call_all(&mut self, at_ps: u64) {
        self.servers.iter_mut().for_each(|s| s.call(at_ps));
    }

    /// True if no engine has jobs under way and the control part holds no packets.
    pub(crate) fn is_at_rest(&self) -> bool {
        let Some(node) = &self.node else { return true };
        node.workers.iter().all(|w| w.poll_timeout().is_none()) && node.ledger().held == 0
    }
}

impl Node {
    fn ledger(&self) -> Ledger {
        let part = |w: &Worker<LabEngine>| (w.ledger(), w.handed_out(), w.handed_in());
        self.control.ledger_of(self.workers.iter().map(part))
    }
}
