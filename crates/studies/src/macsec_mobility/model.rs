//! The model: profiles fitted to what was printed, and the laboratory's answer to
//! every table and figure.

use super::bench::{self, FRAME, LINE_OVERHEAD, Point};
use super::gateway::{self, Path, Target};
use super::network::{self, Lines, System};
use super::profiles::{CLOCKS_APART, Profiles};
use super::published::Study;

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
/// Switches in the chain, at most.
pub const HOPS: usize = 6;
/// Loads of figure 9.
pub const SURFACE_LOADS: [f64; 4] = [20.0, 40.0, 60.0, 80.0];
/// Loads above the published ones at which the gateway is shown to be full, and
/// frames enough for its queue to overflow.
const BEYOND: [f64; 3] = [100.0, 120.0, 140.0];
const FRAMES_BEYOND: u64 = 5000;

/// How a profile came about.
#[derive(Clone, Debug)]
pub struct FitRow {
    /// Of which device.
    pub device: &'static str,
    /// Its free parameters and their values.
    pub parameters: String,
    /// How many of them are free.
    pub free: usize,
    /// Published values that they were fitted to.
    pub points: usize,
    /// The largest error, in percent.
    pub error_percent: f64,
    /// The largest error of a value left out, in percent; nothing where there is one
    /// value alone.
    pub leave_one_out_percent: Option<f64>,
}

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
    /// What the edges do.
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
    /// How they were fitted.
    pub fits: Vec<FitRow>,
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
}

