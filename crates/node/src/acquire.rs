//! Packets for tunnels whose SAs a keying program gives, while there is none (RFC 4301 section
//! 5.1, case of a missing SA).
//!
//! ```text
//!   policy ─ no SA in the slot ─▶ kept, one for each slot ─▶ the keying program is asked
//!   an SA is put to use ─▶ what is kept goes back to the policy
//!   nobody answers ─▶ dropped; the next packet asks again
//! ```

use crate::punt::{Class, Exchange};
use ferrule_base::{Duration, Instant};
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::Packet;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Time that a keying program has to agree on an SA.
const ACQUIRE_WAIT: Duration = Duration::from_secs(30);
/// Packets that are kept at most: tunnels beyond are asked for, and their packet dropped.
const KEPT_MAX: usize = 1024;
/// Octets of a packet that the keying program is told.
const HEADER: usize = 64;

/// A slot without an SA.
struct Asked {
    until: Instant,
    /// First octets of the packet that asked.
    header: Vec<u8>,
    /// The packet that asked, and its worker.
    kept: Option<(usize, Packet)>,
}

/// Slots for which SAs are asked.
#[derive(Default)]
pub(crate) struct Acquires {
    asked: BTreeMap<u32, Asked>,
    /// In the order in which their time ends.
    due: VecDeque<(Instant, u32)>,
    kept: usize,
}

impl Acquires {
    /// Takes a packet whose slot has no SA. Its first octets, if it is the one that asks.
    pub fn handle_waiting(
        &mut self,
        now: Instant,
        worker: usize,
        packet: Packet,
        exchange: &mut Exchange,
    ) -> Option<Vec<u8>> {
        let (slot, header) = (packet.meta().sa, header(&packet));
        if !self.ask(now, slot, &header) {
            exchange.drop(packet, Class::Acquire.full());
            return None;
        }
        if let Some(asked) = self.asked.get_mut(&slot).filter(|_| self.kept < KEPT_MAX) {
            self.kept += 1;
            asked.kept = Some((worker, packet));
        } else {
            exchange.drop(packet, Class::Acquire.full());
        }
        Some(header)
    }

    /// An SA is asked for a slot. False: it is already.
    pub fn ask(&mut self, now: Instant, slot: u32, header: &[u8]) -> bool {
        let Entry::Vacant(vacant) = self.asked.entry(slot) else { return false };
        let until = now + ACQUIRE_WAIT;
        vacant.insert(Asked { until, header: header.to_vec(), kept: None });
        self.due.push_back((until, slot));
        true
    }

    /// The next packet of these slots asks again, as far as none is kept.
    pub fn ask_again(&mut self, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            if self.asked.get(&slot).is_some_and(|asked| asked.kept.is_none()) {
                self.asked.remove(&slot);
            }
        }
    }

    /// Slots for which SAs are asked, and the first octets of the packet that asked.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, Vec<u8>)> {
        self.asked.iter().map(|(&slot, asked)| (slot, asked.header.clone()))
    }

    /// A slot has an SA for a worker, or for all: its packet goes back to the policy, unless it
    /// waits for another worker's.
    pub fn answered(&mut self, slot: u32, by: Option<usize>, exchange: &mut Exchange) {
        let kept = self.asked.get(&slot).and_then(|asked| asked.kept.as_ref());
        if kept.is_some_and(|(at, _)| by.is_some_and(|by| by != *at)) {
            return;
        }
        if let Some((worker, packet)) = self.take(slot) {
            exchange.inject(worker, Next::Policy, packet);
        }
    }

    /// Forgets slots for which nobody is asked any more.
    pub fn retain(&mut self, acquires: &[bool], exchange: &mut Exchange) {
        let gone = |slot: &u32| acquires.get(*slot as usize) != Some(&true);
        let gone: Vec<u32> = self.asked.keys().copied().filter(gone).collect();
        gone.into_iter().for_each(|slot| self.give_up(slot, exchange));
    }

    /// Drops packets whose time is over. Returns how many slots may ask again.
    pub fn turn(&mut self, now: Instant, exchange: &mut Exchange) -> usize {
        let mut done = 0;
        while let Some(&(at, slot)) = self.due.front()
            && at <= now
        {
            self.due.pop_front();
            if self.asked.get(&slot).is_some_and(|asked| asked.until == at) {
                self.give_up(slot, exchange);
                done += 1;
            }
        }
        done
    }

    fn give_up(&mut self, slot: u32, exchange: &mut Exchange) {
        if let Some((_, packet)) = self.take(slot) {
            exchange.drop(packet, Class::Acquire.full());
        }
    }

    fn take(&mut self, slot: u32) -> Option<(usize, Packet)> {
        let kept = self.asked.remove(&slot)?.kept;
        self.kept -= usize::from(kept.is_some());
        kept
    }

    /// When [`turn`](Self::turn) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.front().map(|&(at, _)| at)
    }

    /// Packets that are kept.
    pub const fn held(&self) -> u64 {
        self.kept as u64
    }
}

/// First octets of a packet, for the keying program.
pub(crate) fn header(packet: &Packet) -> Vec<u8> {
    packet.data().iter().copied().take(HEADER).collect()
}
