//! Time that a frame takes in one of Ferrule's switches on the machine at hand, memory to memory:
//! prices for a chain of such switches.
//!
//! ```text
//!   frame ─▶ [ switch ]                                        look-up
//!   frame ─▶ [ first edge ▸ seal ]                             look-up, sealing
//!   frame ─▶ ( first edge, not timed ) ─▶ [ open ▸ S1 ▸ seal ] look-up, opening, sealing
//! ```

use super::bench::FRAME;
use super::network::{self, System};
use super::profiles::Profiles;
use ferrule_lab::Profile;
use ferrule_lab::memory::{FRAMES, Path};
use ferrule_lab::profile::Price;
use ferrule_report::Measure;

/// Rounds of which the median is taken, after one that does not count.
const ROUNDS: usize = 41;

/// Nanoseconds of a switch for a frame of the study: the median of rounds, and the middle
/// half of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A switch without MACsec.
    pub plain: Measure,
    /// An edge that seals.
    pub edge: Measure,
    /// A switch that opens and seals.
    pub switch: Measure,
}

impl Default for Prices {
    fn default() -> Self {
        let [plain, edge, switch] = [Measure::new(f64::NAN); 3];
        Self { plain, edge, switch }
    }
}

impl Prices {
    /// Sealing alone, in nanoseconds.
    pub fn sealing(&self) -> f64 {
        (self.edge.value - self.plain.value).max(0.0)
    }

    /// Opening alone, in nanoseconds.
    pub fn opening(&self) -> f64 {
        (self.switch.value - self.edge.value).max(0.0)
    }

    /// Switches that cost this.
    pub fn profiles(&self) -> Profiles {
        let each = |packet_ns| Price { packet_ns, octet_ns: 0.0 };
        let switch = Profile { plain: each(self.plain.value), ..Profile::ideal() };
        let (sealed, opened) = (each(self.sealing()), each(self.opening()));
        let macsec = Profile { sealed, opened, ..switch.clone() };
        Profiles { switch, macsec, gateway: Profile::ideal() }
    }
}

/// Measures, all three in turn. `clock` is in nanoseconds and never goes back.
///
/// # Errors
///
/// A switch loses frames.
pub fn measure(clock: &mut dyn FnMut() -> u64) -> Result<Prices, String> {
    let nodes = |system, count: usize| {
        let mut all = network::configurations(system, 1);
        all.truncate(count);
        Path::new(all, &[], vec![frame()])
    };
    let mut paths = [nodes(System::Plain, 1), nodes(System::Macsec, 1), nodes(System::Macsec, 2)];
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        for (path, times) in paths.iter_mut().zip(&mut times) {
            let ns = path.round(clock) as f64 / FRAMES as f64;
            if path.sent() != FRAMES {
                return Err(format!("not run: {} of {FRAMES} frames came out", path.sent()));
            }
            if round > 0 {
                times.push(ns);
            }
        }
    }
    let [plain, edge, switch] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[part * (times.len() - 1) / 4];
        Measure::within(at(2), at(1), at(3))
    });
    Ok(Prices { plain, edge, switch })
}

/// A frame of the study as a host sends it, its payload of no matter.
fn frame() -> Vec<u8> {
    let [from, to] = network::TESTER_MAC;
    let tag = [0x81, 0, 0, network::VLAN as u8, 0x08, 0];
    let mut frame = [&to.0[..], &from.0, &tag].concat();
    frame.resize(FRAME, 0);
    frame
}
