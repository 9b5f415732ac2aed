//! Data under AH's ICV, laid out so that an engine can process it in place.
//!
//! ```text
//!   in the head room                                           in the tail room
//!   ┌───────────────┬───────────────┬────────────┬───────────┬─────┐
//!   │ headers, kept │ headers, muted│ AH, ICV = 0│ payload … │ ICV │
//!   └───────────────┴───────────────┴────────────┴───────────┴─────┘
//!                   │◀──────────── under the ICV ───────────▶│
//! ```
//! The headers' copy is put back once the engine is through. Nothing is allocated.

use super::state::Shape;
use ferrule_base::DropReason;
use ferrule_crypto::{Job, Span};
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{FromBytes, Malformed, Protocol, ah, foretell, ipv4, ipv6, ipv6ext};

/// Where AH goes, or is, in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Octets of the headers in front of it.
    pub head: usize,
    /// Where in them the field is that names AH.
    pub next_at: usize,
    /// Protocol that follows those headers.
    pub next: Protocol,
    /// True for IPv6.
    pub v6: bool,
}

impl Place {
    /// Where the next header field of an outer header is.
    pub const fn outer(v6: bool, next: Protocol) -> Self {
        match v6 {
            true => Self { head: ipv6::Header::LEN, next_at: 6, next, v6 },
            false => Self { head: ipv4::Header::LEN, next_at: 9, next, v6 },
        }
    }

    /// Where AH goes in transport mode (RFC 4302 section 3.1.1): behind IPv4 options
    /// and behind those extension headers that are for the way.
    pub fn transport(packet: &[u8]) -> Result<Self, DropReason> {
        match packet.first().map(|b| b >> 4) {
            Some(4) => {
                let (h, _) =
                    ipv4::Header::ref_from_prefix(packet).map_err(|_| DropReason::Malformed)?;
                if h.is_fragment() {
                    return Err(DropReason::FragmentNotSupported);
                }
                if h.header_len() < ipv4::Header::LEN || h.header_len() > packet.len() {
                    return Err(DropReason::Malformed);
                }
                Ok(Self { head: h.header_len(), next_at: 9, next: h.protocol(), v6: false })
            }
            Some(6) => {
                let (h, payload) =
                    ipv6::Header::ref_from_prefix(packet).map_err(|_| DropReason::Malformed)?;
                Self::behind(ipv6ext::front(h.next(), payload)?)
            }
            _ => Err(DropReason::Malformed),
        }
    }

    /// Where AH is in a packet that was received, `at` octets behind its front.
    pub fn found(packet: &[u8], at: usize) -> Result<Self, DropReason> {
        let v6 = packet.first().is_some_and(|b| b >> 4 == 6);
        if !v6 {
            return Ok(Self { head: at, next_at: 9, next: Protocol::AH, v6 });
        }
        let (h, payload) =
            ipv6::Header::ref_from_prefix(packet).map_err(|_| DropReason::Malformed)?;
        let len = at.checked_sub(ipv6::Header::LEN).ok_or(DropReason::Malformed)?;
        Self::behind(ipv6ext::front_of(h.next(), payload, len)?)
    }

    /// Behind these IPv6 headers, if they do not say that it is a fragment.
    const fn behind(front: ipv6ext::Front) -> Result<Self, DropReason> {
        if front.is_fragment {
            return Err(DropReason::FragmentNotSupported);
        }
        let head = ipv6::Header::LEN + front.len;
        Ok(Self { head, next_at: front.field, next: front.next, v6: true })
    }

    /// The addresses in the headers at the front of `packet`.
    pub fn ends(&self, packet: &[u8]) -> Option<Ends> {
        match self.v6 {
            true => Some(ipv6::Header::ref_from_prefix(packet).ok()?.0.ends()),
            false => Some(ipv4::Header::ref_from_prefix(packet).ok()?.0.ends()),
        }
    }

    /// Makes the length of the packet good in the headers at the front of `packet`,
    /// names what follows them, and repairs the checksum.
    pub fn rename(&self, packet: &mut [u8], len: usize, next: Protocol) -> Option<()> {
        *packet.get_mut(self.next_at)? = next.0;
        if self.v6 {
            let len = u16::try_from(len.checked_sub(ipv6::Header::LEN)?).ok()?;
            packet.get_mut(4..6)?.copy_from_slice(&len.to_be_bytes());
        } else {
            let len = u16::try_from(len).ok()?;
            packet.get_mut(2..4)?.copy_from_slice(&len.to_be_bytes());
            packet.get(..self.head)?;
            ipv4::fill_checksum(packet);
        }
        Some(())
    }
}

/// End of the path at which an ICV is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Mutable fields have to be predicted as they will arrive.
    Sender,
    /// The headers are as they arrived.
    Receiver,
}

/// Keeps the headers in front of AH and mutes them. `data` starts with the room for
/// the copy.
pub(super) fn cover(data: &mut [u8], place: Place, at: At) -> Result<(), Malformed> {
    let (kept, rest) = data.split_at_mut_checked(place.head).ok_or(Malformed::Truncated)?;
    let headers = rest.get_mut(..place.head).ok_or(Malformed::Truncated)?;
    kept.copy_from_slice(headers);
    match (place.v6, at) {
        (false, At::Sender) => foretell::arrived_v4(headers)?,
        (true, At::Sender) => foretell::arrived_v6(headers)?,
        _ => {}
    }
    if place.v6 { foretell::muted_v6(headers) } else { foretell::muted_v4(headers) }
}

/// Spans of a job for a packet of `len` octets behind the copy: the packet, and an empty
/// text behind it, where the engine has its ICV.
pub(super) const fn spans(head: usize, len: usize) -> (Span, Span) {
    (Span::new(head, len), Span::new(head + len, 0))
}

/// Puts headers, IV and ICV where they belong and takes copy and tail away; nothing is
/// left of [`cover`] then. `head` is the copy's length.
pub(super) fn uncover(packet: &mut Packet, job: &Job<()>, head: usize, shape: Shape) -> Option<()> {
    let (icv, end) = (usize::from(shape.icv), job.text.end());
    let icv_at = 2 * head + shape.icv_at();
    let data = packet.data_mut();
    data.get(..head)?;
    data.copy_within(..head, head);
    data.get(end..end + icv)?;
    let field = data.get_mut(2 * head + ah::Header::LEN..icv_at + icv)?;
    if shape.iv != 0 {
        *field.first_chunk_mut()? = *job.nonce.last_chunk::<8>()?;
    }
    data.copy_within(end..end + icv, icv_at);
    packet.truncate(end);
    packet.strip(head).then_some(())
}

/// Writes AH with nothing but zeros behind its fixed part to `room`, which is as long as
/// it is with IV, ICV and padding.
pub(super) fn emit(room: &mut [u8], next: Protocol, spi: u32, number: u64) -> Option<()> {
    let icv_len = room.len().checked_sub(ah::Header::LEN)? as u16;
    room.fill(0);
    ah::Repr { next, icv_len, spi, seq: number as u32 }.emit(room);
    Some(())
}
