//! Position, size and datagram of one fragment, read from its headers.

use super::HEADERS_MAX;
use crate::graph::{FLAG_ONWARDS, FLAG_OPENED};
use ferrule_base::DropReason;
use ferrule_pipeline::{Meta, Packet};
use ferrule_wire::{EtherType, FromBytes, Protocol, ipv4, ipv6, ipv6ext};

/// The longest datagram's payload.
const REACH_MAX: usize = u16::MAX as usize;

/// Octets of a TCP header up to its flags and window: a first fragment that has
/// fewer hides them (RFC 3128 section 3).
const TCP_MIN: usize = 16;

/// ICMPv6 parameter problem, erroneous header field.
const WRONG_FIELD: u16 = 4 << 8;
/// Offset of the payload length in an IPv6 header.
const PAYLOAD_LEN_AT: u16 = 4;

/// Identity of a fragment's datagram, and the path of the fragment: fragments of different
/// paths never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    src: u128,
    dst: u128,
    /// Identification; of IPv4 with version and protocol in front.
    ident: u64,
    /// Routing table, and the SA or adjacency.
    way: u64,
}

impl Key {
    /// A number that keys differ in, as a rule; never zero.
    pub fn tag(&self) -> u64 {
        let mut mix = 0x9e37_79b9_7f4a_7c15_u64;
        let words = [self.src, self.dst].map(|a| a as u64 ^ (a >> 64) as u64);
        for word in words.into_iter().chain([self.ident, self.way]) {
            let wide = u128::from(mix ^ word) * 0xd6e8_feb8_6659_fd93;
            mix = wide as u64 ^ (wide >> 64) as u64;
        }
        mix | 1
    }

    /// Whom to hold to account: an IPv4 address, or an IPv6 /64, of which one host
    /// has every address.
    pub const fn source(&self) -> u64 {
        match self.src >> 64 {
            0 => self.src as u64,
            prefix => prefix as u64,
        }
    }
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub key: Key,
    /// Octets of headers in front of its data, a fragment header included.
    pub header: usize,
    /// Offset of its data in the datagram, in octets.
    pub offset: usize,
    /// Octets of data, at least one.
    pub len: usize,
    /// Others follow.
    pub more: bool,
    /// The two bits of ECN.
    pub ecn: u8,
}

/// Error in a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The fragment is dropped.
    Drop(DropReason),
    /// Its sender is told: type and code, pointer.
    Tell(u16, u16),
}

impl From<DropReason> for Fault {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl Piece {
    /// Reads the fragment that stands in front of a packet.
    pub fn read(packet: &Packet) -> Result<Self, Fault> {
        let way = way(packet.meta());
        match EtherType(packet.meta().ethertype) {
            EtherType::IPV4 => Self::v4(packet.data(), way).map_err(Fault::Drop),
            EtherType::IPV6 => Self::v6(packet.data(), way),
            _ => Err(DropReason::UnknownProtocol.into()),
        }
    }

    /// End of its data in the datagram.
    pub const fn end(&self) -> usize {
        self.offset + self.len
    }

    fn v4(data: &[u8], way: u64) -> Result<Self, DropReason> {
        let (h, header, total) = ipv4::validate(data).map_err(DropReason::from)?;
        let field = h.fragment.get();
        let word = u64::from(h.protocol) << 32 | u64::from(h.ident.get());
        let piece = Self {
            key: Key {
                src: u32::from_be_bytes(h.src).into(),
                dst: u32::from_be_bytes(h.dst).into(),
                ident: 4 << 60 | word,
                way,
            },
            header,
            offset: usize::from(field & 0x1fff) * 8,
            len: total - header,
            more: field & 0x2000 != 0,
            ecn: h.tos & 3,
        };
        let whole_units = !piece.more || piece.len.is_multiple_of(8);
        if piece.len == 0 || !whole_units || header + piece.end() > REACH_MAX {
            return Err(DropReason::Malformed);
        }
        // RFC 1858, RFC 3128: the fields that rules about ports and flags look at are in
        // one piece, the first, and are not overwritten by another.
        let first = piece.offset == 0 && piece.len < TCP_MIN;
        if h.protocol() == Protocol::TCP && (first || piece.offset == 8) {
            return Err(DropReason::FragmentTiny);
        }
        Ok(piece)
    }

