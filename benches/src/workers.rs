//! Several workers: on a core each, or turned by one thread.
//!
//! Each worker has a queue of each port, which gets the flows that a card would have put
//! there by their hash. In each lap all queues are loaded first; then all workers run at
//! once, each on a core of its own, until everything has come out:
//!
//! ```text
//!   core 0   load ┊ turn turn …  ┊ load ┊ …         clocks of a turn in which something
//!   core 1   load ┊ turn turn …  ┊ load ┊ …         moved are counted
//!              all loaded     all out
//! ```
//!
//! The busiest worker limits a node's throughput: packets over that worker's clocks.

use crate::dut::{Runner, Setting, UNDER_WAY, assemble};
use crate::median;
use crate::networks::HOPS;
use crate::peer::core_numbers;
use crate::traffic::{Flow, Frames, Size, TO};
use ferrule_base::{Duration, Instant};
use ferrule_node::Control;
use ferrule_pipeline::BATCH;
use ferrule_ports::os::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Turns in which nothing moves after which packets count as lost.
const LOST: usize = 1 << 22;

/// Workers that one thread turns, and flows that are carried.
const MANY: usize = 16;
const FLOWS: usize = 512;

/// Laps of a round: on cores side by side, by one thread.
const LAPS: [usize; 2] = [32, 4];

/// Least throughput of two workers, as a part of two nodes.
const TWO_LEAST: f64 = 0.9;
/// Highest cost of sixteen workers on one thread, as a multiple of one worker.
const MANY_MOST: f64 = 1.2;

/// Flows to 64 networks.
fn flow(n: usize) -> Flow {
    let n = n as u32;
    Flow {
        src: (10 << 24 | n).into(),
        dst: (20 << 24 | (n % 64) << 8 | (n / 64)).into(),
        port: 1024 + n as u16,
        to: TO,
    }
}

/// Measures configurations, by name: two nodes of one worker beside one of two, and one
/// worker beside sixteen that take turns.
pub fn compare(title: &str, rounds: usize, kinds: &[(&str, String)]) {
    println!("\n{title}; queues of both ports for each, flows spread by a hash");
    println!(
        "  {:<40} {:>10} {:>12} {:>6} {:>6} {:>11} {:>8} {:>6} {:>6}",
        "clocks a packet of a core",
        "two nodes",
        "two workers",
        "ratio",
        "0.9",
        "one worker",
        "sixteen",
        "ratio",
        "1.2"
    );
    for (name, config) in kinds {
        let found = rows(config, rounds);
        let ratio = |a: usize, b: usize| {
            let rounds: Vec<f64> = found[a].iter().zip(&found[b]).map(|(a, b)| a / b).collect();
            median(&rounds)
        };
        let [nodes, two, one, many] = found.each_ref().map(|rounds| median(rounds));
        let missed = |missed: bool| if missed { "missed" } else { "" };
        let (carried, cost) = (ratio(0, 1), ratio(3, 2));
        println!(
            "  {name:<40} {nodes:>10.0} {two:>12.0} {carried:>6.2} {:>6} {one:>11.0} {many:>8.0} \
             {cost:>6.2} {:>6}",
            missed(carried < TWO_LEAST),
            missed(cost > MANY_MOST),
        );
    }
}

/// Clocks, round by round: of two nodes, two workers, one worker, and sixteen.
fn rows(config: &str, rounds: usize) -> [Vec<f64>; 4] {
    let cores = core_numbers();
    let crew = |nodes, under_way| Crew::new(config, nodes, under_way);
    let mut pairs = [crew([2, 1], UNDER_WAY), crew([1, 2], UNDER_WAY)];
    let mut alone = [crew([1, 1], MANY * BATCH), crew([1, MANY], BATCH)];
    let mut found: [Vec<f64>; 4] = Default::default();
    for round in 0..=rounds {
        let pairs = pairs.iter_mut().map(|crew| match cores[..] {
            [first, second, ..] => crew.side_by_side(LAPS[0], &[first, second]),
            // Nothing to compare with.
            _ => f64::NAN,
        });
        let alone = alone.iter_mut().map(|crew| crew.by_one_thread(LAPS[1]));
        let all: Vec<f64> = pairs.chain(alone).collect();
        if round > 0 {
            found.iter_mut().zip(all).for_each(|(rounds, clocks)| rounds.push(clocks));
        }
    }
    found
}

/// Nodes that run side by side: one of many workers, or many of one.
struct Crew {
    controls: Vec<Control>,
    members: Vec<Member>,
    now: Instant,
}

/// A worker and what its queue gets.
struct Member {
    runner: Runner,
    frames: Frames,
    next: usize,
}

/// Comment in a configuration in whose place a tunnel, whose number follows, gets more
/// outbound SAs.
pub const MORE: &str = "# more SAs: ";

/// The same configuration with so many workers, a queue for each at every port, and an
/// outbound SA for each in tunnels that have one for all.
fn with_workers(config: &str, workers: usize) -> String {
    if workers == 1 {
        return config.to_owned();
    }
    let line = |line: &str| match line.strip_prefix(MORE).and_then(|n| n.parse::<usize>().ok()) {
        Some(tunnel) => also_out(tunnel, workers),
        None => line.to_owned(),
    };
    let config = config.lines().map(line).collect::<Vec<_>>().join("\n");
    let several = format!("[node]\nworkers = {workers}");
    let mut ports = config.split("driver = \"wire\"");
    let first = ports.next().unwrap_or_default().replace("[node]", &several);
    let everywhere = |(port, rest)| {
        format!("driver = \"tap\"\ndevice = \"bench{port}\"\nevery-worker = true{rest}")
    };
    first + &(0..).zip(ports).map(everywhere).collect::<String>()
}

