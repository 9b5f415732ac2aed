//! The tester at both ends of two nodes: a hidden command of this program
//! (`study-bench`), for a namespace is entered by a process. It takes what is to be
//! sent as JSON, and prints what became of it as JSON.

use crate::test::bench::{Instrument, LiveBench, Wiring};
use clap::Args;
use ferrule_base::MacAddr;
use ferrule_tester::responder::Home;
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The tester's addresses, and those of the nodes towards it.
pub const ENDS: [MacAddr; 2] = [MacAddr([2, 15, 226, 1, 2, 1]), MacAddr([2, 15, 226, 2, 2, 1])];
pub const LANS: [MacAddr; 2] = [MacAddr([2, 15, 226, 1, 1, 1]), MacAddr([2, 15, 226, 2, 1, 1])];
/// Octets of Ethernet's header and FCS.
pub const ETHERNET: usize = 18;
/// The same with preamble and gap.
pub const LINE_OVERHEAD: usize = ETHERNET + 20;
/// Packets pass within this time, or something is wrong.
const JOINED: Duration = Duration::from_secs(15);
/// Packets a second while waiting for that, and their octets.
const GENTLE: f64 = 40.0;
const SMALL: usize = 60;
/// So often a load is offered that a busy machine's tester could not send in time.
const ATTEMPTS: usize = 3;
/// In time for a call.
const IN_TIME: Duration = Duration::from_millis(100);

/// A stream of packets of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// From which end: 0 sends through the first node, and the other one opens.
    pub from: usize,
    /// Octets of an IP packet.
    pub octets: usize,
    /// Packets a second.
    pub pps: f64,
}

/// Streams at one time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// The streams to send.
    pub loads: Vec<Load>,
    /// Duration of the counted part, in seconds.
    pub seconds: f64,
    /// Sent before that, and not counted.
    pub warm_up: f64,
    /// Waited for late packets at most.
    pub drain: f64,
}

/// Result of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Got {
    /// Packets sent.
    pub offered: u64,
    /// Packets that could not be sent in time.
    pub unsent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that arrived with other octets.
    pub corrupted: u64,
    /// Of these, behind one that was sent later.
    pub reordered: u64,
    /// Within 100 ms.
    pub in_time: u64,
    /// From the first arrival to the last.
    pub span_s: f64,
    /// Mean delay.
    pub mean_us: f64,
    /// The median.
    pub median_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Became {
    /// By stream.
    pub got: Vec<Got>,
    /// Time of the watched process's worker on a core, in nanoseconds; of the whole
    /// trial, warm-up included.
    pub worker_ns: u64,
    /// Packets that it had a part in.
    pub carried: u64,
}

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The two devices
    #[arg(long, value_delimiter = ',')]
    ports: Vec<String>,
    /// The process whose worker's time is taken
    #[arg(long)]
    watch: Option<u32>,
    /// Trials, as JSON; without, as many packets as show that both nodes are joined
    #[arg(long, default_value = "[]")]
    trials: String,
}

