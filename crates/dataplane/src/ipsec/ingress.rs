//! ESP in: opens packets of a tunnel (RFC 4303 section 3.4, RFC 4301 section
//! 5.2).

use super::config::InboundConfig;
use super::replay::{Authentic, Candidate};
use super::state::{Ends, InboundSa, SaView, nonce, work};
use super::table::{Held, SaError, SaId, SaTable};
use super::unwrapping::KEEPALIVE;
use crate::graph::{Ctx, FLAG_ENCAP, FLAG_GROUP, FLAG_OPENED, Next};
use crate::sequence::Lease;
use crate::tickets::{Submitter, Tickets};
use ferrule_base::DropReason;
use ferrule_crypto::{Coming, Engine, Job, Jobs, KeyId, Op, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{Ecn, FromBytes, Protocol, esp, ipv4, ipv6};

/// The stage, with the inbound SAs of one worker.
#[derive(Default)]
pub struct EspIn {
    sas: SaTable<InboundSa>,
    tickets: Tickets,
}

impl EspIn {
    /// Opens a batch.
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
        self.sas.in_order(Submitter::EspIn, tickets, jobs, |held, job| complete(ctx, held, job));
    }

    /// From a packet to a job:
    /// 1. SPI to SA; the SA of another worker is opened there;
    /// 2. outer addresses are the SA's, and it came as it should; Ethernet's padding
    ///    goes;
    /// 3. the number may still come;
    /// 4. what is encrypted, and what lies beside it;
    /// 5. with an engine that is late, its place in the SA's order.
    #[inline(always)]
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut packet: Packet,
        late: bool,
        jobs: &mut Jobs<Packet>,
    ) {
        // 1
        let at = usize::from(packet.meta().offset);
        let payload = packet.data().get(at..).unwrap_or_default();
        let Ok((header, payload)) = esp::Header::ref_from_prefix(payload) else {
            return too_short(ctx, packet, at);
        };
        let (spi, low, iv) = (header.spi.get(), header.seq.get(), payload.first_chunk().copied());
        let Some(place) = ctx.tables.sas.inbound(spi) else {
            return ctx.out.drop(packet, DropReason::EspUnknownSpi);
        };
        if place.worker != ctx.worker {
            return ctx.out.hand_off(place.worker, Next::EspIn, packet);
        }
        let Some((slot, held)) = self.sas.at(place.index).filter(|(_, h)| h.sa.spi == spi) else {
            return ctx.out.drop(packet, DropReason::EspUnknownSpi);
        };
        // 2
        let sa = &mut held.sa;
        match sa.ends.total_len(packet.data()) {
            Ok(total) => packet.truncate(total),
            Err(reason) => return ctx.out.drop(packet, reason),
        }
        if (sa.special.is_some() || packet.meta().flags & FLAG_ENCAP != 0)
            && let Err(reason) = sa.admits(&packet)
        {
            sa.stats.refused += 1;
            return ctx.out.drop(packet, reason);
        }
        // 3
        let number = if sa.shape.esn { sa.window.extend(low) } else { Some(low.into()) };
        let Some(candidate) = number.and_then(|number| sa.window.check(number)) else {
            sa.stats.replays += 1;
            return ctx.out.drop(packet, DropReason::EspReplay);
        };
        // 4
        let (Some(body), Some(iv)) = (sa.body_len(packet.len(), at), iv) else {
            sa.stats.refused += 1;
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        let (header, text) = sa.shape.spans(at, body);
        let number = candidate.number();
        let iv = if sa.shape.iv == 0 { number.to_be_bytes() } else { iv };
        let (key, nonce) = (sa.key, nonce(sa.salt, iv));
        let meta = packet.meta_mut();
        candidate.ride(meta);
        meta.offset = (at + esp::Header::LEN) as u16 + u16::from(sa.shape.iv);
        // 5
        let ticket = if late { self.tickets.issue(&mut held.lane, slot) } else { Some(slot) };
        let Some(ticket) = ticket else {
            sa.stats.failed += 1;
            return ctx.out.drop(packet, DropReason::EngineFull);
        };
        let ticket = Submitter::EspIn.mark(ticket.into());
        let (op, verdict) = (Op::Open, Verdict::Pending);
        let ad = sa.shape.ad(header, spi, number);
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
        let mut sa = InboundSa::new(config, edge)?;
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
        let mut sa = InboundSa::new(config, held.sa.edge())?;
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
            number: held.sa.edge(),
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

impl Ends {
    /// Octets of a packet that has these outer addresses and is whole.
    #[inline(always)]
    pub(super) fn total_len(&self, data: &[u8]) -> Result<usize, DropReason> {
        let total = match self {
            Self::V4 { ends, mask } => {
                let h = ipv4::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?.0;
                let [a, b, c, d] = h.src;
                let [e, f, g, i] = h.dst;
                let found = u64::from_be_bytes([a, b, c, d, e, f, g, i]);
                if h.version_ihl >> 4 != 4 || (found ^ ends) & mask != 0 {
                    return Err(DropReason::EspUnknownSpi);
                }
                if h.is_fragment() {
                    return Err(DropReason::FragmentNotSupported);
                }
                h.total_len.get().into()
            }
            Self::V6 { src, dst } => {
                let h = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?.0;
                let v6 = h.version_class_flow.get() >> 28 == 6;
                if !v6 || h.dst != *dst || src.is_some_and(|src| h.src != src) {
                    return Err(DropReason::EspUnknownSpi);
                }
                ipv6::Header::LEN + usize::from(h.payload_len.get())
            }
        };
        if total > data.len() { Err(DropReason::Malformed) } else { Ok(total) }
    }
}

impl InboundSa {
    /// Gives the engine the key.
    fn install<E: Engine<Packet>>(
        &self,
        engine: &mut E,
        config: &InboundConfig,
    ) -> Result<KeyId, SaError> {
        let coming = Coming {
            op: Op::Open,
            base: nonce(self.salt, [0; 8]),
            // With an implicit IV; otherwise the peer chooses.
            known: self.shape.iv == 0,
            next: self.edge().saturating_add(1),
        };
        engine.install(&config.keys.expecting(coming)).map_err(SaError::Key)
    }

    /// Octets between ESP header (at `at`) and ICV: the IV, whole blocks, at
    /// least the two octets of the trailer.
    #[inline(always)]
    fn body_len(&self, len: usize, at: usize) -> Option<usize> {
        let body = len.checked_sub(at + esp::Header::LEN + usize::from(self.shape.icv))?;
        let text = body.checked_sub(self.shape.iv.into())?;
        let whole = text & (usize::from(self.shape.align) - 1) == 0;
        (whole && text >= esp::TRAILER_LEN).then_some(body)
    }

    /// From an opened packet to the inner one:
    /// 1. the ICV was right;
    /// 2. the number is still new, and the window moves;
    /// 3. trailer, inner version and length;
    /// 4. it is what this SA may carry;
    /// 5. congestion that was marked outside is marked inside;
    /// 6. everything around it goes.
    #[inline(always)]
    fn unwrap(&mut self, job: &mut Job<Packet>) -> Result<Protocol, DropReason> {
        // 1
        let Some(authentic) = Authentic::proof(job) else {
            return Err(match job.verdict {
                Verdict::BadIcv => DropReason::EspBadIcv,
                Verdict::Pending => DropReason::EngineFull,
                Verdict::Gone => DropReason::KeystreamGone,
                _ => DropReason::EngineFailed,
            });
        };
        // 2
        if !self.window.commit(Candidate::of(job.buf.meta()), authentic) {
            return Err(DropReason::EspReplay);
        }
        if self.special.is_some()
            && let Some(version) = self.unwrap_special(job)?
        {
            return Ok(version);
        }
        // 3
        let packet = &mut job.buf;
        let start = usize::from(packet.meta().offset);
        let outer = packet.data().first_chunk().map_or(0, class);
        let text = packet.data_mut().get_mut(start..job.text.end()).unwrap_or_default();
        let (len, protocol) = esp::parse_trailer(text).map_err(|_| DropReason::EspBadTrailer)?;
        if protocol == Protocol::NONE {
            return Err(DropReason::EspDummy);
        }
        let payload = text.get_mut(..len).unwrap_or_default();
        let len = inner_len(payload, protocol).ok_or(DropReason::EspBadTrailer)?;
        let inner = payload.get_mut(..len).ok_or(DropReason::EspBadTrailer)?;
        // 4
        if !self.selectors.admit(inner)? {
            return Err(DropReason::EspSelectorMismatch);
        }
        if !is_plain(inner, protocol) {
            self.admits_error(inner)?;
        }
        // 5
        mark(inner, protocol, outer)?;
        // 6
        packet.strip(start);
        packet.truncate(len);
        self.stats.packets += 1;
        self.stats.octets += len as u64;
        Ok(protocol)
    }
}

/// No ESP header: in UDP it may be a keepalive, whose deed is done (RFC 3948 section
/// 2.3).
#[cold]
fn too_short(ctx: &mut Ctx<'_>, packet: Packet, at: usize) {
    let in_udp = packet.meta().flags & FLAG_ENCAP != 0;
    if in_udp && packet.data().get(at..) == Some(&KEEPALIVE) {
        return ctx.consume(packet);
    }
    ctx.out.drop(packet, DropReason::Malformed);
}

/// TCP or UDP right behind the header: no error about another packet.
#[inline(always)]
fn is_plain(inner: &[u8], protocol: Protocol) -> bool {
    let carried = inner.get(if protocol == Protocol::IPV4 { 9 } else { 6 });
    carried.is_some_and(|&p| p == Protocol::TCP.0 || p == Protocol::UDP.0)
}

/// A job is back, and it is its turn.
#[inline(always)]
fn complete(ctx: &mut Ctx<'_>, held: Option<&mut Held<InboundSa>>, mut job: Job<Packet>) {
    let Some(held) = held else { return ctx.out.drop(job.buf, DropReason::EngineFailed) };
    match held.sa.unwrap(&mut job) {
        Ok(protocol) => {
            let meta = job.buf.meta_mut();
            meta.vrf = held.sa.vrf;
            meta.ethertype = if protocol == Protocol::IPV4 { 0x0800 } else { 0x86dd };
            meta.flags = meta.flags & FLAG_GROUP | FLAG_OPENED;
            (meta.scratch, meta.target) = (held.id.index as u16, held.id.index);
            ctx.out.send(Next::Ip, job.buf);
        }
        Err(reason) => {
            let stats = &mut held.sa.stats;
            match reason {
                DropReason::EspBadIcv => stats.bad_icv += 1,
                DropReason::EspReplay => stats.replays += 1,
                DropReason::EngineFull | DropReason::EngineFailed | DropReason::KeystreamGone => {
                    stats.failed += 1
                }
                _ => stats.refused += 1,
            }
            ctx.out.drop(job.buf, reason);
        }
    }
}

/// TOS or traffic class of an IP header of either version.
#[inline]
pub(super) const fn class(start: &[u8; 2]) -> u8 {
    if start[0] >> 4 == 4 { start[1] } else { start[0] << 4 | start[1] >> 4 }
}

/// Octets of the inner packet: fewer than the payload's where the sender hid
/// the length (RFC 4303 section 2.7).
#[inline(always)]
pub(super) fn inner_len(payload: &[u8], protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::IPV4 => {
            let (h, _) = ipv4::Header::ref_from_prefix(payload).ok()?;
            let (header, total) = (h.header_len(), usize::from(h.total_len.get()));
            let good = h.version_ihl >> 4 == 4 && header >= ipv4::Header::LEN && header <= total;
            good.then_some(total)
        }
        Protocol::IPV6 => {
            let (h, _) = ipv6::Header::ref_from_prefix(payload).ok()?;
            let good = h.version_class_flow.get() >> 28 == 6;
            good.then_some(ipv6::Header::LEN + usize::from(h.payload_len.get()))
        }
        _ => None,
    }
}

/// Carries the outer header's congestion mark over.
#[inline(always)]
pub(super) fn mark(inner: &mut [u8], protocol: Protocol, outer: u8) -> Result<(), DropReason> {
    let before = Ecn::from_bits(inner.first_chunk().map_or(0, class));
    let Some(after) = Ecn::decapsulate(before, Ecn::from_bits(outer)) else {
        return Err(DropReason::EspEcn);
    };
    if after == before {
        return Ok(());
    }
    if protocol == Protocol::IPV4 {
        if let Ok((h, _)) = ipv4::Header::mut_from_prefix(inner) {
            h.set_ecn(after);
        }
    } else if let Ok((h, _)) = ipv6::Header::mut_from_prefix(inner) {
        h.set_ecn(after);
    }
    Ok(())
}
