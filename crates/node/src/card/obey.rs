//! A card's end of its control channel: commands and events.

use super::CardCommand;
use super::graph::{Card, State};
use crate::message::{Change, Event};
use ferrule_base::DropReason;
use ferrule_control::Refused;
use ferrule_pipeline::PoolCache;
use std::sync::Arc;

impl Card {
    /// Carries out commands that wait in the control channel.
    pub(crate) fn obey(&mut self, cache: &mut PoolCache) {
        while let Ok(command) = self.commands.pop() {
            self.carry_out(command, cache);
        }
        self.events.send_waiting();
        self.stages.sas.report(&mut self.events.ring);
    }

    /// Carries out one command.
    pub(crate) fn carry_out(&mut self, command: CardCommand, cache: &mut PoolCache) {
        match command {
            CardCommand::Reset => {
                if self.state != State::Halted {
                    // A card that is well first reports its windows.
                    self.report_edges();
                }
                self.forget(cache);
                self.state = State::Empty;
                self.resets += 1;
                self.events.send(Event::CardEmpty);
            }
            _ if self.state == State::Halted => {}
            CardCommand::Halt => {
                self.forget(cache);
                self.state = State::Halted;
            }
            CardCommand::Fill => {
                self.forget(cache);
                self.state = State::Empty;
            }
            CardCommand::Tables(tables) => {
                self.tally.hits.fit(&tables.hits);
                self.tables = tables;
                self.state = State::Up;
            }
            CardCommand::Change(change) => self.change(change),
            CardCommand::Order(token, change) => {
                let done = self.stages.sas.change(&mut self.engine, change);
                self.events.send(Event::Done(token, done.map_err(Refused)));
            }
            CardCommand::Edges => {
                self.events.send(Event::CardAlive);
                self.report_edges();
            }
        }
    }

    fn change(&mut self, change: Change) {
        if let Err(e) = self.stages.sas.change(&mut self.engine, change) {
            let _ = self.events.ring.push(Event::Failed(e));
        }
    }

    /// Forgets tables and keys, and drops the frames that were to leave. Packets that the
    /// engine has are dropped when they come back.
    fn forget(&mut self, cache: &mut PoolCache) {
        self.stages.sas.forget(&mut self.engine);
        self.tables = Arc::default();
        self.asked.clear();
        self.empty(cache, DropReason::CardDown);
        self.retry = None;
    }

    /// Takes the card out: drops its packets, except those that its engine keeps for ever.
    pub(super) fn remove(&mut self, cache: &mut PoolCache) {
        self.empty(cache, DropReason::PortDown);
    }

    fn empty(&mut self, cache: &mut PoolCache, reason: DropReason) {
        for packet in self.to_wire.drain(..).chain(self.to_node.drain(..)) {
            self.tally.drops.count(reason);
            cache.recycle(packet);
        }
    }

    fn report_edges(&mut self) {
        for edge in self.stages.sas.edges() {
            let _ = self.events.ring.push(edge);
        }
    }
}
