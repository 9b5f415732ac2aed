//! Small numbers by key, in a table that one thread writes while all read it: no lock, no
//! copy for each change.
//!
//! ```text
//!   key ──multiply, shift──▶ │ five keys │ their cells │  compared at once, a cache line
//!                              full, and it is none of them ─▶ the next line
//!   too full ─▶ a table of twice the size, with all that this one has
//! ```
//!
//! A reader sees a key with its cell, or not at all. While an entry moves to an earlier line it
//! is in both, and whoever has found it in neither looks again.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Entries of a line.
const ABREAST: usize = 5;

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

/// Entries that are compared at once, a cache line. A key of zero is a free place; the last place
/// is used when all others are, and is free again only once no other line has what belongs here.
#[repr(align(64))]
struct Line {
    keys: [AtomicU64; ABREAST],
    cells: [AtomicU32; ABREAST],
}

impl Line {
    const EMPTY: Self = Self {
        keys: [const { AtomicU64::new(0) }; ABREAST],
        cells: [const { AtomicU32::new(NONE) }; ABREAST],
    };

    /// The cell of a key in this line, without a branch.
    #[inline(always)]
    fn get(&self, key: u64) -> u32 {
        let mut found = NONE;
        for (one, cell) in self.keys.iter().zip(&self.cells) {
            let (one, cell) = (one.load(Ordering::Acquire), cell.load(Ordering::Acquire));
            found = if one == key { cell } else { found };
        }
        found
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.keys[ABREAST - 1].load(Ordering::Acquire) != 0
    }

    /// The place of a key in this line.
    fn position(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|one| one.load(Ordering::Acquire) == key)
    }

    fn set(&self, at: usize, key: u64, cell: u32) {
        // Who sees the key sees the cell.
        self.cells[at].store(cell, Ordering::Release);
        self.keys[at].store(key, Ordering::Release);
    }
}

/// Cells by key; keys are not zero.
#[derive(Default)]
pub(super) struct CellTable {
    lines: Growing<Line>,
    /// Entries that moved.
    moves: AtomicU64,
    /// Entries; held by whoever writes.
    used: Mutex<usize>,
}

impl CellTable {
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
        self.lines.get()[at].cells[place].store(cell, Ordering::Release);
        true
    }

    /// Adds an entry. False if the key has one, or is zero.
    pub fn insert(&self, key: u64, cell: u32) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if key == 0 || find(self.lines.get(), key) != NONE {
            return false;
        }
        // At most half of the places, so that searches end soon.
        if (*used + 1) * 2 > self.lines.get().len() * ABREAST && !self.grow() {
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
    fn free(&self, lines: &[Line], mut at: usize, mut place: usize) {
        let count = lines.len();
        while place == ABREAST - 1 {
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
                let mut keys = lines[later].keys.iter().map(|key| key.load(Ordering::Acquire));
                keys.position(belongs).map(|place| (later, place))
            };
            let mut found = None;
            for later in (1..count).map(|step| (here + step) & (count - 1)) {
                found = strays(later);
                if found.is_some() || !lines[later].is_full() {
                    break;
                }
            }
            let Some((later, stray)) = found else { break };
            let from = &lines[later];
            let key = from.keys[stray].load(Ordering::Acquire);
            lines[here].set(place, key, from.cells[stray].load(Ordering::Acquire));
            self.moves.fetch_add(1, Ordering::AcqRel);
            (at, place) = (later, stray);
        }
        lines[at].keys[place].store(0, Ordering::Release);
        lines[at].cells[place].store(NONE, Ordering::Release);
    }

    /// Makes a table of twice the size. False if there is no larger one.
    fn grow(&self) -> bool {
        let old = self.lines.get();
        let size = (old.len() * 2).max(2);
        let new: Box<[Line]> = (0..size).map(|_| Line::EMPTY).collect();
        for line in old {
            for (key, cell) in line.keys.iter().zip(&line.cells) {
                let key = key.load(Ordering::Acquire);
                if key != 0 {
                    put(&new, key, cell.load(Ordering::Acquire));
                }
            }
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

fn find(lines: &[Line], key: u64) -> u32 {
    for at in path(lines.len(), key) {
        let cell = lines[at].get(key);
        if cell != NONE || !lines[at].is_full() {
            return cell;
        }
    }
    NONE
}

/// Writes an entry into the first free place of its path.
fn put(lines: &[Line], key: u64, cell: u32) {
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

    #[test]
    fn it_is_a_map() {
        let mut rng = Rng::new(4301);
        for keys in [3, 40, 1000] {
            let (table, mut map) = (CellTable::default(), HashMap::new());
            for step in 0..20_000_u32 {
                // Few homes, so that lines run over.
                let key = (rng.next_u64() % keys) << (rng.next_u64() % 2 * 32);
                match rng.next_u64() % 5 {
                    0..3 => {
                        let new = key != 0 && !map.contains_key(&key);
                        assert_eq!(table.insert(key, step), new);
                        new.then(|| map.insert(key, step));
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
    fn many_are_found_like_each() {
        let mut rng = Rng::new(4303);
        let table = CellTable::default();
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
        CellTable::default().get_all(&[256], &mut cell);
        assert_eq!(cell, [NONE]);
    }

    #[test]
    fn what_stays_is_found_while_others_come_and_go() {
        let table = CellTable::default();
        let mut rng = Rng::new(7);
        let stays: Vec<u64> = (0..200).map(|_| rng.next_u64()).collect();
        let goes: Vec<u64> = (0..1500).map(|_| rng.next_u64()).collect();
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
}
