//! IPv6 extension headers (RFC 8200 section 4), walked to the upper layer.
//!
//! ```text
//! IPv6 ─▶ hop-by-hop ─▶ routing ─▶ fragment ─▶ destination ─▶ upper layer
//!          each: next header (1), length (1), data; at most MAX_HEADERS
//! ```
//! [`Repr`] is the fragment header; of the others options are judged by their types
//! ([`unknown_option`]), and the rest is stepped over.

use crate::Malformed;
use crate::ip::Protocol;
use std::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Extension headers that are walked before a packet is given up.
pub const MAX_HEADERS: usize = 8;

/// Offset of the type field in a routing header.
pub const ROUTING_TYPE_AT: usize = 2;

/// The view of a fragment header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Protocol number of the following header.
    pub next: u8,
    /// Zero.
    pub reserved: u8,
    /// Offset in units of 8 octets in the high 13 bits, M in the lowest.
    pub offset_more: U16,
    /// Identification.
    pub ident: U32,
}

impl Header {
    /// Octets of a fragment header.
    pub const LEN: usize = 8;
}

/// A fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Protocol of the datagram's payload.
    pub next: Protocol,
    /// Place in the datagram in units of 8 octets (13 bits).
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification.
    pub ident: u32,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a fragment header. Its reserved bits have no meaning.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let field = h.offset_more.get();
        let repr = Self {
            next: Protocol(h.next),
            offset: field >> 3,
            more: field & 1 != 0,
            ident: h.ident.get(),
        };
        Ok((repr, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header {
            next: self.next.0,
            reserved: 0,
            offset_more: (self.offset << 3 | u16::from(self.more)).into(),
            ident: self.ident.into(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }

    /// A whole datagram in one fragment (RFC 6946).
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more { "+" } else { "" };
        write!(f, "frag {}{more} id {:#x}, {}", u32::from(self.offset) * 8, self.ident, self.next)
    }
}

/// End of the walk along the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// The first header that is not stepped over. For a fragment that is not the first one,
    /// the first header in the datagram's first fragment.
    pub protocol: Protocol,
    /// Offset of the upper-layer header, in octets after the IPv6 header.
    pub offset: usize,
    /// The fragment header, if there was one.
    pub fragment: Option<Repr>,
    /// Offset of the fragment header, in octets after the IPv6 header.
    pub fragment_at: usize,
    /// A hop-by-hop header was there.
    pub hop_by_hop: bool,
    /// Offset of a routing header with segments left, in octets after the IPv6 header: the
    /// packet has not reached its last destination.
    pub routing: Option<usize>,
}

/// Steps over the extension headers in the payload of an IPv6 packet whose header names
/// `next`. A walk ends at ESP and AH: the headers behind them are for IPsec to read.
#[inline]
pub fn walk(next: Protocol, payload: &[u8]) -> Result<Upper, Malformed> {
    let mut upper = Upper {
        protocol: next,
        offset: 0,
        fragment: None,
        fragment_at: 0,
        hop_by_hop: false,
        routing: None,
    };
    for nth in 0..=MAX_HEADERS {
        let rest = payload.get(upper.offset..).ok_or(Malformed::Truncated)?;
        match upper.protocol {
            // RFC 8200 section 4.1: hop-by-hop options come first or not at all.
            Protocol::HOP_BY_HOP if nth > 0 => return Err(Malformed::HeaderChain),
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {
                let &[next, len, _, left, ..] = rest else { return Err(Malformed::Truncated) };
                upper.hop_by_hop |= upper.protocol == Protocol::HOP_BY_HOP;
                if upper.protocol == Protocol::ROUTING && left != 0 {
                    upper.routing = Some(upper.offset);
                }
                upper.protocol = Protocol(next);
                upper.offset += (usize::from(len) + 1) * 8;
            }
            Protocol::FRAGMENT => {
                let (fragment, _) = Repr::parse(rest)?;
                upper.fragment = Some(fragment);
                upper.fragment_at = upper.offset;
                upper.protocol = fragment.next;
                upper.offset += Header::LEN;
                if fragment.offset != 0 {
                    return Ok(upper);
                }
            }
            _ => return Ok(upper),
        }
        if upper.offset > payload.len() {
            return Err(Malformed::Truncated);
        }
    }
    Err(Malformed::HeaderChain)
}

