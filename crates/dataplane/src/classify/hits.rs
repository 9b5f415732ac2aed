//! Matches of each entry of a policy or an access list: a worker's own counters.
//!
//! The configuration numbers the entries. When it changes, a new snapshot says where
//! each counter was in the one before, so that an entry that stays keeps its count:
//!
//! ```text
//!   before:  a 7 │ b 3 │ c 9        carried: [2, NEW, 0]
//!   after:   c 9 │ d 0 │ a 7
//! ```

use super::Direction;
use ferrule_pipeline::{NEAR_MAX, prefetch_slice};

/// The number in place of a counter where packets are not counted.
pub const UNCOUNTED: u32 = u32::MAX;

/// Packets and octets that matched an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Packets on their way out.
    pub packets_out: u64,
    /// Their octets.
    pub octets_out: u64,
    /// Packets that came in clear.
    pub packets_in: u64,
    /// Their octets.
    pub octets_in: u64,
}

impl Hit {
    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.packets_out += other.packets_out;
        self.octets_out += other.octets_out;
        self.packets_in += other.packets_in;
        self.octets_in += other.octets_in;
    }
}

/// The counters of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitMap {
    /// Number of earlier snapshots.
    pub generation: u64,
    /// Of each counter: its number in the snapshot before, or [`UNCOUNTED`].
    pub carried: Box<[u32]>,
}

/// Packets and octets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    packets: u64,
    octets: u64,
}

impl Count {
    #[inline(always)]
    fn add(&mut self, packets: u64, octets: u64) {
        self.packets = self.packets.wrapping_add(packets);
        self.octets = self.octets.wrapping_add(octets);
    }
}

/// The counters of a worker. (Those of each direction lie side by side: most entries are for
/// one, and of the other nothing comes into the cache.)
#[derive(Clone, Debug, Default)]
pub struct Hits {
    generation: u64,
    outbound: Vec<Count>,
    inbound: Vec<Count>,
}

impl Hits {
    /// Fits the counters to a snapshot.
    pub fn fit(&mut self, map: &HitMap) {
        if self.generation == map.generation && self.outbound.len() == map.carried.len() {
            return;
        }
        let next = map.generation == self.generation + 1;
        let carry = |counts: &mut Vec<Count>| {
            let old = |&from: &u32| match counts.get(from as usize) {
                Some(count) if next => *count,
                _ => Count::default(),
            };
            *counts = map.carried.iter().map(old).collect();
        };
        carry(&mut self.outbound);
        carry(&mut self.inbound);
        self.generation = map.generation;
    }

    #[inline(always)]
    fn counts(&mut self, way: Direction) -> &mut [Count] {
        match way {
            Direction::Outbound => &mut self.outbound,
            Direction::Inbound => &mut self.inbound,
        }
    }

    /// Counts packets.
    #[inline]
    pub fn count(&mut self, way: Direction, counter: u32, packets: u64, octets: u64) {
        if let Some(count) = self.counts(way).get_mut(counter as usize) {
            count.add(packets, octets);
        }
    }

    /// Asks the processor for a counter by which a packet is likely to be counted.
    #[inline(always)]
    pub fn prefetch(&self, way: Direction, counter: u32) {
        let counts = match way {
            Direction::Outbound => &self.outbound,
            Direction::Inbound => &self.inbound,
        };
        prefetch_slice(counts, counter as usize);
    }

    /// Counts a batch of packets by the counters of their outcomes, behind the first `from`.
    /// (Those of one entry are summed first: otherwise each would wait for the count of the
    /// one before.)
    #[inline(always)]
    pub fn count_all<T>(
        &mut self,
        way: Direction,
        from: u32,
        outcomes: &[T],
        counter: impl Fn(&T) -> u32,
        octets: &[u32],
    ) {
        let Some(first) = outcomes.first().map(&counter) else { return };
        let Some(counts) = self.counts(way).get_mut(from as usize..) else { return };
        if outcomes.iter().fold(0, |all, other| all | counter(other) ^ first) == 0 {
            let sum = octets.iter().take(outcomes.len()).map(|&octets| u64::from(octets)).sum();
            let count = counts.get_mut(first as usize);
            return count.into_iter().for_each(|count| count.add(outcomes.len() as u64, sum));
        }
        if counts.len() > NEAR_MAX {
            let counters = outcomes.iter().map(|outcome| counter(outcome) as usize);
            counters.for_each(|counter| prefetch_slice(counts, counter));
        }
        for (outcome, &octets) in outcomes.iter().zip(octets) {
            if let Some(count) = counts.get_mut(counter(outcome) as usize) {
                count.add(1, octets.into());
            }
        }
    }

    /// Every counter, by number.
    pub fn all(&self) -> Vec<Hit> {
        let join = |(out, inn): (&Count, &Count)| Hit {
            packets_out: out.packets,
            octets_out: out.octets,
            packets_in: inn.packets,
            octets_in: inn.octets,
        };
        self.outbound.iter().zip(&self.inbound).map(join).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_pipeline::BATCH;

    #[test]
    fn spd_hits_go_with_their_entry_when_the_policy_changes() {
        let map = |generation, carried: &[u32]| HitMap { generation, carried: carried.into() };
        let mut hits = Hits::default();
        hits.fit(&map(1, &[UNCOUNTED; 3]));
        hits.count(Direction::Outbound, 0, 7, 700);
        hits.count(Direction::Inbound, 2, 1, 90);
        hits.count(Direction::Outbound, UNCOUNTED, 1, 1);
        hits.fit(&map(1, &[UNCOUNTED; 3]));
        hits.fit(&map(2, &[2, UNCOUNTED, 0]));
        let all = hits.all();
        let [c, d, a] = &all[..] else { panic!("{hits:?}") };
        assert_eq!((c.packets_in, c.octets_in), (1, 90));
        assert_eq!(*d, Hit::default());
        assert_eq!((a.packets_out, a.octets_out), (7, 700));
        hits.fit(&map(4, &[0, 1, 2]));
        assert_eq!(hits.all(), [Hit::default(); 3], "a snapshot was missed: nobody knows");
    }

    #[test]
    fn spd_hits_of_a_batch_are_those_of_its_packets() {
        let mut rng = ferrule_base::Rng::new(5);
        for entries in [1, 2, 3, 200] {
            for packets in [0, 1, 2, 127, BATCH] {
                let map = HitMap { generation: 1, carried: vec![UNCOUNTED; entries].into() };
                let (mut all, mut each) = (Hits::default(), Hits::default());
                all.fit(&map);
                each.fit(&map);
                let some = |rng: &mut ferrule_base::Rng| match rng.one_in(9) {
                    true => UNCOUNTED,
                    false => rng.below(entries as u64) as u32,
                };
                let counters: Vec<u32> = (0..packets).map(|_| some(&mut rng)).collect();
                let octets: Vec<u32> = (0..packets).map(|_| rng.below(1500) as u32).collect();
                let from = rng.below(entries as u64) as u32;
                all.count_all(Direction::Outbound, from, &counters, |&counter| counter, &octets);
                for (&counter, &octets) in counters.iter().zip(&octets) {
                    let counter = counter.saturating_add(from);
                    each.count(Direction::Outbound, counter, 1, octets.into());
                }
                assert_eq!(all.all(), each.all());
            }
        }
    }
}
