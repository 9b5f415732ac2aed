//! The replay oracle: it sees what sealing devices send and what arrives at
//! opening ones, asks the model of a receiver ([`super::window`]) about each
//! packet, and compares its counts with the node's.
//!
//! ```text
//!   sent by the owner of the SA ─▶ hash of the protected octets ─▶ whole number
//!                                                │
//!   arrived at the receiver ─▶ hash known? ──────┴─▶ model ─▶ accepted, rejected
//!                                  └─ no: altered on the way, not to be accepted
//! ```
//!
//! A packet is authentic exactly if its sender sent these octets; so what a link
//! altered, or any link before it, needs no mark, and the oracle no keys. An SA
//! whose packets are hidden under another (ESP inside MACsec) is left out.
//!
//! Where a node loses packets before their number is looked at (no buffer, an
//! engine's queue full), and where an altered header may or may not have led a
//! good packet to its SA, the oracle says that it does not know ([`Tally`]).

mod compare;
mod sa;

use super::finding::{Findings, Invariant};
use super::frames;
use compare::Counted;
use ferrule_base::{Instant, MacAddr};
use ferrule_node::message::WorkerReport;
use ferrule_node::{Config, CounterStore};
use sa::{Inbound, Known, SaKey};
use std::collections::HashMap;

/// Sealed packets of one run that are remembered: 16 octets each.
pub const SEALED_MAX: usize = 1 << 22;

/// Numbers of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// SAs whose counts were compared.
    pub compared: u64,
    /// SAs about which the oracle did not know enough.
    pub left_out: u64,
    /// Packets that the models accepted.
    pub accepted: u64,
    /// Packets that the models rejected.
    pub rejected: u64,
}

impl Tally {
    /// Adds another run's.
    pub const fn merge(&mut self, o: &Self) {
        self.compared += o.compared;
        self.left_out += o.left_out;
        self.accepted += o.accepted;
        self.rejected += o.rejected;
    }
}

/// Packets sent by the owner of an outbound SA.
#[derive(Default)]
struct Sent {
    last: u64,
    numbers: HashMap<u64, u64>,
}

/// Packets sent under all outbound SAs.
#[derive(Default)]
struct Sealed {
    sas: HashMap<SaKey, Sent>,
    remembered: usize,
}

impl Sealed {
    fn entry(&mut self, key: SaKey) {
        self.sas.entry(key).or_default();
    }

    /// Remembers a packet; false once there is no room. Numbers go up, so the
    /// whole one is near the last.
    fn note(&mut self, key: SaKey, hash: u64, low: u32) -> bool {
        let Some(sent) = self.sas.get_mut(&key) else { return true };
        if self.remembered >= SEALED_MAX {
            return false;
        }
        let distance = low.wrapping_sub(sent.last as u32) as i32;
        let number = sent.last.checked_add_signed(distance.into()).unwrap_or(low.into());
        sent.last = sent.last.max(number);
        sent.numbers.insert(hash, number);
        self.remembered += 1;
        true
    }
}

/// The oracle of one run.
pub struct Oracle {
    devices: HashMap<usize, Known>,
    sealed: Sealed,
    findings: Findings,
    /// Last frame that arrived. It counts once the node is known to have let it in.
    arrival: Option<Arrival>,
    full: bool,
    tally: Tally,
}

/// A protected packet at a device.
struct Arrival {
    device: usize,
    place: usize,
    hash: u64,
    certain: bool,
}

impl Oracle {
    /// An oracle that puts what it finds there.
    pub fn new(findings: &Findings) -> Self {
        Self {
            devices: HashMap::new(),
            sealed: Sealed::default(),
            findings: findings.clone(),
            arrival: None,
            full: false,
            tally: Tally::default(),
        }
    }

    /// Adds a device with the stated configuration, which may differ from the one that the node was
    /// given.
    pub fn device(&mut self, device: usize, config: &Config, macs: &[MacAddr]) {
        let known = Known::new(config, macs, &mut self.sealed);
        self.devices.insert(device, known);
    }

    /// A device is about to have another configuration: a frame that waits in it may
    /// leave under a new key at the very moment.
    pub fn announced(&mut self, config: &Config, macs: &[MacAddr]) {
        Known::new(config, macs, &mut self.sealed);
    }

    /// A device has another configuration from now on, as it is stated. Associations
    /// that it did not have begin where its store says; about those that it no
    /// longer has nothing is known any more.
    pub fn applied(
        &mut self,
        device: usize,
        config: &Config,
        macs: &[MacAddr],
        store: &mut dyn CounterStore,
    ) {
        self.settle();
        let Some(known) = self.devices.get_mut(&device) else { return };
        let new = Known::new(config, macs, &mut self.sealed);
        for sa in &mut known.inbound {
            sa.is_gone = !new.inbound.iter().any(|other| other.is_same(sa));
        }
        for mut sa in new.inbound {
            if !known.inbound.iter().any(|other| other.is_same(&sa)) {
                sa.restart(store);
                known.inbound.push(sa);
            }
        }
        for (key, counter) in new.outbound {
            if known.outbound.iter().all(|(other, _)| *other != key) {
                known.outbound.push((key, counter));
            }
        }
    }

