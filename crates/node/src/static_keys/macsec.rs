//! The plan for SecYs and their associations.

use super::{Changes, Plan, Version, macsec_id};
use crate::compile::default_sci;
use crate::config::{MacsecConfig, MacsecSaConfig};
use crate::control::BuildError;
use crate::leases::Leases;
use crate::message::{Change, Seat};
use crate::secys::SecyItem;
use ferrule_base::MacAddr;
use ferrule_crypto::Place;
use ferrule_dataplane::macsec::{self, RxChange, TxChange};
use std::collections::{HashMap, HashSet};

/// An association of a SecY: the record of its key, which is its identity, and its engine.
#[derive(Clone, PartialEq, Eq)]
struct Association {
    record: [u8; 16],
    seat: Seat,
    place: Place,
    /// Its worker did not take it: the next configuration orders it anew.
    refused: bool,
}

/// SecYs of the configuration, and their associations: by association number those that
/// transmit, by SCI and number those that receive.
#[derive(Clone, Default)]
pub(crate) struct StaticSecys {
    secys: HashMap<u16, (macsec::SecyConfig, Seat)>,
    transmit: HashMap<(u16, u8), Association>,
    receive: HashMap<(u16, u64, u8), Association>,
}

impl StaticSecys {
    /// The same without those of a seat that has forgotten everything.
    pub fn without(&self, seat: Seat) -> Self {
        let mut rest = self.clone();
        rest.transmit.retain(|_, sa| sa.seat != seat);
        rest.receive.retain(|_, sa| sa.seat != seat);
        rest.secys.retain(|_, (_, at)| *at != seat);
        rest
    }

    /// A worker did not carry out an order about this.
    pub fn refuse(&mut self, item: SecyItem) {
        let association = match item {
            SecyItem::Secy(_) => None,
            SecyItem::Transmit(secy, an) => self.transmit.get_mut(&(secy, an)),
            SecyItem::Receive(secy, sci, an) => self.receive.get_mut(&(secy, sci, an)),
        };
        if let Some(sa) = association {
            sa.refused = true;
        }
    }

    /// Records of all associations.
    pub fn records(&self) -> impl Iterator<Item = [u8; 16]> {
        self.transmit.values().chain(self.receive.values()).map(|sa| sa.record)
    }
}

/// Orders about SecYs and their associations.
#[derive(Default)]
pub(crate) struct MacsecPlan {
    /// Associations that end before anything else.
    pub ended: Changes,
    /// SecYs and associations that are new, and those that stay and are changed in place.
    pub wanted: Changes,
    /// SecYs and associations that are gone.
    pub gone: Changes,
    /// SecYs from then on.
    pub next: StaticSecys,
    /// SecYs that lose all their associations at once.
    emptied: HashSet<u16>,
}

impl MacsecPlan {
    fn want(&mut self, seat: Seat, change: Change) {
        self.wanted.push((seat, change));
    }

    /// Retires associations and SecYs that are no more. (A number that is in both has the same association, or
    /// was given up before.)
    fn retire(&mut self, old: &StaticSecys) {
        for (&(secy, an), sa) in &old.transmit {
            let emptied = self.emptied.contains(&secy);
            if !emptied && !self.next.transmit.contains_key(&(secy, an)) {
                self.gone.push((sa.seat, Change::SecyOut(TxChange::Retire(secy, an))));
            }
        }
        for (&(secy, sci, an), sa) in &old.receive {
            let emptied = self.emptied.contains(&secy);
            if !emptied && !self.next.receive.contains_key(&(secy, sci, an)) {
                self.gone.push((sa.seat, Change::SecyIn(RxChange::Retire(secy, sci, an))));
            }
        }
        for (&secy, &(_, seat)) in &old.secys {
            if self.next.secys.get(&secy).is_none_or(|new| new.1 != seat) {
                self.gone.push((seat, Change::SecyOut(TxChange::Remove(secy))));
                self.gone.push((seat, Change::SecyIn(RxChange::Remove(secy))));
            }
        }
    }
}

/// Plans the SecYs of a configuration; `old` are those that there are.
pub(super) fn plan(
    old: &StaticSecys,
    new: Version<'_>,
    macs: &[MacAddr],
    leases: &mut Leases,
    plan: &mut Plan,
) -> Result<(), BuildError> {
    for secy in &new.config.secys {
        let sci = secy.sci.unwrap_or(default_sci(macs[secy.port]));
        let entity = macsec::SecyConfig { sci, ..secy.entity.clone() };
        let port = new.compiled.ports[secy.port];
        let seat = match secy.is_inline() {
            true => Seat::Card(port),
            false => Seat::Worker(new.config.ports[secy.port].worker),
        };
        Planner { new, secy, entity, index: port.0, seat, old, leases, plan }.plan()?;
    }
    plan.macsec.retire(old);
    Ok(())
}

/// Plans one SecY.
struct Planner<'a> {
    new: Version<'a>,
    secy: &'a MacsecConfig,
    entity: macsec::SecyConfig,
    index: u16,
    seat: Seat,
    old: &'a StaticSecys,
    leases: &'a mut Leases,
    plan: &'a mut Plan,
}

