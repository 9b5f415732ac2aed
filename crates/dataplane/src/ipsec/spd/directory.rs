//! Where each SA lives: tables of atomics that all snapshots share, so that an SA comes, is
//! used and goes without another snapshot. The control part alone writes.
//!
//! ```text
//!   SPI of a packet for us ──────────────▶ worker and index of the inbound SA
//!   slot of a policy entry, and worker ──▶ worker and index of the outbound SA in use
//!   SPI and address of an ICMP error ────▶ worker and index of the outbound SA it is about
//! ```
//!
//! Inbound SAs are found by SPI alone: they are unicast and this node chose
//! their SPIs (RFC 4301 section 4.1). The SA then checks the addresses.

use super::cells::{CellTable, Growing, NONE, Narrow, Wide};
use crate::graph::{Aside, Next};
use crate::ipsec::SaProtocol;
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where an inbound SA lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboundPlace {
    /// Its SPI.
    pub spi: u32,
    /// The worker that owns it.
    pub worker: u8,
    /// Its index there.
    pub index: u32,
}

/// Where an outbound SA lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboundPlace {
    /// Its index.
    pub index: u32,
    /// The worker that has it.
    pub worker: u8,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// All other workers have it, too.
    pub everywhere: bool,
}

/// Octets of an index in a cell; the rest is a worker and two marks.
const INDEX: u32 = 0x3f_ffff;
const AH: u32 = 1 << 22;
const EVERYWHERE: u32 = 1 << 23;

impl OutboundPlace {
    fn cell(self) -> u32 {
        assert!(self.index < INDEX, "indices of SAs are small");
        let ah = if self.protocol == SaProtocol::Ah { AH } else { 0 };
        let everywhere = if self.everywhere { EVERYWHERE } else { 0 };
        u32::from(self.worker) << 24 | ah | everywhere | self.index
    }

    #[inline(always)]
    fn of(cell: u32) -> Option<Self> {
        let protocol = if cell & AH != 0 { SaProtocol::Ah } else { SaProtocol::Esp };
        let (worker, everywhere) = ((cell >> 24) as u8, cell & EVERYWHERE != 0);
        let place = Self { index: cell & INDEX, worker, protocol, everywhere };
        (cell != NONE).then_some(place)
    }
}

/// Reference to an inbound SA in four octets, for columns of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct InboundCell(u32);

impl Default for InboundCell {
    fn default() -> Self {
        Self::NONE
    }
}

impl InboundCell {
    /// There is none.
    pub const NONE: Self = Self(NONE);

    fn new(place: &InboundPlace) -> Self {
        assert!(place.index < 0xff_ffff, "numbers of SAs are small");
        Self(u32::from(place.worker) << 24 | place.index)
    }

    /// True if there is an SA.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 != NONE
    }

    /// The worker that owns it.
    #[inline(always)]
    pub const fn worker(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Index of the SA; without one, an index that no SA has.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 & 0xff_ffff
    }
}

/// An inbound SA has this SPI, or it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the SPI {0:#010x} is zero or used twice")]
pub struct BadSpi(pub u32);

/// Where each SA lives.
pub struct SaDirectory {
    workers: usize,
    inbound: CellTable<Narrow>,
    /// By slot, for one worker after the other.
    slots: Growing<AtomicU32>,
    /// Outbound SAs by SPI and the other end.
    paths: CellTable<Wide>,
}

impl Default for SaDirectory {
    fn default() -> Self {
        Self::for_workers(1)
    }
}

impl SaDirectory {
    /// An empty directory for so many workers.
    pub fn for_workers(workers: usize) -> Self {
        let workers = workers.max(1);
        let (inbound, paths) = (CellTable::default(), CellTable::default());
        Self { workers, inbound, slots: Growing::default(), paths }
    }

    /// A directory of one worker, in which each slot has the ESP SA of its number, at the worker
    /// that seals for all.
    pub fn new(outbound: &[Option<u8>], inbound: &[InboundPlace]) -> Result<Self, BadSpi> {
        let this = Self::default();
        for (index, worker) in (0..).zip(outbound) {
            let place = |worker| OutboundPlace { index, worker, ..OutboundPlace::default() };
            this.fill(index, 0, worker.map(place));
        }
        inbound.iter().try_for_each(|place| this.add_inbound(place))?;
        Ok(this)
    }

