//! AH out: authenticates IP packets (RFC 4302 section 3.3), in a tunnel or as they
//! are.

use super::cover::{self, At, Place};
use super::state::{AhOutSa, Outer, Varying, ethertype};
use super::work;
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, Next};
use crate::ipsec::config::OutboundConfig;
use crate::ipsec::egress::{Inner, LOOK_EVERY, Want, ident, too_big};
use crate::ipsec::state::{SaView, nonce};
use crate::ipsec::table::{Held, SaError, SaId, SaTable};
use crate::sequence::Sequence;
use crate::tickets::{Submitter, Tickets};
use ferrule_base::DropReason;
use ferrule_crypto::{Coming, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{Malformed, Protocol};

/// The stage, with the outbound AH SAs of one worker.
pub struct AhOut {
    sas: SaTable<AhOutSa>,
    tickets: Tickets,
    wants: Vec<Want>,
}

impl Default for AhOut {
    fn default() -> Self {
        let sas = SaTable::of_generation(1 << 31);
        Self { sas, tickets: Tickets::default(), wants: Vec::new() }
    }
}

impl AhOut {
    /// Authenticates a batch.
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
    /// 1. the packet's length, class and DF, and where AH goes;
    /// 2. too long for the path: its sender is told;
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
        let Some(inner) = Inner::read(packet.data()) else {
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        packet.truncate(inner.len());
        let sa = &mut held.sa;
        let place = match sa.outer {
            Some(outer) => Ok(Place::outer(outer.is_v6(), inner.protocol)),
            None => Place::transport(packet.data()),
        };
        let place = match place {
            Ok(place) => place,
            Err(reason) => {
                sa.stats.failed += 1;
                return ctx.out.drop(packet, reason);
            }
        };
        // 2
        let df = match sa.df_of(inner) {
            Ok(df) => df,
            Err(mtu) => return too_big(ctx, packet, inner.protocol, mtu),
        };
        // 3
        let number = sa.sequence.take();
        if number.is_none_or(|n| n % LOOK_EVERY == 0)
            && let Some(limit) = sa.sequence.wants()
        {
            self.wants.push(Want { id: held.id, limit });
        }
        let Some(number) = number else {
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
        let limit = sa.sequence.wants();
        let id = self.sas.insert(index, sa);
        self.wants.reserve(self.sas.len());
        self.wants.extend(limit.map(|limit| Want { id, limit }));
        Ok(id)
    }

    /// Takes the SA off its index. Packets of it that an engine has still leave.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        self.sas.retire(index, |sa| engine.retire(sa.key))
    }

    /// What SAs want reserved since this was asked last; each asks once.
    pub fn wants(&mut self) -> impl Iterator<Item = Want> + '_ {
        self.wants.drain(..)
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

    /// The SAs, for `show sa` and for a clean stop.
    pub fn show(&self) -> impl Iterator<Item = SaView<'_>> {
        self.sas.iter().map(|held| SaView {
            id: held.id,
            name: &held.sa.name,
            spi: held.sa.spi,
            suite: held.sa.suite,
            number: held.sa.sequence.peek(),
            mtu: Some(held.sa.mtu),
            stats: held.sa.stats,
        })
    }

    /// Packets in an engine, or waiting for one that is.
    pub fn held(&self) -> usize {
        self.tickets.held()
    }
}

impl AhOutSa {
    /// The outer DF bit, or the MTU to tell the sender of a packet that is too long and
    /// must not be fragmented. What is let through all the same must be fragmented.
    fn df_of(&self, inner: Inner) -> Result<u16, usize> {
        if inner.len() <= usize::from(self.mtu) {
            return Ok(inner.whole & self.df.0 | self.df.1);
        }
        inner.too_big_for(self.mtu.into()).map_or(Ok(0), Err)
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
