//! Where look-aside lies against software: the same packets sealed in the
//! worker's loop, and by a thread on another core through the queue pair, over
//! batch and packet size, with and without the copies of a bus.
//!
//! Throughput is what one host gets through with a full queue. Host clocks are
//! those that it spends in `submit` and in a `collect` that brings something;
//! what it spends looking in vain is free for other work. Latency is from submit
//! to collect of one batch, with nothing else under way. On a machine of one core
//! the far end has none of its own, and the figures say so by themselves.

use ferrule_base::{Duration, Instant, Secret};
use ferrule_benches::median;
use ferrule_crypto::{Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Op, Place, Software, Span};
use ferrule_crypto::{Suite, Verdict};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{LookAside, Options, Otherwise, Own, Service};
use ferrule_ports::tsc::tsc;
use std::sync::Arc;

const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

/// Packets of a round, rounds of which the median is taken.
const PACKETS: usize = 20_000;
const ROUNDS: usize = 15;

/// Jobs under way at most.
const DEPTH: usize = 512;

type Buffer = Vec<u8>;

fn job(key: KeyId, len: usize) -> Job<Buffer> {
    let text = Span::new(16, len);
    let (op, verdict) = (Op::Seal, Verdict::Pending);
    let ad = Ad::Span(Span::new(0, 8));
    Job {
        buf: vec![0; text.end() + 16],
        key,
        ticket: 0,
        number: 0,
        nonce: [0; 12],
        op,
        verdict,
        ad,
        text,
    }
}

/// An engine, a key in it, and the clock that it is told.
struct Host {
    engine: Placed<Buffer>,
    key: KeyId,
    start: std::time::Instant,
}

/// Figures of a round.
struct Figures {
    mpps: f64,
    clocks: f64,
    latency_ns: f64,
}

impl Host {
    fn new(place: Place, batch: usize, copies: usize) -> Self {
        let options = Options {
            depth: DEPTH,
            batch,
            wait: Duration::ZERO,
            copies,
            deadline: Duration::from_secs(10),
            on_failure: Otherwise::Drop,
            on_full: Otherwise::Drop,
        };
        let mut engine = Placed::new(Software::default());
        if place == Place::LookAside {
            let make = Box::new(|| Box::new(Own::new(Software::default())) as _);
            let service = Service::start(DEPTH, make, Arc::new(|| {})).expect("a thread");
            let spares = Box::new(|| None);
            let away = LookAside::new(service, options, Software::default(), spares);
            engine = engine.with_look_aside(Box::new(away));
        }
        let spec = KeySpec::new(SUITE, Secret::new(vec![7; 16]), Secret::new(Vec::new())).at(place);
        let key = engine.install(&spec).expect("a key");
        Self { engine, key, start: std::time::Instant::now() }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Seals whole batches, `packets` at least, with as many under way as there is
    /// room for, until all are back: Mpps, host clocks.
    fn round(&mut self, batch: usize, len: usize, packets: usize) -> (f64, f64) {
        let packets = packets.next_multiple_of(batch);
        let mut idle: Vec<Job<Buffer>> = (0..DEPTH).map(|_| job(self.key, len)).collect();
        let (mut done, mut sent, mut clocks) = (0, 0, 0);
        let begin = std::time::Instant::now();
        while done < packets {
            let now = self.now();
            if sent < packets && idle.len() >= batch {
                let mut jobs: Jobs<Buffer> = idle.drain(idle.len() - batch..).collect();
                sent += batch;
                let at = tsc();
                self.engine.submit(now, &mut jobs);
                clocks += tsc() - at;
                done += jobs.len();
                idle.extend(jobs.into_iter().map(again));
            }
            let mut back = Jobs::new();
            let at = tsc();
            self.engine.collect(now, &mut back);
            if !back.is_empty() {
                clocks += tsc() - at;
                done += back.len();
                idle.extend(back.into_iter().map(again));
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        (done as f64 / seconds / 1e6, clocks as f64 / done as f64)
    }

    /// From submit to the last job of one batch, alone.
    fn latency(&mut self, batch: usize, len: usize) -> f64 {
        let mut jobs: Jobs<Buffer> = (0..batch).map(|_| job(self.key, len)).collect();
        let mut nanos = Vec::new();
        for _ in 0..200 {
            let begin = std::time::Instant::now();
            let now = self.now();
            self.engine.submit(now, &mut jobs);
            while jobs.len() < batch {
                let now = self.now();
                self.engine.collect(now, &mut jobs);
                std::hint::spin_loop();
            }
            nanos.push(begin.elapsed().as_nanos() as f64);
            jobs.iter_mut().for_each(|job| job.verdict = Verdict::Pending);
        }
        median(&nanos)
    }

    fn measure(&mut self, batch: usize, len: usize) -> Figures {
        self.round(batch, len, PACKETS / 10);
        let rounds: Vec<_> = (0..ROUNDS).map(|_| self.round(batch, len, PACKETS)).collect();
        let mpps = median(&rounds.iter().map(|r| r.0).collect::<Vec<_>>());
        let clocks = median(&rounds.iter().map(|r| r.1).collect::<Vec<_>>());
        Figures { mpps, clocks, latency_ns: self.latency(batch, len) }
    }
}

fn again(mut job: Job<Buffer>) -> Job<Buffer> {
    assert_eq!(job.verdict, Verdict::Done);
    job.verdict = Verdict::Pending;
    job
}

fn main() {
    let backend = Software::default().backend().name();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("look-aside against software, AES-128-GCM ({backend}), {cores} cores");
    println!("sizes are octets sealed; a ratio is look-aside over software in Mpps\n");
    println!(
        "  {:>5} {:>6} {:<24} {:>8} {:>7} {:>12} {:>11}",
        "size", "batch", "placement", "Mpps", "ratio", "host clocks", "latency ns"
    );
    for len in [64, 256, 512, 1024, 1420] {
        for batch in [1, 8, 32, 64] {
            let software = Host::new(Place::Software, batch, 0).measure(batch, len);
            print(len, batch, "software", &software, None);
            for (copies, name) in
                [(0, "look-aside"), (2, "look-aside, 2 copies"), (4, "look-aside, 4 copies")]
            {
                let found = Host::new(Place::LookAside, batch, copies).measure(batch, len);
                print(len, batch, name, &found, Some(&software));
            }
        }
    }
}

fn print(len: usize, batch: usize, name: &str, found: &Figures, to: Option<&Figures>) {
    let ratio = to.map_or(String::new(), |to| format!("{:.2}", found.mpps / to.mpps));
    let Figures { mpps, clocks, latency_ns } = found;
    println!(
        "  {len:>5} {batch:>6} {name:<24} {mpps:>8.2} {ratio:>7} {clocks:>12.0} {latency_ns:>11.0}"
    );
}
