//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::config::SecyConfig;
use super::mould::{Around, Mould};
use super::state::{MACS, NO_TICKET, ad_start, front, macs_first, tags_first};
use super::stats::Stats;
use super::transmit::{SecyOut, TxSa, TxSecy};
use crate::graph::{Ctx, Next};
use crate::tables::Tables;
use crate::tickets::{Lane, Submitter, Tickets};
use ferrule_base::{DropReason, PortId};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{Header, ICV_LEN, Repr};

impl SecyOut {
    /// Protects a batch of clear frames.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        let (mut jobs, mut simple) = (Jobs::new(), engine.is_immediate());
        // As a rule all frames are for one port.
        let mut ports = 0;
        while let Some(port) = batch.first().map(|first| first.meta().port) {
            let count = batch.iter().take_while(|packet| packet.meta().port == port).count();
            let tickets = (!engine.is_immediate()).then_some(&mut self.tickets);
            ports += 1;
            match Sender::of(ctx.tables, &mut self.secys, port, tickets) {
                Some(sender) => {
                    simple &= sender.shape.clear_tags == 0;
                    sender.protect(ctx, batch.drain(..count), &mut jobs);
                }
                None => batch
                    .drain(..count)
                    .for_each(|packet| ctx.out.drop(packet, DropReason::MacsecNoTxSa)),
            }
        }
        engine.submit(ctx.now, &mut jobs);
        if !simple {
            return jobs.drain(..).for_each(|job| self.back(ctx, job));
        }
        // Sealed, in order, with nothing to move back: as they are.
        for job in jobs.drain(..) {
            match job.verdict {
                Verdict::Done => batch.push(job.buf),
                _ => self.back(ctx, job),
            }
        }
        match ports {
            1 => ctx.out.send_all_by_one_port(Next::Transmit, batch),
            _ => ctx.out.send_all(Next::Transmit, batch),
        }
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        let mut others = Jobs::new();
        for job in jobs.drain(..) {
            if Submitter::SecyOut.owns(job.ticket) {
                self.back(ctx, job);
            } else {
                others.push(job);
            }
        }
        *jobs = others;
    }

    /// A job is back: those that carry a ticket leave in the order of their SecY.
    #[inline(always)]
    fn back(&mut self, ctx: &mut Ctx<'_>, job: Job<Packet>) {
        let ticket = job.ticket & NO_TICKET;
        if ticket == NO_TICKET {
            return self.conclude(ctx, job);
        }
        let Some(owner) = self.tickets.owner(ticket as u32) else {
            return ctx.out.drop(job.buf, DropReason::EngineFailed);
        };
        self.tickets.park(ticket as u32, job);
        loop {
            let Some(secy) = self.secys.get_mut(owner as usize) else { return };
            let Some(job) = self.tickets.release(&mut secy.lane) else { return };
            self.conclude(ctx, job);
        }
    }

    /// Sends what was sealed to its port.
    #[inline(always)]
    fn conclude(&mut self, ctx: &mut Ctx<'_>, mut job: Job<Packet>) {
        let reason = match job.verdict {
            Verdict::Done => {
                let tags = ad_start(&job);
                if tags != 0 {
                    macs_first(job.buf.data_mut(), MACS + tags);
                }
                return ctx.out.send(Next::Transmit, job.buf);
            }
            Verdict::Pending => DropReason::EngineFull,
            _ => DropReason::EngineFailed,
        };
        self.uncount(&job);
        ctx.out.drop(job.buf, reason);
    }

    /// A frame that an engine did not seal counts for nothing. What is in its buffer
    /// cannot be trusted: an engine may have failed in the middle of it, or keep it
    /// while another stands in. The job itself says whose it was.
    #[cold]
    fn uncount(&mut self, job: &Job<Packet>) -> Option<()> {
        let has = |sa: &Option<TxSa>| sa.as_ref().is_some_and(|sa| sa.key == job.key);
        let mut all = self.secys.iter_mut();
        let (an, secy) = all.find_map(|secy| Some((secy.sas.iter().position(has)?, secy)))?;
        let config = secy.config.as_ref()?;
        let user = job.text.end().checked_sub(ad_start(job) + MACS + config.tag_len())?;
        let (packets, octets) = counters(secy.counts.get_mut(an)?, config.encrypt);
        *packets = packets.saturating_sub(1);
        *octets = octets.saturating_sub(user as u64);
        Some(())
    }
}

/// What decides how a frame grows. The usual way's code is compiled with it known.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    tag_len: usize,
    clear_tags: u8,
    encrypt: bool,
    offset: u8,
}

