//! Fields of a packet that a selector can match.
//!
//! ```text
//!   selector   local        remote         protocol  ports, message type
//!   outbound   source       destination    the upper layer's, behind IPv4
//!   inbound    destination  source         options and IPv6 extension headers
//!
//!   rest: │0│ message 17 │0│ remote port 17 │0│ local port 17 │0│ protocol 9 │
//!          └ a guard bit above each field: all are compared at once
//! ```
//!
//! Each field of `rest` has one value more than fits its octets, for a field that cannot be
//! seen. So OPAQUE is a range like any other, and ANY is the range of all values.

use super::selector::{Field, MOBILITY};
use ferrule_base::DropReason;
use ferrule_wire::{FromBytes, Protocol, ipv4, ipv6, ipv6ext};
use std::fmt::Debug;
use std::ops::Not;

/// Direction of a packet, which tells the local end from the remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The source is local.
    Outbound,
    /// The destination is local.
    Inbound,
}

/// Position of a field in `rest`, and its number of bits.
pub(crate) type Bits = (u32, u32);

pub(crate) const PROTOCOL: Bits = (0, 9);
pub(crate) const LOCAL_PORT: Bits = (10, 17);
pub(crate) const REMOTE_PORT: Bits = (28, 17);
pub(crate) const MESSAGE: Bits = (46, 17);

/// The bit above each field.
pub(crate) const GUARDS: u64 = 1 << 9 | 1 << 27 | 1 << 45 | 1 << 63;

/// A protocol, or a port or message, that cannot be seen.
pub(crate) const NO_PROTOCOL: u64 = 1 << 8;
pub(crate) const NONE: u64 = 1 << 16;

/// An address as a number, and keys of two such addresses.
pub trait Address: Copy + Ord + Not<Output = Self> + Debug + Send + Sync + 'static {
    /// Bits of an address.
    const BITS: u32;
    /// Words that trees cut: both addresses, then `rest`.
    type Words: Copy + Debug + PartialEq + AsRef<[u64]> + Send + Sync;
    /// Words with addresses in them.
    const ADDRESS_WORDS: usize;

    /// The words of both addresses and the rest.
    fn words(local: Self, remote: Self, rest: u64) -> Self::Words;
    /// Inverse of [`words`](Self::words).
    fn split(words: &Self::Words) -> (Self, Self, u64);
    /// The first words of these, as many as a key has.
    fn from_words(words: &[u64; 8]) -> Self::Words;
    /// The word at a position.
    fn word(words: &Self::Words, at: u32) -> u64;
    /// Zero if the bits that the masks have are those of the first addresses: pairs of the
    /// remote and the local one.
    fn apart(words: &Self::Words, firsts: &[Self; 2], masks: &[Self; 2]) -> u64;
    /// Distance from `first`.
    fn less(self, first: Self) -> Self;
    /// The number in 128 bits.
    fn wide(self) -> u128;
    /// Half of `span` further.
    fn half_way(self, span: Self) -> Self;
}

impl Address for u32 {
    const BITS: u32 = 32;
    type Words = [u64; 2];
    const ADDRESS_WORDS: usize = 1;

    #[inline(always)]
    fn words(local: u32, remote: u32, rest: u64) -> [u64; 2] {
        [u64::from(local) << 32 | u64::from(remote), rest]
    }

    #[inline(always)]
    fn split(words: &[u64; 2]) -> (u32, u32, u64) {
        ((words[0] >> 32) as u32, words[0] as u32, words[1])
    }

    fn from_words(words: &[u64; 8]) -> [u64; 2] {
        [words[0], words[1]]
    }

    #[inline(always)]
    fn word(words: &[u64; 2], at: u32) -> u64 {
        words[at as usize & 1]
    }

    #[inline(always)]
    fn apart(words: &[u64; 2], firsts: &[u32; 2], masks: &[u32; 2]) -> u64 {
        let join = |pair: &[u32; 2]| u64::from(pair[1]) << 32 | u64::from(pair[0]);
        (words[0] ^ join(firsts)) & join(masks)
    }

    #[inline(always)]
    fn less(self, first: u32) -> u32 {
        self.wrapping_sub(first)
    }

    fn wide(self) -> u128 {
        self.into()
    }

    fn half_way(self, span: u32) -> u32 {
        self.wrapping_add(span / 2)
    }
}

impl Address for u128 {
    const BITS: u32 = 128;
    // A power of two, so that any number of a word is one of them.
    type Words = [u64; 8];
    const ADDRESS_WORDS: usize = 4;

    #[inline(always)]
    fn words(local: u128, remote: u128, rest: u64) -> [u64; 8] {
        let half = |a: u128| [(a >> 64) as u64, a as u64];
        let ([a, b], [c, d]) = (half(local), half(remote));
        [a, b, c, d, rest, 0, 0, 0]
    }

