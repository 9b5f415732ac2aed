//! IPv4 headers (RFC 791), with DSCP (RFC 2474) and ECN (RFC 3168).
//!
//! ```text
//!  0       4       8             14  16                             32
//! +-------+-------+--------------+---+-------------------------------+
//! |   4   |  IHL  |     DSCP     |ECN|         total length          |
//! +-------+-------+--------------+---+-+-+-+-------------------------+
//! |          identification          |0|D|M|     fragment offset     |
//! +---------------+------------------+-+-+-+-------------------------+
//! |      TTL      |    protocol      |        header checksum        |
//! +---------------+------------------+-------------------------------+
//! |                source, destination, options                      |
//! +------------------------------------------------------------------+
//! ```

use crate::checksum::{self, Ends, checksum};
use crate::ip::{Options, Protocol};
use crate::{Dscp, Ecn, Malformed};
use std::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const RESERVED: u16 = 0x8000;
/// The DF bit in the field of flags and offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The view of the fixed part.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Version 4 and the header's length in words.
    pub version_ihl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Octets of header and payload.
    pub total_len: U16,
    /// Identification, for fragments.
    pub ident: U16,
    /// Flags and fragment offset.
    pub fragment: U16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Checksum over the header.
    pub checksum: U16,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

/// One hop less in the word of TTL, protocol and checksum, the TTL its lowest octet and
/// above 1.
#[inline(always)]
pub const fn count_hop(word: u32) -> u32 {
    debug_assert!(word & 0xff > 1);
    // RFC 1624 equation 3 for a word that loses 0x0100: the checksum gains it, in ones'
    // complement, and is never 0xffff. In the other order of octets it gains 1 (RFC 1071
    // section 2 B), or 2 where that would be 0xffff or more, while TTL and protocol in
    // front of it lose 1: all in one sum.
    let (sum, more) = word.overflowing_add(0x0001_ffff);
    if more { sum } else { sum.wrapping_sub(0x0001_0000) }
}

impl Header {
    /// Octets of the fixed part.
    pub const LEN: usize = 20;

    /// Octets of the header as its IHL says.
    #[inline]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 15) as usize * 4
    }

    /// Differentiated services code point.
    #[inline]
    pub const fn dscp(&self) -> Dscp {
        Dscp::masked(self.tos >> 2)
    }

    /// Congestion notification.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.tos)
    }

    /// True if the packet must not be fragmented.
    #[inline]
    pub const fn dont_fragment(&self) -> bool {
        self.fragment.get() & DONT_FRAGMENT != 0
    }

    /// True if the packet is a fragment, not a whole datagram.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        has_fragment_bits(self.fragment.get())
    }

    /// Protocol of the payload.
    #[inline]
    pub const fn protocol(&self) -> Protocol {
        Protocol(self.protocol)
    }

    /// Source and destination.
    #[inline]
    pub fn ends(&self) -> Ends {
        Ends::V4(self.src.into(), self.dst.into())
    }

    /// One hop less, checksum included; false, and nothing changed, where the
    /// packet must not travel on.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        let more = self.ttl > 1;
        if more {
            let [low, high] = self.checksum.to_bytes();
            let word = u32::from_le_bytes([self.ttl, self.protocol, low, high]);
            let [ttl, protocol, low, high] = count_hop(word).to_le_bytes();
            (self.ttl, self.protocol) = (ttl, protocol);
            self.checksum = [low, high].into();
        }
        more
    }

    /// Sets the TTL, checksum included.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        let old = u16::from_be_bytes([self.ttl, self.protocol]);
        let new = u16::from_be_bytes([ttl, self.protocol]);
        self.ttl = ttl;
        self.checksum = checksum::update(self.checksum.get(), old, new).into();
    }

    /// Sets the DSCP, checksum included.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        self.set_tos(dscp.get() << 2 | self.tos & 3);
    }

    /// Sets the ECN, checksum included.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_tos(self.tos & !3 | ecn.bits());
    }

    fn set_tos(&mut self, tos: u8) {
        let old = u16::from_be_bytes([self.version_ihl, self.tos]);
        let new = u16::from_be_bytes([self.version_ihl, tos]);
        self.tos = tos;
        self.checksum = checksum::update(self.checksum.get(), old, new).into();
    }
}

