//! The tester's throughput search over two AF_XDP ports on a veth pair, against
//! the best rate that a plain sender and receiver reach there.
//!
//! ```text
//!   [ sender ] ── veth ── [ receiver ]      one thread for both, in both cases
//! ```
//!
//! The plain one fills batches with one frame, sends and counts what arrives as
//! fast as it can; it knows nothing of schedules, numbers or time. The search
//! finds the highest load at which every frame is sent in time and arrives. Both
//! run in turn, round after round, on the same ports. Reach: medians within 10 %
//! of each other, or 95 % intervals of the medians that overlap. Needs root.

use ferrule_base::{Instant, MacAddr};
use ferrule_pipeline::{Batch, PoolCache, Port};
use ferrule_ports::xdp::{BUDGET, XdpMode};
use ferrule_ports::{Opener, PortSpec, Umem, region};
use ferrule_tester::live::LEAD;
use ferrule_tester::search::throughput::{Limit, Throughput, throughput};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{
    About, Bench, BenchError, Layers, Plan, Rate, Side, Stream, Summary, Tally, Timing, Trial,
    TrialResult, TrialSpec,
};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Rounds; the median's 95 % interval needs six at least.
const ROUNDS: usize = 9;
/// A trial of the search, and a run of the plain sender.
const TRIAL: Duration = Duration::from_millis(200);
/// Loads are searched below this: more than any veth carries.
const TOP: u64 = 8_000_000;
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|a| a == "--inside") {
        let agree = [64, 1518].map(compare);
        return if agree == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let namespace = format!("bench-tester-{}", std::process::id());
    if !ip(&["netns", "add", &namespace]) {
        println!("tester: a network namespace needs root; not measured");
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().expect("this program has a path");
    let status =
        Command::new("ip").args(["netns", "exec", &namespace]).arg(own).arg("--inside").status();
    ip(&["netns", "del", &namespace]);
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).status().is_ok_and(|s| s.success())
}

/// Two ports on the ends of a veth pair.
fn ports(name: &str) -> (Vec<Box<dyn Port>>, PoolCache) {
    let ends = [format!("{name}a"), format!("{name}b")];
    assert!(ip(&["link", "add", &ends[0], "type", "veth", "peer", "name", &ends[1]]));
    for end in &ends {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        assert!(ip(&["link", "set", "dev", end, "up"]));
    }
    let umem = Umem::new(&region::pool(8192, 2048).expect("memory").0);
    let mut opener = Opener::new();
    let mut open = |device: &String| {
        let (mode, interface) = (XdpMode::Auto, device.clone());
        let spec = PortSpec::Xdp { interface, queue: 0, mode, budget: BUDGET };
        opener.open(&spec).and_then(|o| o.start(&umem)).unwrap_or_else(|e| panic!("{e}"))
    };
    (ends.iter().map(&mut open).collect(), umem.pool().cache())
}

/// Sends as fast as it can for a while; frames a second that arrived.
fn plain(ports: &mut [Box<dyn Port>], cache: &mut PoolCache, frame: &[u8]) -> f64 {
    let begin = std::time::Instant::now();
    let now = || Instant::from_nanos(begin.elapsed().as_nanos() as u64);
    let (mut outgoing, mut incoming, mut arrived) = (Batch::new(), Batch::new(), 0u64);
    let [sender, receiver] = ports else { unreachable!("two ports") };
    while begin.elapsed() < TRIAL {
        while let Some(packet) = (!outgoing.is_full()).then(|| cache.packet_from(frame)).flatten() {
            outgoing.push(packet);
        }
        sender.transmit(now(), cache, &mut outgoing);
        receiver.receive(now(), cache, &mut incoming);
        arrived += incoming.iter().filter(|p| p.len() == frame.len()).count() as u64;
        incoming.drain(..).for_each(|packet| cache.recycle(packet));
    }
    let secs = begin.elapsed().as_secs_f64();
    outgoing.drain(..).for_each(|packet| cache.recycle(packet));
    arrived as f64 / secs
}

