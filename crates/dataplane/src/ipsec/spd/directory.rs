//! Which worker has which SA: part of the snapshot that all workers read.
//!
//! Inbound SAs are found by SPI alone: they are unicast and this node chose
//! their SPIs (RFC 4301 section 4.1). The SA then checks the addresses.
//!
//! ```text
//!   SPI ──multiply, shift──▶ │ … │ SPI, worker, index │ SPI, … │ free │ …
//!                              first try ──────────────▶ next ──▶ none
//! ```

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

/// Two inbound SAs have this SPI, or it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSpi(pub u32);

impl std::fmt::Display for BadSpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the SPI {:#010x} is zero or used twice", self.0)
    }
}

impl std::error::Error for BadSpi {}

/// Which worker has which SA.
#[derive(Default)]
pub struct SaDirectory {
    outbound: Box<[Option<u8>]>,
    /// Open addressing; a power of two, at most half of it used.
    inbound: Box<[InboundPlace]>,
    shift: u32,
    /// UDP ports of this node in which ESP comes.
    udp_ports: Box<[u16]>,
    /// Outbound SAs of AH, by index.
    ah: Box<[u32]>,
}

impl SaDirectory {
    /// `outbound`: the worker of each outbound SA, by index. `inbound`: all
    /// inbound SAs, in any order.
    pub fn new(outbound: &[Option<u8>], inbound: &[InboundPlace]) -> Result<Self, BadSpi> {
        let size = (inbound.len() * 2).next_power_of_two().max(2);
        let mut this = Self {
            outbound: outbound.into(),
            inbound: vec![InboundPlace::default(); size].into(),
            shift: 32 - size.ilog2(),
            udp_ports: Box::default(),
            ah: Box::default(),
        };
        for place in inbound {
            if place.spi == 0 || this.inbound(place.spi).is_some() {
                return Err(BadSpi(place.spi));
            }
            let mut at = this.slot(place.spi);
            while this.inbound[at].spi != 0 {
                at = (at + 1) & (size - 1);
            }
            this.inbound[at] = *place;
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
        let mut outbound: Vec<u32> = outbound.into_iter().collect();
        outbound.sort_unstable();
        self.ah = outbound.into();
        self
    }

    /// Whether an outbound SA is of AH.
    pub fn is_ah(&self, index: u32) -> bool {
        self.ah.binary_search(&index).is_ok()
    }

    /// Whether ESP comes in UDP on a port.
    pub fn has_udp_port(&self, port: u16) -> bool {
        self.udp_ports.binary_search(&port).is_ok()
    }

    /// The worker that owns an outbound SA.
    #[inline]
    pub fn outbound(&self, index: u32) -> Option<u8> {
        *self.outbound.get(index as usize)?
    }

    /// Where the inbound SA of this SPI lives.
    #[inline]
    pub fn inbound(&self, spi: u32) -> Option<InboundPlace> {
        if self.inbound.is_empty() {
            return None;
        }
        let mut at = self.slot(spi);
        loop {
            let place = self.inbound[at];
            if place.spi == spi && spi != 0 {
                return Some(place);
            }
            if place.spi == 0 {
                return None;
            }
            at = (at + 1) & (self.inbound.len() - 1);
        }
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

    #[test]
    fn every_inbound_sa_is_found_by_its_spi_and_no_other() {
        let places: Vec<_> = (0..5000u32)
            .map(|i| InboundPlace { spi: 256 + i * 7, worker: (i % 3) as u8, index: i })
            .collect();
        let directory = SaDirectory::new(&[Some(1), None], &places).unwrap();
        for place in &places {
            assert_eq!(directory.inbound(place.spi), Some(*place));
            assert_eq!(directory.inbound(place.spi + 1), None);
        }
        assert_eq!(directory.inbound(0), None);
        assert_eq!([0, 1, 2].map(|i| directory.outbound(i)), [Some(1), None, None]);
        assert_eq!(SaDirectory::default().inbound(256), None);
    }

    #[test]
    fn an_spi_belongs_to_one_sa() {
        let place = InboundPlace { spi: 300, ..Default::default() };
        assert_eq!(SaDirectory::new(&[], &[place, place]).err(), Some(BadSpi(300)));
        assert_eq!(SaDirectory::new(&[], &[InboundPlace::default()]).err(), Some(BadSpi(0)));
    }
}
