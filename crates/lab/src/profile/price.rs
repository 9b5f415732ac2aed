//! Work of a server and its price.

use super::{Distribution, Profile};
use crate::random::{exponential, gamma};
use ferrule_base::{Flow, Rng, STAGES_MAX, Work};
use ferrule_dataplane::Next;
use ferrule_node::Config;

/// Sizes of a node's tables, which decide how much of them the caches hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pairs of IPsec SAs.
    pub sas: usize,
    /// Routes of all VRFs.
    pub routes: usize,
    /// Entries of all access lists.
    pub entries: usize,
}

impl Sizes {
    /// Table sizes of a configuration.
    pub fn of(config: &Config) -> Self {
        let entries = config.lists.iter().map(|list| list.entries.len()).sum();
        Self { sas: config.tunnels.len(), routes: config.routes.len(), entries }
    }
}

/// Sizes of a table for which a profile has a price; between them it is as much more as
/// the logarithm of the size.
pub const KNOTS: [usize; 3] = [100, 1_000, 10_000];

/// Parts of the prices at the [`KNOTS`], `unit` times as large, that make the price at
/// `size`: nothing up to a tenth of the first one, and no more beyond the last.
fn parts(size: usize, unit: usize) -> [f64; KNOTS.len()] {
    let at = (size.max(1) as f64 / unit as f64).log10();
    let at = at.min((KNOTS[KNOTS.len() - 1] as f64).log10());
    // They are a power of ten apart.
    KNOTS.map(|knot| (1.0 - (at - (knot as f64).log10()).abs()).max(0.0))
}

/// Routes to one SA at each knot.
pub const ROUTES: usize = 10;
/// Entries of access lists to one SA at each knot.
pub const ENTRIES: usize = 10;

/// Work that a server did in one go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Frames taken.
    pub taken: Flow,
    /// Work that the node reported.
    pub work: Work,
    /// Its tables.
    pub sizes: Sizes,
}

impl Spent {
    /// Work since `before`.
    pub const fn since(sizes: Sizes, taken: Flow, now: &Work, before: &Work) -> Self {
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
        Self { taken, work, sizes }
    }

    /// Packets that an SA of this node's own was looked up for, by knot.
    pub fn among_sas(&self) -> [f64; KNOTS.len()] {
        let own = |all: Flow, away: Flow| all.packets.saturating_sub(away.packets) as f64;
        let (sealed, opened) = (self.work.sealed, self.work.opened);
        let packets = own(sealed, self.work.sealed_away) + own(opened, self.work.opened_away);
        parts(self.sizes.sas, 1).map(|part| part * packets)
    }

    /// Routes that were looked up, by knot.
    pub fn among_routes(&self) -> [f64; KNOTS.len()] {
        let packets = self.work.staged[Next::Ip.number()] as f64;
        parts(self.sizes.routes, ROUTES).map(|part| part * packets)
    }

    /// Packets and frames that an access list judged, by knot.
    pub fn among_entries(&self) -> [f64; KNOTS.len()] {
        let stages = [Next::AclIn, Next::AclOut, Next::FrameAclIn, Next::FrameAclOut];
        let packets: u64 = stages.map(|stage| self.work.staged[stage.number()]).iter().sum();
        parts(self.sizes.entries, ENTRIES).map(|part| part * packets as f64)
    }

    /// The part of the mean price that is sealing and opening, with finding the SA among
    /// many: from 0 to 1.
    pub fn crypto_share(&self, profile: &Profile) -> f64 {
        let mean = self.mean_ns(profile);
        let crypto = profile.sealed.of(less(self.work.sealed, self.work.sealed_away))
            + profile.opened.of(less(self.work.opened, self.work.opened_away))
            + sum(profile.sas_ns, self.among_sas());
        if mean > 0.0 { (crypto / mean).clamp(0.0, 1.0) } else { 0.0 }
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
            + sum(profile.sas_ns, self.among_sas())
            + sum(profile.routes_ns, self.among_routes())
            + sum(profile.entries_ns, self.among_entries())
    }
}

fn sum(prices: [f64; KNOTS.len()], times: [f64; KNOTS.len()]) -> f64 {
    prices.iter().zip(times).map(|(price, times)| price * times).sum()
}

const fn less(a: Flow, b: Flow) -> Flow {
    Flow { packets: a.packets.saturating_sub(b.packets), octets: a.octets.saturating_sub(b.octets) }
}

/// Price of the work in picoseconds: the mean, spread for each frame that was taken.
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
        let spent = Spent::since(Sizes::default(), flow(2, 200), &now, &before);
        let mean = (200.0 + 100.0) + (1000.0 + 1000.0) + (2000.0 + 200.0) + (14.0 + 30.0) + 12.0;
        let mean = mean + 2.0 * 11.0 + 3.0 * 50.0;
        assert_eq!(price(&profile, &spent, &mut Rng::new(1)), (mean * 1000.0) as u64);
    }

    #[test]
    fn a_larger_table_is_priced_between_the_sizes_that_were_measured() {
        let profile = Profile {
            sas_ns: [10.0, 30.0, 90.0],
            routes_ns: [0.0, 5.0, 25.0],
            entries_ns: [2.0, 4.0, 8.0],
            ..Profile::ideal()
        };
        let mut work = Work { sealed: Flow { packets: 1, octets: 64 }, ..Work::default() };
        let price =
            |sizes, work: &Work| Spent { sizes, work: *work, ..Spent::default() }.mean_ns(&profile);
        for (sas, ns) in [
            (0, 0.0),
            (10, 0.0),
            (32, 5.0),
            (100, 10.0),
            (1000, 30.0),
            (3162, 60.0),
            (10_000, 90.0),
            (1_000_000, 90.0),
        ] {
            let got = price(Sizes { sas, ..Sizes::default() }, &work);
            assert!((got - ns).abs() < 0.1, "{sas} SAs: {got}");
        }
        work.staged[Next::Ip.number()] = 2;
        let got = price(Sizes { sas: 1, routes: 100_000, entries: 10_000 }, &work);
        assert!((got - 50.0).abs() < 0.01, "{got}");
        work.staged[Next::AclOut.number()] = 1;
        let got = price(Sizes { sas: 1, routes: 100_000, entries: 10_000 }, &work);
        assert!((got - 54.0).abs() < 0.01, "{got}");
    }
}
