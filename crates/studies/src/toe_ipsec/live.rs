//! Live measurements: the software engine against a queue pair to another core, from memory to
//! memory, and the three systems as nodes.

use super::bench::Way;
use super::network::System;

/// The speed of the sweep over size, in Mbit/s of the line: one at which veth pairs and
/// a few processors carry even the smallest frames, where nothing is sealed.
pub const FIXED: f64 = 50.0;

/// Ratio of two latencies of one engine that no size explains.
const UNSTEADY: f64 = 100.0;

/// One size and batch.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Octets of the text.
    pub octets: usize,
    /// Jobs that go together.
    pub batch: usize,
    /// In the worker's loop.
    pub software: Cost,
    /// By an engine on another core.
    pub look_aside: Cost,
}

/// Cost of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Packets a second, in millions.
    pub mpps: f64,
    /// Time of the host's core for each packet.
    pub host_ns: f64,
    /// The same in cycles, where the machine has a counter.
    pub host_cycles: f64,
    /// From submission to return: the median.
    pub latency_us: f64,
}

/// A suite by both engines.
#[derive(Clone, Debug, Default)]
pub struct Engines {
    /// The suite.
    pub suite: String,
    /// By size and batch.
    pub points: Vec<Point>,
}

/// A load on a node.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Offered, in Mbit/s of the line (preamble, FCS and gap counted).
    pub offered_mbps: f64,
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Frames that were sent.
    pub offered: u64,
    /// Frames that the tester could not send in time.
    pub unsent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Median delay through both nodes.
    pub median_us: f64,
    /// Time of the worker's core for each frame that arrived.
    pub host_ns: f64,
}

impl Load {
    /// Arrived of what was sent.
    pub fn share(&self) -> f64 {
        self.received as f64 / self.offered.max(1) as f64
    }

    /// True if the tester sent the load it was asked for; up to a twentieth may be missing.
    pub fn was_offered(&self) -> bool {
        self.unsent * 20 <= self.offered
    }
}

/// One system, one way, as a node.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The system; nothing: packets go in clear.
    pub system: Option<System>,
    /// The way.
    pub way: Way,
    /// Results by speed.
    pub speeds: Vec<Load>,
    /// Results by size.
    pub sizes: Vec<Load>,
}

/// One load that verdicts stand on: shares that arrived, turn by turn, the systems one
/// after the other in each.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The system; nothing: packets go in clear.
    pub system: Option<System>,
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Offered load in Mbit/s of the line.
    pub mbps: f64,
    /// Shares of the frames sent that arrived, one for each turn in which the tester sent its load.
    pub shares: Vec<f64>,
}

impl Turns {
    /// Frames a second that were offered.
    pub fn frames_per_second(&self) -> f64 {
        self.mbps * 1e6 / (8 * (self.octets + 20)) as f64
    }
}

/// Measured on the machine at hand.
#[derive(Clone, Debug)]
pub struct Live {
    /// How the memory-to-memory measurements were made, and how far they can be trusted.
    pub note: String,
    /// Cycles of the host's core in a nanosecond.
    pub gigahertz: f64,
    /// By suite.
    pub engines: Vec<Engines>,
    /// The systems as nodes, or why they were not measured.
    pub nodes: Result<Vec<Sweep>, String>,
    /// Loads of them again and again, or why not.
    pub turns: Result<Vec<Turns>, String>,
}

impl Live {
    /// A load of a system, again and again.
    pub fn turns_of(&self, system: Option<System>, octets: usize) -> Result<&Turns, String> {
        let turns = self.turns.as_ref().map_err(Clone::clone)?;
        let found = turns.iter().find(|turns| (turns.system, turns.octets) == (system, octets));
        found.ok_or_else(|| "not measured".into())
    }

    /// A system's sweep.
    pub fn sweep(&self, system: Option<System>, way: Way) -> Result<&Sweep, String> {
        let nodes = self.nodes.as_ref().map_err(Clone::clone)?;
        let found = nodes.iter().find(|sweep| sweep.system == system && sweep.way == way);
        found.ok_or_else(|| "not measured".into())
    }
}

impl Engines {
    /// The smallest size from which on look-aside is ahead of software at a batch, by
    /// a cost of which less is better; nothing: it never is.
    pub fn crossover(&self, batch: usize, of: fn(&Cost) -> f64) -> Option<usize> {
        let mut points: Vec<&Point> = self.points.iter().filter(|p| p.batch == batch).collect();
        points.sort_by_key(|point| point.octets);
        let ahead = |point: &&&Point| of(&point.look_aside) < of(&point.software);
        points.iter().rev().take_while(ahead).last().map(|point| point.octets)
    }

    /// True if times of look-aside at a batch differ less than a hundredfold between sizes:
    /// otherwise the other core slept, or had other work, and nothing follows.
    pub fn is_steady(&self, batch: usize) -> bool {
        let of = self.points.iter().filter(|p| p.batch == batch).map(|p| p.look_aside.latency_us);
        let (least, most) =
            of.fold((f64::INFINITY, 0.0_f64), |(least, most), us| (least.min(us), most.max(us)));
        most < UNSTEADY * least
    }

    /// The batches that were measured, each once.
    pub fn batches(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.points.iter().map(|point| point.batch).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(octets: usize, software: f64, look_aside: f64) -> Point {
        let cost = |host_ns| Cost { mpps: 1.0, host_ns, host_cycles: 1.0, latency_us: 1.0 };
        Point { octets, batch: 8, software: cost(software), look_aside: cost(look_aside) }
    }

    #[test]
    fn crossover_is_the_size_from_which_on_look_aside_stays_ahead() {
        let of = |points: Vec<Point>| {
            Engines { points, ..Engines::default() }.crossover(8, |cost| cost.host_ns)
        };
        assert_eq!(
            of(vec![point(64, 1.0, 2.0), point(512, 3.0, 2.0), point(1420, 4.0, 2.0)]),
            Some(512)
        );
        assert_eq!(
            of(vec![point(64, 3.0, 2.0), point(512, 1.0, 2.0), point(1420, 4.0, 2.0)]),
            Some(1420)
        );
        assert_eq!(of(vec![point(64, 1.0, 2.0), point(512, 1.0, 2.0)]), None);
        assert_eq!(of(vec![point(64, 2.0, 1.0), point(512, 2.0, 1.0)]), Some(64));
    }
}