/// An option that is not known here and not to be skipped (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownOption {
    /// Offset of its type, in octets after the IPv6 header.
    pub offset: usize,
    /// Its type, whose two highest bits give the treatment: not zero.
    pub kind: u8,
}

impl UnknownOption {
    /// True if the sender is to be told with parameter problem, code 2, for a packet to a
    /// group or to one host.
    pub const fn is_told(kind: u8, to_group: bool) -> bool {
        match kind >> 6 {
            2 => true,
            3 => !to_group,
            _ => false,
        }
    }
}

/// The option without length or data.
const PAD1: u8 = 0;

/// The first option, in the headers that a node has to look at, that a node which does not
/// know it must not skip. (The options known here may all be skipped.) On the way that is
/// the hop-by-hop header alone; at the destination those with destination options, too, up
/// to the header of a fragment: the options behind it can be read once the datagram is
/// whole.
pub fn unknown_option(
    next: Protocol,
    payload: &[u8],
    at_destination: bool,
) -> Result<Option<UnknownOption>, Malformed> {
    let (mut next, mut at) = (next, 0);
    for nth in 0..=MAX_HEADERS {
        let rest = payload.get(at..).ok_or(Malformed::Truncated)?;
        let options = match next {
            Protocol::HOP_BY_HOP => nth == 0,
            Protocol::DESTINATION => at_destination,
            Protocol::ROUTING if at_destination => false,
            Protocol::FRAGMENT if at_destination && Repr::parse(rest)?.0.is_atomic() => {
                (next, at) = (Protocol(rest[0]), at + Header::LEN);
                continue;
            }
            _ => return Ok(None),
        };
        let &[following, words, ..] = rest else { return Err(Malformed::Truncated) };
        let len = (usize::from(words) + 1) * 8;
        let body = rest.get(2..len).ok_or(Malformed::Truncated)?;
        if options && let Some((offset, kind)) = unknown_in(body)? {
            return Ok(Some(UnknownOption { offset: at + 2 + offset, kind }));
        }
        (next, at) = (Protocol(following), at + len);
    }
    Err(Malformed::HeaderChain)
}

/// The first such option of a header's body, and where it begins there.
fn unknown_in(body: &[u8]) -> Result<Option<(usize, u8)>, Malformed> {
    let mut at = 0;
    // Each step is at least one octet of at most 2,046.
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        let len = match *rest {
            [PAD1, ..] => 1,
            [_, len, ..] if usize::from(len) + 2 <= rest.len() => usize::from(len) + 2,
            _ => return Err(Malformed::Length),
        };
        if rest[0] >> 6 != 0 {
            return Ok(Some((at, rest[0])));
        }
        at += len;
    }
    Ok(None)
}

/// The headers that stay in front of ESP or AH in transport mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Protocol of the header behind them.
    pub next: Protocol,
    /// Their octets, after the IPv6 header.
    pub len: usize,
    /// Offset of the next header field that names it, in octets of the packet.
    pub field: usize,
    /// One of them makes the packet a part of a datagram.
    pub is_fragment: bool,
}

impl Front {
    /// Offset of the next header field in the IPv6 header.
    const FIRST_FIELD: usize = 6;
    /// Octets of the IPv6 header.
    const HEADER: usize = 40;

    const fn nothing(next: Protocol) -> Self {
        Self { next, len: 0, field: Self::FIRST_FIELD, is_fragment: false }
    }

    /// Over the header that comes next.
    fn step(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let rest = payload.get(self.len..).ok_or(Malformed::Truncated)?;
        let &[next, len, ..] = rest else { return Err(Malformed::Truncated) };
        self.field = Self::HEADER + self.len;
        if self.next == Protocol::FRAGMENT {
            self.is_fragment |= !Repr::parse(rest)?.0.is_atomic();
            self.len += Header::LEN;
        } else {
            self.len += (usize::from(len) + 1) * 8;
        }
        self.next = Protocol(next);
        if self.len > payload.len() { Err(Malformed::Truncated) } else { Ok(()) }
    }
}

