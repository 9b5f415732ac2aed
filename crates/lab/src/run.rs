//! The run loop: events, one after the other.

use crate::agenda::Event;
use crate::change::Change;
use crate::device::Device;
use crate::impair::Impairments;
use crate::link::{Direction, Lane, picos, picos_of};
use crate::network::{LinkId, Network};
use crate::observe::{Loss, Place};
use crate::station::Io;
use crate::world::lane_of;
use ferrule_base::{Duration, Instant};
use ferrule_node::Control;
use ferrule_pipeline::Packet;

/// Events at one time after which something is wrong: it would never end.
const EVENTS_AT_ONCE_MAX: u64 = 10_000_000;

impl Network {
    /// Runs until `until`, and checks that every packet is accounted for.
    ///
    /// # Panics
    /// If one is not: that is a bug, and the message names the seed.
    pub fn run_until(&mut self, until: Instant) {
        self.advance(until);
        self.assert_conserved();
    }

    /// Runs until nothing moves any more, for `max` at most, and checks as
    /// [`run_until`](Self::run_until) does. True if it came to rest: no frame is
    /// under way or waits, no station wants to be woken, no change is planned.
    pub fn run_until_idle(&mut self, max: Duration) -> bool {
        let end = self.world.now + max;
        self.rouse();
        let idle = loop {
            if self.world.agenda.is_quiet() && self.devices.iter().all(Device::is_at_rest) {
                break true;
            }
            let Some((time, event)) = self.world.agenda.next(end) else {
                self.world.now = end;
                break false;
            };
            self.world.now = time;
            self.happen(event);
        };
        self.assert_conserved();
        idle
    }

    /// Runs until `until`, without the check: for drivers that take many small
    /// steps and call [`audit`](Self::audit) now and then.
    pub fn advance(&mut self, until: Instant) {
        self.rouse();
        let mut at_once = 0;
        while let Some((time, event)) = self.world.agenda.next(until) {
            at_once = if time == self.world.now { at_once + 1 } else { 0 };
            assert!(
                at_once < EVENTS_AT_ONCE_MAX,
                "seed {}: time stands still at {time}",
                self.seed()
            );
            self.world.now = time;
            self.happen(event);
        }
        self.world.now = self.world.now.max(until);
    }

