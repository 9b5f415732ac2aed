//! The virtual wire: two ports in memory, each of which receives the other's frames.

use crate::batch::Batch;
use crate::buffer::{Packet, Pool, PoolCache};
use crate::port::{Port, PortStats};
use ferrule_base::Instant;
use rtrb::{Consumer, Producer, RingBuffer};

/// One end of a virtual wire.
pub struct PairPort {
    tx: Producer<Packet>,
    rx: Consumer<Packet>,
    pool: Pool,
    stats: PortStats,
}

/// A wire that holds up to `depth` frames each way. The ends may belong to
/// nodes with different pools: a frame from a foreign pool is copied on
/// receipt, as a wire would.
pub fn pair(depth: usize, pool_a: &Pool, pool_b: &Pool) -> (PairPort, PairPort) {
    let (to_b, from_a) = RingBuffer::new(depth);
    let (to_a, from_b) = RingBuffer::new(depth);
    let end =
        |tx, rx, pool: &Pool| PairPort { tx, rx, pool: pool.clone(), stats: PortStats::default() };
    (end(to_b, from_b, pool_a), end(to_a, from_a, pool_b))
}

impl Port for PairPort {
    fn receive(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        while !batch.is_full() {
            let Ok(packet) = self.rx.pop() else { return };
            let packet = if self.pool.owns(&packet) {
                packet
            } else {
                match cache.copy_of(&packet) {
                    Some(copy) => copy,
                    None => {
                        self.stats.rx_missed += 1;
                        continue;
                    }
                }
            };
            self.stats.rx.add(packet.len());
            batch.push(packet);
        }
    }

    fn transmit(&mut self, _now: Instant, _cache: &mut PoolCache, batch: &mut Batch) {
        let count = self.tx.slots().min(batch.len());
        for packet in batch.drain(..count) {
            let octets = packet.len();
            match self.tx.push(packet) {
                Ok(()) => self.stats.tx.add(octets),
                Err(_) => self.stats.tx_failed += 1,
            }
        }
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn is_up(&self) -> bool {
        !self.tx.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_wire_carries_frames_in_order_and_copies_between_pools() {
        let (pool_a, pool_b) = (Pool::heap(8, 2048), Pool::heap(8, 2048));
        let (mut a, mut b) = pair(4, &pool_a, &pool_b);
        let (mut cache_a, mut cache_b) = (pool_a.cache(), pool_b.cache());
        let mut batch = Batch::new();
        for i in 0..6u8 {
            batch.push(cache_a.packet_from(&[i; 60]).unwrap());
        }
        a.transmit(Instant::ZERO, &mut cache_a, &mut batch);
        assert_eq!(batch.len(), 2, "a full wire leaves the rest in order");
        let mut got = Batch::new();
        b.receive(Instant::ZERO, &mut cache_b, &mut got);
        let first: Vec<u8> = got.iter().map(|p| p.data()[0]).collect();
        assert_eq!(first, [0, 1, 2, 3]);
        assert!(got.iter().all(|p| pool_b.owns(p)));
        assert_eq!(b.stats().rx.packets, 4);
    }
}
