//! The outbound SAs of one worker, of ESP or AH: their numbers, their jobs, and what they
//! do by the clock.

use super::clock::{Clock, TIMERS_MAX, Timer};
use super::config::OutboundConfig;
use super::lifetime::{Allowance, Expired};
use super::path::{PATH_AGE, Quote, is_recent};
use super::state::{Outbound, SaView, nonce};
use super::wrapping::Refusal;
use crate::graph::{Aside, Ctx, FLAG_EXEMPT, FLAG_LOCAL, FLAG_ONWARDS, FLAG_WHOLE, Next};
use crate::protection::sequence::{Lease, Sequence};
use crate::protection::table::{Held, SaError, SaId, SaTable};
use crate::protection::tickets::{Lane, Submitter};
use crate::protection::{InFlight, Protection, prepare_each};
use ferrule_base::{DropReason, Duration, Instant, Rng};
use ferrule_crypto::{Coming, Engine, Job, Jobs, Op, Verdict};
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::Protocol;
use std::collections::VecDeque;
use std::ops::Range;

/// Numbers between two looks at whether the reserved range runs low.
const LOOK_EVERY: u64 = 64;

/// ICMP "fragmentation needed" (type 3, code 4) and ICMPv6 "packet too big".
const FRAGMENTATION_NEEDED: u16 = 3 << 8 | 4;
const PACKET_TOO_BIG: u16 = 2 << 8;

/// An outbound SA wants numbers up to `limit`: to be written to stable storage,
/// and then given to [`Sealer::extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// SA identity.
    pub id: SaId,
    /// By what right.
    pub lease: Lease,
    /// The last number to reserve.
    pub limit: u64,
}

/// Outbound processing of one protocol, ESP or AH.
pub(crate) trait Sealing: Sized {
    /// Whose jobs they are.
    const SUBMITTER: Submitter;
    /// The stage that seals.
    const STAGE: Next;
    /// The generation of the first SA: stages that share indices begin far apart.
    const FIRST_GENERATION: u32;
    /// Drop reason of a packet whose SA is not there.
    const NO_SA: DropReason;
    /// Drop reason of a packet for which there is no number left.
    const EXHAUSTED: DropReason;

    /// Checks a configuration and prepares what it says; the key is not yet set.
    fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError>;

    /// State common to outbound SAs of every protocol.
    fn base(&self) -> &Outbound;

    /// The same, to change.
    fn base_mut(&mut self) -> &mut Outbound;

    /// Makes a packet what the SA sends, but for what the engine does; its number is used
    /// up then.
    fn lay_out(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Refusal>;

    /// Octets of a packet to which the algorithm is applied.
    fn octets_of(&self, job: &Job<()>) -> usize;

    /// True if a sealed packet has nothing to do but go on to its adjacency.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        false
    }

    /// Finishes a packet that the engine sealed.
    fn conclude(&self, packet: &mut Packet, job: &Job<()>) -> Result<(), DropReason>;

    /// A keepalive if nothing was sent for so long, and when something was sent last.
    fn keepalive(&mut self, ctx: &mut Ctx<'_>, _: Duration) -> (Option<Packet>, Instant) {
        (None, ctx.now)
    }

    /// Makes an empty packet a dummy; nothing if the SA sends none.
    fn dummy(
        &mut self,
        _: Instant,
        _: &mut Packet,
        _: &mut Job<()>,
        _: &mut Rng,
    ) -> Option<Result<(), Refusal>> {
        None
    }
}

/// A stage that seals, with the outbound SAs of one worker.
pub struct Sealer<S> {
    sas: Associations<S>,
    in_flight: InFlight,
    clock: Clock,
}

struct Associations<S> {
    table: SaTable<S>,
    wants: Vec<Want>,
    expired: VecDeque<Expired>,
    /// All SAs of the batch that is prepared are [settled](Sealing::is_settled).
    settled: bool,
}

impl<S: Sealing> Default for Sealer<S> {
    fn default() -> Self {
        let table = SaTable::of_generation(S::FIRST_GENERATION);
        let (wants, expired) = (Vec::new(), VecDeque::new());
        let sas = Associations { table, wants, expired, settled: true };
        Self { sas, in_flight: InFlight::default(), clock: Clock::default() }
    }
}

