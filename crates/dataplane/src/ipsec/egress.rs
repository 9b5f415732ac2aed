//! ESP out: seals IP packets into a tunnel (RFC 4303 section 3.3, RFC 4301
//! section 5.1).

use super::clock::{Clock, DEEDS_MAX, Deed};
use super::config::OutboundConfig;
use super::mould::{Mould, Sent, Way};
use super::outer::{Inner, Outer};
use super::path::{PATH_AGE, Quote};
use super::state::{Kind, OutboundSa, SaView, Shape, nonce, octets};
use super::table::{Held, SaError, SaId, SaTable};
use super::wrapping::{Plan, Refusal};
use crate::fragment::{self, ONWARDS};
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, FLAG_MORE, FLAG_WHOLE, Next};
use crate::mss;
use crate::sequence::{Lease, Sequence};
use crate::tickets::{Submitter, Tickets};
use ferrule_base::{DropReason, Duration, Flow, Instant, Rng};
use ferrule_crypto::{Coming, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::Protocol;
use std::iter;

/// Numbers between two looks at whether the reserved range runs low.
pub(super) const LOOK_EVERY: u64 = 64;

/// ICMP "fragmentation needed" (type 3, code 4) and ICMPv6 "packet too big".
const FRAGMENTATION_NEEDED: u16 = 3 << 8 | 4;
const PACKET_TOO_BIG: u16 = 2 << 8;

/// An outbound SA wants numbers up to `limit`: to be written to stable storage,
/// and then given to [`EspOut::extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which SA.
    pub id: SaId,
    /// By what right.
    pub lease: Lease,
    /// The last number to reserve.
    pub limit: u64,
}

/// The stage, with the outbound SAs of one worker.
#[derive(Default)]
pub struct EspOut {
    sas: SaTable<OutboundSa>,
    tickets: Tickets,
    wants: Vec<Want>,
    /// That of the SA that sealed last.
    mould: Option<Mould>,
    pub(super) clock: Clock,
}