    #[inline(always)]
    fn split(words: &[u64; 8]) -> (u128, u128, u64) {
        let &[a, b, c, d, rest, ..] = words;
        let join = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        (join(a, b), join(c, d), rest)
    }

    fn from_words(words: &[u64; 8]) -> [u64; 8] {
        *words
    }

    #[inline(always)]
    fn word(words: &[u64; 8], at: u32) -> u64 {
        words[at as usize & 7]
    }

    #[inline(always)]
    fn apart(words: &[u64; 8], firsts: &[u128; 2], masks: &[u128; 2]) -> u64 {
        let (local, remote, _) = Self::split(words);
        let apart = (remote ^ firsts[0]) & masks[0] | (local ^ firsts[1]) & masks[1];
        (apart >> 64) as u64 | apart as u64
    }

    #[inline(always)]
    fn less(self, first: u128) -> u128 {
        self.wrapping_sub(first)
    }

    fn wide(self) -> u128 {
        self
    }

    fn half_way(self, span: u128) -> u128 {
        self.wrapping_add(span / 2)
    }
}

/// Fields of a packet that selectors compare, as the key of a policy look-up.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Key<A: Address> {
    pub(crate) words: A::Words,
}

impl<A: Address> AsRef<A::Words> for Key<A> {
    #[inline(always)]
    fn as_ref(&self) -> &A::Words {
        &self.words
    }
}

impl Key<u32> {
    /// Placeholder of a key.
    pub(crate) const NONE: Self = Self { words: [0; 2] };
}

impl<A: Address> Key<A> {
    /// The key from a packet's addresses, its protocol (behind IPv4 options and IPv6
    /// extension headers) and the first four octets of that. Of a later fragment these
    /// octets are not seen, and of IPv6 not the protocol either. A packet that ends before
    /// those four octets has to be read whole: [`read`].
    #[inline(always)]
    pub fn new(
        direction: Direction,
        (src, dst): (A, A),
        protocol: Option<u8>,
        first: Option<[u8; 4]>,
    ) -> Self {
        let (local, remote) = sides(src, dst, direction);
        let rest = rest(protocol.map(Protocol), first.as_ref().map(<[u8; 4]>::as_slice), direction);
        Self { words: A::words(local, remote, rest) }
    }

    /// A field is in another fragment, where it may be anything.
    #[inline(always)]
    pub(crate) fn is_veiled(&self) -> bool {
        const UNSEEN: u64 = NONE << LOCAL_PORT.0 | NONE << MESSAGE.0;
        let (_, _, rest) = A::split(&self.words);
        if rest & UNSEEN != UNSEEN {
            return false;
        }
        // Such protocols have one of the two, if it could be seen.
        let protocol = Protocol(rest as u8);
        rest & NO_PROTOCOL != 0 || protocol.has_ports() || has_message(protocol)
    }
}

/// A packet of either family.
pub(crate) enum Seen {
    V4(Key<u32>),
    V6(Key<u128>),
}

/// Reads the IP packet at the front of `bytes`.
#[inline]
pub(crate) fn read(bytes: &[u8], direction: Direction) -> Result<Seen, DropReason> {
    match bytes.first().map(|b| b >> 4) {
        Some(4) => read4(bytes, direction).map(Seen::V4),
        Some(6) => read6(bytes, direction).map(Seen::V6),
        _ => Err(DropReason::Malformed),
    }
}

/// An IPv4 packet without options that is no fragment but perhaps a first one and has ports:
/// most of all traffic, read once.
#[derive(Clone, Copy)]
pub(crate) struct Plain4 {
    pub key: Key<u32>,
    /// Octets that its header says, which may be more than there are.
    pub total: usize,
    pub class: u8,
}

impl Plain4 {
    /// Octets of the headers that are read: with fewer there are no ports.
    pub const LEN: usize = ipv4::Header::LEN + 4;

    /// The key of a packet of this family; nothing for any other.
    #[inline(always)]
    pub fn read(bytes: &[u8], direction: Direction) -> Option<Self> {
        let front = bytes.first_chunk::<{ Self::LEN }>()?;
        // Version and header length; more fragments may follow a first one.
        const SHAPE: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x1f, 0xff]);
        const WITHOUT_OPTIONS: u64 = 0x45;
        let protocol = Protocol(front[9]);
        let start = u64::from_le_bytes(*front.first_chunk()?);
        if start & SHAPE != WITHOUT_OPTIONS || !protocol.has_ports() {
            return None;
        }
        let ends = u64::from_be_bytes(*front[12..].first_chunk()?);
        let ports = u32::from_be_bytes(*front[20..].first_chunk()?);
        let (ends, ports) = match direction {
            Direction::Outbound => (ends, ports),
            Direction::Inbound => (ends.rotate_left(32), ports.rotate_left(16)),
        };
        let rest = u64::from(protocol.0)
            | u64::from(ports >> 16) << LOCAL_PORT.0
            | u64::from(ports & 0xffff) << REMOTE_PORT.0
            | NONE << MESSAGE.0;
        let total = usize::from(((start >> 16) as u16).swap_bytes());
        let class = (start >> 8) as u8;
        Some(Self { key: Key { words: [ends, rest] }, total, class })
    }

    /// True if all of it, with its ports, is within so many octets.
    #[inline(always)]
    pub const fn is_whole(&self, len: usize) -> bool {
        (self.total >= Self::LEN) & (self.total <= len)
    }
}

