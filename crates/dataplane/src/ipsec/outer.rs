//! What is put around the packets of a plain tunnel: an outer header, the ESP header
//! and IV, the trailer (RFC 4303 section 2, RFC 4301 section 5.1.2).

use super::state::{OutboundSa, Shape};
use super::table::SaError;
use ferrule_crypto::Span;
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, IntoBytes, Protocol, esp, ipv4, ipv6};
use std::net::IpAddr;

/// No IPv6 path is narrower (RFC 8200 section 5); nothing smaller is announced.
const MTU6_MIN: usize = 1280;

/// What the outer header takes over from an inner one. (Eight octets: they travel
/// in a register.)
#[derive(Clone, Copy)]
pub(super) struct Inner {
    len: u32,
    pub class: u8,
    /// The DF bit, where IPv4 has it.
    pub whole: u16,
    pub protocol: Protocol,
}

impl Inner {
    /// Reads the first eight octets of either header, which the router has seen
    /// to.
    #[inline(always)]
    pub fn read(data: &[u8]) -> Option<Self> {
        let word = u64::from_be_bytes(*data.first_chunk()?);
        let inner = match word >> 60 {
            // Class, length; flags of the fragment.
            4 => Self {
                len: u32::from((word >> 32) as u16),
                class: (word >> 48) as u8,
                whole: word as u16 & ipv4::DONT_FRAGMENT,
                protocol: Protocol::IPV4,
            },
            6 => Self::v6(word),
            _ => return None,
        };
        (inner.len() <= data.len()).then_some(inner)
    }

    /// TTL or hop limit of the packet that was read.
    pub fn hops(self, data: &[u8]) -> u8 {
        let at = if self.protocol == Protocol::IPV4 { 8 } else { 7 };
        data.get(at).copied().unwrap_or_default()
    }

    /// Octets of the packet.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Class, flow label; payload length. It is never fragmented.
    #[inline(never)]
    const fn v6(word: u64) -> Self {
        Self {
            len: ipv6::Header::LEN as u32 + (word >> 16) as u16 as u32,
            class: (word >> 52) as u8,
            whole: ipv4::DONT_FRAGMENT,
            protocol: Protocol::IPV6,
        }
    }

    /// The MTU to tell the sender, if the packet must not be fragmented.
    #[cold]
    pub fn too_big_for(&self, mtu: usize) -> Option<usize> {
        let mtu = if self.protocol == Protocol::IPV6 { mtu.max(MTU6_MIN) } else { mtu };
        (self.len() > mtu && self.whole != 0).then_some(mtu)
    }
}

/// The outer header but for what changes with each packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outer {
    V4(Outer4),
    V6(ipv6::Header),
}

/// An IPv4 header as it is written: in words of eight octets, the ESP header's
/// SPI behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer4 {
    /// TTL, protocol, no checksum, source.
    pub second: u64,
    /// Destination, SPI.
    pub third: u64,
    /// The sum of the header's words that never change, not folded.
    pub sum: u32,
}

impl Outer {
    pub fn new(source: IpAddr, destination: IpAddr, spi: u32, hops: u8) -> Result<Self, SaError> {
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (u32::from(src), u32::from(dst));
                let ttl = u32::from_be_bytes([hops, Protocol::ESP.0, 0, 0]);
                let halves = |a: u32| (a >> 16) + (a & 0xffff);
                Ok(Self::V4(Outer4 {
                    second: u64::from(ttl) << 32 | u64::from(src),
                    third: u64::from(dst) << 32 | u64::from(spi),
                    sum: 0x4500 + halves(ttl) + halves(src) + halves(dst),
                }))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ok(Self::V6(ipv6::Header {
                version_class_flow: (6 << 28).into(),
                payload_len: 0.into(),
                next: Protocol::ESP.0,
                hop_limit: hops,
                src: src.octets(),
                dst: dst.octets(),
            })),
            _ => Err(SaError::Families),
        }
    }

    /// Octets of the header.
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::V4(_) => ipv4::Header::LEN,
            Self::V6(_) => ipv6::Header::LEN,
        }
    }

    /// What it is on a link.
    pub const fn ethertype(&self) -> EtherType {
        match self {
            Self::V4(_) => EtherType::IPV4,
            Self::V6(_) => EtherType::IPV6,
        }
    }
}

impl OutboundSa {
    /// The outer class.
    #[inline(always)]
    pub(super) const fn class_of(&self, inner: Inner) -> u8 {
        inner.class & self.class.0 | self.class.1
    }

    /// The outer DF bit.
    #[inline(always)]
    pub(super) const fn df_of(&self, inner: Inner) -> u16 {
        inner.whole & self.df.0 | self.df.1
    }

