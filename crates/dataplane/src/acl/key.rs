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
use std::hint::select_unpredictable;

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

    /// Reads an IPv4 packet without options that is no later fragment and shows its ports, and
    /// TCP flags if it is TCP. False, and nothing is read, for any other.
    #[inline(always)]
    pub fn read_plain(&mut self, packet: &[u8]) -> bool {
        let Some(plain) = Plain4::read(packet, Direction::Outbound) else { return false };
        let [ends, rest] = plain.key.words;
        let is_tcp = Protocol(rest as u8) == Protocol::TCP;
        // (TCP and others come in any order: no branch between them.)
        let tcp = match packet.get(ipv4::Header::LEN + TCP_FLAGS_AT) {
            Some(&octet) => select_unpredictable(is_tcp, seen(octet), 0),
            None if is_tcp => return false,
            None => 0,
        };
        let Self([a, b, c, _]) = self;
        (*a, *b, *c) = (ends, rest, u64::from(plain.class >> 2) | tcp);
        true
    }
}

/// TCP flags that are seen.
#[inline(always)]
fn seen(octet: u8) -> u64 {
    u64::from(TCP_SEEN) | u64::from(octet) << TCP_AT
}

/// The flags of a packet that is no later fragment.
fn flags(class: u8, tcp: Option<u8>) -> u64 {
    u64::from(class >> 2) | tcp.map_or(0, seen)
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
        let later = flags(class, None) | u64::from(LATER);
        return if rewrites { Err(DropReason::FragmentTiny) } else { Ok(later) };
    }
    let octet = header.and_then(|header| header.get(TCP_FLAGS_AT).copied()).filter(|_| tcp);
    if tcp && octet.is_none() && piece.more {
        return Err(DropReason::FragmentTiny);
    }
    Ok(flags(class, octet))
}
