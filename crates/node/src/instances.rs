//! Instances of SAs whose keys a keying program gives: numbers that make their nonces different
//! from those of every other such SA of this node, whatever key it has, also after `kill -9`.
//!
//! ```text
//!   IV of a packet │ instance │ sequence number │     64 bits
//! ```
//!
//! A program may give a key a second time, by mistake or because it was started again; sequence
//! numbers then begin at 1 again. So instances are taken out of a record of the node itself, and
//! reserved as the numbers of static keys are.

use crate::control::BuildError;
use crate::counter::Reserved;
use crate::leases::Leases;
use crate::static_keys::CounterId;
use ferrule_dataplane::Sequence;
use ferrule_dataplane::ipsec::INSTANCE_MAX;

/// Instances reserved at a time: as many are skipped by a restart at most.
const STEP: u64 = 4096;

/// Source of instances.
pub(crate) struct Instances(Sequence);

impl Instances {
    /// Opens the node's record, and draws a first range, which is to be reserved.
    pub fn draw(
        leases: &mut Leases,
        limits: &mut Vec<([u8; 16], u64)>,
    ) -> Result<Self, BuildError> {
        let id = CounterId { id: "agreed-sas".into(), fingerprint: leases.own(), sends: true };
        leases.draw(&id, STEP, INSTANCE_MAX, limits).map(Self)
    }

    /// The next instance, if one is reserved. More are asked for in time.
    pub fn next(&mut self, leases: &mut Leases) -> Option<u64> {
        let instance = self.0.take();
        if let Some(limit) = self.0.wants() {
            match leases.extend(self.0.lease(), limit) {
                Some(Ok(())) => self.0.extend(limit),
                Some(Err(_)) => self.0.ask_again(),
                None => {}
            }
        }
        instance
    }

    /// True for a reservation of this record, which is in force then, or asked for again.
    pub fn heard(&mut self, reserved: &Reserved) -> bool {
        if reserved.record != self.0.lease().record {
            return false;
        }
        match reserved.done {
            Ok(()) => self.0.extend(reserved.limit),
            Err(_) => self.0.ask_again(),
        }
        true
    }
}
