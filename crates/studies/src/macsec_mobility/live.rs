//! What somebody with ports measured: the same systems on the machine at hand.

use super::bench::Point;
use super::network::System;

/// Measured on the machine at hand; loads are chosen to suit it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// What was measured, and what it is worth.
    pub note: String,
    /// By system; octets are those of the links between PE1 and P, and P and PE2.
    pub loads: Vec<(System, Vec<Point>)>,
}

impl Live {
    /// The loads of a system.
    pub fn loads_of(&self, system: System) -> &[Point] {
        self.loads.iter().find(|(of, _)| *of == system).map_or(&[], |(_, points)| points)
    }

    /// Octets on the link from P to PE2, and on the link before it.
    pub fn octets(&self, system: System) -> Option<[usize; 2]> {
        let octets = &self.loads_of(system).first()?.octets;
        Some([*octets.first()?, *octets.get(1)?])
    }
}