impl Planner<'_> {
    fn plan(mut self) -> Result<(), BuildError> {
        let (secy, index, seat, entity) = (self.secy, self.index, self.seat, self.entity.clone());
        let changes = &mut self.plan.macsec;
        let before = self.old.secys.get(&index).filter(|(_, at)| *at == seat).map(|(e, _)| e);
        // Between static SAKs and MKA nothing stays.
        let keyed = |entity: &macsec::SecyConfig| entity.eapol.is_some();
        let other_keys = before.is_some_and(|before| keyed(before) != keyed(&entity));
        if other_keys {
            changes.want(seat, Change::SecyOut(TxChange::Remove(index)));
            changes.want(seat, Change::SecyIn(RxChange::Remove(index)));
            changes.emptied.insert(index);
        }
        let before = before.filter(|_| !other_keys);
        // One that MKA keys is changed in place by its entity: its SAs have ciphers of their own.
        let in_place = before.is_some_and(keyed);
        if before != Some(&entity) && !in_place {
            changes.want(seat, Change::SecyOut(TxChange::Install(index, entity.clone())));
            changes.want(seat, Change::SecyIn(RxChange::Install(index, entity.clone())));
        }
        // Associations that are not at home in what it is now went with that.
        let stays = before.is_some_and(|old| old.sends_like(&entity));
        for sa in &secy.transmit {
            self.transmit(sa, stays)?;
        }
        let stays = before.is_some_and(|old| old.receives_like(&entity));
        for sa in &secy.receive {
            self.receive(sa, stays)?;
        }
        let changes = &mut self.plan.macsec;
        // The first association listed is the one in use; the switch comes after
        // every receiver has its keys.
        if let Some(first) = secy.transmit.first() {
            changes.want(seat, Change::SecyOut(TxChange::Encode(index, first.an)));
        }
        changes.next.secys.insert(index, (entity, seat));
        Ok(())
    }

    fn association(&self, record: [u8; 16], sa: &MacsecSaConfig) -> Association {
        let place = self.secy.placement.place(sa.label.as_deref());
        Association { record, seat: self.seat, place, refused: false }
    }

    fn transmit(&mut self, sa: &MacsecSaConfig, stays: bool) -> Result<(), BuildError> {
        let (secy, index, seat, an) = (self.secy, self.index, self.seat, sa.an);
        let id = macsec_id(self.new.config, secy, "tx", self.entity.sci, sa);
        self.plan.send(&id)?;
        let new = self.association(id.fingerprint, sa);
        let old = self.old.transmit.get(&(index, an)).filter(|sa| stays || sa.seat != seat);
        if old != Some(&new) {
            let (step, max) = (self.new.config.reserve, self.entity.pn_max());
            let numbers = self.leases.draw(&id, step, max, &mut self.plan.limits)?;
            self.plan.leases.push(numbers.lease());
            let changes = &mut self.plan.macsec;
            if let Some(old) = old {
                changes.want(old.seat, Change::SecyOut(TxChange::Retire(index, an)));
            }
            let (key, place) = (sa.key.clone(), new.place.clone());
            let config = macsec::TxSaConfig { an, key, cipher: None, xpn: xpn(secy, sa), place };
            changes.want(seat, Change::SecyOut(TxChange::Sa(index, config, numbers)));
        }
        self.plan.macsec.next.transmit.insert((index, an), new);
        Ok(())
    }

    fn receive(&mut self, sa: &MacsecSaConfig, stays: bool) -> Result<(), BuildError> {
        let (secy, index, seat, an) = (self.secy, self.index, self.seat, sa.an);
        let sci = sa.sci.unwrap_or(0);
        let id = macsec_id(self.new.config, secy, "rx", sci, sa);
        let new = self.association(id.fingerprint, sa);
        let config = macsec::RxSaConfig {
            sci,
            an,
            key: sa.key.clone(),
            cipher: None,
            xpn: xpn(secy, sa),
            lowest_pn: self.leases.look(&id)?.edge.max(1),
            record: id.fingerprint,
            place: new.place.clone(),
        };
        let changes = &mut self.plan.macsec;
        let old = self.old.receive.get(&(index, sci, an)).filter(|sa| stays || sa.seat != seat);
        let install = |config| Change::SecyIn(RxChange::Sa(index, config));
        let retire = Change::SecyIn(RxChange::Retire(index, sci, an));
        match old {
            Some(old) if *old == new => {}
            // Its window stays.
            Some(old) if (old.record, old.seat, old.refused) == (new.record, seat, false) => {
                changes.want(seat, Change::SecyIn(RxChange::Move(index, config)));
            }
            // It says first where its window stands.
            Some(old) if old.seat != seat || old.record == new.record => {
                changes.ended.push((old.seat, retire));
                changes.want(seat, install(config));
            }
            Some(_) => {
                changes.want(seat, retire);
                changes.want(seat, install(config));
            }
            None => changes.want(seat, install(config)),
        }
        changes.next.receive.insert((index, sci, an), new);
        Ok(())
    }
}

fn xpn(secy: &MacsecConfig, sa: &MacsecSaConfig) -> Option<macsec::Xpn> {
    let salt = sa.salt.expose().try_into().ok()?;
    secy.entity.xpn.then_some(macsec::Xpn { salt, ssci: sa.ssci })
}
