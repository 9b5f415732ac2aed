//! Octets put around packets: the encapsulation template of an SA, made once, and the
//! trailer (RFC 4303 section 2, RFC 4301 section 5.1.2).
//!
//! ```text
//!   template   │ outer IPv4 or IPv6 │ UDP │ SPI, 0 │      tunnel mode
//!                                   │ UDP │ SPI, 0 │      transport mode
//!   a packet patches length, class, identification, DF, hops, checksum, number
//! ```

use super::config::{Encap, Mode, OutboundConfig};
use crate::protection::table::SaError;
use ferrule_wire::{EtherType, IntoBytes, Protocol, esp, ipv4, ipv6, udp};
use std::net::IpAddr;

/// No IPv6 path is narrower (RFC 8200 section 5); nothing smaller is announced.
const MTU6_MIN: usize = 1280;

/// Fields that the outer header takes over from an inner one.
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
            // Class, flow label; payload length. It is never fragmented.
            6 => Self {
                len: ipv6::Header::LEN as u32 + u32::from((word >> 16) as u16),
                class: (word >> 52) as u8,
                whole: ipv4::DONT_FRAGMENT,
                protocol: Protocol::IPV6,
            },
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

    /// The MTU to tell the sender, if the packet must not be fragmented.
    #[cold]
    pub fn too_big_for(&self, mtu: usize) -> Option<usize> {
        let mtu = if self.protocol == Protocol::IPV6 { mtu.max(MTU6_MIN) } else { mtu };
        (self.len() > mtu && self.whole != 0).then_some(mtu)
    }
}

/// Fields of an outer IP header that change with each packet.
#[derive(Clone, Copy)]
pub(super) struct Varying {
    pub class: u8,
    pub ident: u16,
    pub df: u16,
    pub hops: u8,
}

/// Octets of the longest template: IPv6, UDP and the ESP header.
const LONGEST: usize = ipv6::Header::LEN + udp::Header::LEN + esp::Header::LEN;
/// Octets of the most usual one: IPv4 and the ESP header.
const USUAL: usize = ipv4::Header::LEN + esp::Header::LEN;
/// The same with the IV behind it.
pub(super) const USUAL_FRONT: usize = USUAL + size_of::<u64>();

/// Headers in front of what an SA sends, ready but for what changes with each packet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Template {
    octets: [u8; LONGEST],
    /// The sum of what never changes of an outer IPv4 header, not folded.
    sum: u32,
    /// Octets of the outer IP header; none in transport mode.
    outer: u8,
    /// Octets in all.
    len: u8,
    udp: bool,
}

const _: () = assert!(size_of::<Template>() == 64);

impl Template {
    /// Template of an ESP SA.
    pub fn esp(config: &OutboundConfig) -> Result<Self, SaError> {
        let carried = if config.encap.is_some() { Protocol::UDP } else { Protocol::ESP };
        let mut this = Self::ip(config, carried)?;
        if let Some(Encap { local, remote, .. }) = config.encap {
            this.udp = true;
            this.push(&[local.to_be_bytes(), remote.to_be_bytes()].concat());
            // No checksum (RFC 3948 section 2.1); over IPv6 it comes once all is sealed.
            this.push(&[0; 4]);
        }
        this.push(&config.spi.to_be_bytes());
        this.push(&[0; 4]);
        Ok(this)
    }

