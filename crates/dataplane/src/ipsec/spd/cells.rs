//! Small numbers by key, in a table that one thread writes while all read it: no lock, no
//! copy for each change.
//!
//! ```text
//!   key ──multiply, shift──▶ │ some keys │ their cells │  compared at once, in one cache line
//!                              full, and it is none of them ─▶ the next line
//!   too full ─▶ a table of twice the size, with all that this one has
//! ```
//!
//! A reader sees a key with its cell, or not at all. While an entry moves to an earlier line it
//! is in both, and whoever has found it in neither looks again.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The cell of a key that is not there.
pub(super) const NONE: u32 = u32::MAX;

/// Sizes that a table may have, each twice the one before.
const SIZES: usize = 24;

/// Table that its writer replaces by a larger one while others read it. The smaller ones stay
/// for those who do: together they are at most as large as the newest.
pub(super) struct Growing<T> {
    /// By the logarithm of their length.
    sizes: [OnceLock<Box<[T]>>; SIZES],
    newest: AtomicUsize,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { sizes: [const { OnceLock::new() }; SIZES], newest: AtomicUsize::new(0) }
    }
}

impl<T> Growing<T> {
    /// The newest table; empty before the first.
    #[inline(always)]
    pub fn get(&self) -> &[T] {
        let newest = self.sizes.get(self.newest.load(Ordering::Acquire));
        newest.and_then(OnceLock::get).map_or(&[], |table| table)
    }

    /// Puts a larger table, of 2^`size` steps, in the place of the newest. True if there was none
    /// of this size.
    pub fn replace(&self, size: usize, table: Box<[T]>) -> bool {
        let new = self.sizes.get(size).is_some_and(|place| place.set(table).is_ok());
        if new {
            self.newest.store(size, Ordering::Release);
        }
        new
    }
}

/// Entries that are compared at once. A key of zero is a free place; the last place is used when
/// all others are, and is free again only once no other line has what belongs here.
pub(super) trait Line {
    /// A line without entries.
    const EMPTY: Self;
    /// Entries that it has room for.
    const PLACES: usize;

    /// The cell of a key in this line, without a branch.
    fn get(&self, key: u64) -> u32;

    /// The entry in a place: key and cell.
    fn entry(&self, at: usize) -> (u64, u32);

    /// Puts an entry into a place: who sees its key sees its cell.
    fn set(&self, at: usize, key: u64, cell: u32);

    /// True if the last place is used.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.entry(Self::PLACES - 1).0 != 0
    }

    /// The place of a key in this line.
    fn position(&self, key: u64) -> Option<usize> {
        (0..Self::PLACES).find(|&at| self.entry(at).0 == key)
    }
}

/// Line of keys of 32 bits, half a cache line: a word has a key and its cell.
#[repr(align(32))]
pub(super) struct Narrow([AtomicU64; 4]);

const fn word(key: u64, cell: u32) -> u64 {
    key << 32 | cell as u64
}

impl Line for Narrow {
    const EMPTY: Self = Self([const { AtomicU64::new(word(0, NONE)) }; 4]);
    const PLACES: usize = 4;

    #[inline(always)]
    fn get(&self, key: u64) -> u32 {
        let mut found = NONE;
        for word in &self.0 {
            let word = word.load(Ordering::Acquire);
            found = if word >> 32 == key { word as u32 } else { found };
        }
        found
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> (u64, u32) {
        let word = self.0[at].load(Ordering::Acquire);
        (word >> 32, word as u32)
    }

    fn set(&self, at: usize, key: u64, cell: u32) {
        self.0[at].store(word(key, cell), Ordering::Release);
    }
}

/// Line of keys of 64 bits, a cache line.
#[repr(align(64))]
pub(super) struct Wide {
    keys: [AtomicU64; 5],
    cells: [AtomicU32; 5],
}

impl Line for Wide {
    const EMPTY: Self =
        Self { keys: [const { AtomicU64::new(0) }; 5], cells: [const { AtomicU32::new(NONE) }; 5] };
    const PLACES: usize = 5;