/// Place of ESP or AH in a packet whose header names `next` (RFC 4303 section 3.1.1):
/// behind hop-by-hop options, routing and fragment headers, and behind destination options
/// unless these follow a routing header, since they concern the last destination alone
/// then.
pub fn front(next: Protocol, payload: &[u8]) -> Result<Front, Malformed> {
    let (mut front, mut routed) = (Front::nothing(next), false);
    for nth in 0..=MAX_HEADERS {
        match front.next {
            Protocol::HOP_BY_HOP if nth > 0 => return Err(Malformed::HeaderChain),
            Protocol::ROUTING => routed = true,
            Protocol::DESTINATION if !routed => {}
            Protocol::HOP_BY_HOP | Protocol::FRAGMENT => {}
            _ => return Ok(front),
        }
        front.step(payload)?;
    }
    Err(Malformed::HeaderChain)
}

/// The headers in front of the one that begins `len` octets after the IPv6 header.
pub fn front_of(next: Protocol, payload: &[u8], len: usize) -> Result<Front, Malformed> {
    let mut front = Front::nothing(next);
    for _ in 0..=MAX_HEADERS {
        if front.len == len {
            return Ok(front);
        }
        if front.len > len {
            break;
        }
        front.step(payload)?;
    }
    Err(Malformed::HeaderChain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    const EXAMPLE: &str = "11 00 05a9 12345678 0007";
    laws!(EXAMPLE);

    #[test]
    fn extension_headers_are_walked_to_the_upper_layer() {
        // Hop-by-hop (router alert), destination options, first fragment, UDP.
        let chain = hex("3c00050200000000 2c00010400000000 1100000112345678 00070008");
        let upper = walk(Protocol::HOP_BY_HOP, &chain).unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.fragment_at), (Protocol::UDP, 24, 16));
        assert!(upper.hop_by_hop && upper.fragment.unwrap().more);
        for n in 0..24 {
            assert!(walk(Protocol::HOP_BY_HOP, &chain[..n]).is_err(), "{n}");
        }
        assert_eq!(walk(Protocol::TCP, &[]).unwrap().offset, 0);
    }

    #[test]
    fn later_fragments_end_the_walk() {
        // The following octets look like a header chain but are data.
        let chain = hex("3c00000900000001 ffffffff");
        let upper = walk(Protocol::FRAGMENT, &chain).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::DESTINATION, 8));
    }

    #[test]
    fn esp_and_ah_go_behind_the_headers_of_rfc_4303_section_3_1_1() {
        let hop = Protocol::HOP_BY_HOP;
        // Hop-by-hop, routing, destination options, UDP.
        let chain = hex("2b00050200000000 3c00040000000000 1100010400000000 00070008");
        let found = front(hop, &chain).unwrap();
        assert_eq!((found.next, found.len, found.field), (Protocol::DESTINATION, 16, 48));
        assert_eq!(front_of(hop, &chain, 16), Ok(found));
        assert_eq!(front_of(hop, &chain, 24).unwrap().next, Protocol::UDP);
        assert!(front_of(hop, &chain, 12).is_err() && front_of(hop, &chain, 64).is_err());
        // Destination options without a routing header; a fragment behind them.
        let chain = hex("3c00010400000000 1100000100000001 00070008");
        let found = front(Protocol::DESTINATION, &chain[8..]).unwrap();
        assert_eq!((found.next, found.len, found.field), (Protocol::UDP, 8, 40));
        let chain = hex("2c00010400000000 1100000100000001 00070008");
        let found = front(Protocol::DESTINATION, &chain).unwrap();
        assert!(found.is_fragment && found.len == 16 && found.next == Protocol::UDP);
        let atomic = hex("1100000000000001 00070008");
        assert!(!front(Protocol::FRAGMENT, &atomic).unwrap().is_fragment);
        assert_eq!(front(Protocol::TCP, &[]), Ok(Front::nothing(Protocol::TCP)));
        for n in 0..16 {
            assert!(front(Protocol::DESTINATION, &chain[..n]).is_err(), "{n}");
        }
        let endless = hex("3c00010400000000").repeat(MAX_HEADERS + 2);
        assert_eq!(front(Protocol::DESTINATION, &endless), Err(Malformed::HeaderChain));
        assert_eq!(front_of(Protocol::DESTINATION, &endless, 80), Err(Malformed::HeaderChain));
    }

    #[test]
    fn chains_without_end_are_refused() {
        let chain = hex("3c00010400000000").repeat(MAX_HEADERS + 1);
        assert_eq!(walk(Protocol::DESTINATION, &chain), Err(Malformed::HeaderChain));
        assert!(walk(Protocol::DESTINATION, &chain[..8 * MAX_HEADERS - 1]).is_err());
        let late = hex("0000010400000000 1100010400000000 00");
        assert_eq!(walk(Protocol::DESTINATION, &late), Err(Malformed::HeaderChain));
    }

    #[test]
    fn a_routing_header_with_segments_left_is_told() {
        // Type 4, behind a hop-by-hop header, no segment and then two left.
        let chain = hex("2b00010400000000 1100040000000000 00070008");
        let found = walk(Protocol::HOP_BY_HOP, &chain).unwrap();
        assert_eq!((found.protocol, found.offset, found.routing), (Protocol::UDP, 16, None));
        let chain = hex("2b00010400000000 1100040200000000 00070008");
        assert_eq!(walk(Protocol::HOP_BY_HOP, &chain).unwrap().routing, Some(8));
    }

    #[test]
    fn unknown_options_are_found_where_a_node_has_to_look() {
        let hop = Protocol::HOP_BY_HOP;
        // Hop-by-hop with PadN, router alert; destination options with type 0x80; UDP.
        let chain = hex("3c0001000502 0000 1100 8002aabb 0100 00070008");
        assert_eq!(unknown_option(hop, &chain, false), Ok(None));
        let found = UnknownOption { offset: 10, kind: 0x80 };
        assert_eq!(unknown_option(hop, &chain, true), Ok(Some(found)));
        // Behind a fragment header it is not this node's yet.
        let later = hex("2c00010400000000 3c00000100000001 1100 8002aabb 0100");
        assert_eq!(unknown_option(hop, &later, true), Ok(None));
        let atomic = hex("2c00010400000000 3c00000000000001 1100 8002aabb 0100");
        assert_eq!(unknown_option(hop, &atomic, true).unwrap().unwrap().offset, 18);
        // Discarded, told, told unless to a group.
        for (kind, told) in [(0x40, [false; 2]), (0x9e, [true; 2]), (0xde, [true, false])] {
            let chain = [17, 0, 0x1e, 0, kind, 0, 1, 0];
            let found = UnknownOption { offset: 4, kind };
            assert_eq!(unknown_option(hop, &chain, false), Ok(Some(found)));
            assert_eq!([false, true].map(|group| UnknownOption::is_told(kind, group)), told);
        }
        // An option longer than its header, one without a length, a header cut short.
        for bad in ["1100 800500000000", "1100 01020000 00 3e", "1101 010400000000"] {
            assert!(unknown_option(hop, &hex(bad), false).is_err(), "{bad}");
        }
        assert_eq!(unknown_option(Protocol::TCP, &[], true), Ok(None));
        let endless = hex("3c00010400000000").repeat(MAX_HEADERS + 2);
        let told = unknown_option(Protocol::DESTINATION, &endless, true);
        assert_eq!(told, Err(Malformed::HeaderChain));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_chain_is_walked_within_its_bytes(
            next: u8, bytes in proptest::collection::vec(prop_oneof![0u8..4, 40u8..62, any::<u8>()], 0..120),
        ) {
            if let Ok(upper) = walk(Protocol(next), &bytes) {
                prop_assert!(upper.offset <= bytes.len());
            }
            if let Ok(Some(found)) = unknown_option(Protocol(next), &bytes, true) {
                prop_assert!(bytes[found.offset] == found.kind && found.kind >> 6 != 0);
            }
            if let Ok(found) = front(Protocol(next), &bytes) {
                prop_assert!(found.len <= bytes.len() && found.field < 40 + bytes.len().max(1));
                prop_assert_eq!(front_of(Protocol(next), &bytes, found.len), Ok(found));
            }
        }
    }
}
