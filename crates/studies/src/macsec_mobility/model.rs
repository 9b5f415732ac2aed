//! The model: the laboratory's answer to every table and figure, under the profiles
//! that were fitted to what was printed.

use super::bench::{self, Point};
use super::chains::{self, Chain};
use super::fit::{self, Fitted};
use super::gateway;
use super::network::{self, Lines, System};
use super::profiles::{Gateway, Profiles};
use super::published::Study;
use crate::options::{Options, Seed};

/// Frames of each load.
const FRAMES: u64 = 2000;
/// The same when time is short: enough for the clocks of two gateways to pass by
/// each other, so that the mean delay is within a per cent.
const FRAMES_QUICK: u64 = 500;
/// Frames of each trial of the search for a ceiling: with a queue of two, what exceeds
/// it by a hundredth of a per cent is lost; and when time is short, by a twentieth.
const FRAMES_CEILING: u64 = 60_000;
const FRAMES_CEILING_QUICK: u64 = 10_000;
const QUEUE_CEILING: usize = 2;
/// Steps of a per cent into which the search divides.
const CEILING_STEPS: f64 = 20.0;
/// Frames that wait for a line at most, otherwise.
const QUEUE: usize = 256;
/// Switches in the chain of figure 2, at most.
pub const HOPS: usize = 6;
/// Switches of figure 9: the print's, and on to as many as chains have.
const SURFACE_HOPS: [usize; 7] = [1, 2, 4, HOPS, 8, 16, 32];
/// Systems of chains, as figures have them.
const CHAINS: [System; 3] = [System::Plain, System::Macsec, System::Ipsec];
/// Loads of figure 9.
pub const SURFACE_LOADS: [f64; 4] = [20.0, 40.0, 60.0, 80.0];
/// Loads above the published ones at which the gateway is shown to be full, and
/// frames enough for its queue to overflow.
const BEYOND: [f64; 3] = [100.0, 120.0, 140.0];
const FRAMES_BEYOND: u64 = 5000;

/// One step of figure 2: with so many switches in the chain.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Switches between the two edges.
    pub switches: usize,
    /// Without encryption.
    pub plain_us: f64,
    /// With MACsec on every link.
    pub macsec_us: f64,
}

/// One place of figure 9.
#[derive(Clone, Debug)]
pub struct Surface {
    /// Function of the edges.
    pub system: System,
    /// Switches between them.
    pub switches: usize,
    /// The load and its delay.
    pub point: Point,
}

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// The devices.
    pub profiles: Profiles,
    /// The devices fitted once more, with the error of every value.
    pub fitted: Fitted,
    /// The gateway that one would try first, for comparison.
    pub queue: gateway::QueueFitted,
    /// Tables 1 to 3, and for IPsec loads beyond.
    pub loads: Vec<(System, Vec<Point>)>,
    /// MACsec at 95 % of the line.
    pub at_95: Point,
    /// The highest load without loss, in percent of the line.
    pub ceilings: Vec<(System, f64)>,
    /// Figure 2.
    pub hops: Vec<Hop>,
    /// Figure 9.
    pub surface: Vec<Surface>,
    /// Chains at a low load, and under bursts.
    pub chains: [Vec<Chain>; 2],
}

impl Model {
    /// The loads of a system.
    pub fn loads_of(&self, system: System) -> &[Point] {
        self.loads.iter().find(|(of, _)| *of == system).map_or(&[], |(_, points)| points)
    }

    /// The gateway's parameters.
    pub fn gateway(&self) -> Gateway {
        Gateway::of(&self.profiles.gateway)
    }

    /// MACsec's extra delay for each further switch: the slope through all of figure 2.
    pub fn extra_per_hop_us(&self) -> f64 {
        let points: Vec<(f64, f64)> =
            self.hops.iter().map(|h| (h.switches as f64, h.macsec_us - h.plain_us)).collect();
        slope(&points)
    }
}

