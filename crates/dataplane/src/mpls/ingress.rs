//! From a pseudowire to its attachment circuit (RFC 4448, RFC 4385 section 4.2).

use super::config::{Pseudowire, PwMode};
use super::state::{self, Counts};
use crate::graph::{Aside, Ctx, Next, Stage};
use crate::link::tag;
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{FromBytes, ethernet, pw};

/// The stage at [`Next::PwIn`].
#[derive(Default)]
pub struct PwIn {
    /// The number that each pseudowire expects next.
    counts: Counts,
}

impl Stage for PwIn {
    /// For each packet:
    ///
    /// 1. With sequence numbers: to the worker that counts.
    /// 2. The control word is one, its number is in order, and it goes.
    /// 3. In tagged mode the service delimiting tag goes.
    /// 4. The interface's own tag goes on; by its access list, if it has one, out by its port.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let counts = &mut self.counts;
        ctx.forward(batch, |ctx, packet| {
            let (config, count) = counts.of(ctx, packet.meta().pw, Next::PwIn)?;
            decapsulate(ctx.tables, config, count, packet)
        });
    }
}

#[inline]
fn decapsulate(
    tables: &Tables,
    config: &Pseudowire,
    count: Option<&mut u16>,
    packet: &mut Packet,
) -> Result<Next, Aside> {
    let iface = tables.ifaces.get(usize::from(config.iface)).ok_or(DropReason::NotAttached)?;
    if config.control_word {
        control_word(count, packet)?;
    }
    if packet.len() < ethernet::Header::LEN {
        return Err(DropReason::Malformed.into());
    }
    let class = match config.mode {
        PwMode::Raw => 0,
        PwMode::Tagged(_) => tag::pop(packet).ok_or(DropReason::PwTag)?,
    };
    tag::tag_out(iface, class, packet)?;
    packet.meta_mut().port = iface.port;
    Ok(match iface.lists.outbound {
        Some(_) => {
            packet.meta_mut().iface = config.iface;
            Next::FrameAclOut
        }
        None => Next::Emit,
    })
}

/// Takes the control word off. Its first nibble is zero: one is the associated
/// channel, which is not kept here, and anything else no control word. The rest
/// of its upper half is reserved and not looked at (RFC 4448 section 4.6).
#[inline]
fn control_word(count: Option<&mut u16>, packet: &mut Packet) -> Result<(), DropReason> {
    let Ok((word, frame)) = pw::Header::ref_from_prefix(packet.data()) else {
        return Err(DropReason::Malformed);
    };
    if word.control.get() >> 12 != 0 {
        return Err(DropReason::ControlWord);
    }
    // A number counts only with a frame behind it.
    if frame.len() < ethernet::Header::LEN {
        return Err(DropReason::Malformed);
    }
    if let Some(expected) = count
        && !state::accept(expected, word.sequence.get())
    {
        return Err(DropReason::PwSequence);
    }
    packet.strip(pw::Header::LEN);
    Ok(())
}
