//! AH in: checks packets (RFC 4302 section 3.4, RFC 4301 section 5.2) and takes AH
//! off them.

use super::cover::{self, At, Place};
use super::state::{AhInSa, ethertype};
use super::work;
use crate::fragment::take_off_atomic;
use crate::graph::{Ctx, FLAG_GROUP, FLAG_OPENED, Next};
use crate::ipsec::config::InboundConfig;
use crate::ipsec::ingress::{class, inner_len, mark};
use crate::ipsec::replay::{Authentic, Candidate};
use crate::ipsec::state::{SaView, nonce};
use crate::ipsec::table::{Held, SaError, SaId, SaTable};
use crate::mss;
use crate::sequence::Lease;
use crate::tickets::{Submitter, Tickets};
use ferrule_base::DropReason;
use ferrule_crypto::{Coming, Engine, Job, Jobs, KeyId, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{FromBytes, Malformed, Protocol, ah, ipv6ext};

/// The stage, with the inbound AH SAs of one worker.
#[derive(Default)]
pub struct AhIn {
    sas: SaTable<AhInSa>,
    tickets: Tickets,
}

impl AhIn {
    /// Checks a batch.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let mut jobs = Jobs::new();
        let late = !engine.is_immediate();
        ctx.tally.work.lookups += batch.len() as u64;
        for packet in batch.drain(..) {
            self.prepare(ctx, packet, late, &mut jobs);
        }
        ctx.tally.work.opened.merge(work(&jobs));
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
        self.sas.in_order(Submitter::AhIn, tickets, jobs, |held, job| complete(ctx, held, job));
    }

    /// From a packet to a job:
    /// 1. SPI to SA; the SA of another worker is asked there; a fragment header that says
    ///    that the datagram is whole goes, as AH never saw it (RFC 4302 section 3.4.1);
    /// 2. the addresses are the SA's, and it came out of the SA around; Ethernet's
    ///    padding goes;
    /// 3. the number may still come;
    /// 4. AH is as long as the SA's is; headers muted, the ICV behind the packet;
    /// 5. with an engine that is late, its place in the SA's order.
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut packet: Packet,
        late: bool,
        jobs: &mut Jobs<Packet>,
    ) {
        // 1
        let at = place(&mut packet);
        let payload = packet.data().get(at..).unwrap_or_default();
        let Ok((header, _)) = ah::Header::read_from_prefix(payload) else {
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        let spi = header.spi.get();
        let Some(found) = ctx.tables.sas.inbound(spi) else {
            return ctx.out.drop(packet, DropReason::AhUnknownSpi);
        };
        if found.worker != ctx.worker {
            return ctx.out.hand_off(found.worker, Next::AhIn, packet);
        }
        let Some((slot, held)) = self.sas.at(found.index).filter(|(_, h)| h.sa.spi == spi) else {
            return ctx.out.drop(packet, DropReason::AhUnknownSpi);
        };
        // 2
        let sa = &mut held.sa;
        match sa.ends.total_len(packet.data()) {
            Ok(total) => packet.truncate(total),
            Err(DropReason::EspUnknownSpi) => {
                return ctx.out.drop(packet, DropReason::AhUnknownSpi);
            }
            Err(reason) => return ctx.out.drop(packet, reason),
        }
        let opened = packet.meta().flags & FLAG_OPENED != 0;
        let fits = opened && sa.inside.contains(&packet.meta().target);
        if !fits && !sa.inside.is_empty() {
            sa.stats.refused += 1;
            return ctx.out.drop(packet, DropReason::AhNotNested);
        }
        // 3
        let low = header.seq.get();
        let number = if sa.shape.esn { sa.window.extend(low) } else { Some(low.into()) };
        let Some(candidate) = number.and_then(|number| sa.window.check(number)) else {
            sa.stats.replays += 1;
            return ctx.out.drop(packet, DropReason::AhReplay);
        };
        // 4
        let prepared = sa.prepare(&mut packet, at, &header);
        let (covered, text, iv) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => {
                sa.stats.refused += 1;
                return ctx.out.drop(packet, reason);
            }
        };
        let number = candidate.number();
        let iv = if sa.shape.iv == 0 { number.to_be_bytes() } else { iv };
        let (key, nonce, ad) = (sa.key, nonce(sa.salt, iv), sa.shape.ad(covered, number));
        candidate.ride(packet.meta_mut());
        // 5
        let ticket = if late { self.tickets.issue(&mut held.lane, slot) } else { Some(slot) };
        let Some(ticket) = ticket else {
            held.sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EngineFull);
        };
        let ticket = Submitter::AhIn.mark(ticket.into());
        let (op, verdict) = (Op::Open, Verdict::Pending);
        jobs.push(Job { buf: packet, key, ticket, nonce, op, verdict, ad, text });
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
        self.sas.check(index)?;
        let mut sa = AhInSa::new(config, edge)?;
        sa.key = sa.install(engine, config)?;
        Ok(self.sas.insert(index, sa))
    }

    /// Changes what an SA is but for its key: its window and its counts stay as they
    /// are, for the packets of an engine that is late, too.
    pub fn change_at<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u32,
        config: &InboundConfig,
    ) -> Result<(), SaError> {
        let Some((_, held)) = self.sas.at(index) else { return Err(SaError::Vacant(index)) };
        let mut sa = AhInSa::new(config, held.sa.window.edge())?;
        sa.key = sa.install(engine, config)?;
        sa.window = held.sa.window.resized(config.window);
        sa.stats = held.sa.stats;
        engine.retire(std::mem::replace(&mut held.sa, sa).key);
        Ok(())
    }

    /// Takes the SA off its index. Packets of it that an engine has still arrive.
    pub fn retire<E: Engine<Packet>>(&mut self, engine: &mut E, index: u32) -> bool {
        self.sas.retire(index, |sa| engine.retire(sa.key))
    }

    /// The SAs, for `show sa` and to persist the edges of their windows.
    pub fn show(&self) -> impl Iterator<Item = SaView<'_>> {
        self.sas.iter().map(|held| SaView {
            id: held.id,
            name: &held.sa.name,
            spi: held.sa.spi,
            suite: held.sa.suite,
            number: held.sa.window.edge(),
            lease: Lease { record: held.sa.record, number: 0 },
            mtu: None,
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

/// Where AH is, once a fragment header is gone that a whole datagram came with.
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

impl AhInSa {
    /// Gives the engine the key.
    fn install<E: Engine<Packet>>(
        &self,
        engine: &mut E,
        config: &InboundConfig,
    ) -> Result<KeyId, SaError> {
        let coming = Coming {
            op: Op::Open,
            base: nonce(self.salt, [0; 8]),
            known: self.shape.iv == 0,
            next: self.window.edge().saturating_add(1),
        };
        engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)
    }

    /// Lays the packet out for the engine: what is covered, the empty text, the IV.
    fn prepare(
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

    /// From a checked packet to the one that goes on:
    /// 1. headers and ICV are where they were;
    /// 2. the ICV was right;
    /// 3. the number is still new, and the window moves;
    /// 4. AH goes: all up to the inner packet, or the header alone;
    /// 5. what is left is what this SA may carry;
    /// 6. congestion that was marked outside is marked inside.
    ///
    /// Says whether what is left is IPv6.
    fn unwrap(&mut self, job: &mut Job<Packet>) -> Result<bool, DropReason> {
        // 1
        let at = usize::from(job.buf.meta().offset);
        cover::uncover(job, at, self.shape).ok_or(DropReason::EngineFailed)?;
        // 2
        let Some(authentic) = Authentic::proof(job) else {
            return Err(match job.verdict {
                Verdict::BadIcv => DropReason::AhBadIcv,
                Verdict::Pending => DropReason::EngineFull,
                Verdict::Gone => DropReason::KeystreamGone,
                _ => DropReason::EngineFailed,
            });
        };
        // 3
        if !self.window.commit(Candidate::of(job.buf.meta()), authentic) {
            return Err(DropReason::AhReplay);
        }
        // 4
        let packet = &mut job.buf;
        let outer = packet.data().first_chunk().map_or(0, class);
        let header = packet.data().get(at..).unwrap_or_default();
        let (header, _) =
            ah::Header::read_from_prefix(header).map_err(|_| DropReason::AhBadHeader)?;
        let protocol = match self.tunnel {
            true => inner(packet, at, &header)?,
            false => restored(packet, at, &header)?,
        };
        // 5
        if let Some(mtu) = self.clamp {
            mss::clamp(packet.data_mut(), mtu.into());
        }
        if !self.selectors.admit(packet.data())? {
            return Err(DropReason::AhSelectorMismatch);
        }
        // 6
        if self.tunnel {
            mark(packet.data_mut(), protocol, outer).map_err(|_| DropReason::AhEcn)?;
        }
        self.stats.packets += 1;
        self.stats.octets += packet.len() as u64;
        Ok(protocol == Protocol::IPV6)
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

/// A job is back, and it is its turn.
fn complete(ctx: &mut Ctx<'_>, held: Option<&mut Held<AhInSa>>, mut job: Job<Packet>) {
    let Some(held) = held else { return ctx.out.drop(job.buf, DropReason::EngineFailed) };
    match held.sa.unwrap(&mut job) {
        Ok(v6) => {
            let meta = job.buf.meta_mut();
            meta.vrf = held.sa.vrf;
            meta.ethertype = ethertype(v6);
            meta.flags = meta.flags & FLAG_GROUP | FLAG_OPENED;
            (meta.scratch, meta.target) = (held.id.index as u16, held.id.index);
            ctx.out.send(Next::Ip, job.buf);
        }
        Err(reason) => {
            let stats = &mut held.sa.stats;
            match reason {
                DropReason::AhBadIcv => stats.bad_icv += 1,
                DropReason::AhReplay => stats.replays += 1,
                DropReason::EngineFull | DropReason::EngineFailed | DropReason::KeystreamGone => {
                    stats.failed += 1
                }
                _ => stats.refused += 1,
            }
            ctx.out.drop(job.buf, reason);
        }
    }
}