impl EspOut {
    /// Seals a batch.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        let Some(target) = batch.first().map(|first| first.meta().target) else { return };
        self.seal_alike(ctx, engine, target, Sent(target), batch);
        if batch.is_empty() {
            return;
        }
        let late = !engine.is_immediate();
        let mut jobs = Jobs::new();
        let Self { sas, tickets, wants, mould, .. } = self;
        let mut desk = Desk { wants, tickets: late.then_some(tickets), mould, jobs: &mut jobs };
        let mut packets = batch.drain(..);
        let mut next = packets.next();
        while let Some(first) = next {
            next = match sas.at(first.meta().target) {
                Some((slot, held)) => desk.seal_all(ctx, slot, held, first, &mut packets),
                None => {
                    elsewhere(ctx, first);
                    packets.next()
                }
            };
        }
        drop(packets);
        engine.submit(ctx.now, &mut jobs);
        if late {
            return self.finish(ctx, &mut jobs);
        }
        let simple = |job: &Job<Packet>| {
            job.verdict == Verdict::Done && job.buf.meta().flags & FLAG_MORE == 0
        };
        if jobs.iter().all(simple) {
            batch.extend(jobs.drain(..).map(|job| job.buf));
            return ctx.out.send_all(Next::Output, batch);
        }
        self.complete_all(ctx, &mut jobs);
    }

    /// Seals the first packets of a batch that come this way for an SA, if they look like
    /// the last ones of the batch before; how many. What is left in the batch is as it
    /// was. If nothing is, and there is nothing to do on their way out but to put a link
    /// header in front, they leave as frames.
    #[inline(never)]
    pub(crate) fn seal_alike<const V: usize, E: Engine<Packet>, W: Way<V>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        target: u32,
        way: W,
        batch: &mut Box<Batch>,
    ) -> Option<Flow> {
        // Whatever keeps it from being used now ends it.
        let mut mould = self.mould.take().filter(|_| engine.is_immediate())?;
        let (_, held) = self.sas.at(target)?;
        if !mould.again(ctx, held) {
            return None;
        }
        let Some(around) = mould.around::<V, W>(batch.first()?) else {
            mould.forget_link();
            self.mould = Some(mould);
            return None;
        };
        let mut jobs = Jobs::new();
        let (mut numbers, mut packets) = (held.sa.sequence.lend(), batch.drain(..));
        let odd = mould.seal_all(way, around, &mut packets, &mut numbers, &mut jobs);
        let left: Batch = odd.into_iter().chain(packets).collect();
        engine.submit(ctx.now, &mut jobs);
        held.sa.sequence.give_back(numbers);
        look(&mut self.wants, held);
        let count = mould.settle(&mut held.sa.stats, &mut ctx.tally.work.sealed);
        let mut failed = Jobs::new();
        for job in jobs.drain(..) {
            match job.verdict {
                Verdict::Done => batch.push(job.buf),
                _ => failed.push(job),
            }
        }
        if left.is_empty() && failed.is_empty() {
            mould.send_all(ctx, batch);
            self.mould = Some(mould);
            return Some(count);
        }
        for mut packet in batch.drain(..) {
            mould.unframe(&mut packet);
            ctx.out.send(Next::Output, packet);
        }
        // It serves the rest of the batch, too, whose packets leave as those did.
        mould.forget_link();
        self.mould = Some(mould);
        batch.extend(left);
        self.complete_all(ctx, &mut failed);
        Some(count)
    }

    /// What an engine that completes in place has done.
    fn complete_all(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        for job in jobs.drain(..) {
            complete(ctx, self.sas.slot(job.ticket as u32), job);
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Keepalives and dummy packets that are due.
    #[cold]
    pub fn tick<E: Engine<Packet>>(&mut self, ctx: &mut Ctx<'_>, engine: &mut E) {
        let late = !engine.is_immediate();
        let mut jobs = Jobs::new();
        let Self { sas, tickets, wants, mould, clock } = self;
        let mut desk = Desk { wants, tickets: late.then_some(tickets), mould, jobs: &mut jobs };
        for _ in 0..DEEDS_MAX {
            let Some(due) = clock.take(ctx.now) else { break };
            // An SA that was retired wants nothing any more.
            let Some((slot, held)) = sas.at(due.id().index).filter(|(_, h)| h.id == due.id())
            else {
                continue;
            };
            let after = match due.deed {
                _ if due.at == Instant::ZERO => ctx.now,
                Deed::Keepalive => keepalive(ctx, &mut held.sa, due.every),
                Deed::Dummy => {
                    desk.dummy(ctx, slot, held, clock.rng());
                    due.at
                }
                Deed::Age => {
                    if let Some(at) = held.sa.path.age(ctx.now) {
                        clock.once(held.id, at, Deed::Age);
                    }
                    continue;
                }
            };
            clock.again(due, after, ctx.now);
        }
        engine.submit(ctx.now, &mut jobs);
        if late { self.finish(ctx, &mut jobs) } else { self.complete_all(ctx, &mut jobs) }
    }

    /// Takes this stage's jobs that come back later, and leaves the others.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        let tickets = &mut self.tickets;
        self.sas.in_order(Submitter::EspOut, tickets, jobs, |held, job| complete(ctx, held, job));
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
        let mut sa = OutboundSa::new(config, sequence)?;
        let coming = Coming {
            op: Op::Seal,
            base: nonce(sa.salt, [0; 8]),
            known: true,
            next: sa.sequence.peek(),
        };
        sa.key = engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)?;
        let (limit, lease) = (sa.sequence.wants(), sa.sequence.lease());
        let id = self.sas.insert(index, sa);
        self.clock.add(id, config);
        self.wants.reserve(self.sas.len());
        self.wants.extend(limit.map(|limit| Want { id, lease, limit }));
        Ok(id)
    }

    /// Takes the SA off its index. Packets of it that an engine has still leave.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        // It has the SA's salt.
        self.mould = None;
        self.sas.retire(index, |sa| engine.retire(sa.key))
    }

    /// What SAs want reserved since this was asked last; each asks once. What is not
    /// taken is there the next time.
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
    pub(super) fn hear(&mut self, index: u32, quote: &Quote, now: Instant) -> bool {
        let Some((_, held)) = self.sas.at(index) else { return false };
        let heard = held.sa.hear(quote, now);
        if heard == Some(true) {
            self.clock.once(held.id, now + PATH_AGE, Deed::Age);
        }
        heard.is_some()
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

/// What it takes to make jobs of a batch.
struct Desk<'a> {
    wants: &'a mut Vec<Want>,
    /// For an engine that is late.
    tickets: Option<&'a mut Tickets>,
    mould: &'a mut Option<Mould>,
    jobs: &'a mut Jobs<Packet>,
}

