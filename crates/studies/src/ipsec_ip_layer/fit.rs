//! The machine that the printed slowdowns ask for.
//!
//! Six costs are free: a look-up, an SA, an octet copied, a fragment, a block of MD5, a
//! block of DES. They are fitted to the printed slowdowns by the laboratory itself: runs
//! with each cost a little higher say how every slowdown follows (a line in logarithms),
//! and least squares say where to go from there. Stack and card stay as they are known.
//!
//! A printed range is met anywhere in it, and counts once: "3 to 4" whatever the
//! transfer, and a slowdown of all transfers "above 56 Kbyte", which must hold at both ends.
//!
//! Each slowdown is left out once, and the whole fit is made anew, from the plausible machine
//! on. That takes minutes, so the file has what comes out.

use super::cases::{Application, Mode, Protection, Way};
use super::machine::{Costs, LeftOut, Machine, Parts, Processing, Quality};
use super::network::{MTU, Setting, run, tcp_of_2001};
use super::published::Study;
use crate::options::Seed;
use crate::residuals;
use Application::{Ftp, Smtp};
use ferrule_report::Measure;

/// Costs that are free: name and place.
type Free = (&'static str, fn(&mut Costs) -> &mut f64);

/// The free costs.
pub const FREE: [Free; 6] = [
    ("lookup", |c| &mut c.lookup),
    ("sa", |c| &mut c.sa),
    ("copy", |c| &mut c.copy),
    ("fragment", |c| &mut c.fragment),
    ("md5-block", |c| &mut c.md5_block),
    ("des-block", |c| &mut c.des_block),
];
const COUNT: usize = FREE.len();

/// A cost is this much higher where it is tried how slowdowns follow it.
const STEP: f64 = 1.25;
/// A cost changes by no more than this factor in one go.
const LEAP: f64 = 4.0;
/// Holds back costs that the printed numbers say nothing about.
const DAMPING: f64 = 0.01;
/// "Small" transfers are of so many octets, and the largest of all of so many.
const SMALL: u64 = 100;
const LARGEST: u64 = 1_000_000;

/// A printed slowdown.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The application that transferred.
    pub application: Application,
    /// Octets of the smallest and of the largest transfer that it is printed for.
    pub octets: [u64; 2],
    /// The protection that is compared with no IPsec.
    pub protection: Protection,
    /// The printed slowdown, or the range of it.
    pub printed: Measure,
}

/// Slowdowns of the smallest and the largest transfer of a target.
pub type Found = [f64; 2];

impl Target {
    /// The one of both slowdowns that is further from the print.
    fn further(&self, found: Found) -> usize {
        let off = found.map(|slowdown| log_off(slowdown, self.printed).abs());
        usize::from(off[1] > off[0])
    }

    /// The slowdown that is further from the print.
    pub fn furthest(&self, found: Found) -> f64 {
        found[self.further(found)]
    }

    /// The slowdown of several transfers that is furthest from the print, with the outermost ones.
    pub fn stated(&self, found: &[f64]) -> Measure {
        let off = |slowdown: &f64| log_off(*slowdown, self.printed).abs();
        let furthest = found.iter().copied().max_by(|a, b| off(a).total_cmp(&off(b)));
        let furthest = furthest.unwrap_or(f64::NAN);
        let least = found.iter().copied().fold(furthest, f64::min);
        let most = found.iter().copied().fold(furthest, f64::max);
        match least == most {
            true => Measure::new(least),
            false => Measure::within(furthest, least, most),
        }
    }
}

/// Logarithm of a slowdown relative to the print; nothing within a range.
fn log_off(found: f64, printed: Measure) -> f64 {
    (1.0 + residuals::off(found, printed) / 100.0).ln()
}

