//! Link addresses of neighbours: written by the control part, read by workers.
//!
//! The table is of atomics, shared by all snapshots. A neighbour keeps its place
//! as long as it is there, and one that a snapshot names by its place
//! ([`Neighbours::reserve`]) keeps it as long as one does: a worker that knows the
//! place reads one number. A worker that has only the address looks through one
//! bucket, and each place is a seqlock: its version is odd while the place is
//! being written, and a reader that saw the version change looks again.
//!
//! ```text
//!   hash(interface, address) ─▶ bucket (made when first needed)
//!                                 place: version │ state │ address │ link
//! ```

use ferrule_base::MacAddr;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Places in the table: enough for the neighbours that a large configuration names and
/// those that are learned.
pub const NEIGHBOURS_MAX: usize = 1 << 16;
/// Places in a bucket: a neighbour that finds its bucket full is refused.
const BUCKET: usize = 64;
/// Places of a bucket that are taken at most for another one to be only looked for.
const SOUGHT_MAX: usize = BUCKET / 2;
const BUCKETS: usize = NEIGHBOURS_MAX / BUCKET;
/// Times a reader looks again at a place that is being written.
const LOOKS_MAX: usize = 64;

/// A place that was never used: a search ends.
const EMPTY: u32 = 0;
/// A place that was used before: a search goes on.
const LEFT: u32 = 1;
/// A neighbour that was learned.
const LEARNED: u32 = 2;
/// A neighbour that a snapshot names by its place, which is not given away.
const RESERVED: u32 = 3;

/// One place.
#[derive(Default)]
struct Place {
    version: AtomicU32,
    state: AtomicU32,
    high: AtomicU64,
    low: AtomicU64,
    /// Interface in the upper 16 bits, link address below; zero: not resolved.
    link: AtomicU64,
}

/// An interface and an address on its network.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    iface: u16,
    ip: u128,
}

impl Key {
    #[inline]
    fn new(iface: u16, ip: IpAddr) -> Self {
        let ip = match ip {
            IpAddr::V4(a) => a.to_ipv6_mapped(),
            IpAddr::V6(a) => a,
        };
        Self { iface, ip: u128::from(ip) }
    }

    /// Start of the search: bucket and place in it. Without the secret an attacker cannot choose
    /// addresses of one bucket.
    #[inline]
    const fn start(self, secret: [u64; 2]) -> (usize, usize) {
        let (high, low) = ((self.ip >> 64) as u64, self.ip as u64);
        let mixed = fold(high ^ secret[0], low ^ secret[1]);
        let mixed = fold(mixed ^ secret[1], self.iface as u64 ^ secret[0]);
        let mixed = fold(mixed ^ 0x9e37_79b9_7f4a_7c15, secret[0] ^ 0xbf58_476d_1ce4_e5b9);
        ((mixed >> 54) as usize % BUCKETS, (mixed >> 48) as usize % BUCKET)
    }
}