    #[inline(always)]
    fn get(&self, key: u64) -> u32 {
        let mut found = NONE;
        for at in 0..Self::PLACES {
            let (one, cell) = self.entry(at);
            found = if one == key { cell } else { found };
        }
        found
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> (u64, u32) {
        (self.keys[at].load(Ordering::Acquire), self.cells[at].load(Ordering::Acquire))
    }

    fn set(&self, at: usize, key: u64, cell: u32) {
        self.cells[at].store(cell, Ordering::Release);
        self.keys[at].store(key, Ordering::Release);
    }
}

/// Cells by key; keys are not zero.
pub(super) struct CellTable<L> {
    lines: Growing<L>,
    /// Entries that moved.
    moves: AtomicU64,
    /// Entries; held by whoever writes.
    used: Mutex<usize>,
}

impl<L> Default for CellTable<L> {
    fn default() -> Self {
        Self { lines: Growing::default(), moves: AtomicU64::new(0), used: Mutex::new(0) }
    }
}

impl<L: Line> CellTable<L> {
    /// The cell of a key, or [`NONE`].
    #[inline]
    pub fn get(&self, key: u64) -> u32 {
        loop {
            let moves = self.moves.load(Ordering::Acquire);
            let found = find(self.lines.get(), key);
            if found != NONE || self.moves.load(Ordering::Acquire) == moves {
                return found;
            }
        }
    }

    /// The cells of many keys; `cells` is as long as `keys`.
    #[inline]
    pub fn get_all(&self, keys: &[u32], cells: &mut [u32]) {
        let lines = self.lines.get();
        let mut beyond = false;
        for (&key, cell) in keys.iter().zip(&mut *cells) {
            let key = u64::from(key);
            let Some(line) = lines.get(home(lines.len(), key)) else {
                *cell = NONE;
                continue;
            };
            *cell = line.get(key);
            beyond |= line.is_full() & (*cell == NONE);
        }
        if beyond {
            for (&key, cell) in keys.iter().zip(cells).filter(|(_, cell)| **cell == NONE) {
                *cell = self.get(key.into());
            }
        }
    }

    /// Gives a key another cell. False if it has none.
    pub fn replace(&self, key: u64, cell: u32) -> bool {
        let _used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, place)) = self.position(key) else { return false };
        self.lines.get()[at].set(place, key, cell);
        true
    }

    /// Adds an entry. False if the key has one, or is zero.
    pub fn insert(&self, key: u64, cell: u32) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if key == 0 || find(self.lines.get(), key) != NONE {
            return false;
        }
        // At most half of the places, so that searches end soon.
        if (*used + 1) * 2 > self.lines.get().len() * L::PLACES && !self.grow() {
            return false;
        }
        put(self.lines.get(), key, cell);
        *used += 1;
        true
    }

    /// Takes an entry out. False if there is none.
    pub fn remove(&self, key: u64) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, place)) = self.position(key) else { return false };
        self.free(self.lines.get(), at, place);
        *used -= 1;
        true
    }

    /// The line and the place of a key.
    fn position(&self, key: u64) -> Option<(usize, usize)> {
        let lines = self.lines.get();
        for at in path(lines.len(), key).take_while(|_| key != 0) {
            if let Some(place) = lines[at].position(key) {
                return Some((at, place));
            }
            if !lines[at].is_full() {
                break;
            }
        }
        None
    }

    /// Frees a place. The last one of a line is filled from a later line, if one has what
    /// belongs here.
    fn free(&self, lines: &[L], mut at: usize, mut place: usize) {
        let count = lines.len();
        while place == L::PLACES - 1 {
            let here = at;
            let strays = |later: usize| {
                // Searches for it pass here.
                let distance = |from: usize| later.wrapping_sub(from) & (count - 1);
                let belongs = |key: u64| {
                    key != 0 && {
                        let home = home(count, key);
                        distance(home) >= distance(here) && later != here
                    }
                };
                let place = (0..L::PLACES).find(|&place| belongs(lines[later].entry(place).0));
                place.map(|place| (later, place))
            };
            let mut found = None;
            for later in (1..count).map(|step| (here + step) & (count - 1)) {
                found = strays(later);
                if found.is_some() || !lines[later].is_full() {
                    break;
                }
            }
            let Some((later, stray)) = found else { break };
            let (key, cell) = lines[later].entry(stray);
            lines[here].set(place, key, cell);
            self.moves.fetch_add(1, Ordering::AcqRel);
            (at, place) = (later, stray);
        }
        lines[at].set(place, 0, NONE);
    }

    /// Makes a table of twice the size. False if there is no larger one.
    fn grow(&self) -> bool {
        let old = self.lines.get();
        let size = (old.len() * 2).max(2);
        let new: Box<[L]> = (0..size).map(|_| L::EMPTY).collect();
        for line in old {
            let entries = (0..L::PLACES).map(|at| line.entry(at)).filter(|&(key, _)| key != 0);
            entries.for_each(|(key, cell)| put(&new, key, cell));
        }
        self.lines.replace(size.ilog2() as usize, new)
    }
}

