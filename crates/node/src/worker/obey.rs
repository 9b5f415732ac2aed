//! A worker's commands and events.

use super::Worker;
use crate::associations::EdgeWalk;
use crate::incident::Standing;
use crate::message::{CHANGES_MAX, Change, Command, Event, Ordered, Refusals};
use ferrule_base::Instant;
use ferrule_control::Refused;
use ferrule_crypto::Engine;
use ferrule_pipeline::{Packet, Port};

/// Steps of a report in one turn, of a few SAs each.
const REPORT_WALKS: usize = 16;

impl<E: Engine<Packet>> Worker<E> {
    /// Goes on telling the control part the edges of replay windows, where there is room:
    /// events that are waited for come first.
    fn walk_edges(&mut self) {
        let Some(walk) = self.edges.filter(|_| self.events.is_clear()) else { return };
        let events = &mut self.events;
        self.edges = self.stages.sas.walk_edges(walk, |edge| events.send(edge));
    }

    /// Carries out the control part's commands, between two batches. Of many changes of
    /// associations only some, unless no frame has come yet; true if there are more.
    pub(super) fn obey(&mut self, now: Instant) -> bool {
        self.events.send_waiting();
        self.answers.send_waiting();
        self.walk_edges();
        let mut most = if self.ledger.received == 0 { usize::MAX } else { CHANGES_MAX };
        loop {
            while let Some(ordered) = self.changes.pop_front() {
                self.carry_out(ordered);
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
                Command::Say(step) => self.handover.saying.push(step),
                Command::Inject(next, packet) => {
                    self.handed_in += 1;
                    self.out.send(next, packet);
                }
                Command::AttachPort(id, port) => self.attach_port(id, port),
                Command::DetachPort(id) => self.detach_port(id),
                Command::FitCard(card) => self.fit_card(card),
                Command::Change(change) => self.change(change),
                Command::Order(token, changes) => {
                    let done = changes.into_iter().try_for_each(|change| {
                        let gives_up = change.gives_up();
                        self.try_change(change).or_else(|e| if gives_up { Ok(()) } else { Err(e) })
                    });
                    self.answers.send(Event::Done(token, done.map_err(Refused)));
                }
                Command::Edges => self.edges = self.edges.or(Some(EdgeWalk::default())),
                Command::NextPns if self.answers.is_clear() => {
                    self.stages.sas.next_pns().for_each(|next| self.answers.send(next));
                }
                Command::NextPns => {}
                Command::Record(recorder) => self.recorder = recorder,
                Command::Refusals(reply) => {
                    let _ = reply.send(Box::new(self.refusals()));
                }
                Command::Report(reply) => self.asking.push_back(reply),
            }
        }
        for card in &mut self.cards {
            card.obey(&mut self.cache);
        }
        self.answer(now);
        !self.asking.is_empty()
    }

    /// Goes on with the requested reports, some SAs a turn: packets do not wait for a
    /// hundred thousand.
    fn answer(&mut self, now: Instant) {
        for _ in 0..REPORT_WALKS {
            if self.asking.is_empty() || self.stages.sas.report_some(&mut self.told) {
                continue;
            }
            let sas = std::mem::take(&mut self.told);
            let report = self.report_with(now, sas);
            if let Some(reply) = self.asking.pop_front() {
                // The receiver may be gone.
                let _ = reply.send(Box::new(report));
            }
        }
    }

    fn refusals(&mut self) -> Refusals {
        let drops = self.tally.drops.clone();
        let ports = self.ports.iter().map(|p| (p.id, p.port.stats(), p.port.is_up())).collect();
        let (samples, standing) = (Vec::new(), self.standing());
        let logged = self.tally.audit.take_logged();
        let mut refusals = Refusals { drops, samples, logged, ports, standing };
        self.tally.audit.take(&mut refusals.samples);
        for tally in self.ports.iter_mut().filter_map(|p| p.port.tally_mut()) {
            refusals.drops.merge(&tally.drops);
            tally.audit.take(&mut refusals.samples);
        }
        refusals
    }

    /// State of its cards and engines.
    fn standing(&self) -> Vec<Standing> {
        let worker = self.id;
        let card = |(card, state)| Standing { card: Some(card), worker, place: "inline", state };
        let engine = |(place, state)| Standing { card: None, worker, place, state };
        let cards = self.all_cards().map(|card| (card.port(), card.state_name())).map(card);
        cards
            .chain(self.engine.report().into_iter().map(|e| (e.place, e.state)).map(engine))
            .collect()
    }

    /// Carries out a change. A failure is reported; the configuration was checked, so this
    /// is rare.
    fn change(&mut self, change: Change) {
        if let Err(e) = self.try_change(change) {
            let _ = self.events.ring.push(Event::Failed(e));
        }
    }

    /// Carries out an order, and answers it.
    fn carry_out(&mut self, Ordered { token, change }: Ordered) {
        let done = self.try_change(change);
        self.events.send(Event::Done(token, done.map_err(Refused)));
    }

    pub(super) fn try_change(&mut self, change: Change) -> Result<(), String> {
        for edge in self.stages.sas.ending(&change) {
            self.events.send(edge);
        }
        self.stages.sas.change(&mut self.engine, change)
    }
}
