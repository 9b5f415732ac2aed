//! The inbound SAs of one worker, of ESP or AH: from an SPI to a job, and from an
//! authentic packet to what was in it.

use super::config::{Endpoints, InboundConfig};
use super::lifetime::{Allowance, Expired};
use super::spd::directory::InboundCell;
use super::state::{Inbound, SaView, nonce};
use crate::graph::{Aside, Ctx, FLAG_GROUP, FLAG_OPENED, Next};
use crate::protection::authentic::{Authentic, Candidate};
use crate::protection::table::{Held, SaError, SaId, SaTable};
use crate::protection::tickets::{Lane, Submitter};
use crate::protection::{InFlight, Protection, prepare_each};
use arrayvec::ArrayVec;
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_crypto::{Coming, Engine, Job, Jobs, KeyId, Op, Verdict};
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::EtherType;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

/// Inbound processing of one protocol, ESP or AH.
pub(crate) trait Opening: Sized {
    /// Whose jobs they are.
    const SUBMITTER: Submitter;
    /// The stage that opens.
    const STAGE: Next;
    /// Offset of the SPI in the protocol's header.
    const SPI_AT: usize;
    /// Drop reasons of an unknown SPI, of a number seen before, and of a wrong ICV.
    const UNKNOWN_SPI: DropReason;
    /// See [`UNKNOWN_SPI`](Self::UNKNOWN_SPI).
    const REPLAY: DropReason;
    /// See [`UNKNOWN_SPI`](Self::UNKNOWN_SPI).
    const BAD_ICV: DropReason;

    /// Checks a configuration and prepares what it says; the key is not yet set.
    /// Everything up to `edge` counts as received.
    fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError>;

    /// State common to inbound SAs of every protocol.
    fn base(&self) -> &Inbound;

    /// The same, to change.
    fn base_mut(&mut self) -> &mut Inbound;

    /// True if IVs are the packets' numbers (RFC 8750), and so known before decryption.
    fn has_implicit_iv(&self) -> bool;

    /// The SPI in a packet whose header is at `offset`.
    fn spi_of(packet: &mut Packet) -> Result<u32, Aside>;

    /// Judges a packet as far as it can be without the key, and writes its job.
    fn lay_out(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Result<(), DropReason>;

    /// Octets of a packet to which the algorithm is applied.
    fn octets_of(&self, job: &Job<()>) -> usize;

    /// Undoes what the engine needed of a packet, authentic or not.
    fn restore(&self, packet: &mut Packet, job: &Job<()>) -> Result<(), DropReason>;

    /// Source of an authentic packet that came in UDP.
    fn source_of(&self, _: &Packet) -> Option<SocketAddr> {
        None
    }

    /// From an authentic packet that is new to the one that goes on, and what that is.
    fn unwrap(&mut self, packet: &mut Packet, job: &Job<()>) -> Result<EtherType, DropReason>;
}

/// A stage that opens, with the inbound SAs of one worker.
pub struct Opener<S> {
    sas: Associations<S>,
    in_flight: InFlight,
}

struct Associations<S> {
    table: SaTable<S>,
    expired: VecDeque<Expired>,
    heard: VecDeque<HeardElsewhere>,
}

/// An authentic packet of an SA came from another address than that of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardElsewhere {
    /// The SA.
    pub id: SaId,
    /// The address.
    pub from: SocketAddr,
}

/// Interval at which the other end of an SA may be told to be elsewhere.
const MOVE_EVERY: Duration = Duration::from_secs(1);
/// Places to be told at a time.
const HEARD_MAX: usize = BATCH;

impl<S: Opening> Default for Opener<S> {
    fn default() -> Self {
        let (expired, heard) = (VecDeque::new(), VecDeque::with_capacity(HEARD_MAX));
        let sas = Associations { table: SaTable::default(), expired, heard };
        Self { sas, in_flight: InFlight::default() }
    }
}

