//! A node's life: from a configuration to a clean stop.
//!
//! ```text
//!   read ─ counters ─ build ─ open ports ─ socket ─ become node.user ─ threads
//!                                                         │
//!     main thread: control part, clients, metrics ◀───────┤  signal or `stop`
//!     one thread: neighbours, MKA                 ◀───────┤       │
//!     one thread per worker: packets              ◀───────┘       │
//!                                                                 ▼
//!   ports closed ─ drained ─ threads joined ─ exact counters kept ─ exit 0
//! ```

use crate::api::{self, Server};
use crate::clock::{Clock, nanoseconds};
use crate::devices::Devices;
use crate::entropy::OfMachine;
use crate::events::{self, Events};
use crate::fault::{Blame, Fault, Source};
use crate::load::Loaded;
use crate::metrics::Metrics;
use crate::opening::{self, Openings};
use crate::placing;
use crate::programs::Orders;
use crate::protocols;
use crate::reading::Reading;
use crate::reporting::Reporting;
use crate::rights::{Rights, protect_memory};
use crate::runtime::{self, Board, LiveWorker};
use crate::settle::Settled;
use crate::state::{self, FileStore, StateError};
use crate::store::SharedStore;
use crate::supervisor::Supervisor;
use crate::watch;
use ferrule_base::{Duration, MacAddr};
use ferrule_crypto::{Engine, Software, random};
use ferrule_dashboard::Dashboard;
use ferrule_engines::Placed;
use ferrule_node::config::Config;
use ferrule_node::{BuildError, Control, CounterStore, Environment, Volatile, Worker, build};
use ferrule_pipeline::{Packet, Pool};
use ferrule_ports::os::User;
use ferrule_ports::{Opened, Umem, region};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// How long a node that stops waits for packets inside it to leave.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// A node that runs.
pub struct Daemon {
    pub(crate) control: Control,
    pub(crate) server: Server,
    pub(crate) board: std::sync::Arc<Board>,
    pub(crate) clock: Clock,
    pub(crate) openings: Openings,
    pub(crate) devices: Devices,
    pub(crate) umem: Umem,
    pub(crate) macs: Vec<MacAddr>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) dashboard: Option<Dashboard>,
    pub(crate) failures: Vec<String>,
    pub(crate) events: Events,
    pub(crate) signals: UnixStream,
    pub(crate) reloads: UnixStream,
    /// The configuration that it was started with.
    pub(crate) file: PathBuf,
    pub(crate) store: Option<SharedStore>,
    pub(crate) supervisor: Supervisor,
    pub(crate) reading: Reading,
    pub(crate) reporting: Reporting,
    pub(crate) orders: Orders,
    pub(crate) threads: Vec<JoinHandle<LiveWorker>>,
    /// Thread of the control protocols.
    pub(crate) protocols: JoinHandle<()>,
}

/// Parts that a node needs before it can be built. Faults of the machine are found without opening
/// a port.
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// Addresses of its ports.
    pub macs: Vec<MacAddr>,
    source: Source,
    rights: Rights,
}

/// Looks for what the configuration needs of the machine.
pub fn prepare(loaded: Loaded) -> Result<Prepared, Fault> {
    let Loaded { config, source, .. } = loaded;
    let macs = opening::macs_of(&config).map_err(|(i, e)| source.port_fault(&config, i, &e))?;
    for (index, port) in config.ports.iter().enumerate() {
        opening::check_mtu(port).map_err(|e| source.port_fault(&config, index, &e))?;
    }
    let rights = Rights::of(&config, &source)?;
    let placed = config.look_aside.as_ref().and_then(|table| table.core);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(core) = config.cores.iter().flatten().chain(&placed).find(|&&core| core >= cores) {
        let what = format!("core {core} is not there");
        let remedy = format!("this machine gives us cores 0 to {}", cores - 1);
        return Err(source.fault(Blame::Environment, ["node", "", ""], what, remedy));
    }
    Ok(Prepared { config, macs, source, rights })
}

/// Takes the folder of counters, if the configuration has one.
fn open_store(prepared: &Prepared) -> Result<Option<SharedStore>, Fault> {
    let Some(folder) = &prepared.config.state else { return Ok(None) };
    let store = state::used_keys()
        .and_then(|used| FileStore::open(Path::new(folder), &used))
        .map_err(|e| prepared.source.state_fault(&prepared.config, &e.to_string(), &e.remedy()))?;
    Ok(Some(SharedStore::new(store)))
}

