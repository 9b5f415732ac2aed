//! AH in: checks packets (RFC 4302 section 3.4, RFC 4301 section 5.2) and takes AH
//! off them.

use super::cover::{self, At, Place};
use super::state::{AhInSa, covered, ethertype};
use crate::fragment::take_off_atomic;
use crate::graph::{Aside, Next};
use crate::ipsec::config::InboundConfig;
use crate::ipsec::ingress::{class, inner_len, mark};
use crate::ipsec::opener::{Opener, Opening};
use crate::ipsec::state::{Inbound, nonce};
use crate::mss;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::DropReason;
use ferrule_crypto::{Job, Op, Span, Verdict};
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, Malformed, Protocol, ah, ipv6ext};

/// The stage, with the inbound AH SAs of one worker.
pub type AhIn = Opener<AhInSa>;

impl Opening for AhInSa {
    const SUBMITTER: Submitter = Submitter::AhIn;
    const STAGE: Next = Next::AhIn;
    const SPI_AT: usize = 4;
    const UNKNOWN_SPI: DropReason = DropReason::AhUnknownSpi;
    const REPLAY: DropReason = DropReason::AhReplay;
    const BAD_ICV: DropReason = DropReason::AhBadIcv;

    fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        Self::new(config, edge)
    }

    fn base(&self) -> &Inbound {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Inbound {
        &mut self.base
    }

    fn has_implicit_iv(&self) -> bool {
        self.shape.iv == 0
    }

    /// A fragment header that says that the datagram is whole goes, as AH never saw it
    /// (RFC 4302 section 3.4.1).
    fn spi_of(packet: &mut Packet) -> Result<u32, Aside> {
        let at = place(packet);
        let header = packet.data().get(at..).unwrap_or_default();
        let (header, _) =
            ah::Header::read_from_prefix(header).map_err(|_| DropReason::Malformed)?;
        Ok(header.spi.get())
    }

    /// From a packet to a job:
    /// 1. the addresses are the SA's, and it came out of the SA around; Ethernet's
    ///    padding goes;
    /// 2. the number may still come;
    /// 3. AH is as long as the SA's is; headers muted, the ICV behind the packet.
    fn lay_out(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Result<(), DropReason> {
        let at = usize::from(packet.meta().offset);
        // 1
        let total = self.base.ends.total_len(packet.data()).map_err(|reason| match reason {
            DropReason::EspUnknownSpi => DropReason::AhUnknownSpi,
            reason => reason,
        })?;
        packet.truncate(total);
        if !self.base.is_nested_right(packet.meta()) {
            return Err(DropReason::AhNotNested);
        }
        // 2
        let header = packet.data().get(at..).unwrap_or_default();
        let (header, _) =
            ah::Header::read_from_prefix(header).map_err(|_| DropReason::Malformed)?;
        let candidate = self.base.candidate(header.seq.get(), self.shape.esn);
        let number = candidate.ok_or(DropReason::AhReplay)?.number();
        // 3
        let (covered, text, iv) = self.cover(packet, at, &header)?;
        let iv = if self.shape.iv == 0 { number.to_be_bytes() } else { iv };
        *job = Job {
            buf: (),
            key: self.base.key,
            ticket: 0,
            number,
            nonce: nonce(self.base.salt, iv),
            op: Op::Open,
            verdict: Verdict::Pending,
            ad: self.shape.ad(covered, number),
            text,
        };
        Ok(())
    }

    fn octets_of(&self, job: &Job<()>) -> usize {
        covered(job)
    }

    /// Headers and ICV are where they were.
    fn restore(&self, packet: &mut Packet, job: &Job<()>) -> Result<(), DropReason> {
        let at = packet.meta().offset.into();
        cover::uncover(packet, job, at, self.shape).ok_or(DropReason::EngineFailed)
    }

    /// From an authentic packet to the one that goes on:
    /// 1. AH goes: all up to the inner packet, or the header alone;
    /// 2. what is left is what this SA may carry;
    /// 3. congestion that was marked outside is marked inside.
    fn unwrap(&mut self, packet: &mut Packet, _: &Job<()>) -> Result<EtherType, DropReason> {
        // 1
        let at = usize::from(packet.meta().offset);
        let outer = packet.data().first_chunk().map_or(0, class);
        let header = packet.data().get(at..).unwrap_or_default();
        let (header, _) =
            ah::Header::read_from_prefix(header).map_err(|_| DropReason::AhBadHeader)?;
        let protocol = match self.tunnel {
            true => inner(packet, at, &header)?,
            false => restored(packet, at, &header)?,
        };
        // 2
        if let Some(mtu) = self.base.clamp {
            mss::clamp(packet.data_mut(), mtu.into());
        }
        if !self.base.selectors.admit(packet.data())? {
            return Err(DropReason::AhSelectorMismatch);
        }
        // 3
        if self.tunnel {
            mark(packet.data_mut(), protocol, outer).map_err(|_| DropReason::AhEcn)?;
        }
        Ok(ethertype(protocol == Protocol::IPV6))
    }
}

impl AhInSa {
    /// Lays the packet out for the engine: what is covered, the empty text, the IV.
    fn cover(
        &self,
        packet: &mut Packet,
        at: usize,
        header: &ah::Header,
    ) -> Result<(Span, Span, [u8; 8]), DropReason> {
        let place = Place::found(packet.data(), at)?;
        let (len, icv) = (packet.len(), usize::from(self.shape.icv));
        let header_len = header.total_len();
        if !self.shape.may_be(header_len, place.v6) || at + header_len > len {
            return Err(DropReason::AhBadHeader);
        }
        packet.meta_mut().offset = at as u16;
        let data = packet.grow(at, icv).ok_or(DropReason::NoRoom)?;
        cover::cover(data, place, At::Receiver).map_err(refused)?;
        let icv_at = 2 * at + self.shape.icv_at();
        data.copy_within(icv_at..icv_at + icv, at + len);
        let field = data.get_mut(2 * at + ah::Header::LEN..icv_at + icv);
        let field = field.ok_or(DropReason::AhBadHeader)?;
        let iv = field.first_chunk().copied().unwrap_or_default();
        field.fill(0);
        let (covered, text) = cover::spans(at, len);
        Ok((covered, text, iv))
    }
}

/// Offset of AH, once a fragment header is gone that a whole datagram came with.
fn place(packet: &mut Packet) -> usize {
    let gone = if take_off_atomic(packet) { ipv6ext::Header::LEN as u16 } else { 0 };
    let meta = packet.meta_mut();
    meta.offset = meta.offset.saturating_sub(gone);
    meta.offset.into()
}

/// Refused headers: a chain that is not carried, or one that contradicts itself.
const fn refused(why: Malformed) -> DropReason {
    match why {
        Malformed::HeaderChain => DropReason::IpOption,
        _ => DropReason::AhBadHeader,
    }
}

/// Tunnel mode: the packet inside, and what it is.
fn inner(packet: &mut Packet, at: usize, header: &ah::Header) -> Result<Protocol, DropReason> {
    let protocol = Protocol(header.next);
    if !packet.strip(at + header.total_len()) {
        return Err(DropReason::AhBadHeader);
    }
    let len = inner_len(packet.data(), protocol).filter(|&len| len <= packet.len());
    packet.truncate(len.ok_or(DropReason::AhBadHeader)?);
    Ok(protocol)
}

/// Transport mode: the packet as it was before AH was put into it.
fn restored(packet: &mut Packet, at: usize, header: &ah::Header) -> Result<Protocol, DropReason> {
    let place = Place::found(packet.data(), at)?;
    let (gone, len) = (header.total_len(), packet.len());
    let data = packet.data_mut();
    if at + gone > data.len() {
        return Err(DropReason::AhBadHeader);
    }
    data.copy_within(..at, gone);
    packet.strip(gone);
    let renamed = place.rename(packet.data_mut(), len - gone, Protocol(header.next));
    renamed.ok_or(DropReason::AhBadHeader)?;
    Ok(if place.v6 { Protocol::IPV6 } else { Protocol::IPV4 })
}