#[expect(private_bounds, reason = "protocols are this crate's")]
impl<S: Opening> Opener<S> {
    /// Opens a batch.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        ctx.tally.work.lookups += batch.len() as u64;
        if ctx.tables.workers > 1 {
            share::<S>(ctx, batch);
        }
        self.in_flight.run(&mut self.sas, ctx, engine, batch);
    }

    /// Takes this stage's jobs that come back later, and leaves the others.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        self.in_flight.finish(&mut self.sas, ctx, jobs);
    }

    /// Installs an SA at an index that the tables name, or will name.
    /// Everything up to `edge` counts as received.
    pub fn install_at<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u32,
        config: &InboundConfig,
        edge: u64,
    ) -> Result<SaId, SaError> {
        self.sas.table.check(index)?;
        let mut sa = S::new(config, edge)?;
        sa.base_mut().key = install(&sa, engine, config)?;
        let id = self.sas.table.insert(index, sa);
        if config.life.is_some() {
            self.sas.make_room();
        }
        Ok(id)
    }

    /// Changes what an SA is but for its key: its window and its counts stay as they
    /// are, for the packets of an engine that is late, too.
    pub fn change_at<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u32,
        config: &InboundConfig,
    ) -> Result<(), SaError> {
        let Some((_, held)) = self.sas.table.at(index) else {
            return Err(SaError::Vacant(index));
        };
        let mut sa = S::new(config, held.sa.base().window.edge())?;
        let key = install(&sa, engine, config)?;
        let (new, old) = (sa.base_mut(), held.sa.base_mut());
        (new.key, new.stats) = (key, old.stats);
        std::mem::swap(&mut new.meter, &mut old.meter);
        new.lives = old.lives;
        new.window = old.window.resized(config.window);
        engine.retire(std::mem::replace(&mut held.sa, sa).base().key);
        Ok(())
    }

    /// Gives an SA other ends: key, window and counters stay.
    pub fn move_at(&mut self, index: u32, ends: &Endpoints) -> Result<(), SaError> {
        match self.sas.table.at(index) {
            Some((_, held)) => held.sa.base_mut().move_to(ends),
            None => Err(SaError::Vacant(index)),
        }
    }

    /// Takes the SA off its index. Packets of it that an engine has still arrive.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        self.sas.table.retire(index, |sa| engine.retire(sa.base().key))
    }

    /// An SA lives by these bounds from now on.
    pub fn live(&mut self, index: u32, by: Option<&Allowance>) {
        if let Some((_, held)) = self.sas.table.at(index) {
            let base = held.sa.base_mut();
            base.meter.set(by, base.window.edge(), &base.stats);
            base.lives = by.is_some();
            self.sas.make_room();
        }
    }

    /// The time of an SA is over: nothing that it opens goes on from now on.
    pub fn expire(&mut self, index: u32) {
        if let Some((_, held)) = self.sas.table.at(index) {
            held.sa.base_mut().meter.end();
        }
    }

    /// Bounds that were reached since the last call. What is not taken is there the next time.
    pub fn expired(&mut self) -> impl Iterator<Item = Expired> + '_ {
        std::iter::from_fn(|| self.sas.expired.pop_front())
    }

    /// Other ends that were elsewhere since the last call. What is not taken is there the next
    /// time.
    pub fn heard(&mut self) -> impl Iterator<Item = HeardElsewhere> + '_ {
        std::iter::from_fn(|| self.sas.heard.pop_front())
    }

    /// The SAs, for `show sa` and to persist the edges of their windows.
    pub fn show(&self) -> impl Iterator<Item = SaView<'_>> {
        self.sas.table.iter().map(|held| held.sa.base().view(held.id))
    }

    /// Where the window of the SA at an index stands, and the record that keeps it.
    pub fn edge(&self, index: u32) -> Option<([u8; 16], u64)> {
        let base = self.sas.table.peek(index)?.base();
        Some((base.record, base.window.edge()))
    }

    /// Says where the windows stand that a record keeps and that moved since this was last said,
    /// of SAs in some places of the table. False behind the last place.
    pub fn moved_edges(&mut self, places: Range<u32>, mut say: impl FnMut([u8; 16], u64)) -> bool {
        let behind = places.end;
        for slot in places {
            if !self.sas.table.has_slot(slot) {
                return false;
            }
            let Some(held) = self.sas.table.slot(slot) else { continue };
            let base = held.sa.base_mut();
            let edge = base.window.edge();
            if edge != base.told && base.record != [0; 16] {
                base.told = edge;
                say(base.record, edge);
            }
        }
        self.sas.table.has_slot(behind)
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

/// Sends each packet to the worker of its SA. What belongs here stays in the batch.
#[inline(never)]
fn share<S: Opening>(ctx: &mut Ctx<'_>, batch: &mut Batch) {
    let mut here = ArrayVec::<Packet, BATCH>::new();
    for mut packet in batch.drain(..) {
        let place = S::spi_of(&mut packet).ok().and_then(|spi| ctx.tables.sas.inbound(spi));
        match place.filter(|place| place.worker != ctx.worker) {
            Some(place) => ctx.out.hand_off(place.worker, S::STAGE, packet),
            None => here.push(packet),
        }
    }
    batch.extend(here);
}

/// Gives the engine the key of an SA.
fn install<S: Opening, E: Engine<Packet>>(
    sa: &S,
    engine: &mut E,
    config: &InboundConfig,
) -> Result<KeyId, SaError> {
    let base = sa.base();
    let coming = Coming {
        op: Op::Open,
        base: nonce(base.salt, [0; 8]),
        // Otherwise the peer chooses.
        known: sa.has_implicit_iv(),
        next: base.window.edge().saturating_add(1),
    };
    engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)
}

