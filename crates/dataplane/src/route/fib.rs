//! Longest prefix match: a trie of octets, sized by its content.
//!
//! ```text
//!   node: octets that must match (path compression)
//!         256 bits, one for each value of the next octet
//!           bit set: a new run begins ─▶ entries[base + bits set so far]
//!                                          a route, or another node
//! ```
//! Prefixes are expanded to whole octets and pushed down to the leaves, so the
//! last entry met is the answer. Neighbouring values with the same entry share
//! one place (a run), and octets on which all prefixes below agree are skipped,
//! so a table of a few routes is a few cache lines. Built once, never changed.

use super::config::Route;

/// An address as a number of 32 or 128 bits.
pub trait Key: Copy + Ord + Default {
    /// Bits of an address.
    const BITS: u32;
    /// The octets below which nothing but zero is left after `shift` to the
    /// right; nothing where more than one octet is left.
    fn octet_of_difference(self, other: Self, shift: u8) -> Option<u8>;
    /// The number with all but the first `len` bits cleared.
    fn masked(self, len: u32) -> Self;
    /// The octet at `depth` octets from the front.
    fn octet(self, depth: u32) -> u8;
    /// Leading bits on which both agree.
    fn agree(self, other: Self) -> u32;
}

macro_rules! key {
    ($int:ty) => {
        impl Key for $int {
            const BITS: u32 = <$int>::BITS;

            #[inline]
            fn octet_of_difference(self, other: Self, shift: u8) -> Option<u8> {
                let rest = (self ^ other) >> (u32::from(shift) & (Self::BITS - 1));
                if rest > 0xff { None } else { Some(rest as u8) }
            }

            fn masked(self, len: u32) -> Self {
                match Self::BITS.saturating_sub(len) {
                    0 => self,
                    low => self.checked_shr(low).map_or(0, |v| v << low),
                }
            }

            fn octet(self, depth: u32) -> u8 {
                (self >> (Self::BITS - 8 - 8 * depth)) as u8
            }

            fn agree(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }
        }
    };
}
key!(u32);
key!(u128);

/// A route or the number of a node, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const NODE: u32 = 1 << 31;
    const GUARDED: u32 = 1 << 30;
    const NONE: Self = Self(0);

    fn route(route: Route) -> Self {
        match route {
            Route::Local => Self(1),
            Route::Discard => Self(2),
            Route::Via(adjacency) => {
                assert!(adjacency < Self::GUARDED - 3, "adjacency numbers are small");
                Self(3 + adjacency)
            }
            Route::Guarded(adjacency) => Self(Self::GUARDED | Self::route(Route::Via(adjacency)).0),
        }
    }

    #[inline]
    const fn decode(self) -> Option<Route> {
        match self.0 {
            0 => None,
            1 => Some(Route::Local),
            2 => Some(Route::Discard),
            n if n & Self::GUARDED == 0 => Some(Route::Via(n - 3)),
            n => Some(Route::Guarded((n & !Self::GUARDED) - 3)),
        }
    }
}

/// One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node<K> {
    /// Bit n set: the entry of octet n differs from that of n - 1.
    runs: [u64; 4],
    /// What the address has in front of this node's octet; zero from there on.
    prefix: K,
    /// Its entries; the first one is for addresses that have not the prefix.
    base: u32,
    /// Bits set in the words of `runs` before each.
    ranks: [u8; 4],
    /// Bits behind this node's octet.
    shift: u8,
}

/// Routes by prefix.
#[derive(Clone, Debug)]
pub struct Fib<K> {
    root: Entry,
    nodes: Vec<Node<K>>,
    entries: Vec<Entry>,
}

impl<K> Default for Fib<K> {
    fn default() -> Self {
        Self { root: Entry::NONE, nodes: Vec::new(), entries: Vec::new() }
    }
}

/// A prefix with its entry.
type Prefix<K> = (K, u32, Entry);

impl<K: Key> Fib<K> {
    /// A table of these prefixes: address, length, route. Bits behind the length
    /// are ignored; of two routes for one prefix the later one holds.
    pub fn new(prefixes: impl IntoIterator<Item = (K, u8, Route)>) -> Self {
        let mut sorted: Vec<Prefix<K>> = prefixes
            .into_iter()
            .map(|(key, len, route)| {
                let len = u32::from(len).min(K::BITS);
                (key.masked(len), len, Entry::route(route))
            })
            .collect();
        sorted.reverse();
        sorted.sort_by_key(|&(key, len, _)| (key, len));
        sorted.dedup_by_key(|&mut (key, len, _)| (key, len));
        let mut fib = Self::default();
        // The default route, if any, is the first one.
        let rest = match sorted.split_first() {
            Some((&(_, 0, entry), rest)) => {
                fib.root = entry;
                rest
            }
            _ => &sorted,
        };
        fib.root = fib.build(rest, fib.root);
        fib
    }

    /// The entry for prefixes that agree up to some depth and are all longer;
    /// `above` holds where none of them matches.
    fn build(&mut self, sorted: &[Prefix<K>], above: Entry) -> Entry {
        let (Some(&(first, ..)), Some(&(last, ..))) = (sorted.first(), sorted.last()) else {
            return above;
        };
        let shortest = sorted.iter().map(|p| p.1).min().unwrap_or(1);
        // Octets that all have in common are skipped.
        let depth = (first.agree(last) / 8).min((shortest - 1) / 8);
        let end = 8 * depth + 8;
        let mut slots = [above; 256];
        // Sorted by address and length: the more specific come later.
        for &(key, len, entry) in sorted.iter().filter(|p| p.1 <= end) {
            let start = usize::from(key.octet(depth));
            slots[start..start + (1 << (end - len))].fill(entry);
        }
        let longer: Vec<_> = sorted.iter().filter(|p| p.1 > end).copied().collect();
        for group in longer.chunk_by(|a, b| a.0.octet(depth) == b.0.octet(depth)) {
            let slot = usize::from(group[0].0.octet(depth));
            slots[slot] = self.build(group, slots[slot]);
        }
        self.node(first.masked(8 * depth), depth, above, &slots)
    }

