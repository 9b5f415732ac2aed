//! Which worker has which SA: part of the snapshot that all workers read.
//!
//! Inbound SAs are found by SPI alone: they are unicast and this node chose
//! their SPIs (RFC 4301 section 4.1). The SA then checks the addresses.
//!
//! ```text
//!   SPI ──multiply, shift──▶ │ four SPIs │ their workers and indices │  compared at once
//!                              full, and it is none of them ─▶ the next four
//! ```

use crate::ipsec::SaProtocol;

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

/// Reference to an inbound SA in four octets, for columns of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundCell(u32);

impl Default for InboundCell {
    fn default() -> Self {
        Self::NONE
    }
}

impl InboundCell {
    /// There is none.
    pub const NONE: Self = Self(u32::MAX);

    fn new(place: &InboundPlace) -> Self {
        assert!(place.index < 0xff_ffff, "numbers of SAs are small");
        Self(u32::from(place.worker) << 24 | place.index)
    }

    /// True if there is an SA.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 != Self::NONE.0
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

/// Inbound SAs that are compared at once.
const ABREAST: usize = 4;

/// Some inbound SAs: the first places are used first.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Bucket {
    /// Zero: a free place.
    spis: [u32; ABREAST],
    cells: [InboundCell; ABREAST],
}

impl Bucket {
    const EMPTY: Self = Self { spis: [0; ABREAST], cells: [InboundCell::NONE; ABREAST] };

    /// Reference in this bucket for an SPI, without a branch.
    #[inline(always)]
    fn get(&self, spi: u32) -> InboundCell {
        // At most one of them is equal, or none is in use.
        let others = self.spis.iter().zip(&self.cells);
        let cell = |(&one, cell): (&u32, &InboundCell)| if one == spi { !cell.0 } else { 0 };
        InboundCell(!others.map(cell).fold(0, |all, one| all | one))
    }

    #[inline(always)]
    const fn is_full(&self) -> bool {
        self.spis[ABREAST - 1] != 0
    }
}

/// Two inbound SAs have this SPI, or it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the SPI {0:#010x} is zero or used twice")]
pub struct BadSpi(pub u32);

/// Which worker has which SA.
#[derive(Default)]
pub struct SaDirectory {
    outbound: Box<[(Option<u8>, SaProtocol)]>,
    /// Open addressing; a power of two, at most half of the places used.
    inbound: Box<[Bucket]>,
    shift: u32,
    /// UDP ports of this node in which ESP comes.
    udp_ports: Box<[u16]>,
    /// Outbound SAs of each worker beside those that it owns: a bit for each index.
    own: Box<[Box<[u64]>]>,
}

impl SaDirectory {
    /// `outbound`: the worker of each outbound SA, by index. `inbound`: all
    /// inbound SAs, in any order.
    pub fn new(outbound: &[Option<u8>], inbound: &[InboundPlace]) -> Result<Self, BadSpi> {
        let size = (inbound.len() * 2).div_ceil(ABREAST).next_power_of_two().max(2);
        let mut this = Self {
            outbound: outbound.iter().map(|&worker| (worker, SaProtocol::Esp)).collect(),
            inbound: vec![Bucket::EMPTY; size].into(),
            shift: 32 - size.ilog2(),
            udp_ports: Box::default(),
            own: Box::default(),
        };
        for place in inbound {
            if place.spi == 0 || this.inbound(place.spi).is_some() {
                return Err(BadSpi(place.spi));
            }
            let mut at = this.slot(place.spi);
            while this.inbound[at].is_full() {
                at = (at + 1) & (size - 1);
            }
            let bucket = &mut this.inbound[at];
            let free = bucket.spis.iter().position(|&spi| spi == 0).unwrap_or(0);
            (bucket.spis[free], bucket.cells[free]) = (place.spi, InboundCell::new(place));
        }
        Ok(this)
    }