/// References to the SAs of a batch's packets, by their SPIs.
#[inline(always)]
fn look_up<S: Opening>(ctx: &Ctx<'_>, batch: &Batch) -> [InboundCell; BATCH] {
    let mut spis = [0; BATCH];
    for (packet, spi) in batch.iter().zip(&mut spis) {
        let at = usize::from(packet.meta().offset);
        let header = packet.data().get(at + S::SPI_AT..).and_then(<[u8]>::first_chunk);
        *spi = header.map_or(0, |&octets| u32::from_be_bytes(octets));
    }
    ctx.tables.sas.inbound_all(&spis, batch.len())
}

impl<S: Opening> Associations<S> {
    /// An SA tells of both of its bounds, once.
    fn make_room(&mut self) {
        self.expired.reserve(2 * self.table.len());
    }

    /// 1. The SA of another worker opens there.
    /// 2. What can be judged without the key, the replay window among it.
    #[inline(always)]
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        cell: InboundCell,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Aside> {
        // 1
        let spi = S::spi_of(packet)?;
        if !cell.is_some() {
            return Err(S::UNKNOWN_SPI.into());
        }
        if cell.worker() != ctx.worker {
            return Err(Aside::HandOff(cell.worker(), S::STAGE));
        }
        let held = self.table.at(cell.index()).filter(|(_, held)| held.sa.base().spi == spi);
        let (slot, held) = held.ok_or(S::UNKNOWN_SPI)?;
        // 2
        match held.sa.lay_out(packet, job) {
            Ok(()) => {
                job.ticket = slot.into();
                Ok(())
            }
            Err(reason) => Err(refuse(&mut held.sa, reason)),
        }
    }
}

impl<S: Opening> Protection for Associations<S> {
    const SUBMITTER: Submitter = S::SUBMITTER;

    /// The SAs of all packets first, then their keys and windows.
    #[inline(always)]
    fn prefetch<E: Engine<Packet>>(&self, ctx: &Ctx<'_>, engine: &E, batch: &Batch) {
        if !self.table.is_large() {
            return;
        }
        let cells = look_up::<S>(ctx, batch);
        for cell in &cells[..batch.len()] {
            self.table.prefetch(cell.index());
        }
        for (packet, cell) in batch.iter().zip(&cells) {
            if let Some(sa) = self.table.peek(cell.index()) {
                engine.prefetch(sa.base().key, packet.len());
                sa.base().window.prefetch();
                sa.base().selectors.prefetch();
            }
        }
    }

    /// SPI to SA for all packets first, so that none waits for that one after the other.
    #[inline(always)]
    fn prepare_all(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch, jobs: &mut [Job<()>; BATCH]) {
        let mut cells = look_up::<S>(ctx, batch).into_iter();
        prepare_each(ctx, batch, jobs, |ctx, packet, job| {
            let cell = cells.next().unwrap_or(InboundCell::NONE);
            self.prepare(ctx, cell, packet, job)
        });
    }

