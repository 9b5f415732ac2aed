//! IPv4 fragmentation (RFC 791 section 3.2, RFC 1812 section 4.2.2.7).
//!
//! The packet itself becomes the first fragment; the others get a header of
//! their own with those options that are copied into every fragment.

use crate::graph::Ctx;
use arrayvec::ArrayVec;
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::ip::Options;
use ferrule_wire::ipv4;

/// Fragments that one packet becomes at most.
pub const FRAGMENTS_MAX: usize = 128;

/// The fragments behind the first one, in reverse order.
pub type Rest = ArrayVec<Packet, FRAGMENTS_MAX>;

/// Cuts a packet longer than `mtu`, which may be fragmented, into pieces that
/// are not; the caller has seen that it may be. On an error `packet` is whole.
pub fn cut(
    ctx: &mut Ctx<'_>,
    packet: &mut Packet,
    mtu: usize,
    rest: &mut Rest,
) -> Result<(), DropReason> {
    let (whole, payload) = ipv4::Repr::parse(packet.data()).map_err(DropReason::from)?;
    let (header_len, payload_len) = (whole.len(), payload.len());
    // RFC 791: all but the last are multiples of 8 octets.
    let piece = mtu.saturating_sub(header_len) & !7;
    if piece == 0 || payload_len.div_ceil(piece) > FRAGMENTS_MAX {
        return Err(DropReason::TooBig);
    }
    if usize::from(whole.fragment_offset) * 8 + payload_len > usize::from(u16::MAX) {
        // A fragment that reaches beyond any datagram.
        return Err(DropReason::Malformed);
    }
    let mut header = whole;
    header.options = copied(&whole.options);
    let mut end = payload_len;
    let mut made = || {
        // From the back, so that nothing of the packet is lost before all is done.
        while end > piece {
            let start = (end - 1) / piece * piece;
            let octets = payload.get(start..end).ok_or(DropReason::Malformed)?;
            header.payload_len = octets.len() as u16;
            header.fragment_offset = whole.fragment_offset + (start / 8) as u16;
            header.more_fragments = whole.more_fragments || end < payload_len;
            let mut fragment = ctx.cache.packet().ok_or(DropReason::NoBuffer)?;
            let room = fragment.append(header.len() + octets.len()).ok_or(DropReason::NoRoom)?;
            header.emit(room);
            room[header.len()..].copy_from_slice(octets);
            *fragment.meta_mut() = *packet.meta();
            rest.try_push(fragment).map_err(|_| DropReason::TooBig)?;
            end = start;
        }
        Ok(())
    };
    if let Err(reason) = made() {
        for fragment in rest.drain(..) {
            ctx.cache.recycle(fragment);
        }
        return Err(reason);
    }
    ctx.tally.made += rest.len() as u64;
    ctx.tally.work.copied.packets += rest.len() as u64;
    ctx.tally.work.copied.octets += (payload_len - piece.min(payload_len)) as u64;
    let first = ipv4::Repr { payload_len: piece as u16, more_fragments: true, ..whole };
    first.emit(packet.data_mut());
    packet.truncate(header_len + piece);
    Ok(())
}

/// The options that every fragment has: those with the copied bit (RFC 791
/// section 3.1), padded to whole words.
fn copied(options: &Options) -> Options {
    let mut kept = ArrayVec::<u8, 40>::new();
    let mut left = options.as_slice();
    while let &[kind, ..] = left {
        let len = match kind {
            // End of the list.
            0 => break,
            // No operation, of one octet, never copied.
            1 => 1,
            _ => left.get(1).map_or(left.len(), |&len| usize::from(len)).max(2),
        };
        let Some(option) = left.get(..len) else { break };
        if kind & 0x80 != 0 && kept.try_extend_from_slice(option).is_err() {
            break;
        }
        left = left.get(len..).unwrap_or_default();
    }
    while !kept.len().is_multiple_of(4) && kept.try_push(0).is_ok() {}
    Options::new(&kept).unwrap_or(Options::NONE)
}
