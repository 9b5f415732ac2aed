//! A card's graph: its places, and the stage at each of them.
//!
//! ```text
//!   node ─▶ down ─▶ policy ─▶ ESP out ─▶ front ─▶ emit ─▶ SecY out ─▶ wire
//!             └── ARP, ND, no policy here ─────────▲
//!   wire ─▶ SecY in ─▶ up ─▶ ESP in ─▶ rejoin ─▶ node
//!                       └── clear, as far as the policy lets it in ─▶ node
//! ```

use super::down::down;
use super::graph::{Card, CardEngine, State};
use super::up::up;
use crate::acquire::header;
use crate::associations::Associations;
use crate::events::EventQueue;
use crate::message::Event;
use crate::runner::{Graph, settle};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_crypto::Jobs;
use ferrule_dataplane::graph::{Aside, Ctx, Next, Outputs, Stage};
use ferrule_dataplane::{ipsec, link};
use ferrule_pipeline::{Batch, Packet, PoolCache};
use std::collections::BTreeMap;

/// The stages that a card shares with the node.
#[derive(Default)]
pub(super) struct Stages {
    pub sas: Associations,
    pub policy: ipsec::Policy,
    pub emit: link::Emit,
}

/// A place in a card.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Whole frame from the wire, whose port has a SecY.
    SecyIn,
    /// Whole clear frame from the wire.
    Up,
    /// ESP packet whose link header waits.
    EspIn,
    /// Opened packet, which goes to the node behind its link header.
    Rejoin,
    /// Whole clear frame from the node.
    Down,
    /// IP packet from the node, whose link header waits.
    Policy,
    /// The same, to be sealed.
    EspOut,
    /// Packet that leaves behind its link header, sealed or not.
    Front,
    /// Whole clear frame for the wire.
    Emit,
    /// The same, for a port with a SecY.
    SecyOut,
    /// Whole frame as it goes on the wire.
    Wire,
    /// IP packet from the node whose slot has no SA.
    Acquire,
    /// Packet that no card handles, with its drop reason.
    Refused(DropReason),
}

impl From<Next> for Place {
    fn from(next: Next) -> Self {
        match next {
            Next::SecyIn => Self::SecyIn,
            Next::Attach => Self::Up,
            Next::EspIn => Self::EspIn,
            Next::Ip => Self::Rejoin,
            Next::Policy => Self::Policy,
            Next::EspOut => Self::EspOut,
            Next::Output => Self::Front,
            Next::Emit => Self::Emit,
            Next::SecyOut => Self::SecyOut,
            Next::Transmit => Self::Wire,
            Next::Acquire => Self::Acquire,
            // A card sends no errors: the node was told the MTU.
            Next::IcmpError => Self::Refused(DropReason::TooBig),
            // Reassembly is the node's.
            Next::Reassemble => Self::Refused(DropReason::FragmentNotSupported),
            // The configuration gives a card none of these.
            Next::Local
            | Next::AhIn
            | Next::AhOut
            | Next::Bridge
            | Next::PwOut
            | Next::PwIn
            | Next::Mpls
            | Next::PathError
            | Next::FrameAclIn
            | Next::FrameAclOut
            | Next::SourceCheck
            | Next::AclIn
            | Next::AclOut
            | Next::Clamp
            | Next::Control
            | Next::Eapol
            | Next::TransmitFirst
            | Next::Resolve
            | Next::Keying => Self::Refused(DropReason::UnknownProtocol),
        }
    }
}

/// A card keeps no packets that have no SA: it asks again with the next packet after this.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Says that a packet's slot has no SA.
fn acquire(
    now: Instant,
    asked: &mut BTreeMap<u32, Instant>,
    events: &mut EventQueue,
    packet: &Packet,
) {
    let slot = packet.meta().sa;
    if asked.get(&slot).is_some_and(|&at| now.since(at) < ASK_AGAIN) {
        return;
    }
    // What finds no room is said with the next packet.
    if events.ring.push(Event::Acquire(slot, header(packet))).is_ok() {
        asked.insert(slot, now);
    }
}

/// A turn of a card's graph.
pub(super) struct Turn<'a> {
    pub card: &'a mut Card,
    pub now: Instant,
    pub cache: &'a mut PoolCache,
}

impl Graph for Turn<'_> {
    type Place = Place;
    type Engine = CardEngine;

    fn parts(&mut self) -> (&mut Outputs, &mut CardEngine) {
        (&mut self.card.out, &mut self.card.engine)
    }

    /// The wiring list. Without tables nothing passes.
    fn visit(&mut self, place: Place, batch: &mut Box<Batch>) {
        let is_up = self.card.state == State::Up;
        let place = if is_up { place } else { Place::Refused(DropReason::CardDown) };
        let Card {
            stages, engine, links, to_node, to_wire, tables, tally, out, events, asked, ..
        } = self.card;
        let mut ctx = Ctx { now: self.now, worker: 0, tables, cache: self.cache, tally, out };
        match place {
            Place::SecyIn => stages.sas.secy_in.push(&mut ctx, engine, batch),
            Place::Up => {
                ctx.tally.work.lookups += batch.len() as u64;
                for mut packet in batch.drain(..) {
                    match up(ctx.tables, &mut ctx.tally.hits, links, &mut packet) {
                        Ok(Some(next)) => ctx.out.send(next, packet),
                        Ok(None) => to_node.push_back(packet),
                        Err(reason) => ctx.out.drop(packet, reason),
                    }
                }
            }
            Place::EspIn => stages.sas.esp_in.push(&mut ctx, engine, batch),
            Place::Rejoin => {
                for mut packet in batch.drain(..) {
                    match links.restore(&mut packet) {
                        Ok(()) => to_node.push_back(packet),
                        Err(reason) => ctx.out.drop(packet, reason),
                    }
                }
            }
            Place::Down => {
                ctx.forward(batch, |ctx, packet| Ok(down(ctx.tables, links, packet)?));
            }
            Place::Policy => stages.policy.push(&mut ctx, batch),
            Place::EspOut => stages.sas.esp_out.push(&mut ctx, engine, batch),
            Place::Front => ctx.forward(batch, |_, packet| {
                links.restore(packet)?;
                Ok(Next::Emit)
            }),
            Place::Emit => stages.emit.push(&mut ctx, batch),
            Place::SecyOut => stages.sas.secy_out.push(&mut ctx, engine, batch),
            Place::Acquire => {
                let now = ctx.now;
                ctx.forward(batch, |_, packet| {
                    acquire(now, asked, events, packet);
                    Err(DropReason::EspNoSa.into())
                });
            }
            Place::Wire => to_wire.extend(batch.drain(..)),
            Place::Refused(reason) => ctx.forward(batch, |_, _| Err(Aside::Drop(reason))),
        }
        debug_assert!(ctx.out.handed_off() == 0, "a card has one worker");
        settle(&mut ctx, |packet, _| links.release(packet));
    }

    fn finish(&mut self, done: &mut Jobs<Packet>) {
        let Card { stages, links, tables, tally, out, .. } = self.card;
        let mut ctx = Ctx { now: self.now, worker: 0, tables, cache: self.cache, tally, out };
        stages.sas.finish(&mut ctx, done);
        settle(&mut ctx, |packet, _| links.release(packet));
    }
}