    /// The same with ESP in UDP on these ports (RFC 3948).
    pub fn with_udp_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        let mut ports: Vec<u16> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        self.udp_ports = ports.into();
        self
    }

    /// Whether ESP comes in UDP at all.
    pub fn has_udp(&self) -> bool {
        !self.udp_ports.is_empty()
    }

    /// The same with these outbound SAs of AH; the others are of ESP.
    pub fn with_ah(mut self, outbound: impl IntoIterator<Item = u32>) -> Self {
        let mut all = self.outbound.into_vec();
        for index in outbound {
            let index = index as usize;
            all.resize(all.len().max(index + 1), (None, SaProtocol::Esp));
            all[index].1 = SaProtocol::Ah;
        }
        self.outbound = all.into();
        self
    }

    /// The same with more workers that have an SA of their own at an outbound index, for the
    /// packets that are there already: (index, worker).
    pub fn with_own(mut self, all: impl IntoIterator<Item = (u32, u8)>) -> Self {
        let mut own: Vec<Vec<u64>> = Vec::new();
        for (index, worker) in all {
            let (worker, word) = (usize::from(worker), index as usize / 64);
            own.resize(own.len().max(worker + 1), Vec::new());
            let words = &mut own[worker];
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << (index % 64);
        }
        self.own = own.into_iter().map(Vec::into_boxed_slice).collect();
        self
    }

    /// True if a worker has an SA of its own at an outbound index, beside the owner's.
    #[inline]
    pub fn has_own(&self, index: u32, worker: u8) -> bool {
        let words = self.own.get(usize::from(worker));
        let word = words.and_then(|words| words.get(index as usize / 64));
        word.is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// The workers that have an SA at an outbound index, the owner first.
    pub fn workers(&self, index: u32) -> impl Iterator<Item = u8> {
        let more = (0..self.own.len()).map(|worker| worker as u8);
        self.outbound(index).into_iter().chain(more.filter(move |&w| self.has_own(index, w)))
    }

    /// The worker that seals what `here` has for an outbound SA: itself if it can, or the
    /// owner.
    #[inline]
    pub fn sealer(&self, index: u32, here: u8) -> Option<u8> {
        let owner = self.outbound(index)?;
        Some(if owner != here && self.has_own(index, here) { here } else { owner })
    }

    /// Whether an outbound SA is of AH.
    pub fn is_ah(&self, index: u32) -> bool {
        self.outbound.get(index as usize).is_some_and(|sa| sa.1 == SaProtocol::Ah)
    }

    /// Whether ESP comes in UDP on a port.
    pub fn has_udp_port(&self, port: u16) -> bool {
        self.udp_ports.binary_search(&port).is_ok()
    }

    /// The worker that owns an outbound SA.
    #[inline]
    pub fn outbound(&self, index: u32) -> Option<u8> {
        self.outbound.get(index as usize)?.0
    }

    /// Where the inbound SA of this SPI lives.
    #[inline]
    pub fn inbound(&self, spi: u32) -> Option<InboundPlace> {
        let cell = self.find(self.slot(spi), spi);
        let place = InboundPlace { spi, worker: cell.worker(), index: cell.index() };
        cell.is_some().then_some(place)
    }

    /// References to the inbound SAs of many SPIs; `cells` is as long as `spis`.
    pub fn inbound_all(&self, spis: &[u32], cells: &mut [InboundCell]) {
        let mut beyond = 0;
        for (&spi, cell) in spis.iter().zip(&mut *cells) {
            let bucket = self.inbound.get(self.slot(spi)).unwrap_or(&Bucket::EMPTY);
            *cell = bucket.get(spi);
            beyond |= u32::from(bucket.is_full() & !cell.is_some());
        }
        if beyond != 0 {
            for (&spi, cell) in spis.iter().zip(cells).filter(|(_, cell)| !cell.is_some()) {
                *cell = self.find(self.slot(spi), spi);
            }
        }
    }

    /// Reference for an SPI from bucket `at` on. (At most half is used, so that the search ends.)
    fn find(&self, mut at: usize, spi: u32) -> InboundCell {
        while let Some(bucket) = self.inbound.get(at) {
            let cell = bucket.get(spi);
            if cell.is_some() || !bucket.is_full() {
                return cell;
            }
            at = (at + 1) & (self.inbound.len() - 1);
        }
        InboundCell::NONE
    }

    #[inline]
    fn slot(&self, spi: u32) -> usize {
        // Fibonacci hashing: the high bits of a multiple of 2^32 / phi.
        (spi.wrapping_mul(0x9e37_79b9) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;
    use std::collections::HashMap;

    #[test]
    fn every_inbound_sa_is_found_by_its_spi_and_no_other() {
        let mut rng = Rng::new(4301);
        for count in [0, 1, 2, 5, 700, 5000] {
            // Dense ones, and any.
            let spi =
                |rng: &mut Rng, n| if n % 2 == 0 { 256 + n * 7 } else { rng.next_u64() as u32 };
            let places: HashMap<u32, InboundPlace> = (0..count)
                .map(|index| (spi(&mut rng, index), (index % 256) as u8, index))
                .map(|(spi, worker, index)| (spi, InboundPlace { spi, worker, index }))
                .filter(|(spi, _)| *spi != 0)
                .collect();
            let all: Vec<InboundPlace> = places.values().copied().collect();
            let directory = SaDirectory::new(&[], &all).unwrap();
            let asked: Vec<u32> =
                all.iter().flat_map(|p| [p.spi, p.spi.wrapping_add(1)]).chain([0, 9]).collect();
            let mut cells = vec![InboundCell::default(); asked.len()];
            directory.inbound_all(&asked, &mut cells);
            for (spi, cell) in asked.iter().zip(cells) {
                let place = places.get(spi).copied();
                assert_eq!(directory.inbound(*spi), place);
                assert_eq!(cell.is_some(), place.is_some());
                if let Some(place) = place {
                    assert_eq!((cell.worker(), cell.index()), (place.worker, place.index));
                }
            }
        }
        let mut cell = [InboundCell(7)];
        SaDirectory::default().inbound_all(&[256], &mut cell);
        assert_eq!((SaDirectory::default().inbound(256), cell[0]), (None, InboundCell::NONE));
    }

    #[test]
    fn outbound_sas_are_known_by_worker_and_protocol() {
        let directory = SaDirectory::new(&[Some(1), None, Some(0)], &[]).unwrap().with_ah([2, 5]);
        assert_eq!(
            [0, 1, 2, 3, 5].map(|i| directory.outbound(i)),
            [Some(1), None, Some(0), None, None]
        );
        assert_eq!([0, 1, 2, 3, 5].map(|i| directory.is_ah(i)), [false, false, true, false, true]);
    }

    #[test]
    fn a_worker_seals_by_itself_where_it_has_an_sa() {
        let directory = SaDirectory::new(&[Some(0), Some(1)], &[]).unwrap();
        let directory = directory.with_own([(1, 3), (70, 0), (1, 0)]);
        let sealers = |index| [0, 1, 2, 3, 200].map(|here| directory.sealer(index, here));
        assert_eq!(sealers(0), [Some(0); 5]);
        assert_eq!(sealers(1), [0, 1, 1, 3, 1].map(Some));
        assert_eq!(sealers(70), [None; 5], "without an owner there is none");
        assert_eq!(directory.workers(1).collect::<Vec<_>>(), [1, 0, 3]);
        assert_eq!(directory.workers(0).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn an_spi_belongs_to_one_sa() {
        let place = InboundPlace { spi: 300, ..Default::default() };
        assert_eq!(SaDirectory::new(&[], &[place, place]).err(), Some(BadSpi(300)));
        assert_eq!(SaDirectory::new(&[], &[InboundPlace::default()]).err(), Some(BadSpi(0)));
    }
}