impl Model {
    /// The loads of a system.
    pub fn loads_of(&self, system: System) -> &[Point] {
        self.loads.iter().find(|(of, _)| *of == system).map_or(&[], |(_, points)| points)
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
pub fn run(study: &Study, quick: bool, say: &mut dyn FnMut(&str)) -> Model {
    let frames = if quick { FRAMES_QUICK } else { FRAMES };
    let lines = Lines { rate: (study.setup.link_rate_mbps * 1e6) as u64, queue: QUEUE };
    let at = |system, profiles: &Profiles, load| {
        let frames =
            if system == System::Ipsec && load >= BEYOND[0] { FRAMES_BEYOND } else { frames };
        bench::measure(network::provider(system, profiles, lines), system, load, frames)
    };
    say("fitting the devices to what was printed");
    let (profiles, fits, queue) = fit(study, lines, &at);
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
    let hops = (1..=HOPS).map(|switches| hop(switches, &profiles, lines, frames)).collect();
    say("delay by hop and load");
    let surface = surface(&profiles, lines, frames);
    Model { profiles, fits, queue, loads, at_95, ceilings, hops, surface }
}

type At<'a> = &'a dyn Fn(System, &Profiles, f64) -> Point;

/// Profiles for the three kinds of device, each with fewer free parameters than values.
fn fit(study: &Study, lines: Lines, at: At<'_>) -> (Profiles, Vec<FitRow>, gateway::QueueFitted) {
    let plain = study.load_of("plain");
    // All loads alike: what the lines do not explain, evenly among five devices.
    let alone = at(System::Plain, &Profiles::LINES, plain.offered_mbps[0]).mean_us;
    let centre = |values: &[f64]| {
        let ends = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        (ends.0 + ends.1) / 2.0
    };
    let error = |model: f64, value: f64| 100.0 * (model / value - 1.0).abs();
    let switch_us = (centre(&plain.delay_us) - alone) / 5.0;
    let worst = plain.delay_us.iter().map(|v| error(centre(&plain.delay_us), *v));
    let left_out = (0..plain.delay_us.len()).map(|out| {
        let mut rest = plain.delay_us.clone();
        error(centre(&rest.clone()), rest.remove(out))
            .max(error(centre(&rest), plain.delay_us[out]))
    });
    let mut fits = vec![FitRow {
        device: "switch, router",
        parameters: format!("latency {switch_us:.3} µs"),
        free: 1,
        points: plain.delay_us.len(),
        error_percent: worst.fold(0.0, f64::max),
        leave_one_out_percent: Some(left_out.fold(0.0, f64::max)),
    }];
    // Each hop seals once and opens once, and sends 32 octets more.
    let extra = study.hop_delay.macsec_extra_us_per_hop;
    let octets_us = study.overhead.macsec_overhead * 8.0 / study.setup.link_rate_mbps;
    let macsec_us = (extra - octets_us) / 2.0;
    fits.push(FitRow {
        device: "MACsec switch",
        parameters: format!("sealing and opening {macsec_us:.3} µs each"),
        free: 1,
        // Table 3 comes out of it without another parameter.
        points: 1 + study.load_of("macsec").delay_us.len(),
        error_percent: 0.0,
        leave_one_out_percent: None,
    });
    let mut profiles = Profiles { switch_us, macsec_us, gateway: None };
    let (row, queue, gateway) = fit_gateway(study, &profiles, lines, at);
    fits.push(row);
    profiles.gateway = Some(gateway);
    (profiles, fits, queue)
}

fn fit_gateway(
    study: &Study,
    profiles: &Profiles,
    lines: Lines,
    at: At<'_>,
) -> (FitRow, gateway::QueueFitted, super::profiles::Gateway) {
    let ipsec = study.load_of("ipsec");
    let delays = ipsec.offered_mbps.iter().copied().zip(ipsec.delay_us.iter().copied());
    let full_mbps = ipsec.saturates_at_mbps.unwrap_or(f64::NAN);
    let target = Target { delays: delays.collect(), full_mbps };
    let alone = at(System::Ipsec, profiles, target.delays[0].0);
    // The slowest line carries the longest frames.
    let longest = alone.octets.iter().copied().max().unwrap_or(FRAME) + LINE_OVERHEAD;
    let spacing_us = (longest * 8) as f64 * 1e6 / lines.rate as f64;
    let fitted = gateway::fit(&target, &Path { fixed_us: alone.mean_us, spacing_us });
    let gateway = fitted.gateway;
    let row = FitRow {
        device: "IPsec gateway",
        parameters: format!(
            "looks every {:.1} µs (the second gateway's clock runs {:.1} % slower), takes {} \
             frames, {:.0} µs a frame",
            gateway.poll_us,
            100.0 * CLOCKS_APART,
            gateway.budget,
            gateway.work_us
        ),
        free: gateway::FREE,
        points: target.points(),
        error_percent: fitted.error_percent,
        leave_one_out_percent: Some(fitted.leave_one_out_percent),
    };
    (row, gateway::fit_queue(&target), gateway)
}

/// The highest load that loses nothing, in percent of the line, where devices take no
/// time: the lines alone decide.
fn ceiling(system: System, lines: Lines, steps: f64, frames: u64) -> f64 {
    let lines = Lines { queue: QUEUE_CEILING, ..lines };
    let passes = |step: u64| {
        let load = step as f64 / steps / 100.0 * lines.rate as f64 / 1e6;
        let built = network::provider(system, &Profiles::LINES, lines);
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

fn hop(switches: usize, profiles: &Profiles, lines: Lines, frames: u64) -> Hop {
    let delay = |system| {
        let built = network::chain(system, switches, profiles, lines);
        bench::measure(built, system, 100.0, frames.min(FRAMES_QUICK)).mean_us
    };
    Hop { switches, plain_us: delay(System::Plain), macsec_us: delay(System::Macsec) }
}

fn surface(profiles: &Profiles, lines: Lines, frames: u64) -> Vec<Surface> {
    let mut places = Vec::new();
    for system in [System::Ipsec, System::Macsec] {
        // What does not depend on load needs no long look.
        let frames = if system == System::Ipsec { frames } else { frames.min(FRAMES_QUICK) };
        for switches in [1, 2, 4, HOPS] {
            for load in SURFACE_LOADS {
                let built = network::chain(system, switches, profiles, lines);
                let point = bench::measure(built, system, load, frames);
                places.push(Surface { system, switches, point });
            }
        }
    }
    places
}