    /// Adds an inbound SA: packets of its SPI go to its worker from now on.
    pub fn add_inbound(&self, place: &InboundPlace) -> Result<(), BadSpi> {
        let added = self.inbound.insert(place.spi.into(), InboundCell::new(place).0);
        if added { Ok(()) } else { Err(BadSpi(place.spi)) }
    }

    /// Puts an inbound SA in the place of another of its SPI.
    pub fn replace_inbound(&self, place: &InboundPlace) -> bool {
        self.inbound.replace(place.spi.into(), InboundCell::new(place).0)
    }

    /// Takes an inbound SA out. False if its SPI is another's, or nobody's.
    pub fn remove_inbound(&self, place: &InboundPlace) -> bool {
        self.inbound(place.spi) == Some(*place) && self.inbound.remove(place.spi.into())
    }

    /// Where the inbound SA of this SPI lives.
    #[inline]
    pub fn inbound(&self, spi: u32) -> Option<InboundPlace> {
        let cell = InboundCell(self.inbound.get(spi.into()));
        let place = InboundPlace { spi, worker: cell.worker(), index: cell.index() };
        cell.is_some().then_some(place)
    }

    /// References to the inbound SAs of the first `count` SPIs.
    #[inline(always)]
    pub fn inbound_all<const N: usize>(&self, spis: &[u32; N], count: usize) -> [InboundCell; N] {
        let (mut cells, count) = ([NONE; N], count.min(N));
        self.inbound.get_all(&spis[..count], &mut cells[..count]);
        cells.map(InboundCell)
    }

    /// Puts an outbound SA to use: from now on it seals what a worker has for a slot. Nothing:
    /// what is for the slot is dropped.
    pub fn fill(&self, slot: u32, worker: u8, place: Option<OutboundPlace>) {
        let worker = usize::from(worker);
        if worker >= self.workers || (place.is_none() && self.row(worker).len() <= slot as usize) {
            return;
        }
        if self.row(worker).len() <= slot as usize {
            self.grow(slot as usize + 1);
        }
        if let Some(cell) = self.row(worker).get(slot as usize) {
            cell.store(place.map_or(NONE, OutboundPlace::cell), Ordering::Release);
        }
    }

    fn grow(&self, slots: usize) {
        let size = slots.next_power_of_two();
        let cell = |at: usize| {
            let old = self.row(at / size).get(at % size);
            AtomicU32::new(old.map_or(NONE, |cell| cell.load(Ordering::Acquire)))
        };
        self.slots.replace(size.ilog2() as usize, (0..size * self.workers).map(cell).collect());
    }

    #[inline(always)]
    fn row(&self, worker: usize) -> &[AtomicU32] {
        let slots = self.slots.get();
        let each = slots.len() / self.workers;
        slots.get(worker * each..(worker + 1) * each).unwrap_or_default()
    }

    /// Number of workers.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// The outbound SAs that a worker uses, by slot.
    #[inline]
    pub fn slots(&self, worker: u8) -> Slots<'_> {
        Slots(self.row(worker.into()))
    }

    /// Makes an outbound SA known to those who read ICMP errors. Of several to one address with
    /// one SPI, as when only the key is another, the last is.
    pub fn add_path(&self, spi: u32, destination: IpAddr, place: OutboundPlace) {
        let (key, cell) = (path_key(spi, destination), place.cell());
        if !self.paths.replace(key, cell) {
            self.paths.insert(key, cell);
        }
    }

    /// Makes it unknown, if it is this one.
    pub fn remove_path(&self, spi: u32, destination: IpAddr, place: OutboundPlace) {
        if self.path(spi, destination) == Some(place) {
            self.paths.remove(path_key(spi, destination));
        }
    }

    /// Where the SA to `destination` with this SPI lives. (SPIs are the other end's
    /// to choose: several may have the same.)
    pub fn path(&self, spi: u32, destination: IpAddr) -> Option<OutboundPlace> {
        OutboundPlace::of(self.paths.get(path_key(spi, destination)))
    }
}

/// The outbound SAs that a worker uses.
#[derive(Clone, Copy)]
pub struct Slots<'a>(&'a [AtomicU32]);

