//! The checkers that look on: one observer for a whole network.
//!
//! ```text
//!   sent on a link ────▶ clear text, where the link is untrusted
//!                    └─▶ oracle: what the owner of an SA sealed
//!   arrived at a device ─▶ oracle: what its receiver sees
//! ```

use super::clear::ClearText;
use super::finding::{Findings, Invariant, lock};
use super::oracle::Oracle;
use crate::link::Direction;
use crate::network::DeviceId;
use crate::observe::{Loss, Observer, Place, Sighting};
use ferrule_base::Instant;
use std::any::Any;
use std::sync::{Arc, Mutex};

/// A link, as the checkers know it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name in findings.
    pub name: String,
    /// No payload of a host may show here.
    pub outside: bool,
    /// The devices at its ends, each with the place of the port: who sends
    /// forward, who sends back. Nothing: a station.
    pub senders: [Option<(DeviceId, usize)>; 2],
}

/// The oracle of a run. Clones share it.
#[derive(Clone)]
pub struct SharedOracle(Arc<Mutex<Oracle>>);

impl SharedOracle {
    /// Shares an oracle.
    pub fn new(oracle: Oracle) -> Self {
        Self(Arc::new(Mutex::new(oracle)))
    }

    /// Lets it do something.
    pub fn with<T>(&self, f: impl FnOnce(&mut Oracle) -> T) -> T {
        f(&mut lock(&self.0))
    }
}

/// The observer.
pub struct Watch {
    lines: Vec<Line>,
    clear: ClearText,
    oracle: SharedOracle,
    findings: Findings,
}

impl Watch {
    /// Watches links, by their number, for a mark and for sealed packets.
    pub fn new(lines: Vec<Line>, mark: &[u8], oracle: &SharedOracle, findings: &Findings) -> Self {
        let (oracle, findings) = (oracle.clone(), findings.clone());
        Self { lines, clear: ClearText::new(mark), oracle, findings }
    }
}

impl Observer for Watch {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        let Some(line) = self.lines.get(seen.link.0) else { return };
        if line.outside
            && let Some(at) = self.clear.find(frame)
        {
            let what = format!("a host's payload in clear, at octet {at} of {}", frame.len());
            self.findings.add(Invariant::NoClearText, seen.now, &line.name, what);
        }
        let [forward, back] = line.senders;
        let sender = if seen.direction == Direction::Forward { forward } else { back };
        if let Some((device, port)) = sender {
            self.oracle.with(|oracle| oracle.sent(seen.now, device.0, port, frame));
        }
    }

    fn arrived(&mut self, _seen: &Sighting, at: Place, frame: &[u8]) {
        if let Place::Device(device, port) = at {
            self.oracle.with(|oracle| oracle.arrived(device.0, port, frame));
        }
    }

    fn lost(&mut self, _seen: &Sighting, why: Loss, _frame: &[u8]) {
        // These follow the arrival: the frame was at the door and not let in.
        if matches!(why, Loss::InputFull | Loss::Capped | Loss::Crashed) {
            self.oracle.with(Oracle::turned_away);
        }
    }

    fn changed(&mut self, _now: Instant, _what: &str) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