    /// Puts trailer and headers around the inner packet. Nothing if there is no
    /// room for them.
    #[inline(always)]
    pub(super) fn wrap(
        &self,
        packet: &mut Packet,
        inner: Inner,
        df: u16,
        number: u64,
        shape: Shape,
        outer: &Outer,
    ) -> Option<(Span, Span)> {
        let (iv, icv) = (usize::from(shape.iv), usize::from(shape.icv));
        let (trailer, class) = (trailer(inner.len(), shape), self.class_of(inner));
        let body = iv + inner.len() + trailer;
        let front = outer.len() + esp::Header::LEN + iv;
        let data = packet.grow(front, trailer + icv)?;
        put_trailer(data.get_mut(front + inner.len()..)?, trailer, inner.protocol)?;
        // In words, the ESP header with them; an AEAD's IV is the number, or is not
        // there at all; that of CBC is the engine's to write.
        match outer {
            Outer::V4(outer) => {
                const ESP: usize = ipv4::Header::LEN + 4;
                let total = ipv4::Header::LEN + esp::Header::LEN + body + icv;
                if iv != 0 {
                    let room: &mut [u8; ESP + 12] = data.first_chunk_mut()?;
                    room[ESP + 4..].copy_from_slice(&number.to_be_bytes());
                }
                let room: &mut [u8; ESP + 4] = data.first_chunk_mut()?;
                let [first, second] = outer.words(class, total as u16, ident(number, self.spi), df);
                room[..8].copy_from_slice(&first.to_be_bytes());
                room[8..16].copy_from_slice(&second.to_be_bytes());
                room[16..ESP].copy_from_slice(&outer.third.to_be_bytes());
                room[ESP..].copy_from_slice(&(number as u32).to_be_bytes());
            }
            Outer::V6(outer) => {
                let payload = (esp::Header::LEN + body + icv) as u16;
                front_v6(data, outer, class, payload, self.spi, number, iv != 0)?;
            }
        }
        Some(shape.spans(outer.len(), body))
    }
}

/// An IPv6 header, an ESP header and the number behind it. (Out of line: IPv4
/// outside is what most tunnels have.)
#[inline(never)]
fn front_v6(
    data: &mut [u8],
    outer: &ipv6::Header,
    class: u8,
    payload: u16,
    spi: u32,
    number: u64,
    explicit: bool,
) -> Option<()> {
    const ESP: usize = ipv6::Header::LEN;
    if explicit {
        let room: &mut [u8; ESP + 16] = data.first_chunk_mut()?;
        room[ESP + 8..].copy_from_slice(&number.to_be_bytes());
    }
    let room: &mut [u8; ESP + 8] = data.first_chunk_mut()?;
    let outer = ipv6::Header {
        version_class_flow: (6 << 28 | u32::from(class) << 20).into(),
        payload_len: payload.into(),
        ..*outer
    };
    let header = esp::Header { spi: spi.into(), seq: (number as u32).into() };
    room[..ESP].copy_from_slice(outer.as_bytes());
    room[ESP..].copy_from_slice(header.as_bytes());
    Some(())
}

/// The outer identification: different for packets that follow one another, and
/// for SAs between the same gateways.
#[inline(always)]
pub(super) const fn ident(number: u64, spi: u32) -> u16 {
    (number as u16).wrapping_add(spi as u16)
}

impl Outer4 {
    /// The first eight octets of the header, and the sum of all of it but the checksum,
    /// not folded.
    #[inline(always)]
    pub(super) const fn first(&self, class: u8, total: u16, ident: u16, df: u16) -> (u64, u32) {
        let sum = self.sum + class as u32 + total as u32 + ident as u32 + df as u32;
        let (low, fragment) = ((total as u64) << 32 | (ident as u64) << 16, df as u64);
        (0x45 << 56 | (class as u64) << 48 | low | fragment, sum)
    }

    /// The first sixteen octets of the header.
    #[inline(always)]
    const fn words(&self, class: u8, total: u16, ident: u16, df: u16) -> [u64; 2] {
        let (first, sum) = self.first(class, total, ident, df);
        [first, self.second | (fold(sum) as u64) << 32]
    }
}

/// Octets of the trailer of a packet of `len`.
#[inline(always)]
pub(super) fn trailer(len: usize, shape: Shape) -> usize {
    esp::pad_len(len, shape.align.into()) + esp::TRAILER_LEN
}

/// Writes a trailer of `len` octets to the front of `tail`, where the ICV follows.
#[inline(always)]
fn put_trailer(tail: &mut [u8], len: usize, next: Protocol) -> Option<()> {
    let pad = len - esp::TRAILER_LEN;
    // All padding that a cipher asks for, in one store: what is too much lies
    // where length, next header and ICV come to be.
    let Some(front) = tail.first_chunk_mut().filter(|_| pad <= PAD.len()) else {
        esp::emit_trailer(tail.get_mut(..len)?, next);
        return Some(());
    };
    *front = PAD;
    *tail.get_mut(pad..)?.first_chunk_mut()? = [pad as u8, next.0];
    Some(())
}

/// The start of every padding (RFC 4303 section 2.4).
const PAD: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// The IPv4 checksum of a sum of header words.
#[inline]
pub(super) const fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + (sum & 0xffff)) as u16
}