/// The printed slowdowns that the costs are fitted to.
pub fn targets(study: &Study) -> Vec<Target> {
    let mut all = Vec::new();
    for application in [Ftp, Smtp] {
        for (line, ah, esp) in study.of(application.name()) {
            let octets = match (line.octets(), line.bytes_above) {
                (Some(octets), None) => [octets as u64; 2],
                (Some(above), Some(_)) => [above as u64, LARGEST],
                (None, _) => [SMALL; 2],
            };
            for (protection, printed) in [(Protection::AhMd5, ah), (Protection::EspDes, esp)] {
                let printed = Measure::new(printed);
                all.push(Target { application, octets, protection, printed });
            }
        }
    }
    let (octets, protection) = ([SMALL, LARGEST], Protection::Bypass);
    let bypass = study.slowdown.iter().filter_map(|line| line.bypass.as_deref());
    all.extend(bypass.map(|words| {
        let printed = range(words).expect("BYPASS is printed as a range");
        Target { application: Ftp, octets, protection, printed }
    }));
    all
}

/// A range in words: `3 to 4`.
fn range(words: &str) -> Option<Measure> {
    let (low, high) = words.split_once(" to ")?;
    let (low, high): (f64, f64) = (low.parse().ok()?, high.parse().ok()?);
    Some(Measure::within(f64::midpoint(low, high), low, high))
}

/// Slowdowns of the targets on a machine with these costs.
pub fn slowdowns(costs: &Costs, targets: &[Target]) -> Vec<Found> {
    let response = |application, octets, protection| {
        let machine = costs.profile(protection, Processing::NewBuffer, Parts::ALL);
        let way = Way::of(protection, Mode::Transport);
        let setting = Setting { way, machine, behaviour: tcp_of_2001(), mtu: MTU, seed: Seed::OWN };
        run(&setting, application, octets).response_us
    };
    let mut known: Vec<((Application, u64, Protection), f64)> = Vec::new();
    let mut once = |application, octets, protection| {
        let key = (application, octets, protection);
        if let Some((_, found)) = known.iter().find(|(done, _)| *done == key) {
            return *found;
        }
        let found = response(application, octets, protection);
        known.push((key, found));
        found
    };
    let each = targets.iter().map(|target| {
        target.octets.map(|octets| {
            let without = once(target.application, octets, Protection::None);
            once(target.application, octets, target.protection) / without
        })
    });
    each.collect()
}

/// A number for each free cost.
pub type Row = [f64; COUNT];

/// How far the logarithms of slowdowns are from the printed ones, and how they follow
/// the logarithms of costs.
struct Lines {
    off: Vec<f64>,
    slopes: Vec<Row>,
}

fn lines(costs: &Costs, targets: &[Target]) -> Lines {
    let here = slowdowns(costs, targets);
    let off = off(&here, targets);
    let mut slopes = vec![[0.0; COUNT]; targets.len()];
    for (at, (_, place)) in FREE.iter().enumerate() {
        let mut other = *costs;
        *place(&mut other) *= STEP;
        let there = slowdowns(&other, targets);
        for (row, ((there, here), target)) in
            slopes.iter_mut().zip(there.iter().zip(&here).zip(targets))
        {
            let further = target.further(*here);
            row[at] = (there[further] / here[further]).ln() / STEP.ln();
        }
    }
    // A slowdown within its range asks for nothing.
    slopes.iter_mut().zip(&off).filter(|(_, off)| **off == 0.0).for_each(|(row, _)| row.fill(0.0));
    Lines { off, slopes }
}

/// How far slowdowns are from the print, in logarithms.
fn off(found: &[Found], targets: &[Target]) -> Vec<f64> {
    let each = found.iter().zip(targets);
    each.map(|(found, target)| log_off(target.furthest(*found), target.printed)).collect()
}

