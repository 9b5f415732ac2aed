//! Measuring in rounds: everything that is compared runs in turn, round after
//! round, so that a machine whose speed drifts slows all of it alike. A row is
//! the median of the rounds with their spread.
#![forbid(unsafe_code)]

pub mod bare;
pub mod dpdk;
pub mod dut;
pub mod networks;
pub mod peer;
pub mod rows;
pub mod traffic;
pub mod workers;

use ferrule_base::MacAddr;
pub use ferrule_ports::tsc::tsc;

/// Rounds of which the median is taken.
pub const ROUNDS: usize = 101;

/// One thing that is measured: a name, and what does some packets.
pub struct Case<'a> {
    /// Name of the case.
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

/// Nanoseconds that this process was on a core: time that other processes take does not count.
/// (Where the kernel does not say, the time that went by.)
pub fn on_core(start: &std::time::Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
    nanos.map_or(start.elapsed().as_nanos() as f64, |n| n as f64)
}

/// Keeps this core busy until its clock stands still: the TSC goes on at one rate while a core
/// that was idle takes a second or so to its highest, and what is measured first would look
/// slow.
pub fn settle() {
    use std::time::{Duration, Instant};
    const LEAST: Duration = Duration::from_millis(1500);
    const MOST: Duration = Duration::from_secs(4);
    /// So many spins without a faster one.
    const STEADY: u32 = 1000;
    let spin = || {
        let begin = tsc();
        let sum = (1..100_000_u64).fold(1_u64, |sum, n| std::hint::black_box(sum ^ n));
        std::hint::black_box(sum);
        (tsc() - begin) as f64
    };
    let begin = Instant::now();
    let (mut best, mut steady) = (f64::INFINITY, 0);
    while begin.elapsed() < LEAST || steady < STEADY && begin.elapsed() < MOST {
        let clocks = spin();
        steady = if clocks < best * 0.99 { 0 } else { steady + 1 };
        best = best.min(clocks);
    }
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

/// Every port of a node in a benchmark.
pub const NODE: MacAddr = MacAddr([2, 0, 0x10, 0, 0, 1]);
/// Every neighbour.
pub const PEER: MacAddr = MacAddr([2, 0, 0x20, 0, 0, 2]);
