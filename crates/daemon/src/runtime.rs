//! Threads that turn workers: busy while there is work, asleep soon after.
//!
//! ```text
//!   turn ─ moved? ─▶ turn …            a core is spent only on packets
//!     │ nothing for SPIN
//!     ▼
//!   say "asleep" ─ turn once more ─ nothing ─▶ ppoll(ports, wake, timeout)
//! ```
//!
//! A thread that gives work to another puts it into a ring first, and then looks whether the other
//! says "asleep"; the other says so first, and looks into the ring then. So no work is left lying.

use crate::clock::Clock;
use crate::measure::{Measured, Measures};
use arrayvec::ArrayVec;
use ferrule_base::Duration;
use ferrule_base::Instant;
use ferrule_engines::Placed;
use ferrule_node::Worker;
use ferrule_pipeline::{BATCH, Batch, Packet, PoolCache, Port, PortStats};
use ferrule_ports::os::{PollSet, Wake, pin};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// How long a worker looks for packets before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How long a worker sleeps at most.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// A worker with every engine that its configuration asks for.
pub type LiveWorker = Worker<Placed<Packet>>;

/// Thread that sleeps and can be woken.
pub struct Sleeper {
    asleep: AtomicBool,
    wake: Wake,
}

impl Sleeper {
    fn new() -> io::Result<Self> {
        Ok(Self { asleep: AtomicBool::new(false), wake: Wake::new()? })
    }

    /// Wakes it if it sleeps. Costs a load if it does not.
    pub fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.wake.wake();
        }
    }

    /// Wakes it in any case.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// From now on it wants to be woken.
    pub fn doze(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Notes that the thread is awake, and clears a wake-up that is no longer needed.
    pub fn rise(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        self.wake.clear();
    }
}

/// State that all threads of a node share.
pub struct Board {
    /// The main thread, with the control part.
    pub control: Sleeper,
    /// The control protocols.
    pub protocols: Sleeper,
    workers: Vec<Sleeper>,
    /// Turns in which nothing moved, by worker, since the ports were closed.
    quiet: Vec<AtomicU64>,
    /// Number that each worker copies to its place of `noted` when it turns.
    pulse: AtomicU64,
    noted: Vec<AtomicU64>,
    /// Ports receive nothing any more.
    closed: Arc<AtomicBool>,
    stop: AtomicBool,
    /// Histograms of the ports; nothing if they are not measured.
    pub measures: Option<Measures>,
}

impl Board {
    /// Board for so many workers, with or without measuring ports.
    pub fn new(workers: usize, measured: bool) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            control: Sleeper::new()?,
            protocols: Sleeper::new()?,
            workers: (0..workers).map(|_| Sleeper::new()).collect::<io::Result<_>>()?,
            quiet: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            pulse: AtomicU64::new(0),
            noted: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            closed: Arc::default(),
            stop: AtomicBool::new(false),
            measures: measured.then(Measures::default),
        }))
    }

    /// Wakes the workers that sleep: there are commands for them.
    pub fn rouse_workers(&self) {
        self.workers.iter().for_each(Sleeper::rouse);
    }

    /// Wakes workers and protocols that sleep: the control part changed something.
    pub fn rouse_all(&self) {
        self.rouse_workers();
        self.protocols.rouse();
    }

    /// Gate for all queues of a port.
    pub fn gate(&self, name: &str) -> Gate {
        let measured = self.measures.as_ref().map(|m| m.begin(name));
        Gate { closed: self.closed.clone(), measured }
    }

    /// Ports receive nothing from now on; what is inside goes out.
    pub fn close_ports(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.rouse_workers();
    }

    /// True once every worker found nothing to do, twice.
    pub fn is_drained(&self) -> bool {
        self.rouse_workers();
        self.quiet.iter().all(|turns| turns.load(Ordering::SeqCst) > 1)
    }

    /// A worker turns. It writes when it was asked to, so usually nothing.
    pub fn note_turn(&self, worker: usize) {
        let pulse = self.pulse.load(Ordering::Relaxed);
        if self.noted[worker].load(Ordering::Relaxed) != pulse {
            self.noted[worker].store(pulse, Ordering::Relaxed);
        }
    }

    /// True if every worker turned since this was last true.
    pub fn is_turning(&self) -> bool {
        let pulse = self.pulse.load(Ordering::Relaxed);
        let all = self.noted.iter().all(|noted| noted.load(Ordering::Relaxed) == pulse);
        if all {
            self.pulse.store(pulse.wrapping_add(1), Ordering::Relaxed);
        }
        all
    }

    /// Ends the threads of workers and protocols.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.workers.iter().chain([&self.protocols]).for_each(|thread| thread.wake.wake());
    }

    /// True if the threads are to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Gate in front of a port's queues: it ends reception when the node stops, and measures frames if
