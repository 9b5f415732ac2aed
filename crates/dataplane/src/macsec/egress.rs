//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::config::{Cipher, pn_max};
use super::state::{MACS, ad_start, copy_macs, front, is_of, macs_first, tags_first};
use super::stats::Stats;
use super::transmit::{SecyOut, TxSa, TxSecy, tci};
use crate::graph::{Aside, Ctx, Next};
use crate::protection::tickets::{Lane, Submitter};
use crate::protection::{Protection, prepare_of_port, take_out};
use crate::tables::Tables;
use ferrule_base::{DropReason, PortId};
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{ICV_LEN, Repr};

impl SecyOut {
    /// Protects a batch of clear frames.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        self.in_flight.run(&mut self.secys, ctx, engine, batch);
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        self.in_flight.finish(&mut self.secys, ctx, jobs);
    }
}

/// SecYs keep the order of all their associations. The slot of a job is SecY and
/// association number.
impl Protection for Vec<TxSecy> {
    const SUBMITTER: Submitter = Submitter::SecyOut;

    /// The port's SecY, and its association that encodes, are found once for all frames of a
    /// port that follow one another: then [`Encoder::prepare`] for each.
    #[inline(always)]
    fn prepare_all(&mut self, ctx: &mut Ctx<'_>, batch: &mut Batch, jobs: &mut [Job<()>; BATCH]) {
        let mut done = 0;
        while let Some(port) = batch.get(done).map(|packet| packet.meta().port) {
            let mut encoder = match Encoder::of(self, ctx.tables, port) {
                Ok(encoder) => encoder,
                Err(aside) => {
                    take_out(ctx, batch, done, aside);
                    continue;
                }
            };
            let (first, mut octets) = (done, 0);
            let refused = prepare_of_port(batch, jobs, &mut done, port, |packet, job| {
                octets += encoder.prepare(packet, job)?;
                Ok(())
            });
            encoder.count(done - first, octets);
            if let Some(aside) = refused {
                take_out(ctx, batch, done, aside);
            }
        }
    }

    /// Sealed frames without clear tags are ready for their port.
    #[inline(always)]
    fn all_finished(&mut self, jobs: &[Job<()>]) -> Option<Next> {
        let is_ready = |job: &Job<()>| job.verdict == Verdict::Done && ad_start(job) == 0;
        jobs.iter().all(is_ready).then_some(Next::Transmit)
    }

    /// Clear tags go back behind the addresses, and the frame to its port.
    #[inline(always)]
    fn finish(
        &mut self,
        _: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        let reason = match job.verdict {
            Verdict::Done => {
                let tags = ad_start(job);
                if tags != 0 {
                    macs_first(packet.data_mut(), MACS + tags);
                }
                return Ok(Next::Transmit);
            }
            Verdict::Pending => DropReason::EngineFull,
            _ => DropReason::EngineFailed,
        };
        uncount(self, job);
        Err(reason.into())
    }

    fn queue(&mut self, slot: u32) -> Option<&mut Lane> {
        self.get_mut(slot as usize >> 8).map(|secy| &mut secy.lane)
    }

    fn returned(&mut self, _: u32) {}
}

/// State and parameters that the frames of one SecY have in common.
struct Encoder<'a> {
    sa: &'a mut TxSa,
    counts: &'a mut Stats,
    out_too_long: &'a mut u64,
    ticket: u64,
    /// The longest frame that the port carries.
    frame_max: usize,
    uncontrolled: &'a [EtherType],
    clear_tags: u8,
    tci_an: u8,
    tag_len: usize,
    sci: u64,
    pn_max: u64,
    encrypt: bool,
    /// Octets of user data that stay readable at most.
    clear: usize,
}

impl<'a> Encoder<'a> {
    /// The SecY of a port and its association that encodes; or where a frame goes without.
    #[inline(always)]
    fn of(secys: &'a mut [TxSecy], tables: &Tables, port: PortId) -> Result<Self, Aside> {
        let none = DropReason::MacsecNoTxSa;
        let port = tables.ports.get(usize::from(port.0)).ok_or(none)?;
        let index = port.secy.ok_or(none)?;
        let secy = secys.get_mut(usize::from(index)).ok_or(none)?;
        if secy.config.as_ref().is_some_and(|config| !config.protect) {
            secy.stats.out_untagged += 1;
            return Err(Aside::To(Next::Transmit));
        }
        Self::of_secy(secy, index, port.frame_max.into()).ok_or_else(|| none.into())
    }

    #[inline(always)]
    fn of_secy(secy: &'a mut TxSecy, index: u16, frame_max: usize) -> Option<Self> {
        let an = secy.encoding;
        let config = secy.config.as_ref()?;
        let sa = secy.sas.get_mut(usize::from(an))?.as_mut()?;
        let Cipher { xpn, encrypt, offset, .. } = sa.cipher.unwrap_or(config.cipher());
        Some(Self {
            sa,
            counts: secy.counts.get_mut(usize::from(an))?,
            out_too_long: &mut secy.stats.out_too_long,
            ticket: u64::from(index) << 8 | u64::from(an),
            frame_max,
            uncontrolled: &config.uncontrolled,
            clear_tags: config.clear_tags,
            tci_an: tci(config, encrypt) | an,
            tag_len: config.tag_len(),
            sci: config.sci,
            pn_max: pn_max(xpn),
            encrypt,
            clear: if encrypt { offset.into() } else { usize::MAX },
        })
    }

