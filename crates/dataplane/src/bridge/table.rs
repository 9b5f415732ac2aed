//! Learned addresses: (VLAN, address) to interface, with age (802.1Q clauses
//! 8.7 and 8.8).
//!
//! The table has a fixed size, and all workers read and write it without waiting. An
//! address belongs to one bucket of two cache lines, chosen by a secret: a sender cannot
//! aim at the bucket of a certain address. In a full bucket the interface that has most
//! addresses gives up its oldest, so that a flood of invented ones pushes out others of its
//! own, and neither grows the table nor slows it down.
//!
//! ```text
//!  bucket:  version │ 7 keys: VLAN, address      ◀─ one cache line
//!                   │ 7 values: interface, time  ◀─ the next one
//! ```
//!
//! A bucket's version is odd while a worker changes which address goes where; a
//! reader that meets such a change sees no entry, and its frame is flooded, as
//! for any address that is not known yet. That an address was seen again
//! changes one value alone and needs no version.

use ferrule_base::{Instant, MacAddr};
use ferrule_pipeline::prefetch;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Addresses in one bucket.
const WAYS: usize = 7;
/// Buckets at most: the table never takes more than 128 MiB.
const BUCKETS_MAX: usize = 1 << 20;
/// Spreads keys also under a secret of zeros.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// No address: a bit that no key has.
const EMPTY: u64 = 1 << 63;

/// A VLAN and an address in it, in 60 bits.
#[derive(Clone, Copy)]
pub(super) struct Key(u64);

impl Key {
    /// `address` has 48 bits.
    #[inline]
    pub(super) const fn new(vlan: u16, address: u64) -> Self {
        Self((vlan as u64 & 0xfff) << 48 | address)
    }
}

/// A key, and where the table has it.
#[derive(Clone, Copy, Default)]
pub(super) struct Sought {
    key: u64,
    bucket: u32,
    /// Its home in the bucket.
    home: u32,
}

impl Sought {
    /// The address, in 48 bits.
    #[inline(always)]
    pub(super) const fn address(self) -> u64 {
        self.key & ((1 << 48) - 1)
    }
}

/// Seven addresses that share a place.
#[repr(align(128))]
struct Bucket {
    version: AtomicU64,
    keys: [AtomicU64; WAYS],
    values: [AtomicU64; WAYS],
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            keys: [const { AtomicU64::new(EMPTY) }; WAYS],
            values: [const { AtomicU64::new(0) }; WAYS],
        }
    }
}

/// Result of [`MacTable::learn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The address was there already.
    Known,
    /// The address is new.
    New,
    /// The address was at this interface before.
    Moved(u16),
    /// Another worker is at the bucket: the next frame will do.
    Busy,
}

/// One learned address, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The VLAN; 0 for untagged.
    pub vlan: u16,
    /// The address.
    pub mac: MacAddr,
    /// Interface behind which the address is.
    pub iface: u16,
    /// Seconds since it was last seen.
    pub age_seconds: u32,
}

/// Learned addresses of one bridge.
pub struct MacTable {
    buckets: Box<[Bucket]>,
    secret: [u64; 2],
    ageing_seconds: u32,
}

impl MacTable {
    /// A table with places for `capacity` addresses or some more, which forgets addresses
    /// not seen for `ageing_seconds`. Only the node may know the secret.
    pub fn new(capacity: usize, ageing_seconds: u32, secret: [u64; 2]) -> Self {
        let buckets = capacity.div_ceil(WAYS).clamp(1, BUCKETS_MAX).next_power_of_two();
        let buckets = std::iter::repeat_with(Bucket::default).take(buckets).collect();
        Self { buckets, secret: [secret[0], secret[1] ^ ODD | 1], ageing_seconds }
    }

    /// Addresses that the table has places for.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// The interface of an address, if it was learned and not long ago.
    pub fn lookup(&self, vlan: u16, mac: MacAddr, now: Instant) -> Option<u16> {
        self.find(self.seek(Key::new(vlan, mac.to_u64())), seconds(now))
    }

    /// Notes that a frame of an address came in by an interface. The caller
    /// sees to it that the address is no group's.
    pub fn learn(&self, vlan: u16, mac: MacAddr, from: u16, now: Instant) -> Learned {
        self.note(self.seek(Key::new(vlan, mac.to_u64())), from, seconds(now))
    }

