//! What was spent, and what it costs.

use super::{Distribution, Profile};
use crate::random::{exponential, gamma};
use ferrule_base::{Flow, Rng, STAGES_MAX, Work};

/// What a server did in one go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Frames taken.
    pub taken: Flow,
    /// Work that the node reported.
    pub work: Work,
}

impl Spent {
    /// Work since `before`.
    pub const fn since(taken: Flow, now: &Work, before: &Work) -> Self {
        let mut staged = now.staged;
        let mut stage = 0;
        while stage < STAGES_MAX {
            staged[stage] -= before.staged[stage];
            stage += 1;
        }
        let work = Work {
            sealed: less(now.sealed, before.sealed),
            opened: less(now.opened, before.opened),
            lookups: now.lookups - before.lookups,
            copied: less(now.copied, before.copied),
            labels: now.labels - before.labels,
            sealed_away: less(now.sealed_away, before.sealed_away),
            opened_away: less(now.opened_away, before.opened_away),
            staged,
        };
        Self { taken, work }
    }

    /// The mean price, in nanoseconds. What an engine elsewhere did costs nothing
    /// here.
    pub fn mean_ns(&self, profile: &Profile) -> f64 {
        let stages = profile.stages_ns.iter().zip(self.work.staged);
        profile.plain.of(self.taken)
            + profile.sealed.of(less(self.work.sealed, self.work.sealed_away))
            + profile.opened.of(less(self.work.opened, self.work.opened_away))
            + profile.copied.of(self.work.copied)
            + profile.lookup_ns * self.work.lookups as f64
            + profile.label_ns * self.work.labels as f64
            + stages.map(|(ns, packets)| ns * packets as f64).sum::<f64>()
    }
}

const fn less(a: Flow, b: Flow) -> Flow {
    Flow { packets: a.packets.saturating_sub(b.packets), octets: a.octets.saturating_sub(b.octets) }
}

/// What was spent takes this many picoseconds: the mean, spread for each frame
/// that was taken.
pub fn price(profile: &Profile, spent: &Spent, dice: &mut Rng) -> u64 {
    let mean = spent.mean_ns(profile);
    if mean <= 0.0 {
        return 0;
    }
    // As many draws as there were frames, each of an equal part.
    let frames = spent.taken.packets.max(1);
    let mut drawn = 0.0;
    for _ in 0..frames {
        drawn += match profile.distribution {
            Distribution::Fixed => 1.0,
            Distribution::Exponential => exponential(dice),
            Distribution::Gamma(scv) => gamma(dice, scv),
        };
    }
    (mean * drawn / frames as f64 * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Price;

    #[test]
    fn work_is_priced_by_packet_octet_and_kind() {
        let flow = |packets, octets| Flow { packets, octets };
        let profile = Profile {
            plain: Price { packet_ns: 100.0, octet_ns: 0.5 },
            sealed: Price { packet_ns: 1000.0, octet_ns: 10.0 },
            opened: Price { packet_ns: 2000.0, octet_ns: 20.0 },
            copied: Price { packet_ns: 7.0, octet_ns: 1.0 },
            lookup_ns: 3.0,
            label_ns: 11.0,
            stages_ns: std::array::from_fn(|stage| if stage == 6 { 50.0 } else { 9.0 }),
            ..Profile::ideal()
        };
        let before = Work { lookups: 5, sealed: flow(1, 50), ..Work::default() };
        let now = Work {
            lookups: 9,
            sealed: flow(4, 550),
            opened: flow(1, 10),
            copied: flow(2, 30),
            labels: 2,
            sealed_away: flow(2, 400),
            opened_away: Flow::default(),
            staged: std::array::from_fn(|stage| if stage == 6 { 3 } else { 0 }),
        };
        let spent = Spent::since(flow(2, 200), &now, &before);
        let mean = (200.0 + 100.0) + (1000.0 + 1000.0) + (2000.0 + 200.0) + (14.0 + 30.0) + 12.0;
        let mean = mean + 2.0 * 11.0 + 3.0 * 50.0;
        assert_eq!(price(&profile, &spent, &mut Rng::new(1)), (mean * 1000.0) as u64);
    }
}