impl Slots<'_> {
    /// The SA in a slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<OutboundPlace> {
        let cell = self.0.get(slot as usize).map_or(NONE, |cell| cell.load(Ordering::Acquire));
        OutboundPlace::of(cell)
    }

    /// Next stage of a packet for a slot, which is told the SA. Without one it is kept where
    /// `acquires` says so, by slot.
    #[inline(always)]
    pub(crate) fn next(
        &self,
        here: u8,
        slot: u32,
        packet: &mut Packet,
        acquires: &[bool],
    ) -> Result<Next, Aside> {
        let Some(place) = self.get(slot) else { return Err(vacant(slot, packet, acquires)) };
        packet.meta_mut().sa = place.index;
        let next = match place.protocol {
            SaProtocol::Esp => Next::EspOut,
            SaProtocol::Ah => Next::AhOut,
        };
        if place.worker == here { Ok(next) } else { Err(Aside::HandOff(place.worker, next)) }
    }
}

/// Fate of a packet for a slot without an SA.
#[cold]
fn vacant(slot: u32, packet: &mut Packet, acquires: &[bool]) -> Aside {
    if acquires.get(slot as usize) != Some(&true) {
        return DropReason::EspNoSa.into();
    }
    packet.meta_mut().sa = slot;
    Aside::To(Next::Acquire)
}

/// SPI and address in one word. Two that are alike are told apart by the SA, which compares what
/// an error quotes with what it sent.
fn path_key(spi: u32, destination: IpAddr) -> u64 {
    let address = match destination {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() | 1 << 127,
    };
    let mut key = u64::from(spi) << 32 | 1;
    for word in [address as u64, (address >> 64) as u64] {
        let product = u128::from(key ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        key = (product >> 64) as u64 ^ product as u64;
    }
    key.clamp(1, u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbound_sa_is_found_by_its_spi_until_it_goes() {
        let directory = SaDirectory::default();
        let places: Vec<InboundPlace> = (0..3000)
            .map(|index| InboundPlace { spi: 256 + index * 7, worker: (index % 256) as u8, index })
            .collect();
        for place in &places {
            directory.add_inbound(place).unwrap();
        }
        for place in &places {
            assert_eq!(directory.inbound(place.spi), Some(*place));
            assert_eq!(directory.inbound(place.spi + 1), None);
        }
        let other = InboundPlace { index: 9000, ..places[1] };
        assert!(!directory.remove_inbound(&other) && directory.replace_inbound(&other));
        assert!(!directory.remove_inbound(&places[1]) && directory.remove_inbound(&other));
        assert!(!directory.replace_inbound(&other));
        assert_eq!(directory.inbound(other.spi), None);
    }

    #[test]
    fn each_worker_seals_with_what_its_slot_has() {
        let directory = SaDirectory::for_workers(2);
        let esp = |index, worker| OutboundPlace { index, worker, ..<_>::default() };
        let ah = OutboundPlace { protocol: SaProtocol::Ah, everywhere: true, ..esp(9, 1) };
        assert_eq!(directory.slots(0).get(0), None);
        directory.fill(3, 0, Some(esp(7, 0)));
        directory.fill(3, 1, Some(ah));
        // Another size.
        directory.fill(100, 0, Some(esp(8, 1)));
        let all = |slot| [0, 1, 2].map(|worker| directory.slots(worker).get(slot));
        assert_eq!(all(3), [Some(esp(7, 0)), Some(ah), None]);
        assert_eq!(all(100), [Some(esp(8, 1)), None, None]);
        directory.fill(3, 0, None);
        directory.fill(9999, 0, None);
        assert_eq!((all(3), all(9999)), ([None, Some(ah), None], [None; 3]));
    }

    #[test]
    fn an_error_is_about_the_sa_to_that_end() {
        let directory = SaDirectory::default();
        let ends = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|end| end.parse().unwrap());
        let at = |index| OutboundPlace { index, ..OutboundPlace::default() };
        for (index, end) in (0..).zip(ends) {
            directory.add_path(0x100, end, at(index));
        }
        for (index, end) in (0..).zip(ends) {
            assert_eq!(directory.path(0x100, end), Some(at(index)));
            assert_eq!(directory.path(0x101, end), None);
        }
        directory.remove_path(0x100, ends[0], at(5));
        assert_eq!(directory.path(0x100, ends[0]), Some(at(0)), "that is another's");
        directory.remove_path(0x100, ends[0], at(0));
        assert_eq!([0, 1].map(|n| directory.path(0x100, ends[n])), [None, Some(at(1))]);
    }

    #[test]
    fn an_spi_belongs_to_one_sa() {
        let place = InboundPlace { spi: 300, ..Default::default() };
        assert_eq!(SaDirectory::new(&[], &[place, place]).err(), Some(BadSpi(300)));
        assert_eq!(SaDirectory::new(&[], &[InboundPlace::default()]).err(), Some(BadSpi(0)));
    }
}
