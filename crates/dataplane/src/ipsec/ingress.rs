//! ESP in: opens packets (RFC 4303 section 3.4, RFC 4301 section 5.2).

use super::config::InboundConfig;
use super::opener::{Opener, Opening};
use super::state::{Ends, Inbound, InboundSa, Shape};
use super::unwrapping::KEEPALIVE;
use crate::classify::{Direction, Plain4};
use crate::graph::{Aside, FLAG_ENCAP, Next};
use crate::mss;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::DropReason;
use ferrule_crypto::Job;
use ferrule_pipeline::Packet;
use ferrule_wire::{Ecn, EtherType, FromBytes, Protocol, esp, ipv4, ipv6};
use std::net::SocketAddr;

/// The stage, with the inbound SAs of one worker.
pub type EspIn = Opener<InboundSa>;

impl Opening for InboundSa {
    const SUBMITTER: Submitter = Submitter::EspIn;
    const STAGE: Next = Next::EspIn;
    const SPI_AT: usize = 0;
    const UNKNOWN_SPI: DropReason = DropReason::EspUnknownSpi;
    const REPLAY: DropReason = DropReason::EspReplay;
    const BAD_ICV: DropReason = DropReason::EspBadIcv;

    fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        Self::new(config, edge)
    }

    #[inline(always)]
    fn base(&self) -> &Inbound {
        &self.base
    }

    #[inline(always)]
    fn base_mut(&mut self) -> &mut Inbound {
        &mut self.base
    }

    fn has_implicit_iv(&self) -> bool {
        self.shape.iv == 0
    }

    #[inline(always)]
    fn spi_of(packet: &mut Packet) -> Result<u32, Aside> {
        let at = usize::from(packet.meta().offset);
        let payload = packet.data().get(at..).unwrap_or_default();
        match esp::Header::ref_from_prefix(payload) {
            Ok((header, _)) => Ok(header.spi.get()),
            Err(_) => Err(too_short(packet, at)),
        }
    }

    /// From a packet to a job:
    /// 1. outer addresses are the SA's, and it came as it should; Ethernet's padding goes;
    /// 2. the number may still come;
    /// 3. what is encrypted, and what lies beside it.
    #[inline(always)]
    fn lay_out(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Result<(), DropReason> {
        match self.usual && self.lay_out_usual(packet, job).is_some() {
            true => Ok(()),
            false => self.lay_out_any(packet, job),
        }
    }

    #[inline(always)]
    fn octets_of(&self, job: &Job<()>) -> usize {
        self.shape.encrypted(job)
    }

    #[inline(always)]
    fn restore(&self, _: &mut Packet, _: &Job<()>) -> Result<(), DropReason> {
        Ok(())
    }

    fn source_of(&self, packet: &Packet) -> Option<SocketAddr> {
        self.source_of(packet)
    }

    /// From an authentic packet to what was in it:
    /// 1. trailer, inner version and length;
    /// 2. it is what this SA may carry;
    /// 3. congestion that was marked outside is marked inside;
    /// 4. everything around it goes.
    #[inline(always)]
    fn unwrap(&mut self, packet: &mut Packet, job: &Job<()>) -> Result<EtherType, DropReason> {
        match self.plain {
            true => self.unwrap_tunnel(packet, job),
            false => self.unwrap_special(packet, job),
        }
    }
}

impl InboundSa {
    /// The steps of laying out for a packet in order that comes to a [usual](Self::usual) SA,
    /// with all sizes known. Nothing, and nothing done, for any other.
    #[inline(always)]
    fn lay_out_usual(&self, packet: &mut Packet, job: &mut Job<()>) -> Option<()> {
        const FRONT: usize = Shape::USUAL.text as usize;
        const ICV: usize = Shape::USUAL.icv as usize;
        const ALIGN: usize = Shape::USUAL.align as usize;
        let (meta, data) = packet.split();
        let at = usize::from(meta.offset);
        let front = data.get(at..)?.first_chunk::<FRONT>()?;
        let text = data.len().checked_sub(at + FRONT + ICV)?;
        // 1
        let right = self.base.ends.are_of_whole(data) & (meta.flags & FLAG_ENCAP == 0);
        if !right | (text < ALIGN) | !text.is_multiple_of(ALIGN) {
            return None;
        }
        // 2
        let low = u32::from_be_bytes(*front[4..].first_chunk()?);
        let number = self.base.candidate(low, Shape::USUAL.esn)?.number();
        // 3
        let (header, text) = Shape::USUAL.spans(at, text + FRONT - esp::Header::LEN);
        meta.offset = text.start;
        let ad = Shape::USUAL.ad(header, self.base.spi, number);
        *job = self.base.job(number, *front.last_chunk()?, ad, text);
        Some(())
    }

