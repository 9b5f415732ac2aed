//! Security associations of one graph, a worker's or a card's, in the stages that seal and
//! open.

use crate::message::{Asker, Change, EspIn, EspOut, Event, SaReport, Want};
use crate::sas::Sa;
use ferrule_crypto::{Engine, Jobs};
use ferrule_dataplane::Lease;
use ferrule_dataplane::graph::Ctx;
use ferrule_dataplane::ipsec::{AhIn, AhOut, SaProtocol, SaView};
use ferrule_dataplane::macsec::{RxChange, SecyIn, SecyOut};
use ferrule_pipeline::Packet;
use rtrb::Producer;
use std::fmt::Display;

/// SAs at which a walk is in one turn, so that packets do not wait for it.
const WALK: u32 = 64;

/// Place of a walk through all inbound SAs.
#[derive(Clone, Copy, Default)]
pub(crate) struct EdgeWalk {
    at: u32,
    is_ah: bool,
}

/// Reports of SAs, made a few at a time.
#[derive(Default)]
pub(crate) struct SaReports {
    pub outbound: Vec<SaReport>,
    pub inbound: Vec<SaReport>,
    /// ESP out, AH out, ESP in, AH in.
    stage: u8,
    at: u32,
}

/// The stages that have associations. A card has none of AH.
#[derive(Default)]
pub(crate) struct Associations {
    pub secy_in: SecyIn,
    pub secy_out: SecyOut,
    pub esp_in: ferrule_dataplane::ipsec::EspIn,
    pub esp_out: ferrule_dataplane::ipsec::EspOut,
    pub ah_in: AhIn,
    pub ah_out: AhOut,
}

