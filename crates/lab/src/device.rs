//! A device: a node behind a profile.
//!
//! A frame that arrives waits in the queue of its port's worker. When the
//! worker's server is free it takes the next frame (or as many as the profile
//! says), gives it to the node and lets the worker turn. What the worker did is
//! priced; the server is busy until then, and what the worker sent leaves the
//! device afterwards. Under the ideal profile all of that happens at once.
//!
//! Who turns next, if several workers or the control part have something to do
//! at one time, is drawn from the seed.

use crate::agenda::Event;
use crate::link::{PICOS, nanos_up, picos};
use crate::network::{DeviceId, LabEngine};
use crate::observe::Loss;
use crate::profile::{Profile, Spent, price};
use crate::random::stream;
use crate::server::{Bucket, Costs, Leaving, Server, Waiting, has_come, ship};
use crate::world::World;
use ferrule_base::{Drops, Duration, Flow, Instant, Ledger, MacAddr, Rng, Work};
use ferrule_node::{BuildError, Config, Control, CounterStore, Environment, StoreError, Worker};
use ferrule_node::{Counter, build, made_mac};
use ferrule_pipeline::pair::PairPort;
use ferrule_pipeline::{Batch, Packet, Port, pair};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames between a device and its node in one direction at most.
const WIRE_DEPTH: usize = 256;

/// Turns that a device makes at one time before others come to theirs.
const ROUNDS_MAX: usize = 256;

/// Turns in which a worker may empty what its ports had no room for.
const FLUSHES_MAX: usize = 16;

/// Workers of one device at most.
pub(crate) const WORKERS_MAX: usize = 64;

/// Sentences about failures that are kept at most.
const FAILURES_MAX: usize = 64;

/// What a device counted in front of and behind its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Frames that arrived.
    pub arrived: Flow,
    /// Frames given to links.
    pub sent: Flow,
    /// Frames for which the input queue had no room.
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
    /// For how long its servers were busy.
    pub busy: Duration,
}

/// Everything that a device counted.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Around the node.
    pub stats: DeviceStats,
    /// Work that its node did, in all its lives.
    pub work: Work,
    /// What its node dropped, in all its lives.
    pub drops: Drops,
    /// The node's ledger, over all its lives: what a crash took counts as held
    /// no more, and stands in [`DeviceStats::crashed`].
    pub ledger: Ledger,
    /// What went wrong, in sentences.
    pub failures: Vec<String>,
}

/// What a node of the past did.
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
    control_due: Instant,
    timer: Option<Instant>,
    /// How far its clock is ahead.
    ahead: Duration,
    life: u16,
    stats: DeviceStats,
    past: Past,
    failures: Vec<String>,
}

enum Turn {
    Worker(usize),
    Control,
}

