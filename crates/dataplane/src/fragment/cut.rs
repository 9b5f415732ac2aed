//! Packets into fragments: IPv4 (RFC 791 section 3.2, RFC 1812 section 4.2.2.7),
//! and IPv6 where it was made here (RFC 8200 section 4.5).
//!
//! The packet itself becomes the first fragment; the others get a header of
//! their own, in IPv4 with those options that are copied into every fragment, in
//! IPv6 with the headers that routers read.
//!
//! ```text
//!   │ IPv6 │ hop-by-hop, routing │ rest …                         │
//!   │ IPv6 │ hop-by-hop, routing │ fragment 0+  │ rest, part 1 │
//!   │ IPv6 │ hop-by-hop, routing │ fragment 1232 │ rest, part 2 │
//! ```

use crate::graph::Ctx;
use arrayvec::ArrayVec;
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::ip::Options;
use ferrule_wire::{EtherType, Protocol, icmpext, ipv4, ipv6, ipv6ext, mpls};
use std::slice::Chunks;

/// Fragments that one packet becomes at most.
pub const FRAGMENTS_MAX: usize = 128;

/// The fragments behind the first one, in reverse order.
pub type Rest = ArrayVec<Packet, FRAGMENTS_MAX>;

/// Cuts a packet longer than `mtu`, which may be fragmented, into pieces that are not; the
/// caller has seen that it may be. In a label stack, the packet behind the labels is cut,
/// and each piece gets them (RFC 3032 section 3.4). On an error `packet` is whole.
pub fn cut(
    ctx: &mut Ctx<'_>,
    packet: &mut Packet,
    mtu: usize,
    rest: &mut Rest,
) -> Result<(), DropReason> {
    if packet.meta().ethertype != EtherType::MPLS.0 {
        return cut_ip(ctx, packet, mtu, rest);
    }
    let (_, behind) = mpls::Stack::parse(packet.data()).map_err(DropReason::from)?;
    let labels = packet.len() - behind.len();
    let stack: ArrayVec<u8, { icmpext::STACK_MAX }> =
        packet.data()[..labels].iter().copied().collect();
    packet.strip(labels);
    cut_ip(ctx, packet, mtu, rest)?;
    for piece in rest.iter_mut().chain([packet]) {
        piece.prepend(labels).ok_or(DropReason::NoRoom)?.copy_from_slice(&stack);
    }
    Ok(())
}

/// The same for an IP packet.
fn cut_ip(
    ctx: &mut Ctx<'_>,
    packet: &mut Packet,
    mtu: usize,
    rest: &mut Rest,
) -> Result<(), DropReason> {
    match packet.data().first().map(|b| b >> 4) {
        Some(4) => cut_v4(ctx, packet, mtu, rest),
        Some(6) => cut_v6(ctx, packet, mtu, rest),
        _ => Err(DropReason::TooBig),
    }
}

fn cut_v4(
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
    if payload_len <= piece {
        // The excess octets stand behind the packet.
        packet.truncate(header_len + payload_len);
        return Ok(());
    }
    if usize::from(whole.fragment_offset) * 8 + payload_len > usize::from(u16::MAX) {
        // A fragment that reaches beyond any datagram.
        return Err(DropReason::Malformed);
    }
    let options = copied(&whole.options);
    let later = ipv4::Repr { options, ..whole };
    behind_first(ctx, packet, payload.chunks(piece), later.len(), rest, |room, nth, len| {
        let start = nth * piece;
        let more_fragments = whole.more_fragments || start + len < payload_len;
        let fragment_offset = whole.fragment_offset + (start / 8) as u16;
        ipv4::Repr { payload_len: len as u16, fragment_offset, more_fragments, ..later }.emit(room);
    })?;
    let first = ipv4::Repr { payload_len: piece as u16, more_fragments: true, ..whole };
    first.emit(packet.data_mut());
    packet.truncate(header_len + piece);
    Ok(())
}

