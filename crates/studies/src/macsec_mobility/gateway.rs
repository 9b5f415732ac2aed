//! The IPsec gateway, fitted to table 2.
//!
//! The printed delay is the same at 20 and 40 Mbit/s, a fifth more at 60 and hardly
//! more at 80, and the gateway is full near 120. A server with a queue does not do
//! that: at a constant rate nobody waits before it is full, and one whose work varies
//! lets frames wait ever longer. A gateway that looks at its ports at fixed times
//! does: as long as at most one frame comes between two looks each waits half a
//! period and is worked on alone; from there on frames are taken in pairs, and each
//! waits for the work on both; with a budget per look it is full at budget over
//! period, however short the work.
//!
//! ```text
//!   looks    |         |         |         |
//!   40 Mbit/s  x          x         x            one each: half a period + work
//!   60 Mbit/s  x      x      x      x      x     pairs now and then: + work for both
//! ```
//!
//! The free parameters are searched on a grid, against a closed form of two such
//! gateways in a row (`ferrule_formulas::polling`), which is tested against the laboratory.

use super::bench::{FRAME, LINE_OVERHEAD};
use super::profiles::Gateway;
use ferrule_formulas::polling::{self, Poller};

/// The path around two gateways, as a single frame sees it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Lines and switches: everything that is no gateway.
    pub fixed_us: f64,
    /// From one frame of a burst to the next, on the slowest line between them.
    pub spacing_us: f64,
}

/// Published values that a gateway is fitted to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Load and delay.
    pub delays: Vec<(f64, f64)>,
    /// The load that fills it.
    pub full_mbps: f64,
}

impl Target {
    /// Values in all.
    pub fn points(&self) -> usize {
        self.delays.len() + 1
    }

    /// Each value with its place in the print and its unit.
    pub fn values(&self) -> impl Iterator<Item = (String, &'static str, f64)> {
        let delays = self.delays.iter();
        let delays = delays.map(|(load, delay)| (format!("table 2, {load} Mbit/s"), "µs", *delay));
        let full = ("section 3.4, load that fills it".to_owned(), "Mbit/s", self.full_mbps);
        delays.chain([full])
    }
}

/// The gateway that fits best, and how well.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Its parameters.
    pub gateway: Gateway,
    /// The largest error, in percent.
    pub error_percent: f64,
    /// Each value of the target, by this gateway and by the one that fits the others best.
    pub values: Vec<[f64; 2]>,
}

/// Number of free parameters: period, budget, work.
pub const FREE: usize = 3;
/// Number of free parameters of [`fit_queue`]: latency, scale, and the load that fills it.
pub const FREE_QUEUE: usize = 3;

/// Bits of a frame on the line.
pub const FRAME_BITS: f64 = (8 * (FRAME + LINE_OVERHEAD)) as f64;

fn poller(gateway: &Gateway, spacing_us: f64) -> Poller {
    let Gateway { poll_us, budget, work_us } = *gateway;
    Poller { poll_us, budget, work_us, spacing_us }
}

/// The mean delay of two gateways in a row without what lies around them: frames come
/// at a constant rate.
pub fn waiting_us(gateway: &Gateway, path: &Path, load_mbps: f64) -> f64 {
    polling::waiting_us(&poller(gateway, path.spacing_us), FRAME_BITS / load_mbps)
}

/// The load that fills it.
pub fn full_mbps(gateway: &Gateway) -> f64 {
    polling::full_per_us(&poller(gateway, 0.0)) * FRAME_BITS
}

/// One point of the grid, with what it says to each published value.
struct Candidate {
    gateway: Gateway,
    delays: Vec<f64>,
    full: f64,
}

/// The grid: periods from 120 to 280 us, two to four frames a look, work up to 72 us a frame;
/// of these gateways, those that are full at a load that is asked for.
fn grid(target: &Target, path: &Path, is_meant: impl Fn(f64) -> bool) -> Vec<Candidate> {
    let mut grid = Vec::new();
    for budget in 2..=4 {
        // Half-steps: a period that divides the distance of frames would lock to them.
        for period in (0..160).map(|n| 120.37 + f64::from(n)) {
            for work in (1..=72).map(f64::from) {
                let gateway = Gateway { poll_us: period, budget, work_us: work };
                let full = full_mbps(&gateway);
                if !is_meant(full) || work * budget as f64 > period {
                    continue;
                }
                let delay =
                    |&(load, _): &(f64, f64)| path.fixed_us + waiting_us(&gateway, path, load);
                let delays = target.delays.iter().map(delay).collect();
                grid.push(Candidate { gateway, delays, full });
            }
        }
    }
    grid
}

