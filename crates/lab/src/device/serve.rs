//! Serving: frames come in, workers turn, frames leave.
//!
//! ```text
//!   arrive ─▶ cap ─▶ bus ─▶ queue ─▶ turn ─▶ price ─▶ leaving ─▶ depart
//!                              ▲ serve, timer: events that plan() enters
//! ```

use super::Device;
use super::life::WIRE_DEPTH;
use super::server::{Leaving, Waiting, has_come, ship};
use crate::agenda::Event;
use crate::follow::Stay;
use crate::link::{PICOS, nanos_up, picos};
use crate::observe::Loss;
use crate::profile::{Sizes, Spent, price};
use crate::world::World;
use ferrule_base::{Duration, Flow, Instant, Work};
use ferrule_pipeline::{Batch, Packet, Port};

/// Turns that a device makes at one time before others come to theirs.
const ROUNDS_MAX: usize = 256;

/// Turns in which a worker may empty what its ports had no room for.
const FLUSHES_MAX: usize = 16;

enum Turn {
    Worker(usize),
    Control,
}

impl Device {
    /// A frame arrives.
    pub(crate) fn arrive(&mut self, world: &mut World, lane: u32, port: usize, packet: Packet) {
        self.stats.arrived.add(packet.len());
        world.visits += 1;
        if self.node.is_none() {
            self.stats.crashed += 1;
            return world.lose(lane, false, Loss::Crashed, packet);
        }
        let now = world.now;
        if let Some(bucket) = &mut self.bucket
            && !bucket.take(&self.profile.cap, now, packet.data())
        {
            self.stats.capped += 1;
            return world.lose(lane, false, Loss::Capped, packet);
        }
        let worker = self.wires.get(port).map_or(0, |w| w.worker);
        let Some(server) = self.servers.get_mut(worker) else { return };
        let idle = server.is_idle(now);
        if server.queue.len() >= self.profile.queue && !idle {
            self.stats.input_full += 1;
            return world.lose(lane, false, Loss::InputFull, packet);
        }
        let (mut ready_ps, mut waited_ps) = (picos(now), 0);
        let wire = self.wires.get_mut(port).filter(|w| w.card);
        if let (Some(card), Some(wire)) = (&self.costs.card, wire) {
            if !wire.card_in.has_room(card, ready_ps, packet.len()) {
                self.stats.input_full += 1;
                return world.lose(lane, false, Loss::InputFull, packet);
            }
            let busy_ps = &mut self.stats.card_busy_ps;
            waited_ps += wire.card_in.wait_ps(ready_ps);
            ready_ps = wire.card_in.cross(card, ready_ps, packet.len(), busy_ps);
        }
        if let Some(bus) = &self.costs.bus {
            waited_ps += self.bus_free_ps.saturating_sub(ready_ps);
            ready_ps = ship(bus, &mut self.bus_free_ps, ready_ps, packet.len());
        }
        if let Some(follower) = &mut world.follower {
            follower.wait(&packet, waited_ps, ready_ps);
        }
        if idle && self.costs.timer_ps | self.costs.stagger_ps != 0 {
            let late = match self.costs.stagger_ps {
                0 => 0,
                most => self.order.below(most + 1),
            };
            server.wakes_ps = ready_ps + self.costs.timer_ps + late;
        }
        if self.costs.poll_ps != 0 && server.queue.is_empty() {
            server.wakes_ps = server.wakes_ps.max(self.costs.look_ps(ready_ps));
        }
        server.wait(Waiting { ready_ps, port: port as u16, packet });
        self.stats.queue_max = self.stats.queue_max.max(server.queue.len() as u64);
        self.run(world);
    }

    /// The event that serves a worker.
    pub(crate) fn serve(&mut self, worker: u8, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        if let Some(server) = self.servers.get_mut(usize::from(worker))
            && server.planned == Some(world.now)
        {
            server.planned = None;
        }
        self.run(world);
    }

    /// The event of a timer.
    pub(crate) fn timer(&mut self, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        if self.timer == Some(world.now) {
            self.timer = None;
        }
        self.plan(world);
        self.run(world);
    }

    /// Frames whose time has come leave.
    pub(crate) fn depart(&mut self, worker: u8, life: u16, world: &mut World) {
        if life != self.life {
            return;
        }
        let Some(server) = self.servers.get_mut(usize::from(worker)) else { return };
        if server.departs == Some(world.now) {
            server.departs = None;
        }
        while server.leaving.front().is_some_and(|l| has_come(l.at_ps, world.now)) {
            let Some(Leaving { at_ps, lane, packet }) = server.leaving.pop_front() else { break };
            self.stats.sent.add(packet.len());
            world.put(lane, at_ps, packet);
        }
        self.plan(world);
    }