#[expect(private_bounds, reason = "protocols are this crate's")]
impl<S: Sealing> Sealer<S> {
    /// Seals a batch.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        self.in_flight.run(&mut self.sas, ctx, engine, batch);
    }

    /// Takes this stage's jobs that come back later, and leaves the others.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        self.in_flight.finish(&mut self.sas, ctx, jobs);
    }

    /// Time of the next [`tick`](Self::tick).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Keepalives and dummy packets that are due; what was learned of paths and is too old.
    #[cold]
    pub fn tick<E: Engine<Packet>>(&mut self, ctx: &mut Ctx<'_>, engine: &mut E) {
        let mut batch = Box::<Batch>::default();
        for _ in 0..TIMERS_MAX {
            let Some(due) = self.clock.take(ctx.now) else { break };
            // An SA that was retired wants nothing any more.
            let held = self.sas.table.at(due.id().index).filter(|(_, h)| h.id == due.id());
            let Some((slot, held)) = held else { continue };
            let after = match due.timer {
                Timer::Age => {
                    if let Some(at) = held.sa.base_mut().path.age(ctx.now) {
                        self.clock.once(due.id(), at, Timer::Age);
                    }
                    continue;
                }
                _ if due.at == Instant::ZERO => ctx.now,
                Timer::Keepalive => {
                    let (packet, last) = held.sa.keepalive(ctx, due.every);
                    if let Some(packet) = packet {
                        onwards(ctx, held.sa.base(), packet);
                    }
                    last
                }
                Timer::Dummy => {
                    let base = held.sa.base_mut();
                    let goes_on = !base.lives || base.meter.goes_on(held.id, &mut self.sas.expired);
                    if let Some(mut packet) = goes_on.then(|| ctx.make(&[])).flatten() {
                        let job = self.in_flight.job(batch.len());
                        let made = held.sa.dummy(ctx.now, &mut packet, job, self.clock.rng());
                        let asks = (&mut self.sas.wants, &mut self.sas.expired);
                        match made.map(|made| admit(asks, slot, held, &mut packet, job, made)) {
                            Some(Ok(())) => batch.push(packet),
                            Some(Err(aside)) => ctx.set_aside(packet, aside),
                            None => ctx.consume(packet),
                        }
                    }
                    due.at
                }
            };
            self.clock.again(due, after, ctx.now);
        }
        // These were not prepared with a batch.
        self.sas.settled = false;
        self.in_flight.work(&mut self.sas, ctx, engine, &mut batch);
    }

    /// Installs an SA at an index that the tables name, or will name.
    pub fn install_at<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u32,
        config: &OutboundConfig,
        sequence: Sequence,
    ) -> Result<SaId, SaError> {
        self.sas.table.check(index)?;
        let mut sa = S::new(config, sequence)?;
        let base = sa.base_mut();
        let coming = Coming {
            op: Op::Seal,
            base: nonce(base.salt, base.iv_of(0)),
            known: true,
            next: base.sequence.peek(),
        };
        base.key = engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)?;
        let (limit, lease) = (base.sequence.wants(), base.sequence.lease());
        let id = self.sas.table.insert(index, sa);
        self.clock.add(id, config);
        self.sas.wants.reserve(self.sas.table.len());
        if config.life.is_some() {
            self.sas.make_room();
        }
        self.sas.wants.extend(limit.map(|limit| Want { id, lease, limit }));
        Ok(id)
    }

    /// Gives an SA the ends, the adjacency and the MTU of a configuration: key, salt, numbers,
    /// life and counters stay.
    pub fn move_at(&mut self, index: u32, config: &OutboundConfig) -> Result<(), SaError> {
        let Some((_, held)) = self.sas.table.at(index) else {
            return Err(SaError::Vacant(index));
        };
        let none = Sequence::new(1, 0, held.sa.base().sequence.max());
        let mut sa = S::new(config, none)?;
        let (new, old) = (sa.base_mut(), held.sa.base_mut());
        (new.key, new.salt, new.iv_front) = (old.key, old.salt, old.iv_front);
        (new.stats, new.lives) = (old.stats, old.lives);
        std::mem::swap(&mut new.sequence, &mut old.sequence);
        std::mem::swap(&mut new.meter, &mut old.meter);
        held.sa = sa;
        Ok(())
    }

    /// Takes the SA off its index. Packets of it that an engine has still leave.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        self.sas.table.retire(index, |sa| engine.retire(sa.base().key))
    }

    /// An SA lives by these bounds from now on.
    pub fn live(&mut self, index: u32, by: Option<&Allowance>) {
        if let Some((_, held)) = self.sas.table.at(index) {
            let base = held.sa.base_mut();
            base.meter.set(by, base.sequence.peek().saturating_sub(1), &base.stats);
            base.lives = by.is_some();
            self.sas.make_room();
        }
    }

    /// The time of an SA is over: nothing is sealed by it from now on.
    pub fn expire(&mut self, index: u32) {
        if let Some((_, held)) = self.sas.table.at(index) {
            held.sa.base_mut().meter.end();
        }
    }

    /// Bounds that were reached since the last call. What is not taken is there the next time.
    pub fn expired(&mut self) -> impl Iterator<Item = Expired> + '_ {
        std::iter::from_fn(|| self.sas.expired.pop_front())
    }

    /// Reservations that SAs asked for since the last call; each asks once. What is not
    /// taken is there the next time.
    pub fn wants(&mut self) -> impl Iterator<Item = Want> + '_ {
        std::iter::from_fn(|| self.sas.wants.pop())
    }

    /// Numbers up to `limit` are on stable storage. For an SA that is no longer
    /// there this does nothing.
    pub fn extend(&mut self, id: SaId, limit: u64) {
        if let Some((_, held)) = self.sas.table.at(id.index)
            && held.id == id
        {
            held.sa.base_mut().sequence.extend(limit);
        }
    }

    /// An ICMP error about a packet of an SA; false if the SA did not send that.
    pub(super) fn hear(&mut self, index: u32, quote: &Quote, now: Instant) -> bool {
        let Some((_, held)) = self.sas.table.at(index) else { return false };
        let base = held.sa.base();
        if base.source != quote.source || !is_recent(quote.number, base.sequence.peek()) {
            return false;
        }
        let Some(path) = quote.path() else { return false };
        let fits = base.overhead.fits(path) as u16;
        if held.sa.base_mut().path.hear(path, fits, now) {
            self.clock.once(held.id, now + PATH_AGE, Timer::Age);
        }
        true
    }

    /// The SAs, for `show sa` and for a clean stop.
    pub fn show(&self) -> impl Iterator<Item = SaView<'_>> {
        self.sas.table.iter().map(|held| held.sa.base().view(held.id))
    }

    /// SAs in some places of the table; nothing behind the last place.
    pub fn show_some(&self, places: Range<u32>) -> Option<impl Iterator<Item = SaView<'_>>> {
        let some = self.sas.table.some(places)?;
        Some(some.map(|held| held.sa.base().view(held.id)))
    }

    /// True while an engine still has packets of a retired SA.
    pub const fn is_lingering(&self) -> bool {
        self.sas.table.is_lingering()
    }

    /// Packets in an engine, or waiting for one that is.
    pub fn held(&self) -> usize {
        self.in_flight.held()
    }
}