/// Searches the grid, once for all values and once without each of them.
pub fn fit(target: &Target, path: &Path) -> Fitted {
    // Further off than that none is the best, as long as the load that fills it is seen.
    let near = grid(target, path, |full| (full / target.full_mbps - 1.0).abs() <= 0.15);
    let (gateway, error_percent) = best(&near, target, None);
    let values = (0..target.points()).map(|point| {
        let (other, _) = match target.delays.get(point) {
            Some(_) => best(&near, target, Some(point)),
            // All that is known of it then: it carries what the table has delays of.
            None => {
                let most = target.delays.iter().map(|(load, _)| *load).fold(0.0, f64::max);
                best(&grid(target, path, |full| full > most), target, Some(point))
            }
        };
        [gateway, other].map(|gateway| answer(target, path, &gateway, point))
    });
    Fitted { gateway, error_percent, values: values.collect() }
}

/// A gateway's answer to a published value.
fn answer(target: &Target, path: &Path, gateway: &Gateway, point: usize) -> f64 {
    match target.delays.get(point) {
        Some(&(load, _)) => path.fixed_us + waiting_us(gateway, path, load),
        None => full_mbps(gateway),
    }
}

/// The candidate with the smallest largest error, and that error in percent; `without`
/// is a value that it does not see.
fn best(grid: &[Candidate], target: &Target, without: Option<usize>) -> (Gateway, f64) {
    let judged = grid.iter().map(|candidate| {
        let delays = candidate.delays.iter().zip(&target.delays).map(|(model, p)| model / p.1);
        let ratios = delays.chain([candidate.full / target.full_mbps]).enumerate();
        let seen = ratios.filter(|(point, _)| without != Some(*point));
        let error = seen.map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max);
        (candidate.gateway, 100.0 * error)
    });
    let smallest = judged.min_by(|a, b| a.1.total_cmp(&b.1));
    smallest.expect("the grid is not empty")
}

/// Offset that, added to every model value, makes the largest relative error smallest, and that
/// error in percent: it lies where two of the error lines cross highest.
fn centre(points: &[(f64, f64)]) -> (f64, f64) {
    let error = |add: f64| {
        let each = points.iter().map(|(model, published)| ((model + add) / published - 1.0).abs());
        100.0 * each.fold(0.0, f64::max)
    };
    // The largest of some absolute values of lines is convex: thirds find its bottom.
    let (mut low, mut high) = (0.0, points.iter().map(|p| p.1).fold(0.0, f64::max));
    for _ in 0..80 {
        let third = (high - low) / 3.0;
        if error(low + third) < error(high - third) { high -= third } else { low += third }
    }
    (low, error(low))
}

/// The same table by a server with a queue: a latency, and waiting that grows as
/// load over room. Three free parameters; what one would try first.
pub fn fit_queue(target: &Target) -> QueueFitted {
    let delays = |scale: f64, full: f64, (load, _): &(f64, f64)| {
        let rho = load / full;
        scale * rho / (1.0 - rho)
    };
    let search = |without: Option<usize>| {
        let mut found = (f64::INFINITY, [0.0; 3]);
        // From the highest load with a delay to twice what the print says fills it.
        for full in (1..=320).map(|n| 80.0 + f64::from(n) * 0.5) {
            for scale in (1..=240).map(|n| f64::from(n) * 0.5) {
                let points = target.delays.iter().enumerate().filter(|(n, _)| without != Some(*n));
                let points: Vec<_> = points.map(|(_, p)| (delays(scale, full, p), p.1)).collect();
                let (latency, mut error) = centre(&points);
                if without != Some(target.delays.len()) {
                    error = error.max(100.0 * (full / target.full_mbps - 1.0).abs());
                }
                if error < found.0 {
                    found = (error, [latency, scale, full]);
                }
            }
        }
        found
    };
    let (error, [latency, scale, full]) = search(None);
    let left_out = (0..target.points()).map(|point| {
        let (_, [latency, scale, full]) = search(Some(point));
        match target.delays.get(point) {
            Some(value) => 100.0 * ((latency + delays(scale, full, value)) / value.1 - 1.0).abs(),
            None => 100.0 * (full / target.full_mbps - 1.0).abs(),
        }
    });
    let leave_one_out_percent = left_out.fold(0.0, f64::max);
    QueueFitted {
        latency_us: latency,
        scale_us: scale,
        full_mbps: full,
        error_percent: error,
        leave_one_out_percent,
    }
}

/// A server with a queue, fitted.
#[derive(Clone, Copy, Debug)]
pub struct QueueFitted {
    /// The delay that does not depend on load.
    pub latency_us: f64,
    /// Waiting at half the load that fills it.
    pub scale_us: f64,
    /// The load that fills it.
    pub full_mbps: f64,
    /// The largest error, in percent.
    pub error_percent: f64,
    /// The largest error of a value that was left out of its own fit, in percent.
    pub leave_one_out_percent: f64,
}