impl Shape {
    /// Everything is encrypted, and the SCI travels.
    const USUAL: Self =
        Self { tag_len: 2 + Header::LEN_SCI, clear_tags: 0, encrypt: true, offset: 0 };

    const fn of(config: &SecyConfig) -> Self {
        let &SecyConfig { clear_tags, encrypt, offset, .. } = config;
        Self { tag_len: config.tag_len(), clear_tags, encrypt, offset }
    }
}

/// By so many octets a frame of the usual shape grows.
const GROWTH: usize = Shape::USUAL.tag_len + ICV_LEN;

/// One port's SecY and its association that encodes, for frames that follow one
/// another.
struct Sender<'a> {
    frame_max: usize,
    shape: Shape,
    /// First octet of the SecTAG.
    tci_an: u8,
    sci: u64,
    pn_max: u64,
    sa: &'a mut TxSa,
    /// Frames and octets of user data that the association protected.
    counts: (&'a mut u64, &'a mut u64),
    too_long: &'a mut u64,
    /// For an engine that is late: where tickets come from, the SecY's queue, its number.
    order: Option<(&'a mut Tickets, &'a mut Lane, u32)>,
}

impl<'a> Sender<'a> {
    /// Nothing for a port without a SecY, or if that has no association to send by.
    fn of(
        tables: &Tables,
        secys: &'a mut [TxSecy],
        port: PortId,
        tickets: Option<&'a mut Tickets>,
    ) -> Option<Self> {
        let port = tables.ports.get(usize::from(port.0))?;
        let index = port.secy?;
        let secy = secys.get_mut(usize::from(index))?;
        let an = secy.encoding;
        let sa = secy.sas.get_mut(usize::from(an))?.as_mut()?;
        let config = secy.config.as_ref()?;
        let lane = &mut secy.lane;
        Some(Self {
            frame_max: port.frame_max.into(),
            shape: Shape::of(config),
            tci_an: secy.tci | an,
            sci: config.sci,
            pn_max: config.pn_max(),
            sa,
            counts: counters(secy.counts.get_mut(usize::from(an))?, config.encrypt),
            too_long: &mut secy.stats.out_too_long,
            order: tickets.map(|tickets| (tickets, lane, index.into())),
        })
    }

    /// Makes jobs of frames. Of two frames of one length a mould is made for those to
    /// come.
    fn protect(
        mut self,
        ctx: &mut Ctx<'_>,
        mut frames: impl Iterator<Item = Packet>,
        jobs: &mut Jobs<Packet>,
    ) {
        let usual = self.shape == Shape::USUAL;
        let mut next = frames.next();
        while let Some(packet) = next {
            let len = packet.len();
            self.protect_one(ctx, packet, usual, jobs);
            next = frames.next();
            if usual
                && let Some(alike) = next.as_ref().filter(|packet| packet.len() == len)
                && let Some((mould, around)) = self.mould(alike)
            {
                let before = jobs.len();
                let mut numbers = self.sa.pn.lend();
                let mut alike = next.into_iter().chain(&mut frames);
                next = mould.protect_all(around, &mut alike, &mut numbers, jobs);
                self.sa.pn.give_back(numbers);
                let (text, beside) = mould.octets();
                self.count(ctx, (jobs.len() - before) as u64, text + beside, text);
            }
        }
    }

    /// The mould of a frame, for an engine that completes in place, and how frames that lie
    /// as it does get into it.
    fn mould(&self, packet: &Packet) -> Option<(Mould, Around)> {
        if self.order.is_some() || packet.len() + GROWTH > self.frame_max {
            return None;
        }
        let user = packet.len().checked_sub(MACS).filter(|&n| n >= 2)?;
        let tag = SecTag::new(self.tci_an, user, 0, self.sci);
        let mould = Mould::of(packet, user, &tag, (self.sa.key, self.sa.nonces), self.pn_max)?;
        let around = mould.around(packet)?;
        Some((mould, around))
    }

    /// Makes a job of a frame.
    #[inline(never)]
    fn protect_one(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut packet: Packet,
        usual: bool,
        jobs: &mut Jobs<Packet>,
    ) {
        let shape = self.shape;
        let made = match usual {
            true => self.prepare(&mut packet, Shape::USUAL),
            false => self.prepare(&mut packet, shape),
        };
        match made {
            Ok(Made { nonce, ticket, ad, text }) => {
                let octets = u64::from(ad.len) + u64::from(text.len);
                // What is not user data, beside clear tags.
                let fixed = usize::from(ad.start) + MACS + shape.tag_len + ICV_LEN;
                self.count(ctx, 1, octets, (packet.len() - fixed) as u64);
                let (key, ad) = (self.sa.key, Ad::Span(ad));
                let (op, verdict) = (Op::Seal, Verdict::Pending);
                jobs.push(Job { buf: packet, key, ticket, nonce, op, verdict, ad, text });
            }
            Err(reason) => ctx.out.drop(packet, reason),
        }
    }

