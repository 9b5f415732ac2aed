//! Validation: SecTAG and ICV in, clear frame out (clauses 10.6, 14).

use super::channels::{Channels, NOWHERE};
use super::config::{SecyConfig, Validate};
use super::eapol::{EapolFilter, OtherEapol};
use super::receive::{Receive, RxSa, SecyIn};
use super::state::{MACS, ad_start, copy_macs, ethertype, front, macs_first, recover, tags_first};
use super::stats::Stats;
use crate::graph::{Aside, Ctx, Next};
use crate::protection::authentic::{Authentic, Candidate};
use crate::protection::tickets::{Lane, Submitter};
use crate::protection::{Protection, prepare_of_port, take_out};
use crate::tables::Tables;
use ferrule_base::{DropReason, Instant, MacAddr, PortId};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::sectag::{Header, ICV_LEN};
use ferrule_wire::{EtherType, FromBytes};

/// A SecTAG and the octets that it covers.
#[derive(Clone, Copy)]
struct Tagged {
    header: Header,
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
        batch: &mut Box<Batch>,
    ) {
        self.in_flight.run(&mut self.rx, ctx, engine, batch);
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        self.in_flight.finish(&mut self.rx, ctx, jobs);
    }
}

/// SecYs keep the order of all their associations. The slot of a job is its association's.
impl Protection for Receive {
    const SUBMITTER: Submitter = Submitter::SecyIn;

    /// The port's SecY is found once for all frames of a port that follow one another: then
    /// [`Decoder::prepare`] for each.
    #[inline(always)]
    fn prepare_all(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch, jobs: &mut [Job<()>; BATCH]) {
        let mut done = 0;
        while let Some(port) = batch.get(done).map(|packet| packet.meta().port) {
            let aside = match Decoder::of(self, ctx.tables, ctx.now, port) {
                Ok(mut decoder) => prepare_of_port(batch, jobs, &mut done, port, |packet, job| {
                    decoder.prepare(packet, job)
                }),
                Err(reason) => Some(reason.into()),
            };
            if let Some(aside) = aside {
                take_out(ctx, batch, done, aside);
            }
        }
    }

    /// From a job to a clear frame, or a drop:
    ///
    /// 1. The frame gets its order back, if VLAN tags stood in clear.
    /// 2. A wrong ICV ends here, with the window where it was.
    /// 3. The number is looked at again, for others may have come back since;
    ///    then the window moves.
    /// 4. ICV and SecTAG go.
    #[inline(always)]
    fn finish(
        &mut self,
        _: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        match ad_start(job) {
            0 => self.finish_at(MACS, packet, job),
            tags => self.finish_behind_tags(MACS + tags, packet, job),
        }
    }

    fn queue(&mut self, slot: u32) -> Option<&mut Lane> {
        let secy = self.sas.get(slot as usize)?.as_ref()?.secy;
        self.secys.get_mut(usize::from(secy)).map(|secy| &mut secy.lane)
    }

    fn returned(&mut self, slot: u32) {
        let done = |sa: &RxSa| sa.retired && sa.under_way == 0;
        if self.sas.get(slot as usize).and_then(Option::as_ref).is_some_and(done) {
            self.bury(slot);
        }
    }
}

impl Receive {
    /// `finish` for frames with VLAN tags in clear.
    #[inline(never)]
    fn finish_behind_tags(
        &mut self,
        at: usize,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        macs_first(packet.data_mut(), at);
        self.finish_at(at, packet, job)
    }

    #[inline(always)]
    fn finish_at(&mut self, at: usize, packet: &mut Packet, job: &Job<()>) -> Result<Next, Aside> {
        let Some(Some(sa)) = self.sas.get_mut(job.ticket as usize & SLOT) else {
            return Err(DropReason::EngineFailed.into());
        };
        sa.under_way = sa.under_way.saturating_sub(1);
        // The engine leaves the SecTAG alone: it is under the ICV.
        let tag = packet.data().get(at..).map_or(Tag::NONE, Tag::read);
        // 2, 3
        match job.verdict {
            Verdict::Done => sa.admit(job, at, tag)?,
            verdict => {
                let secy = self.secys.get(usize::from(sa.secy));
                let validate = secy.and_then(|secy| Some(secy.config.as_ref()?.validate));
                sa.refuse(verdict, tag, validate.unwrap_or_default())?;
            }
        }
        // 4
        remove_tag(packet, at, tag.len, job.text.end());
        Ok(Next::Attach)
    }
}

/// The bits of a ticket that are a slot.
const SLOT: usize = u32::MAX as usize;

/// A frame's SecTAG, noted before the frame is restored: octets from the EtherType to its end,
/// and whether the user data were encrypted.
#[derive(Clone, Copy)]
struct Tag {
    len: usize,
    encrypted: bool,
}

impl Tag {
    const NONE: Self = Self { len: 0, encrypted: true };