    /// The steps of laying out for any packet and SA.
    #[inline(never)]
    fn lay_out_any(&self, packet: &mut Packet, job: &mut Job<()>) -> Result<(), DropReason> {
        let shape = self.shape;
        let at = usize::from(packet.meta().offset);
        // 1
        let total = self.base.ends.total_len(packet.data())?;
        if total < packet.len() {
            packet.truncate(total);
        }
        if (packet.meta().flags & FLAG_ENCAP != 0) != self.udp.is_some() {
            return Err(DropReason::EspEncapsulation);
        }
        if !self.base.is_nested_right(packet.meta()) {
            return Err(DropReason::EspNotNested);
        }
        // 2
        let payload = packet.data().get(at..).unwrap_or_default();
        let (header, payload) =
            esp::Header::ref_from_prefix(payload).map_err(|_| DropReason::Malformed)?;
        let candidate = self.base.candidate(header.seq.get(), shape.esn);
        let number = candidate.ok_or(DropReason::EspReplay)?.number();
        // 3
        let body = body_len(shape, packet.len(), at).ok_or(DropReason::Malformed)?;
        let iv = match shape.iv {
            0 => number.to_be_bytes(),
            _ => *payload.first_chunk().ok_or(DropReason::Malformed)?,
        };
        let (header, text) = shape.spans(at, body);
        packet.meta_mut().offset = (at + esp::Header::LEN) as u16 + u16::from(shape.iv);
        *job = self.base.job(number, iv, shape.ad(header, self.base.spi, number), text);
        Ok(())
    }

    /// The inner packet of a tunnel.
    #[inline(always)]
    pub(super) fn unwrap_tunnel(
        &self,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<EtherType, DropReason> {
        // 1
        let (meta, data) = packet.split();
        let start = usize::from(meta.offset);
        let outer = data.first_chunk().map_or(0, class);
        let text = data.get_mut(start..job.text.end()).unwrap_or_default();
        let (len, protocol) = esp::parse_trailer(text).map_err(|_| DropReason::EspBadTrailer)?;
        let payload = text.get_mut(..len).unwrap_or_default();
        // 1, 2, 3
        let (len, ethertype) = match Plain4::read(payload, Direction::Inbound) {
            Some(plain) if protocol == Protocol::IPV4 && plain.is_whole(len) => {
                (self.base.take_plain(plain, payload, outer)?, EtherType::IPV4)
            }
            _ => self.base.take_any(protocol, payload, outer)?,
        };
        // 4
        packet.keep(start, start + len);
        Ok(ethertype)
    }
}

impl Inbound {
    /// Steps 1 to 3 for most of all packets, of which one look shows all.
    #[inline(always)]
    fn take_plain(
        &self,
        plain: Plain4,
        payload: &mut [u8],
        outer: u8,
    ) -> Result<usize, DropReason> {
        if let Some(mtu) = self.clamp {
            mss::clamp(payload.get_mut(..plain.total).unwrap_or_default(), mtu.into());
        }
        if !self.selectors.admit_plain(plain) {
            return Err(DropReason::EspSelectorMismatch);
        }
        // Congestion that was not marked outside, or inside as well.
        if (outer ^ plain.class) & 3 != 0 && outer & 3 != 0 {
            mark(payload, Protocol::IPV4, outer)?;
        }
        Ok(plain.total)
    }

    /// Steps 1 to 3 for any packet.
    #[inline(never)]
    fn take_any(
        &self,
        protocol: Protocol,
        payload: &mut [u8],
        outer: u8,
    ) -> Result<(usize, EtherType), DropReason> {
        // 1
        if protocol == Protocol::NONE {
            return Err(DropReason::EspDummy);
        }
        let len = inner_len(payload, protocol).ok_or(DropReason::EspBadTrailer)?;
        let inner = payload.get_mut(..len).ok_or(DropReason::EspBadTrailer)?;
        if let Some(mtu) = self.clamp {
            mss::clamp(inner, mtu.into());
        }
        // 2
        if !self.selectors.admit(inner)? {
            return Err(DropReason::EspSelectorMismatch);
        }
        self.admits_error(inner)?;
        // 3
        mark(inner, protocol, outer)?;
        Ok((len, if protocol == Protocol::IPV4 { EtherType::IPV4 } else { EtherType::IPV6 }))
    }
}

/// Octets between ESP header (at `at`) and ICV: the IV, whole blocks, at least the two
/// octets of the trailer.
#[inline(always)]
fn body_len(shape: Shape, len: usize, at: usize) -> Option<usize> {
    let body = len.checked_sub(at + esp::Header::LEN + usize::from(shape.icv))?;
    let text = body.checked_sub(shape.iv.into())?;
    let whole = text & (usize::from(shape.align) - 1) == 0;
    (whole && text >= esp::TRAILER_LEN).then_some(body)
}

impl Ends {
    /// True for an IPv4 packet with these outer addresses that is no fragment and all of `data`.
    #[inline(always)]
    fn are_of_whole(&self, data: &[u8]) -> bool {
        const VERSION: u64 = 0xf << 60;
        const FRAGMENT: u64 = 0x3fff;
        let Self::V4 { ends, mask } = *self else { return false };
        let Some(header) = data.first_chunk::<{ ipv4::Header::LEN }>() else { return false };
        let word =
            |at: usize| header[at..].first_chunk().map_or(0, |&word| u64::from_be_bytes(word));
        let (start, found) = (word(0), word(12));
        let whole = u64::from((start >> 32) as u16) == data.len() as u64;
        (start & (VERSION | FRAGMENT) == 4 << 60) & ((found ^ ends) & mask == 0) & whole
    }

