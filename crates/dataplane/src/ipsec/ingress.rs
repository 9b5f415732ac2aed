//! ESP in: opens packets (RFC 4303 section 3.4, RFC 4301 section 5.2).

use super::config::{InboundConfig, Mode};
use super::opener::{Opener, Opening};
use super::state::{Ends, Inbound, InboundSa, Shape, nonce};
use super::unwrapping::KEEPALIVE;
use crate::graph::{Aside, FLAG_ENCAP, Next};
use crate::mss;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::DropReason;
use ferrule_crypto::{Job, Op, Verdict};
use ferrule_pipeline::Packet;
use ferrule_wire::{Ecn, EtherType, FromBytes, Protocol, esp, ipv4, ipv6};

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
        match self.usual {
            true => self.lay_out_as(packet, job, Shape::USUAL),
            false => self.lay_out_as(packet, job, self.shape),
        }
    }

    #[inline(always)]
    fn restore(&self, _: &mut Packet, _: &Job<()>) -> Result<(), DropReason> {
        Ok(())
    }

    /// From an authentic packet to what was in it:
    /// 1. trailer, inner version and length;
    /// 2. it is what this SA may carry;
    /// 3. congestion that was marked outside is marked inside;
    /// 4. everything around it goes.
    #[inline(always)]
    fn unwrap(&mut self, packet: &mut Packet, job: &Job<()>) -> Result<EtherType, DropReason> {
        if self.mode == Mode::Transport || self.udp.is_some() {
            return self.unwrap_special(packet, job);
        }
        self.unwrap_tunnel(packet, job)
    }
}

impl InboundSa {
    /// The steps of laying out, for the sizes of a suite.
    #[inline(always)]
    fn lay_out_as(
        &self,
        packet: &mut Packet,
        job: &mut Job<()>,
        shape: Shape,
    ) -> Result<(), DropReason> {
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
        *job = Job {
            buf: (),
            key: self.base.key,
            ticket: 0,
            number,
            nonce: nonce(self.base.salt, iv),
            op: Op::Open,
            verdict: Verdict::Pending,
            ad: shape.ad(header, self.base.spi, number),
            text,
        };
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
        let start = usize::from(packet.meta().offset);
        let outer = packet.data().first_chunk().map_or(0, class);
        let text = packet.data_mut().get_mut(start..job.text.end()).unwrap_or_default();
        let (len, protocol) = esp::parse_trailer(text).map_err(|_| DropReason::EspBadTrailer)?;
        if protocol == Protocol::NONE {
            return Err(DropReason::EspDummy);
        }
        let payload = text.get_mut(..len).unwrap_or_default();
        let len = inner_len(payload, protocol).ok_or(DropReason::EspBadTrailer)?;
        let inner = payload.get_mut(..len).ok_or(DropReason::EspBadTrailer)?;
        if let Some(mtu) = self.base.clamp {
            mss::clamp(inner, mtu.into());
        }
        // 2
        if !self.base.selectors.admit(inner)? {
            return Err(DropReason::EspSelectorMismatch);
        }
        if !is_plain(inner, protocol) {
            self.base.admits_error(inner)?;
        }
        // 3
        mark(inner, protocol, outer)?;
        // 4
        packet.strip(start);
        packet.truncate(len);
        Ok(if protocol == Protocol::IPV4 { EtherType::IPV4 } else { EtherType::IPV6 })
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

/// TCP or UDP right behind the header: no error about another packet.
#[inline(always)]
fn is_plain(inner: &[u8], protocol: Protocol) -> bool {
    let carried = inner.get(if protocol == Protocol::IPV4 { 9 } else { 6 });
    carried.is_some_and(|&p| p == Protocol::TCP.0 || p == Protocol::UDP.0)
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
