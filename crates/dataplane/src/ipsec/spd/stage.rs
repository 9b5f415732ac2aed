//! The stage at the boundary: what leaves sealed, in clear, or not at all
//! (RFC 4301 section 5.1).

use super::{Action, Decision, Spd};
use crate::graph::{Ctx, FLAG_EXEMPT, Next, Stage};
use crate::tables::{IfaceKind, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Packet};

/// Asks the policy of the interface by which each packet is to leave.
#[derive(Default)]
pub struct Policy {}

impl Stage for Policy {
    /// For each packet:
    /// 0. of the same flow as the one before, sealed by an SA here: by that SA;
    /// 1. what is sealed already, or exempt, goes on to its adjacency;
    /// 2. the interface of the adjacency has the policy;
    /// 3. the first entry that matches decides;
    /// 4. PROTECT goes to the worker that owns the SA.
    ///
    /// A batch of many flows is looked up side by side.
    #[inline]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch) {
        ctx.tally.work.lookups += batch.len() as u64;
        let mut packets = batch.drain(..);
        let Some(first) = packets.next() else { return };
        let last = alone(ctx, first);
        let (mut count, mut octets) = (0, 0);
        let mut rest = Batch::new();
        for mut packet in packets.by_ref() {
            if !last.serves(&packet) {
                rest.push(packet);
                break;
            }
            count += 1;
            octets += packet.len() as u64;
            packet.meta_mut().target = last.sa;
            ctx.out.send(Next::EspOut, packet);
        }
        ctx.tally.hits.outbound(last.counter, count, octets);
        if !rest.is_empty() {
            rest.extend(packets);
            many(ctx, &mut rest);
        }
    }
}

/// The flow of the packet before, if an SA of this worker seals it.
#[derive(Clone, Copy)]
struct Last {
    flow: Flow4,
    adjacency: u32,
    sa: u32,
    counter: u32,
}

impl Last {
    /// Protocol zero with addresses of zeros: no packet comes from there.
    const NOTHING: Self =
        Self { flow: Flow4 { front: 0, rest: 0 }, adjacency: u32::MAX, sa: 0, counter: u32::MAX };

    #[inline(always)]
    fn serves(&self, packet: &Packet) -> bool {
        let meta = packet.meta();
        meta.target == self.adjacency
            && meta.flags & FLAG_EXEMPT == 0
            && Flow4::of(packet.data()).is_some_and(|flow| flow == self.flow)
    }
}

/// A packet by itself; what it says of others of the same flow.
fn alone(ctx: &mut Ctx<'_>, packet: Packet) -> Last {
    let adjacency = packet.meta().target;
    let decided = match Gate::of(ctx.tables, &packet) {
        Gate::Open => {
            ctx.out.send(Next::Output, packet);
            return Last::NOTHING;
        }
        Gate::Closed => Err(DropReason::PolicyDiscard),
        Gate::Policy(spd) => spd.outbound(packet.data()),
    };
    let decision = match decided {
        Ok(decision) => decision,
        Err(reason) => {
            ctx.out.drop(packet, reason);
            return Last::NOTHING;
        }
    };
    let flow = Flow4::of(packet.data());
    ctx.tally.hits.outbound(decision.counter, 1, packet.len() as u64);
    match (carry_out(ctx, packet, decision), flow) {
        (Some(sa), Some(flow)) => Last { flow, adjacency, sa, counter: decision.counter },
        _ => Last::NOTHING,
    }
}

/// Step 4, and the two others; the SA, if it is here.
#[inline]
fn carry_out(ctx: &mut Ctx<'_>, mut packet: Packet, decision: Decision) -> Option<u32> {
    match decision.action {
        Action::Protect(sa) => {
            let meta = packet.meta_mut();
            // Of a fragment the whole datagram may be wanted, for this policy again.
            (meta.number, meta.target) = (meta.target.into(), sa);
            match ctx.tables.sas.outbound(sa) {
                Some(worker) if worker == ctx.worker => {
                    ctx.out.send(Next::EspOut, packet);
                    return Some(sa);
                }
                Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
                None => ctx.out.drop(packet, DropReason::EspNoSa),
            }
        }
        Action::Bypass => ctx.out.send(Next::Output, packet),
        Action::Discard => ctx.out.drop(packet, DropReason::PolicyDiscard),
    }
    None
}

/// Packets of many flows.
#[inline(never)]
fn many(ctx: &mut Ctx<'_>, packets: &mut Batch) {
    let spd = packets.first().and_then(|packet| match Gate::of(ctx.tables, packet) {
        Gate::Policy(spd) => Some(spd),
        _ => None,
    });
    let mut decisions = [None; BATCH];
    if let Some(spd) = spd {
        let same = |packet: &Packet| match Gate::of(ctx.tables, packet) {
            Gate::Policy(other) => std::ptr::eq(spd, other),
            _ => false,
        };
        spd.outbound_all(packets.iter().map(|p| same(p).then(|| p.data())), &mut decisions);
        // By themselves: many entries' counters are waited for together.
        for (packet, decision) in packets.iter().zip(&decisions) {
            if let Some(Ok(decision)) = decision {
                ctx.tally.hits.outbound(decision.counter, 1, packet.len() as u64);
            }
        }
    }
    for (packet, decision) in packets.drain(..).zip(decisions) {
        match decision {
            Some(Ok(decision)) => {
                carry_out(ctx, packet, decision);
            }
            Some(Err(reason)) => ctx.out.drop(packet, reason),
            None => {
                alone(ctx, packet);
            }
        }
    }
}

/// All that a policy can ask of an IPv4 packet without options that is no
/// fragment: protocol, addresses, and the first four octets behind the header.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flow4 {
    /// Protocol, source; no TTL, no checksum.
    front: u64,
    /// Destination and ports.
    rest: u64,
}

impl Flow4 {
    #[inline(always)]
    fn of(data: &[u8]) -> Option<Self> {
        // Version, header length; more fragments, fragment offset.
        const FIRST: u64 = u64::from_be_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]).to_be();
        const PLAIN: u64 = u64::from_be_bytes([0x45, 0, 0, 0, 0, 0, 0, 0]).to_be();
        const SECOND: u64 = u64::from_be_bytes([0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]).to_be();
        let (words, _) = data.first_chunk::<24>()?.as_chunks::<8>();
        let &[first, second, rest] = words else { return None };
        if u64::from_ne_bytes(first) & FIRST != PLAIN {
            return None;
        }
        Some(Self { front: u64::from_ne_bytes(second) & SECOND, rest: u64::from_ne_bytes(rest) })
    }
}

/// What stands between a packet and its adjacency.
enum Gate<'a> {
    /// Nothing.
    Open,
    /// A policy that is not there: nothing passes.
    Closed,
    Policy(&'a Spd),
}

impl<'a> Gate<'a> {
    /// Steps 1 and 2. An adjacency that is not there has the policy that is not
    /// there.
    #[inline]
    fn of(tables: &'a Tables, packet: &Packet) -> Self {
        let meta = packet.meta();
        if meta.flags & FLAG_EXEMPT != 0 {
            return Self::Open;
        }
        let adjacency = tables.adjacencies.get(meta.target as usize);
        match adjacency.and_then(|a| tables.ifaces.get(usize::from(a.iface))).map(|i| &i.kind) {
            Some(IfaceKind::Routed(routed)) => match routed.policy {
                Some(policy) => {
                    tables.policies.get(usize::from(policy)).map_or(Self::Closed, Self::Policy)
                }
                None => Self::Open,
            },
            _ => Self::Closed,
        }
    }
}
