//! Live measurements: the same systems with ports of the machine at hand.

use super::bench::Point;
use super::model::slope;
use super::network::System;
use super::software::Prices;
use crate::words::repeated;
use ferrule_report::Measure;

/// Before it was.
const NOT_MEASURED: &str = "not measured";

/// Measured on the machine at hand; loads are chosen to suit it.
#[derive(Clone, Debug)]
pub struct Live {
    /// How the measurements were made, and how far they can be trusted.
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
#[derive(Clone, Debug)]
pub struct LiveHop {
    /// Switches between the edges.
    pub switches: usize,
    /// Without encryption.
    pub plain: [f64; 3],
    /// With MACsec on every link.
    pub macsec: [f64; 3],
    /// Additional delay of MACsec over plain, pair by pair of consecutive trials.
    pub extra: Vec<f64>,
}

impl LiveHop {
    /// From the trials of both systems, in turn.
    pub fn of(switches: usize, plain: &[f64], macsec: &[f64]) -> Self {
        let extra: Vec<f64> = macsec.iter().zip(plain).map(|(m, p)| m - p).collect();
        let [plain, macsec] = [plain, macsec].map(median_and_ends);
        Self { switches, plain, macsec, extra }
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

    /// MACsec's extra delay for each further switch with its interval, and in how many
    /// turns it was measured: each has a slope of its own.
    pub fn extra_per_hop_us(&self) -> Option<(Measure, usize)> {
        let hops = self.hops.as_ref().ok().filter(|hops| hops.len() > 1)?;
        let turns = hops.iter().map(|hop| hop.extra.len()).min()?;
        let slope_of = |turn: usize| {
            let points = hops.iter().map(|hop| (hop.switches as f64, hop.extra[turn]));
            slope(&points.collect::<Vec<_>>())
        };
        Some(repeated(&(0..turns).map(slope_of).collect::<Vec<_>>()))
    }

    /// The first load that both were offered, and how many times the delay of IPsec is.
    pub fn ipsec_to_macsec(&self) -> Option<(f64, f64)> {
        let macsec = self.loads_of(System::Macsec);
        self.loads_of(System::Ipsec).iter().find_map(|ipsec| {
            let same = macsec.iter().find(|other| other.load_mbps == ipsec.load_mbps)?;
            Some((ipsec.load_mbps, ipsec.mean_us / same.mean_us))
        })
    }

    /// Octets on the link from P to PE2, and on the link before it.
    pub fn octets(&self, system: System) -> Option<[usize; 2]> {
        let octets = &self.loads_of(system).first()?.octets;
        Some([*octets.first()?, *octets.get(1)?])
    }
}
