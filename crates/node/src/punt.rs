//! Packets between the workers and the control part: those that workers cannot decide about,
//! by class, and those that the control part sends.
//!
//! ```text
//!   worker ── a queue for each class ─▶ control part ── Inject ─▶ worker
//! ```
//!
//! Each class has a queue and a budget of its own: a scan of a network, which fills that of
//! neighbours, costs no keying message, and a flood of strangers no neighbour.

mod known;

use crate::commands::Commands;
use crate::message::Command;
use ferrule_base::{DropReason, Drops, Instant, Ledger};
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::{Packet, PoolCache};
use known::NeighbourRates;
use rtrb::{Consumer, Producer, RingBuffer};
use std::array;
use strum::VariantArray;

/// Packets of one class from one worker that are taken in one turn at most.
pub(crate) const BUDGET: usize = 256;

/// A class of packets for the control part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub(crate) enum Class {
    /// EAPOL of the port of its meta data.
    Eapol,
    /// ARP and ND of neighbours that are known or looked for.
    Neighbour,
    /// ARP and ND of any sender, from the interface of its metadata.
    Discovery,
    /// Packets that wait for the link address of their next hop.
    Waiting,
    /// Packets that wait for an SA.
    Acquire,
    /// Datagrams for keying programs.
    Keying,
}

/// Classes.
const COUNT: usize = Class::VARIANTS.len();

impl Class {
    /// Every class, in the order in which they are served.
    pub const ALL: [Self; COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Packets of one worker that wait at most.
    const fn depth(self) -> usize {
        match self {
            Self::Eapol | Self::Acquire | Self::Keying => 256,
            Self::Neighbour | Self::Discovery | Self::Waiting => 1024,
        }
    }

    /// Drop reason of a packet that finds no room.
    pub const fn full(self) -> DropReason {
        match self {
            Self::Eapol | Self::Neighbour | Self::Discovery | Self::Keying => {
                DropReason::ControlQueueFull
            }
            Self::Waiting => DropReason::NeighbourQueueFull,
            Self::Acquire => DropReason::EspNoSa,
        }
    }
}

/// A worker's ends of its queues.
pub(crate) struct Punts {
    queues: [Producer<Packet>; COUNT],
    rates: NeighbourRates,
}

/// The control part's ends.
pub(crate) struct Punted([Consumer<Packet>; COUNT]);

/// The queues of one worker. The secret must be known to no sender.
pub(crate) fn queues(secret: [u64; 2]) -> (Punts, Punted) {
    let (mut from, mut to): (Vec<_>, Vec<_>) =
        Class::ALL.iter().map(|class| RingBuffer::new(class.depth())).unzip();
    let queues = array::from_fn(|_| from.remove(0));
    let rates = NeighbourRates::new(secret);
    (Punts { queues, rates }, Punted(array::from_fn(|_| to.remove(0))))
}

impl Punts {
    /// Puts a packet into the queue of its class, or gives it back.
    pub fn push(
        &mut self,
        now: Instant,
        tables: &Tables,
        class: Class,
        packet: Packet,
    ) -> Result<(), Packet> {
        let class = match class {
            Class::Discovery if self.rates.admits(now, tables, &packet) => Class::Neighbour,
            other => other,
        };
        let rtrb::PushError::Full(packet) = match self.queues[class as usize].push(packet) {
            Ok(()) => return Ok(()),
            Err(full) => full,
        };
        Err(packet)
    }
}

impl Punted {
    /// The next packet of a class.
    pub fn pop(&mut self, class: Class) -> Option<Packet> {
        self.0[class as usize].pop().ok()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Consumer::is_empty)
    }
}

/// Packets of the control protocols, their commands to workers, and their share of the ledger.
pub(crate) struct Exchange {
    commands: Vec<Commands>,
    cache: PoolCache,
    drops: Drops,
    made: u64,
    consumed: u64,
    handed_in: u64,
    handed_out: u64,
}

impl Exchange {
    pub fn new(cache: PoolCache, commands: Vec<Commands>) -> Self {
        let drops = Drops::default();
        Self { commands, cache, drops, made: 0, consumed: 0, handed_in: 0, handed_out: 0 }
    }

    /// A worker handed a packet over.
    pub const fn take(&mut self) {
        self.handed_in += 1;
    }

    /// A packet ended here as intended.
    pub fn consume(&mut self, packet: Packet) {
        self.consumed += 1;
        self.cache.recycle(packet);
    }

    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.drops.count(reason);
        self.cache.recycle(packet);
    }

    /// Packets made so far.
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// A packet with these octets, if there is a buffer.
    pub fn make(&mut self, frame: &[u8]) -> Option<Packet> {
        let packet = self.cache.packet_from(frame)?;
        self.made += 1;
        Some(packet)
    }

    /// Hands a packet to a worker.
    pub fn inject(&mut self, worker: usize, next: Next, packet: Packet) {
        let Some(commands) = self.commands.get(worker) else {
            return self.drop(packet, DropReason::PortDown);
        };
        match commands.inject(next, packet) {
            Ok(()) => self.handed_out += 1,
            Err(packet) => self.drop(packet, DropReason::HandoffFull),
        }
    }

    /// Sends a worker a command that must not be lost.
    pub fn send(&self, worker: usize, command: Command) {
        if let Some(commands) = self.commands.get(worker) {
            commands.send(command);
        }
    }

    /// Sends every worker a command, as far as there is room.
    pub fn ask(&self, command: impl Fn() -> Command) {
        self.commands.iter().for_each(|commands| _ = commands.try_send(command()));
    }

    /// Goes on with commands that wait for room.
    pub fn send_later(&self) {
        self.commands.iter().for_each(Commands::send_later);
    }

    /// Its share of the ledger, without packets that others hold.
    pub fn ledger(&self) -> Ledger {
        let (made, consumed, dropped) = (self.made, self.consumed, self.drops.total());
        Ledger { made, consumed, dropped, ..Ledger::default() }
    }

    /// Packets given to workers, and taken from them.
    pub const fn handed(&self) -> (u64, u64) {
        (self.handed_out, self.handed_in)
    }

    /// Drops of the control part.
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }
}
