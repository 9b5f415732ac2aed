//! ESP out: seals IP packets into a tunnel (RFC 4303 section 3.3, RFC 4301
//! section 5.1).

use super::clock::{Clock, DEEDS_MAX, Deed};
use super::config::OutboundConfig;
use super::path::{PATH_AGE, Quote};
use super::state::{Kind, OutboundSa, Outer, Outer4, SaView, Shape, nonce, work};
use super::table::{Held, SaError, SaId, SaTable};
use super::wrapping::{Plan, Refusal};
use crate::fragment::{self, ONWARDS};
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, FLAG_MORE, FLAG_WHOLE, Next};
use crate::mss;
use crate::sequence::{Lease, Sequence};
use crate::tickets::{Submitter, Tickets};
use ferrule_base::{DropReason, Duration, Instant, Rng};
use ferrule_crypto::{Coming, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{IntoBytes, Protocol, esp, ipv4, ipv6};

/// Numbers between two looks at whether the reserved range runs low.
pub(super) const LOOK_EVERY: u64 = 64;

/// No IPv6 path is narrower (RFC 8200 section 5); nothing smaller is announced.
const MTU6_MIN: usize = 1280;

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
    pub(super) clock: Clock,
}

/// What the outer header takes over from an inner one. (Eight octets: they travel
/// in a register.)
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
            6 => Self::v6(word),
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

    /// Class, flow label; payload length. It is never fragmented.
    #[inline(never)]
    const fn v6(word: u64) -> Self {
        Self {
            len: ipv6::Header::LEN as u32 + (word >> 16) as u16 as u32,
            class: (word >> 52) as u8,
            whole: ipv4::DONT_FRAGMENT,
            protocol: Protocol::IPV6,
        }
    }

    /// The MTU to tell the sender, if the packet must not be fragmented.
    #[cold]
    pub fn too_big_for(&self, mtu: usize) -> Option<usize> {
        let mtu = if self.protocol == Protocol::IPV6 { mtu.max(MTU6_MIN) } else { mtu };
        (self.len() > mtu && self.whole != 0).then_some(mtu)
    }
}

