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
    /// 0. of the same flow as the first one, sealed by an SA here: by that SA;
    /// 1. what is sealed already, or exempt, goes on to its adjacency;
    /// 2. the interface of the adjacency has the policy;
    /// 3. the first entry that matches decides;
    /// 4. PROTECT goes to the worker that owns the SA.
    ///
    /// A batch of many flows is looked up side by side.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let Some(first) = batch.first() else { return };
        let mut count = 0;
        if let Some(flow) = Sealed::learn(ctx, first) {
            let mut octets = 0;
            for packet in batch.iter_mut().take_while(|packet| flow.has(packet)) {
                count += 1;
                octets += packet.len() as u64;
                packet.meta_mut().target = flow.sa;
            }
            ctx.tally.hits.outbound(flow.counter, count as u64, octets);
            if count == batch.len() {
                return ctx.out.send_all(Next::EspOut, batch);
            }
        }
        batch.drain(..count).for_each(|packet| ctx.out.send(Next::EspOut, packet));
        many(ctx, batch);
    }
}

/// A flow that an SA of this worker seals.
pub(crate) struct Sealed {
    pub flow: Flow4,
    pub adjacency: u32,
    pub sa: u32,
    pub counter: u32,
}

impl Sealed {
    /// The flow of a packet.
    #[inline(never)]
    pub fn learn(ctx: &Ctx<'_>, packet: &Packet) -> Option<Self> {
        let Gate::Policy(spd) = Gate::of(ctx.tables, packet) else { return None };
        let flow = Flow4::of(packet.data())?;
        let Decision { action: Action::Protect(sa), counter } = spd.outbound(packet.data()).ok()?
        else {
            return None;
        };
        let here = ctx.tables.sas.outbound(sa) == Some(ctx.worker);
        here.then_some(Self { flow, adjacency: packet.meta().target, sa, counter })
    }

    #[inline(always)]
    fn has(&self, packet: &Packet) -> bool {
        let meta = packet.meta();
        meta.target == self.adjacency && meta.flags & FLAG_EXEMPT == 0 && self.fits(packet.data())
    }

    /// Whether a packet is of the flow, whatever its way.
    #[inline(always)]
    pub fn fits(&self, data: &[u8]) -> bool {
        Flow4::of(data).is_some_and(|flow| flow == self.flow)
    }
}

/// A packet by itself.
fn alone(ctx: &mut Ctx<'_>, packet: Packet) {
    let decided = match Gate::of(ctx.tables, &packet) {
        Gate::Open => return ctx.out.send(Next::Output, packet),
        Gate::Closed => Err(DropReason::PolicyDiscard),
        Gate::Policy(spd) => spd.outbound(packet.data()),
    };
    match decided {
        Ok(decision) => {
            ctx.tally.hits.outbound(decision.counter, 1, packet.len() as u64);
            carry_out(ctx, packet, decision);
        }
        Err(reason) => ctx.out.drop(packet, reason),
    }
}

/// Step 4, and the two others.
#[inline]
fn carry_out(ctx: &mut Ctx<'_>, mut packet: Packet, decision: Decision) {
    match decision.action {
        Action::Protect(sa) => {
            let meta = packet.meta_mut();
            // Of a fragment the whole datagram may be wanted, for this policy again.
            (meta.number, meta.target) = (meta.target.into(), sa);
            match ctx.tables.sas.outbound(sa) {
                Some(worker) if worker == ctx.worker => ctx.out.send(Next::EspOut, packet),
                Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
                None => ctx.out.drop(packet, DropReason::EspNoSa),
            }
        }
        Action::Bypass => ctx.out.send(Next::Output, packet),
        Action::Discard => ctx.out.drop(packet, DropReason::PolicyDiscard),
    }
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
            Some(Ok(decision)) => carry_out(ctx, packet, decision),
            Some(Err(reason)) => ctx.out.drop(packet, reason),
            None => alone(ctx, packet),
        }
    }
}

/// All that a policy can ask of an IPv4 packet without options that is no
/// fragment: protocol, addresses, and the first four octets behind the header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow4 {
    /// Protocol, source; no TTL, no checksum.
    front: u64,
    /// Destination and ports.
    rest: u64,
}

impl Flow4 {
    /// What counts of the second eight octets.
    const SECOND: u64 = u64::from_be_bytes([0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]).to_be();

    #[inline(always)]
    fn of(data: &[u8]) -> Option<Self> {
        // Version, header length; more fragments, fragment offset.
        const FIRST: u64 = u64::from_be_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]).to_be();
        const PLAIN: u64 = u64::from_be_bytes([0x45, 0, 0, 0, 0, 0, 0, 0]).to_be();
        let [first, second, rest] = Self::words(data.first_chunk()?);
        (first & FIRST == PLAIN).then_some(Self { front: second & Self::SECOND, rest })
    }

    /// Whether a packet is of the flow whose version, length of the header, and place among
    /// fragments are those of one that is.
    #[inline(always)]
    pub fn has_rest(self, data: &[u8; 24]) -> bool {
        let [_, second, rest] = Self::words(data);
        self == Self { front: second & Self::SECOND, rest }
    }

    #[inline(always)]
    fn words(data: &[u8; 24]) -> [u64; 3] {
        let (words, _) = data.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
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
