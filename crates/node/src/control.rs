//! The control part of a node: it carries configuration, keys and protocol messages to the
//! workers, and keeps the state that must be one for all of them.
//!
//! ```text
//!   configuration ─▶ compile ─▶ tables ──┐
//!   counter store ─▶ sequences ─▶ SAs ───┼─ commands ─▶ worker 0, worker 1, …
//!   neighbour core ─▶ frames ────────────┘                 │
//!        ▲  packets for the node itself, or without a neighbour
//!        └──────────────────── events ─────────────────────┘
//! ```
//!
//! Like a worker it has no thread and no clock: a driver calls
//! [`Control::turn`].

use crate::card::{CardCommand, CardEngine};
use crate::commands::Commands;
use crate::compile::{self, Compiled, ReadyLists, Shared};
use crate::config::{Config, PortConfig};
use crate::counter::{CounterStore, StoreError};
use crate::incident::{Incident, Sender};
use crate::instances::Instances;
use crate::leases::Leases;
use crate::message::{Change, Command, Event, RING, Refusals, Seat, WorkerReport};
use crate::probe::{Filter, Recorder, Records};
use crate::protocols::{Cores, Heard, Protocols};
use crate::punt;
use crate::sas::{Directories, Sas};
use crate::secys::SecyOrders;
use crate::static_keys::{self, Plan, StaticKeys, Version};
use crate::worker::{Parts, Peer, Worker, lane};
use ferrule_base::{Drops, Duration, Instant, Ledger, MacAddr, PortId};
use ferrule_control::Entropy;
use ferrule_control::mka::view::View;
use ferrule_crypto::{Engine, Software};
use ferrule_dataplane::ipsec::SaDirectory;
use ferrule_dataplane::route::Neighbours;
use ferrule_dataplane::{Lease, Tables};
use ferrule_pipeline::{Packet, Pool, PoolCache, Port};
use rtrb::{Consumer, RingBuffer};
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, channel};

mod cards;
mod datagrams;
mod deltas;
mod orders;
mod peers;
mod steps;
mod view;
mod wants;

use cards::{CardEngines, CardLink};
use deltas::Deltas;
pub use orders::{AgreedSa, SaOrder};
use peers::Peers;
use steps::Steps;
pub use view::ControlView;
use wants::Wants;

/// Interval at which the edges of replay windows are written to stable storage.
const EDGE_INTERVAL: Duration = Duration::from_secs(1);

/// Resources that a node is built with, beside its configuration.
pub struct Environment {
    /// The address of each port, in the order of the configuration.
    pub macs: Vec<MacAddr>,
    /// Its packet memory.
    pub pool: Pool,
    /// Storage of counters.
    pub store: Box<dyn CounterStore>,
    /// The time.
    pub now: Instant,
    /// Secret of the hash tables: senders cannot choose the places of addresses in them.
    pub secret: [u64; 2],
    /// Randomness of keying protocols.
    pub entropy: Box<dyn Entropy>,
}