    /// Makes the next event happen: single steps, for people. False if none is
    /// to come until `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.rouse();
        let Some((time, event)) = self.world.agenda.next(until) else { return false };
        self.world.now = time;
        self.happen(event);
        true
    }

    fn assert_conserved(&self) {
        if let Err(e) = self.audit() {
            panic!("seed {}, at {}: {e}", self.seed(), self.now());
        }
    }

    /// Gives devices and stations that were changed from outside their turn.
    fn rouse(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            self.devices[id.0].touch(&mut self.world);
        }
        for station in 0..self.posts.len() {
            self.plan_station(station);
        }
    }

    fn happen(&mut self, event: Event) {
        let world = &mut self.world;
        match event {
            Event::Arrive { lane, cut, corrupted, packet } => {
                match world.arrive(lane, cut, corrupted, packet) {
                    Some((Place::Device(id, port), packet)) => {
                        self.devices[id.0].arrive(world, lane, port, packet);
                    }
                    Some((Place::Station(id, port), packet)) => self.receive(id.0, port, packet),
                    None => {}
                }
            }
            Event::Release { lane } => {
                if let Some(entry) = world.lanes.get_mut(lane as usize) {
                    entry.release(lane, world.now, &mut world.agenda);
                }
            }
            Event::Serve { device, worker, life } => {
                self.devices[device as usize].serve(worker, life, world);
            }
            Event::Depart { device, worker, life } => {
                self.devices[device as usize].depart(worker, life, world);
            }
            Event::Timer { device, life } => self.devices[device as usize].timer(life, world),
            Event::Boot { device, life } => {
                self.devices[device as usize].restart(life, world, &mut self.engines);
            }
            Event::Wake { station } => self.wake(station as usize),
            Event::Change { index } => self.change(index as usize),
        }
    }

    fn receive(&mut self, station: usize, port: usize, packet: Packet) {
        let Some(post) = self.posts.get_mut(station) else { return };
        post.received += 1;
        let (world, sent) = (&mut self.world, &mut self.sent);
        let mut io = Io { now: world.now, cache: &mut world.cache, rng: &mut post.rng, sent };
        post.station.receive(&mut io, port, packet);
        self.send(station);
    }

    fn wake(&mut self, station: usize) {
        let Some(post) = self.posts.get_mut(station) else { return };
        let now = self.world.now;
        if post.planned == Some(now) {
            post.planned = None;
        }
        if post.station.poll_timeout().is_none_or(|due| due > now) {
            return self.plan_station(station);
        }
        let (world, sent) = (&mut self.world, &mut self.sent);
        let mut io = Io { now, cache: &mut world.cache, rng: &mut post.rng, sent };
        post.station.wake(&mut io);
        self.send(station);
    }

    /// Puts the frames that a station sent on its links.
    fn send(&mut self, station: usize) {
        let mut sent = std::mem::take(&mut self.sent);
        let (world, post) = (&mut self.world, &mut self.posts[station]);
        for (port, packet) in sent.drain(..) {
            post.sent += 1;
            if let Some(follower) = &mut world.follower {
                follower.begin(&packet, world.now);
            }
            match post.lanes.get(port).copied().flatten() {
                Some(lane) => world.put(lane, picos(world.now), packet),
                None => {
                    post.unlinked += 1;
                    world.cache.recycle(packet);
                }
            }
        }
        self.sent = sent;
        self.plan_station(station);
    }

    fn plan_station(&mut self, station: usize) {
        let post = &mut self.posts[station];
        let Some(due) = post.station.poll_timeout() else { return };
        let due = due.max(self.world.now);
        if post.planned.is_none_or(|planned| due < planned) {
            post.planned = Some(due);
            self.world.agenda.enter(due, Event::Wake { station: station as u32 });
        }
    }

    fn change(&mut self, index: usize) {
        let Some(change) = self.changes.get_mut(index).and_then(Option::take) else { return };
        if !self.world.observers.is_empty() {
            let (now, about) = (self.world.now, change.about());
            self.world.observers.iter_mut().for_each(|o| o.changed(now, &about));
        }
        let world = &mut self.world;
        match change {
            Change::LinkDown(link) => self.link_down(link),
            Change::LinkUp(link) => self.each_lane(link, None, |l| l.up = true),
            Change::Impair(link, way, impairments) => self.impair(link, way, &impairments),
            Change::Rate(link, rate) => self.each_lane(link, None, |l| l.rate = rate),
            Change::Delay(link, delay) => {
                self.each_lane(link, None, |l| l.delay_ps = picos_of(delay));
            }
            Change::Restart(id, down) => {
                if let Some(device) = self.devices.get_mut(id.0) {
                    device.kill(world, down);
                }
            }
            Change::Apply(id, config) => {
                if let Some(device) = self.devices.get_mut(id.0) {
                    device.apply(*config, world);
                }
            }
            Change::ClockJump(id, by) => {
                if let Some(device) = self.devices.get_mut(id.0) {
                    device.jump(by, world);
                }
            }
            Change::ResetCards(id) => {
                if let Some(device) = self.devices.get_mut(id.0) {
                    device.each_card(world, Control::reset_card);
                }
            }
            Change::HaltCards(id) => {
                if let Some(device) = self.devices.get_mut(id.0) {
                    device.each_card(world, Control::halt_card);
                }
            }
        }
    }

    fn link_down(&mut self, link: LinkId) {
        for lane in Direction::BOTH.map(|way| lane_of(link, way)) {
            let now = self.world.now;
            let held = self.world.lanes.get_mut(lane as usize).map(|lane| lane.go_down(now));
            for packet in held.into_iter().flatten() {
                self.world.lose(lane, false, Loss::Down, packet);
            }
        }
    }

    fn impair(&mut self, link: LinkId, way: Option<Direction>, impairments: &Impairments) {
        self.each_lane(link, way, |l| l.impairments = impairments.clone());
    }

    fn each_lane(
        &mut self,
        link: LinkId,
        way: Option<Direction>,
        mut change: impl FnMut(&mut Lane),
    ) {
        for each in Direction::BOTH {
            if way.is_none_or(|way| way == each)
                && let Some(lane) = self.world.lanes.get_mut(lane_of(link, each) as usize)
            {
                change(lane);
            }
        }
    }
}
