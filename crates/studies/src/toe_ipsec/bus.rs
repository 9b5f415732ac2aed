//! The study's bus in closed form, as printed and as corrected.
//!
//! ```text
//!   one after the other   │ in │ to chip │ back │ out │ line        │  next packet
//!   pipelined             │ in │ to chip │ back │ out │ line        │
//!                                              │ in │ to chip │ back │ out │ line │
//! ```
//!
//! A packet crosses one shared bus four times. If packets wait for each other, bus and
//! line times add; if the stages work at the same time the slower of the two decides,
//! and the bus costs latency alone.

use super::published::BusModel;

/// Bits of a second on the line.
const LINE: f64 = 1e9;

/// A shared bus.
#[derive(Clone, Copy, Debug)]
pub struct Bus {
    /// Bits that it moves in a clock.
    pub bits: f64,
    /// Its clock.
    pub mhz: f64,
    /// Number of times that a packet crosses the bus.
    pub crossings: f64,
}

impl Bus {
    /// The printed one.
    pub fn of(model: &BusModel) -> Self {
        Self { bits: model.bus_bits, mhz: model.bus_mhz, crossings: model.crossings }
    }

    /// Bits a second, of one crossing.
    pub fn rate(&self) -> f64 {
        self.bits * self.mhz * 1e6
    }

    /// Clocks of all crossings of a packet.
    pub fn clocks(&self, octets: f64) -> f64 {
        octets * 8.0 * self.crossings / self.bits
    }

    /// Time of all crossings of a packet.
    pub fn time_us(&self, octets: f64) -> f64 {
        self.clocks(octets) / self.mhz
    }

    /// Time of a packet on the line, as the study counts: without preamble and gap.
    pub fn line_us(octets: f64) -> f64 {
        octets * 8.0 / LINE * 1e6
    }
}