impl BenchArgs {
    /// The companion: trials, and what became of them as JSON.
    pub fn run(self) -> ExitCode {
        match self.measure() {
            Ok(measured) => {
                println!("{}", serde_json::to_string(&measured).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<Vec<Became>, String> {
        let trials: Vec<Trial> = serde_json::from_str(&self.trials).map_err(|e| e.to_string())?;
        let names: Vec<_> = self
            .ports
            .iter()
            .map(|name| format!("af-packet:{name}").parse())
            .collect::<Result<_, _>>()?;
        let wiring = Wiring { threads: 1, line: None, longest: 1518 };
        let stop = Arc::new(AtomicBool::new(false));
        let mut bench = LiveBench::open(&names, wiring, stop).map_err(|fault| fault.to_string())?;
        let home = |side: usize| vec![Home { first: site(side), count: 1, mac: ENDS[side] }];
        bench.answer_for(vec![home(0), home(1)]);
        if trials.is_empty() {
            return join(&mut bench).map(|()| Vec::new());
        }
        trials.iter().map(|trial| self.one(&mut bench, trial)).collect()
    }

    fn one(&self, bench: &mut LiveBench, trial: &Trial) -> Result<Became, String> {
        let mut attempts = 0;
        loop {
            let before = self.watch.map_or(0, worker_ns);
            let mut became = run(bench, trial)?;
            became.worker_ns = self.watch.map_or(0, worker_ns).saturating_sub(before);
            attempts += 1;
            let sent = became.got.iter().all(|got| got.unsent * 20 <= got.offered);
            if sent || attempts == ATTEMPTS || self.watch.is_none() {
                return Ok(became);
            }
        }
    }
}

fn site(side: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, side as u8 + 1, 10).into()
}

/// Returns once packets pass both ways.
fn join(bench: &mut LiveBench) -> Result<(), String> {
    let begun = Instant::now();
    let load = |from| Load { from, octets: SMALL, pps: GENTLE };
    let trial = Trial { loads: vec![load(0), load(1)], seconds: 0.2, warm_up: 0.05, drain: 0.5 };
    while begun.elapsed() < JOINED {
        let became = run(bench, &trial)?;
        if became.got.iter().all(|got| got.offered > 0 && got.received == got.offered) {
            return Ok(());
        }
    }
    Err(format!("no packets arrive within {} s", JOINED.as_secs()))
}

fn stream(load: &Load) -> Stream {
    let from = load.from.min(1);
    let mut layers = Layers::new(ENDS[from], LANS[from]);
    layers.datagram = Datagram::between(site(from), site(1 - from));
    let rate = Rate::MilliFrames((load.pps * 1000.0) as u64);
    let mut stream = Stream::new("study", layers, load.octets + ETHERNET, rate);
    (stream.tx, stream.rx) = (from, 1 - from);
    stream
}

fn run(bench: &mut LiveBench, trial: &Trial) -> Result<Became, String> {
    let plan = Plan { streams: trial.loads.iter().map(stream).collect(), line: None };
    let mut timing = Timing::new(Duration::from_secs_f64(trial.seconds));
    timing.warm_up = Duration::from_secs_f64(trial.warm_up);
    timing.drain = Duration::from_secs_f64(trial.drain);
    let result = bench.trial(&TrialSpec { plan, timing }).map_err(|e| e.to_string())?;
    let got = result.streams.iter().map(|stream| {
        let (received, latency) = (&stream.received, &stream.received.latency);
        let limit = IN_TIME.as_nanos() as u64;
        let within = latency.buckets().into_iter().filter(|(nanos, _)| *nanos <= limit);
        let micros = |nanos: Option<u64>| nanos.map_or(0.0, |nanos| nanos as f64 / 1000.0);
        Got {
            offered: stream.offered,
            unsent: stream.unsent,
            received: received.frames,
            corrupted: received.corrupted,
            reordered: received.reordered,
            span_s: received.span.map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
            in_time: within.map(|(_, count)| count).sum(),
            mean_us: latency.mean().unwrap_or(0.0) / 1000.0,
            median_us: micros(latency.quantile(0.5)),
            max_us: micros(latency.max()),
        }
    });
    let got: Vec<Got> = got.collect();
    let carried = got.iter().map(|got| got.received).sum::<u64>() as f64;
    // What warmed up took the worker's time as well.
    let all = 1.0 + trial.warm_up / trial.seconds;
    Ok(Became { got, worker_ns: 0, carried: (carried * all) as u64 })
}

/// Time that the worker of a process has had on a core. Where the kernel does not say,
/// nothing.
pub fn worker_ns(process: u32) -> u64 {
    let tasks = format!("/proc/{process}/task");
    let Ok(entries) = std::fs::read_dir(&tasks) else { return 0 };
    let each = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let time = times.split_whitespace().next()?.parse::<u64>().ok()?;
        name.starts_with("worker").then_some(time)
    });
    each.sum()
}