impl Desk<'_> {
    /// Makes jobs of the packets of one SA that follow one another; the first that is
    /// another's. Of two packets of one length a mould is made for those to come.
    #[inline(always)]
    fn seal_all(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        first: Packet,
        rest: &mut impl Iterator<Item = Packet>,
    ) -> Option<Packet> {
        let target = first.meta().target;
        self.mould.take_if(|mould| !mould.is_of(held));
        let mut before = 0;
        let mut next = Some(first);
        while let Some(mut packet) = next.take_if(|packet| packet.meta().target == target) {
            next = rest.next();
            if let Some(mould) = &mut *self.mould
                && let Some(around) = mould.around::<8, Sent>(&packet)
            {
                let mut numbers = held.sa.sequence.lend();
                let (way, one) = (Sent(target), &mut iter::once(packet));
                let odd = mould.seal_all(way, around, one, &mut numbers, self.jobs);
                held.sa.sequence.give_back(numbers);
                let Some(odd) = odd else { continue };
                packet = odd;
            }
            let again = packet.len() == before && self.tickets.is_none();
            before = packet.len();
            if again && let Some(new) = Mould::of(held, slot, &packet) {
                self.settle(ctx, held);
                *self.mould = Some(new);
            }
            self.seal(ctx, slot, held, packet);
        }
        self.settle(ctx, held);
        next
    }

    /// Counts what the mould made.
    fn settle(&mut self, ctx: &mut Ctx<'_>, held: &mut Held<OutboundSa>) {
        if let Some(mould) = &mut *self.mould {
            mould.settle(&mut held.sa.stats, &mut ctx.tally.work.sealed);
            look(self.wants, held);
        }
    }

    /// Makes a job of a packet. The usual tunnel's code is compiled with its sizes
    /// known.
    #[inline(never)]
    fn seal(&mut self, ctx: &mut Ctx<'_>, slot: u32, held: &mut Held<OutboundSa>, packet: Packet) {
        match held.sa.outer {
            Outer::V4(outer) if held.sa.kind == Kind::Usual => {
                self.prepare(ctx, slot, held, packet, Shape::USUAL, &Outer::V4(outer));
            }
            _ => self.seal_any(ctx, slot, held, packet),
        }
    }

    #[inline(never)]
    fn seal_any(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        mut packet: Packet,
    ) {
        if held.sa.clamps {
            mss::clamp(packet.data_mut(), held.sa.path.mtu.into());
        }
        if held.sa.kind == Kind::Special {
            return self.seal_special(ctx, slot, held, packet, None);
        }
        let (shape, outer) = (held.sa.shape, held.sa.outer);
        self.prepare(ctx, slot, held, packet, shape, &outer);
    }

    /// As [`prepare`](Self::prepare), for an SA that is more than a plain tunnel. A
    /// dummy comes with its plan.
    #[inline(never)]
    fn seal_special(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        mut packet: Packet,
        plan: Option<Plan>,
    ) {
        let Some(mut special) = held.sa.special.take() else {
            return ctx.out.drop(packet, DropReason::EspNoSa);
        };
        let plan = match plan {
            Some(plan) => Ok(plan),
            None => Plan::of(&held.sa, &special, packet.data(), may_cut(&packet)),
        };
        let done = plan.and_then(|plan| {
            packet.truncate(plan.clear());
            let number = self.number(held).ok_or(DropReason::EspSequenceExhausted)?;
            let spans = plan.build(&held.sa, &special, &mut packet, number);
            Ok((number, plan.clear(), spans.ok_or(DropReason::NoRoom)?, plan.long))
        });
        let flag = special.flag();
        if done.is_ok() {
            // What is refused keeps no address translation's binding alive.
            special.last = ctx.now;
        }
        held.sa.special = Some(special);
        match done {
            Ok((number, len, spans, long)) => {
                packet.meta_mut().flags |= flag;
                let before = self.jobs.len();
                self.submit(ctx, slot, held, packet, (number, len), spans);
                if long {
                    self.mark_for_cutting(&held.sa, before);
                }
            }
            Err(Refusal::Cut) => cut_before(ctx, packet, held.sa.path.mtu.into(), Next::EspOut),
            Err(Refusal::Fragment) => put_together(ctx, packet),
            Err(Refusal::TooBig(protocol, mtu)) => too_big(ctx, packet, protocol, mtu),
            Err(Refusal::Drop(reason)) => {
                held.sa.stats.failed += 1;
                ctx.out.drop(packet, reason);
            }
        }
    }

    /// Seals a packet of random octets, which the other end drops. Where there is no
    /// buffer for it, it is not missed.
    fn dummy(&mut self, ctx: &mut Ctx<'_>, slot: u32, held: &mut Held<OutboundSa>, rng: &mut Rng) {
        let Some(special) = held.sa.special.as_deref() else { return };
        let plan = Plan::dummy(&held.sa, special, rng.below(held.sa.path.mtu.into()) as usize);
        let Some(mut packet) = ctx.make(&[]) else { return };
        match plan.fill(special, &mut packet, rng) {
            Some(()) => self.seal_special(ctx, slot, held, packet, Some(plan)),
            None => ctx.out.drop(packet, DropReason::NoRoom),
        }
    }

    /// From a packet to a job:
    /// 1. the inner packet's length, class and DF;
    /// 2. too long for the path: its sender is told;
    /// 3. a number, which nobody else ever gets;
    /// 4. trailer behind, outer header, ESP header and IV in front;
    /// 5. where it goes once sealed;
    /// 6. with an engine that is late, its place in the SA's order.
    #[inline(always)]
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        mut packet: Packet,
        shape: Shape,
        outer: &Outer,
    ) {
        // 1
        let Some(inner) = Inner::read(packet.data()) else {
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        if inner.len() < packet.len() {
            packet.truncate(inner.len());
        }
        // 2
        if inner.len() > usize::from(held.sa.path.mtu) {
            return self.seal_long(ctx, slot, held, packet, inner);
        }
        let df = held.sa.df_of(inner);
        // 3
        let Some(number) = self.number(held) else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EspSequenceExhausted);
        };
        // 4
        let Some(spans) = held.sa.wrap(&mut packet, inner, df, number, shape, outer) else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::NoRoom);
        };
        self.submit_as(ctx, slot, held, packet, (number, inner.len()), spans, shape);
    }

    /// Step 2 for a packet that is longer than its path allows: its sender is told,
    /// or it is cut before it is sealed or afterwards. (Its DF bit says no then,
    /// whatever the configuration says.)
    #[inline(never)]
    fn seal_long(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        mut packet: Packet,
        inner: Inner,
    ) {
        match held.sa.path.judge(inner, may_cut(&packet)) {
            Ok(()) => {}
            Err(Refusal::TooBig(protocol, mtu)) => return too_big(ctx, packet, protocol, mtu),
            Err(_) => return cut_before(ctx, packet, held.sa.path.mtu.into(), Next::EspOut),
        }
        let Some(number) = self.number(held) else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EspSequenceExhausted);
        };
        let (shape, outer) = (held.sa.shape, held.sa.outer);
        let Some(spans) = held.sa.wrap(&mut packet, inner, 0, number, shape, &outer) else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::NoRoom);
        };
        let before = self.jobs.len();
        self.submit(ctx, slot, held, packet, (number, inner.len()), spans);
        self.mark_for_cutting(&held.sa, before);
    }

    /// Where the path is known to be narrower than the link, the job that was made
    /// since there were `before` is cut for it.
    fn mark_for_cutting(&mut self, sa: &OutboundSa, before: usize) {
        if self.jobs.len() > before
            && let Some(job) = self.jobs.last_mut()
        {
            sa.path.mark(job.buf.meta_mut());
        }
    }

    /// Step 3, and a look at whether the reserved range runs low.
    #[inline(always)]
    fn number(&mut self, held: &mut Held<OutboundSa>) -> Option<u64> {
        let number = held.sa.sequence.take();
        if number.is_none_or(|n| n % LOOK_EVERY == 0) {
            look(self.wants, held);
        }
        number
    }

    #[inline(never)]
    fn submit(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        packet: Packet,
        sealed: (u64, usize),
        spans: (Span, Span),
    ) {
        let shape = held.sa.shape;
        self.submit_as(ctx, slot, held, packet, sealed, spans, shape);
    }

    /// Steps 5 and 6 for a packet with its number and its octets in clear.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one value each, in registers")]
    fn submit_as(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: u32,
        held: &mut Held<OutboundSa>,
        mut packet: Packet,
        (number, len): (u64, usize),
        (header, text): (Span, Span),
        shape: Shape,
    ) {
        let sa = &mut held.sa;
        sa.stats.packets += 1;
        sa.stats.octets += len as u64;
        // 5
        let meta = packet.meta_mut();
        meta.target = sa.adjacency;
        meta.ethertype = sa.ethertype;
        meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
        // 6
        let (key, nonce) = (sa.key, nonce(sa.salt, number.to_be_bytes()));
        let ticket = match &mut self.tickets {
            Some(tickets) => tickets.issue(&mut held.lane, slot),
            None => Some(slot),
        };
        let Some(ticket) = ticket else {
            sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EngineFull);
        };
        let ticket = Submitter::EspOut.mark(ticket.into());
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        let ad = shape.ad(header, sa.spi, number);
        let job = Job { buf: packet, key, ticket, nonce, op, verdict, ad, text };
        ctx.tally.work.sealed.add(octets(&job));
        self.jobs.push(job);
    }
}