/// Makes the engine of a worker.
pub(crate) type Engines = Box<dyn FnMut(DeviceId, usize) -> LabEngine + Send>;

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
        };
        Self {
            id,
            name: name.into(),
            wires: config.ports.iter().map(wire).collect(),
            servers: config.cores.iter().map(|_| Server::default()).collect(),
            bucket: profile.cap.as_ref().map(Bucket::new),
            costs: Costs::of(&profile),
            config,
            profile,
            store: Kept(Arc::new(Mutex::new(store))),
            node: None,
            bus_free_ps: 0,
            service: stream(seed, name, "service"),
            order: stream(seed, name, "order"),
            control_due: Instant::ZERO,
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

    /// What it counted around its node.
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
            drops.merge(node.control.drops());
            for worker in &node.workers {
                add(&mut work, worker.work());
                drops.merge(worker.drops());
            }
        }
        let failures = self.failures.clone();
        DeviceReport { stats: self.stats, work, drops, ledger: self.ledger(), failures }
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

    /// Joins a port to the lane that its frames leave by.
    pub(crate) fn link(&mut self, port: usize, lane: u32, world: &World) {
        if let Some(wire) = self.wires.get_mut(port) {
            wire.lane = Some(lane);
        }
        self.attach(port, world);
    }

    fn attach(&mut self, port: usize, world: &World) {
        let (Some(wire), Some(node)) = (self.wires.get_mut(port), &mut self.node) else { return };
        let Some(index) = self.config.ports.iter().position(|p| p.name == wire.name) else {
            return;
        };
        let (ours, theirs) = pair(WIRE_DEPTH, &world.pool, &world.pool);
        wire.port = Some(ours);
        wire.worker = self.config.ports[index].worker;
        if let Err(e) = node.control.attach_port(index, Box::new(theirs)) {
            self.failures.push(format!("port {}: {e}", wire.name));
        }
    }

    /// The device's own time.
    fn clock(&self, now: Instant) -> Instant {
        now + self.ahead
    }

    /// Builds the node and attaches what is linked.
    pub(crate) fn boot(&mut self, world: &World, engines: &mut Engines) -> Result<(), BuildError> {
        let environment = Environment {
            macs: macs(&self.config),
            pool: world.pool.clone(),
            store: Box::new(self.store.clone()),
            now: self.clock(world.now),
        };
        let id = self.id;
        let (control, workers) = build(self.config.clone(), environment, |w| engines(id, w))?;
        self.node = Some(Node { control, workers });
        for port in 0..self.wires.len() {
            if self.wires[port].lane.is_some() {
                self.attach(port, world);
            }
        }
        self.control_due = world.now;
        self.call_all(picos(world.now));
        Ok(())
    }

    /// Ends at once, as a process does that is killed.
    pub(crate) fn kill(&mut self, world: &mut World, down: Duration) {
        self.life = self.life.wrapping_add(1);
        for server in &mut self.servers {
            let queued = server.queue.drain(..).map(|w| w.packet);
            for packet in queued.chain(server.leaving.drain(..).map(|l| l.packet)) {
                self.stats.crashed += 1;
                world.cache.recycle(packet);
            }
            *server = Server::default();
        }
        for wire in &mut self.wires {
            wire.port = None;
        }
        if let Some(node) = self.node.take() {
            for worker in &node.workers {
                add(&mut self.past.work, worker.work());
                self.past.drops.merge(worker.drops());
            }
            self.past.drops.merge(node.control.drops());
            let mut ledger = node.ledger();
            self.past.crashed += std::mem::take(&mut ledger.held);
            self.past.ledger.merge(&ledger);
        }
        self.timer = None;
        let event = Event::Boot { device: self.id.0 as u32, life: self.life };
        world.agenda.enter(world.now + down, event);
    }

    /// The time to start again has come.
    pub(crate) fn restart(&mut self, life: u16, world: &mut World, engines: &mut Engines) {
        if life != self.life || self.node.is_some() {
            return;
        }
        self.stats.restarts += 1;
        if let Err(e) = self.boot(world, engines) {
            self.fail(format!("does not start again: {e}"));
        }
        self.run(world);
    }

    /// Puts another configuration in force.
    pub(crate) fn apply(&mut self, config: Config, world: &mut World) {
        let clock = self.clock(world.now);
        let Some(node) = &mut self.node else {
            self.config = config;
            return;
        };
        match node.control.apply(clock, config.clone(), &macs(&config)) {
            Ok(applied) => {
                self.config = config;
                for index in applied.opened {
                    let name = &self.config.ports[index].name;
                    if let Some(port) = self.port(name).filter(|&p| self.is_linked(p)) {
                        self.attach(port, world);
                    }
                }
                self.call_all(picos(world.now));
                self.run(world);
            }
            Err(e) => self.fail(format!("the configuration does not apply: {e}")),
        }
    }

    pub(crate) fn jump(&mut self, by: Duration, world: &mut World) {
        self.ahead += by;
        self.call_all(picos(world.now));
        self.run(world);
    }

    fn fail(&mut self, what: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(what);
        }
    }

    fn call_all(&mut self, at_ps: u64) {
        self.servers.iter_mut().for_each(|s| s.call(at_ps));
    }

    /// Somebody changed the node from outside.
    pub(crate) fn touch(&mut self, world: &mut World) {
        self.control_due = self.control_due.min(world.now);
        self.call_all(picos(world.now));
        self.run(world);
    }

    /// A frame arrives.
    pub(crate) fn arrive(&mut self, world: &mut World, lane: u32, port: usize, packet: Packet) {
        self.stats.arrived.add(packet.len());
        world.visits += 1;
        if self.node.is_none() {
            self.stats.crashed += 1;
            return world.lose(lane, false, Loss::Crashed, packet);
        }
        let now = world.now;
        if let (Some(cap), Some(bucket)) = (&self.profile.cap, &mut self.bucket)
            && !bucket.take(cap, now, packet.len())
        {
            self.stats.capped += 1;
            return world.lose(lane, false, Loss::Capped, packet);
        }
        let worker = self.wires.get(port).map_or(0, |w| w.worker);
        let Some(server) = self.servers.get_mut(worker) else { return };
        let idle = server.is_idle(now);
        if server.queue.len() >= self.profile.queue && !idle {
            self.stats.input_full += 1;
            return world.lose(lane, false, Loss::InputFull, packet);
        }
        let mut ready_ps = picos(now);
        if let Some(bus) = &self.profile.bus {
            ready_ps = ship(bus, &mut self.bus_free_ps, ready_ps, packet.len());
        }
        if idle && self.costs.timer_ps | self.costs.stagger_ps != 0 {
            let late = match self.costs.stagger_ps {
                0 => 0,
                most => self.order.below(most + 1),
            };
            server.wakes_ps = ready_ps + self.costs.timer_ps + late;
        }
        server.queue.push_back(Waiting { ready_ps, port: port as u16, packet });
        self.stats.queue_max = self.stats.queue_max.max(server.queue.len() as u64);
        self.run(world);
    }

    /// The event that serves a worker.
    pub(crate) fn serve(&mut self, worker: u8, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        if let Some(server) = self.servers.get_mut(usize::from(worker))
            && server.planned == Some(world.now)
        {
            server.planned = None;
        }
        self.run(world);
    }

    /// The event of a timer.
    pub(crate) fn timer(&mut self, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        if self.timer == Some(world.now) {
            self.timer = None;
        }
        let clock = self.clock(world.now);
        if let Some(node) = &self.node {
            for (worker, server) in node.workers.iter().zip(&mut self.servers) {
                if worker.poll_timeout().is_some_and(|due| due <= clock) {
                    server.call(picos(world.now));
                }
            }
        }
        self.run(world);
    }

    /// Frames whose time has come leave.
    pub(crate) fn depart(&mut self, worker: u8, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        let Some(server) = self.servers.get_mut(usize::from(worker)) else { return };
        if server.departs == Some(world.now) {
            server.departs = None;
        }
        while server.leaving.front().is_some_and(|l| has_come(l.at_ps, world.now)) {
            let Some(Leaving { at_ps, lane, packet }) = server.leaving.pop_front() else { break };
            self.stats.sent.add(packet.len());
            world.put(lane, at_ps, packet);
        }
        self.plan(world);
    }

    /// Lets everybody turn who has something to do now.
    fn run(&mut self, world: &mut World) {
        for _ in 0..ROUNDS_MAX {
            match self.choose(world.now) {
                Some(Turn::Worker(worker)) => self.turn(worker, world),
                Some(Turn::Control) => self.turn_control(world.now),
                None => break,
            }
        }
        self.plan(world);
    }

    /// Who turns next: one of those who have something to do, by the dice.
    fn choose(&mut self, now: Instant) -> Option<Turn> {
        let node = self.node.as_ref()?;
        let mut ready = 0u64;
        for (i, server) in self.servers.iter().enumerate() {
            if server.ready_ps().is_some_and(|at| has_come(at, now)) {
                ready |= 1 << i;
            }
        }
        let control = node.control.has_mail() || now + self.ahead >= self.control_due;
        let count = u64::from(ready.count_ones()) + u64::from(control);
        let mut at = match count {
            0 => return None,
            1 => 0,
            _ => self.order.below(count),
        };
        for worker in 0..self.servers.len() {
            if ready & (1 << worker) != 0 {
                if at == 0 {
                    return Some(Turn::Worker(worker));
                }
                at -= 1;
            }
        }
        Some(Turn::Control)
    }

    fn turn_control(&mut self, now: Instant) {
        let clock = self.clock(now);
        let Some(node) = &mut self.node else { return };
        node.control.turn(clock);
        let failures = node.control.take_failures();
        // Routine ends at the next due time, not before the next nanosecond.
        let next = clock + Duration::from_nanos(1);
        self.control_due = node.control.poll_timeout().unwrap_or(Instant::FAR_FUTURE).max(next);
        failures.into_iter().for_each(|f| self.fail(f));
        self.call_all(picos(now));
    }

    /// A worker's server takes what is ready, and the worker turns.
    fn turn(&mut self, worker: usize, world: &mut World) {
        let clock = self.clock(world.now);
        let Some(node) = &mut self.node else { return };
        let Some(server) = self.servers.get_mut(worker) else { return };
        let at_ps = server.ready_ps().unwrap_or(0);
        let begin_ps = at_ps.max(picos(world.now).saturating_sub(PICOS - 1));
        server.called_ps = None;
        let mut taken = Flow::default();
        for _ in 0..self.costs.batch {
            let ready = server.queue.front().is_some_and(|w| {
                w.ready_ps.max(server.wakes_ps) <= begin_ps || has_come(w.ready_ps, world.now)
            });
            let Some(waiting) = server.queue.pop_front_if(|_| ready) else { break };
            let wire = self.wires.get_mut(usize::from(waiting.port));
            let octets = waiting.packet.len();
            match wire.and_then(|w| w.port.as_mut()).filter(|p| p.is_up()) {
                Some(port) => {
                    let mut batch = Batch::new();
                    batch.push(waiting.packet);
                    port.transmit(clock, &mut world.cache, &mut batch);
                    self.stats.unattached += batch.len() as u64;
                    taken.add(octets);
                }
                None => {
                    self.stats.unattached += 1;
                    world.cache.recycle(waiting.packet);
                }
            }
        }
        let Some(part) = node.workers.get_mut(worker) else { return };
        let (before, handed) = (*part.work(), part.handed_out());
        part.turn(clock);
        self.stats.turns += 1;
        let spent = Spent::since(taken, part.work(), &before);
        let calls = part.handed_out() != handed;
        let occupied_ps = price(&self.profile, &spent, &mut self.service);
        server.free_ps = begin_ps + occupied_ps;
        self.stats.busy += Duration::from_nanos(occupied_ps / PICOS);
        let done_ps = server.free_ps;
        self.collect(worker, done_ps, world);
        if calls && self.servers.len() > 1 {
            self.call_others(worker, done_ps);
        }
    }

    fn call_others(&mut self, worker: usize, at_ps: u64) {
        for (other, server) in self.servers.iter_mut().enumerate() {
            if other != worker {
                let late = match self.costs.stagger_ps {
                    0 => 0,
                    most => self.order.below(most + 1),
                };
                server.call(at_ps + late);
            }
        }
    }

    /// Takes what a worker sent from its ports; it leaves when it is done.
    fn collect(&mut self, worker: usize, done_ps: u64, world: &mut World) {
        let clock = self.clock(world.now);
        for _ in 0..FLUSHES_MAX {
            let mut full = false;
            for wire in self.wires.iter_mut().filter(|w| w.worker == worker) {
                let (Some(port), Some(lane)) = (&mut wire.port, wire.lane) else { continue };
                let mut count = 0;
                loop {
                    let mut batch = Batch::new();
                    port.receive(clock, &mut world.cache, &mut batch);
                    if batch.is_empty() {
                        break;
                    }
                    count += batch.len();
                    let more = batch.is_full();
                    for packet in batch.drain(..) {
                        let mut at_ps = done_ps + self.costs.pipeline_ps;
                        if let Some(bus) = &self.profile.bus {
                            at_ps = ship(bus, &mut self.bus_free_ps, done_ps, packet.len())
                                + self.costs.pipeline_ps;
                        }
                        let server = &mut self.servers[worker];
                        if has_come(at_ps, world.now) && server.leaving.is_empty() {
                            self.stats.sent.add(packet.len());
                            world.put(lane, at_ps, packet);
                        } else {
                            server.leaving.push_back(Leaving { at_ps, lane, packet });
                        }
                    }
                    if !more {
                        break;
                    }
                }
                full |= count >= WIRE_DEPTH;
            }
            if !full {
                return;
            }
            if let Some(part) = self.node.as_mut().and_then(|n| n.workers.get_mut(worker)) {
                part.turn(clock);
            }
        }
    }

    /// Enters what is to come into the agenda.
    fn plan(&mut self, world: &mut World) {
        let (device, life) = (self.id.0 as u32, self.life);
        let Some(node) = &self.node else { return };
        let mut due = self.control_due;
        for (i, server) in self.servers.iter_mut().enumerate() {
            let worker = i as u8;
            if let Some(at) = server.ready_ps() {
                let at = nanos_up(at).max(world.now);
                if server.planned.is_none_or(|planned| at < planned) {
                    server.planned = Some(at);
                    world.agenda.enter(at, Event::Serve { device, worker, life });
                }
            }
            if let Some(leaving) = server.leaving.front() {
                let at = nanos_up(leaving.at_ps).max(world.now);
                if server.departs.is_none_or(|departs| at < departs) {
                    server.departs = Some(at);
                    world.agenda.enter(at, Event::Depart { device, worker, life });
                }
            }
            if let Some(at) = node.workers[i].poll_timeout() {
                due = due.min(at);
            }
        }
        let at = Instant::from_nanos(due.as_nanos().saturating_sub(self.ahead.as_nanos() as u64));
        let at = at.max(world.now);
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            world.agenda.enter(at, Event::Timer { device, life });
        }
    }

    /// Whether an engine has jobs under way, or the control part holds packets.
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

fn add(to: &mut Work, more: &Work) {
    to.sealed.merge(more.sealed);
    to.opened.merge(more.opened);
    to.lookups += more.lookups;
    to.copied.merge(more.copied);
}

/// The addresses of a configuration's ports.
fn macs(config: &Config) -> Vec<MacAddr> {
    config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name))).collect()
}

/// A counter store that outlives the node: stable storage.
#[derive(Clone)]
struct Kept(Arc<Mutex<Box<dyn CounterStore>>>);

impl Kept {
    fn store(&self) -> MutexGuard<'_, Box<dyn CounterStore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CounterStore for Kept {
    fn open(&mut self, id: &str, fingerprint: [u8; 16]) -> Result<Counter, StoreError> {
        self.store().open(id, fingerprint)
    }

    fn reserve(&mut self, id: &str, limit: u64) -> Result<(), StoreError> {
        self.store().reserve(id, limit)
    }

    fn keep_edge(&mut self, id: &str, edge: u64) -> Result<(), StoreError> {
        self.store().keep_edge(id, edge)
    }
}