/// Listener for scrapers of metrics, if the configuration has an address for it.
fn metrics_listener(prepared: &Prepared) -> Result<Option<TcpListener>, Fault> {
    let Some(address) = prepared.config.metrics else { return Ok(None) };
    TcpListener::bind(address).map(Some).map_err(|e| {
        prepared.source.fault(
            Blame::Environment,
            ["node", "metrics", &address.to_string()],
            format!("metrics at {address}: {e}"),
            "choose an address of this machine and a free port",
        )
    })
}

/// Builds the node's values: what `check` and `run` have in common. `check` has
/// no use for engines that run.
fn assemble<E: Engine<Packet>>(
    prepared: &Prepared,
    pool: Pool,
    store: Box<dyn CounterStore>,
    clock: Clock,
    engine: impl FnMut(usize) -> E,
) -> Result<(Control, Vec<Worker<E>>), Fault> {
    let mut octets = [0; 16];
    random::fill(&mut octets)
        .map_err(|e| Fault::environment(e, "see whether /dev/urandom works"))?;
    let [high, low] = [0, 8].map(|at| octets[at..].first_chunk().copied().unwrap_or_default());
    let secret = [high, low].map(u64::from_ne_bytes);
    let (macs, now) = (prepared.macs.clone(), clock.now());
    let entropy = Box::new(OfMachine);
    let environment = Environment { macs, pool, store, now, secret, entropy };
    build(prepared.config.clone(), environment, engine)
        .map_err(|e| prepared.source.build_fault(&prepared.config, &e))
}

/// Says whether the node could start here, without starting it. Returns
/// remarks.
pub fn check(loaded: Loaded) -> Result<Vec<String>, Fault> {
    let mut remarks = Vec::new();
    let prepared = prepare(loaded)?;
    if let Some(folder) = &prepared.config.state {
        state::look_at_folder(Path::new(folder)).map_err(|e| {
            prepared.source.state_fault(&prepared.config, &e.to_string(), &e.remedy())
        })?;
        for id in ferrule_node::counters(&prepared.config, &prepared.macs) {
            state::look(Path::new(folder), &id.id, id.fingerprint).map_err(|e| {
                let (what, remedy) = (e.to_string(), e.remedy());
                let blame = Blame::Environment;
                prepared.source.counter_fault(&prepared.config, blame, &id.id, &what, &remedy)
            })?;
        }
    }
    let pool = Pool::heap(prepared.config.buffers.min(1024), prepared.config.buffer_size);
    let backend = placing::backend()?;
    remarks.extend(placing::remarks());
    remarks.extend(prepared.config.ports.iter().filter_map(opening::remark));
    remarks.extend(opening::stack_remarks(&prepared.config));
    let store = Box::new(Volatile::default());
    assemble(&prepared, pool, store, Clock::start(), |_| Software::new(backend))?;
    if !User::current().is_root() {
        remarks.push("not checked as root: whether ports can be opened is not known".into());
    }
    Ok(remarks)
}

