//! The control part's end of the channel to each card.
//!
//! ```text
//!   build, apply ─▶ fit ─▶ associations ─▶ tables: up
//!   reset, or silent for too long ─▶ [card forgets] ─ empty ─▶ fill: all of it again
//! ```
//!
//! A card has its tables before the node above it has its own: at no time does the
//! node leave something to the card that the card does not know of.

use super::{BuildError, Control, Version};
use crate::card::{self, Card, CardCommand, CardEngine};
use crate::incident::Incident;
use crate::message::{Command, Event, Seat};
use ferrule_base::{Instant, PortId};
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages between control part and card that wait in one direction at most.
const CARD_RING: usize = 1024;

/// Looks at a card in a row that are not answered, before it is reset.
const SILENCE_MAX: u32 = 3;

/// Makes the engine of a port's card.
pub(super) type CardEngines = Box<dyn FnMut(PortId) -> CardEngine + Send>;

/// The channel to one card.
pub(super) struct CardLink {
    /// Its port.
    pub id: PortId,
    /// The worker that has the port.
    worker: usize,
    commands: Producer<CardCommand>,
    events: Consumer<Event>,
    /// The card, until its worker is given it: commands are carried out at once.
    fresh: Option<Box<Card>>,
    /// Looks that it has not answered.
    silent: u32,
    /// The card is empty, and could not be filled.
    wanting: bool,
    /// Commands that fill it, as far as the ring had no room: as many as the configuration
    /// has associations.
    waiting: VecDeque<CardCommand>,
}

impl CardLink {
    /// True if the card sent an event, or has room for commands that wait.
    pub fn has_mail(&self) -> bool {
        !self.events.is_empty() || (!self.waiting.is_empty() && !self.commands.is_full())
    }

    /// Gives it commands that wait, as far as there is room.
    fn pump(&mut self) {
        while !self.commands.is_full()
            && let Some(command) = self.waiting.pop_front()
        {
            let _ = self.commands.push(command);
        }
    }
}

impl Control {
    /// Makes a card for every port that needs one and has none.
    pub(super) fn fit_cards(&mut self) {
        for (index, port) in self.config.ports.iter().enumerate() {
            let id = self.compiled.ports[index];
            if !self.shared.cards.contains_key(&id) || self.cards.iter().any(|c| c.id == id) {
                continue;
            }
            let (commands, commands_out) = RingBuffer::new(CARD_RING);
            let (events_in, events) = RingBuffer::new(CARD_RING);
            let card = Card::new(id, (self.card_engines)(id), commands_out, events_in);
            self.cards.push(CardLink {
                id,
                worker: port.worker,
                commands,
                events,
                fresh: Some(Box::new(card)),
                silent: 0,
                wanting: false,
                waiting: VecDeque::new(),
            });
        }
    }

    /// Gives every card its tables, and new cards to their workers.
    pub(super) fn card_tables(&mut self) {
        for at in 0..self.cards.len() {
            let id = self.cards[at].id;
            if let Some(tables) = self.tables_of(id) {
                self.command_step(id, tables);
            }
        }
        for at in 0..self.cards.len() {
            let worker = self.cards[at].worker;
            if let Some(card) = self.cards[at].fresh.take() {
                self.send_step(worker, Command::FitCard(card));
            }
        }
    }

    /// The tables of a port's card, for as long as the configuration has the port.
    fn tables_of(&self, id: PortId) -> Option<CardCommand> {
        let (compiled, shared) = (&self.compiled, &self.shared);
        let index = compiled.ports.iter().position(|&port| port == id)?;
        let tables = card::compile(&self.config, compiled, &self.tables, shared, index);
        Some(CardCommand::Tables(Arc::new(tables)))
    }

    /// Gives a card a command.
    pub(super) fn command(&mut self, id: PortId, command: CardCommand) -> Result<(), BuildError> {
        let Some(link) = self.cards.iter_mut().find(|c| c.id == id) else {
            return Err(BuildError::Stuck);
        };
        match &mut link.fresh {
            Some(card) => {
                card.carry_out(command, &mut self.cache);
                Ok(())
            }
            // Nothing overtakes the commands that fill it.
            None if !link.waiting.is_empty() => Err(BuildError::Stuck),
            None => link.commands.push(command).map_err(|_| BuildError::Stuck),
        }
    }

    /// The same, behind all that waits for room if need be: a step of a change.
    pub(super) fn command_step(&mut self, id: PortId, command: CardCommand) {
        let Some(link) = self.cards.iter_mut().find(|c| c.id == id) else { return };
        match &mut link.fresh {
            Some(card) => card.carry_out(command, &mut self.cache),
            None => {
                link.waiting.push_back(command);
                link.pump();
            }
        }
    }

    /// True if every card takes commands.
    pub(super) fn cards_are_ready(&self) -> bool {
        self.cards.iter().all(|c| c.waiting.is_empty() && !c.commands.is_full())
    }

    /// Takes the cards' events.
    pub(super) fn hear_cards(&mut self, now: Instant) -> usize {
        let mut done = 0;
        for at in 0..self.cards.len() {
            self.cards[at].pump();
            while let Ok(event) = self.cards[at].events.pop() {
                done += 1;
                let id = self.cards[at].id;
                match event {
                    Event::CardAlive => self.cards[at].silent = 0,
                    Event::CardEmpty => self.fill(id),
                    event => self.handle(now, Seat::Card(id), event),
                }
            }
        }
        done
    }

