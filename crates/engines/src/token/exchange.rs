//! Composition of the next exchange with the token, and delivery of its answer.

use super::engine::{Part, TokenEngine};
use super::line::{Ask, Exchange};
use super::sa::{Mode, Sa};
use super::vault::Block;
use super::wait::{Step, Wait};
use ferrule_crypto::Verdict;
use std::ops::Range;

/// The share of an exchange that packets may have which might be forged, while
/// something is to be made ahead: one in so many blocks.
const UNPROVEN_SHARE: usize = 2;

/// An exchange that is being put together.
struct Draft {
    exchange: Box<Exchange>,
    most: usize,
}

impl Draft {
    fn room(&self) -> usize {
        self.most - self.exchange.used
    }

    /// Room for so many blocks, and where they are.
    fn take(&mut self, blocks: usize) -> Option<(&mut [Block], Range<usize>)> {
        let range = self.exchange.used..self.exchange.used + blocks;
        if range.end > self.most {
            return None;
        }
        self.exchange.used = range.end;
        Some((self.exchange.blocks.get_mut(range.clone())?, range))
    }
}

/// Index of a wait in the queue; out of range if it has been given up.
fn place_of(first: u64, id: u64) -> usize {
    id.checked_sub(first).map_or(usize::MAX, |place| place as usize)
}

impl<B: AsMut<[u8]>> TokenEngine<B> {
    /// Puts an exchange together, if there is anything to ask for, and sends it.
    ///
    /// 1. The SA whose packet waits longest; if the last exchange was for a packet that
    ///    may be forged, none like it now.
    /// 2. The next one that has something to make.
    /// 3. Packets that may be forged, if nothing else has a use for the token.
    pub(super) fn ask(&mut self) {
        let proven = self.was_unproven;
        for step in 0..4 {
            let chosen = match step {
                0 => self.longest(proven),
                1 => self.next_in_turn().map(|slot| (slot, false)),
                2 => self.longest(false),
                _ => self.wonders().map(|slot| (slot, false)),
            };
            if let Some((slot, unproven)) = chosen
                && self.ask_for(slot)
            {
                self.was_unproven = unproven;
                return;
            }
        }
    }

    /// An exchange for this SA. False: there is nothing to ask for.
    fn ask_for(&mut self, slot: u32) -> bool {
        let Some(mut exchange) = self.idle.take() else { return true };
        (exchange.key, exchange.ask, exchange.used) = (slot, Ask::List, 0);
        exchange.result = Ok(());
        self.parts.clear();
        let mut draft = Draft { exchange, most: self.most };
        self.hash_key(slot, &mut draft);
        self.packets(slot, &mut draft);
        self.probes(slot, &mut draft);
        self.ahead_of(slot, &mut draft);
        let Draft { exchange, .. } = draft;
        if exchange.used == 0 {
            self.idle = Some(exchange);
            return false;
        }
        self.stats.exchanges += 1;
        self.stats.blocks += exchange.used as u64;
        self.begun = self.now;
        self.flying = Some(slot);
        if let Err(mut exchange) = self.line.begin(self.now, exchange) {
            exchange.result = Err(super::provider::TokenError::Gone);
            self.arrived(exchange);
        }
        true
    }

    /// The SA whose packet waits longest, and whether that may be forged.
    fn longest(&self, proven: bool) -> Option<(u32, bool)> {
        let may = |slot: u32| {
            let sa = self.sas.get(slot as usize).and_then(|place| place.sa.as_ref());
            sa.is_some_and(|sa| !sa.rests(self.now))
        };
        let waits = self.waits.iter().flatten().filter(|wait| !wait.asked);
        let mut waits = waits.filter(|wait| wait.proven || !proven);
        waits.find(|wait| may(wait.sa)).map(|wait| (wait.sa, !wait.proven))
    }

    /// The next SA that has something to make.
    fn next_in_turn(&mut self) -> Option<u32> {
        let (count, now) = (self.sas.len(), self.now);
        let mut order = (0..count).map(|i| (self.turn + 1 + i) % count);
        let sas = &mut self.sas;
        let wants = |slot: &usize| {
            let sa = sas.get_mut(*slot).and_then(|place| place.sa.as_mut());
            sa.is_some_and(|sa| !sa.rests(now) && sa.wants())
        };
        let slot = order.find(wants)?;
        self.turn = slot;
        Some(slot as u32)
    }