    fn v6(data: &[u8], way: u64) -> Result<Self, Fault> {
        let (h, total) = ipv6::validate(data).map_err(DropReason::from)?;
        let place = Place::of(data).ok_or(DropReason::Malformed)?;
        let behind = data.get(place.fragment..total).unwrap_or_default();
        let (fragment, rest) = ipv6ext::Repr::parse(behind).map_err(DropReason::from)?;
        let header = place.fragment + ipv6ext::Header::LEN;
        let piece = Self {
            key: Key {
                src: u128::from_be_bytes(h.src),
                dst: u128::from_be_bytes(h.dst),
                ident: 6 << 60 | u64::from(fragment.ident),
                way,
            },
            header,
            offset: usize::from(fragment.offset) * 8,
            len: rest.len(),
            more: fragment.more,
            ecn: h.traffic_class() & 3,
        };
        if piece.len == 0 {
            return Err(DropReason::Malformed.into());
        }
        if piece.more && !piece.len.is_multiple_of(8) {
            return Err(Fault::Tell(WRONG_FIELD, PAYLOAD_LEN_AT));
        }
        if place.fragment - ipv6::Header::LEN + piece.end() > REACH_MAX {
            return Err(Fault::Tell(WRONG_FIELD, place.fragment as u16 + 2));
        }
        if header > HEADERS_MAX {
            return Err(DropReason::IpOption.into());
        }
        if piece.offset == 0 && !has_whole_chain(fragment.next, rest) {
            return Err(DropReason::FragmentTiny.into());
        }
        Ok(piece)
    }
}

/// Key of a fragment's path: only fragments that arrived in the same way, or leave in the
/// same way, belong together.
const fn way(meta: &Meta) -> u64 {
    let vrf = (meta.vrf.0 as u64) << 40;
    if meta.flags & FLAG_ONWARDS != 0 {
        vrf | 2 << 32 | meta.adjacency as u64
    } else if meta.flags & FLAG_OPENED != 0 {
        vrf | 1 << 32 | meta.opened as u64
    } else {
        vrf
    }
}

/// True if the first fragment has every header up to the upper layer's, and of that header
/// the octets that are looked at (RFC 7112 section 5).
fn has_whole_chain(next: Protocol, rest: &[u8]) -> bool {
    let Ok(upper) = ipv6ext::walk(next, rest) else { return false };
    let need = match upper.protocol {
        Protocol::NONE => 0,
        Protocol::TCP => TCP_MIN,
        _ => 8,
    };
    rest.len() >= upper.offset + need
}

/// Positions of an IPv6 packet's fragment header, and of the octet that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The next header field in front.
    pub named: usize,
    /// The fragment header.
    pub fragment: usize,
}

impl Place {
    /// Steps over the headers of the unfragmentable part.
    pub fn of(data: &[u8]) -> Option<Self> {
        let (mut named, mut at) = (6, ipv6::Header::LEN);
        for _ in 0..=ipv6ext::MAX_HEADERS {
            match Protocol(*data.get(named)?) {
                Protocol::FRAGMENT => return Some(Self { named, fragment: at }),
                Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {
                    named = at;
                    at += (usize::from(*data.get(at + 1)?) + 1) * 8;
                }
                _ => return None,
            }
        }
        None
    }

    /// Removes the fragment header of a whole datagram: the protocol that it named is named
    /// in front of it, and the payload length becomes that of the rest.
    pub fn take_off(self, packet: &mut Packet) -> Option<()> {
        let Self { named, fragment } = self;
        let data = packet.data_mut();
        let next = *data.get(fragment)?;
        data.get(..fragment + ipv6ext::Header::LEN)?;
        *data.get_mut(named)? = next;
        data.copy_within(..fragment, ipv6ext::Header::LEN);
        packet.strip(ipv6ext::Header::LEN);
        let payload = u16::try_from(packet.len().checked_sub(ipv6::Header::LEN)?).ok()?;
        let (header, _) = ipv6::Header::mut_from_prefix(packet.data_mut()).ok()?;
        header.payload_len = payload.into();
        Some(())
    }
}

/// Takes the fragment header off a packet that is a whole datagram in one fragment
/// (RFC 6946), and says whether there was one.
pub fn take_off_atomic(packet: &mut Packet) -> bool {
    let data = packet.data();
    if data.first().is_none_or(|first| first >> 4 != 6) {
        return false;
    }
    let Some(place) = Place::of(data) else { return false };
    let header = data.get(place.fragment..).unwrap_or_default();
    let atomic = ipv6ext::Repr::parse(header).is_ok_and(|(fragment, _)| fragment.is_atomic());
    atomic && place.take_off(packet).is_some()
}
