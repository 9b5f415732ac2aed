//! What somebody with cores measured: the software engine against a queue pair to
//! another core, from memory to memory.

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

/// What a packet costs.
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

/// Measured on the machine at hand.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// What was measured, and what it is worth.
    pub note: String,
    /// The suite.
    pub suite: String,
    /// By size and batch.
    pub points: Vec<Point>,
}

impl Live {
    /// The smallest size from which on look-aside is ahead of software at a batch, by
    /// a cost of which less is better; nothing: it never is.
    pub fn crossover(&self, batch: usize, of: fn(&Cost) -> f64) -> Option<usize> {
        let mut points: Vec<&Point> = self.points.iter().filter(|p| p.batch == batch).collect();
        points.sort_by_key(|point| point.octets);
        let ahead = |point: &&&Point| of(&point.look_aside) < of(&point.software);
        points.iter().rev().take_while(ahead).last().map(|point| point.octets)
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
            Live { points, ..Live::default() }.crossover(8, |cost| cost.host_ns)
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