/// Reason that a node cannot be built or changed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A counter is missing, older than it was, or of another key.
    #[error(transparent)]
    Counter(#[from] StoreError),
    /// Only a restart can change this.
    #[error("{0} cannot change while the node runs: restart it")]
    NeedsRestart(&'static str),
    /// An association cannot be as it is configured, given the record of its key; and the
    /// remedy.
    #[error("{0}")]
    Unfit(String, &'static str),
    /// The change before is not done everywhere yet.
    #[error("the change before this one is still under way")]
    Changing,
    /// A worker's queue of commands is full: it does not run.
    #[error("a worker does not answer")]
    Stuck,
}

/// Effect of a change of configuration on the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Ports to open and attach, by index in the new configuration.
    pub opened: Vec<usize>,
    /// Ports that were closed, by name.
    pub closed: Vec<String>,
}

struct Link {
    commands: Commands,
    events: Consumer<Event>,
}

/// The control part of a node.
pub struct Control {
    config: Arc<Config>,
    tables: Arc<Tables>,
    compiled: Compiled,
    shared: Shared,
    /// Keys of the configuration, which workers and cards have.
    static_keys: StaticKeys,
    /// The SAs of ESP and AH, and orders about them.
    sas: Sas,
    /// Orders of the configuration about SecYs.
    secys: SecyOrders,
    /// Changes of dynamic entries.
    deltas: Deltas,
    /// Orders so far.
    orders: u64,
    /// Addresses of the ports, in the order of the configuration.
    macs: Vec<MacAddr>,
    links: Vec<Link>,
    cards: Vec<CardLink>,
    card_engines: CardEngines,
    cache: PoolCache,
    leases: Leases,
    wants: Wants,
    external: External,
    protocols: Protocols,
    /// The protocols have a thread of their own.
    are_apart: bool,
    steps: Steps,
    edges_due: Instant,
    incidents: Vec<Incident>,
    /// Orders, their answers and reports of workers so far, without those of the protocols.
    tasks: u64,
}

/// Parts for tunnels whose keys come from outside, or whose other ends move.
#[derive(Default)]
struct External {
    peers: Peers,
    /// Instances of SAs, once a tunnel has keys from outside.
    instances: Option<Instances>,
}

/// Work of a control part, which may be priced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlWork {
    /// Protocol messages, heard and made.
    pub messages: u64,
    /// Orders, their answers, and reports of workers.
    pub tasks: u64,
}

impl Sub for ControlWork {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { messages: self.messages - before.messages, tasks: self.tasks - before.tasks }
    }
}

/// Builds a node: its control part, and a worker for each core of the
/// configuration, with an engine from `engine`.
pub fn build<E: Engine<Packet>>(
    config: Config,
    environment: Environment,
    engine: impl FnMut(usize) -> E,
) -> Result<(Control, Vec<Worker<E>>), BuildError> {
    build_with_cards(config, environment, engine, |_| Box::new(Software::default()))
}

/// The same, with the engine of each port's card from `cards`.
pub fn build_with_cards<E: Engine<Packet>>(
    config: Config,
    environment: Environment,
    engine: impl FnMut(usize) -> E,
    cards: impl FnMut(PortId) -> CardEngine + Send + 'static,
) -> Result<(Control, Vec<Worker<E>>), BuildError> {
    let Environment { macs, pool, store, now, secret, entropy } = environment;
    let mut leases = Leases::new(store);
    let workers = Arc::new(SaDirectory::for_workers(config.cores.len()));
    let directories = Directories { workers, ..Directories::default() };
    let neighbours = Arc::new(Neighbours::new(secret));
    let mut shared = Shared { secret, directories, neighbours, ..Shared::default() };
    let mut compiled = compile::compile(&config, &macs, &mut shared, &Tables::default());
    let tables = Arc::new(std::mem::take(&mut compiled.tables));
    let (workers, (links, heard)) = workers_of(&config, &tables, &pool, secret, engine);
    let static_keys = StaticKeys::default();
    let version = Version { config: &config, compiled: &compiled };
    let plan = static_keys.plan(version, &macs, version, &mut leases)?;
    let resolved = (tables.clone(), std::mem::take(&mut compiled.next_hops));
    let slots = shared.directories.workers.clone();
    let protocols = Protocols::new(heard, pool.cache(), entropy, resolved, slots);
    let mut control = Control {
        config: Arc::new(config),
        tables,
        compiled,
        shared,
        static_keys,
        sas: Sas::default(),
        secys: SecyOrders::default(),
        deltas: Deltas::default(),
        orders: 0,
        macs,
        links,
        cards: Vec::new(),
        card_engines: Box::new(cards),
        cache: pool.cache(),
        leases,
        wants: Wants::default(),
        external: External::default(),
        protocols,
        are_apart: false,
        steps: Steps::default(),
        edges_due: now + EDGE_INTERVAL,
        incidents: Vec::new(),
        tasks: 0,
    };
    control.fit_cards();
    control.begin(plan);
    control.card_tables();
    control.configure_protocols(now, &mut control.protocols.lock());
    Ok((control, workers))
}

