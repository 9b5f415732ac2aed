//! ESP out: seals IP packets (RFC 4303 section 3.3, RFC 4301 section 5.1).

use super::config::OutboundConfig;
use super::outer::{Inner, SHORT_TRAILER, USUAL_FRONT, Varying, ident, put_trailer, short_trailer};
use super::sealer::{Sealer, Sealing, may_cut};
use super::state::{Outbound, OutboundSa, Shape};
use super::wrapping::{Plan, Refusal, clear_df, fill_udp, patch};
use crate::graph::{Ctx, Next};
use crate::mss;
use crate::protection::sequence::Sequence;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::{DropReason, Duration, Instant, Rng};
use ferrule_crypto::{Job, Span};
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{Protocol, esp};

/// The stage, with the outbound SAs of one worker.
pub type EspOut = Sealer<OutboundSa>;

impl Sealing for OutboundSa {
    const SUBMITTER: Submitter = Submitter::EspOut;
    const STAGE: Next = Next::EspOut;
    const FIRST_GENERATION: u32 = 0;
    const NO_SA: DropReason = DropReason::EspNoSa;
    const EXHAUSTED: DropReason = DropReason::EspSequenceExhausted;

    fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        Self::new(config, sequence)
    }

    #[inline(always)]
    fn base(&self) -> &Outbound {
        &self.base
    }

    #[inline(always)]
    fn base_mut(&mut self) -> &mut Outbound {
        &mut self.base
    }

    /// From a packet to a job:
    /// 1. the packet's length, class and DF; what follows it goes;
    /// 2. too long for the path: its sender is told, or it is cut before it is sealed or
    ///    afterwards;
    /// 3. a number, which nobody else ever gets;
    /// 4. trailer behind, outer header, ESP header and IV in front;
    /// 5. what is encrypted, and what lies beside it.
    #[inline(always)]
    fn lay_out(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Refusal> {
        if self.usual && self.lay_out_usual(packet, job).is_some() {
            return Ok(());
        }
        self.lay_out_any(now, packet, job)
    }

    #[inline(always)]
    fn octets_of(&self, job: &Job<()>) -> usize {
        self.shape.encrypted(job)
    }

    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.settled
    }

    #[inline(always)]
    fn conclude(&self, packet: &mut Packet, _: &Job<()>) -> Result<(), DropReason> {
        match self.special.as_deref() {
            Some(special) if special.udp.is_some() && matches!(special.ends, Ends::V6(..)) => {
                fill_udp(packet)
            }
            _ => Ok(()),
        }
    }

    fn keepalive(&mut self, ctx: &mut Ctx<'_>, every: Duration) -> (Option<Packet>, Instant) {
        let Some(special) = self.special.as_deref_mut() else { return (None, ctx.now) };
        if special.last + every > ctx.now {
            return (None, special.last);
        }
        let Some(mut packet) = ctx.make(&[]) else { return (None, special.last) };
        special.last = ctx.now;
        let made = special.keepalive(&mut packet).ok_or(DropReason::NoRoom);
        match made.and_then(|()| self.conclude_keepalive(&mut packet)) {
            Ok(()) => (Some(packet), ctx.now),
            Err(reason) => {
                ctx.out.drop(packet, reason);
                (None, ctx.now)
            }
        }
    }

    fn dummy(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
        rng: &mut Rng,
    ) -> Option<Result<(), Refusal>> {
        let special = self.special.as_deref()?;
        let len = rng.below(self.base.path.mtu.into()) as usize;
        let plan = Plan::dummy(self, special, len);
        let filled = plan.fill(special, packet, rng).ok_or(Refusal::Drop(DropReason::NoRoom));
        Some(filled.and_then(|()| self.seal(now, packet, job, &plan)))
    }
}

