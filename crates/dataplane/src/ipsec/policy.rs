//! The stage at the boundary: what leaves sealed, in clear, or not at all
//! (RFC 4301 section 5.1).

use super::config::Action;
use crate::graph::{Ctx, FLAG_EXEMPT, Next, Stage};
use crate::tables::{IfaceKind, Tables};
use ferrule_base::DropReason;
use ferrule_pipeline::{Batch, Packet};

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
    #[inline]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch) {
        ctx.tally.work.lookups += batch.len() as u64;
        let mut last = Last::NOTHING;
        for mut packet in batch.drain(..) {
            if last.serves(&packet) {
                packet.meta_mut().target = last.sa;
                ctx.out.send(Next::EspOut, packet);
            } else {
                last = decide(ctx, packet);
            }
        }
    }
}

/// The flow of the packet before, if an SA of this worker seals it.
#[derive(Clone, Copy)]
struct Last {
    flow: Flow4,
    adjacency: u32,
    sa: u32,
}

impl Last {
    /// Protocol zero with addresses of zeros: no packet comes from there.
    const NOTHING: Self = Self { flow: Flow4 { front: 0, rest: 0 }, adjacency: u32::MAX, sa: 0 };

    #[inline(always)]
    fn serves(&self, packet: &Packet) -> bool {
        let meta = packet.meta();
        meta.target == self.adjacency
            && meta.flags & FLAG_EXEMPT == 0
            && Flow4::of(packet.data()).is_some_and(|flow| flow == self.flow)
    }
}

/// Steps 1 to 4; what it says of others of the same flow.
fn decide(ctx: &mut Ctx<'_>, mut packet: Packet) -> Last {
    // 1
    let adjacency = packet.meta().target;
    if packet.meta().flags & FLAG_EXEMPT != 0 {
        ctx.out.send(Next::Output, packet);
        return Last::NOTHING;
    }
    // 2
    let Some(policy) = policy_of(ctx.tables, adjacency) else {
        ctx.out.send(Next::Output, packet);
        return Last::NOTHING;
    };
    // 3
    let spd = ctx.tables.policies.get(usize::from(policy));
    match spd.map_or(Ok(Action::Discard), |spd| spd.outbound(packet.data())) {
        Ok(Action::Protect(sa)) => {
            let flow = Flow4::of(packet.data());
            packet.meta_mut().target = sa;
            // 4
            match ctx.tables.sas.outbound(sa) {
                Some(worker) if worker == ctx.worker => {
                    ctx.out.send(Next::EspOut, packet);
                    return flow.map_or(Last::NOTHING, |flow| Last { flow, adjacency, sa });
                }
                Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
                None => ctx.out.drop(packet, DropReason::EspNoSa),
            }
        }
        Ok(Action::Bypass) => ctx.out.send(Next::Output, packet),
        Ok(Action::Discard) => ctx.out.drop(packet, DropReason::PolicyDiscard),
        Err(reason) => ctx.out.drop(packet, reason),
    }
    Last::NOTHING
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

/// The policy's number, by way of the interface. An adjacency that is not there
/// has the policy that is not there: nothing passes.
fn policy_of(tables: &Tables, adjacency: u32) -> Option<u16> {
    let adjacency = tables.adjacencies.get(adjacency as usize);
    match adjacency.and_then(|a| tables.ifaces.get(usize::from(a.iface))).map(|i| &i.kind) {
        Some(IfaceKind::Routed(routed)) => routed.policy,
        _ => Some(u16::MAX),
    }
}
