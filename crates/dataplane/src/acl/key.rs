//! Fields of a packet that an entry can match.
//!
//! ```text
//!   IPv4 │ source 32, destination 32 │ rest │ flags │ 0 │
//!   IPv6 │ source 128 │ destination 128     │ rest │ flags │ 0 │ 0 │
//!
//!   rest    protocol, ports, message: as selectors see them (`classify`)
//!   flags   │ later fragment 1 │ TCP flags are seen 1 │ TCP flags 8 │ DSCP 6 │
//! ```

use crate::classify::{Direction, Plain4, Seen, read as read_selected};
use ferrule_base::DropReason;
use ferrule_wire::{FromBytes, Protocol, ipv4, ipv6, ipv6ext};

/// Position of the TCP flags in `flags`.
pub const TCP_AT: u32 = 6;
/// TCP flags are seen.
pub const TCP_SEEN: u16 = 1 << 14;
/// A later fragment.
pub const LATER: u16 = 1 << 15;

/// Offset of the flags in a TCP header.
const TCP_FLAGS_AT: usize = 13;

/// The key of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct V4(pub [u64; 4]);

/// The key of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct V6(pub [u64; 8]);

/// A key of either family.
pub enum Key {
    V4(V4),
    V6(V6),
}

impl AsRef<[u64; 4]> for V4 {
    #[inline(always)]
    fn as_ref(&self) -> &[u64; 4] {
        &self.0
    }
}

impl AsRef<[u64; 8]> for V6 {
    #[inline(always)]
    fn as_ref(&self) -> &[u64; 8] {
        &self.0
    }
}

impl V4 {
    /// Placeholder of a key.
    pub const NONE: Self = Self([0; 4]);

    /// The key of an IPv4 packet without options that is no later fragment and shows its
    /// ports, and TCP flags if it is TCP.
    #[inline(always)]
    pub fn plain(packet: &[u8]) -> Option<Self> {
        let plain = Plain4::read(packet, Direction::Outbound)?;
        let tcp = match Protocol(packet[9]) {
            Protocol::TCP => Some(*packet.get(ipv4::Header::LEN + TCP_FLAGS_AT)?),
            _ => None,
        };
        let [ends, rest] = plain.key.words;
        Some(Self([ends, rest, flags(plain.class, tcp).into(), 0]))
    }
}

/// The flags of a packet that is no later fragment.
#[inline(always)]
fn flags(class: u8, tcp: Option<u8>) -> u16 {
    u16::from(class >> 2) | tcp.map_or(0, |tcp| TCP_SEEN | u16::from(tcp) << TCP_AT)
}

/// Reads the IP packet at the front of `packet`.
pub fn read(packet: &[u8]) -> Result<Key, DropReason> {
    match read_selected(packet, Direction::Outbound)? {
        Seen::V4(key) => {
            const MORE: u16 = 0x2000;
            let (header, _) =
                ipv4::Header::ref_from_prefix(packet).map_err(|_| DropReason::Malformed)?;
            let fragment = header.fragment.get();
            let piece = Piece { offset: fragment & 0x1fff, more: fragment & MORE != 0 };
            let behind = packet.get(header.header_len()..);
            let flags = upper(header.tos, piece, header.protocol(), behind)?;
            let [ends, rest] = key.words;
            Ok(Key::V4(V4([ends, rest, flags, 0])))
        }
        Seen::V6(mut key) => {
            let (header, payload) =
                ipv6::Header::ref_from_prefix(packet).map_err(|_| DropReason::Malformed)?;
            let behind = ipv6ext::walk(header.next(), payload).map_err(DropReason::from)?;
            let piece = behind.fragment.map_or(Piece::default(), |fragment| Piece {
                offset: fragment.offset,
                more: fragment.more,
            });
            let class = (header.version_class_flow.get() >> 20) as u8;
            key.words[5] = upper(class, piece, behind.protocol, payload.get(behind.offset..))?;
            Ok(Key::V6(V6(key.words)))
        }
    }
}

/// Position of a fragment in its datagram; the default is a whole datagram.
#[derive(Clone, Copy, Default)]
struct Piece {
    /// Offset of the fragment, in units of eight octets.
    offset: u16,
    more: bool,
}

/// The flags of a packet with this upper layer. A fragment that would hide the TCP flags, or
/// write them anew behind an entry's back, is refused (RFC 1858 section 3, RFC 3128).
fn upper(
    class: u8,
    piece: Piece,
    protocol: Protocol,
    header: Option<&[u8]>,
) -> Result<u64, DropReason> {
    let tcp = protocol == Protocol::TCP;
    if piece.offset != 0 {
        let rewrites = tcp && piece.offset == 1;
        let later = u64::from(flags(class, None) | LATER);
        return if rewrites { Err(DropReason::FragmentTiny) } else { Ok(later) };
    }
    let seen = header.and_then(|header| header.get(TCP_FLAGS_AT).copied()).filter(|_| tcp);
    if tcp && seen.is_none() && piece.more {
        return Err(DropReason::FragmentTiny);
    }
    Ok(flags(class, seen).into())
}
