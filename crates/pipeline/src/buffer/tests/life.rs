//! A pool's memory is there as long as a handle, a cache, a packet or a ring needs it, and
//! goes back once, at whatever moment the last of them goes, on whatever thread. Natively
//! these are counts; under Miri and ThreadSanitizer (`make fuzz`) they are also proof that
//! no thread reaches memory that is gone or another's.

use super::*;
use ferrule_base::Rng;
use std::sync::Arc;
use std::thread;

const CHUNK: usize = 512;

/// A pool with small caches, and how often its memory went back.
fn counted(chunks: usize) -> (Pool, Arc<AtomicUsize>) {
    let mut region = Region::heap(chunks * CHUNK);
    let (count, release) = (Arc::new(AtomicUsize::new(0)), region.release.take().unwrap());
    let counter = count.clone();
    region.release = Some(Box::new(move |base, len| {
        counter.fetch_add(1, Ordering::Relaxed);
        release(base, len);
    }));
    let pool = Pool::new(region, CHUNK);
    pool.limit_caches(8);
    (pool, count)
}

/// Fewer rounds where each operation is interpreted.
const fn rounds(natively: usize, interpreted: usize) -> usize {
    if cfg!(miri) { interpreted } else { natively }
}

#[test]
fn packets_outlive_the_last_handle_to_their_pool_and_the_memory_does_not_outlive_them() {
    let (pool, released) = counted(8);
    let mut cache = pool.cache();
    let [first, last] = [1, 2].map(|octet| cache.packet_from(&[octet; 100]).unwrap());
    drop(pool);
    drop(cache);
    drop(first);
    assert_eq!(released.load(Ordering::Relaxed), 0);
    assert_eq!(last.data(), [2; 100]);
    drop(last);
    assert_eq!(released.load(Ordering::Relaxed), 1);
}

#[test]
#[cfg_attr(miri, ignore = "it leaves memory behind on purpose")]
fn memory_stays_where_the_kernel_was_given_a_chunk() {
    let (pool, released) = counted(8);
    let index = pool.cache().packet().unwrap().into_chunk();
    assert!((index as usize) < pool.chunks());
    drop(pool);
    assert_eq!(released.load(Ordering::Relaxed), 0);
}

/// Packets and handles of one owner, and the octets written in the packets.
#[derive(Default)]
struct Holding {
    handles: Vec<Pool>,
    caches: Vec<PoolCache>,
    packets: Vec<(Packet, u64)>,
}

/// One of them, at random.
fn one<T>(of: &mut Vec<T>, rng: &mut Rng) -> Option<T> {
    let at = (!of.is_empty()).then(|| rng.below(of.len() as u64) as usize)?;
    Some(of.swap_remove(at))
}

/// A packet with a number in it, if the pool has one left.
fn written(cache: &mut PoolCache, number: u64) -> Option<(Packet, u64)> {
    let mut packet = cache.packet_from(&number.to_be_bytes())?;
    let meta = packet.meta_mut();
    (meta.hash, meta.sa) = (number as u32, (number >> 32) as u32);
    Some((packet, number))
}

/// The packet, after a check that its octets and metadata are unchanged.
fn intact((packet, number): (Packet, u64)) -> Packet {
    let meta = u64::from(packet.meta().sa) << 32 | u64::from(packet.meta().hash);
    assert_eq!((packet.data(), meta), (&number.to_be_bytes()[..], number));
    packet
}

impl Holding {
    fn is_empty(&self) -> bool {
        self.handles.len() + self.caches.len() + self.packets.len() == 0
    }

    /// Chunks that are not on the pool's free list.
    fn out(&self) -> usize {
        self.packets.len() + self.caches.iter().map(|cache| cache.free.len()).sum::<usize>()
    }

    /// A handle or a cache or a packet less.
    fn give_up(&mut self, rng: &mut Rng) {
        match rng.below(4) {
            0 => drop(one(&mut self.handles, rng)),
            1 => drop(one(&mut self.caches, rng)),
            2 => drop(one(&mut self.packets, rng).map(intact)),
            _ => {
                let Some(mut cache) = one(&mut self.caches, rng) else { return };
                one(&mut self.packets, rng).into_iter().for_each(|p| cache.recycle(intact(p)));
                self.caches.push(cache);
            }
        }
    }