    /// Asks the processor for the bucket that [`note`](Self::note) and [`find`](Self::find)
    /// read.
    #[inline(always)]
    pub(super) fn prefetch(&self, sought: Sought) {
        if let Some(bucket) = self.buckets.get(sought.bucket as usize) {
            prefetch(bucket);
            prefetch(&bucket.values);
        }
    }

    /// [`lookup`](Self::lookup) for the stage.
    #[inline(always)]
    pub(super) fn find(&self, sought: Sought, now: u32) -> Option<u16> {
        let Sought { key, home, .. } = sought;
        let bucket = self.buckets.get(sought.bucket as usize)?;
        let version = bucket.version.load(Ordering::Acquire);
        let value = bucket.find(home, key)?.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let still = bucket.version.load(Ordering::Relaxed);
        (version == still && version.is_multiple_of(2) && self.is_fresh(value, now))
            .then(|| iface(value))
    }

    /// [`learn`](Self::learn) for the stage.
    #[inline(always)]
    pub(super) fn note(&self, sought: Sought, from: u16, now: u32) -> Learned {
        let Sought { key, home, .. } = sought;
        let Some(bucket) = self.buckets.get(sought.bucket as usize) else { return Learned::Busy };
        let fresh = value(from, now);
        if let Some(place) = bucket.find(home, key) {
            let old = place.load(Ordering::Relaxed);
            if old == fresh {
                return Learned::Known;
            }
            if iface(old) == from && self.is_fresh(old, now) {
                // Should the place have gone to another address meanwhile, its
                // value differs and stays, or that address is at the same
                // interface and looks younger than it is.
                let _ = place.compare_exchange(old, fresh, Ordering::Relaxed, Ordering::Relaxed);
                return Learned::Known;
            }
        }
        self.change(bucket, home as usize, key, fresh)
    }

    /// Puts an address in its bucket, or elsewhere than it was.
    #[cold]
    fn change(&self, bucket: &Bucket, home: usize, key: u64, fresh: u64) -> Learned {
        let Some(version) = bucket.lock() else { return Learned::Busy };
        let place = bucket.keys.iter().position(|k| k.load(Ordering::Relaxed) == key);
        let learned = if let Some(place) = place {
            let old = bucket.values[place].swap(fresh, Ordering::Relaxed);
            match iface(old) {
                _ if !self.is_fresh(old, stamp(fresh)) => Learned::New,
                before if before == iface(fresh) => Learned::Known,
                before => Learned::Moved(before),
            }
        } else {
            let place = bucket.to_give_up(home, iface(fresh), |v| self.is_fresh(v, stamp(fresh)));
            bucket.values[place].store(fresh, Ordering::Relaxed);
            bucket.keys[place].store(key, Ordering::Relaxed);
            Learned::New
        };
        bucket.version.store(version.wrapping_add(2), Ordering::Release);
        learned
    }

    /// Entries that are valid now, in no order. Changes that other workers make meanwhile
    /// may be missing.
    pub fn entries(&self, now: Instant) -> impl Iterator<Item = Entry> + '_ {
        let now = seconds(now);
        self.buckets.iter().flat_map(move |bucket| {
            let version = bucket.version.load(Ordering::Acquire);
            let found: [_; WAYS] = std::array::from_fn(|place| {
                let key = bucket.keys[place].load(Ordering::Relaxed);
                let value = bucket.values[place].load(Ordering::Relaxed);
                (key != EMPTY && self.is_fresh(value, now)).then(|| Entry {
                    vlan: (key >> 48) as u16,
                    mac: MacAddr::from_u64(key),
                    iface: iface(value),
                    age_seconds: now.saturating_sub(stamp(value)),
                })
            });
            fence(Ordering::Acquire);
            let still = bucket.version.load(Ordering::Relaxed);
            let quiet = version == still && version.is_multiple_of(2);
            found.into_iter().flatten().filter(move |_| quiet)
        })
    }

    /// Place of a key.
    #[inline(always)]
    pub(super) fn seek(&self, Key(key): Key) -> Sought {
        let product = u128::from(key ^ self.secret[0]) * u128::from(self.secret[1]);
        let mixed = product as u64 ^ (product >> 64) as u64;
        let home = ((mixed >> 32 & 0xff) as u32 * WAYS as u32) >> 8;
        // There is a power of two of them, and one at least.
        let bucket = (mixed >> 40) as u32 & (self.buckets.len() - 1) as u32;
        Sought { key, bucket, home }
    }

    /// True if two addresses have the same bucket.
    #[cfg(test)]
    pub(super) fn same_bucket(&self, vlan: u16, one: MacAddr, other: MacAddr) -> bool {
        let of = |mac: MacAddr| self.seek(Key::new(vlan, mac.to_u64())).bucket;
        of(one) == of(other)
    }

    #[inline]
    const fn is_fresh(&self, value: u64, now: u32) -> bool {
        now.saturating_sub(stamp(value)) < self.ageing_seconds
    }
}