    /// From a clear frame to a job; how much user data it has:
    ///
    /// 1. Where the SecTAG goes, whether frame, SecTAG and ICV fit; room for both. Protocols
    ///    of the uncontrolled port leave as they are.
    /// 2. A packet number: from here on it is used up.
    /// 3. The SecTAG behind the addresses, with a short length if the user data has fewer
    ///    than 48 octets.
    /// 4. Clear VLAN tags go in front, where the ICV does not cover them.
    /// 5. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(&mut self, packet: &mut Packet, job: &mut Job<()>) -> Result<usize, Aside> {
        // 1
        let tag_len = self.tag_len;
        let at = front(packet.data(), self.clear_tags);
        let len = packet.len();
        if !self.uncontrolled.is_empty() && is_of(packet.data(), at, self.uncontrolled) {
            return Err(Aside::To(Next::Transmit));
        }
        let user = len.checked_sub(at).filter(|&n| n >= 2).ok_or(DropReason::Malformed)?;
        if len + tag_len + ICV_LEN > self.frame_max {
            *self.out_too_long += 1;
            return Err(DropReason::TooBig.into());
        }
        let place = make_gap(packet, at, tag_len).ok_or(DropReason::NoRoom)?;
        // 2
        let pn = self.sa.pn.take().filter(|&pn| pn <= self.pn_max);
        let pn = pn.ok_or(DropReason::MacsecPnExhausted)?;
        // 3
        put_tag(place, self.tci_an, user, pn, self.sci).ok_or(DropReason::NoRoom)?;
        // 4
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        // 5
        let clear = user.min(self.clear);
        let text = at + tag_len + clear;
        *job = Job {
            buf: (),
            key: self.sa.key,
            ticket: self.ticket,
            number: pn,
            nonce: self.sa.nonces.nonce(pn),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(at - MACS, text - (at - MACS))),
            text: Span::new(text, user - clear),
        };
        Ok(user)
    }

    /// Counts frames, and octets of their user data.
    #[inline(always)]
    fn count(self, frames: usize, octets: usize) {
        let (packets, sum) = counters(self.counts, self.encrypt);
        *packets += frames as u64;
        *sum += octets as u64;
    }
}

/// Takes a frame that an engine did not seal out of the counts. The contents of its buffer
/// cannot be trusted: an engine may have failed in the middle of it, or keep it while
/// another stands in. The job itself names its SA.
#[cold]
fn uncount(secys: &mut [TxSecy], job: &Job<()>) -> Option<()> {
    let (index, an) = ((job.ticket as u32 >> 8) as usize, job.ticket as usize & 0xff);
    let secy = secys.get_mut(index)?;
    let sa = secy.sas.get(an)?.as_ref().filter(|sa| sa.key == job.key)?;
    let config = secy.config.as_ref()?;
    let encrypt = sa.cipher.unwrap_or(config.cipher()).encrypt;
    let user = job.text.end().checked_sub(ad_start(job) + MACS + config.tag_len())?;
    let (packets, octets) = counters(secy.counts.get_mut(an)?, encrypt);
    *packets = packets.saturating_sub(1);
    *octets = octets.saturating_sub(user as u64);
    Some(())
}

/// Frames and octets of user data that an association protected.
#[inline(always)]
const fn counters(counts: &mut Stats, encrypted: bool) -> (&mut u64, &mut u64) {
    match encrypted {
        true => (&mut counts.out_encrypted, &mut counts.out_octets_encrypted),
        false => (&mut counts.out_protected, &mut counts.out_octets_protected),
    }
}

/// Writes a SecTAG in two words: EtherType and the three fields of
/// [`Header`](ferrule_wire::sectag::Header), then the SCI, if there is a place for it.
#[inline(always)]
fn put_tag(place: &mut [u8], tci_an: u8, user: usize, pn: u64, sci: u64) -> Option<()> {
    let fields = u64::from(tci_an) << 40 | u64::from(Repr::short_len(user)) << 32;
    let head = u64::from(EtherType::MACSEC.0) << 48 | fields | pn & 0xffff_ffff;
    *place.first_chunk_mut()? = head.to_be_bytes();
    if let Some(place) = place.get_mut(8..16) {
        place.copy_from_slice(&sci.to_be_bytes());
    }
    Some(())
}

/// Moves the octets in front of `at` forward by `gap` octets, and makes room for the ICV
/// behind: the place of the gap.
#[inline(always)]
fn make_gap(packet: &mut Packet, at: usize, gap: usize) -> Option<&mut [u8]> {
    let data = packet.grow(gap, ICV_LEN)?;
    if at == MACS {
        copy_macs(data, gap, 0)?;
    } else {
        data.get_mut(..gap + at)?.copy_within(gap.., 0);
    }
    data.get_mut(at..at + gap)
}
