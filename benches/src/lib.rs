//! Measuring in rounds: everything that is compared runs in turn, round after
//! round, so that a machine whose speed drifts slows all of it alike. A row is
//! the median of the rounds with their spread.
#![forbid(unsafe_code)]

pub mod dpdk;
pub mod dut;
pub mod networks;
pub mod peer;
pub mod rows;
pub mod traffic;

use ferrule_base::{Instant, MacAddr};
use ferrule_crypto::Software;
use ferrule_crypto::backend::Backend;
use ferrule_node::config::named_key;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build};
use ferrule_pipeline::{BATCH, Batch, Pool, PoolCache, Port, PortStats};
use ferrule_ports::tsc::tsc;
use std::sync::{Arc, Mutex};

/// Rounds of which the median is taken.
pub const ROUNDS: usize = 101;

/// Packets that go round in a node: two batches.
pub const UNDER_WAY: usize = 256;

/// One thing that is measured: a name, and what does some packets.
pub struct Case<'a> {
    /// What it is.
    pub name: String,
    run: Box<Run<'a>>,
    clocks: Vec<f64>,
    nanos: Vec<f64>,
}

/// Does about so many packets; says how many, and their nanoseconds and clocks.
type Run<'a> = dyn FnMut(usize) -> (usize, f64, f64) + 'a;

impl<'a> Case<'a> {
    /// A case of which everything counts.
    pub fn new(name: impl Into<String>, mut run: impl FnMut(usize) -> usize + 'a) -> Self {
        Self::measured(name, move |packets| {
            let (time, begin) = (std::time::Instant::now(), tsc());
            let done = run(packets);
            let clocks = (tsc() - begin) as f64;
            (done, time.elapsed().as_nanos() as f64, clocks)
        })
    }

    /// A case that measures what counts of it.
    pub fn measured(
        name: impl Into<String>,
        run: impl FnMut(usize) -> (usize, f64, f64) + 'a,
    ) -> Self {
        let (clocks, nanos) = (Vec::new(), Vec::new());
        Self { name: name.into(), run: Box::new(run), clocks, nanos }
    }

    /// Runs once; the first time, to warm up, does not count.
    pub fn round(&mut self, packets: usize, counts: bool) {
        let (done, nanos, clocks) = (self.run)(packets);
        if counts {
            self.nanos.push(nanos / done as f64);
            self.clocks.push(clocks / done as f64);
        }
    }

    /// Nanoseconds per packet, median.
    pub fn nanos(&self) -> f64 {
        median(&self.nanos)
    }

    /// TSC clocks per packet, median.
    pub fn clocks(&self) -> f64 {
        median(&self.clocks)
    }

    /// Half the distance between the quartiles, in percent of the median.
    pub fn spread(&self) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |q: usize| sorted[(sorted.len() - 1) * q / 4];
        (at(3) - at(1)) / 2.0 / self.nanos() * 100.0
    }
}