    /// Counts frames, each of so many octets under the ICV and octets of user data.
    fn count(&mut self, ctx: &mut Ctx<'_>, frames: u64, octets: u64, user: u64) {
        let sealed = &mut ctx.tally.work.sealed;
        (sealed.packets, sealed.octets) =
            (sealed.packets + frames, sealed.octets + frames * octets);
        *self.counts.0 += frames;
        *self.counts.1 += frames * user;
    }

    /// From a clear frame to a job.
    ///
    /// 1. See where the SecTAG goes, whether frame, SecTAG and ICV fit, and make room
    ///    for both.
    /// 2. Take a packet number: from here on it is used up.
    /// 3. Insert the SecTAG behind the addresses, with a short length if the
    ///    user data has fewer than 48 octets.
    /// 4. Put clear VLAN tags in front, where the ICV does not cover them.
    /// 5. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(&mut self, packet: &mut Packet, shape: Shape) -> Result<Made, DropReason> {
        // 1
        let at = front(packet.data(), shape.clear_tags);
        let (len, tag_len) = (packet.len(), shape.tag_len);
        let user = len.checked_sub(at).filter(|&n| n >= 2).ok_or(DropReason::Malformed)?;
        if len + tag_len + ICV_LEN > self.frame_max {
            *self.too_long += 1;
            return Err(DropReason::TooBig);
        }
        let place = make_gap(packet, at, tag_len).ok_or(DropReason::NoRoom)?;
        // 2
        let pn = self.sa.pn.take().filter(|&pn| pn <= self.pn_max);
        let pn = pn.ok_or(DropReason::MacsecPnExhausted)?;
        // 3
        SecTag::new(self.tci_an, user, pn, self.sci).write(place).ok_or(DropReason::NoRoom)?;
        // 4
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        let ticket = match &mut self.order {
            None => NO_TICKET,
            Some((tickets, lane, index)) => {
                tickets.issue(lane, *index).ok_or(DropReason::EngineFull)?.into()
            }
        };
        // 5
        let clear = if shape.encrypt { user.min(shape.offset.into()) } else { user };
        let text = at + tag_len + clear;
        Ok(Made {
            nonce: self.sa.nonces.nonce(pn),
            ticket: Submitter::SecyOut.mark(ticket),
            ad: Span::new(at - MACS, text - (at - MACS)),
            text: Span::new(text, user - clear),
        })
    }
}

/// What a frame's job says.
struct Made {
    nonce: [u8; 12],
    ticket: u64,
    ad: Span,
    text: Span,
}

/// Frames and octets of user data that an association protected.
#[inline(always)]
const fn counters(counts: &mut Stats, encrypted: bool) -> (&mut u64, &mut u64) {
    match encrypted {
        true => (&mut counts.out_encrypted, &mut counts.out_octets_encrypted),
        false => (&mut counts.out_protected, &mut counts.out_octets_protected),
    }
}

/// A SecTAG as it is written: in two words, EtherType and the three fields of
/// [`Header`], then the SCI, if that travels.
pub(super) struct SecTag {
    head: u64,
    sci: u64,
}

impl SecTag {
    #[inline(always)]
    fn new(tci_an: u8, user: usize, pn: u64, sci: u64) -> Self {
        let fields = u64::from(tci_an) << 40 | u64::from(Repr::short_len(user)) << 32;
        Self { head: u64::from(EtherType::MACSEC.0) << 48 | fields | pn & 0xffff_ffff, sci }
    }

    /// Writes it to a place of its length.
    #[inline(always)]
    pub fn write(&self, place: &mut [u8]) -> Option<()> {
        *place.first_chunk_mut()? = self.head.to_be_bytes();
        if let Some(sci) = place.get_mut(8..16) {
            sci.copy_from_slice(&self.sci.to_be_bytes());
        }
        Some(())
    }
}

/// Moves what is in front of `at` forward by `gap` octets, and makes room for the
/// ICV behind: the place of the gap.
#[inline(always)]
fn make_gap(packet: &mut Packet, at: usize, gap: usize) -> Option<&mut [u8]> {
    let data = packet.grow(gap, ICV_LEN)?;
    if at == MACS {
        let macs: [u8; MACS] = *data.get(gap..)?.first_chunk()?;
        *data.first_chunk_mut()? = macs;
    } else {
        data.get_mut(..gap + at)?.copy_within(gap.., 0);
    }
    data.get_mut(at..at + gap)
}
