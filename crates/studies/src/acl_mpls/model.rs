//! The model: every system at every size.

use super::fit::{Limits, is_modelled};
use super::live::{PERMITTED, SMALL, STREAMS};
use super::network::{Load, Point, line_rate, measure};
use super::nodes::{Core, Entries, List, PRINTED, System};
use super::published::Study;

/// Frames of each load: many more than buckets and queues hold.
const FRAMES: u64 = 100_000;
const FRAMES_QUICK: u64 = 20_000;

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// The limits that stand for the devices.
    pub limits: Limits,
    /// The largest error of a rate that one of them was fitted to, in percent.
    pub fit_percent: f64,
    /// Of each system, by size.
    pub points: Vec<(System, Vec<Point>)>,
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

fn few(
    study: &Study,
    limits: Limits,
    frames: u64,
    say: &mut dyn FnMut(&str),
) -> Vec<(u64, Vec<Point>)> {
    let system = System { core: Core::Ip, list: List::None, both_ways: false };
    let mut device = limits.profile(study, system, 1.0);
    device.cap.queues = QUEUES;
    let by_size = |streams| {
        say(&format!("{}, {streams} streams", system.key()));
        let sizes = study.setup.frame_bytes.iter().map(|&octets| {
            let load = Load { octets, per_second: line_rate(octets), streams };
            measure((system, PRINTED), study, &device, load, frames)
        });
        (streams, sizes.collect())
    };
    STREAMS.map(by_size).to_vec()
}

fn rate(system: System, point: &Point) -> f64 {
    if system.list == List::None { point.forwarded } else { point.processed }
}

/// Runs it all. `say` is told what comes next.
pub fn run(study: &Study, quick: bool, say: &mut dyn FnMut(&str)) -> Model {
    let frames = if quick { FRAMES_QUICK } else { FRAMES };
    let (limits, fit_percent) = Limits::fit(study);
    let mut model = Model {
        limits,
        fit_percent,
        points: Vec::new(),
        few: Vec::new(),
        permitted: Default::default(),
    };
    // Those without a list first: with one, as much is offered.
    let mut systems = System::ALL;
    systems.sort_by_key(|system| system.list != List::None);
    for system in systems {
        say(system.key());
        let before = model.rates(system.unlisted());
        let directions = if system.both_ways { 2.0 } else { 1.0 };
        let device = limits.profile(study, system, directions);
        let point = |(at, &octets): (usize, &usize)| {
            let offered = match system.list {
                List::None => line_rate(octets),
                _ => before[at],
            };
            let load = Load { octets, per_second: offered, streams: study.setup.streams };
            measure((system, PRINTED), study, &device, load, frames)
        };
        let points = study.setup.frame_bytes.iter().enumerate().map(point).collect();
        model.points.push((system, points));
    }
    model.permitted = [List::In, List::Out].map(|list| {
        let system = System { core: Core::Ip, list, both_ways: false };
        say(&format!("{}, by streams permitted", system.key()));
        let offered = model.rates(system.unlisted())[study.at(SMALL)];
        let device = limits.profile(study, system, 1.0);
        let point = |permitted| {
            let case = (system, Entries::Permit(permitted));
            let (octets, streams) = (SMALL, study.setup.streams);
            measure(case, study, &device, Load { octets, per_second: offered, streams }, frames)
        };
        PERMITTED.map(point).to_vec()
    });
    model.few = few(study, limits, frames, say);
    model
}
