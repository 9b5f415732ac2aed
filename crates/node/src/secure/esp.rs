//! The plan for the SAs of IPsec.

use super::{Installed, Place, Plan, esp_in_id, esp_out_id};
use crate::compile::{self, Compiled, Mark};
use crate::config::{Config, SaConfig, TunnelConfig};
use crate::control::BuildError;
use crate::leases::Leases;
use crate::message::{Change, EspIn, EspOut, Seat};
use ferrule_base::VrfId;
use ferrule_dataplane::ipsec;
use std::collections::HashMap;

/// Numbers of ESP without extended sequence numbers.
const ESP_MAX: u64 = u32::MAX as u64;
/// With them; the last number is left unused so that counting never wraps.
const ESN_MAX: u64 = u64::MAX - 1;
/// How far a window may have moved since somebody said where it stands.
const EDGE_MARGIN: u64 = 1 << 28;

/// Plans the pairs of SAs of a configuration.
pub(super) struct Planner<'a> {
    pub config: &'a Config,
    pub compiled: &'a Compiled,
    pub old: &'a Installed,
    /// The inbound SA of each record in `old`, and who has it.
    pub received: HashMap<[u8; 16], (u32, Seat)>,
    pub leases: &'a mut Leases,
    pub plan: &'a mut Plan,
}

impl Planner<'_> {
    /// Who has an SA of a tunnel: the card of its port, or this worker.
    fn seat_of(&self, tunnel: &TunnelConfig, worker: usize) -> Seat {
        match self.config.card_of(tunnel) {
            Some(port) => Seat::Card(self.compiled.ports[port]),
            None => Seat::Worker(worker),
        }
    }

    /// Who has an outbound SA: one of them, or every worker, its own first.
    fn seats_of(&self, tunnel: &TunnelConfig, sa: &SaConfig) -> Vec<Seat> {
        let mut seats = vec![self.seat_of(tunnel, sa.worker)];
        if tunnel.shared.is_some() {
            let others = (0..self.config.cores.len()).filter(|&worker| worker != sa.worker);
            seats.extend(others.map(Seat::Worker));
        }
        seats
    }

    pub fn tunnel(&mut self, number: usize) -> Result<(), BuildError> {
        self.outbound(number)?;
        let tunnel = &self.config.tunnels[number];
        let (indices, marks) =
            (&self.compiled.inbound[number], &self.compiled.inbound_marks[number]);
        for ((sa, &index), &mark) in tunnel.inbound().zip(indices).zip(marks) {
            self.inbound(number, sa, index, mark)?;
        }
        Ok(())
    }

    /// The outbound SAs of a tunnel: all at one index, each in another worker.
    fn outbound(&mut self, number: usize) -> Result<(), BuildError> {
        let tunnel = &self.config.tunnels[number];
        let (index, name) = (self.compiled.outbound[number], self.compiled.outbound_marks[number]);
        let then = tunnel.then.map(|around| self.compiled.outbound[around]);
        let first = self.seat_of(tunnel, tunnel.outbound.worker);
        let old = self.old.esp_out.get(&index);
        let stays = old.is_some_and(|p| p.name == name && p.seat == first);
        let mut records = Vec::new();
        for (at, sa) in tunnel.outbound().enumerate() {
            let (id, seats) = (esp_out_id(tunnel, sa), self.seats_of(tunnel, sa));
            self.plan.send(&id)?;
            records.extend(seats.iter().map(|&seat| (seat, id.fingerprint)));
            if stays {
                continue;
            }
            let max = if tunnel.esn { ESN_MAX } else { ESP_MAX };
            self.check_sender(tunnel, &id, max)?;
            let step = self.config.reserve;
            let numbers = self.leases.draw(&id, step, max, &mut self.plan.limits)?;
            self.plan.leases.push(numbers.lease());
            let numbers = match tunnel.shared {
                Some(window) => numbers.share(seats.len(), window),
                None => vec![numbers],
            };
            for (n, (seat, numbers)) in seats.into_iter().zip(numbers).enumerate() {
                let mut sa = outbound(tunnel, sa, self.compiled.ways[number], then);
                if at + n > 0 {
                    // What a tunnel sends by itself, one SA of it sends.
                    sa.dummies = 0;
                    sa.encap = sa.encap.map(|encap| ipsec::Encap { keepalive: None, ..encap });
                }
                let install = EspOut::Install(index, Box::new(sa), numbers);
                self.plan.before.push((seat, Change::EspOut(install)));
            }
        }
        let (seat, record) = records.remove(0);
        let (around, looks, wide) = (then.into_iter().collect(), Mark::default(), tunnel.esn);
        let place = Place { name, looks, record, seat, also: records, around, wide };
        self.plan.installed.esp_out.insert(index, place);
        Ok(())
    }

    /// What nobody may send with: a key whose numbers the other end used, and one
    /// whose numbers are beyond those that there are from now on.
    fn check_sender(
        &mut self,
        tunnel: &TunnelConfig,
        id: &super::CounterId,
        max: u64,
    ) -> Result<(), BuildError> {
        let kept = self.leases.look(id)?;
        let received = self.received.contains_key(&id.fingerprint);
        if tunnel.suite.is_counter_mode() && (received || kept.edge > 0) {
            let what = format!(
                "`{}` has a key that the other end sent with: its nonces would come twice",
                id.id
            );
            return Err(BuildError::Unfit(what, "make a new key: `ferrule init key`"));
        }
        if kept.used > max {
            return Err(beyond(&id.id, "was used"));
        }
        Ok(())
    }

    fn inbound(
        &mut self,
        number: usize,
        sa: &SaConfig,
        index: u32,
        name: Mark,
    ) -> Result<(), BuildError> {
        let tunnel = &self.config.tunnels[number];
        let (id, seat) = (esp_in_id(tunnel, sa), self.seat_of(tunnel, sa.worker));
        let selectors = &self.compiled.selectors[number];
        let looks = compile::inbound_looks(tunnel, selectors);
        let around = match tunnel.then {
            Some(around) => self.compiled.inbound[around].clone(),
            None => Vec::new(),
        };
        let record = id.fingerprint;
        let make = |inside: &[u32]| Box::new(inbound(tunnel, sa, selectors, inside, record));
        let before = |change| (seat, Change::EspIn(change));
        match self.old.esp_in.get(&index).filter(|p| p.name == name && p.seat == seat) {
            Some(old) if old.looks != looks || old.around != around => {
                let margin = if old.wide { EDGE_MARGIN } else { 0 };
                self.check_receiver(tunnel, &id, margin)?;
                // What came out of the SAs that were around it may still be on its way.
                let mut both = around.clone();
                both.extend(old.around.iter().filter(|i| !around.contains(i)));
                self.plan.before.push(before(EspIn::Change(index, make(&both))));
                if both.len() > around.len() {
                    let change = Change::EspIn(EspIn::Change(index, make(&around)));
                    self.plan.last.push((seat, change));
                }
            }
            Some(_) => {}
            None => {
                self.check_receiver(tunnel, &id, 0)?;
                if let Some(&(old, seat)) = self.received.get(&record) {
                    let change = Change::EspIn(EspIn::Retire(old));
                    self.plan.moved.push((seat, change));
                }
                let edge = self.leases.look(&id)?.edge;
                self.plan.before.push(before(EspIn::Install(index, make(&around), edge)));
            }
        }
        let (also, wide) = (Vec::new(), tunnel.esn);
        let place = Place { name, looks, record, seat, also, around, wide };
        self.plan.installed.esp_in.insert(index, place);
        Ok(())
    }

    /// What was received must fit the numbers that there are from now on.
    fn check_receiver(
        &mut self,
        tunnel: &TunnelConfig,
        id: &super::CounterId,
        margin: u64,
    ) -> Result<(), BuildError> {
        let edge = self.leases.look(id)?.edge;
        if !tunnel.esn && edge > ESP_MAX - margin {
            return Err(beyond(&id.id, "is"));
        }
        Ok(())
    }
}

