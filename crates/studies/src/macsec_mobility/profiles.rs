//! What stands for the study's devices.

use super::network::System;
use ferrule_base::Duration;
use ferrule_lab::Profile;
use ferrule_lab::profile::{Price, Source};

/// What of a MACsec switch is fitted: sealing and opening cost the same.
const FREE_MACSEC: [&str; 3] =
    ["pipeline.latency-ns", "occupancy.sealed.packet-ns", "occupancy.opened.packet-ns"];
/// Where the numbers come from.
const ORIGIN: &str = "Ahn, Shin 2019, tables 1 to 3 and figure 2";

/// The study's three kinds of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profiles {
    /// Delay of a switch or router that occupies nothing, fitted to table 1.
    pub switch_us: f64,
    /// One MACsec operation, fitted to figure 2.
    pub macsec_us: f64,
    /// The IPsec gateway, fitted to table 2; nothing: one that takes no time.
    pub gateway: Option<Gateway>,
}

/// The study's IPsec gateway: it looks at its ports at fixed times, takes a few
/// frames and works on them one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gateway {
    /// From one look to the next.
    pub poll_us: f64,
    /// Frames that it takes at a look at most.
    pub budget: usize,
    /// Work on one frame.
    pub work_us: f64,
}

/// The clocks of two gateways never agree: the second one's runs slower by this
/// share, so that in a long run every phase between the two occurs.
pub const CLOCKS_APART: f64 = 1.0 / 64.0;

/// Frames that wait in a gateway at most: what exceeds it is lost.
pub const GATEWAY_QUEUE: usize = 256;

fn micros(us: f64) -> Duration {
    Duration::from_nanos((us.max(0.0) * 1000.0).round() as u64)
}

impl Profiles {
    /// Devices that take no time: the lines alone.
    pub const LINES: Self = Self { switch_us: 0.0, macsec_us: 0.0, gateway: None };

    fn fitted(name: &str, about: &str, free: &[&str]) -> Profile {
        Profile {
            name: name.into(),
            about: about.into(),
            source: Source::Fitted,
            origin: ORIGIN.into(),
            free: free.iter().map(|&key| key.to_owned()).collect(),
            ..Profile::ideal()
        }
    }

    /// A switch or router without encryption.
    pub fn switch(&self) -> Profile {
        let about = "a switch or router at line rate";
        let pipeline = micros(self.switch_us);
        Profile { pipeline, ..Self::fitted("study-switch", about, &["pipeline.latency-ns"]) }
    }

    /// A switch that seals and opens MACsec at line rate.
    pub fn macsec(&self) -> Profile {
        let each = Price { packet_ns: self.macsec_us * 1000.0, octet_ns: 0.0 };
        let about = "a switch with MACsec at line rate";
        let named = Self::fitted("study-macsec", about, &FREE_MACSEC);
        Profile { sealed: each, opened: each, pipeline: micros(self.switch_us), ..named }
    }

    /// An IPsec gateway; the two differ in their clocks.
    pub fn gateway(&self, side: usize) -> Profile {
        let Some(gateway) = self.gateway else { return Profile::ideal() };
        let poll = gateway.poll_us * if side == 0 { 1.0 } else { 1.0 + CLOCKS_APART };
        let about = "a gateway that looks at its ports at fixed times";
        let free = ["batch.poll-ns", "batch.size", "occupancy.packet-ns"];
        Profile {
            plain: Price { packet_ns: gateway.work_us * 1000.0, octet_ns: 0.0 },
            batch: gateway.budget,
            poll: micros(poll),
            queue: GATEWAY_QUEUE,
            ..Self::fitted("study-gateway", about, &free)
        }
    }

    /// What stands at the customer's edge.
    pub fn edge(&self, system: System, side: usize) -> Profile {
        match system {
            System::Plain => self.switch(),
            System::Macsec => self.macsec(),
            System::Ipsec => self.gateway(side),
        }
    }
}