    /// The SecTAG at the front, which was read before.
    #[inline(always)]
    fn read(data: &[u8]) -> Self {
        const SCI_PRESENT: u8 = 0x20;
        const ENCRYPTED: u8 = 0x08;
        let Some(&[_, _, tci, ..]) = data.first_chunk::<8>() else { return Self::NONE };
        let sci = if tci & SCI_PRESENT != 0 { 8 } else { 0 };
        Self { len: 8 + sci, encrypted: tci & ENCRYPTED != 0 }
    }
}

impl RxSa {
    /// The whole number of a frame. Number 0 does not exist.
    #[inline(always)]
    fn number(&self, low: u32) -> Option<u64> {
        match (self.xpn, low) {
            (true, _) => recover(self.window.next(), low),
            (false, 0) => None,
            (false, _) => Some(low.into()),
        }
    }

    /// Drop reason of a frame that an engine did not find authentic, unless it can be read
    /// and passes all the same.
    #[cold]
    fn refuse(&mut self, verdict: Verdict, tag: Tag, validate: Validate) -> Result<(), Aside> {
        let reason = match verdict {
            Verdict::BadIcv if validate != Validate::Strict && !tag.encrypted => {
                self.counts.in_invalid += 1;
                return Ok(());
            }
            Verdict::BadIcv => {
                self.counts.in_not_valid += 1;
                DropReason::MacsecBadIcv
            }
            Verdict::Pending => DropReason::EngineFull,
            Verdict::Gone => DropReason::KeystreamGone,
            Verdict::Done | Verdict::Failed => DropReason::EngineFailed,
        };
        Err(reason.into())
    }