impl OutboundSa {
    /// All steps for a packet that fits a [usual](Self::usual) SA, with all sizes known.
    /// Nothing, but perhaps a number that is lost, for any other.
    #[inline(always)]
    fn lay_out_usual(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Option<()> {
        const ICV: usize = Shape::USUAL.icv as usize;
        const ALIGN: usize = Shape::USUAL.align as usize;
        let base = &mut self.base;
        // 1
        let inner = Inner::read(packet.data())?;
        // 2
        if inner.len() > usize::from(base.path.mtu) {
            return None;
        }
        // 3
        let number = base.sequence.take()?;
        // 4
        let pad = esp::pad_len(inner.len(), ALIGN);
        let behind = pad + esp::TRAILER_LEN + ICV;
        let total = USUAL_FRONT + inner.len() + behind;
        let (front, tail) =
            packet.wrap::<USUAL_FRONT, SHORT_TRAILER>(inner.len(), behind as u16)?;
        *tail = short_trailer(pad, inner.protocol);
        // A packet is shorter than 64 KiB.
        let iv = base.iv_of(number);
        self.template.put_usual(front, total as u16, base.varying(inner, number), (number, iv));
        base.stats.packets += 1;
        base.stats.octets += inner.len() as u64;
        // 5
        let at = USUAL_FRONT - usize::from(Shape::USUAL.text);
        let (header, text) = Shape::USUAL.spans(at, total - ICV - at - esp::Header::LEN);
        *job = base.job(number, Shape::USUAL.ad(header, base.spi, number), text);
        Some(())
    }

    /// All steps, for any packet and SA.
    #[inline(never)]
    fn lay_out_any(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Refusal> {
        if self.base.clamps {
            mss::clamp(packet.data_mut(), self.base.path.mtu.into());
        }
        let plan = Plan::of(self, packet.data(), may_cut(packet))?;
        packet.truncate(plan.clear());
        self.seal(now, packet, job, &plan)
    }

    /// Steps 3 to 5.
    fn seal(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
        plan: &Plan,
    ) -> Result<(), Refusal> {
        // 3
        let number = self.base.sequence.take().ok_or(DropReason::EspSequenceExhausted)?;
        // 4
        let (header, text) = self.wrap(packet, plan, number).ok_or(DropReason::NoRoom)?;
        if plan.long {
            self.base.path.mark(packet.meta_mut());
        }
        if let Some(special) = self.special.as_deref_mut() {
            // A refused packet keeps no NAT binding alive.
            special.last = now;
        }
        self.base.stats.packets += 1;
        self.base.stats.octets += plan.clear() as u64;
        // 5
        *job = self.base.job(number, self.shape.ad(header, self.base.spi, number), text);
        Ok(())
    }

    /// Puts everything around a packet: what is beside the text, and the text. Nothing if
    /// there is no room for it.
    fn wrap(&self, packet: &mut Packet, plan: &Plan, number: u64) -> Option<(Span, Span)> {
        let (shape, headers) = (self.shape, self.template.len());
        let (iv, icv) = (usize::from(shape.iv), usize::from(shape.icv));
        let front = headers + iv;
        let pad = esp::pad_len(plan.text + plan.zeros, shape.align.into());
        let trailer = pad + esp::TRAILER_LEN;
        let data = packet.grow(front, plan.zeros + trailer + icv)?;
        let len = data.len();
        if plan.head != 0 {
            data.get(..front + plan.head)?;
            data.copy_within(front..front + plan.head, 0);
        }
        let mut behind = front + plan.clear();
        if plan.zeros != 0 {
            data.get_mut(behind..behind + plan.zeros)?.fill(0);
            behind += plan.zeros;
        }
        put_trailer(data.get_mut(behind..)?, pad, plan.next)?;
        let ident = ident(number, self.base.spi);
        let varying = Varying { class: plan.class, ident, df: plan.df, hops: plan.hops };
        let room = data.get_mut(plan.head..)?;
        self.template.put(room, len - plan.head, varying, number)?;
        if iv != 0 {
            // That of CBC is the engine's to write.
            let room = room.get_mut(headers..)?;
            *room.first_chunk_mut()? = self.base.iv_of(number);
        }
        if plan.head != 0 {
            self.patch_own(data, plan, len)?;
        }
        let esp = plan.head + headers - esp::Header::LEN;
        Some(shape.spans(esp, len - icv - esp - esp::Header::LEN))
    }

    /// In transport mode the packet's own header says what follows it now, and how much.
    #[inline(never)]
    fn patch_own(&self, data: &mut [u8], plan: &Plan, len: usize) -> Option<()> {
        let in_udp = self.special.as_deref().is_some_and(|special| special.udp.is_some());
        let carried = if in_udp { Protocol::UDP } else { Protocol::ESP };
        patch(data, plan.field, carried, u16::try_from(len).ok()?)?;
        if plan.long {
            clear_df(data);
        }
        Some(())
    }

    fn conclude_keepalive(&self, packet: &mut Packet) -> Result<(), DropReason> {
        match self.special.as_deref() {
            Some(special) if matches!(special.ends, Ends::V6(..)) => fill_udp(packet),
            _ => Ok(()),
        }
    }
}