/// Counts a packet of an SA whose life has bounds.
#[inline(never)]
fn spend<S: Sealing>(expired: &mut VecDeque<Expired>, held: &mut Held<S>, job: &Job<()>) {
    let octets = held.sa.octets_of(job) as u64;
    held.sa.base_mut().meter.count(octets, held.id, expired);
}

/// Result of laying out a packet.
#[inline(always)]
fn admit<S: Sealing>(
    (wants, expired): (&mut Vec<Want>, &mut VecDeque<Expired>),
    slot: u32,
    held: &mut Held<S>,
    packet: &mut Packet,
    job: &mut Job<()>,
    made: Result<(), Refusal>,
) -> Result<(), Aside> {
    match made {
        Ok(()) => {
            if job.number.is_multiple_of(LOOK_EVERY) {
                look(wants, held);
            }
            if held.sa.base().lives {
                spend(expired, held, job);
            }
            let base = held.sa.base();
            let meta = packet.meta_mut();
            (meta.adjacency, meta.ethertype) = (base.adjacency, base.ethertype);
            meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
            job.ticket = slot.into();
            Ok(())
        }
        Err(refusal) => {
            if matches!(refusal, Refusal::Drop(reason) if reason == S::EXHAUSTED) {
                look(wants, held);
            }
            Err(refuse::<S>(held.sa.base_mut(), packet, refusal))
        }
    }
}

impl<S> Associations<S> {
    /// An SA tells of both of its bounds, once.
    fn make_room(&mut self) {
        self.expired.reserve(2 * self.table.len());
    }
}

impl<S: Sealing> Protection for Associations<S> {
    const SUBMITTER: Submitter = S::SUBMITTER;

    /// The SAs of all packets first, then their keys.
    #[inline(always)]
    fn prefetch<E: Engine<Packet>>(&self, _: &Ctx<'_>, engine: &E, batch: &Batch) {
        if !self.table.is_large() {
            return;
        }
        for packet in batch {
            self.table.prefetch(packet.meta().sa);
        }
        for packet in batch {
            if let Some(sa) = self.table.peek(packet.meta().sa) {
                engine.prefetch(sa.base().key, packet.len());
            }
        }
    }

    /// The places of all packets' SAs first, so that none waits for them one after the other.
    #[inline(always)]
    fn prepare_all(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch, jobs: &mut [Job<()>; BATCH]) {
        let Self { table, wants, expired, .. } = self;
        let mut slots = [0; BATCH];
        for (packet, slot) in batch.iter().zip(&mut slots) {
            *slot = table.place(packet.meta().sa);
        }
        let (mut slots, mut settled) = (slots.iter().copied(), true);
        prepare_each(ctx, batch, jobs, |ctx, packet, job| {
            let found = slots.next().and_then(|slot| Some((slot, table.slot(slot)?)));
            let Some((slot, held)) = found else {
                return Err(S::NO_SA.into());
            };
            settled &= held.sa.is_settled();
            let base = held.sa.base_mut();
            let made = match !base.lives || base.meter.goes_on(held.id, expired) {
                true => held.sa.lay_out(ctx.now, packet, job),
                false => Err(DropReason::SaExpired.into()),
            };
            admit((wants, expired), slot, held, packet, job, made)
        });
        self.settled = settled;
    }

