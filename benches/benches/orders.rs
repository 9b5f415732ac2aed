//! Orders about SAs beside 100,000 that are there, while the node carries half of what it can:
//! 1,000 are added and 1,000 dropped a second. Time from an order to its answer, and packets
//! that were lost or overtaken.
//!
//! Worker and control part have a thread each; packets come and go by memory.

use ferrule_base::{Duration, Instant, MacAddr, Rng, Secret};
use ferrule_crypto::{Aes, KeySpec, Place, Software, Suite};
use ferrule_node::config::named_key;
use ferrule_node::{
    AgreedSa, Config, Control, Environment, Sa, SaOrder, Token, Volatile, Worker, build, made_mac,
};
use ferrule_pipeline::{BATCH, Batch, Pool, PoolCache, Port, pair};
use ferrule_tester::Large;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as Clock;

/// Tunnels, each with an SA in and one out.
const TUNNELS: usize = 50_000;
/// Adds, and drops, a second.
const RATE: u64 = 1_000;
/// Tunnels that are given new keys in turn.
const REKEYED: usize = 250;
/// Octets of a packet.
const LEN: usize = 64;
/// Address of the next hop.
const NEXT_HOP: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);
/// Octets of an Ethernet and of an IPv4 header.
const HEADERS: usize = 14 + 20;

/// Worker, ports and what they count.
struct Loaded {
    worker: Worker<Software>,
    lan: Box<dyn Port>,
    wan: Box<dyn Port>,
    cache: PoolCache,
    rng: Rng,
    gate: MacAddr,
    large: Large,
    sent: u64,
    carried: u64,
    overtaken: u64,
    /// Time of each of the worker's turns.
    turns: Vec<std::time::Duration>,
    /// The last number of each SPI.
    last: HashMap<u32, u32>,
}

impl Loaded {
    /// One batch from the LAN through the node.
    fn turn(&mut self, now: Instant, offer: bool) {
        let mut batch = Batch::new();
        for _ in 0..if offer { BATCH } else { 0 } {
            let tunnel = self.rng.below(self.large.tunnels as u64) as usize;
            let to = self.large.behind(tunnel).to_bits() + 7;
            let Some(packet) = self.cache.packet_from(&frame(self.gate, to)) else { break };
            batch.push(packet);
        }
        self.sent += batch.len() as u64;
        self.lan.transmit(now, &mut self.cache, &mut batch);
        let begin = Clock::now();
        self.worker.turn(now);
        self.turns.push(begin.elapsed());
        loop {
            self.wan.receive(now, &mut self.cache, &mut batch);
            if batch.is_empty() {
                return;
            }
            for packet in batch.drain(..) {
                let word = |at: usize| {
                    let octets = packet.data().get(HEADERS + at..).and_then(|d| d.first_chunk());
                    u32::from_be_bytes(*octets.expect("ESP"))
                };
                if packet.data()[12..14] == [8, 6] {
                    self.answer(now, packet.data());
                } else if packet.data()[12..14] == [8, 0] {
                    let last = self.last.entry(word(0)).or_default();
                    self.overtaken += u64::from(word(4) <= *last);
                    *last = word(4);
                    self.carried += 1;
                }
                self.cache.recycle(packet);
            }
        }
    }

    /// The next hop says its address (RFC 826).
    fn answer(&mut self, now: Instant, asked: &[u8]) {
        let mut reply = asked.to_vec();
        reply[..6].copy_from_slice(&asked[6..12]);
        reply[6..12].copy_from_slice(&NEXT_HOP.0);
        reply[21] = 2;
        reply[22..28].copy_from_slice(&NEXT_HOP.0);
        reply[28..32].copy_from_slice(&asked[38..42]);
        reply[32..42].copy_from_slice(&asked[22..32]);
        let mut batch = Batch::new();
        batch.extend(self.cache.packet_from(&reply));
        self.wan.transmit(now, &mut self.cache, &mut batch);
    }

    /// Prints packets sent, lost and overtaken, and drops.
    fn report(mut self, begin: Clock) {
        self.turns.sort_unstable();
        println!(
            "  {} packets sent ({:.2} Mpps), {} lost, {} overtaken",
            self.sent,
            self.sent as f64 / begin.elapsed().as_secs_f64() / 1e6,
            self.sent - self.carried,
            self.overtaken
        );
        let longest = self.turns.iter().rev().take(5);
        let longest: Vec<_> = longest.map(|t| format!("{:.2}", t.as_secs_f64() * 1e3)).collect();
        println!("  longest turns of the worker: {} ms", longest.join(", "));
        let report = self.worker.report(since(begin));
        for (reason, count) in report.drops.iter() {
            println!("    dropped {count}: {}", reason.name());
        }
    }