impl Associations {
    /// Carries out a change. The error, in words, is one that the configuration did not
    /// show.
    pub fn change<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: Change,
    ) -> Result<(), String> {
        match change {
            Change::EspOut(change) => self.change_out(engine, change),
            Change::EspIn(change) => self.change_in(engine, change),
            Change::SecyOut(change) => told(self.secy_out.apply(engine, change)),
            Change::SecyIn(change) => told(self.secy_in.apply(engine, change)),
        }
    }

    fn change_out<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: EspOut,
    ) -> Result<(), String> {
        let (esp, ah) = (&mut self.esp_out, &mut self.ah_out);
        match change {
            EspOut::Install(index, config, sequence) => {
                return told(match config.protocol {
                    SaProtocol::Esp => esp.install_at(engine, index, &config, sequence),
                    SaProtocol::Ah => ah.install_at(engine, index, &config, sequence),
                });
            }
            EspOut::Extend(id, limit) => {
                esp.extend(id, limit);
                ah.extend(id, limit);
            }
            EspOut::Move(index, config) => {
                return told(match config.protocol {
                    SaProtocol::Esp => esp.move_at(index, &config),
                    SaProtocol::Ah => ah.move_at(index, &config),
                });
            }
            // An index is an SA's of either stage.
            EspOut::Live(index, by) => {
                esp.live(index, by.as_deref());
                ah.live(index, by.as_deref());
            }
            EspOut::Expire(index) => {
                esp.expire(index);
                ah.expire(index);
            }
            EspOut::Retire(index) => {
                let _ = esp.retire(engine, index) || ah.retire(engine, index);
            }
        }
        Ok(())
    }

    fn change_in<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: EspIn,
    ) -> Result<(), String> {
        let (esp, ah) = (&mut self.esp_in, &mut self.ah_in);
        match change {
            EspIn::Install(index, config, edge) => told(match config.protocol {
                SaProtocol::Esp => esp.install_at(engine, index, &config, edge),
                SaProtocol::Ah => ah.install_at(engine, index, &config, edge),
            }),
            EspIn::Change(index, config) => told(match config.protocol {
                SaProtocol::Esp => esp.change_at(engine, index, &config),
                SaProtocol::Ah => ah.change_at(engine, index, &config),
            }),
            EspIn::Move(index, ends) => {
                told(esp.move_at(index, &ends).or_else(|_| ah.move_at(index, &ends)))
            }
            EspIn::Live(index, by) => {
                esp.live(index, by.as_deref());
                ah.live(index, by.as_deref());
                Ok(())
            }
            EspIn::Expire(index) => {
                esp.expire(index);
                ah.expire(index);
                Ok(())
            }
            EspIn::Retire(index) => {
                let _ = esp.retire(engine, index) || ah.retire(engine, index);
                Ok(())
            }
        }
    }

    /// Removes every SA. Packets that the engine has are dropped when they come back.
    pub fn forget<E: Engine<Packet>>(&mut self, engine: &mut E) {
        let out: Vec<u32> = self.outbound().map(|sa| sa.index).collect();
        let inn: Vec<u32> = self.inbound().map(|sa| sa.index).collect();
        let out = out.into_iter().map(|index| Change::EspOut(EspOut::Retire(index)));
        let inn = inn.into_iter().map(|index| Change::EspIn(EspIn::Retire(index)));
        for change in out.chain(inn) {
            let _ = self.change(engine, change);
        }
        for (index, _) in self.secy_out.report() {
            let _ = self.secy_out.remove(engine, index);
        }
        for (index, _) in self.secy_in.report() {
            let _ = self.secy_in.remove(engine, index);
        }
    }

    /// Gives each job that an engine finished later to the stage that it is of.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, done: &mut Jobs<Packet>) {
        self.secy_in.finish(ctx, done);
        self.esp_in.finish(ctx, done);
        self.esp_out.finish(ctx, done);
        self.ah_in.finish(ctx, done);
        self.ah_out.finish(ctx, done);
        self.secy_out.finish(ctx, done);
    }

    /// Packets in an engine, or waiting for one that is.
    pub fn held(&self) -> usize {
        let esp = self.esp_in.held() + self.esp_out.held();
        let ah = self.ah_in.held() + self.ah_out.held();
        esp + ah + self.secy_in.held() + self.secy_out.held()
    }

    /// True if an engine holds packets of SAs that are being removed.
    pub fn is_lingering(&self) -> bool {
        let inn = self.esp_in.is_lingering() || self.ah_in.is_lingering();
        inn || self.esp_out.is_lingering() || self.ah_out.is_lingering()
    }

    /// Says what SAs want people to know, and asks for more numbers.
    pub fn report(&mut self, events: &mut Producer<Event>) {
        self.report_expired(events);
        self.report_heard(events);
        self.report_wants(events);
    }

    /// Says which bounds of lives were reached. What finds no room is said the next time.
    fn report_expired(&mut self, events: &mut Producer<Event>) {
        let Self { esp_in, esp_out, ah_in, ah_out, .. } = self;
        while !events.is_full()
            && let Some((sa, expired)) = {
                let out = esp_out.expired().chain(ah_out.expired());
                let inn = esp_in.expired().chain(ah_in.expired());
                let mut all = out.map(|e| (Sa::Outbound(e.id.index), e));
                all.next().or_else(|| inn.map(|e| (Sa::Inbound(e.id.index), e)).next())
            }
        {
            let _ = events.push(Event::Expired(sa, expired.expiry, expired.cause));
        }
    }

    /// Says which other ends were elsewhere. What finds no room is said the next time.
    fn report_heard(&mut self, events: &mut Producer<Event>) {
        while !events.is_full()
            && let Some(heard) = self.esp_in.heard().next()
        {
            let _ = events.push(Event::Heard(Sa::Inbound(heard.id.index), heard.from));
        }
    }

    /// Asks for more numbers where they run low. What finds no room is said the next time:
    /// an SA that is not heard stops.
    fn report_wants(&mut self, events: &mut Producer<Event>) {
        while !events.is_full()
            && let Some(want) = self.esp_out.wants().chain(self.ah_out.wants()).next()
        {
            let _ = events.push(want.into());
        }
        self.secy_out.wants(|secy, an, lease, limit| {
            let by = Asker::Macsec(secy, an);
            events.push(Event::Wants(Want { by, lease, limit })).is_ok()
        });
    }

    /// Says where windows stand that moved since this was last said, of some SAs behind those
    /// that a walk has been at; nothing: the walk is over.
    pub fn walk_edges(&mut self, walk: EdgeWalk, mut say: impl FnMut(Event)) -> Option<EdgeWalk> {
        let mut tell = |record, edge| say(Event::Edge { record, edge });
        let EdgeWalk { at, is_ah } = walk;
        let places = at..at.saturating_add(WALK);
        let more = match is_ah {
            false => self.esp_in.moved_edges(places, &mut tell),
            true => self.ah_in.moved_edges(places, &mut tell),
        };
        match (more, is_ah) {
            (true, _) => Some(EdgeWalk { at: at + WALK, is_ah }),
            (false, false) => Some(EdgeWalk { at: 0, is_ah: true }),
            (false, true) => {
                self.secy_edges().for_each(say);
                None
            }
        }
    }

    /// Lower edge of every replay window.
    pub fn edges(&self) -> impl Iterator<Item = Event> {
        self.esp_edges().chain(self.secy_edges())
    }

    /// Lower edges of the windows that a change ends: their keys may come back.
    pub fn ending(&self, change: &Change) -> Vec<Event> {
        match *change {
            Change::EspIn(EspIn::Retire(index)) => {
                let edge = self.esp_in.edge(index).or_else(|| self.ah_in.edge(index));
                let kept = edge.filter(|(record, _)| *record != [0; 16]);
                kept.map(|(record, edge)| Event::Edge { record, edge }).into_iter().collect()
            }
            Change::SecyIn(RxChange::Retire(..) | RxChange::Remove(_)) => {
                self.secy_edges().collect()
            }
            _ => Vec::new(),
        }
    }

    fn esp_edges(&self) -> impl Iterator<Item = Event> {
        let sas = self.esp_in.show().chain(self.ah_in.show());
        let sas = sas.filter(|sa| sa.lease != Lease::default());
        sas.map(|sa| Event::Edge { record: sa.lease.record, edge: sa.number })
    }

    /// Next packet numbers of the associations whose numbers are not recorded.
    pub fn next_pns(&self) -> impl Iterator<Item = Event> + use<> {
        self.secy_out.report().into_iter().flat_map(|(secy, report)| {
            let unkept = report.sas.into_iter().filter(|sa| sa.lease == Lease::default());
            unkept.map(move |sa| Event::NextPn { secy, an: sa.an, pn: sa.next_pn })
        })
    }

    fn secy_edges(&self) -> impl Iterator<Item = Event> + use<> {
        let sas = self.secy_in.report().into_iter().flat_map(|(_, report)| report.sas);
        let sas = sas.filter(|sa| sa.lease != Lease::default());
        sas.map(|sa| Event::Edge { record: sa.lease.record, edge: sa.edge })
    }

    /// Adds a few more reports; false once all are there.
    pub fn report_some(&self, all: &mut SaReports) -> bool {
        let places = all.at..all.at.saturating_add(WALK);
        let (esp, ah) = (SaProtocol::Esp, SaProtocol::Ah);
        let of = |protocol| move |view: SaView<'_>| SaReport::of(protocol, &view);
        let (out, inn) = (&mut all.outbound, &mut all.inbound);
        let more = match all.stage {
            0 => self.esp_out.show_some(places).map(|some| out.extend(some.map(of(esp)))),
            1 => self.ah_out.show_some(places).map(|some| out.extend(some.map(of(ah)))),
            2 => self.esp_in.show_some(places).map(|some| inn.extend(some.map(of(esp)))),
            3 => self.ah_in.show_some(places).map(|some| inn.extend(some.map(of(ah)))),
            _ => return false,
        };
        (all.stage, all.at) = match more {
            Some(()) => (all.stage, all.at + WALK),
            None => (all.stage + 1, 0),
        };
        true
    }

    /// Outbound SAs, of ESP and of AH.
    pub fn outbound(&self) -> impl Iterator<Item = SaReport> {
        let esp = self.esp_out.show().map(|v| SaReport::of(SaProtocol::Esp, &v));
        esp.chain(self.ah_out.show().map(|v| SaReport::of(SaProtocol::Ah, &v)))
    }

    /// Inbound SAs.
    pub fn inbound(&self) -> impl Iterator<Item = SaReport> {
        let esp = self.esp_in.show().map(|v| SaReport::of(SaProtocol::Esp, &v));
        esp.chain(self.ah_in.show().map(|v| SaReport::of(SaProtocol::Ah, &v)))
    }
}

fn told<T>(done: Result<T, impl Display>) -> Result<(), String> {
    done.map(drop).map_err(|e| e.to_string())
}
