//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::config::{SecyConfig, TxSaConfig};
use super::state::{ANS, MACS, Nonces, SaError, SaReport, front, key_spec, macs_first, tags_first};
use super::stats::Stats;
use crate::graph::{Ctx, Next};
use crate::sequence::Sequence;
use crate::tables::Tables;
use crate::tickets::{Lane, Submitter, Tickets};
use ferrule_base::{DropReason, count::Flow};
use ferrule_crypto::{Ad, Engine, Job, Jobs, KeyId, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{Channel, ICV_LEN, Protection, Repr, Sci};

/// No association is encoding.
const NONE: u8 = u8::MAX;
/// A job's ticket when none was issued. Tickets have 24 bits.
const NO_TICKET: u64 = 0xff_ffff;

/// A change to the transmit side of a SecY.
#[derive(Debug)]
pub enum TxChange {
    /// Make the SecY with this index, or change it.
    Install(u16, SecyConfig),
    /// Remove the SecY.
    Remove(u16),
    /// Install an association; it does not encode yet.
    Sa(u16, TxSaConfig, Sequence),
    /// Install an association and let it encode.
    Rekey(u16, TxSaConfig, Sequence),
    /// Let the association with this number encode.
    Encode(u16, u8),
    /// Numbers up to this limit are reserved.
    Extend(u16, u8, u64),
    /// Give the association up.
    Retire(u16, u8),
}

/// The transmit side of one SecY, for `show macsec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxReport {
    /// The association number in use.
    pub encoding: Option<u8>,
    /// All that was counted, by retired associations too.
    pub stats: Stats,
    /// The associations.
    pub sas: Vec<SaReport>,
}

struct TxSa {
    key: KeyId,
    nonces: Nonces,
    pn: Sequence,
}

/// A place for a SecY. It outlives the SecY: jobs come back to it.
struct TxSecy {
    config: Option<SecyConfig>,
    encoding: u8,
    /// First octet of the SecTAG, but for the association number.
    tci: u8,
    sas: [Option<TxSa>; ANS],
    counts: [Stats; ANS],
    lane: Lane,
    /// What is not counted per association, and what retired ones counted.
    stats: Stats,
}

impl TxSecy {
    fn empty() -> Self {
        Self {
            config: None,
            encoding: NONE,
            tci: 0,
            sas: [const { None }; ANS],
            counts: [Stats::default(); ANS],
            lane: Lane::default(),
            stats: Stats::default(),
        }
    }

    fn take_sa(&mut self, an: u8) -> Option<TxSa> {
        let sa = self.sas.get_mut(an as usize)?.take()?;
        if self.encoding == an {
            self.encoding = NONE;
        }
        Some(sa)
    }
}

/// First octet of every SecTAG of this SecY.
fn tci(config: &SecyConfig) -> u8 {
    let channel = match (config.send_sci, config.end_station, config.broadcast) {
        (true, ..) => Channel::Explicit(Sci(config.sci)),
        (_, true, broadcast) => Channel::EndStation { broadcast },
        (_, _, true) => Channel::Broadcast,
        _ => Channel::Peer,
    };
    let protection =
        if config.encrypt { Protection::Confidentiality } else { Protection::Integrity };
    Repr { channel, protection, an: 0, short_len: 0, pn: 0 }.tci_an()
}

/// The stage: protects frames on their way to a port with a SecY.
#[derive(Default)]
pub struct SecyOut {
    secys: Vec<TxSecy>,
    tickets: Tickets,
}