    /// Packets a second with nothing to wait for.
    fn capacity(&mut self, time: std::time::Duration) -> f64 {
        let (begin, before) = (Clock::now(), self.carried);
        while begin.elapsed() < time {
            self.turn(since(begin), true);
        }
        (self.carried - before) as f64 / begin.elapsed().as_secs_f64()
    }
}

fn since(begin: Clock) -> Instant {
    Instant::from_secs(1) + Duration::from_nanos(begin.elapsed().as_nanos() as u64)
}

/// A packet from the LAN to a host behind a tunnel.
fn frame(gate: MacAddr, to: u32) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LEN);
    frame.extend(gate.0);
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    frame.extend([0x45, 0, 0, (LEN - 14) as u8, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9]);
    frame.extend(to.to_be_bytes());
    let sum = frame[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame.resize(LEN, 0x5a);
    frame
}

fn node(large: Large) -> (Control, Loaded) {
    let config = Config::parse("large.toml", &large.text(), &mut named_key);
    let config = config.unwrap_or_else(|e| panic!("{e}"));
    let pool = Pool::heap(8192, 2048);
    let macs: Vec<_> = config.ports.iter().map(|p| made_mac(&config.name, &p.name)).collect();
    let gate = macs[0];
    let environment = Environment {
        macs,
        pool: pool.clone(),
        store: Box::new(Volatile::default()),
        now: Instant::ZERO,
        secret: [0; 2],
        entropy: Box::new(Rng::new(1)),
    };
    let built = build(config, environment, |_| Software::default());
    let (mut control, mut workers) = built.expect("it builds");
    let (lan, own_lan) = pair(1024, &pool, &pool);
    let (wan, own_wan) = pair(1024, &pool, &pool);
    control.attach_port(0, Box::new(own_lan)).expect("the worker takes it");
    control.attach_port(1, Box::new(own_wan)).expect("the worker takes it");
    let tables = control.tables().clone();
    for iface in 0..tables.ifaces.len() as u16 {
        let next = large.next_hop(0);
        tables.neighbours.set(iface, next.into(), NEXT_HOP);
    }
    let mut worker = workers.remove(0);
    let mut now = Instant::from_millis(1);
    for _ in 0..200 {
        now += Duration::from_micros(50);
        worker.turn(now);
        control.turn(now);
    }
    let loaded = Loaded {
        worker,
        lan: Box::new(lan),
        wan: Box::new(wan),
        cache: pool.cache(),
        rng: Rng::new(9),
        gate,
        large,
        sent: 0,
        carried: 0,
        overtaken: 0,
        turns: Vec::with_capacity(1 << 26),
        last: HashMap::new(),
    };
    (control, loaded)
}

/// Kind of an order.
#[derive(Clone, Copy)]
enum Verb {
    Add,
    Use,
    Drop,
}

/// The keys of one tunnel.
#[derive(Default)]
struct Keys {
    coming: Vec<Sa>,
    used: Vec<Sa>,
}

/// A keying protocol that gives one tunnel after the other new keys: an SA in and one out are
/// added; the one out is used; those before them are dropped.
struct Keying {
    rng: Rng,
    spi: u32,
    /// When each order was given, for which tunnel.
    given: HashMap<Token, (Clock, Verb, usize)>,
    tunnels: Vec<Keys>,
    /// Microseconds from order to answer, by verb.
    micros: [Vec<f64>; 3],
    refused: u64,
    /// Reports of all SAs that were made meanwhile.
    reports: usize,
}

impl Keying {
    fn new() -> Self {
        Self {
            rng: Rng::new(5),
            spi: 0,
            given: HashMap::new(),
            tunnels: (0..REKEYED).map(|_| Keys::default()).collect(),
            micros: Default::default(),
            refused: 0,
            reports: 0,
        }
    }

    fn give(&mut self, control: &mut Control, verb: Verb, tunnel: usize, order: SaOrder) {
        let begin = Clock::now();
        self.given.insert(control.order(order), (begin, verb, tunnel));
    }

    /// Another pair of SAs for the tunnel whose turn it is.
    fn rekey(&mut self, control: &mut Control) {
        self.spi += 2;
        let tunnel = self.spi as usize / 2 % self.tunnels.len();
        for outbound in [false, true] {
            let mut key = vec![0; 16];
            self.rng.fill(&mut key);
            let sa = AgreedSa {
                lifetimes: Default::default(),
                tunnel: format!("t{tunnel}"),
                spi: 0x4000_0000 + self.spi + u32::from(outbound),
                keys: KeySpec {
                    suite: Suite::AesGcm(Aes::Aes128),
                    key: Secret::new(key),
                    mac_key: Secret::new(Vec::new()),
                    place: Place::Software,
                },
                salt: Secret::new(vec![7; 4]),
                worker: 0,
            };
            let order = if outbound { SaOrder::AddOutbound(sa) } else { SaOrder::AddInbound(sa) };
            self.give(control, Verb::Add, tunnel, order);
        }
    }