    /// Lets the workers and the control part turn, until none has anything to do now.
    pub(super) fn run(&mut self, world: &mut World) {
        for _ in 0..ROUNDS_MAX {
            match self.choose(world.now) {
                Some(Turn::Worker(worker)) => self.turn(worker, world),
                Some(Turn::Control) => self.turn_control(world.now),
                None => break,
            }
        }
        if self.node.as_ref().is_none_or(|node| !node.control.is_changing()) {
            if let Some(config) = self.changes.pop_front() {
                return self.apply(config, world);
            }
            if self.node.as_ref().is_some_and(|node| node.control.ready_lists().has_edits()) {
                return self.compile_lists(world);
            }
        }
        self.plan(world);
    }

    /// Draws the next to turn from those that have something to do.
    fn choose(&mut self, now: Instant) -> Option<Turn> {
        let node = self.node.as_ref()?;
        let mut ready = 0u64;
        for (i, server) in self.servers.iter().enumerate() {
            if server.ready_ps().is_some_and(|at| has_come(at, now)) {
                ready |= 1 << i;
            }
        }
        let clock = now + self.ahead;
        let wanted = node.control.has_mail() || clock >= self.control_due;
        let control = wanted && clock >= self.control_free;
        let count = u64::from(ready.count_ones()) + u64::from(control);
        let mut at = match count {
            0 => return None,
            1 => 0,
            _ => self.order.below(count),
        };
        for worker in 0..self.servers.len() {
            if ready & (1 << worker) != 0 {
                if at == 0 {
                    return Some(Turn::Worker(worker));
                }
                at -= 1;
            }
        }
        Some(Turn::Control)
    }

    fn turn_control(&mut self, now: Instant) {
        let clock = self.clock(now);
        let Some(node) = &mut self.node else { return };
        let before = node.control.work();
        node.control.turn(clock);
        let work = node.control.work() - before;
        let failures = node.control.take_failures();
        // Routine ends at the next due time, not before the next nanosecond.
        let next = clock + Duration::from_nanos(1);
        self.control_due = node.control.poll_timeout().unwrap_or(Instant::FAR_FUTURE).max(next);
        failures.into_iter().for_each(|f| self.fail(f));
        let busy_ps = self.profile.control.of(work);
        self.stats.control_busy_ps += busy_ps;
        self.control_free = clock + Duration::from_nanos(busy_ps.div_ceil(1000));
        self.call_all(picos(now) + busy_ps);
    }

    /// A worker's server takes what is ready, and the worker turns.
    fn turn(&mut self, worker: usize, world: &mut World) {
        let clock = self.clock(world.now);
        let Some(node) = &mut self.node else { return };
        let Some(server) = self.servers.get_mut(worker) else { return };
        let at_ps = server.ready_ps().unwrap_or(0);
        let begin_ps = at_ps.max(picos(world.now).saturating_sub(PICOS - 1));
        server.called_ps = None;
        let (mut taken, mut pulled) = (Flow::default(), false);
        for _ in 0..self.costs.batch {
            let next = server.queue.front();
            if !next.is_some_and(|w| has_come(w.ready_ps.max(server.wakes_ps), world.now)) {
                break;
            }
            let Some(Waiting { port, packet, .. }) = server.queue.pop_front() else { break };
            let octets = packet.len();
            if let Some(follower) = &mut world.follower {
                follower.take(&packet, self.id, self.stats.turns);
            }
            let mut batch = Batch::new();
            batch.push(packet);
            let wire = self.wires.get_mut(usize::from(port));
            let carded = wire.as_ref().is_some_and(|w| w.card);
            if let Some(port) = wire.and_then(|w| w.port.as_mut()).filter(|p| p.is_up()) {
                port.transmit(clock, &mut world.cache, &mut batch);
                pulled = true;
                // Frames that come through a card are counted behind it.
                if !carded {
                    taken.add(octets);
                }
            }
            self.stats.unattached += batch.len() as u64;
        }
        if self.costs.poll_ps != 0 && pulled {
            server.wakes_ps = self.costs.look_ps(begin_ps + 1);
        }
        let Some(part) = node.workers.get_mut(worker) else { return };
        let (before, handed) = (*part.work(), part.handed_out());
        let from_cards = part.from_cards();
        part.turn(clock);
        let came = part.from_cards();
        taken.packets += came.packets - from_cards.packets;
        taken.octets += came.octets - from_cards.octets;
        let (calls, after) = (part.handed_out() != handed, *part.work());
        let stay = self.stay(begin_ps, taken, &after, &before);
        if let Some(server) = self.servers.get_mut(worker) {
            server.free_ps = stay.done_ps;
        }
        self.collect(worker, &stay, world);
        if calls && self.servers.len() > 1 {
            self.call_others(worker, stay.done_ps);
        }
    }