impl SecyOut {
    /// Carries out a change.
    pub fn apply<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: TxChange,
    ) -> Result<(), SaError> {
        match change {
            TxChange::Install(index, config) => self.install(engine, index, &config),
            TxChange::Remove(index) => self.remove(engine, index),
            TxChange::Sa(index, config, pn) => self.install_tx_sa(engine, index, &config, pn),
            TxChange::Rekey(index, config, pn) => self.rekey(engine, index, &config, pn),
            TxChange::Encode(index, an) => self.encode(index, an),
            TxChange::Extend(index, an, limit) => self.extend(index, an, limit),
            TxChange::Retire(index, an) => self.retire_tx_sa(engine, index, an).map(drop),
        }
    }

    /// Makes a SecY, or changes one. Its associations stay if they still fit:
    /// same SCI, same suite.
    pub fn install<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        config: &SecyConfig,
    ) -> Result<(), SaError> {
        while self.secys.len() <= index as usize {
            self.secys.push(TxSecy::empty());
        }
        let secy = &mut self.secys[index as usize];
        let fits = |old: &SecyConfig| {
            (old.sci, old.suite, old.xpn) == (config.sci, config.suite, config.xpn)
        };
        if secy.config.as_ref().is_some_and(|old| !fits(old)) {
            self.remove(engine, index)?;
        }
        let secy = &mut self.secys[index as usize];
        secy.tci = tci(config);
        secy.config = Some(config.clone());
        Ok(())
    }

    /// Removes a SecY. Until another is installed, its port sends nothing.
    pub fn remove<E: Engine<Packet>>(&mut self, engine: &mut E, index: u16) -> Result<(), SaError> {
        for an in 0..ANS as u8 {
            match self.retire_tx_sa(engine, index, an) {
                Ok(_) | Err(SaError::NoSa(_)) => {}
                Err(e) => return Err(e),
            }
        }
        self.secy(index)?.config = None;
        Ok(())
    }

    /// Installs an association beside those that are there. It sends nothing
    /// before [`encode`](Self::encode).
    pub fn install_tx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sa: &TxSaConfig,
        pn: Sequence,
    ) -> Result<(), SaError> {
        let secy = self.secy(index)?;
        let config = secy.config.as_ref().ok_or(SaError::NoSecy(index))?;
        let spec = key_spec(config, sa.an, sa.xpn, &sa.key)?;
        if pn.peek() == 0 {
            return Err(SaError::Numbers);
        }
        let place = &mut secy.sas[sa.an as usize];
        if place.is_some() {
            return Err(SaError::Occupied(sa.an));
        }
        let nonces = Nonces::new(config.sci, sa.xpn);
        *place = Some(TxSa { key: engine.install(&spec)?, nonces, pn });
        secy.stats.merge(&std::mem::take(&mut secy.counts[sa.an as usize]));
        Ok(())
    }

    /// From the next frame on, this association is used.
    pub fn encode(&mut self, index: u16, an: u8) -> Result<(), SaError> {
        let secy = self.secy(index)?;
        match secy.sas.get(an as usize) {
            Some(Some(_)) => secy.encoding = an,
            _ => return Err(SaError::NoSa(an)),
        }
        Ok(())
    }

    /// Make before break: installs an association and lets it encode. The one
    /// before it is retired by the caller, later.
    pub fn rekey<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sa: &TxSaConfig,
        pn: Sequence,
    ) -> Result<(), SaError> {
        self.install_tx_sa(engine, index, sa, pn)?;
        self.encode(index, sa.an)
    }

    /// Numbers up to `limit` are reserved.
    pub fn extend(&mut self, index: u16, an: u8, limit: u64) -> Result<(), SaError> {
        match self.secy(index)?.sas.get_mut(an as usize) {
            Some(Some(sa)) => sa.pn.extend(limit),
            _ => return Err(SaError::NoSa(an)),
        }
        Ok(())
    }

    /// Gives an association up and returns its numbers, without which its key
    /// must not be used again.
    pub fn retire_tx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        an: u8,
    ) -> Result<Sequence, SaError> {
        let sa = self.secy(index)?.take_sa(an).ok_or(SaError::NoSa(an))?;
        engine.retire(sa.key);
        Ok(sa.pn)
    }

    /// Calls `ask` for each association that needs more numbers reserved, once.
    pub fn wants(&mut self, mut ask: impl FnMut(u16, u8, u64)) {
        for (index, secy) in self.secys.iter_mut().enumerate() {
            for (an, sa) in secy.sas.iter_mut().enumerate() {
                if let Some(limit) = sa.as_mut().and_then(|sa| sa.pn.wants()) {
                    ask(index as u16, an as u8, limit);
                }
            }
        }
    }

    /// Every SecY and what it counted.
    pub fn report(&self) -> Vec<(u16, TxReport)> {
        let installed = self.secys.iter().enumerate().filter_map(|(index, secy)| {
            let config = secy.config.as_ref()?;
            let sas = secy.sas.iter().enumerate().filter_map(|(an, sa)| {
                let next_pn = sa.as_ref()?.pn.peek();
                let stats = secy.counts[an];
                Some(SaReport { sci: config.sci, an: an as u8, next_pn, lowest_pn: next_pn, stats })
            });
            let mut stats = secy.stats;
            secy.counts.iter().for_each(|counts| stats.merge(counts));
            let encoding = (secy.encoding != NONE).then_some(secy.encoding);
            Some((index as u16, TxReport { encoding, stats, sas: sas.collect() }))
        });
        installed.collect()
    }

    /// Frames under way or waiting for their turn.
    pub fn held(&self) -> usize {
        self.tickets.held()
    }

    fn secy(&mut self, index: u16) -> Result<&mut TxSecy, SaError> {
        self.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))
    }

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
        let tag = SecTag {
            head: u64::from(EtherType::MACSEC.0) << 48
                | u64::from(secy.tci | an) << 40
                | u64::from(Repr::short_len(user)) << 32
                | pn & 0xffff_ffff,
            sci: config.send_sci.then_some(config.sci),
        };
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

/// Octets in front of the additional data: the clear VLAN tags.
#[inline]
const fn ad_start(job: &Job<Packet>) -> usize {
    match job.ad {
        Ad::Span(span) => span.start as usize,
        _ => 0,
    }
}

/// A SecTAG as it is written: in two words, EtherType and the three fields of
/// [`ferrule_wire::sectag::Header`], then the SCI.
struct SecTag {
    head: u64,
    sci: Option<u64>,
}

impl SecTag {
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