/// A packet that has no fragment header yet.
fn cut_v6(
    ctx: &mut Ctx<'_>,
    packet: &mut Packet,
    mtu: usize,
    rest: &mut Rest,
) -> Result<(), DropReason> {
    let (_, total) = ipv6::validate(packet.data()).map_err(DropReason::from)?;
    let Front { named, end } = Front::of(packet.data()).ok_or(DropReason::TooBig)?;
    // RFC 8200 section 4.5: different for packets that follow one another, and for those
    // of other workers.
    let ident = u32::from(ctx.worker) << 24 ^ (ctx.tally.made as u32).wrapping_mul(0x9e37_79b9);
    let payload_len = total - end;
    let piece = mtu.saturating_sub(end + ipv6ext::Header::LEN) & !7;
    if piece == 0 || payload_len.div_ceil(piece) > FRAGMENTS_MAX {
        return Err(DropReason::TooBig);
    }
    let next = Protocol(packet.data().get(named).copied().ok_or(DropReason::Malformed)?);
    let header =
        |offset: usize, more| ipv6ext::Repr { next, offset: (offset / 8) as u16, more, ident };
    if packet.head_room() < ipv6ext::Header::LEN {
        return Err(DropReason::NoRoom);
    }
    let (front, all) = packet
        .data()
        .get(..total)
        .and_then(|data| data.split_at_checked(end))
        .ok_or(DropReason::Malformed)?;
    let header_len = end + ipv6ext::Header::LEN;
    behind_first(ctx, packet, all.chunks(piece), header_len, rest, |room, nth, len| {
        let start = nth * piece;
        room[..end].copy_from_slice(front);
        header(start, start + len < payload_len).emit(&mut room[end..]);
        name(room, named, header_len + len);
    })?;
    packet.prepend(ipv6ext::Header::LEN).ok_or(DropReason::NoRoom)?;
    let len = end + ipv6ext::Header::LEN + piece.min(payload_len);
    packet.truncate(len);
    let data = packet.data_mut();
    data.copy_within(ipv6ext::Header::LEN..ipv6ext::Header::LEN + end, 0);
    header(0, !rest.is_empty()).emit(&mut data[end..]);
    name(data, named, len);
    Ok(())
}

/// Names the fragment header, and says how long a fragment is, whose IPv6 header
/// is there.
fn name(data: &mut [u8], named: usize, len: usize) {
    data[named] = Protocol::FRAGMENT.0;
    let payload = (len - ipv6::Header::LEN) as u16;
    data[4..6].copy_from_slice(&payload.to_be_bytes());
}

/// The unfragmentable part of an IPv6 packet, with which every fragment begins.
struct Front {
    /// The octet that names the following header.
    named: usize,
    /// Its end.
    end: usize,
}

impl Front {
    /// The IPv6 header, and the headers up to hop-by-hop options or the routing header.
    /// Nothing if there is a fragment header already.
    fn of(data: &[u8]) -> Option<Self> {
        let mut front = Self { named: 6, end: ipv6::Header::LEN };
        let (mut named, mut at) = (front.named, front.end);
        for _ in 0..ipv6ext::MAX_HEADERS {
            let kind = Protocol(*data.get(named)?);
            match kind {
                Protocol::FRAGMENT => return None,
                Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {}
                _ => return Some(front),
            }
            (named, at) = (at, at + (usize::from(*data.get(at + 1)?) + 1) * 8);
            if kind != Protocol::DESTINATION {
                front = Self { named, end: at };
            }
        }
        None
    }
}

/// Makes a fragment of each piece but the first, from the back; `write` puts the header in
/// front of the octets of a piece, by its number and length. Without some of them the others
/// are of no use.
fn behind_first(
    ctx: &mut Ctx<'_>,
    packet: &Packet,
    pieces: Chunks<'_, u8>,
    header_len: usize,
    rest: &mut Rest,
    write: impl Fn(&mut [u8], usize, usize),
) -> Result<(), DropReason> {
    let mut made = |(nth, octets): (usize, &[u8])| {
        let mut fragment = ctx.cache.packet().ok_or(DropReason::NoBuffer)?;
        let room = fragment.append(header_len + octets.len()).ok_or(DropReason::NoRoom)?;
        write(room, nth, octets.len());
        room[header_len..].copy_from_slice(octets);
        *fragment.meta_mut() = *packet.meta();
        rest.try_push(fragment).map_err(|_| DropReason::TooBig)
    };
    let octets: usize = pieces.clone().skip(1).map(<[u8]>::len).sum();
    if let Err(reason) = pieces.enumerate().skip(1).rev().try_for_each(&mut made) {
        rest.drain(..).for_each(|fragment| ctx.cache.recycle(fragment));
        return Err(reason);
    }
    ctx.tally.made += rest.len() as u64;
    ctx.tally.work.copied.packets += rest.len() as u64;
    ctx.tally.work.copied.octets += octets as u64;
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
