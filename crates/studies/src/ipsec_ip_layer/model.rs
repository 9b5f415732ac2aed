//! The model: what the laboratory says of every transfer, on both machines of 2001.
//!
//! Where the time of a transfer goes is found by letting more and more take time, from
//! the line alone to everything; each step's difference is its part of the response, and
//! the parts add up to it. What a machine does while the line is busy anyway is inside
//! the machine, and no part of the response: so both stand in the report.

use super::cases::{Application, Mode, Protection, SIZES, Way};
use super::fit::{self, Found, Target};
use super::machine::{Costs, Inside, Machine, Parts, Processing};
use super::network::{MTU, MTU_ROOM, Run, Setting, TICK, WINDOW, run, tcp_of_2001, tcp_unbounded};
use super::places::{self, Place};
use super::published::Study;
use crate::options::{Options, Seed};
use ferrule_lab::host::dialogue::Behaviour;

/// Sizes when time is short.
const SIZES_QUICK: [u64; 5] = [1, 100, 1_000, 57_344, 100_000];
/// Sizes whose time is attributed, in full and when time is short.
const PARTS: [u64; 3] = [100, 57_344, 1_000_000];
const PARTS_QUICK: [u64; 2] = [100, 57_344];

/// One of the two models of a machine of 2001.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// Costs as its components are known to have.
    Plausible,
    /// Costs fitted to the printed results.
    Fitted,
}

impl Which {
    /// Both models.
    pub const ALL: [Self; 2] = [Self::Plausible, Self::Fitted];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plausible => "plausible",
            Self::Fitted => "fitted",
        }
    }
}

/// A transfer.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Cell {
    pub which: Which,
    pub application: Application,
    pub octets: u64,
    pub way: Way,
    pub run: Run,
    pub inside: Inside,
}

/// Kinds of parts of a response.
pub const PART_NAMES: [&str; 8] =
    ["line", "TCP window", "delayed ACK", "stack", "look-up", "copies", "crypto", "fragments"];

/// The response time of a transfer, by parts.
#[derive(Clone, Copy, Debug)]
pub struct Attributed {
    /// The model of the machine.
    pub which: Which,
    /// The application that transferred.
    pub application: Application,
    /// Octets.
    pub octets: u64,
    /// Protection and mode.
    pub way: Way,
    /// By [`PART_NAMES`], in microseconds.
    pub parts: [f64; 8],
    /// Time for retransmissions of lost packets, in microseconds.
    pub again_us: f64,
    /// The whole response, in microseconds.
    pub response_us: f64,
}

/// A variation of the machine, its stack or its suite.
#[derive(Clone, Debug)]
pub struct Factor {
    /// Of size, algorithm, processor, implementation, share of a core.
    pub of: &'static str,
    /// The value that was set.
    pub value: String,
    /// The model of the machine.
    pub which: Which,
    /// Against no IPsec on the same machine.
    pub slowdown: f64,
    /// The response, in microseconds.
    pub response_us: f64,
    /// Inside the module, of both machines together.
    pub module_us: f64,
    /// The busier machine was busy for this part of the response.
    pub busy: f64,
}

/// A printed slowdown, and what both machines make of it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Slowdown {
    pub target: Target,
    pub plausible: Found,
    pub fitted: Found,
    /// By the fit that was made without it.
    pub predicted: Found,
}

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// The seed of its draws.
    pub seed: Seed,
    /// The machines.
    pub plausible: Machine,
    /// The same as it was fitted.
    pub fitted: Machine,
    /// Section 6.
    pub slowdowns: Vec<Slowdown>,
    /// Sizes of the transfers.
    pub sizes: Vec<u64>,
    /// Every transfer.
    pub cells: Vec<Cell>,
    /// Response times by parts.
    pub attributed: Vec<Attributed>,
    /// Influences on the cost, one by one.
    pub factors: Vec<Factor>,
    /// Figure 1.
    pub places: Vec<Place>,
}

impl Model {
    /// The costs of a machine.
    pub fn costs(&self, which: Which) -> &Costs {
        match which {
            Which::Plausible => &self.plausible.cost,
            Which::Fitted => &self.fitted.cost,
        }
    }

