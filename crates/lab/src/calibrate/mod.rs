//! Calibration: costs of the data path on the machine it runs on, as a profile.
//!
//! A node is fed batches of many flows from memory and its turns are timed, path by path
//! and length by length. What it reports as work, and the time that it took, make
//! one equation each:
//!
//! ```text
//!   time = frames · a + octets · b + sealed · c + octets under an ICV · d + …
//! ```
//!
//! The prices are the solution with the least relative error and none below
//! zero. How well they fit, and how well each is told by the others, is part of
//! the profile. The clock is the caller's: this crate has none.

mod control;
mod paths;
mod solve;

use crate::memory::Path;
use crate::profile::{BATCH_MAX, ControlCost, Fit, KNOTS, Key, Profile, Source, Spent};
use ferrule_dataplane::Next;
use paths::all;
use solve::least_squares;

/// Rounds of which the median is taken, after one that does not count.
const ROUNDS: usize = 51;

/// A price that is looked for: its place in a profile, and how much of it a turn used.
type Price = (&'static str, fn(&Spent) -> f64);

/// Prices beside those of stages.
const BESIDE: [Price; 15] = [
    ("occupancy.octet-ns", |s| s.taken.octets as f64),
    ("occupancy.sealed.octet-ns", |s| s.work.sealed.octets as f64),
    ("occupancy.opened.octet-ns", |s| s.work.opened.octets as f64),
    ("occupancy.label-ns", |s| s.work.labels as f64),
    ("occupancy.copied.packet-ns", |s| s.work.copied.packets as f64),
    ("occupancy.copied.octet-ns", |s| s.work.copied.octets as f64),
    ("occupancy.sas.100-ns", |s| s.among_sas()[0]),
    ("occupancy.sas.1000-ns", |s| s.among_sas()[1]),
    ("occupancy.sas.10000-ns", |s| s.among_sas()[2]),
    ("occupancy.routes.1000-ns", |s| s.among_routes()[0]),
    ("occupancy.routes.10000-ns", |s| s.among_routes()[1]),
    ("occupancy.routes.100000-ns", |s| s.among_routes()[2]),
    ("occupancy.entries.1000-ns", |s| s.among_entries()[0]),
    ("occupancy.entries.10000-ns", |s| s.among_entries()[1]),
    ("occupancy.entries.100000-ns", |s| s.among_entries()[2]),
];

/// Prices that are looked for: these, and one for each stage.
const PRICES: usize = BESIDE.len() + Next::ALL.len();

/// Work of each price's kind.
fn used(spent: &Spent) -> [f64; PRICES] {
    std::array::from_fn(|price| match BESIDE.get(price) {
        Some((_, used)) => used(spent),
        None => spent.work.staged[Next::ALL[price - BESIDE.len()].number()] as f64,
    })
}

/// The keys of the prices.
fn keys() -> impl Iterator<Item = &'static Key> {
    let stages = Next::ALL.iter().map(|stage| format!("occupancy.stage.{}", stage.name()));
    let all = BESIDE.iter().map(|(path, _)| (*path).to_owned()).chain(stages);
    all.map(|path| Key::find(&path).expect("a price has a key"))
}

/// One path with frames of one length.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The path.
    pub path: String,
    /// Octets of a frame as it came in, without FCS.
    pub octets: u64,
    /// Work of what was carried at once.
    pub spent: Spent,
    /// Time that it took, in nanoseconds: the median.
    pub batch_ns: f64,
}

impl Observation {
    fn of(path: String, through: &Path, batch_ns: f64) -> Self {
        let spent = *through.spent();
        let octets = spent.taken.octets / spent.taken.packets.max(1);
        Self { path, octets, spent, batch_ns }
    }

    /// Measured mean time per frame.
    pub fn measured_ns(&self) -> f64 {
        self.batch_ns / self.spent.taken.packets.max(1) as f64
    }

    /// Mean time per frame that a profile gives.
    pub fn priced_ns(&self, profile: &Profile) -> f64 {
        self.spent.mean_ns(profile) / self.spent.taken.packets.max(1) as f64
    }

    /// Error of the profile, in percent.
    pub fn error_percent(&self, profile: &Profile) -> f64 {
        (self.priced_ns(profile) / self.measured_ns() - 1.0) * 100.0
    }
}

/// Measurements of one machine and the profile fitted to them.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The profile.
    pub profile: Profile,
    /// Measurements that the profile was fitted to.
    pub observations: Vec<Observation>,
}