    /// An SA with unexpected packets, which have no more than half of the time that
    /// nothing else takes.
    fn wonders(&mut self) -> Option<u32> {
        let now = self.now;
        let slot = self
            .sas
            .iter()
            .position(|place| place.sa.as_ref().is_some_and(|sa| !sa.rests(now) && sa.wonders()))?;
        if now < self.wonder_at {
            self.look_at(self.wonder_at);
            return None;
        }
        Some(slot as u32)
    }

    fn hash_key(&mut self, slot: u32, draft: &mut Draft) {
        let wants = self.sa_mut(slot).is_some_and(|sa| !sa.can_ask());
        if wants && let Some((room, range)) = draft.take(1) {
            room.fill([0; 16]);
            self.parts.push((Part::HashKey, range));
        }
    }

    /// Adds blocks that packets of this SA wait for, the oldest first.
    fn packets(&mut self, slot: u32, draft: &mut Draft) {
        let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut()) else {
            return;
        };
        if !sa.can_ask() {
            return;
        }
        let (plain, wants) = (sa.plain(), sa.wants());
        let share = if wants { self.most.div_ceil(UNPROVEN_SHARE) } else { self.most };
        let mut unproven = 0;
        for (id, wait) in (self.first..).zip(&mut self.waits) {
            let Some(wait) = wait.as_mut().filter(|wait| wait.sa == slot && !wait.asked) else {
                continue;
            };
            if draft.room() == 0 {
                return;
            }
            let step = sa.step(wait);
            if wait.proven && std::mem::take(&mut wait.counted) {
                self.unproven -= 1;
            }
            if step != Step::Ask || (!wait.proven && unproven >= share) {
                continue;
            }
            let (first, end) = wait.missing(plain);
            let count = usize::from(end - first).min(draft.room());
            let Some((room, range)) = draft.take(count) else { return };
            for (index, block) in (first..).zip(room) {
                *block = sa.question(wait, index);
            }
            wait.asked = true;
            unproven += if wait.proven { 0 } else { count };
            self.stats.asked += 1;
            self.parts.push((Part::Exact(id, first), range));
        }
    }

    fn probes(&mut self, slot: u32, draft: &mut Draft) {
        let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut()) else {
            return;
        };
        let Mode::Gcm(gcm) = &mut sa.mode else { return };
        while draft.room() > 0
            && let Some(probe) = gcm.next_probe()
            && let Some((room, range)) = draft.take(1)
        {
            room.fill(super::parts::counter_block(&probe.nonce, 0));
            self.parts.push((Part::Probe(probe), range));
        }
    }

    /// Adds blocks to be made ahead, as far as there is room.
    fn ahead_of(&mut self, slot: u32, draft: &mut Draft) {
        let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut()) else {
            return;
        };
        if !sa.is_filled() {
            return;
        }
        match &mut sa.mode {
            Mode::Gcm(gcm) => {
                if gcm.nonce(0).is_none() {
                    return;
                }
                while let Some(make) = gcm.ahead.make(draft.room()) {
                    let Some(nonce) = gcm.nonce(make.number) else { return };
                    let Some((room, range)) = draft.take(make.blocks.into()) else { return };
                    for (index, block) in (make.first.into()..).zip(room) {
                        *block = super::parts::counter_block(&nonce, index);
                    }
                    self.parts.push((Part::Run(make.number, make.first), range));
                }
            }
            Mode::Study(study) => {
                let Some(counters) = study.wants() else { return };
                let count = ((counters.end - counters.start) as usize).min(draft.room());
                let whole = draft.exchange.used == 0;
                let Some((room, range)) = draft.take(count) else { return };
                if whole {
                    draft.exchange.ask = Ask::Counting(study.counter_block(counters.start));
                } else {
                    for (counter, block) in (counters.start..).zip(room) {
                        *block = study.counter_block(counter).to_be_bytes();
                    }
                }
                self.parts.push((Part::Ring(counters.start), range));
            }
        }
    }

    /// An exchange is back.
    pub(super) fn arrived(&mut self, mut exchange: Box<Exchange>) {
        let slot = self.flying.take().unwrap_or(exchange.key);
        let good = exchange.result.is_ok();
        self.failing = !good;
        self.stats.failed += u64::from(!good);
        self.exchanges_took.record(self.now.since(self.begun));
        let mut parts = std::mem::take(&mut self.parts);
        if parts.iter().all(|(part, _)| matches!(part, Part::Probe(_))) {
            self.wonder_at = self.now + self.now.since(self.begun);
        }
        let (now, sa) = (self.now, self.sa_mut(slot));
        match sa.filter(|_| !good).map(|sa| sa.refused(now)) {
            Some(again) => self.look_at(again),
            None => self.sa_mut(slot).into_iter().for_each(Sa::answered),
        }
        // Runs first: a packet that was asked for exactly may find its own there.
        for pass in [false, true] {
            let (there, back) = (parts.iter().filter(|_| good), parts.iter().rev());
            for (part, range) in there.chain(back.filter(|_| !good)) {
                if matches!(part, Part::Exact(..)) != pass {
                    continue;
                }
                match exchange.blocks.get(range.clone()).filter(|_| good) {
                    Some(stream) => self.deliver(slot, part, stream),
                    None => self.refuse(slot, part),
                }
            }
        }
        parts.clear();
        self.parts = parts;
        exchange.wipe();
        self.idle = Some(exchange);
        self.stirred = true;
        self.go_on(slot);
        self.bury(slot);
    }

    fn deliver(&mut self, slot: u32, part: &Part, stream: &[Block]) {
        let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut()) else {
            return;
        };
        match (part, &mut sa.mode) {
            (Part::HashKey, Mode::Gcm(gcm)) => {
                if let Some(h) = stream.first() {
                    gcm.hash_key(h);
                }
            }
            (&Part::Run(number, first), Mode::Gcm(gcm)) => gcm.ahead.put(number, first, stream),
            (Part::Ring(first), Mode::Study(study)) => study.ring.put(*first, stream),
            (Part::Probe(probe), Mode::Gcm(gcm)) => {
                let followed = stream.first().is_some_and(|j0| gcm.probed(probe, j0));
                self.stats.followed += u64::from(followed);
                if followed {
                    sa.wake(self.now);
                }
            }
            (&Part::Exact(id, first), _) => {
                let Some(place) = self.waits.get_mut(place_of(self.first, id)) else { return };
                let Some(mut wait) = place.take() else { return };
                wait.asked = false;
                let step = sa.exact(&mut wait, first, stream);
                self.settle(id, wait, step);
            }
            _ => {}
        }
    }

    /// The token did not answer: nothing of this comes.
    fn refuse(&mut self, slot: u32, part: &Part) {
        let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut()) else {
            return;
        };
        match (part, &mut sa.mode) {
            (&Part::Run(number, first), Mode::Gcm(gcm)) => gcm.ahead.refused(number, first),
            (Part::Ring(_), Mode::Study(study)) => study.ring.refused(),
            (&Part::Exact(id, _), _) => {
                let Some(place) = self.waits.get_mut(place_of(self.first, id)) else { return };
                if let Some(wait) = place.take() {
                    self.settle(id, wait, Step::Done(Verdict::Failed));
                }
            }
            _ => {}
        }
    }

    /// A packet finishes, or waits on in its place.
    fn settle(&mut self, id: u64, mut wait: Wait<B>, step: Step) {
        if wait.proven {
            self.unproven -= usize::from(std::mem::take(&mut wait.counted));
            let now = self.now;
            self.sa_mut(wait.sa).into_iter().for_each(|sa| sa.wake(now));
        }
        match step {
            Step::Done(verdict) => self.finish(wait, verdict),
            Step::Coming | Step::Ask => {
                if let Some(place) = self.waits.get_mut(place_of(self.first, id)) {
                    *place = Some(wait);
                }
            }
        }
    }

    /// Processes the packets of an SA, in their order, as far as key stream is there now.
    fn go_on(&mut self, slot: u32) {
        for index in 0..self.waits.len() {
            let Some(place) = self.waits.get_mut(index) else { break };
            let Some(mut wait) = place.take_if(|wait| wait.sa == slot && !wait.asked) else {
                continue;
            };
            let Some(sa) = self.sas.get_mut(slot as usize).and_then(|place| place.sa.as_mut())
            else {
                break;
            };
            let step = match sa.step(&mut wait) {
                Step::Coming | Step::Ask if sa.rests(self.now) => Step::Done(Verdict::Failed),
                step => step,
            };
            self.settle(self.first + index as u64, wait, step);
        }
        self.drop_finished();
    }
}