/// The workers of a configuration, and the ends of their queues: for the control part, and for
/// the protocols.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn workers_of<E: Engine<Packet>>(
    config: &Config,
    tables: &Arc<Tables>,
    pool: &Pool,
    secret: [u64; 2],
    mut engine: impl FnMut(usize) -> E,
) -> (Vec<Worker<E>>, (Vec<Link>, Vec<(Heard, Commands)>)) {
    let all = mesh(config.cores.len()).into_iter().enumerate().map(|(id, (has, peers))| {
        let (commands, commands_out) = RingBuffer::new(RING);
        let (events_in, events) = RingBuffer::new(RING);
        let (answers_in, answers) = RingBuffer::new(RING);
        let (punts, punted) = punt::queues(secret);
        let worker = Worker::new(Parts {
            id: id as u8,
            tables: tables.clone(),
            cache: pool.cache(),
            engine: engine(id),
            has,
            peers,
            punts,
            commands: commands_out,
            events: events_in,
            answers: answers_in,
        });
        let commands = Commands::new(commands);
        let heard = (Heard { events: answers, punted }, commands.clone());
        (worker, (Link { commands, events }, heard))
    });
    all.unzip()
}

/// A lane from each worker to each other one, and which tables it has.
fn mesh(count: usize) -> Vec<(Arc<AtomicU64>, Vec<Option<Peer>>)> {
    let have: Vec<Arc<AtomicU64>> = (0..count).map(|_| Arc::default()).collect();
    let mut to: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
    let mut from: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
    for a in 0..count {
        for b in (0..count).filter(|&b| b != a) {
            let (outgoing, incoming) = lane();
            to[a][b] = Some(outgoing);
            from[b][a] = Some(incoming);
        }
    }
    let join = |(to, from): (Vec<_>, Vec<_>)| -> Vec<Option<Peer>> {
        let rings = to.into_iter().zip(from).zip(&have);
        rings.map(|((t, f), have)| Some(Peer::new(t?, f?, have.clone()))).collect()
    };
    let peers: Vec<_> = to.into_iter().zip(from).map(join).collect();
    have.iter().cloned().zip(peers).collect()
}

impl Control {
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tables in force.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The number of a port of the configuration.
    pub fn port_id(&self, index: usize) -> PortId {
        self.compiled.ports[index]
    }

    /// The name of a port.
    pub fn port_name(&self, id: PortId) -> &str {
        self.shared.ports.name(id.0 as usize).unwrap_or("?")
    }

    /// Gives an opened port to its worker.
    pub fn attach_port(&mut self, index: usize, port: Box<dyn Port>) -> Result<(), BuildError> {
        self.attach_queue(index, 0, port)
    }

    /// Gives a queue of a port to a worker: the only one to the port's own, of several each
    /// to the worker of its number, so that a worker has the same queue of all of them.
    pub fn attach_queue(
        &mut self,
        index: usize,
        queue: usize,
        port: Box<dyn Port>,
    ) -> Result<(), BuildError> {
        let (id, of) = (self.compiled.ports[index], &self.config.ports[index]);
        let worker = if of.driver.is_everywhere() { queue } else { of.worker };
        if self.is_changing() {
            // One of this number may have to go first.
            self.steps.arrives(worker, id, port);
            return Ok(());
        }
        self.send(worker, Command::AttachPort(id, port))
    }

    /// A port is on another wire: its neighbours are looked for anew.
    pub fn forget_neighbours(&mut self, now: Instant, index: usize) {
        let ifaces = self.ifaces_of(index);
        let cores = &mut *self.protocols.lock();
        cores.resolver.forget(now, &ifaces);
        self.configure_resolver(now, cores);
    }

