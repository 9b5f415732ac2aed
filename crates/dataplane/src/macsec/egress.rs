//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::state::{ANS, MACS, NO_TICKET, ad_start, front, macs_first, tags_first};
use super::transmit::SecyOut;
use crate::graph::{Ctx, Next};
use crate::tables::Tables;
use crate::tickets::Submitter;
use ferrule_base::{DropReason, count::Flow};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{ICV_LEN, Repr};

impl SecyOut {
    /// Protects a batch of clear frames.
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let mut jobs = Jobs::new();
        let mut sealed = Flow::default();
        let in_order = engine.is_immediate();
        for packet in batch.drain(..) {
            match self.prepare(ctx.tables, packet, in_order) {
                Ok(job) => {
                    sealed.add(job.text.end() - ad_start(&job));
                    jobs.push(job);
                }
                Err((packet, reason)) => ctx.out.drop(packet, reason),
            }
        }
        ctx.tally.work.sealed.merge(sealed);
        engine.submit(ctx.now, &mut jobs);
        for job in jobs.drain(..) {
            self.back(ctx, job);
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

    /// From a clear frame to a job.
    ///
    /// 1. Find the SecY of the port, and the association that encodes.
    /// 2. See where the SecTAG goes, and whether frame, SecTAG and ICV fit.
    /// 3. Take a packet number: from here on it is used up.
    /// 4. Insert the SecTAG behind the addresses, with a short length if the
    ///    user data has fewer than 48 octets; make room for the ICV.
    /// 5. Put clear VLAN tags in front, where the ICV does not cover them.
    /// 6. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(
        &mut self,
        tables: &Tables,
        mut packet: Packet,
        in_order: bool,
    ) -> Result<Job<Packet>, (Packet, DropReason)> {
        let Some(port) = tables.ports.get(packet.meta().port.0 as usize) else {
            return Err((packet, DropReason::NotAttached));
        };
        let index = port.secy.map_or(usize::MAX, usize::from);
        let Some(secy) = self.secys.get_mut(index) else {
            return Err((packet, DropReason::MacsecNoTxSa));
        };
        let Some(config) = &secy.config else {
            return Err((packet, DropReason::MacsecNoTxSa));
        };
        let an = secy.encoding;
        let Some(Some(sa)) = secy.sas.get_mut(an as usize) else {
            return Err((packet, DropReason::MacsecNoTxSa));
        };
        let at = front(packet.data(), config.clear_tags);
        let tag_len = config.tag_len();
        let Some(user) = packet.len().checked_sub(at).filter(|&n| n >= 2) else {
            return Err((packet, DropReason::Malformed));
        };
        if packet.len() + tag_len + ICV_LEN > port.frame_max as usize {
            secy.stats.out_too_long += 1;
            return Err((packet, DropReason::TooBig));
        }
        if packet.head_room() < tag_len || packet.tail_room() < ICV_LEN {
            return Err((packet, DropReason::NoRoom));
        }
        let Some(pn) = sa.pn.take().filter(|&pn| pn <= config.pn_max()) else {
            return Err((packet, DropReason::MacsecPnExhausted));
        };
        let tag = SecTag::new(secy.tci | an, user, pn, config.send_sci.then_some(config.sci));
        if tag.insert(&mut packet, at).is_none() {
            return Err((packet, DropReason::NoRoom));
        }
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        let ticket = if in_order {
            NO_TICKET
        } else {
            match self.tickets.issue(&mut secy.lane, index as u32) {
                Some(ticket) => ticket.into(),
                None => return Err((packet, DropReason::EngineFull)),
            }
        };
        let clear = if config.encrypt { user.min(config.offset.into()) } else { user };
        let text = at + tag_len + clear;
        packet.meta_mut().scratch = user as u16;
        let mark = Mark { secy: index, an: an.into(), encrypted: config.encrypt };
        Ok(Job {
            buf: packet,
            key: sa.key,
            ticket: mark.ticket(ticket),
            nonce: sa.nonces.nonce(pn),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(at - MACS, text - (at - MACS))),
            text: Span::new(text, user - clear),
        })
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
        match job.verdict {
            Verdict::Done => {}
            Verdict::Pending => return ctx.out.drop(job.buf, DropReason::EngineFull),
            _ => return ctx.out.drop(job.buf, DropReason::EngineFailed),
        }
        let tags = ad_start(&job);
        if tags != 0 {
            macs_first(job.buf.data_mut(), MACS + tags);
        }
        let mark = Mark::of(job.ticket);
        let user = u64::from(job.buf.meta().scratch);
        if let Some(secy) = self.secys.get_mut(mark.secy)
            && let Some(counts) = secy.counts.get_mut(mark.an)
        {
            let (packets, octets) = match mark.encrypted {
                true => (&mut counts.out_encrypted, &mut counts.out_octets_encrypted),
                false => (&mut counts.out_protected, &mut counts.out_octets_protected),
            };
            *packets += 1;
            *octets += user;
        }
        ctx.out.send(Next::Transmit, job.buf);
    }
}

/// What a job's ticket says beside the ticket: what to count it as.
struct Mark {
    secy: usize,
    an: usize,
    encrypted: bool,
}

impl Mark {
    #[inline]
    const fn ticket(self, ticket: u64) -> u64 {
        let encrypted = (self.encrypted as u64) << 42;
        Submitter::SecyOut
            .mark(encrypted | (self.an as u64) << 40 | (self.secy as u64) << 24 | ticket)
    }

    #[inline]
    const fn of(ticket: u64) -> Self {
        let (secy, an) = ((ticket >> 24) as u16 as usize, (ticket >> 40) as usize & (ANS - 1));
        Self { secy, an, encrypted: ticket >> 42 & 1 != 0 }
    }
}

/// A SecTAG as it is written: in two words, EtherType and the three fields of
/// [`ferrule_wire::sectag::Header`], then the SCI.
struct SecTag {
    head: u64,
    sci: Option<u64>,
}

impl SecTag {
    #[inline(always)]
    fn new(tci_an: u8, user: usize, pn: u64, sci: Option<u64>) -> Self {
        let fields = u64::from(tci_an) << 40 | u64::from(Repr::short_len(user)) << 32;
        Self { head: u64::from(EtherType::MACSEC.0) << 48 | fields | pn & 0xffff_ffff, sci }
    }

    /// Puts the SecTAG at `at`, and room for the ICV behind.
    #[inline(always)]
    fn insert(&self, packet: &mut Packet, at: usize) -> Option<()> {
        packet.append(ICV_LEN)?;
        match self.sci {
            Some(sci) => {
                make_gap::<16>(packet, at)?;
                let tag = packet.data_mut().get_mut(at..at + 16)?;
                *tag.first_chunk_mut()? = self.head.to_be_bytes();
                *tag.last_chunk_mut()? = sci.to_be_bytes();
            }
            None => {
                make_gap::<8>(packet, at)?;
                let tag = packet.data_mut().get_mut(at..)?;
                *tag.first_chunk_mut()? = self.head.to_be_bytes();
            }
        }
        Some(())
    }
}

/// Moves what is in front of `at` forward by `N` octets.
#[inline(always)]
fn make_gap<const N: usize>(packet: &mut Packet, at: usize) -> Option<()> {
    packet.prepend(N)?;
    let data = packet.data_mut();
    if at == MACS {
        let macs: [u8; MACS] = *data.get(N..)?.first_chunk()?;
        *data.first_chunk_mut()? = macs;
    } else {
        data.get_mut(..N + at)?.copy_within(N.., 0);
    }
    Some(())
}