#[inline]
pub(crate) fn read4(bytes: &[u8], direction: Direction) -> Result<Key<u32>, DropReason> {
    let (h, _) = ipv4::Header::ref_from_prefix(bytes).map_err(|_| DropReason::Malformed)?;
    let later = h.fragment.get() & 0x1fff != 0;
    let upper = if later { None } else { bytes.get(h.header_len()..) };
    let rest = rest(Some(h.protocol()), upper, direction);
    let (src, dst) = (u32::from_be_bytes(h.src), u32::from_be_bytes(h.dst));
    let (local, remote) = sides(src, dst, direction);
    Ok(Key { words: u32::words(local, remote, rest) })
}

#[inline]
pub(crate) fn read6(bytes: &[u8], direction: Direction) -> Result<Key<u128>, DropReason> {
    let (h, payload) = ipv6::Header::ref_from_prefix(bytes).map_err(|_| DropReason::Malformed)?;
    if h.version_class_flow.get() >> 28 != 6 {
        return Err(DropReason::Malformed);
    }
    let upper = ipv6ext::walk(h.next(), payload).map_err(DropReason::from)?;
    // The protocol in a later fragment cannot be trusted: the receiver goes by the first
    // one (RFC 8200 section 4.5).
    let later = upper.fragment.is_some_and(|f| f.offset != 0);
    let protocol = (!later).then_some(upper.protocol);
    let behind = if later { None } else { payload.get(upper.offset..) };
    let rest = rest(protocol, behind, direction);
    let (local, remote) = sides(u128::from_be_bytes(h.src), u128::from_be_bytes(h.dst), direction);
    Ok(Key { words: u128::words(local, remote, rest) })
}

/// Protocol, ports and message of the header behind the IP headers.
#[inline(always)]
fn rest(protocol: Option<Protocol>, upper: Option<&[u8]>, direction: Direction) -> u64 {
    const PORTS: u64 = NONE << LOCAL_PORT.0 | NONE << REMOTE_PORT.0;
    const MESSAGES: u64 = NONE << MESSAGE.0;
    let Some(protocol) = protocol else {
        return NO_PROTOCOL | PORTS | MESSAGES;
    };
    let number = u64::from(protocol.0);
    if protocol.has_ports() {
        let Some(&[a, b, c, d]) = upper.and_then(<[u8]>::first_chunk) else {
            return number | PORTS | MESSAGES;
        };
        let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (local, remote) = sides(src, dst, direction);
        let ports = u64::from(local) << LOCAL_PORT.0 | u64::from(remote) << REMOTE_PORT.0;
        return number | ports | MESSAGES;
    }
    let message = message(protocol, upper).map_or(NONE, u64::from);
    number | PORTS | message << MESSAGE.0
}

/// The message of a protocol that has such, if it can be seen.
#[inline]
fn message(protocol: Protocol, upper: Option<&[u8]>) -> Option<u16> {
    if !has_message(protocol) {
        return None;
    }
    if protocol == MOBILITY {
        // Next header, length, type (RFC 6275 section 6.1.1).
        return upper?.get(2).map(|&kind| u16::from(kind) << 8);
    }
    upper?.first_chunk().map(|&octets| u16::from_be_bytes(octets))
}

const fn has_message(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::ICMP | Protocol::ICMPV6 | MOBILITY)
}

#[inline(always)]
fn sides<T>(src: T, dst: T, direction: Direction) -> (T, T) {
    match direction {
        Direction::Outbound => (src, dst),
        Direction::Inbound => (dst, src),
    }
}

/// The lowest and highest value of a field of `rest` that a selector takes. Of ANY
/// the highest is all ones, more than any packet has.
pub(crate) fn range<T: Into<u64>>(field: Field<T>, (at, bits): Bits) -> (u64, u64) {
    let (first, last) = match field {
        Field::Any => (0, (1 << bits) - 1),
        Field::Range(first, last) => (first.into(), last.into()),
        Field::Opaque => (1 << (bits - 1), 1 << (bits - 1)),
    };
    (first << at, last << at)
}
