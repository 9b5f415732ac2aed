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
    /// 1. what is sealed already, or exempt, goes on to its adjacency;
    /// 2. the interface of the adjacency has the policy;
    /// 3. the first entry that matches decides, as for the packet before if this
    ///    one is of the same flow;
    /// 4. PROTECT goes to the worker that owns the SA.
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch) {
        // Runs of packets leave by one adjacency.
        let mut last = None;
        let mut decided: Option<(u16, Flow4, Action)> = None;
        for mut packet in batch.drain(..) {
            // 1
            let target = packet.meta().target;
            if packet.meta().flags & FLAG_EXEMPT != 0 {
                ctx.out.send(Next::Output, packet);
                continue;
            }
            // 2
            let policy = match last {
                Some((of, policy)) if of == target => policy,
                _ => policy_of(ctx.tables, target),
            };
            last = Some((target, policy));
            let Some(policy) = policy else {
                ctx.out.send(Next::Output, packet);
                continue;
            };
            // 3
            ctx.tally.work.lookups += 1;
            let flow = Flow4::of(packet.data());
            let action = match (&decided, &flow) {
                (Some((of, before, action)), Some(flow)) if *of == policy && before == flow => {
                    Ok(*action)
                }
                _ => {
                    let spd = ctx.tables.policies.get(usize::from(policy));
                    spd.map_or(Ok(Action::Discard), |spd| spd.outbound(packet.data()))
                }
            };
            decided = flow.zip(action.as_ref().ok()).map(|(flow, &action)| (policy, flow, action));
            match action {
                Ok(Action::Protect(sa)) => {
                    packet.meta_mut().target = sa;
                    protect(ctx, packet, sa);
                }
                Ok(Action::Bypass) => ctx.out.send(Next::Output, packet),
                Ok(Action::Discard) => ctx.out.drop(packet, DropReason::PolicyDiscard),
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
    }
}

/// All that a policy can ask of an IPv4 packet without options that is no
/// fragment: protocol, addresses, and the first four octets behind the header.
#[derive(PartialEq, Eq)]
struct Flow4 {
    protocol: u8,
    source: u32,
    /// Destination and ports.
    rest: u64,
}

impl Flow4 {
    #[inline]
    fn of(data: &[u8]) -> Option<Self> {
        let (words, _) = data.first_chunk::<24>()?.as_chunks::<8>();
        let [first, second, ports] = words else { return None };
        let (first, second) = (u64::from_be_bytes(*first), u64::from_be_bytes(*second));
        // Version, header length; more fragments, fragment offset.
        if first >> 56 != 0x45 || first & 0x3fff != 0 {
            return None;
        }
        let rest = u64::from_be_bytes(*ports);
        // The second word: TTL, protocol, checksum, source; then destination, ports.
        let (source, protocol) = (second & 0xffff_ffff, (second >> 48) as u8);
        Some(Self { protocol, source: source as u32, rest })
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

// 4
#[inline]
fn protect(ctx: &mut Ctx<'_>, packet: Packet, sa: u32) {
    match ctx.tables.sas.outbound(sa) {
        Some(worker) if worker == ctx.worker => ctx.out.send(Next::EspOut, packet),
        Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
        None => ctx.out.drop(packet, DropReason::EspNoSa),
    }
}
