//! AH out: authenticates IP packets (RFC 4302 section 3.3), in a tunnel or as they
//! are.

use super::cover::{self, At, Place};
use super::state::{AhOutSa, covered};
use crate::fragment::take_off_atomic;
use crate::graph::Next;
use crate::ipsec::config::OutboundConfig;
use crate::ipsec::outer::{Inner, Varying, ident};
use crate::ipsec::sealer::{Sealer, Sealing, may_cut};
use crate::ipsec::state::Outbound;
use crate::ipsec::wrapping::{Refusal, clear_df};
use crate::mss;
use crate::protection::sequence::Sequence;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::{DropReason, Instant};
use ferrule_crypto::{Job, Span};
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{Malformed, Protocol};

/// The stage, with the outbound AH SAs of one worker.
pub type AhOut = Sealer<AhOutSa>;

impl Sealing for AhOutSa {
    const SUBMITTER: Submitter = Submitter::AhOut;
    const STAGE: Next = Next::AhOut;
    const FIRST_GENERATION: u32 = 1 << 31;
    const NO_SA: DropReason = DropReason::AhNoSa;
    const EXHAUSTED: DropReason = DropReason::AhSequenceExhausted;

    fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        Self::new(config, sequence)
    }

    fn base(&self) -> &Outbound {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Outbound {
        &mut self.base
    }

    fn octets_of(&self, job: &Job<()>) -> usize {
        covered(job)
    }

    /// From a packet to a job:
    /// 1. the packet's length, class and DF, and where AH goes; of a fragment the whole
    ///    datagram is wanted, and a header that only says that it is one goes;
    /// 2. too long for the path: its sender is told, or it is cut before AH is in it or
    ///    afterwards;
    /// 3. a number, which nobody else ever gets;
    /// 4. AH, in tunnel mode an outer header before it, and the headers muted.
    fn lay_out(
        &mut self,
        _: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Refusal> {
        // 1
        let inner = self.read(packet).ok_or(DropReason::Malformed)?;
        let place = match self.tunnel {
            true => Place::outer(matches!(self.ends, Ends::V6(..)), inner.protocol),
            false => Place::transport(packet.data()).map_err(|reason| match reason {
                DropReason::FragmentNotSupported => Refusal::Fragment,
                reason => Refusal::Drop(reason),
            })?,
        };
        // 2
        let long = inner.len() > usize::from(self.base.path.mtu);
        let df = self.df_of(inner, packet)?;
        // 3
        let number = self.base.sequence.take().ok_or(DropReason::AhSequenceExhausted)?;
        // 4
        let (covered, text) = self.wrap(packet, &inner, place, df, number)?;
        packet.meta_mut().offset = place.head as u16;
        if long {
            self.base.path.mark(packet.meta_mut());
        }
        self.base.stats.packets += 1;
        self.base.stats.octets += inner.len() as u64;
        *job = self.base.job(number, self.shape.ad(covered, number), text);
        Ok(())
    }

    /// Headers and ICV go where they belong.
    fn conclude(&self, packet: &mut Packet, job: &Job<()>) -> Result<(), DropReason> {
        let head = packet.meta().offset.into();
        cover::uncover(packet, job, head, self.shape).ok_or(DropReason::EngineFailed)
    }
}

impl AhOutSa {
    /// Reads a packet, whose padding goes, and in transport mode a fragment header that
    /// it is whole with: AH covers a datagram as it is without one (RFC 4302 section
    /// 3.1.1).
    fn read(&self, packet: &mut Packet) -> Option<Inner> {
        let inner = Inner::read(packet.data())?;
        packet.truncate(inner.len());
        let inner = match !self.tunnel && take_off_atomic(packet) {
            true => Inner::read(packet.data())?,
            false => inner,
        };
        if self.base.clamps {
            mss::clamp(packet.data_mut(), self.base.path.mtu.into());
        }
        Some(inner)
    }

    /// The outer DF bit. What is let through although it is too long is going to be
    /// cut, and says so.
    fn df_of(&self, inner: Inner, packet: &mut Packet) -> Result<u16, Refusal> {
        if inner.len() <= usize::from(self.base.path.mtu) {
            return Ok(self.base.df_of(inner));
        }
        self.base.path.judge(inner, may_cut(packet))?;
        if !self.tunnel {
            clear_df(packet.data_mut());
        }
        Ok(0)
    }

    /// Puts AH into the packet, and the outer header in tunnel mode, and mutes what
    /// stands before it.
    fn wrap(
        &self,
        packet: &mut Packet,
        inner: &Inner,
        place: Place,
        df: u16,
        number: u64,
    ) -> Result<(Span, Span), DropReason> {
        let made = match self.tunnel {
            true => self.wrap_tunnel(packet, inner, place, df, number),
            false => self.wrap_transport(packet, place, number),
        };
        let len = made.ok_or(DropReason::NoRoom)?;
        let covered = cover::cover(packet.data_mut(), place, At::Sender);
        covered.map_err(|why| match why {
            Malformed::HeaderChain => DropReason::IpOption,
            _ => DropReason::Malformed,
        })?;
        // In transport mode between the SA's ends alone, as they are when it arrives.
        if place.ends(packet.data().get(place.head..).unwrap_or_default()) != Some(self.ends) {
            return Err(DropReason::AhSelectorMismatch);
        }
        Ok(cover::spans(place.head, len))
    }

    /// Octets of the packet that it becomes; the copy's room is in front of it.
    fn wrap_tunnel(
        &self,
        packet: &mut Packet,
        inner: &Inner,
        place: Place,
        df: u16,
        number: u64,
    ) -> Option<usize> {
        let (head, header) = (place.head, self.shape.header_len(place.v6));
        let varying = Varying {
            class: self.base.class_of(*inner),
            ident: ident(number, self.base.spi),
            df,
            hops: self.base.hops.unwrap_or_else(|| inner.hops(packet.data())),
        };
        let len = head + header + inner.len();
        let data = packet.grow(2 * head + header, self.shape.icv.into())?;
        self.template.put_ip(data.get_mut(head..)?, len, varying)?;
        let room = data.get_mut(2 * head..2 * head + header)?;
        cover::emit(room, place.next, self.base.spi, number)?;
        Some(len)
    }

    /// The same without an outer header: the packet's own moves to the front.
    fn wrap_transport(&self, packet: &mut Packet, place: Place, number: u64) -> Option<usize> {
        let (head, header) = (place.head, self.shape.header_len(place.v6));
        let len = packet.len() + header;
        let data = packet.grow(head + header, self.shape.icv.into())?;
        data.copy_within(head + header..2 * head + header, head);
        place.rename(data.get_mut(head..)?, len, Protocol::AH)?;
        let room = data.get_mut(2 * head..2 * head + header)?;
        cover::emit(room, place.next, self.base.spi, number)?;
        Some(len)
    }
}
