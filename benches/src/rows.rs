//! Rows of a table: one path of a node, with one flow, with 512 and with 8,192, beside VPP's cost
//! and the goal.
//!
//! The cases of a group take turns, round by round. A round begins with packets that do
//! not count, so that what the case before has left in the caches counts for nothing.

use crate::dut::Dut;
use crate::median;
use crate::traffic::Frames;
use ferrule_dataplane::Next;
use ferrule_lab::profile::{Profile, Spent};
use ferrule_node::probe::Times;
use std::cell::RefCell;
use std::rc::Rc;

/// Several cases may use one node.
pub type Shared = Rc<RefCell<Dut>>;

/// A node that several cases may use.
pub fn shared(dut: Dut) -> Shared {
    Rc::new(RefCell::new(dut))
}

/// Error that a calibrated profile may have, in percent.
const OFF_MOST: f64 = 10.0;

/// Highest cost of 8,192 flows, as a multiple of one.
pub const FLOWS_MOST: f64 = 1.3;

/// Nodes that seal what another opens: packets have fresh numbers in every round.
pub struct Sealers {
    /// The nodes, each with its clear frames.
    pub nodes: Vec<(Shared, Frames)>,
    /// Change to a sealed frame on its way to the node that opens it.
    pub way: fn(&mut [u8]),
}

impl Sealers {
    /// The next `count` frames, of all nodes in turn.
    fn seal(&self, first: usize, count: usize) -> Frames {
        let (nodes, mut sealed) = (self.nodes.len(), Vec::new());
        for (n, (node, clear)) in self.nodes.iter().enumerate() {
            let (from, most) = (first / nodes, (count + nodes - 1 - n) / nodes);
            let mut out = Vec::with_capacity(most);
            node.borrow_mut().carry(clear, from, most, |frame| {
                let mut frame = frame.to_vec();
                (self.way)(&mut frame);
                out.push(frame);
            });
            assert_eq!(out.len(), most, "all are sealed: {}", node.borrow().drops());
            sealed.push(out.into_iter());
        }
        let mut frames = Frames::default();
        for i in 0..count {
            sealed[i % nodes].next().iter().for_each(|frame| frames.push(frame));
        }
        frames
    }
}

/// Source of frames.
pub enum Source {
    /// The same ones round and round.
    Clear(Frames),
    /// Sealed for each round.
    Sealed(Sealers),
}

/// A node and its traffic.
pub struct Case {
    node: Shared,
    source: Source,
    next: usize,
    /// Of a hundred packets, how many have to come out.
    through: usize,
    clocks: Vec<f64>,
    /// Clocks of ports and stages, and packets of them all.
    stages: Option<([u64; Next::ALL.len() + 1], usize)>,
    /// Packets and work of a round.
    spent: Spent,
}

impl Case {
    /// Frames that the node carries, every one of them.
    pub fn new(node: &Shared, source: Source) -> Self {
        Self {
            node: node.clone(),
            source,
            next: 0,
            through: 100,
            clocks: Vec::new(),
            stages: None,
            spent: Spent::default(),
        }
    }

    /// A few of a hundred do not come out.
    pub fn through(mut self, percent: usize) -> Self {
        self.through = percent;
        self
    }

    fn round(&mut self, Effort { packets, warm, .. }: Effort, counts: bool) {
        let first = self.next;
        self.next += warm + packets;
        let sealed;
        let (frames, first) = match &self.source {
            Source::Clear(frames) => (frames, first),
            Source::Sealed(sealers) => {
                sealed = sealers.seal(first, warm + packets);
                (&sealed, 0)
            }
        };
        let mut node = self.node.borrow_mut();
        node.carry(frames, first, warm, |_| ());
        let (before, work) = (node.stages(), node.work());
        let (sent, clocks) = node.carry(frames, first + warm, packets, |_| ());
        if let Some((before, after)) = before.zip(node.stages()).filter(|_| counts) {
            let (sums, all) = self.stages.get_or_insert(([0; _], 0));
            let each = |times: Times| [times.ports].into_iter().chain(times.stages);
            for (sum, (after, before)) in sums.iter_mut().zip(each(after).zip(each(before))) {
                *sum += after - before;
            }
            *all += packets;
        }
        let mut taken = ferrule_base::Flow::default();
        (0..packets).for_each(|i| taken.add(frames.at(first + warm + i).len()));
        self.spent = Spent::since(node.sizes(), taken, &node.work(), &work);
        assert!(sent * 100 >= packets * self.through, "{sent} came out: {}", node.drops());
        if counts {
            self.clocks.push(clocks as f64 / packets as f64);
        }
    }

    fn clocks(&self) -> f64 {
        median(&self.clocks)
    }

    /// Clocks a packet under a calibrated profile.
    fn priced(&self, profile: &Profile) -> f64 {
        self.spent.mean_ns(profile) / self.spent.taken.packets as f64
    }

