//! What somebody with ports measured: the same systems on the machine at hand.

use super::bench::Point;
use super::model::slope;
use super::network::System;
use super::software::Prices;

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
}

impl LiveHop {
    /// How far one trial was from another, at most.
    pub fn spread_us(&self) -> f64 {
        let spread = |[_, least, greatest]: [f64; 3]| greatest - least;
        spread(self.plain).max(spread(self.macsec))
    }
}

impl Default for Live {
    fn default() -> Self {
        let (note, loads, ceilings) = Default::default();
        let why = || Err("not measured".to_owned());
        Self {
            note,
            loads,
            ceilings,
            hops: why().map(|()| Vec::new()),
            prices: why().map(|()| Prices::default()),
        }
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
        let points = hops.iter().map(|h| (h.switches as f64, h.macsec[0] - h.plain[0]));
        let spread = hops.iter().map(LiveHop::spread_us).fold(0.0, f64::max);
        Some((slope(&points.collect::<Vec<_>>()), spread))
    }

    /// Octets on the link from P to PE2, and on the link before it.
    pub fn octets(&self, system: System) -> Option<[usize; 2]> {
        let octets = &self.loads_of(system).first()?.octets;
        Some([*octets.first()?, *octets.get(1)?])
    }
}
