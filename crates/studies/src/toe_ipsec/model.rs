//! The model: three systems over sending speed and packet size, both ways, and TCP.

use super::bench::{Point, Way, datagrams, stream};
use super::fit;
use super::network::System;
use super::published::Study;
use crate::options::Options;

/// Octets of a frame in the sweep over speed, FCS included.
pub const OCTETS: usize = 1051;
/// Rate at which the study's offload engine sends, in Mbit/s of the line.
pub const FULL: f64 = 900.0;
/// Speeds.
pub const SPEEDS: [f64; 6] = [100.0, 200.0, 300.0, 500.0, 700.0, FULL];
/// Sizes.
pub const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1280];
/// The speed of the sweep over size: one at which even the smallest packets, sealed,
/// fit on the line.
pub const FIXED: f64 = 500.0;
/// Frames a second of the sweep over size as the study made it, by the delay between
/// packets: the largest at this rate are [`FULL`].
pub fn paced_pps() -> f64 {
    FULL * 1e6 / on_line_bits(SIZES[SIZES.len() - 1])
}

/// The load of frames of a size at that rate, in Mbit/s of the line.
pub fn paced_mbps(octets: usize) -> f64 {
    paced_pps() * on_line_bits(octets) / 1e6
}

/// Bits of a frame with preamble and gap.
fn on_line_bits(octets: usize) -> f64 {
    8.0 * (octets + 20) as f64
}

/// Frames of each load: many more than wait in a device.
const FRAMES: u64 = 3000;
const FRAMES_QUICK: u64 = 800;

/// One system, one way.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The system.
    pub system: System,
    /// The way.
    pub way: Way,
    /// At [`OCTETS`], by speed.
    pub speeds: Vec<Point>,
    /// At [`FIXED`], by size.
    pub sizes: Vec<Point>,
    /// At so many frames a second, by size.
    pub paced: Vec<Point>,
    /// A TCP stream, in Mbit/s.
    pub tcp_mbps: f64,
}

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// Curves of each system in each direction.
    pub curves: Vec<Curve>,
    /// Software's share at the highest speed, fitted to the cited overhead in place of the share.
    pub by_overhead: f64,
}

impl Model {
    /// A system's curve.
    pub fn curve(&self, system: System, way: Way) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.system == system && curve.way == way)
    }

    /// The share that arrived at the highest speed.
    pub fn share(&self, system: System, way: Way) -> f64 {
        let last = self.curve(system, way).and_then(|curve| curve.speeds.last());
        last.map_or(f64::NAN, |point| point.share)
    }
}

/// Runs it all. `say` is told what comes next.
pub fn run(options: Options, say: &mut dyn FnMut(&str)) -> Model {
    let Options { quick, seed } = options;
    let frames = if quick { FRAMES_QUICK } else { FRAMES };
    let mut curves = Vec::new();
    for system in System::ALL {
        for way in Way::ALL {
            say(&format!("{}, {}", system.key(), way.name()));
            let device = system.device();
            let at = |octets, mbps| {
                datagrams(system, device.clone(), way, (octets, mbps), (frames, seed))
            };
            curves.push(Curve {
                system,
                way,
                speeds: SPEEDS.into_iter().map(|mbps| at(OCTETS, mbps)).collect(),
                sizes: SIZES.into_iter().map(|octets| at(octets, FIXED)).collect(),
                paced: SIZES.into_iter().map(|octets| at(octets, paced_mbps(octets))).collect(),
                tcp_mbps: stream(system, device.clone(), way, seed),
            });
        }
    }
    say("fits without one of the values");
    Model { curves, by_overhead: fit::by_overhead(&Study::read()) }
}