/// Checks version, lengths and checksum (RFC 1812 section 5.2.2); gives the
/// view, the octets of the header and those of the packet.
#[inline]
pub fn validate(bytes: &[u8]) -> Result<(&Header, usize, usize), Malformed> {
    let (h, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
    if h.version_ihl >> 4 != 4 {
        return Err(Malformed::Version);
    }
    let (header_len, total) = (h.header_len(), usize::from(h.total_len.get()));
    if header_len < Header::LEN || total < header_len {
        return Err(Malformed::Length);
    }
    if total > bytes.len() {
        return Err(Malformed::Truncated);
    }
    let header = bytes.get(..header_len).ok_or(Malformed::Truncated)?;
    let good = match header.try_into() {
        Ok(header) => is_plain_sum_good(header),
        Err(_) => checksum(header) == 0,
    };
    if good { Ok((h, header_len, total)) } else { Err(Malformed::Checksum) }
}

/// True if the checksum of a header without options is right: five words, without a loop.
#[inline(always)]
pub(crate) fn is_plain_sum_good(header: &[u8; Header::LEN]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let [a, b, c, d, last] = [0, 1, 2, 3, 4].map(|at| u64::from(u32::from_ne_bytes(words[at])));
    let (a, b) = (a | b << 32, c | d << 32);
    // Carries are of weight one in ones' complement, whatever the width.
    let (sum, carry) = a.overflowing_add(b);
    let sum = (sum >> 32) + (sum & 0xffff_ffff) + last + u64::from(carry);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum >> 16) + (sum & 0xffff) == 0xffff
}

/// True for flags and offset as a fragment has them.
#[inline(always)]
pub(crate) const fn has_fragment_bits(fragment: u16) -> bool {
    fragment & (MORE_FRAGMENTS | OFFSET) != 0
}

/// True if the packet at the front of `bytes` is a fragment.
#[inline]
pub fn is_fragment(bytes: &[u8]) -> bool {
    Header::ref_from_prefix(bytes).is_ok_and(|(h, _)| h.is_fragment())
}

/// Writes the checksum of the header at the front of `packet`, which must hold
/// it, as after a change in place.
#[inline]
pub fn fill_checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..len]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Identification, for fragments.
    pub ident: u16,
    /// The packet must not be fragmented.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Place of the payload in the datagram, in units of 8 octets (13 bits).
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Header options.
    pub options: Options,
    /// Octets of the payload.
    pub payload_len: u16,
}

impl Repr {
    /// A header without options or fragmentation: TTL 64, all else zero.
    pub const fn new(protocol: Protocol, src: Ipv4Addr, dst: Ipv4Addr, payload_len: u16) -> Self {
        Self {
            dscp: Dscp::masked(0),
            ecn: Ecn::NotEct,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
            options: Options::NONE,
            payload_len,
        }
    }

