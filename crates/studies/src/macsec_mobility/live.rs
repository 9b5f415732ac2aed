//! What somebody with ports measured: the same systems on the machine at hand.

use super::bench::Point;
use super::model::slope;
use super::network::System;
use super::software::Prices;

/// Before it was.
const NOT_MEASURED: &str = "not measured";

/// Measured on the machine at hand; loads are chosen to suit it.
#[derive(Clone, Debug)]
pub struct Live {
    /// What was measured, and what it is worth.
    pub note: String,
    /// By system; octets are those of the links between PE1 and P, and P and PE2.
    pub loads: Vec<(System, Vec<Point>)>,
    /// The highest load without loss, in Mbit/s of the line.
    pub ceilings: Vec<(System, f64)>,
    /// Delay by number of switches, or why it was not measured.
    pub hops: Result<Vec<LiveHop>, String>,
    /// Work of a switch on a frame, or why it was not measured.
    pub prices: Result<Prices, String>,
}

/// A chain with so many switches between the edges: delay in microseconds, as the
/// median of trials, the least, and the greatest.
#[derive(Clone, Copy, Debug)]
pub struct LiveHop {
    /// Switches between the edges.
    pub switches: usize,
    /// Without encryption.
    pub plain: [f64; 3],
    /// With MACsec on every link.
    pub macsec: [f64; 3],
    /// What MACsec had more in trials one right behind the other.
    pub extra: [f64; 3],
}

impl LiveHop {
    /// From the trials of both systems, in turn.
    pub fn of(switches: usize, plain: &[f64], macsec: &[f64]) -> Self {
        let extra: Vec<f64> = macsec.iter().zip(plain).map(|(m, p)| m - p).collect();
        let [plain, macsec, extra] = [plain, macsec, &extra].map(median_and_ends);
        Self { switches, plain, macsec, extra }
    }

    /// How far what MACsec had more was apart from trial to trial.
    pub fn spread_us(&self) -> f64 {
        let [_, least, greatest] = self.extra;
        greatest - least
    }
}

/// The median, the least, the greatest.
fn median_and_ends(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    [at(values.len() / 2), at(0), at(values.len().saturating_sub(1))]
}

impl Default for Live {
    fn default() -> Self {
        let (note, loads, ceilings) = Default::default();
        let (hops, prices) = (Err(NOT_MEASURED.into()), Err(NOT_MEASURED.into()));
        Self { note, loads, ceilings, hops, prices }
    }
}

impl Live {
    /// The loads of a system.
    pub fn loads_of(&self, system: System) -> &[Point] {
        self.loads.iter().find(|(of, _)| *of == system).map_or(&[], |(_, points)| points)
    }

    /// MACsec's extra delay for each further switch, and how far trials were apart.
    pub fn extra_per_hop_us(&self) -> Option<(f64, f64)> {
        let hops = self.hops.as_ref().ok().filter(|hops| hops.len() > 1)?;
        let points = hops.iter().map(|h| (h.switches as f64, h.extra[0]));
        let spread = hops.iter().map(LiveHop::spread_us).fold(0.0, f64::max);
        Some((slope(&points.collect::<Vec<_>>()), spread))
    }

    /// Octets on the link from P to PE2, and on the link before it.
    pub fn octets(&self, system: System) -> Option<[usize; 2]> {
        let octets = &self.loads_of(system).first()?.octets;
        Some([*octets.first()?, *octets.get(1)?])
    }
}