    /// 1. The ICV was right.
    /// 2. The SA lives, the number is still new, and the window moves.
    /// 3. What was inside goes on.
    #[inline(always)]
    fn finish(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        let Self { table, expired, heard } = self;
        let Some(held) = table.slot(job.ticket as u32) else {
            return Err(DropReason::EngineFailed.into());
        };
        match open((ctx.now, expired, heard), held, packet, job) {
            Ok(ethertype) => {
                let meta = packet.meta_mut();
                (meta.vrf, meta.ethertype) = (held.sa.base().vrf, ethertype.0);
                meta.flags = meta.flags & FLAG_GROUP | FLAG_OPENED;
                meta.opened = held.sa.base().slot;
                Ok(Next::Ip)
            }
            Err(reason) => Err(refuse(&mut held.sa, reason)),
        }
    }

    fn queue(&mut self, slot: u32) -> Option<&mut Lane> {
        self.table.slot(slot).map(|held| &mut held.lane)
    }

    fn returned(&mut self, slot: u32) {
        self.table.reap(slot);
    }
}
/// Counts a packet of an SA whose life has bounds.
#[inline(never)]
fn spend<S: Opening>(expired: &mut VecDeque<Expired>, held: &mut Held<S>, job: &Job<()>) {
    let octets = held.sa.octets_of(job) as u64;
    held.sa.base_mut().meter.count(octets, held.id, expired);
}

/// Time, bounds of lives that are reached, and other ends that are elsewhere.
type News<'a> = (Instant, &'a mut VecDeque<Expired>, &'a mut VecDeque<HeardElsewhere>);

/// Notes where the other end is by a packet that is the newest: one that was under way for longer
/// may be from where it was before.
#[cold]
fn note_source<S: Opening>(
    (now, _, heard): News<'_>,
    held: &mut Held<S>,
    packet: &Packet,
    job: &Job<()>,
) {
    let Some(from) = held.sa.source_of(packet) else { return };
    let base = held.sa.base_mut();
    let is_new = base.peer.address != Some(from) && base.window.edge() == job.number;
    let is_early = base.peer.told.is_some_and(|told| now < told + MOVE_EVERY);
    if is_new && !is_early && heard.len() < HEARD_MAX {
        (base.peer.address, base.peer.told) = (Some(from), Some(now));
        heard.push_back(HeardElsewhere { id: held.id, from });
    }
}

/// The steps of finishing.
#[inline(always)]
fn open<S: Opening>(
    (now, expired, heard): News<'_>,
    held: &mut Held<S>,
    packet: &mut Packet,
    job: &Job<()>,
) -> Result<EtherType, DropReason> {
    // 1
    held.sa.restore(packet, job)?;
    let Some(authentic) = Authentic::proof(job) else {
        return Err(match job.verdict {
            Verdict::BadIcv => S::BAD_ICV,
            Verdict::Pending => DropReason::EngineFull,
            Verdict::Gone => DropReason::KeystreamGone,
            _ => DropReason::EngineFailed,
        });
    };
    // 2
    let base = held.sa.base_mut();
    if base.lives && !base.meter.goes_on(held.id, expired) {
        return Err(DropReason::SaExpired);
    }
    if !base.window.commit(Candidate::of(job), authentic) {
        return Err(S::REPLAY);
    }
    if held.sa.base().lives {
        spend(expired, held, job);
    }
    if held.sa.base().follows {
        note_source((now, expired, heard), held, packet, job);
    }
    // 3
    let sa = &mut held.sa;
    let ethertype = sa.unwrap(packet, job)?;
    let stats = &mut sa.base_mut().stats;
    stats.packets += 1;
    stats.octets += packet.len() as u64;
    Ok(ethertype)
}

/// Counts a packet that goes no further.
#[cold]
fn refuse<S: Opening>(sa: &mut S, reason: DropReason) -> Aside {
    let stats = &mut sa.base_mut().stats;
    match reason {
        DropReason::EngineFull | DropReason::EngineFailed | DropReason::KeystreamGone => {
            stats.failed += 1;
        }
        _ if reason == S::BAD_ICV => stats.bad_icv += 1,
        _ if reason == S::REPLAY => stats.replays += 1,
        _ if reason == S::UNKNOWN_SPI => {}
        _ => stats.refused += 1,
    }
    reason.into()
}
