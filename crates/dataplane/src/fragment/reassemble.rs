//! The stage: all datagrams that one worker puts together.

use super::assembly::{Assembly, Outcome, Present};
use super::piece::{Fault, Key, Piece};
use super::{DATAGRAMS_MAX, DATAGRAMS_MIN, PER_SOURCE_MAX, POOL_SHARE, REASSEMBLY_TIME};
use crate::graph::{Ctx, FLAG_ONWARDS, FLAG_WHOLE, Next, Stage};
use ferrule_base::{DropReason, Instant};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;

/// ICMPv4 fragment reassembly time exceeded, type and code.
const TIME_EXCEEDED_V4: u16 = 11 << 8 | 1;
/// ICMPv6 fragment reassembly time exceeded.
const TIME_EXCEEDED_V6: u16 = 3 << 8 | 1;

/// No datagram is here.
const FREE: u64 = 0;

/// A place in which a datagram is reassembled.
#[derive(Debug)]
struct Slot {
    key: Key,
    since: Instant,
    present: Present,
    state: State,
}

#[derive(Debug)]
enum State {
    Free,
    Gathering(Assembly),
    /// The datagram cannot be completed: its further fragments are dropped for this reason.
    Refused(DropReason),
}

/// The stage at [`Next::Reassemble`].
#[derive(Default)]
pub struct Reassemble {
    slots: Vec<Slot>,
    /// For each slot its key's number, or [`FREE`]: a search reads no more than these.
    tags: Vec<u64>,
    /// Expiry of the oldest datagram, or an earlier time.
    due: Option<Instant>,
    /// Fragments in all datagrams.
    held: usize,
}

impl Stage for Reassemble {
    /// For each fragment:
    ///
    /// 1. its headers hold together by themselves;
    /// 2. its datagram, a new one if need be;
    /// 3. to its place there; the last that was missing sends the whole on.
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        for packet in batch.drain(..) {
            // 1
            match Piece::read(&packet) {
                Ok(piece) => self.take(ctx, &piece, packet),
                Err(Fault::Drop(reason)) => ctx.out.drop(packet, reason),
                Err(Fault::Tell(kind, pointer)) => tell(ctx, packet, kind, pointer),
            }
        }
    }
}

impl Reassemble {
    /// Time at which [`expire`](Self::expire) is due.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Fragments that wait for others.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Gives up datagrams that waited too long. The sender is told if the first fragment
    /// came (RFC 792, RFC 4443 section 3.3).
    pub fn expire(&mut self, ctx: &mut Ctx<'_>) {
        self.due = None;
        for at in 0..self.slots.len() {
            if self.tags[at] == FREE {
                continue;
            }
            let due = self.slots[at].since + REASSEMBLY_TIME;
            if due > ctx.now {
                self.due = Some(self.due.map_or(due, |other| other.min(due)));
                continue;
            }
            self.tags[at] = FREE;
            let state = std::mem::replace(&mut self.slots[at].state, State::Free);
            if let State::Gathering(assembly) = state {
                self.held -= assembly.fragments as usize;
                too_late(ctx, assembly);
            }
        }
    }

    fn take(&mut self, ctx: &mut Ctx<'_>, piece: &Piece, packet: Packet) {
        // 2
        let Some(at) = self.find(&piece.key).or_else(|| self.open(ctx, &piece.key)) else {
            return ctx.out.drop(packet, DropReason::NoBuffer);
        };
        // 3
        let Slot { present, state, .. } = &mut self.slots[at];
        let assembly = match state {
            State::Gathering(assembly) => assembly,
            State::Refused(reason) => return ctx.out.drop(packet, *reason),
            State::Free => return ctx.out.drop(packet, DropReason::NoBuffer),
        };
        match assembly.add(present, piece, &packet) {
            Outcome::Held => self.keep(ctx, piece, packet),
            Outcome::Complete => {
                self.keep(ctx, piece, packet);
                self.send(ctx, at);
            }
            Outcome::Duplicate => ctx.out.drop(packet, DropReason::FragmentDuplicate),
            Outcome::Refused(reason) => {
                ctx.out.drop(packet, reason);
                self.close(ctx, at, State::Refused(reason), reason);
            }
        }
    }

    /// The fragment's octets are in the datagram; its buffer is free.
    fn keep(&mut self, ctx: &mut Ctx<'_>, piece: &Piece, packet: Packet) {
        ctx.tally.work.copied.add(piece.len);
        ctx.cache.recycle(packet);
        self.held += 1;
    }