    /// Half the distance between the quartiles, in percent of the median.
    fn spread(&self) -> f64 {
        let mut sorted = self.clocks.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |q: usize| sorted[(sorted.len() - 1) * q / 4];
        (at(3) - at(1)) / 2.0 / self.clocks() * 100.0
    }
}

/// A row. Its figure is that of `own`, or else of 512 flows.
#[derive(Default)]
pub struct Row {
    /// Name of the row.
    pub name: String,
    /// With one flow, 512 and 8,192.
    pub flows: [Option<Case>; 3],
    /// With traffic that the name tells.
    pub own: Option<Case>,
    /// Clocks that VPP needs.
    pub vpp: Option<f64>,
    /// Clocks to reach.
    pub reach: Option<f64>,
}

impl Row {
    /// A row of three numbers of flows.
    pub fn of(name: impl Into<String>, vpp: Option<f64>, reach: Option<f64>) -> Self {
        Self { name: name.into(), vpp, reach, ..Self::default() }
    }

    /// With its case for each number of flows.
    pub fn with_flows(mut self, case: impl FnMut(usize) -> Case) -> Self {
        self.flows = [1, 512, 8192].map(case).map(Some);
        self
    }

    /// With traffic of its own.
    pub fn with_own(mut self, case: Case) -> Self {
        self.own = Some(case);
        self
    }

    fn cases(&mut self) -> impl Iterator<Item = &mut Case> {
        self.flows.iter_mut().chain([&mut self.own]).flatten()
    }

    fn print(&self, profile: Option<&Profile>) {
        let number = |n: Option<f64>| n.map_or(String::new(), |n| format!("{n:.0}"));
        let clocks = |case: &Option<Case>| number(case.as_ref().map(Case::clocks));
        let [one, some, many] = &self.flows;
        let ratio = one.as_ref().zip(many.as_ref()).map_or(String::new(), |(one, many)| {
            let rounds: Vec<f64> =
                many.clocks.iter().zip(&one.clocks).map(|(m, o)| m / o).collect();
            let ratio = median(&rounds);
            format!("{ratio:.2}{}", if ratio > FLOWS_MOST { "!" } else { " " })
        });
        let Some(figure) = self.own.as_ref().or(some.as_ref()) else { return };
        let missed = self.reach.is_some_and(|most| figure.clocks() > most);
        println!(
            "  {:<46} {:>8} {:>9} {:>11} {ratio:>7} {:>7.1} {:>5} {:>6} {:<7}{:>6.1}%",
            self.name,
            clocks(one),
            clocks(some),
            clocks(many),
            figure.clocks(),
            number(self.vpp),
            number(self.reach),
            if missed { "missed" } else { "" },
            figure.spread(),
        );
        if let Some(profile) = profile {
            let (priced, measured) = (figure.priced(profile), figure.clocks());
            let off = (priced / measured - 1.0) * 100.0;
            let mark = if off.abs() > OFF_MOST { "!" } else { "" };
            println!("      the calibrated profile says {priced:.1}, {off:+.1} %{mark}");
        }
        let Some((sums, packets)) = figure.stages else { return };
        let names = ["ports"].into_iter().chain(Next::ALL.map(Next::name));
        let each = names.zip(sums).filter(|(_, sum)| *sum > 0);
        let each = each.map(|(name, sum)| format!("{name} {:.1}", sum as f64 / packets as f64));
        println!("      {}", each.collect::<Vec<_>>().join("  "));
    }
}

/// Number of rounds and packets.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds of which the median is taken, beside one that does not count.
    pub rounds: usize,
    /// Packets of a round.
    pub packets: usize,
    /// Warm-up rounds.
    pub warm: usize,
    /// Clocks of each stage are shown, too.
    pub stages: bool,
    /// A profile of this machine, in clocks, beside which the figures are put.
    pub profile: Option<&'static Profile>,
    /// Part of the name of the rows that are measured; empty: all.
    pub only: &'static str,
}

/// Measures the rows of a group in turn, and prints them.
pub fn measure(title: &str, effort: Effort, rows: &mut [Row]) {
    let mut rows: Vec<&mut Row> =
        rows.iter_mut().filter(|row| row.name.contains(effort.only)).collect();
    if effort.stages {
        let cases = rows.iter_mut().flat_map(|row| row.cases());
        cases.for_each(|case| case.node.borrow_mut().watch_stages());
    }
    for round in 0..=effort.rounds {
        for case in rows.iter_mut().flat_map(|row| row.cases()) {
            case.round(effort, round > 0);
        }
    }
    println!("\n{title}");
    println!(
        "  {:<46} {:>8} {:>9} {:>11} {:>7} {:>7} {:>5} {:>6} {:<7}{:>7}",
        "clocks a packet",
        "one flow",
        "512 flows",
        "8,192 flows",
        "8192/1",
        "figure",
        "VPP",
        "reach",
        "",
        "spread"
    );
    rows.iter().for_each(|row| row.print(effort.profile));
}
