//! Models of a receiver's replay check, as simple as they can be: a set of accepted numbers and a
//! rule. Written from RFC 4303 section 3.4.3 and 802.1AE-2018 clause 10.6, without a look at the
//! window of the data plane, which these models judge.
//!
//! ```text
//!   ESP:     accept n  if  n > highest - window   and  n was not accepted
//!   MACsec:  accept n  if  n >= lowest           (and  n was not accepted)
//!            next = max(next, n + 1), lowest = max(lowest, next - window)
//! ```
//!
//! A number is the whole one, all 64 bits, that the sender used. A receiver of
//! extended numbers that guesses the upper half wrongly finds a wrong ICV, and
//! drops a packet that the model accepts.
//!
//! A set keeps only numbers that its rule still asks for, so it is never larger
//! than the window.

use std::collections::BTreeSet;

/// Verdict on an authentic packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet passes.
    Accepted,
    /// A packet with this number has passed before.
    Duplicate,
    /// The number is left of the window.
    Late,
}

/// The receiver of an ESP SA.
#[derive(Clone, Debug)]
pub struct EspReceiver {
    window: u64,
    highest: u64,
    /// Numbers up to this count as accepted: they were before a restart.
    floor: u64,
    accepted: BTreeSet<u64>,
}

impl EspReceiver {
    /// A window of so many numbers (0: replay is not checked); all numbers up to
    /// `floor` were received before.
    pub const fn new(window: u64, floor: u64) -> Self {
        Self { window, highest: floor, floor, accepted: BTreeSet::new() }
    }

    /// An authentic packet arrives.
    pub fn receive(&mut self, number: u64) -> Fate {
        if self.window != 0 {
            if number.saturating_add(self.window) <= self.highest || number == 0 {
                return Fate::Late;
            }
            if number <= self.floor || self.accepted.contains(&number) {
                return Fate::Duplicate;
            }
        }
        self.accepted.insert(number);
        self.highest = self.highest.max(number);
        let left = (self.highest + 1).saturating_sub(self.window.max(1));
        self.accepted = self.accepted.split_off(&left);
        Fate::Accepted
    }
}

/// Replay protection of a SecY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecyRule {
    /// Nothing.
    Off,
    /// The standard's: late frames are dropped.
    Standard,
    /// Duplicates inside the window are dropped as well.
    Strict,
}

/// The receiver of a MACsec association.
#[derive(Clone, Debug)]
pub struct SecyReceiver {
    rule: SecyRule,
    window: u64,
    next: u64,
    lowest: u64,
    accepted: BTreeSet<u64>,
}

impl SecyReceiver {
    /// A receiver for which `lowest` is the lowest acceptable number.
    pub const fn new(rule: SecyRule, window: u64, lowest: u64) -> Self {
        Self { rule, window, next: lowest, lowest, accepted: BTreeSet::new() }
    }

    /// An authentic frame arrives.
    pub fn receive(&mut self, number: u64) -> Fate {
        if self.rule != SecyRule::Off && number < self.lowest {
            return Fate::Late;
        }
        if self.rule == SecyRule::Strict && !self.accepted.insert(number) {
            return Fate::Duplicate;
        }
        self.next = self.next.max(number + 1);
        self.lowest = self.lowest.max(self.next.saturating_sub(self.window));
        self.accepted = self.accepted.split_off(&self.lowest);
        Fate::Accepted
    }
}

#[cfg(test)]
#[path = "tests/window.rs"]
mod tests;
