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

    fn outbound(&mut self, number: usize) -> Result<(), BuildError> {
        let tunnel = &self.config.tunnels[number];
        let (index, id) = (self.compiled.outbound[number], esp_out_id(tunnel));
        let name = self.compiled.outbound_marks[number];
        let seat = self.seat_of(tunnel, tunnel.outbound.worker);
        let then = tunnel.then.map(|around| self.compiled.outbound[around]);
        self.plan.send(&id)?;
        let old = self.old.esp_out.get(&index);
        if old.is_none_or(|p| p.name != name || p.seat != seat) {
            let max = if tunnel.esn { ESN_MAX } else { ESP_MAX };
            self.check_sender(tunnel, &id, max)?;
            let step = self.config.reserve;
            let numbers = self.leases.draw(&id, step, max, &mut self.plan.limits)?;
            self.plan.leases.push(numbers.lease());
            let sa = Box::new(outbound(tunnel, self.compiled.ways[number], then));
            self.plan.before.push((seat, Change::EspOut(EspOut::Install(index, sa, numbers))));
        }
        let (record, around) = (id.fingerprint, then.into_iter().collect());
        let place = Place { name, looks: Mark::default(), record, seat, around, wide: tunnel.esn };
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
        let place = Place { name, looks, record, seat, around, wide: tunnel.esn };
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

fn outbound(t: &TunnelConfig, adjacency: u32, then: Option<u32>) -> ipsec::OutboundConfig {
    let SaConfig { spi, keys, salt, .. } = t.outbound.clone();
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
