//! Models of the study's devices: three profiles, which are files.
//!
//! ```text
//!   study-switch    a switch or router            table 1
//!   study-macsec    the same with MACsec          figure 2
//!   study-gateway   the IPsec gateway             table 2
//! ```
//!
//! The files are under `profiles/`, and `ferrule lab run` takes them by name. How
//! they were fitted is [`fit`](super::fit), and a test fits them again.

use super::fit::Fitted;
use super::network::System;
use ferrule_base::Duration;
use ferrule_formulas::polling::CLOCKS_APART;
use ferrule_lab::Profile;
use ferrule_lab::profile::{Fit, Price, Source};

/// The files, by name.
pub const NAMES: [&str; 3] = ["study-switch", "study-macsec", "study-gateway"];
/// Source of the profiles' numbers.
const ORIGIN: &str = "Ahn, Shin 2019, \"Performance Evaluation of MACSec for Host Mobility\"";

/// The study's three kinds of device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    /// A switch or router without encryption.
    pub switch: Profile,
    /// A switch that seals and opens MACsec at line rate.
    pub macsec: Profile,
    /// The IPsec gateway.
    pub gateway: Profile,
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

/// Frames that wait in a gateway at most: what exceeds it is lost.
const GATEWAY_QUEUE: usize = 256;

fn micros(us: f64) -> Duration {
    Duration::from_nanos((us.max(0.0) * 1000.0).round() as u64)
}

impl Profiles {
    /// Devices that take no time: the lines alone.
    pub fn lines() -> Self {
        let [switch, macsec, gateway] = std::array::from_fn(|_| Profile::ideal());
        Self { switch, macsec, gateway }
    }

    /// The profiles as the shipped files state them.
    pub fn read() -> Self {
        let [switch, macsec, gateway] = NAMES.map(|name| {
            Profile::named(name).unwrap_or_else(|| panic!("profiles/{name}.toml is shipped"))
        });
        Self { switch, macsec, gateway }
    }

    /// The profiles that follow from fitted parameters, rounded as in the files.
    pub fn of(fitted: &Fitted) -> Self {
        let pipeline = micros(fitted.switch_us);
        let each = Price { packet_ns: (fitted.macsec_us * 1000.0).round(), octet_ns: 0.0 };
        let [switch, macsec, gateway] = [0, 1, 2].map(|at| named(at, fitted.fits[at]));
        Self {
            switch: Profile { pipeline, ..switch },
            macsec: Profile { sealed: each, opened: each, pipeline, ..macsec },
            gateway: fitted.gateway.profile(gateway),
        }
    }

    /// Profile of the device at the customer's edge.
    pub fn edge(&self, system: System, side: usize) -> Profile {
        match system {
            System::Plain => self.switch.clone(),
            System::Macsec => self.macsec.clone(),
            // The two gateways differ in their clocks.
            System::Ipsec if side == 0 => self.gateway.clone(),
            System::Ipsec => {
                let poll = self.gateway.poll.as_secs_f64() * (1.0 + CLOCKS_APART);
                Profile { poll: micros(poll * 1e6), ..self.gateway.clone() }
            }
        }
    }

    /// One MACsec operation.
    pub fn macsec_us(&self) -> f64 {
        self.macsec.sealed.packet_ns / 1000.0
    }
}

/// One of the files without its numbers.
fn named(at: usize, fit: Fit) -> Profile {
    let (about, place, free): (_, _, &[&str]) = match at {
        0 => ("a switch or router at line rate", "table 1", &["pipeline.latency-ns"]),
        // One value for both: a switch seals as fast as it opens.
        1 => (
            "a switch with MACsec at line rate",
            "figure 2; table 3 is predicted; latency as study-switch",
            &["occupancy.sealed.packet-ns", "occupancy.opened.packet-ns"],
        ),
        _ => (
            "an IPsec gateway that looks at its ports at fixed times",
            "table 2 and section 3.4",
            &["occupancy.packet-ns", "batch.size", "batch.poll-ns"],
        ),
    };
    Profile {
        name: NAMES[at].into(),
        about: about.into(),
        source: Source::Fitted,
        origin: format!("{ORIGIN}: {place}"),
        free: free.iter().map(|&key| key.to_owned()).collect(),
        fit,
        ..Profile::ideal()
    }
}

impl Gateway {
    /// The parameters of a profile.
    pub fn of(profile: &Profile) -> Self {
        Self {
            poll_us: profile.poll.as_nanos() as f64 / 1000.0,
            budget: profile.batch,
            work_us: profile.plain.packet_ns / 1000.0,
        }
    }

    /// A profile with these parameters, and all else as in another.
    pub fn profile(&self, other: Profile) -> Profile {
        Profile {
            plain: Price { packet_ns: self.work_us * 1000.0, octet_ns: 0.0 },
            batch: self.budget,
            poll: micros(self.poll_us),
            queue: GATEWAY_QUEUE,
            ..other
        }
    }
}