    /// Orders for so long, and until all are answered. Time that the control part works.
    fn give_orders(
        &mut self,
        control: &mut Control,
        begin: Clock,
        seconds: u64,
    ) -> std::time::Duration {
        let mut busy = std::time::Duration::ZERO;
        let (mut asked, mut answers) = (0, None);
        while begin.elapsed().as_secs() < seconds {
            let turn = Clock::now();
            // Once a second somebody looks at all SAs.
            if begin.elapsed().as_secs() > asked {
                asked += 1;
                answers = Some(control.request_reports());
            }
            if let Some(Ok(report)) = answers.as_ref().map(|answers| answers.try_recv()) {
                self.reports += usize::from(report.esp_in.len() >= TUNNELS);
            }
            while begin.elapsed().as_secs_f64() * RATE as f64 > f64::from(self.spi) {
                self.rekey(control);
            }
            control.turn(since(begin));
            self.hear(control);
            busy += turn.elapsed();
            // As a driver waits for events.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let end = Clock::now();
        while !self.given.is_empty() && end.elapsed().as_secs() < 5 {
            control.turn(since(begin));
            self.hear(control);
        }
        busy
    }

    fn hear(&mut self, control: &mut Control) {
        while let Some((token, answer)) = control.poll_answer() {
            let Some((begin, verb, tunnel)) = self.given.remove(&token) else { continue };
            self.micros[verb as usize].push(begin.elapsed().as_secs_f64() * 1e6);
            let Ok(sa) = answer else {
                self.refused += 1;
                continue;
            };
            let keys = &mut self.tunnels[tunnel];
            match verb {
                Verb::Add => keys.coming.push(sa),
                Verb::Use => {
                    let new = std::mem::take(&mut keys.coming);
                    for old in std::mem::replace(&mut keys.used, new) {
                        self.give(control, Verb::Drop, tunnel, SaOrder::Drop(old));
                    }
                }
                Verb::Drop => {}
            }
            let keys = &self.tunnels[tunnel];
            if matches!(verb, Verb::Add)
                && let [_, _] = keys.coming[..]
                && let Some(&out) = keys.coming.iter().find(|sa| matches!(sa, Sa::Outbound(_)))
            {
                self.give(control, Verb::Use, tunnel, SaOrder::Use(out, None));
            }
        }
    }
}

fn line(name: &str, micros: &[f64]) {
    let mut micros = micros.to_vec();
    micros.sort_by(f64::total_cmp);
    let last = micros.len().saturating_sub(1) as f64;
    let at = |share: f64| micros.get((last * share) as usize).map_or(f64::NAN, |us| us / 1e3);
    println!(
        "  {name:<26} {:>8} orders   median {:>7.3} ms   p99 {:>7.3} ms   most {:>7.3} ms",
        micros.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let quick = arguments.iter().any(|a| a == "--quick");
    let seconds = if quick { 10 } else { 60 };
    let large = Large { routes: 0, tunnels: TUNNELS, ..Large::default() };
    let (mut control, mut loaded) = node(large);
    loaded.capacity(std::time::Duration::from_secs(1));
    let capacity = loaded.capacity(std::time::Duration::from_secs(2));
    println!(
        "{RATE} SAs added and {RATE} dropped a second for {seconds} s, beside {} SAs; packets of \
         {LEN} octets for tunnels at random.",
        2 * TUNNELS
    );
    println!("  alone it carries {:.2} Mpps; offered is half of that", capacity / 1e6);
    let (stop, offered) = (AtomicBool::new(false), capacity / 2.0);
    (loaded.sent, loaded.carried) = (0, 0);
    loaded.turns.clear();
    let mut keying = Keying::new();
    let (begin, carrying) = (Clock::now(), &stop);
    let busy = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            while !carrying.load(Ordering::Relaxed) {
                let due = begin.elapsed().as_secs_f64() * offered > loaded.sent as f64;
                loaded.turn(since(begin), due);
            }
            // Packets under way arrive.
            (0..1000).for_each(|_| loaded.turn(since(begin), false));
            loaded
        });
        let busy = keying.give_orders(&mut control, begin, seconds);
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("the worker runs").report(begin);
        busy
    });
    for (verb, micros) in ["add", "use", "drop"].into_iter().zip(&keying.micros) {
        line(&format!("{verb}, order to answer"), micros);
    }
    println!(
        "  {} refused, {} unanswered; {} reports of all SAs; the control part works {:.1} % of the \
         time",
        keying.refused,
        keying.given.len(),
        keying.reports,
        100.0 * busy.as_secs_f64() / begin.elapsed().as_secs_f64()
    );
    println!("  reach: none lost or overtaken, p99 of 5 ms");
}