impl Bucket {
    /// The value that stands beside a key: nearly always at the key's home.
    #[inline]
    fn find(&self, home: u32, key: u64) -> Option<&AtomicU64> {
        let home = home as usize;
        let is = |other: &AtomicU64| other.load(Ordering::Relaxed) == key;
        let place = if self.keys.get(home).is_some_and(is) {
            home
        } else {
            self.keys.iter().position(is)?
        };
        self.values.get(place)
    }

    /// Makes the version odd; nothing if another worker did.
    fn lock(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        if !version.is_multiple_of(2) {
            return None;
        }
        self.version
            .compare_exchange(
                version,
                version.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        // Writes from here on are not seen before the odd version.
        fence(Ordering::Release);
        Some(version)
    }

    /// The place to give up for an address at an interface: an empty one, or one not seen
    /// for too long; else, of the interface that has most places, the newcomer's own if it
    /// is one of them, the place not seen for longest. Of several, the home or the next
    /// behind it.
    fn to_give_up(&self, home: usize, newcomer: u16, is_fresh: impl Fn(u64) -> bool) -> usize {
        let taken: [Option<u64>; WAYS] = std::array::from_fn(|place| {
            let value = self.values[place].load(Ordering::Relaxed);
            let is_there = self.keys[place].load(Ordering::Relaxed) != EMPTY;
            (is_there && is_fresh(value)).then_some(value)
        });
        let count = |port: u16| taken.iter().flatten().filter(|&&v| iface(v) == port).count();
        let places = (0..WAYS).map(|i| (home + i) % WAYS);
        let last = |&place: &usize| {
            taken[place].map(|value| {
                let port = iface(value);
                let most = std::cmp::Reverse((count(port), port == newcomer));
                (most, stamp(value))
            })
        };
        places.min_by_key(last).unwrap_or(home)
    }
}

#[inline]
const fn value(iface: u16, stamp: u32) -> u64 {
    (iface as u64) << 32 | stamp as u64
}

#[inline]
const fn iface(value: u64) -> u16 {
    (value >> 32) as u16
}

#[inline]
const fn stamp(value: u64) -> u32 {
    value as u32
}

/// Whole seconds: enough for an age.
#[inline]
pub(super) const fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that reads in the middle of another worker's change sees nothing of it.
    #[test]
    fn bridge_table_shows_nothing_of_a_change_that_is_not_done() {
        let table = MacTable::new(1, 300, [1, 2]);
        let (now, [old, new]) = (Instant::from_secs(9), [1, 2].map(MacAddr::from_u64));
        table.learn(0, old, 4, now);
        let bucket = &table.buckets[0];
        let version = bucket.lock().unwrap();
        let place = bucket.keys.iter().position(|k| k.load(Ordering::Relaxed) == 1).unwrap();
        bucket.values[place].store(value(7, 9), Ordering::Relaxed);
        assert_eq!(table.lookup(0, old, now), None, "neither the old place nor the new one");
        assert_eq!(table.entries(now).count(), 0);
        assert_eq!(table.learn(0, new, 5, now), Learned::Busy);
        assert!(bucket.lock().is_none());
        bucket.keys[place].store(2, Ordering::Relaxed);
        bucket.version.store(version + 2, Ordering::Release);
        assert_eq!((table.lookup(0, old, now), table.lookup(0, new, now)), (None, Some(7)));
    }
}