    /// One more, or one less.
    fn step(&mut self, rng: &mut Rng) {
        let any = self.handles.first().or(self.caches.first().map(PoolCache::pool));
        match rng.below(8) {
            0 if self.handles.len() < 4 => self.handles.extend(any.cloned()),
            1 if self.caches.len() < 4 => self.caches.extend(any.map(Pool::cache)),
            2..6 => {
                let made = self.caches.last_mut().and_then(|cache| written(cache, rng.next_u64()));
                self.packets.extend(made);
            }
            _ => self.give_up(rng),
        }
    }
}

#[test]
fn memory_goes_back_with_the_last_handle_cache_or_packet_and_no_sooner() {
    for seed in 0..rounds(2000, 5) {
        let (pool, released) = counted(16);
        let mut all = Holding { handles: vec![pool], ..Holding::default() };
        let mut rng = Rng::new(seed as u64);
        for step in 0.. {
            if step < 60 {
                all.step(&mut rng)
            } else {
                all.give_up(&mut rng)
            }
            let gone = released.load(Ordering::Relaxed);
            assert_eq!(gone, usize::from(all.is_empty()), "seed {seed}, step {step}");
            let any = all.handles.first().or(all.caches.first().map(PoolCache::pool));
            if let Some(pool) = any {
                assert_eq!(pool.free() + all.out(), 16, "seed {seed}, step {step}");
            }
            if gone == 1 {
                break;
            }
        }
    }
}

#[test]
fn memory_goes_back_once_however_many_threads_let_go_at_once() {
    const THREADS: usize = 3;
    for seed in 0..rounds(1000, 4) {
        let (pool, released) = counted(16);
        let mut rng = Rng::new(seed as u64);
        let mut caches: Vec<_> = (0..THREADS).map(|_| pool.cache()).collect();
        let mut shares: [Holding; THREADS] = Default::default();
        for _ in 0..rng.below(12) {
            let [from, to] = [0; 2].map(|_| rng.below(THREADS as u64) as usize);
            shares[to].packets.extend(written(&mut caches[from], rng.next_u64()));
        }
        for cache in caches {
            shares[rng.below(THREADS as u64) as usize].caches.push(cache);
        }
        shares[rng.below(THREADS as u64) as usize].handles.push(pool);
        let ready = AtomicUsize::new(0);
        thread::scope(|scope| {
            for (share, number) in shares.iter_mut().zip(0..) {
                let (ready, mut rng) = (&ready, Rng::new(seed as u64 ^ number << 32));
                scope.spawn(move || {
                    ready.fetch_add(1, Ordering::Relaxed);
                    while ready.load(Ordering::Relaxed) < THREADS {
                        thread::yield_now();
                    }
                    (0..rng.below(8)).for_each(|_| share.step(&mut rng));
                    while !share.is_empty() {
                        share.give_up(&mut rng);
                    }
                });
            }
        });
        assert_eq!(released.load(Ordering::Relaxed), 1, "seed {seed}");
    }
}

#[test]
fn packets_that_threads_pass_to_each_other_are_never_in_two_hands() {
    let (pool, released) = counted(24);
    let (to_a, from_b) = rtrb::RingBuffer::new(8);
    let (to_b, from_a) = rtrb::RingBuffer::new(8);
    let ends = [(1, to_b, from_b, pool.cache()), (2, to_a, from_a, pool.cache())];
    drop(pool);
    let work = |seed: u64, mut to: rtrb::Producer<_>, mut from: rtrb::Consumer<_>, mut cache| {
        let mut rng = Rng::new(seed);
        for _ in 0..rounds(100_000, 150) {
            let packet = match from.pop() {
                Ok(packet) => Some(packet),
                Err(_) => written(&mut cache, rng.next_u64()),
            };
            let Some(packet) = packet else {
                thread::yield_now();
                continue;
            };
            match rng.below(4) {
                0 => drop(intact(packet)),
                1 => cache.recycle(intact(packet)),
                // A ring that is full gives it back, to be dropped.
                _ => drop(to.push(packet)),
            }
        }
    };
    thread::scope(|scope| {
        for (seed, to, from, cache) in ends {
            scope.spawn(move || work(seed, to, from, cache));
        }
    });
    assert_eq!(released.load(Ordering::Relaxed), 1);
}
