//! Figures 2 and 9 beyond six switches: chains of up to 32, and of each delay its parts.
//!
//! ```text
//!   tester ─▶ line ─▶ [CE1] ─▶ line ─▶ [S1] ─▶ line ─▶ … ─▶ [Sn] ─▶ line ─▶ [CE2] ─▶ line ─▶ tester
//!             └── first edge ──────┘   └── hop 1 ──┘      └── hop n ───┘   └── last edge ──┘
//! ```
//!
//! A hop is a switch and the line behind it. Parts are those that the laboratory noted of
//! every frame as it went, and add up to what the tester measured.

use super::bench::{self, Offered, Point};
use super::network::{self, Lines, System};
use super::profiles::Profiles;
use ferrule_lab::{Parts, Spot};
use std::ops::AddAssign;

/// Switches between the edges.
pub const CHAIN: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The load at which nobody but the gateways lets a frame wait.
pub const LOW: Offered = Offered::even(20.0);
/// The same frames in bursts at the rate of the line, as hosts send them; together they are
/// the highest load of table 2.
pub const BURSTS: Offered = Offered::bursts(80.0, 16);
/// Frames of each chain.
const FRAMES: u64 = 480;

/// Parts of a delay as the study can tell them apart, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Bits on lines.
    pub line_ps: u64,
    /// Forwarding.
    pub lookup_ps: u64,
    /// Sealing and opening.
    pub crypto_ps: u64,
    /// Waiting.
    pub queue_ps: u64,
    /// Latency of switches, which occupies nobody.
    pub latency_ps: u64,
    /// Work of gateways, look-up and crypto in one: the print tells no more.
    pub work_ps: u64,
}

/// A part: its name, and how to find it.
pub type Share = (&'static str, fn(&Shares) -> u64);

/// Every part of a delay.
pub const SHARES: [Share; 6] = [
    ("line", |s| s.line_ps),
    ("look-up", |s| s.lookup_ps),
    ("crypto", |s| s.crypto_ps),
    ("queue", |s| s.queue_ps),
    ("latency", |s| s.latency_ps),
    ("gateways' work", |s| s.work_ps),
];

impl Shares {
    /// At a gateway work is in one piece.
    fn of(parts: &Parts, gateway: bool) -> Self {
        let whole = Self {
            line_ps: parts.line_ps + parts.cable_ps,
            lookup_ps: parts.lookup_ps,
            crypto_ps: parts.crypto_ps,
            queue_ps: parts.queue_ps,
            latency_ps: parts.latency_ps,
            work_ps: 0,
        };
        match gateway {
            true => Self {
                work_ps: whole.lookup_ps + whole.crypto_ps,
                lookup_ps: 0,
                crypto_ps: 0,
                ..whole
            },
            false => whole,
        }
    }

    /// Sum of the parts.
    pub fn total_ps(&self) -> u64 {
        SHARES.iter().map(|(_, of)| of(self)).sum()
    }
}

impl AddAssign for Shares {
    fn add_assign(&mut self, other: Self) {
        self.line_ps += other.line_ps;
        self.lookup_ps += other.lookup_ps;
        self.crypto_ps += other.crypto_ps;
        self.queue_ps += other.queue_ps;
        self.latency_ps += other.latency_ps;
        self.work_ps += other.work_ps;
    }
}

/// A chain under a load.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The system.
    pub system: System,
    /// Switches between the edges.
    pub switches: usize,
    /// The tester's result.
    pub point: Point,
    /// Frames that were followed from end to end.
    pub frames: u64,
    /// Delays of all of them together, in picoseconds.
    pub delay_ps: u64,
    /// Parts of those, by place: the first edge, the hops, the last edge.
    pub places: Vec<Shares>,
}

impl Chain {
    /// Parts of the delay from end to end, of all frames.
    pub fn shares(&self) -> Shares {
        let mut all = Shares::default();
        self.places.iter().for_each(|place| all += *place);
        all
    }

    /// The mean of a frame in microseconds.
    pub fn mean_us(&self, all_ps: u64) -> f64 {
        all_ps as f64 / 1e6 / self.frames.max(1) as f64
    }
}

/// Runs a chain.
pub fn run(
    system: System,
    switches: usize,
    (profiles, lines): (&Profiles, Lines),
    offered: Offered,
) -> Chain {
    let built = network::chain(system, switches, profiles, lines);
    let edges = [built.devices[0].1, built.devices[built.devices.len() - 1].1];
    let (point, journeys) = bench::follow(built, system, offered, FRAMES);
    let mut places = vec![Shares::default(); switches + 2];
    let mut delay_ps = 0;
    for journey in &journeys {
        delay_ps += 1000 * journey.ended.since(journey.begun).as_nanos() as u64;
        let mut devices: usize = 0;
        for passage in &journey.passages {
            let gateway = match passage.at {
                Spot::Device(id) => {
                    devices += 1;
                    system == System::Ipsec && edges.contains(&id)
                }
                Spot::Link(..) => false,
            };
            // The line in front of the first edge is its own.
            if let Some(place) = places.get_mut(devices.saturating_sub(1)) {
                *place += Shares::of(&passage.parts, gateway);
            }
        }
    }
    Chain { system, switches, point, frames: journeys.len() as u64, delay_ps, places }
}

/// Every chain under a load.
pub fn all(systems: &[System], on: (&Profiles, Lines), offered: Offered) -> Vec<Chain> {
    let each = systems.iter().flat_map(|system| CHAIN.map(|n| (*system, n)));
    each.map(|(system, switches)| run(system, switches, on, offered)).collect()
}
