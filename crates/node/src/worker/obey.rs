//! What a worker is told, and what it says.

use super::Worker;
use crate::incident::Standing;
use crate::message::{Asker, CHANGES_MAX, Change, Command, EspIn, EspOut, Event, Refusals, Want};
use ferrule_base::Instant;
use ferrule_crypto::Engine;
use ferrule_dataplane::ipsec::{SaId, SaProtocol};
use ferrule_dataplane::macsec::RxChange;
use ferrule_pipeline::{Packet, Port};

impl<E: Engine<Packet>> Worker<E> {
    /// Asks the control part to reserve more numbers where they run low.
    pub(super) fn report_wants(&mut self) {
        let (events, stages) = (&mut self.events, &mut self.stages);
        // What finds no room is said the next time: an SA that is not heard stops.
        while !events.is_full()
            && let Some(want) = stages.esp_out.wants().chain(stages.ah_out.wants()).next()
        {
            let _ = events.push(want.into());
        }
        stages.secy_out.wants(|secy, an, lease, limit| {
            let by = Asker::Macsec(secy, an);
            events.push(Event::Wants(Want { by, lease, limit })).is_ok()
        });
    }

    /// Tells the control part where the replay windows stand.
    fn report_edges(&mut self) {
        // What was not said the last time is said first.
        if !self.unsaid.is_empty() {
            return;
        }
        let esp = self.stages.esp_in.show().chain(self.stages.ah_in.show());
        let esp = esp.map(|sa| (sa.lease.record, sa.number));
        let secys = self.stages.secy_in.report().into_iter().flat_map(|(_, r)| r.sas);
        let secys = secys.map(|sa| (sa.lease.record, sa.edge));
        self.unsaid.extend(esp.chain(secys).map(|(record, edge)| Event::Edge { record, edge }));
        self.say_on();
    }

    /// Says something that must be heard.
    pub(super) fn say(&mut self, event: Event) {
        self.unsaid.push_back(event);
        self.say_on();
    }

    fn say_on(&mut self) {
        while !self.events.is_full()
            && let Some(event) = self.unsaid.pop_front()
        {
            let _ = self.events.push(event);
        }
    }

    /// Carries out what the control part asked for, between two batches.
    /// Of many changes of associations only some, unless no frame has come yet; true
    /// if there are more.
    pub(super) fn obey(&mut self, now: Instant) -> bool {
        self.say_on();
        let mut most = if self.ledger.received == 0 { usize::MAX } else { CHANGES_MAX };
        loop {
            while let Some(change) = self.changes.pop_front() {
                self.change(change);
                most -= 1;
                if most == 0 {
                    return true;
                }
            }
            let Ok(command) = self.commands.pop() else { break };
            match command {
                Command::Changes(changes) => self.changes = changes,
                Command::Ready(tables) => self.handover.ready = Some(tables),
                Command::Switch => self.switch(),
                Command::Leave(changes) => self.handover.leaving.extend(changes),
                Command::Say(step) => self.handover.saying = Some(step),
                Command::Inject(next, packet) => {
                    self.handed_in += 1;
                    self.out.send(next, packet);
                }
                Command::AttachPort(id, port) => self.attach_port(id, port),
                Command::DetachPort(id) => self.detach_port(id),
                Command::FitCard(card) => self.fit_card(card),
                Command::Change(change) => self.change(change),
                Command::Edges => self.report_edges(),
                Command::Record(recorder) => self.recorder = recorder,
                Command::Refusals(reply) => {
                    let _ = reply.send(Box::new(self.refusals()));
                }
                Command::Report(reply) => {
                    let report = self.report(now);
                    let _ = reply.send(Box::new(report));
                }
            }
        }
        for card in &mut self.cards {
            card.obey(&mut self.cache);
        }
        false
    }

    fn refusals(&mut self) -> Refusals {
        let drops = self.tally.drops.clone();
        let ports = self.ports.iter().map(|p| (p.id, p.port.stats(), p.port.is_up())).collect();
        let (samples, standing) = (Vec::new(), self.standing());
        let mut refusals = Refusals { drops, samples, ports, standing };
        self.tally.audit.take(&mut refusals.samples);
        for tally in self.ports.iter_mut().filter_map(|p| p.port.tally_mut()) {
            refusals.drops.merge(&tally.drops);
            tally.audit.take(&mut refusals.samples);
        }
        refusals
    }