fn beyond(id: &str, did: &str) -> BuildError {
    let what = format!("`{id}` {did} beyond 2^32: it needs extended sequence numbers");
    BuildError::Unfit(what, "leave `esn = true`, or make new keys: `ferrule init key`")
}

fn outbound(
    t: &TunnelConfig,
    sa: &SaConfig,
    adjacency: u32,
    then: Option<u32>,
) -> ipsec::OutboundConfig {
    let SaConfig { spi, keys, salt, .. } = sa.clone();
    ipsec::OutboundConfig {
        name: t.name.as_str().into(),
        esn: t.esn,
        adjacency,
        mtu: t.mtu as u16,
        protocol: t.protocol,
        mode: t.mode,
        outside: t.outside,
        encap: t.encap,
        tfc: t.tfc,
        dummies: t.dummies,
        learns: t.learns,
        fragment: t.fragment,
        clamp: t.clamp_mss,
        then,
        ah_align: t.ah_align,
        ..ipsec::OutboundConfig::tunnel(spi, (t.local, t.remote), keys, salt)
    }
}

fn inbound(
    t: &TunnelConfig,
    sa: &SaConfig,
    selectors: &[ipsec::Selector],
    inside: &[u32],
    record: [u8; 16],
) -> ipsec::InboundConfig {
    let SaConfig { spi, keys, salt, .. } = sa.clone();
    ipsec::InboundConfig {
        name: t.name.as_str().into(),
        protocol: t.protocol,
        mode: t.mode,
        encap: t.encap,
        clamp: t.clamp_mss.then_some(t.mtu as u16),
        inside: inside.into(),
        record,
        esn: t.esn,
        window: t.window,
        selectors: selectors.to_vec(),
        vrf: VrfId(t.vrf as u16),
        ..ipsec::InboundConfig::tunnel(spi, (t.remote, t.local), keys, salt)
    }
}