    /// A transfer.
    pub fn cell(&self, which: Which, application: Application, octets: u64, way: Way) -> &Cell {
        let found = self.cells.iter().find(|cell| {
            (cell.which, cell.application, cell.octets, cell.way)
                == (which, application, octets, way)
        });
        found.expect("every transfer was made")
    }

    /// Response time relative to the same transfer without IPsec.
    pub fn slowdown(&self, which: Which, application: Application, octets: u64, way: Way) -> f64 {
        let without = Way::of(Protection::None, Mode::Transport);
        let response = |way| self.cell(which, application, octets, way).run.response_us;
        response(way) / response(without)
    }

    /// The largest transfer of at most so many octets.
    pub fn largest(&self, most: u64) -> u64 {
        self.sizes.iter().copied().filter(|octets| *octets <= most).max().unwrap_or(0)
    }

    /// Time that a protection adds to a transfer, in milliseconds.
    pub fn added_ms(&self, which: Which, application: Application, octets: u64, way: Way) -> f64 {
        let without = Way::of(Protection::None, Mode::Transport);
        let us = |way| self.cell(which, application, octets, way).run.response_us;
        (us(way) - us(without)) / 1000.0
    }
}

/// One transfer on a machine with everything that takes time.
fn transfer(
    costs: &Costs,
    processing: Processing,
    way: Way,
    (application, octets): (Application, u64),
    seed: Seed,
) -> (Run, Inside) {
    let machine = costs.profile(way.protection, processing, Parts::ALL);
    let setting = Setting { way, machine, behaviour: tcp_of_2001(), mtu: MTU, seed };
    let run = run(&setting, application, octets);
    (run, costs.inside(&run, way.protection, processing))
}

/// Runs everything.
pub fn model(study: &Study, options: Options, say: &mut dyn FnMut(&str)) -> Model {
    let Options { quick, seed } = options;
    let (plausible, fitted) = (Machine::plausible(), Machine::fitted());
    let sizes = if quick { SIZES_QUICK.to_vec() } else { SIZES.to_vec() };
    let places = &study.measured_mode.placements;
    say("five places for a VPN box");
    let places = places::run(&plausible.cost, places, seed);
    let mut model = Model {
        seed,
        plausible,
        fitted,
        slowdowns: Vec::new(),
        sizes,
        cells: Vec::new(),
        attributed: Vec::new(),
        factors: Vec::new(),
        places,
    };
    say("the printed slowdowns");
    model.slowdowns = printed(study, &model);
    cells(&mut model, say);
    let sizes = if quick { PARTS_QUICK.to_vec() } else { PARTS.to_vec() };
    for which in Which::ALL {
        say(&format!("where the time goes, on the {} machine", which.name()));
        for application in Application::ALL {
            for &octets in &sizes {
                for way in Way::all() {
                    let found = attribute(&model, which, application, octets, way);
                    model.attributed.push(found);
                }
            }
        }
    }
    say("size, algorithm, processor, implementation, share of a core");
    model.factors = Which::ALL.into_iter().flat_map(|which| factors(&model, which)).collect();
    model
}

fn printed(study: &Study, model: &Model) -> Vec<Slowdown> {
    let targets = fit::targets(study);
    let plausible = fit::slowdowns(&model.plausible.cost, &targets);
    let fitted = fit::slowdowns(&model.fitted.cost, &targets);
    let predicted = fit::predicted(&model.fitted, &targets);
    let all = targets.into_iter().zip(plausible).zip(fitted.into_iter().zip(predicted));
    let line = |((target, plausible), (fitted, predicted))| Slowdown {
        target,
        plausible,
        fitted,
        predicted,
    };
    all.map(line).collect()
}

fn cells(model: &mut Model, say: &mut dyn FnMut(&str)) {
    for which in Which::ALL {
        for application in Application::ALL {
            say(&format!("{} transfers on the {} machine", application.name(), which.name()));
            for octets in model.sizes.clone() {
                for way in Way::all() {
                    let costs = model.costs(which);
                    let new_buffer = Processing::NewBuffer;
                    let (run, inside) =
                        transfer(costs, new_buffer, way, (application, octets), model.seed);
                    let cell = Cell { which, application, octets, way, run, inside };
                    model.cells.push(cell);
                }
            }
        }
    }
}