    /// Stores a node.
    fn node(&mut self, prefix: K, depth: u32, above: Entry, slots: &[Entry; 256]) -> Entry {
        let base = self.entries.len() as u32;
        self.entries.push(above);
        let mut runs = [0u64; 4];
        for (octet, &entry) in slots.iter().enumerate() {
            if octet == 0 || slots[octet - 1] != entry {
                runs[octet / 64] |= 1 << (octet % 64);
                self.entries.push(entry);
            }
        }
        let mut ranks = [0; 4];
        for word in 1..4 {
            // At most 192, as the last word is not counted.
            ranks[word] = ranks[word - 1] + runs[word - 1].count_ones() as u8;
        }
        let shift = (K::BITS - 8 - 8 * depth) as u8;
        self.nodes.push(Node { runs, prefix, base, ranks, shift });
        let number = self.nodes.len() as u32 - 1;
        assert!(number < Entry::NODE && self.entries.len() < u32::MAX as usize);
        Entry(Entry::NODE | number)
    }

    /// The route of the longest prefix of `key`.
    #[inline]
    pub fn lookup(&self, key: K) -> Option<Route> {
        let mut entry = self.root;
        // Each turn is at least one octet further down.
        while entry.0 & Entry::NODE != 0 {
            let node = self.nodes.get((entry.0 ^ Entry::NODE) as usize)?;
            let rank = match key.octet_of_difference(node.prefix, node.shift) {
                None => 0,
                Some(octet) => {
                    let (word, bit) = (usize::from(octet >> 6), octet & 63);
                    let before = node.runs[word] & (u64::MAX >> (63 - bit));
                    u32::from(node.ranks[word]) + before.count_ones()
                }
            };
            entry = *self.entries.get((node.base + rank) as usize)?;
        }
        entry.decode()
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.nodes.len() * size_of::<Node<K>>() + self.entries.len() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every prefix in turn.
    fn linear<K: Key>(table: &[(K, u8, Route)], key: K) -> Option<Route> {
        let hit = |&&(prefix, len, _): &&(K, u8, Route)| {
            key.masked(len.into()) == prefix.masked(len.into())
        };
        // Of equal lengths the later one wins, as max_by_key says.
        table.iter().filter(hit).max_by_key(|p| p.1).map(|p| p.2)
    }

    fn route() -> impl Strategy<Value = Route> {
        prop_oneof![
            (0u32..50).prop_map(Route::Via),
            (0u32..50).prop_map(Route::Guarded),
            Just(Route::Local),
            Just(Route::Discard)
        ]
    }

    fn v4() -> impl Strategy<Value = u32> {
        // Addresses that often share their front octets.
        prop_oneof![
            any::<u32>(),
            any::<u16>().prop_map(|a| 0x0a00_0000 | u32::from(a)),
            any::<u8>().prop_map(|a| 0xc0a8_0100 | u32::from(a))
        ]
    }

    fn v6() -> impl Strategy<Value = u128> {
        let site = 0x2001_0db8_0000_0000_0000_0000_0000_0000_u128;
        prop_oneof![
            any::<u128>(),
            any::<u32>().prop_map(move |a| site | u128::from(a) << 64),
            any::<u16>().prop_map(move |a| site | u128::from(a)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn longest_prefix_match_v4_equals_a_linear_scan(
            table in prop::collection::vec((v4(), 0u8..=32, route()), 0..60),
            keys in prop::collection::vec(v4(), 1..60),
        ) {
            let fib = Fib::new(table.iter().copied());
            // The ends of every prefix too: that is where it goes wrong.
            let ends = table.iter().flat_map(|&(key, len, _)| {
                let low = key.masked(len.into());
                let high = low | u32::MAX.checked_shr(len.into()).unwrap_or(0);
                [low, high, low.wrapping_sub(1), high.wrapping_add(1)]
            });
            for key in keys.into_iter().chain(ends) {
                prop_assert_eq!(fib.lookup(key), linear(&table, key), "{:08x}", key);
            }
        }

        #[test]
        fn longest_prefix_match_v6_equals_a_linear_scan(
            table in prop::collection::vec((v6(), 0u8..=128, route()), 0..60),
            keys in prop::collection::vec(v6(), 1..60),
        ) {
            let fib = Fib::new(table.iter().copied());
            let ends = table.iter().flat_map(|&(key, len, _)| {
                let low = key.masked(len.into());
                let high = low | u128::MAX.checked_shr(len.into()).unwrap_or(0);
                [low, high, low.wrapping_sub(1), high.wrapping_add(1)]
            });
            for key in keys.into_iter().chain(ends) {
                prop_assert_eq!(fib.lookup(key), linear(&table, key), "{:032x}", key);
            }
        }
    }

    #[test]
    fn routing_table_is_sized_by_content() {
        assert_eq!(Fib::<u32>::default().octets(), 0);
        let few = Fib::new((0..10).map(|n| (0x0a00_0000 | n << 8, 24, Route::Via(n))));
        assert!(few.octets() < 256, "{}", few.octets());
        assert_eq!(few.lookup(0x0a00_0901), Some(Route::Via(9)));
        assert_eq!(few.lookup(0x0a01_0901), None);
    }
}
