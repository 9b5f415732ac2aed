//! Longest prefix match: a table sized by its content, read for a whole batch level by level.
//!
//! ```text
//!   cell ─▶ a route
//!        ─▶ index   4, 8, 12 or 16 bits of the address ─▶ │cell│cell│ … │cell│
//!        ─▶ ranges  eight first addresses at most, compared at once ─▶ │cell│ … │cell│
//! ```
//! Prefixes nest; told apart by longest match they are ranges of addresses that lie side
//! by side, each with one route. Where few ranges are left they are compared; where there
//! are many, the next bits choose among cells, as many as pay. Bits that all ranges below
//! have in common are skipped: the addresses with them are a range of their own. So a few
//! routes are a few cache lines, and 100,000 IPv4 routes are two reads. Built once, never
//! changed.
//!
//! [`Fib::look_up_all`] takes packets down side by side: a level is one loop over all of
//! them, and so one waits for memory while others go on.

use super::config::Route;
use std::hint::select_unpredictable;

/// An address as a number of 32 or 128 bits.
pub trait Key: Copy + Ord + Default {
    /// Bits of an address.
    const BITS: u32;
    /// The highest address.
    const LAST: Self;
    /// The number with all but the first `len` bits cleared.
    fn masked(self, len: u32) -> Self;
    /// The number with all but the first `len` bits set.
    fn filled(self, len: u32) -> Self;
    /// The next address, if there is one.
    fn next(self) -> Option<Self>;
    /// Leading bits on which both agree.
    fn agree(self, other: Self) -> u32;
    /// Up to 16 bits from bit `shift` on.
    fn bits(self, shift: u32, mask: u32) -> u32;
}