    /// Where its cards and engines stand.
    fn standing(&self) -> Vec<Standing> {
        let worker = self.id;
        let card = |(card, state)| Standing { card: Some(card), worker, place: "inline", state };
        let engine = |(place, state)| Standing { card: None, worker, place, state };
        let cards = self.all_cards().map(|card| (card.port(), card.state_name())).map(card);
        cards
            .chain(self.engine.report().into_iter().map(|e| (e.place, e.state)).map(engine))
            .collect()
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::EspOut(change) => self.change_esp_out(change),
            Change::EspIn(change) => self.change_esp_in(change),
            Change::SecyOut(change) => {
                let done = self.stages.secy_out.apply(&mut self.engine, change);
                self.check(done);
            }
            Change::SecyIn(change) => {
                if let RxChange::Retire(..) | RxChange::Remove(_) = change {
                    self.report_secy_edges();
                }
                let done = self.stages.secy_in.apply(&mut self.engine, change);
                self.check(done);
            }
        }
    }

    fn change_esp_out(&mut self, change: EspOut) {
        let (stages, engine) = (&mut self.stages, &mut self.engine);
        match change {
            EspOut::Install(index, config, sequence) => {
                let done = match config.protocol {
                    SaProtocol::Esp => stages.esp_out.install_at(engine, index, &config, sequence),
                    SaProtocol::Ah => stages.ah_out.install_at(engine, index, &config, sequence),
                };
                self.check(done);
            }
            EspOut::Extend(id, limit) => {
                stages.esp_out.extend(id, limit);
                stages.ah_out.extend(id, limit);
            }
            // An index is an SA's of either stage.
            EspOut::Retire(index) => {
                let _ = stages.esp_out.retire(engine, index) || stages.ah_out.retire(engine, index);
            }
        }
    }

    fn change_esp_in(&mut self, change: EspIn) {
        let (stages, engine) = (&mut self.stages, &mut self.engine);
        match change {
            EspIn::Install(index, config, edge) => {
                let done = match config.protocol {
                    SaProtocol::Esp => stages.esp_in.install_at(engine, index, &config, edge),
                    SaProtocol::Ah => stages.ah_in.install_at(engine, index, &config, edge),
                };
                self.check(done);
            }
            EspIn::Change(index, config) => {
                let done = match config.protocol {
                    SaProtocol::Esp => stages.esp_in.change_at(engine, index, &config),
                    SaProtocol::Ah => stages.ah_in.change_at(engine, index, &config),
                };
                self.check(done);
            }
            EspIn::Retire(index) => {
                self.keep_edges(|sa| sa.index == index);
                let (stages, engine) = (&mut self.stages, &mut self.engine);
                let _ = stages.esp_in.retire(engine, index) || stages.ah_in.retire(engine, index);
            }
        }
    }

    /// Says where the windows of some SAs stand that are about to end: their keys may
    /// come back.
    fn keep_edges(&mut self, which: impl Fn(SaId) -> bool) {
        let sas = self.stages.esp_in.show().chain(self.stages.ah_in.show());
        let ending = sas.filter(|sa| which(sa.id)).map(|sa| (sa.lease.record, sa.number));
        for (record, edge) in ending.collect::<Vec<_>>() {
            self.say(Event::Edge { record, edge });
        }
    }

    fn report_secy_edges(&mut self) {
        for sa in self.stages.secy_in.report().into_iter().flat_map(|(_, r)| r.sas) {
            self.say(Event::Edge { record: sa.lease.record, edge: sa.edge });
        }
    }

    /// Reports what did not work; the configuration was checked, so this is rare.
    fn check<T, F: std::fmt::Display>(&mut self, done: Result<T, F>) {
        if let Err(e) = done {
            let _ = self.events.push(Event::Failed(e.to_string()));
        }
    }
}