/// The ports as the tester drives them.
struct OneSide {
    side: Side,
    epoch: u16,
    start: std::time::Instant,
}

impl Bench for OneSide {
    fn about(&self) -> About {
        About {
            device: "a pair of rings in memory".into(),
            notes: Vec::new(),
            ports: vec!["a".into(), "b".into()],
            line: None,
            clock: "monotonic".into(),
            is_virtual: false,
        }
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        let start = self.start;
        let clock = move || Instant::from_nanos(start.elapsed().as_nanos() as u64);
        self.epoch = self.epoch.wrapping_add(1);
        let mut trial = Trial::new(spec, 2, self.epoch, Vec::new())?;
        self.side.flush(clock());
        let before = self.side.counts();
        trial.start(clock() + LEAD);
        let mut legs = trial.take_legs();
        self.side.drive(&mut legs, &Tally::new(1), clock, std::hint::spin_loop);
        let mut result = trial.finish_legs(legs);
        result.ports = self.side.counts();
        for (now, then) in result.ports.iter_mut().zip(before) {
            now.tx_failed -= then.tx_failed;
            now.rx_missed -= then.rx_missed;
        }
        Ok(result)
    }
}

/// Frames a second without loss as the search finds it, and what limits it.
fn searched(bench: &mut OneSide, size: usize) -> (f64, Limit) {
    let stream = Stream::new("a", Layers::new(A, B), size, Rate::frames(1));
    let plan = Plan::one(stream, None);
    let timing = Timing { drain: Duration::from_millis(50), ..Timing::new(TRIAL) };
    let range = Range { min: 1_000_000, max: Some(TOP * 1000), resolution: 0.02 };
    let settings = Throughput { range, probe: timing, confirm: None };
    let mut watch = |_: &str| {};
    let mut work = Work::new(bench, &mut watch);
    let found = throughput(&mut work, "veth", &plan, &settings).unwrap_or_else(|e| panic!("{e}"));
    (found.load.unwrap_or(0) as f64 / 1e3, found.limit)
}

/// Rounds of both in turn; true if they agree.
fn compare(size: usize) -> bool {
    let (mut alone, mut cache) = ports(&format!("p{size}"));
    let (driven, own) = ports(&format!("t{size}"));
    let mut bench =
        OneSide { side: Side::new(driven, own), epoch: 0, start: std::time::Instant::now() };
    let mut frame = [&B.0[..], &A.0, &[0x88, 0xb5]].concat();
    frame.resize(size - 4, 0);
    let (mut plain_rates, mut search_rates, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let rate = plain(&mut alone, &mut cache, &frame);
        let (load, limit) = searched(&mut bench, size);
        if round > 0 {
            plain_rates.push(rate);
            search_rates.push(load);
            limits.push(limit);
        }
    }
    let of = |rates: &[f64]| Summary::of(rates).expect("there are rounds");
    let (plain, search) = (of(&plain_rates), of(&search_rates));
    println!("\nAF_XDP on veth, one thread, frames of {size} with FCS, {ROUNDS} rounds in turn");
    println!("  {:<44} {:>8} {:>19}", "", "Mpps", "95 % of median");
    let row = |name: &str, s: &Summary| {
        let (low, high) = s.median_95.unwrap_or((s.min, s.max));
        println!("  {name:<44} {:>8.3} {:>9.3} – {:.3}", s.median / 1e6, low / 1e6, high / 1e6);
        (low, high)
    };
    let (plain_low, plain_high) = row("plain sender and receiver", &plain);
    let (search_low, search_high) = row("throughput search (RFC 2544)", &search);
    let ratio = search.median / plain.median;
    let (near, overlap) =
        ((ratio - 1.0).abs() <= 0.1, search_low <= plain_high && plain_low <= search_high);
    let tester = limits.iter().filter(|l| **l == Limit::Tester).count();
    println!(
        "  search over plain {ratio:.3} (reach 0.9 to 1.1, or intervals that overlap: {overlap})"
    );
    println!("  limited by the sender in {tester} of {ROUNDS} rounds, else by loss");
    near || overlap
}
