//! AH out: authenticates IP packets (RFC 4302 section 3.3), in a tunnel or as they
//! are.

use super::cover::{self, At, Place};
use super::state::{AhOutSa, Outer, Varying, ethertype};
use super::work;
use crate::fragment::take_off_atomic;
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, Next};
use crate::ipsec::clock::{Clock, DEEDS_MAX, Deed};
use crate::ipsec::config::OutboundConfig;
use crate::ipsec::egress::{LOOK_EVERY, Want, cut_before, may_cut, put_together, too_big};
use crate::ipsec::outer::{Inner, ident};
use crate::ipsec::path::{PATH_AGE, Quote};
use crate::ipsec::state::{SaView, nonce};
use crate::ipsec::table::{Held, SaError, SaId, SaTable};
use crate::ipsec::wrapping::{Refusal, clear_df};
use crate::mss;
use crate::sequence::Sequence;
use crate::tickets::{Submitter, Tickets};
use ferrule_base::{DropReason, Instant};
use ferrule_crypto::{Coming, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{Malformed, Protocol};

/// The stage, with the outbound AH SAs of one worker.
pub struct AhOut {
    sas: SaTable<AhOutSa>,
    tickets: Tickets,
    wants: Vec<Want>,
    clock: Clock,
}

impl Default for AhOut {
    fn default() -> Self {
        let sas = SaTable::of_generation(1 << 31);
        Self { sas, tickets: Tickets::default(), wants: Vec::new(), clock: Clock::default() }
    }
}

impl AhOut {
    /// Authenticates a batch.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let late = !engine.is_immediate();
        let mut jobs = Jobs::new();
        for packet in batch.drain(..) {
            self.prepare(ctx, packet, late, &mut jobs);
        }
        ctx.tally.work.sealed.merge(work(&jobs));
        engine.submit(ctx.now, &mut jobs);
        if late {
            return self.finish(ctx, &mut jobs);
        }
        for job in jobs.drain(..) {
            complete(ctx, self.sas.slot(job.ticket as u32), job);
        }
    }

    /// Takes this stage's jobs that come back later, and leaves the others.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        let tickets = &mut self.tickets;
        self.sas.in_order(Submitter::AhOut, tickets, jobs, |held, job| complete(ctx, held, job));
    }

    /// From a packet to a job:
    /// 1. the packet's length, class and DF, and where AH goes; of a fragment the whole
    ///    datagram is wanted, and a header that only says that it is one goes;
    /// 2. too long for the path: its sender is told, or it is cut before AH is in it or
    ///    afterwards;
    /// 3. a number, which nobody else ever gets;
    /// 4. AH, in tunnel mode an outer header before it, and the headers muted;
    /// 5. where it goes afterwards;
    /// 6. with an engine that is late, its place in the SA's order.
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut packet: Packet,
        late: bool,
        jobs: &mut Jobs<Packet>,
    ) {
        let Some((slot, held)) = self.sas.at(packet.meta().target) else {
            return ctx.out.drop(packet, DropReason::AhNoSa);
        };
        // 1
        let sa = &mut held.sa;
        let Some(inner) = sa.read(&mut packet) else {
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        let place = match sa.outer {
            Some(outer) => Ok(Place::outer(outer.is_v6(), inner.protocol)),
            None => Place::transport(packet.data()),
        };
        let place = match place {
            Ok(place) => place,
            Err(DropReason::FragmentNotSupported) => return put_together(ctx, packet),
            Err(reason) => {
                sa.stats.failed += 1;
                return ctx.out.drop(packet, reason);
            }
        };
        // 2
        let long = inner.len() > usize::from(sa.path.mtu);
        let df = match sa.df_of(inner, &mut packet) {
            Ok(df) => df,
            Err(refusal) => return refuse(ctx, sa, packet, refusal),
        };
        // 3
        let Some(number) = number(sa, held.id, &mut self.wants) else {
            sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::AhSequenceExhausted);
        };
        // 4
        let (covered, text) = match sa.wrap(&mut packet, &inner, place, df, number) {
            Ok(spans) => spans,
            Err(reason) => {
                sa.stats.failed += 1;
                return ctx.out.drop(packet, reason);
            }
        };
        sa.stats.packets += 1;
        sa.stats.octets += inner.len() as u64;
        // 5
        let meta = packet.meta_mut();
        (meta.target, meta.ethertype) = (sa.adjacency, ethertype(place.v6));
        meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
        meta.offset = place.head as u16;
        if long {
            sa.path.mark(meta);
        }
        // 6
        let (key, nonce) = (sa.key, nonce(sa.salt, number.to_be_bytes()));
        let ad = sa.shape.ad(covered, number);
        let ticket = if late { self.tickets.issue(&mut held.lane, slot) } else { Some(slot) };
        let Some(ticket) = ticket else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EngineFull);
        };
        let ticket = Submitter::AhOut.mark(ticket.into());
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        jobs.push(Job { buf: packet, key, ticket, nonce, op, verdict, ad, text });
    }

    /// Installs an SA at an index that the tables name, or will name.
    pub fn install_at<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u32,
        config: &OutboundConfig,
        sequence: Sequence,
    ) -> Result<SaId, SaError> {
        self.sas.check(index)?;
        let mut sa = AhOutSa::new(config, sequence)?;
        let coming = Coming {
            op: Op::Seal,
            base: nonce(sa.salt, [0; 8]),
            known: true,
            next: sa.sequence.peek(),
        };
        sa.key = engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)?;
        let (limit, lease) = (sa.sequence.wants(), sa.sequence.lease());
        let id = self.sas.insert(index, sa);
        self.wants.reserve(self.sas.len());
        self.wants.extend(limit.map(|limit| Want { id, lease, limit }));
        Ok(id)
    }

    /// Takes the SA off its index. Packets of it that an engine has still leave.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        self.sas.retire(index, |sa| engine.retire(sa.key))
    }

    /// What SAs want reserved since this was asked last; each asks once.
    pub fn wants(&mut self) -> impl Iterator<Item = Want> + '_ {
        std::iter::from_fn(|| self.wants.pop())
    }

    /// Numbers up to `limit` are on stable storage. For an SA that is no longer
    /// there this does nothing.
    pub fn extend(&mut self, id: SaId, limit: u64) {
        if let Some((_, held)) = self.sas.at(id.index)
            && held.id == id
        {
            held.sa.sequence.extend(limit);
        }
    }

    /// An ICMP error about a packet of an SA; false if the SA did not send that.
    pub(in crate::ipsec) fn hear(&mut self, index: u32, quote: &Quote, now: Instant) -> bool {
        let Some((_, held)) = self.sas.at(index) else { return false };
        let heard = held.sa.hear(quote, now);
        if heard == Some(true) {
            self.clock.once(held.id, now + PATH_AGE, Deed::Age);
        }
        heard.is_some()
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Forgets what is too old of what was learned of paths.
    #[cold]
    pub fn tick(&mut self, now: Instant) {
        for _ in 0..DEEDS_MAX {
            let Some(due) = self.clock.take(now) else { break };
            let held = self.sas.at(due.id().index).filter(|(_, held)| held.id == due.id());
            if let Some((_, held)) = held
                && let Some(at) = held.sa.path.age(now)
            {
                self.clock.once(due.id(), at, Deed::Age);
            }
        }
    }

    /// The SAs, for `show sa` and for a clean stop.
    pub fn show(&self) -> impl Iterator<Item = SaView<'_>> {
        self.sas.iter().map(|held| SaView {
            id: held.id,
            name: &held.sa.name,
            spi: held.sa.spi,
            suite: held.sa.suite,
            number: held.sa.sequence.peek(),
            lease: held.sa.sequence.lease(),
            mtu: Some(held.sa.path.mtu),
            stats: held.sa.stats,
        })
    }

    /// Whether an engine still has packets of an SA that was retired.
    pub const fn is_lingering(&self) -> bool {
        self.sas.is_lingering()
    }

    /// Packets in an engine, or waiting for one that is.
    pub fn held(&self) -> usize {
        self.tickets.held()
    }
}

