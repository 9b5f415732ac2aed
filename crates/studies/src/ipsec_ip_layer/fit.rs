//! The machine that the printed slowdowns ask for.
//!
//! Six costs are free: a look-up, an SA, an octet copied, a fragment, a block of MD5, a
//! block of DES. They are fitted to the printed slowdowns by the laboratory itself: runs
//! with each cost a little higher say how every slowdown follows (a line in logarithms),
//! and least squares say where to go from there. Stack and card stay as they are known.
//!
//! For the error of a value left out, the same lines are solved without it.

use super::cases::{Application, Mode, Protection, Way};
use super::machine::{Costs, Machine, Parts, Processing, Quality};
use super::network::{MTU, Setting, run, tcp_of_2001};
use super::published::Study;
use Application::{Ftp, Smtp};

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
/// "Small" transfers, and those above 57,344 octets, are of so many.
const SMALL: u64 = 100;
const LARGE: u64 = 100_000;
/// BYPASS is printed as 3 to 4.
const BYPASS: f64 = 3.5;

/// A printed slowdown.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The application that transferred.
    pub application: Application,
    /// Octets.
    pub octets: u64,
    /// The protection that is compared with no IPsec.
    pub protection: Protection,
    /// The printed slowdown.
    pub printed: f64,
}

/// The printed slowdowns that the costs are fitted to.
pub fn targets(study: &Study) -> Vec<Target> {
    let mut all = Vec::new();
    for (application, octets_above) in [(Ftp, LARGE), (Smtp, SMALL)] {
        for (line, ah, esp) in study.of(application.name()) {
            let octets = match (line.octets(), line.bytes_above) {
                (Some(octets), None) => octets as u64,
                _ => octets_above,
            };
            for (protection, printed) in [(Protection::AhMd5, ah), (Protection::EspDes, esp)] {
                all.push(Target { application, octets, protection, printed });
            }
        }
    }
    for octets in [SMALL, LARGE] {
        let protection = Protection::Bypass;
        all.push(Target { application: Ftp, octets, protection, printed: BYPASS });
    }
    all
}

/// Slowdowns of the targets on a machine with these costs.
pub fn slowdowns(costs: &Costs, targets: &[Target]) -> Vec<f64> {
    let response = |target: &Target, protection| {
        let machine = costs.profile(protection, Processing::NewBuffer, Parts::ALL);
        let way = Way::of(protection, Mode::Transport);
        let setting = Setting { way, machine, behaviour: tcp_of_2001(), mtu: MTU };
        run(&setting, target.application, target.octets).response_us
    };
    let mut plain: Vec<((Application, u64), f64)> = Vec::new();
    let each = targets.iter().map(|target| {
        let key = (target.application, target.octets);
        let without = match plain.iter().find(|(known, _)| *known == key) {
            Some((_, without)) => *without,
            None => {
                let without = response(target, Protection::None);
                plain.push((key, without));
                without
            }
        };
        response(target, target.protection) / without
    });
    each.collect()
}

type Row = [f64; COUNT];

/// How far the logarithms of slowdowns are from the printed ones, and how they follow
/// the logarithms of costs.
struct Lines {
    off: Vec<f64>,
    slopes: Vec<Row>,
}

fn lines(costs: &Costs, targets: &[Target]) -> Lines {
    let here = slowdowns(costs, targets);
    let off = here.iter().zip(targets).map(|(found, t)| (found / t.printed).ln()).collect();
    let mut slopes = vec![[0.0; COUNT]; targets.len()];
    for (at, (_, place)) in FREE.iter().enumerate() {
        let mut other = *costs;
        *place(&mut other) *= STEP;
        for (row, (there, here)) in
            slopes.iter_mut().zip(slowdowns(&other, targets).iter().zip(&here))
        {
            row[at] = (there / here).ln() / STEP.ln();
        }
    }
    Lines { off, slopes }
}

/// The change of logarithms that makes the squares least, without one of the rows.
fn solve(lines: &Lines, without: Option<usize>) -> Row {
    let mut matrix = [[0.0; COUNT + 1]; COUNT];
    for (at, (off, row)) in lines.off.iter().zip(&lines.slopes).enumerate() {
        if without == Some(at) {
            continue;
        }
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

fn percent(log: f64) -> f64 {
    100.0 * (log.exp() - 1.0).abs()
}

fn squares(off: &[f64]) -> f64 {
    off.iter().map(|value| value * value).sum()
}

/// Costs that fit better, found from others in so many rounds, and how well they fit.
pub fn refine(start: &Costs, targets: &[Target], rounds: usize) -> (Costs, Quality) {
    let mut costs = *start;
    let mut now = lines(&costs, targets);
    for _ in 0..rounds {
        let change = solve(&now, None);
        let mut better = None;
        // A line is one only nearby: shorter steps where the whole one is too far.
        for part in [1.0, 0.5, 0.2, 0.05] {
            let mut other = costs;
            for ((_, place), change) in FREE.iter().zip(change) {
                *place(&mut other) *= (part * change).exp();
            }
            let off = slowdowns(&other, targets);
            let off = off.iter().zip(targets).map(|(found, t)| (found / t.printed).ln());
            if squares(&off.collect::<Vec<_>>()) < squares(&now.off) {
                better = Some(other);
                break;
            }
        }
        let Some(other) = better else { break };
        costs = other;
        now = lines(&costs, targets);
    }
    let left_out = (0..targets.len()).map(|at| {
        let change = solve(&now, Some(at));
        let moved: f64 = now.slopes[at].iter().zip(change).map(|(slope, by)| slope * by).sum();
        percent(now.off[at] + moved)
    });
    let quality = Quality {
        points: targets.len(),
        error_percent: now.off.iter().map(|off| percent(*off)).fold(0.0, f64::max),
        leave_one_out_percent: left_out.fold(0.0, f64::max),
    };
    (costs, quality)
}

/// The fit from the plausible machine on: the file, as it is to be.
pub fn fit(study: &Study, rounds: usize) -> Machine {
    let plausible = Machine::plausible();
    let (mut cost, fit) = refine(&plausible.cost, &targets(study), rounds);
    // The study has "almost the same" response times with both hashes.
    cost.sha1_block = cost.md5_block;
    Machine {
        name: "ipsec-2001-fitted".into(),
        about: "the machine that the printed slowdowns of ipsec-ip-layer ask for".into(),
        source: "fitted".into(),
        free: FREE.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cost,
        fit,
    }
}