/// Looks for the counters that a change of configuration needs, without taking or making
/// any; with `new_keys` those that are missing would be made.
pub(crate) fn look_for_counters(
    source: &Source,
    (old, old_macs): (&Config, &[MacAddr]),
    (config, macs): (&Config, &[MacAddr]),
    new_keys: bool,
) -> Result<(), Fault> {
    let Some(folder) = &config.state else { return Ok(()) };
    let had: Vec<[u8; 16]> =
        ferrule_node::counters(old, old_macs).iter().map(|c| c.fingerprint).collect();
    let new = ferrule_node::counters(config, macs).into_iter();
    for counter in new.filter(|counter| !had.contains(&counter.fingerprint)) {
        match state::look(Path::new(folder), &counter.id, counter.fingerprint) {
            Err(StateError::Missing(..)) if new_keys => {}
            Err(e) => {
                let (what, remedy) = (e.to_string(), e.remedy());
                let id = &counter.id;
                let blame = Blame::Environment;
                return Err(source.counter_fault(config, blame, id, &what, &remedy));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Makes the counters that the configuration needs and that are not there.
/// Returns how many were made.
pub fn create_state(loaded: Loaded) -> Result<usize, Fault> {
    let prepared = prepare(loaded)?;
    let Some(folder) = &prepared.config.state else {
        return Err(prepared.source.fault(
            Blame::Configuration,
            ["node", "name", &prepared.config.name],
            "the node has no folder for counters",
            "add state = \"FOLDER\" to [node]",
        ));
    };
    let fault = |e: crate::state::StateError| Fault::environment(&e, e.remedy());
    let used = state::used_keys().map_err(fault)?;
    let mut store = FileStore::create(Path::new(folder), &used).map_err(fault)?;
    store.find_all(&ferrule_node::counters(&prepared.config, &prepared.macs)).map_err(fault)?;
    Ok(store.made())
}

impl Daemon {
    /// Starts the node, with a dashboard if there is a listener for it. Nothing
    /// is left behind if it cannot.
    pub fn start(loaded: Loaded, web: Option<TcpListener>) -> Result<Self, Fault> {
        let clock = Clock::start();
        protect_memory();
        let failed = |e| Fault::environment(e, "see what the system said");
        let on = |signals: &[i32]| signalled(signals).map_err(failed);
        let (signals, reloads) = (on(&[SIGINT, SIGTERM])?, on(&[SIGHUP])?);
        let (credentials, prepared) = (loaded.credentials.clone(), prepare(loaded)?);
        let store = open_store(&prepared)?;
        let boxed: Box<dyn CounterStore> = match &store {
            Some(store) => Box::new(store.clone()),
            None => Box::new(Volatile::default()),
        };
        let config = &prepared.config;
        let (pool, _) = region::pool(config.buffers, config.buffer_size).map_err(|e| {
            let what = format!("{} buffers of {}: {e}", config.buffers, config.buffer_size);
            Fault::environment(what, "set fewer buffers in [node]")
        })?;
        let umem = Umem::new(&pool);
        let mut engines = placing::engines(config, &pool)?.into_iter();
        let backend = placing::backend()?;
        placing::remarks().for_each(|remark| eprintln!("ferrule: {remark}"));
        let engine = |_| engines.next().unwrap_or_else(|| Placed::new(Software::new(backend)));
        let (mut control, workers) = assemble(&prepared, pool, boxed, clock, engine)?;
        let board = Board::new(workers.len(), web.is_some())
            .map_err(|e| Fault::environment(e, "raise the limit of open files: `ulimit -n`"))?;
        let (mut openings, mut devices) = (Openings::new(config), Devices::new());
        open_ports(&prepared, (&mut openings, &mut devices), &umem, &mut control, &board)?;
        let socket = api::socket_path(config.control.as_deref(), &config.name);
        let mut server = Server::bind(&socket, prepared.rights.monitors.is_some())?;
        server.register(&config.name);
        let listener = metrics_listener(&prepared)?;
        let named = (config, &prepared.source);
        prepared.rights.give_up(named, &mut openings, &server, store.as_ref())?;
        // The log has a thread, which must only ever run as the node's user.
        let events = Events::begin(config)?;
        let metrics = listener.map(|l| Metrics::serve(l, &board)).transpose()?;
        let dashboard = web.map(|l| watch::serve(l, &board)).transpose()?;
        let protocols = protocols::spawn(control.give_protocols(), clock, &board);
        let protocols = protocols.map_err(no_thread)?;
        let threads = spawn_all(&prepared.config, workers, clock, &board)?;
        let Prepared { macs, source, .. } = prepared;
        Ok(Self {
            control,
            server,
            board,
            clock,
            openings,
            devices,
            umem,
            macs,
            metrics,
            dashboard,
            failures: Vec::new(),
            events,
            signals,
            reloads,
            file: source.file.into(),
            store,
            supervisor: Supervisor::of_environment(),
            reading: Reading::new(credentials),
            reporting: Reporting::default(),
            orders: Orders::default(),
            threads,
            protocols,
        })
    }

    /// One line for the person who started it.
    pub fn hello(&self) -> String {
        let config = self.control.config();
        let ports: Vec<_> = config.ports.iter().map(|p| p.name.as_str()).collect();
        let lab = if config.lab { "; a laboratory node, for no traffic that matters" } else { "" };
        format!(
            "{} runs: {}; management at {}; ctrl-C stops it{lab}",
            config.name,
            ports.join(", "),
            self.server.path().display()
        )
    }

    /// Address of the dashboard, with its key, if it is served.
    pub fn dashboard(&self) -> Option<String> {
        self.dashboard.as_ref().map(Dashboard::address)
    }

    /// Ends the node: what is inside goes out, counters are kept exactly.
    pub(crate) fn stop(mut self, why: &str) {
        events::stopped(why);
        self.supervisor.stopping();
        self.board.close_ports();
        let start = self.clock.now();
        while !self.board.is_drained() && self.clock.now().since(start) < DRAIN_MAX {
            self.control.turn(self.clock.now());
            std::thread::sleep(Duration::from_micros(200));
        }
        self.board.stop();
        // Every thread first: workers that share a range say how far it was used by all.
        let ended: Vec<_> = self.threads.into_iter().filter_map(|t| t.join().ok()).collect();
        let _ = self.protocols.join();
        let now = self.clock.now();
        let reports: Vec<_> = ended.iter().map(|worker| worker.report(now)).collect();
        let Some(store) = &self.store else { return };
        store.close();
        let (mut used, mut edges) = (Vec::new(), Vec::new());
        for settled in crate::settle::numbers(&self.control, &reports) {
            match settled {
                Settled::Used(key, number) => used.push((key, number)),
                Settled::Edge(key, edge) => edges.push((key, edge)),
            }
        }
        for e in store.settle(&used, &edges) {
            eprintln!("ferrule: {e}; the next start skips numbers");
        }
    }
}

/// Opens every queue of every port, behind its gate.
fn open_ports(
    prepared: &Prepared,
    (openings, devices): (&mut Openings, &mut Devices),
    umem: &Umem,
    control: &mut Control,
    board: &Board,
) -> Result<(), Fault> {
    let config = &prepared.config;
    for (index, port) in config.ports.iter().enumerate() {
        let gate = board.gate(&port.name);
        for queue in 0..control.queues(port) {
            let opened = openings.open(port, queue, prepared.macs[index]);
            let on = opened.as_ref().ok().and_then(Opened::netdev);
            if let (Some(on), Some(device)) = (on, port.driver.device()) {
                devices.opened(&port.name, device, on);
            }
            let started = opened.and_then(|opened| opened.start(umem));
            let started = started.map_err(|e| prepared.source.port_fault(config, index, &e))?;
            control
                .attach_queue(index, queue, gate.before(started))
                .map_err(|e| prepared.source.build_fault(config, &e))?;
        }
    }
    Ok(())
}

fn spawn_all(
    config: &Config,
    workers: Vec<LiveWorker>,
    clock: Clock,
    board: &std::sync::Arc<Board>,
) -> Result<Vec<JoinHandle<LiveWorker>>, Fault> {
    let with_core = workers.into_iter().zip(&config.cores);
    with_core
        .map(|(mut worker, &core)| {
            if config.times {
                worker.keep_time(nanoseconds);
            }
            runtime::spawn(worker, core, clock, board)
        })
        .collect::<std::io::Result<_>>()
        .map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Fault {
    Fault::environment(format!("starting a thread: {error}"), "see `ulimit -u`")
}

/// A socket that becomes readable by these signals.
fn signalled(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

impl Source {
    pub(crate) fn state_fault(&self, config: &Config, what: &str, remedy: &str) -> Fault {
        let folder = config.state.as_deref().unwrap_or_default();
        let written = self.value("node", "state").unwrap_or(folder).to_owned();
        self.fault(Blame::Environment, ["node", "state", &written], what, remedy)
    }

    /// A fault about the counter `id`, which begins with the kind of the counter.
    fn counter_fault(
        &self,
        config: &Config,
        blame: Blame,
        id: &str,
        what: &str,
        remedy: &str,
    ) -> Fault {
        let tunnel = config.tunnels.iter().find(|t| id.contains(&format!("-{}-", t.name)));
        if let (true, Some(tunnel)) = (id.starts_with("esp-"), tunnel) {
            return self.fault(blame, ["tunnel", "name", &tunnel.name], what, remedy);
        }
        let ports = config.secys.iter().map(|s| config.ports[s.port].name.as_str());
        match ports.into_iter().find(|port| id.contains(&format!("-{port}-"))) {
            Some(port) => self.fault(blame, ["macsec", "port", port], what, remedy),
            None => self.state_fault(config, what, remedy),
        }
    }

    /// A fault of building or changing a node.
    pub(crate) fn build_fault(&self, config: &Config, error: &BuildError) -> Fault {
        match error {
            BuildError::Counter(e) => {
                let (what, remedy) = e.0.split_once('\n').unwrap_or((&e.0, ""));
                let id = what.split('`').nth(1).unwrap_or_default();
                self.counter_fault(config, Blame::Environment, id, what, remedy)
            }
            BuildError::NeedsRestart(_) => {
                let place = ["node", "name", &config.name];
                let remedy = "change it back, or stop the node and start it again";
                self.fault(Blame::Configuration, place, error.to_string(), remedy)
            }
            BuildError::Unfit(what, remedy) => {
                let id = what.split('`').nth(1).unwrap_or_default();
                self.counter_fault(config, Blame::Configuration, id, what, remedy)
            }
            BuildError::Changing => Fault::environment(error, "try again in a moment"),
            BuildError::Stuck => Fault::environment(error, "see `ferrule show ports`; restart it"),
        }
    }
}