impl Place {
    /// State, key and link as they were at one moment.
    #[inline]
    fn read(&self) -> Option<(u32, Key, u64)> {
        for _ in 0..LOOKS_MAX {
            let before = self.version.load(Ordering::Acquire);
            let state = self.state.load(Ordering::Relaxed);
            let high = self.high.load(Ordering::Relaxed);
            let low = self.low.load(Ordering::Relaxed);
            let link = self.link.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.version.load(Ordering::Relaxed) == before {
                let ip = u128::from(high) << 64 | u128::from(low);
                return Some((state, Key { iface: (link >> 48) as u16, ip }, link));
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Changes the place. There is one writer at a time: it holds the guard.
    fn write(&self, _one: &MutexGuard<'_, ()>, state: u32, key: Key, mac: MacAddr) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.state.store(state, Ordering::Relaxed);
        self.high.store((key.ip >> 64) as u64, Ordering::Relaxed);
        self.low.store(key.ip as u64, Ordering::Relaxed);
        self.link.store(u64::from(key.iface) << 48 | mac.to_u64(), Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// Both halves of a product.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

/// The link address in a place's number.
#[inline]
fn mac_of(link: u64) -> Option<MacAddr> {
    let mac = MacAddr::from_u64(link);
    (mac != MacAddr::ZERO).then_some(mac)
}

type Bucket = Box<[Place; BUCKET]>;

/// Link addresses of neighbours.
pub struct Neighbours {
    buckets: [OnceLock<Bucket>; BUCKETS],
    /// Writers take turns; readers never wait for it.
    writer: Mutex<()>,
    /// Secret of the hash by which neighbours find their buckets.
    secret: [u64; 2],
}

impl Default for Neighbours {
    fn default() -> Self {
        Self::new([0; 2])
    }
}

impl Neighbours {
    /// A table without neighbours. The secret must be kept: with it an attacker could fill
    /// a bucket.
    pub const fn new(secret: [u64; 2]) -> Self {
        let buckets = [const { OnceLock::new() }; BUCKETS];
        // Not zero, which would take the other factor with it.
        let secret = [secret[0] ^ 0x2545_f491_4f6c_dd1d, secret[1] ^ 0x9fb2_1c65_1e98_df25];
        Self { buckets, writer: Mutex::new(()), secret }
    }

    /// The link address at a place.
    #[inline]
    pub fn mac(&self, slot: u32) -> Option<MacAddr> {
        let (bucket, place) = (slot as usize / BUCKET, slot as usize % BUCKET);
        let place = self.buckets.get(bucket)?.get()?.get(place)?;
        mac_of(place.link.load(Ordering::Acquire))
    }

    /// The link address at a place as a number, in its lower 48 bits; zero: not known.
    #[inline(always)]
    pub fn link(&self, slot: u32) -> u64 {
        let (bucket, place) = (slot as usize / BUCKET, slot as usize % BUCKET);
        let bucket = self.buckets.get(bucket).and_then(OnceLock::get);
        let link = bucket.map_or(0, |places| places[place].link.load(Ordering::Acquire));
        link & ((1 << 48) - 1)
    }

    /// The link address of a neighbour.
    #[inline]
    pub fn find(&self, iface: u16, ip: IpAddr) -> Option<MacAddr> {
        mac_of(self.look_up(iface, ip)?.1)
    }

    /// The place of a neighbour, and its link there, zero if it is not resolved.
    #[inline]
    fn look_up(&self, iface: u16, ip: IpAddr) -> Option<(u32, u64)> {
        let key = Key::new(iface, ip);
        let (bucket, start) = key.start(self.secret);
        let places = self.buckets[bucket].get()?;
        for n in 0..BUCKET {
            let place = (start + n) % BUCKET;
            let (state, at, link) = places[place].read()?;
            match state {
                EMPTY => return None,
                LEARNED | RESERVED if at == key => {
                    return Some(((bucket * BUCKET + place) as u32, link));
                }
                _ => {}
            }
        }
        None
    }

    /// The place of a neighbour that may have this link address: it is known with it, or looked
    /// for.
    pub fn may_be(&self, iface: u16, ip: IpAddr, mac: MacAddr) -> Option<u32> {
        let (slot, link) = self.look_up(iface, ip)?;
        mac_of(link).is_none_or(|known| known == mac).then_some(slot)
    }

    /// Notes that a neighbour is looked for, until it is [set](Self::set) or
    /// [given up](Self::give_up); not where little room is left for those who are there.
    pub fn look_for(&self, iface: u16, ip: IpAddr) {
        let one = self.lock();
        let key = Key::new(iface, ip);
        let Some((slot, place, state @ (EMPTY | LEFT), _)) = self.place(key) else { return };
        let bucket = self.buckets[slot as usize / BUCKET].get().map_or(&[][..], |all| &all[..]);
        let is_taken = |place: &&Place| place.state.load(Ordering::Relaxed) >= LEARNED;
        // (The place of another one that is looked for is none for this.)
        let is_free = place.state.load(Ordering::Relaxed) == state;
        if is_free && bucket.iter().filter(is_taken).count() < SOUGHT_MAX {
            place.write(&one, LEARNED, key, MacAddr::ZERO);
        }
    }

    /// Notes that a neighbour is looked for no more. One that is known stays.
    pub fn give_up(&self, iface: u16, ip: IpAddr) {
        if self.look_up(iface, ip).is_some_and(|(_, link)| mac_of(link).is_none()) {
            self.remove(iface, ip);
        }
    }

    /// A place that is not given away, for a neighbour that a snapshot is to name by it; the
    /// neighbour may be resolved already. Nothing when the table has no room.
    pub fn reserve(&self, iface: u16, ip: IpAddr) -> Option<u32> {
        let one = self.lock();
        let key = Key::new(iface, ip);
        let (slot, place, state, link) = self.place(key)?;
        if state != RESERVED {
            let mac = if state == LEARNED { MacAddr::from_u64(link) } else { MacAddr::ZERO };
            place.write(&one, RESERVED, key, mac);
        }
        Some(slot)
    }

    /// Ends reservations of all places but these, as no snapshot in use names others.
    pub fn reserve_only(&self, slots: impl IntoIterator<Item = u32>) {
        let mut stays = vec![false; NEIGHBOURS_MAX];
        for slot in slots {
            stays[slot as usize % NEIGHBOURS_MAX] = true;
        }
        let one = self.lock();
        let buckets = self.buckets.iter().enumerate();
        for (bucket, places) in buckets.filter_map(|(n, bucket)| Some((n, bucket.get()?))) {
            for (at, place) in places.iter().enumerate() {
                let slot = bucket * BUCKET + at;
                if stays[slot] || place.state.load(Ordering::Relaxed) != RESERVED {
                    continue;
                }
                let Some((_, key, link)) = place.read() else { continue };
                match mac_of(link) {
                    Some(mac) => place.write(&one, LEARNED, key, mac),
                    None => {
                        place.write(&one, LEFT, key, MacAddr::ZERO);
                        self.sweep(&one, slot as u32);
                    }
                }
            }
        }
    }

    /// Notes a neighbour's link address; false when the table has no room.
    pub fn set(&self, iface: u16, ip: IpAddr, mac: MacAddr) -> bool {
        let one = self.lock();
        let key = Key::new(iface, ip);
        let Some((_, place, state, _)) = self.place(key) else { return false };
        place.write(&one, state.max(LEARNED), key, mac);
        true
    }

    /// Forgets a neighbour's link address.
    pub fn remove(&self, iface: u16, ip: IpAddr) {
        let one = self.lock();
        let key = Key::new(iface, ip);
        let Some((slot, place, state, _)) = self.place(key) else { return };
        match state {
            RESERVED => place.write(&one, RESERVED, key, MacAddr::ZERO),
            LEARNED => {
                place.write(&one, LEFT, key, MacAddr::ZERO);
                self.sweep(&one, slot);
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // A writer that panicked left at worst an odd version: readers give up
        // on that place, the next write to it mends it.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place that has this neighbour, or one that it may have, with its state (not the
    /// neighbour's own unless that is above `LEFT`) and link. An unresolved neighbour makes
    /// room where there is no other.
    fn place(&self, key: Key) -> Option<(u32, &Place, u32, u64)> {
        let (bucket, start) = key.start(self.secret);
        let places = self.buckets[bucket]
            .get_or_init(|| Box::new(std::array::from_fn(|_| Place::default())));
        let (mut free, mut sought) = (None, None);
        for n in 0..BUCKET {
            let at = (start + n) % BUCKET;
            let slot = (bucket * BUCKET + at) as u32;
            let place = &places[at];
            let (state, owner, link) = place.read()?;
            match state {
                EMPTY => return free.or(Some((slot, place, EMPTY, 0))),
                LEFT => free = free.or(Some((slot, place, LEFT, 0))),
                _ if owner == key => return Some((slot, place, state, link)),
                LEARNED if mac_of(link).is_none() => {
                    sought = sought.or(Some((slot, place, LEFT, 0)));
                }
                _ => {}
            }
        }
        free.or(sought)
    }

    /// Makes places in front of an empty one empty too, so that searches end.
    fn sweep(&self, one: &MutexGuard<'_, ()>, slot: u32) {
        let (bucket, last) = (slot as usize / BUCKET, slot as usize % BUCKET);
        let Some(places) = self.buckets[bucket].get() else { return };
        let state = |at: usize| places[at % BUCKET].state.load(Ordering::Relaxed);
        if state(last + 1) != EMPTY {
            return;
        }
        for n in 0..BUCKET {
            let at = last + BUCKET - n;
            if state(at) != LEFT {
                return;
            }
            places[at % BUCKET].write(one, EMPTY, Key { iface: 0, ip: 0 }, MacAddr::ZERO);
        }
    }
}