    /// One whole datagram for all its fragments.
    fn send(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        self.tags[at] = FREE;
        let state = std::mem::replace(&mut self.slots[at].state, State::Free);
        let State::Gathering(assembly) = state else { return };
        self.held -= assembly.fragments as usize;
        ctx.tally.consumed += u64::from(assembly.fragments) - 1;
        match assembly.finish() {
            Ok(mut packet) => {
                packet.meta_mut().flags |= FLAG_WHOLE;
                let onwards = packet.meta().flags & FLAG_ONWARDS != 0;
                packet.meta_mut().flags &= !FLAG_ONWARDS;
                ctx.out.send(if onwards { Next::Policy } else { Next::Ip }, packet);
            }
            Err((packet, reason)) => ctx.out.drop(packet, reason),
        }
    }

    /// The datagram of this key.
    fn find(&self, key: &Key) -> Option<usize> {
        let tag = key.tag();
        let tags = self.tags.iter().enumerate();
        tags.filter(|&(_, &t)| t == tag).map(|(at, _)| at).find(|&at| self.slots[at].key == *key)
    }

    /// Begins a datagram, for which the oldest may have to go. Nothing if there is
    /// no buffer for it.
    fn open(&mut self, ctx: &mut Ctx<'_>, key: &Key) -> Option<usize> {
        let of_source = |slot: &Slot| slot.key.source() == key.source();
        let used = || self.slots.iter().zip(&self.tags).filter(|(_, tag)| **tag != FREE);
        if used().filter(|(slot, _)| of_source(slot)).count() >= PER_SOURCE_MAX {
            self.evict(ctx, of_source);
        } else if used().count() >= limit(ctx) {
            self.evict(ctx, |_| true);
        }
        let buffer = ctx.cache.packet()?;
        let free = self.tags.iter().position(|&tag| tag == FREE);
        let at = free.unwrap_or_else(|| {
            let (present, state) = (Present::default(), State::Free);
            self.slots.push(Slot { key: *key, since: ctx.now, present, state });
            self.tags.push(FREE);
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        (slot.key, slot.since) = (*key, ctx.now);
        slot.state = State::Gathering(Assembly::new(buffer, &mut slot.present));
        self.tags[at] = key.tag();
        self.due.get_or_insert(ctx.now + REASSEMBLY_TIME);
        Some(at)
    }

    /// Gives up the oldest of those that `which` names.
    fn evict(&mut self, ctx: &mut Ctx<'_>, which: impl Fn(&Slot) -> bool) {
        let slots = self.slots.iter().enumerate();
        let used = slots.filter(|&(at, slot)| self.tags[at] != FREE && which(slot));
        let Some(at) = used.min_by_key(|(_, slot)| slot.since).map(|(at, _)| at) else { return };
        self.close(ctx, at, State::Free, DropReason::ReassemblyFull);
    }

    /// Drops the fragments of a datagram.
    fn close(&mut self, ctx: &mut Ctx<'_>, at: usize, then: State, reason: DropReason) {
        if matches!(then, State::Free) {
            self.tags[at] = FREE;
        }
        let State::Gathering(assembly) = std::mem::replace(&mut self.slots[at].state, then) else {
            return;
        };
        let fragments = assembly.fragments;
        self.held -= fragments as usize;
        let (packet, _) = assembly.give_up();
        if fragments == 0 {
            // It was a buffer only, never a packet.
            return ctx.cache.recycle(packet);
        }
        (1..fragments).for_each(|_| ctx.tally.drops.count(reason));
        ctx.out.drop(packet, reason);
    }
}

/// Datagrams that a worker may put together at a time: a share of the node's
/// buffers.
fn limit(ctx: &Ctx<'_>) -> usize {
    let workers = usize::from(ctx.tables.workers).max(1);
    (ctx.cache.pool().chunks() / POOL_SHARE / workers).clamp(DATAGRAMS_MIN, DATAGRAMS_MAX)
}

/// Every fragment is dropped; of the first, if it came, a message is made.
fn too_late(ctx: &mut Ctx<'_>, assembly: Assembly) {
    let fragments = assembly.fragments;
    let (packet, first) = assembly.give_up();
    if !first || packet.meta().flags & FLAG_ONWARDS != 0 {
        (1..fragments).for_each(|_| ctx.tally.drops.count(DropReason::ReassemblyTimeout));
        return ctx.out.drop(packet, DropReason::ReassemblyTimeout);
    }
    (0..fragments).for_each(|_| ctx.tally.drops.count(DropReason::ReassemblyTimeout));
    ctx.tally.made += 1;
    let v4 = packet.meta().ethertype == EtherType::IPV4.0;
    tell(ctx, packet, if v4 { TIME_EXCEEDED_V4 } else { TIME_EXCEEDED_V6 }, 0);
}

/// The packet becomes the ICMP error to its sender.
fn tell(ctx: &mut Ctx<'_>, mut packet: Packet, kind: u16, pointer: u16) {
    let meta = packet.meta_mut();
    (meta.icmp, meta.offset) = (kind, pointer);
    ctx.out.send(Next::IcmpError, packet);
}