/// Whether the reserved range of an SA runs low: then it wants more.
fn look(wants: &mut Vec<Want>, held: &mut Held<OutboundSa>) {
    if let Some(limit) = held.sa.sequence.wants() {
        wants.push(Want { id: held.id, lease: held.sa.sequence.lease(), limit });
    }
}

/// Whether a packet is ours to cut, whatever it says: it was made here (as a packet
/// of an SA within another is), or came in fragments.
#[cold]
pub(super) fn may_cut(packet: &Packet) -> bool {
    packet.meta().flags & (FLAG_LOCAL | FLAG_WHOLE) != 0
}

/// Cuts a packet into pieces that are sealed one by one, at `next`.
#[cold]
pub(super) fn cut_before(ctx: &mut Ctx<'_>, mut packet: Packet, mtu: usize, next: Next) {
    let mut rest = fragment::Rest::new();
    match fragment::cut(ctx, &mut packet, mtu, 0, &mut rest) {
        Ok(()) => {
            ctx.out.send(next, packet);
            while let Some(packet) = rest.pop() {
                ctx.out.send(next, packet);
            }
        }
        Err(reason) => ctx.out.drop(packet, reason),
    }
}

/// A fragment, of which an SA in transport mode wants the whole datagram: that comes
/// back to the policy that sent the fragment here, whatever way the SA's own packets
/// leave by. What a policy did not send here has nowhere to come back to.
#[cold]
pub(super) fn put_together(ctx: &mut Ctx<'_>, mut packet: Packet) {
    let meta = packet.meta_mut();
    if meta.flags & FLAG_EXEMPT != 0 {
        return ctx.out.drop(packet, DropReason::FragmentNotSupported);
    }
    (meta.target, meta.offset) = (meta.number as u32, ONWARDS);
    ctx.out.send(Next::Reassemble, packet);
}