impl EspOut {
    /// Seals a batch.
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let late = !engine.is_immediate();
        let mut jobs = Jobs::new();
        let Self { sas, tickets, wants, .. } = self;
        let mut desk = Desk { wants, tickets: late.then_some(tickets), jobs: &mut jobs };
        let (mut target, mut found) = (0, None);
        for packet in batch.drain(..) {
            // As a rule the SA of the packet before.
            if found.is_none() || packet.meta().target != target {
                target = packet.meta().target;
                found = sas.at(target);
            }
            match &mut found {
                Some((slot, held)) => desk.seal(ctx, *slot, held, packet),
                None => elsewhere(ctx, packet),
            }
        }
        ctx.tally.work.sealed.merge(work(&jobs));
        engine.submit(ctx.now, &mut jobs);
        if late {
            return self.finish(ctx, &mut jobs);
        }
        self.complete_all(ctx, &mut jobs);
    }

    /// What an engine that completes in place has done.
    #[inline(always)]
    fn complete_all(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        for job in jobs.drain(..) {
            match job.verdict {
                Verdict::Done if job.buf.meta().flags & FLAG_MORE == 0 => {
                    ctx.out.send(Next::Output, job.buf);
                }
                _ => complete(ctx, self.sas.slot(job.ticket as u32), job),
            }
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
        let Self { sas, tickets, wants, clock } = self;
        let mut desk = Desk { wants, tickets: late.then_some(tickets), jobs: &mut jobs };
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
        ctx.tally.work.sealed.merge(work(&jobs));
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
    jobs: &'a mut Jobs<Packet>,
}

impl Desk<'_> {
    /// Makes a job of a packet. The usual tunnel's code is compiled with its sizes
    /// known.
    #[inline(always)]
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
        let df = inner.whole & held.sa.df.0 | held.sa.df.1;
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
        if number.is_none_or(|n| n % LOOK_EVERY == 0)
            && let Some(limit) = held.sa.sequence.wants()
        {
            self.wants.push(Want { id: held.id, lease: held.sa.sequence.lease(), limit });
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
        self.jobs.push(Job { buf: packet, key, ticket, nonce, op, verdict, ad, text });
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

impl OutboundSa {
    /// Puts trailer and headers around the inner packet. Nothing if there is no
    /// room for them.
    #[inline(always)]
    fn wrap(
        &self,
        packet: &mut Packet,
        inner: Inner,
        df: u16,
        number: u64,
        shape: Shape,
        outer: &Outer,
    ) -> Option<(Span, Span)> {
        let (iv, icv) = (usize::from(shape.iv), usize::from(shape.icv));
        let trailer = esp::pad_len(inner.len(), shape.align.into()) + esp::TRAILER_LEN;
        let class = inner.class & self.class.0 | self.class.1;
        let body = iv + inner.len() + trailer;
        let front = outer.len() + esp::Header::LEN + iv;
        let data = packet.grow(front, trailer + icv)?;
        put_trailer(data.get_mut(front + inner.len()..)?, trailer, inner.protocol)?;
        // In words, the ESP header with them; an AEAD's IV is the number, or is not
        // there at all; that of CBC is the engine's to write.
        match outer {
            Outer::V4(outer) => {
                const ESP: usize = ipv4::Header::LEN + 4;
                let total = ipv4::Header::LEN + esp::Header::LEN + body + icv;
                if iv != 0 {
                    let room: &mut [u8; ESP + 12] = data.first_chunk_mut()?;
                    room[ESP + 4..].copy_from_slice(&number.to_be_bytes());
                }
                let room: &mut [u8; ESP + 4] = data.first_chunk_mut()?;
                let [first, second] = outer.words(class, total as u16, ident(number, self.spi), df);
                room[..8].copy_from_slice(&first.to_be_bytes());
                room[8..16].copy_from_slice(&second.to_be_bytes());
                room[16..ESP].copy_from_slice(&outer.third.to_be_bytes());
                room[ESP..].copy_from_slice(&(number as u32).to_be_bytes());
            }
            Outer::V6(outer) => {
                let payload = (esp::Header::LEN + body + icv) as u16;
                front_v6(data, outer, class, payload, self.spi, number, iv != 0)?;
            }
        }
        Some(shape.spans(outer.len(), body))
    }
}

/// An IPv6 header, an ESP header and the number behind it. (Out of line: IPv4
/// outside is what most tunnels have.)
#[inline(never)]
fn front_v6(
    data: &mut [u8],
    outer: &ipv6::Header,
    class: u8,
    payload: u16,
    spi: u32,
    number: u64,
    explicit: bool,
) -> Option<()> {
    const ESP: usize = ipv6::Header::LEN;
    if explicit {
        let room: &mut [u8; ESP + 16] = data.first_chunk_mut()?;
        room[ESP + 8..].copy_from_slice(&number.to_be_bytes());
    }
    let room: &mut [u8; ESP + 8] = data.first_chunk_mut()?;
    let outer = ipv6::Header {
        version_class_flow: (6 << 28 | u32::from(class) << 20).into(),
        payload_len: payload.into(),
        ..*outer
    };
    let header = esp::Header { spi: spi.into(), seq: (number as u32).into() };
    room[..ESP].copy_from_slice(outer.as_bytes());
    room[ESP..].copy_from_slice(header.as_bytes());
    Some(())
}

/// The outer identification: different for packets that follow one another, and
/// for SAs between the same gateways.
#[inline(always)]
pub(super) const fn ident(number: u64, spi: u32) -> u16 {
    (number as u16).wrapping_add(spi as u16)
}

impl Outer4 {
    /// The first sixteen octets of the header.
    #[inline(always)]
    const fn words(&self, class: u8, total: u16, ident: u16, df: u16) -> [u64; 2] {
        let sum = self.sum + class as u32 + total as u32 + ident as u32 + df as u32;
        let (low, fragment) = ((total as u64) << 32 | (ident as u64) << 16, df as u64);
        let first = 0x45 << 56 | (class as u64) << 48 | low | fragment;
        [first, self.second | (fold(sum) as u64) << 32]
    }
}

/// Writes a trailer of `len` octets to the front of `tail`, where the ICV follows.
#[inline(always)]
fn put_trailer(tail: &mut [u8], len: usize, next: Protocol) -> Option<()> {
    let pad = len - esp::TRAILER_LEN;
    // All padding that a cipher asks for, in one store: what is too much lies
    // where length, next header and ICV come to be.
    let Some(front) = tail.first_chunk_mut().filter(|_| pad <= PAD.len()) else {
        esp::emit_trailer(tail.get_mut(..len)?, next);
        return Some(());
    };
    *front = PAD;
    *tail.get_mut(pad..)?.first_chunk_mut()? = [pad as u8, next.0];
    Some(())
}

/// The start of every padding (RFC 4303 section 2.4).
const PAD: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// The IPv4 checksum of a sum of header words.
#[inline]
const fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + (sum & 0xffff)) as u16
}