/// Outbound SAs of a tunnel for all workers but the first, of SPIs and keys of their own.
fn also_out(tunnel: usize, workers: usize) -> String {
    let sa = |worker| {
        let n = 1_000_000 + tunnel * 100 + worker;
        format!("{{ spi = {n}, key = \"gcm:{n}\" }}")
    };
    let all: Vec<String> = (1..workers).map(sa).collect();
    format!("also-out = [{}]", all.join(", "))
}

/// Receive queue of a flow, as a card's hash would choose it.
fn queue(flow: usize, queues: usize) -> usize {
    let hash = (flow as u32).wrapping_mul(0x9e37_79b1) >> 16;
    (hash as usize * queues) >> 16
}

impl Crew {
    /// So many nodes of so many workers each, which have so many packets under way.
    fn new(config: &str, [nodes, workers]: [usize; 2], under_way: usize) -> Self {
        let setting = Setting { hops: &HOPS, under_way, ..Setting::default() };
        let (mut controls, mut members) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            let (control, runners) = assemble(&with_workers(config, workers), &setting);
            controls.push(control);
            members.extend(runners);
        }
        let queues = members.len();
        let member = |(n, runner)| {
            let own: Vec<usize> = (0..FLOWS).filter(|&f| queue(f, queues) == n).collect();
            let frames = Frames::ipv4(own.len() * 8, Size::Of(64), |i, _| flow(own[i % own.len()]));
            Member { runner, frames, next: 0 }
        };
        let members = members.into_iter().enumerate().map(member).collect();
        Self { controls, members, now: Instant::ZERO }
    }

    /// Reserved numbers, neighbours, as the daemon's control part would.
    fn control(&mut self) {
        self.now += Duration::from_millis(1);
        self.controls.iter_mut().for_each(|control| _ = control.turn(self.now));
    }

    /// So many laps, each worker on a core of its own: clocks a packet of the busiest
    /// worker, times the number of workers.
    fn side_by_side(&mut self, laps: usize, cores: &[usize]) -> f64 {
        let all = self.members.len();
        let (meeting, out) = (Meeting::default(), AtomicUsize::new(0));
        let run = |member: &mut Member, core: usize| -> (usize, u64) {
            pin(core).expect("a core of this machine");
            let (mut loaded, mut clocks) = (0, 0);
            for lap in 1..=laps {
                let count = member.load();
                loaded += count;
                meeting.wait(all);
                clocks += member.lap(&out, lap * count * all);
                meeting.wait(all);
            }
            (loaded, clocks)
        };
        let found: Vec<(usize, u64)> = std::thread::scope(|scope| {
            let members = self.members.iter_mut().zip(cores);
            let threads: Vec<_> =
                members.map(|(member, &core)| scope.spawn(move || run(member, core))).collect();
            threads.into_iter().map(|t| t.join().expect("nobody panics")).collect()
        });
        self.control();
        let packets: usize = found.iter().map(|(packets, _)| packets).sum();
        let busiest = found.iter().map(|(_, clocks)| *clocks).max().unwrap_or(0);
        busiest as f64 * all as f64 / packets as f64
    }

    /// So many laps, all workers turned by this thread: clocks a packet, of all together.
    fn by_one_thread(&mut self, laps: usize) -> f64 {
        let (mut packets, mut clocks) = (0, 0);
        for _ in 0..laps {
            let loaded: usize = self.members.iter_mut().map(Member::load).sum();
            let mut lost = 0;
            while self.members.iter().map(Member::sent).sum::<usize>() < loaded {
                let turns = self.members.iter_mut().map(|member| member.runner.turn());
                let busy = turns.filter(|(moved, _)| *moved > 0).map(|(_, clocks)| clocks);
                let busy: u64 = busy.sum();
                clocks += busy;
                lost = if busy > 0 { 0 } else { lost + 1 };
                assert!(lost < LOST, "packets are missing: {}", self.members[0].runner.drops());
            }
            self.control();
            packets += loaded;
        }
        clocks as f64 / packets as f64
    }
}

impl Member {
    fn load(&mut self) -> usize {
        let count = self.runner.load(&self.frames, self.next, usize::MAX);
        self.next += count;
        count
    }

    fn sent(&self) -> usize {
        self.runner.sent(|_| ())
    }

    /// Turns the worker until `all` have come out, of this one and the others: clocks of
    /// the turns in which something moved.
    fn lap(&mut self, out: &AtomicUsize, all: usize) -> u64 {
        let (mut clocks, mut before, mut lost) = (0, 0, 0);
        while out.load(Ordering::Acquire) < all {
            let (moved, took) = self.runner.turn();
            if moved == 0 {
                lost += 1;
                assert!(lost < LOST, "packets are missing: {}", self.runner.drops());
                std::hint::spin_loop();
                continue;
            }
            lost = 0;
            clocks += took;
            let sent = self.sent();
            out.fetch_add(sent - before, Ordering::AcqRel);
            before = sent;
        }
        clocks
    }
}

/// Spinning barrier: threads go on at the same time.
#[derive(Default)]
struct Meeting {
    came: AtomicUsize,
}

impl Meeting {
    /// Waits until all have come as often.
    fn wait(&self, all: usize) {
        let number = self.came.fetch_add(1, Ordering::AcqRel);
        let complete = (number / all + 1) * all;
        while self.came.load(Ordering::Acquire) < complete {
            std::hint::spin_loop();
        }
    }
}
