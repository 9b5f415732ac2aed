//! Validation: SecTAG and ICV in, clear frame out (clauses 10.6, 14).

use super::config::{SecyConfig, Validate};
use super::receive::{NONE, RxSa, RxSecy, SecyIn};
use super::state::{MACS, NO_TICKET, ad_start, ethertype, front, macs_first, recover, tags_first};
use super::stats::Stats;
use crate::graph::{Ctx, Next};
use crate::tables::Tables;
use crate::tickets::Submitter;
use ferrule_base::{DropReason, MacAddr, count::Flow};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{ICV_LEN, Protection, Repr};

/// A frame that needs no engine: it passes as it is, or is dropped.
type Ended = (Packet, Option<DropReason>);

/// A SecTAG and where it stands.
struct Tagged {
    repr: Repr,
    at: usize,
    /// Octets from the EtherType to the end of the SecTAG.
    tag_len: usize,
    /// Octets of secure data, without the ICV.
    user: usize,
}

impl SecyIn {
    /// Validates a batch of frames as received.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Batch,
    ) {
        let mut jobs = Jobs::new();
        let mut opened = Flow::default();
        let in_order = engine.is_immediate();
        for packet in batch.drain(..) {
            match self.prepare(ctx.tables, packet, in_order) {
                Ok(job) => {
                    opened.add(job.text.end() - ad_start(&job));
                    jobs.push(job);
                }
                Err((packet, None)) => ctx.out.send(Next::Attach, packet),
                Err((packet, Some(reason))) => ctx.out.drop(packet, reason),
            }
        }
        ctx.tally.work.opened.merge(opened);
        engine.submit(ctx.now, &mut jobs);
        for job in jobs.drain(..) {
            self.back(ctx, job);
        }
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        let mut others = Jobs::new();
        for job in jobs.drain(..) {
            if Submitter::SecyIn.owns(job.ticket) {
                self.back(ctx, job);
            } else {
                others.push(job);
            }
        }
        *jobs = others;
    }

    /// From a frame as received to a job.
    ///
    /// 1. Find the SecY of the port. What has no SecTAG ends here.
    /// 2. Read the SecTAG; cut off what the MAC padded behind the ICV.
    /// 3. Find the receive channel and the association.
    /// 4. Recover the packet number; drop what is late or was seen.
    /// 5. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(
        &mut self,
        tables: &Tables,
        mut packet: Packet,
        in_order: bool,
    ) -> Result<Job<Packet>, Ended> {
        let Some(port) = tables.ports.get(packet.meta().port.0 as usize) else {
            return Err((packet, Some(DropReason::NotAttached)));
        };
        let index = port.secy.map_or(usize::MAX, usize::from);
        let Some(secy) = self.secys.get_mut(index) else {
            return Err((packet, Some(DropReason::MacsecUntagged)));
        };
        let Some(config) = &secy.config else {
            return Err((packet, Some(DropReason::MacsecUntagged)));
        };
        let at = front(packet.data(), config.clear_tags);
        if ethertype(packet.data(), at) != Some(EtherType::MACSEC) {
            return Err(untagged(config, &mut secy.stats, packet));
        }
        let Some(tagged) = read(packet.data(), at) else {
            secy.stats.in_bad_tag += 1;
            return Err((packet, Some(DropReason::MacsecBadTag)));
        };
        packet.truncate(at + tagged.tag_len + tagged.user + ICV_LEN);
        let (place, sa) = match secy.find(&mut self.sas, packet.data(), &tagged.repr) {
            Ok(found) => found,
            Err(reason) => return Err(secy.without_sa(packet, &tagged, reason)),
        };
        let Some(pn) = sa.number(config.xpn, tagged.repr.pn) else {
            secy.stats.in_bad_tag += 1;
            return Err((packet, Some(DropReason::MacsecBadTag)));
        };
        if !sa.window.check(pn) {
            sa.counts.in_late += 1;
            return Err((packet, Some(DropReason::MacsecReplay)));
        }
        let encrypted = tagged.repr.protection == Protection::Confidentiality;
        if !encrypted && config.validate == Validate::Disabled && config.pass_unsecured {
            sa.counts.in_unchecked += 1;
            return Err((bare(packet, &tagged), None));
        }
        let ticket = match in_order {
            true => NO_TICKET,
            false => match self.tickets.issue(&mut secy.lane, index as u32) {
                Some(ticket) => ticket.into(),
                None => return Err((packet, Some(DropReason::EngineFull))),
            },
        };
        sa.flying += 1;
        let meta = packet.meta_mut();
        (meta.number, meta.scratch) = (pn, Tail::new(&tagged, encrypted).0);
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        let clear = if encrypted { tagged.user.min(config.offset.into()) } else { tagged.user };
        let text = at + tagged.tag_len + clear;
        Ok(Job {
            buf: packet,
            key: sa.key,
            ticket: Submitter::SecyIn.mark(u64::from(place) << 24 | ticket),
            nonce: sa.nonces.nonce(pn),
            op: Op::Open,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(at - MACS, text - (at - MACS))),
            text: Span::new(text, tagged.user - clear),
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

    /// From a job to a clear frame, or a drop.
    ///
    /// 1. The frame gets its order back, if VLAN tags stood in clear.
    /// 2. A wrong ICV ends here, with the window where it was.
    /// 3. The number is looked at again, for others may have come back since;
    ///    then the window moves.
    /// 4. Take ICV and SecTAG off.
    #[inline(always)]
    fn conclude(&mut self, ctx: &mut Ctx<'_>, mut job: Job<Packet>) {
        let place = (job.ticket >> 24) as u32;
        let Some(Some(sa)) = self.sas.get_mut(place as usize) else {
            return ctx.out.drop(job.buf, DropReason::EngineFailed);
        };
        sa.flying = sa.flying.saturating_sub(1);
        let buried = sa.retired && sa.flying == 0;
        let at = MACS + ad_start(&job);
        if at != MACS {
            macs_first(job.buf.data_mut(), at);
        }
        let tail = Tail(job.buf.meta().scratch);
        let lenient = || {
            let config = self.secys.get(sa.secy as usize)?.config.as_ref()?;
            Some(config.pass_unsecured && config.validate != Validate::Strict)
        };
        let fate = match job.verdict {
            Verdict::Done => sa.admit(job.buf.meta().number, &job, tail),
            Verdict::BadIcv if !tail.encrypted() && lenient() == Some(true) => {
                sa.counts.in_invalid += 1;
                Ok(())
            }
            Verdict::BadIcv => {
                sa.counts.in_not_valid += 1;
                Err(DropReason::MacsecBadIcv)
            }
            Verdict::Pending => Err(DropReason::EngineFull),
            Verdict::Gone => Err(DropReason::KeystreamGone),
            Verdict::Failed => Err(DropReason::EngineFailed),
        };
        match fate {
            Ok(()) => {
                let end = job.text.end();
                job.buf.truncate(end);
                remove_tag(&mut job.buf, at, tail.tag_len());
                ctx.out.send(Next::Attach, job.buf);
            }
            Err(reason) => ctx.out.drop(job.buf, reason),
        }
        if buried {
            self.bury(place);
        }
    }
}

impl RxSa {
    /// The whole number of a frame. Number 0 does not exist.
    #[inline(always)]
    fn number(&self, xpn: bool, low: u32) -> Option<u64> {
        match (xpn, low) {
            (true, _) => recover(self.window.next(), low),
            (false, 0) => None,
            (false, _) => Some(low.into()),
        }
    }

    /// An authentic frame: the window decides, and moves.
    #[inline(always)]
    fn admit(&mut self, pn: u64, job: &Job<Packet>, tail: Tail) -> Result<(), DropReason> {
        let late = self.window.is_late(pn);
        if !self.window.commit(pn) {
            self.counts.in_late += 1;
            return Err(DropReason::MacsecReplay);
        }
        let front = MACS + ad_start(job) + tail.tag_len();
        let user = job.text.end().saturating_sub(front) as u64;
        match tail.encrypted() {
            true => self.counts.in_octets_decrypted += user,
            false => self.counts.in_octets_validated += user,
        }
        match late {
            true => self.counts.in_delayed += 1,
            false => self.counts.in_ok += 1,
        }
        Ok(())
    }
}

impl RxSecy {
    /// The association of a frame: by the SCI that tag or source address tell,
    /// or else of the only channel there is.
    #[inline(always)]
    fn find<'a>(
        &self,
        sas: &'a mut [Option<RxSa>],
        data: &[u8],
        repr: &Repr,
    ) -> Result<(u32, &'a mut RxSa), DropReason> {
        let source = data.get(6..).and_then(|d| d.first_chunk()).copied().unwrap_or_default();
        let channel = match (repr.channel.sci(MacAddr(source)), self.channels.as_slice()) {
            (Some(sci), channels) => channels.iter().find(|c| c.sci == sci.0),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let channel = channel.ok_or(DropReason::MacsecUnknownSci)?;
        let place = channel.sas.get(repr.an as usize).copied().unwrap_or(NONE);
        match sas.get_mut(place as usize) {
            Some(Some(sa)) => Ok((place, sa)),
            _ => Err(DropReason::MacsecUnusedSa),
        }
    }

    /// No association: what can be read may pass, if that is allowed.
    #[cold]
    fn without_sa(&mut self, packet: Packet, tagged: &Tagged, reason: DropReason) -> Ended {
        let readable = tagged.repr.protection == Protection::Integrity;
        if readable && self.config.as_ref().is_some_and(is_lenient) {
            self.stats.in_no_sa += 1;
            return (bare(packet, tagged), None);
        }
        self.stats.in_no_sa_error += 1;
        (packet, Some(reason))
    }
}

/// Whether frames that are not authentic may pass at all.
fn is_lenient(config: &SecyConfig) -> bool {
    config.pass_unsecured && config.validate != Validate::Strict
}

/// A frame without SecTAG at a port with a SecY.
#[cold]
fn untagged(config: &SecyConfig, stats: &mut Stats, packet: Packet) -> Ended {
    if is_lenient(config) {
        stats.in_untagged += 1;
        return (packet, None);
    }
    stats.in_no_tag += 1;
    (packet, Some(DropReason::MacsecUntagged))
}

/// Reads the SecTAG at `at`. Nothing if it breaks a rule, if it announces a
/// change of the data that no cipher of clause 14 makes, or if there is less
/// user data than an EtherType.
#[inline(always)]
fn read(data: &[u8], at: usize) -> Option<Tagged> {
    let (repr, secured) = Repr::parse(data.get(at + 2..)?).ok()?;
    let user = secured.len().checked_sub(ICV_LEN).filter(|&n| n >= 2)?;
    if repr.protection == Protection::Changed {
        return None;
    }
    Some(Tagged { repr, at, tag_len: 2 + repr.len(), user })
}

/// The frame without SecTAG and ICV, unchecked.
#[cold]
fn bare(mut packet: Packet, tagged: &Tagged) -> Packet {
    packet.truncate(tagged.at + tagged.tag_len + tagged.user);
    remove_tag(&mut packet, tagged.at, tagged.tag_len);
    packet
}

/// Takes the SecTAG off, by moving what is in front of it.
#[inline]
fn remove_tag(packet: &mut Packet, at: usize, tag_len: usize) {
    let data = packet.data_mut();
    if at == MACS
        && let Some(&macs) = data.first_chunk::<MACS>()
        && let Some(place) = data.get_mut(tag_len..).and_then(|d| d.first_chunk_mut())
    {
        *place = macs;
    } else if let Some(front) = data.get_mut(..at + tag_len) {
        front.copy_within(..at, tag_len);
    }
    packet.strip(tag_len);
}

/// What a frame keeps in `scratch` while its job is away.
#[derive(Clone, Copy)]
struct Tail(u16);

impl Tail {
    #[inline]
    const fn new(tagged: &Tagged, encrypted: bool) -> Self {
        Self((tagged.tag_len as u16) << 1 | encrypted as u16)
    }

    #[inline]
    const fn tag_len(self) -> usize {
        self.0 as usize >> 1
    }

    #[inline]
    const fn encrypted(self) -> bool {
        self.0 & 1 != 0
    }
}