/// Measures and fits. `clock` is in nanoseconds and never goes back; `progress` is called with the
/// number of rounds done and their total.
///
/// The large tables take most of the several seconds that a calibration lasts.
pub fn calibrate(
    name: &str,
    machine: &str,
    clock: &mut dyn FnMut() -> u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Calibration {
    let mut paths = all(&KNOTS);
    let mut times: Vec<Vec<u64>> = paths.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    let mut lan = control::Lan::new();
    let mut messages_ns = Vec::with_capacity(ROUNDS);
    for round in 0..=ROUNDS {
        for ((_, path), times) in paths.iter_mut().zip(&mut times) {
            let nanos = path.round(clock);
            if round > 0 {
                times.push(nanos);
            }
        }
        let message_ns = lan.round(clock);
        if round > 0 {
            messages_ns.push(message_ns);
        }
        progress(round, ROUNDS);
    }
    let observe = |((path, through), mut times): ((String, Path), Vec<u64>)| {
        times.sort_unstable();
        Observation::of(path, &through, times[times.len() / 2] as f64)
    };
    let observations: Vec<_> = paths.into_iter().zip(times).map(observe).collect();
    messages_ns.sort_unstable_by(f64::total_cmp);
    let message_ns = messages_ns[messages_ns.len() / 2].round();
    let mut profile = fit(name, machine, &observations);
    profile.control = ControlCost { message_ns, ..ControlCost::default() };
    Calibration { profile, observations }
}

/// The profile that fits what was observed best.
pub fn fit(name: &str, machine: &str, observations: &[Observation]) -> Profile {
    let mut profile = prices(observations.iter());
    let all: Vec<&Observation> = observations.iter().collect();
    let mut left_out: f64 = 0.0;
    for (i, one) in all.iter().enumerate() {
        let others = all.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, o)| *o);
        left_out = left_out.max(one.error_percent(&prices(others)).abs());
    }
    let errors = all.iter().map(|o| o.error_percent(&profile).abs());
    profile.fit = Fit {
        points: all.len(),
        error_percent: tenths(errors.fold(0.0, f64::max)),
        leave_one_out_percent: tenths(left_out),
    };
    Profile {
        name: name.into(),
        about: format!("the data path on one core, memory to memory, batches of {BATCH_MAX}"),
        source: Source::Calibrated,
        origin: machine.into(),
        free: keys().filter(|key| (key.get)(&profile) > 0.0).map(|key| key.path.into()).collect(),
        batch: BATCH_MAX,
        ..profile
    }
}

/// The prices with the least relative error.
fn prices<'a>(observations: impl Iterator<Item = &'a Observation>) -> Profile {
    let mut rows = Vec::new();
    for one in observations {
        // Each equation is divided by its time: errors count relative to it.
        let weight = 1.0 / one.batch_ns.max(1.0);
        rows.push((used(&one.spent).map(|used| used * weight), one.batch_ns * weight));
    }
    let solution = least_squares(&rows);
    let mut profile = Profile::ideal();
    for (key, value) in keys().zip(solution) {
        // A thousandth of a nanosecond is less than anybody measures.
        (key.set)(&mut profile, (value * 1000.0).round() / 1000.0);
    }
    profile
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Price;

    /// A clock that charges a turn what a known profile says: the fit finds it.
    #[test]
    fn calibration_finds_the_prices_of_a_machine_that_is_known() {
        let truth = Profile {
            plain: Price { packet_ns: 0.0, octet_ns: 0.02 },
            sealed: Price { packet_ns: 0.0, octet_ns: 0.25 },
            opened: Price { packet_ns: 0.0, octet_ns: 0.3 },
            copied: Price { packet_ns: 25.0, octet_ns: 0.05 },
            stages_ns: std::array::from_fn(|stage| 10.0 + stage as f64),
            sas_ns: [20.0, 0.0, 0.0],
            routes_ns: [15.0, 0.0, 0.0],
            entries_ns: [12.0, 0.0, 0.0],
            ..Profile::ideal()
        };
        let mut observations: Vec<Observation> = all(&KNOTS[..1])
            .into_iter()
            .map(|(path, mut through)| {
                through.round(&mut || 0);
                Observation::of(path, &through, 0.0)
            })
            .collect();
        for one in &mut observations {
            let (taken, sent) = (one.spent.taken, one.spent.work.staged[Next::Transmit.number()]);
            assert!(taken.packets > 0 && sent >= taken.packets, "{} loses frames", one.path);
            one.batch_ns = one.spent.mean_ns(&truth);
        }
        let profile = fit("known", "a table", &observations);
        assert!(profile.fit.error_percent < 0.2, "{profile:?}");
        let close = |a: f64, b: f64| (a - b).abs() <= 0.02 * b.max(0.05);
        assert!(close(profile.sealed.octet_ns, 0.25), "{profile:?}");
        assert!(close(profile.opened.octet_ns, 0.3), "{profile:?}");
        assert!(close(profile.copied.octet_ns, 0.05), "{profile:?}");
        assert!(close(profile.sas_ns[0], 20.0), "{profile:?}");
        assert!(close(profile.routes_ns[0], 15.0), "{profile:?}");
        assert!(close(profile.entries_ns[0], 12.0), "{profile:?}");
        let text = profile.to_toml();
        assert_eq!(Profile::parse("known.toml", &text), Ok(profile), "{text}");
    }

    #[test]
    fn calibration_measures_every_path_with_the_callers_clock() {
        // A clock that advances by 6400 ns each time it is read.
        let mut now = 0;
        let mut clock = || {
            now += 6400;
            now
        };
        let mut rounds = 0;
        let done = calibrate("tick", "a metronome", &mut clock, &mut |_, _| rounds += 1);
        assert_eq!(rounds, ROUNDS + 1);
        assert_eq!(done.profile.source, Source::Calibrated);
        assert!(done.observations.iter().all(|o| o.batch_ns == 6400.0));
        let seals = done.observations.iter().filter(|o| o.spent.work.sealed.packets > 0);
        let opens = done.observations.iter().filter(|o| o.spent.work.opened.packets > 0);
        let table = KNOTS.len();
        assert_eq!((seals.count(), opens.count()), (8 + table, 8 + table), "of four lengths");
        let visited = |stage: &Next| {
            done.observations.iter().any(|o| o.spent.work.staged[stage.number()] > 0)
        };
        for stage in [
            Next::Mpls,
            Next::PwIn,
            Next::PwOut,
            Next::Policy,
            Next::Bridge,
            Next::SourceCheck,
            Next::AclIn,
            Next::AclOut,
            Next::FrameAclIn,
            Next::FrameAclOut,
        ] {
            assert!(visited(&stage), "{}", stage.name());
        }
    }
}