    /// Reads a header; the payload ends where the total length says.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, header_len, total) = validate(bytes)?;
        let fragment = h.fragment.get();
        if fragment & RESERVED != 0 {
            return Err(Malformed::Reserved);
        }
        let options = bytes.get(Header::LEN..header_len).and_then(Options::new);
        let repr = Self {
            dscp: h.dscp(),
            ecn: h.ecn(),
            ident: h.ident.get(),
            dont_fragment: h.dont_fragment(),
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: fragment & OFFSET,
            ttl: h.ttl,
            protocol: h.protocol(),
            src: h.src.into(),
            dst: h.dst.into(),
            options: options.ok_or(Malformed::Length)?,
            payload_len: (total - header_len) as u16,
        };
        Ok((repr, bytes.get(header_len..total).ok_or(Malformed::Truncated)?))
    }

    /// Octets that `emit` writes.
    #[allow(clippy::len_without_is_empty)] // a header is never empty
    pub fn len(&self) -> usize {
        Header::LEN + self.options.as_slice().len()
    }

    /// True if this is a fragment.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Source and destination.
    pub const fn ends(&self) -> Ends {
        Ends::V4(self.src, self.dst)
    }

    /// Writes the header, checksum included, to the front of `buf`, which must
    /// hold `len()` octets. Header and payload together must stay below 65536.
    pub fn emit(&self, buf: &mut [u8]) {
        let len = self.len();
        let flag = |set, bit| if set { bit } else { 0 };
        let h = Header {
            version_ihl: 0x40 | (len / 4) as u8,
            tos: self.dscp.get() << 2 | self.ecn.bits(),
            total_len: (len as u16).saturating_add(self.payload_len).into(),
            ident: self.ident.into(),
            fragment: (flag(self.dont_fragment, DONT_FRAGMENT)
                | flag(self.more_fragments, MORE_FRAGMENTS)
                | self.fragment_offset & OFFSET)
                .into(),
            ttl: self.ttl,
            protocol: self.protocol.0,
            checksum: 0.into(),
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
        buf[Header::LEN..len].copy_from_slice(self.options.as_slice());
        fill_checksum(buf);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv4 {} > {} {} ttl {}", self.src, self.dst, self.protocol, self.ttl)?;
        if self.dscp.get() != 0 || self.ecn != Ecn::NotEct {
            write!(f, " tos {:#04x}", self.dscp.get() << 2 | self.ecn.bits())?;
        }
        if self.is_fragment() {
            let more = if self.more_fragments { "+" } else { "" };
            write!(f, " id {} frag {}{more}", self.ident, u32::from(self.fragment_offset) * 8)?;
        } else if self.dont_fragment {
            f.write_str(" DF")?;
        }
        if !self.options.as_slice().is_empty() {
            write!(f, " options {}", self.options.as_slice().len())?;
        }
        write!(f, " length {}", self.len() + usize::from(self.payload_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::laws::hex;

    /// A customer's packet as a router handed it on: TOS 0xb8, TTL 62, UDP.
    const EXAMPLE: &str = "45b80024 00080000 3e1167f5 0a010009 0a020009
                           00070008 0010b986 56000000 81a55a7e";
    fn repair(packet: &mut [u8]) {
        let len = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
        if len >= 20 && len <= packet.len() {
            fill_checksum(packet);
        }
    }
    laws!(EXAMPLE, repair = repair, blank = |_| {});

    mod with_options {
        use super::*;
        // Router alert (RFC 2113) and the same addresses.
        const EXAMPLE: &str = "46000018 00004000 400291cb 0a010009 0a020009 94040000";
        laws!(EXAMPLE, repair = repair, blank = |_| {});
    }

    #[test]
    fn plain_headers_are_good_if_their_sums_are() {
        let mut first = hex(EXAMPLE);
        let mut seen = [0; 2];
        for (base, ttl) in [(0, 62), (1, 1), (0xfffe, 255), (0xffff, 2)] {
            first[8] = ttl;
            first[4..6].copy_from_slice(&u16::to_be_bytes(base));
            repair(&mut first);
            let mut other = first.clone();
            for n in 0..=u16::MAX {
                other[4..6].copy_from_slice(&n.to_be_bytes());
                other[8] = (n >> 5) as u8;
                repair(&mut other);
                // Right, off by a little, and both zeros.
                let right = u16::from_be_bytes([other[10], other[11]]);
                for checksum in [right, right ^ 1, right.wrapping_add(n), !right, 0, 0xffff] {
                    other[10..12].copy_from_slice(&checksum.to_be_bytes());
                    let good = Sum::new().with(&other[..20]).is_good();
                    let plain = other.first_chunk().unwrap();
                    assert_eq!(is_plain_sum_good(plain), good, "{other:02x?}");
                    seen[usize::from(good)] += 1;
                }
            }
        }
        assert!(seen.iter().all(|&count| count > 4 << 16), "{seen:?}");
        // Any header, so that sums have carries of every weight.
        let mut rng = ferrule_base::Rng::new(1071);
        for _ in 0..100_000 {
            let mut header: [u8; Header::LEN] = std::array::from_fn(|_| rng.next_u64() as u8);
            header[0] = 0x45;
            assert_eq!(is_plain_sum_good(&header), Sum::new().with(&header).is_good());
            fill_checksum(&mut header);
            assert!(is_plain_sum_good(&header), "{header:02x?}");
        }
    }

    #[test]
    fn ipv4_header_means_what_an_independent_reader_says() {
        let bytes = hex(EXAMPLE);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        let (other, rest) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
        assert_eq!(repr.src.octets(), other.source);
        assert_eq!(repr.dst.octets(), other.destination);
        assert_eq!((repr.ttl, repr.protocol.0), (other.time_to_live, other.protocol.0));
        assert_eq!((repr.dscp.get(), repr.ecn.bits()), (other.dscp.value(), other.ecn.value()));
        assert_eq!(repr.ident, other.identification);
        assert_eq!(payload, rest);
        assert_eq!(repr.to_string(), "IPv4 10.1.0.9 > 10.2.0.9 UDP ttl 62 tos 0xb8 length 36");
    }

    #[test]
    fn ipv4_payload_ends_at_the_total_length() {
        let mut bytes = hex(EXAMPLE);
        bytes.extend([0xee; 10]);
        assert_eq!(Repr::parse(&bytes).unwrap().1.len(), 16);
    }

    #[test]
    fn ipv4_rules_are_told_apart() {
        let refused = |at: usize, value: u8| {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = value;
            Repr::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, 0x65), Malformed::Version);
        assert_eq!(refused(0, 0x44), Malformed::Length);
        assert_eq!(refused(3, 19), Malformed::Length);
        assert_eq!(refused(3, 37), Malformed::Truncated);
        assert_eq!(refused(11, 0xf4), Malformed::Checksum);
        let mut bytes = hex(EXAMPLE);
        bytes[6] |= 0x80;
        fill_checksum(&mut bytes);
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Reserved);
    }

    #[test]
    fn changes_in_place_keep_the_checksum_good() {
        let mut bytes = hex(EXAMPLE);
        for ttl in (1..62).rev() {
            let (h, _) = Header::mut_from_prefix(&mut bytes).unwrap();
            assert!(h.decrement_ttl());
            h.set_dscp(Dscp::masked(ttl));
            h.set_ecn(Ecn::from_bits(ttl));
            let (repr, _) = Repr::parse(&bytes).unwrap();
            assert_eq!(
                (repr.ttl, repr.dscp, repr.ecn),
                (ttl, Dscp::masked(ttl), Ecn::from_bits(ttl))
            );
        }
        let (h, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        assert!(!h.decrement_ttl() && h.ttl == 1, "a TTL of 1 ends here");
    }

    #[test]
    fn one_hop_less_whatever_the_checksum_was() {
        let mut bytes = hex(EXAMPLE);
        for ident in 0..=u16::MAX {
            bytes[4..6].copy_from_slice(&ident.to_be_bytes());
            bytes[8] = 64;
            fill_checksum(&mut bytes);
            let (h, _) = Header::mut_from_prefix(&mut bytes).unwrap();
            assert!(h.decrement_ttl());
            let after = h.checksum.get();
            fill_checksum(&mut bytes);
            assert_eq!(after, u16::from_be_bytes([bytes[10], bytes[11]]), "{ident:#06x}");
        }
    }

    #[test]
    fn first_middle_and_last_fragments_are_recognised() {
        for (field, expected) in
            [(0x0000, false), (0x4000, false), (0x2000, true), (0x2001, true), (0x0001, true)]
        {
            let mut bytes = hex(EXAMPLE);
            bytes[6..8].copy_from_slice(&u16::to_be_bytes(field));
            assert_eq!(is_fragment(&bytes), expected);
            fill_checksum(&mut bytes);
            assert_eq!(Repr::parse(&bytes).unwrap().0.is_fragment(), expected);
        }
    }
}