    /// The carrier of a port went or came: nobody behind it is reached by what was known.
    pub fn carrier_changed(&mut self, now: Instant, index: usize) {
        let ifaces = self.ifaces_of(index);
        self.protocols.lock().resolver.carrier_changed(now, &ifaces);
    }

    fn ifaces_of(&self, port: usize) -> Vec<u16> {
        let of_port = self.config.interfaces.iter().filter(|i| i.port == port);
        let ifaces = of_port.filter_map(|i| self.shared.ifaces.get(&i.name));
        ifaces.map(|iface| iface as u16).collect()
    }

    /// The control protocols, for a thread of their own: from now on it turns them.
    pub fn give_protocols(&mut self) -> Protocols {
        self.are_apart = true;
        self.protocols.clone()
    }

    /// Number of queues of a port, each to be attached.
    pub fn queues(&self, port: &PortConfig) -> usize {
        if port.driver.is_everywhere() { self.links.len() } else { 1 }
    }

    /// Does what is due: protocol messages, neighbours, counters.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut done = 0;
        for worker in 0..self.links.len() {
            for _ in 0..RING {
                let Ok(event) = self.links[worker].events.pop() else { break };
                self.handle(now, Seat::Worker(worker), event);
                done += 1;
            }
        }
        done += self.hear_cards(now);
        let news = self.sas.turn_lives(now);
        self.incidents.extend(news);
        done += self.send_orders() + self.step(now) + self.turn_deltas(now) + self.turn_sas();
        done += self.mind_wants(now);
        for (record, left) in self.leases.take_low() {
            let sender = self.sender(record);
            self.incidents.extend(sender.map(|sa| Incident::SaExpires(sa, left)));
        }
        if now >= self.edges_due {
            self.edges_due = now + EDGE_INTERVAL;
            self.incidents.extend(self.leases.keep_edges_again());
            self.ask_edges();
        }
        self.tasks += done as u64;
        if !self.are_apart {
            done += self.protocols.turn(now).done;
        }
        done + self.hear_protocols()
    }

    /// Takes what the protocols have to tell. Returns how much that was.
    fn hear_protocols(&mut self) -> usize {
        let mut cores = self.protocols.lock();
        let (asked, incidents) = (cores.take_asked(), cores.take_incidents());
        let heard = asked.len() + incidents.len() + usize::from(cores.datagrams.take_news());
        drop(cores);
        let asked = asked.into_iter().filter_map(|(slot, header)| self.wanted(slot, header));
        let asked: Vec<_> = asked.collect();
        self.incidents.extend(incidents.into_iter().chain(asked));
        heard
    }

    /// Work of all turns.
    pub fn work(&self) -> ControlWork {
        let (messages, tasks) = self.protocols.lock().work();
        ControlWork { messages, tasks: self.tasks + tasks }
    }

    /// True if a worker sent something that [`turn`](Self::turn) would take.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.links.iter().any(|link| !link.events.is_empty())
            || (!self.are_apart && self.protocols.lock().has_mail())
            || self.cards.iter().any(CardLink::has_mail)
    }

    /// Time of the next necessary [`turn`](Self::turn).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = [self.wants.poll_timeout(), self.steps.poll_timeout(), Some(self.edges_due)];
        let protocols = if self.are_apart { None } else { self.protocols.lock().poll_timeout() };
        // They wait for the end of a change that is under way.
        let deltas = self.deltas.poll_timeout().filter(|_| !self.is_changing());
        let others = [protocols, self.sas.poll_timeout(), deltas];
        others.into_iter().chain(own).flatten().min()
    }

    /// Incidents since the last call.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }

    /// Failures since the last call, in sentences.
    pub fn take_failures(&mut self) -> Vec<String> {
        let incidents = self.take_incidents().into_iter();
        incidents.filter(Incident::is_failure).map(|i| i.to_string()).collect()
    }

    /// The outbound SA of this number, if the protocol has no numbers left for it beyond
    /// those that are reserved.
    pub fn has_last_numbers(&self, sa: u32) -> Option<Sender> {
        let record = self.sas.record_of_sender(sa)?;
        self.leases.is_last(record).then(|| self.sender(record))?
    }

    /// The outbound SA that takes numbers out of a record.
    fn sender(&self, record: [u8; 16]) -> Option<Sender> {
        static_keys::sender(&self.config, &self.macs, record)
    }

    /// The access lists in force, compiled.
    pub fn ready_lists(&self) -> ReadyLists {
        self.shared.lists.clone()
    }

    /// Lists that were compiled ahead for the configuration that comes next.
    pub fn expect_lists(&mut self, ready: ReadyLists) {
        self.shared.lists_ahead = ready;
    }

    /// Puts lists in force that were compiled whole, in place of edits of older ones.
    pub fn replace_lists(&mut self, now: Instant, whole: ReadyLists) -> Result<(), BuildError> {
        self.expect_lists(whole);
        let (config, macs) = (Config::clone(&self.config), self.macs.clone());
        self.apply(now, config, &macs).map(|_| ())
    }

    /// Puts another configuration in force, without losing a packet: new entries come to
    /// all workers first, then they change their tables, then old entries go. This begins
    /// it; it is done when nothing [is changing](Self::is_changing) any more. On an error
    /// nothing changed.
    pub fn apply(
        &mut self,
        now: Instant,
        mut config: Config,
        macs: &[MacAddr],
    ) -> Result<Applied, BuildError> {
        if self.is_changing() {
            return Err(BuildError::Changing);
        }
        self.may_become(&config)?;
        self.is_ready()?;
        config.stay_with(&self.config);
        let applied = self.port_changes(&config);
        let ports = self.config.ports.iter().enumerate();
        let old_ports: Vec<(PortId, usize)> = ports
            .filter(|(_, p)| applied.closed.contains(&p.name))
            .flat_map(|(i, p)| {
                let id = self.compiled.ports[i];
                let everywhere = p.driver.is_everywhere();
                let worker = move |queue| if everywhere { queue } else { p.worker };
                (0..self.queues(p)).map(move |queue| (id, worker(queue)))
            })
            .collect();
        // A card goes with its port; the port that comes gets a new one.
        let mut shared = self.shared.clone();
        let mut static_keys = self.static_keys.clone();
        for (id, _) in old_ports.iter().filter(|(id, _)| self.shared.cards.contains_key(id)) {
            static_keys = static_keys.without(Seat::Card(*id));
            shared.forget_card(*id);
        }
        let mut compiled = compile::compile(&config, macs, &mut shared, &self.tables);
        let old = Version { config: &self.config, compiled: &self.compiled };
        let new = Version { config: &config, compiled: &compiled };
        let mut plan = static_keys.plan(new, macs, old, &mut self.leases)?;
        plan.esp.spares(&self.sas.agreed_senders())?;
        let changed = self.sas.has_agreements().then(|| static_keys::changed_slots(new, old));
        let tables = Arc::new(std::mem::take(&mut compiled.tables));
        self.tables = tables;
        for &(id, worker) in &old_ports {
            if self.cards.iter().any(|c| c.id == id) {
                self.lose_agreed(id);
                self.sas.forget_card(&self.shared.directories, id);
                self.send_step(worker, Command::DetachPort(id));
                self.cards.retain(|c| c.id != id);
            }
        }
        if let Some(changed) = changed {
            let agreed = self.sas.agreed(|slot| changed.contains(&slot));
            let names: Vec<_> = agreed.iter().filter_map(|&sa| self.sa_name(sa)).collect();
            self.incidents.extend(names.into_iter().map(Incident::SaGone));
            self.sas.give_up(&agreed);
            plan.esp.gone.push(agreed);
        }
        self.protocols.leave(&config, &compiled.ports, macs);
        self.config = Arc::new(config);
        self.compiled = compiled;
        self.shared = shared;
        self.macs = macs.to_vec();
        self.fit_cards();
        self.change_by(now, plan, old_ports);
        Ok(applied)
    }

    /// Says if [`apply`](Self::apply) would take a configuration now, as far as that is
    /// known without its counters. SAs of which it does not say whose they are go to the
    /// workers that would have them.
    pub fn would_apply(&self, config: &mut Config) -> Result<(), BuildError> {
        if self.is_changing() {
            return Err(BuildError::Changing);
        }
        self.may_become(config)?;
        config.stay_with(&self.config);
        Ok(())
    }

    /// Tells the protocols what is in force.
    fn configure_protocols(&self, now: Instant, cores: &mut Cores) {
        self.configure_resolver(now, cores);
        let (ids, macs) = (&self.compiled.ports, &self.macs);
        cores.keying.configure(now, &self.config, ids, macs);
    }

    fn configure_resolver(&self, now: Instant, cores: &mut Cores) {
        let Cores { resolver, resolved: (tables, next_hops), .. } = cores;
        resolver.configure(now, &self.config, tables, &self.shared.ifaces, next_hops);
    }

    fn may_become(&self, config: &Config) -> Result<(), BuildError> {
        let old = &self.config;
        let fixed = [
            (old.name != config.name, "the name"),
            (old.cores != config.cores, "workers and cores"),
            (old.buffers != config.buffers, "buffers"),
            (old.buffer_size != config.buffer_size, "buffer-size"),
            (old.state != config.state, "state"),
            (old.reserve != config.reserve, "reserve"),
            (old.control != config.control, "control"),
            (old.metrics != config.metrics, "metrics"),
            (old.user != config.user, "user"),
            (old.devices != config.devices, "devices"),
            (old.monitors != config.monitors, "monitors"),
            (old.log != config.log, "log"),
            (old.look_aside != config.look_aside, "look-aside"),
            (old.token != config.token, "[token]"),
            (self.moves_a_secy(config), "placement of a [[macsec]]"),
        ];
        match fixed.iter().find(|(changed, _)| *changed) {
            Some(&(_, what)) => Err(BuildError::NeedsRestart(what)),
            None => Ok(()),
        }
    }

    /// True if a port's SecY moves to its card or away from it: frames that are under way
    /// between the two would pass neither.
    fn moves_a_secy(&self, config: &Config) -> bool {
        let port = |config: &Config, index: usize| config.ports[index].name.clone();
        self.config.secys.iter().any(|old| {
            let name = port(&self.config, old.port);
            let same = config.secys.iter().find(|new| port(config, new.port) == name);
            same.is_some_and(|new| new.is_inline() != old.is_inline())
        })
    }

    fn port_changes(&self, config: &Config) -> Applied {
        let same = |a: &crate::config::PortConfig, b: &crate::config::PortConfig| {
            (&a.name, &a.driver, a.worker) == (&b.name, &b.driver, b.worker)
        };
        let (old, new) = (&self.config.ports, &config.ports);
        let opened = (0..new.len()).filter(|&i| !old.iter().any(|o| same(o, &new[i])));
        let closed = old.iter().filter(|o| !new.iter().any(|n| same(o, n)));
        Applied { opened: opened.collect(), closed: closed.map(|p| p.name.clone()).collect() }
    }

    /// Puts a plan's leases in force: they are the newest of their records from now on.
    fn grant(&mut self, plan: &mut Plan) {
        if let Some(instances) = plan.instances.take() {
            (self.external.instances, self.static_keys.has_instances) = (Some(instances), true);
        }
        let records = plan.records().chain(self.sas.records());
        self.leases.grant(&plan.leases, &records.collect());
    }

    /// True if a lease is the newest of its record: it knows how far the record was used.
    pub fn is_newest(&self, lease: Lease) -> bool {
        self.leases.is_newest(lease)
    }

    fn change(&mut self, seat: Seat, change: Change) -> Result<(), BuildError> {
        match seat {
            Seat::Worker(worker) => self.send(worker, Command::Change(change)),
            Seat::Card(id) => self.command(id, CardCommand::Change(change)),
        }
    }

    fn send(&mut self, worker: usize, command: Command) -> Result<(), BuildError> {
        let sent = self.links[worker].commands.try_send(command);
        if sent { Ok(()) } else { Err(BuildError::Stuck) }
    }

    fn handle(&mut self, now: Instant, seat: Seat, event: Event) {
        match event {
            Event::Wants(want) => self.want(now, seat, want),
            Event::Edge { record, edge } => {
                self.incidents.extend(self.leases.keep_edge(record, edge));
            }
            Event::Expired(sa, expiry, cause) => {
                let news = self.sas.heard(sa, expiry, cause);
                self.incidents.extend(news);
            }
            Event::Heard(sa, from) => self.heard_elsewhere(sa, from),
            Event::Reached(step) => self.reached(seat, step),
            Event::Done(token, done) => self.done(token, done),
            Event::Acquire(slot, header) => self.card_acquires(now, seat, slot, header),
            Event::Failed(what) => self.incidents.push(Incident::Other(what)),
            // Of the protocols, and of cards: `hear_cards` sees to those.
            Event::NextPn { .. } | Event::CardEmpty | Event::CardAlive => {}
        }
    }

    fn ask_edges(&mut self) {
        for link in &self.links {
            link.commands.try_send(Command::Edges);
        }
        self.ask_cards();
    }

    /// Asks every worker for its counters; the answers come as they run.
    pub fn request_reports(&mut self) -> Receiver<Box<WorkerReport>> {
        self.request(Command::Report)
    }

    /// Asks every worker for the packets that it refused since the last request.
    pub fn request_refusals(&mut self) -> Receiver<Box<Refusals>> {
        self.request(Command::Refusals)
    }

    fn request<T>(&mut self, request: fn(mpsc::Sender<T>) -> Command) -> Receiver<T> {
        let (sender, receiver) = channel();
        for link in &self.links {
            link.commands.try_send(request(sender.clone()));
        }
        receiver
    }

    /// Number of workers that answer [`request_reports`](Self::request_reports).
    pub fn workers(&self) -> usize {
        self.links.len()
    }

    /// The node's ledger from its workers' reports and the packets held here. Packets on
    /// the way between them count as held.
    pub fn ledger(&self, reports: &[Box<WorkerReport>]) -> Ledger {
        self.own_ledger().with(reports.iter().map(|report| view::part_of(report)))
    }

    /// The node's ledger from each worker's ledger and the packets that it gave
    /// to others and took from them.
    pub fn ledger_of(&self, parts: impl Iterator<Item = (Ledger, u64, u64)>) -> Ledger {
        self.own_ledger().with(parts)
    }

    /// Neighbours, for `show neighbours`.
    pub fn neighbours(&self) -> Vec<(String, std::net::IpAddr, MacAddr)> {
        let cores = self.protocols.lock();
        cores.resolver.neighbours(&cores.resolved.0)
    }

    /// MKA entities, for `show mka`: the name of each port and its state.
    pub fn mka(&self) -> Vec<(String, View)> {
        let cores = self.protocols.lock();
        cores.keying.views().map(|(port, view)| (port.to_owned(), view)).collect()
    }

    /// Drops of the control part.
    pub fn drops(&self) -> Drops {
        self.protocols.lock().exchange.drops().clone()
    }

    /// Lets every worker record the packets that `filter` selects, each into a ring of its
    /// own.
    pub fn record(&mut self, filter: &Filter) -> Result<Vec<Records>, BuildError> {
        let mut rings = Vec::new();
        for worker in 0..self.links.len() {
            let (recorder, records) = Recorder::new(filter.clone());
            if let Err(e) = self.send(worker, Command::Record(Some(recorder))) {
                self.stop_recording();
                return Err(e);
            }
            rings.push(records);
        }
        Ok(rings)
    }

    /// Ends all recording.
    pub fn stop_recording(&mut self) {
        for link in &self.links {
            link.commands.try_send(Command::Record(None));
        }
    }
}