    #[inline(always)]
    fn all_finished(&mut self, jobs: &[Job<()>]) -> Option<Next> {
        let settled = std::mem::replace(&mut self.settled, true);
        let done = || jobs.iter().fold(true, |all, job| all & (job.verdict == Verdict::Done));
        (settled && done()).then_some(Next::Output)
    }

    #[inline(always)]
    fn finish(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        let Some(held) = self.table.slot(job.ticket as u32) else {
            return Err(DropReason::EngineFailed.into());
        };
        let done = match job.verdict {
            Verdict::Done => held.sa.conclude(packet, job),
            Verdict::Pending => Err(DropReason::EngineFull),
            Verdict::Gone => Err(DropReason::KeystreamGone),
            Verdict::BadIcv | Verdict::Failed => Err(DropReason::EngineFailed),
        };
        match done {
            Ok(()) => match held.sa.base().around() {
                None => Ok(Next::Output),
                Some(around) => nested(ctx, around, packet),
            },
            Err(reason) => {
                held.sa.base_mut().stats.failed += 1;
                Err(reason.into())
            }
        }
    }

    fn queue(&mut self, slot: u32) -> Option<&mut Lane> {
        self.table.slot(slot).map(|held| &mut held.lane)
    }

    fn returned(&mut self, slot: u32) {
        self.table.reap(slot);
    }
}

/// To the SA around the one that sealed a packet.
#[cold]
fn nested(ctx: &Ctx<'_>, around: u32, packet: &mut Packet) -> Result<Next, Aside> {
    // It has a number of the SA inside: it cannot wait for one around that.
    ctx.tables.sas.slots(ctx.worker).next(ctx.worker, around, packet, &[])
}

/// Sends a packet that an SA made by itself on its way.
fn onwards(ctx: &mut Ctx<'_>, base: &Outbound, mut packet: Packet) {
    let meta = packet.meta_mut();
    (meta.adjacency, meta.ethertype) = (base.adjacency, base.ethertype);
    meta.flags = FLAG_LOCAL | FLAG_EXEMPT;
    let next = match base.around() {
        None => Ok(Next::Output),
        Some(around) => nested(ctx, around, &mut packet),
    };
    match next {
        Ok(next) => ctx.out.send(next, packet),
        Err(aside) => ctx.set_aside(packet, aside),
    }
}

/// True if the reserved range of an SA runs low, so that more is asked for.
#[inline(never)]
fn look<S: Sealing>(wants: &mut Vec<Want>, held: &mut Held<S>) {
    let sequence = &mut held.sa.base_mut().sequence;
    if let Some(limit) = sequence.wants() {
        wants.push(Want { id: held.id, lease: sequence.lease(), limit });
    }
}

/// Fate of a packet that is not sealed. Of a fragment an SA in transport mode wants
/// the whole datagram: that comes back to the policy that sent the fragment here, whatever
/// way the SA's own packets leave by. What a policy did not send here has nowhere to come
/// back to.
#[cold]
fn refuse<S: Sealing>(base: &mut Outbound, packet: &mut Packet, refusal: Refusal) -> Aside {
    let meta = packet.meta_mut();
    match refusal {
        Refusal::TooBig(protocol, mtu) => {
            let v6 = protocol == Protocol::IPV6;
            meta.icmp = if v6 { PACKET_TOO_BIG } else { FRAGMENTATION_NEEDED };
            meta.limit = mtu;
            Aside::To(Next::IcmpError)
        }
        Refusal::Cut => Aside::Cut(base.path.mtu, S::STAGE),
        Refusal::Fragment if meta.flags & FLAG_EXEMPT != 0 => {
            Aside::Drop(DropReason::FragmentNotSupported)
        }
        Refusal::Fragment => {
            meta.flags |= FLAG_ONWARDS;
            Aside::To(Next::Reassemble)
        }
        Refusal::Drop(reason) => {
            base.stats.failed += 1;
            Aside::Drop(reason)
        }
    }
}

/// True for a packet that this node may cut, whatever its DF says: it was made here (as a packet
/// of an SA within another is), or came in fragments.
#[cold]
pub(super) fn may_cut(packet: &Packet) -> bool {
    packet.meta().flags & (FLAG_LOCAL | FLAG_WHOLE) != 0
}