    /// Prices a turn that took so much. Of several frames each has an equal part.
    fn stay(&mut self, begin_ps: u64, taken: Flow, after: &Work, before: &Work) -> Stay {
        let (device, turn) = (self.id, self.stats.turns);
        self.stats.turns += 1;
        if self.costs.free {
            return Stay { device, turn, done_ps: begin_ps, lookup_ps: 0, crypto_ps: 0 };
        }
        let spent = Spent::since(Sizes::of(&self.config), taken, after, before);
        let occupied_ps = price(&self.profile, &spent, &mut self.service);
        self.stats.busy_ps += occupied_ps;
        let own_ps = occupied_ps / taken.packets.max(1);
        let crypto_ps = (own_ps as f64 * spent.crypto_share(&self.profile)).round() as u64;
        let lookup_ps = own_ps.saturating_sub(crypto_ps);
        Stay { device, turn, done_ps: begin_ps + occupied_ps, lookup_ps, crypto_ps }
    }

    fn call_others(&mut self, worker: usize, at_ps: u64) {
        for (other, server) in self.servers.iter_mut().enumerate() {
            if other != worker {
                let late = match self.costs.stagger_ps {
                    0 => 0,
                    most => self.order.below(most + 1),
                };
                server.call(at_ps + late);
            }
        }
    }

    /// Takes what a worker sent from its ports; it leaves when it is done.
    fn collect(&mut self, worker: usize, stay: &Stay, world: &mut World) {
        let clock = self.clock(world.now);
        for _ in 0..FLUSHES_MAX {
            let mut full = false;
            for wire in 0..self.wires.len() {
                if self.wires[wire].worker == worker {
                    full |= self.collect_wire(wire, stay, world) >= WIRE_DEPTH;
                }
            }
            if !full {
                return;
            }
            // There may be more that had no room.
            if let Some(part) = self.node.as_mut().and_then(|n| n.workers.get_mut(worker)) {
                part.turn(clock);
            }
        }
    }

    /// Takes what was sent by one port; how many frames.
    fn collect_wire(&mut self, wire: usize, stay: &Stay, world: &mut World) -> usize {
        let (clock, done_ps) = (self.clock(world.now), stay.done_ps);
        let wire = &mut self.wires[wire];
        let (Some(port), Some(lane)) = (&mut wire.port, wire.lane) else { return 0 };
        let server = &mut self.servers[wire.worker];
        let mut count = 0;
        loop {
            let mut batch = Batch::new();
            port.receive(clock, &mut world.cache, &mut batch);
            count += batch.len();
            let more = batch.is_full();
            for packet in batch {
                let (shipped_ps, mut waited_ps) = match &self.costs.bus {
                    None => (done_ps, 0),
                    Some(bus) => {
                        let waited_ps = self.bus_free_ps.saturating_sub(done_ps);
                        (ship(bus, &mut self.bus_free_ps, done_ps, packet.len()), waited_ps)
                    }
                };
                let at_ps = shipped_ps + self.costs.pipeline_ps;
                let at_ps = match &self.costs.card {
                    Some(card) if wire.card => {
                        let busy_ps = &mut self.stats.card_busy_ps;
                        waited_ps += wire.card_out.wait_ps(at_ps);
                        wire.card_out.cross(card, at_ps, packet.len(), busy_ps)
                    }
                    _ => at_ps,
                };
                if let Some(follower) = &mut world.follower {
                    follower.leave(&packet, stay, waited_ps, at_ps);
                }
                if server.leaving.is_empty() && has_come(at_ps, world.now) {
                    self.stats.sent.add(packet.len());
                    world.put(lane, at_ps, packet);
                } else {
                    server.leave(Leaving { at_ps, lane, packet });
                }
            }
            if !more {
                return count;
            }
        }
    }

    /// Enters what is to come into the agenda.
    fn plan(&mut self, world: &mut World) {
        let (device, life) = (self.id.0 as u32, self.life);
        let Some(node) = &self.node else { return };
        let clock = world.now + self.ahead;
        let mut due = match node.control.has_mail() {
            true => self.control_free,
            false => self.control_due.max(self.control_free),
        };
        for (i, server) in self.servers.iter_mut().enumerate() {
            let worker = i as u8;
            match node.workers.get(i).and_then(|w| w.poll_timeout()) {
                // Its server may be busy: it turns when that is free.
                Some(at) if at <= clock => server.call(picos(world.now)),
                Some(at) => due = due.min(at),
                None => {}
            }
            if let Some(at) = server.ready_ps() {
                let at = nanos_up(at).max(world.now);
                if server.planned.is_none_or(|planned| at < planned) {
                    server.planned = Some(at);
                    world.agenda.enter(at, Event::Serve { device, worker, life });
                }
            }
            if let Some(leaving) = server.leaving.front() {
                let at = nanos_up(leaving.at_ps).max(world.now);
                if server.departs.is_none_or(|departs| at < departs) {
                    server.departs = Some(at);
                    world.agenda.enter(at, Event::Depart { device, worker, life });
                }
            }
        }
        let at = Instant::from_nanos(due.as_nanos().saturating_sub(self.ahead.as_nanos() as u64));
        let at = at.max(world.now);
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            world.agenda.enter(at, Event::Timer { device, life });
        }
    }
}
