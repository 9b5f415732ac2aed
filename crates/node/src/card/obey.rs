//! A card's end of its control channel: what it is told, and what it says.

use super::CardCommand;
use super::graph::{Card, State};
use crate::message::{Asker, Change, EspIn, EspOut, Event, Want};
use ferrule_base::DropReason;
use ferrule_pipeline::PoolCache;
use std::sync::Arc;

impl Card {
    /// Carries out what waits in the control channel.
    pub(crate) fn obey(&mut self, cache: &mut PoolCache) {
        while let Ok(command) = self.commands.pop() {
            self.carry_out(command, cache);
        }
        self.report_wants();
    }

    /// Carries out one command.
    pub(crate) fn carry_out(&mut self, command: CardCommand, cache: &mut PoolCache) {
        match command {
            CardCommand::Reset => {
                if self.state != State::Halted {
                    // A card that is well tells first what it knows.
                    self.report_edges();
                }
                self.forget(cache);
                self.state = State::Empty;
                self.resets += 1;
                let _ = self.events.push(Event::CardEmpty);
            }
            _ if self.state == State::Halted => {}
            CardCommand::Halt => {
                self.forget(cache);
                self.state = State::Halted;
            }
            CardCommand::Tables(tables) => {
                self.tally.hits.fit(&tables.hits);
                self.tables = tables;
                self.state = State::Up;
            }
            CardCommand::Change(change) => self.change(change),
            CardCommand::Edges => {
                self.report_edges();
                let _ = self.events.push(Event::CardAlive);
            }
        }
    }

    fn change(&mut self, change: Change) {
        let (stages, engine) = (&mut self.stages, &mut self.engine);
        let done = match change {
            Change::EspOut(EspOut::Install(index, config, sequence)) => {
                told(stages.esp_out.install_at(engine, index, &config, sequence))
            }
            Change::EspOut(EspOut::Extend(id, limit)) => {
                stages.esp_out.extend(id, limit);
                Ok(())
            }
            Change::EspOut(EspOut::Retire(index)) => {
                stages.esp_out.retire(engine, index);
                Ok(())
            }
            Change::EspIn(EspIn::Install(index, config, edge)) => {
                told(stages.esp_in.install_at(engine, index, &config, edge))
            }
            Change::EspIn(EspIn::Change(index, config)) => {
                told(stages.esp_in.change_at(engine, index, &config))
            }
            Change::EspIn(EspIn::Retire(index)) => {
                stages.esp_in.retire(engine, index);
                Ok(())
            }
            Change::SecyOut(change) => told(stages.secy_out.apply(engine, change)),
            Change::SecyIn(change) => told(stages.secy_in.apply(engine, change)),
        };
        if let Err(e) = done {
            let _ = self.events.push(Event::Failed(e));
        }
    }

    /// Forgets tables and keys, and what was to leave. What the engine has is
    /// dropped when it comes back.
    fn forget(&mut self, cache: &mut PoolCache) {
        let (stages, engine) = (&mut self.stages, &mut self.engine);
        let out: Vec<u32> = stages.esp_out.show().map(|sa| sa.id.index).collect();
        let inn: Vec<u32> = stages.esp_in.show().map(|sa| sa.id.index).collect();
        out.into_iter().for_each(|index| {
            stages.esp_out.retire(engine, index);
        });
        inn.into_iter().for_each(|index| {
            stages.esp_in.retire(engine, index);
        });
        for (index, _) in stages.secy_out.report() {
            let _ = stages.secy_out.remove(engine, index);
        }
        for (index, _) in stages.secy_in.report() {
            let _ = stages.secy_in.remove(engine, index);
        }
        self.tables = Arc::default();
        self.empty(cache, DropReason::CardDown);
        self.retry = None;
    }

    /// The card is taken out. What it holds is dropped, but for what its engine
    /// keeps for ever; its last counts are returned.
    pub(super) fn remove(&mut self, cache: &mut PoolCache) {
        self.empty(cache, DropReason::PortDown);
    }

    fn empty(&mut self, cache: &mut PoolCache, reason: DropReason) {
        for packet in self.to_wire.drain(..).chain(self.to_node.drain(..)) {
            self.tally.drops.count(reason);
            cache.recycle(packet);
        }
    }

    fn report_wants(&mut self) {
        let (events, stages) = (&mut self.events, &mut self.stages);
        while !events.is_full()
            && let Some(want) = stages.esp_out.wants().next()
        {
            let _ = events.push(want.into());
        }
        stages.secy_out.wants(|secy, an, lease, limit| {
            let by = Asker::Macsec(secy, an);
            events.push(Event::Wants(Want { by, lease, limit })).is_ok()
        });
    }

    fn report_edges(&mut self) {
        for sa in self.stages.esp_in.show() {
            let (record, edge) = (sa.lease.record, sa.number);
            let _ = self.events.push(Event::Edge { record, edge });
        }
        for sa in self.stages.secy_in.report().into_iter().flat_map(|(_, r)| r.sas) {
            let (record, edge) = (sa.lease.record, sa.edge);
            let _ = self.events.push(Event::Edge { record, edge });
        }
    }
}

fn told<T>(done: Result<T, impl std::fmt::Display>) -> Result<(), String> {
    done.map(drop).map_err(|e| e.to_string())
}