impl AhOutSa {
    /// Reads a packet, whose padding goes, and in transport mode a fragment header that
    /// it is whole with: AH covers a datagram as it is without one (RFC 4302 section
    /// 3.1.1).
    fn read(&self, packet: &mut Packet) -> Option<Inner> {
        let inner = Inner::read(packet.data())?;
        packet.truncate(inner.len());
        let inner = match self.outer.is_none() && take_off_atomic(packet) {
            true => Inner::read(packet.data())?,
            false => inner,
        };
        if self.clamps {
            mss::clamp(packet.data_mut(), self.path.mtu.into());
        }
        Some(inner)
    }

    /// The outer DF bit. What is let through although it is too long is going to be
    /// cut, and says so.
    fn df_of(&self, inner: Inner, packet: &mut Packet) -> Result<u16, Refusal> {
        if inner.len() <= usize::from(self.path.mtu) {
            return Ok(inner.whole & self.df.0 | self.df.1);
        }
        self.path.judge(inner, may_cut(packet))?;
        if self.outer.is_none() {
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
        let made = match &self.outer {
            Some(outer) => self.tunnel(packet, inner, outer, place, df, number),
            None => self.transport(packet, place, number),
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
    fn tunnel(
        &self,
        packet: &mut Packet,
        inner: &Inner,
        outer: &Outer,
        place: Place,
        df: u16,
        number: u64,
    ) -> Option<usize> {
        let (head, header) = (place.head, self.shape.header_len(place.v6));
        let varying = Varying {
            class: inner.class & self.class.0 | self.class.1,
            ident: ident(number, self.spi),
            df,
            hops: self.hops.unwrap_or_else(|| inner.hops(packet.data())),
        };
        let len = head + header + inner.len();
        let data = packet.grow(2 * head + header, self.shape.icv.into())?;
        outer.emit(data.get_mut(head..)?, len, varying)?;
        let room = data.get_mut(2 * head..2 * head + header)?;
        cover::emit(room, place.next, self.spi, number)?;
        Some(len)
    }

    /// The same without an outer header: the packet's own moves to the front.
    fn transport(&self, packet: &mut Packet, place: Place, number: u64) -> Option<usize> {
        let (head, header) = (place.head, self.shape.header_len(place.v6));
        let len = packet.len() + header;
        let data = packet.grow(head + header, self.shape.icv.into())?;
        data.copy_within(head + header..2 * head + header, head);
        place.rename(data.get_mut(head..)?, len, Protocol::AH)?;
        let room = data.get_mut(2 * head..2 * head + header)?;
        cover::emit(room, place.next, self.spi, number)?;
        Some(len)
    }
}

/// Step 3, and a look at whether the reserved range runs low.
fn number(sa: &mut AhOutSa, id: SaId, wants: &mut Vec<Want>) -> Option<u64> {
    let number = sa.sequence.take();
    if number.is_none_or(|n| n % LOOK_EVERY == 0)
        && let Some(limit) = sa.sequence.wants()
    {
        wants.push(Want { id, lease: sa.sequence.lease(), limit });
    }
    number
}

/// A packet that is too long for the path.
#[cold]
fn refuse(ctx: &mut Ctx<'_>, sa: &mut AhOutSa, packet: Packet, refusal: Refusal) {
    match refusal {
        Refusal::TooBig(protocol, mtu) => too_big(ctx, packet, protocol, mtu),
        Refusal::Cut => cut_before(ctx, packet, sa.path.mtu.into(), Next::AhOut),
        Refusal::Fragment => put_together(ctx, packet),
        Refusal::Drop(reason) => {
            sa.stats.failed += 1;
            ctx.out.drop(packet, reason);
        }
    }
}

/// A job is back, and it is its turn: headers and ICV go where they belong.
fn complete(ctx: &mut Ctx<'_>, held: Option<&mut Held<AhOutSa>>, mut job: Job<Packet>) {
    let Some(held) = held else { return ctx.out.drop(job.buf, DropReason::EngineFailed) };
    let reason = match job.verdict {
        Verdict::Done => {
            let head = job.buf.meta().offset.into();
            match cover::uncover(&mut job, head, held.sa.shape) {
                Some(()) => return held.sa.onwards(ctx, job.buf),
                None => DropReason::EngineFailed,
            }
        }
        Verdict::Pending => DropReason::EngineFull,
        Verdict::Gone => DropReason::KeystreamGone,
        Verdict::BadIcv | Verdict::Failed => DropReason::EngineFailed,
    };
    held.sa.stats.failed += 1;
    ctx.out.drop(job.buf, reason);
}

impl AhOutSa {
    /// To its adjacency, or to the SA around this one.
    fn onwards(&self, ctx: &mut Ctx<'_>, mut packet: Packet) {
        let Some(then) = self.then else { return ctx.out.send(Next::Output, packet) };
        packet.meta_mut().target = then;
        match ctx.tables.sas.outbound(then) {
            Some(worker) if worker == ctx.worker => ctx.out.send(Next::EspOut, packet),
            Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
            None => ctx.out.drop(packet, DropReason::EspNoSa),
        }
    }
}
