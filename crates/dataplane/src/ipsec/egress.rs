//! ESP out: seals IP packets (RFC 4303 section 3.3, RFC 4301 section 5.1).

use super::config::OutboundConfig;
use super::outer::{Inner, Varying, ident, put_trailer};
use super::sealer::{Sealer, Sealing, may_cut};
use super::state::{Outbound, OutboundSa, Shape, nonce};
use super::wrapping::{Plan, Refusal, clear_df, fill_udp, patch};
use crate::graph::{Aside, Ctx, Next};
use crate::mss;
use crate::protection::sequence::Sequence;
use crate::protection::table::SaError;
use crate::protection::tickets::Submitter;
use ferrule_base::{DropReason, Duration, Instant, Rng};
use ferrule_crypto::{Job, Op, Span, Verdict};
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{Protocol, esp};

/// The stage, with the outbound SAs of one worker.
pub type EspOut = Sealer<OutboundSa>;

impl Sealing for OutboundSa {
    const SUBMITTER: Submitter = Submitter::EspOut;
    const STAGE: Next = Next::EspOut;
    const FIRST_GENERATION: u32 = 0;
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

    /// An SA of AH has the index, or none.
    #[cold]
    fn elsewhere(ctx: &Ctx<'_>, index: u32) -> Aside {
        match ctx.tables.sas.is_ah(index) {
            true => Aside::To(Next::AhOut),
            false => DropReason::EspNoSa.into(),
        }
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
        // 1, 2
        if self.usual {
            let plan = self.plan(packet)?;
            return self.seal::<true>(now, packet, job, &plan);
        }
        let plan = self.special_plan(packet)?;
        self.seal::<false>(now, packet, job, &plan)
    }

    #[inline(always)]
    fn conclude(&self, packet: &mut Packet, _: &Job<()>) -> Result<(), DropReason> {
        match self.special.as_deref() {
            Some(special) if special.udp.is_some() && matches!(special.ends, Ends::V6(..)) => {
                fill_udp(packet, &special.ends)
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
        Some(filled.and_then(|()| self.seal::<false>(now, packet, job, &plan)))
    }
}

impl OutboundSa {
    /// Steps 1 and 2 for a plain tunnel.
    #[inline(always)]
    fn plan(&self, packet: &mut Packet) -> Result<Plan, Refusal> {
        let inner = Inner::read(packet.data()).ok_or(DropReason::Malformed)?;
        let long = inner.len() > usize::from(self.base.path.mtu);
        if inner.len() < packet.len() {
            packet.truncate(inner.len());
        }
        if long {
            self.base.path.judge(inner, may_cut(packet))?;
        }
        Ok(Plan {
            head: 0,
            field: 0,
            text: inner.len(),
            next: inner.protocol,
            zeros: 0,
            class: self.base.class_of(inner),
            df: if long { 0 } else { self.base.df_of(inner) },
            hops: self.base.hops.unwrap_or_default(),
            long,
        })
    }

    /// The same for any SA.
    #[inline(never)]
    fn special_plan(&self, packet: &mut Packet) -> Result<Plan, Refusal> {
        if self.base.clamps {
            mss::clamp(packet.data_mut(), self.base.path.mtu.into());
        }
        let Some(special) = self.special.as_deref() else { return self.plan(packet) };
        let plan = Plan::of(self, special, packet.data(), may_cut(packet))?;
        packet.truncate(plan.clear());
        Ok(plan)
    }

    /// Steps 3 to 5.
    #[inline(always)]
    fn seal<const USUAL: bool>(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
        plan: &Plan,
    ) -> Result<(), Refusal> {
        // 3
        let number = self.base.sequence.take().ok_or(DropReason::EspSequenceExhausted)?;
        // 4
        let (header, text) = self.wrap::<USUAL>(packet, plan, number).ok_or(DropReason::NoRoom)?;
        if plan.long {
            self.base.path.mark(packet.meta_mut());
        }
        if !USUAL && let Some(special) = self.special.as_deref_mut() {
            // A refused packet keeps no NAT binding alive.
            special.last = now;
        }
        self.base.stats.packets += 1;
        self.base.stats.octets += plan.clear() as u64;
        // 5
        *job = Job {
            buf: (),
            key: self.base.key,
            ticket: 0,
            number,
            nonce: nonce(self.base.salt, number.to_be_bytes()),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: self.shape_of::<USUAL>().ad(header, self.base.spi, number),
            text,
        };
        Ok(())
    }

    /// Puts everything around a packet: what is beside the text, and the text. Nothing if
    /// there is no room for it.
    #[inline(always)]
    fn wrap<const USUAL: bool>(
        &self,
        packet: &mut Packet,
        plan: &Plan,
        number: u64,
    ) -> Option<(Span, Span)> {
        let (shape, headers) = (self.shape_of::<USUAL>(), self.template.len_of::<USUAL>());
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
        let (class, df, hops) = (plan.class, plan.df, plan.hops);
        let varying = Varying { class, ident: ident(number, self.base.spi), df, hops };
        let room = data.get_mut(plan.head..)?;
        self.template.put::<USUAL>(room, len - plan.head, varying, number)?;
        if iv != 0 {
            // An AEAD's IV is the number; that of CBC is the engine's to write.
            let room = room.get_mut(headers..)?;
            *room.first_chunk_mut()? = number.to_be_bytes();
        }
        if plan.head != 0 {
            self.patch_own(data, plan, len)?;
        }
        let esp = plan.head + headers - esp::Header::LEN;
        Some(shape.spans(esp, len - icv - esp - esp::Header::LEN))
    }

    #[inline(always)]
    const fn shape_of<const USUAL: bool>(&self) -> Shape {
        if USUAL { Shape::USUAL } else { self.shape }
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
            Some(special) if matches!(special.ends, Ends::V6(..)) => {
                fill_udp(packet, &special.ends)
            }
            _ => Ok(()),
        }
    }
}