/// The line in which a key is looked for first.
#[inline(always)]
const fn home(lines: usize, key: u64) -> usize {
    // Fibonacci hashing: the high bits of a multiple of 2^64 / phi.
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (hash.wrapping_mul(lines as u64) >> 32) as usize
}

/// The lines in which a key may be, in their order.
fn path(lines: usize, key: u64) -> impl Iterator<Item = usize> {
    let home = home(lines, key);
    (0..lines).map(move |step| (home + step) & (lines - 1))
}

fn find<L: Line>(lines: &[L], key: u64) -> u32 {
    for at in path(lines.len(), key) {
        let cell = lines[at].get(key);
        if cell != NONE || !lines[at].is_full() {
            return cell;
        }
    }
    NONE
}

/// Writes an entry into the first free place of its path.
fn put<L: Line>(lines: &[L], key: u64, cell: u32) {
    let free = |at: usize| Some((at, lines[at].position(0)?));
    if let Some((at, place)) = path(lines.len(), key).find_map(free) {
        lines[at].set(place, key, cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    fn is_a_map<L: Line>(spread: u64) {
        let mut rng = Rng::new(4301);
        for keys in [3, 40, 1000] {
            let (table, mut map) = (CellTable::<L>::default(), HashMap::new());
            for step in 0..20_000_u32 {
                // Few homes, so that lines run over.
                let key = (rng.next_u64() % keys) << (rng.next_u64() % 2 * spread);
                match rng.next_u64() % 5 {
                    0..3 => {
                        let new = key != 0 && !map.contains_key(&key);
                        assert_eq!(table.insert(key, step), new);
                        new.then(|| map.insert(key, step));
                    }
                    3 => {
                        assert_eq!(table.replace(key, !step), map.contains_key(&key));
                        map.entry(key).and_modify(|cell| *cell = !step);
                    }
                    _ => assert_eq!(table.remove(key), map.remove(&key).is_some()),
                }
                let asked = rng.next_u64() % keys;
                assert_eq!(table.get(asked), map.get(&asked).copied().unwrap_or(NONE));
            }
            for (&key, &cell) in &map {
                assert_eq!(table.get(key), cell);
                assert!(table.remove(key));
            }
            assert!(table.lines.get().iter().all(|line| !line.is_full()), "searches end at once");
        }
    }

    #[test]
    fn it_is_a_map() {
        is_a_map::<Narrow>(16);
        is_a_map::<Wide>(32);
    }

    #[test]
    fn many_are_found_like_each() {
        let mut rng = Rng::new(4303);
        let table = CellTable::<Narrow>::default();
        let spis: Vec<u32> = (0..5000).map(|n| 256 + n * 7).collect();
        spis.iter().for_each(|&spi| assert!(table.insert(spi.into(), !spi)));
        let asked: Vec<u32> = (0..5000).map(|_| (rng.next_u64() % 40_000) as u32).collect();
        let mut cells = vec![0; asked.len()];
        table.get_all(&asked, &mut cells);
        for (&spi, cell) in asked.iter().zip(cells) {
            assert_eq!((table.get(spi.into()), cell), (cell, cell));
            assert_eq!(cell, if spis.binary_search(&spi).is_ok() { !spi } else { NONE });
        }
        let mut cell = [7];
        CellTable::<Narrow>::default().get_all(&[256], &mut cell);
        assert_eq!(cell, [NONE]);
    }

    fn finds_what_stays<L: Line + Sync + Send>() {
        let table = CellTable::<L>::default();
        let mut rng = Rng::new(7);
        let mut some = |count| (0..count).map(|_| rng.next_u64() >> 32).collect::<Vec<u64>>();
        let (stays, goes) = (some(200), some(1500));
        stays.iter().for_each(|&key| assert!(table.insert(key, key as u32)));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut rounds = 0_u64;
                while !done.load(Ordering::Acquire) || rounds == 0 {
                    for &key in &stays {
                        assert_eq!(table.get(key), key as u32);
                    }
                    rounds += 1;
                }
                rounds
            });
            for _ in 0..60_000 {
                let key = goes[rng.below(goes.len() as u64) as usize];
                assert!(table.insert(key, key as u32) || table.remove(key));
            }
            done.store(true, Ordering::Release);
            assert!(reader.join().is_ok_and(|rounds| rounds > 0));
        });
        assert!(table.moves.load(Ordering::Acquire) > 0, "entries moved");
    }

    #[test]
    fn what_stays_is_found_while_others_come_and_go() {
        finds_what_stays::<Narrow>();
        finds_what_stays::<Wide>();
    }
}