    /// Octets of a packet that has these outer addresses and is whole.
    #[inline(always)]
    pub(super) fn total_len(&self, data: &[u8]) -> Result<usize, DropReason> {
        let total = match self {
            Self::V4 { ends, mask } => {
                let h = ipv4::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?.0;
                let [a, b, c, d] = h.src;
                let [e, f, g, i] = h.dst;
                let found = u64::from_be_bytes([a, b, c, d, e, f, g, i]);
                if h.version_ihl >> 4 != 4 || (found ^ ends) & mask != 0 {
                    return Err(DropReason::EspUnknownSpi);
                }
                if h.is_fragment() {
                    return Err(DropReason::FragmentNotSupported);
                }
                h.total_len.get().into()
            }
            Self::V6 { src, dst } => {
                let h = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?.0;
                let v6 = h.version_class_flow.get() >> 28 == 6;
                if !v6 || h.dst != *dst || src.is_some_and(|src| h.src != src) {
                    return Err(DropReason::EspUnknownSpi);
                }
                ipv6::Header::LEN + usize::from(h.payload_len.get())
            }
        };
        if total > data.len() { Err(DropReason::Malformed) } else { Ok(total) }
    }
}

/// No ESP header: in UDP it may be a keepalive, which has done its work (RFC 3948 section
/// 2.3).
#[cold]
fn too_short(packet: &Packet, at: usize) -> Aside {
    let in_udp = packet.meta().flags & FLAG_ENCAP != 0;
    if in_udp && packet.data().get(at..) == Some(&KEEPALIVE) {
        return Aside::Consume;
    }
    DropReason::Malformed.into()
}

/// TOS or traffic class of an IP header of either version.
#[inline]
pub(super) const fn class(start: &[u8; 2]) -> u8 {
    if start[0] >> 4 == 4 { start[1] } else { start[0] << 4 | start[1] >> 4 }
}

/// Octets of the inner packet: fewer than the payload's where the sender hid
/// the length (RFC 4303 section 2.7).
#[inline(always)]
pub(super) fn inner_len(payload: &[u8], protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::IPV4 => {
            let (h, _) = ipv4::Header::ref_from_prefix(payload).ok()?;
            let (header, total) = (h.header_len(), usize::from(h.total_len.get()));
            let good = h.version_ihl >> 4 == 4 && header >= ipv4::Header::LEN && header <= total;
            good.then_some(total)
        }
        Protocol::IPV6 => {
            let (h, _) = ipv6::Header::ref_from_prefix(payload).ok()?;
            let good = h.version_class_flow.get() >> 28 == 6;
            good.then_some(ipv6::Header::LEN + usize::from(h.payload_len.get()))
        }
        _ => None,
    }
}

/// Carries the outer header's congestion mark over.
#[inline(always)]
pub(super) fn mark(inner: &mut [u8], protocol: Protocol, outer: u8) -> Result<(), DropReason> {
    let before = Ecn::from_bits(inner.first_chunk().map_or(0, class));
    let Some(after) = Ecn::decapsulate(before, Ecn::from_bits(outer)) else {
        return Err(DropReason::EspEcn);
    };
    if after == before {
        return Ok(());
    }
    if protocol == Protocol::IPV4 {
        if let Ok((h, _)) = ipv4::Header::mut_from_prefix(inner) {
            h.set_ecn(after);
        }
    } else if let Ok((h, _)) = ipv6::Header::mut_from_prefix(inner) {
        h.set_ecn(after);
    }
    Ok(())
}