/// The slope of the line of least squares.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let over: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    over / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Runs the whole model. `say` is told what comes next.
pub fn run(study: &Study, options: Options, say: &mut dyn FnMut(&str)) -> Model {
    let Options { quick, seed } = options;
    let frames = if quick { FRAMES_QUICK } else { FRAMES };
    let (lines, profiles) = (Lines { seed, ..lines(study) }, Profiles::read());
    let at = |system, profiles: &Profiles, load| {
        let frames =
            if system == System::Ipsec && load >= BEYOND[0] { FRAMES_BEYOND } else { frames };
        bench::measure(network::provider(system, profiles, lines), system, load, frames)
    };
    say("fits, with and without each value");
    let (fitted, queue) = (fit_again(study), gateway::fit_queue(&fit::target(study)));
    let mut loads = Vec::new();
    for system in System::ALL {
        say(&format!("load sweep: {}", system.name()));
        let mut offered = study.load_of(system.key()).offered_mbps.clone();
        if system == System::Ipsec {
            offered.extend(BEYOND);
        }
        loads.push((system, offered.into_iter().map(|load| at(system, &profiles, load)).collect()));
    }
    let at_95 = {
        let short = Lines { queue: QUEUE_CEILING, ..lines };
        let built = network::provider(System::Macsec, &profiles, short);
        let load = 0.95 * study.setup.link_rate_mbps;
        bench::measure(built, System::Macsec, load, FRAMES_CEILING_QUICK)
    };
    say("ceilings of load");
    let (steps, each) =
        if quick { (4.0, FRAMES_CEILING_QUICK) } else { (CEILING_STEPS, FRAMES_CEILING) };
    let ceilings = System::ALL.map(|system| (system, ceiling(system, lines, steps, each))).to_vec();
    say("delay by hop");
    let hops = hops(&profiles, lines);
    say("delay by hop and load");
    let surface = surface(&profiles, lines, frames);
    say("chains of up to 32 switches");
    let chains = [chains::LOW, chains::BURSTS]
        .map(|offered| chains::all(&CHAINS, (&profiles, lines), offered));
    Model { profiles, fitted, queue, loads, at_95, ceilings, hops, surface, chains }
}

/// Model of a load: the laboratory's result.
pub type At<'a> = &'a dyn Fn(System, &Profiles, f64) -> Point;
/// Model of figure 2: the laboratory's result.
pub type Hops<'a> = &'a dyn Fn(&Profiles) -> Vec<Hop>;

/// Fits the profiles again, as the files were made.
pub fn fit_again(study: &Study) -> Fitted {
    let lines = lines(study);
    let at = |system, profiles: &Profiles, load| {
        let built = network::provider(system, profiles, lines);
        bench::measure(built, system, load, FRAMES_QUICK)
    };
    fit::fit(study, &at, &|profiles| hops(profiles, lines))
}

/// The study's lines, with its own seed.
pub fn lines(study: &Study) -> Lines {
    Lines { rate: (study.setup.link_rate_mbps * 1e6) as u64, queue: QUEUE, seed: Seed::OWN }
}

/// The highest load that loses nothing, in percent of the line, where devices take no
/// time: the lines alone decide.
fn ceiling(system: System, lines: Lines, steps: f64, frames: u64) -> f64 {
    let lines = Lines { queue: QUEUE_CEILING, ..lines };
    let passes = |step: u64| {
        let load = step as f64 / steps / 100.0 * lines.rate as f64 / 1e6;
        let built = network::provider(system, &Profiles::lines(), lines);
        bench::measure(built, system, load, frames).lost == 0
    };
    let (mut good, mut bad) = ((80.0 * steps) as u64, (100.0 * steps) as u64 + 1);
    assert!(passes(good), "80 % of the line pass in every system");
    while bad - good > 1 {
        let middle = u64::midpoint(good, bad);
        if passes(middle) { good = middle } else { bad = middle }
    }
    good as f64 / steps
}

fn hops(profiles: &Profiles, lines: Lines) -> Vec<Hop> {
    let delay = |system, switches| {
        let built = network::chain(system, switches, profiles, lines);
        bench::measure(built, system, 100.0, FRAMES_QUICK).mean_us
    };
    let hop = |switches| {
        let (plain_us, macsec_us) =
            (delay(System::Plain, switches), delay(System::Macsec, switches));
        Hop { switches, plain_us, macsec_us }
    };
    (1..=HOPS).map(hop).collect()
}

fn surface(profiles: &Profiles, lines: Lines, frames: u64) -> Vec<Surface> {
    let mut places = Vec::new();
    for system in [System::Ipsec, System::Macsec] {
        // What does not depend on load needs no long look.
        let frames = if system == System::Ipsec { frames } else { frames.min(FRAMES_QUICK) };
        for switches in SURFACE_HOPS {
            for load in SURFACE_LOADS {
                let built = network::chain(system, switches, profiles, lines);
                let point = bench::measure(built, system, load, frames);
                places.push(Surface { system, switches, point });
            }
        }
    }
    places
}