/// Lets one after the other take time.
fn attribute(
    model: &Model,
    which: Which,
    application: Application,
    octets: u64,
    way: Way,
) -> Attributed {
    let costs = model.costs(which);
    let response = |parts: Parts, behaviour: Behaviour, mtu: usize| {
        let machine = costs.profile(way.protection, Processing::NewBuffer, parts);
        let setting = Setting { way, machine, behaviour, mtu, seed: model.seed };
        run(&setting, application, octets).response_us
    };
    let none = Parts::NONE;
    let window = Behaviour { window: WINDOW, slow_start: true, ..tcp_unbounded(octets) };
    let tcp = Behaviour { nagle: true, ack_delay: Some(TICK), ..window };
    let stack = Parts { stack: true, ..none };
    let lookup = Parts { lookup: true, ..stack };
    let copy = Parts { copy: true, ..lookup };
    let crypto = Parts { crypto: true, ..copy };
    let unbounded = Parts { bounded: false, ..Parts::ALL };
    let seals = way.protection.suite().is_some();
    // What nobody does need not be tried.
    let with_stack = response(stack, tcp, MTU_ROOM);
    let with_lookup = match way.protection {
        Protection::None => with_stack,
        _ => response(lookup, tcp, MTU_ROOM),
    };
    let later = |parts, mtu| if seals { response(parts, tcp, mtu) } else { with_lookup };
    let steps = [
        response(none, tcp_unbounded(octets), MTU_ROOM),
        response(none, window, MTU_ROOM),
        response(none, tcp, MTU_ROOM),
        with_stack,
        with_lookup,
        later(copy, MTU_ROOM),
        later(crypto, MTU_ROOM),
        later(unbounded, MTU),
    ];
    let all = response(Parts::ALL, tcp, MTU);
    let mut before = 0.0;
    let parts = steps.map(|until| {
        let part = until - before;
        before = until;
        part
    });
    let again_us = all - steps[steps.len() - 1];
    Attributed { which, application, octets, way, parts, again_us, response_us: all }
}

/// An FTP transfer of this size unless size is what changes.
const FACTOR_OCTETS: u64 = 57_344;

fn factors(model: &Model, which: Which) -> Vec<Factor> {
    let costs = *model.costs(which);
    let way = |protection| Way::of(protection, Mode::Transport);
    let measure = |of, value: String, costs: &Costs, processing, protection, octets| {
        let application = Application::Ftp;
        let transfer = |way| transfer(costs, processing, way, (application, octets), model.seed);
        let (run, inside) = transfer(way(protection));
        let (without, _) = transfer(way(Protection::None));
        Factor {
            of,
            value,
            which,
            slowdown: run.response_us / without.response_us,
            response_us: run.response_us,
            module_us: inside.module_us(),
            busy: run.busy_us / run.response_us,
        }
    };
    let (new, des) = (Processing::NewBuffer, Protection::EspDes);
    let mut all = Vec::new();
    for octets in [SIZES[0], 1_000, FACTOR_OCTETS] {
        all.push(measure("size", format!("{octets} bytes"), &costs, new, des, octets));
    }
    for protection in Protection::ALL.into_iter().skip(1) {
        let name = protection.name().to_owned();
        all.push(measure("algorithm", name, &costs, new, protection, FACTOR_OCTETS));
    }
    for (mhz, factor) in [(275, 2.0), (550, 1.0), (1100, 0.5)] {
        let slower = costs.times(factor);
        all.push(measure("processor", format!("{mhz} MHz"), &slower, new, des, FACTOR_OCTETS));
    }
    for (name, processing) in [("new buffer", new), ("in stack", Processing::InStack)] {
        all.push(measure("implementation", name.into(), &costs, processing, des, FACTOR_OCTETS));
    }
    for share in [1.0, 0.5, 0.25] {
        let of_core = costs.share(share);
        let name = format!("{:.0} %", 100.0 * share);
        all.push(measure("share of a core", name, &of_core, new, des, FACTOR_OCTETS));
    }
    all
}
