//! The plan for SecYs and their associations.

use super::{Installed, Place, Plan, macsec_id};
use crate::compile::{Compiled, default_sci, mark_of};
use crate::config::{Config, MacsecConfig, MacsecSaConfig};
use crate::control::BuildError;
use crate::leases::Leases;
use crate::message::{Change, Seat};
use ferrule_base::MacAddr;
use ferrule_dataplane::macsec::{self, RxChange, TxChange};

/// Plans one SecY.
pub(super) struct Planner<'a> {
    pub config: &'a Config,
    pub secy: &'a MacsecConfig,
    pub mac: MacAddr,
    pub old: &'a Installed,
    pub leases: &'a mut Leases,
    pub plan: &'a mut Plan,
}

impl Planner<'_> {
    pub fn secy(mut self, compiled: &Compiled) -> Result<(), BuildError> {
        let secy = self.secy;
        let port = compiled.ports[secy.port];
        let index = port.0;
        let seat = match secy.is_inline() {
            true => Seat::Card(port),
            false => Seat::Worker(self.config.ports[secy.port].worker),
        };
        let sci = secy.sci.unwrap_or(default_sci(self.mac));
        let entity = macsec::SecyConfig { sci, ..secy.entity.clone() };
        let before = self.old.secys.get(&index).filter(|(_, at)| *at == seat).map(|(e, _)| e);
        // Between static SAKs and MKA nothing stays.
        let keyed = |entity: &macsec::SecyConfig| entity.eapol.is_some();
        let other_keys = before.is_some_and(|before| keyed(before) != keyed(&entity));
        if other_keys {
            self.before(seat, Change::SecyOut(TxChange::Remove(index)));
            self.before(seat, Change::SecyIn(RxChange::Remove(index)));
            self.plan.emptied.insert(index);
        }
        let before = before.filter(|_| !other_keys);
        if before != Some(&entity) {
            let (tx, rx) = (entity.clone(), entity.clone());
            self.before(seat, Change::SecyOut(TxChange::Install(index, tx)));
            self.before(seat, Change::SecyIn(RxChange::Install(index, rx)));
        }
        // Associations that are not at home in what it is now went with that.
        let stays = before.is_some_and(|old| old.sends_like(&entity));
        for sa in &secy.transmit {
            self.transmit(index, seat, &entity, sa, stays)?;
        }
        let stays = before.is_some_and(|old| old.receives_like(&entity));
        for sa in &secy.receive {
            self.receive(index, seat, sa, stays)?;
        }
        // The first association listed is the one in use; the switch comes after
        // every receiver has its keys.
        if let Some(first) = secy.transmit.first() {
            self.before(seat, Change::SecyOut(TxChange::Encode(index, first.an)));
        }
        self.plan.installed.secys.insert(index, (entity, seat));
        Ok(())
    }

    fn before(&mut self, seat: Seat, change: Change) {
        self.plan.before.push((seat, change));
    }

    fn place(&self, record: [u8; 16], sa: &MacsecSaConfig, seat: Seat) -> Place {
        let looks = mark_of(format!("{} {:?}", self.secy.placement.name(), sa.label));
        Place { name: record, looks, record, seat }
    }

    fn transmit(
        &mut self,
        index: u16,
        seat: Seat,
        entity: &macsec::SecyConfig,
        sa: &MacsecSaConfig,
        stays: bool,
    ) -> Result<(), BuildError> {
        let (secy, an) = (self.secy, sa.an);
        let id = macsec_id(self.config, secy, "tx", entity.sci, sa);
        let new = self.place(id.fingerprint, sa, seat);
        self.plan.send(&id)?;
        let old = self.old.transmit.get(&(index, an)).filter(|p| stays || p.seat != seat);
        let same = |p: &Place| (&p.name, &p.looks, p.seat) == (&new.name, &new.looks, seat);
        if !old.is_some_and(same) {
            let (step, max) = (self.config.reserve, entity.pn_max());
            let numbers = self.leases.draw(&id, step, max, &mut self.plan.limits)?;
            self.plan.leases.push(numbers.lease());
            if let Some(place) = old {
                self.before(place.seat, Change::SecyOut(TxChange::Retire(index, an)));
            }
            let place = secy.placement.place(sa.label.as_deref());
            let config = macsec::TxSaConfig {
                an,
                key: sa.key.clone(),
                cipher: None,
                xpn: xpn(secy, sa),
                place,
            };
            self.before(seat, Change::SecyOut(TxChange::Sa(index, config, numbers)));
        }
        self.plan.installed.transmit.insert((index, an), new);
        Ok(())
    }

    fn receive(
        &mut self,
        index: u16,
        seat: Seat,
        sa: &MacsecSaConfig,
        stays: bool,
    ) -> Result<(), BuildError> {
        let (secy, an, sci) = (self.secy, sa.an, sa.sci.unwrap_or(0));
        let id = macsec_id(self.config, secy, "rx", sci, sa);
        let (record, key) = (id.fingerprint, sa.key.clone());
        let new = self.place(record, sa, seat);
        let place = secy.placement.place(sa.label.as_deref());
        let lowest_pn = self.leases.look(&id)?.edge.max(1);
        let config = macsec::RxSaConfig {
            sci,
            an,
            key,
            cipher: None,
            xpn: xpn(secy, sa),
            lowest_pn,
            record,
            place,
        };
        let old = self.old.receive.get(&(index, sci, an)).filter(|p| stays || p.seat != seat);
        match old {
            Some(old) if old.name == new.name && old.seat == seat => {
                if old.looks != new.looks {
                    self.before(seat, Change::SecyIn(RxChange::Move(index, config)));
                }
            }
            Some(old) if old.seat != seat => {
                let change = Change::SecyIn(RxChange::Retire(index, sci, an));
                self.plan.moved.push((old.seat, change));
                self.before(seat, Change::SecyIn(RxChange::Sa(index, config)));
            }
            Some(_) => {
                self.before(seat, Change::SecyIn(RxChange::Retire(index, sci, an)));
                self.before(seat, Change::SecyIn(RxChange::Sa(index, config)));
            }
            None => self.before(seat, Change::SecyIn(RxChange::Sa(index, config))),
        }
        self.plan.installed.receive.insert((index, sci, an), new);
        Ok(())
    }
}

fn xpn(secy: &MacsecConfig, sa: &MacsecSaConfig) -> Option<macsec::Xpn> {
    let salt = sa.salt.expose().try_into().ok()?;
    secy.entity.xpn.then_some(macsec::Xpn { salt, ssci: sa.ssci })
}