/// Sends a keepalive if nothing was sent for so long; when it was sent last.
fn keepalive(ctx: &mut Ctx<'_>, sa: &mut OutboundSa, every: Duration) -> Instant {
    let Some(mut special) = sa.special.take() else { return ctx.now };
    if special.last + every <= ctx.now
        && let Some(mut packet) = ctx.make(&[])
    {
        special.last = ctx.now;
        match special.keepalive(sa, &mut packet) {
            Some(()) => special.finish(ctx, packet),
            None => ctx.out.drop(packet, DropReason::NoRoom),
        }
    }
    let last = special.last;
    sa.special = Some(special);
    last
}

/// No SA of ESP has this index: one of AH has, or none.
#[cold]
fn elsewhere(ctx: &mut Ctx<'_>, packet: Packet) {
    if ctx.tables.sas.is_ah(packet.meta().target) {
        return ctx.out.send(Next::AhOut, packet);
    }
    ctx.out.drop(packet, DropReason::EspNoSa);
}

/// A job is back, and it is its turn.
fn complete(ctx: &mut Ctx<'_>, held: Option<&mut Held<OutboundSa>>, job: Job<Packet>) {
    let reason = match job.verdict {
        Verdict::Done => return done(ctx, held, job.buf),
        Verdict::Pending => DropReason::EngineFull,
        Verdict::Gone => DropReason::KeystreamGone,
        Verdict::BadIcv | Verdict::Failed => DropReason::EngineFailed,
    };
    if let Some(held) = held {
        held.sa.stats.failed += 1;
    }
    ctx.out.drop(job.buf, reason);
}

/// A sealed packet, on its way.
fn done(ctx: &mut Ctx<'_>, held: Option<&mut Held<OutboundSa>>, mut packet: Packet) {
    match held.and_then(|held| held.sa.special.as_deref()) {
        Some(special) if packet.meta().flags & FLAG_MORE != 0 => special.finish(ctx, packet),
        _ => {
            packet.meta_mut().flags &= !FLAG_MORE;
            ctx.out.send(Next::Output, packet);
        }
    }
}

/// Turns the packet into the question of how long it may be.
#[cold]
pub(super) fn too_big(ctx: &mut Ctx<'_>, mut packet: Packet, protocol: Protocol, mtu: usize) {
    let meta = packet.meta_mut();
    let v6 = protocol == Protocol::IPV6;
    meta.scratch = if v6 { PACKET_TOO_BIG } else { FRAGMENTATION_NEEDED };
    meta.number = mtu as u64;
    ctx.out.send(Next::IcmpError, packet);
}
