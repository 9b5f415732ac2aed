//! The model: every system at every size.

use super::fit::{self, Limits, Quality, Rate, is_modelled};
use super::live::{PERMITTED, SMALL, STREAMS};
use super::network::{Load, Point, line_rate, measure};
use super::nodes::{Core, Entries, List, PRINTED, System};
use super::published::Study;
use crate::options::{Options, Seed};

/// Frames of each load: many more than buckets and queues hold.
const FRAMES: u64 = 100_000;
const FRAMES_QUICK: u64 = 20_000;

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// The limits that stand for the devices.
    pub limits: Limits,
    /// Their errors.
    pub quality: Quality,
    /// Of each system, by size.
    pub points: Vec<(System, Vec<Point>)>,
    /// Of each printed rate that the limits say something about: the rate by limits that were
    /// fitted to all others.
    pub predicted: Vec<(Rate, f64)>,
    /// IP without a list by the streams that it is of, if a port has two queues that share the
    /// limit: for each number of streams by size.
    pub few: Vec<(u64, Vec<Point>)>,
    /// Small frames of IP, a list in and a list out, by the streams that it permits.
    pub permitted: [Vec<Point>; 2],
}

impl Model {
    /// A system's points, by size.
    pub fn of(&self, system: System) -> &[Point] {
        let found = self.points.iter().find(|(of, _)| *of == system);
        found.map_or(&[], |(_, points)| points)
    }

    /// Rates as a system's table prints them: frames forwarded, or with a list, frames processed.
    pub fn rates(&self, system: System) -> Vec<f64> {
        self.of(system).iter().map(|point| rate(system, point)).collect()
    }

    /// The largest deviation from a printed rate, 256 bytes aside, in percent.
    pub fn worst_percent(&self, study: &Study) -> f64 {
        let each = System::ALL.into_iter().flat_map(|system| {
            let printed = &study.of(system.key()).pps;
            let pairs = self.rates(system).into_iter().zip(printed).zip(&study.setup.frame_bytes);
            let pairs: Vec<_> = pairs.filter(|(_, octets)| is_modelled(**octets)).collect();
            pairs.into_iter().map(|((rate, printed), _)| 100.0 * (rate / printed - 1.0).abs())
        });
        each.fold(0.0, f64::max)
    }
}

/// Queues of a port, as the study has them (section 4.1.1).
const QUEUES: usize = 2;

/// Frames of each load, and the seed of its draws.
type Trial = (u64, Seed);

fn few(
    study: &Study,
    limits: Limits,
    (frames, seed): Trial,
    say: &mut dyn FnMut(&str),
) -> Vec<(u64, Vec<Point>)> {
    let system = System { core: Core::Ip, list: List::None, both_ways: false };
    let mut device = limits.profile(study, system, 1.0);
    device.cap.queues = QUEUES;
    let by_size = |streams| {
        say(&format!("{}, {streams} streams", system.key()));
        let sizes = study.setup.frame_bytes.iter().map(|&octets| {
            let load = Load { octets, per_second: line_rate(octets), streams, seed };
            measure((system, PRINTED), study, &device, load, frames)
        });
        (streams, sizes.collect())
    };
    STREAMS.map(by_size).to_vec()
}

fn rate(system: System, point: &Point) -> f64 {
    if system.list == List::None { point.forwarded } else { point.processed }
}

/// Frames of a size on a system whose devices have these limits; those with a list are offered
/// what `unlisted` systems carried, or what the line does.
fn point(
    study: &Study,
    limits: &Limits,
    (system, octets): Rate,
    unlisted: Option<f64>,
    (frames, seed): Trial,
) -> Point {
    let directions = if system.both_ways { 2.0 } else { 1.0 };
    let device = limits.profile(study, system, directions);
    let per_second = unlisted.unwrap_or(line_rate(octets));
    let load = Load { octets, per_second, streams: study.setup.streams, seed };
    measure((system, PRINTED), study, &device, load, frames)
}

/// Each rate by limits that were fitted to all others. Where those are the limits of all, so is
/// the rate.
fn predicted(study: &Study, model: &Model, trial: Trial) -> Vec<(Rate, f64)> {
    let anew = |limits: &Limits, (system, octets): Rate| {
        let plain = (system.list != List::None).then(|| {
            let plain = system.unlisted();
            rate(plain, &point(study, limits, (plain, octets), None, trial))
        });
        rate(system, &point(study, limits, (system, octets), plain, trial))
    };
    let each = fit::rates(study).filter(|(_, octets)| is_modelled(*octets)).map(|of| {
        let limits = Limits::fit_without(study, Some(of));
        let found = match limits == model.limits {
            true => model.rates(of.0)[study.at(of.1)],
            false => anew(&limits, of),
        };
        (of, found)
    });
    each.collect()
}

/// Runs it all. `say` is told what comes next.
pub fn run(study: &Study, options: Options, say: &mut dyn FnMut(&str)) -> Model {
    let seed = options.seed;
    let frames = if options.quick { FRAMES_QUICK } else { FRAMES };
    let limits = Limits::fit(study);
    let mut model = Model {
        limits,
        quality: Limits::quality(study),
        points: Vec::new(),
        predicted: Vec::new(),
        few: Vec::new(),
        permitted: Default::default(),
    };
    // Those without a list first: with one, as much is offered.
    let mut systems = System::ALL;
    systems.sort_by_key(|system| system.list != List::None);
    for system in systems {
        say(system.key());
        let before = model.rates(system.unlisted());
        let points = study.setup.frame_bytes.iter().enumerate().map(|(at, &octets)| {
            let unlisted = (system.list != List::None).then(|| before[at]);
            point(study, &limits, (system, octets), unlisted, (frames, seed))
        });
        model.points.push((system, points.collect()));
    }
    say("fits without one of the rates");
    model.predicted = predicted(study, &model, (frames, seed));
    model.permitted = [List::In, List::Out].map(|list| {
        let system = System { core: Core::Ip, list, both_ways: false };
        say(&format!("{}, by streams permitted", system.key()));
        let offered = model.rates(system.unlisted())[study.at(SMALL)];
        let device = limits.profile(study, system, 1.0);
        let point = |permitted| {
            let case = (system, Entries::Permit(permitted));
            let (octets, streams) = (SMALL, study.setup.streams);
            measure(
                case,
                study,
                &device,
                Load { octets, per_second: offered, streams, seed },
                frames,
            )
        };
        PERMITTED.map(point).to_vec()
    });
    model.few = few(study, limits, (frames, seed), say);
    model
}
