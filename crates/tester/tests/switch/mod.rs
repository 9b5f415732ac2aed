//! A switch of several ports in virtual time whose servers and queues are known:
//! one for each output, and where there are two devices, one for each direction of
//! the line between them.

use ferrule_base::{Instant, MacAddr};
use ferrule_pipeline::{Batch, Packet, Pool};
use ferrule_tester::{About, Bench, BenchError, Trial, TrialResult, TrialSpec};
use std::collections::{BTreeMap, VecDeque};

/// Treatment of a frame whose output has no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The frame is dropped.
    Drop,
    /// The frame waits at its input, which holds so many, and blocks those behind it.
    Wait(usize),
    /// The frame waits, and its sender is told to pause.
    Pause,
}

/// A server with a queue.
#[derive(Clone, Default)]
struct Server {
    departures: VecDeque<u64>,
}

impl Server {
    /// From when on there is room for a frame that comes at `at`.
    fn room(&mut self, at: u64, queue: usize) -> u64 {
        while self.departures.front().is_some_and(|&d| d <= at) {
            self.departures.pop_front();
        }
        match self.departures.len().checked_sub(queue) {
            Some(over) => self.departures[over],
            None => at,
        }
    }

    /// When a frame that comes at `at` has left.
    fn serve(&mut self, at: u64, service: u64) -> u64 {
        let end = self.departures.back().map_or(at, |&d| d.max(at)) + service;
        self.departures.push_back(end);
        end
    }
}

/// The switch, and the bench around it. The port of an address is its last octet.
pub struct Switch {
    pub ports: usize,
    /// Nanoseconds that an output takes for a frame.
    pub service: u64,
    /// Nanoseconds that the line between two devices takes; ports with even numbers
    /// are at one, the others at the other.
    pub uplink: Option<u64>,
    /// Frames that wait at a server, including the one that is served.
    pub queue: usize,
    pub full: Full,
    /// Frames dropped in the last trial, by the port that they were for.
    pub dropped: Vec<u64>,
    now: Instant,
    epoch: u16,
}

struct Run {
    outputs: Vec<Server>,
    uplinks: [Server; 2],
    /// By input: when its last frame moved, or will.
    moved: Vec<VecDeque<u64>>,
    paused: Vec<u64>,
}

impl Switch {
    pub fn new(ports: usize, service: u64, queue: usize) -> Self {
        Self {
            ports,
            service,
            uplink: None,
            queue,
            full: Full::Drop,
            dropped: vec![0; ports],
            now: Instant::ZERO,
            epoch: 0,
        }
    }

    pub fn macs(&self) -> Vec<MacAddr> {
        (0..self.ports).map(|p| MacAddr([2, 0, 0, 0, 0, p as u8])).collect()
    }

    /// When a frame has crossed, and where to; nothing if it is dropped.
    fn forward(&self, run: &mut Run, now: u64, from: usize, to: usize) -> Option<u64> {
        let mut at = now;
        if let Some(service) = self.uplink.filter(|_| from % 2 != to % 2) {
            let line = &mut run.uplinks[from % 2];
            if line.room(at, self.queue) > at {
                return None;
            }
            at = line.serve(at, service);
        }
        let output = &mut run.outputs[to];
        let input = &mut run.moved[from];
        if self.full == Full::Drop {
            if output.room(at, self.queue) > at {
                return None;
            }
        } else {
            while input.front().is_some_and(|&m| m <= now) {
                input.pop_front();
            }
            if matches!(self.full, Full::Wait(most) if input.len() >= most) {
                return None;
            }
            at = at.max(input.back().copied().unwrap_or(0));
            at = output.room(at, self.queue);
            input.push_back(at);
            if self.full == Full::Pause {
                run.paused[from] = at;
            }
        }
        Some(output.serve(at, self.service))
    }
}

impl Bench for Switch {
    fn about(&self) -> About {
        About {
            device: "a device that is known".into(),
            notes: Vec::new(),
            ports: (0..self.ports).map(|p| format!("switch:{p}")).collect(),
            line: None,
            clock: "virtual".into(),
            is_virtual: true,
        }
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        let pool = Pool::heap(4096, 2048);
        let mut cache = pool.cache();
        self.epoch += 1;
        let mut trial = Trial::new(spec, self.ports, self.epoch, Vec::new())?;
        trial.start(self.now);
        let mut legs = trial.take_legs();
        let mut run = Run {
            outputs: vec![Server::default(); self.ports],
            uplinks: Default::default(),
            moved: vec![VecDeque::new(); self.ports],
            paused: vec![0; self.ports],
        };
        self.dropped = vec![0; self.ports];
        let mut crossing: BTreeMap<(u64, u64), (usize, Packet)> = BTreeMap::new();
        let (mut order, mut batch) = (0, Batch::new());
        loop {
            let now = self.now;
            let due = legs.iter().zip(&run.paused);
            let due = due.filter_map(|(l, &p)| Some(l.poll_timeout(now)?.as_nanos().max(p))).min();
            let Some(due) = due else { break };
            let departure = crossing.first_key_value().map_or(u64::MAX, |(k, _)| k.0);
            self.now = Instant::from_nanos(due.min(departure)).max(now);
            let now = self.now.as_nanos();
            while let Some(entry) = crossing.first_entry().filter(|e| e.key().0 <= now) {
                let (port, packet) = entry.remove();
                legs[port].handle(self.now, packet.data());
            }
            for (port, leg) in legs.iter_mut().enumerate() {
                if run.paused[port] > now {
                    continue;
                }
                leg.emit(self.now, &mut cache, &mut batch);
                for packet in batch.drain(..) {
                    let to = usize::from(packet.data()[5]);
                    order += 1;
                    match self.forward(&mut run, now, port, to) {
                        Some(at) => drop(crossing.insert((at, order), (to, packet))),
                        None => self.dropped[to] += 1,
                    }
                }
            }
        }
        self.now += std::time::Duration::from_millis(1);
        Ok(trial.finish_legs(legs))
    }
}