macro_rules! key {
    ($int:ty) => {
        impl Key for $int {
            const BITS: u32 = <$int>::BITS;
            const LAST: Self = <$int>::MAX;

            fn masked(self, len: u32) -> Self {
                self & !Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn filled(self, len: u32) -> Self {
                self | Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn agree(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }

            #[inline(always)]
            fn bits(self, shift: u32, mask: u32) -> u32 {
                (self >> (shift & (Self::BITS - 1))) as u32 & mask
            }
        }
    };
}
key!(u32);
key!(u128);

/// Entry of a table for an address, in 32 bits: a route or none.
///
/// Inside of the table it may also say where to look next:
///
/// ```text
///   00 │ guarded │ adjacency 29                        or one of three constants
///   10 │ width 2 │ shift 5, in fours │ block 23        index
///   01 │ number 30                                     ranges
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(u32);

impl Default for Cell {
    fn default() -> Self {
        Self::NONE
    }
}

impl Cell {
    /// No route.
    pub const NONE: Self = Self(Self::RANGES - 1);
    /// [`Route::Local`].
    pub const LOCAL: Self = Self(Self::RANGES - 2);
    /// [`Route::Discard`].
    pub const DISCARD: Self = Self(Self::RANGES - 3);
    /// [`Route::Broadcast`].
    pub const BROADCAST: Self = Self(Self::RANGES - 4);

    const INDEX: u32 = 1 << 31;
    const RANGES: u32 = 1 << 30;
    const GUARDED: u32 = 1 << 29;
    const BLOCKS: u32 = 1 << 23;
    /// Cells of a block, which an index counts in.
    const BLOCK: usize = 16;

    /// The entry of a route.
    #[inline(always)]
    pub fn new(route: Route) -> Self {
        match route {
            Route::Local => Self::LOCAL,
            Route::Discard => Self::DISCARD,
            Route::Broadcast => Self::BROADCAST,
            Route::Via(adjacency) | Route::Guarded(adjacency) => {
                assert!(adjacency < Self::GUARDED - 4, "adjacency numbers are small");
                let guarded = matches!(route, Route::Guarded(_));
                Self(if guarded { Self::GUARDED } else { 0 } | adjacency)
            }
        }
    }

    /// The route.
    #[inline]
    pub const fn route(self) -> Option<Route> {
        match self {
            Self::NONE => None,
            Self::LOCAL => Some(Route::Local),
            Self::DISCARD => Some(Route::Discard),
            Self::BROADCAST => Some(Route::Broadcast),
            Self(n) if n & Self::GUARDED == 0 => Some(Route::Via(n)),
            Self(n) => Some(Route::Guarded(n & (Self::GUARDED - 1))),
        }
    }

    /// True for [`Route::Via`]: the case of nearly all of a batch.
    #[inline(always)]
    pub const fn is_via(self) -> bool {
        self.0 < Self::GUARDED
    }

    /// The adjacency of [`Route::Via`] and [`Route::Guarded`]; of others a number that no
    /// adjacency has.
    #[inline(always)]
    pub const fn adjacency(self) -> u32 {
        self.0 & (Self::GUARDED - 1)
    }

    /// An index by `width` bits from bit `shift` on.
    fn index(first: usize, shift: u32, width: u32) -> Self {
        let block = first / Self::BLOCK;
        assert!(block < Self::BLOCKS as usize, "a table has at most 2^27 cells");
        Self(Self::INDEX | (width / 4 - 1) << 28 | (shift / 4) << 23 | block as u32)
    }

    fn ranges(number: usize) -> Self {
        assert!(number < 1 << 30, "a table has at most 2^30 nodes");
        Self(Self::RANGES | number as u32)
    }

    #[inline(always)]
    const fn is_index(self) -> bool {
        self.0 & Self::INDEX != 0
    }

    #[inline(always)]
    const fn is_ranges(self) -> bool {
        self.0 & Self::RANGES != 0
    }

    /// The number of ranges.
    #[inline(always)]
    const fn number(self) -> usize {
        (self.0 & (Self::RANGES - 1)) as usize
    }

    /// The place of the next cell of an index.
    #[inline(always)]
    fn next<K: Key>(self, key: K) -> usize {
        let first = (self.0 & (Self::BLOCKS - 1)) as usize * Self::BLOCK;
        let mask = 0xffff_u32 >> (12 - 4 * (self.0 >> 28 & 3));
        first + key.bits(4 * (self.0 >> 23 & 31), mask) as usize
    }
}

/// Ranges that are compared at once at most.
const ABREAST: usize = 8;

/// Ranges side by side: of IPv4, one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Ranges<K> {
    /// First addresses of the ranges. No packet lies before the first one; unused places have the
    /// highest address, and the cell of the last range.
    first: [K; ABREAST],
    cells: [Cell; ABREAST],
}

impl<K: Key> Ranges<K> {
    fn new(ranges: &[Range<K>]) -> Self {
        let &(_, last) = ranges.last().unwrap_or(&(K::LAST, Cell::NONE));
        let at = |n: usize| *ranges.get(n).unwrap_or(&(K::LAST, last));
        let mut first = std::array::from_fn(|n| at(n).0);
        first[0] = K::default();
        Self { first, cells: std::array::from_fn(|n| at(n).1) }
    }

    #[inline(always)]
    fn find(&self, key: K) -> Cell {
        let begun = |at: usize| usize::from(self.first[at % ABREAST] <= key);
        let half = 4 * begun(4);
        let quarter = half + 2 * begun(half + 2);
        self.cells[(quarter + begun(quarter + 1)) % ABREAST]
    }
}

/// A range's first address and its route; the next one begins where it ends.
type Range<K> = (K, Cell);

/// Routes by prefix.
#[derive(Clone, Debug)]
pub struct Fib<K> {
    root: Cell,
    cells: Box<[Cell]>,
    ranges: Box<[Ranges<K>]>,
}

impl<K> Default for Fib<K> {
    fn default() -> Self {
        Self { root: Cell::NONE, cells: Box::default(), ranges: Box::default() }
    }
}

impl<K: Key> Fib<K> {
    /// A table of these prefixes: address, length, route. Bits behind the length
    /// are ignored; of two routes for one prefix the later one holds.
    pub fn new(prefixes: impl IntoIterator<Item = (K, u8, Route)>) -> Self {
        let ranges = ranges(prefixes);
        let mut build = Build { cells: Vec::new(), ranges: Vec::new() };
        let root = build.cell(&ranges, K::default(), K::BITS);
        Self { root, cells: build.cells.into(), ranges: build.ranges.into() }
    }

    /// The route of the longest prefix of `key`.
    #[inline]
    pub fn lookup(&self, key: K) -> Option<Route> {
        let mut cell = self.root;
        // Each turn is further down.
        loop {
            cell = if cell.is_index() {
                self.by_index(cell, key)
            } else if cell.is_ranges() {
                self.by_ranges(cell, key)
            } else {
                return cell.route();
            };
        }
    }

    /// The same for many, level by level: `found` as `keys`, and as many.
    pub fn look_up_all(&self, keys: &[K], found: &mut [Cell]) {
        let root = self.root;
        let all = keys.iter().zip(&mut *found);
        // The bits of all cells together tell which kinds there are.
        let mut seen = 0;
        if root.is_index() {
            for (&key, cell) in all {
                *cell = self.by_index(root, key);
                seen |= cell.0;
            }
        } else if root.is_ranges() {
            for (&key, cell) in all {
                *cell = self.by_ranges(root, key);
                seen |= cell.0;
            }
        } else {
            all.for_each(|(_, cell)| *cell = root);
        }
        while seen & (Cell::INDEX | Cell::RANGES) != 0 {
            if seen & Cell::INDEX != 0 {
                seen = self.level(keys, found, Cell::is_index, Self::by_index);
            }
            if seen & Cell::RANGES != 0 {
                seen = self.level(keys, found, Cell::is_ranges, Self::by_ranges);
            }
        }
    }

    /// One step for all that are at one kind of node. (No branch, as it cannot be predicted
    /// which these are.)
    #[inline(always)]
    fn level(
        &self,
        keys: &[K],
        found: &mut [Cell],
        is_here: impl Fn(Cell) -> bool,
        step: impl Fn(&Self, Cell, K) -> Cell,
    ) -> u32 {
        let mut seen = 0;
        for (&key, cell) in keys.iter().zip(found) {
            let here = is_here(*cell);
            // The others look at the first node.
            let next = step(self, select_unpredictable(here, *cell, Cell(0)), key);
            *cell = select_unpredictable(here, next, *cell);
            seen |= cell.0;
        }
        seen
    }

    #[inline(always)]
    fn by_index(&self, cell: Cell, key: K) -> Cell {
        self.cells.get(cell.next(key)).copied().unwrap_or(Cell::NONE)
    }

    #[inline(always)]
    fn by_ranges(&self, cell: Cell, key: K) -> Cell {
        self.ranges.get(cell.number()).map_or(Cell::NONE, |ranges| ranges.find(key))
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        size_of_val(&*self.cells) + size_of_val(&*self.ranges)
    }
}

/// Prefixes as ranges that lie side by side, from the lowest address on.
fn ranges<K: Key>(prefixes: impl IntoIterator<Item = (K, u8, Route)>) -> Vec<Range<K>> {
    let mut sorted: Vec<(K, u32, Cell)> = prefixes
        .into_iter()
        .map(|(key, len, route)| {
            let len = u32::from(len).min(K::BITS);
            (key.masked(len), len, Cell::new(route))
        })
        .collect();
    sorted.reverse();
    sorted.sort_by_key(|&(key, len, _)| (key, len));
    sorted.dedup_by_key(|&mut (key, len, _)| (key, len));

    let mut sweep = Sweep { ranges: vec![(K::default(), Cell::NONE)], around: Vec::new() };
    for &(key, len, cell) in &sorted {
        while sweep.around.last().is_some_and(|&(last, _)| last < key) {
            sweep.leave();
        }
        sweep.begin(key, cell);
        sweep.around.push((key.filled(len), cell));
    }
    while !sweep.around.is_empty() {
        sweep.leave();
    }
    sweep.ranges.dedup_by_key(|&mut (_, cell)| cell);
    sweep.ranges
}

/// A walk over all prefixes in order.
struct Sweep<K> {
    ranges: Vec<Range<K>>,
    /// The prefixes around the one at hand, the widest first: where each ends, and its route.
    around: Vec<Range<K>>,
}

impl<K: Key> Sweep<K> {
    /// Begins a range; of several at one address the last holds.
    fn begin(&mut self, first: K, cell: Cell) {
        match self.ranges.last_mut() {
            Some(last) if last.0 == first => last.1 = cell,
            _ => self.ranges.push((first, cell)),
        }
    }

    /// Ends the innermost prefix.
    fn leave(&mut self) {
        let ended = self.around.pop().and_then(|(last, _)| last.next());
        let outer = self.around.last().map_or(Cell::NONE, |outer| outer.1);
        if let Some(first) = ended {
            self.begin(first, outer);
        }
    }
}

/// A table under construction.
struct Build<K> {
    cells: Vec<Cell>,
    ranges: Vec<Ranges<K>>,
}

impl<K: Key> Build<K> {
    /// The cell for the addresses that agree with `first` on all but the lowest `bits`
    /// bits; the first of these ranges begins there or before.
    fn cell(&mut self, ranges: &[Range<K>], first: K, bits: u32) -> Cell {
        match ranges {
            [] => return Cell::NONE,
            [(_, cell)] => return *cell,
            few if few.len() <= ABREAST => return self.compared(few),
            _ => {}
        }
        // As many bits as give at most four cells to each range; of a whole table at least
        // eight, which are 1 KiB.
        let least = if bits == K::BITS { 8 } else { 4 };
        let width = ((4 * ranges.len()).ilog2() / 4 * 4).clamp(least, 16).min(bits);
        let begins = (ranges[1].0, ranges[ranges.len() - 1].0);
        let common = begins.0.agree(begins.1) / 4 * 4;
        if common < K::BITS - bits + width {
            return self.index(ranges, first, bits, width);
        }
        // Every range begins within less. Some are compared in two steps,
        if ranges.len() <= ABREAST * ABREAST {
            let steps =
                ranges.chunks(ABREAST).map(|some| (some[0].0, self.cell(some, first, bits)));
            let steps: Vec<_> = steps.collect();
            return self.compared(&steps);
        }
        // of many it is told first what lies there, before and behind.
        let (low, high) = (begins.0.masked(common), begins.0.filled(common));
        let from = ranges.partition_point(|range| range.0 <= low) - 1;
        let inside = self.cell(&ranges[from..], low, K::BITS - common);
        let mut around = vec![ranges[0], (low, inside)];
        around.extend(high.next().map(|next| (next, ranges[ranges.len() - 1].1)));
        self.compared(&around)
    }

    fn compared(&mut self, ranges: &[Range<K>]) -> Cell {
        self.ranges.push(Ranges::new(ranges));
        Cell::ranges(self.ranges.len() - 1)
    }

    /// Cells for each value of the next `width` bits.
    fn index(&mut self, mut ranges: &[Range<K>], first: K, bits: u32, width: u32) -> Cell {
        let (base, count) = (self.cells.len(), 1 << width);
        self.cells.resize(base + count, Cell::NONE);
        let len = K::BITS - bits + width;
        let mut low = first;
        for at in base..base + count {
            let high = low.filled(len);
            let end = ranges.partition_point(|range| range.0 <= high);
            self.cells[at] = self.cell(&ranges[..end], low, bits - width);
            low = high.next().unwrap_or(high);
            // The last range may go on.
            let goes_on = ranges.get(end).is_none_or(|range| range.0 != low);
            ranges = &ranges[end - usize::from(goes_on)..];
        }
        Cell::index(base, bits - width, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::LowerHex;

    /// Every prefix in turn.
    fn linear<K: Key>(table: &[(K, u8, Route)], key: K) -> Option<Route> {
        let hit = |&&(prefix, len, _): &&(K, u8, Route)| {
            key.masked(len.into()) == prefix.masked(len.into())
        };
        // Of equal lengths the later one wins, as max_by_key says.
        table.iter().filter(hit).max_by_key(|p| p.1).map(|p| p.2)
    }

    /// Key by key, and all at once.
    fn agrees<K: Key + LowerHex>(
        fib: &Fib<K>,
        table: &[(K, u8, Route)],
        keys: &[K],
    ) -> Result<(), TestCaseError> {
        let mut found = vec![Cell::LOCAL; keys.len()];
        fib.look_up_all(keys, &mut found);
        for (&key, found) in keys.iter().zip(found) {
            let route = linear(table, key);
            prop_assert_eq!(fib.lookup(key), route, "{:x}", key);
            prop_assert_eq!(found.route(), route, "{:x}, of a batch", key);
        }
        Ok(())
    }

    fn route() -> impl Strategy<Value = Route> {
        prop_oneof![
            (0u32..50).prop_map(Route::Via),
            (0u32..50).prop_map(Route::Guarded),
            Just(Route::Local),
            Just(Route::Discard),
            Just(Route::Broadcast)
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
            table in prop::collection::vec((v4(), 0u8..=32, route()), 0..300),
            keys in prop::collection::vec(v4(), 1..60),
        ) {
            let fib = Fib::new(table.iter().copied());
            // The ends of every prefix too: that is where it goes wrong.
            let ends = table.iter().flat_map(|&(key, len, _)| {
                let low = key.masked(len.into());
                let high = low | u32::MAX.checked_shr(len.into()).unwrap_or(0);
                [low, high, low.wrapping_sub(1), high.wrapping_add(1)]
            });
            agrees(&fib, &table, &keys.into_iter().chain(ends).collect::<Vec<_>>())?;
        }

        #[test]
        fn longest_prefix_match_v6_equals_a_linear_scan(
            table in prop::collection::vec((v6(), 0u8..=128, route()), 0..300),
            keys in prop::collection::vec(v6(), 1..60),
        ) {
            let fib = Fib::new(table.iter().copied());
            let ends = table.iter().flat_map(|&(key, len, _)| {
                let low = key.masked(len.into());
                let high = low | u128::MAX.checked_shr(len.into()).unwrap_or(0);
                [low, high, low.wrapping_sub(1), high.wrapping_add(1)]
            });
            agrees(&fib, &table, &keys.into_iter().chain(ends).collect::<Vec<_>>())?;
        }
    }

    /// Tables with every width of an index: up to 40,000 ranges, dense ones among them.
    #[test]
    fn longest_prefix_match_of_large_tables_equals_a_linear_scan() {
        let mut rng = ferrule_base::Rng::new(8);
        for count in [700, 3000, 20_000] {
            let (mut v4, mut v6) = (Vec::new(), Vec::new());
            for n in 0..count {
                let any = (rng.next_u64() as u32, 8 + rng.below(25) as u8);
                let (key, len) = if n % 2 == 0 { (20 << 24 | n << 8, 24) } else { any };
                v4.push((key, len, Route::Via(n)));
                let (site, net) = (u128::from(n >> 8) << 80, u128::from(n & 255) << 64);
                let len = 64 + 16 * rng.below(5) as u8;
                v6.push((0x2001_0db8 << 96 | site | net, len, Route::Via(n)));
            }
            let (fib4, fib6) = (Fib::new(v4.iter().copied()), Fib::new(v6.iter().copied()));
            let mut near = || (rng.below(count.into()) as usize, rng.next_u64() as u32 & 0x1ff);
            let keys: Vec<u32> = (0..300).map(|_| near()).map(|(n, off)| v4[n].0 ^ off).collect();
            agrees(&fib4, &v4, &keys).unwrap();
            let off = |off: u32| u128::from(off) << (off % 13 * 8);
            let keys = (0..300).map(|_| near()).map(|(n, bits)| v6[n].0 ^ off(bits));
            agrees(&fib6, &v6, &keys.collect::<Vec<_>>()).unwrap();
        }
    }

    #[test]
    fn routing_table_is_sized_by_content() {
        assert_eq!(Fib::<u32>::default().octets(), 0);
        let few = Fib::new((0..10).map(|n| (0x0a00_0000 | n << 8, 24, Route::Via(n))));
        assert!(few.octets() < 256, "{}", few.octets());
        assert_eq!(few.lookup(0x0a00_0901), Some(Route::Via(9)));
        assert_eq!(few.lookup(0x0a01_0901), None);
        // Nothing in common, neither networks nor hosts.
        let spread = |n: u32| n.wrapping_mul(0x9e37_79b9);
        let nets = (0..5).map(|n| (spread(n), 24, Route::Via(n)));
        let hosts = (0..5).map(|n| (spread(n) & !255 | 1, 32, Route::Local));
        let apart = Fib::new(nets.chain(hosts));
        assert!(apart.octets() < 2048, "{}", apart.octets());
        for len in [24, 32] {
            let many = Fib::new((0..100_000).map(|n| (spread(n), len, Route::Via(n % 5))));
            assert!(many.octets() < 100_000 * 64, "{} octets", many.octets());
        }
    }

    #[test]
    fn routing_table_cells_say_what_routes_say() {
        let routes =
            [Route::Local, Route::Discard, Route::Broadcast, Route::Via(0), Route::Guarded(7)];
        for route in routes {
            let cell = Cell::new(route);
            assert_eq!(cell.route(), Some(route));
            assert_eq!(cell.is_via(), matches!(route, Route::Via(_)));
            if let Route::Via(adjacency) | Route::Guarded(adjacency) = route {
                assert_eq!(cell.adjacency(), adjacency);
            }
        }
        assert_eq!((Cell::NONE.route(), Cell::NONE.is_via()), (None, false));
    }
}