    /// The outer IP header alone, in tunnel mode.
    pub fn ip(config: &OutboundConfig, carried: Protocol) -> Result<Self, SaError> {
        let mut this = Self { octets: [0; LONGEST], sum: 0, outer: 0, len: 0, udp: false };
        match (config.source, config.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_))
                if config.mode == Mode::Transport => {}
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = ipv4::Header {
                    version_ihl: 0x45,
                    tos: 0,
                    total_len: 0.into(),
                    ident: 0.into(),
                    fragment: 0.into(),
                    ttl: 0,
                    protocol: carried.0,
                    checksum: 0.into(),
                    src: src.octets(),
                    dst: dst.octets(),
                };
                this.push(header.as_bytes());
                let (words, _) = this.octets[..ipv4::Header::LEN].as_chunks::<2>();
                this.sum = words.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum();
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = ipv6::Header {
                    version_class_flow: (6 << 28).into(),
                    payload_len: 0.into(),
                    next: carried.0,
                    hop_limit: 0,
                    src: src.octets(),
                    dst: dst.octets(),
                };
                this.push(header.as_bytes());
            }
            _ => return Err(SaError::Families),
        }
        this.outer = this.len;
        Ok(this)
    }

    fn push(&mut self, octets: &[u8]) {
        let at = usize::from(self.len);
        self.octets[at..at + octets.len()].copy_from_slice(octets);
        self.len += octets.len() as u8;
    }

    /// Octets of the outer IP header.
    #[inline(always)]
    pub const fn outer_len(&self) -> usize {
        self.outer as usize
    }

    /// Octets in all.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True for an IPv4 header followed by an ESP header.
    pub const fn is_usual(&self) -> bool {
        self.len() == USUAL
    }

    /// Puts a [usual](Self::is_usual) template and the IV in front of a packet: `total`
    /// octets from here to its end.
    #[inline(always)]
    pub fn put_usual(
        &self,
        to: &mut [u8; USUAL_FRONT],
        total: u16,
        varying: Varying,
        (number, iv): (u64, [u8; 8]),
    ) {
        let word =
            |at: usize| u64::from_be_bytes(*self.octets[at..].first_chunk().expect("inside"));
        let (first, second) = self.ipv4(total, varying);
        // In words from registers: a call to copy the template costs as much as all else.
        to[..8].copy_from_slice(&first.to_be_bytes());
        to[8..16].copy_from_slice(&(word(8) | second).to_be_bytes());
        to[16..24].copy_from_slice(&word(16).to_be_bytes());
        to[20..28].copy_from_slice(&(word(20) | number & u64::from(u32::MAX)).to_be_bytes());
        to[28..].copy_from_slice(&iv);
    }

    /// Puts everything in front of a packet, which is `to`: `total` octets from here to
    /// its end. An SA of ESP has its number in the last four octets.
    pub fn put(&self, to: &mut [u8], total: usize, varying: Varying, number: u64) -> Option<()> {
        self.put_ip(to, total, varying)?;
        if self.udp {
            let len = u16::try_from(total.checked_sub(self.outer_len())?).ok()?;
            let at = self.outer_len() + 4;
            to.get_mut(at..at + 2)?.copy_from_slice(&len.to_be_bytes());
        }
        let number = (number as u32).to_be_bytes();
        *to.get_mut(self.len() - number.len()..)?.first_chunk_mut()? = number;
        Some(())
    }

    /// Puts the template in front of a packet, and in its outer IP header what is the
    /// packet's own.
    pub fn put_ip(&self, to: &mut [u8], total: usize, varying: Varying) -> Option<()> {
        to.get_mut(..self.len())?.copy_from_slice(self.octets.get(..self.len())?);
        match self.outer_len() {
            ipv4::Header::LEN => {
                let (first, second) = self.ipv4(u16::try_from(total).ok()?, varying);
                let to = to.first_chunk_mut::<12>()?;
                to[..8].copy_from_slice(&first.to_be_bytes());
                to[8] = varying.hops;
                to[10..].copy_from_slice(&((second >> 32) as u16).to_be_bytes());
            }
            ipv6::Header::LEN => {
                let payload = u16::try_from(total.checked_sub(ipv6::Header::LEN)?).ok()?;
                let to = to.first_chunk_mut::<8>()?;
                to[..4].copy_from_slice(&(6 << 28 | u32::from(varying.class) << 20).to_be_bytes());
                to[4..6].copy_from_slice(&payload.to_be_bytes());
                to[7] = varying.hops;
            }
            _ => {}
        }
        Some(())
    }

    /// The first eight octets of an outer IPv4 header, and of the next eight what is not
    /// the template's: hops and checksum.
    #[inline(always)]
    fn ipv4(&self, total: u16, varying: Varying) -> (u64, u64) {
        let Varying { class, ident, df, hops } = varying;
        let words = [u16::from(class), total, ident, df, u16::from(hops) << 8];
        let sum = words.iter().fold(self.sum, |sum, &word| sum + u32::from(word));
        let first = 0x45 << 56 | u64::from(class) << 48 | u64::from(total) << 32;
        let first = first | u64::from(ident) << 16 | u64::from(df);
        (first, u64::from(hops) << 56 | u64::from(fold(sum)) << 32)
    }
}

/// EtherType of packets between such addresses.
pub(super) const fn ethertype(end: IpAddr) -> EtherType {
    match end {
        IpAddr::V4(_) => EtherType::IPV4,
        IpAddr::V6(_) => EtherType::IPV6,
    }
}

/// The outer identification: different for packets that follow one another, and
/// for SAs between the same gateways.
#[inline(always)]
pub(super) const fn ident(number: u64, spi: u32) -> u16 {
    (number as u16).wrapping_add(spi as u16)
}

/// Writes a trailer with `pad` octets of padding to the front of `tail`, where the ICV
/// follows.
#[inline(always)]
pub(super) fn put_trailer(tail: &mut [u8], pad: usize, next: Protocol) -> Option<()> {
    // A short one in one store: what is too much lies where the ICV comes to be.
    match tail.first_chunk_mut().filter(|_| pad <= SHORT_PAD) {
        Some(front) => *front = short_trailer(pad, next),
        None => esp::emit_trailer(tail.get_mut(..pad + esp::TRAILER_LEN)?, next),
    }
    Some(())
}

/// A trailer with at most [`SHORT_PAD`] octets of padding, and zeros behind it.
#[inline(always)]
pub(super) const fn short_trailer(pad: usize, next: Protocol) -> [u8; SHORT_TRAILER] {
    let at = 8 * pad as u32;
    let end = (next.0 as u64) << 8 | pad as u64;
    (PAD & !(u64::MAX << at) | end << at).to_le_bytes()
}

/// The start of every padding (RFC 4303 section 2.4).
const PAD: u64 = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
/// Octets of a word that holds a short trailer.
pub(super) const SHORT_TRAILER: usize = size_of::<u64>();
/// Octets of padding that fit a word with length and next header.
const SHORT_PAD: usize = SHORT_TRAILER - esp::TRAILER_LEN;

/// The IPv4 checksum of a sum of header words.
#[inline]
const fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + (sum & 0xffff)) as u16
}