    /// Comparisons so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// A device puts a frame on a link.
    pub fn sent(&mut self, now: Instant, device: usize, port: usize, frame: &[u8]) {
        let Some(known) = self.devices.get(&device) else { return };
        let (key, hash, low) = match known.secys.get(port).copied().flatten() {
            Some((own, clear_tags)) => {
                let Some(seen) = frames::secy(frame, clear_tags) else { return };
                (SaKey::Secy(own, seen.an), seen.hash(), seen.number)
            }
            None => {
                let Some(seen) = frames::esp(frame) else { return };
                // Others only pass it on.
                let is_end =
                    |sa: &Inbound| matches!(sa.key, SaKey::Esp(ip, _) if ip == seen.source);
                if !known.inbound.iter().any(is_end) {
                    return;
                }
                (SaKey::Esp(seen.destination, seen.spi), seen.hash(), seen.number)
            }
        };
        if !self.sealed.note(key, hash, low) && !std::mem::replace(&mut self.full, true) {
            let what = format!("more than {SEALED_MAX} sealed packets: make the run shorter");
            self.findings.add(Invariant::WithinBounds, now, "replay oracle", what);
        }
    }

    /// A frame arrives at a device. Unless [`turned_away`](Self::turned_away)
    /// comes next, it goes in.
    pub fn arrived(&mut self, device: usize, port: usize, frame: &[u8]) {
        self.settle();
        let Some(known) = self.devices.get(&device) else { return };
        let found = match known.secys.get(port).copied().flatten() {
            Some((_, clear_tags)) => to_secy(known, port, frame, clear_tags),
            None => to_tunnel(known, port, frame),
        };
        let arrival = |(place, hash, certain)| Arrival { device, place, hash, certain };
        self.arrival = found.map(arrival);
    }

    /// The frame that just arrived was not let in: the device is down, or has
    /// no room.
    pub fn turned_away(&mut self) {
        self.arrival = None;
    }

    /// Takes the last arrival into account.
    fn settle(&mut self) {
        let Some(Arrival { device, place, hash, certain }) = self.arrival.take() else { return };
        let Some(known) = self.devices.get_mut(&device) else { return };
        let Some(inbound) = known.inbound.get_mut(place) else { return };
        let Some(sent) = self.sealed.sas.get(&inbound.key) else {
            // Sealed where the oracle cannot see it.
            inbound.expect.uncertain = true;
            return;
        };
        match sent.numbers.get(&hash) {
            Some(&number) => {
                inbound.expect.uncertain |= !certain;
                inbound.receive(number);
            }
            None => inbound.expect.altered += 1,
        }
    }

    /// A device starts anew; `store` is what survived. What it counted before is
    /// gone, and so is what was expected of it.
    pub fn restarted(&mut self, device: usize, store: &mut dyn CounterStore) {
        self.settle();
        let Some(known) = self.devices.get_mut(&device) else { return };
        known.inbound.iter_mut().for_each(|sa| sa.restart(store));
        for (key, counter) in &known.outbound {
            if let Some(sent) = self.sealed.sas.get_mut(key)
                && let Ok(kept) = store.open(&counter.id, counter.fingerprint)
            {
                sent.last = kept.used;
            }
        }
    }

    /// Notes that a card of the device lost some of its counts: they are no longer compared
    /// exactly.
    pub fn forgot(&mut self, device: usize) {
        if let Some(known) = self.devices.get_mut(&device) {
            known.inbound.iter_mut().for_each(|sa| sa.expect.uncertain = true);
        }
    }

    /// Compares with what the workers of a device counted. Nothing may be under
    /// way inside it.
    pub fn compare(&mut self, now: Instant, device: usize, reports: &[WorkerReport]) {
        self.settle();
        let Some(known) = self.devices.get(&device) else { return };
        let lossy = compare::is_lossy(reports) || self.full;
        for sa in known.inbound.iter().filter(|sa| !sa.is_gone) {
            if lossy || sa.expect.uncertain {
                self.tally.left_out += 1;
                continue;
            }
            self.tally.compared += 1;
            self.tally.accepted += sa.expect.accepted;
            self.tally.rejected += sa.expect.duplicate + sa.expect.late;
            if let Some(what) = Counted::of(sa, reports).differs(&sa.expect, sa.guesses) {
                let place = format!("{}, {}", known.name, sa.name);
                self.findings.add(Invariant::Replay, now, &place, what);
            }
        }
    }
}

/// The receive association of a frame: its place, the hash of its octets, and
/// that it is certain to get there.
fn to_secy(known: &Known, port: usize, frame: &[u8], clear_tags: u8) -> Option<(usize, u64, bool)> {
    let seen = frames::secy(frame, clear_tags)?;
    let mine = |sa: &Inbound| match sa.key {
        SaKey::Secy(sci, an) => {
            sa.port == port && an == seen.an && seen.sci.is_none_or(|s| s == sci)
        }
        SaKey::Esp(..) => false,
    };
    Some((known.inbound.iter().position(mine)?, seen.hash(), true))
}

/// The tunnel of a frame. A group address or another VLAN may or may not lead
/// it there.
fn to_tunnel(known: &Known, port: usize, frame: &[u8]) -> Option<(usize, u64, bool)> {
    let seen = frames::esp(frame)?;
    let ours = known.macs.get(port) == Some(&seen.to);
    if !ours && !seen.to.is_group() {
        return None;
    }
    let key = SaKey::Esp(seen.destination, seen.spi);
    let mine = |sa: &Inbound| sa.key == key && sa.source == Some(seen.source);
    let place = known.inbound.iter().position(mine)?;
    let attached = known.tags.get(port).is_some_and(|tags| tags.contains(&seen.tag));
    Some((place, seen.hash(), ours && attached))
}

#[cfg(test)]
#[path = "../tests/oracle.rs"]
mod tests;