/// The median of some numbers.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Runs the cases in turn, `packets` each per round, after one round that does
/// not count.
pub fn interleave(cases: &mut [Case<'_>], packets: usize) {
    for round in 0..=ROUNDS {
        for case in cases.iter_mut() {
            case.round(packets, round > 0);
        }
    }
}

/// The median of the ratios of two cases, round by round: how often `b` goes
/// into the rate of `a`.
pub fn ratio(a: &Case<'_>, b: &Case<'_>) -> f64 {
    let rounds: Vec<f64> = a.nanos.iter().zip(&b.nanos).map(|(a, b)| b / a).collect();
    median(&rounds)
}

/// Prints the heading of a table.
pub fn heading(title: &str) {
    println!("\n{title}");
    println!(
        "  {:<44} {:>8} {:>9} {:>9} {:>7} {:>7}",
        "", "Mpps", "ns/pkt", "clocks", "spread", "ratio"
    );
}

/// Prints a row: beside its rate the ratio to `to`, and the ratio to reach.
pub fn row(case: &Case<'_>, to: Option<&Case<'_>>, reach: Option<f64>) {
    let ratio = to.map_or(String::new(), |to| format!("{:.2}", ratio(case, to)));
    let reach = reach.map_or(String::new(), |r| format!("  (reach {r})"));
    println!(
        "  {:<44} {:>8.2} {:>9.1} {:>9.0} {:>6.1}% {ratio:>7}{reach}",
        case.name,
        1000.0 / case.nanos(),
        case.nanos(),
        case.clocks(),
        case.spread(),
    );
}

/// Batches that go round: what the sink takes is put back as it was before the
/// next lap, and the source hands it out again. Only the headers are written
/// anew, unless what is behind them changes on the way; nothing is allocated.
struct Carousel {
    /// The first octets of each frame, and which one comes next.
    headers: Vec<[u8; 64]>,
    next: usize,
    /// What is behind them, if it is to be written anew.
    behind: Vec<u8>,
    len: usize,
    idle: Vec<Batch>,
    ready: Vec<Batch>,
    sent: usize,
    /// The first frame that was sent.
    first: Option<Vec<u8>>,
}

/// Octets of a header.
const HEADER: usize = 64;

/// One end of a carousel: a port that only receives, or only transmits.
pub struct End {
    carousel: Arc<Mutex<Carousel>>,
    receives: bool,
    stats: PortStats,
}

/// A carousel of `packets` copies of `frame`.
pub fn carousel(cache: &mut PoolCache, frame: &[u8], packets: usize) -> (End, End) {
    let header = *frame.first_chunk().expect("a frame of 64 octets or more");
    carousel_of(cache, frame, vec![header], &[], packets)
}

/// The same, of frames that differ in their first octets and go round one after the
/// other; with `behind` written after these octets for each lap.
fn carousel_of(
    cache: &mut PoolCache,
    frame: &[u8],
    headers: Vec<[u8; 64]>,
    behind: &[u8],
    packets: usize,
) -> (End, End) {
    let mut batch = |_| -> Batch {
        let new = || cache.packet_from(frame).expect("the pool has enough");
        std::iter::repeat_with(new).take(BATCH).collect()
    };
    let state = Arc::new(Mutex::new(Carousel {
        headers,
        next: 0,
        behind: behind.to_vec(),
        len: frame.len(),
        idle: (0..packets / BATCH).map(&mut batch).collect(),
        ready: Vec::with_capacity(packets / BATCH),
        sent: 0,
        first: None,
    }));
    let end = |receives| End { carousel: state.clone(), receives, stats: PortStats::default() };
    (end(true), end(false))
}

impl End {
    /// A handle to feed the carousel with.
    pub fn handle(&self) -> Feed {
        Feed(self.carousel.clone())
    }
}

/// Lets packets into a carousel.
pub struct Feed(Arc<Mutex<Carousel>>);

impl Feed {
    /// Gets `count` packets ready to be received, fewer if there are not as many.
    pub fn start(&self, count: usize) {
        let mut state = self.0.lock().expect("nobody panicked");
        let Carousel { headers, next, behind, len, idle, ready, sent, .. } = &mut *state;
        while ready.len() * BATCH < count {
            let Some(mut batch) = idle.pop() else { break };
            for packet in &mut batch {
                packet.renew(*len);
                if let Some(front) = packet.data_mut().first_chunk_mut() {
                    *front = headers[*next];
                    *next = (*next + 1) % headers.len();
                }
                if let Some(rest) = packet.data_mut().get_mut(HEADER..HEADER + behind.len()) {
                    rest.copy_from_slice(behind);
                }
            }
            ready.push(batch);
        }
        *sent = 0;
    }

    /// The first frame that ever came out.
    pub fn first(&self) -> Option<Vec<u8>> {
        self.0.lock().expect("nobody panicked").first.clone()
    }

    /// Packets that came out since then.
    pub fn sent(&self) -> usize {
        self.0.lock().expect("nobody panicked").sent
    }
}

impl Port for End {
    // One lock for each batch: under a nanosecond for a packet.
    fn receive(&mut self, _now: Instant, _cache: &mut PoolCache, batch: &mut Batch) {
        if !self.receives {
            return;
        }
        let mut state = self.carousel.lock().expect("nobody panicked");
        if let Some(ready) = state.ready.pop() {
            debug_assert!(batch.is_empty(), "the node receives into an empty batch");
            *batch = ready;
        }
    }

    fn transmit(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        let mut state = self.carousel.lock().expect("nobody panicked");
        if self.receives {
            return batch.drain(..).for_each(|packet| cache.recycle(packet));
        }
        state.sent += batch.len();
        if state.first.is_none() {
            state.first = batch.first().map(|packet| packet.data().to_vec());
        }
        if batch.is_full() {
            return state.idle.push(std::mem::take(batch));
        }
        // The node's own, which ask for neighbours.
        batch.drain(..).for_each(|packet| cache.recycle(packet));
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}

/// A node of one worker, with `config` and one frame to carry.
pub struct Rig {
    control: Control,
    worker: Worker<Software>,
    feed: Feed,
    now: Instant,
}

impl Rig {
    /// A node whose port `from` receives `frame` over and over and whose port
    /// `to` transmits what becomes of it. Every neighbour has one address.
    pub fn new(backend: Backend, config: &str, from: &str, to: &str, frame: &[u8]) -> Self {
        let header = *frame.first_chunk().expect("a frame of 64 octets or more");
        Self::of_flows(backend, config, [from, to], frame, vec![header])
    }

    /// The same with all of the frame written anew for each lap, as the node decrypts
    /// it in place.
    pub fn renewing(backend: Backend, config: &str, ports: [&str; 2], frame: &[u8]) -> Self {
        let (header, behind) = frame.split_first_chunk().expect("a frame of 64 octets or more");
        Self::with(backend, config, ports, frame, vec![*header], behind)
    }

    /// The same with frames that differ in their first octets, one after the other.
    pub fn of_flows(
        backend: Backend,
        config: &str,
        [from, to]: [&str; 2],
        frame: &[u8],
        headers: Vec<[u8; 64]>,
    ) -> Self {
        Self::with(backend, config, [from, to], frame, headers, &[])
    }

    fn with(
        backend: Backend,
        config: &str,
        [from, to]: [&str; 2],
        frame: &[u8],
        headers: Vec<[u8; 64]>,
        behind: &[u8],
    ) -> Self {
        let config = match Config::parse("bench.toml", config, &mut named_key) {
            Ok(config) => config,
            Err(e) => panic!("{e}"),
        };
        let pool = Pool::heap(512, 2048);
        let index = |name: &str| config.ports.iter().position(|p| p.name == name);
        let (from, to) = (index(from).expect("a port"), index(to).expect("a port"));
        let environment = Environment {
            macs: vec![NODE; config.ports.len()],
            pool: pool.clone(),
            store: Box::new(Volatile::default()),
            now: Instant::ZERO,
        };
        let engine = |_| Software::new(backend);
        let (mut control, mut workers) = build(config, environment, engine).expect("builds");
        let worker = workers.remove(0);
        let (source, sink) = carousel_of(&mut pool.cache(), frame, headers, behind, UNDER_WAY);
        let feed = source.handle();
        control.attach_port(from, Box::new(source)).expect("attaches");
        control.attach_port(to, Box::new(sink)).expect("attaches");
        let tables = control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            for hop in ["192.0.2.1", "192.0.2.2", "10.2.0.9", "2001:db8::1", "2001:db8::2"] {
                tables.neighbours.set(iface, hop.parse().expect("an address"), PEER);
            }
        }
        for bridge in &tables.bridges {
            let last = *bridge.members.last().expect("a bridge has members");
            bridge.table.learn(0, BRIDGED, last, Instant::ZERO);
        }
        let mut rig = Self { control, worker, feed, now: Instant::ZERO };
        rig.feed.start(UNDER_WAY);
        let came = rig.lap(UNDER_WAY);
        assert!(came >= UNDER_WAY, "{:?}", rig.worker.report(rig.now).drops);
        rig
    }

    /// The first frame that the node sent.
    pub fn first(&self) -> Option<Vec<u8>> {
        self.feed.first()
    }

    /// Carries `packets`, in laps between which they are made as they were, which
    /// does not count: how many came out (a few of the node's own with them, which
    /// ask for neighbours), their nanoseconds and clocks.
    pub fn run(&mut self, packets: usize) -> (usize, f64, f64) {
        let (time, begin) = (std::time::Instant::now(), tsc());
        let (mut done, mut clocks) = (0, 0);
        while done < packets {
            self.feed.start(UNDER_WAY);
            let lap = tsc();
            done += self.lap(UNDER_WAY);
            clocks += tsc() - lap;
        }
        let clock = time.elapsed().as_nanos() as f64 / (tsc() - begin) as f64;
        (done, clocks as f64 * clock, clocks as f64)
    }

    /// Turns the node until so many have come out, or nothing moves.
    fn lap(&mut self, packets: usize) -> usize {
        loop {
            self.now += std::time::Duration::from_micros(10);
            let moved = self.worker.turn(self.now);
            // Reserved numbers, as the daemon's control part would.
            self.control.turn(self.now);
            let sent = self.feed.sent();
            if sent >= packets || moved == 0 {
                return sent;
            }
        }
    }
}

/// Every port of a node in a benchmark.
pub const NODE: MacAddr = MacAddr([2, 0, 0x10, 0, 0, 1]);
/// Who is behind the last member of every bridge.
pub const BRIDGED: MacAddr = MacAddr([2, 0, 0x30, 0, 0, 3]);
/// Every neighbour.
pub const PEER: MacAddr = MacAddr([2, 0, 0x20, 0, 0, 2]);