    /// Looks whether the cards are alive, and where their replay windows stand.
    pub(super) fn ask_cards(&mut self) {
        for at in 0..self.cards.len() {
            let link = &mut self.cards[at];
            let (id, silent) = (link.id, link.silent);
            link.silent += 1;
            if link.wanting {
                self.fill(id);
            }
            if silent < SILENCE_MAX {
                let _ = self.command(id, CardCommand::Edges);
                continue;
            }
            self.cards[at].silent = 0;
            let port = self.port_name(id).to_owned();
            self.incidents.push(Incident::CardSilent { port });
            // What waits comes again once it is empty.
            self.cards[at].waiting.clear();
            self.command_step(id, CardCommand::Reset);
        }
    }

    /// Fills cards that were emptied before all was ordered that they are to have.
    pub(super) fn fill_wanting(&mut self) {
        let wanting: Vec<PortId> = self.cards.iter().filter(|c| c.wanting).map(|c| c.id).collect();
        wanting.into_iter().for_each(|id| self.fill(id));
    }

    /// Resets the card of a port, by its index in the configuration. False: it has
    /// none. Until the card has its tables again, nothing passes the port.
    pub fn reset_card(&mut self, port: usize) -> Result<bool, BuildError> {
        self.command_by_port(port, CardCommand::Reset)
    }

    /// Stops the card of a port as if it had failed, for tests of its recovery. False: the
    /// port has none.
    pub fn halt_card(&mut self, port: usize) -> Result<bool, BuildError> {
        self.command_by_port(port, CardCommand::Halt)
    }

    fn command_by_port(&mut self, port: usize, command: CardCommand) -> Result<bool, BuildError> {
        let id = self.compiled.ports.get(port).copied();
        match id.filter(|&id| self.cards.iter().any(|c| c.id == id)) {
            Some(id) => self.command(id, command).map(|()| true),
            None => Ok(false),
        }
    }

    /// SAs that keying programs gave a card are lost with its memory: nobody else has their
    /// keys.
    pub(super) fn lose_agreed(&mut self, id: PortId) {
        // Before the card is filled, so that it is given nothing twice.
        self.send_orders();
        let agreed = self.sas.agreed_in(Seat::Card(id));
        let names = agreed.iter().filter_map(|&sa| self.sa_name(sa));
        let gone: Vec<_> = names.map(Incident::SaGone).collect();
        self.incidents.extend(gone);
        let slots = agreed.iter().filter_map(|&sa| Some(self.sas.slot_and_spi(sa)?.0));
        self.protocols.lock().acquires.ask_again(slots);
        let lost = self.sas.lose(&self.shared.directories, Seat::Card(id));
        // Others get their indices.
        self.steps.spare(&lost);
    }

    /// A packet at a card has no SA.
    pub(super) fn card_acquires(&mut self, now: Instant, seat: Seat, slot: u32, header: Vec<u8>) {
        if self.shared.directories.has_outbound(seat, slot) {
            // It was put to use meanwhile.
            return;
        }
        if self.protocols.lock().acquires.ask(now, slot, &header) {
            let asks = self.wanted(slot, header);
            self.incidents.extend(asks);
        }
    }

    /// Installs everything that a card forgot. SAs with numbers go on behind the last
    /// number that was reserved.
    fn fill(&mut self, id: PortId) {
        let seat = Seat::Card(id);
        self.lose_agreed(id);
        if let Some(link) = self.cards.iter_mut().find(|card| card.id == id) {
            // Of what is under way to it nothing counts.
            link.waiting.clear();
            link.waiting.push_back(CardCommand::Fill);
            link.pump();
        }
        if self.steps.is_to_order() {
            // Its contents are known once the SAs are ordered.
            self.cards.iter_mut().filter(|c| c.id == id).for_each(|c| c.wanting = true);
            return;
        }
        let (static_keys, macs) = (self.static_keys.without(seat), self.macs.clone());
        let now = Version { config: &self.config, compiled: &self.compiled };
        let planned = static_keys.plan(now, &macs, now, &mut self.leases);
        let tables = self.tables_of(id);
        if let Err(e) = &planned {
            let port = self.port_name(id).to_owned();
            self.incidents.push(Incident::CardUnfilled { port, why: e.to_string() });
        }
        let Some(link) = self.cards.iter_mut().find(|c| c.id == id) else { return };
        link.wanting = planned.is_err();
        let (Ok(plan), Some(tables)) = (planned, tables) else { return };
        let records = plan.records().chain(self.sas.records());
        self.leases.grant(&plan.leases, &records.collect());
        let of_card = plan.macsec.wanted.into_iter().filter(|(at, _)| *at == seat);
        let of_card = of_card.map(|(_, change)| change);
        let all = of_card.chain(plan.esp.refill(seat, &self.static_keys.sas));
        link.waiting.extend(all.map(CardCommand::Change));
        link.waiting.push_back(tables);
        link.pump();
        // Where SAs of a program were lost, those of the file seal again.
        let directories = &self.shared.directories;
        for (slot, index) in self.static_keys.sas.first_of(seat) {
            let card = directories.cards.get(&id);
            if card.is_some_and(|card| card.slots(0).get(slot).is_none()) {
                self.sas.fill(directories, 0, index);
            }
        }
    }
}