/// The change of logarithms that makes the squares least.
fn solve(lines: &Lines) -> Row {
    let mut matrix = [[0.0; COUNT + 1]; COUNT];
    for (off, row) in lines.off.iter().zip(&lines.slopes) {
        for (i, line) in matrix.iter_mut().enumerate() {
            line.iter_mut().zip(row).for_each(|(cell, other)| *cell += row[i] * other);
            line[COUNT] -= row[i] * off;
        }
    }
    for (i, row) in matrix.iter_mut().enumerate() {
        row[i] += DAMPING;
    }
    // The matrix is positive definite: no pivot is zero.
    for i in 0..COUNT {
        let pivot = matrix[i];
        for (k, row) in matrix.iter_mut().enumerate() {
            if k != i {
                let factor = row[i] / pivot[i];
                row.iter_mut().zip(&pivot).for_each(|(value, from)| *value -= factor * from);
            }
        }
    }
    std::array::from_fn(|i| (matrix[i][COUNT] / matrix[i][i]).clamp(-LEAP.ln(), LEAP.ln()))
}

/// The ratio of the greater to the smaller, less one, in percent.
fn percent(log: f64) -> f64 {
    100.0 * (log.abs().exp() - 1.0)
}

fn squares(off: &[f64]) -> f64 {
    off.iter().map(|value| value * value).sum()
}

/// Costs that fit better, found from others in so many rounds, and the largest error in percent.
pub fn refine(start: &Costs, targets: &[Target], rounds: usize) -> (Costs, f64) {
    let mut costs = *start;
    let mut now = lines(&costs, targets);
    for _ in 0..rounds {
        let change = solve(&now);
        let mut better = None;
        // A line is one only nearby: shorter steps where the whole one is too far.
        for part in [1.0, 0.5, 0.2, 0.05] {
            let mut other = costs;
            for ((_, place), change) in FREE.iter().zip(change) {
                *place(&mut other) *= (part * change).exp();
            }
            if squares(&off(&slowdowns(&other, targets), targets)) < squares(&now.off) {
                better = Some(other);
                break;
            }
        }
        let Some(other) = better else { break };
        costs = other;
        now = lines(&costs, targets);
    }
    (costs, now.off.iter().map(|off| percent(*off)).fold(0.0, f64::max))
}

/// The free costs.
pub fn free(costs: &Costs) -> Row {
    let mut costs = *costs;
    FREE.map(|(_, place)| *place(&mut costs))
}

/// Costs with other free ones.
pub fn with_free(costs: &Costs, free: &Row) -> Costs {
    let mut costs = *costs;
    FREE.iter().zip(free).for_each(|((_, place), value)| *place(&mut costs) = *value);
    costs
}

/// All targets but one.
pub fn others(targets: &[Target], out: usize) -> Vec<Target> {
    let each = targets.iter().enumerate().filter(|(at, _)| *at != out);
    each.map(|(_, target)| *target).collect()
}

/// Slowdowns of each target by the fit that was made without it.
pub fn predicted(machine: &Machine, targets: &[Target]) -> Vec<Found> {
    let each = targets.iter().zip(&machine.left_out).flat_map(|(target, without)| {
        slowdowns(&with_free(&machine.cost, &without.free), &[*target])
    });
    each.collect()
}

/// The fit from the plausible machine on, with and without each target: the file, as it is to be.
pub fn fit(study: &Study, rounds: usize) -> Machine {
    let (plausible, targets) = (Machine::plausible(), targets(study));
    let (mut cost, error_percent) = refine(&plausible.cost, &targets, rounds);
    // The study has "almost the same" response times with both hashes.
    cost.sha1_block = cost.md5_block;
    let left_out = (0..targets.len()).map(|out| {
        let (cost, _) = refine(&plausible.cost, &others(&targets, out), rounds);
        LeftOut { free: free(&cost) }
    });
    let mut machine = Machine {
        name: "ipsec-2001-fitted".into(),
        about: "the machine that the printed slowdowns of ipsec-ip-layer ask for".into(),
        source: "fitted".into(),
        free: FREE.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cost,
        fit: Quality { points: targets.len(), error_percent, leave_one_out_percent: 0.0 },
        left_out: left_out.collect(),
    };
    machine.fit.leave_one_out_percent = worst_percent(&predicted(&machine, &targets), &targets);
    machine
}

/// The largest error of slowdowns, in percent.
pub fn worst_percent(found: &[Found], targets: &[Target]) -> f64 {
    off(found, targets).into_iter().map(percent).fold(0.0, f64::max)
}