    /// An authentic frame: the window decides, and moves.
    #[inline(always)]
    fn admit(&mut self, job: &Job<()>, at: usize, tag: Tag) -> Result<(), DropReason> {
        let authentic = Authentic::proof(job).ok_or(DropReason::EngineFailed)?;
        let late = self.window.is_late(job.number);
        if !self.window.commit(Candidate::of(job), authentic) {
            self.counts.in_late += 1;
            return Err(DropReason::MacsecReplay);
        }
        let user = job.text.end().saturating_sub(at + tag.len) as u64;
        match tag.encrypted {
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

/// A SecY, as frames that its port received need it.
struct Decoder<'a> {
    channels: &'a Channels,
    sas: &'a mut [Option<RxSa>],
    stats: &'a mut Stats,
    config: &'a SecyConfig,
    clear_tags: u8,
    eapol_filter: &'a mut EapolFilter,
    other_eapol: &'a mut OtherEapol,
    now: Instant,
}

impl<'a> Decoder<'a> {
    /// The SecY of a port.
    #[inline(always)]
    fn of(
        receive: &'a mut Receive,
        tables: &Tables,
        now: Instant,
        port: PortId,
    ) -> Result<Self, DropReason> {
        let port = tables.ports.get(usize::from(port.0)).ok_or(DropReason::NotAttached)?;
        let index = port.secy.map_or(usize::MAX, usize::from);
        let secy = receive.secys.get_mut(index).ok_or(DropReason::MacsecUntagged)?;
        let config = secy.config.as_ref().ok_or(DropReason::MacsecUntagged)?;
        Ok(Self {
            channels: &secy.channels,
            sas: &mut receive.sas,
            stats: &mut secy.stats,
            config,
            clear_tags: config.clear_tags,
            eapol_filter: &mut secy.eapol_filter,
            other_eapol: &mut receive.other_eapol,
            now,
        })
    }

    /// From a frame as received to a job:
    ///
    /// 1. A frame without a SecTAG ends here, or is of the uncontrolled port.
    /// 2. The SecTAG; padding of the MAC behind the ICV is cut off.
    /// 3. The receive channel and the association.
    /// 4. The packet number; late and repeated ones are dropped.
    /// 5. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Result<(), Aside> {
        match front(packet.data(), self.clear_tags) {
            MACS => self.prepare_at(MACS, packet, job),
            at => self.prepare_behind_tags(at, packet, job),
        }
    }

    /// `prepare` for frames with VLAN tags in clear.
    #[inline(never)]
    fn prepare_behind_tags(
        &mut self,
        at: usize,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Aside> {
        self.prepare_at(at, packet, job)
    }

    #[inline(always)]
    fn prepare_at(
        &mut self,
        at: usize,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<(), Aside> {
        // 1
        let ethertype = ethertype(packet.data(), at);
        if ethertype != Some(EtherType::MACSEC) {
            return Err(self.untagged(ethertype, packet.data()));
        }
        // 2
        let Some(Tagged { header, tag_len, user }) = read(packet.data(), at) else {
            self.stats.in_bad_tag += 1;
            return Err(DropReason::MacsecBadTag.into());
        };
        let end = at + tag_len + user + ICV_LEN;
        if end < packet.len() {
            packet.truncate(end);
        }
        // 3
        let place = self.find(packet.data(), at, header);
        let Some(Some(sa)) = self.sas.get_mut(place as usize) else {
            return Err(self.without_sa(packet, at, Tagged { header, tag_len, user }));
        };
        if self.config.validate == Validate::Disabled && !header.is_encrypted() {
            sa.counts.in_unchecked += 1;
            remove_tag(packet, at, tag_len, at + tag_len + user);
            return Err(Aside::To(Next::Attach));
        }
        // 4
        let Some(pn) = sa.number(header.pn.get()) else {
            self.stats.in_bad_tag += 1;
            return Err(DropReason::MacsecBadTag.into());
        };
        let Some(candidate) = sa.window.check(pn) else {
            sa.counts.in_late += 1;
            return Err(DropReason::MacsecReplay.into());
        };
        let encrypted = header.is_encrypted();
        // 5
        sa.under_way += 1;
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        let clear = if encrypted { user.min(sa.offset.into()) } else { user };
        let text = at + tag_len + clear;
        *job = Job {
            buf: (),
            key: sa.key,
            ticket: place.into(),
            number: candidate.number(),
            nonce: sa.nonces.nonce(pn),
            op: Op::Open,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(at - MACS, text - (at - MACS))),
            text: Span::new(text, user - clear),
        };
        Ok(())
    }

    /// The place of a frame's association: by the SCI that tag or source address tell,
    /// or else of the only channel there is.
    #[inline(always)]
    fn find(&self, data: &[u8], at: usize, header: Header) -> u32 {
        let places = match sci(data, at, header) {
            Some(sci) => self.channels.places(sci),
            None => self.channels.only().map_or(NOWHERE, |channel| &channel.sas),
        };
        places[usize::from(header.an())]
    }

    /// Fate of a frame without a SecTAG.
    #[cold]
    fn untagged(&mut self, ethertype: Option<EtherType>, data: &[u8]) -> Aside {
        match ethertype {
            Some(_) if ethertype == self.config.eapol => {
                let Self { now, config, .. } = *self;
                let admitted = self.eapol_filter.admit(now, config.sci, data, self.other_eapol);
                return admitted.map_or_else(Aside::from, |()| Aside::To(Next::Eapol));
            }
            Some(of) if self.config.uncontrolled.contains(&of) => {}
            _ if self.config.validate == Validate::Strict => {
                self.stats.in_no_tag += 1;
                return DropReason::MacsecUntagged.into();
            }
            _ => self.stats.in_untagged += 1,
        }
        Aside::To(Next::Attach)
    }

    /// Fate of a frame without an association.
    #[cold]
    fn without_sa(&mut self, packet: &mut Packet, at: usize, tagged: Tagged) -> Aside {
        let Tagged { header, tag_len, user } = tagged;
        if self.config.validate != Validate::Strict && !header.is_encrypted() {
            self.stats.in_no_sa += 1;
            remove_tag(packet, at, tag_len, at + tag_len + user);
            return Aside::To(Next::Attach);
        }
        self.stats.in_no_sa_error += 1;
        let channel = match sci(packet.data(), at, header) {
            Some(sci) => self.channels.find(sci),
            None => self.channels.only(),
        };
        match channel {
            Some(_) => DropReason::MacsecUnusedSa.into(),
            None => DropReason::MacsecUnknownSci.into(),
        }
    }
}

/// The SCI that a frame tells: in its SecTAG, or by flags and source address.
#[inline(always)]
fn sci(data: &[u8], at: usize, header: Header) -> Option<u64> {
    if header.has_sci() {
        let octets = data.get(at + 2 + Header::LEN..)?.first_chunk()?;
        return Some(u64::from_be_bytes(*octets));
    }
    let source = data.get(6..)?.first_chunk()?;
    header.implied_sci(MacAddr(*source)).map(|sci| sci.0)
}

/// Reads the SecTAG at `at`. Nothing if it breaks a rule, if it announces a
/// change of the data that no cipher of clause 14 makes, or if there is less
/// user data than an EtherType.
#[inline(always)]
fn read(data: &[u8], at: usize) -> Option<Tagged> {
    let (&header, _) = Header::ref_from_prefix(data.get(at + 2..)?).ok()?;
    let tag_len = 2 + header.tag_len();
    let user = header.secured_len(data.len().checked_sub(at + tag_len)?)?;
    (header.is_legal() && user >= 2).then_some(Tagged { header, tag_len, user })
}

/// Takes the SecTAG off, by moving the octets in front of it, and cuts the frame at `end`.
#[inline(always)]
fn remove_tag(packet: &mut Packet, at: usize, tag_len: usize, end: usize) {
    if at == MACS {
        copy_macs(packet.data_mut(), 0, tag_len);
    } else {
        move_front(packet.data_mut(), at, tag_len);
    }
    packet.keep(tag_len, end);
}

/// Moves addresses and clear VLAN tags.
#[inline(never)]
fn move_front(data: &mut [u8], at: usize, tag_len: usize) {
    if let Some(front) = data.get_mut(..at + tag_len) {
        front.copy_within(..at, tag_len);
    }
}
