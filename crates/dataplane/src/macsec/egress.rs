//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::state::{MACS, NO_TICKET, ad_start, front, macs_first, tags_first};
use super::stats::Stats;
use super::transmit::{SecyOut, TxSa};
use crate::graph::{Ctx, Next};
use crate::tickets::Submitter;
use ferrule_base::DropReason;
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
        let in_order = engine.is_immediate();
        for packet in batch.drain(..) {
            self.prepare(ctx, packet, in_order, &mut jobs);
        }
        let sealed = &mut ctx.tally.work.sealed;
        sealed.packets += jobs.len() as u64;
        sealed.octets += jobs.iter().map(|j| (j.text.end() - ad_start(j)) as u64).sum::<u64>();
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
        ctx: &mut Ctx<'_>,
        mut packet: Packet,
        in_order: bool,
        jobs: &mut Jobs<Packet>,
    ) {
        // 1
        let port = ctx.tables.ports.get(packet.meta().port.0 as usize);
        let index = port.and_then(|port| port.secy);
        let secy = index.and_then(|index| self.secys.get_mut(usize::from(index)));
        let (Some(port), Some(index), Some(secy)) = (port, index, secy) else {
            return ctx.out.drop(packet, DropReason::MacsecNoTxSa);
        };
        let an = secy.encoding;
        let sa = secy.sas.get_mut(an as usize).and_then(Option::as_mut);
        let counts = secy.counts.get_mut(an as usize);
        let (Some(config), Some(sa), Some(counts)) = (&secy.config, sa, counts) else {
            return ctx.out.drop(packet, DropReason::MacsecNoTxSa);
        };
        // 2
        let at = front(packet.data(), config.clear_tags);
        let (len, tag_len) = (packet.len(), config.tag_len());
        let Some(user) = len.checked_sub(at).filter(|&n| n >= 2) else {
            return ctx.out.drop(packet, DropReason::Malformed);
        };
        if len + tag_len + ICV_LEN > port.frame_max as usize {
            secy.stats.out_too_long += 1;
            return ctx.out.drop(packet, DropReason::TooBig);
        }
        if packet.head_room() < tag_len || packet.tail_room() < ICV_LEN {
            return ctx.out.drop(packet, DropReason::NoRoom);
        }
        // 3
        let Some(pn) = sa.pn.take().filter(|&pn| pn <= config.pn_max()) else {
            return ctx.out.drop(packet, DropReason::MacsecPnExhausted);
        };
        // 4
        let tag = SecTag::new(secy.tci | an, user, pn, config.send_sci.then_some(config.sci));
        if tag.insert(&mut packet, at).is_none() {
            return ctx.out.drop(packet, DropReason::NoRoom);
        }
        // 5
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        let ticket = if in_order {
            NO_TICKET
        } else {
            match self.tickets.issue(&mut secy.lane, index.into()) {
                Some(ticket) => ticket.into(),
                None => return ctx.out.drop(packet, DropReason::EngineFull),
            }
        };
        // 6
        let clear = if config.encrypt { user.min(config.offset.into()) } else { user };
        let text = at + tag_len + clear;
        let (packets, octets) = counters(counts, config.encrypt);
        *packets += 1;
        *octets += user as u64;
        let ad = Ad::Span(Span::new(at - MACS, text - (at - MACS)));
        let (key, nonce) = (sa.key, sa.nonces.nonce(pn));
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        let text = Span::new(text, user - clear);
        let ticket = Submitter::SecyOut.mark(ticket);
        jobs.push(Job { buf: packet, key, ticket, nonce, op, verdict, ad, text });
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

/// Frames and octets of user data that an association protected.
#[inline(always)]
const fn counters(counts: &mut Stats, encrypted: bool) -> (&mut u64, &mut u64) {
    match encrypted {
        true => (&mut counts.out_encrypted, &mut counts.out_octets_encrypted),
        false => (&mut counts.out_protected, &mut counts.out_octets_protected),
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
        match self.sci {
            Some(sci) => {
                let data = make_gap::<16>(packet, at)?;
                let tag = data.get_mut(at..at + 16)?;
                *tag.first_chunk_mut()? = self.head.to_be_bytes();
                *tag.last_chunk_mut()? = sci.to_be_bytes();
            }
            None => {
                let tag = make_gap::<8>(packet, at)?.get_mut(at..)?;
                *tag.first_chunk_mut()? = self.head.to_be_bytes();
            }
        }
        Some(())
    }
}

/// Moves what is in front of `at` forward by `N` octets, and makes room for the
/// ICV behind.
#[inline(always)]
fn make_gap<const N: usize>(packet: &mut Packet, at: usize) -> Option<&mut [u8]> {
    let data = packet.grow(N, ICV_LEN)?;
    if at == MACS {
        let macs: [u8; MACS] = *data.get(N..)?.first_chunk()?;
        *data.first_chunk_mut()? = macs;
    } else {
        data.get_mut(..N + at)?.copy_within(N.., 0);
    }
    Some(data)
}
