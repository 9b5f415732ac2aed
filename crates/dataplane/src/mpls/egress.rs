//! From an attachment circuit into a pseudowire (RFC 4448).
//!
//! ```text
//!   PW label, S, TTL │ 0000, reserved │ sequence │ frame without FCS
//!                    └── control word, if any ──┘
//! ```

use super::config::{Pseudowire, PwMode};
use super::state::{self, Counts};
use crate::graph::{Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::flow::{flow_hash, path_of_flow};
use ferrule_wire::{EtherType, ethernet, mpls};

/// The stage at [`Next::PwOut`].
#[derive(Default)]
pub struct PwOut {
    /// The number that each pseudowire sends next.
    counts: Counts,
}

impl Stage for PwOut {
    /// For each frame:
    ///
    /// 1. With sequence numbers: to the worker that counts.
    /// 2. In tagged mode its outer tag gets the pseudowire's VLAN ID.
    /// 3. Control word and label go in front; out by the adjacency, of several of equal cost
    ///    by that of the frame's flow. Frames with sequence numbers are all one flow.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let counts = &mut self.counts;
        ctx.forward(batch, |ctx, packet| {
            let (config, count) = counts.of(ctx, packet.meta().pw, Next::PwOut)?;
            let flow = if config.spreads { flow(config, packet) } else { 0 };
            encapsulate(config, count, packet)?;
            if config.spreads {
                spread(ctx.tables, flow, packet);
            }
            Ok(Next::Output)
        });
    }
}

/// The flow of a frame from the attachment circuit.
#[inline(never)]
fn flow(config: &Pseudowire, packet: &Packet) -> u32 {
    if config.sequencing { config.label_out } else { flow_hash(packet.data()) }
}

/// Chooses the path of an encapsulated frame, whose flow an entropy label will tell.
#[inline(never)]
fn spread(tables: &Tables, flow: u32, packet: &mut Packet) {
    let meta = packet.meta_mut();
    meta.hash = flow;
    if let Some((path, _)) = tables.path(meta.adjacency, |seed| path_of_flow(seed, flow)) {
        meta.adjacency = path;
    }
}

#[inline]
fn encapsulate(
    config: &Pseudowire,
    count: Option<&mut u16>,
    packet: &mut Packet,
) -> Result<(), DropReason> {
    if packet.len() < ethernet::Header::LEN {
        return Err(DropReason::Malformed);
    }
    if let PwMode::Tagged(vid) = config.mode
        && !tag::set_vid(packet, vid)
    {
        return Err(DropReason::PwTag);
    }
    let label = mpls::encode(config.label_out, 0, true, config.ttl);
    if config.control_word {
        let front = packet.prepend(Pseudowire::overhead(true));
        let front = front.and_then(|f| f.first_chunk_mut::<8>()).ok_or(DropReason::NoRoom)?;
        // A number is used up only by a frame that leaves.
        let sequence = count.map_or(0, state::take).to_be_bytes();
        front[..4].copy_from_slice(&label);
        front[4..].copy_from_slice(&[0, 0, sequence[0], sequence[1]]);
    } else {
        let front = packet.prepend(Pseudowire::overhead(false));
        *front.and_then(|f| f.first_chunk_mut()).ok_or(DropReason::NoRoom)? = label;
    }
    let meta = packet.meta_mut();
    (meta.adjacency, meta.ethertype) = (config.adjacency, EtherType::MPLS.0);
    Ok(())
}
