//! A device's life: it is built, linked, changed, killed, and built again.

use super::{Device, Engines, Node, server::Server};
use crate::agenda::Event;
use crate::link::picos;
use crate::network::LabEngine;
use crate::world::World;
use ferrule_base::{Duration, Instant, MacAddr, Rng};
use ferrule_crypto::Software;
use ferrule_node::{BuildError, Config, Control, Counter, CounterStore, Environment, StoreError};
use ferrule_node::{build_with_cards, made_mac};
use ferrule_pipeline::pair;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames between a device and its node in one direction at most.
pub(super) const WIRE_DEPTH: usize = 256;

impl Device {
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
        wire.card = self.config.has_card(index);
        if let Err(e) = node.control.attach_port(index, Box::new(theirs)) {
            self.failures.push(format!("port {}: {e}", wire.name));
        }
    }

    /// Builds the node and attaches what is linked.
    pub(crate) fn boot(&mut self, world: &World, engines: &mut Engines) -> Result<(), BuildError> {
        let environment = Environment {
            secret: [0; 2],
            entropy: Box::new(self.entropy(world.seed)),
            macs: macs(&self.config),
            pool: world.pool.clone(),
            store: Box::new(self.store.clone()),
            now: self.clock(world.now),
        };
        let (id, count) = (self.id, self.config.cores.len());
        // A card's engine is made like a worker's, and watched like one.
        let mut cards: Vec<LabEngine> = Vec::new();
        let (config, profile) = (&self.config, &self.profile);
        for port in (0..config.ports.len()).filter(|&port| config.has_card(port)) {
            cards.push(engines(id, count + port, config, profile));
        }
        let card = move |_| cards.pop().unwrap_or_else(|| Box::new(Software::default()));
        let engine = |worker| engines(id, worker, config, profile);
        let (control, workers) = build_with_cards(config.clone(), environment, engine, card)?;
        self.node = Some(Node { control, workers });
        for port in 0..self.wires.len() {
            if self.wires[port].lane.is_some() {
                self.attach(port, world);
            }
        }
        self.control_due = world.now;
        self.control_free = Instant::ZERO;
        self.call_all(picos(world.now));
        Ok(())
    }

    /// Randomness of this life: that of another one differs.
    fn entropy(&self, seed: u64) -> Rng {
        let mut rng = Rng::new(seed);
        let of_seed = rng.next_u64();
        Rng::new(of_seed ^ (self.id.0 as u64) << 32 ^ u64::from(self.life))
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
                self.past.work.merge(worker.work());
                self.past.drops.merge(worker.drops());
                worker.all_cards().for_each(|card| self.past.drops.merge(card.drops()));
            }
            self.past.drops.merge(&node.control.drops());
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
        if node.control.is_changing() {
            return self.changes.push_back(config);
        }
        let lists = node.control.ready_lists().edited_for(&config);
        node.control.expect_lists(lists);
        match node.control.apply(clock, config.clone(), &macs(&config)) {
            Ok(applied) => {
                self.config = config;
                for (index, port) in self.config.ports.iter().enumerate() {
                    let wire = self.wires.iter_mut().find(|w| w.name == port.name);
                    // A card that is in stays in.
                    if let Some(wire) = wire {
                        wire.card |= self.config.has_card(index);
                    }
                }
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

    /// Compiles access lists that changed in a few entries and have the old trees.
    pub(super) fn compile_lists(&mut self, world: &mut World) {
        let clock = self.clock(world.now);
        let Some(node) = &mut self.node else { return };
        let whole = node.control.ready_lists().whole_for(node.control.config());
        match node.control.replace_lists(clock, whole) {
            Ok(()) => self.touch(world),
            Err(e) => self.fail(format!("access lists cannot be replaced: {e}")),
        }
    }

    pub(crate) fn jump(&mut self, by: Duration, world: &mut World) {
        self.ahead += by;
        self.call_all(picos(world.now));
        self.run(world);
    }

    /// Says something to the card of each port that has one.
    pub(crate) fn each_card(
        &mut self,
        world: &mut World,
        say: fn(&mut Control, usize) -> Result<bool, BuildError>,
    ) {
        let Some(node) = &mut self.node else { return };
        for port in (0..self.config.ports.len()).filter(|&port| self.config.has_card(port)) {
            if let Err(e) = say(&mut node.control, port) {
                self.failures.push(format!("the card of port {port}: {e}"));
            }
        }
        self.touch(world);
    }

    /// Lets the control part turn, after a change of the node from outside.
    pub(crate) fn touch(&mut self, world: &mut World) {
        self.control_due = self.control_due.min(world.now);
        self.call_all(picos(world.now));
        self.run(world);
    }
}

/// The addresses of a configuration's ports.
fn macs(config: &Config) -> Vec<MacAddr> {
    config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name))).collect()
}

/// A counter store that outlives the node: stable storage.
#[derive(Clone)]
pub(super) struct Kept(Arc<Mutex<Box<dyn CounterStore>>>);

impl Kept {
    pub fn new(store: Box<dyn CounterStore>) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    fn store(&self) -> MutexGuard<'_, Box<dyn CounterStore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CounterStore for Kept {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        self.store().open(name, record)
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        self.store().reserve(record, limit)
    }

    fn instances(&mut self) -> Result<Range<u64>, StoreError> {
        self.store().instances()
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.store().keep_edge(record, edge)
    }
}