/// the node has a dashboard.
pub struct Gate {
    closed: Arc<AtomicBool>,
    measured: Option<Arc<Measured>>,
}

impl Gate {
    /// A port that closes with all others.
    pub fn before(&self, port: Box<dyn Port>) -> Box<dyn Port> {
        let (closed, measured) = (self.closed.clone(), self.measured.clone());
        Box::new(Gated { port, closed, measured })
    }
}

/// A port that can be closed for receiving, and measured.
struct Gated {
    port: Box<dyn Port>,
    closed: Arc<AtomicBool>,
    measured: Option<Arc<Measured>>,
}

impl Port for Gated {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let had = batch.len();
        self.port.receive(now, cache, batch);
        if let (Some(measured), Some(new)) = (&self.measured, batch.get(had..)) {
            measured.received(new);
        }
    }

    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        let Some(measured) = &self.measured else {
            return self.port.transmit(now, cache, batch);
        };
        // The frames are gone afterwards; those that stay are counted next time.
        let sizes: ArrayVec<usize, BATCH> = batch.iter().map(Packet::len).collect();
        self.port.transmit(now, cache, batch);
        let gone = sizes.len().saturating_sub(batch.len());
        sizes.iter().take(gone).for_each(|&octets| measured.sent(octets));
    }

    fn stats(&self) -> PortStats {
        self.port.stats()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.port.poll_timeout()
    }

    fn wait_fd(&self) -> Option<i32> {
        // Frames that cannot be received would keep the worker awake.
        if self.closed.load(Ordering::Relaxed) { None } else { self.port.wait_fd() }
    }

    fn is_up(&self) -> bool {
        self.port.is_up()
    }
}

/// Starts a thread for a worker, on a core if one is given. It ends with its
/// worker when the board says so.
pub fn spawn(
    mut worker: LiveWorker,
    core: Option<usize>,
    clock: Clock,
    board: &Arc<Board>,
) -> io::Result<JoinHandle<LiveWorker>> {
    let board = board.clone();
    let name = format!("worker-{}", worker.id());
    std::thread::Builder::new().name(name).spawn(move || {
        if let Some(core) = core {
            // The core was checked at the start; without it the worker runs too.
            let _ = pin(core);
        }
        drive(&mut worker, clock, &board);
        worker
    })
}

/// Turns a worker until the board says stop.
fn drive(worker: &mut LiveWorker, clock: Clock, board: &Board) {
    let me = worker.id() as usize;
    let mut set = PollSet::new();
    let mut last_moved = clock.now();
    let mut told = Told::of(worker);
    while !board.is_stopped() {
        board.note_turn(me);
        let now = clock.now();
        if turn(worker, now, board, &mut told) > 0 {
            last_moved = now;
            board.quiet[me].store(0, Ordering::SeqCst);
            continue;
        }
        // Packets in an engine are still inside.
        if board.closed.load(Ordering::Relaxed) && worker.in_flight() == 0 {
            board.quiet[me].fetch_add(1, Ordering::SeqCst);
        }
        if now.since(last_moved) < SPIN {
            std::hint::spin_loop();
            continue;
        }
        let myself = &board.workers[me];
        myself.doze();
        if turn(worker, clock.now(), board, &mut told) == 0 {
            sleep(worker, clock, &mut set, myself);
        }
        myself.rise();
        last_moved = clock.now();
    }
}

/// Work that a worker has given to others so far.
#[derive(PartialEq, Eq)]
struct Told {
    control: u64,
    protocols: u64,
    workers: u64,
}

impl Told {
    fn of(worker: &LiveWorker) -> Self {
        let protocols = worker.told_protocols();
        Self { control: worker.said(), protocols, workers: worker.handed_out() }
    }
}

fn turn(worker: &mut LiveWorker, now: Instant, board: &Board, before: &mut Told) -> usize {
    let moved = worker.turn(now);
    let told = Told::of(worker);
    if moved > 0 || told != *before {
        // A packet may make an SA ask for numbers: the control part asks to be woken only
        // when it has been asleep for a while, so this is no call per batch.
        board.control.rouse();
        if told.protocols != before.protocols {
            board.protocols.rouse();
        }
        if told.workers != before.workers {
            board.rouse_workers();
        }
        *before = told;
    }
    moved
}

fn sleep(worker: &LiveWorker, clock: Clock, set: &mut PollSet, myself: &Sleeper) {
    set.clear();
    set.add(myself.wake.as_raw_fd(), false);
    for fd in worker.wait_fds() {
        set.add(fd, false);
    }
    let due = worker.poll_timeout().map_or(SLEEP_MAX, |at| at.since(clock.now()));
    // The list is valid; a failure could only be lack of memory: then look again.
    let _ = set.wait(Some(due.min(SLEEP_MAX)));
}
